"""A module as Model Explorer's graphs: groups, fusions, clones, edges, attributes."""

from __future__ import annotations

from typing import Any

import pytest

from hloom.analysis import device
from hloom.formats.hlo import parse
from hloom.inspection.page import Figures, SourceLinks, export_graphs, figures
from hloom.inspection.page.groups import MOST_MEMBERS, MOST_SHOWN_FIRST
from hloom.ir import Module
from tests.inspection.page.group_sizes import member_counts

FUSED = """
HloModule fused, is_scheduled=true

inner {
  p = f32[8] parameter(0)
  ROOT n = f32[8] negate(p)
}

outer {
  p0 = f32[8] parameter(0)
  p1 = f32[8] parameter(1)
  twice = f32[8] add(p0, p1)
  ROOT f = f32[8] fusion(twice), kind=kLoop, calls=inner
}

body {
  s = (f32[8], s32[]) parameter(0)
  v = f32[8] get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1
  ROOT t = (f32[8], s32[]) tuple(v, i)
}

cond {
  s = (f32[8], s32[]) parameter(0)
  ROOT done = pred[] constant(false)
}

ENTRY main {
  a = f32[8] parameter(0)
  one = f32[] constant(1)
  ones = f32[8] broadcast(one), dimensions={}
  x = f32[8] multiply(a, ones), metadata={op_name="jit(f)/first/mul"}
  y = f32[8] fusion(x, ones), kind=kLoop, calls=outer, metadata={op_name="jit(f)/second/neg"}
  zero = s32[] constant(0)
  state = (f32[8], s32[]) tuple(y, zero)
  loop = (f32[8], s32[]) while(state), condition=cond, body=body, metadata={op_name="jit(f)/while"}
  ROOT out = f32[8] get-tuple-element(loop), index=0
}
"""


def exported(module: Module) -> dict[str, dict[str, dict[str, Any]]]:
    graphs = export_graphs(module, figures(module, device("h100")), SourceLinks(module)).graphs
    return {graph["id"]: {node["id"]: node for node in graph["nodes"]} for graph in graphs}


def sources(node: dict[str, Any]) -> list[str]:
    return [edge["sourceNodeId"] for edge in node.get("incomingEdges", [])]


def test_fusions_are_groups_of_what_they_compute():
    graphs = exported(parse(FUSED))
    assert list(graphs) == ["main", "body", "cond"]
    main = graphs["main"]
    assert main["outer/twice"]["namespace"] == "second/y"
    assert main["inner/n"]["namespace"] == "second/y/f"
    assert sources(main["inner/n"]) == ["outer/twice"]
    assert sources(main["main/state"])[0] == "inner/n"
    assert not {"main/y", "outer/f", "outer/p0", "inner/p"} & set(main)
    attributes = {attribute["key"]: attribute["value"] for attribute in main["inner/n"]["attrs"]}
    assert attributes["bytes"] == f"{3 * 8 * 4:,}"  # the fusion's are its root's


def test_constants_are_cloned_into_the_groups_that_use_them():
    main = exported(parse(FUSED))["main"]
    clones = {name: node["namespace"] for name, node in main.items() if node["label"] in ("constant", "broadcast")}
    assert clones == {
        "main/ones": "first",
        "main/ones (2)": "second/y",
        "main/one": "first",
        "main/one (2)": "second/y",
        "main/zero": main["main/state"]["namespace"],
    }
    assert sources(main["main/x"]) == ["main/a", "main/ones"]
    assert sources(main["outer/twice"]) == ["main/x", "main/ones (2)"]
    assert sources(main["main/ones (2)"]) == ["main/one (2)"]


def test_loops_lead_to_their_graphs():
    main = exported(parse(FUSED))["main"]
    assert main["main/loop"]["subgraphIds"] == ["cond", "body"]


@pytest.mark.parametrize(
    "text",
    [
        "f { p = f32[2] parameter(0)\n ROOT r = f32[2] negate(p) }\n\n"
        "ENTRY e { a = f32[2] parameter(0)\n b = f32[2] fusion(a), kind=kLoop, calls=f\n"
        "  ROOT c = f32[2] fusion(b), kind=kLoop, calls=f }\n",
        "ENTRY e { a = f32[2] parameter(0)\n ROOT b = f32[2] fusion(a, a), kind=kLoop, calls=f }\n\n"
        "f { p = f32[2] parameter(0)\n ROOT r = f32[2] negate(p) }\n",
    ],
)
def test_fusions_that_are_no_groups(text: str):
    """In a circle, called twice, or with other operands than parameters."""
    module = parse(text)
    graphs = exported(module)
    assert sum(map(len, graphs.values())) == module.node_count


