"""Inexact rules on dot: strength reduction to multiply and reduce, and splitting of the contracted dimension.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (RewriteAsMultiplyDotWithZeroLhsContractingDim,
RewriteBatchPlusContractingAsReduce, OptimizeDotOfReorderContractingDims, OptimizeDotOfConcat, OptimizeDotOfGather,
RemoveTransposesFromDotOperands).
"""

from __future__ import annotations

from hloom.ir import Apply, Constant, Node, SliceDimension, TensorType, dtype
from hloom.ops import DotNumbers
from hloom.passes.rules.dimensions import dims_unmodified_by_reshape
from hloom.passes.rules.dot import (
    make_dot,
    numbers_of,
    outer_product,
    plain_algorithm,
    static_operands,
    swapped,
    to_batch_major,
)
from hloom.passes.rules.reducers import adder, combiner_of
from hloom.rewrite import Builder, Family, all_operands, is_splat, operand_is, some_operand, tensor_type, used_once

DOT_INEXACT = Family("dot-inexact", formerly="contracting-relaxed", because="computes which dimensions a product pairs")


@DOT_INEXACT.rewrites("dot", benefit=8, depth=1, because="computes the dimensions that each operand is repeated along")
def dot_without_contraction(build: Builder, node: Apply) -> Node | None:
    """dot(x, y) that contracts nothing -> multiply(broadcast(x), broadcast(y)): -0 may come where 0 was."""
    return outer_product(build, node)


@DOT_INEXACT.rewrites("dot", benefit=7, depth=1, because="computes which dimensions are repeated and which are summed")
def dot_as_reduce(build: Builder, node: Apply) -> Node | None:
    """dot(f32[5,4], f32[4]) -> reduce(multiply(x, broadcast(y)), 0), add.

    Where one operand has only batch and contracting dimensions. Floats are summed in f32, or f64 where they are f64.
    The sign of a zero sum, and complex products of infinities and NaN, may differ from the dot's.
    """
    types = static_operands(node)
    if types is None or not plain_algorithm(node):
        return None
    lhs, rhs, result = types
    numbers = numbers_of(node)
    batches, contracted = len(numbers.lhs_batch), len(numbers.lhs_contracting)
    rows, columns = lhs.rank - batches - contracted, rhs.rank - batches - contracted
    if not contracted or (rows and columns):
        return build.decline("both operands have rows of their own")
    left = to_batch_major(build, node.operands[0], numbers.lhs_batch, numbers.lhs_contracting)
    right = to_batch_major(build, node.operands[1], numbers.rhs_batch, numbers.rhs_contracting)
    left, right = build.convert(left, result.dtype), build.convert(right, result.dtype)
    if columns:
        left = _spread(build, left, right, batches, columns)
    elif rows:
        right = _spread(build, right, left, batches, rows)
    element = result.dtype
    summed = element if not element.is_float or element.name == "f64" else dtype("f32")
    product = build.convert(build.op("multiply", left, right), summed)
    first = batches + rows + columns
    total = build.op(
        "reduce",
        product,
        build.constant(0, summed),
        dimensions=tuple(range(first, first + contracted)),
        to_apply=adder(build, summed),
    )
    return build.convert(total, element)


