"""Number formats of stored weights: HLO's element type, the range used, and the type of scales.

Sources: the ranges of int8 and int4 as in AQT, Qwix and ONNX Runtime, of which the nearest is taken (`arithmetic.py`);
OCP Microscaling Formats (MX) Specification 1.0, section 5, for `mxfp8`, `mxfp4` and `mxint8`.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

import ml_dtypes
import numpy as np

from hloom.ir import DType, dtype
from hloom.text import HloomError

MX_SCALE = dtype("f8e8m0fnu")
MX_GROUP = 32
"""Elements per scale in the MX formats."""


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """One format. `largest` is the largest value.

    `exponent` is set for MX formats, whose scales are powers of two: that of the largest power of two in the format.
    """

    name: str
    dtype: DType
    largest: float
    exponent: int | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def is_integer(self) -> bool:
        return self.dtype.is_integer

    @property
    def is_block_scaled(self) -> bool:
        """Whether groups of MX_GROUP elements share a power of two."""
        return self.exponent is not None

    def spacing(self, numbers: np.ndarray) -> np.ndarray:
        """The distance between neighbouring numbers of the format at these values."""
        if self.is_integer:
            return np.ones(np.shape(numbers))
        limits = ml_dtypes.finfo(self.dtype.numpy)
        exponents = np.frexp(np.maximum(np.abs(numbers), float(limits.smallest_normal)))[1] - 1
        return np.exp2(exponents.astype(np.float64) - limits.nmant)

    def scale_type(self, element: DType) -> DType:
        """The element type of the scales of values of an element type."""
        return MX_SCALE if self.is_block_scaled else wide_type(element)

    @property
    def integer_range(self) -> tuple[int, int]:
        """The minimum and the maximum integer."""
        return -(1 << (self.dtype.bits - 1)), (1 << (self.dtype.bits - 1)) - 1


def wide_type(element: DType) -> DType:
    """The element type in which programs scale and round: f64 for values of f64, else f32."""
    return element if element.name == "f64" else dtype("f32")


_ROWS = (
    NumberFormat("int8", dtype("s8"), 127),
    NumberFormat("int4", dtype("s4"), 7),
    NumberFormat("int2", dtype("s2"), 1),
    NumberFormat("e4m3", dtype("f8e4m3fn"), 448),
    NumberFormat("e5m2", dtype("f8e5m2"), 57344),
    NumberFormat("mxfp8", dtype("f8e4m3fn"), 448, 8),
    NumberFormat("mxfp4", dtype("f4e2m1fn"), 6, 2),
    NumberFormat("mxint8", dtype("s8"), 127, 6),
)
FORMATS: dict[str, NumberFormat] = {row.name: row for row in _ROWS}
"""Every format by name."""


def number_format(name: str) -> NumberFormat:
    """The format with this name; raises HloomError, with similar names, if there is none."""
    if name not in FORMATS:
        near = get_close_matches(name, FORMATS, 3)
        raise HloomError(
            f"there is no number format '{name}'",
            hint=f"near: {', '.join(near)}" if near else f"there are {', '.join(FORMATS)}",
        )
    return FORMATS[name]
