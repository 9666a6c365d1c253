"""The lowering of ops that move elements."""

from __future__ import annotations

from hloom.dialects.oneflow.builder import INDEX, Given, HloBuilder, Number, table_of, tensor
from hloom.dialects.oneflow.data_movement import reshaped
from hloom.dialects.oneflow.rows import axis_in
from hloom.ir import Node, PaddingDimension, SliceDimension

TABLE, lowers = table_of()


@lowers("reshape")
def _reshape(given: Given) -> Node:
    return given.build.reshape(given.x, reshaped(given.x_type, given["shape"]))


@lowers("transpose")
def _transpose(given: Given) -> Node:
    return given.build.transpose(given.x, given["perm"])


@lowers("narrow")
def _narrow(given: Given) -> Node:
    return narrowed(
        given.build, given.x, axis_in(given.node.attribute("dim"), given.x_type), given["start"], given["length"]
    )


def narrowed(build: HloBuilder, x: Node, axis: int, start: int, length: int) -> Node:
    """Some of the indices of one dimension."""
    whole = [SliceDimension(0, size) for size in tensor(x).dims]
    whole[axis] = SliceDimension(start, start + length)
    return build.apply("slice", x, slice=tuple(whole))


@lowers("pad")
def _pad(given: Given) -> Node:
    type_ = given.x_type
    value = given["floating_constant_value" if type_.dtype.is_float else "integral_constant_value"]
    padding = zip(given["padding_before"], given["padding_after"], strict=True)
    dimensions = tuple(PaddingDimension(low, high) for low, high in padding)
    return given.build.apply("pad", given.x, given.build.number(value, type_.dtype), padding=dimensions)


@lowers("tril")
def _tril(given: Given) -> Node:
    return lower_triangle(given.build, given.x, given["diagonal"], _fill(given))


@lowers("fused_scale_tril")
def _scale_tril(given: Given) -> Node:
    scale = given["floating_scale_value" if given["is_floating_scale_value"] else "integer_scale_value"]
    scaled = given.build.apply("multiply", given.x, given.build.filled(scale, given.x))
    return lower_triangle(given.build, scaled, given["diagonal"], _fill(given))


def lower_triangle(build: HloBuilder, x: Node, diagonal: int, fill: Number) -> Node:
    """The elements on and below a diagonal; a number elsewhere."""
    dims = tensor(x).dims
    rank = len(dims)
    rows = build.iota(dims, rank - 2, INDEX)
    columns = build.iota(dims, rank - 1, INDEX)
    limit = build.apply("add", rows, build.filled(diagonal, rows))
    return build.apply("select", build.compare(columns, limit, "LE"), x, build.filled(fill, x))


def _fill(given: Given) -> Number:
    return given["floating_fill_value" if given["is_floating_fill_value"] else "integer_fill_value"]
