"""Merges products and convolutions into a larger one, of which each is a slice.

    dot(x, a), dot(x, b)  ->  y = dot(x, concatenate(a, b)); slice(y), slice(y)

As in TASO (Jia et al. 2019) and XLA's xla/service/dot_merger.cc (DotMerger). Convolutions of one image may have kernels
of two sizes, with the smaller ones zero-padded; products of equal shape that share no operand become one batched
product.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from hloom.ir import (
    Apply,
    Attributes,
    ConvolutionDimensions,
    Graph,
    Node,
    SliceDimension,
    TensorType,
    Window,
    infer_type,
    literal_of,
)
from hloom.ops import OPS, PRODUCTS
from hloom.passes import kernel_enlargement
from hloom.passes.saturation.egraph import EGraph

MOST_SIBLINGS = 16
"""The maximum number of products to merge into one."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """Products or convolutions whose operands on one side are of one class."""

    nodes: tuple[Apply, ...]
    side: int

    def merge(self, graph: Graph) -> list[Node]:
        """The slices of the merged product that replace them, made at the graph's end."""
        first = self.nodes[0]
        dims = _dims(first, self.side)
        assert dims is not None, "they may be merged"
        joined, cut = dims
        others = [_enlarged(graph, node, first) for node in self.nodes] if self.side == 0 else []
        others = others or [node.operands[0] for node in self.nodes]
        whole = _add(graph, "concatenate", others, {"dimensions": (joined,)})
        shared = first.operands[self.side]
        operands = (shared, whole) if self.side == 0 else (whole, shared)
        result = first.array_type
        sizes = list(result.dims)
        sizes[cut] = sum(node.array_type.dims[cut] for node in self.nodes)
        product = graph.add_apply(first.function, operands, TensorType(result.dtype, sizes), first.attributes)
        slices: list[Node] = []
        start = 0
        for node in self.nodes:
            stop = start + node.array_type.dims[cut]
            parts = [SliceDimension(0, size, 1) for size in sizes]
            parts[cut] = SliceDimension(start, stop, 1)
            slices.append(_add(graph, "slice", [product], {"slice": tuple(parts)}))
            start = stop
        return slices


@dataclass(frozen=True, slots=True)
class Batch:
    """Products of one shape, none of which needs another."""

    nodes: tuple[Apply, ...]

    def merge(self, graph: Graph) -> list[Node]:
        """The slices of a product with one more batch dimension, made at the graph's end."""
        first, count = self.nodes[0], len(self.nodes)
        operands: list[Node] = []
        for side in (0, 1):
            own = first.operands[side].array_type
            rows = [_reshape(graph, node.operands[side], (1, *own.dims)) for node in self.nodes]
            operands.append(_add(graph, "concatenate", rows, {"dimensions": (0,)}))
        changed = dict(first.attributes)
        for name in ("lhs", "rhs"):
            changed[f"{name}_batch_dims"] = (0, *(dim + 1 for dim in first.attribute(f"{name}_batch_dims")))
            changed[f"{name}_contracting_dims"] = tuple(dim + 1 for dim in first.attribute(f"{name}_contracting_dims"))
        result = first.array_type
        whole = TensorType(result.dtype, (count, *result.dims))
        product = graph.add_apply(first.function, operands, whole, Attributes(changed))
        slices: list[Node] = []
        for number in range(count):
            parts = [SliceDimension(number, number + 1, 1), *(SliceDimension(0, size, 1) for size in result.dims)]
            row = _add(graph, "slice", [product], {"slice": tuple(parts)})
            slices.append(_reshape(graph, row, result.dims))
        return slices


def find_siblings(egraph: EGraph, *, moves_are_free: bool = False) -> Iterator[Siblings | Batch]:
    """The products and convolutions that may be merged, each group once, the first MOST_SIBLINGS of it.

    They may depend on each other: extraction chooses no cycles. Batching products that share no operand only adds data
    movement unless they are of slices: others are batched only if `moves_are_free`.
    """
    nodes = [
        node
        for nodes in egraph.distinct.values()
        for node in nodes
        if node.opcode in PRODUCTS and isinstance(node, Apply) and egraph.is_open(node)
    ]
    yield from _of_one_operand(egraph, nodes)
    yield from _of_two_sizes(egraph, [node for node in nodes if node.opcode == "convolution"])
    dots = [node for node in nodes if node.opcode == "dot"]
    yield from _of_one_shape(egraph, dots if moves_are_free else [node for node in dots if _is_of_slices(node)])


def _of_one_operand(egraph: EGraph, nodes: Sequence[Apply]) -> Iterator[Siblings]:
    groups: dict[Hashable, list[Apply]] = {}
    sides: dict[Hashable, int] = {}
    for node in nodes:
        for side in (0, 1):
            key = _key(egraph, node, side)
            if key is not None:
                groups.setdefault(key, []).append(node)
                sides[key] = side
    for key, group in groups.items():
        distinct = _of_classes(egraph, group)
        if len(distinct) > 1:
            yield Siblings(tuple(distinct[:MOST_SIBLINGS]), sides[key])


