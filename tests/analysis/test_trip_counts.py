"""How often loops run: each form of loop, as text."""

from __future__ import annotations

import pytest

from hloom.analysis import cost
from hloom.analysis.call_graph import build_call_graph
from hloom.analysis.scalar_evolution import ScalarEvolution
from hloom.analysis.trip_counts import WRITTEN, TripCount, derive_trip_count, find_trip_counts, runs
from hloom.formats.hlo import parse
from hloom.ir import Apply, Module
from hloom.text import HloomError
from tests.corpus import lowered


def module_of(
    *,
    start: str = "s32[] constant(0)",
    step: str = "add(i, one)",
    one: str = "1",
    bound: str = "s32[] constant(10)",
    asked: str = "compare(i, n), direction=LT",
    dtype: str = "s32",
    config: str = "",
) -> Module:
    """A loop over (counter, array, bound), its bound passed through the state."""
    state = f"({dtype}[], f32[4], {dtype}[])"
    start, bound = start.replace("s32", dtype), bound.replace("s32", dtype)
    return parse(f"""
body {{
  t = {state} parameter(0)
  i = {dtype}[] get-tuple-element(t), index=0
  x = f32[4] get-tuple-element(t), index=1
  n = {dtype}[] get-tuple-element(t), index=2
  one = {dtype}[] constant({one})
  j = {dtype}[] {step}
  y = f32[4] tanh(x)
  ROOT r = {state} tuple(j, y, n)
}}
condition {{
  t = {state} parameter(0)
  i = {dtype}[] get-tuple-element(t), index=0
  n = {dtype}[] get-tuple-element(t), index=2
  five = {dtype}[] constant(5)
  ROOT c = pred[] {asked}
}}
ENTRY main {{
  x = f32[4] parameter(0)
  given = {dtype}[] parameter(1)
  sixteen = {dtype}[] constant(16)
  start = {start}
  bound = {bound}
  t = {state} tuple(start, x, bound)
  ROOT loop = {state} while(t), condition=condition, body=body{config}
}}
""")


def trips(module: Module) -> TripCount:
    (trip_count,) = find_trip_counts(build_call_graph(module), {}).values()
    return trip_count


@pytest.mark.parametrize(
    ("parts", "count"),
    [
        ({}, 10),
        ({"asked": "compare(i, n), direction=LE"}, 11),
        ({"asked": "compare(n, i), direction=GT"}, 10),
        ({"asked": "compare(n, i), direction=GE"}, 11),
        ({"asked": "compare(i, n), direction=NE"}, 10),
        ({"asked": "compare(i, n), direction=EQ"}, 0),
        ({"asked": "compare(i, i), direction=LT"}, 0),
        ({"asked": "compare(i, n), direction=EQ", "bound": "s32[] constant(0)"}, 1),
        ({"one": "3"}, 4),
        ({"one": "3", "asked": "compare(i, n), direction=NE"}, None),
        ({"start": "s32[] constant(4)"}, 6),
        ({"start": "s32[] constant(10)"}, 0),
        ({"start": "s32[] constant(10)", "bound": "s32[] constant(0)", "step": "subtract(i, one)", "asked": "compare(i, n), direction=GT"}, 10),
        ({"start": "s32[] constant(10)", "bound": "s32[] constant(0)", "one": "-2", "asked": "compare(i, n), direction=GE"}, 6),
        ({"start": "s32[] constant(10)", "bound": "s32[] constant(0)", "one": "-1", "asked": "compare(i, n), direction=NE"}, 10),
        ({"step": "add(one, i)"}, 10),
        ({"step": "add(i, n)"}, 1),
        ({"step": "add(i, i)"}, None),
        ({"step": "multiply(i, one)", "one": "2"}, None),
        ({"one": "0"}, None),
        ({"one": "-1"}, None),
        ({"asked": "compare(i, five), direction=LT"}, 5),
        ({"bound": "s32[] copy(given)"}, None),
        ({"start": "s32[] copy(given)"}, None),
        ({"start": "s32[] copy(given)", "bound": "s32[] add(given, sixteen)"}, 16),
        ({"bound": "s32[] copy(sixteen)"}, 16),
        ({"bound": "s32[] multiply(sixteen, sixteen)"}, 256),
        ({"bound": "s32[] minimum(sixteen, sixteen)"}, 16),
        ({"dtype": "u32"}, 10),
        ({"dtype": "s64", "bound": "s32[] constant(5000000000)"}, 5_000_000_000),
        ({"dtype": "s8", "bound": "s32[] constant(127)", "asked": "compare(i, n), direction=LE"}, None),
        ({"dtype": "f32"}, None),
    ],
)  # fmt: skip
def test_forms_of_loops(parts: dict[str, str], count: int | None):
    assert trips(module_of(**parts)) == TripCount(count, "unknown" if count is None else "derived")


