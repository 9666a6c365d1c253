"""What differs between matched instructions, and where they moved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from hloom.analysis import op_name_of, scope_of_name
from hloom.inspection.diff.alignment import rising_run
from hloom.inspection.diff.instruction_map import UNMATCHED, InstructionMap
from hloom.inspection.diff.labels import NUMBERS, is_reference, value_key
from hloom.inspection.diff.value_graph import ValueGraph
from hloom.ir import (
    Apply,
    Constant,
    Graph,
    Literal,
    Node,
    Op,
    Parameter,
    TensorType,
    default_layout,
    format_literal,
    same_shape,
)

OPERAND, ATTRIBUTE, LAYOUT, TYPE, OPCODE, VALUE = "operand", "attribute", "layout", "type", "opcode", "value"
NAME, ORDER, FIRST = "name", "order", "(first)"


@dataclass(frozen=True, slots=True)
class InstructionDifference:
    """One thing that changed; `what` is opcode, type, layout, value, `attribute NAME` or `operand INDEX`."""

    what: str
    before: str
    after: str


class HeaderDifference(NamedTuple):
    """An attribute of the modules that differs."""

    attribute: str
    before: str
    after: str
    json_keys = "attribute before after"


@dataclass(frozen=True, slots=True)
class ChangedInstruction:
    """A matched pair of instructions that differ."""

    before: Node
    after: Node
    differences: tuple[InstructionDifference, ...]

    @property
    def own_differences(self) -> tuple[InstructionDifference, ...]:
        """Those of the instruction itself: an operand that differs is mostly another instruction that changed."""
        return tuple(difference for difference in self.differences if not difference.what.startswith(OPERAND))


@dataclass(frozen=True, slots=True)
class MovedInstruction:
    """A matched pair that stands elsewhere; `what` is computation, fusion, scope, or order where that counts."""

    before: Node
    after: Node
    what: str
    origin: str
    destination: str
    json_keys = "before after what from=origin to=destination"


def changed(matching: InstructionMap, exact: bool = False) -> list[ChangedInstruction]:
    """The matched pairs that differ, in the order of the left module; where it is exact, also by their names."""
    left, right = matching.graphs
    operands = left.value_operands, right.value_operands
    result: list[ChangedInstruction] = []
    for one, other in matching.pairs():
        before, after = left.nodes[one], right.nodes[other]
        differences = _own(before, after)
        if not left.is_forwarding[one] and not right.is_forwarding[other]:
            differences += _operands(matching, operands[0][one], operands[1][other])
        if exact and before.name != after.name:
            differences.append(InstructionDifference(NAME, before.name, after.name))
        if differences:
            result.append(ChangedInstruction(before, after, tuple(differences)))
    return result


def _own(before: Node, after: Node) -> list[InstructionDifference]:
    """What differs but for operands."""
    differences: list[InstructionDifference] = []
    if before.opcode != after.opcode:
        differences.append(InstructionDifference(OPCODE, before.opcode, after.opcode))
    if not same_shape(before.type, after.type):
        differences.append(InstructionDifference(TYPE, str(before.type), str(after.type)))
    elif before.type is not after.type and _layouts(before) != _layouts(after):
        differences.append(InstructionDifference(LAYOUT, str(before.type), str(after.type)))
    if isinstance(before, Constant) and isinstance(after, Constant):
        if before.value is not after.value and value_key(before) != value_key(after):
            differences.append(InstructionDifference(VALUE, _cut(before.value), _cut(after.value)))
    elif isinstance(before, Parameter) and isinstance(after, Parameter):
        is_entry = before.graph.module.is_entry(before.graph) and after.graph.module.is_entry(after.graph)
        if is_entry and before.number != after.number:
            differences.append(InstructionDifference("parameter number", str(before.number), str(after.number)))
    if before.attributes is not after.attributes and before.opcode == after.opcode:
        differences += _attributes(before, after)
    return differences


def _attributes(before: Node, after: Node) -> list[InstructionDifference]:
    rows = before.function.attributes if isinstance(before, Apply) and isinstance(before.function, Op) else {}
    differences: list[InstructionDifference] = []
    for name in {**before.attributes, **after.attributes}:
        row = rows.get(name)
        default = row.default if row else None
        values = before.attributes.get(name, default), after.attributes.get(name, default)
        if name in NUMBERS or values[0] == values[1] or is_reference(values[0]) or is_reference(values[1]):
            continue
        differences.append(InstructionDifference(f"{ATTRIBUTE} {name}", *[_cut(value) for value in values]))
    return differences


def _operands(matching: InstructionMap, ours: tuple[int, ...], theirs: tuple[int, ...]) -> list[InstructionDifference]:
    """Operands that do not stand for each other; two that have no counterpart at all are told as such elsewhere."""
    nodes = matching.graphs[0].nodes, matching.graphs[1].nodes
    if len(ours) != len(theirs):
        return [InstructionDifference("operands", str(len(ours)), str(len(theirs)))]
    return [
        InstructionDifference(f"{OPERAND} {index}", nodes[0][one].name, nodes[1][other].name)
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True))
        if matching.forward[one] != other
        and not (matching.forward[one] == UNMATCHED and matching.backward[other] == UNMATCHED)
    ]


def _layouts(node: Node) -> list[Any]:
    """The layouts of a value's arrays; what is not written is the default."""
    return [
        leaf.layout or default_layout(leaf.rank)
        for leaf in (node.type.leaves() if node.type is not None else ())
        if isinstance(leaf, TensorType)
    ]


