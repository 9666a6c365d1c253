"""GPTQ: weights rounded one input after the other, the rest changed to make up for the error (Frantar et al. 2023).

Of a product y = x w with activations x that were seen, the error is ||x (w - w')||^2, whose Hessian is 2 x^T x. Rows of
w are rounded in order; what a row's rounding costs is spread over the following ones by the inverse of the Hessian
(algorithm 1 of the paper, without its blocks; the damping is its 1 % of the mean diagonal).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.ir import Module
from hloom.passes import canonicalize
from hloom.quantization.arithmetic import rounded, stretched
from hloom.quantization.product_observer import Observation, observe_products, sole_dots
from hloom.quantization.quantize import Quantization, QuantizedWeight
from hloom.quantization.weights import WeightUse
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
    before = canonicalize(quantization.base)
    readers = sole_dots(before, [weight.number for weight in quantization.weights])
    if not readers:
        raise HloomError(f"no weight of {before.name} is read by one dot alone: GPTQ rounds nothing")
    base = quantization.base_arrays(arrays)
    slices = _measure(before, readers, [quantization.base_arrays(batch) for batch in calibration])
    for weight in quantization.weights:
        if weight.number in slices:
            result[weight.number] = _round(quantization, weight, base[weight.number], slices[weight.number])
    return result


def _measure(
    before: Module, readers: Mapping[int, WeightUse], calibration: Sequence[Sequence[Any]]
) -> dict[int, dict[int, WeightSlice]]:
    """By weight, and by the first position of what is read of it, what is read and its Hessians."""
    slices: dict[int, dict[int, WeightSlice]] = {}
    left = MOST_BYTES

    def see(seen: Observation) -> None:
        nonlocal left
        held = slices.setdefault(seen.number, {}).get(seen.key)
        if held is None:
            batch, summed, _ = seen.positions.shape
            left -= 8 * batch * summed * summed
            if left < 0:
                raise HloomError(
                    f"the Hessians of {before.name} take more than {MOST_BYTES:,} bytes",
                    hint="quantise fewer weights, by their scope",
                )
            held = slices[seen.number][seen.key] = WeightSlice(seen.positions, np.zeros((batch, summed, summed)))
        held.hessians += np.einsum("bmk,bml->bkl", seen.activation, seen.activation, optimize=True)

    observe_products(before, readers, calibration, see)
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
