"""The lowering of ops that work element by element or move elements, of the borders of a job, and of dropout."""

from __future__ import annotations

import math
from collections.abc import Callable

from hloom.dialects.oneflow.builder import INDEX, Given, HloBuilder, Number, table_of, tensor
from hloom.dialects.oneflow.data_movement import reshaped
from hloom.dialects.oneflow.rows import axis_in, data_type
from hloom.ir import Node, PaddingDimension, SliceDimension, TensorType, TupleType
from hloom.text import Unsupported

TABLE, lowers = table_of()


def gelu(build: HloBuilder, x: Node) -> Node:
    """x * 0.5 * (1 + erf(x / sqrt 2))."""
    inner = build.op("multiply", x, build.like(1 / math.sqrt(2), x))
    shifted = build.op("add", build.op("erf", inner), build.like(1, x))
    return build.op("multiply", build.op("multiply", x, build.like(0.5, x)), shifted)


def fast_gelu(build: HloBuilder, x: Node) -> Node:
    """0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    cube = build.op("multiply", build.op("multiply", x, x), x)
    inner = build.op("add", x, build.op("multiply", cube, build.like(0.044715, x)))
    bent = build.op("tanh", build.op("multiply", inner, build.like(math.sqrt(2 / math.pi), x)))
    half = build.op("multiply", x, build.like(0.5, x))
    return build.op("multiply", half, build.op("add", bent, build.like(1, x)))


def relu(build: HloBuilder, x: Node) -> Node:
    """The positive part."""
    return build.op("maximum", x, build.like(0, x))


ACTIVATIONS: dict[str, Callable[[HloBuilder, Node], Node]] = {
    "identity": lambda build, x: x,
    "relu": relu,
    "gelu": gelu,
    "fast_gelu": fast_gelu,
    "silu": lambda build, x: build.op("multiply", x, build.op("logistic", x)),
    "sigmoid": lambda build, x: build.op("logistic", x),
    "tanh": lambda build, x: build.op("tanh", x),
    "sqrt": lambda build, x: build.op("sqrt", x),
    "rsqrt": lambda build, x: build.op("rsqrt", x),
}
"""Functions of one array, by the names that OneFlow gives to ops."""

for _name, _function in ACTIVATIONS.items():
    lowers(_name)(lambda given, function=_function: function(given.build, given.x))

_OPCODES = {
    "broadcast_add": "add",
    "broadcast_sub": "subtract",
    "broadcast_mul": "multiply",
    "broadcast_div": "divide",
    "scalar_add": "add",
    "scalar_mul": "multiply",
    "scalar_div": "divide",
}


@lowers("input", "output")
def _border(given: Given) -> Node:
    return given.x


@lowers("variable")
def _variable(given: Given) -> Node:
    assert isinstance(given.node.type, TensorType), "inferred before"
    return given.argument(given.node.type, given["op_name"] or "variable")


@lowers("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "multiply")
def _binary(given: Given) -> Node:
    left, right = given.operands
    name = given.node.opcode.removeprefix("oneflow.")
    assert isinstance(given.node.type, TensorType), "inferred before"
    dims = given.node.type.dims
    return given.build.op(_OPCODES.get(name, name), given.build.stretch(left, dims), given.build.stretch(right, dims))


@lowers("add_n", "add_n2")
def _sum(given: Given) -> Node:
    total = given.x
    for operand in given.operands[1:]:
        total = given.build.op("add", total, operand)
    return total


@lowers("scalar_add", "scalar_mul", "scalar_div")
def _scalar(given: Given) -> Node:
    number = given["float_operand"] if given["has_float_operand"] else given["int_operand"]
    opcode = _OPCODES[given.node.opcode.removeprefix("oneflow.")]
    return given.build.op(opcode, given.x, given.build.like(number, given.x))


@lowers("scalar_mul_by_tensor")
def _scale(given: Given) -> Node:
    scalar = given.build.reshape(given.operands[1], ())
    return given.build.op("multiply", given.x, given.build.broadcast(scalar, given.x_type.dims, ()))


@lowers("bias_add")
def _bias_add(given: Given) -> Node:
    bias = given.along(given.operands[1], given.axis(), given.x)
    return given.build.op("add", given.x, bias)


@lowers("fused_bias_add_gelu")
def _bias_gelu(given: Given) -> Node:
    return gelu(given.build, _bias_add(given))


@lowers("fused_bias_add_mask_scale")
def _mask_scale(given: Given) -> Node:
    biased = _bias_add(given)
    scaled = _masked(given, biased, given.operands[2], given["scale"])
    return given.build.op("add", scaled, given.operands[3]) if len(given.operands) == 4 else scaled


def _masked(given: Given, x: Node, mask: Node, scale: float) -> Node:
    """x * mask * scale."""
    build = given.build
    kept = build.op("multiply", x, build.convert(mask, tensor(x).dtype))
    return build.op("multiply", kept, build.like(scale, x))


@lowers("dropout")
def _dropout(given: Given) -> tuple[Node, Node]:
    """x * mask / (1 - rate); the mask is given to the program, and zero everywhere where the rate is 1."""
    assert isinstance(given.node.type, TupleType), "inferred before"
    type_ = given.node.type.elements[1]
    assert isinstance(type_, TensorType), "inferred before"
    mask = _mask(given, type_)
    rate = given["rate"]
    scale = 1.0 if rate == 1 else 1 / (1 - rate)
    dropped = _masked(given, given.x, mask, scale)
    return given.build.op("add", dropped, given.operands[1]) if len(given.operands) == 2 else dropped, mask


@lowers("random_mask_like")
def _mask_like(given: Given) -> Node:
    assert isinstance(given.node.type, TensorType), "inferred before"
    return _mask(given, given.node.type)


def _mask(given: Given, array_type: TensorType) -> Node:
    """The mask that the program is given; it cannot change what the rate 1 says."""
    mask = given.argument(array_type, "mask")
    if not 0 <= given["rate"] <= 1:
        raise Unsupported(f"{given.node.name}: rate={given['rate']} is not between 0 and 1")
    return given.build.like(0, mask) if given["rate"] == 1 else mask


@lowers("cast")
def _cast(given: Given) -> Node:
    return given.build.convert(given.x, data_type(given.node.attribute("dtype")))


@lowers("fused_cast_scale")
def _cast_scale(given: Given) -> Node:
    build, scale = given.build, given.operands[1]
    cast = build.convert(given.x, tensor(scale).dtype)
    scaled = build.op("multiply", cast, build.broadcast(build.reshape(scale, ()), given.x_type.dims, ()))
    return build.op("multiply", scaled, build.like(given["scale"], scaled))


@lowers("reshape")
def _reshape(given: Given) -> Node:
    return given.build.reshape(given.x, reshaped(given.x_type, given["shape"]))


@lowers("transpose")
def _transpose(given: Given) -> Node:
    return given.build.transpose(given.x, given["perm"])


@lowers("narrow")
def _narrow(given: Given) -> Node:
    return narrowed(
        given.build, given.x, axis_in(given.node.attribute("dim"), given.x_type), given["start"], given["length"]
    )


def narrowed(build: HloBuilder, x: Node, axis: int, start: int, length: int) -> Node:
    """Some of the indices of one dimension."""
    whole = [SliceDimension(0, size) for size in tensor(x).dims]
    whole[axis] = SliceDimension(start, start + length)
    return build.op("slice", x, slice=tuple(whole))


@lowers("pad")
def _pad(given: Given) -> Node:
    type_ = given.x_type
    value = given["floating_constant_value" if type_.dtype.is_float else "integral_constant_value"]
    padding = zip(given["padding_before"], given["padding_after"], strict=True)
    dimensions = tuple(PaddingDimension(low, high) for low, high in padding)
    return given.build.op("pad", given.x, given.build.constant(value, type_.dtype), padding=dimensions)


@lowers("tril")
def _tril(given: Given) -> Node:
    return lower_triangle(given.build, given.x, given["diagonal"], _fill(given))


@lowers("fused_scale_tril")
def _scale_tril(given: Given) -> Node:
    scale = given["floating_scale_value" if given["is_floating_scale_value"] else "integer_scale_value"]
    scaled = given.build.op("multiply", given.x, given.build.like(scale, given.x))
    return lower_triangle(given.build, scaled, given["diagonal"], _fill(given))


def lower_triangle(build: HloBuilder, x: Node, diagonal: int, fill: Number) -> Node:
    """The elements on and below a diagonal; a number elsewhere."""
    dims = tensor(x).dims
    rank = len(dims)
    rows = build.iota(INDEX, dims, rank - 2)
    columns = build.iota(INDEX, dims, rank - 1)
    limit = build.op("add", rows, build.like(diagonal, rows))
    return build.op("select", build.compare("LE", columns, limit), x, build.like(fill, x))


def _fill(given: Given) -> Number:
    return given["floating_fill_value" if given["is_floating_fill_value"] else "integer_fill_value"]
