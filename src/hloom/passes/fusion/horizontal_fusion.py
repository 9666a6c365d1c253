"""Loops of different dimensions in one kernel, whose index runs through the elements of each loop in turn.

    a = f32[4,8] negate(x); b = f32[5] tanh(y)
      ->
    a, b = fusion(x, y), kind=kInput, calls={
      flat = f32[32] reshape(negate(x)); all = f32[37] concatenate(flat, tanh(y))
      ROOT both = tuple(slice(all) [0:32], slice(all) [32:37]) }

The sliced input fusions of XLA's GPU backend (xla/service/gpu/transforms/horizontal_loop_fusion.cc): all loops have the
same number of results, of the same types in some order, since the first results of all are concatenated, then the
second, and so on; all concatenations have equally many elements. Loops that read the same array are not combined, as
neither could be computed in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hloom.ir import Graph, Node, SliceDimension, TensorType, default_layout
from hloom.ops import OPS
from hloom.passes.fusion.kernel_model import Kernel, KernelCost, KernelModel
from hloom.passes.fusion.target import MAX_MEMBERS, MAX_OPERANDS_AND_RESULTS, MAX_SLICED_ELEMENTS


@dataclass(frozen=True, slots=True)
class SlicedLoops:
    """The loops of a kernel, each a kernel itself, and the types of the results of each, in alphabetical order.

    `own` are the values that no other loop may use, `computed` all that they compute, `read` all that they read.
    """

    loops: tuple[Kernel, ...]
    dtypes: tuple[str, ...]
    own: frozenset[int]
    computed: frozenset[int]
    read: frozenset[int]

    def joined(self, other: SlicedLoops) -> SlicedLoops | None:
        """The loops of two kernels combined; None if they cannot be."""
        if self.dtypes != other.dtypes or self._meets(other) or other._meets(self):
            return None
        return SlicedLoops(
            self.loops + other.loops,
            self.dtypes,
            self.own | other.own,
            self.computed | other.computed,
            self.read | other.read,
        )

    def _meets(self, other: SlicedLoops) -> bool:
        """Whether the others use values private to these loops, or read what these compute."""
        is_shared = not (self.own.isdisjoint(other.computed) and self.own.isdisjoint(other.read))
        return is_shared or not self.computed.isdisjoint(other.read)


def sliced_loops(model: KernelModel, kernel: Kernel) -> SlicedLoops | None:
    """The loops of a kernel that iterates, or could iterate, over different dimensions; None for any other."""
    if not model.target.has_sliced_fusions or model.is_view(kernel):
        return None
    if any(model.is_transposing[number] for number in kernel.members):
        return None
    if not all(_may_be_sliced(model, root) for root in kernel.roots):
        return None
    loops, own = _independent(model, kernel)
    dtypes = {tuple(sorted(_array(model, root).dtype.name for root in loop.roots)) for loop in loops}
    if len(dtypes) > 1 or any(model.cost(loop) is None for loop in loops):
        return None
    return SlicedLoops(tuple(loops), dtypes.pop(), own, frozenset(kernel.members), frozenset(model.reads(kernel)))


def sliced_cost(model: KernelModel, kernel: Kernel) -> KernelCost | None:
    """The cost of a kernel with several loops (`sliced_loops`); None if it exceeds the kernel limits."""
    if len(kernel.members) > MAX_MEMBERS or len(model.reads(kernel)) + len(kernel.roots) > MAX_OPERANDS_AND_RESULTS:
        return None
    return model.assessed(kernel)[0]


def add_slices(model: KernelModel, kernel: Kernel, graph: Graph, mapping: Mapping[Any, Node]) -> dict[int, Node]:
    """Concatenate the results of a kernel's loops in its computation; the slices that are the results, by root."""
    sliced = sliced_loops(model, kernel)
    assert sliced is not None, "a kernel of several loops"
    in_order = [sorted(loop.roots, key=lambda root: (_array(model, root).dtype.name, root)) for loop in sliced.loops]
    slices: dict[int, Node] = {}
    for roots in zip(*in_order, strict=True):
        flat = [_flattened(graph, mapping[model.nodes[root]]) for root in roots]
        sizes = [model.elements[root] for root in roots]
        joined_type = _flat_type(_array(model, roots[0]), sum(sizes))
        joined = graph.add_apply(OPS["concatenate"], flat, joined_type, {"dimensions": (0,)})
        start = 0
        for root, size in zip(roots, sizes, strict=True):
            part = {"slice": (SliceDimension(start, start + size),)}
            slices[root] = graph.add_apply(OPS["slice"], [joined], _flat_type(_array(model, root), size), part)
            start += size
    return slices


def unsliced(node: Node) -> Node | None:
    """The operand of a concatenation that a slice of it takes; None for anything else."""
    if node.opcode != "slice" or node.operands[0].opcode != "concatenate" or len(node.attributes["slice"]) != 1:
        return None
    [part] = node.attributes["slice"]
    start = 0
    for operand in node.operands[0].operands:
        limit = start + (operand.type.dims[0] if isinstance(operand.type, TensorType) else 0)
        if part == SliceDimension(start, limit):
            return operand
        start = limit
    return None


def _may_be_sliced(model: KernelModel, root: int) -> bool:
    """Whether a result may be flattened: not too large for threads that compute an element each, and in plain order."""
    node = model.nodes[root]
    if not isinstance(node.type, TensorType) or node.opcode == "dynamic-update-slice" or model.is_input_root(root):
        return False
    is_plain = node.type.layout in (None, default_layout(node.type.rank))
    return is_plain and 0 < model.elements[root] <= MAX_SLICED_ELEMENTS


def _independent(model: KernelModel, kernel: Kernel) -> tuple[list[Kernel], frozenset[int]]:
    """The results of a kernel that share values, as kernels, and the values; leaves and single elements are none."""
    roots, inside = set(kernel.roots), set(kernel.members)
    first_of: dict[int, int] = {}
    group_of = {root: root for root in kernel.roots}
    members: dict[int, set[int]] = {}

    def top(root: int) -> int:
        while group_of[root] != root:
            root = group_of[root]
        return root

    for root in kernel.roots:
        reached, pending = {root}, [root]
        while pending:
            number = pending.pop()
            if number in roots or (model.elements[number] > 1 and not model.is_leaf[number]):
                one, other = sorted((top(first_of.setdefault(number, root)), top(root)))
                group_of[other] = one
            for edge in model.edges[number] if number in inside else ():
                if edge.operand not in reached:
                    reached.add(edge.operand)
                    pending.append(edge.operand)
        members[root] = reached & inside
    groups: dict[int, list[int]] = {}
    for root in kernel.roots:
        groups.setdefault(top(root), []).append(root)
    kernels = [
        Kernel(tuple(group), tuple(sorted(set[int]().union(*(members[root] for root in group)))))
        for group in groups.values()
    ]
    return kernels, frozenset(first_of)


def _array(model: KernelModel, root: int) -> TensorType:
    array_type = model.nodes[root].type
    assert isinstance(array_type, TensorType), "a loop's results are arrays"
    return array_type


def _flattened(graph: Graph, node: Node) -> Node:
    """The array itself, or its elements as one dimension."""
    assert isinstance(node.type, TensorType)
    if node.type.rank == 1:
        return node
    return graph.add_apply(OPS["reshape"], [node], _flat_type(node.type, node.type.element_count))


def _flat_type(array_type: TensorType, size: int) -> TensorType:
    return TensorType(array_type.dtype, (size,), None if array_type.layout is None else default_layout(1))
