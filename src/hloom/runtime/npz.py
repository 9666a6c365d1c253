"""Arrays in .npz files, with the element types that numpy's format lacks: bf16, f8, s4 and their kin.

Such an array is stored as the bytes of its elements, unpacked, and named in an entry of its own, TYPES, which holds
JSON. Files without that entry read as they are. Pickled arrays are refused.
"""

from __future__ import annotations

import io
import json
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hloom.ir import DTYPES, dtype_of
from hloom.text import HloomError, read_limited

ARRAY_BYTES = 64 << 30
"""How large the arrays of one file may be, unpacked."""
_DAMAGED = (OSError, ValueError, EOFError, MemoryError, OverflowError, NotImplementedError, RuntimeError)
_DAMAGED += (zipfile.BadZipFile, zlib.error, struct.error, KeyError, SyntaxError, tokenize.TokenError)
"""What numpy and zipfile raise for files that are damaged."""
TYPES = "__hlo_types__"
"""The entry that says which arrays are of a type that numpy lacks: {array's name: HLO's type}."""


def save_arrays(path: str | Path | BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, in order, into a file or a stream; raises HloomError for a type that HLO lacks."""
    types = {name: dtype_of(array.dtype).name for name, array in arrays.items() if _is_foreign(name, array)}
    entries = {name: _raw(array) if name in types else array for name, array in arrays.items()}
    if TYPES in arrays:
        raise HloomError(f"an array cannot be named {TYPES}")
    if types:
        entries[TYPES] = np.frombuffer(json.dumps(types).encode(), np.uint8)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in entries.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asanyarray(array), allow_pickle=False)


def load_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read arrays by name, in the file's order; raises HloomError for what is no such file."""
    try:
        opened = np.load(_seekable(path), allow_pickle=False)
        if not isinstance(opened, np.lib.npyio.NpzFile):
            raise HloomError(f"{path} holds one array, not an .npz archive")
        with opened as archive:
            assert opened.zip is not None, "it is open"
            size = sum(entry.file_size for entry in opened.zip.infolist())
            if size > ARRAY_BYTES:
                raise HloomError(f"{path} holds {size:,} bytes of arrays; {ARRAY_BYTES:,} are the limit")
            entries = {name: archive[name] for name in archive.files}
    except _DAMAGED as error:
        raise HloomError(f"{path} is not a readable .npz file: {error}") from None
    types = _types(entries.pop(TYPES, None), path)
    return {name: _typed(array, types.get(name), name, path) for name, array in entries.items()}


def _seekable(path: str | Path) -> str | Path | BinaryIO:
    """A file's path, or what a pipe holds, whose entries are not in the order in which numpy reads them."""
    return io.BytesIO(read_limited(path, ARRAY_BYTES)) if Path(path).is_fifo() else path


def _is_foreign(name: str, array: np.ndarray) -> bool:
    try:
        return dtype_of(array.dtype).numpy.num >= np.dtype(np.void).num
    except KeyError:
        raise HloomError(f"array {name} of {array.dtype} has no HLO type") from None


def _raw(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _types(entry: np.ndarray | None, path: str | Path) -> dict[str, str]:
    if entry is None:
        return {}
    try:
        types = json.loads(entry.tobytes())
    except ValueError:
        types = None
    if not isinstance(types, dict) or not all(name in DTYPES for name in types.values()):
        raise HloomError(f"{path}: its entry {TYPES} does not name HLO types")
    return types


def _typed(array: np.ndarray, type_name: str | None, name: str, path: str | Path) -> np.ndarray:
    if type_name is None:
        return array
    numpy = DTYPES[type_name].numpy
    if array.dtype.itemsize != numpy.itemsize:
        stored = array.dtype.itemsize
        raise HloomError(f"{path}: array {name} is said to be {type_name} but has {stored} bytes per element")
    return array.view(numpy)
