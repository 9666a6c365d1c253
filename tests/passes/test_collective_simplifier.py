"""Collectives that send less, or are fewer (`collective_simplifier.py`, `all_reduce.py`, `participants.py`).

The cases restate those of XLA's all_reduce_simplifier_test.cc, all_reduce_reassociate_test.cc,
all_reduce_folder_test.cc, reduce_scatter_creator_test.cc and all_gather_broadcast_reorder_test.cc. Each device has
numbers of its own: the parameter `p` times the number of the replica.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

import hloom
from hloom.ir import Module, verify
from hloom.passes import apply
from hloom.runtime import run
from hloom.text import HloomError
from tests.passes.computations import program
from tests.passes.pass_assertions import assert_leaves

GROUPS = "replica_groups={}"
PAIRS, CROSS = "replica_groups={{0,1},{2,3}}", "replica_groups={{0,2},{1,3}}"
GLOBAL = "channel_id=1, use_global_device_ids=true"
OWN = """
    device = u32[] replica-id()
    number = f32[] convert(device)
    factors = f32[{dims}] broadcast(number), dimensions={{}}
    {name} = f32[{dims}] add({given}, factors)"""


def for_devices(*lines: str, replicas: int = 4, partitions: int = 1, header: str = "") -> str:
    counts = f"HloModule m, replica_count={replicas}, num_partitions={partitions}{header}\n"
    return counts + program("\n".join(lines))


def own(name: str = "x", dims: str = "8", given: int = 0) -> str:
    """A parameter, and what each device makes of it."""
    lines = OWN.format(dims=dims, name=name, given=f"{name}.p").replace("device", f"{name}.d")
    lines = lines.replace("number", f"{name}.n").replace("factors", f"{name}.f")
    return f"{name}.p = f32[{dims}] parameter({given})\n{lines}"


def all_reduce(name: str, operand: str, more: str = GROUPS, *, dims: str = "8", by: str = "add", element: str = "f32"):
    return f"{name} = {element}[{dims}] all-reduce({operand}), {more}, to_apply={by}_{element}"


def two(*tail: str, dims: str = "8", first: str = GROUPS, second: str = GROUPS, by: tuple[str, str] = ("add", "add")):
    """Two all-reduces, a and b, and what is made of them."""
    return (
        own("x", dims), own("y", dims, 1), all_reduce("a", "x", first, dims=dims, by=by[0]),
        all_reduce("b", "y", second, dims=dims, by=by[1]), *tail,
    )  # fmt: skip


def collectives(module: Module) -> Counter[str]:
    kept = ("all-reduce", "reduce-scatter", "all-gather")
    return Counter(node.opcode for graph in module.graphs for node in graph.nodes if node.opcode in kept)


def assert_same_on_devices(before: Module, after: Module) -> None:
    """XLA computes the same on each device."""
    expected = run(before, seed=3)
    for one, other in zip(expected.per_device, run(after, expected.inputs).per_device, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_allclose(np.float64(left), np.float64(right), rtol=1e-5, atol=1e-5)


def assert_leaves_with(passes: str, text: str, runs: bool = True, **left: int) -> Module:
    """The collectives that passes leave, the same numbers on each device, and nothing more to do."""
    before = hloom.parse(text)
    verify(before)
    after, report = apply(before, passes)
    verify(after)
    assert report.changed
    assert collectives(after) == {name.replace("_", "-"): count for name, count in left.items()}
    if runs:
        assert_same_on_devices(before, hloom.parse(hloom.print(after)))
    assert_leaves(passes, hloom.print(after))
    return after


SUM = "ROOT s = f32[8] add(a, b)"
PADS = """k = f32[] constant({value})
    c = f32[{size}] pad(a, k), padding=0_{more}
    d = f32[{size}] pad(b, k), padding=0_{more}
    ROOT s = f32[{size}] add(c, d)"""
FOUR = tuple(f"p{n} = f32[8] parameter({n})\n{all_reduce(f'a{n}', f'p{n}')}" for n in range(4))
KEY = 'replica_groups={{}}, frontend_attributes={{collective_group_key="{}"}}'


def sliced(*dims: str) -> tuple[str, ...]:
    lines = ["i = s32[] parameter(3)", "z = s32[] constant(0)"]
    for number, dim in enumerate(dims):
        lines += [
            f"p{number} = f32[1,{dim}] parameter({number})", all_reduce(f"a{number}", f"p{number}", dims=f"1,{dim}"),
            f"d{number} = f32[1,4] dynamic-slice(a{number}, z, i), dynamic_slice_sizes={{1,4}}",
        ]  # fmt: skip
    return (*lines, "s = f32[1,4] add(d0, d1)", "ROOT t = f32[1,4] add(s, d2)")


def converted(element: str, *by: str) -> tuple[str, ...]:
    lines: list[str] = []
    for number, opcode in enumerate(by):
        lines += [
            f"p{number} = bf16[8] parameter({number})",
            all_reduce(f"a{number}", f"p{number}", by=opcode, element="bf16"),
            f"c{number} = {element}[8] convert(a{number})",
        ]
    return (*lines, f"s = {element}[8] add(c0, c1)", f"t = {element}[8] add(s, c2)", "ROOT r = bf16[8] convert(t)")


REASSOCIATED = {
    "sum": two(SUM),
    "channels": two(SUM, first=f"channel_id=1, {GROUPS}", second=f"channel_id=2, {GROUPS}"),
    "maxima": two("ROOT s = f32[8] maximum(a, b)", by=("maximum", "maximum")),
    "chain": (*FOUR, "b = f32[8] add(a0, a1)", "c = f32[8] add(b, a2)", "ROOT d = f32[8] add(c, a3)"),
    "tree": (*FOUR, "b = f32[8] add(a0, a1)", "c = f32[8] add(a2, a3)", "ROOT d = f32[8] add(b, c)"),
    "one twice": (own(), all_reduce("a", "x"), "s = f32[8] add(a, a)", "ROOT c = f32[8] copy(s)"),
    "pads": two(PADS.format(value=0, size=12, more=4)),
    "reshapes": two(
        "c = f32[8] reshape(a)", "d = f32[8] reshape(b)", "ROOT s = f32[8] add(c, d)", dims="2,4"
    ),
    "slices": two(
        "c = f32[4] slice(a), slice={[0:4]}", "d = f32[4] slice(b), slice={[4:8]}", "ROOT s = f32[4] add(c, d)"
    ),
    "dynamic slices": sliced("8", "8", "8"),
    "keys": two(SUM, first=KEY.format("g"), second=KEY.format("g")),
}  # fmt: skip
NOT_REASSOCIATED = {
    "one by another op": two(SUM, by=("add", "maximum")),
    "both by another op": two(SUM, by=("maximum", "maximum")),
    "other groups": two(SUM, first=PAIRS),
    "one channel": two(SUM, first=f"channel_id=3, {GROUPS}"),
    "one of all devices": two(SUM, first=f"{PAIRS}, {GLOBAL}", second=f"{PAIRS}, channel_id=4"),
    "another use": two("s = f32[8] add(a, b)", "ROOT t = (f32[8], f32[8]) tuple(a, s)"),
    "pads of ones": two(PADS.format(value=1, size=12, more=4)),
    "pads that are larger": two(PADS.format(value=0, size=17, more=9)),
    "other keys": two(SUM, first=KEY.format("g"), second=KEY.format("h")),
    "one key": two(SUM, first=KEY.format("g")),
    "converts": converted("f32", "add", "add", "add"),
    "control dependences": two("ROOT s = f32[8] add(a, b), control-predecessors={a}"),
}


@pytest.mark.parametrize("lines", REASSOCIATED.values(), ids=REASSOCIATED)
def test_a_sum_of_all_reduces(lines: tuple[str, ...]):
    assert_leaves_with("reassociate-all-reduces", for_devices(*lines), all_reduce=1)


def test_dynamic_slices_of_arrays_of_other_sizes():
    assert_leaves_with("reassociate-all-reduces", for_devices(*sliced("8", "8", "16")), all_reduce=2)


@pytest.mark.parametrize("lines", NOT_REASSOCIATED.values(), ids=NOT_REASSOCIATED)
def test_all_reduces_that_stay_two(lines: tuple[str, ...]):
    assert_leaves("reassociate-all-reduces", for_devices(*lines))


def test_converted_all_reduces_are_merged_on_demand():
    after = assert_leaves_with(
        "reassociate-all-reduces(converts=1)", for_devices(*converted("f32", "add", "add", "add")), all_reduce=1
    )
    [merged] = [node for node in after.entry.nodes if node.opcode == "all-reduce"]
    assert str(merged.type) == "f32[8]"
    for lines in (converted("f32", "add", "maximum", "add"), converted("u32", "add", "add", "add")):
        assert_leaves("reassociate-all-reduces(converts=1)", for_devices(*lines))


def folded(first: str, second: str, *, by: str = "add") -> str:
    return for_devices(own(), all_reduce("a", "x", first), all_reduce("ROOT b", "a", second, by=by))


def test_an_all_reduce_of_an_all_reduce():
    for first, second in ((PAIRS, CROSS), (CROSS, PAIRS)):
        after = assert_leaves_with("fold-all-reduces", folded(first, second), all_reduce=1)
        assert str(after.entry.root.attributes["replica_groups"]) == "{{0,1,2,3}}"


def test_frontend_attributes_of_both():
    def with_attributes(one: str, other: str) -> dict[str, str]:
        texts = [f"frontend_attributes={{{text}}}" for text in (one, other)]
        after, _ = apply(hloom.parse(folded(f"{PAIRS}, {texts[0]}", f"{CROSS}, {texts[1]}")), "fold-all-reduces")
        return dict(after.entry.root.attributes.get("frontend_attributes") or ())

    assert with_attributes('a="1",b="2"', 'a="1",b="3"') == {"a": "1", "b": "2,3"}
    assert with_attributes('collective_group_key="g"', 'b="1"') == {"collective_group_key": "g", "b": "1"}
    assert with_attributes('collective_group_key="g"', 'collective_group_key="h"') == {}


def test_all_reduces_that_do_not_fold():
    for first, second, by in (
        (GROUPS, GROUPS, "add"), (GROUPS, CROSS, "add"), (f"{PAIRS}, channel_id=1", CROSS, "add"),
        (PAIRS, CROSS, "multiply"), (PAIRS, PAIRS, "add"),
    ):  # fmt: skip
        assert_leaves("fold-all-reduces", folded(first, second, by=by))


def test_maxima_may_be_taken_twice():
    text = for_devices(own(), all_reduce("a", "x", PAIRS, by="maximum"), all_reduce("ROOT b", "a", PAIRS, by="maximum"))
    assert_leaves_with("fold-all-reduces", text, all_reduce=1)


def test_a_chain_of_three():
    groups = ("{{0,1},{2,3},{4,5},{6,7}}", "{{0,2},{1,3},{4,6},{5,7}}", "{{0,4},{1,5},{2,6},{3,7}}")
    lines = [
        all_reduce(*step)
        for step in zip(("a", "b", "ROOT c"), "xab", [f"replica_groups={g}" for g in groups], strict=True)
    ]
    after = assert_leaves_with("fold-all-reduces", for_devices(own(), *lines, replicas=8), all_reduce=1)
    assert str(after.entry.root.attributes["replica_groups"]) == "{{0,1,2,3,4,5,6,7}}"


SHARED = ", parameter_replication={true}"


def test_all_reduces_of_what_all_replicas_share():
    text = for_devices(
        f"x = f32[8] parameter(0){SHARED}", own("y", "8", 1), f"z = s8[] parameter(2){SHARED}",
        all_reduce("a", "x"), all_reduce("b", "x", PAIRS), all_reduce("c", "x", by="maximum"), all_reduce("d", "y"),
        all_reduce("e", "d", by="add"), all_reduce("f", "z", dims="", element="s8"),
        "ROOT t = (f32[8], f32[8], f32[8], f32[8], s8[]) tuple(a, b, c, e, f)",
    )  # fmt: skip
    assert_leaves_with("simplify-all-reduces", text, all_reduce=1)


def test_all_devices_are_counted_by_the_header_alone():
    """Without it, nobody knows how many terms a sum of all of them has."""
    lines = (f"x = f32[8] parameter(0){SHARED}", all_reduce("ROOT a", "x"))
    counted = for_devices(*lines)
    assert apply(hloom.parse(counted), "simplify-all-reduces")[1].changed
    assert_leaves("simplify-all-reduces", counted.split("\n", 1)[1])
    assert_leaves("simplify-all-reduces", counted.replace("replica_count=4, num_partitions=1", "is_scheduled=true"))


@pytest.mark.parametrize("by", ["and", "or"])
def test_predicates_that_all_replicas_share(by: str):
    text = for_devices(f"x = pred[8] parameter(0){SHARED}", all_reduce("ROOT a", "x", by=by, element="pred"))
    after, _ = apply(hloom.parse(text), "simplify-all-reduces")
    assert after.entry.root.opcode == "parameter"


def test_all_reduces_of_what_differs_stay():
    for lines in (
        (own(), all_reduce("ROOT a", "x")),
        ("x = f32[8] parameter(0), parameter_replication={false}", all_reduce("ROOT a", "x")),
        (own(), all_reduce("a", "x", PAIRS), all_reduce("ROOT b", "a")),
        (f"x = f32[8] parameter(0){SHARED}", all_reduce("ROOT a", "x", f"{PAIRS}, {GLOBAL}")),
        (f"x = f32[8] parameter(0){SHARED}", all_reduce("ROOT a", "x", by="multiply")),
    ):
        assert_leaves("simplify-all-reduces", for_devices(*lines))


def test_values_of_calls_are_shared_where_nothing_inside_differs():
    for inside, left in (("negate(v)", 0), ("add(v, n)", 1)):
        called = f"f {{ v = f32[] parameter(0) d = u32[] replica-id() n = f32[] convert(d) ROOT r = f32[] {inside} }}"
        called = called if left else called.replace("d = u32[] replica-id() n = f32[] convert(d)", "")
        lines = (f"x = f32[] parameter(0){SHARED}", "c = f32[] call(x), to_apply=f", all_reduce("ROOT a", "c", dims=""))
        header, rest = for_devices(*lines).split("\n", 1)
        after, _ = apply(hloom.parse(f"{header}\n{called}\n{rest}"), "simplify-all-reduces")
        assert collectives(after)["all-reduce"] == left


def test_an_asynchronous_collective_of_one_device_goes():
    text = """HloModule m, replica_count=2
    f { p = f32[8] parameter(0) ROOT g = f32[8] all-gather(p), dimensions={0}, replica_groups={{0},{1}} }
    ENTRY e {
      p = f32[8] parameter(0)
      s = ((f32[8]), f32[8], u32[]) async-start(p), calls=f
      ROOT d = f32[8] async-done(s), calls=f
    }"""
    after, _ = apply(hloom.parse(text), "simplify-collectives")
    assert after.entry.root.opcode == "parameter"


TABLE = """t = s32[{count}] constant({{{numbers}}})
    r = u32[] {number}()
    i = s32[1] dynamic-slice(t, r), dynamic_slice_sizes={{1}}
    j = s32[] reshape(i)
    k = s32[] constant({size})
    at = s32[] multiply(j, k)"""
NUMBER = "r = u32[] {number}()\n j = s32[] convert(r)\n k = s32[] constant({size})\n at = s32[] multiply(j, k)"
RESULT = "z = s32[] constant(0)\nROOT s = f32[{dims}] dynamic-slice({source}, {at}), dynamic_slice_sizes={{{dims}}}"


def taken(
    start: str,
    whole: str = "16,6",
    part: str = "4,6",
    groups: str = GROUPS,
    *,
    along: int = 0,
    between: tuple[str, ...] = (),
    source: str = "a",
) -> tuple[str, ...]:
    """An all-reduce, and each device's part of it."""
    at = ", ".join("at" if dim == along else "z" for dim in range(part.count(",") + 1))
    last = RESULT.format(dims=part, source=source, at=at)
    return (own("x", whole), all_reduce("a", "x", groups, dims=whole), *between, start, last)


