"""Split-K: a dot of few tiles is computed in parts of its contracting dimension, which are added afterwards.

    dot(x[256,512], y[512,1024])
      ->
    reduce(dot(reshape(x)[256,4,128], reshape(y)[4,128,1024]) [4,256,1024]), dimensions={0}

The parts are a result of their own, in f32 if the dot is of narrower floats. Follows `EstimateGemmCostAfterSplitK`,
`ChooseSplitK` and `SplitKDimensionOfDot` (xla/backends/gpu/transforms/splitk_rewriter.cc).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hloom.analysis import ELEMENTWISE, Device
from hloom.autodiff import add_reducer
from hloom.ir import Apply, DType, Graph, Literal, Node, PaddingDimension, TensorType, dtype
from hloom.ops import OPS

TILE = 128
"""Rows and columns of the output that one multiprocessor computes at a time (`kMTileSize`, `kNTileSize`)."""
MOST_PARTS = 2048
SPLIT_BYTES = 16
"""A part of a row of the operands is a multiple of so many bytes (`GetPaddedK`)."""


@dataclass(frozen=True, slots=True)
class SplitCosts:
    """What XLA weighs: costs of a multiply-add, of a byte that a dot moves and that the sum moves, and of the sum's
    launch.
    """

    compute: float
    memory: float
    sum_memory: float
    sum_launch: float


# `GetCostWeights`, by the major number of the compute capability
AMPERE = SplitCosts(100.0, 0.0666955, 467.815, 5.65307e07)
HOPPER = SplitCosts(100.0, 0.194136, 193.1384, 4.36e07)
BLACKWELL = SplitCosts(100.0, 0.0848863, 189.711, 1.21563e08)
COSTS = {"b200": BLACKWELL, "h100": HOPPER, "h200": HOPPER}
"""By device; those of Ampere for all others."""


def split_contractions(graph: Graph, device: Device) -> None:
    """Split the dots of a graph whose products have one contracting dimension, where that is faster."""
    for node in list(graph.nodes):
        if isinstance(node, Apply) and node.opcode == "dot" and isinstance(node.type, TensorType):
            parts = _best_parts(node, device)
            if parts > 1:
                _split(graph, node, parts)


def _best_parts(dot: Apply, device: Device) -> int:
    types = [operand.type for operand in dot.operands]
    contracting = dot.attributes.get("lhs_contracting_dims") or ()
    if len(contracting) != 1 or any(not isinstance(one, TensorType) or one.dtype.name == "s32" for one in types):
        return 1
    choices = [1 << power for power in range(MOST_PARTS.bit_length())]
    return min(choices, key=lambda parts: _cost(dot, parts, device))


def _cost(dot: Apply, parts: int, device: Device) -> float:
    """What the dot costs in so many parts, with the sum of the parts."""
    costs = COSTS.get(device.name, AMPERE)
    batches = math.prod(_sizes(dot, "lhs", "lhs_batch_dims"))
    (depth,) = _sizes(dot, "lhs", "lhs_contracting_dims")
    own = batches * depth
    rows, columns = (math.prod(operand.dims) // own for operand in dot.operands)
    tile = min(rows, TILE) * min(columns, TILE)
    tiles = batches * parts * math.ceil(rows / TILE) * math.ceil(columns / TILE)
    waves = max(1.0, tiles / (device.multiprocessors * TILE * TILE / tile))
    computing = 2 * tile * math.ceil(depth / parts) * waves * costs.compute
    read = sum(math.prod(operand.dims) * _read_bytes(operand) for operand in dot.operands)
    written = math.prod(dot.dims)
    partial = parts * written * (_sum_bytes(dot) if parts > 1 else _bytes(dot))
    total = max(computing, (read + partial) * costs.memory)
    if parts == 1:
        return total
    return total + costs.sum_launch + (partial + written * _bytes(dot)) * costs.sum_memory


def _split(graph: Graph, dot: Apply, parts: int) -> None:
    (depth,) = _sizes(dot, "lhs", "lhs_contracting_dims")
    narrowest = min(SPLIT_BYTES, *map(_read_bytes, dot.operands))
    padded = -(-depth // (parts * SPLIT_BYTES // narrowest)) * (parts * SPLIT_BYTES // narrowest)
    attributes = dict(dot.attributes)
    inputs: list[Node] = []
    for side, operand in zip(("lhs", "rhs"), dot.operands, strict=True):
        (dim,) = attributes[f"{side}_contracting_dims"]
        batches = tuple(batch + (batch > dim) for batch in attributes.get(f"{side}_batch_dims") or ())
        attributes |= {f"{side}_batch_dims": (*batches, dim), f"{side}_contracting_dims": (dim + 1,)}
        inputs.append(_split_operand(graph, dot, operand, dim, depth, padded, parts))
    assert isinstance(dot.type, TensorType)
    position = len(attributes["lhs_batch_dims"]) - 1
    dims = (*dot.dims[:position], parts, *dot.dims[position:])
    sum_dtype = dtype("f32") if _sum_bytes(dot) > _bytes(dot) else dot.type.dtype
    made = graph.add_apply(dot.function, inputs, TensorType(sum_dtype, dims), attributes, before=dot)
    module = graph.module
    name = f"add_{sum_dtype}_parts"
    reducer = module[name] if name in module else add_reducer(module, name, "add", sum_dtype)
    total: Node = graph.add_apply(
        OPS["reduce"],
        (made, _zero(graph, sum_dtype, dot)),
        TensorType(sum_dtype, dot.dims),
        {"dimensions": (position,), "to_apply": reducer},
        before=dot,
    )
    if sum_dtype is not dot.type.dtype:
        total = graph.add_apply(OPS["convert"], (total,), dot.type, before=dot)
    graph.replace_uses(dot, total)
    graph.erase(dot)


def _split_operand(graph: Graph, dot: Apply, operand: Node, dim: int, depth: int, padded: int, parts: int) -> Node:
    assert isinstance(operand.type, TensorType)
    dims = list(operand.type.dims)
    if dims[dim] != depth:
        dim = 1 - dim  # a matrix that is read transposed (`layout_assignment.py`)
    if dims[dim] != padded:
        padding = tuple(PaddingDimension(0, padded - size if index == dim else 0) for index, size in enumerate(dims))
        dims[dim] = padded
        zero = _zero(graph, operand.type.dtype, dot)
        padded_type = TensorType(operand.type.dtype, tuple(dims))
        operand = graph.add_apply(OPS["pad"], (operand, zero), padded_type, {"padding": padding}, before=dot)
    assert isinstance(operand.type, TensorType)
    dims[dim : dim + 1] = [parts, padded // parts]
    return graph.add_apply(OPS["reshape"], (operand,), TensorType(operand.type.dtype, tuple(dims)), before=dot)


def _zero(graph: Graph, element: DType, before: Node) -> Node:
    scalar = TensorType(element)
    return graph.add_constant(Literal.array(scalar, np.zeros((), element.numpy)), scalar, before=before)


def _sizes(dot: Apply, side: str, name: str) -> list[int]:
    operand = dot.operands[("lhs", "rhs").index(side)]
    return [operand.dims[dim] for dim in dot.attributes.get(name) or ()]


def _read_bytes(operand: Node) -> int:
    """The bytes of an element that the dot reads, behind elementwise instructions that are fused into it."""
    while operand.opcode in ELEMENTWISE and len(operand.operands) == 1:
        operand = operand.operands[0]
    return _bytes(operand)


def _bytes(node: Node) -> int:
    return node.type.dtype.byte_count if isinstance(node.type, TensorType) else 0


def _sum_bytes(dot: Apply) -> int:
    """The bytes of an element of the sums, which are f32 for narrower floats."""
    is_float = isinstance(dot.type, TensorType) and dot.type.dtype.is_float
    return max(_bytes(dot), 4) if is_float else _bytes(dot)
