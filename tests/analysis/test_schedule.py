"""The order of instructions: as written, or the list schedule, which frees memory first."""

from __future__ import annotations

from hloom.analysis import as_written
from hloom.analysis.schedule import _ListSchedule, list_schedule
from hloom.formats.hlo import parse
from hloom.ir import Graph, operands_of

TWO_CHAINS = """ENTRY e {
  x = f32[] parameter(0)
  a = f32[64] broadcast(x), dimensions={}
  b = f32[64] broadcast(x), dimensions={}
  c = f32[] constant(1)
  s = f32[2] slice(a), slice={[0:2]}
  t = f32[2] slice(b), slice={[0:2]}
  ROOT r = f32[2] add(s, t)
}"""


def names(graph: Graph, scheduler) -> list[str]:
    return [node.name for node in scheduler(graph)]


def test_the_order_of_the_text():
    assert names(parse(TWO_CHAINS).entry, as_written) == ["x", "a", "b", "c", "s", "t", "r"]


def test_what_frees_memory_runs_first():
    """One large array at a time: the first is sliced before the second is made."""
    order = names(parse(TWO_CHAINS).entry, list_schedule)
    assert sorted(order) == sorted(names(parse(TWO_CHAINS).entry, as_written))
    assert order.index("s") < order.index("b") or order.index("t") < order.index("a")
    assert order[-1] == "r"


def test_operands_and_control_predecessors_come_first():
    waiting = "slice={[0:2]}, control-predecessors={b}\n  t"
    graph = parse(TWO_CHAINS.replace("slice={[0:2]}\n  t", waiting)).entry
    position = {node: index for index, node in enumerate(list_schedule(graph))}
    for node in graph.nodes:
        before = node.attributes.get("control-predecessors") or ()
        assert all(position[operand] < position[node] for operand in (*node.operands, *before))


def test_other_names_of_a_value_take_no_memory_of_their_own():
    """Barriers, domains, dependencies, tuples and views: what ends the life of their operand still frees it."""
    text = """ENTRY e {
  x = f32[64] parameter(0)
  a = f32[64] negate(x)
  token = token[] after-all()
  d = f32[64] add-dependency(a, token)
  m = f32[64] domain(d), domain={kind="sharding", entry={replicated}, exit={replicated}}
  b = f32[64] opt-barrier(m)
  v = f32[8,8] bitcast(b)
  w = f32[64] reshape(v)
  t = (f32[64]) tuple(w)
  ROOT g = f32[64] get-tuple-element(t), index=0
}"""
    schedule = _ListSchedule(parse(text).entry.nodes, operands_of)
    assert [schedule.sizes[number] for number in range(10) if number != 2] == [0, 256, *[0] * 7]
