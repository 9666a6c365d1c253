"""The lowering of primitives that work element by element."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from hloom.dialects.arrays import HloArray, erf_gelu, relu, table_of, tanh_gelu
from hloom.dialects.mindir.data_types import DATA_TYPES, TYPE_IDS
from hloom.dialects.mindir.lowered_values import LoweredValue
from hloom.dialects.mindir.lowering_context import Primitive
from hloom.dialects.mindir.values import Number
from hloom.ir import DType, Node, TensorType, dtype, dtype_of

TABLE, lowers = table_of()
PRED, F32, F64, S32 = (dtype(name) for name in ("pred", "f32", "f64", "s32"))


def broadcast_dims(primitive: Primitive, operands: Iterable[HloArray]) -> tuple[int, ...]:
    """The dimensions of arrays that are stretched to each other."""
    shapes = [operand.dims for operand in operands]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise primitive.error(f"dimensions {' and '.join(map(str, shapes))} cannot be broadcast") from None


def common_type(primitive: Primitive, operands: Iterable[LoweredValue]) -> DType:
    """The element type in which operands meet: that of tensors, unless a number is of a higher family."""
    arrays = [
        operand.type.dtype for operand in operands if isinstance(operand, Node) and isinstance(operand.type, TensorType)
    ]
    numbers = [operand.dtype for operand in operands if isinstance(operand, Number)]
    types = arrays or numbers
    if any(element.name == "bf16" for element in types):
        names = {element.name for element in types if element.is_float}
        return dtype("bf16") if names == {"bf16"} else F32
    result = dtype_of(np.result_type(*[element.numpy for element in types]))
    if arrays and any(number.is_float for number in numbers) and not (result.is_float or result.is_complex):
        return F32
    if arrays and result is PRED and any(number.is_integer for number in numbers):
        return dtype("s64")
    return result


def operand_pair(primitive: Primitive, element: DType | None = None) -> tuple[HloArray, HloArray]:
    """Two operands stretched to each other, in this element type or that of the result."""
    element = element or result_type(primitive)
    operands = [primitive.array(index, element) for index in (0, 1)]
    dims = broadcast_dims(primitive, operands)
    left, right = (operand.stretch(dims) for operand in operands)
    return left, right


def result_type(primitive: Primitive) -> DType:
    """The element type that the text says of the result; that in which the operands meet where it says none."""
    result = primitive.result
    return result.dtype if result is not None else common_type(primitive, primitive.operands[:2])


# Functions of two arrays

BINARY: dict[str, str] = {
    "add": "Add ScalarAdd",
    "subtract": "Sub ScalarSub",
    "multiply": "Mul Muls ScalarMul",
    "divide": "Div Divs RealDiv ScalarDiv",
    "remainder": "Mod",
    "maximum": "Maximum",
    "minimum": "Minimum",
    "power": "Pow PowTensorScalar PowScalarTensor",
    "atan2": "Atan2",
    "and": "BitwiseAnd",
    "or": "BitwiseOr",
    "xor": "BitwiseXor",
}
"""The primitives of each opcode. `Mod` is C's remainder, with the dividend's sign."""

COMPARISONS: dict[str, str] = {
    "EQ": "Equal EqScalar ScalarEq",
    "NE": "NotEqual NeScalar",
    "LT": "Less ScalarLt LessScalar",
    "LE": "LessEqual ScalarLe",
    "GT": "Greater ScalarGt",
    "GE": "GreaterEqual ScalarGe GreaterEqualScalar",
}
"""The primitives of each direction."""

for _opcode, _names in BINARY.items():

    @lowers(*_names.split())
    def _binary(primitive: Primitive, opcode: str = _opcode) -> HloArray:
        left, right = operand_pair(primitive)
        return left.op(opcode, right)


for _direction, _names in COMPARISONS.items():

    @lowers(*_names.split())
    def _comparison(primitive: Primitive, direction: str = _direction) -> HloArray:
        left, right = operand_pair(primitive, common_type(primitive, primitive.operands[:2]))
        return left.compare(right, direction)


@lowers("AddExt", "SubExt")
def _scaled_sum(primitive: Primitive) -> HloArray:
    """x + alpha * y, x - alpha * y."""
    left, right = operand_pair(primitive)
    alpha = primitive.static(2, 1)
    if alpha != 1:
        right = right * alpha
    return left + right if primitive.name == "AddExt" else left - right


@lowers("AddN")
def _sum_of_all(primitive: Primitive) -> HloArray:
    values = primitive.elements(0) if len(primitive.operands) == 1 else primitive.operands
    total, *rest = [primitive.as_array(value) for value in values]
    for array in rest:
        total = total + array
    return total


@lowers("FloorDiv", "FloorDivScalar", "ScalarFloorDiv")
def _floor_division(primitive: Primitive) -> HloArray:
    """The greatest whole number below the quotient, which is that of f64 for all floats."""
    left, right = operand_pair(primitive)
    element = left.dtype
    if element.is_float:
        wide = [operand.convert(F64) for operand in (left, right)]
        return (wide[0] / wide[1]).op("floor").convert(element)
    quotient = left / right
    return quotient - _is_off(left, right).convert(element)


@lowers("FloorMod", "RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor", "ScalarMod")
def _floor_remainder(primitive: Primitive) -> HloArray:
    """The remainder with the divisor's sign, as Python has it."""
    left, right = operand_pair(primitive)
    remainder = left.op("remainder", right)
    return _is_off(left, right).select(remainder + right, remainder)


