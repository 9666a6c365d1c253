"""Converts types and layouts to and from ShapeProto."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.proto.encoded_messages import VARINTS, read_varint
from hloom.ir import (
    COMBINED,
    DTYPES,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    BufferType,
    Layout,
    SplitConfig,
    TensorType,
    TokenType,
    TupleType,
    Type,
    default_layout,
)
from hloom.text import HloomError

DEEPEST = 90
"""The maximum nesting depth of tuples: protobuf reads no message deeper than 100, and a type is five levels deep in a
module.
"""

NO_SIZE = -(2**63)
"""The number that encodes a dimension `?` and a tile size `*`."""

_LEVELS = {"D": "DIM_DENSE", "C": "DIM_COMPRESSED", "S": "DIM_SINGLETON", "H": "DIM_LOOSE_COMPRESSED"}
_LEVEL = re.compile(r"([DCSH])(\+?)(~?)")


def write_shape(type_: Type, depth: int = 0) -> Any:
    """A type as ShapeProto; an absent layout becomes the default one, which XLA requires."""
    if depth > DEEPEST:
        raise HloomError(f"the tuple type nests deeper than {DEEPEST}: protobuf cannot hold that")
    if isinstance(type_, TensorType):
        return _write_array(type_)
    if isinstance(type_, TupleType):
        shapes = [write_shape(element, depth + 1) for element in type_.elements]
        return protobuf.ShapeProto(element_type=protobuf.PrimitiveType.Value("TUPLE"), tuple_shapes=shapes)
    if isinstance(type_, BufferType):
        inside = write_shape(type_.element, depth + 1)
        return protobuf.ShapeProto(element_type=protobuf.PrimitiveType.Value("BUFFER"), tuple_shapes=[inside])
    return protobuf.ShapeProto(
        element_type=protobuf.PrimitiveType.Value("TOKEN" if isinstance(type_, TokenType) else "OPAQUE_TYPE")
    )


def encoded_shape(type_: Type) -> bytes:
    """The bytes of `write_shape`'s message; arrays and tuples of arrays are encoded here directly."""
    if isinstance(type_, TensorType) and type_.rank <= _MOST_DIMENSIONS:
        return _encoded_array(type_)
    if isinstance(type_, TupleType) and all(map(_is_small, type_.elements)):
        elements = [_encoded_array(element) for element in type_.elements if isinstance(element, TensorType)]
        parts = [part for element in elements for part in (_TUPLE_SHAPES, VARINTS[len(element)], element)]
        return b"".join((_ELEMENT, VARINTS[_number_of("tuple")], *parts))
    return write_shape(type_).SerializeToString()


_MOST_DIMENSIONS = 64
"""The maximum rank of cached types: an untrusted file could contain types of any size."""


def _is_small(type_: Type) -> bool:
    return isinstance(type_, TensorType) and type_.rank <= _MOST_DIMENSIONS


@lru_cache(maxsize=1024)
def _encoded_array(type_: TensorType) -> bytes:
    layout = _encoded_layout(type_.layout or default_layout(type_.rank))
    if not type_.dims:
        return b"".join((_ELEMENT, VARINTS[_number_of(type_.dtype.name)], _LAYOUT, VARINTS[len(layout)], layout))
    dims = b"".join([VARINTS[NO_SIZE if size == UNBOUNDED else size] for size in type_.dims])
    dynamic = bytes(type_.dynamic or type_.rank)
    return b"".join(
        (
            _ELEMENT, VARINTS[_number_of(type_.dtype.name)], _DIMENSIONS, VARINTS[len(dims)], dims,
            _LAYOUT, VARINTS[len(layout)], layout, _IS_DYNAMIC, VARINTS[len(dynamic)], dynamic,
        )
    )  # fmt: skip


_ORDER, _NO_PADDING = b"\x0a", b"\x80\x01\x01"
"""The key of LayoutProto's field `minor_to_major`, and its field that says that nothing is padded."""
_ELEMENT, _DIMENSIONS, _TUPLE_SHAPES, _LAYOUT, _IS_DYNAMIC = b"\x10", b"\x1a", b"\x22", b"\x2a", b"\x32"
"""The keys of ShapeProto's fields `element_type`, `dimensions`, `tuple_shapes`, `layout` and `is_dynamic_dimension`."""


def _encoded_layout(layout: Layout) -> bytes:
    """The bytes of `_write_layout`'s message; a layout that only has an order is encoded directly."""
    if not layout.is_plain:
        return _write_layout(layout).SerializeToString()
    order = layout.minor_to_major
    return (_ORDER + VARINTS[len(order)] + bytes(order) if order else b"") + _NO_PADDING


