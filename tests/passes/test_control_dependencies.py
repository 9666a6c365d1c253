"""No pass loses the order of control dependencies, whatever it erases, replaces, moves or merges.

Opaque calls without side effects mark places of a program. Where one waited for another before a pass, it does so
after it, by control dependencies and operands; those in a control dependency are never dropped.
"""

from __future__ import annotations

from random import Random

import pytest

import hloom
import hloom.passes.fusion
import hloom.passes.saturation
from hloom.ir import Graph, Module, Node, verify
from hloom.passes import PASSES

NAMES = sorted(PASSES.keys() - {"lower-mindir", "microbatch", "remat"})
"""All but those that need options, or programs of MindSpore's; other tests may have registered them."""

WAITS = "control-predecessors"
UNARY = ("negate", "copy", "tanh", "abs")
LOOP = """
body {{ s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0  x = f32[4] get-tuple-element(s), index=1
  o = s32[] constant(1)  n = s32[] add(i, o)
{lines}
  ROOT t = (s32[], f32[4]) tuple(n, {last}) }}
condition {{ s = (s32[], f32[4]) parameter(0)  i = s32[] get-tuple-element(s), index=0  l = s32[] constant({rounds})
  ROOT p = pred[] compare(i, l), direction=LT }}
"""
CALLED = "called {{ x = f32[4] parameter(0)\n{lines}\n  ROOT r = f32[4] negate({last}) }}\n"


def drawn_lines(random: Random, prefix: str, count: int) -> tuple[list[str], str]:
    """Instructions on f32[4], opaque calls among them, that wait for each other at random; and the last one's name."""
    values, lines = ["x"], list[str]()
    lines.append(f"{prefix}zero = f32[] constant(0)\n{prefix}zeros = f32[4] broadcast({prefix}zero), dimensions={{}}")
    for number in range(count):
        name = f"{prefix}{number}"
        waits = f", {WAITS}={{{random.choice(values[1:])}}}" if len(values) > 1 and random.random() < 0.5 else ""
        operand, other = random.choice(values), random.choice([*values, f"{prefix}zeros"])
        form = random.random()
        if form < 0.4:
            target = f'custom_call_target="{name}"'
            lines.append(f"{name} = f32[4] custom-call({operand}), {target}{waits}")
        elif form < 0.7:
            lines.append(f"{name} = f32[4] {random.choice(UNARY)}({operand}){waits}")
        else:
            opcode = random.choice(("add", "multiply", "subtract"))
            lines.append(f"{name} = f32[4] {opcode}({operand}, {other}){waits}")
        values.append(name)
    return lines, values[-1]


def drawn(seed: int) -> Module:
    random = Random(seed)
    inner, last = drawn_lines(random, "b", 8)
    loop = LOOP.format(lines="\n".join(inner), last=last, rounds=random.choice((0, 1, 2, 50)))
    inner, last = drawn_lines(random, "c", 6)
    called = CALLED.format(lines="\n".join(inner), last=last)
    outer, last = drawn_lines(random, "e", 16)
    waits = [f", {WAITS}={{e{random.randrange(16)}}}" if random.random() < 0.5 else "" for _ in range(2)]
    entry = "\n".join([
        "ENTRY e { x = f32[4] parameter(0)", *outer, f"k = f32[4] call({last}), to_apply=called{waits[0]}", "z = s32[] constant(0)",
        "t = (s32[], f32[4]) tuple(z, k)", f"w = (s32[], f32[4]) while(t), condition=condition, body=body{waits[1]}",
        "g = f32[4] get-tuple-element(w), index=1", 'q = f32[4] custom-call(x), custom_call_target="q", ' + WAITS + "={w, k}",
        "ROOT r = f32[4] add(g, q) }",
    ])  # fmt: skip
    return hloom.parse(loop + called + entry)


def waits_of(module: Module) -> dict[str, set[str]]:
    """For each opaque call, those that it waits for by control dependencies alone, of other instructions too."""
    return {target(node): awaited_by(node) for node in module.nodes() if node.opcode == "custom-call"}


def awaited_by(node: Node) -> set[str]:
    names, pending, seen = set[str](), list(node.attributes.get(WAITS) or ()), set[Node]()
    while pending:
        other = pending.pop()
        if other.opcode == "custom-call":
            names.add(target(other))
        if other not in seen:
            seen.add(other)
            pending += other.attributes.get(WAITS) or ()
    return names


def target(node: Node) -> str:
    return str(node.attributes["custom_call_target"])


def ordered_before(module: Module) -> dict[str, set[str]]:
    """For each opaque call, those that some instance of it runs after, called computations included."""
    result: dict[str, set[str]] = {}
    for graph in module.graphs:
        before: dict[Node, set[str]] = {}
        for node in graph.nodes:
            names = set[str]()
            for other in (*node.operands, *(node.attributes.get(WAITS) or ())):
                names |= before[other] | held(other)
            before[node] = names
            if node.opcode == "custom-call":
                result.setdefault(target(node), set()).update(names)
    return result


def held(node: Node) -> set[str]:
    """The opaque calls that an instruction is, or runs in computations that it calls."""
    names, pending, seen = set[str](), [node], set[Graph]()
    while pending:
        current = pending.pop()
        if current.opcode == "custom-call":
            names.add(target(current))
        for graph in current.called_graphs:
            if graph not in seen:
                seen.add(graph)
                pending += graph.nodes
    return names


def in_dependencies(module: Module) -> set[str]:
    """The opaque calls that wait for something or that something waits for."""
    names = set[str]()
    for node in module.nodes():
        awaited = node.attributes.get(WAITS) or ()
        names |= {target(other) for other in awaited if other.opcode == "custom-call"}
        names |= {target(node)} if awaited and node.opcode == "custom-call" else set()
    return names


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 60), marks=pytest.mark.long)], ids=["few", "many"])
def test_order_is_kept(name: str, seeds: range):
    for seed in seeds:
        before = drawn(seed)
        after, _ = hloom.opt(before, name)
        verify(after)
        runs = {target(node) for node in after.nodes() if node.opcode == "custom-call"}
        ordered = ordered_before(after)
        for marker, awaited in waits_of(before).items():
            for other in awaited & runs if marker in runs else ():
                assert other in ordered[marker], f"seed {seed}: {marker} does not wait for {other}"
        reachable = in_dependencies(before) & runs_in_entry(before)
        assert reachable <= runs, f"seed {seed}: {reachable - runs} are gone"


def runs_in_entry(module: Module) -> set[str]:
    return {target(node) for node in module.entry.nodes if node.opcode == "custom-call"}
