"""Products: before => after."""

import hloom
from hloom.passes.rules.dot import DOT
from hloom.passes.rules.dot_inexact import DOT_INEXACT
from tests.passes.computations import program
from tests.passes.rule_assertions import assert_keeps, assert_rewrites, rewritten

BOTH = [*DOT_INEXACT, *DOT]
MATRICES = "x = f32[5,4] parameter(0)\ny = f32[4,3] parameter(1)\n"
PLAIN = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def test_a_sum_of_nothing_is_zero():
    before = f"x = f32[2,0] parameter(0)\ny = f32[0,3] parameter(1)\nROOT d = f32[2,3] dot(x, y), {PLAIN}"
    after = (
        "x = f32[2,0] parameter(0)\ny = f32[0,3] parameter(1)\nz = f32[] constant(0)\n"
        "ROOT d = f32[2,3] broadcast(z), dimensions={}"
    )
    assert_rewrites(DOT, program(before), program(after))


def test_integers_times_zero():
    text = "x = {e}[2] parameter(0)\nc = {e}[] constant(0)\ny = {e}[2,3] broadcast(c), dimensions={{}}\n{last}"
    dot = "ROOT d = {e}[3] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}"
    zero = "ROOT d = s32[3] broadcast(c), dimensions={}"
    before = text.format(e="s32", last=dot.format(e="s32"))
    after = f"x = s32[2] parameter(0)\nc = s32[] constant(0)\n{zero}"
    assert_rewrites(DOT, program(before), program(after))
    assert_keeps(DOT, program(text.format(e="f32", last=dot.format(e="f32"))))


def test_an_outer_product_is_a_multiplication():
    text = "x = {e}[2] parameter(0)\ny = {e}[3] parameter(1)\n"
    product = (
        "a = {e}[2,3] broadcast(x), dimensions={{0}}\nb = {e}[2,3] broadcast(y), dimensions={{1}}\n"
        "ROOT m = {e}[2,3] multiply(a, b)"
    )
    dot = "ROOT d = {e}[2,3] dot(x, y)"
    for rules, element in ((DOT, "s32"), (DOT_INEXACT, "f32")):
        assert_rewrites(rules, program((text + dot).format(e=element)), program((text + product).format(e=element)))
    assert_keeps(DOT, program((text + dot).format(e="f32")))
    assert_keeps(BOTH, program((text + dot).format(e="f32") + ", algorithm=dot_tf32_tf32_f32"))


def test_an_outer_product_of_batches_and_narrow_types():
    before = "x = bf16[2,4] parameter(0)\ny = bf16[3,2] parameter(1)\nROOT d = f32[2,4,3] dot(x, y)"
    numbers = ", lhs_batch_dims={0}, rhs_batch_dims={1}"
    after = (
        "x = bf16[2,4] parameter(0)\ny = bf16[3,2] parameter(1)\nu = f32[2,4] convert(x)\n"
        "t = bf16[2,3] transpose(y), dimensions={1,0}\nv = f32[2,3] convert(t)\n"
        "a = f32[2,4,3] broadcast(u), dimensions={0,1}\nb = f32[2,4,3] broadcast(v), dimensions={0,2}\n"
        "ROOT m = f32[2,4,3] multiply(a, b)"
    )
    assert_rewrites(DOT_INEXACT, program(before + numbers), program(after))


def test_dimensions_of_size_one_go():
    before = f"x = f32[1,4] parameter(0)\ny = f32[4,3] parameter(1)\nROOT d = f32[1,3] dot(x, y), {PLAIN}"
    after = (
        "x = f32[1,4] parameter(0)\ny = f32[4,3] parameter(1)\nr = f32[4] reshape(x)\n"
        "d = f32[3] dot(r, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\nROOT s = f32[1,3] reshape(d)"
    )
    assert_rewrites(DOT, program(before), program(after))


