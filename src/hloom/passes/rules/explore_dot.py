"""Rules that give another form of sums of products, neither of which is always cheaper: for equality saturation.

The order of products, factors before or behind a product, sums of products with an operand in common (as in TASO, Jia
et al. 2019, and Tensat, Yang et al. 2021). Numbers change by rounding.
"""

from __future__ import annotations

from hloom.ir import Apply, Node, PaddingDimension, SliceDimension, TensorType
from hloom.ops import DotNumbers
from hloom.passes.rules.diagonal import diagonal_of
from hloom.passes.rules.dimensions import broadcast_dims, dims_unmodified_by_reshape, kept_by_reshape
from hloom.passes.rules.dot import free_dims, make_dot, numbers_of, plain_algorithm, static_operands, swapped
from hloom.passes.rules.reducers import combiner_of, may_be_reduction_identity
from hloom.rewrite import Builder, Family, register_builder, register_condition, tensor_type

EXPLORE_DOT = Family("explore-dot", because="computes which dimensions a product pairs")

EXACT = ("highest", "highest")
"""Precision of products that stand for multiplications: those of no device round their operands."""


@EXPLORE_DOT.rewrites("dot")
def regrouped_to_the_right(build: Builder, node: Apply) -> Node | None:
    """dot(dot(a, b), c) -> dot(a, dot(b, c)), where b has all that is contracted with c"""
    return _regrouped(build, node, 0)


@EXPLORE_DOT.rewrites("dot")
def regrouped_to_the_left(build: Builder, node: Apply) -> Node | None:
    """dot(a, dot(b, c)) -> dot(dot(a, b), c), where b has all that is contracted with a"""
    return _regrouped(build, node, 1)


def _regrouped(build: Builder, node: Apply, side: int) -> Node | None:
    """The product whose inner product is of the other pair, for an inner one on a side."""
    inner = node.operands[side]
    if not isinstance(inner, Apply) or inner.opcode != "dot":
        return build.decline("the operand is not a product")
    types, inner_types = static_operands(node), static_operands(inner)
    if types is None or inner_types is None or not _is_float(node):
        return build.decline("the products are not of floating-point numbers")
    outer = numbers_of(node) if side == 0 else swapped(numbers_of(node))  # inner product first
    numbers = numbers_of(inner)
    batches = len(numbers.lhs_batch)
    if outer.lhs_batch != tuple(range(batches)):
        return None
    left_free = free_dims(inner_types[0].rank, numbers.lhs_batch, numbers.lhs_contracting)
    right_free = free_dims(inner_types[1].rank, numbers.rhs_batch, numbers.rhs_contracting)
    first_of_right = batches + len(left_free)
    other, other_type = node.operands[1 - side], types[1 - side]
    other_free = free_dims(other_type.rank, outer.rhs_batch, outer.rhs_contracting)
    if side == 0 and all(dim >= first_of_right for dim in outer.lhs_contracting):
        contracted = tuple(right_free[dim - first_of_right] for dim in outer.lhs_contracting)
        kept, rest = inner.operands[0], inner.operands[1]
        pair = DotNumbers(numbers.rhs_batch, outer.rhs_batch, contracted, outer.rhs_contracting)
        order = [dim for dim in range(inner_types[1].rank) if dim not in (*numbers.rhs_batch, *contracted)]
        made = make_dot(build, inner, rest, other, pair)
        batch = tuple(range(batches))
        again = tuple(batches + order.index(dim) for dim in numbers.rhs_contracting)
        return make_dot(build, node, kept, made, DotNumbers(numbers.lhs_batch, batch, numbers.lhs_contracting, again))
    if side == 1 and all(batches <= dim < first_of_right for dim in outer.lhs_contracting):
        contracted = tuple(left_free[dim - batches] for dim in outer.lhs_contracting)
        kept, rest = inner.operands[1], inner.operands[0]
        pair = DotNumbers(outer.rhs_batch, numbers.lhs_batch, outer.rhs_contracting, contracted)
        order = [dim for dim in range(inner_types[0].rank) if dim not in (*numbers.lhs_batch, *contracted)]
        made = make_dot(build, inner, other, rest, pair)
        first = batches + len(other_free)
        again = tuple(first + order.index(dim) for dim in numbers.lhs_contracting)
        batch = tuple(range(batches))
        return make_dot(build, node, made, kept, DotNumbers(batch, numbers.rhs_batch, again, numbers.rhs_contracting))
    return build.decline("what is contracted is of both of its operands")