def _of_two_sizes(egraph: EGraph, nodes: Sequence[Apply]) -> Iterator[Siblings]:
    """Convolutions of one image whose kernels are of two sizes, those of the largest first."""
    groups: dict[Hashable, list[Apply]] = {}
    for node in nodes:
        if _key(egraph, node, 0) is not None:
            groups.setdefault(egraph.class_of[node.operands[0]], []).append(node)
    for group in groups.values():
        distinct = _of_classes(egraph, group)
        distinct.sort(key=lambda node: -prod(dim.size for dim in (node.attribute("window") or Window()).dimensions))
        members = [
            node
            for node in distinct
            if node.attributes == distinct[0].attributes or kernel_enlargement(node, distinct[0]) is not None
        ]
        if any(node.attributes != distinct[0].attributes for node in members):
            yield Siblings(tuple(members[:MOST_SIBLINGS]), 0)


def _of_one_shape(egraph: EGraph, nodes: Sequence[Apply]) -> Iterator[Batch]:
    """Products of equal shape at equal depth, so that they are independent; excludes those of a single operand."""
    depth: dict[Node, int] = {}
    for node in egraph.graph.nodes if nodes else ():
        before = max((depth.get(operand, 0) for operand in node.operands), default=0)
        depth[node] = before + (node.opcode == "dot")
    groups: dict[Hashable, list[Apply]] = {}
    for node in nodes:
        types = tuple(operand.type for operand in node.operands)
        if all(isinstance(array_type, TensorType) and array_type.dynamic is None for array_type in types):
            groups.setdefault((node.attributes, types, node.type, depth[node]), []).append(node)
    for group in groups.values():
        distinct = _of_classes(egraph, group)[:MOST_SIBLINGS]
        shared = [len({egraph.class_of[node.operands[side]] for node in distinct}) == 1 for side in (0, 1)]
        if len(distinct) > 1 and not any(shared):
            yield Batch(tuple(distinct))


def _is_of_slices(node: Apply) -> bool:
    """Whether both operands are slices, reshaped or not."""
    operands = [operand.operands[0] if operand.opcode == "reshape" else operand for operand in node.operands]
    return all(operand.opcode == "slice" for operand in operands)


def _of_classes(egraph: EGraph, group: Sequence[Apply]) -> list[Apply]:
    """The first of each class, in the order of the classes."""
    of_class = {egraph.class_of[node]: node for node in reversed(group)}
    return [of_class[number] for number in sorted(of_class)]


def _key(egraph: EGraph, node: Apply, side: int) -> Hashable | None:
    """A key equal for those that may be merged: one operand, all attributes, and the other operand's other sizes."""
    types = [operand.type for operand in node.operands]
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
    return (
        node.opcode,
        node.attributes,
        side,
        egraph.class_of[node.operands[side]],
        other.dtype,
        rest,
        node.array_type.dtype,
    )


def _dims(node: Apply, side: int) -> tuple[int, int] | None:
    """The dimension of the other operand to concatenate along, and that of the result; None if there is none.

    For a dot, the other operand's only or last free dimension; for convolutions, features of kernels, or images.
    """
    if node.opcode == "convolution":
        labels: ConvolutionDimensions = node.attributes["dim_labels"]
        if side == 1:
            return labels.lhs.index("b"), labels.output.index("b")
        return labels.rhs.index("o"), labels.output.index("f")
    own: list[list[int]] = []
    for number, name in enumerate(("lhs", "rhs")):
        taken = (*node.attribute(f"{name}_batch_dims"), *node.attribute(f"{name}_contracting_dims"))
        operand = node.operands[number].type
        assert isinstance(operand, TensorType), "an array"
        own.append([dim for dim in range(operand.rank) if dim not in taken])
    if not own[1 - side]:
        return None
    batches = len(node.attribute("lhs_batch_dims"))
    last = batches + len(own[0]) - 1 if side == 1 else batches + len(own[0]) + len(own[1]) - 1
    return own[1 - side][-1], last


def _enlarged(graph: Graph, node: Apply, largest: Apply) -> Node:
    """A node's second operand; a kernel smaller than the largest is zero-padded."""
    kernel = node.operands[1]
    if node.opcode == "dot" or node.attributes == largest.attributes:
        return kernel
    padding = kernel_enlargement(node, largest)
    assert padding is not None, "they may be merged"
    dtype = kernel.array_type.dtype
    zero = graph.add_constant(literal_of(0, dtype), TensorType(dtype, ()))
    return _add(graph, "pad", [kernel, zero], {"padding": padding})


def _reshape(graph: Graph, node: Node, dims: Sequence[int]) -> Apply:
    return graph.add_apply(OPS["reshape"], [node], TensorType(node.array_type.dtype, dims))


def _add(graph: Graph, opcode: str, operands: Sequence[Node], attributes: dict[str, object]) -> Apply:
    inferred = infer_type(OPS[opcode], [operand.array_type for operand in operands], attributes)
    return graph.add_apply(OPS[opcode], operands, inferred, attributes)
