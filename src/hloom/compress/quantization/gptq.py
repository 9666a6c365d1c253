"""GPTQ: rounds weights one input at a time and adjusts the rest to compensate the error (Frantar et al. 2023).

For a product y = x w with observed activations x, the error is ||x (w - w')||^2, whose Hessian is 2 x^T x. Rows of w
are rounded in order; the error of each is spread over the following rows by the inverse of the Hessian (algorithm 1 of
the paper, without its blocks). Scales stay those of rounding to nearest, even if rows are taken by descending diagonal
of the Hessian (the authors' `act_order` with `static_groups`).

With few rows of activations, the Hessian does not cover most directions, so errors move into them and show up on unseen
inputs. So the damping, which is added to the diagonal, and the order are chosen by the error on held-out rows; if
rounding to nearest is no worse, it is used. The final Hessian is that of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hloom.compress.quantization.arithmetic import QuantizedArray, rounded, stretched
from hloom.compress.quantization.formats import NumberFormat
from hloom.compress.quantization.product_observer import Observation, observe_products, sole_dots
from hloom.compress.quantization.quantization import Quantization, QuantizedWeight
from hloom.passes import canonicalize
from hloom.text import HloomError

DAMPINGS = (0.01, 0.1, 1.0)
"""The fractions of the mean of the Hessian's diagonal to try as damping."""
HELD_OUT = 4
"""Every which row of activations is held out to choose."""
MOST_BYTES = 4 << 30
"""The maximum bytes of Hessians."""


@dataclass(frozen=True, slots=True)
class GptqRounding:
    """The result for one weight: how many of its slices (layers or batches) GPTQ rounds; the others are rounded to
    nearest.

    `errors` are those of its products on the rows that were held out, to the nearest and as chosen, relative to the
    products; None where no row could be held out.
    """

    weight: str
    slices: int
    by_gptq: int
    errors: tuple[float, float] | None


@dataclass(slots=True)
class _Slice:
    """Elements of a weight that one product reads: their positions, [batch, summed, free], and the Hessians.

    `hessians` are of the rows that are held out, and of the others.
    """

    positions: np.ndarray
    hessians: np.ndarray
    count: int = 0


class GptqRounder:
    """Rounds one weight by the Hessians of its slices; `rounding` says what came of it."""

    def __init__(self, damping: float | None, act_order: bool | None) -> None:
        self.slices: dict[int, _Slice] = {}
        self.dampings = DAMPINGS if damping is None else (damping,)
        self.orders = (False, True) if act_order is None else (act_order,)
        self.chooses = damping is None or act_order is None
        self.rounding: GptqRounding | None = None

    def __call__(self, weight: QuantizedWeight, array: np.ndarray, nearest: QuantizedArray) -> QuantizedArray:
        """A weight's array in its narrow type, of that which rounding to the nearest makes."""
        values = nearest.values.copy().reshape(-1)
        wide = array.astype(np.float64).reshape(-1)
        dims = weight.type.dims
        scale = _spread(nearest.scale, dims, weight.blocks)
        zero = np.zeros(wide.shape) if nearest.zero is None else _spread(nearest.zero, dims, weight.blocks)
        counts, errors, signal = [0, 0], np.zeros(2), 0.0
        for piece in self.slices.values():
            for positions, hessians in zip(piece.positions, piece.hessians, strict=True):
                slice_ = _Rows(wide[positions], scale[positions], zero[positions], weight.format.number_format)
                made, pair = self._chosen(slice_, values[positions], hessians)
                counts[0] += 1
                if made is not None:
                    counts[1] += 1
                    values[positions] = made
                errors += pair
                signal += _noise(wide[positions], hessians[0])
        relative = (float(np.sqrt(errors[0] / signal)), float(np.sqrt(errors[1] / signal))) if signal > 0 else None
        self.rounding = GptqRounding(weight.name, counts[0], counts[1], relative)
        return replace(nearest, values=values.reshape(dims))

    def _chosen(
        self, rows: _Rows, nearest: np.ndarray, hessians: np.ndarray
    ) -> tuple[np.ndarray | None, tuple[float, float]]:
        """Rows rounded by GPTQ, or None if rounding to nearest is no worse; and the errors on the held-out rows."""
        held_out, seen = hessians
        if not seen.any():
            return None, (0.0, 0.0)
        plain = _noise(rows.error(nearest), held_out)
        if not self.chooses:
            made = rows.rounded(held_out + seen, self.dampings[0], act_order=self.orders[0])
            return made, (plain, _noise(rows.error(made), held_out))
        if not held_out.any():
            return None, (0.0, 0.0)
        best, damping, act_order = min(
            (_noise(rows.error(rows.rounded(seen, damping, act_order=order)), held_out), damping, order)
            for damping in self.dampings
            for order in self.orders
        )
        if best >= plain:
            return None, (plain, plain)
        return rows.rounded(held_out + seen, damping, act_order=act_order), (plain, best)