@EXPLORE_DOT.rewrites("multiply", "divide")
def factor_before_dot(build: Builder, node: Apply) -> Node | None:
    """dot(a, b) * broadcast(x) -> dot(a * broadcast(x), b), where x has no dimension of b alone"""
    for side in (0, 1) if node.opcode == "multiply" else (0,):
        dot, factor = node.operands[side], node.operands[1 - side]
        if dot.opcode != "dot" or factor.opcode != "broadcast" or not isinstance(dot, Apply):
            continue
        types = static_operands(dot)
        if types is None or not _is_float(dot):
            continue
        for operand in (0, 1):
            made = _scaled_operand(build, node, dot, factor, operand, types)
            if made is not None:
                return made
    return build.decline("it is not a product of a dot and a broadcast of what one operand has")


@EXPLORE_DOT.rewrites("multiply", "divide")
def factor_before_second_operand(build: Builder, node: Apply) -> Node | None:
    """dot(a, b) * broadcast(x) -> dot(a, b * broadcast(x)), where x has no dimension of a alone"""
    for side in (0, 1) if node.opcode == "multiply" else (0,):
        dot, factor = node.operands[side], node.operands[1 - side]
        if dot.opcode != "dot" or factor.opcode != "broadcast" or not isinstance(dot, Apply):
            continue
        types = static_operands(dot)
        made = None if types is None or not _is_float(dot) else _scaled_operand(build, node, dot, factor, 1, types)
        if made is not None:
            return made
    return build.decline("it is not a product of a dot and a broadcast of what its second operand has")


def _scaled_operand(
    build: Builder, node: Apply, dot: Apply, factor: Node, side: int, types: tuple[TensorType, TensorType, TensorType]
) -> Node | None:
    """The product in which an operand is scaled; None where it lacks a dimension of the factor."""
    numbers = numbers_of(dot)
    batch, contracting = (numbers.lhs_batch, numbers.lhs_contracting) if side == 0 else numbers[1::2]
    own = free_dims(types[side].rank, batch, contracting)
    other_free = types[1 - side].rank - len(batch) - len(contracting)
    first = len(batch) + (other_free if side == 1 else 0)
    result_dims = [*range(len(batch)), *range(first, first + len(own))]
    operand_dims = dict(zip(result_dims, [*batch, *own], strict=True))
    dims = broadcast_dims(factor)
    if any(dim not in operand_dims for dim in dims):
        return None
    mapped = [operand_dims[dim] for dim in dims]
    if mapped != sorted(mapped):
        return None
    operand = dot.operands[side]
    spread = build.op("broadcast", factor.operands[0], type=types[side].with_layout(None), dimensions=tuple(mapped))
    scaled = build.op(node.opcode, operand, spread)
    operands = (scaled, dot.operands[1]) if side == 0 else (dot.operands[0], scaled)
    return make_dot(build, dot, *operands, numbers)


