"""The lowering of reductions and cumulative sums."""

from __future__ import annotations

import math

from hloom.autodiff import identity_value
from hloom.dialects.arrays import HloArray, table_of
from hloom.dialects.mindir.data_types import TYPE_IDS
from hloom.dialects.mindir.lowering_context import Primitive
from hloom.ir import Window, WindowDimension, dtype

TABLE, lowers = table_of()


def reduced(opcode: str, x: HloArray, axes: tuple[int, ...], *, keeps: bool = False) -> HloArray:
    """Reduce dimensions with an op; with `keeps` they stay, with size 1."""
    result = x.reduce(opcode, axes)
    if not keeps:
        return result
    return result.reshape([1 if dim in axes else size for dim, size in enumerate(x.dims)])


def mean(x: HloArray, axes: tuple[int, ...], *, keeps: bool = False) -> HloArray:
    """The mean over dimensions."""
    return reduced("add", x, axes, keeps=keeps) / math.prod(x.dims[axis] for axis in axes)


def _converted(primitive: Primitive, type_index: int | None) -> HloArray:
    """The first operand in the element type that an operand says, or in that of the result."""
    wanted = primitive.static(type_index) if type_index is not None else None
    element = TYPE_IDS.get(wanted) if isinstance(wanted, int) else None
    if element is None and primitive.result is not None:
        element = primitive.result.dtype
    return primitive.x if element is None else primitive.x.convert(element)


def _keeps(primitive: Primitive) -> bool:
    return bool(primitive.static(2, primitive.attribute("keep_dims", False)))


def _type_index(primitive: Primitive) -> int | None:
    """The operand that says the result's element type: only the later primitives, named Ext, have one."""
    return 3 if primitive.name.endswith("Ext") else None


@lowers("ReduceSum", "SumExt")
def _sum(primitive: Primitive) -> HloArray:
    """(x, axes, keep dimensions, ...): SumExt's last operand is an element type, ReduceSum's a mode for no axes."""
    x = _converted(primitive, _type_index(primitive))
    if primitive.name == "ReduceSum" and primitive.static(3) and primitive.static(1) in (None, ()):
        return x
    return reduced("add", x, primitive.axes(1, x), keeps=_keeps(primitive))


@lowers("ReduceMean", "MeanExt")
def _mean(primitive: Primitive) -> HloArray:
    x = _converted(primitive, _type_index(primitive))
    return mean(x, primitive.axes(1, x), keeps=_keeps(primitive))


REDUCTIONS = {
    "ReduceMax": "maximum",
    "ReduceMin": "minimum",
    "ReduceProd": "multiply",
    "ReduceAll": "and",
    "ReduceAny": "or",
}
"""The opcode of each reduction that yields the element type of its operand."""


@lowers(*REDUCTIONS)
def _reduction(primitive: Primitive) -> HloArray:
    x = primitive.x
    return reduced(REDUCTIONS[primitive.name], x, primitive.axes(1, x), keeps=_keeps(primitive))


@lowers("ProdExt")
def _product(primitive: Primitive) -> HloArray:
    """(x, axes, keep dimensions, element type)."""
    x = _converted(primitive, 3)
    return reduced("multiply", x, primitive.axes(1, x), keeps=_keeps(primitive))


@lowers("Max", "Min")
def _extreme(primitive: Primitive) -> HloArray:
    x, opcode = primitive.x, "maximum" if primitive.name == "Max" else "minimum"
    return reduced(opcode, x, tuple(range(x.rank)))


@lowers("Argmax", "ArgMaxExt", "Argmin", "ArgMinExt")
def _index_of_extreme(primitive: Primitive) -> HloArray:
    """The first index of the greatest (least) element along a dimension, or of all elements if none is given.

    A number is greater (less) than NaN, unless NaN is the first element: MindSpore's kernels compare in that order.
    """
    x = primitive.x
    given = primitive.static(1, None if primitive.name.endswith("Ext") else primitive.attribute("axis", -1))
    if given is None or not x.rank:
        x, axis = x.reshape([x.type.element_count]), 0
    else:
        axis = primitive.axis_of(given, x.rank)
    opcode = "maximum" if "ax" in primitive.name.removeprefix("Arg") else "minimum"
    element = primitive.result.dtype if primitive.result else dtype("s64")
    places = primitive.build.indices(x.dims, axis, element)
    if x.dtype.is_float:
        worst = x.filled(identity_value(opcode, x.dtype))
        best = x.filled(-identity_value(opcode, x.dtype))
        is_first = places.compare(0, "EQ")
        x = x.compare(x, "NE").select(is_first.select(best, worst), x)
    extreme = reduced(opcode, x, (axis,)).spread(x.dims, [dim for dim in range(x.rank) if dim != axis])
    first = x.compare(extreme, "EQ").select(places, x.dims[axis])
    result = reduced("minimum", first, (axis,))
    return result.reshape(primitive.result.dims) if primitive.result else result


@lowers("CumSum", "CumsumExt")
def _cumulative_sum(primitive: Primitive) -> HloArray:
    """Sums of prefixes along a dimension: (x, dimension), of suffixes with `reverse`, without its end `exclusive`."""
    x = _converted(primitive, None)
    is_exclusive = is_reversed = False
    if primitive.name == "CumSum":
        is_exclusive = primitive.static(2, primitive.attribute("exclusive", False))
        is_reversed = primitive.static(3, primitive.attribute("reverse", False))
    axis = primitive.axis(1, x)
    size = x.dims[axis] if x.rank else 0
    if not size:
        return x
    before, behind = (size - 1 + is_exclusive, -is_exclusive)
    padding = (behind, before) if is_reversed else (before, behind)
    dimensions = [WindowDimension() for _ in range(x.rank)]
    dimensions[axis] = WindowDimension(size, 1, *padding)
    return x.reduce_windows("add", Window(tuple(dimensions)), 0)
