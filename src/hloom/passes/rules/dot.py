"""Value-preserving rules on dot: empty operands, transposed operands and results, degenerate dimensions.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleDot, RemoveDegenerateDimensionFromDot,
HandleTranspose).

Names of dimension numbers (batch, contracting, non-contracting) as in XLA's DotDimensionNumbers (xla/xla_data.proto).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.ir import Apply, DTypeKind, Node, TensorType
from hloom.ops import DotNumbers, check_dot
from hloom.rewrite import (
    Builder,
    Family,
    integers,
    operand_is,
    some_operand,
    tensor_type,
    used_once,
)

DOT = Family("dot", formerly="contracting", because="computes which dimensions a product pairs")


DOT.table("""
dot-of-nothing [9]: f(x, y, rest...) -> 0 if empty; f(x, y, rest...) -> 0 if x is empty;
    f(x, y, rest...) -> 0 if y is empty where static, x and y are static for f in dot, ragged-dot, scaled-dot
    # a sum of no products is zero, and what has no elements is anything
integer-dot-of-zero [9]: dot(z, x) -> 0; dot(x, z) -> 0 where integer, z is integer, z is zero
    # with floats, NaN and infinity would be lost
""")


@DOT.rewrites(
    "dot",
    benefit=8,
    depth=1,
    requires=integers(),
    because="computes the dimensions that each operand is repeated along",
)
def integer_outer_product(build: Builder, node: Apply) -> Node | None:
    """dot(x, y) that contracts nothing -> multiply(broadcast(x), broadcast(y)), for integers.

    With floats a product of -0 would stay -0 where the sum makes it 0.
    """
    result = tensor_type(node)
    if result is None or not result.dtype.is_integer:
        return build.decline("it is not a product of integers")
    return outer_product(build, node)


@DOT.rewrites("dot", benefit=3, depth=1)
def dot_of_degenerate(build: Builder, node: Apply) -> Node | None:
    """dot(f32[1,4], f32[4,3]) -> reshape(dot(reshape(x), y)) with f32[4]: dimensions of size 1 go.

    Each sum has the same terms in the same order.
    """
    types = static_operands(node)
    if types is None or all(size != 1 for array_type in types[:2] for size in array_type.dims):
        return None
    lhs, rhs, result = types
    numbers = numbers_of(node)
    left, right = _remaining_dims(lhs), _remaining_dims(rhs)
    kept = DotNumbers(
        _renumber(numbers.lhs_batch, left),
        _renumber(numbers.rhs_batch, right),
        _renumber(numbers.lhs_contracting, left),
        _renumber(numbers.rhs_contracting, right),
    )
    product = make_dot(
        build,
        node,
        build.reshape(node.operands[0], _squeezed(lhs)),
        build.reshape(node.operands[1], _squeezed(rhs)),
        kept,
    )
    return build.reshape(product, result.with_layout(None))


@DOT.rewrites("dot", depth=2, requires=some_operand("transpose"))
def dot_of_transpose(build: Builder, node: Apply) -> Node | None:
    """dot(transpose(x, {1,0}), y), lhs_contracting_dims={1} -> dot(x, y), lhs_contracting_dims={0}.

    On either side, where the dimensions that are not paired keep their order: the same terms in the same order.
    """
    types = static_operands(node)
    if types is None:
        return None
    numbers = numbers_of(node)
    lhs, left = _untransposed(node.operands[0], numbers.lhs_batch, numbers.lhs_contracting)
    rhs, right = _untransposed(node.operands[1], numbers.rhs_batch, numbers.rhs_contracting)
    if lhs is node.operands[0] and rhs is node.operands[1]:
        return None
    return make_dot(
        build,
        node,
        lhs,
        rhs,
        DotNumbers(
            tuple(left[dim] for dim in numbers.lhs_batch),
            tuple(right[dim] for dim in numbers.rhs_batch),
            tuple(left[dim] for dim in numbers.lhs_contracting),
            tuple(right[dim] for dim in numbers.rhs_contracting),
        ),
    )


@DOT.rewrites("transpose", benefit=2, depth=2, requires=operand_is(0, "dot"))
def transpose_of_dot(build: Builder, node: Apply) -> Node | None:
    """transpose(dot(x, y), {1,0}) -> dot(y, x), batch dimensions in front: products commute."""
    dot = node.operands[0]
    if not isinstance(dot, Apply) or dot.opcode != "dot" or not used_once(dot):
        return None
    types = static_operands(dot)
    if types is None:
        return None
    numbers, order = numbers_of(dot), node.attributes["dimensions"]
    batches = len(numbers.lhs_batch)
    rows = types[0].rank - batches - len(numbers.lhs_contracting)
    columns = types[1].rank - batches - len(numbers.rhs_contracting)
    if any(dim >= batches for dim in order[:batches]):
        return build.decline("it moves batch dimensions among the others")
    wanted = [*range(batches + rows, batches + rows + columns), *range(batches, batches + rows)]
    if list(order[batches:]) != wanted:
        return build.decline("it does not exchange the rows and columns")
    exchanged = swapped(numbers)._replace(
        lhs_batch=tuple(numbers.rhs_batch[dim] for dim in order[:batches]),
        rhs_batch=tuple(numbers.lhs_batch[dim] for dim in order[:batches]),
    )
    return make_dot(build, dot, dot.operands[1], dot.operands[0], exchanged, swap=True)


def outer_product(build: Builder, node: Apply) -> Node | None:
    """The product of a dot that contracts nothing, by which each element is one multiplication."""
    types = static_operands(node)
    numbers = numbers_of(node)
    if types is None or numbers.lhs_contracting or not plain_algorithm(node):
        return None
    lhs, rhs, result = types
    batches = range(len(numbers.lhs_batch))
    left = build.convert(to_batch_major(build, node.operands[0], numbers.lhs_batch, ()), result.dtype)
    right = build.convert(to_batch_major(build, node.operands[1], numbers.rhs_batch, ()), result.dtype)
    whole = result.with_layout(None)
    if lhs.rank != result.rank:
        left = build.op("broadcast", left, type=whole, dimensions=tuple(range(lhs.rank)))
    if rhs.rank != result.rank:
        right = build.op("broadcast", right, type=whole, dimensions=(*batches, *range(lhs.rank, result.rank)))
    return build.op("multiply", left, right)


def plain_algorithm(dot: Apply) -> bool:
    """Whether a product may be written as multiplications and sums of its own element type, as XLA has it."""
    node_type = dot.type
    if not isinstance(node_type, TensorType) or node_type.dtype.kind is DTypeKind.BOOLEAN:
        return False
    return dot.attributes.get("algorithm") in (None, "dot_f32_f32_f32")


def _remaining_dims(array_type: TensorType) -> dict[int, int]:
    """Where the dimensions that are not of size 1 stand when the others are gone."""
    kept = [dim for dim, size in enumerate(array_type.dims) if size != 1]
    return {dim: number for number, dim in enumerate(kept)}


def _squeezed(array_type: TensorType) -> TensorType:
    return TensorType(array_type.dtype, [size for size in array_type.dims if size != 1])


def _renumber(dims: tuple[int, ...], where: dict[int, int]) -> tuple[int, ...]:
    return tuple(where[dim] for dim in dims if dim in where)


def _untransposed(operand: Node, batch: tuple[int, ...], contracting: tuple[int, ...]) -> tuple[Node, tuple[int, ...]]:
    """What a transpose reads and where its dimensions come from; the operand itself where it must stay."""
    node_type = operand.type
    assert isinstance(node_type, TensorType), f"{operand!r} is not an array"
    same = operand, tuple(range(node_type.rank))
    if operand.opcode != "transpose" or tensor_type(operand.operands[0]) is None:
        return same
    order: tuple[int, ...] = operand.attributes["dimensions"]
    free = [order[dim] for dim in free_dims(node_type.rank, batch, contracting)]
    return (operand.operands[0], order) if free == sorted(free) else same


Operand = tuple[Node, TensorType]
PRECISION_ATTRIBUTES = ("operand_precision", "algorithm")


def numbers_of(dot: Apply) -> DotNumbers:
    """Which dimensions of both operands a product pairs."""
    return DotNumbers(
        dot.attribute("lhs_batch_dims"),
        dot.attribute("rhs_batch_dims"),
        dot.attribute("lhs_contracting_dims"),
        dot.attribute("rhs_contracting_dims"),
    )


def swapped(numbers: DotNumbers) -> DotNumbers:
    """The pairs when the operands change places."""
    return DotNumbers(numbers.rhs_batch, numbers.lhs_batch, numbers.rhs_contracting, numbers.lhs_contracting)


def free_dims(rank: int, batch: Sequence[int], contracting: Sequence[int]) -> list[int]:
    """The dimensions of an operand that are not paired with the other's."""
    return [dim for dim in range(rank) if dim not in batch and dim not in contracting]


