"""Reductions: before => after.

Covers `reducers.py`, `reduction.py`.
"""

from hloom.passes.rules.reduce import REDUCE
from hloom.passes.rules.reduce_inexact import REDUCE_INEXACT
from tests.passes.computations import program
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

BOTH = [*REDUCE_INEXACT, *REDUCE]
ZERO = "z = f32[] constant(0)\n"
LOWEST = "z = f32[] constant(-inf)\n"


def reduced(body: str, result: str, dimensions: str, op: str = "add_f32", start: str = ZERO) -> str:
    return program(f"{start}{body}\nROOT r = {result} reduce(x, z), dimensions={{{dimensions}}}, to_apply={op}")


def test_nothing_to_combine():
    before = reduced("x = f32[4,0] parameter(0)", "f32[4]", "1")
    after = program(f"{ZERO}x = f32[4,0] parameter(0)\nROOT b = f32[4] broadcast(z), dimensions={{}}")
    assert_rewrites(REDUCE, before, after)


def test_nothing_to_combine_of_several():
    head = """several { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3)
      c = f32[] add(a, b) k = s32[] add(i, j) ROOT t = (f32[], s32[]) tuple(c, k) }
    ENTRY e { x = f32[0] parameter(0) y = s32[0] parameter(1) s = f32[] constant(1) t = s32[] constant(2)
    """
    before = "ROOT r = (f32[], s32[]) reduce(x, y, s, t), dimensions={0}, to_apply=several }"
    after = "ENTRY e { x = f32[0] parameter(0) y = s32[0] parameter(1) s = f32[] constant(1) t = s32[] constant(2) "
    assert_rewrites(REDUCE, head + before, after + "ROOT r = (f32[], s32[]) tuple(s, t) }")


def test_single_elements_meet_the_start():
    x = "x = f32[4,1] parameter(0)"
    after = f"{ZERO}{x}\nv = f32[4] reshape(x)\nb = f32[4] broadcast(z), dimensions={{}}\nROOT a = f32[4] add(v, b)"
    assert_rewrites(REDUCE, reduced(x, "f32[4]", "1"), program(after))
    plain = program(f"{x}\nROOT v = f32[4] reshape(x)")
    assert_rewrites(REDUCE, reduced(x, "f32[4]", "1", "maximum_f32", LOWEST), plain)
    assert_rewrites(BOTH, reduced(x, "f32[4]", "1"), plain)


def test_single_elements_of_a_start_that_is_no_identity():
    five = "z = f32[] constant(5)\n"
    x = "x = f32[1] parameter(0)"
    after = f"{five}{x}\nv = f32[] reshape(x)\nROOT a = f32[] add(v, z)"
    assert_rewrites(BOTH, reduced(x, "f32[]", "0", start=five), program(after))


def test_a_transpose_below():
    body = "p = f32[2,3,4] parameter(0)\nx = f32[4,3,2] transpose(p), dimensions={2,1,0}"
    after = f"{ZERO}p = f32[2,3,4] parameter(0)\nr = f32[2,3] reduce(p, z), dimensions={{2}}, to_apply=add_f32\n"
    exchanged = "ROOT t = f32[3,2] transpose(r), dimensions={1,0}"
    assert_rewrites(REDUCE, reduced(body, "f32[3,2]", "0"), program(after + exchanged))


def test_a_transpose_that_turns_what_is_summed():
    body = "p = f32[2,3] parameter(0)\nx = f32[3,2] transpose(p), dimensions={1,0}"
    after = program(
        f"{ZERO}p = f32[2,3] parameter(0)\nROOT r = f32[] reduce(p, z), dimensions={{0,1}}, to_apply=add_f32"
    )
    assert_keeps(REDUCE, reduced(body, "f32[]", "0,1"))
    assert_rewrites(REDUCE_INEXACT, reduced(body, "f32[]", "0,1"), after)


def test_a_transpose_that_is_used_otherwise_stays():
    assert_keeps(
        BOTH,
        program(
            f"{ZERO}p = f32[2,3,4] parameter(0)\nx = f32[4,3,2] transpose(p), dimensions={{2,1,0}}\n"
            "r = f32[3,2] reduce(x, z), dimensions={0}, to_apply=add_f32\n"
            "ROOT t = (f32[3,2], f32[4,3,2]) tuple(r, x)"
        ),
    )


