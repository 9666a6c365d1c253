"""Element types: Paddle's numbers of them (VarType.Type) and ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hloom.ir import DType, dtype

_NAMES = {
    0: "pred",
    1: "s16",
    2: "s32",
    3: "s64",
    4: "f16",
    5: "f32",
    6: "f64",
    19: "u64",
    20: "u8",
    21: "s8",
    22: "bf16",
    23: "c64",
    24: "c128",
}
DATA_TYPES: Mapping[int, DType] = MappingProxyType({number: dtype(name) for number, name in _NAMES.items()})
"""The element type of each of Paddle's numbers."""
NUMBERS: Mapping[DType, int] = MappingProxyType({element_type: number for number, element_type in DATA_TYPES.items()})
"""Paddle's number of each element type."""