def table(numbers: str = "0,1,2,3", number: str = "replica-id", size: int = 4) -> str:
    return TABLE.format(numbers=numbers, number=number, size=size, count=numbers.count(",") + 1)


SCATTERED = {
    "table": taken(table()),
    "iota": taken(table().replace("constant({0,1,2,3})", "iota(), iota_dimension=0")),
    "number": taken(NUMBER.format(number="replica-id", size=4)),
    "last dimension": taken(NUMBER.format(number="replica-id", size=2), "16,8", "16,2", along=1),
    "reshape": taken(table(), "16,6", "4,3,2", between=("b = f32[16,3,2] reshape(a)",), source="b"),
    "reshape before": taken(
        NUMBER.format(number="replica-id", size=2), "6,8", "2,3,2", between=("b = f32[2,3,8] reshape(a)",), along=2,
        source="b",
    ),
    "groups": taken(table("1,0,0,1", size=8), "16,6", "8,6", "replica_groups={{1,0},{2,3}}"),
    "rest": taken(table("0,1,0,1", size=3), "7,2", "3,2", PAIRS),
    "subtraction": taken(
        table("0,0,16,16", size=1) + "\nc = s32[] convert(r)\ne = s32[] constant(8)\ng = s32[] multiply(c, e)"
        "\nf = s32[] subtract(g, at)", "16,6", "8,6", PAIRS,
    ),
    "tuple": taken(table(), between=("b = (f32[16,6], f32[16,6]) tuple(a, x)", "c = f32[16,6] get-tuple-element(b), index=0"), source="c"),
}  # fmt: skip
SCATTERED["subtraction"] = tuple(line.replace("(a, at,", "(a, f,") for line in SCATTERED["subtraction"])
NOT_SCATTERED = {
    "wrong table": taken(table("0,1,2,4")),
    "other order": taken(table("1,0,2,3")),
    "two users": (*taken(table())[:-1], "b = f32[16,6] negate(a)", RESULT.format(dims="4,6", source="a", at="at, z").replace("ROOT s", "s"), "ROOT u = (f32[16,6], f32[4,6]) tuple(b, s)"),
    "split dimension": taken(NUMBER.format(number="replica-id", size=2), "16,6", "2,2,6", between=("b = f32[2,8,6] reshape(a)",), along=1, source="b"),
    "given": taken("at = s32[] parameter(1)"),
    "others' groups": taken(table("0,1,0,1", size=8), "16,6", "8,6", "replica_groups={{0,1},{3,2}}"),
}  # fmt: skip


