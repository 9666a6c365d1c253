"""Arrays in .safetensors files; types narrower than a byte are packed.

The format (huggingface/safetensors, README.md, "Format"): the header's length in 8 bytes, little-endian; the header,
JSON {name: {"dtype", "shape", "data_offsets"}}; the data. An array of s4, s2 or f4e2m1fn is written as bytes, its
elements packed from the low bits on, and its type and shape stand in the header's `__metadata__`, under PACKED.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from hloom.formats.hlo import replacing
from hloom.ir import DTYPES, MOST_DIMENSIONS, DType, dtype_of
from hloom.text import HloomError

HEADER_BYTES = 100_000_000
"""How large a header may be (safetensors: MAX_HEADER_SIZE)."""
MOST_ELEMENTS = 2**59
"""In an array, dimensions of size zero left out: numpy counts their bytes, 16 for each at most."""
PACKED = "hloom.packed"
METADATA = "__metadata__"
_TYPES = {
    "BOOL": "pred", "U8": "u8", "I8": "s8", "U16": "u16", "I16": "s16", "U32": "u32", "I32": "s32", "U64": "u64",
    "I64": "s64", "F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64", "C64": "c64", "F8_E4M3": "f8e4m3fn",
    "F8_E5M2": "f8e5m2", "F8_E8M0": "f8e8m0fnu",
}  # fmt: skip
_NAMES = {name: code for code, name in _TYPES.items()}


def load_safetensors(path: str | Path) -> dict[str, np.ndarray]:
    """Read arrays by name, in the order of their data; raises HloomError for other files."""
    try:
        if not os.path.isfile(path):
            raise HloomError(f"cannot read {path}: it is not a file")
        data = np.memmap(path, np.uint8, "r") if os.path.getsize(path) else np.zeros(0, np.uint8)
    except (OSError, ValueError) as problem:
        raise HloomError(f"cannot read {path}: {problem}") from None
    header, start = _header(data, path)
    metadata = header.pop(METADATA, {})
    arrays: dict[str, np.ndarray] = {}
    left = len(data) - start
    for name, entry in header.items():
        arrays[name] = _array(data[start:], name, entry, path)
        left -= arrays[name].nbytes
        if left < 0:  # each has a copy of its own, with which a small file could fill the memory
            raise HloomError(f"{path}: array {name} shares its data with others, or they overlap")
    for name, described in _packed(metadata, path).items():
        if name not in arrays:
            raise HloomError(f"{path}: there is no array {name}, which the header says is packed")
        arrays[name] = _unpacked(arrays[name], *_described(described, name, path), name, path)
    return arrays


def save_safetensors(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, whole or not at all; raises HloomError for a type that the format lacks."""
    header: dict[str, Any] = {}
    described: dict[str, Any] = {}
    parts: list[np.ndarray] = []
    offset = 0
    for name, array in arrays.items():
        if name == METADATA:
            raise HloomError(f"an array cannot be named {METADATA}")
        element = _element_type(name, array)
        values = np.asarray(array, order="C")
        if element.bits < 8 and element.name != "pred":
            described[name] = {"type": element.name, "shape": list(array.shape)}
            values, code = packed_bytes(values, element.bits), "U8"
        elif element.name in _NAMES:
            code = _NAMES[element.name]
        else:
            raise HloomError(f"array {name} is {element}, which a .safetensors file cannot hold", hint="write .npz")
        header[name] = {
            "dtype": code,
            "shape": list(values.shape),
            "data_offsets": [offset, offset + values.nbytes],
        }
        parts.append(values)
        offset += values.nbytes
    if described:
        header = {METADATA: {PACKED: json.dumps(described)}, **header}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as beside, open(beside, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in parts:
            file.write(part.tobytes())


def packed_bytes(array: np.ndarray, bits: int) -> np.ndarray:
    """Elements of `bits` bits packed into bytes, low bits first; the last byte is padded with zeros."""
    per_byte = 8 // bits
    flat = np.zeros(-(-array.size // per_byte) * per_byte, np.uint8)
    flat[: array.size] = array.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    rows = flat.reshape(-1, per_byte)
    result = np.zeros(len(rows), np.uint8)
    for position in range(per_byte):
        result |= rows[:, position] << np.uint8(position * bits)
    return result


def unpacked_elements(data: np.ndarray, element: DType, count: int) -> np.ndarray:
    """The elements that bytes hold."""
    per_byte = 8 // element.bits
    mask = np.uint8((1 << element.bits) - 1)
    rows = np.stack([(data >> np.uint8(position * element.bits)) & mask for position in range(per_byte)], 1)
    raw = rows.reshape(-1)[:count]
    if element.is_integer:  # numpy holds them in a byte, with their sign
        shift = np.uint8(8 - element.bits)
        wide = (raw << shift).view(np.int8) >> np.int8(8 - element.bits) if element.name[0] == "s" else raw
        return wide.astype(element.numpy)
    return np.ascontiguousarray(raw).view(element.numpy)


def _header(data: np.ndarray, path: str | Path) -> tuple[dict[str, Any], int]:
    size = int.from_bytes(data[:8].tobytes(), "little")
    if len(data) < 8 or size > min(HEADER_BYTES, len(data) - 8):
        raise HloomError(f"{path} is not a .safetensors file: it has no header")
    try:
        header = json.loads(data[8 : 8 + size].tobytes())
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise HloomError(f"{path} is not a .safetensors file: its header is not a JSON object")
    return header, 8 + size


def _array(data: np.ndarray, name: str, entry: Any, path: str | Path) -> np.ndarray:
    if not isinstance(entry, dict):
        entry = {}
    code, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not (isinstance(code, str) and _is_shape(shape) and _is_sizes(offsets) and len(offsets) == 2):
        raise HloomError(f"{path}: the header does not say what array {name} is")
    if code not in _TYPES:
        raise HloomError(f"{path}: array {name} is of type {code}, which is not known")
    element = DTYPES[_TYPES[code]]
    begin, end = offsets
    if not begin <= end <= len(data) or end - begin != math.prod(shape) * element.byte_count:
        where = f"bytes {begin} to {end} of {len(data)}"
        raise HloomError(f"{path}: array {name} is {code}{shape}, but its data are {where}")
    return np.frombuffer(data[begin:end].tobytes(), element.numpy).reshape(shape)


def _packed(metadata: Any, path: str | Path) -> dict[str, Any]:
    text = metadata.get(PACKED) if isinstance(metadata, dict) else None
    if text is None:
        return {}
    try:
        described = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        described = None
    if not isinstance(described, dict):
        raise HloomError(f"{path}: what {PACKED} says in the header is not a JSON object")
    return described


def _described(entry: Any, name: str, path: str | Path) -> tuple[DType, list[int]]:
    type_name, shape = (entry.get("type"), entry.get("shape")) if isinstance(entry, dict) else (None, None)
    if not isinstance(type_name, str) or type_name not in DTYPES or DTYPES[type_name].bits >= 8 or not _is_shape(shape):
        raise HloomError(f"{path}: the header does not say what the packed array {name} is")
    return DTYPES[type_name], shape


def _unpacked(data: np.ndarray, element: DType, shape: list[int], name: str, path: str | Path) -> np.ndarray:
    count = math.prod(shape)
    if data.dtype != np.uint8 or data.ndim != 1 or len(data) != -(-count * element.bits // 8):
        raise HloomError(f"{path}: array {name} is declared as {element}{shape} but has {data.nbytes} bytes")
    return unpacked_elements(data, element, count).reshape(shape)


def _element_type(name: str, array: np.ndarray) -> DType:
    try:
        return dtype_of(array.dtype)
    except KeyError:
        raise HloomError(f"array {name} of {array.dtype} has no HLO type") from None


def _is_shape(value: Any) -> TypeGuard[list[int]]:
    """Whether it is a shape that numpy holds, which counts the elements without the dimensions of size zero."""
    return _is_sizes(value) and (0 not in value or math.prod(size for size in value if size) <= MOST_ELEMENTS)


def _is_sizes(value: Any) -> TypeGuard[list[int]]:
    """Whether it is a list of sizes, of no more dimensions than numpy holds."""
    return isinstance(value, list) and len(value) <= MOST_DIMENSIONS and all(type(n) is int and n >= 0 for n in value)