def test_what_the_text_says_is_believed():
    config = """, backend_config={"known_trip_count":{"n":"7"},"other":{}}"""
    assert trips(module_of(config=config)) == TripCount(7, "known_trip_count")
    assert trips(module_of(config=config.replace("7", "-1"))) == TripCount(10, "derived")
    assert trips(module_of(config=', backend_config={"known_trip_count":{}}')) == TripCount(10, "derived")


def test_what_the_caller_says_comes_first():
    module = module_of()
    body = cost(module, trip_counts={"loop": 1}).total.flops - cost(module, trip_counts={"loop": 0}).total.flops
    assert cost(module, trip_counts={"loop": 100}).total.flops == 100 * body + 1
    assert cost(module, trip_counts={"main/loop": 5}).loops[0].source == "given"


def test_a_name_that_no_loop_has_is_refused():
    with pytest.raises(HloomError, match="the program has no loop 'lop'") as caught:
        cost(module_of(), trip_counts={"lop": 3})
    assert caught.value.hint == "near: loop"
    with pytest.raises(HloomError, match="cannot run -1 times"):
        cost(module_of(), trip_counts={"loop": -1})


def test_loops_whose_data_decide_run_as_often_as_one_says():
    module = module_of(bound="s32[] copy(given)")
    once, tenfold = cost(module), cost(module, unknown_trips=10)
    assert [loop.name for loop in once.unknown_loops] == ["loop"]
    assert once.total == once.total_once + _condition(once)
    assert tenfold.total.transcendentals == 10 * once.total.transcendentals


def _condition(report):
    """What asking the condition a last time costs."""
    (condition,) = [node_cost.own for node_cost in report.per_node if node_cost.node.name == "c"]
    return condition


def test_the_condition_is_asked_once_more_than_the_body_runs():
    report = cost(module_of())
    times = {node_cost.node.name: node_cost.times.flops for node_cost in report.per_node}
    assert (times["y"], times["c"], times["loop"]) == (10, 11, 1)


NESTED = """
inner_body {
  t = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  x = f32[4] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4] negate(x)
  ROOT r = (s32[], s32[], f32[4]) tuple(j, n, y)
}
inner_condition {
  t = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  ROOT c = pred[] compare(i, n), direction=LT
}
outer_body {
  t = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  x = f32[4] get-tuple-element(t), index=2
  zero = s32[] constant(0)
  s = (s32[], s32[], f32[4]) tuple(BEGIN, n, x)
  inner = (s32[], s32[], f32[4]) while(s), condition=inner_condition, body=inner_body
  y = f32[4] get-tuple-element(inner), index=2
  two = s32[] constant(2)
  j = s32[] add(i, two)
  m = s32[] get-tuple-element(inner), index=1
  ROOT r = (s32[], s32[], f32[4]) tuple(j, m, y)
}
outer_condition {
  t = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  d = pred[] compare(i, n), direction=GE
  ROOT c = pred[] not(d)
}
ENTRY main {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  n = s32[] constant(6)
  t = (s32[], s32[], f32[4]) tuple(zero, n, x)
  first = (s32[], s32[], f32[4]) while(t), condition=outer_condition, body=outer_body
  k = s32[] get-tuple-element(first), index=1
  y = f32[4] get-tuple-element(first), index=2
  u = (s32[], s32[], f32[4]) tuple(zero, k, y)
  ROOT second = (s32[], s32[], f32[4]) while(u), condition=inner_condition, body=inner_body
}
"""


def test_nested_loops_multiply_and_a_bound_goes_through_both():
    report = cost(
        parse(
            NESTED.replace("BEGIN", "zero").replace("while(u), condition=inner_condition, body=inner_body", "copy(u)")
        )
    )
    assert {loop.name: loop.trips for loop in report.loops} == {"inner": 6, "first": 3}
    (negate,) = [node_cost for node_cost in report.per_node if node_cost.node.opcode == "negate"]
    assert negate.total.flops == 3 * 6 * 4


def test_a_bound_goes_through_a_loop_before():
    text = NESTED.replace("BEGIN", "zero")
    report = cost(parse(text))
    assert {loop.name: loop.trips for loop in report.loops} == {"inner": 6, "first": 3, "second": 6}
    (negate,) = [node_cost for node_cost in report.per_node if node_cost.node.opcode == "negate"]
    assert negate.total.flops == (3 * 6 + 6) * 4


def test_an_inner_loop_that_begins_at_the_outer_counter_is_not_known():
    report = cost(parse(NESTED.replace("BEGIN", "i")))
    assert {loop.name: loop.trips for loop in report.loops} == {"inner": None, "first": 3, "second": 6}


