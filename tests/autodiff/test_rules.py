"""Rules by family: HLO in, both modes beside central differences, and the second order.

Covers `linear.py`, `residuals.py`, `shift_invariance.py`, `rules/combiners.py`, `rules/contraction.py`,
`rules/convolution.py`, `rules/data_movement.py`, `rules/elementwise.py`, `rules/indexing.py`, `rules/linalg.py`,
`rules/reduction.py`, `rules/sort.py`, `rules/windows.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom

from .check import assert_derivatives, entry, module, run

UNARY = "abs asinh atanh cbrt cosh cosine erf exponential exponential-minus-one logistic negate sine sinh tan tanh asin acos"


@pytest.mark.parametrize("opcode", UNARY.split())
def test_functions_of_one_number(opcode):
    assert_derivatives(entry(f"x = f64[3] parameter(0) ROOT r = f64[3] {opcode}(x)"), low=0.2, high=0.8)


@pytest.mark.parametrize("opcode", ["log", "log-plus-one", "sqrt", "rsqrt", "acosh"])
def test_functions_of_one_positive_number(opcode):
    assert_derivatives(entry(f"x = f64[3] parameter(0) ROOT r = f64[3] {opcode}(x)"), low=1.2, high=1.8)


@pytest.mark.parametrize(
    "opcode", ["add", "subtract", "multiply", "divide", "power", "atan2", "maximum", "minimum", "remainder"]
)
def test_functions_of_two_numbers(opcode):
    assert_derivatives(
        entry(f"x = f64[3] parameter(0) y = f64[3] parameter(1) ROOT r = f64[3] {opcode}(x, y)"), low=0.4, high=1.9
    )


def test_ties_are_shared_evenly():
    equal_operands = entry("x = f64[] parameter(0) y = f64[] parameter(1) ROOT r = f64[] maximum(x, y)")
    assert run(hloom.grad(equal_operands), [np.array(1.0), np.array(1.0)]) == (0.5, 0.5)


def test_the_branch_not_taken_gives_no_nan():
    safe = entry(
        "x = f64[] parameter(0) z = f64[] constant(0) p = pred[] compare(x, z), direction=GT "
        "l = f64[] log(x) ROOT r = f64[] select(p, l, z)"
    )
    assert run(hloom.grad(safe), [np.array(0.0)])[0] != np.inf


def test_clamp():
    clamp = entry(
        "x = f64[5] parameter(0) a = f64[] parameter(1) b = f64[] parameter(2) ROOT r = f64[5] clamp(a, x, b)"
    )
    assert_derivatives(clamp, [np.array([-1.0, -0.2, 0.1, 0.4, 2.0]), np.array(-0.5), np.array(0.5)])


SHAPES = {
    "broadcast": "x = f64[2,3] parameter(0) ROOT r = f64[3,4,2] broadcast(x), dimensions={2,0}",
    "concatenate": "x = f64[2,3] parameter(0) y = f64[2,1] parameter(1) "
    "ROOT r = f64[2,7] concatenate(x, y, x), dimensions={1}",
    "pad": "x = f64[3,4] parameter(0) v = f64[] parameter(1) ROOT r = f64[7,3] pad(x, v), padding=1_1_1x-1_0",
    "reshape": "x = f64[2,3] parameter(0) ROOT r = f64[3,2] reshape(x)",
    "reverse": "x = f64[2,3] parameter(0) ROOT r = f64[2,3] reverse(x), dimensions={1}",
    "slice": "x = f64[6,3] parameter(0) a = f64[2,3] slice(x), slice={[1:5:2],[0:3]} "
    "b = f64[2,3] slice(x), slice={[2:4],[0:3]} ROOT r = f64[2,3] multiply(a, b)",
    "transpose": "x = f64[2,3,4] parameter(0) ROOT r = f64[4,2,3] transpose(x), dimensions={2,0,1}",
    "select": "p = pred[3] parameter(0) x = f64[3] parameter(1) y = f64[3] parameter(2) "
    "s = f64[3] sine(x) ROOT r = f64[3] select(p, s, y)",
    "dynamic-slice": "x = f64[5,4] parameter(0) i = s32[] parameter(1) s = f64[5,4] sine(x) "
    "a = f64[2,4] dynamic-slice(s, i, i), dynamic_slice_sizes={2,4} "
    "b = f64[2,4] dynamic-slice(s, i, i), dynamic_slice_sizes={2,4} ROOT r = f64[2,4] multiply(a, b)",
    "dynamic-update-slice": "x = f64[5,4] parameter(0) u = f64[2,1] parameter(1) i = s32[] parameter(2) "
    "s = f64[5,4] sine(x) v = f64[2,1] cosine(u) ROOT r = f64[5,4] dynamic-update-slice(s, v, i, i)",
    "gather": "x = f64[5,4] parameter(0) i = s32[3,1] parameter(1) s = f64[5,4] sine(x) ROOT r = f64[3,2,4] gather(s, i), "
    "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={2,4}",
    "dot": "x = f64[2,3,4] parameter(0) y = f64[4,2,5] parameter(1) a = f64[2,3,4] sine(x) ROOT r = f64[2,3,5] dot(a, y), "
    "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
    "dot of several dimensions": "x = f64[3,4,5] parameter(0) y = f64[5,2,3] parameter(1) "
    "ROOT r = f64[4,2] dot(x, y), lhs_contracting_dims={0,2}, rhs_contracting_dims={2,0}",
    "topk": "x = f64[2,5] parameter(0) s = f64[2,5] sine(x) t = (f64[2,3], s32[2,3]) topk(s), k=3, largest=true "
    "ROOT r = f64[2,3] get-tuple-element(t), index=0",
}


@pytest.mark.parametrize("name", SHAPES)
def test_moving_and_contracting(name):
    assert_derivatives(entry(SHAPES[name]), low=0.1, high=1.0)


REDUCTIONS = {
    "add": "x = f64[3,4] parameter(0) i = f64[] parameter(1) s = f64[3,4] sine(x) "
    "ROOT r = f64[3] reduce(s, i), dimensions={1}, to_apply=add_f64",
    "maximum": "x = f64[3,4] parameter(0) i = f64[] constant(-inf) s = f64[3,4] sine(x) "
    "ROOT r = f64[4] reduce(s, i), dimensions={0}, to_apply=maximum_f64",
    "multiply": "x = f64[3,5] parameter(0) i = f64[] parameter(1) "
    "ROOT r = f64[3] reduce(x, i), dimensions={1}, to_apply=multiply_f64",
    "window add": "x = f64[6,5] parameter(0) i = f64[] constant(0) s = f64[6,5] sine(x) ROOT r = f64[3,3] reduce-window(s, i), "
    "window={size=3x2 stride=2x2 pad=1_0x0_1 rhs_dilate=1x1}, to_apply=add_f64",
    "window add with dilations": "x = f64[6] parameter(0) i = f64[] constant(0) "
    "ROOT r = f64[4] reduce-window(x, i), window={size=3 stride=2 pad=1_1 lhs_dilate=2 rhs_dilate=3}, to_apply=add_f64",
    "window maximum": "x = f64[6,5] parameter(0) i = f64[] constant(-inf) s = f64[6,5] sine(x) "
    "ROOT r = f64[3,2] reduce-window(s, i), window={size=3x2 stride=2x2 pad=1_0x0_0}, to_apply=maximum_f64",
    "window multiply": "x = f64[6] parameter(0) i = f64[] constant(1) "
    "ROOT r = f64[4] reduce-window(x, i), window={size=3}, to_apply=multiply_f64",
    "maximum that may be the initial value": "x = f64[4,2] parameter(0) i = f64[] constant(0.9) "
    "ROOT r = f64[4] reduce(x, i), dimensions={1}, to_apply=maximum_f64",
    "window minimum that may be the initial value": "x = f64[8] parameter(0) i = f64[] constant(0.7) "
    "ROOT r = f64[4] reduce-window(x, i), window={size=2 stride=2}, to_apply=minimum_f64",
    "cumulative maximum that may be the initial value": "x = f64[8] parameter(0) i = f64[] constant(1.1) "
    "ROOT r = f64[8] reduce-window(x, i), window={size=8 pad=7_0}, to_apply=maximum_f64",
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    assert_derivatives(entry(REDUCTIONS[name]), low=0.2, high=1.4)


def test_reduce_of_several_operands_with_any_combiner():
    """The greatest value and its index."""
    assert_derivatives(
        module("""
        arg { a = f64[] parameter(0) i = s32[] parameter(1) b = f64[] parameter(2) j = s32[] parameter(3)
          p = pred[] compare(a, b), direction=GE v = f64[] select(p, a, b) k = s32[] select(p, i, j)
          ROOT t = (f64[], s32[]) tuple(v, k) }
        ENTRY e { x = f64[3,5] parameter(0) n = s32[3,5] iota(), iota_dimension=1 s = f64[3,5] sine(x)
          i = f64[] constant(-inf) z = s32[] constant(0)
          ROOT r = (f64[3], s32[3]) reduce(s, n, i, z), dimensions={1}, to_apply=arg }
        """)
    )


def test_window_that_selects_of_several_operands_from_an_initial_value():
    """Where no element is greater than the initial value, that of the other operand is taken."""
    assert_derivatives(
        module("""
        pick { a = f64[] parameter(0) x = f64[] parameter(1) b = f64[] parameter(2) y = f64[] parameter(3)
          p = pred[] compare(a, b), direction=GE v = f64[] select(p, a, b) w = f64[] select(p, x, y)
          ROOT t = (f64[], f64[]) tuple(v, w) }
        ENTRY e { x = f64[8] parameter(0) w = f64[8] parameter(1) i = f64[] constant(0.3) z = f64[] constant(2)
          r = (f64[4], f64[4]) reduce-window(x, w, i, z), window={size=2 stride=2}, to_apply=pick
          ROOT o = f64[4] get-tuple-element(r), index=1 }
        """),
        [np.array([0.1, 0.2, 0.9, 0.5, -0.3, 0.0, 0.4, 0.2]), np.arange(8.0)],
    )


SCATTER = (
    "x = f64[4,3] parameter(0) i = s32[3,1] parameter(1) u = f64[3,3] parameter(2) a = f64[4,3] sine(x) "
    "b = f64[3,3] cosine(u) ROOT r = f64[4,3] scatter(a, i, b), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%s"
)


@pytest.mark.parametrize("combiner", ["add_f64", "maximum_f64", "multiply_f64", "less", "second"])
@pytest.mark.parametrize("indices", [[0, 2, 3], [1, 1, 1], [-1, 2, 9]])
def test_scatters(combiner, indices):
    scalars = "a = f64[] parameter(0)", "b = f64[] parameter(1)"
    text = f"second {{ {scalars[0]} ROOT {scalars[1]} }}\n"
    text += f"less {{ {' '.join(scalars)} ROOT c = f64[] subtract(a, b) }}\nENTRY e {{ {SCATTER % combiner} }}"
    rng = np.random.default_rng(1)
    index = np.array(indices, np.int32).reshape(3, 1)
    assert_derivatives(module(text), [rng.uniform(0.2, 1, (4, 3)), index, rng.uniform(0.2, 1, (3, 3))])


def test_what_is_sliced_of_a_sort_is_taken_alone():
    """The gradient of the two least of six scatters two elements."""
    program = module("""
    less { a = f64[] parameter(0) b = f64[] parameter(1) ROOT p = pred[] compare(a, b), direction=LT }
    ENTRY e { x = f64[3,6] parameter(0) s = f64[3,6] sort(x), dimensions={1}, to_apply=less
      ROOT r = f64[3,2] slice(s), slice={[0:3], [0:2]} }""")
    assert_derivatives(program)
    (scatter,) = (node for node in hloom.vjp(program).entry.nodes if node.opcode == "scatter")
    assert str(scatter.operands[2].type) == "f64[3,2]"


def test_sort_of_several_operands():
    assert_derivatives(
        module("""
        less { a = f64[] parameter(0) b = f64[] parameter(1) c = f64[] parameter(2) d = f64[] parameter(3)
          ROOT p = pred[] compare(a, b), direction=LT }
        ENTRY e { x = f64[3,5] parameter(0) y = f64[3,5] parameter(1) s = f64[3,5] sine(x)
          t = (f64[3,5], f64[3,5]) sort(s, y), dimensions={1}, to_apply=less
          a = f64[3,5] get-tuple-element(t), index=0 b = f64[3,5] get-tuple-element(t), index=1
          ROOT r = f64[3,5] multiply(a, b) }
        """)
    )


CONVOLUTIONS = {
    "plain": ("f64[2,6,3]", "f64[3,3,4]", "b0f_0io->b0f", "window={size=3}", "f64[2,4,4]"),
    "padded and strided": (
        "f64[2,7,3]",
        "f64[3,3,4]",
        "b0f_0io->b0f",
        "window={size=3 stride=2 pad=2_1}",
        "f64[2,4,4]",
    ),
    "dilated": (
        "f64[2,5,2]",
        "f64[2,2,3]",
        "b0f_0io->bf0",
        "window={size=2 stride=2 pad=1_2 lhs_dilate=2 rhs_dilate=3}",
        "f64[2,3,5]",
    ),
    "reversed": (
        "f64[2,6,5,2]",
        "f64[2,3,2,3]",
        "b01f_01io->b01f",
        "window={size=2x3 rhs_reversal=1x0}",
        "f64[2,5,3,3]",
    ),
    "feature groups": (
        "f64[2,6,4]",
        "f64[3,2,6]",
        "b0f_0io->b0f",
        "window={size=3}, feature_group_count=2",
        "f64[2,4,6]",
    ),
    "batch groups": (
        "f64[4,6,3]",
        "f64[3,3,6]",
        "b0f_0io->b0f",
        "window={size=3}, batch_group_count=2",
        "f64[2,4,6]",
    ),
    "no spatial dimensions": ("f64[2,3]", "f64[3,4]", "bf_io->bf", "", "f64[2,4]"),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    image, kernel, labels, window, result = CONVOLUTIONS[name]
    window = f"{window}, " if window else ""
    assert_derivatives(
        entry(
            f"x = {image} parameter(0) k = {kernel} parameter(1) s = {image} sine(x) "
            f"ROOT r = {result} convolution(s, k), {window}dim_labels={labels}"
        )
    )


@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("value_type", ["f64", "c128"])
def test_cholesky(lower, value_type):
    adjoint = "t" if value_type == "f64" else "h"
    conjugate = ""
    if value_type == "c128":
        conjugate = (
            "re = f64[2,3,3] real(t) im = f64[2,3,3] imag(t) ni = f64[2,3,3] negate(im) h = c128[2,3,3] complex(re, ni)"
        )
    assert_derivatives(
        entry(f"""x = {value_type}[2,3,3] parameter(0) t = {value_type}[2,3,3] transpose(x), dimensions={{0,2,1}} {conjugate}
          p = {value_type}[2,3,3] dot(x, {adjoint}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
          o = {value_type}[] constant({"1" if value_type == "f64" else "(1,0)"}) w = {value_type}[3,3] broadcast(o), dimensions={{}}
          i = s32[3,3] iota(), iota_dimension=0 j = s32[3,3] iota(), iota_dimension=1
          q = pred[3,3] compare(i, j), direction=EQ q2 = pred[2,3,3] broadcast(q), dimensions={{1,2}}
          u = {value_type}[2,3,3] broadcast(o), dimensions={{}} z = {value_type}[2,3,3] subtract(u, u) d = {value_type}[2,3,3] select(q2, u, z)
          a = {value_type}[2,3,3] add(p, d) c = {value_type}[2,3,3] cholesky(a), lower={lower}
          k = pred[3,3] compare(i, j), direction={"GE" if lower == "true" else "LE"}
          k2 = pred[2,3,3] broadcast(k), dimensions={{1,2}} ROOT r = {value_type}[2,3,3] select(k2, c, z)"""),
        tolerance=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("side", ["left_side=true", "left_side=false"])
@pytest.mark.parametrize("form", ["lower=true", "lower=false, unit_diagonal=true"])
def test_triangular_solve(transpose, side, form):
    solve = entry(f"a = c128[3,3] parameter(0) b = c128[3,3] parameter(1) "
                  f"ROOT r = c128[3,3] triangular-solve(a, b), {side}, {form}, transpose_a={transpose}")  # fmt: skip
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((3, 3)) + 1j * rng.standard_normal((3, 3)) + 3 * np.eye(3)
    assert_derivatives(solve, [matrix, rng.standard_normal((3, 3)) + 0j], orders=1)


@pytest.mark.parametrize(
    ("form", "operand", "result", "length"),
    [
        ("FFT", "c128[2,5]", "c128[2,5]", "5"),
        ("IFFT", "c128[2,5]", "c128[2,5]", "5"),
        ("RFFT", "f64[3,6]", "c128[3,4]", "6"),
        ("RFFT", "f64[3,5]", "c128[3,3]", "3,5"),
        ("IRFFT", "c128[3,4]", "f64[3,6]", "6"),
        ("IRFFT", "c128[3,3]", "f64[3,5]", "5"),
    ],
)
def test_fourier_transforms(form, operand, result, length):
    value_type = operand[: operand.index("[")]
    square = f"s = {operand} multiply(x, x)" if value_type == "f64" else f"s = {operand} sine(x)"
    assert_derivatives(
        entry(f"x = {operand} parameter(0) {square} ROOT r = {result} fft(s), fft_type={form}, fft_length={{{length}}}")
    )


@pytest.mark.parametrize("opcode", ["sine", "exponential", "tanh", "multiply", "abs", "sign"])
def test_complex_numbers(opcode):
    """d f(z) = f'(z) dz for analytic functions; abs and sign by their real parts. Cotangents are not conjugated."""
    second = ", x" if opcode == "multiply" else ""
    value_type = "f64" if opcode == "abs" else "c128"
    assert_derivatives(entry(f"x = c128[3] parameter(0) ROOT r = {value_type}[3] {opcode}(x{second})"))


def test_parts_of_complex_numbers():
    assert_derivatives(entry("x = c128[3] parameter(0) s = c128[3] sine(x) a = f64[3] real(s) b = f64[3] imag(s) "
                             "m = f64[3] multiply(a, b) ROOT r = c128[3] complex(m, a)"))  # fmt: skip


@pytest.mark.parametrize(
    "instruction",
    [
        *("f64[2,3] negate(s)", "f64[1,3] slice(s), slice={[0:1],[0:3]}", "f64[2,3] reverse(s), dimensions={0}"),
        *("f64[3,2] transpose(s), dimensions={1,0}", "f64[6] reshape(s)", "f64[4,2,3] broadcast(s), dimensions={1,2}"),
        *("f64[2,2] dot(s, s), lhs_contracting_dims={1}, rhs_contracting_dims={1}", "f64[2,3] multiply(s, s)"),
        *("f64[4,3] concatenate(s, s), dimensions={0}", "f64[4,3] pad(s, z), padding=1_1x0_0", "f32[2,3] convert(s)"),
        *("f64[2] reduce(s, z), dimensions={1}, to_apply=add_f64", "f64[2,3] sort(s), dimensions={0}, to_apply=less"),
        *("f64[2,3] call(s), to_apply=twice", "f64[2,3] map(s), dimensions={0,1}, to_apply=double"),
    ],
    ids=lambda instruction: instruction.split()[1].split("(")[0],
)  # fmt: skip
def test_what_is_computed_from_a_result_without_a_tangent_has_none(instruction: str):
    text = (
        "twice { t = f64[2,3] parameter(0) ROOT u = f64[2,3] add(t, t) } "
        "double { t = f64[] parameter(0) ROOT u = f64[] add(t, t) } "
        "less { t = f64[] parameter(0) u = f64[] parameter(1) ROOT v = pred[] compare(t, u), direction=LT } "
        f"ENTRY e {{ x = f64[2,3] parameter(0) s = f64[2,3] sign(x) z = f64[] constant(0) ROOT r = {instruction} }}"
    )
    assert_derivatives(module(text))


@pytest.mark.parametrize(
    "instruction",
    [
        *("reduce-window(s, z), to_apply=add_f64", "reduce-window(s, z), to_apply=top"),
        *("reduce-window(s, z), to_apply=second", "select-and-scatter(s, x, z), select=less, scatter=add_f64"),
        *("select-and-scatter(s, x, z), select=less, scatter=top", "collective-broadcast(s)"),
    ],
)  # fmt: skip
def test_attributes_that_may_be_left_out(instruction: str):
    program = module(
        "top { t = f64[] parameter(0) u = f64[] parameter(1) ROOT v = f64[] maximum(t, u) } "
        "second { t = f64[] parameter(0) u = f64[] parameter(1) w = f64[] sine(t) ROOT v = f64[] multiply(w, u) } "
        "less { t = f64[] parameter(0) u = f64[] parameter(1) ROOT v = pred[] compare(t, u), direction=GE } "
        f"ENTRY e {{ x = f64[] parameter(0) s = f64[] sine(x) z = f64[] constant(0) ROOT r = f64[] {instruction} }}"
    )
    for derivative in (hloom.jvp(program), hloom.vjp(program)):
        assert hloom.verify(derivative).level is hloom.Level.HLO


def test_batch_normalisation():
    assert_derivatives(entry("x = f64[4,3] parameter(0) s = f64[3] parameter(1) o = f64[3] parameter(2) "
                             "t = (f64[4,3], f64[3], f64[3]) batch-norm-training(x, s, o), epsilon=0.01, feature_index=1 "
                             "ROOT r = f64[4,3] get-tuple-element(t), index=0"), tolerance=1e-5)  # fmt: skip


def test_map():
    assert_derivatives(module("f { a = f64[] parameter(0) b = f64[] parameter(1) c = f64[] constant(2) "
                              "s = f64[] sine(a) m = f64[] multiply(s, b) ROOT r = f64[] multiply(m, c) } "
                              "ENTRY e { x = f64[2,3] parameter(0) y = f64[2,3] parameter(1) "
                              "ROOT r = f64[2,3] map(x, y), dimensions={0,1}, to_apply=f }"))  # fmt: skip


def test_random_numbers_have_no_gradient():
    drawn = entry("x = f64[] parameter(0) n = u64[2] parameter(1) "
                  "t = (u64[2], u64[4]) rng-bit-generator(n), algorithm=rng_threefry "
                  "b = u64[4] get-tuple-element(t), index=1 f = f64[4] convert(b) w = f64[4] broadcast(x), dimensions={} "
                  "m = f64[4] multiply(f, w) z = f64[] constant(0) "
                  "ROOT r = f64[] reduce(m, z), dimensions={0}, to_apply=add_f64".replace("threefry", "three_fry"))  # fmt: skip
    (result,) = run(hloom.grad(drawn), [np.array(2.0), np.array([1, 2], np.uint64)])
    assert np.isfinite(result)


SOFTMAX = """x = f64[3,4] parameter(0) l = f64[] constant(-inf) z = f64[] constant(0)
  m = f64[3] reduce(x, l), dimensions={1}, to_apply=maximum_f64 b = f64[3,4] broadcast(m), dimensions={0}
  d = f64[3,4] subtract(x, b) e = f64[3,4] exponential(d) s = f64[3] reduce(e, z), dimensions={1}, to_apply=add_f64"""


@pytest.mark.parametrize(
    "end",
    [
        "t = f64[3,4] broadcast(s), dimensions={0} ROOT r = f64[3,4] divide(e, t)",
        "g = f64[3] log(s) ROOT r = f64[3] add(g, m)",
    ],
)
def test_a_maximum_that_only_keeps_exponentials_small_is_a_constant(end):
    program = entry(f"{SOFTMAX} {end}")
    assert_derivatives(program)
    gradient, _ = hloom.opt(hloom.vjp(program), ["simplify", "cse", "dce"])
    assert not any(node.opcode == "compare" for node in gradient.entry.nodes)


@pytest.mark.parametrize("end", ["g = f64[3] log(s) ROOT r = f64[3] subtract(g, m)", "ROOT r = f64[3,4] add(e, b)"])
def test_a_maximum_that_moves_the_result_is_not(end):
    assert_derivatives(entry(f"{SOFTMAX} {end}"))


RAGGED = {
    "groups of rows": "x = f64[7,3] parameter(0) y = f64[2,3,4] parameter(1) n = s64[2] constant({3, 2}) "
    "ROOT r = f64[7,4] ragged-dot(x, y, n), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    "groups of rows, turned": "x = f64[3,7] parameter(0) y = f64[4,2,3] parameter(1) n = s64[2] constant({3, 4}) "
    "ROOT r = f64[7,4] ragged-dot(x, y, n), lhs_contracting_dims={0}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={1}",
    "groups of rows in batches": "x = f64[2,5,3] parameter(0) y = f64[3,2,3,4] parameter(1) n = s64[2,3] constant({{1, 2, 1}, {0, 3, 2}}) "
    "ROOT r = f64[2,5,4] ragged-dot(x, y, n), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, "
    "rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}",
    "groups of the sum": "x = f64[5,7] parameter(0) y = f64[7,4] parameter(1) n = s64[3] constant({3, 0, 2}) "
    "ROOT r = f64[3,5,4] ragged-dot(x, y, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}",
    "groups of the sum in batches": "x = f64[2,5,7] parameter(0) y = f64[2,4,7] parameter(1) n = s64[2,2] constant({{3, 4}, {1, 2}}) "
    "ROOT r = f64[2,2,5,4] ragged-dot(x, y, n), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
    "rhs_contracting_dims={2}, lhs_ragged_dims={2}",
    "groups of the batch": "x = f64[4,5,3] parameter(0) y = f64[4,3,2] parameter(1) n = s64[2] constant({1, 3}) "
    "ROOT r = f64[4,5,2] ragged-dot(x, y, n), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
    "rhs_contracting_dims={1}, lhs_ragged_dims={0}",
}


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_products(name):
    assert_derivatives(entry(RAGGED[name]))


def test_product_with_scales():
    assert_derivatives(entry("x = f64[4,6] parameter(0) y = f64[6,5] parameter(1) a = f64[4,3] parameter(2) b = f64[1,1] parameter(3) "
                             "ROOT r = f64[4,5] scaled-dot(x, y, a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"))  # fmt: skip


@pytest.mark.parametrize(
    ("target", "because"),
    [("xla_python_cpu_callback", "Python"), ("mine", "has no derivative")],
)
def test_custom_calls_without_a_derivative(target, because):
    program = entry(f'x = f64[3,3] parameter(0) ROOT r = f64[3,3] custom-call(x), custom_call_target="{target}"')
    with pytest.raises(hloom.HloomError, match=because) as caught:
        hloom.vjp(program)
    assert target in str(caught.value)


def test_scales_of_another_rank_are_refused():
    program = module(
        "ENTRY e { x = f8e4m3fn[2,4] parameter(0) s = f32[2] parameter(1) y = f8e4m3fn[2,4] parameter(2) "
        "t = f32[1,1] parameter(3) "
        "ROOT r = f32[2,2] scaled-dot(x, y, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={1} }"
    )
    with pytest.raises(hloom.HloomError, match="scale"):
        hloom.jvp(program)


def test_an_extreme_of_computed_elements_needs_no_equality_of_bits():
    """XLA may round elements otherwise where they are compared with their extreme: one that is near it has the slope."""
    program = entry("""
      x = f64[4] parameter(0)
      y = f64[4] multiply(x, x)
      low = f64[] constant(-inf)
      ROOT m = f64[] reduce(y, low), dimensions={0}, to_apply=maximum_f64
    """)
    assert_derivatives(program)
    gradient = hloom.grad(program)
    assert [node.attributes["direction"] for node in gradient.entry.nodes if node.opcode == "compare"] == ["GE"]
    reduced = next(node for node in gradient.entry.nodes if node.opcode == "reduce" and node.name == "m")
    exact = next(node for node in gradient.entry.nodes if node.opcode == "compare").operands[0]
    assert reduced.operands[0] is exact
    (slope,) = run(gradient, [np.array([1.0, -3.0, 3.0, 2.0])])
    np.testing.assert_allclose(slope, [0.0, -3.0, 3.0, 0.0])
