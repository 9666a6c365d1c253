"""Which elements of a weight a product reads, as a program runs: positions in the weight, moved as its elements are."""

from __future__ import annotations

from math import prod

import numpy as np

from hloom.ir import Apply, Constant, Literal, Node
from hloom.quantization.insertion_point import array_type
from hloom.quantization.weights import WeightUse

_MOVES = ("reshape", "transpose", "copy", "convert", "slice", "dynamic-slice")


def movements_to(use: WeightUse) -> list[Apply]:
    """The movements between a weight, as its graph has it, and a product, in order."""
    chain: list[Apply] = []
    node = use.node.inputs[use.operand_index]
    while isinstance(node, Apply) and node.opcode in _MOVES:
        chain.append(node)
        node = node.inputs[0]
    return chain[::-1]


def moved_positions(step: Apply, positions: np.ndarray, latest: dict[Node, np.ndarray]) -> np.ndarray:
    """The positions after a movement; `latest` are the values of what it reads beside the weight."""
    match step.opcode:
        case "reshape":
            return positions.reshape(array_type(step).dims)
        case "transpose":
            return positions.transpose(step.attributes["dimensions"])
        case "slice":
            return positions[tuple(slice(cut.start, cut.limit, cut.stride) for cut in step.attributes["slice"])]
        case "dynamic-slice":
            sizes = step.attributes["dynamic_slice_sizes"]
            starts = np.concatenate([np.atleast_1d(_known(node, latest)) for node in step.inputs[1:]])
            cuts = []
            for start, size, whole in zip(starts, sizes, positions.shape, strict=True):
                first = min(max(int(start), 0), whole - size)
                cuts.append(slice(first, first + size))
            return positions[tuple(cuts)]
    return positions


def _known(node: Node, latest: dict[Node, np.ndarray]) -> np.ndarray:
    if isinstance(node, Constant) and isinstance(node.value, Literal):
        return node.value.numpy()
    return latest[node]


def matrices(use: WeightUse, positions: np.ndarray, activation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weight's positions as [batch, summed, free], the activation as [batch, free, summed]."""
    names = ("lhs", "rhs")
    orders = []
    for side, rank in ((use.operand_index, positions.ndim), (1 - use.operand_index, activation.ndim)):
        batch = tuple(use.node.attribute(f"{names[side]}_batch_dims") or ())
        summed = tuple(use.node.attribute(f"{names[side]}_contracting_dims") or ())
        free = tuple(dim for dim in range(rank) if dim not in (*batch, *summed))
        orders.append((batch, summed, free))
    batch, summed, free = orders[0]
    shape = [prod(positions.shape[dim] for dim in dims) for dims in orders[0]]
    weight = positions.transpose((*batch, *summed, *free)).reshape(shape)
    batch, summed, free = orders[1]
    shape = [prod(activation.shape[dim] for dim in dims) for dims in (batch, free, summed)]
    return weight, activation.astype(np.float64).transpose((*batch, *free, *summed)).reshape(shape)
