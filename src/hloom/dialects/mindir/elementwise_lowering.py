"""The lowering of primitives that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from hloom.dialects.mindir.data_types import DATA_TYPES, TYPE_IDS
from hloom.dialects.mindir.lowered_values import LoweredValue
from hloom.dialects.mindir.lowering_context import Primitive, table_of
from hloom.dialects.mindir.values import Number
from hloom.dialects.oneflow.builder import HloBuilder, tensor
from hloom.ir import DType, Node, dtype, dtype_of

TABLE, lowers = table_of()
PRED, F32, F64, S32 = (dtype(name) for name in ("pred", "f32", "f64", "s32"))

Unary = Callable[[HloBuilder, Node], Node]


def broadcast_dims(primitive: Primitive, operands: Iterable[Node]) -> tuple[int, ...]:
    """The dimensions of arrays that are stretched to each other."""
    shapes = [tensor(operand).dims for operand in operands]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise primitive.error(f"dimensions {' and '.join(map(str, shapes))} cannot be broadcast") from None


def common_type(primitive: Primitive, operands: Iterable[LoweredValue]) -> DType:
    """The element type in which operands meet: that of tensors, unless a number is of a higher family."""
    arrays = [tensor(operand).dtype for operand in operands if isinstance(operand, Node)]
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


def binary(primitive: Primitive, opcode: str, element: DType | None = None) -> Node:
    """An op of two operands, stretched to each other; `element` is the type they are converted to."""
    left, right = operand_pair(primitive, element or result_type(primitive))
    return primitive.build.op(opcode, left, right)


def operand_pair(primitive: Primitive, element: DType) -> tuple[Node, Node]:
    operands = [primitive.array(index, element) for index in (0, 1)]
    dims = broadcast_dims(primitive, operands)
    left, right = (primitive.build.stretch(operand, dims) for operand in operands)
    return left, right


def result_type(primitive: Primitive) -> DType:
    """The element type that the text says of the result; that in which the operands meet where it says none."""
    result = primitive.result
    return result.dtype if result is not None else common_type(primitive, primitive.operands[:2])


# Arithmetic

for _name, _opcode in {
    "Add": "add",
    "ScalarAdd": "add",
    "Sub": "subtract",
    "ScalarSub": "subtract",
    "Mul": "multiply",
    "Muls": "multiply",
    "ScalarMul": "multiply",
    "Div": "divide",
    "Divs": "divide",
    "RealDiv": "divide",
    "ScalarDiv": "divide",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "Pow": "power",
    "PowTensorScalar": "power",
    "PowScalarTensor": "power",
    "Atan2": "atan2",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
}.items():
    lowers(_name)(lambda primitive, opcode=_opcode: binary(primitive, opcode))


@lowers("AddExt", "SubExt")
def _scaled_sum(primitive: Primitive) -> Node:
    """x + alpha * y, x - alpha * y."""
    element = result_type(primitive)
    left, right = operand_pair(primitive, element)
    alpha = primitive.static(2, 1)
    if alpha != 1:
        right = primitive.build.op("multiply", right, primitive.build.like(alpha, right))
    return primitive.build.op("add" if primitive.node.opcode.endswith("AddExt") else "subtract", left, right)


@lowers("AddN")
def _sum_of_all(primitive: Primitive) -> Node:
    values = primitive.elements(0) if len(primitive.operands) == 1 else primitive.operands
    total, *rest = [primitive.as_array(value) for value in values]
    for array in rest:
        total = primitive.build.op("add", total, array)
    return total


@lowers("FloorDiv", "FloorDivScalar", "ScalarFloorDiv")
def _floor_division(primitive: Primitive) -> Node:
    """The greatest whole number below the quotient, which is that of f64 for all floats."""
    element = result_type(primitive)
    left, right = operand_pair(primitive, element)
    build = primitive.build
    if element.is_float:
        wide = [build.convert(operand, F64) for operand in (left, right)]
        return build.convert(build.op("floor", build.op("divide", *wide)), element)
    quotient = build.op("divide", left, right)
    return build.op("subtract", quotient, build.convert(_is_off(build, left, right), element))


@lowers("FloorMod", "RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor", "ScalarMod")
def _floor_remainder(primitive: Primitive) -> Node:
    """The remainder with the divisor's sign, as Python has it."""
    element = result_type(primitive)
    left, right = operand_pair(primitive, element)
    build = primitive.build
    remainder = build.op("remainder", left, right)
    return build.op("select", _is_off(build, left, right), build.op("add", remainder, right), remainder)


def _is_off(build: HloBuilder, left: Node, right: Node) -> Node:
    """Where truncated division is not floored division: the remainder is not zero and has the dividend's sign."""
    remainder = build.op("remainder", left, right)
    is_nonzero = build.compare("NE", remainder, build.like(0, remainder))
    signs = [build.compare("LT", value, build.like(0, value)) for value in (remainder, right)]
    return build.op("and", is_nonzero, build.compare("NE", signs[0], signs[1]))