@EXPLORE_DOT.rewrites("dot")
def factor_behind_dot(build: Builder, node: Apply) -> Node | None:
    """dot(a * broadcast(x), b) -> dot(a, b) * broadcast(x), where x has no dimension that is contracted"""
    types = static_operands(node)
    if types is None or not _is_float(node):
        return None
    numbers = numbers_of(node)
    for side in (0, 1):
        product = node.operands[side]
        batch, contracting = (numbers.lhs_batch, numbers.lhs_contracting) if side == 0 else numbers[1::2]
        if product.opcode not in ("multiply", "divide"):
            continue
        for at in (1, 0) if product.opcode == "multiply" else (1,):
            factor, value = product.operands[at], product.operands[1 - at]
            if factor.opcode != "broadcast" or set(broadcast_dims(factor)) & set(contracting):
                continue
            own = free_dims(types[side].rank, batch, contracting)
            other_free = types[1 - side].rank - len(batch) - len(contracting)
            first = len(batch) + (other_free if side == 1 else 0)
            result_dim = {dim: number for number, dim in enumerate(batch)}
            result_dim |= {dim: first + number for number, dim in enumerate(own)}
            mapped = [result_dim[dim] for dim in broadcast_dims(factor)]
            if mapped != sorted(mapped):
                continue
            operands = (value, node.operands[1]) if side == 0 else (node.operands[0], value)
            made = make_dot(build, node, *operands, numbers)
            result = types[2].with_layout(None)
            spread = build.op("broadcast", factor.operands[0], type=result, dimensions=tuple(mapped))
            return build.op(product.opcode, made, spread)
    return build.decline("no operand is scaled by what is not contracted")


EXPLORE_DOT.table("""
sum-of-dots: f(p:dot(a, b), q:dot(a, c)) -> product-like(p, a, f(b, c)) if same-type(b, c);
    f(p:dot(a, c), q:dot(b, c)) -> product-like(p, f(a, b), c) if same-type(a, b)
    where in order, p and q are plain-product, p is fractional, same-pairs(p, q) for f in add, subtract
    # products distribute over sums
""")


@EXPLORE_DOT.rewrites("reduce")
def sum_of_dot(build: Builder, node: Apply) -> Node | None:
    """reduce_sum(dot(a, b)) -> dot(reduce_sum(a), b), over dimensions of a alone, or of b alone"""
    if len(node.operands) != 2 or combiner_of(next(iter(node.called_graphs), None)) != "add":
        return build.decline("it is not a sum")
    dot, start = node.operands
    if not _is_plain_dot(dot) or not may_be_reduction_identity("add", start) or not _is_float(dot):
        return build.decline("it is not a sum of a product's elements")
    assert isinstance(dot, Apply)
    types, numbers = static_operands(dot), numbers_of(dot)
    if types is None:
        return None
    over = node.attributes["dimensions"]
    batches = len(numbers.lhs_batch)
    left = free_dims(types[0].rank, numbers.lhs_batch, numbers.lhs_contracting)
    right = free_dims(types[1].rank, numbers.rhs_batch, numbers.rhs_contracting)
    for side, own, first in ((0, left, batches), (1, right, batches + len(left))):
        if not all(first <= dim < first + len(own) for dim in over):
            continue
        gone = tuple(own[dim - first] for dim in over)
        batch, contracting = (numbers.lhs_batch, numbers.lhs_contracting) if side == 0 else numbers[1::2]
        kept = [dim for dim in range(types[side].rank) if dim not in gone]
        operand_type = TensorType(types[side].dtype, [types[side].dims[dim] for dim in kept])
        if types[side].dtype is not types[2].dtype:
            continue
        total = build.op(
            "reduce",
            dot.operands[side],
            start,
            type=operand_type,
            dimensions=gone,
            to_apply=node.attributes["to_apply"],
        )
        own_batch, own_contracting = (tuple(kept.index(dim) for dim in dims) for dims in (batch, contracting))
        if side == 0:
            changed = DotNumbers(own_batch, numbers.rhs_batch, own_contracting, numbers.rhs_contracting)
            return make_dot(build, dot, total, dot.operands[1], changed)
        changed = DotNumbers(numbers.lhs_batch, own_batch, numbers.lhs_contracting, own_contracting)
        return make_dot(build, dot, dot.operands[0], total, changed)
    return build.decline("the sum is over dimensions of both operands")


