"""Element types: MindSpore's names of them, the prefixes of its scalars, and ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hloom.ir import DType, dtype

_NAMES = {
    "Bool": "pred",
    "Int8": "s8",
    "Int16": "s16",
    "Int32": "s32",
    "Int64": "s64",
    "UInt8": "u8",
    "UInt16": "u16",
    "UInt32": "u32",
    "UInt64": "u64",
    "Float16": "f16",
    "BFloat16": "bf16",
    "Float32": "f32",
    "Float64": "f64",
    "Complex64": "c64",
    "Complex128": "c128",
}
DATA_TYPES: Mapping[str, DType] = MappingProxyType({name: dtype(ours) for name, ours in _NAMES.items()})
"""The element type of each of MindSpore's names."""
NAMES: Mapping[DType, str] = MappingProxyType({element_type: name for name, element_type in DATA_TYPES.items()})
"""MindSpore's name of each element type."""

_PREFIXES = {
    "Bool": "Bool",
    "I8": "Int8",
    "I16": "Int16",
    "I32": "Int32",
    "I64": "Int64",
    "U8": "UInt8",
    "U16": "UInt16",
    "U32": "UInt32",
    "U64": "UInt64",
    "F16": "Float16",
    "BF16": "BFloat16",
    "F32": "Float32",
    "F64": "Float64",
}
SCALARS: Mapping[str, DType] = MappingProxyType({prefix: DATA_TYPES[name] for prefix, name in _PREFIXES.items()})
"""The element type of each prefix of a number: `I64(3)`."""
PREFIXES: Mapping[DType, str] = MappingProxyType({element_type: prefix for prefix, element_type in SCALARS.items()})

_IDS = {
    30: "Bool",
    32: "Int8",
    33: "Int16",
    34: "Int32",
    35: "Int64",
    37: "UInt8",
    38: "UInt16",
    39: "UInt32",
    40: "UInt64",
    42: "Float16",
    43: "Float32",
    44: "Float64",
    45: "BFloat16",
    51: "Complex64",
    52: "Complex128",
}
TYPE_IDS: Mapping[int, DType] = MappingProxyType({number: DATA_TYPES[name] for number, name in _IDS.items()})
"""The element type of each number by which primitives name one (`dtype=I64(43)`). Source: mindapi/base/type_id.h."""