@lowers("Mod")
def _remainder(primitive: Primitive) -> Node:
    """The remainder with the dividend's sign, as C has it."""
    return binary(primitive, "remainder")


@lowers("DivNoNan")
def _division_without_nan(primitive: Primitive) -> Node:
    left, right = operand_pair(primitive, result_type(primitive))
    build = primitive.build
    zero = build.like(0, right)
    return build.op("select", build.compare("EQ", right, zero), zero, build.op("divide", left, right))


@lowers("SquaredDifference")
def _squared_difference(primitive: Primitive) -> Node:
    difference = binary(primitive, "subtract")
    return primitive.build.op("multiply", difference, difference)


# Comparisons

for _name, _direction in {
    "Equal": "EQ",
    "EqScalar": "EQ",
    "ScalarEq": "EQ",
    "NotEqual": "NE",
    "NeScalar": "NE",
    "Less": "LT",
    "ScalarLt": "LT",
    "LessEqual": "LE",
    "ScalarLe": "LE",
    "Greater": "GT",
    "ScalarGt": "GT",
    "GreaterEqual": "GE",
    "ScalarGe": "GE",
    "LessScalar": "LT",
    "GreaterEqualScalar": "GE",
}.items():
    lowers(_name)(lambda primitive, direction=_direction: _comparison(primitive, direction))


def _comparison(primitive: Primitive, direction: str) -> Node:
    left, right = operand_pair(primitive, common_type(primitive, primitive.operands[:2]))
    return primitive.build.compare(direction, left, right)


@lowers("LogicalAnd", "LogicalOr", "LogicalXor")
def _logical(primitive: Primitive) -> Node:
    return binary(primitive, primitive.node.opcode.removeprefix("mindir.Logical").lower(), PRED)


@lowers("LogicalNot", "BoolNot")
def _not(primitive: Primitive) -> Node:
    return primitive.build.op("not", primitive.array(0, PRED))


# Functions of one array


def relu(build: HloBuilder, x: Node) -> Node:
    """The positive part."""
    return build.op("maximum", x, build.like(0, x))


