"""Exports columns in Arrow's memory format to other libraries through the Arrow PyCapsule interface.

Source: Apache Arrow's documents "The Arrow C data interface", "The Arrow C stream interface" and "The Arrow PyCapsule
interface". The structures are built with ctypes, so exporting a table needs no extra package, and polars, pyarrow and
pandas 3 read it without copying. Whatever a structure points to stays in `_alive` until its consumer calls `release`.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

STREAM_NAME = b"arrow_array_stream"
SCHEMA_NAME = b"arrow_schema"
NULLABLE = 2
"""The schema flag for values that may be missing."""
LEAST_INTEGER, GREATEST_INTEGER = -(2**63), 2**63 - 1
INVALID = 22
"""EINVAL, which a stream's functions return on failure."""


class ArrowSchema(ctypes.Structure):
    """The type of a column: `format` is a code, one letter for most types."""


class ArrowArray(ctypes.Structure):
    """A column's buffers, or a table's columns."""


class ArrowArrayStream(ctypes.Structure):
    """A stream of tables with the same schema; here a single table."""


_ReleaseSchema = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))
_ReleaseArray = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))
_ReleaseStream = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArrayStream))
_GetSchema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowSchema))
_GetNext = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowArray))
_GetLastError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ArrowArrayStream))
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)),
    ("release", _ReleaseSchema),
    ("private_data", ctypes.c_void_p),
]
ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", _ReleaseArray),
    ("private_data", ctypes.c_void_p),
]
ArrowArrayStream._fields_ = [
    ("get_schema", _GetSchema),
    ("get_next", _GetNext),
    ("get_last_error", _GetLastError),
    ("release", _ReleaseStream),
    ("private_data", ctypes.c_void_p),
]

_alive: dict[int, Any] = {}
"""Keeps alive what a structure held by a consumer points to, by the number in `private_data`."""
_in_capsules: dict[int, ctypes.Structure] = {}
"""Keeps alive what a capsule points to, by address: a consumer moves it elsewhere, and the capsule reads it once more.
"""
_numbers = itertools.count(1)
Columns = Mapping[str, Sequence[Any]]


def stream_capsule(columns: Columns) -> Any:
    """A PyCapsule of a stream of one table of these columns, all of the same length.

    Integers become int64, floats float64, booleans bool, and everything else text; None is a missing value. A column
    with an integer beyond 64 bits becomes float64, one without any value gets the null type.
    """
    number = next(_numbers)
    stream = ArrowArrayStream(_get_schema, _get_next, _get_last_error, _release_stream, number)
    _alive[number] = [_typed(columns), False]
    return _capsule(stream, STREAM_NAME)


def schema_capsule(columns: Columns) -> Any:
    """A PyCapsule of the schema of a stream of these columns."""
    schema = ArrowSchema()
    _fill_schema(schema, _typed(columns))
    return _capsule(schema, SCHEMA_NAME)


TypedColumn = tuple[str, bytes, Sequence[Any]]
"""Name, Arrow's format, and values."""


def _typed(columns: Columns) -> list[TypedColumn]:
    return [(name, _format(values), values) for name, values in columns.items()]


def _format(values: Sequence[Any]) -> bytes:
    """The Arrow format letter for the values' common type: b, l, g or U, or n for an empty column."""
    types = {value.__class__ for value in values} - {type(None)}
    if not types:
        return b"n"
    if types == {bool}:
        return b"b"
    if types == {int}:
        present = [value for value in values if value is not None]
        return b"l" if min(present) >= LEAST_INTEGER and max(present) <= GREATEST_INTEGER else b"g"
    return b"g" if types <= {int, float} else b"U"


def _fill_schema(schema: ArrowSchema, columns: Sequence[TypedColumn]) -> None:
    """Fill in a struct schema, which represents a table."""
    children = [
        _new_schema(ArrowSchema(), letter, name.encode("utf-8", "replace"), NULLABLE, ()) for name, letter, _ in columns
    ]
    _new_schema(schema, b"+s", b"", 0, children)


def _new_schema(
    schema: ArrowSchema, letter: bytes, name: bytes, flags: int, children: Sequence[ArrowSchema]
) -> ArrowSchema:
    number = next(_numbers)
    pointers = (ctypes.POINTER(ArrowSchema) * max(1, len(children)))(*map(ctypes.pointer, children))
    _alive[number] = [letter, name, pointers, children]
    schema.format, schema.name, schema.metadata, schema.flags = letter, name, None, flags
    schema.n_children, schema.children = len(children), pointers
    schema.dictionary, schema.release, schema.private_data = None, _release_schema, number
    return schema


def _fill_array(array: ArrowArray, columns: Sequence[TypedColumn]) -> None:
    """Fill in a struct array: its columns."""
    length = len(columns[0][2]) if columns else 0
    children = [_column_array(letter, values) for _, letter, values in columns]
    _new_array(array, length, 0, [None], children)


