"""Start indices of dynamic slices and updates: one scalar per dimension, clamped so that the slice fits.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleDynamicSlice, HandleDynamicUpdateSlice).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloom.ir import Node, TensorType, integer_range
from hloom.passes.rules.dimensions import Dimensions
from hloom.rewrite import Builder, scalar_integer, tensor_type


def start_operands(node: Node) -> tuple[Node, ...] | None:
    """The starts of a dynamic slice or update, a scalar per dimension; None where a vector says them.

    None too where the graph is what runs asynchronously: it must stay the one op.
    """
    if any(caller.opcode == "async-start" for caller in node.graph.callers):
        return None
    first = 1 if node.opcode == "dynamic-slice" else 2
    source = tensor_type(node.inputs[0])
    starts = node.inputs[first:]
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
