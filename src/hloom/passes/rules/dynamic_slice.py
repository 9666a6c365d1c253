"""Rules on dynamic-slice, and its start indices, one scalar per dimension. Elements are only moved: every bit is kept,
NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleDynamicSlice,
HandleDynamicUpdateSlice). Start indices are clamped so that the slice fits: `place` below is the clamped start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloom.ir import Apply, Node, SliceDimension, TensorType, integer_range
from hloom.passes.rules.dimensions import (
    Dimensions,
    broadcast_dims,
    inverse,
    is_empty,
    kept_by_reshape,
    scalar_of,
)
from hloom.rewrite import (
    Builder,
    Family,
    array_value,
    integers,
    operand_is,
    register_condition,
    register_value,
    scalar_integer,
    tensor_type,
)

DYNAMIC_SLICE = Family("dynamic-slice", formerly="indexing")
DYNAMIC_SLICE_AS_XLA = Family("dynamic-slice-as-xla", formerly="indexing-as-xla")
"""Forms that XLA prefers though they are not smaller."""


DYNAMIC_SLICE.table("""
dynamic-slice-of-everything [4]: dynamic-slice(x, starts...) -> in-place(x, root) if same-array(root, x)
    # all of x is taken: it fits only at the beginning
""")


@DYNAMIC_SLICE.rewrites(
    "dynamic-slice", "dynamic-update-slice", benefit=3, because="compares any number of starts with the sizes taken"
)
def index_of_whole_dimension(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(x, i) -> dynamic-slice(x, 0), where a whole dimension is taken; so too for updates"""
    starts, whole = start_operands(node), tensor_type(node.operands[0])
    part = tensor_type(node if node.opcode == "dynamic-slice" else node.operands[1])
    if starts is None or whole is None or part is None:
        return None
    idle = [
        size == taken and not (start.opcode == "constant" and scalar_integer(start) == 0)
        for start, size, taken in zip(starts, whole.dims, part.dims, strict=True)
    ]
    if not any(idle):
        return None
    zero = number(build, 0, starts[0])
    others = node.operands[: len(node.operands) - len(starts)]
    return build.like(node, *others, *(zero if is_idle else start for is_idle, start in zip(idle, starts, strict=True)))


@DYNAMIC_SLICE.rewrites(
    "dynamic-slice", benefit=2, requires=operand_is(0, "broadcast"), because="picks the starts of some dimensions"
)
def dynamic_slice_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(broadcast(x), i, j) -> broadcast(dynamic-slice(x, j))"""
    inner, array_type, starts = node.operands[0], tensor_type(node), start_operands(node)
    if inner.opcode != "broadcast" or array_type is None or starts is None or tensor_type(inner.operands[0]) is None:
        return None
    dimensions = broadcast_dims(inner)
    smaller = inner.operands[0]
    if dimensions:
        sizes = [array_type.dims[dim] for dim in dimensions]
        smaller = dynamic_slice(build, smaller, [starts[dim] for dim in dimensions], sizes)
    return build.op("broadcast", smaller, type=array_type, dimensions=dimensions)


@DYNAMIC_SLICE.rewrites(
    "dynamic-slice", requires=operand_is(0, "reshape"), because="computes the starts and sizes of the dimensions kept"
)
def dynamic_slice_of_reshape(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(reshape(x), i) -> reshape(dynamic-slice(x, i)), where the reshape only adds and removes ones"""
    inner, array_type, starts = node.operands[0], tensor_type(node), start_operands(node)
    source = tensor_type(inner.operands[0]) if inner.opcode == "reshape" else None
    made = tensor_type(inner)
    if array_type is None or starts is None or source is None or made is None or is_empty(array_type):
        return None
    kept = kept_by_reshape(source.dims, made.dims)
    if kept is None:
        return None
    zero = number(build, 0, starts[0]) if starts else None
    if not source.rank or zero is None:
        return None
    moved = [starts[kept[dim]] if dim in kept else zero for dim in range(source.rank)]
    sizes = [array_type.dims[kept[dim]] if dim in kept else 1 for dim in range(source.rank)]
    return build.op("reshape", dynamic_slice(build, inner.operands[0], moved, sizes), type=array_type)


