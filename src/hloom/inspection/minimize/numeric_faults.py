"""Numeric faults: how two results of a program differ, and whether two differences may have the same cause."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from hloom.ir import dtype_of
from hloom.runtime import Difference, compare

LEAST_SHARE = 0.1
"""Which part of the first error a later one must be at least: what is smaller may be rounding."""
MOST_ROUNDING = 16
"""The minimum ratio of a difference to the effect of rounding the inputs, so that it is not itself rounding."""
PIECE = 1 << 20
"""The number of elements to process at once."""


@dataclass(frozen=True, slots=True)
class NumericFault:
    """How two results differ.

    `errors` are the greatest ones of the outputs that differ, each as a part of the greatest magnitude in its output,
    infinite where one side is finite and the other is not. `has_infinities` is whether any output holds a number that
    is not finite. `dims` are those of the worst output, `index` where in it the greatest error is.
    """

    reason: str
    errors: dict[int, float]
    has_infinities: bool
    dims: tuple[int, ...]
    index: tuple[int, ...]

    @property
    def error(self) -> float:
        """The greatest error."""
        return max(self.errors.values())

    def refusal(self, later: NumericFault) -> str | None:
        """Why the fault of a smaller program is not the same as this one; None where it may be.

        Numbers that are not finite come from nowhere where the program had none. A difference that is far smaller than
        the first was is rounding.
        """
        if math.isinf(later.error) and not math.isinf(self.error):
            return "one side is not finite"
        if later.has_infinities and not self.has_infinities:
            return "numbers are not finite that were"
        if later.error < LEAST_SHARE * min(self.error, 1.0):
            return f"the error is {later.error:.2g}, where it was {self.error:.2g}"
        return None


def fault_of(
    left: Sequence[np.ndarray],
    right: Sequence[np.ndarray],
    rtol: float | None,
    atol: float | None,
    rounding: Mapping[int, float] | None = None,
) -> NumericFault | None:
    """How two results differ beyond the tolerances of `hloom.compare`; None where they agree.

    Where `rounding` says by output how much rounded inputs change it, what is not far more than that does not count.
    """
    differences = compare(left, right, rtol, atol)
    errors = {difference.output: _error(difference, left, right) for difference in differences}
    if rounding is not None:
        errors = {output: error for output, error in errors.items() if error > MOST_ROUNDING * rounding.get(output, 0)}
        differences = [difference for difference in differences if difference.output in errors]
    if not differences:
        return None
    worst = max(differences, key=lambda difference: errors[difference.output])
    dims = left[worst.output].shape if worst.index else ()
    has_infinities = not all(map(_is_finite, (*left, *right)))
    return NumericFault(str(worst), errors, has_infinities, dims, worst.index)


def rounded(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """An array whose floating-point numbers are changed by up to a unit of their last digits; others stay."""
    element_type = dtype_of(array.dtype)
    if not (element_type.is_float or element_type.is_complex):
        return array
    real: np.ndarray = np.real(array) if element_type.is_complex else array
    unit = min(float(ml_dtypes.finfo(real.dtype).eps), 0.5)
    with np.errstate(all="ignore"):
        wide = array.astype(np.complex128 if element_type.is_complex else np.float64)
        return (wide * (1 + unit * generator.uniform(-1, 1, array.shape))).astype(array.dtype)


def _error(difference: Difference, left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    if not difference.size:
        return 1.0  # of other types, or missing
    if math.isinf(difference.absolute):
        return math.inf
    scale = max(_greatest(side[difference.output]) for side in (left, right))
    return difference.absolute / scale if scale else 1.0


def _greatest(array: np.ndarray) -> float:
    """The greatest finite magnitude."""
    greatest = 0.0
    for piece in _pieces(array):
        finite = np.abs(piece[np.isfinite(piece)])
        greatest = max(greatest, float(finite.max(initial=0)))
    return greatest


def _is_finite(array: np.ndarray) -> bool:
    if dtype_of(array.dtype).is_integer or array.dtype.kind == "b":
        return True
    return all(bool(np.isfinite(piece).all()) for piece in _pieces(array))


def _pieces(array: np.ndarray) -> list[np.ndarray]:
    flat = array.reshape(-1)
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    return [flat[start : start + PIECE].astype(wide) for start in range(0, flat.size, PIECE)]
