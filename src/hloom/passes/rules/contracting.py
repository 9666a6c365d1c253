"""Products: those of nothing, transposes beside them, dimensions of size 1. The sums stay what they are."""

from __future__ import annotations

from hloom.ir import Apply, Kind, Node, TensorType
from hloom.ops.dot_rules import DotNumbers
from hloom.passes.rules.dotting import (
    batch_major,
    free_dims,
    make_dot,
    numbers_of,
    static_operands,
    swapped,
)
from hloom.rewrite import Builder, Family, splat_of, tensor_type, used_once

CONTRACTING = Family("contracting")


@CONTRACTING.rewrites("dot", "ragged-dot", "scaled-dot", benefit=9, depth=1)
def dot_of_nothing(build: Builder, node: Apply) -> Node | None:
    """dot(f32[2,0], f32[0,3]) -> broadcast(0): a sum of no products is zero, and what has no elements is anything."""
    result = tensor_type(node)
    kinds = [tensor_type(operand) for operand in node.inputs[:2]]
    if result is None or any(kind is None for kind in kinds):
        return None
    if all(kind.element_count for kind in (result, *kinds) if kind is not None):
        return None
    return build.constant(0, result.with_layout(None))


@CONTRACTING.rewrites("dot", benefit=9, depth=1)
def integer_dot_of_zero(build: Builder, node: Apply) -> Node | None:
    """dot(x, broadcast(0)) -> broadcast(0), for integers: with floats, NaN and infinity would be lost."""
    result = tensor_type(node)
    if result is None or not result.dtype.is_integer:
        return None
    for operand in node.inputs:
        kind, value = tensor_type(operand), splat_of(operand)
        if kind is not None and kind.dtype.is_integer and value is not None and int(value) == 0:
            return build.constant(0, result.with_layout(None))
    return None


@CONTRACTING.rewrites("dot", benefit=8, depth=1)
def integer_outer_product(build: Builder, node: Apply) -> Node | None:
    """dot(x, y) that contracts nothing -> multiply(broadcast(x), broadcast(y)), for integers.

    With floats a product of -0 would stay -0 where the sum makes it 0.
    """
    result = tensor_type(node)
    if result is None or not result.dtype.is_integer:
        return build.decline("it is no product of integers")
    return outer_product(build, node)


@CONTRACTING.rewrites("dot", benefit=3, depth=1)
def dot_of_degenerate(build: Builder, node: Apply) -> Node | None:
    """dot(f32[1,4], f32[4,3]) -> reshape(dot(reshape(x), y)) with f32[4]: dimensions of size 1 go.

    Each sum has the same terms in the same order.
    """
    kinds = static_operands(node)
    if kinds is None or all(size != 1 for kind in kinds[:2] for size in kind.dims):
        return None
    lhs, rhs, result = kinds
    numbers = numbers_of(node)
    left, right = _places_left(lhs), _places_left(rhs)
    kept = DotNumbers(
        _mapped(numbers.lhs_batch, left),
        _mapped(numbers.rhs_batch, right),
        _mapped(numbers.lhs_contracting, left),
        _mapped(numbers.rhs_contracting, right),
    )
    product = make_dot(
        build, node, build.reshape(node.inputs[0], _squeezed(lhs)), build.reshape(node.inputs[1], _squeezed(rhs)), kept
    )
    return build.reshape(product, result.with_layout(None))


@CONTRACTING.rewrites("dot", depth=2)
def dot_of_transpose(build: Builder, node: Apply) -> Node | None:
    """dot(transpose(x, {1,0}), y), lhs_contracting_dims={1} -> dot(x, y), lhs_contracting_dims={0}.

    On either side, where the dimensions that are not paired keep their order: the same terms in the same order.
    """
    kinds = static_operands(node)
    if kinds is None:
        return None
    numbers = numbers_of(node)
    lhs, left = _untransposed(node.inputs[0], numbers.lhs_batch, numbers.lhs_contracting)
    rhs, right = _untransposed(node.inputs[1], numbers.rhs_batch, numbers.rhs_contracting)
    if lhs is node.inputs[0] and rhs is node.inputs[1]:
        return None
    return make_dot(
        build,
        node,
        lhs,
        rhs,
        DotNumbers(
            tuple(left[place] for place in numbers.lhs_batch),
            tuple(right[place] for place in numbers.rhs_batch),
            tuple(left[place] for place in numbers.lhs_contracting),
            tuple(right[place] for place in numbers.rhs_contracting),
        ),
    )