def test_a_reduction_of_a_reduction():
    body = "p = f32[4,5,6,7] parameter(0)\nx = f32[5,6,7] reduce(p, z), dimensions={0}, to_apply="
    after = "p = f32[4,5,6,7] parameter(0)\nROOT r = f32[5] reduce(p, z), dimensions={0,2,3}, to_apply="
    greatest = reduced(body + "maximum_f32", "f32[5]", "1,2", "maximum_f32", LOWEST)
    assert_rewrites(REDUCE, greatest, program(LOWEST + after + "maximum_f32"))
    summed = reduced(body + "add_f32", "f32[5]", "1,2")
    assert_keeps(REDUCE, summed)
    assert_rewrites(REDUCE_INEXACT, summed, program(ZERO + after + "add_f32"))


def test_reductions_by_different_computations_stay():
    body = "p = f32[4,5] parameter(0)\nx = f32[5] reduce(p, z), dimensions={0}, to_apply=maximum_f32"
    assert_keeps(BOTH, reduced(body, "f32[]", "0", "minimum_f32"))


def test_sums_from_what_is_no_zero_stay():
    one = "z = s32[] constant(1)\n"
    body = "p = s32[4,5] parameter(0)\nx = s32[5] reduce(p, z), dimensions={0}, to_apply=add_s32"
    assert_keeps(BOTH, reduced(body, "s32[]", "0", "add_s32", one))


def test_a_reshape_of_what_is_reduced():
    body = "p = f32[3,5,7] parameter(0)\nx = f32[3,35] reshape(p)"
    after = f"{ZERO}p = f32[3,5,7] parameter(0)\nROOT r = f32[3] reduce(p, z), dimensions={{1,2}}, to_apply=add_f32"
    assert_rewrites(REDUCE, reduced(body, "f32[3]", "1"), program(after))


def test_a_reshape_of_what_is_kept():
    body = "p = f32[3,5,7] parameter(0)\nx = f32[15,7] reshape(p)"
    after = (
        f"{ZERO}p = f32[3,5,7] parameter(0)\nr = f32[3,5] reduce(p, z), dimensions={{2}}, to_apply=add_f32\n"
        "ROOT s = f32[15] reshape(r)"
    )
    assert_rewrites(REDUCE, reduced(body, "f32[15]", "1"), program(after))


def test_a_reshape_of_both_stays():
    assert_keeps(BOTH, reduced("p = f32[32] parameter(0)\nx = f32[8,4] reshape(p)", "f32[8]", "1"))


def test_a_concatenation():
    body = "p = f32[2,3] parameter(0)\nq = f32[4,3] parameter(1)\nx = f32[6,3] concatenate(p, q), dimensions={0}"
    parts = "p = f32[2,3] parameter(0)\nq = f32[4,3] parameter(1)\n"
    after = (
        "a = f32[3] reduce(p, z), dimensions={{0}}, to_apply={op}_f32\n"
        "b = f32[3] reduce(q, z), dimensions={{0}}, to_apply={op}_f32\nROOT r = f32[3] {op}(a, b)"
    )
    greatest = program(LOWEST + parts + after.format(op="maximum"))
    assert_rewrites(REDUCE, reduced(body, "f32[3]", "0", "maximum_f32", LOWEST), greatest)
    assert_keeps(REDUCE, reduced(body, "f32[3]", "0"))
    assert_rewrites(REDUCE_INEXACT, reduced(body, "f32[3]", "0"), program(ZERO + parts + after.format(op="add")))
    assert_keeps(BOTH, reduced(body, "f32[6]", "1"))


def test_padding_with_what_changes_nothing():
    body = "p = f32[2,3] parameter(0)\nx = f32[2,5] pad(p, z), padding=0_0x1_1"
    after = "p = f32[2,3] parameter(0)\nROOT r = f32[2] reduce(p, z), dimensions={1}, to_apply="
    greatest = reduced(body, "f32[2]", "1", "maximum_f32", LOWEST)
    assert_rewrites(REDUCE, greatest, program(LOWEST + after + "maximum_f32"))
    assert_keeps(REDUCE, reduced(body, "f32[2]", "1"))
    assert_rewrites(REDUCE_INEXACT, reduced(body, "f32[2]", "1"), program(ZERO + after + "add_f32"))
    assert_keeps(BOTH, reduced(body.replace("0_0x1_1", "0_0x3_-1"), "f32[2]", "1", "maximum_f32", LOWEST))
    assert_keeps(BOTH, reduced(body, "f32[5]", "0"))