def static_operands(dot: Apply) -> tuple[TensorType, TensorType, TensorType] | None:
    """The types of both operands and of the result, where all are static arrays and the product may be another one."""
    if has_unreduced_user(dot):
        return None
    lhs, rhs, result = tensor_type(dot.operands[0]), tensor_type(dot.operands[1]), tensor_type(dot)
    if lhs is None or rhs is None or result is None:
        return None
    check_dot(lhs, rhs, numbers_of(dot))
    return lhs, rhs, result


def make_dot(build: Builder, like: Apply, lhs: Node, rhs: Node, numbers: DotNumbers, *, swap: bool = False) -> Node:
    """A product of the element type, precision and algorithm of another; with `swap` its precisions change places."""
    left, right, result = lhs.type, rhs.type, like.type
    assert isinstance(left, TensorType) and isinstance(right, TensorType) and isinstance(result, TensorType)
    dims = [left.dims[dim] for dim in numbers.lhs_batch]
    dims += [left.dims[dim] for dim in free_dims(left.rank, numbers.lhs_batch, numbers.lhs_contracting)]
    dims += [right.dims[dim] for dim in free_dims(right.rank, numbers.rhs_batch, numbers.rhs_contracting)]
    attributes: dict[str, Any] = {
        name: like.attributes[name] for name in PRECISION_ATTRIBUTES if name in like.attributes
    }
    if swap and "operand_precision" in attributes:
        attributes["operand_precision"] = tuple(reversed(attributes["operand_precision"]))
    attributes |= {
        "lhs_batch_dims": numbers.lhs_batch,
        "lhs_contracting_dims": numbers.lhs_contracting,
        "rhs_batch_dims": numbers.rhs_batch,
        "rhs_contracting_dims": numbers.rhs_contracting,
    }
    return build.op("dot", lhs, rhs, type=TensorType(result.dtype, dims), attributes=attributes)


def to_batch_major(build: Builder, operand: Node, batch: Sequence[int], contracting: Sequence[int]) -> Node:
    """An operand with its batch dimensions first and its contracting ones last."""
    node_type = operand.type
    assert isinstance(node_type, TensorType), f"{operand!r} is not an array"
    return build.transpose(operand, [*batch, *free_dims(node_type.rank, batch, contracting), *contracting])


def has_unreduced_user(dot: Apply) -> bool:
    """Whether the partial sums of a product are asked for: its one user says that the result is sharded unreduced."""
    users = dot.users
    if len(users) != 1 or users[0].opcode != "custom-call":
        return False
    user = users[0]
    if user.attributes.get("custom_call_target") != "Sharding":
        return False
    said = user.attributes.get("sharding"), user.attributes.get("frontend_attributes")
    return any("unreduced" in str(annotation) for annotation in said)
