"""Differences of two modules:

`alignment.py`, `value_graph.py`, `labels.py`, `instruction_map.py`, `module_diff.py`, `similarity.py`, `changes.py` and `costs.py`.
"""

from __future__ import annotations

import random

import pytest

import hloom
from hloom.inspection.diff import ModuleDiff, align, diff
from hloom.ir import Apply, Module, Node, TensorType
from hloom.ops import OPS

BLOCK = """HloModule blocks
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,16] parameter(1)
  zero = f32[] constant(0)
  d = f32[8,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[8,16] tanh(d)
  s = f32[8,16] add(t, x)
  e = f32[8,16] exponential(s)
  r = f32[8] reduce(e, zero), dimensions={1}, to_apply=sum
  ROOT out = (f32[8], f32[8,16]) tuple(r, e)
}
"""


def layers(count: int) -> Module:
    """Equal layers one after the other, each with a weight of its own, and a result of each."""
    lines = ["x = f32[8,16] parameter(0)"]
    lines += [f"w{n} = f32[16,16] parameter({n + 1})" for n in range(count)]
    value, results = "x", []
    for n in range(count):
        lines += [
            f"d{n} = f32[8,16] dot({value}, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"t{n} = f32[8,16] tanh(d{n})",
            f"m{n} = f32[8,16] multiply(t{n}, {value})",
            f"s{n} = f32[8,16] add(m{n}, d{n})",
            f"g{n} = f32[16,16] dot(t{n}, s{n}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
        ]
        value = f"s{n}"
        results.append(f"g{n}")
    kinds = ", ".join(["f32[16,16]"] * count)
    return hloom.parse(f"ENTRY e {{ {' '.join(lines)} ROOT out = ({kinds}) tuple({', '.join(results)}) }}")


def shuffled(module: Module, seed: int) -> tuple[Module, dict[Node, Node]]:
    """A copy with other names and another order, and which instruction of it is which."""
    copy = module.clone()
    pairs = dict(zip(module.nodes(), copy.nodes(), strict=True))
    draw = random.Random(seed)
    for graph in copy.graphs:
        nodes = list(graph.nodes)
        for node in nodes:
            graph.rename(node, f"v{draw.randrange(10**9)}")
        for node in nodes:
            users = [user for user in node.users if user.graph is graph]
            if users and draw.random() < 0.5:  # as late as its users let it
                first = users[0]
                for user in users:
                    first = user if graph.comes_before(user, first) else first
                graph.move_before(node, first)
    return copy, pairs


def edit(module: Module, pairs: dict[Node, Node], seed: int, count: int) -> dict[Node, Node]:
    """Exchange opcodes, put instructions between, bypass others; the pairs that are still to be matched."""
    draw, pairs = random.Random(seed), dict(pairs)
    before = {copy: original for original, copy in pairs.items()}
    simple = [
        n
        for n in module.entry.nodes
        if isinstance(n, Apply)
        and isinstance(n.type, TensorType)
        and n.operands
        and n.opcode in ("tanh", "add", "multiply")
    ]
    for node in draw.sample(simple, count):
        match draw.randrange(3):
            case 0:
                module.entry.set_function(node, OPS["tanh" if len(node.operands) == 1 else "maximum"])
            case 1:
                inserted = module.entry.add_apply(OPS["negate"], [node.operands[0]], node.operands[0].type, before=node)
                module.entry.set_operands(node, [inserted, *node.operands[1:]])
            case _:
                module.entry.replace_uses(node, node.operands[0])
                module.entry.erase(node)
                del pairs[before[node]]
    return pairs


def quality(result: ModuleDiff, expected: dict[Node, Node]) -> tuple[int, int, int]:
    """How many pairs are right, how many there are, and how many there should be."""
    right = sum(result.matches.get(one) is other for one, other in expected.items())
    return right, len(result.matches), len(expected)


def test_alignment_of_long_and_short_sequences():
    assert align("", "a") == []
    assert align("aXbXc", "aXXc") == [(0, 0), (1, 1), (3, 2), (4, 3)]
    assert align([0] * 5000, [0] * 5001) == [(n, n) for n in range(5000)]


@pytest.mark.parametrize("module", [hloom.parse(BLOCK), layers(6)], ids=["block", "layers"])
def test_names_and_order_are_no_difference(module: Module):
    copy, pairs = shuffled(module, 1)
    result = hloom.diff(module, copy)
    assert result.is_equal
    assert str(result) == f"no differences: {module.node_count} instructions match"
    assert result.matches == pairs


def test_where_it_is_exact_names_and_order_are_differences():
    module = hloom.parse(BLOCK)
    assert hloom.diff(module, module.clone(), exact=True).is_equal
    copy = module.clone()
    copy.name = "other"
    copy.rename_graph(copy["sum"], "total")
    copy.entry.rename(copy.entry["t"], "active")
    copy.entry.move_before(copy.entry["zero"], copy.entry["e"])
    assert hloom.diff(module, copy).is_equal
    result = hloom.diff(module, copy, exact=True)
    assert result.header == [("name", "blocks", "other"), ("computation", "sum", "total")]
    assert [(c.before.name, [(d.what, d.after) for d in c.differences]) for c in result.changed] == [
        ("t", [("name", "active")])
    ]
    assert [(m.before.name, m.what, m.origin, m.destination) for m in result.moved] == [("zero", "order", "w", "s")]
    assert not result.added and not result.removed


