"""Literals: an array, a tuple of literals, or data that the text elided."""

# pyright: reportPrivateUsage=false
# graphs, nodes and modules keep each other's links and indices: docs/decisions/011-graph-node-module-cycle.md

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hloom.ir.dtypes import DType, DTypeKind, dtype_of
from hloom.ir.dtypes import dtype as dtype_named
from hloom.ir.number_conversion import from_doubles, from_integers, from_pairs, integer_range
from hloom.ir.types import TensorType, TupleType, Type, same_shape, without_layout
from hloom.text import HloomError

MOST_DIMENSIONS = 64
"""The highest rank that numpy supports."""

_HASHED = 64
"""The number of elements of an array that its hash samples."""

_DTYPES_OF_SCALARS = {bool: "pred", int: "s32", float: "f32", complex: "c64"}

Elements = tuple["Literal", ...]


class Literal:
    """A value and its type; immutable. Two literals are equal if their shapes and all bits are (layouts aside).

    Arrays are in logical order whatever the type's layout. An array whose elements all have the same bits is stored as
    one element. An elided literal (`{...}` in a text) has a type and no data; it equals only itself.

    >>> from hloom.ir.types import TensorType
    >>> Literal.array(TensorType(dtype_named("f32"), (2, 2)), np.zeros((2, 2), np.float32)).is_splat
    True
    """

    __slots__ = ("_data", "_number", "_text", "type")
    type: Type
    _data: np.ndarray | Elements | None
    _number: complex | None
    _text: str
    """The cached printed form; only short ones are kept."""

    def __init__(self) -> None:
        raise TypeError("use literal_of, Literal.array, Literal.tuple or Literal.elided")

    @classmethod
    def array(cls, type: TensorType, data: np.ndarray) -> Literal:
        """An array literal of this type; the data is copied unless it is immutable.

        Raises HloomError unless the data has the numpy dtype and shape of the type.
        """
        private = data.flags.owndata and not data.flags.writeable
        return cls.adopt(type, data if private or not any(data.strides) else data.copy())

    @classmethod
    def adopt(cls, type: TensorType, data: np.ndarray) -> Literal:
        """Like `array` but without a copy: the caller must not use the data afterwards."""
        if data.dtype != type.dtype.numpy or data.shape != type.dims:
            raise HloomError(f"a literal of type {type} cannot hold {data.dtype}{list(data.shape)}")
        static = TensorType(type.dtype, type.dims, type.layout) if type.dynamic else type
        return cls._make(static, _settle(data, type.dtype))

    @classmethod
    def splat(cls, type: TensorType, value: np.ndarray | np.generic) -> Literal:
        """An array literal with the same value in every element, given in the type's numpy dtype; it takes no memory.
        """
        try:
            data = np.broadcast_to(np.asarray(value).reshape(()).copy(), type.dims)
        except ValueError:
            raise HloomError(f"{type} is larger than numpy's arrays can be") from None
        return cls.adopt(type, data)

    @classmethod
    def tuple(cls, elements: Sequence[Literal]) -> Literal:
        """A tuple literal of these elements."""
        return cls._make(TupleType([element.type for element in elements]), tuple(elements))

    @classmethod
    def elided(cls, type: Type) -> Literal:
        """A literal whose data a text left out."""
        return cls._make(type, None)

    @classmethod
    def _make(cls, type: Type, data: np.ndarray | Elements | None) -> Literal:
        made = object.__new__(cls)
        object.__setattr__(made, "type", type)
        object.__setattr__(made, "_data", data)
        return made

    @property
    def is_tuple(self) -> bool:
        """Whether it is a tuple, elided or not."""
        return isinstance(self.type, TupleType)

    @property
    def is_elided(self) -> bool:
        """Whether any part of it was elided."""
        return any(leaf.is_left_out for leaf in self.leaves())

    @property
    def is_left_out(self) -> bool:
        """Whether it prints as `{...}` itself: an elided array, or a tuple elided as a whole."""
        return self._data is None

    @property
    def is_splat(self) -> bool:
        """Whether it is a non-empty array whose elements all have the same bits."""
        return isinstance(self._data, np.ndarray) and self._data.size > 0 and not any(self._data.strides)

    @property
    def elements(self) -> Elements:
        """The elements of a tuple; those of an elided tuple are elided. Raises HloomError for arrays."""
        if isinstance(self._data, tuple):
            return self._data
        if not isinstance(self.type, TupleType):
            raise HloomError(f"a literal of type {self.type} has no elements")
        return tuple(Literal.elided(element) for element in self.type.elements)

    def numpy(self) -> np.ndarray:
        """The array, read-only. Raises HloomError for tuples and for elided literals."""
        if isinstance(self._data, np.ndarray):
            return self._data
        if self._data is not None or self.is_tuple:
            raise HloomError(f"a literal of type {self.type} is a tuple: take its elements' arrays")
        raise HloomError(
            f"the data of this {self.type} constant were left out of the text, as {{...}}, and are never invented",
            hint="print the program with whole constants: print_large_constants in XLA's HloPrintOptions, "
            "--xla_dump_large_constants among XLA_FLAGS",
        )

    def splat_value(self) -> np.generic:
        """The value of every element. Raises HloomError unless `is_splat`."""
        if not self.is_splat:
            raise HloomError(f"the elements of this {self.type} literal are not known to be one value")
        return self.numpy().flat[0]

    @property
    def number(self) -> complex | None:
        """The value of every element as a Python number; None unless `is_splat`."""
        try:
            return self._number
        except AttributeError:
            number = self.splat_value().item() if self.is_splat else None
            object.__setattr__(self, "_number", number)
            return number

    def leaves(self) -> Iterator[Literal]:
        """The non-tuple literals inside, in order; nesting may be arbitrarily deep."""
        pending: list[Literal] = [self]
        while pending:
            literal = pending.pop()
            if isinstance(literal._data, tuple):
                pending.extend(reversed(literal._data))
            else:
                yield literal

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        if self is other:
            return True
        if not same_shape(self.type, other.type):
            return False
        return all(map(_same_leaf, self.leaves(), other.leaves()))

    def __hash__(self) -> int:
        return hash((without_layout(self.type), *map(_sample, self.leaves())))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"literals are immutable: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"literals are immutable: cannot delete {name}")

    def __copy__(self) -> Literal:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Literal:
        return self

    def __reduce__(self) -> Any:
        if self.is_splat:
            return Literal.splat, (self.type, self.splat_value())
        if isinstance(self._data, np.ndarray):
            return Literal.array, (self.type, self._data)
        if self._data is None:
            return Literal.elided, (self.type,)
        return Literal.tuple, (self._data,)

    def __repr__(self) -> str:
        return f"<literal {self.type}{' elided' if self.is_elided else ''}>"


