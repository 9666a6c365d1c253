"""The lowering of ops that work element by element or move elements, of the borders of a job, and of dropout."""

from __future__ import annotations

from collections.abc import Callable

from hloom.dialects.arrays import HloArray, Number, erf_gelu, relu, table_of, tanh_gelu
from hloom.dialects.oneflow.data_movement import reshaped
from hloom.dialects.oneflow.lowering_context import Given
from hloom.dialects.oneflow.rows import axis_in, data_type
from hloom.ir import PaddingDimension
from hloom.text import Unsupported

TABLE, lowers = table_of("oneflow.")

ACTIVATIONS: dict[str, Callable[[HloArray], HloArray]] = {
    "identity": lambda x: x,
    "relu": relu,
    "gelu": erf_gelu,
    "fast_gelu": tanh_gelu,
    "silu": lambda x: x * x.op("logistic"),
    "sigmoid": lambda x: x.op("logistic"),
    "tanh": lambda x: x.op("tanh"),
    "sqrt": lambda x: x.op("sqrt"),
    "rsqrt": lambda x: x.op("rsqrt"),
}
"""Functions of one array, by the names that OneFlow gives to ops."""

_OPCODES = {"add": "add", "sub": "subtract", "mul": "multiply", "div": "divide"}
"""The opcodes of OneFlow's arithmetic, by the ends of its ops' names."""


@lowers(*ACTIVATIONS)
def _activation(given: Given) -> HloArray:
    return ACTIVATIONS[given.name](given.x)


@lowers("input", "output")
def _border(given: Given) -> HloArray:
    return given.x


@lowers("variable")
def _variable(given: Given) -> HloArray:
    return given.argument(given.result, given["op_name"] or "variable")


@lowers("broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div", "multiply")
def _binary(given: Given) -> HloArray:
    left, right = (operand.stretch(given.result.dims) for operand in given.operands)
    return left.op(_OPCODES.get(given.name.removeprefix("broadcast_"), given.name), right)


@lowers("add_n", "add_n2")
def _sum(given: Given) -> HloArray:
    total = given.x
    for operand in given.operands[1:]:
        total = total + operand
    return total


@lowers("scalar_add", "scalar_mul", "scalar_div")
def _scalar(given: Given) -> HloArray:
    number = given["float_operand"] if given["has_float_operand"] else given["int_operand"]
    return given.x.op(_OPCODES[given.name.removeprefix("scalar_")], number)


@lowers("scalar_mul_by_tensor")
def _scale(given: Given) -> HloArray:
    return given.x * given.operands[1].reshape(()).spread(given.x.dims)


@lowers("bias_add")
def _bias_add(given: Given) -> HloArray:
    return given.x + given.operands[1].spread(given.x.dims, (given.axis(),))


@lowers("fused_bias_add_gelu")
def _bias_gelu(given: Given) -> HloArray:
    return erf_gelu(_bias_add(given))


@lowers("fused_bias_add_mask_scale")
def _mask_scale(given: Given) -> HloArray:
    return given.added(_masked(_bias_add(given), given.operands[2], given["scale"]), 3)


def _masked(x: HloArray, mask: HloArray, scale: float) -> HloArray:
    return x * mask.convert(x.dtype) * scale


@lowers("dropout")
def _dropout(given: Given) -> tuple[HloArray, HloArray]:
    """x * mask / (1 - rate); the mask is a parameter of the program, and replaced by zeros at rate 1."""
    mask, rate = _mask(given), given["rate"]
    return given.added(_masked(given.x, mask, 1.0 if rate == 1 else 1 / (1 - rate)), 1), mask


@lowers("random_mask_like")
def _mask(given: Given) -> HloArray:
    """The mask is a parameter of the program; at rate 1 it is ignored, because nothing is kept."""
    mask = given.argument(given.result, "mask")
    if not 0 <= given["rate"] <= 1:
        raise Unsupported(f"{given.node.name}: rate={given['rate']} is not between 0 and 1")
    return mask.filled(0) if given["rate"] == 1 else mask


@lowers("cast")
def _cast(given: Given) -> HloArray:
    return given.x.convert(data_type(given.node.attribute("dtype")))


@lowers("fused_cast_scale")
def _cast_scale(given: Given) -> HloArray:
    scale = given.operands[1]
    return given.x.convert(scale.dtype) * scale.reshape(()).spread(given.x.dims) * given["scale"]


@lowers("reshape")
def _reshape(given: Given) -> HloArray:
    return given.x.reshape(reshaped(given.x.type, given["shape"]))


@lowers("transpose")
def _transpose(given: Given) -> HloArray:
    return given.x.transpose(given["perm"])


@lowers("narrow")
def _narrow(given: Given) -> HloArray:
    return given.x.narrowed(axis_in(given.node.attribute("dim"), given.x.type), given["start"], given["length"])


@lowers("pad")
def _pad(given: Given) -> HloArray:
    element = given.x.dtype
    value = given["floating_constant_value" if element.is_float else "integral_constant_value"]
    padding = zip(given["padding_before"], given["padding_after"], strict=True)
    dimensions = tuple(PaddingDimension(low, high) for low, high in padding)
    return given.x.op("pad", given.build.number(value, element), padding=dimensions)


@lowers("tril")
def _tril(given: Given) -> HloArray:
    return given.x.lower_triangle(given["diagonal"], _number(given, "fill"))


@lowers("fused_scale_tril")
def _scale_tril(given: Given) -> HloArray:
    return (given.x * _number(given, "scale")).lower_triangle(given["diagonal"], _number(given, "fill"))


def _number(given: Given, role: str) -> Number:
    return given[f"{'floating' if given[f'is_floating_{role}_value'] else 'integer'}_{role}_value"]