def test_transposes_become_numbers():
    before = (
        "x = f32[4,5] parameter(0)\ny = f32[4,3] parameter(1)\nt = f32[5,4] transpose(x), dimensions={1,0}\n"
        f"ROOT d = f32[5,3] dot(t, y), {PLAIN}"
    )
    after = (
        "x = f32[4,5] parameter(0)\ny = f32[4,3] parameter(1)\n"
        "ROOT d = f32[5,3] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    )
    assert_rewrites(DOT, program(before), program(after))


def test_a_transpose_that_turns_rows_stays():
    assert_keeps(
        DOT,
        program(
            "x = f32[2,3,4] parameter(0)\ny = f32[4,5] parameter(1)\nt = f32[3,2,4] transpose(x), dimensions={1,0,2}\n"
            "ROOT d = f32[3,2,5] dot(t, y), lhs_contracting_dims={2}, rhs_contracting_dims={0}"
        ),
    )


def test_a_transposed_product_is_the_product_of_the_others():
    before = (
        f"{MATRICES}d = f32[5,3] dot(x, y), {PLAIN}, operand_precision={{highest,high}}\n"
        "ROOT t = f32[3,5] transpose(d), dimensions={1,0}"
    )
    after = (
        f"{MATRICES}ROOT d = f32[3,5] dot(y, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}, "
        "operand_precision={high,highest}"
    )
    assert_rewrites(DOT, program(before), program(after))


def test_a_transposed_product_that_is_used_twice_stays():
    assert_keeps(
        DOT,
        program(
            f"{MATRICES}d = f32[5,3] dot(x, y), {PLAIN}\nt = f32[3,5] transpose(d), dimensions={{1,0}}\n"
            "ROOT r = (f32[5,3], f32[3,5]) tuple(d, t)"
        ),
    )


def test_partial_sums_that_are_asked_for_stay():
    assert_keeps(
        BOTH,
        program(
            "x = f32[4,5] parameter(0)\ny = f32[4,3] parameter(1)\nt = f32[5,4] transpose(x), dimensions={1,0}\n"
            f"d = f32[5,3] dot(t, y), {PLAIN}\n"
            'ROOT r = f32[5,3] custom-call(d), custom_call_target="Sharding", sharding={unreduced}'
        ),
    )


def test_a_matrix_times_a_vector_is_a_sum():
    before = f"x = f32[5,4] parameter(0)\ny = f32[4] parameter(1)\nROOT d = f32[5] dot(x, y), {PLAIN}"
    after = (
        "x = f32[5,4] parameter(0)\ny = f32[4] parameter(1)\nb = f32[5,4] broadcast(y), dimensions={1}\n"
        "m = f32[5,4] multiply(x, b)\nz = f32[] constant(0)\n"
        "ROOT r = f32[5] reduce(m, z), dimensions={1}, to_apply=add_f32"
    )
    assert_rewrites(DOT_INEXACT, program(before), program(after))
    assert_keeps(DOT, program(before))


def test_narrow_sums_are_made_in_single_precision():
    before = "x = bf16[4] parameter(0)\ny = bf16[4] parameter(1)\nROOT d = bf16[] dot(x, y)"
    numbers = ", lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    after = (
        "x = bf16[4] parameter(0)\ny = bf16[4] parameter(1)\nm = bf16[4] multiply(x, y)\nc = f32[4] convert(m)\n"
        "z = f32[] constant(0)\nr = f32[] reduce(c, z), dimensions={0}, to_apply=add_f32\nROOT d = bf16[] convert(r)"
    )
    assert_rewrites(DOT_INEXACT, program(before + numbers), program(after))


def test_a_product_of_matrices_stays():
    assert_keeps(BOTH, program(f"{MATRICES}ROOT d = f32[5,3] dot(x, y), {PLAIN}"))


def test_a_reordered_contraction_with_a_constant():
    constant = "c = f32[6,2] constant({{1,2},{3,4},{5,6},{1,1},{1,1},{1,1}})\n"
    before = (
        f"{constant}p = f32[2,2,3] parameter(0)\nt = f32[2,3,2] transpose(p), dimensions={{0,2,1}}\n"
        f"x = f32[2,6] reshape(t)\nROOT d = f32[2,2] dot(x, c), {PLAIN}"
    )
    after = (
        f"{constant}p = f32[2,2,3] parameter(0)\na = f32[3,2,2] reshape(c)\n"
        "b = f32[2,3,2] transpose(a), dimensions={1,0,2}\ny = f32[6,2] reshape(b)\nx = f32[2,6] reshape(p)\n"
        f"ROOT d = f32[2,2] dot(x, y), {PLAIN}"
    )
    assert_rewrites(DOT_INEXACT, program(before), program(after))


def test_a_reordered_contraction_of_more_than_what_is_contracted_stays():
    assert_keeps(
        DOT_INEXACT,
        program(
            "c = f32[6,2] constant({{1,2},{3,4},{5,6},{1,1},{1,1},{1,1}})\np = f32[2,3,2] parameter(0)\n"
            "t = f32[2,2,3] transpose(p), dimensions={2,0,1}\nx = f32[2,6] reshape(t)\n"
            f"ROOT d = f32[2,2] dot(x, c), {PLAIN}"
        ),
    )