@pytest.mark.parametrize("lines", SCATTERED.values(), ids=SCATTERED)
def test_parts_of_an_all_reduce(lines: tuple[str, ...]):
    assert_leaves_with("create-reduce-scatters", for_devices(*lines), reduce_scatter=1)


@pytest.mark.parametrize("lines", NOT_SCATTERED.values(), ids=NOT_SCATTERED)
def test_parts_that_are_cut_after_all(lines: tuple[str, ...]):
    assert_leaves("create-reduce-scatters", for_devices(*lines))


PARTITIONED = {
    "all partitions": (taken(table(number="partition-id"), groups="replica_groups={{0},{1}}, channel_id=1"), 2),
    "devices": (taken(table(number="partition-id"), groups=f"replica_groups={{{{0,1,2,3}}}}, {GLOBAL}"), 1),
    "devices of two replicas": (
        taken(table("3,0,2,1", number="partition-id"), groups=f"replica_groups={{{{1,3,2,0}},{{5,7,6,4}}}}, {GLOBAL}"), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "replicas"), PARTITIONED.values(), ids=PARTITIONED)
def test_parts_by_partition(lines: tuple[str, ...], replicas: int):
    text = for_devices(*lines, replicas=replicas, partitions=4)
    after = assert_leaves_with("create-reduce-scatters", text, runs=False, reduce_scatter=1)
    [made] = [node for node in after.entry.nodes if node.opcode == "reduce-scatter"]
    assert made.attributes["use_global_device_ids"]
    other = text.replace("{5,7,6,4}", "{7,5,6,4}")
    if other != text:
        assert_leaves("create-reduce-scatters", other)


