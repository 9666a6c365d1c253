"""Which computations run instruction by instruction."""

from __future__ import annotations

from hloom.formats.hlo import parse
from hloom.passes import running_graphs

MODULE = """
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
    fused { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    called { p = f32[2] parameter(0)  ROOT n = f32[2] fusion(p), kind=kLoop, calls=fused }
    unused { p = f32[2] parameter(0)  ROOT n = f32[2] negate(p) }
    ENTRY e {
      x = f32[2] parameter(0)  zero = f32[] constant(0)
      y = f32[2] call(x), to_apply=called
      ROOT r = f32[] reduce(y, zero), dimensions={0}, to_apply=add
    }
"""


def test_reducers_and_fused_computations_do_not_run_step_by_step():
    assert [graph.name for graph in running_graphs(parse(MODULE))] == ["called", "unused", "e"]


def test_a_computation_that_loses_its_caller_is_asked_about_in_its_turn():
    module = parse(MODULE)
    graphs = running_graphs(module)
    assert next(graphs).name == "called"
    entry = module.entry
    entry.set_output(entry["y"])
    entry.erase(entry["r"])
    module.erase_graph(module["add"])
    assert [graph.name for graph in graphs] == ["unused", "e"]