def large(width: int) -> Module:
    """A graph without scopes whose instructions all read constants of their own, and an output that reads them all."""
    lines = []
    for number in range(width):
        lines.append(f"  c{number} = f32[4] constant({{1,2,3,{number}}})")
        lines.append(f"  n{number} = f32[4] add(a, c{number})")
    names = ", ".join(f"n{number}" for number in range(width))
    constants = ", ".join(f"c{number}" for number in range(width))
    types = ", ".join(["f32[4]"] * 2 * width)
    body = "\n".join(lines)
    return parse(
        f"HloModule m\nENTRY e {{\n  a = f32[4] parameter(0)\n{body}\n  ROOT t = ({types}) tuple({names}, {constants})\n}}\n"
    )


def test_no_group_has_too_many_members():
    main = exported(large(2_000))["e"]
    counts = member_counts(tuple(node["namespace"].split("/")) for node in main.values())
    assert max(counts.values()) <= MOST_MEMBERS
    assert counts[()] <= MOST_SHOWN_FIRST
    assert all(edge in main for node in main.values() for edge in sources(node))
    assert len({name for name in main if name.startswith("e/n")}) == 2_000


def test_long_chains_of_broadcasts_are_not_cloned():
    """Clones are bounded: what is made of a constant in many steps is there once."""
    lines = ["  b0 = f32[2] constant({1,2})"]
    lines += [f"  b{number} = f32[2] reshape(b{number - 1})" for number in range(1, 500)]
    lines += [
        f'  u{number} = f32[2] add(b{number}, a), metadata={{op_name="jit(f)/s{number}/add"}}' for number in range(500)
    ]
    body = "\n".join(lines)
    main = exported(parse(f"HloModule m\nENTRY e {{\n  a = f32[2] parameter(0)\n{body}\n}}\n"))["e"]
    assert len(main) < 1_020


def chain(count: int, metadata: str = "") -> str:
    lines = "".join(f" x{n + 1} = f32[4] tanh(x{n}){metadata.format(n)}\n" for n in range(count))
    return f"ENTRY e {{\n x0 = f32[4] parameter(0)\n{lines} ROOT r = f32[4] negate(x{count})\n}}\n"


def calls(count: int) -> str:
    lines = "".join(f" x{n + 1} = f32[4] call(x{n}), to_apply=c\n" for n in range(count))
    called = "c { p = f32[4] parameter(0) ROOT t = f32[4] tanh(p) }"
    return f"{called}\nENTRY e {{\n x0 = f32[4] parameter(0)\n{lines} ROOT r = f32[4] negate(x{count})\n}}\n"


def constants(count: int) -> str:
    """Constants, as many conversions of others, and one instruction that reads all."""
    lines = "".join(
        f" c{n} = s32[1] constant({{{n}}})\n h{n} = s32[] constant({n})\n b{n} = s32[1] broadcast(h{n}), dimensions={{}}\n"
        for n in range(count)
    )
    names = ", ".join(f"c{n}, b{n}" for n in range(count))
    return f"ENTRY e {{\n{lines} ROOT r = s32[{2 * count}] concatenate({names}), dimensions={{0}}\n}}\n"


def readers(count: int) -> str:
    """Instructions of which each reads more constants than its group may hold, though fewer directly."""
    lines = "".join(
        f" h{n} = s32[] constant({n})\n v{n} = f32[] convert(h{n})\n b{n} = f32[1] broadcast(v{n}), dimensions={{}}\n"
        for n in range(60)
    )
    names = ", ".join(f"b{n}" for n in range(60))
    rows = "".join(f" r{n} = f32[60] concatenate({names}), dimensions={{0}}\n" for n in range(count))
    results = ", ".join(f"r{n}" for n in range(count))
    types = ", ".join(["f32[60]"] * count)
    return f"ENTRY e {{\n{lines}{rows} ROOT r = ({types}) tuple({results})\n}}\n"


def children(nodes: dict[str, dict[str, Any]]) -> dict[tuple[str, ...], int]:
    """How many members every group of a graph has: instructions, clones, groups."""
    return dict(member_counts(tuple(filter(None, node["namespace"].split("/"))) for node in nodes.values()))


@pytest.mark.parametrize(
    "text",
    [
        chain(50_000),
        chain(50_000, ', metadata={{op_name="jit(f)/a/tanh"}}'),
        chain(3_000, ', metadata={{op_name="jit(f)/a{}/tanh"}}'),
        chain(3_000, ', metadata={{op_name="jit(f)/top/a{}/tanh"}}'),
        calls(10_000),
        constants(3_000),
        readers(130),
    ],
    ids=["no metadata", "one scope", "many scopes", "many scopes in one", "calls", "constants", "readers"],
)
def test_no_group_is_larger_than_what_a_viewer_lays_out(text: str):
    module = parse(text)
    graphs = export_graphs(module, Figures(module), SourceLinks(module)).graphs
    sizes = [children({node["id"]: node for node in graph["nodes"]}) for graph in graphs]
    assert sizes[0][()] <= MOST_SHOWN_FIRST
    assert max(max(of_graph.values()) for of_graph in sizes) <= MOST_MEMBERS