def test_parts_by_partition_through_xla():
    """XLA runs a partitioned program whose schedule is fixed."""
    lines = taken(table(number="partition-id"), groups=f"replica_groups={{{{0,1,2,3}}}}, {GLOBAL}")
    text = for_devices(*lines, replicas=1, partitions=4, header=", is_scheduled=true").replace(
        "replica-id", "partition-id"
    )
    assert_leaves_with("create-reduce-scatters", text, reduce_scatter=1)


SCATTER = "reduce-scatter({}), dimensions={{0}}, {}, to_apply={}_f32"
DIFFERENT = 'replica_groups={{}}, frontend_attributes={{_scheduling_group_id="{}"}}'


def scatters(
    first: str = GROUPS,
    second: str = GROUPS,
    by: tuple[str, str] = ("add", "add"),
    last: str = "ROOT s = f32[2] add(a, b)",
) -> tuple[str, ...]:
    return (
        own("x"), own("y", "8", 1), f"a = f32[2] {SCATTER.format('x', first, by[0])}",
        f"b = f32[2] {SCATTER.format('y', second, by[1])}", last,
    )  # fmt: skip


def test_sums_of_reduce_scatters():
    for lines in (
        scatters(),
        scatters(f"channel_id=1, {GROUPS}", f"channel_id=2, {GROUPS}"),
        scatters(KEY.format("g"), KEY.format("g")),
        (own(), f"a = f32[2] {SCATTER.format('x', GROUPS, 'add')}", "s = f32[2] add(a, a)", "ROOT c = f32[2] copy(s)"),
    ):
        assert_leaves_with("reassociate-all-reduces", for_devices(*lines), reduce_scatter=1)
    chain = [f"p{n} = f32[8] parameter({n})\na{n} = f32[2] {SCATTER.format(f'p{n}', GROUPS, 'add')}" for n in range(4)]
    for sums in (("s = f32[2] add(a0, a1)", "t = f32[2] add(s, a2)", "ROOT u = f32[2] add(t, a3)"),
                 ("s = f32[2] add(a0, a1)", "t = f32[2] add(a2, a3)", "ROOT u = f32[2] add(s, t)")):  # fmt: skip
        assert_leaves_with("reassociate-all-reduces", for_devices(*chain, *sums), reduce_scatter=1)


