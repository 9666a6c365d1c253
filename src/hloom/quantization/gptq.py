"""GPTQ: weights rounded one input after the other, the rest changed to make up for the error (Frantar et al. 2023).

Of a product y = x w with activations x that were seen, the error is ||x (w - w')||^2, whose Hessian is 2 x^T x. Rows of
w are rounded in order; what a row's rounding costs is spread over the following ones by the inverse of the Hessian
(algorithm 1 of the paper, without its blocks; the damping is its 1 % of the mean diagonal).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hloom.evaluate import Value, evaluate
from hloom.ir import Node
from hloom.passes import canonicalize
from hloom.quantization.arithmetic import rounded, stretched
from hloom.quantization.quantize import Quantization, QuantizedWeight
from hloom.quantization.weight_slices import matrices, moved_positions, movements_to
from hloom.quantization.weights import WeightUse, uses_of
from hloom.text import HloomError

DAMPING = 0.01
"""What part of the mean of the Hessian's diagonal is added to it."""
MOST_BYTES = 4 << 30
"""How many bytes Hessians may take."""


@dataclass(slots=True)
class WeightSlice:
    """Elements of a weight that one product reads: their positions, [batch, summed, free], and the Hessians."""

    positions: np.ndarray
    hessians: np.ndarray


def gptq(quantization: Quantization, arrays: Sequence[Any], calibration: Sequence[Sequence[Any]]) -> list[Any]:
    """The quantised program's arrays of the original's, as `convert` makes them, but with weights rounded by GPTQ.

    `calibration` are inputs of the original, of which numpy computes the activations. Weights that one dot reads, as
    they are or moved, are rounded so, in loops layer by layer; others to the nearest. Only integer formats are. Raises
    HloomError where there is nothing to round so, and for Hessians that take more than MOST_BYTES.
    """
    if not quantization.recipe.number_format.is_integer:
        raise HloomError(f"GPTQ rounds to integers, and the format is {quantization.recipe.number_format}")
    if not calibration:
        raise HloomError("GPTQ needs inputs to see activations of", hint="calibration=[arrays, ...]")
    result = quantization.convert(arrays)
    before = canonicalize(quantization.original)
    readers = {
        weight.number: uses[0]
        for weight in quantization.weights
        if len(uses := uses_of(before.entry.parameters[weight.number])) == 1 and uses[0].node.opcode == "dot"
    }
    if not readers:
        raise HloomError(f"no weight of {before.name} is read by one dot alone: GPTQ rounds nothing")
    slices = _measure(before, readers, {w.number: w for w in quantization.weights}, calibration)
    for weight in quantization.weights:
        if weight.number in slices:
            result[weight.number] = _round(quantization, weight, arrays[weight.number], slices[weight.number])
    return result


def _measure(
    before: Any,
    readers: dict[int, WeightUse],
    weights: dict[int, QuantizedWeight],
    calibration: Sequence[Sequence[Any]],
) -> dict[int, dict[int, WeightSlice]]:
    """By weight, and by the first position of what is read of it, what is read and its Hessians."""
    slices: dict[int, dict[int, WeightSlice]] = {}
    chains = {number: movements_to(use) for number, use in readers.items()}
    watched = {node for chain in chains.values() for step in chain for node in step.inputs[1:]}
    activations = {use.node.inputs[1 - use.operand_index] for use in readers.values()}
    products: dict[Node, int] = {use.node: number for number, use in readers.items()}
    latest: dict[Node, np.ndarray] = {}
    left = MOST_BYTES

    def see(node: Node, value: Value) -> None:
        nonlocal left
        if node in watched or node in activations:
            latest[node] = np.asarray(value)
        number = products.get(node)
        if number is None:
            return
        use = readers[number]
        dims = weights[number].type.dims
        positions = np.arange(prod(dims)).reshape(dims)
        for step in chains[number]:
            positions = moved_positions(step, positions, latest)
        sides = matrices(use, positions, latest[use.node.inputs[1 - use.operand_index]])
        key = int(sides[0].flat[0]) if sides[0].size else 0
        held = slices.setdefault(number, {}).get(key)
        if held is None:
            batch, summed, _ = sides[0].shape
            left -= 8 * batch * summed * summed
            if left < 0:
                raise HloomError(
                    f"the Hessians of {before.name} take more than {MOST_BYTES:,} bytes",
                    hint="quantise fewer weights, by their scope",
                )
            held = slices[number][key] = WeightSlice(sides[0], np.zeros((batch, summed, summed)))
        held.hessians += np.einsum("bmk,bml->bkl", sides[1], sides[1], optimize=True)

    for arrays in calibration:
        evaluate(before, list(arrays), observe=see)
    return slices


def _round(quantization: Quantization, weight: QuantizedWeight, array: Any, slices: dict[int, WeightSlice]) -> Any:
    """A weight in its narrow type, the elements that were seen rounded by GPTQ."""
    made = quantization.quantized(weight, array)
    values = made.values.copy().reshape(-1)
    wide = np.asarray(array).astype(np.float64).reshape(-1)
    dims = weight.type.dims
    scale = np.broadcast_to(stretched(made.scale.astype(np.float64), dims, weight.blocks), dims).reshape(-1)
    zero = np.zeros(1) if made.zero is None else made.zero.astype(np.float64)
    zero = np.broadcast_to(stretched(zero, dims, weight.blocks) if made.zero is not None else zero, dims).reshape(-1)
    for piece in slices.values():
        for positions, hessian in zip(piece.positions, piece.hessians, strict=True):
            if hessian.any():
                values[positions] = _rounded_rows(
                    wide[positions], scale[positions], zero[positions], hessian, quantization, made.zero is None
                )
    return values.reshape(dims)


def _rounded_rows(
    rows: np.ndarray,
    scale: np.ndarray,
    zero: np.ndarray,
    hessian: np.ndarray,
    quantization: Quantization,
    is_symmetric: bool,
) -> np.ndarray:
    """Rows in the narrow type, each rounded after the errors of those before it were spread over it."""
    diagonal = np.diag_indices(len(hessian))
    damped = hessian.copy()
    damped[diagonal] += DAMPING * max(float(np.mean(hessian[diagonal])), np.finfo(np.float64).tiny)
    spread = np.linalg.cholesky(np.linalg.inv(damped)).T
    rows = rows.copy()
    result = np.zeros(rows.shape, quantization.recipe.number_format.dtype.numpy)
    for number in range(len(rows)):
        quotient = rows[number] / scale[number] + zero[number]
        result[number] = rounded(quotient, quantization.recipe.number_format, is_symmetric=is_symmetric)
        error = rows[number] - (result[number].astype(np.float64) - zero[number]) * scale[number]
        rows[number + 1 :] -= np.outer(spread[number, number + 1 :], error / spread[number, number])
    return result