OPTIMISED = """
add_one {
  a = s32[] parameter(0)
  b = s32[] constant(1)
  ROOT c = s32[] add(a, b)
}
both {
  a = s32[] parameter(0)
  x = f32[4] parameter(1)
  b = s32[] call(a), to_apply=add_one
  y = f32[4] exponential(x)
  ROOT r = (f32[4], s32[]) tuple(y, b)
}
less {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
body {
  t = ((s32[], f32[4])) parameter(0)
  s = (s32[], f32[4]) get-tuple-element(t), index=0
  i = s32[] get-tuple-element(s), index=0
  h = s32[] copy(i)
  x = f32[4] get-tuple-element(s), index=1
  f = (f32[4], s32[]) fusion(h, x), kind=kLoop, calls=both
  y = f32[4] get-tuple-element(f), index=0
  j = s32[] get-tuple-element(f), index=1
  b = s32[1] bitcast(j)
  k = s32[] reshape(b)
  q = (s32[], f32[4]) tuple(k, y)
  ROOT r = ((s32[], f32[4])) tuple(q)
}
condition {
  t = ((s32[], f32[4])) parameter(0)
  s = (s32[], f32[4]) get-tuple-element(t), index=0
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(9)
  ROOT c = pred[] fusion(i, n), kind=kLoop, calls=less
}
wrapper {
  t = ((s32[], f32[4])) parameter(0)
  ROOT loop = ((s32[], f32[4])) while(t), condition=condition, body=body
}
ENTRY main {
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  copied = s32[] copy(zero)
  s = (s32[], f32[4]) tuple(copied, x)
  t = ((s32[], f32[4])) tuple(s)
  o = ((s32[], f32[4])) opt-barrier(t)
  ROOT r = ((s32[], f32[4])) call(o), to_apply=wrapper
}
"""


def test_counters_are_followed_through_tuples_copies_fusions_and_calls():
    report = cost(parse(OPTIMISED))
    assert [(loop.name, loop.trips, loop.source) for loop in report.loops] == [("loop", 9, "derived")]
    assert report.total.transcendentals == 36


@pytest.mark.parametrize("stage", ["before", "after"])
def test_what_is_derived_is_what_xla_writes(stage: str):
    """XLA writes trip counts into its optimised texts; derived without them, they are the same."""
    compared = derived = 0
    for name, text in lowered(stage).items():
        module = parse(text)
        call_graph = build_call_graph(module)
        tracer = ScalarEvolution(call_graph.callers)
        for loop, known in find_trip_counts(call_graph, {}).items():
            worked_out = derive_trip_count(loop, tracer)
            derived += worked_out.count is not None
            if known.source == WRITTEN:
                compared += 1
                assert worked_out.count == known.count, f"{name}: {loop.name}"
    assert derived >= 50
    assert compared >= (50 if stage == "after" else 0)


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "EQ", "NE"])
def test_runs_are_those_that_trying_finds(direction: str):
    holds = {"LT": int.__lt__, "LE": int.__le__, "GT": int.__gt__, "GE": int.__ge__, "EQ": int.__eq__, "NE": int.__ne__}
    for start in range(-12, 13):
        for step in range(-4, 5):
            ends = (k for k in range(40) if not holds[direction](start + k * step, 0))
            assert runs(start, step, direction) == next(ends, None), (start, step)


def test_a_malformed_loop_is_not_known():
    module = module_of()
    body = module["body"]
    body.output = body["x"]
    assert trips(module).count is None
    loop = module.entry["loop"]
    assert isinstance(loop, Apply)


def test_a_condition_that_compares_one_value_is_not_known():
    text = """
c {
  i = s32[] parameter(0)
  ROOT less = pred[] compare(i, i), direction=LT
}
b {
  i = s32[] parameter(0)
  ROOT j = s32[] negate(i)
}
ENTRY e {
  i = s32[] parameter(0)
  ROOT w = s32[] while(i), condition=c, body=b
}"""
    module = parse(text)
    condition = module["c"]
    condition.set_operands(condition.root, condition.parameters)
    assert [loop.trips for loop in cost(module).loops] == [None]


def test_loops_nested_to_any_depth_need_no_stack():
    depth = 400
    graphs = ["condition {\n  t = (s32[], s32[], f32[4]) parameter(0)\n  i = s32[] get-tuple-element(t), index=0"]
    graphs[0] += "\n  n = s32[] get-tuple-element(t), index=1\n  ROOT c = pred[] compare(i, n), direction=LT\n}"
    for level in range(depth):
        inner = f"while(s), condition=condition, body=body_{level - 1}" if level else "copy(s)"
        graphs.append(f"""body_{level} {{
  t = (s32[], s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] get-tuple-element(t), index=1
  x = f32[4] get-tuple-element(t), index=2
  y = f32[4] negate(x)
  zero = s32[] constant(0)
  one = s32[] constant(1)
  s = (s32[], s32[], f32[4]) tuple(zero, n, y)
  w = (s32[], s32[], f32[4]) {inner}
  z = f32[4] get-tuple-element(w), index=2
  j = s32[] add(i, one)
  m = s32[] get-tuple-element(w), index=1
  ROOT r = (s32[], s32[], f32[4]) tuple(j, m, z)
}}""")
    entry = f"""ENTRY main {{
  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  two = s32[] constant(2)
  t = (s32[], s32[], f32[4]) tuple(zero, two, x)
  ROOT w = (s32[], s32[], f32[4]) while(t), condition=condition, body=body_{depth - 1}
}}"""
    report = cost(parse("\n".join([*graphs, entry])))
    assert {loop.trips for loop in report.loops} == {2}
