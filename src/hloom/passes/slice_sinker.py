"""The pass `sink-slices`: elementwise instructions on slices of the same arrays become one on the arrays.

    add(slice(x, [0:4]), slice(y, [0:4])), add(slice(x, [4:8]), slice(y, [4:8]))
      ->
    sum = add(x, y), slice(sum, [0:4]), slice(sum, [4:8])

Follows XLA's xla/service/slice_sinker.cc (SliceSinker).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from hloom.ir import Apply, Graph, Module, Node, TensorType
from hloom.passes.computation_order import control_predecessors, has_control_dependencies, running_graphs
from hloom.passes.dce import erase_dead
from hloom.passes.pipeline import register_pass
from hloom.passes.rules.broadcast import POINTWISE
from hloom.passes.rules.dimensions import is_row_major
from hloom.rewrite import Builder, Report, tensor_type

_POINTWISE = frozenset(POINTWISE)


def sink_slices(module: Module) -> Report:
    """Compute elementwise instructions before slices, where together they compute at least as many elements as so.

    Slices that overlap are computed once, and neighbouring ones by one instruction. Slices that are written twice count
    once. Every bit is kept.
    """
    report = Report("sink-slices")
    if module.has_closures:
        return report
    module.index_users()
    for graph in running_graphs(module):
        _Sinker(graph).run(report)
    return report


class _Sinker:
    """The instructions on slices of one graph, by what they compute of which arrays."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.awaited = control_predecessors(graph)
        self.groups: dict[Hashable, dict[Apply, None]] = {}
        self.keys: dict[Apply, Hashable] = {}

    def run(self, report: Report) -> None:
        candidates: Iterable[Node] = self.graph.nodes
        while candidates:
            changed = dict.fromkeys(key for node in candidates if (key := self.group(node)) is not None)
            candidates = []
            for key in changed:
                members = list(self.groups[key])
                if _is_worth(members):
                    del self.groups[key]
                    candidates += self.sink(members)
                    report.changes += 1
                    names = ", ".join(member.name for member in members)
                    report.notes.append(f"{names} of {self.graph.name}: computed before slices")

    def group(self, node: Node) -> Hashable:
        """Put a node among those that may be computed together with it; their key, None for all other nodes."""
        if not isinstance(node, Apply) or not self.is_on_slices(node):
            return None
        before = self.keys.get(node)
        if before in self.groups:
            self.groups[before].pop(node, None)
        sources = tuple(operand.operands[0] for operand in node.operands)
        key = self.keys[node] = (node.opcode, node.attributes, node.array_type.dtype, sources)
        self.groups.setdefault(key, {})[node] = None
        return key

    def is_on_slices(self, node: Apply) -> bool:
        """Whether an elementwise instruction takes the same elements of arrays of one shape."""
        if node.opcode not in _POINTWISE or not node.is_used or not self.is_free(node):
            return False
        first = node.operands[0]
        for operand in node.operands:
            if operand.opcode != "slice" or not self.is_free(operand) or tensor_type(operand.operands[0]) is None:
                return False
            if operand.attributes["slice"] != first.attributes["slice"]:
                return False
            source = operand.operands[0].array_type
            if source.dims != first.operands[0].array_type.dims or not is_row_major(source):
                return False
        return True

    def is_free(self, node: Node) -> bool:
        """Whether nothing says where an array is computed, or when."""
        array_type = tensor_type(node)
        if array_type is None or not is_row_major(array_type) or "sharding" in node.attributes:
            return False
        return node not in self.awaited and not has_control_dependencies(node)

    def sink(self, members: list[Apply]) -> list[Node]:
        """Put slices of one instruction in place of several; the nodes that use them."""
        first = min(members, key=_Position)
        build = Builder(first)
        sources = [operand.operands[0] for operand in first.operands]
        wide_type = TensorType(first.array_type.dtype, sources[0].array_type.dims)
        wide = build.apply(first.op, sources, wide_type, first.attributes)
        users: dict[Node, None] = {}
        for member in members:
            users.update(dict.fromkeys(member.users))
            part = Builder(member).op("slice", wide, slice=member.operands[0].attributes["slice"], type=member.type)
            self.graph.replace_uses(member, part)
            erase_dead([member])
        return list(users)


class _Position:
    """A node's position in its graph, to sort by."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __lt__(self, other: _Position) -> bool:
        return self.node.graph.comes_before(self.node, other.node)


def _is_worth(members: list[Apply]) -> bool:
    """Whether several different slices have as many elements together as the arrays that they are of."""
    sizes = {member.operands[0].attributes["slice"]: member.array_type.element_count for member in members}
    return len(sizes) > 1 and sum(sizes.values()) >= members[0].operands[0].operands[0].array_type.element_count > 0


register_pass("sink-slices", "elementwise instructions on slices become one, sliced afterwards", sink_slices)
