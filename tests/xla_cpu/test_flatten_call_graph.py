"""Computations that several instructions call."""

from __future__ import annotations

from hloom.hlo import parse
from hloom.xla_cpu.flatten_call_graph import flatten_call_graph
from tests.xla_cpu.test_dependency_order import TEXT


def test_two_loops_get_a_body_each():
    twice = TEXT.replace("while(s), condition=cond, body=body", "while(u), condition=cond, body=body").replace(
        "  w =", "  u = (s32[], f32[]) while(s), condition=cond, body=body\n  w ="
    )
    module = parse(twice)
    module.index_users()
    flatten_call_graph(module)
    loops = [node for node in module.entry.nodes if node.opcode == "while"]
    assert len({loop.attributes["body"] for loop in loops}) == len({loop.attributes["condition"] for loop in loops}) == 2
