"""Computations that several instructions call."""

from __future__ import annotations

from hloom.formats.hlo import parse
from hloom.targets.cpu.flatten_call_graph import flatten_call_graph
from tests.targets.cpu.test_dependency_order import TEXT


def test_two_loops_get_a_body_each():
    twice = TEXT.replace("while(s), condition=cond, body=body", "while(u), condition=cond, body=body").replace(
        "  w =", "  u = (s32[], f32[]) while(s), condition=cond, body=body\n  w ="
    )
    module = parse(twice)
    module.index_users()
    flatten_call_graph(module)
    loops = [node for node in module.entry.nodes if node.opcode == "while"]
    assert len({loop.attributes["body"] for loop in loops}) == len({loop.attributes["condition"] for loop in loops}) == 2


def test_two_branches_get_a_computation_each():
    module = parse("""HloModule m
    same { p = f32[4] parameter(0)
           ROOT n = f32[4] negate(p) }
    ENTRY main { i = s32[] parameter(0)
                 x = f32[4] parameter(1)
                 y = f32[4] parameter(2)
                 ROOT c = f32[4] conditional(i, x, y, x), branch_computations={same, same, same} }""")
    module.index_users()
    flatten_call_graph(module)
    branches = module.entry["c"].attributes["branch_computations"]
    assert len(set(branches)) == 3
    assert [branch.root.opcode for branch in branches] == ["negate"] * 3