def test_a_schedule_that_only_one_has_is_dropped():
    text = for_devices(*scatters(DIFFERENT.format("0")))
    after = assert_leaves_with("reassociate-all-reduces", text, reduce_scatter=1)
    assert "frontend_attributes" not in after.entry.root.attributes


def test_reduce_scatters_that_stay_two():
    for lines in (
        scatters(f"{GROUPS}, constrain_layout=true", f"{GROUPS}, constrain_layout=true"),
        scatters(by=("add", "maximum")), scatters(by=("maximum", "maximum")),
        scatters(f"channel_id=3, {GROUPS}"), scatters(KEY.format("g"), KEY.format("h")), scatters(KEY.format("g")),
        scatters("replica_groups={{0,1,2,3}}", "replica_groups={{3,2,1,0}}"),
        scatters("replica_groups={{0,1,2,3}}, channel_id=3, use_global_device_ids=true", "replica_groups={{0,1,2,3}}, channel_id=4"),
        scatters(DIFFERENT.format("0"), DIFFERENT.format("1")),
        scatters(last="s = f32[2] add(a, b)\nROOT t = (f32[2], f32[2]) tuple(a, s)"),
    ):  # fmt: skip
        assert_leaves("reassociate-all-reduces", for_devices(*lines))
    dims = [
        f"p{n} = f32[8,8] parameter({n})\na{n} = f32[8,8] reduce-scatter(p{n}), dimensions={{{n}}}, replica_groups={{{{0}}}}, to_apply=add_f32"
        for n in range(2)
    ]
    assert_leaves("reassociate-all-reduces", for_devices(*dims, "ROOT s = f32[8,8] add(a0, a1)", replicas=1))


