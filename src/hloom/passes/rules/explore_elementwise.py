"""Rules for equality saturation that move elementwise ops past movements and broadcasts, and factors out of sums.

Neither form is always cheaper: what is computed before a slice, a broadcast or a sum may serve others too. Those that
move elements keep every bit; sums and products in another order change by rounding.
"""

from __future__ import annotations

from hloom.ir import Apply, Node, TensorType
from hloom.ops import OPS
from hloom.passes.rules.broadcast import POINTWISE, UNARY
from hloom.passes.rules.dimensions import broadcast_dims, kept_by_reshape
from hloom.passes.rules.reducers import combiner_of, may_be_reduction_identity
from hloom.rewrite import (
    Builder,
    Family,
    number_at,
    register_builder,
    register_condition,
    splat_of,
    static_type,
    tensor_type,
)

EXPLORE_ELEMENTWISE = Family("explore-elementwise")

BINARY = tuple(opcode for opcode in POINTWISE if OPS[opcode].arity == (2, 2) and opcode != "compare")
ELEMENTWISE = tuple(opcode for opcode in POINTWISE if opcode != "clamp")
"""Ops whose operands all have the dimensions of the result; the bounds of a clamp may be scalars."""
ADDITIVE, MULTIPLICATIVE = ("add", "subtract"), ("multiply", "divide")


@EXPLORE_ELEMENTWISE.rewrites(*ELEMENTWISE, because="matches any elementwise op, and computes where dimensions go")
def elementwise_of_broadcasts(build: Builder, node: Apply) -> Node | None:
    """f(broadcast(x), broadcast(y)) -> broadcast(f(x, y)), where one has all dimensions of the others"""
    if any(operand.opcode != "broadcast" for operand in node.operands) or tensor_type(node) is None:
        return build.decline("not all operands are broadcasts")
    widest = max(node.operands, key=lambda operand: len(broadcast_dims(operand)))
    dims = broadcast_dims(widest)
    if len(dims) == static_type(node).rank:
        return build.decline("nothing is repeated")
    operands: list[Node] = []
    small = tensor_type(widest.operands[0])
    if small is None:
        return None
    for operand in node.operands:
        own = broadcast_dims(operand)
        source = tensor_type(operand.operands[0])
        if source is None or any(dim not in dims for dim in own):
            return build.decline("each operand is repeated along other dimensions")
        if own == dims:
            operands.append(operand.operands[0])
            continue
        mapped = tuple(dims.index(dim) for dim in own)
        spread = TensorType(source.dtype, small.dims)
        operands.append(build.op("broadcast", operand.operands[0], type=spread, dimensions=mapped))
    made = build.like(node, *operands, type=_with_dims(node, small))
    return build.op("broadcast", made, type=static_type(node), dimensions=dims)


EXPLORE_ELEMENTWISE.table("""
regrouped-with-broadcast: f(g(x, b:broadcast(y)), c:broadcast(z)) -> g(x, of-broadcasts(h, b, c))
    where in order, x is not broadcast, fractional
    for f/g/h in add/add/add, add/subtract/subtract, subtract/add/subtract, subtract/subtract/add,
    multiply/multiply/multiply, multiply/divide/divide, divide/multiply/divide, divide/divide/multiply
    # rounded in another place
broadcast-outwards: f(i:g(x, b:broadcast(y)), z) -> g(f(x, z), b)
    where in order, i is in order, fractional, x and z are not broadcast
    for f/g in add/add, add/subtract, subtract/add, subtract/subtract, multiply/multiply, multiply/divide,
    divide/multiply, divide/divide  # so that it meets another one
regrouped-bounds: f(f(x, b:broadcast(y)), c:broadcast(z)) -> f(x, of-broadcasts(f, b, c))
    where x is not broadcast for f in maximum, minimum, and, or  # each is associative
clamp-of-bounded: clamp(a, maximum(x, a), b) -> clamp(a, x, b); clamp(a, maximum(x, broadcast(a)), b) -> clamp(a, x, b);
    clamp(a, minimum(x, b), b) -> clamp(a, x, b); clamp(a, minimum(x, broadcast(b)), b) -> clamp(a, x, b)
    # the clamp has that bound too
""")


def _of_two_broadcasts(build: Builder, opcode: str, first: Node, second: Node) -> Node:
    """An op on two broadcasts; where they go along the same dimensions, a broadcast of the op."""
    sources = first.operands[0], second.operands[0]
    if broadcast_dims(first) != broadcast_dims(second) or sources[0].type != sources[1].type:
        return build.op(opcode, first, second)
    small = build.op(opcode, *sources)
    return build.op("broadcast", small, type=static_type(first), dimensions=broadcast_dims(first))