def _write_array(array_type: TensorType) -> Any:
    dims = [NO_SIZE if size == UNBOUNDED else size for size in array_type.dims]
    return protobuf.ShapeProto(
        element_type=_number_of(array_type.dtype.name),
        dimensions=dims,
        is_dynamic_dimension=array_type.dynamic or (False,) * array_type.rank,
        layout=_write_layout(array_type.layout or default_layout(array_type.rank)),
    )


@cache
def _number_of(name: str) -> int:
    return protobuf.PrimitiveType.Value(name.upper())


@lru_cache(maxsize=1024)
def _write_layout(layout: Layout) -> Any:
    proto = protobuf.LayoutProto(
        minor_to_major=layout.minor_to_major,
        tail_padding_alignment_in_elements=layout.tail_padding,
        element_size_in_bits=layout.element_bits,
        memory_space=layout.memory_space,
        dynamic_shape_metadata_prefix_bytes=layout.metadata_prefix_bytes,
        index_primitive_type=_integer_type(layout.index_type),
        pointer_primitive_type=_integer_type(layout.pointer_type),
    )
    for tile in layout.tiles:
        proto.tiles.add(dimensions=[NO_SIZE if size == COMBINED else size for size in tile])
    for split in layout.split_configs:
        proto.split_configs.add(dimension=split.dimension, split_indices=split.indices)
    for level, repeats, shuffled in _LEVEL.findall(layout.dim_level_types):
        proto.dim_level_types.append(protobuf.DimLevelType.Value(_LEVELS[level]))
        proto.dim_unique.append(not repeats)
        proto.dim_ordered.append(not shuffled)
    return proto


def _integer_type(name: str) -> int:
    if name in ("", "invalid"):  # XLA prints the second form if it was given a float
        return 0
    if name.upper() not in _leaf_numbers():
        raise HloomError(f"no element type is called '{name}'")
    return protobuf.PrimitiveType.Value(name.upper())


def decoded_shape(data: bytes) -> Type | None:
    """The type encoded by a ShapeProto's bytes if it is a static array or a tuple of such, else None."""
    if not data.startswith(_TUPLE):
        return _decoded_array(data) if len(data) <= _LONGEST else None
    elements: list[Type] = []
    position = len(_TUPLE)
    while position < len(data):
        if data[position] != _TUPLE_SHAPES[0]:
            return None
        size, begin = read_varint(data, position + 1)
        position = begin + size
        element = _decoded_array(data[begin:position]) if size <= _LONGEST else None
        if element is None:
            return None
        elements.append(element)
    return TupleType(elements)


_LONGEST = 256
"""The maximum size in bytes of cached messages."""
_TUPLE = _ELEMENT + b"\x0d"
"""The first bytes of a tuple type's message."""


@lru_cache(maxsize=1024)
def _decoded_array(data: bytes) -> TensorType | None:
    """The array encoded by a message; None if it has more than sizes and a plain layout."""
    data += b"\0"  # not a field's key: ends the search
    name = _leaf_name(data[1]) if data[0] == _ELEMENT[0] else ""
    if name not in DTYPES:
        return None
    position = 2
    dims: list[int] = []
    if data[position] == _DIMENSIONS[0]:
        if data[position + 1] > 127:
            return None
        end, position = position + 2 + data[position + 1], position + 2
        while position < end:
            size, position = read_varint(data, position)
            dims.append(size)
    order = tuple(data[position + 4 : position + 4 + len(dims)])
    size = len(dims) + 2 * bool(dims) + len(_NO_PADDING)
    layout = (_ORDER + VARINTS[len(dims)] + bytes(order) if dims else b"") + _NO_PADDING
    flags = _IS_DYNAMIC + VARINTS[len(dims)] + bytes(len(dims)) if dims else b""
    if data[position:] != _LAYOUT + VARINTS[size] + layout + flags + b"\0":
        return None
    if len(dims) > 100 or max(dims, default=0) >= 2**63 or sorted(order) != list(range(len(dims))):
        return None
    type_ = TensorType(DTYPES[name], dims, Layout(order) if dims else None)
    return type_ if type_.is_countable else None