def _is_off(left: HloArray, right: HloArray) -> HloArray:
    """Where truncated division is not floored division: the remainder is not zero and has the dividend's sign."""
    remainder = left.op("remainder", right)
    is_nonzero = remainder.compare(0, "NE")
    return is_nonzero & (remainder < 0).compare(right < 0, "NE")


@lowers("DivNoNan")
def _division_without_nan(primitive: Primitive) -> HloArray:
    left, right = operand_pair(primitive)
    zero = right.filled(0)
    return right.compare(zero, "EQ").select(zero, left / right)


@lowers("SquaredDifference")
def _squared_difference(primitive: Primitive) -> HloArray:
    left, right = operand_pair(primitive)
    difference = left - right
    return difference * difference


@lowers("LogicalAnd", "LogicalOr", "LogicalXor")
def _logical(primitive: Primitive) -> HloArray:
    left, right = operand_pair(primitive, PRED)
    return left.op(primitive.name.removeprefix("Logical").lower(), right)


# Functions of one array


@lowers("LogicalNot", "BoolNot")
def _not(primitive: Primitive) -> HloArray:
    return primitive.array(0, PRED).op("not")


def _relu6(x: HloArray) -> HloArray:
    return relu(x).op("minimum", 6)


def _hard_sigmoid(x: HloArray) -> HloArray:
    """max(0, min(1, (x + 3) / 6))."""
    return relu((x + 3) / 6).op("minimum", 1)


def _hard_swish(x: HloArray) -> HloArray:
    """x * max(0, min(6, x + 3)) / 6, divided last: whole numbers are too."""
    return x * _relu6(x + 3) / 6


def _absolute(x: HloArray) -> HloArray:
    return x if x.dtype is PRED or x.dtype.name.startswith("u") else x.op("abs")


def _is_finite(x: HloArray) -> HloArray:
    return x.op("is-finite") if x.dtype.is_float else x.filled(True, PRED)


def softplus(x: HloArray) -> HloArray:
    """log(1 + exp(x)), without overflow."""
    small = (-x.op("abs")).op("exponential").op("log-plus-one")
    return relu(x) + small


def _of(opcode: str) -> Callable[[HloArray], HloArray]:
    return lambda x: x.op(opcode)