def test_a_layer_more_is_added_and_its_neighbours_stay():
    result = diff(layers(6), layers(7), costs=False)
    assert {node.name for node in result.added} == {"w6", "d6", "t6", "m6", "s6", "g6"}
    assert all(one.name == other.name for one, other in result.matches.items())


def test_results_in_front_of_others_do_not_move_those():
    text = "ENTRY e {{ x = f32[4] parameter(0) a = f32[4] tanh(x) b = f32[4] cosine(x) c = f32[4] sine(x) {root} }}"
    before = hloom.parse(text.format(root="ROOT r = (f32[4], f32[4]) tuple(a, b)"))
    after = hloom.parse(text.format(root="ROOT r = (f32[4], f32[4], f32[4]) tuple(c, a, b)"))
    result = diff(before, after, costs=False)
    assert {one.name: other.name for one, other in result.matches.items()} == {n: n for n in ("x", "a", "b", "c", "r")}


def test_where_it_is_exact_the_fewest_are_moved():
    module = layers(20)
    copy = module.clone()
    copy.entry.move_before(copy.entry["w19"], copy.entry["w0"])
    assert [move.before.name for move in hloom.diff(module, copy, exact=True, costs=False).moved] == ["w19"]


def test_what_changed_is_said():
    changed = (
        BLOCK.replace("tanh(d)", "cosine(d)").replace("constant(0)", "constant(1)").replace("add(t, x)", "add(x, t)")
    )
    result = diff(hloom.parse(BLOCK), hloom.parse(changed))
    said = {(change.before.name, d.what, d.before, d.after) for change in result.changed for d in change.differences}
    assert said == {
        ("t", "opcode", "tanh", "cosine"),
        ("zero", "value", "0", "1"),
        ("s", "operand 0", "t", "x"),
        ("s", "operand 1", "x", "t"),
    }
    assert not result.added and not result.removed and not result.is_equal


def test_layouts_attributes_and_headers():
    changed = BLOCK.replace("tanh(d)", "tanh(d), sharding={replicated}").replace("f32[8,16] dot", "f32[8,16]{0,1} dot")
    result = diff(hloom.parse(BLOCK), hloom.parse(changed.replace("HloModule blocks", "HloModule b, num_partitions=2")))
    said = {(change.before.name, d.what) for change in result.changed for d in change.differences}
    assert said == {("t", "attribute sharding"), ("d", "layout")}
    assert [name for name, _, _ in result.header] == ["num_partitions"]


def test_a_fusion_is_looked_into():
    fused = BLOCK.replace(
        "ENTRY main",
        "fused { a = f32[8,16] parameter(0) b = f32[8,16] parameter(1) u = f32[8,16] tanh(a) v = f32[8,16] add(u, b) ROOT w = f32[8,16] exponential(v) }\nENTRY main",
    )
    start, end = fused.index("  t = "), fused.index("  r = ")
    fused = fused[:start] + "  e = f32[8,16] fusion(d, x), kind=kLoop, calls=fused\n" + fused[end:]
    result = diff(hloom.parse(BLOCK), hloom.parse(fused))
    assert {(move.before.name, move.after.name, move.what) for move in result.moved} == {
        ("t", "u", "fusion"),
        ("s", "v", "fusion"),
        ("e", "w", "fusion"),
    }
    assert {node.name for node in result.added} == {"e", "a", "b"}
    assert not result.removed and not result.changed


def test_changes_of_costs():
    larger = BLOCK.replace("8,16", "32,16").replace("f32[8]", "f32[32]")
    result = diff(hloom.parse(BLOCK), hloom.parse(larger), by="opcode")
    assert not result.added and not result.removed
    assert not isinstance(result.costs, str | None)
    totals = {row["figure"]: (row["before"], row["after"]) for row in result.costs.totals()}
    assert totals["flops"][1] == 4 * totals["flops"][0]
    assert "dot" in [row["opcode"] for row in result.costs.groups()]


def test_unrelated_modules_and_fragments():
    other = hloom.parse(
        "ENTRY f { a = s32[5] parameter(0) b = s32[5] negate(a) c = s32[5] not(b) ROOT d = s32[5] popcnt(c) }"
    )
    assert diff(layers(4), other).is_unrelated
    fragment = hloom.parse("ENTRY f { a = s32[5] negate(gone) ROOT b = s32[5] negate(a) }")
    assert diff(fragment, fragment.clone()).is_equal
    with pytest.raises(ValueError, match="cannot be added up by 'mood'"):
        diff(other, other, by="mood")


def test_edits_of_repeated_layers():
    right = all_pairs = wanted = 0
    for seed in range(5):
        module = layers(8)
        copy, pairs = shuffled(module, seed)
        expected = edit(copy, pairs, seed, 3)
        counts = quality(diff(module, copy, costs=False), expected)
        right, all_pairs, wanted = right + counts[0], all_pairs + counts[1], wanted + counts[2]
    assert right / all_pairs > 0.95
    assert right / wanted > 0.95