def read_shape(proto: Any, depth: int = 0) -> Type:
    """A ShapeProto as a type.

    Raises HloomError for invalid sizes, element types and layouts.
    """
    if depth > DEEPEST:
        raise HloomError(f"the tuple type nests deeper than {DEEPEST}")
    name = _leaf_name(proto.element_type)
    if name in DTYPES:
        return _read_array(proto, name)
    if name == "token":
        return TOKEN
    if name == "opaque_type":
        return OPAQUE
    elements = [read_shape(shape, depth + 1) for shape in proto.tuple_shapes]
    if name == "tuple":
        return TupleType(elements)
    if name != "buffer" or len(elements) != 1:
        raise HloomError(f"a shape has the element type {name.upper()}, which is not a type that hloom knows")
    return BufferType(elements[0])


@cache
def _leaf_numbers() -> dict[str, int]:
    return dict(protobuf.PrimitiveType.items())


@cache
def _leaf_names() -> dict[int, str]:
    return {number: name.lower() for name, number in protobuf.PrimitiveType.items()}


def _leaf_name(number: int) -> str:
    return _leaf_names().get(number, str(number))


def _read_array(proto: Any, name: str) -> TensorType:
    dims, dynamic = tuple(proto.dimensions), tuple(proto.is_dynamic_dimension)
    if len(dynamic) != len(dims) and dynamic:
        raise HloomError(f"a shape of rank {len(dims)} says of {len(dynamic)} dimensions whether they are dynamic")
    if dims and min(dims) < 0:
        dims = tuple([UNBOUNDED if size == NO_SIZE else size for size in dims])
        for size, moves in zip(dims, dynamic or (False,) * len(dims), strict=True):
            if size < UNBOUNDED or (size == UNBOUNDED and not moves):
                raise HloomError(f"a dimension cannot be {NO_SIZE if size == UNBOUNDED else size}")
    layout = _known_layout(proto.layout, len(dims)) if proto.HasField("layout") else None
    type_ = TensorType(DTYPES[name], dims, layout, dynamic)
    if not type_.is_countable:
        raise HloomError(f"{type_} has more bytes than 63 bits count")
    return type_


def _known_layout(proto: Any, rank: int) -> Layout:
    """The layout, decoded once per distinct message: there are few."""
    key = rank, proto.SerializeToString()
    layout = _layouts.get(key)
    if layout is None:
        if len(_layouts) >= _MOST_LAYOUTS:
            _layouts.clear()
        layout = _layouts[key] = _read_layout(proto, rank)
    return layout


_layouts: dict[tuple[int, bytes], Layout] = {}
_MOST_LAYOUTS = 1024
"""The maximum number of cached layouts."""


def _read_layout(proto: Any, rank: int) -> Layout:
    order = tuple(proto.minor_to_major)
    if sorted(order) != list(range(rank)):
        raise HloomError(f"layout {{{','.join(map(str, order))}}} is not a permutation of {rank} dimensions")
    return Layout(
        order,
        tiles=tuple(tuple(COMBINED if size == NO_SIZE else size for size in tile.dimensions) for tile in proto.tiles),
        tail_padding=proto.tail_padding_alignment_in_elements or 1,
        index_type=_integer_name(proto.index_primitive_type),
        pointer_type=_integer_name(proto.pointer_primitive_type),
        element_bits=proto.element_size_in_bits,
        memory_space=proto.memory_space,
        split_configs=tuple(
            SplitConfig(config.dimension, tuple(config.split_indices)) for config in proto.split_configs
        ),
        metadata_prefix_bytes=proto.dynamic_shape_metadata_prefix_bytes,
        dim_level_types=_read_levels(proto),
    )


def _integer_name(number: int) -> str:
    if number and number not in _leaf_names():
        raise HloomError(f"a layout has the unknown element type {number}")
    return _leaf_name(number) if number else ""


def _read_levels(proto: Any) -> str:
    """`D,S+~` from three lists; empty if all dimensions are plainly dense, which XLA does not print."""
    letters = {protobuf.DimLevelType.Value(name): letter for letter, name in _LEVELS.items()}
    unique, ordered = tuple(proto.dim_unique), tuple(proto.dim_ordered)
    levels = [
        letters.get(level, "?") + "+" * _is_false(unique, dim) + "~" * _is_false(ordered, dim)
        for dim, level in enumerate(proto.dim_level_types)
    ]
    if any("?" in level for level in levels):
        raise HloomError(f"a layout has the dimension levels {list(proto.dim_level_types)}")
    return ",".join(levels)


def _is_false(flags: Sequence[bool], dim: int) -> bool:
    return dim < len(flags) and not flags[dim]