UNARY: dict[str, Callable[[HloArray], HloArray]] = {
    "ReLU": relu,
    "ReLU6": _relu6,
    "GeLU": tanh_gelu,
    "HSigmoid": _hard_sigmoid,
    "HSwish": _hard_swish,
    "Sigmoid": _of("logistic"),
    "SiLU": lambda x: x * x.op("logistic"),
    "Softplus": softplus,
    "Mish": lambda x: x * softplus(x).op("tanh"),
    "Tanh": _of("tanh"),
    "Exp": _of("exponential"),
    "Expm1": _of("exponential-minus-one"),
    "Log": _of("log"),
    "Log1p": _of("log-plus-one"),
    "Sqrt": _of("sqrt"),
    "Rsqrt": _of("rsqrt"),
    "Reciprocal": lambda x: 1 / x,
    "Inv": lambda x: 1 / x,
    "Square": lambda x: x * x,
    "Abs": _absolute,
    "Neg": _of("negate"),
    "ScalarUsub": _of("negate"),
    "Sign": _of("sign"),
    "Floor": _of("floor"),
    "Ceil": _of("ceil"),
    "Rint": _of("round-nearest-even"),
    "Sin": _of("sine"),
    "Cos": _of("cosine"),
    "Tan": _of("tan"),
    "Atan": lambda x: x.op("atan2", 1),
    "Erf": _of("erf"),
    "IsFinite": _is_finite,
    "IsNan": lambda x: x.compare(x, "NE"),
    "ZerosLike": lambda x: x.filled(0),
    "OnesLike": lambda x: x.filled(1),
    "Identity": lambda x: x,
    "Copy": lambda x: x,
    "TensorMove": lambda x: x,
    "BitwiseNot": _of("not"),
    "ScalarBool": lambda x: x.compare(0, "NE"),
}
"""Functions of one array, by primitive."""

_FLOAT_RESULTS = {"Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Rsqrt", "Reciprocal", "Sin", "Cos", "Erf", "Log1p", "Expm1"}


@lowers(*UNARY)
def _unary(primitive: Primitive) -> HloArray:
    x = primitive.x
    if primitive.name in _FLOAT_RESULTS and primitive.result is not None:
        x = x.convert(primitive.result.dtype)
    return UNARY[primitive.name](x)


@lowers("Round")
def _round(primitive: Primitive) -> HloArray:
    """Round to this many decimals, ties to even."""
    x = primitive.x
    decimals = primitive.static(1, 0)
    if not x.dtype.is_float:
        return x
    if not decimals:
        return x.op("round-nearest-even")
    factor = x.filled(10.0**decimals)
    return (x * factor).op("round-nearest-even") / factor


@lowers("Trunc")
def _truncated(primitive: Primitive) -> HloArray:
    x = primitive.x
    return (x < 0).select(x.op("ceil"), x.op("floor")) if x.dtype.is_float else x