@EXPLORE_DOT.rewrites("dot")
def dot_of_reshape(build: Builder, node: Apply) -> Node | None:
    """dot(reshape(a), b) -> reshape(dot(a, b)), where the reshape joins or splits free dimensions only"""
    types = static_operands(node)
    if types is None or not plain_algorithm(node):
        return None
    numbers = numbers_of(node)
    for side in (0, 1):
        view = node.operands[side]
        source = tensor_type(view.operands[0]) if view.opcode == "reshape" else None
        if source is None or not source.element_count or kept_by_reshape(source.dims, types[side].dims) is not None:
            continue  # dimensions of size 1 are `dot-of-degenerate`'s
        before = {after: dim for dim, after in dims_unmodified_by_reshape(source.dims, types[side].dims)}
        batch, contracting = (numbers.lhs_batch, numbers.lhs_contracting) if side == 0 else numbers[1::2]
        if any(dim not in before for dim in (*batch, *contracting)):
            continue
        own = tuple(before[dim] for dim in batch), tuple(before[dim] for dim in contracting)
        if side == 0:
            changed = DotNumbers(own[0], numbers.rhs_batch, own[1], numbers.rhs_contracting)
            made = make_dot(build, node, view.operands[0], node.operands[1], changed)
        else:
            changed = DotNumbers(numbers.lhs_batch, own[0], numbers.lhs_contracting, own[1])
            made = make_dot(build, node, node.operands[0], view.operands[0], changed)
        return build.op("reshape", made, type=types[2].with_layout(None))
    return build.decline("no operand is a reshape of free dimensions")


@EXPLORE_DOT.rewrites("dot")
def factor_to_second_operand(build: Builder, node: Apply) -> Node | None:
    """dot(a * broadcast(x), b) -> dot(a, b * broadcast(x)), where x has dimensions that are contracted, or batches"""
    return _with_factor_of_other(build, node, 0)


@EXPLORE_DOT.rewrites("dot")
def factor_to_first_operand(build: Builder, node: Apply) -> Node | None:
    """dot(a, b * broadcast(x)) -> dot(a * broadcast(x), b), where x has dimensions that are contracted, or batches"""
    return _with_factor_of_other(build, node, 1)


def _with_factor_of_other(build: Builder, node: Apply, side: int) -> Node | None:
    """The product in which the other operand is scaled by what one on a side is scaled by."""
    types, product = static_operands(node), node.operands[side]
    if types is None or not _is_float(node) or types[0].dtype is not types[1].dtype:
        return build.decline("the operands are not of one floating-point type")
    if product.opcode not in ("multiply", "divide"):
        return build.decline("the operand is not scaled")
    numbers = numbers_of(node)
    paired = dict(zip(numbers[side] + numbers[2 + side], numbers[1 - side] + numbers[3 - side], strict=True))
    for at in (1, 0) if product.opcode == "multiply" else (1,):
        factor, value = product.operands[at], product.operands[1 - at]
        if factor.opcode != "broadcast" or not set(broadcast_dims(factor)) & set(numbers[2 + side]):
            continue
        mapped = [paired.get(dim, -1) for dim in broadcast_dims(factor)]
        if -1 in mapped or mapped != sorted(mapped):
            continue
        other = types[1 - side].with_layout(None)
        spread = build.op("broadcast", factor.operands[0], type=other, dimensions=tuple(mapped))
        scaled = build.op(product.opcode, node.operands[1 - side], spread)
        operands = (value, scaled) if side == 0 else (scaled, value)
        return make_dot(build, node, *operands, numbers)
    return build.decline("it is not scaled by what both operands have")


