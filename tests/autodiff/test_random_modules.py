"""Random modules: forward mode agrees with central differences, and reverse mode with forward mode."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hloom.ir import Module
from tests.autodiff.check import assert_derivatives, module
from tests.helpers.properties import examples

UNARY = ("sine", "cosine", "tanh", "logistic", "negate", "exponential", "abs", "erf")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "atan2")
TYPE = "f64[2,3]"
CALLED = """
inner {{ a = f64[2,3] parameter(0) b = f64[2,3] parameter(1) c = f64[2,3] {unary}(a) ROOT d = f64[2,3] {binary}(c, b) }}
other {{ t = (f64[2,3], f64[2,3]) parameter(0) a = f64[2,3] get-tuple-element(t), index=0
  b = f64[2,3] get-tuple-element(t), index=1 ROOT d = f64[2,3] {binary}(b, a) }}
single {{ t = (f64[2,3], f64[2,3]) parameter(0) a = f64[2,3] get-tuple-element(t), index=1 ROOT c = f64[2,3] {unary}(a) }}
body {{ s = (s32[], s32[], f64[2,3], f64[2,3]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1 a = f64[2,3] get-tuple-element(s), index=2
  b = f64[2,3] get-tuple-element(s), index=3 o = s32[] constant(1) j = s32[] add(i, o)
  c = f64[2,3] call(a, b), to_apply=inner d = f64[2,3] tanh(c)
  ROOT r = (s32[], s32[], f64[2,3], f64[2,3]) tuple(j, n, d, a) }}
less {{ s = (s32[], s32[], f64[2,3], f64[2,3]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1 ROOT p = pred[] compare(i, n), direction=LT }}
greater {{ a = f64[] parameter(0) b = f64[] parameter(1) ROOT p = pred[] compare(a, b), direction=GT }}
"""


@st.composite
def random_modules(draw: st.DrawFn) -> Module:
    """A chain of instructions on arrays of one type, whose operands are any of those before."""
    names = ["x", "y"]
    lines = [f"x = {TYPE} parameter(0)", f"y = {TYPE} parameter(1)", "n = s32[] parameter(2)", "zero = s32[] constant(0)",
             "start = f64[] constant(0)"]  # fmt: skip
    for number in range(draw(st.integers(1, 8))):
        name, a, b = f"v{number}", *[draw(st.sampled_from(names)) for _ in range(2)]
        form = draw(st.sampled_from(sorted(FORMS)))
        lines += [line.format(v=name, a=a, b=b, T=TYPE, op=draw(st.sampled_from(FORMS[form] or ("",)))) for line in TEXTS[form]]
        names.append(name)
    lines.append(f"ROOT result = (f64[2,3], f64[2,3]) tuple({names[-1]}, {draw(st.sampled_from(names))})")
    called = CALLED.format(unary=draw(st.sampled_from(UNARY)), binary=draw(st.sampled_from(BINARY)))
    return module(called + "ENTRY e {\n" + "\n".join(lines) + "\n}")


FORMS: dict[str, tuple[str, ...]] = {
    "unary": UNARY, "binary": BINARY, "select": ("GT", "LE"), "call": (), "while": (), "conditional": (), "reduce": ("add", "maximum"),
    "transpose": (), "slice": (), "dot": (), "sort": ("0", "1"), "dynamic": (), "gather": (), "scatter": ("add", "multiply"),
    "window": ("add", "maximum"),
}  # fmt: skip
TEXTS = {
    "unary": ["{v} = {T} {op}({a})"],
    "binary": ["{v} = {T} {op}({a}, {b})"],
    "select": ["{v}.p = pred[2,3] compare({a}, {b}), direction={op}", "{v}.l = {T} log({a})", "{v}.c = {T} sine({b})",
               "{v}.h = f64[] constant(0.5)", "{v}.w = {T} broadcast({v}.h), dimensions={{}}",
               "{v}.q = pred[2,3] compare({a}, {v}.w), direction=GT", "{v}.s = {T} select({v}.q, {v}.l, {v}.c)",
               "{v} = {T} select({v}.p, {v}.s, {b})"],
    "call": ["{v} = {T} call({a}, {b}), to_apply=inner"],
    "while": ["{v}.t = (s32[], s32[], {T}, {T}) tuple(zero, n, {a}, {b})",
              "{v}.w = (s32[], s32[], {T}, {T}) while({v}.t), condition=less, body=body",
              "{v} = {T} get-tuple-element({v}.w), index=2"],
    "conditional": ["{v}.t = ({T}, {T}) tuple({a}, {b})",
                    "{v} = {T} conditional(n, {v}.t, {v}.t), branch_computations={{other, single}}"],
    "reduce": ["{v}.i = f64[] constant(-9)", "{v}.r = f64[2] reduce({a}, {v}.i), dimensions={{1}}, to_apply={op}_f64",
               "{v}.b = {T} broadcast({v}.r), dimensions={{0}}", "{v} = {T} multiply({v}.b, {b})"],
    "transpose": ["{v}.t = f64[3,2] transpose({a}), dimensions={{1,0}}", "{v}.r = f64[3,2] reverse({v}.t), dimensions={{0}}",
                  "{v} = {T} reshape({v}.r)"],
    "slice": ["{v}.s = f64[2,2] slice({a}), slice={{[0:2], [1:3]}}", "{v}.t = f64[2,1] slice({b}), slice={{[0:2], [0:1]}}",
              "{v} = {T} concatenate({v}.s, {v}.t), dimensions={{1}}"],
    "dot": ["{v}.d = f64[3,3] dot({a}, {b}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
            "{v}.e = {T} dot({a}, {v}.d), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}", "{v} = {T} tanh({v}.e)"],
    "sort": ["{v} = {T} sort({a}), dimensions={{{op}}}, to_apply=greater"],
    "dynamic": ["{v}.s = f64[1,2] dynamic-slice({a}, n, n), dynamic_slice_sizes={{1,2}}",
                "{v} = {T} dynamic-update-slice({b}, {v}.s, zero, n)"],
    "gather": ["{v}.i = s32[2,1] constant({{ {{1}}, {{0}} }})",
               "{v} = {T} gather({a}, {v}.i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
               "index_vector_dim=1, slice_sizes={{1,3}}"],
    "scatter": ["{v}.i = s32[2,1] constant({{ {{1}}, {{7}} }})",
                "{v} = {T} scatter({a}, {v}.i, {b}), update_window_dims={{1}}, inserted_window_dims={{0}}, "
                "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={op}_f64"],
    "window": ["{v}.i = f64[] constant(-9)",
               "{v} = {T} reduce-window({a}, {v}.i), window={{size=2x2 pad=0_1x1_0}}, to_apply={op}_f64"],
}  # fmt: skip


@examples(12)
@given(random_modules(), st.integers(0, 4), st.integers(0, 2**16))
def test_derivatives_of_a_random_module(program: Module, count: int, seed: int):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-1.5, 1.5, (2, 2, 3))
    assert_derivatives(program, [x, y, np.array(count, np.int32)], orders=1, checkpoints=2, tolerance=1e-5, step=1e-7)
