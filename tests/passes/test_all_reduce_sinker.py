"""All-reduces that run once, after a loop (`all_reduce_sinker.py`); restates while_loop_all_reduce_code_motion_test.cc.

Each of four replicas has numbers of its own. What the devices have in common is found by `replication.py`.
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
from tests.passes.computations import computation

STATE = "(s32[], f32[6,4], f32[{dims}], f32[{dims}])"
LOOP = """HloModule m, replica_count=4
{add}{maximum}
cond {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  l = s32[] constant({rounds})
  {asked} ROOT p = pred[] compare(i, l), direction=LT }}
body {{
  s = {state} parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[6,4] get-tuple-element(s), index=1
  a = f32[{dims}] get-tuple-element(s), index=2
  b = f32[{dims}] get-tuple-element(s), index=3
  o = s32[] constant(1)
  n = s32[] add(i, o)
  y = f32[6,4] cosine(x)
{lines}
  ROOT t = {state} tuple(n, y, {results})
}}
ENTRY e {{
  d = u32[] replica-id()
  f = f32[] convert(d)
  g = f32[6,4] broadcast(f), dimensions={{}}
  x = f32[6,4] parameter(0)
  z = f32[6,4] add(x, g)
  c = f32[{dims}] {start}
  k = s32[] constant(0)
  i = {state} tuple(k, z, c, c)
  w = {state} while(i), condition=cond, body=body
  {last}
}}
"""
REDUCED = "  r = f32[6,4] all-reduce(y), replica_groups={}, to_apply=add_f32\n"
ONE = REDUCED + "  q = f32[6,4] add(a, r)"


def loop(
    lines: str = ONE,
    results: str = "q, b",
    *,
    dims: str = "6,4",
    start: str = "parameter(1)",
    last: str = "ROOT v = f32[6,4] get-tuple-element(w), index=2",
    rounds: int = 3,
    asked: str = "",
) -> str:
    return LOOP.format(
        state=STATE.format(dims=dims), dims=dims, lines=lines, results=results, start=start, last=last, rounds=rounds,
        asked=asked, add=computation("add", "f32"), maximum=computation("maximum", "f32"),
    )  # fmt: skip


def all_reduces(module: Module) -> Counter[str]:
    return Counter(graph.name for graph in module.graphs for node in graph.nodes if node.opcode == "all-reduce")


def assert_sinks(text: str, count: int) -> Module:
    before = hloom.parse(text)
    verify(before)
    after, report = apply(before, "sink-all-reduces")
    verify(after)
    assert report.changed and all_reduces(after) == {"e": count}
    assert not apply(after, "sink-all-reduces")[1].changed
    expected = run(before, seed=2)
    for one, other in zip(
        expected.per_device, run(hloom.parse(hloom.print(after)), expected.inputs).per_device, strict=True
    ):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)
    return after


HALVES = "".join(
    f"  {name}.s = f32[3,4] slice(r), slice={{[{at}:{at + 3}], [0:4]}}\n  {name}.t = f32[4,3] transpose({name}.s), dimensions={{1,0}}\n"
    f"  {name} = f32[4,3] add({old}, {name}.t)\n"
    for name, old, at in (("q", "a", 0), ("u", "b", 3))
)  # fmt: skip
GET = "ROOT v = f32[{}] get-tuple-element(w), index=2"
PADDED = REDUCED + "  zero = f32[] constant(0)\n  h = f32[8,8] pad(r, zero), padding=0_2x0_4\n  q = f32[8,8] add(a, h)"
OFFSET = """  g = s32[4] constant({0, 0, 2, 2})
  d = u32[] replica-id()
  e = s32[1] dynamic-slice(g, d), dynamic_slice_sizes={1}
  f = s32[] reshape(e)
  o.s = s32[] add(f, o)
"""
SLICED = (
    OFFSET
    + REDUCED
    + """  h = f32[1,6,4] reshape(r)
  zero = s32[] constant(0)
  s.a = f32[1,6,4] dynamic-slice(a, o.s, zero, zero), dynamic_slice_sizes={1,6,4}
  j = f32[1,6,4] add(h, s.a)
  q = f32[3,6,4] dynamic-update-slice(a, j, o.s, zero, zero)