@EXPLORE_DOT.rewrites("reshape", because="computes the shape of an operand")
def reshape_of_dot(build: Builder, node: Apply) -> Node | None:
    """reshape(dot(a, b)) -> dot(a, reshape(b)), where it joins or splits dimensions of b alone, or of a alone"""
    dot, result = node.operands[0], tensor_type(node)
    if result is None or not _is_plain_dot(dot) or not result.element_count:
        return build.decline("it is not a reshape of a product")
    assert isinstance(dot, Apply)
    types, numbers = static_operands(dot), numbers_of(dot)
    if types is None:
        return None
    before = types[2].dims
    batches, left = len(numbers.lhs_batch), types[0].rank - len(numbers.lhs_batch) - len(numbers.lhs_contracting)
    for side, start, stop in ((1, batches + left, len(before)), (0, batches, batches + left)):
        rest = len(before) - stop
        end = len(result.dims) - rest
        if end < start or before[:start] != result.dims[:start] or before[stop:] != result.dims[end:]:
            continue
        if 1 in before[start:stop] or 1 in result.dims[start:end]:
            continue  # dimensions of size 1 are `dot-of-degenerate`'s
        own = tuple(free_dims(types[side].rank, numbers[side], numbers[2 + side]))
        if not own or own != tuple(range(own[0], own[0] + len(own))):
            continue
        dims = [*types[side].dims[: own[0]], *result.dims[start:end], *types[side].dims[own[-1] + 1 :]]
        view = build.op("reshape", dot.operands[side], type=TensorType(types[side].dtype, dims))
        shift = (end - start) - len(own)
        changed = list(numbers)
        for group in (side, 2 + side):
            changed[group] = tuple(dim + shift if dim > own[-1] else dim for dim in numbers[group])
        operands = (view, dot.operands[1]) if side == 0 else (dot.operands[0], view)
        return make_dot(build, dot, *operands, DotNumbers(*changed))
    return build.decline("it changes dimensions of both operands")


@EXPLORE_DOT.rewrites("dot", because="computes the shape of an operand")
def dot_over_joined_dimensions(build: Builder, node: Apply) -> Node | None:
    """dot(reshape(a), b) -> dot(a, reshape(b)), where the reshape joins dimensions to one that is contracted"""
    types = static_operands(node)
    if types is None or not plain_algorithm(node):
        return None
    numbers = numbers_of(node)
    for side in (0, 1):
        view = node.operands[side]
        source = tensor_type(view.operands[0]) if view.opcode == "reshape" else None
        if source is None or not source.element_count or source.rank <= types[side].rank:
            continue
        more = source.rank - types[side].rank
        for position, dim in enumerate(numbers[2 + side]):
            joined = source.dims[dim : dim + more + 1]
            if 1 in joined or source.dims != (*types[side].dims[:dim], *joined, *types[side].dims[dim + 1 :]):
                continue
            partner, other = numbers[3 - side][position], types[1 - side]
            dims = [*other.dims[:partner], *joined, *other.dims[partner + 1 :]]
            again = build.op("reshape", node.operands[1 - side], type=TensorType(other.dtype, dims))
            changed = list(numbers)
            for group, first in ((side, dim), (2 + side, dim), (1 - side, partner), (3 - side, partner)):
                changed[group] = _with_split(numbers[group], first, more)
            operands = (view.operands[0], again) if side == 0 else (again, view.operands[0])
            return make_dot(build, node, *operands, DotNumbers(*changed))
    return build.decline("no operand joins dimensions to one that is contracted")


def _with_split(dims: tuple[int, ...], first: int, more: int) -> tuple[int, ...]:
    """Dimensions of an array after one of them became several."""
    changed: list[int] = []
    for dim in dims:
        changed += range(dim, dim + more + 1) if dim == first else [dim + more if dim > first else dim]
    return tuple(changed)


@EXPLORE_DOT.rewrites("multiply", because="computes which dimensions are a batch")
def product_of_broadcasts_as_dot(build: Builder, node: Apply) -> Node | None:
    """broadcast(x) * broadcast(y) -> dot(x, y), which contracts nothing, where no dimension is repeated in both

    Dimensions that both have are its batch, and first. What has a sign may come as 0 where -0 was.
    """
    result = tensor_type(node)
    if result is None or any(operand.opcode != "broadcast" for operand in node.operands) or not _is_float(node):
        return build.decline("it is not a product of two broadcasts of floating-point numbers")
    sources = [operand.operands[0] for operand in node.operands]
    dims = [broadcast_dims(operand) for operand in node.operands]
    batch = tuple(dim for dim in dims[0] if dim in dims[1])
    for one, other in ((0, 1), (1, 0)):
        rest = [[dim for dim in dims[side] if dim not in batch] for side in (one, other)]
        if not all(rest) or [*batch, *rest[0], *rest[1]] != list(range(result.rank)):
            continue
        pairs = [tuple(dims[side].index(dim) for dim in batch) for side in (one, other)]
        return build.op(
            "dot",
            sources[one],
            sources[other],
            type=result.with_layout(None),
            lhs_batch_dims=pairs[0],
            rhs_batch_dims=pairs[1],
            lhs_contracting_dims=(),
            rhs_contracting_dims=(),
            operand_precision=EXACT,
        )
    return build.decline("both are repeated along a dimension, or the dimensions are in another order")


