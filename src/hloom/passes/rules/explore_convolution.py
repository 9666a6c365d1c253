"""Rules that give another form of convolutions with what is around them: for equality saturation.

A factor per feature before or behind a convolution, sums of convolutions of one image (as in TASO, Jia et al. 2019).
Numbers change by rounding.
"""

from __future__ import annotations

from hloom.ir import Apply, ConvolutionDimensions, Node, TensorType
from hloom.passes.rules.dimensions import broadcast_dims
from hloom.rewrite import Builder, Family, tensor_type

EXPLORE_CONVOLUTION = Family("explore-convolution")


@EXPLORE_CONVOLUTION.rewrites("multiply", "divide")
def factor_into_kernel(build: Builder, node: Apply) -> Node | None:
    """convolution(x, w) * broadcast(s) -> convolution(x, w * broadcast(s)), for a factor of each output feature"""
    for side in (0, 1) if node.opcode == "multiply" else (0,):
        convolution, factor = node.inputs[side], node.inputs[1 - side]
        if convolution.opcode != "convolution" or factor.opcode != "broadcast" or not isinstance(convolution, Apply):
            continue
        kernel = tensor_type(convolution.inputs[1])
        labels: ConvolutionDimensions = convolution.attributes["dim_labels"]
        dims = broadcast_dims(factor)
        if kernel is None or kernel.dtype is not _element(node) or dims not in ((), (labels.output.index("f"),)):
            continue
        mapped = (labels.rhs.index("o"),) if dims else ()
        spread = build.op("broadcast", factor.inputs[0], type=kernel.with_layout(None), dimensions=mapped)
        scaled = build.op(node.opcode, convolution.inputs[1], spread)
        return build.like(convolution, convolution.inputs[0], scaled, type=_plain(convolution))
    return build.decline("it is no product of a convolution and a factor of each feature")


@EXPLORE_CONVOLUTION.rewrites("add", "subtract")
def sum_of_convolutions(build: Builder, node: Apply) -> Node | None:
    """convolution(x, w) + convolution(x, v) -> convolution(x, w + v); so for two images under one kernel"""
    first, second = node.inputs
    if not (isinstance(first, Apply) and isinstance(second, Apply)) or first.opcode != "convolution":
        return build.decline("it is no sum of convolutions")
    if second.opcode != "convolution" or first.attributes != second.attributes or first.inputs[0].type is None:
        return build.decline("the convolutions are not alike")
    for side in (0, 1):
        one, other = first.inputs[1 - side], second.inputs[1 - side]
        if first.inputs[side] is second.inputs[side] and one.type == other.type and _element(one) is _element(node):
            total = build.op(node.opcode, one, other)
            operands = (first.inputs[0], total) if side == 0 else (total, first.inputs[1])
            return build.like(first, *operands, type=_plain(first))
    return build.decline("the convolutions have no operand in common")


def _element(node: Node) -> object:
    array_type = tensor_type(node)
    is_float = array_type is not None and (array_type.dtype.is_float or array_type.dtype.is_complex)
    return array_type.dtype if array_type is not None and is_float else None


def _plain(node: Node) -> TensorType:
    array_type = tensor_type(node)
    assert array_type is not None, "an array"
    return array_type.with_layout(None)