def _cut(value: object) -> str:
    if isinstance(value, Literal):
        return format_literal(value, limit=120)
    text = "(none)" if value is None else str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def moved(matching: InstructionMap) -> list[MovedInstruction]:
    """The matched pairs that stand in computations, fusions or scopes that do not correspond."""
    left, right = matching.graphs
    counterpart = _counterparts(matching)
    result: list[MovedInstruction] = []
    scopes: dict[str, tuple[str, ...]] = {}
    for one, other in matching.pairs():
        before, after = left.nodes[one], right.nodes[other]
        if counterpart.get(before.graph) is not after.graph:
            what = (
                "fusion"
                if _is_fused(before.graph, left.caller) or _is_fused(after.graph, right.caller)
                else "computation"
            )
            result.append(MovedInstruction(before, after, what, before.graph.name, after.graph.name))
        elif before.raw_metadata and after.raw_metadata and before.raw_metadata != after.raw_metadata:
            names = _scope(before, scopes), _scope(after, scopes)
            if names[0] and names[1] and names[0] != names[1]:
                result.append(MovedInstruction(before, after, "scope", "/".join(names[0]), "/".join(names[1])))
    return result


def reordered(matching: InstructionMap) -> list[MovedInstruction]:
    """The fewest matched pairs without which the others stand in the same order in computations that correspond."""
    left, right = matching.graphs
    counterpart = _counterparts(matching)
    pairs: dict[Graph, list[tuple[int, int]]] = {}
    for one, other in matching.pairs():
        graph = left.nodes[one].graph
        if counterpart.get(graph) is right.nodes[other].graph:
            pairs.setdefault(graph, []).append((one, other))
    result: list[MovedInstruction] = []
    for members in pairs.values():
        kept = set(rising_run([other for _, other in members]))
        for index, (one, other) in enumerate(members):
            if index not in kept:
                nodes = left.nodes[one], right.nodes[other]
                result.append(MovedInstruction(*nodes, ORDER, _before(left, one), _before(right, other)))
    return result


def _before(graph: ValueGraph, number: int) -> str:
    """The name of what stands before an instruction in its computation."""
    above = graph.nodes[number - 1] if number else None
    return above.name if above is not None and above.graph is graph.nodes[number].graph else FIRST


def renamed_graphs(matching: InstructionMap) -> list[tuple[str, str]]:
    """The names of computations that correspond, where they differ."""
    counterpart = _counterparts(matching)
    return [(one.name, other.name) for one, other in counterpart.items() if one.name != other.name]


def _scope(node: Node, memo: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The scope that an op_name says; the outermost jit, whose name is the program's, is not part of it."""
    raw = node.raw_metadata or ""
    if raw not in memo:
        memo[raw] = scope_of_name(op_name_of(node))
    return memo[raw]


def _is_fused(graph: Graph, caller: dict[Graph, Node]) -> bool:
    return graph in caller and caller[graph].opcode == "fusion"


def _counterparts(matching: InstructionMap) -> dict[Graph, Graph]:
    """The computations that correspond: the entries, and those that share most matched instructions."""
    left, right = matching.graphs
    votes = Counter((left.nodes[one].graph, right.nodes[other].graph) for one, other in matching.pairs())
    counterpart: dict[Graph, Graph] = {left.module.entry: right.module.entry}
    taken = {right.module.entry}
    for (one, other), _ in sorted(votes.items(), key=lambda item: -item[1]):
        if one not in counterpart and other not in taken:
            counterpart[one] = other
            taken.add(other)
    return counterpart