EXPLORE_ELEMENTWISE.table("""
factor-of-shifted-product: f(g(p:h(x...), s:broadcast(y)), c:broadcast(z)) -> g(f(p, c), of-broadcasts(f, s, c))
    where fractional for f/g/h in multiply/add/dot, multiply/subtract/dot, divide/add/dot, divide/subtract/dot,
    multiply/add/convolution, multiply/subtract/convolution, divide/add/convolution, divide/subtract/convolution
    # the factor may then go into the kernel, and what is left is one number for each feature
factor-out-of-root: f(i:g(x, b)) -> g(f(x), f(b)) where i is in order, b is broadcast, b is above-zero, fractional
    for f/g in sqrt/multiply, sqrt/divide, rsqrt/multiply, rsqrt/divide  # of a number above 0
factor-of-both-terms: f(multiply(a, c), multiply(b, c)) -> multiply(f(a, b), c);
    f(divide(a, c), divide(b, c)) -> divide(f(a, b), c)
    where in order, fractional for f in add, subtract  # rounded in another place
""")


@EXPLORE_ELEMENTWISE.rewrites("slice", "dynamic-slice", "transpose", "reverse", because="matches any elementwise op")
def movement_of_elementwise(build: Builder, node: Apply) -> Node | None:
    """slice(f(x, y)) -> f(slice(x), slice(y)); so for dynamic-slice, transpose and reverse"""
    inner = node.operands[0]
    if inner.opcode not in ELEMENTWISE or not isinstance(inner, Apply) or tensor_type(node) is None:
        return build.decline(f"it is not the {node.opcode} of an elementwise op")
    shape = tensor_type(inner)
    operands: list[Node] = []
    for operand in inner.operands:
        own = tensor_type(operand)
        if own is None or shape is None or own.dims != shape.dims:
            return build.decline("an operand has another shape")
        wanted = TensorType(own.dtype, static_type(node).dims)
        operands.append(_moved(build, node, operand, wanted))
    return build.like(inner, *operands, type=_with_dims(inner, node.type))


def _moved(build: Builder, node: Apply, operand: Node, wanted: TensorType) -> Node:
    """What a movement makes of an operand; of a broadcast scalar, a smaller broadcast."""
    if operand.opcode == "broadcast" and not broadcast_dims(operand):
        return build.op("broadcast", operand.operands[0], type=wanted, dimensions=())
    return build.like(node, operand, *node.operands[1:], type=wanted)


@EXPLORE_ELEMENTWISE.rewrites("reshape", because="matches any elementwise op")
def reshape_of_elementwise(build: Builder, node: Apply) -> Node | None:
    """reshape(f(x, broadcast(y))) -> f(reshape(x), reshape(broadcast(y))), if at most one operand is not a broadcast

    A product's own dimensions may then be split before it; of a broadcast, less is reshaped.
    """
    inner = node.operands[0]
    if inner.opcode not in (*UNARY, *BINARY) or not isinstance(inner, Apply) or tensor_type(node) is None:
        return build.decline("it is not a reshape of an elementwise op")
    if sum(operand.opcode != "broadcast" for operand in inner.operands) > 1:
        return build.decline("more than one operand would be reshaped")
    dims = static_type(node).dims
    if kept_by_reshape(static_type(inner).dims, dims) is not None:
        return build.decline("only dimensions of size 1 come or go")
    if any(
        tensor_type(operand) is None or static_type(operand).dims != static_type(inner).dims
        for operand in inner.operands
    ):
        return build.decline("an operand has another shape")
    operands = [
        build.op("reshape", operand, type=TensorType(static_type(operand).dtype, dims)) for operand in inner.operands
    ]
    return build.like(inner, *operands, type=_with_dims(inner, node.type))


@EXPLORE_ELEMENTWISE.rewrites("gather", because="matches any elementwise op")
def gather_of_elementwise(build: Builder, node: Apply) -> Node | None:
    """gather(f(x), rows) -> f(gather(x, rows)), for an op of one operand or with a broadcast scalar"""
    inner = node.operands[0]
    if inner.opcode not in (*UNARY, *BINARY) or not isinstance(inner, Apply):
        return build.decline("it is not a gather from an elementwise op")
    wanted = tensor_type(node)
    scalars = [operand for operand in inner.operands if operand.opcode == "broadcast" and not broadcast_dims(operand)]
    if wanted is None or len(inner.operands) - len(scalars) != 1:
        return build.decline("the op has two operands that are not scalars")
    operands: list[Node] = []
    for operand in inner.operands:
        own = tensor_type(operand)
        if own is None:
            return None
        result = TensorType(own.dtype, wanted.dims)
        if operand in scalars:
            operands.append(build.op("broadcast", operand.operands[0], type=result, dimensions=()))
        else:
            operands.append(build.like(node, operand, *node.operands[1:], type=result))
    return build.like(inner, *operands, type=static_type(node))


