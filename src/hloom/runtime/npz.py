"""Arrays in .npz files, with the element types that numpy's format lacks: bf16, f8, s4 and their kin.

Such an array is stored as the bytes of its unpacked elements, and listed in an extra entry, TYPES, which holds JSON.
Files without that entry read normally. Pickled arrays are rejected. A file's claims about its arrays are checked
against their data, and against what a program expects, before memory is allocated.
"""

from __future__ import annotations

import io
import json
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from hloom.ir import DTYPES, dtype_of
from hloom.text import HloomError, read_limited, unreadable

ARRAY_BYTES = 64 << 30
"""How large the arrays of one file may be, unpacked."""
LARGEST_RATIO = 1040
"""Deflate makes nothing smaller than this many times (zlib, "Maximum Compression Factor": 1032)."""
_HEADER_BYTES = 1 << 17
"""More than the header of an array takes: numpy's own limit is 10,000 characters."""
_SUFFIX = ".npy"
_DAMAGED = (OSError, ValueError, EOFError, MemoryError, OverflowError, NotImplementedError, RuntimeError)
_DAMAGED += (zipfile.BadZipFile, zlib.error, struct.error, KeyError, SyntaxError, tokenize.TokenError)
"""Exceptions that numpy and zipfile raise for damaged files."""
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


@dataclass(frozen=True, slots=True)
class StoredArray:
    """An array of a file: its declared type, and its data once `numpy.asarray` asks for it."""

    archive: zipfile.ZipFile
    entry: zipfile.ZipInfo
    path: str | Path
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if self.entry.file_size > memory:
            what = f"{self.path}: array {self.name} takes {self.entry.file_size:,} bytes"
            raise HloomError(f"{what}: more than the {memory:,} of this machine's memory")
        try:
            with self.archive.open(self.entry) as stream:
                array = np.lib.format.read_array(stream, allow_pickle=False)
        except _DAMAGED as error:
            raise _damaged(self.path, error) from None
        typed = array if array.dtype == self.dtype else array.view(self.dtype)
        return typed if dtype is None else typed.astype(dtype)


def open_arrays(path: str | Path) -> dict[str, StoredArray]:
    """The arrays of a file by name, in the file's order, none of them read yet.

    Raises HloomError for other files, and for arrays declared larger than their data.
    """
    try:
        archive = zipfile.ZipFile(_seekable(path))
        entries = {entry.filename.removesuffix(_SUFFIX): entry for entry in archive.infolist()}
        headers = {name: _header(archive, entry) for name, entry in entries.items()}
    except FileNotFoundError as problem:
        raise unreadable(path, problem) from None
    except _DAMAGED as error:
        if _is_array(path):
            raise HloomError(f"{path} holds one array, not an .npz archive", hint="np.savez writes one") from None
        raise _damaged(path, error) from None
    size = sum(entry.file_size for entry in entries.values())
    if size > ARRAY_BYTES:
        raise HloomError(f"{path} holds {size:,} bytes of arrays; {ARRAY_BYTES:,} are the limit")
    stored = {name: StoredArray(archive, entries[name], path, name, *header) for name, header in headers.items()}
    types = _types(stored.pop(TYPES, None), path)
    return {name: _typed(array, types.get(name)) for name, array in stored.items()}


def load_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read arrays by name, in the file's order; raises HloomError for other files."""
    return {name: np.asarray(array) for name, array in open_arrays(path).items()}


def _header(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> tuple[np.dtype, tuple[int, ...]]:
    """The type and shape of an entry; raises ValueError where its data cannot be of them."""
    compressed = entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if compressed or entry.file_size > LARGEST_RATIO * (entry.compress_size + 1):
        raise ValueError(f"{entry.filename} is not packed as numpy packs arrays")
    with archive.open(entry) as stream:
        beginning = io.BytesIO(stream.read(_HEADER_BYTES))
    version = np.lib.format.read_magic(beginning)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"{entry.filename} is an array of a format that has no HLO type")
    shape, _, dtype = read(beginning)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded")
    held = entry.file_size - beginning.tell()
    if math.prod(shape) * dtype.itemsize != held:
        raise ValueError(f"{entry.filename} is declared as {dtype}{list(shape)}, but its data are {held:,} bytes")
    return dtype, shape


def _damaged(path: str | Path, error: BaseException) -> HloomError:
    return HloomError(f"{path} is not a readable .npz file: {error}")


def _is_array(path: str | Path) -> bool:
    """Whether a file holds a single array, as `numpy.save` writes it."""
    try:
        with open(path, "rb") as file:
            return file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX
    except OSError:
        return False


def _seekable(path: str | Path) -> str | Path | BinaryIO:
    """A file's path, or what a pipe holds, whose entries are not in the order in which they are read."""
    is_file = not Path(path).exists() or Path(path).is_file()
    return path if is_file else io.BytesIO(read_limited(path, ARRAY_BYTES))  # which refuses devices: they never end


def _is_foreign(name: str, array: np.ndarray) -> bool:
    try:
        return dtype_of(array.dtype).numpy.num >= np.dtype(np.void).num
    except KeyError:
        raise HloomError(f"array {name} of {array.dtype} has no HLO type") from None


def _raw(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _types(entry: StoredArray | None, path: str | Path) -> dict[str, str]:
    if entry is None:
        return {}
    try:
        types = json.loads(np.asarray(entry).tobytes())
    except (ValueError, RecursionError):
        types = None
    if not isinstance(types, dict) or not all(name in DTYPES for name in map(str, types.values())):
        raise HloomError(f"{path}: its entry {TYPES} does not name HLO types")
    return types


def _typed(array: StoredArray, type_name: str | None) -> StoredArray:
    if type_name is None:
        return array
    numpy = DTYPES[type_name].numpy
    if array.dtype.itemsize != numpy.itemsize:
        stored = array.dtype.itemsize
        message = f"{array.path}: array {array.name} is declared as {type_name} but has {stored} bytes per element"
        raise HloomError(message)
    return replace(array, dtype=numpy)
