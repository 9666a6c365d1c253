"""Element types: their HLO names, their sizes and the matching numpy dtypes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import ml_dtypes
import numpy as np

from hloom.text import Display, Displayed, HloomError, near_names


class DTypeKind(Enum):
    """The families of element types."""

    BOOLEAN = "boolean"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    FLOAT = "float"
    COMPLEX = "complex"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DType(Displayed):
    """One element type; there is one object per type, so `is` compares them.

    `bits` is the width of a value; `numpy` holds it unpacked, one value per element (s4 takes a byte there).
    """

    name: str
    bits: int
    kind: DTypeKind
    numpy: np.dtype

    def display(self) -> Display:
        return Display(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return dtype, (self.name,)

    @property
    def is_float(self) -> bool:
        return self.kind is DTypeKind.FLOAT

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer; pred is not."""
        return self.kind in (DTypeKind.SIGNED, DTypeKind.UNSIGNED)

    @property
    def is_complex(self) -> bool:
        return self.kind is DTypeKind.COMPLEX

    @property
    def byte_count(self) -> int:
        """Bytes of one unpacked element: sub-byte types take one."""
        return max(1, self.bits // 8)


def _row(name: str, bits: int, kind: DTypeKind, scalar: type) -> DType:
    return DType(name, bits, kind, np.dtype(scalar))


_ROWS = (
    _row("pred", 8, DTypeKind.BOOLEAN, np.bool_),
    _row("s1", 1, DTypeKind.SIGNED, ml_dtypes.int1),
    _row("s2", 2, DTypeKind.SIGNED, ml_dtypes.int2),
    _row("s4", 4, DTypeKind.SIGNED, ml_dtypes.int4),
    _row("s8", 8, DTypeKind.SIGNED, np.int8),
    _row("s16", 16, DTypeKind.SIGNED, np.int16),
    _row("s32", 32, DTypeKind.SIGNED, np.int32),
    _row("s64", 64, DTypeKind.SIGNED, np.int64),
    _row("u1", 1, DTypeKind.UNSIGNED, ml_dtypes.uint1),
    _row("u2", 2, DTypeKind.UNSIGNED, ml_dtypes.uint2),
    _row("u4", 4, DTypeKind.UNSIGNED, ml_dtypes.uint4),
    _row("u8", 8, DTypeKind.UNSIGNED, np.uint8),
    _row("u16", 16, DTypeKind.UNSIGNED, np.uint16),
    _row("u32", 32, DTypeKind.UNSIGNED, np.uint32),
    _row("u64", 64, DTypeKind.UNSIGNED, np.uint64),
    _row("f16", 16, DTypeKind.FLOAT, np.float16),
    _row("f32", 32, DTypeKind.FLOAT, np.float32),
    _row("f64", 64, DTypeKind.FLOAT, np.float64),
    _row("bf16", 16, DTypeKind.FLOAT, ml_dtypes.bfloat16),
    _row("c64", 64, DTypeKind.COMPLEX, np.complex64),
    _row("c128", 128, DTypeKind.COMPLEX, np.complex128),
    _row("f8e5m2", 8, DTypeKind.FLOAT, ml_dtypes.float8_e5m2),
    _row("f8e4m3", 8, DTypeKind.FLOAT, ml_dtypes.float8_e4m3),
    _row("f8e4m3fn", 8, DTypeKind.FLOAT, ml_dtypes.float8_e4m3fn),
    _row("f8e4m3b11fnuz", 8, DTypeKind.FLOAT, ml_dtypes.float8_e4m3b11fnuz),
    _row("f8e3m4", 8, DTypeKind.FLOAT, ml_dtypes.float8_e3m4),
    _row("f8e5m2fnuz", 8, DTypeKind.FLOAT, ml_dtypes.float8_e5m2fnuz),
    _row("f8e4m3fnuz", 8, DTypeKind.FLOAT, ml_dtypes.float8_e4m3fnuz),
    _row("f4e2m1fn", 4, DTypeKind.FLOAT, ml_dtypes.float4_e2m1fn),
    _row("f8e8m0fnu", 8, DTypeKind.FLOAT, ml_dtypes.float8_e8m0fnu),
)
DTYPES: dict[str, DType] = {row.name: row for row in _ROWS}
"""Every element type by HLO's name."""

_BY_NUMPY: dict[np.dtype, DType] = {row.numpy: row for row in _ROWS}


def dtype(name: str) -> DType:
    """The element type with this HLO name (`bf16`) or numpy name (`bfloat16`); raises HloomError for other names."""
    if name in DTYPES:
        return DTYPES[name]
    try:
        return dtype_of(np.dtype(name))
    except (KeyError, TypeError):
        raise HloomError(f"'{name}' is not an element type", hint=near_names(str(name), DTYPES)) from None


def dtype_of(numpy_dtype: np.dtype | type) -> DType:
    """The element type stored in a numpy dtype; raises KeyError if there is none."""
    return _BY_NUMPY[np.dtype(numpy_dtype)]