@lowers("SoftplusExt")
def _scaled_softplus(primitive: Primitive) -> HloArray:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above a threshold: (x, beta, threshold)."""
    x = primitive.x
    beta, threshold = primitive.static(1, 1), primitive.static(2, 20)
    scaled = x * beta
    bent = softplus(scaled) / beta
    return (scaled > threshold).select(x, bent)


@lowers("GeluExt")
def _gelu(primitive: Primitive) -> HloArray:
    """With `approximate` "tanh" or 1 the one with tanh."""
    return (tanh_gelu if primitive.static(1, "none") in ("tanh", 1) else erf_gelu)(primitive.x)


@lowers("LeakyReLUExt")
def _leaky_relu(primitive: Primitive) -> HloArray:
    x = primitive.x
    scaled = x * primitive.static(1, 0.01)
    return (x > 0).select(x, scaled)


@lowers("Elu", "EluExt")
def _elu(primitive: Primitive) -> HloArray:
    x = primitive.x
    low = x.op("exponential-minus-one") * primitive.static(1, 1.0)
    return (x > 0).select(x, low)


@lowers("ClampScalar", "ClampTensor", "ClipByValue")
def _clamp(primitive: Primitive) -> HloArray:
    """Between two bounds, of which one may be None; the upper one wins."""
    element = result_type(primitive)
    result = primitive.array(0, element)
    for index, opcode in ((1, "maximum"), (2, "minimum")):
        if isinstance(primitive.operands[index], (Node, Number)):
            result = result.op(opcode, primitive.array(index, element).stretch(result.dims))
    return result


# Types and choices


@lowers("Cast", "ScalarCast")
def _cast(primitive: Primitive) -> HloArray:
    """As C converts: floats towards zero, to small integers by way of s32; bools are what is not zero."""
    wanted = primitive.static(1)
    element = DATA_TYPES.get(wanted) if isinstance(wanted, str) else TYPE_IDS.get(wanted)
    if element is None and primitive.result is not None:
        element = primitive.result.dtype
    if element is None:
        raise primitive.error(f"{wanted} is not an element type that can be computed with")
    x = primitive.x
    if element is PRED and x.dtype is not PRED:
        return x.compare(0, "NE")
    if x.dtype.is_float and element.is_integer and element.bits < S32.bits:
        x = x.convert(S32)
    return x.convert(element)


@lowers("ScalarToTensor", "TensorToScalar")
def _as_tensor(primitive: Primitive) -> HloArray:
    element = primitive.result.dtype if primitive.result is not None else None
    return primitive.array(0, element).reshape(())


@lowers("Select")
def _select(primitive: Primitive) -> HloArray:
    element = primitive.result.dtype if primitive.result else common_type(primitive, primitive.operands[1:])
    operands = [primitive.array(0, PRED), primitive.array(1, element), primitive.array(2, element)]
    dims = broadcast_dims(primitive, operands)
    mask, chosen, other = (operand.stretch(dims) for operand in operands)
    return mask.select(chosen, other)


@lowers("MaskedFill", "MaskedFillScalar")
def _masked_fill(primitive: Primitive) -> HloArray:
    """A number where the mask is set."""
    x = primitive.x
    mask, value = primitive.array(1, PRED), primitive.array(2, x.dtype)
    dims = broadcast_dims(primitive, (x, mask))
    value = value.reshape(()).spread(dims)
    return mask.stretch(dims).select(value, x.stretch(dims))


@lowers("BiasAdd")
def _bias_add(primitive: Primitive) -> HloArray:
    """A bias per channel: dimension 1 for NCHW, the last one for NHWC."""
    x = primitive.x
    axis = x.rank - 1 if data_format(primitive, 2) == "NHWC" else 1
    return x + primitive.array(1, x.dtype).spread(x.dims, (axis,))


@lowers("BiasAddGrad")
def _bias_gradient(primitive: Primitive) -> HloArray:
    """The sum over all dimensions but the channel's."""
    x = primitive.x
    axis = x.rank - 1 if x.rank < 3 or data_format(primitive, 1) == "NHWC" else 1
    return x.reduce("add", [dim for dim in range(x.rank) if dim != axis])


@lowers("ReluGrad")
def _relu_gradient(primitive: Primitive) -> HloArray:
    """(gradient, output): the gradient where the output is positive."""
    return (primitive.array(1) > 0).select(primitive.x, 0)


@lowers("TanhGrad")
def _tanh_gradient(primitive: Primitive) -> HloArray:
    """(output, gradient): gradient * (1 - output^2)."""
    output = primitive.x
    square = output * output
    return primitive.array(1) * (1 - square)


@lowers("SigmoidGrad")
def _sigmoid_gradient(primitive: Primitive) -> HloArray:
    """(output, gradient): gradient * output * (1 - output)."""
    output = primitive.x
    return primitive.array(1) * (output * (1 - output))


FORMATS = {0: "NCHW", 1: "NHWC", 2: "NHWC4", 3: "HWKC", 4: "HWCK", 11: "NCDHW"}
"""Data formats by number. Source: mindapi/base/format.h."""


def data_format(primitive: Primitive, index: int) -> str:
    """The data format that an operand or the attribute `format` says: NCHW or NHWC."""
    given = primitive.static(index) if index < len(primitive.operands) else primitive.attribute("format", "NCHW")
    name = FORMATS.get(given, str(given)) if isinstance(given, int) else (given or "NCHW")
    if name not in ("NCHW", "NHWC", "NCDHW"):
        raise primitive.error(f"the data format {name} has no lowering")
    return name
