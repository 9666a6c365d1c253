"""Sorts, maps and reductions of several arrays: before => after."""

from hloom.passes.rules.sort import SORT
from tests.passes.computations import program
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

LESS = "before { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }\n"
LESS_OF_FIRST = (
    "before { a = f32[] parameter(0) b = f32[] parameter(1) u = s32[] parameter(2) v = s32[] parameter(3) "
    "ROOT c = pred[] compare(a, b), direction=LT }\n"
)


def test_nothing_to_sort():
    before = (
        f"{LESS}ENTRY e {{ x = f32[4,1] parameter(0) ROOT s = f32[4,1] sort(x), dimensions={{1}}, to_apply=before }}"
    )
    assert_rewrites(SORT, before, "ROOT x = f32[4,1] parameter(0)")


def test_nothing_to_sort_of_several():
    pair = "(f32[5,0], s32[5,0])"
    head = "x = f32[5,0] parameter(0) y = s32[5,0] parameter(1) "
    before = f"{LESS_OF_FIRST}ENTRY e {{ {head}ROOT s = {pair} sort(x, y), dimensions={{0}}, to_apply=before }}"
    assert_rewrites(SORT, before, f"ENTRY e {{ {head}ROOT t = {pair} tuple(x, y) }}")


def test_a_sort_of_what_nobody_asks_for():
    head = "x = f32[4] parameter(0) y = s32[4] parameter(1) "
    sort = "s = (f32[4], s32[4]) sort(x, y), dimensions={0}, is_stable=true, to_apply=before "
    before = f"{LESS_OF_FIRST}ENTRY e {{ {head}{sort}ROOT g = f32[4] get-tuple-element(s), index=0 }}"
    after = (
        f"{LESS}ENTRY e {{ {head}s = f32[4] sort(x), dimensions={{0}}, is_stable=true, to_apply=before "
        "t = (f32[4], s32[4]) tuple(s, y) ROOT g = f32[4] get-tuple-element(t), index=0 }"
    )
    assert_rewrites(SORT, before, after)


def test_a_sort_by_what_nobody_asks_for_stays():
    head = "x = f32[4] parameter(0) y = s32[4] parameter(1) "
    sort = "s = (f32[4], s32[4]) sort(x, y), dimensions={0}, to_apply=before "
    assert_keeps(SORT, f"{LESS_OF_FIRST}ENTRY e {{ {head}{sort}ROOT g = s32[4] get-tuple-element(s), index=1 }}")


SEVERAL = (
    "several {{ a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] parameter(3) "
    "c = f32[] add(a, b) k = s32[] {last} ROOT t = (f32[], s32[]) tuple(c, k) }}\n"
    "ENTRY e {{ x = f32[4] parameter(0) y = s32[4] parameter(1) s = f32[] constant(0) z = s32[] constant(0) "
    "r = (f32[], s32[]) reduce(x, y, s, z), dimensions={{0}}, to_apply=several "
    "ROOT g = s32[] get-tuple-element(r), index=1 }}"
)


def test_a_reduction_of_what_nobody_asks_for():
    after = program(
        "x = f32[4] parameter(0)\ny = s32[4] parameter(1)\nz = s32[] constant(0)\n"
        "ROOT r = s32[] reduce(y, z), dimensions={0}, to_apply=maximum_s32"
    )
    assert_rewrites(SORT, SEVERAL.format(last="maximum(i, j)"), after)


def test_a_reduction_that_looks_at_the_other_array_stays():
    assert_keeps(SORT, SEVERAL.format(last="convert(c)"))


def test_a_reduction_that_yields_a_tuple_of_one():
    one = (
        "one {{ a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] add(a, b) ROOT t = (f32[]) tuple(c) }}\n"
        "ENTRY e {{ x = f32[4] parameter(0) z = f32[] constant(0) ROOT r = {op}, to_apply=one }}"
    )
    after = "x = f32[4] parameter(0)\nz = f32[] constant(0)\n"
    reduce = one.format(op="(f32[]) reduce(x, z), dimensions={0}")
    plain = "r = f32[] reduce(x, z), dimensions={0}, to_apply=add_f32\nROOT t = (f32[]) tuple(r)"
    assert_rewrites(SORT, reduce, program(after + plain))
    window = one.format(op="(f32[3]) reduce-window(x, z), window={size=2}")
    plain = "r = f32[3] reduce-window(x, z), window={size=2}, to_apply=add_f32\nROOT t = (f32[3]) tuple(r)"
    assert_rewrites(SORT, window, program(after + plain))


def mapped(body: str, result: str = "f32[4]", operands: str = "x, y") -> str:
    head = "x = f32[4] parameter(0) y = f32[4] parameter(1) "
    return f"one {{ {body} }}\nENTRY e {{ {head}ROOT m = {result} map({operands}), dimensions={{0}}, to_apply=one }}"


def test_maps_of_one_op():
    operands = "x = f32[4] parameter(0)\ny = f32[4] parameter(1)\n"
    two = "a = f32[] parameter(0) b = f32[] parameter(1) "
    assert_rewrites(SORT, mapped(f"{two}ROOT c = f32[] subtract(b, a)"), f"{operands}ROOT s = f32[4] subtract(y, x)")
    less = mapped(f"{two}ROOT c = pred[] compare(a, b), direction=LT", "pred[4]")
    assert_rewrites(SORT, less, f"{operands}ROOT s = pred[4] compare(x, y), direction=LT")
    second = mapped("a = f32[] parameter(0) ROOT b = f32[] parameter(1)")
    assert_rewrites(SORT, second, "x = f32[4] parameter(0)\nROOT y = f32[4] parameter(1)")
    constant = mapped(f"{two}ROOT c = f32[] constant(3)")
    filled = f"{operands}c = f32[] constant(3)\nROOT b = f32[4] broadcast(c), dimensions={{}}"
    assert_rewrites(SORT, constant, filled)


def test_maps_of_more_stay():
    two = "a = f32[] parameter(0) b = f32[] parameter(1) "
    assert_keeps(SORT, mapped(f"{two}c = f32[] add(a, b) ROOT d = f32[] multiply(c, b)"))
