"""Searches for the greatest or least element: before => after."""

from hloom.passes.rules.argmax import ARGMAX, ARGMAX_INEXACT
from tests.passes.computations import computation
from tests.passes.domains.argmax import search
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

BOTH = [*ARGMAX, *ARGMAX_INEXACT]


def searched(direction: str, operand: str, last: str = "", head: str = "", root: str = "ROOT ") -> str:
    start = "-inf" if direction == "GT" else "inf"
    return (
        f"{search(direction)}{head}ENTRY e {{ {operand} i = s32[3,4] iota(), iota_dimension=1 "
        f"s = f32[] constant({start}) z = s32[] constant(0) "
        f"{root}r = (f32[3], s32[3]) reduce(x, i, s, z), dimensions={{1}}, to_apply=search {last} }}"
    )


def test_a_search_among_equals():
    splat = "c = f32[] constant(7) x = f32[3,4] broadcast(c), dimensions={}"
    after = (
        "c = f32[] constant(7)\nv = f32[3] broadcast(c), dimensions={}\nz = s32[] constant(0)\n"
        "n = s32[3] broadcast(z), dimensions={}\nROOT t = (f32[3], s32[3]) tuple(v, n)"
    )
    assert_rewrites(BOTH, searched("GT", splat), after)
    assert_rewrites(BOTH, searched("LT", splat), after)


def test_places_that_are_counted_along_another_dimension_stay():
    splat = "c = f32[] constant(7) x = f32[3,4] broadcast(c), dimensions={}"
    assert_keeps(BOTH, searched("GT", splat).replace("iota_dimension=1", "iota_dimension=0"))


def test_the_greatest_beside_a_search_for_it():
    plain = "m = f32[3] reduce(x, s), dimensions={1}, to_apply=maximum_f32 "
    last = "ROOT t = ((f32[3], s32[3]), f32[3]) tuple(r, m)"
    head = computation("maximum", "f32")
    parameter = "x = f32[3,4] parameter(0)"
    before = searched("GT", parameter, plain + last, head, "")
    after = searched("GT", parameter, "m = f32[3] get-tuple-element(r), index=0 " + last, root="")
    assert_rewrites(BOTH, before, after)
    assert_keeps(ARGMAX, before)


def test_the_least_beside_a_search_for_the_greatest_stays():
    plain = "m = f32[3] reduce(x, s), dimensions={1}, to_apply=minimum_f32 "
    last = "ROOT t = ((f32[3], s32[3]), f32[3]) tuple(r, m)"
    assert_keeps(BOTH, searched("GT", "x = f32[3,4] parameter(0)", plain + last, computation("minimum", "f32"), ""))