@EXPLORE_ELEMENTWISE.rewrites("reduce", because="computes which dimensions of a factor are kept")
def sum_of_products(build: Builder, node: Apply) -> Node | None:
    """reduce_sum(x * broadcast(y)) -> reduce_sum(x) * y, where y has no dimension that is summed"""
    inner, over = _summed(node)
    if inner is None or inner.opcode not in MULTIPLICATIVE:
        return build.decline("it is not a sum of products")
    for at in (1, 0) if inner.opcode == "multiply" else (1,):
        factor, value = inner.operands[at], inner.operands[1 - at]
        if factor.opcode != "broadcast" or value.opcode == "broadcast" or set(broadcast_dims(factor)) & set(over):
            continue
        total = build.like(node, value, node.operands[1], type=static_type(node))
        return build.op(inner.opcode, total, _kept_broadcast(build, node, factor, over))
    return build.decline("no factor is a broadcast along what is summed")


@EXPLORE_ELEMENTWISE.rewrites("reduce", because="computes which dimensions a product pairs")
def sum_of_products_as_dot(build: Builder, node: Apply) -> Node | None:
    """reduce_sum(x * y) -> dot(x, y), with the dimensions that are kept as batches; broadcasts are left out"""
    inner, over = _summed(node)
    result = tensor_type(node)
    if inner is None or inner.opcode != "multiply" or result is None or tuple(result.dims) != _without(inner, over):
        return build.decline("it is not a sum of products")
    operands: list[Node] = []
    dims_of: list[tuple[int, ...]] = []
    for operand in inner.operands:
        dims = tuple(range(static_type(inner).rank))
        if operand.opcode == "broadcast" and broadcast_dims(operand):
            operand, dims = operand.operands[0], broadcast_dims(operand)
        if not set(over) <= set(dims) or list(dims) != sorted(dims):
            return build.decline("an operand lacks a dimension that is summed")
        operands.append(operand)
        dims_of.append(dims)
    batch = [dim for dim in dims_of[0] if dim in dims_of[1] and dim not in over]
    rest = [dim for dims in dims_of for dim in dims if dim not in (*batch, *over)]
    kept = [dim for dim in range(static_type(inner).rank) if dim not in over]
    if [*batch, *rest] != kept:
        return build.decline("a product has its dimensions in another order")
    numbers = [tuple(dims.index(dim) for dim in part) for part in (batch, over) for dims in dims_of]
    names = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    return build.op("dot", *operands, type=static_type(node), **dict(zip(names, numbers, strict=True)))


@EXPLORE_ELEMENTWISE.rewrites(*ELEMENTWISE, because="matches any elementwise op")
def elementwise_of_reshapes(build: Builder, node: Apply) -> Node | None:
    """f(reshape(x), reshape(y)) -> reshape(f(x, y)), where x and y have one shape"""
    sources = {operand.operands[0].type for operand in node.operands if operand.opcode == "reshape"}
    shapes = {source.dims for source in sources if isinstance(source, TensorType)}
    if len(shapes) != 1 or tensor_type(node) is None:
        return build.decline("the operands are not reshapes of one shape")
    [dims] = shapes
    operands: list[Node] = []
    for operand in node.operands:
        own = tensor_type(operand)
        if own is None:
            return None
        if operand.opcode == "reshape":
            operands.append(operand.operands[0])
        elif operand.opcode == "broadcast" and not broadcast_dims(operand):
            spread = TensorType(own.dtype, dims)
            operands.append(build.op("broadcast", operand.operands[0], type=spread, dimensions=()))
        else:
            return build.decline("an operand is neither a reshape nor a number")
    made = build.like(node, *operands, type=TensorType(static_type(node).dtype, dims))
    return build.op("reshape", made, type=static_type(node))