def exchanged(first: str, second: str, by: str = "add", part: int = 4) -> str:
    return for_devices(own(), all_reduce("a", "x", first), f"ROOT s = f32[{part}] {SCATTER.format('a', second, by)}")


def test_a_reduce_scatter_of_an_all_reduce():
    after = assert_leaves_with("create-reduce-scatters", exchanged(PAIRS, CROSS), all_reduce=1, reduce_scatter=1)
    assert str(after.entry.root.type) == "f32[4]" and after.entry.root.opcode == "all-reduce"


def test_reduce_scatters_of_all_reduces_that_stay():
    for text in (
        exchanged(GROUPS, GROUPS, part=2), exchanged(PAIRS, CROSS, "multiply"), exchanged(PAIRS, PAIRS),
        exchanged(PAIRS, "replica_groups={{0,2},{3,1}}"),
        for_devices(
            own(), all_reduce("a", "x", PAIRS), f"s = f32[4] {SCATTER.format('a', CROSS, 'add')}",
            "ROOT t = (f32[8], f32[4]) tuple(a, s)",
        ),
    ):  # fmt: skip
        assert_leaves("create-reduce-scatters", text)


def test_what_each_device_gave_is_what_it_takes():
    gather = "a = f32[16,6] all-gather(x), dimensions={0}, replica_groups={{0,1,2,3}}, channel_id=1, use_global_device_ids=true"
    last = RESULT.format(dims="4,6", source="a", at="at, z")
    after, _ = apply(
        hloom.parse(for_devices(own("x", "4,6"), gather, table(), last)), ["create-reduce-scatters", "dce"]
    )
    assert not collectives(after)
    plain = gather.replace(f", {GLOBAL}", "")
    assert plain != gather
    assert_leaves_with("simplify-collectives", for_devices(own("x", "4,6"), plain, table(), last))
    for other in (table("1,0,2,3"), table(size=3)):
        assert_leaves("create-reduce-scatters", for_devices(own("x", "4,6"), gather, other, last))
    smaller = RESULT.format(dims="3,6", source="a", at="at, z")
    assert_leaves("create-reduce-scatters", for_devices(own("x", "4,6"), gather, table(size=3), smaller))


