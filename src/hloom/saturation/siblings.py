"""Products and convolutions of one operand as one larger one, of which each is a slice.

    dot(x, a), dot(x, b)  ->  y = dot(x, concatenate(a, b)); slice(y), slice(y)

As in TASO (Jia et al. 2019) and XLA's xla/service/dot_merger.cc (DotMerger).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from hloom.ir import Apply, ConvolutionDimensions, Graph, Node, SliceDimension, TensorType, infer_type
from hloom.ops import OPS
from hloom.saturation.egraph import EGraph

MOST_SIBLINGS = 16
"""How many are merged into one at most."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """Products or convolutions whose operands on one side are of one class."""

    nodes: tuple[Apply, ...]
    side: int

    def merge(self, graph: Graph) -> list[Node]:
        """The slices of one product that stand for them, made at the graph's end."""
        first = self.nodes[0]
        dims = _dims(first, self.side)
        assert dims is not None, "they may be merged"
        joined, cut = dims
        others = [node.inputs[1 - self.side] for node in self.nodes]
        whole = _add(graph, "concatenate", others, {"dimensions": (joined,)})
        shared = first.inputs[self.side]
        operands = (shared, whole) if self.side == 0 else (whole, shared)
        result = _array(first)
        sizes = list(result.dims)
        sizes[cut] = sum(_array(node).dims[cut] for node in self.nodes)
        product = graph.add_apply(first.function, operands, TensorType(result.dtype, sizes), first.attributes)
        slices: list[Node] = []
        start = 0
        for node in self.nodes:
            stop = start + _array(node).dims[cut]
            parts = [SliceDimension(0, size, 1) for size in sizes]
            parts[cut] = SliceDimension(start, stop, 1)
            slices.append(_add(graph, "slice", [product], {"slice": tuple(parts)}))
            start = stop
        return slices


def find_siblings(egraph: EGraph) -> Iterator[Siblings]:
    """The products and convolutions that may be merged, each group once, the first MOST_SIBLINGS of it.

    One may need another: extraction chooses no circles.
    """
    groups: dict[Hashable, list[Apply]] = {}
    sides: dict[Hashable, int] = {}
    for node in [node for nodes in egraph.distinct.values() for node in nodes]:
        if node.opcode not in ("dot", "convolution") or not isinstance(node, Apply) or not egraph.is_open(node):
            continue
        for side in (0, 1) if node.opcode == "dot" else (0,):
            key = _key(egraph, node, side)
            if key is not None:
                groups.setdefault(key, []).append(node)
                sides[key] = side
    for key, group in groups.items():
        of_class = {egraph.class_of[node]: node for node in reversed(group)}
        distinct = [of_class[number] for number in sorted(of_class)]
        if len(distinct) > 1:
            yield Siblings(tuple(distinct[:MOST_SIBLINGS]), sides[key])


def _key(egraph: EGraph, node: Apply, side: int) -> Hashable | None:
    """What those that may be merged have in common: the operand on a side, all attributes, the other's other sizes."""
    types = [operand.type for operand in node.inputs]
    if not all(isinstance(array_type, TensorType) and array_type.dynamic is None for array_type in types):
        return None
    groups = {node.attribute("feature_group_count"), node.attribute("batch_group_count")}
    if node.opcode == "convolution" and groups != {1}:
        return None
    dims = _dims(node, side)
    if dims is None:
        return None
    other = types[1 - side]
    assert isinstance(other, TensorType), "an array"
    rest = tuple(size for dim, size in enumerate(other.dims) if dim != dims[0])
    return node.opcode, node.attributes, side, egraph.class_of[node.inputs[side]], other.dtype, rest, _array(node).dtype


def _dims(node: Apply, side: int) -> tuple[int, int] | None:
    """The dimension of the other operand along which it is joined, and that of the result; None where it has none.

    Of a dot, the other operand's only or last own dimension.
    """
    if node.opcode == "convolution":
        labels: ConvolutionDimensions = node.attributes["dim_labels"]
        return labels.rhs.index("o"), labels.output.index("f")
    own: list[list[int]] = []
    for number, name in enumerate(("lhs", "rhs")):
        taken = (*node.attribute(f"{name}_batch_dims"), *node.attribute(f"{name}_contracting_dims"))
        operand = node.inputs[number].type
        assert isinstance(operand, TensorType), "an array"
        own.append([dim for dim in range(operand.rank) if dim not in taken])
    if not own[1 - side]:
        return None
    batches = len(node.attribute("lhs_batch_dims"))
    last = batches + len(own[0]) - 1 if side == 1 else batches + len(own[0]) + len(own[1]) - 1
    return own[1 - side][-1], last


def _add(graph: Graph, opcode: str, operands: Sequence[Node], attributes: dict[str, object]) -> Apply:
    inferred = infer_type(OPS[opcode], [_array(operand) for operand in operands], attributes)
    return graph.add_apply(OPS[opcode], operands, inferred, attributes)


def _array(node: Node) -> TensorType:
    assert isinstance(node.type, TensorType), "an array"
    return node.type
