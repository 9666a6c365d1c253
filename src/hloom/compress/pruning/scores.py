"""How much elements of weights matter: by magnitude, or by Wanda, which multiplies it with the norm of the input.

Source: Sun et al. 2024, "A simple and effective pruning approach for large language models": |W| * ||X||_2, compared
among the elements that are summed up for one output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from hloom.compress.quantization import WeightUse, matrices, moved_positions, movements_to
from hloom.evaluator import Value, evaluate
from hloom.ir import Apply, ConvolutionDimensions, Module, Node, Parameter, TensorType, Window, WindowDimension
from hloom.text import HloomError

METHODS = ("magnitude", "wanda")


def magnitudes(array: np.ndarray) -> np.ndarray:
    """The absolute values."""
    return np.abs(array.astype(np.promote_types(np.float32, array.dtype), copy=False))


def reason_against_wanda(parameter: Parameter, uses: Sequence[WeightUse]) -> str | None:
    """Why the inputs of a weight cannot be told; None where they can."""
    for use in uses:
        chain = movements_to(use)
        first = chain[0].operands[0] if chain else use.node.operands[use.operand_index]
        if first is not parameter and first.opcode != "get-tuple-element":
            return f"{first.name} ({first.opcode}) stands between it and {use.node.name}"
        if use.node.opcode == "convolution" and (use.node.attribute("batch_group_count") or 1) != 1:
            return f"{use.node.name} is a convolution by groups of the batch"
    return None


def input_norms(
    module: Module, uses: Mapping[int, Sequence[WeightUse]], calibration: Sequence[Sequence[Any]]
) -> dict[int, np.ndarray]:
    """For every element of some weights the norm of the inputs that it is multiplied with, on all of `calibration`.

    `module` is in canonical form; weights are by number. Numpy computes the activations; in loops the elements of a
    stack that a round reads get the norms of that round. Raises HloomError where numpy cannot compute the program.
    """
    squares = {number: np.zeros(module.entry.parameters[number].dims) for number in uses}
    readers: dict[Node, list[tuple[int, WeightUse, list[Apply]]]] = {}
    for number, many in uses.items():
        for use in many:
            readers.setdefault(use.node, []).append((number, use, movements_to(use)))
    watched = {
        step for many in readers.values() for _, _, chain in many for node in chain for step in node.operands[1:]
    }
    watched |= {use.node.operands[1 - use.operand_index] for many in uses.values() for use in many}
    latest: dict[Node, np.ndarray] = {}

    def see(node: Node, value: Value) -> None:
        if node in watched:
            latest[node] = np.asarray(value)
        for number, use, chain in readers.get(node, ()):
            positions = np.arange(squares[number].size).reshape(squares[number].shape)
            for step in chain:
                positions = moved_positions(step, positions, latest)
            activation = latest[use.node.operands[1 - use.operand_index]]
            if use.node.opcode == "dot":
                read, inputs = matrices(use, positions, activation)
                seen = np.broadcast_to(np.square(inputs).sum(axis=1)[:, :, None], read.shape)
            else:
                read, seen = positions, _convolution_squares(use.node, positions.shape, activation)
            squares[number].reshape(-1)[read.reshape(-1)] += seen.reshape(-1)

    for arrays in calibration:
        evaluate(module, list(arrays), observe=see)
    for number, values in squares.items():
        if not np.isfinite(values).all():
            name = module.entry.parameters[number].name
            raise HloomError(f"an input of {name} is NaN or infinite on the inputs of the calibration")
    return {number: np.sqrt(values) for number, values in squares.items()}


def _convolution_squares(node: Apply, kernel: Sequence[int], image: np.ndarray) -> np.ndarray:
    """For every element of a kernel the sum of squares of what it is multiplied with."""
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    spatial = [str(number) for number in range(labels.spatial_rank)]
    squares = np.square(image.astype(np.float64)).transpose(
        [labels.lhs.index(letter) for letter in ("b", "f", *spatial)]
    )
    window: Window | None = node.attribute("window")
    dims = window.dimensions if window is not None and window.dimensions else (WindowDimension(),) * len(spatial)
    for axis, dim in enumerate(dims, 2):
        squares = _padded(squares, axis, dim)
    sizes = {letter: kernel[labels.rhs.index(letter)] for letter in ("i", "o", *spatial)}
    assert isinstance(node.type, TensorType), "a convolution makes an array"
    counts = [node.type.dims[labels.output.index(letter)] for letter in spatial]
    groups = node.attribute("feature_group_count") or 1
    taps = [sizes[letter] for letter in spatial]
    sums = np.zeros((*taps, sizes["i"], sizes["o"]))
    for tap in product(*map(range, taps)):
        cuts = []
        for number, dim, size, count in zip(tap, dims, taps, counts, strict=True):
            offset = (size - 1 - number if dim.reversal else number) * dim.window_dilation
            cuts.append(slice(offset, offset + (count - 1) * dim.stride + 1 if count else offset, dim.stride))
        by_feature = squares[(slice(None), slice(None), *cuts)].sum(axis=(0, *range(2, squares.ndim)))
        sums[tap] = by_feature.reshape(groups, sizes["i"]).repeat(sizes["o"] // groups, axis=0).T
    positions = [*spatial, "i", "o"]
    return sums.transpose([positions.index(letter) for letter in labels.rhs])


def _padded(values: np.ndarray, axis: int, dim: WindowDimension) -> np.ndarray:
    """Zeros between and around elements along an axis, as a window of a convolution sees them."""
    wide = max((values.shape[axis] - 1) * dim.base_dilation + 1, 0)
    low, high = dim.padding_low, dim.padding_high
    shape = list(values.shape)
    shape[axis] = wide + max(low, 0) + max(high, 0)
    result = np.zeros(shape)
    inner = [slice(None)] * values.ndim
    inner[axis] = slice(max(low, 0), max(low, 0) + wide, dim.base_dilation)
    result[tuple(inner)] = values
    outer = [slice(None)] * values.ndim
    outer[axis] = slice(max(-low, 0), shape[axis] - max(-high, 0))
    return result[tuple(outer)]