def test_a_concatenation_times_a_constant():
    before = (
        "p = f32[2,1] parameter(0)\nq = f32[2,2] parameter(1)\nx = f32[2,3] concatenate(p, q), dimensions={1}\n"
        f"c = f32[3,2] constant({{{{1,2}},{{3,4}},{{5,6}}}})\nROOT d = f32[2,2] dot(x, c), {PLAIN}"
    )
    after = (
        "p = f32[2,1] parameter(0)\nq = f32[2,2] parameter(1)\nc = f32[3,2] constant({{1,2},{3,4},{5,6}})\n"
        f"a = f32[1,2] slice(c), slice={{[0:1], [0:2]}}\nu = f32[2,2] dot(p, a), {PLAIN}\n"
        f"b = f32[2,2] slice(c), slice={{[1:3], [0:2]}}\nv = f32[2,2] dot(q, b), {PLAIN}\n"
        "ROOT d = f32[2,2] add(u, v)"
    )
    assert_rewrites(DOT_INEXACT, program(before), program(after))


def test_a_row_of_a_constant_times_a_constant():
    head = "i = s32[] parameter(0)\nz = s32[] constant(0)\nt = f32[3,2] constant({{1,2},{3,4},{5,6}})\n"
    before = (
        f"{head}x = f32[1,2] dynamic-slice(t, i, z), dynamic_slice_sizes={{1,2}}\n"
        f"c = f32[2,2] constant({{{{1,2}},{{3,4}}}})\nROOT d = f32[1,2] dot(x, c), {PLAIN}"
    )
    after = (
        f"{head}c = f32[2,2] constant({{{{1,2}},{{3,4}}}})\nd = f32[3,2] dot(t, c), {PLAIN}\n"
        "ROOT s = f32[1,2] dynamic-slice(d, i, z), dynamic_slice_sizes={1,2}"
    )
    assert_rewrites(DOT_INEXACT, program(before), program(after))


def test_the_same_transpose_of_batches_goes_below():
    numbers = "lhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_batch_dims={0,1}, rhs_contracting_dims={2}"
    before = (
        "x = f32[2,3,4,5] parameter(0)\ny = f32[2,3,5,6] parameter(1)\n"
        "s = f32[3,2,4,5] transpose(x), dimensions={1,0,2,3}\nt = f32[3,2,5,6] transpose(y), dimensions={1,0,2,3}\n"
        f"ROOT d = f32[3,2,4,6] dot(s, t), {numbers}"
    )
    after = (
        f"x = f32[2,3,4,5] parameter(0)\ny = f32[2,3,5,6] parameter(1)\nd = f32[2,3,4,6] dot(x, y), {numbers}\n"
        "ROOT t = f32[3,2,4,6] transpose(d), dimensions={1,0,2,3}"
    )
    assert_rewrites(BOTH, program(before), program(after))


def test_a_sum_over_batches_is_a_contraction():
    operands = "x = f32[2,5,4] parameter(0)\ny = f32[2,4,3] parameter(1)\nz = f32[] constant(0)\n"
    batched = "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"
    before = (
        f"{operands}d = f32[2,5,3] dot(x, y), {batched}\n"
        "ROOT r = f32[5,3] reduce(d, z), dimensions={0}, to_apply=add_f32"
    )
    after = (
        "x = f32[2,5,4] parameter(0)\ny = f32[2,4,3] parameter(1)\n"
        "ROOT d = f32[5,3] dot(x, y), lhs_contracting_dims={2,0}, rhs_contracting_dims={1,0}"
    )
    assert_rewrites(DOT_INEXACT, program(before), program(after))
    assert_keeps(DOT_INEXACT, program(before.replace("add_f32", "maximum_f32")))
    assert_keeps(DOT_INEXACT, program(before.replace("constant(0)", "constant(1)")))


def test_sums_share_a_computation():
    vectors = "x = f32[4] parameter(0)\ny = f32[4] parameter(1)\nz = f32[] constant(0)\n"
    numbers = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    before = f"{vectors}d = f32[] dot(x, y), {numbers}\ne = f32[] dot(x, x), {numbers}\nROOT r = f32[] add(d, e)"
    module = rewritten(DOT_INEXACT, program(before))
    assert len(module.graphs) == 2


def test_simplify_xla_leaves_products_of_vectors_to_their_own_pass():
    text = "x = f32[5,4] parameter(0)\ny = f32[4] parameter(1)\nROOT d = f32[5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    module = hloom.parse(f"ENTRY e {{\n{text}\n}}")
    assert not hloom.opt(module, "simplify-xla")[1].changed
    reduced, _ = hloom.opt(module, "dot-strength-reduction")
    assert reduced.entry.root.opcode == "reduce"