def tanh_gelu(build: HloBuilder, x: Node) -> Node:
    """0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    cube = build.op("multiply", build.op("multiply", x, x), x)
    inner = build.op("add", x, build.op("multiply", cube, build.like(0.044715, x)))
    bent = build.op("tanh", build.op("multiply", inner, build.like(math.sqrt(2 / math.pi), x)))
    half = build.op("multiply", x, build.like(0.5, x))
    return build.op("multiply", half, build.op("add", bent, build.like(1, x)))


def erf_gelu(build: HloBuilder, x: Node) -> Node:
    """0.5 * x * (1 + erf(x / sqrt 2))."""
    bent = build.op("erf", build.op("multiply", x, build.like(math.sqrt(0.5), x)))
    half = build.op("multiply", x, build.like(0.5, x))
    return build.op("multiply", half, build.op("add", bent, build.like(1, x)))


def _relu6(build: HloBuilder, x: Node) -> Node:
    return build.op("minimum", relu(build, x), build.like(6, x))


def _hard_sigmoid(build: HloBuilder, x: Node) -> Node:
    """max(0, min(1, (x + 3) / 6))."""
    shifted = build.op("divide", build.op("add", x, build.like(3, x)), build.like(6, x))
    return build.op("minimum", relu(build, shifted), build.like(1, x))


def _hard_swish(build: HloBuilder, x: Node) -> Node:
    """x * max(0, min(6, x + 3)) / 6, divided last: whole numbers are too."""
    bounded = _relu6(build, build.op("add", x, build.like(3, x)))
    return build.op("divide", build.op("multiply", x, bounded), build.like(6, x))


def _absolute(build: HloBuilder, x: Node) -> Node:
    element = tensor(x).dtype
    return x if element is PRED or element.name.startswith("u") else build.op("abs", x)


def _is_finite(build: HloBuilder, x: Node) -> Node:
    element = tensor(x).dtype
    return build.op("is-finite", x) if element.is_float else build.constant(True, tensor(x).with_dtype(PRED))


def _reciprocal(build: HloBuilder, x: Node) -> Node:
    return build.op("divide", build.like(1, x), x)


def softplus(build: HloBuilder, x: Node) -> Node:
    """log(1 + exp(x)), without overflow."""
    small = build.op("log-plus-one", build.op("exponential", build.op("negate", build.op("abs", x))))
    return build.op("add", relu(build, x), small)


def _of(opcode: str) -> Unary:
    return lambda build, x: build.op(opcode, x)


UNARY: dict[str, Unary] = {
    "ReLU": relu,
    "ReLU6": _relu6,
    "GeLU": tanh_gelu,
    "HSigmoid": _hard_sigmoid,
    "HSwish": _hard_swish,
    "Sigmoid": _of("logistic"),
    "SiLU": lambda build, x: build.op("multiply", x, build.op("logistic", x)),
    "Softplus": softplus,
    "Mish": lambda build, x: build.op("multiply", x, build.op("tanh", softplus(build, x))),
    "Tanh": _of("tanh"),
    "Exp": _of("exponential"),
    "Expm1": _of("exponential-minus-one"),
    "Log": _of("log"),
    "Log1p": _of("log-plus-one"),
    "Sqrt": _of("sqrt"),
    "Rsqrt": _of("rsqrt"),
    "Reciprocal": _reciprocal,
    "Inv": _reciprocal,
    "Square": lambda build, x: build.op("multiply", x, x),
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
    "Atan": lambda build, x: build.op("atan2", x, build.like(1, x)),
    "Erf": _of("erf"),
    "IsFinite": _is_finite,
    "IsNan": lambda build, x: build.compare("NE", x, x),
    "ZerosLike": lambda build, x: build.like(0, x),
    "OnesLike": lambda build, x: build.like(1, x),
    "Identity": lambda build, x: x,
    "Copy": lambda build, x: x,
    "TensorMove": lambda build, x: x,
    "BitwiseNot": _of("not"),
}
"""Functions of one array, by primitive."""

_FLOAT_RESULTS = {"Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Rsqrt", "Reciprocal", "Sin", "Cos", "Erf", "Log1p", "Expm1"}

for _name, _function in UNARY.items():
    lowers(_name)(lambda primitive, function=_function, name=_name: _unary(primitive, function, name))


def _unary(primitive: Primitive, function: Unary, name: str) -> Node:
    x = primitive.x
    if name in _FLOAT_RESULTS and primitive.result is not None:
        x = primitive.build.convert(x, primitive.result.dtype)
    return function(primitive.build, x)


@lowers("Round")
def _round(primitive: Primitive) -> Node:
    """Round to this many decimals, ties to even."""
    build, x = primitive.build, primitive.x
    decimals = primitive.static(1, 0)
    if not tensor(x).dtype.is_float:
        return x
    if not decimals:
        return build.op("round-nearest-even", x)
    factor = build.like(10.0**decimals, x)
    return build.op("divide", build.op("round-nearest-even", build.op("multiply", x, factor)), factor)


@lowers("Trunc")
def _truncated(primitive: Primitive) -> Node:
    build, x = primitive.build, primitive.x
    if not tensor(x).dtype.is_float:
        return x
    below = build.compare("LT", x, build.like(0, x))
    return build.op("select", below, build.op("ceil", x), build.op("floor", x))


@lowers("SoftplusExt")
def _scaled_softplus(primitive: Primitive) -> Node:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above a threshold: (x, beta, threshold)."""
    build, x = primitive.build, primitive.x
    beta, threshold = primitive.static(1, 1), primitive.static(2, 20)
    scaled = build.op("multiply", x, build.like(beta, x))
    bent = build.op("divide", softplus(build, scaled), build.like(beta, x))
    return build.op("select", build.compare("GT", scaled, build.like(threshold, x)), x, bent)


@lowers("GeluExt")
def _gelu(primitive: Primitive) -> Node:
    """With `approximate` "tanh" or 1 the one with tanh."""
    approximate = primitive.static(1, "none")
    function = tanh_gelu if approximate in ("tanh", 1) else erf_gelu
    return function(primitive.build, primitive.x)


@lowers("LeakyReLUExt")
def _leaky_relu(primitive: Primitive) -> Node:
    build, x = primitive.build, primitive.x
    slope = primitive.static(1, 0.01)
    scaled = build.op("multiply", x, build.like(slope, x))
    return build.op("select", build.compare("GT", x, build.like(0, x)), x, scaled)


@lowers("Elu", "EluExt")
def _elu(primitive: Primitive) -> Node:
    build, x = primitive.build, primitive.x
    alpha = primitive.static(1, 1.0)
    low = build.op("multiply", build.op("exponential-minus-one", x), build.like(alpha, x))
    return build.op("select", build.compare("GT", x, build.like(0, x)), x, low)


@lowers("ClampScalar", "ClampTensor", "ClipByValue")
def _clamp(primitive: Primitive) -> Node:
    """Between two bounds, of which one may be None; the upper one wins."""
    element = result_type(primitive)
    result = primitive.array(0, element)
    for index, opcode in ((1, "maximum"), (2, "minimum")):
        bound = primitive.operands[index]
        if isinstance(bound, (Node, Number)):
            array = primitive.array(index, element)
            result = primitive.build.op(opcode, result, primitive.build.stretch(array, tensor(result).dims))
    return result