@CONTRACTING.rewrites("transpose", benefit=2, depth=2)
def transpose_of_dot(build: Builder, node: Apply) -> Node | None:
    """transpose(dot(x, y), {1,0}) -> dot(y, x), batch dimensions in front: products commute."""
    dot = node.inputs[0]
    if not isinstance(dot, Apply) or dot.opcode != "dot" or not used_once(dot):
        return None
    kinds = static_operands(dot)
    if kinds is None:
        return None
    numbers, order = numbers_of(dot), node.attributes["dimensions"]
    batches = len(numbers.lhs_batch)
    rows = kinds[0].rank - batches - len(numbers.lhs_contracting)
    columns = kinds[1].rank - batches - len(numbers.rhs_contracting)
    if any(place >= batches for place in order[:batches]):
        return build.decline("it moves batch dimensions among the others")
    wanted = [*range(batches + rows, batches + rows + columns), *range(batches, batches + rows)]
    if list(order[batches:]) != wanted:
        return build.decline("it does not exchange the rows and columns")
    turned = swapped(numbers)._replace(
        lhs_batch=tuple(numbers.rhs_batch[place] for place in order[:batches]),
        rhs_batch=tuple(numbers.lhs_batch[place] for place in order[:batches]),
    )
    return make_dot(build, dot, dot.inputs[1], dot.inputs[0], turned, swap=True)


def outer_product(build: Builder, node: Apply) -> Node | None:
    """The product of a dot that contracts nothing, by which each element is one multiplication."""
    kinds = static_operands(node)
    numbers = numbers_of(node)
    if kinds is None or numbers.lhs_contracting or not plain_algorithm(node):
        return None
    lhs, rhs, result = kinds
    batches = range(len(numbers.lhs_batch))
    left = build.convert(batch_major(build, node.inputs[0], numbers.lhs_batch, ()), result.dtype)
    right = build.convert(batch_major(build, node.inputs[1], numbers.rhs_batch, ()), result.dtype)
    whole = result.with_layout(None)
    if lhs.rank != result.rank:
        left = build.op("broadcast", left, type=whole, dimensions=tuple(range(lhs.rank)))
    if rhs.rank != result.rank:
        right = build.op("broadcast", right, type=whole, dimensions=(*batches, *range(lhs.rank, result.rank)))
    return build.op("multiply", left, right)


def plain_algorithm(dot: Apply) -> bool:
    """Whether a product may be written as multiplications and sums of its own element type, as XLA has it."""
    kind = dot.type
    if not isinstance(kind, TensorType) or kind.dtype.kind is Kind.BOOLEAN:
        return False
    return dot.attributes.get("algorithm") in (None, "dot_f32_f32_f32")


def _places_left(kind: TensorType) -> dict[int, int]:
    """Where the dimensions that are not of size 1 stand when the others are gone."""
    kept = [place for place, size in enumerate(kind.dims) if size != 1]
    return {place: number for number, place in enumerate(kept)}


def _squeezed(kind: TensorType) -> TensorType:
    return TensorType(kind.dtype, [size for size in kind.dims if size != 1])


def _mapped(places: tuple[int, ...], where: dict[int, int]) -> tuple[int, ...]:
    return tuple(where[place] for place in places if place in where)


def _untransposed(
    operand: Node, batch: tuple[int, ...], contracting: tuple[int, ...]
) -> tuple[Node, tuple[int, ...]]:
    """What a transpose reads and where its dimensions come from; the operand itself where it must stay."""
    kind = operand.type
    assert isinstance(kind, TensorType), f"{operand!r} is no array"
    same = operand, tuple(range(kind.rank))
    if operand.opcode != "transpose" or tensor_type(operand.inputs[0]) is None:
        return same
    order: tuple[int, ...] = operand.attributes["dimensions"]
    free = [order[place] for place in free_dims(kind.rank, batch, contracting)]
    return (operand.inputs[0], order) if free == sorted(free) else same