@DOT_INEXACT.rewrites(
    "dot",
    benefit=6,
    depth=3,
    requires=some_operand("constant"),
    because="computes the order of the dimensions that a reshape joins",
)
def dot_of_reordered_contraction(build: Builder, node: Apply) -> Node | None:
    """dot(reshape(transpose(x)), constant) -> dot(reshape(x), reshape(transpose(reshape(constant)))).

    Where the transpose only moves dimensions that the reshape merges into the one contracted dimension.
    """
    types = static_operands(node)
    numbers = numbers_of(node)
    if types is None or len(numbers.lhs_contracting) != 1:
        return None
    flip = isinstance(node.operands[0], Constant)
    moved, constant = reversed(node.operands) if flip else node.operands
    ours, theirs = (swapped(numbers) if flip else numbers)[2:]
    if not isinstance(constant, Constant) or moved.opcode != "reshape" or moved.operands[0].opcode != "transpose":
        return None
    transpose = moved.operands[0]
    merged, spread, source = tensor_type(moved), tensor_type(transpose), tensor_type(transpose.operands[0])
    array_type = tensor_type(constant)
    if merged is None or spread is None or source is None or array_type is None:
        return None
    pairs = dims_unmodified_by_reshape(spread.dims, merged.dims)
    if len(pairs) != merged.rank - 1 or any(after == ours[0] for _, after in pairs):
        return build.decline("the reshape does not merge just what is contracted")
    kept = {before for before, _ in pairs}
    inside = [dim for dim in range(spread.rank) if dim not in kept]
    order: tuple[int, ...] = transpose.attributes["dimensions"]
    if inside != list(range(inside[0], inside[0] + len(inside))):
        return None
    if any(order[dim] != dim for dim in kept):
        return build.decline("the transpose moves more than what is contracted")
    at, count = theirs[0], len(inside)
    before, after = list(array_type.dims[:at]), list(array_type.dims[at + 1 :])
    whole = TensorType(array_type.dtype, [*before, *(spread.dims[dim] for dim in inside), *after])
    back = sorted(range(count), key=lambda dim: order[inside[dim]])
    exchanged = build.transpose(
        build.reshape(constant, whole),
        [*range(at), *(at + dim for dim in back), *range(at + count, whole.rank)],
    )
    fresh = build.reshape(exchanged, array_type.with_layout(None))
    plain = build.op("reshape", transpose.operands[0], type=merged.with_layout(None))
    lhs, rhs = (fresh, plain) if flip else (plain, fresh)
    return make_dot(build, node, lhs, rhs, numbers)


@DOT_INEXACT.rewrites(
    "dot", benefit=5, depth=2, requires=some_operand("concatenate"), because="takes any number of parts"
)
def dot_of_concatenate(build: Builder, node: Apply) -> Node | None:
    """dot(concatenate(x, y), constant) -> add(dot(x, slice(constant)), dot(y, slice(constant)))."""
    types = static_operands(node)
    numbers = numbers_of(node)
    if types is None or numbers.lhs_batch or len(numbers.lhs_contracting) != 1 or types[2].rank != 2:
        return None
    for side in (0, 1):
        parts, constant = node.operands[side], node.operands[1 - side]
        (ours,), (theirs,) = (swapped(numbers) if side else numbers)[2:]
        if parts.opcode != "concatenate" or parts.attributes["dimensions"] != (ours,):
            continue
        if isinstance(constant, Constant) and types[1 - side].rank == 2:
            return _sum_of_parts(build, node, side, ours, theirs)
    return build.decline("no operand is a concatenation along what is contracted with a constant")


def _sum_of_parts(build: Builder, node: Apply, side: int, ours: int, theirs: int) -> Node:
    parts, constant = node.operands[side], node.operands[1 - side]
    node_type = constant.type
    assert isinstance(node_type, TensorType)
    total: Node | None = None
    first = 0
    for part in parts.operands:
        assert isinstance(part.type, TensorType)
        last = first + part.type.dims[ours]
        ranges = [(first, last) if dim == theirs else (0, size) for dim, size in enumerate(node_type.dims)]
        cut = build.op("slice", constant, slice=tuple(SliceDimension(*bounds) for bounds in ranges))
        lhs, rhs = (cut, part) if side else (part, cut)
        product = make_dot(build, node, lhs, rhs, numbers_of(node))
        total = product if total is None else build.op("add", total, product)
        first = last
    assert total is not None, "a concatenation has operands"
    return total


@DOT_INEXACT.rewrites(
    "dot",
    benefit=4,
    depth=2,
    requires=some_operand("dynamic-slice"),
    because="exchanges the starts of a slice by its side",
)
def dot_of_looked_up_row(build: Builder, node: Apply) -> Node | None:
    """dot(dynamic-slice(constant, i, 0), constant) -> dynamic-slice(dot(constant, constant), i, 0).

    Where one row is taken, so that the product of the constants is a table that can be folded.
    """
    types = static_operands(node)
    numbers = numbers_of(node)
    if types is None or numbers.lhs_batch or len(numbers.lhs_contracting) != 1 or types[2].rank != 2:
        return None
    for side in (0, 1):
        row, constant = node.operands[side], node.operands[1 - side]
        (ours,), _ = (swapped(numbers) if side else numbers)[2:]
        if not isinstance(constant, Constant) or not _is_row(row, ours):
            continue
        lhs, rhs = (constant, row.operands[0]) if side else (row.operands[0], constant)
        table = make_dot(build, node, lhs, rhs, numbers)
        start = (row.operands[2 - ours], row.operands[1 + ours])
        if side:
            start = (start[1], start[0])
        return build.op("dynamic-slice", table, *start, dynamic_slice_sizes=types[2].dims)
    return build.decline("it is not a row of a constant times a constant")