@EXPLORE_DOT.rewrites("dot", because="computes the padding of what a diagonal moves")
def dot_of_identity(build: Builder, node: Apply) -> Node | None:
    """dot(a, convert(iota == iota)) -> a; moved by what is added to one of them, with zeros where nothing comes

    Of a matrix, or of one that is the same for all of a batch. Infinity and NaN stay where they are.
    """
    types = static_operands(node)
    if types is None or not plain_algorithm(node):
        return None
    numbers = numbers_of(node)
    for side in (0, 1):
        diagonal = diagonal_of(node.operands[side])
        if diagonal is None or len(numbers[2 + side]) != 1:
            continue
        [contracted] = numbers[2 + side]
        free = free_dims(types[side].rank, numbers[side], numbers[2 + side])
        if len(free) != 1 or {contracted, *free} != {diagonal.row, diagonal.column}:
            continue
        shift = diagonal.offset if contracted == diagonal.row else -diagonal.offset
        [partner] = numbers[3 - side]
        own = free_dims(types[1 - side].rank, numbers[1 - side], numbers[3 - side])
        order = [*numbers[1 - side], partner, *own] if side == 0 else [*numbers[1 - side], *own, partner]
        moved = build.convert(build.transpose(node.operands[1 - side], order), types[2].dtype)
        size, wanted = types[side].dims[contracted], types[side].dims[free[0]]
        padding = [PaddingDimension(0, 0)] * len(order)
        padding[order.index(partner)] = PaddingDimension(-shift, wanted - size + shift)
        if shift == 0 and size == wanted:
            return moved
        return build.op("pad", moved, build.constant(0, types[2].dtype), padding=tuple(padding))
    return build.decline("no operand is ones on a diagonal of what is contracted")


@EXPLORE_DOT.rewrites("slice", because="computes the slices of both operands")
def slice_of_dot(build: Builder, node: Apply) -> Node | None:
    """slice(dot(a, b)) -> dot(slice(a), slice(b))"""
    dot = node.operands[0]
    if not _is_plain_dot(dot):
        return build.decline("it is not a slice of a product")
    assert isinstance(dot, Apply)
    types, numbers = static_operands(dot), numbers_of(dot)
    if types is None:
        return None
    parts = node.attributes["slice"]
    batches = len(numbers.lhs_batch)
    operands: list[Node] = []
    first = batches
    for side in (0, 1):
        batch, contracting = (numbers.lhs_batch, numbers.lhs_contracting) if side == 0 else numbers[1::2]
        own = free_dims(types[side].rank, batch, contracting)
        cut = [SliceDimension(0, size, 1) for size in types[side].dims]
        for number, dim in enumerate(batch):
            cut[dim] = parts[number]
        for number, dim in enumerate(own):
            cut[dim] = parts[first + number]
        first += len(own)
        takes_all = all(part == SliceDimension(0, size, 1) for part, size in zip(cut, types[side].dims, strict=True))
        operand = dot.operands[side]
        operands.append(operand if takes_all else build.op("slice", operand, slice=tuple(cut)))
    return make_dot(build, dot, operands[0], operands[1], numbers)


def _is_plain_dot(node: Node) -> bool:
    return node.opcode == "dot" and isinstance(node, Apply) and plain_algorithm(node)


def _is_float(node: Node) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and (array_type.dtype.is_float or array_type.dtype.is_complex)


def _product_like(build: Builder, dot: Apply, lhs: Node, rhs: Node) -> Node:
    """A product that pairs the same dimensions as another."""
    return make_dot(build, dot, lhs, rhs, numbers_of(dot))


register_condition("plain-product", _is_plain_dot)
register_condition("same-pairs", lambda one, other: numbers_of(one) == numbers_of(other))
register_builder("product-like", _product_like)