# Types and choices


@lowers("Cast", "ScalarCast")
def _cast(primitive: Primitive) -> Node:
    """As C converts: floats towards zero, to small integers by way of s32; bools are what is not zero."""
    wanted = primitive.static(1)
    element = DATA_TYPES.get(wanted) if isinstance(wanted, str) else TYPE_IDS.get(wanted)
    if element is None and primitive.result is not None:
        element = primitive.result.dtype
    if element is None:
        raise primitive.error(f"{wanted} is not an element type that can be computed with")
    x = primitive.x
    if element is PRED and tensor(x).dtype is not PRED:
        return primitive.build.compare("NE", x, primitive.build.like(0, x))
    if tensor(x).dtype.is_float and element.is_integer and element.bits < S32.bits:
        x = primitive.build.convert(x, S32)
    return primitive.build.convert(x, element)


@lowers("ScalarBool")
def _as_bool(primitive: Primitive) -> Node:
    return primitive.build.compare("NE", primitive.x, primitive.build.like(0, primitive.x))


@lowers("ScalarToTensor", "TensorToScalar")
def _as_tensor(primitive: Primitive) -> Node:
    element = primitive.result.dtype if primitive.result is not None else None
    return primitive.build.reshape(primitive.array(0, element), ())


@lowers("Select")
def _select(primitive: Primitive) -> Node:
    build = primitive.build
    element = primitive.result.dtype if primitive.result else common_type(primitive, primitive.operands[1:])
    operands = [primitive.array(0, PRED), primitive.array(1, element), primitive.array(2, element)]
    dims = broadcast_dims(primitive, operands)
    return build.op("select", *[build.stretch(operand, dims) for operand in operands])


@lowers("MaskedFill", "MaskedFillScalar")
def _masked_fill(primitive: Primitive) -> Node:
    """A number where the mask is set."""
    build, x = primitive.build, primitive.x
    mask, value = primitive.array(1, PRED), primitive.array(2, tensor(x).dtype)
    dims = broadcast_dims(primitive, (x, mask))
    value = build.broadcast(build.reshape(value, ()), dims, ())
    return build.op("select", build.stretch(mask, dims), value, build.stretch(x, dims))


@lowers("BiasAdd")
def _bias_add(primitive: Primitive) -> Node:
    """A bias per channel: dimension 1 for NCHW, the last one for NHWC."""
    build, x = primitive.build, primitive.x
    dims = tensor(x).dims
    axis = len(dims) - 1 if data_format(primitive, 2) == "NHWC" else 1
    return build.op("add", x, build.broadcast(primitive.array(1, tensor(x).dtype), dims, (axis,)))


@lowers("BiasAddGrad")
def _bias_gradient(primitive: Primitive) -> Node:
    """The sum over all dimensions but the channel's."""
    x = primitive.x
    rank = tensor(x).rank
    axis = rank - 1 if rank < 3 or data_format(primitive, 1) == "NHWC" else 1
    return primitive.build.reduce("add", x, [dim for dim in range(rank) if dim != axis])


@lowers("ReluGrad")
def _relu_gradient(primitive: Primitive) -> Node:
    """(gradient, output): the gradient where the output is positive."""
    build, output = primitive.build, primitive.array(1)
    is_positive = build.compare("GT", output, build.like(0, output))
    return build.op("select", is_positive, primitive.x, build.like(0, primitive.x))


@lowers("TanhGrad")
def _tanh_gradient(primitive: Primitive) -> Node:
    """(output, gradient): gradient * (1 - output^2)."""
    build, output = primitive.build, primitive.x
    square = build.op("multiply", output, output)
    return build.op("multiply", primitive.array(1), build.op("subtract", build.like(1, output), square))


@lowers("SigmoidGrad")
def _sigmoid_gradient(primitive: Primitive) -> Node:
    """(output, gradient): gradient * output * (1 - output)."""
    build, output = primitive.build, primitive.x
    slope = build.op("multiply", output, build.op("subtract", build.like(1, output), output))
    return build.op("multiply", primitive.array(1), slope)


FORMATS = {0: "NCHW", 1: "NHWC", 2: "NHWC4", 3: "HWKC", 4: "HWCK", 11: "NCDHW"}
"""Data formats by number. Source: mindapi/base/format.h."""


def data_format(primitive: Primitive, index: int) -> str:
    """The data format that an operand or the attribute `format` says: NCHW or NHWC."""
    given = primitive.static(index) if index < len(primitive.operands) else primitive.attribute("format", "NCHW")
    name = FORMATS.get(given, str(given)) if isinstance(given, int) else (given or "NCHW")
    if name not in ("NCHW", "NHWC", "NCDHW"):
        raise primitive.error(f"the data format {name} has no lowering")
    return name