@EXPLORE_ELEMENTWISE.rewrites(*BINARY, "compare", "select", because="matches any elementwise op")
def elementwise_of_transposes(build: Builder, node: Apply) -> Node | None:
    """f(transpose(x), transpose(y)) -> transpose(f(x, y)), where both have one permutation"""
    views = [operand for operand in node.operands if operand.opcode == "transpose"]
    orders = {view.attributes["dimensions"] for view in views}
    if len(views) < 2 or len(orders) != 1 or tensor_type(node) is None:
        return build.decline("no two operands are transposed alike")
    dims = static_type(views[0].operands[0]).dims
    operands: list[Node] = []
    for operand in node.operands:
        if operand.opcode == "transpose":
            operands.append(operand.operands[0])
        elif operand.opcode == "broadcast" and not broadcast_dims(operand):
            spread = TensorType(static_type(operand).dtype, dims)
            operands.append(build.op("broadcast", operand.operands[0], type=spread, dimensions=()))
        else:
            return build.decline("an operand is neither transposed nor a number")
    made = build.like(node, *operands, type=TensorType(static_type(node).dtype, dims))
    return build.op("transpose", made, dimensions=orders.pop())


@EXPLORE_ELEMENTWISE.rewrites(*ELEMENTWISE, because="walks the other users of what is sliced")
def elementwise_of_slices(build: Builder, node: Apply) -> Node | None:
    """f(slice(x)) -> slice(f(x)), where there are other slices of x; so for two operands sliced alike, and numbers"""
    views = [operand for operand in node.operands if operand.opcode == "slice"]
    if not views or len({view.attributes["slice"] for view in views}) != 1 or tensor_type(node) is None:
        return build.decline("the operands are not sliced alike")
    shapes = {static_type(view.operands[0]).dims for view in views}
    if len(shapes) != 1 or not all(
        any(user.opcode == "slice" and user not in views for user in view.operands[0].users) for view in views
    ):
        return build.decline("nothing else is sliced of the same arrays")
    dims = shapes.pop()
    operands: list[Node] = []
    for operand in node.operands:
        if operand.opcode == "slice":
            operands.append(operand.operands[0])
        elif operand.opcode == "broadcast" and not broadcast_dims(operand):
            spread = TensorType(static_type(operand).dtype, dims)
            operands.append(build.op("broadcast", operand.operands[0], type=spread, dimensions=()))
        else:
            return build.decline("an operand is neither a slice nor a number")
    made = build.like(node, *operands, type=TensorType(static_type(node).dtype, dims))
    return build.op("slice", made, slice=views[0].attributes["slice"])


EXPLORE_ELEMENTWISE.table("""
sum-of-sums: reduce(i:f(x, y), s) -> f(again(root, x, s), again(root, y, s)) if x is easily-summed;
    reduce(i:f(x, y), s) -> f(again(root, x, s), again(root, y, s)) if y is easily-summed
    where i is in order, sum-with-rounding for f in add, subtract
    # sums of broadcasts and of products have other forms
""")


def _summed(node: Apply) -> tuple[Node | None, tuple[int, ...]]:
    """What a sum of floating-point numbers is of, and over which dimensions; None where it is no such sum."""
    graph = next(iter(node.called_graphs), None)
    if len(node.operands) != 2 or combiner_of(graph) != "add" or not may_be_reduction_identity("add", node.operands[1]):
        return None, ()
    return (node.operands[0] if _is_float(node) else None), tuple(node.attributes["dimensions"])


def _without(node: Node, over: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for dim, size in enumerate(static_type(node).dims) if dim not in over)


def _kept_broadcast(build: Builder, node: Apply, factor: Node, over: tuple[int, ...]) -> Node:
    kept = [dim for dim in range(static_type(factor).rank) if dim not in over]
    dims = tuple(kept.index(dim) for dim in broadcast_dims(factor))
    return build.op("broadcast", factor.operands[0], type=static_type(node), dimensions=dims)


def _with_dims(node: Node, shape: object) -> TensorType:
    """A node's element type with the dimensions of another type."""
    assert isinstance(shape, TensorType), "an array"
    return TensorType(static_type(node).dtype, shape.dims)


def _is_float(node: Node) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and (array_type.dtype.is_float or array_type.dtype.is_complex)


def _is_above_zero(node: Node) -> bool:
    number = splat_of(node)
    return number is not None and bool(number.item() > 0)


register_condition("above-zero", _is_above_zero, of_operand=number_at)
register_builder("of-broadcasts", _of_two_broadcasts)
register_condition("sum-with-rounding", lambda node: _summed(node)[0] is not None)
register_condition("easily-summed", lambda node: node.opcode in ("broadcast", "dot", "multiply"))