def literal_of(value: Any, dtype: DType | None = None) -> Literal:
    """The literal of a numpy array, a Python scalar or nested lists of scalars.

    Without a dtype, arrays keep their own and Python scalars become pred, s32, f32 and c64. With one, values are
    converted as XLA converts them when it reads text. Raises HloomError for values that the type cannot hold.
    """
    if isinstance(value, Literal):
        raise HloomError(f"this is a literal already, of type {value.type}")
    data = np.asarray(value)
    if data.dtype.byteorder not in "=|":
        data = data.astype(data.dtype.newbyteorder("="))
    own = _dtype_for(value, data)
    wanted = own if dtype is None else dtype
    if data.dtype != wanted.numpy:
        data = _convert(data, wanted)
    return Literal.array(TensorType(wanted, data.shape), data)


def _dtype_for(value: Any, data: np.ndarray) -> DType:
    try:
        element_type = dtype_of(data.dtype)
    except (KeyError, TypeError):
        raise HloomError(f"no element type holds numpy's {data.dtype}") from None
    if isinstance(value, (np.ndarray, np.generic)):
        return element_type
    return dtype_named(_DTYPES_OF_SCALARS[type(data.flat[0].item())] if data.size else "f32")


def _convert(data: np.ndarray, wanted: DType) -> np.ndarray:
    flat = data.reshape(-1)
    if wanted.is_complex:
        converted, refused = from_pairs(flat.astype(np.complex128).view(np.float64), wanted)
    elif data.dtype.kind == "c":
        raise HloomError(f"complex numbers do not convert to {wanted}")
    elif wanted.is_float:
        converted, refused = from_doubles(flat.astype(np.float64), wanted)
    else:
        converted, refused = _to_integers(flat, wanted)
    if refused.any():
        first = int(np.flatnonzero(refused)[0]) // (2 if wanted.is_complex else 1)
        raise HloomError(f"{flat[first]} does not fit into {wanted}")
    return converted.reshape(data.shape)


def _to_integers(flat: np.ndarray, wanted: DType) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(all="ignore"):
        whole = flat.astype(np.uint64 if flat.dtype == np.uint64 else np.int64)
    inexact = whole.astype(flat.dtype) != flat
    low, high = (0, 1) if wanted.kind is DTypeKind.BOOLEAN else integer_range(wanted)
    inexact |= (whole < low) | (whole > high)
    converted, _ = from_integers(whole, wanted)
    return converted, inexact


def _settle(data: np.ndarray, dtype: DType) -> np.ndarray:
    """The array to store: read-only, unused bits cleared, a single element if all are the same."""
    if not data.ndim and dtype.bits >= 8:
        data.flags.writeable = False
        return data
    shape = data.shape
    if data.size and not any(data.strides):
        data = data.reshape(-1)[:1]
    if dtype.bits < 8:
        data = (data.view(np.uint8) & np.uint8(2**dtype.bits - 1)).view(dtype.numpy)
    flat = data.reshape(-1)
    if data.size and _is_uniform(flat[:_HASHED]) and _is_uniform(flat):
        data = _repeat(flat, shape)
    data.flags.writeable = False
    return data


def _repeat(flat: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The first element broadcast to this shape without using more memory."""
    return np.broadcast_to(flat[:1].copy().reshape(()), shape)


def _is_uniform(flat: np.ndarray) -> bool:
    return all(bool((words == words[0]).all()) for words in _words(flat))


def _words(data: np.ndarray) -> list[np.ndarray]:
    """The bits of an array as unsigned integers; c128 takes two arrays."""
    if data.dtype.itemsize == 16:
        return [np.real(data).view(np.uint64), np.imag(data).view(np.uint64)]
    return [data.view(f"u{data.dtype.itemsize}")]


def _same_leaf(a: Literal, b: Literal) -> bool:
    if a is b:
        return True
    if not isinstance(a._data, np.ndarray) or not isinstance(b._data, np.ndarray):
        return False
    one = a.is_splat and b.is_splat
    left, right = (a._data.reshape(-1)[:1], b._data.reshape(-1)[:1]) if one else (a._data, b._data)
    return all(map(np.array_equal, _words(left), _words(right)))


def _sample(leaf: Literal) -> object:
    """What a leaf contributes to the hash: the bits of some of its elements."""
    data = leaf._data
    if not isinstance(data, np.ndarray):
        return id(leaf)
    if not data.size:
        return b""
    places = np.linspace(0, data.size - 1, min(data.size, _HASHED)).astype(np.int64)
    return data.flat[places].tobytes()