def gptq(
    quantization: Quantization,
    arrays: Sequence[Any],
    calibration: Sequence[Sequence[Any]],
    *,
    damping: float | None = None,
    act_order: bool | None = None,
) -> list[Any]:
    """The quantised program's arrays from the original's, as `convert` makes them, with weights rounded by GPTQ.

    The same as `round_by_gptq(...).convert(arrays)`.
    """
    return round_by_gptq(quantization, calibration, damping=damping, act_order=act_order).convert(arrays)


def round_by_gptq(
    quantization: Quantization,
    calibration: Sequence[Sequence[Any]],
    *,
    damping: float | None = None,
    act_order: bool | None = None,
) -> Quantization:
    """The same program, whose `convert` rounds weights by GPTQ.

    `calibration` are inputs of the original, from which numpy computes the activations. Weights that a single dot
    reads, directly or moved, are rounded this way, in loops layer by layer; others to nearest. Only integer formats are
    supported. `damping` is the fraction of the mean of the Hessian's diagonal added to it, `act_order` whether inputs
    with large activations are rounded first: if not given, they are chosen on held-out rows. If both are given, nothing
    falls back to rounding to nearest. Raises HloomError if no weight qualifies, and if Hessians take more than
    MOST_BYTES.
    """
    integers = [weight for weight in quantization.weights if weight.format.number_format.is_integer]
    if not integers:
        raise HloomError(f"GPTQ rounds to integers, and the format is {quantization.recipe}")
    if not calibration:
        raise HloomError(
            "GPTQ needs inputs to see activations of", hint="calibration=[arrays, ...], or --calibrate X.npz"
        )
    if damping is not None and not 0 < damping < np.inf:
        raise HloomError(f"{damping} is not a valid damping", hint="give a number above 0, such as 0.01")
    before = canonicalize(quantization.base)
    readers = sole_dots(before, [weight.number for weight in integers])
    if not readers:
        raise HloomError(f"no weight of {before.name} is read by one dot alone: GPTQ rounds nothing")
    rounders = {number: GptqRounder(damping, act_order) for number in readers}
    left = MOST_BYTES

    def see(seen: Observation) -> None:
        nonlocal left
        slices = rounders[seen.number].slices
        held = slices.get(seen.key)
        if held is None:
            batch, summed, _ = seen.positions.shape
            left -= 16 * batch * summed * summed
            if left < 0:
                raise HloomError(
                    f"the Hessians of {before.name} take more than {MOST_BYTES:,} bytes",
                    hint="quantise fewer weights, by their scope",
                )
            held = slices[seen.key] = _Slice(seen.positions, np.zeros((batch, 2, summed, summed)))
        numbers = np.arange(held.count, held.count + seen.activation.shape[1])
        held.count += len(numbers)
        for part, is_part in enumerate((numbers % HELD_OUT == HELD_OUT - 1, numbers % HELD_OUT < HELD_OUT - 1)):
            rows = seen.activation[:, is_part]
            held.hessians[:, part] += np.einsum("bmk,bml->bkl", rows, rows, optimize=True)

    observe_products(before, readers, [quantization.base_arrays(arrays) for arrays in calibration], see)
    return replace(quantization, rounders=rounders)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The elements of a weight that one product sums up, [summed, free], with their scales and zero points."""

    values: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    number_format: NumberFormat

    def error(self, integers: np.ndarray) -> np.ndarray:
        """What the elements are more than integers stand for."""
        return self.values - (integers.astype(np.float64) - self.zero) * self.scale

    def rounded(self, hessian: np.ndarray, damping: float, *, act_order: bool) -> np.ndarray:
        """Integers, each row rounded after the errors of those before it were spread over it."""
        diagonal = hessian.diagonal()
        order = np.argsort(-diagonal, kind="stable") if act_order else np.arange(len(diagonal))
        damped = hessian[np.ix_(order, order)]
        damped[np.diag_indices(len(order))] += damping * max(float(np.mean(diagonal)), np.finfo(np.float64).tiny)
        spread = np.linalg.cholesky(np.linalg.inv(damped)).T
        rows, scale, zero = self.values[order], self.scale[order], self.zero[order]
        result = np.zeros(rows.shape, self.number_format.dtype.numpy)
        for number in range(len(rows)):
            quotient = rows[number] / scale[number] + zero[number]
            integers = rounded(quotient, self.number_format)
            error = rows[number] - (integers.astype(np.float64) - zero[number]) * scale[number]
            rows[number + 1 :] -= np.outer(spread[number, number + 1 :], error / spread[number, number])
            result[order[number]] = integers
        return result


def _noise(error: np.ndarray, hessian: np.ndarray) -> float:
    """The squared error of a product whose weight is off by this, by the Hessian of its activations."""
    return float(np.sum(error * (hessian @ error)))


def _spread(array: np.ndarray, dims: Sequence[int], blocks: Sequence[int]) -> np.ndarray:
    """One element per block as one per element of the weight, flat."""
    return np.broadcast_to(stretched(array.astype(np.float64), dims, blocks), tuple(dims)).reshape(-1)
