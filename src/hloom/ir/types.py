"""Types of values: interned, immutable, printed in HLO's spelling.

There is one object per type, so `is` compares types, layouts included; `same_shape` compares them without layouts.

>>> from hloom.ir import TensorType, dtype
>>> TensorType(dtype("f32"), (2, 3)) is TensorType(dtype("f32"), (2, 3))
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from hloom.ir.dtypes import DType, dtype
from hloom.ir.layout import Layout
from hloom.text import HloomError

UNBOUNDED = -1
"""The size of a dimension written `?`: dynamic and unbounded."""


_set = object.__setattr__


class Type:
    """The type of a value. One subclass per kind; `text` and `str` are HLO's text."""

    __slots__ = ("__weakref__", "_key", "text")
    _interned: ClassVar[WeakValueDictionary[tuple[object, ...], Type]] = WeakValueDictionary()
    _key: tuple[Any, ...]
    text: str

    @classmethod
    def _intern(cls, *key: object) -> tuple[Type, bool]:
        """The object for a key and whether it was newly made."""
        full = (cls, *key)
        interned = Type._interned.get(full)
        if interned is not None:
            return interned, False
        made = object.__new__(cls)
        _set(made, "_key", full)
        Type._interned[full] = made
        return made, True

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"types are immutable: cannot set {name} of {self}")

    def __reduce__(self) -> tuple[Any, ...]:
        return self._key[0], self._key[1:]

    def __copy__(self) -> Type:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Type:
        return self

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def leaves(self) -> Iterator[Type]:
        """The types that are not tuples, in order."""
        pending: list[Type] = [self]
        while pending:
            type_ = pending.pop()
            if isinstance(type_, TupleType):
                pending.extend(reversed(type_.elements))
            else:
                yield type_

    @property
    def byte_count(self) -> int:
        """Bytes of all leaves, each element unpacked (s4 takes a byte); tokens take none.

        Raises HloomError for unbounded dimensions.
        """
        return sum(leaf.byte_count for leaf in self.leaves()) if isinstance(self, TupleType) else 0