"""
)
SELECTED = (
    REDUCED
    + """  k = pred[] compare(i, o), direction=EQ
  j = pred[6,4] broadcast(k), dimensions={}
  zero = f32[] constant(0)
  z = f32[6,4] broadcast(zero), dimensions={}
  h = f32[6,4] select(j, z, r)
  q = f32[6,4] add(a, h)
"""
)
SUNK = {
    "a sum": loop(),
    "the other way": loop(REDUCED + "  q = f32[6,4] add(r, a)"),
    "from zero": loop(start="broadcast(zero), dimensions={}").replace("  d = u32", "  zero = f32[] constant(0)\n  d = u32"),
    "reshaped": loop(
        REDUCED + "  h = f32[24] reshape(r)\n  q = f32[24] add(a, h)", dims="24", last=GET.format("24")
    ),
    "used twice": loop(last="v = f32[6,4] get-tuple-element(w), index=2\n  u = f32[6,4] get-tuple-element(w), index=2\n  ROOT j = f32[6,4] add(u, v)"),
    "no round": loop(rounds=0).replace("l = s32[] constant(0)", "l = s32[] constant(-1)"),
    "groups": loop(ONE.replace("replica_groups={}", "replica_groups={{0,2},{1,3}}")),
    "larger, but in fewer rounds": loop(PADDED, dims="8,8", last=GET.format("8,8")),
    "a slice that each round adds to": loop(
        SLICED.replace(OFFSET, "  o.s = s32[] copy(i)\n"), dims="3,6,4", last=GET.format("3,6,4"), rounds=4
    ),
    "a slice by a table of devices": loop(
        SLICED.replace("replica_groups={}", "replica_groups={{0,1},{2,3}}"), dims="3,6,4", last=GET.format("3,6,4"), rounds=4
    ),
    "selected in some rounds": loop(SELECTED),
    "selected in other rounds": loop(SELECTED.replace("select(j, z, r)", "select(j, r, z)")),
}  # fmt: skip
STAYS = {
    "maximum": loop(ONE.replace("add_f32", "maximum_f32")),
    "multiplied": loop(REDUCED + "  q = f32[6,4] multiply(a, r)"),
    "read in the body": loop(ONE + "\n  h = f32[6,4] add(a, b)", "q, h"),
    "reduced value is read": loop(ONE + "\n  h = f32[6,4] negate(r)", "q, h"),
    "sum is read": loop(ONE + "\n  h = f32[6,4] negate(q)", "q, h"),
    "added twice": loop(REDUCED + "  q = f32[6,4] add(r, r)"),
    "to another element": loop(REDUCED + "  q = f32[6,4] add(b, r)", "q, a"),
    "larger after than before": loop(PADDED, dims="8,8", last=GET.format("8,8"), rounds=2),
    "a slice elsewhere": loop(SLICED.replace("add(h, s.a)", "add(h, h)"), dims="3,6,4", last=GET.format("3,6,4")),
    "a slice in another place": loop(
        SLICED.replace("dynamic-slice(a, o.s", "dynamic-slice(a, i"), dims="3,6,4", last=GET.format("3,6,4")
    ),
    "a slice where the devices differ": loop(
        SLICED.replace("replica_groups={}", "replica_groups={{0,2},{1,3}}"), dims="3,6,4", last=GET.format("3,6,4")
    ),
    "a slice in a place that is computed": loop(
        SLICED.replace(OFFSET, "  k = f32[1,1] slice(y), slice={[0:1], [0:1]}\n  l = f32[] reshape(k)\n  o.s = s32[] convert(l)\n"),
        dims="3,6,4", last=GET.format("3,6,4"),
    ),
    "selected by what each has": loop(SELECTED.replace("compare(i, o)", "compare(x, y)").replace("pred[]", "pred[6,4]", 1).replace("broadcast(k), dimensions={}", "copy(k)")),
    "selected or one": loop(SELECTED.replace("zero = f32[] constant(0)", "zero = f32[] constant(1)")),
    "read by the condition": loop(asked="v = f32[6,4] get-tuple-element(s), index=2"),
    "control dependences": loop(ONE.replace("to_apply", "control-predecessors={i}, to_apply")),
    "one round": loop(rounds=1),
}  # fmt: skip


@pytest.mark.parametrize("text", SUNK.values(), ids=SUNK)
def test_a_sum_of_all_reduces(text: str):
    assert_sinks(text, 1)


@pytest.mark.parametrize("text", STAYS.values(), ids=STAYS)
def test_all_reduces_that_stay_in_their_loop(text: str):
    before = hloom.parse(text)
    verify(before)
    after, report = apply(before, "sink-all-reduces")
    assert not report.changed and hloom.equal(before, after)


def test_parts_of_one_all_reduce():
    both = "v = f32[4,3] get-tuple-element(w), index=2\n  u = f32[4,3] get-tuple-element(w), index=3\n  ROOT j = f32[4,3] add(u, v)"
    assert_sinks(loop(REDUCED + HALVES, "q, u", dims="4,3", last=both), 2)


def test_a_loop_that_is_the_result():
    after = assert_sinks(loop(last="").replace("  w = (s32[]", "  ROOT w = (s32[]"), 1)
    assert after.entry.root.opcode == "tuple"


def test_narrow_values_are_summed_up_in_the_type_of_the_sum():
    narrow = """
  h = bf16[6,4] convert(y)
  r = bf16[6,4] all-reduce(h), replica_groups={}, to_apply=add_bf16
  v = f32[6,4] convert(r)
  q = f32[6,4] add(a, v)"""
    text = loop(narrow).replace("add_f32 {", computation("add", "bf16") + "add_f32 {", 1)
    before = hloom.parse(text)
    after, _ = apply(before, "sink-all-reduces")
    verify(after)
    [reduced] = [node for node in after.entry.nodes if node.opcode == "all-reduce"]
    assert str(reduced.type) == "f32[6,4]"
    expected = run(before, seed=2)
    for one, other in zip(expected.per_device, run(after, expected.inputs).per_device, strict=True):
        np.testing.assert_allclose(one[0], other[0], rtol=0.02, atol=0.02)
    lossy = text.replace("f32[6,4] convert(r)", "f16[6,4] convert(r)\n  vv = f32[6,4] convert(v)").replace(
        "add(a, v)", "add(a, vv)"
    )
    assert not apply(hloom.parse(lossy), "sink-all-reduces")[1].changed


@pytest.mark.parametrize("seed", range(6))
def test_random_sums(seed: int):
    """What becomes of the all-reduce, its groups and what the sum begins with are drawn."""
    random = Random(seed)
    lines, value, dims = REDUCED, "r", (6, 4)
    for number in range(random.randint(0, 4)):
        made = f"v{number}"
        match random.choice(("reshape", "transpose", "slice")):
            case "reshape":
                dims = (dims[0] * dims[1], 1) if random.random() < 0.5 else (dims[1], dims[0])
                step = f"reshape({value})"
            case "transpose":
                dims = dims[::-1]
                step = f"transpose({value}), dimensions={{1,0}}"
            case _:
                dims = (max(dims[0] - 1, 1), dims[1])
                step = f"slice({value}), slice={{[0:{dims[0]}], [0:{dims[1]}]}}"
        lines += f"  {made} = f32[{dims[0]},{dims[1]}] {step}\n"
        value = made
    shape = f"{dims[0]},{dims[1]}"
    lines += f"  q = f32[{shape}] add({', '.join(random.sample(['a', value], 2))})"
    groups = random.choice(("{}", "{{0,1},{2,3}}", "{{0,2},{1,3}}", "{{0,1,2,3}}"))
    start = random.choice(("parameter(1)", "broadcast(f), dimensions={}"))
    text = loop(
        lines.replace("{}", groups, 1), dims=shape, last=GET.format(shape), start=start, rounds=random.randint(2, 4)
    )
    assert_sinks(text, 1)


@pytest.mark.parametrize("seed", range(8))
def test_random_places_of_slices(seed: int):
    """It is sunk where the devices of each group add to the same slice in every round, and only there."""
    random = Random(seed)
    groups = random.choice(([[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 1, 2, 3]], [[3, 0], [1, 2]]))
    table = [random.randrange(3) for _ in range(4)]
    if random.random() < 0.6:
        for group in groups:
            for device in group:
                table[device] = table[group[0]]
    factor = random.choice(("i", "o", "n"))
    lines = SLICED.replace("{0, 0, 2, 2}", f"{{{', '.join(map(str, table))}}}").replace(
        "add(f, o)", f"add(f, {factor})"
    )
    written = ",".join(f"{{{','.join(map(str, group))}}}" for group in groups)
    text = loop(
        lines.replace("replica_groups={}", f"replica_groups={{{written}}}"), dims="3,6,4", last=GET.format("3,6,4"),
        rounds=random.randint(3, 5),
    )  # fmt: skip
    if all(min(table[device], 2) == min(table[group[0]], 2) for group in groups for device in group):
        assert_sinks(text, 1)
    else:
        assert not apply(hloom.parse(text), "sink-all-reduces")[1].changed


SCATTERED = "  r = f32[{dims}] reduce-scatter(y), replica_groups={groups}, dimensions={{{dim}}}, to_apply=add_f32\n"


@pytest.mark.parametrize("start", ["parameter(1)", "broadcast(f), dimensions={}"])
@pytest.mark.parametrize(
    "dims, dim, groups", [("6,1", 1, "{}"), ("6,2", 1, "{{0,1},{2,3}}"), ("3,4", 0, "{{0,2},{3,1}}")]
)
def test_reduce_scatters_on_demand(dims: str, dim: int, groups: str, start: str):
    lines = SCATTERED.format(dims=dims, dim=dim, groups=groups) + f"  q = f32[{dims}] add(r, a)"
    for result, last in (("w = (s32[]", GET.format(dims)), ("ROOT w = (s32[]", "")):
        text = loop(lines, dims=dims, start=start, last=last).replace("w = (s32[]", result)
        before = hloom.parse(text)
        verify(before)
        assert not apply(before, "sink-all-reduces")[1].changed
        after, _ = apply(before, "sink-all-reduces(scatters=1)")
        verify(after)
        [scatter] = [node for node in after.nodes() if node.opcode == "reduce-scatter"]
        assert scatter.graph is after.entry and str(scatter.type) == f"f32[{dims}]"
        assert not apply(after, "sink-all-reduces(scatters=1)")[1].changed
        expected = run(before, seed=2)
        for one, other in zip(
            expected.per_device, run(hloom.parse(hloom.print(after)), expected.inputs).per_device, strict=True
        ):
            for left, right in zip(one, other, strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        loop(SCATTERED.format(dims="6,1", dim=1, groups="{}") + "  q = f32[6,1] multiply(a, r)", dims="6,1", last=""),
        loop(
            SCATTERED.format(dims="6,1", dim=1, groups="{}") + "  h = f32[6,1] negate(r)\n  q = f32[6,1] add(a, h)",
            dims="6,1", last="",
        ),
        loop(
            SCATTERED.format(dims="6,1", dim=1, groups="{}").replace("add_f32", "maximum_f32") + "  q = f32[6,1] add(a, r)",
            dims="6,1", last="",
        ),
    ],
    ids=["multiplied", "negated", "maximum"],
)  # fmt: skip
def test_reduce_scatters_that_stay(text: str):
    text = text.replace("  w = (s32[]", "  ROOT w = (s32[]")
    assert not apply(hloom.parse(text), "sink-all-reduces(scatters=1)")[1].changed


def test_what_scatters_is():
    with pytest.raises(hloom.HloomError, match="sink-all-reduces: scatters is 0 or 1, not 'many'"):
        apply(hloom.parse(loop()), "sink-all-reduces(scatters=many)")


def test_loops_in_loops():
    """The sum of an inner loop's all-reduce is summed up outside: one all-reduce is left, after both."""
    inner = loop(last="v = f32[6,4] get-tuple-element(w), index=2")
    head, rest = inner.split("ENTRY e {", 1)
    whole = STATE.format(dims="6,4")
    lines = f"""
        j = s32[] constant(0)
        zero = f32[] constant(0)
        c = f32[6,4] broadcast(zero), dimensions={{}}
        k = {whole} tuple(j, x, c, c)
        w = {whole} while(k), condition=cond, body=body
        v = f32[6,4] get-tuple-element(w), index=2
        q = f32[6,4] add(a, v)"""
    outer = loop(lines).split("cond {", 1)[1]
    outer = (
        ("cond.1 {" + outer)
        .replace("\nbody {", "\nbody.1 {")
        .replace("while(i), condition=cond, body=body", "while(i), condition=cond.1, body=body.1")
    )
    assert rest
    assert_sinks(head + outer, 1)
