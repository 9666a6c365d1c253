"""Removes positions from programs: adapts types, size attributes, constants and operands.

dot(tanh(dot(x, up)), down)     up = f32[64,128], down = f32[128,8], positions 1 and 5 of 128 are removed
  ->
dot(tanh(dot(x, up)), down)     up = f32[64,126], down = f32[126,8]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hloom.compress.pruning.dimension_dependency import LeafDim, OperandDim, convolution_groups
from hloom.compress.quantization import InsertionPoint, finish_program
from hloom.distribute.propagation import DataflowGraph
from hloom.ir import (
    Apply,
    Constant,
    Literal,
    Module,
    Node,
    SliceDimension,
    TensorType,
    Trait,
    Type,
    literal_of,
    map_leaves,
)

Kept = Mapping[LeafDim, np.ndarray]
"""The kept positions of each dimension, in order."""


def remove_positions(
    module: Module, dataflow: DataflowGraph, kept: Kept, restrictions: Mapping[OperandDim, np.ndarray]
) -> None:
    """Let the dimensions of `kept` have these positions only, and operands of `restrictions` be read at these only."""
    former = tuple(module.entry.parameters)
    before = {node: node.type for graph in dataflow.graphs for node in graph.nodes}
    grouped = {
        node: (groups, node.operands[0].array_type.dims)
        for graph in dataflow.graphs
        for node in graph.nodes
        if isinstance(node, Apply) and node.opcode == "convolution" and (groups := convolution_groups(node)[0]) > 1
    }
    for graph in dataflow.graphs:
        for node in graph.nodes:
            _retype(node, dataflow, kept)
    for graph in dataflow.graphs:
        for node in list(graph.nodes):
            if isinstance(node, Constant):
                _cut_constant(node, dataflow, kept)
            elif isinstance(node, Apply):
                attributes = _attributes(node, before, dataflow, kept)
                if attributes:
                    graph.set_attributes(node, node.attributes.changed(**attributes))
    cuts: dict[tuple[Node, int], list[tuple[int, np.ndarray]]] = {}
    for (number, slot, dim), positions in restrictions.items():
        equation = dataflow.equations[number]
        cuts.setdefault((equation.node, slot), []).append((dim, positions))
    for (node, operand_index), dims in cuts.items():
        _cut_operand(node, operand_index, dims)
    for node, count in grouped.items():
        node.graph.set_attributes(node, node.attributes.changed(**_group_counts(node, *count)))
    finish_program(module, former)


def _retype(node: Node, dataflow: DataflowGraph, kept: Kept) -> None:
    """Give a node the type that its leaves have now."""
    leaves = dataflow.values.get(node, ())
    if node.type is None or not any(
        LeafDim(leaf, dim) in kept for leaf in leaves for dim in range(len(dataflow.leaves[leaf].dims))
    ):
        return
    following = iter(leaves)

    def cut(type_: Type) -> Type:
        leaf = next(following)
        if not isinstance(type_, TensorType):
            return type_
        dims = [len(kept.get(LeafDim(leaf, dim), range(size))) for dim, size in enumerate(type_.dims)]
        return TensorType(type_.dtype, dims, type_.layout)

    node.graph.set_type(node, map_leaves(node.type, cut))


def _cut_constant(node: Constant, dataflow: DataflowGraph, kept: Kept) -> None:
    """Leave the kept elements of a constant."""
    leaves = dataflow.values.get(node, ())
    if len(leaves) != 1 or not isinstance(node.value, Literal) or not isinstance(node.type, TensorType):
        return
    array = node.value.numpy()
    for dim in range(array.ndim):
        positions = kept.get(LeafDim(leaves[0], dim))
        if positions is not None:
            array = array.take(positions, dim)
    if array.shape != node.value.numpy().shape:
        node.graph.set_value(node, literal_of(np.ascontiguousarray(array), node.type.dtype))


def _attributes(node: Apply, before: Mapping[Node, Type | None], dataflow: DataflowGraph, kept: Kept) -> dict[str, Any]:
    """The attributes that hold sizes, as they are now."""
    if not node.has_trait(Trait.READS_PART):
        return {}
    old, operand = before[node.operands[0]], node.operands[0].type
    assert isinstance(old, TensorType) and isinstance(operand, TensorType), "these ops read arrays"
    if old.dims == operand.dims:
        return {}
    leaf = dataflow.values[node.operands[0]][0]
    if node.opcode == "slice":
        cuts = [_cut(part, kept.get(LeafDim(leaf, dim))) for dim, part in enumerate(node.attributes["slice"])]
        return {"slice": tuple(cuts)}
    name = "slice_sizes" if node.opcode == "gather" else "dynamic_slice_sizes"
    sizes = [
        new if size == whole else size
        for size, whole, new in zip(node.attributes[name], old.dims, operand.dims, strict=True)
    ]
    return {name: tuple(sizes)}


def _group_counts(convolution: Apply, groups: int, dims: Sequence[int]) -> dict[str, int]:
    """How many groups a convolution has, whose left operand had `dims` and so many groups."""
    are_features = (convolution.attribute("feature_group_count") or 1) > 1
    name = "feature_group_count" if are_features else "batch_group_count"
    dim = convolution_groups(convolution)[1][0][1]
    return {name: convolution.operands[0].array_type.dims[dim] * groups // dims[dim]}


def _cut(part: SliceDimension, positions: np.ndarray | None) -> SliceDimension:
    """A slice of a dimension as one of the positions that are kept."""
    if positions is None:
        return part
    start, limit = (int(np.searchsorted(positions, end)) for end in (part.start, part.limit))
    return SliceDimension(start, limit, 1)


def _cut_operand(node: Node, operand_index: int, dims: list[tuple[int, np.ndarray]]) -> None:
    """Let a node read some positions of an operand only: a slice where they are a run, else a gather."""
    operand = node.operands[operand_index]
    writer = InsertionPoint(node.graph, node)
    for dim, positions in dims:
        is_run = (np.diff(positions) == 1).all()
        first = int(positions[0]) if len(positions) else 0
        operand = writer.cut(operand, dim, first, len(positions)) if is_run else writer.take(operand, dim, positions)
    inputs = list(node.operands)
    inputs[operand_index] = operand
    node.graph.set_operands(node, inputs)