def _column_array(letter: bytes, values: Sequence[Any]) -> ArrowArray:
    missing = sum(value is None for value in values)
    if letter == b"n":
        return _new_array(ArrowArray(), len(values), len(values), [], ())
    validity = _bits([value is not None for value in values]) if missing else None
    return _new_array(ArrowArray(), len(values), missing, [validity, *_BUFFERS[letter](values)], ())


def _new_array(
    array: ArrowArray, length: int, missing: int, buffers: Sequence[np.ndarray | None], children: Sequence[ArrowArray]
) -> ArrowArray:
    number = next(_numbers)
    addresses = [None if buffer is None else buffer.ctypes.data for buffer in buffers]
    starts = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
    pointers = (ctypes.POINTER(ArrowArray) * max(1, len(children)))(*map(ctypes.pointer, children))
    _alive[number] = [buffers, starts, pointers, children]
    array.length, array.null_count, array.offset = length, missing, 0
    array.n_buffers, array.buffers = len(buffers), starts
    array.n_children, array.children = len(children), pointers
    array.dictionary, array.release, array.private_data = None, _release_array, number
    return array


def _bits(values: Sequence[Any]) -> np.ndarray:
    return _not_empty(np.packbits(np.array(values, dtype=bool), bitorder="little"))


def _boolean_buffers(values: Sequence[Any]) -> list[np.ndarray]:
    return [_bits([bool(value) for value in values])]


def _number_buffers(dtype: str) -> Callable[[Sequence[Any]], list[np.ndarray]]:
    return lambda values: [_not_empty(np.array([0 if value is None else value for value in values], dtype=dtype))]


def _text_buffers(values: Sequence[Any]) -> list[np.ndarray]:
    """The offsets of the texts, and the texts as UTF-8."""
    texts = [b"" if value is None else str(value).encode("utf-8", "replace") for value in values]
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return [offsets, _not_empty(np.frombuffer(b"".join(texts), dtype=np.uint8))]


def _not_empty(buffer: np.ndarray) -> np.ndarray:
    """A buffer with a valid address."""
    return buffer if buffer.size else np.zeros(1, dtype=buffer.dtype)


_BUFFERS: dict[bytes, Callable[[Sequence[Any]], list[np.ndarray]]] = {
    b"b": _boolean_buffers,
    b"g": _number_buffers("float64"),
    b"l": _number_buffers("int64"),
    b"U": _text_buffers,
}
"""For each type, the function that makes its buffers except the validity buffer."""


# Consumers call these. Defaults keep their globals alive while the interpreter shuts down and clears modules.


@_ReleaseSchema
def _release_schema(pointer: Any, alive: dict[int, Any] = _alive, none: Any = _ReleaseSchema) -> None:
    schema = pointer.contents
    for number in range(schema.n_children):
        child = schema.children[number]
        if child.contents.release:
            child.contents.release(child)
    number = schema.private_data
    schema.release = none()
    alive.pop(number, None)


@_ReleaseArray
def _release_array(pointer: Any, alive: dict[int, Any] = _alive, none: Any = _ReleaseArray) -> None:
    array = pointer.contents
    for number in range(array.n_children):
        child = array.children[number]
        if child.contents.release:
            child.contents.release(child)
    number = array.private_data
    array.release = none()
    alive.pop(number, None)


@_ReleaseStream
def _release_stream(pointer: Any, alive: dict[int, Any] = _alive, none: Any = _ReleaseStream) -> None:
    stream = pointer.contents
    number = stream.private_data
    stream.release = none()
    alive.pop(number, None)


@_GetSchema
def _get_schema(pointer: Any, schema: Any) -> int:
    try:
        _fill_schema(schema.contents, _alive[pointer.contents.private_data][0])
    except Exception:
        return INVALID
    return 0


@_GetNext
def _get_next(pointer: Any, array: Any) -> int:
    """Return the table the first time, and then a released array, which ends a stream."""
    try:
        state = _alive[pointer.contents.private_data]
        if state[1]:
            array.contents.release = _ReleaseArray()
        else:
            _fill_array(array.contents, state[0])
            state[1] = True
    except Exception:
        return INVALID
    return 0


_problem = ctypes.create_string_buffer(b"a column holds what Arrow's type of it cannot")


@_GetLastError
def _get_last_error(pointer: Any) -> int:
    return ctypes.addressof(_problem)


_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_name_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(("PyCapsule_GetName", ctypes.pythonapi))
_address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


@_Destructor
def _release_unused(
    capsule: int,
    name_of: Any = _name_of,
    address_in: Any = _address_in,
    in_capsules: dict[int, Any] = _in_capsules,
    pointer: Any = ctypes.pointer,
) -> None:
    """Release what a capsule holds unless a consumer took it."""
    address = address_in(capsule, name_of(capsule))
    structure = in_capsules[address]
    if structure.release:
        structure.release(pointer(structure))
    del in_capsules[address]


def _capsule(structure: Any, name: bytes) -> Any:
    address = ctypes.addressof(structure)
    _in_capsules[address] = structure
    return _new_capsule(address, name, _release_unused)


for _callback in (_release_schema, _release_array, _release_stream, _release_unused):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))  # consumers may call it after this module is unloaded