class TensorType(Type):
    """An array: element type, dimensions, which of them are dynamic, and its layout where one is given.

    A dynamic dimension's entry in `dims` is its bound, or UNBOUNDED. A scalar's plain layout says nothing and is left
    out, as in XLA's text.
    """

    __slots__ = ("_without_layout", "dims", "dtype", "dynamic", "layout")
    dtype: DType
    dims: tuple[int, ...]
    layout: Layout | None
    dynamic: tuple[bool, ...] | None
    _without_layout: TensorType | None
    """The same array without its layout, once it was asked for: type comparisons ask often."""

    def __new__(
        cls,
        dtype: DType,
        dims: Sequence[int] = (),
        layout: Layout | None = None,
        dynamic: Sequence[bool] | None = None,
    ) -> TensorType:
        dims = tuple(dims)
        if layout is not None and not dims and layout.is_plain:
            layout = None
        flags = tuple(dynamic) if dynamic and any(dynamic) else None
        made, fresh = cls._intern(dtype, dims, layout, flags)
        assert isinstance(made, TensorType)
        if fresh:
            _set(made, "dtype", dtype)
            _set(made, "dims", dims)
            _set(made, "layout", layout)
            _set(made, "dynamic", flags)
            _set(made, "_without_layout", None)
            _set(made, "text", f"{dtype.name}[{made.dims_text}]{'' if layout is None else layout}")
        return made

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def dims_text(self) -> str:
        """The dimensions as HLO writes them: `2,<=8,?`."""
        if self.dynamic is None:
            return ",".join(map(str, self.dims))
        return ",".join(
            "?" if size == UNBOUNDED else f"<={size}" if moves else str(size)
            for size, moves in zip(self.dims, self.dynamic, strict=True)
        )

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return self.dynamic is None

    @property
    def element_count(self) -> int:
        """The maximum number of elements; raises HloomError for unbounded dimensions."""
        if UNBOUNDED in self.dims:
            raise HloomError(f"{self} has an unbounded dimension: its size is not known")
        return math.prod(self.dims)

    @property
    def stored_count(self) -> int:
        """The maximum number of elements with those that pad its layout's tiles; raises HloomError as above."""
        count = self.element_count
        return math.prod(self.layout.tiled_dims(self.dims)) if self.layout and count else count

    @property
    def byte_count(self) -> int:
        return self.element_count * self.dtype.byte_count

    @property
    def is_countable(self) -> bool:
        """Whether its size in bytes fits in 63 bits; sub-byte elements count as a byte, unbounded dimensions as 1."""
        return math.prod(map(abs, self.dims)) * max(1, self.dtype.bits // 8) < 1 << 63

    def with_layout(self, layout: Layout | None) -> TensorType:
        """The same array with another layout."""
        if layout is not None:
            return TensorType(self.dtype, self.dims, layout, self.dynamic)
        plain = self._without_layout
        if plain is not None:
            return plain
        if self.layout is None:
            return self
        plain = TensorType(self.dtype, self.dims, None, self.dynamic)
        _set(self, "_without_layout", plain)
        return plain

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same array with another element type."""
        return TensorType(dtype, self.dims, self.layout, self.dynamic)


class TupleType(Type):
    """A tuple of values."""

    __slots__ = ("_without_layout", "elements")
    elements: tuple[Type, ...]
    _without_layout: TupleType | None
    """The same tuple without layouts, kept once it was asked for; None if it has no layouts."""

    def __new__(cls, elements: Sequence[Type] = ()) -> TupleType:
        elements = tuple(elements)
        made, fresh = cls._intern(elements)
        assert isinstance(made, TupleType)
        if fresh:
            _set(made, "elements", elements)
            _set(made, "text", "(" + list_with_indices([str(e) for e in elements]) + ")")
        return made

    @property
    def without_layouts(self) -> TupleType:
        """The same values without layouts."""
        try:
            return self._without_layout or self
        except AttributeError:
            plain = map_leaves(self, without_layout)
            _set(self, "_without_layout", None if plain is self else plain)
            return self._without_layout or self


def element_at(type_: Type | None, index: Sequence[int]) -> Type | None:
    """The type at an index inside nested tuples; None if there is no such element."""
    for element_index in index:
        if not isinstance(type_, TupleType) or not 0 <= element_index < len(type_.elements):
            return None
        type_ = type_.elements[element_index]
    return type_


class BufferType(Type):
    """A buffer of an array: `b(f32[2])`."""

    __slots__ = ("element",)
    element: Type

    def __new__(cls, element: Type) -> BufferType:
        made, fresh = cls._intern(element)
        assert isinstance(made, BufferType)
        if fresh:
            _set(made, "element", element)
            _set(made, "text", f"b({element})")
        return made

    @property
    def byte_count(self) -> int:
        return self.element.byte_count


class TokenType(Type):
    """A value that only orders effects."""

    __slots__ = ()

    def __new__(cls) -> TokenType:
        made, fresh = cls._intern()
        assert isinstance(made, TokenType)
        if fresh:
            _set(made, "text", "token[]")
        return made


class OpaqueType(Type):
    """A value that only its producer and consumer can interpret."""

    __slots__ = ()

    def __new__(cls) -> OpaqueType:
        made, fresh = cls._intern()
        assert isinstance(made, OpaqueType)
        if fresh:
            _set(made, "text", "opaque[]")
        return made


class FunctionType(Type):
    """The type of a graph or an op used as a value: parameter types and result type."""

    __slots__ = ("parameters", "result")
    parameters: tuple[Type | None, ...]
    result: Type | None

    def __new__(cls, parameters: Sequence[Type | None], result: Type | None) -> FunctionType:
        made, fresh = cls._intern(tuple(parameters), result)
        assert isinstance(made, FunctionType)
        if fresh:
            _set(made, "parameters", tuple(parameters))
            _set(made, "result", result)
            inside = ", ".join("?" if p is None else str(p) for p in made.parameters)
            _set(made, "text", f"({inside}) -> {'?' if result is None else result}")
        return made


def list_with_indices(texts: Sequence[str]) -> str:
    """Join with commas and, as XLA does, say the index at every fifth.

    >>> list_with_indices(list("abcdef"))
    'a, b, c, d, e, /*index=5*/f'
    """
    if len(texts) < 6:
        return ", ".join(texts)
    return ", ".join(f"/*index={i}*/{text}" if i and i % 5 == 0 else text for i, text in enumerate(texts))


def without_layout(type_: Type) -> Type:
    """The same type with every layout left out."""
    if isinstance(type_, TensorType):
        plain = type_._without_layout  # pyright: ignore[reportPrivateUsage]
        return plain or (type_ if type_.layout is None else type_.with_layout(None))
    if isinstance(type_, TupleType):
        return type_.without_layouts
    return BufferType(without_layout(type_.element)) if isinstance(type_, BufferType) else type_


def map_leaves(type_: Type, change: Callable[[Type], Type]) -> Type:
    """Rebuild a type with every leaf changed; nesting may be arbitrarily deep."""
    if isinstance(type_, BufferType):
        return BufferType(change(type_.element))
    if not isinstance(type_, TupleType):
        return change(type_)
    stack: list[tuple[TupleType, list[Type]]] = [(type_, [])]
    while True:
        current, done = stack[-1]
        if len(done) < len(current.elements):
            element = current.elements[len(done)]
            if isinstance(element, TupleType):
                stack.append((element, []))
            else:
                done.append(map_leaves(element, change))
            continue
        stack.pop()
        made = TupleType(done)
        if not stack:
            return made
        stack[-1][1].append(made)


def same_shape(a: Type | None, b: Type | None) -> bool:
    """Whether two types are equal up to layouts; an unknown type equals any."""
    if a is b or a is None or b is None:
        return True
    return without_layout(a) is without_layout(b)


def compatible(a: Type | None, b: Type | None) -> bool:
    """Whether two types are equal up to layouts and dynamism, which is what XLA requires of operands and roots."""
    if same_shape(a, b):
        return True
    assert a is not None and b is not None
    return map_leaves(a, _static) is map_leaves(b, _static)


def has_tiles(type_: Type) -> bool:
    """Whether an array of a type has tiles, which only compilers for TPUs write."""
    return any(isinstance(leaf, TensorType) and leaf.layout and leaf.layout.tiles for leaf in type_.leaves())


def of_one_precision(type_: Type) -> Type:
    """A type with f32 in place of narrower floats."""
    return map_leaves(type_, _widened)


def _widened(leaf: Type) -> Type:
    if isinstance(leaf, TensorType) and leaf.dtype.is_float and leaf.dtype.bits < _F32.bits:
        return leaf.with_dtype(_F32)
    return leaf


def _static(type_: Type) -> Type:
    return TensorType(type_.dtype, type_.dims) if isinstance(type_, TensorType) else type_


_F32 = dtype("f32")
TOKEN = TokenType()
OPAQUE = OpaqueType()
EMPTY_TUPLE = TupleType(())
