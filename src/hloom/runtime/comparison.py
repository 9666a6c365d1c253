"""Numerical comparison of the outputs of two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from hloom.ir import DType, dtype_of
from hloom.text import Display, Displayed, DisplayTable, HloomError

RELATIVE_TOLERANCES = {"f64": 1e-9, "c128": 1e-9, "f32": 1e-4, "c64": 1e-4, "f16": 1e-2, "bf16": 4e-2}
"""Relative tolerances, by type, for results rounded in different orders; narrower floats use NARROW."""
NARROW = 0.25
"""Relative tolerance of floats narrower than 16 bits: two roundings of f8e5m2, of 1/8 each."""


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Displayed):
    """One output that differs.

    `index` is that of the maximum error; `absolute` and `relative` are the errors there, `count` the number of elements
    out of tolerance, out of `size`. If types or shapes differ, `reason` says so and the numbers are absent.
    """

    output: int
    reason: str
    index: tuple[int, ...] = ()
    left: object = None
    right: object = None
    absolute: float = 0.0
    relative: float = 0.0
    count: int = 0
    size: int = 0
    json_keys = "output reason index? absolute relative count size"

    def display(self) -> Display:
        figures = {"index": str(self.index), "left": str(self.left), "right": str(self.right)}
        figures |= {"absolute error": f"{self.absolute:.4g}", "relative error": f"{self.relative:.4g}"}
        figures["out of tolerance"] = f"{self.count:,} of {self.size:,}"
        tables = [DisplayTable("where it is greatest", ("what", "value"), figures.items(), len(figures))]
        return Display(f"<{self}>", tables if self.size else ())

    def __str__(self) -> str:
        return f"output {self.output}: {self.reason}"


class HasOutputs(Protocol):
    """Anything with outputs, such as a `RunResult`."""

    @property
    def outputs(self) -> Sequence[np.ndarray]: ...


Outputs: TypeAlias = Sequence[np.ndarray] | HasOutputs
"""Arrays in order, or the result of a run."""


def compare(left: Outputs, right: Outputs, rtol: float | None = None, atol: float | None = None) -> list[Difference]:
    """The outputs that differ, in order, of two runs or two lists of arrays; an empty list where all agree.

    |left - right| <= atol + rtol * max(|left|, |right|) must hold. `rtol` defaults to RELATIVE_TOLERANCES, `atol` to
    that times the output's maximum magnitude, so that sums that cancel are not compared to their last bit. Integers and
    pred are compared exactly unless a tolerance is given. NaN equals NaN, infinity the same infinity.
    """
    left, right = _arrays_of(left), _arrays_of(right)
    differences = [] if len(left) == len(right) else [_count_difference(len(left), len(right))]
    for number, (one, other) in enumerate(zip(left, right, strict=False)):
        difference = _difference(number, np.asarray(one), np.asarray(other), rtol, atol)
        differences += [difference] if difference else []
    return differences


def _arrays_of(outputs: Any) -> Sequence[np.ndarray]:
    held = getattr(outputs, "outputs", outputs)
    if isinstance(held, (list, tuple)):
        return held
    if isinstance(held, np.ndarray):
        return [held]
    raise HloomError(
        f"expected arrays to compare, not {type(outputs).__name__}",
        hint="give what hloom.run or hloom.evaluate returns; hloom.diff compares modules",
    )


def first_difference(
    left: Sequence[np.ndarray], right: Sequence[np.ndarray], rtol: float | None = None, atol: float | None = None
) -> Difference | None:
    """The first output that differs, as `compare` finds it, or None."""
    return next(iter(compare(left, right, rtol, atol)), None)


def default_tolerance(dtype: DType) -> float:
    """The relative tolerance of a type; zero for integers and pred."""
    if not (dtype.is_float or dtype.is_complex):
        return 0.0
    return RELATIVE_TOLERANCES.get(dtype.name, NARROW)


def _count_difference(left: int, right: int) -> Difference:
    return Difference(min(left, right), f"one run has {left} outputs, the other {right}")


def _difference(
    number: int, left: np.ndarray, right: np.ndarray, rtol: float | None, atol: float | None
) -> Difference | None:
    type_texts = [f"{dtype_of(array.dtype)}[{','.join(map(str, array.shape))}]" for array in (left, right)]
    if type_texts[0] != type_texts[1]:
        return Difference(number, f"{type_texts[0]} against {type_texts[1]}")
    if not left.size:
        return None
    relative = default_tolerance(dtype_of(left.dtype)) if rtol is None else rtol
    with np.errstate(all="ignore"):
        one, other = _widened(left), _widened(right)
        error = np.where((one == other) | (np.isnan(one) & np.isnan(other)), 0, np.abs(one - other)).astype(np.float64)
        error = np.where(np.isnan(error), np.inf, error)
        scale = np.maximum(np.abs(one), np.abs(other)).astype(np.float64)
        scale = np.where(np.isfinite(scale), scale, 0)
        floor = relative * scale.max() if atol is None else atol
        out = error > floor + relative * scale
    if not out.any():
        return None
    index = tuple(int(axis) for axis in np.unravel_index(np.argmax(np.where(out, error, -1)), left.shape))
    absolute = float(error[index])
    ratio = absolute / scale[index] if scale[index] else np.inf
    where = f" at [{','.join(map(str, index))}]" if index else ""
    words = f"{left[index]} against {right[index]}{where}, off by {absolute:.3g} ({ratio:.3g} relative)"
    reason = f"{type_texts[0]}: {words}; {int(out.sum())} of {left.size} elements differ"
    return Difference(
        number, reason, index, left[index], right[index], absolute, float(ratio), int(out.sum()), left.size
    )


def _widened(array: np.ndarray) -> np.ndarray:
    """Values in a wider type in which differences neither overflow nor are rounded unnecessarily."""
    element_type = dtype_of(array.dtype)
    if element_type.is_complex:
        return array.astype(np.complex128)
    return array.astype(np.longdouble if element_type.is_integer and element_type.bits == 64 else np.float64)
