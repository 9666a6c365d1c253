"""Walks over nodes and graphs: what they visit, in which order, and that depth does not matter."""

from __future__ import annotations

from hloom.formats.hlo import parse
from hloom.ir import callees_first, operands_of, post_order, reachable

LINKS = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": [], "x": ["y"], "y": ["x"]}


def test_what_is_reached_is_in_the_order_of_the_visit_each_once():
    assert list(reachable(["a"], LINKS.__getitem__)) == ["a", "c", "d", "b"]
    assert list(reachable(["x", "d"], LINKS.__getitem__)) == ["d", "x", "y"]
    assert list(reachable([], LINKS.__getitem__)) == []


def test_post_order_has_successors_first_and_leaves_cycles_as_it_left_them():
    assert list(post_order(["a"], LINKS.__getitem__)) == ["d", "b", "c", "a"]
    assert list(post_order(["b", "a"], LINKS.__getitem__)) == ["d", "b", "c", "a"]
    assert list(post_order(["x"], LINKS.__getitem__)) == ["y", "x"]


def test_callees_come_before_callers():
    module = parse("""
        ENTRY e { x = f32[] parameter(0)  y = f32[] call(x), to_apply=outer  ROOT z = f32[] call(y), to_apply=inner }
        outer { a = f32[] parameter(0)  ROOT b = f32[] call(a), to_apply=inner }
        inner { a = f32[] parameter(0)  ROOT b = f32[] negate(a) }
    """)
    assert [graph.name for graph in callees_first(module)] == ["inner", "outer", "e"]


def test_depth_does_not_matter():
    lines = "\n".join(f"x{number + 1} = f32[] negate(x{number})" for number in range(20_000))
    entry = parse(f"ENTRY e {{ x0 = f32[] parameter(0)\n{lines}\nROOT y = f32[] negate(x20000) }}").entry
    assert list(post_order([entry.root], operands_of)) == list(entry.nodes)
    assert list(reachable([entry.root], operands_of)) == list(reversed(entry.nodes))
