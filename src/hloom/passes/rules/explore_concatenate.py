"""Rules for equality saturation on what is joined: one op on arrays that are joined, or several whose results are.

Sums of products, and of convolutions, as one over operands that are joined; convolutions side by side as groups of one
(as in TASO, Jia et al. 2019). What moves elements keeps every bit; sums in another order change by rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import Apply, ConvolutionDimensions, Node, TensorType
from hloom.passes.rules.dimensions import broadcast_dims
from hloom.passes.rules.dot import make_dot, numbers_of, plain_algorithm, static_operands
from hloom.passes.rules.explore_elementwise import ELEMENTWISE
from hloom.rewrite import Builder, Family, static_type, tensor_type

EXPLORE_CONCATENATE = Family("explore-concatenate", because="joins any number of operands")


@EXPLORE_CONCATENATE.rewrites("concatenate")
def concatenation_of_elementwise(build: Builder, node: Apply) -> Node | None:
    """concatenate(f(a, b), f(c, d)) -> f(concatenate(a, c), concatenate(b, d)); of one number, a larger broadcast"""
    parts = _alike(node, ELEMENTWISE)
    result = tensor_type(node)
    if parts is None or result is None:
        return build.decline("what is joined is not of one elementwise op")
    columns: list[Node] = []
    for operands in zip(*(part.operands for part in parts), strict=True):
        types = [tensor_type(operand) for operand in operands]
        dims = [array_type.dims for array_type in types if array_type is not None]
        element_types = {array_type.dtype for array_type in types if array_type is not None}
        if dims != [static_type(part).dims for part in parts] or len(element_types) != 1:
            return build.decline("an operand has another shape")
        whole = TensorType(element_types.pop(), result.dims)
        scalars = {operand.operands[0] for operand in operands if _is_scalar_broadcast(operand)}
        if len(scalars) == 1 and all(map(_is_scalar_broadcast, operands)):
            columns.append(build.op("broadcast", scalars.pop(), type=whole, dimensions=()))
        else:
            columns.append(build.like(node, *operands, type=whole))
    return build.like(parts[0], *columns, type=result.with_layout(None))


@EXPLORE_CONCATENATE.rewrites(*ELEMENTWISE, because="takes any number of parts")
def elementwise_of_concatenations(build: Builder, node: Apply) -> Node | None:
    """f(concatenate(a, b), concatenate(c, d)) -> concatenate(f(a, c), f(b, d)), where both are cut alike

    Of one that is joined of arrays of one shape, too, where they then share the broadcast of a number.
    """
    joined = [operand for operand in node.operands if operand.opcode == "concatenate"]
    result = tensor_type(node)
    if not joined or len(node.operands) < 2 or result is None:
        return build.decline("no operand is joined, or it is the only one")
    shapes = [[static_type(part).dims for part in operand.operands] for operand in joined]
    if len(joined) == 1 and len(set(shapes[0])) != 1:
        return build.decline("one operand is joined, of arrays of several shapes")
    along = {operand.attributes["dimensions"] for operand in joined}
    others = [operand for operand in node.operands if operand.opcode != "concatenate"]
    if len(along) != 1 or any(shape != shapes[0] for shape in shapes) or not all(map(_is_scalar_broadcast, others)):
        return build.decline("the operands are not cut at the same elements")
    parts: list[Node] = []
    for number, dims in enumerate(shapes[0]):
        operands = [
            operand.operands[number]
            if operand.opcode == "concatenate"
            else build.op(
                "broadcast", operand.operands[0], type=TensorType(static_type(operand).dtype, dims), dimensions=()
            )
            for operand in node.operands
        ]
        parts.append(build.like(node, *operands, type=TensorType(result.dtype, dims)))
    return build.op("concatenate", *parts, type=result.with_layout(None), dimensions=along.pop())


@EXPLORE_CONCATENATE.rewrites("concatenate")
def concatenation_of_transposes(build: Builder, node: Apply) -> Node | None:
    """concatenate(transpose(a), transpose(b)) -> transpose(concatenate(a, b)), of one permutation"""
    parts = _alike(node, ("transpose",))
    if parts is None:
        return build.decline("what is joined is not transposed alike")
    [along] = node.attributes["dimensions"]
    order = parts[0].attributes["dimensions"]
    whole = build.op("concatenate", *(part.operands[0] for part in parts), dimensions=(order[along],))
    return build.like(parts[0], whole, type=static_type(node))


@EXPLORE_CONCATENATE.rewrites("concatenate")
def concatenation_of_windows(build: Builder, node: Apply) -> Node | None:
    """concatenate(reduce-window(a), reduce-window(b)) -> reduce-window(concatenate(a, b)), across the window"""
    parts = _alike(node, ("reduce-window",))
    if parts is None or any(len(part.operands) != 2 for part in parts):
        return build.decline("what is joined is not of one window")
    [along] = node.attributes["dimensions"]
    if not _is_across(parts[0], along):
        return build.decline("the window spans elements along what is joined")
    if any(part.operands[1] is not parts[0].operands[1] for part in parts):
        return build.decline("the windows begin with other values")
    whole = build.op("concatenate", *(part.operands[0] for part in parts), dimensions=(along,))
    return build.like(parts[0], whole, parts[0].operands[1], type=static_type(node))


@EXPLORE_CONCATENATE.rewrites("reduce-window", because="takes any number of parts")
def window_of_concatenation(build: Builder, node: Apply) -> Node | None:
    """reduce-window(concatenate(a, b)) -> concatenate(reduce-window(a), reduce-window(b)), across the window"""
    joined, result = node.operands[0], tensor_type(node)
    if not isinstance(joined, Apply) or joined.opcode != "concatenate" or len(node.operands) != 2 or result is None:
        return build.decline("it is not of what is joined")
    [along] = joined.attributes["dimensions"]
    if not _is_across(node, along):
        return build.decline("the window spans elements along what is joined")
    parts: list[Node] = []
    for part in joined.operands:
        dims = list(result.dims)
        dims[along] = static_type(part).dims[along]
        parts.append(build.like(node, part, node.operands[1], type=TensorType(result.dtype, dims)))
    return build.op("concatenate", *parts, type=result.with_layout(None), dimensions=(along,))


def _is_across(window: Apply, along: int) -> bool:
    """Whether a window is of one element along a dimension, and takes them all."""
    dimension = window.attributes["window"].dimensions[along]
    is_one = dimension.size == dimension.stride == dimension.base_dilation == 1
    return is_one and not dimension.padding_low and not dimension.padding_high


@EXPLORE_CONCATENATE.rewrites("concatenate")
def concatenation_of_convolutions(build: Builder, node: Apply) -> Node | None:
    """concatenate(convolution(a, w), convolution(b, w)) -> convolution(concatenate(a, b), w), along images"""
    parts = _alike(node, ("convolution",))
    if parts is None or any(part.operands[1] is not parts[0].operands[1] for part in parts):
        return build.decline("what is joined is not of one kernel")
    labels: ConvolutionDimensions = parts[0].attributes["dim_labels"]
    if node.attributes["dimensions"] != (labels.output.index("b"),) or parts[0].attribute("batch_group_count") != 1:
        return build.decline("it is not joined along images")
    whole = build.op("concatenate", *(part.operands[0] for part in parts), dimensions=(labels.lhs.index("b"),))
    return build.like(parts[0], whole, parts[0].operands[1], type=static_type(node))


@EXPLORE_CONCATENATE.rewrites("concatenate")
def convolutions_as_groups(build: Builder, node: Apply) -> Node | None:
    """concatenate(convolution(a, w), convolution(b, v)) -> convolution(concatenate(a, b), concatenate(w, v))

    In groups of features, joined along features.
    """
    parts = _alike(node, ("convolution",))
    if parts is None or len({(part.operands[0].type, part.operands[1].type) for part in parts}) != 1:
        return build.decline("what is joined is not of convolutions of one shape")
    first = parts[0]
    labels: ConvolutionDimensions = first.attributes["dim_labels"]
    if node.attributes["dimensions"] != (labels.output.index("f"),) or first.attribute("batch_group_count") != 1:
        return build.decline("it is not joined along features")
    if len({part.operands[0] for part in parts}) == 1:
        return build.decline("they have one image: their kernels are joined")
    image = build.op("concatenate", *(part.operands[0] for part in parts), dimensions=(labels.lhs.index("f"),))
    kernel = build.op("concatenate", *(part.operands[1] for part in parts), dimensions=(labels.rhs.index("o"),))
    groups = first.attribute("feature_group_count") * len(parts)
    return build.like(first, image, kernel, type=static_type(node), feature_group_count=groups)


@EXPLORE_CONCATENATE.rewrites("add", because="finds the dimension that is contracted, and compares all others")
def sum_of_dots_joined(build: Builder, node: Apply) -> Node | None:
    """dot(a, b) + dot(c, d) -> dot(concatenate(a, c), concatenate(b, d)), joined along what is contracted"""
    first, second = node.operands
    if not (isinstance(first, Apply) and isinstance(second, Apply)) or {first.opcode, second.opcode} != {"dot"}:
        return build.decline("it is not a sum of two products")
    types, other_types = static_operands(first), static_operands(second)
    if types is None or other_types is None or first is second or first.attributes != second.attributes:
        return build.decline("the products are not alike")
    numbers = numbers_of(first)
    if not plain_algorithm(first) or not _is_float(node) or len(numbers.lhs_contracting) != 1:
        return build.decline("the products are not of floating-point numbers over one dimension")
    if first.operands[0] is second.operands[0] or first.operands[1] is second.operands[1]:
        return build.decline("the products share an operand")
    operands: list[Node] = []
    for side, (along,) in ((0, numbers.lhs_contracting), (1, numbers.rhs_contracting)):
        one, other = types[side], other_types[side]
        if one.dtype is not other.dtype or _without(one, along) != _without(other, along):
            return build.decline("the operands differ in more than what is contracted")
        operands.append(build.op("concatenate", first.operands[side], second.operands[side], dimensions=(along,)))
    return make_dot(build, first, operands[0], operands[1], numbers)


@EXPLORE_CONCATENATE.rewrites("dot", because="takes any number of parts")
def dot_of_concatenations(build: Builder, node: Apply) -> Node | None:
    """dot(concatenate(a, c), concatenate(b, d)) -> dot(a, b) + dot(c, d), joined along what is contracted"""
    numbers = numbers_of(node)
    if static_operands(node) is None or not _is_float(node) or len(numbers.lhs_contracting) != 1:
        return build.decline("it is not a product of floating-point numbers over one dimension")
    return _sum_of_parts(build, node, numbers.lhs_contracting, numbers.rhs_contracting)


@EXPLORE_CONCATENATE.rewrites("convolution", because="takes any number of parts")
def convolution_of_concatenations(build: Builder, node: Apply) -> Node | None:
    """convolution(concatenate(a, b), concatenate(w, v)) -> convolution(a, w) + convolution(b, v), along features"""
    labels: ConvolutionDimensions = node.attributes["dim_labels"]
    if not _is_float(node) or {node.attribute("feature_group_count"), node.attribute("batch_group_count")} != {1}:
        return build.decline("it has groups, or is not of floating-point numbers")
    return _sum_of_parts(build, node, (labels.lhs.index("f"),), (labels.rhs.index("i"),))


def _sum_of_parts(build: Builder, node: Apply, *along: tuple[int, ...]) -> Node | None:
    """The sum of an op on the parts of operands that are joined along given dimensions and cut alike."""
    first, second = node.operands
    if first.opcode != "concatenate" or second.opcode != "concatenate" or len(first.operands) != len(second.operands):
        return build.decline("the operands are not both joined")
    if (first.attributes["dimensions"], second.attributes["dimensions"]) != along:
        return build.decline("the operands are not joined along what is summed")
    pairs = list(zip(first.operands, second.operands, strict=True))
    if any(static_type(one).dims[along[0][0]] != static_type(other).dims[along[1][0]] for one, other in pairs):
        return build.decline("the operands are not cut alike")
    total = build.like(node, *pairs[0], type=static_type(node))
    for pair in pairs[1:]:
        total = build.op("add", total, build.like(node, *pair, type=static_type(node)))
    return total


@EXPLORE_CONCATENATE.rewrites("add", because="finds the dimension of features, and compares all others")
def sum_of_convolutions_joined(build: Builder, node: Apply) -> Node | None:
    """convolution(a, w) + convolution(b, v) -> convolution(concatenate(a, b), concatenate(w, v)), along features"""
    first, second = node.operands
    if not (isinstance(first, Apply) and isinstance(second, Apply)) or {first.opcode, second.opcode} != {"convolution"}:
        return build.decline("it is not a sum of two convolutions")
    if first is second or first.attributes != second.attributes or not _is_float(node):
        return build.decline("the convolutions are not alike")
    if {first.attribute("feature_group_count"), first.attribute("batch_group_count")} != {1}:
        return build.decline("the convolutions have groups")
    if first.operands[0] is second.operands[0] or first.operands[1] is second.operands[1]:
        return build.decline("the convolutions share an operand")
    labels: ConvolutionDimensions = first.attributes["dim_labels"]
    operands: list[Node] = []
    for side, along in ((0, labels.lhs.index("f")), (1, labels.rhs.index("i"))):
        one, other = static_type(first.operands[side]), static_type(second.operands[side])
        if one.dtype is not other.dtype or _without(one, along) != _without(other, along):
            return build.decline("the operands differ in more than features")
        operands.append(build.op("concatenate", first.operands[side], second.operands[side], dimensions=(along,)))
    return build.like(first, *operands, type=static_type(node))


def _alike(node: Apply, opcodes: Sequence[str]) -> list[Apply] | None:
    """What is joined, where it is two or more of one op with the same attributes; None otherwise."""
    parts = [operand for operand in node.operands if isinstance(operand, Apply)]
    if len(parts) < 2 or len(parts) != len(node.operands) or parts[0].opcode not in opcodes:
        return None
    if any(tensor_type(operand) is None for part in parts for operand in (part, *part.operands)):
        return None
    first = parts[0]
    is_alike = all(part.opcode == first.opcode and part.attributes == first.attributes for part in parts)
    return parts if is_alike else None


def _is_scalar_broadcast(node: Node) -> bool:
    return node.opcode == "broadcast" and not broadcast_dims(node)


def _without(array_type: TensorType, along: int) -> tuple[int, ...]:
    return tuple(size for dim, size in enumerate(array_type.dims) if dim != along)


def _is_float(node: Node) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and (array_type.dtype.is_float or array_type.dtype.is_complex)