def test_repeated_numbers():
    body = "p = f32[] parameter(0)\nx = f32[9,9] broadcast(p), dimensions={}"
    after = program(f"{ZERO}p = f32[] parameter(0)\nROOT m = f32[] maximum(p, z)")
    assert_rewrites(REDUCE, reduced(body, "f32[]", "0,1", "maximum_f32"), after)


def test_the_sum_of_repeated_numbers():
    body = "p = {e}[3] parameter(0)\nx = {e}[3,7] broadcast(p), dimensions={{0}}"
    after = (
        "p = {e}[3] parameter(0)\nc = {e}[] constant(7)\nb = {e}[3] broadcast(c), dimensions={{}}\n"
        "m = {e}[3] multiply(p, b)\ns = {e}[3] broadcast(z), dimensions={{}}\nROOT a = {e}[3] add(s, m)"
    )
    zero = "z = s32[] constant(0)\n"
    integers = reduced(body.format(e="s32"), "s32[3]", "1", "add_s32", zero)
    assert_rewrites(REDUCE, integers, program(zero + after.format(e="s32")))
    floats = reduced(body.format(e="f32"), "f32[3]", "1")
    assert_keeps(REDUCE, floats)
    assert_rewrites(REDUCE_INEXACT, floats, program(ZERO + after.format(e="f32")))


def test_counts_wrap_and_do_not_overflow():
    start = "z = u8[] constant(0)\n"
    body = "p = u8[] parameter(0)\nx = u8[258] broadcast(p), dimensions={}"
    after = f"{start}p = u8[] parameter(0)\nc = u8[] constant(2)\nm = u8[] multiply(p, c)\nROOT a = u8[] add(z, m)"
    assert_rewrites(REDUCE, reduced(body, "u8[]", "0", "add_u8", start), program(after))
    half = "p = f16[] parameter(0)\nx = f16[70000] broadcast(p), dimensions={}"
    assert_keeps(BOTH, reduced(half, "f16[]", "0", "add_f16", "z = f16[] constant(0)\n"))


def test_a_reduction_before_a_broadcast():
    body = "p = f32[3,4] parameter(0)\nx = f32[5,3,4] broadcast(p), dimensions={1,2}"
    after = (
        f"{ZERO}p = f32[3,4] parameter(0)\nr = f32[3] reduce(p, z), dimensions={{1}}, to_apply=add_f32\n"
        "ROOT b = f32[5,3] broadcast(r), dimensions={1}"
    )
    assert_rewrites(REDUCE, reduced(body, "f32[5,3]", "2"), program(after))


def test_a_broadcast_that_turns_what_is_summed():
    body = "p = f32[3,4] parameter(0)\nx = f32[5,4,3] broadcast(p), dimensions={2,1}"
    after = (
        f"{ZERO}p = f32[3,4] parameter(0)\nr = f32[] reduce(p, z), dimensions={{0,1}}, to_apply=add_f32\n"
        "ROOT b = f32[5] broadcast(r), dimensions={}"
    )
    assert_keeps(REDUCE, reduced(body, "f32[5]", "1,2"))
    assert_rewrites(REDUCE_INEXACT, reduced(body, "f32[5]", "1,2"), program(after))


def test_a_sum_of_negated_numbers():
    body = "p = f32[4,3] parameter(0)\nx = f32[4,3] negate(p)"
    after = (
        f"{ZERO}p = f32[4,3] parameter(0)\nr = f32[4] reduce(p, z), dimensions={{1}}, to_apply=add_f32\n"
        "ROOT n = f32[4] negate(r)"
    )
    assert_rewrites(REDUCE_INEXACT, reduced(body, "f32[4]", "1"), program(after))
    assert_keeps(BOTH, reduced(body, "f32[4]", "1", "maximum_f32", LOWEST))


def test_precision_that_the_type_has():
    before = "x = bf16[4] parameter(0)\nROOT r = bf16[4] reduce-precision(x), exponent_bits=8, mantissa_bits={}"
    assert_rewrites(REDUCE, before.format(7), "ROOT x = bf16[4] parameter(0)")
    assert_keeps(REDUCE, before.format(6))


def test_precision_that_is_reduced_already():
    head = "x = f32[4] parameter(0)\n"
    first = "y = f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=7"
    second = "\nROOT r = f32[4] reduce-precision(y), exponent_bits=5, mantissa_bits={}"
    assert_rewrites(REDUCE, head + first + second.format(10), f"{head}ROOT {first}")
    assert_keeps(REDUCE, head + first + second.format(6))
