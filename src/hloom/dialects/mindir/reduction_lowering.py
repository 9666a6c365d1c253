"""The lowering of primitives that put elements along dimensions together."""

from __future__ import annotations

import math

import numpy as np

from hloom.dialects.mindir.data_types import TYPE_IDS
from hloom.dialects.mindir.lowering_context import Primitive, table_of
from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.ir import DType, Node, dtype

TABLE, lowers = table_of()


def reduced(build: HloBuilder, opcode: str, x: Node, axes: tuple[int, ...], *, keeps: bool = False) -> Node:
    """The elements along dimensions put together by an op; with `keeps` the dimensions stay, of size 1."""
    result = build.reduce(opcode, x, axes, _start(opcode, tensor(x).dtype)) if axes else x
    if not keeps:
        return result
    return build.reshape(result, [1 if dim in axes else size for dim, size in enumerate(tensor(x).dims)])


def mean(build: HloBuilder, x: Node, axes: tuple[int, ...], *, keeps: bool = False) -> Node:
    """The mean along dimensions."""
    count = math.prod(tensor(x).dims[axis] for axis in axes)
    total = reduced(build, "add", x, axes, keeps=keeps)
    return build.apply("divide", total, build.filled(count, total))


def _start(opcode: str, element: DType) -> int | float | bool:
    """The number that changes nothing."""
    if opcode in ("add", "or"):
        return 0
    if opcode in ("multiply", "and"):
        return 1
    if element.is_float:
        return -math.inf if opcode == "maximum" else math.inf
    if element.name == "pred":
        return opcode == "minimum"
    limits = np.iinfo(element.numpy)
    return limits.min if opcode == "maximum" else limits.max


def _widened(primitive: Primitive, x: Node, type_index: int | None) -> Node:
    """The operand in the element type of the result."""
    wanted = primitive.static(type_index) if type_index is not None else None
    element = TYPE_IDS.get(wanted) if isinstance(wanted, int) else None
    if element is None and primitive.result is not None:
        element = primitive.result.dtype
    return primitive.build.convert(x, element) if element is not None else x


@lowers("ReduceSum", "SumExt")
def _sum(primitive: Primitive) -> Node:
    """(x, axes, keep dimensions, ...): SumExt's last operand is an element type, ReduceSum's a mode for no axes."""
    is_ext = primitive.node.opcode.endswith("Ext")
    x = _widened(primitive, primitive.x, 3 if is_ext else None)
    if not is_ext and primitive.static(3) and primitive.static(1) in (None, ()):
        return x
    return reduced(primitive.build, "add", x, primitive.axes(1, x), keeps=_keeps(primitive))


@lowers("ReduceMean", "MeanExt")
def _mean(primitive: Primitive) -> Node:
    x = _widened(primitive, primitive.x, 3 if primitive.node.opcode.endswith("Ext") else None)
    return mean(primitive.build, x, primitive.axes(1, x), keeps=_keeps(primitive))


def _keeps(primitive: Primitive) -> bool:
    return bool(primitive.static(2, primitive.attribute("keep_dims", False)))


for _name, _opcode in {
    "ReduceMax": "maximum",
    "AMax": "maximum",
    "Amax": "maximum",
    "ReduceMin": "minimum",
    "AMin": "minimum",
    "Amin": "minimum",
    "ReduceProd": "multiply",
    "ProdExt": "multiply",
    "ReduceAll": "and",
    "ReduceAny": "or",
}.items():
    lowers(_name)(
        lambda primitive, opcode=_opcode: reduced(
            primitive.build, opcode, primitive.x, primitive.axes(1, primitive.x), keeps=_keeps(primitive)
        )
    )


@lowers("Max", "Min")
def _extreme(primitive: Primitive) -> Node:
    x = primitive.x
    opcode = "maximum" if primitive.node.opcode.endswith("Max") else "minimum"
    return reduced(primitive.build, opcode, x, tuple(range(tensor(x).rank)))


@lowers("Argmax", "ArgMaxExt", "ArgMax", "Argmin", "ArgMin", "ArgMinExt")
def _index_of_extreme(primitive: Primitive) -> Node:
    """The first index of the greatest (least) element along a dimension; of all elements where there is none."""
    build, x = primitive.build, primitive.x
    if primitive.static(1, primitive.attribute("axis", -1)) is None or not tensor(x).rank:
        x, axis = build.reshape(x, [tensor(x).element_count]), 0
    else:
        axis = primitive.axis_of(primitive.static(1, primitive.attribute("axis", -1)), tensor(x).rank)
    opcode = "maximum" if "ax" in primitive.node.opcode.removeprefix("mindir.Arg") else "minimum"
    element = primitive.result.dtype if primitive.result else dtype("s64")
    dims = tensor(x).dims
    others = [dim for dim in range(len(dims)) if dim != axis]
    extreme = build.spread(reduced(build, opcode, x, (axis,)), dims, others)
    places = build.iota(dims, axis, element)
    is_extreme = build.compare(x, extreme, "EQ")
    first = build.apply("select", is_extreme, places, build.filled(dims[axis], places))
    result = reduced(build, "minimum", first, (axis,))
    return build.reshape(result, primitive.result.dims) if primitive.result else result


@lowers("CumSum", "CumsumExt")
def _cumulative_sum(primitive: Primitive) -> Node:
    """Sums of prefixes along a dimension, by a triangle of ones."""
    build = primitive.build
    x = _widened(primitive, primitive.x, None)
    exclusive, reverse = (
        (
            primitive.attribute("exclusive", primitive.static(2, False)),
            primitive.attribute("reverse", primitive.static(3, False)),
        )
        if primitive.node.opcode.endswith("CumSum")
        else (False, False)
    )
    axis = primitive.axis(1, x)
    size = tensor(x).dims[axis]
    rows, columns = (build.iota((size, size), dim, dtype("s32")) for dim in (0, 1))
    direction = ("GT" if exclusive else "GE") if reverse else ("LT" if exclusive else "LE")
    ones = build.convert(build.compare(rows, columns, direction), tensor(x).dtype)
    product = build.apply("dot", x, ones, lhs_contracting_dims=(axis,), rhs_contracting_dims=(0,))
    rank = tensor(x).rank
    order = [dim if dim < axis else rank - 1 if dim == axis else dim - 1 for dim in range(rank)]
    return build.transpose(product, order)
