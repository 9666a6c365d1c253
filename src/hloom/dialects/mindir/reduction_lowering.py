"""The lowering of primitives that put elements along dimensions together."""

from __future__ import annotations

import math

from hloom.autodiff import identity_value
from hloom.dialects.mindir.data_types import TYPE_IDS
from hloom.dialects.mindir.lowering_context import Primitive, table_of
from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.ir import Node, Window, WindowDimension, dtype

TABLE, lowers = table_of()


def reduced(build: HloBuilder, opcode: str, x: Node, axes: tuple[int, ...], *, keeps: bool = False) -> Node:
    """The elements along dimensions put together by an op; with `keeps` the dimensions stay, of size 1."""
    result = build.reduce(opcode, x, axes)
    if not keeps:
        return result
    return build.reshape(result, [1 if dim in axes else size for dim, size in enumerate(tensor(x).dims)])


def mean(build: HloBuilder, x: Node, axes: tuple[int, ...], *, keeps: bool = False) -> Node:
    """The mean along dimensions."""
    count = math.prod(tensor(x).dims[axis] for axis in axes)
    total = reduced(build, "add", x, axes, keeps=keeps)
    return build.op("divide", total, build.like(count, total))


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
    "ReduceMin": "minimum",
    "ReduceProd": "multiply",
    "ReduceAll": "and",
    "ReduceAny": "or",
}.items():
    lowers(_name)(
        lambda primitive, opcode=_opcode: reduced(
            primitive.build, opcode, primitive.x, primitive.axes(1, primitive.x), keeps=_keeps(primitive)
        )
    )


@lowers("ProdExt")
def _product(primitive: Primitive) -> Node:
    """(x, axes, keep dimensions, element type)."""
    x = _widened(primitive, primitive.x, 3)
    return reduced(primitive.build, "multiply", x, primitive.axes(1, x), keeps=_keeps(primitive))


@lowers("Max", "Min")
def _extreme(primitive: Primitive) -> Node:
    x = primitive.x
    opcode = "maximum" if primitive.node.opcode.endswith("Max") else "minimum"
    return reduced(primitive.build, opcode, x, tuple(range(tensor(x).rank)))


@lowers("Argmax", "ArgMaxExt", "Argmin", "ArgMinExt")
def _index_of_extreme(primitive: Primitive) -> Node:
    """The first index of the greatest (least) element along a dimension; of all elements where there is none.

    A number is greater (less) than NaN, unless NaN is the first element: MindSpore's kernels compare in that order.
    """
    build, x = primitive.build, primitive.x
    given = primitive.static(1, None if primitive.node.opcode.endswith("Ext") else primitive.attribute("axis", -1))
    if given is None or not tensor(x).rank:
        x, axis = build.reshape(x, [tensor(x).element_count]), 0
    else:
        axis = primitive.axis_of(given, tensor(x).rank)
    opcode = "maximum" if "ax" in primitive.node.opcode.removeprefix("mindir.Arg") else "minimum"
    element = primitive.result.dtype if primitive.result else dtype("s64")
    dims = tensor(x).dims
    others = [dim for dim in range(len(dims)) if dim != axis]
    places = build.iota(element, dims, axis)
    if tensor(x).dtype.is_float:
        worst = build.like(identity_value(opcode, tensor(x).dtype), x)
        best = build.like(-identity_value(opcode, tensor(x).dtype), x)
        is_first = build.compare("EQ", places, build.like(0, places))
        x = build.op("select", build.compare("NE", x, x), build.op("select", is_first, best, worst), x)
    extreme = build.broadcast(reduced(build, opcode, x, (axis,)), dims, others)
    is_extreme = build.compare("EQ", x, extreme)
    first = build.op("select", is_extreme, places, build.like(dims[axis], places))
    result = reduced(build, "minimum", first, (axis,))
    return build.reshape(result, primitive.result.dims) if primitive.result else result


@lowers("CumSum", "CumsumExt")
def _cumulative_sum(primitive: Primitive) -> Node:
    """Sums of prefixes along a dimension: (x, dimension), of suffixes with `reverse`, without its end `exclusive`."""
    build = primitive.build
    x = _widened(primitive, primitive.x, None)
    is_exclusive = is_reversed = False
    if primitive.node.opcode.endswith("CumSum"):
        is_exclusive = primitive.static(2, primitive.attribute("exclusive", False))
        is_reversed = primitive.static(3, primitive.attribute("reverse", False))
    axis, rank = primitive.axis(1, x), tensor(x).rank
    size = tensor(x).dims[axis]
    if not rank or not size:
        return x
    before, behind = (size - 1 + is_exclusive, -is_exclusive)
    padding = (behind, before) if is_reversed else (before, behind)
    dimensions = [WindowDimension() for _ in range(rank)]
    dimensions[axis] = WindowDimension(size, 1, *padding)
    return reduced_windows(build, "add", x, Window(tuple(dimensions)), 0)


def reduced_windows(build: HloBuilder, opcode: str, x: Node, window: Window, start: float) -> Node:
    """The elements of each window put together by an op."""
    reducer = build.reducer(opcode, tensor(x).dtype)
    return build.op("reduce-window", x, build.constant(start, tensor(x).dtype), window=window, to_apply=reducer)
