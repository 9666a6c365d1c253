"""Collectives whose results are known: before => after."""

from hloom.passes.rules.collectives import COLLECTIVES, COLLECTIVES_INEXACT
from tests.passes.computations import program
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

BOTH = [*COLLECTIVES, *COLLECTIVES_INEXACT]
X = "x = f32[4] parameter(0)"


def test_groups_of_one_device():
    for last in (
        "all-reduce(x), replica_groups={{0},{1}}, to_apply=add_f32",
        "all-gather(x), replica_groups={{0},{1}}, dimensions={0}",
        "reduce-scatter(x), replica_groups=[2,1]<=[2], dimensions={0}, to_apply=add_f32",
        "all-to-all(x), replica_groups={{0},{1}}, dimensions={0}",
        "all-reduce(x), channel_id=1, replica_groups={{0},{1}}, use_global_device_ids=true, to_apply=add_f32",
    ):
        assert_rewrites(COLLECTIVES, program(f"{X}\nROOT r = f32[4] {last}"), program(f"ROOT {X}"))


def test_groups_that_may_hold_more_stay():
    for last in (
        "all-reduce(x), replica_groups={{0,1}}, to_apply=add_f32",
        "all-reduce(x), replica_groups={}, to_apply=add_f32",
        "all-reduce(x), channel_id=1, replica_groups={{0},{1}}, to_apply=add_f32",
    ):
        assert_keeps(BOTH, program(f"{X}\nROOT r = f32[4] {last}"))


def test_one_number_everywhere_is_gathered():
    splat = "c = f32[] constant(3)\nx = f32[4,4] broadcast(c), dimensions={}\n"
    before = f"{splat}ROOT r = f32[16,4] all-gather(x), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}"
    after = "c = f32[] constant(3)\nROOT b = f32[16,4] broadcast(c), dimensions={}"
    assert_rewrites(COLLECTIVES, program(before), program(after))


def test_one_number_everywhere_is_reduced():
    splat = "c = {e}[] constant(3)\nx = {e}[8,4] broadcast(c), dimensions={{}}\n"
    scatter = "ROOT r = {e}[2,4] reduce-scatter(x), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}, to_apply={op}_{e}"
    after = "c = {e}[] constant({n})\nROOT b = {e}[2,4] broadcast(c), dimensions={{}}"
    for rules, element, op, number in (
        (COLLECTIVES, "f32", "maximum", 3), (COLLECTIVES, "s32", "add", 12), (COLLECTIVES_INEXACT, "f32", "add", 12)
    ):  # fmt: skip
        before = program((splat + scatter).format(e=element, op=op))
        assert_rewrites(rules, before, program(after.format(e=element, n=number)))
    assert_keeps(COLLECTIVES, program((splat + scatter).format(e="f32", op="add")))


def test_sums_among_all_devices_stay():
    splat = "c = f32[] constant(3)\nx = f32[4] broadcast(c), dimensions={}\n"
    assert_keeps(BOTH, program(f"{splat}ROOT r = f32[4] all-reduce(x), replica_groups={{}}, to_apply=add_f32"))


def test_tokens_are_awaited_once():
    tokens = "t = token[] after-all()\nu = token[] after-all()\n"
    before = "a = token[] after-all(t, u, t)\nROOT r = (token[]) tuple(a)"
    after = "a = token[] after-all(t, u)\nROOT r = (token[]) tuple(a)"
    assert_rewrites(COLLECTIVES, program(tokens + before), program(tokens + after))
    one = program("t = token[] after-all()\na = token[] after-all(t)\nROOT r = (token[]) tuple(a)")
    assert_rewrites(COLLECTIVES, one, program("t = token[] after-all()\nROOT r = (token[]) tuple(t)"))