def gathered(dims: str, wide: str, at: str, made: str, along: int) -> tuple[str, ...]:
    last = f"ROOT g = f32[{made}] all-gather(b), dimensions={{{along}}}, replica_groups={{{{0,1,2,3}}}}"
    return (own("x", dims), f"b = f32[{wide}] broadcast(x), dimensions={{{at}}}", last)


GATHERED = {
    "along what is read": gathered("8,5", "5,2,8", "2,0", "5,2,32", 2),
    "along what repeats": gathered("8,5", "5,2,8", "2,0", "5,8,8", 1),
    "a number": gathered("", "2,3", "", "8,3", 0),
    "first": gathered("8", "1,2,8", "2", "4,2,8", 0),
}


@pytest.mark.parametrize("lines", GATHERED.values(), ids=GATHERED)
def test_what_is_broadcast_is_gathered_before(lines: tuple[str, ...]):
    after = assert_leaves_with("reorder-all-gathers", for_devices(*lines), all_gather=1)
    [gather] = [node for node in after.entry.nodes if node.opcode == "all-gather"]
    assert gather.operands[0].opcode != "broadcast"


def test_what_is_not_broadcast_is_gathered_as_it_is():
    last = "ROOT g = f32[32] all-gather(x), dimensions={0}, replica_groups={{0,1,2,3}}"
    assert_leaves("reorder-all-gathers", for_devices(own(), last))