@DOT_INEXACT.rewrites("dot", benefit=2, depth=2, requires=all_operands("transpose"))
def dot_of_two_transposes(build: Builder, node: Apply) -> Node | None:
    """dot(transpose(x, p), transpose(y, p)) -> transpose(dot(x, y), p), or of dot(y, x) where p turns the matrices."""
    types = static_operands(node)
    numbers = numbers_of(node)
    lhs, rhs = node.operands
    if types is None or lhs.opcode != "transpose" or rhs.opcode != "transpose":
        return None
    order: tuple[int, ...] = lhs.attributes["dimensions"]
    rank = types[2].rank
    if rhs.attributes["dimensions"] != order or numbers.lhs_batch != numbers.rhs_batch:
        return None
    paired = numbers.lhs_contracting, numbers.rhs_contracting
    if paired != ((rank - 1,), (rank - 2,)) or sorted(numbers.lhs_batch) != list(range(rank - 2)):
        return build.decline("it is not a batch of plain matrix products")
    if order[rank - 2 :] == (rank - 2, rank - 1):
        product = make_dot(build, node, lhs.operands[0], rhs.operands[0], numbers)
    elif order[rank - 2 :] == (rank - 1, rank - 2):
        product = make_dot(build, node, rhs.operands[0], lhs.operands[0], numbers, swap=True)
    else:
        return build.decline("the transposes mix batch dimensions with the others")
    return build.op("transpose", product, dimensions=order)


@DOT_INEXACT.rewrites("reduce", benefit=2, depth=2, requires=operand_is(0, "dot"))
def reduce_of_dot(build: Builder, node: Apply) -> Node | None:
    """reduce(dot(x, y), 0), dimensions={0}, add -> dot(x, y) that contracts the batch dimension 0 too."""
    dot = node.operands[0]
    if len(node.operands) != 2 or not isinstance(dot, Apply) or dot.opcode != "dot" or not used_once(dot):
        return None
    types, result = static_operands(dot), tensor_type(node)
    if types is None or result is None or result.dtype is not types[2].dtype:
        return None
    if combiner_of(node.attributes["to_apply"]) != "add":
        return None
    zero = node.operands[1]
    if not (is_splat(zero, 0) or is_splat(zero, -0.0)):
        return build.decline("the sum does not start from zero")
    numbers, dimensions = numbers_of(dot), node.attributes["dimensions"]
    batches = len(numbers.lhs_batch)
    summed = [dim for dim in range(batches) if dim in dimensions]
    if not summed:
        return build.decline("it sums no batch dimension")
    kept = [dim for dim in range(batches) if dim not in dimensions]
    fresh = DotNumbers(
        tuple(numbers.lhs_batch[dim] for dim in kept),
        tuple(numbers.rhs_batch[dim] for dim in kept),
        (*numbers.lhs_contracting, *(numbers.lhs_batch[dim] for dim in summed)),
        (*numbers.rhs_contracting, *(numbers.rhs_batch[dim] for dim in summed)),
    )
    product = make_dot(build, dot, dot.operands[0], dot.operands[1], fresh)
    rest = tuple(dim - len(summed) for dim in dimensions if dim >= batches)
    return build.op("reduce", product, zero, dimensions=rest, to_apply=node.attributes["to_apply"]) if rest else product


def _spread(build: Builder, operand: Node, like: Node, batches: int, middle: int) -> Node:
    """An operand of batch and contracting dimensions, repeated along the other's own ones between them."""
    node_type, wanted = operand.type, like.type
    assert isinstance(node_type, TensorType) and isinstance(wanted, TensorType)
    dimensions = (*range(batches), *range(batches + middle, node_type.rank + middle))
    return build.op("broadcast", operand, type=wanted.with_layout(None), dimensions=dimensions)


def _is_row(node: Node, contracting: int) -> bool:
    """Whether a node is one row of a constant matrix, all of it along the contracted dimension."""
    if node.opcode != "dynamic-slice" or not isinstance(node.operands[0], Constant) or len(node.operands) != 3:
        return False
    table, row = tensor_type(node.operands[0]), tensor_type(node)
    if table is None or row is None or row.rank != 2:
        return False
    return row.dims[1 - contracting] == 1 and table.dims[contracting] == row.dims[contracting]