@DYNAMIC_SLICE.rewrites("dynamic-slice", requires=operand_is(0, "transpose"), because="permutes any number of starts")
def dynamic_slice_of_transpose(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(transpose(x), i, j) -> transpose(dynamic-slice(x, j, i))"""
    inner, array_type, starts = node.operands[0], tensor_type(node), start_operands(node)
    if inner.opcode != "transpose" or array_type is None or starts is None or tensor_type(inner) is None:
        return None
    order = inner.attributes["dimensions"]
    back = inverse(order)
    smaller = dynamic_slice(
        build, inner.operands[0], [starts[dim] for dim in back], [array_type.dims[dim] for dim in back]
    )
    return build.op("transpose", smaller, dimensions=order)


DYNAMIC_SLICE.table("""
dynamic-slice-at-constant [2, depth 2]: dynamic-slice(x, starts...) -> slice(x, slice=part-at-constants(root))
    if at-constants  # the starts are moved to where the slice fits
""")


@DYNAMIC_SLICE.rewrites("dynamic-slice", benefit=2, because="computes a clamped start")
def dynamic_slice_of_iota(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(iota, i) -> broadcast(clamp(0, i, last)), where one number is taken; iota, where all are

    Also of an iota times a scalar.
    """
    inner, array_type, starts = node.operands[0], tensor_type(node), start_operands(node)
    factor = scalar_of(inner.operands[1]) if inner.opcode == "multiply" else None
    iota = inner if factor is None else inner.operands[0]
    source = tensor_type(iota)
    if iota.opcode != "iota" or array_type is None or source is None or starts is None or is_empty(array_type):
        return None
    counted = iota.attributes["iota_dimension"]
    if array_type.dims[counted] == source.dims[counted] and factor is None:
        return build.op("iota", type=array_type, iota_dimension=counted)
    index = tensor_type(starts[counted])
    last = source.dims[counted] - 1
    if (
        array_type.dims[counted] != 1
        or index is None
        or not array_type.dtype.is_integer
        or integer_range(array_type.dtype)[1] < last
    ):
        return build.decline("several numbers are taken, or the type does not hold them")
    number: Node = build.convert(clamp_start(build, starts[counted], last), array_type.dtype)
    if factor is not None:
        number = build.op("multiply", number, factor)
    return build.broadcast(number, array_type)


@DYNAMIC_SLICE_AS_XLA.rewrites(
    "dynamic-slice",
    benefit=2,
    requires=(integers(), operand_is(0, "constant")),
    because="looks for a progression with numpy, and computes a clamped start",
)
def dynamic_slice_of_progression(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice({0, 3, 6, 9}, i) -> reshape(clamp(0, i, 3) * 3), of a constant and for one number"""
    array_type, starts, values = tensor_type(node), start_operands(node), array_value(node.operands[0])
    if (
        array_type is None
        or starts is None
        or values is None
        or array_type.dims != (1,)
        or not array_type.dtype.is_integer
    ):
        return None
    count = values.shape[0]
    step = int(values[1]) if count > 1 else 0
    if not step or [int(value) for value in values] != [number * step for number in range(count)]:
        return build.decline("the numbers do not rise evenly from 0")
    if integer_range(array_type.dtype)[1] < count:
        return build.decline("the type does not hold the number of the last")
    taken: Node = build.convert(clamp_start(build, starts[0], count - 1), array_type.dtype)
    if step != 1:
        taken = build.op("multiply", taken, build.constant(step, array_type.dtype))
    return build.op("reshape", taken, type=array_type)


@DYNAMIC_SLICE.rewrites("dynamic-slice", requires=operand_is(0, "slice"), because="computes the starts in the whole")
def dynamic_slice_of_slice(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(slice(x), i) -> dynamic-slice(x, i'), where each dimension is cut by one of them only"""
    inner, array_type, starts = node.operands[0], tensor_type(node), start_operands(node)
    source = tensor_type(inner.operands[0]) if inner.opcode == "slice" else None
    if array_type is None or starts is None or source is None:
        return None
    moved: list[Node] = []
    for part, start, size, taken in zip(inner.attributes["slice"], starts, source.dims, array_type.dims, strict=True):
        if part == SliceDimension(0, size):
            moved.append(start)
        elif part.stride == 1 and part.limit - part.start == taken and fits(part.start, start):
            moved.append(number(build, part.start, start))
        else:
            return build.decline("a dimension is cut twice")
    return dynamic_slice(build, inner.operands[0], moved, array_type.dims)


@DYNAMIC_SLICE.rewrites(
    "dynamic-slice", requires=operand_is(0, "dynamic-slice"), because="computes the starts in the whole"
)
def dynamic_slice_of_dynamic_slice(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(dynamic-slice(x, i), j) -> dynamic-slice(x, k), where k is i, j or a constant in each dimension"""
    moved = _merged(build, node)
    known = node.operands + node.operands[0].operands
    if moved is None or not all(start in known or start.opcode == "constant" for start in moved):
        return None
    return dynamic_slice(build, node.operands[0].operands[0], moved, node.attributes["dynamic_slice_sizes"])


@DYNAMIC_SLICE_AS_XLA.rewrites(
    "dynamic-slice", requires=operand_is(0, "dynamic-slice"), because="computes the starts in the whole"
)
def dynamic_slice_of_dynamic_slice_by_sum(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(dynamic-slice(x, i), j) -> dynamic-slice(x, place(j) + place(i))"""
    moved = _merged(build, node)
    if moved is None:
        return None
    return dynamic_slice(build, node.operands[0].operands[0], moved, node.attributes["dynamic_slice_sizes"])


DYNAMIC_SLICE.table("""
dynamic-slice-of-update [2]: dynamic-slice(u:dynamic-update-slice(x, y, i...), j...) -> in-place(y, root)
    if same-array(root, y), same-starts(root, u)  # all of y is taken
""")


def _merged(build: Builder, node: Node) -> Sequence[Node] | None:
    """Where a slice of a slice begins in the whole."""
    inner, starts = node.operands[0], start_operands(node)
    if inner.opcode != "dynamic-slice" or starts is None:
        return None
    first = start_operands(inner)
    whole, middle, small = (tensor_type(operand) for operand in (inner.operands[0], inner, node))
    if first is None or whole is None or middle is None or small is None:
        return None
    return merged_starts(build, starts, first, small.dims, middle.dims, whole.dims)


def start_operands(node: Node) -> tuple[Node, ...] | None:
    """The starts of a dynamic slice or update, a scalar per dimension; None where a vector says them.

    None too where the graph is what runs asynchronously: it must stay the one op.
    """
    if any(caller.opcode == "async-start" for caller in node.graph.callers):
        return None
    first = 1 if node.opcode == "dynamic-slice" else 2
    source = tensor_type(node.operands[0])
    starts = node.operands[first:]
    if source is None or tensor_type(node) is None or len(starts) != source.rank:
        return None
    types = [tensor_type(start) for start in starts]
    return starts if all(array_type is not None and not array_type.rank for array_type in types) else None


def dynamic_slice(build: Builder, node: Node, starts: Iterable[Node], sizes: Iterable[int]) -> Node:
    """A dynamic slice of these sizes."""
    return build.op("dynamic-slice", node, *starts, dynamic_slice_sizes=tuple(sizes))


def constant_starts(node: Node, whole: TensorType | None, part: TensorType | None) -> Sequence[int] | None:
    """The places at which a slice or an update stands, where its starts are constants."""
    starts = start_operands(node)
    if starts is None or whole is None or part is None:
        return None
    values = [scalar_integer(start) for start in starts]
    bounds = zip(values, whole.dims, part.dims, strict=True)
    offsets = [min(max(value, 0), size - taken) for value, size, taken in bounds if value is not None]
    return offsets if len(offsets) == len(values) else None


def same_starts(starts: Sequence[Node], others: Sequence[Node] | None) -> bool:
    """Whether the starts are known to be the same."""
    if others is None or len(starts) != len(others):
        return False
    return all(
        a is b or (scalar_integer(a) is not None and scalar_integer(a) == scalar_integer(b))
        for a, b in zip(starts, others, strict=True)
    )


def merged_starts(
    build: Builder,
    inside: Sequence[Node],
    outside: Sequence[Node],
    small: Dimensions,
    middle: Dimensions,
    whole: Dimensions,
) -> Sequence[Node] | None:
    """Where a part of a part begins in the whole: the sums of both places.

    `inside` are the starts of the small part in the middle one, `outside` those of the middle one in the whole. None
    where the type of the starts does not hold a sum.
    """
    merged: list[Node] = []
    for start, front, size, part, full in zip(inside, outside, small, middle, whole, strict=True):
        if part == size and same_type(front, start):
            merged.append(front)
        elif full == part:
            merged.append(start)
        elif fits(full, start):
            merged.append(_sum(build, _clamped(build, start, part - size), _clamped(build, front, full - part), start))
        else:
            return build.decline("the sum of the starts does not fit into their type")
    return merged


def clamp_start(build: Builder, start: Node, last: int) -> Node:
    """A start, moved to where the slice fits."""
    assert isinstance(start.type, TensorType)
    low, high = number(build, 0, start), number(build, min(last, integer_range(start.type.dtype)[1]), start)
    return build.op("clamp", low, start, high)


def number(build: Builder, value: int, like: Node) -> Node:
    """A constant of a start's type."""
    assert isinstance(like.type, TensorType)
    return build.constant(value, like.type.dtype)


def fits(value: int, like: Node) -> bool:
    """Whether a start's type holds a number."""
    return isinstance(like.type, TensorType) and value <= integer_range(like.type.dtype)[1]


def same_type(a: Node, b: Node) -> bool:
    """Whether two starts are of one type."""
    return isinstance(a.type, TensorType) and isinstance(b.type, TensorType) and a.type.dtype is b.type.dtype


def _clamped(build: Builder, start: Node, last: int) -> Node | int:
    value = scalar_integer(start)
    if value is not None:
        return min(max(value, 0), last)
    return clamp_start(build, start, last) if last else 0


def _sum(build: Builder, first: Node | int, second: Node | int, like: Node) -> Node:
    if isinstance(first, int) and isinstance(second, int):
        return number(build, first + second, like)
    terms = [_term(build, summand, like) for summand in (first, second) if summand != 0]
    terms.sort(key=lambda summand: summand.opcode == "constant")
    return terms[0] if len(terms) == 1 else build.op("add", *terms)


def _term(build: Builder, term: Node | int, like: Node) -> Node:
    assert isinstance(like.type, TensorType)
    return number(build, term, like) if isinstance(term, int) else build.convert(term, like.type.dtype)


def _is_at_constants(node: Node) -> bool:
    return constant_starts(node, tensor_type(node.operands[0]), tensor_type(node)) is not None


def _part_at_constants(node: Node) -> tuple[SliceDimension, ...]:
    """What a dynamic slice takes whose starts are constants."""
    part = tensor_type(node)
    offsets = constant_starts(node, tensor_type(node.operands[0]), part)
    assert part is not None and offsets is not None, "its starts are constants"
    return tuple(SliceDimension(offset, offset + size) for offset, size in zip(offsets, part.dims, strict=True))


def _have_same_starts(node: Node, other: Node) -> bool:
    starts = start_operands(node)
    return starts is not None and same_starts(starts, start_operands(other))


register_condition("at-constants", _is_at_constants)
register_condition("same-starts", _have_same_starts)
register_value("part-at-constants", _part_at_constants)