def test_numbers_of_devices_that_nobody_can_count():
    lines = taken(table())
    for header in ("replica_count=4000000", "replica_count=4, num_partitions=100000000"):
        text = for_devices(*lines).replace("replica_count=4, num_partitions=1", header)
        assert_leaves("create-reduce-scatters", text)


def test_options_that_are_none():
    with pytest.raises(HloomError, match="converts is 0 or 1, not 'many'"):
        apply(hloom.parse(for_devices(*two(SUM))), "reassociate-all-reduces(converts=many)")


def random_collectives(random: Random) -> str:
    """A program of four replicas: elementwise ops, all-reduces in random groups, reshapes, slices and pads of them."""
    lines = [own("x"), own("y", "8", 1), "k = f32[] constant(0)", "d = u32[] replica-id()", "n = s32[] convert(d)"]
    lines += ["two = s32[] constant(2)", "at = s32[] multiply(n, two)"]
    values = ["x", "y"]
    for number in range(12):
        name, one, other = f"v{number}", random.choice(values[-4:]), random.choice(values[-4:])
        match random.choice(("reduce", "reduce", "add", "add", "maximum", "around", "part", "pad")):
            case "reduce":
                groups = random.choice((GROUPS, PAIRS, CROSS, "replica_groups={{0},{1},{2},{3}}"))
                lines.append(all_reduce(name, one, groups, by=random.choice(("add", "add", "maximum"))))
            case "around":
                lines += [f"{name}.a = f32[2,4] reshape({one})", f"{name} = f32[8] reshape({name}.a)"]
            case "part":
                lines += [
                    f"{name}.a = f32[2] dynamic-slice({one}, at), dynamic_slice_sizes={{2}}",
                    f"{name} = f32[8] all-gather({name}.a), dimensions={{0}}, replica_groups={{{{0,1,2,3}}}}",
                ]
            case "pad":
                lines += [
                    f"{name}.a = f32[4] slice({one}), slice={{[2:6]}}",
                    f"{name} = f32[8] pad({name}.a, k), padding=1_3",
                ]
            case opcode:
                lines.append(f"{name} = f32[8] {opcode}({one}, {other})")
        values.append(name)
    lines.append(f"ROOT t = (f32[8], f32[8], f32[8]) tuple({', '.join(values[-3:])})")
    return for_devices(*lines)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int):
    before = hloom.parse(random_collectives(Random(seed)))
    after, report = apply(before, "simplify-collectives")
    verify(after)
    again, second = apply(after, "simplify-collectives")
    assert not second.changed and hloom.equal(after, again)
    if report.changed:
        expected = run(before, seed=seed)
        for one, other in zip(expected.per_device, run(after, expected.inputs).per_device, strict=True):
            for left, right in zip(one, other, strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4)
