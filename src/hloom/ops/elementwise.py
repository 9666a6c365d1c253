"""Ops that work element by element: unary, binary, compare, select, conversions."""

from hloom.ir import AttributeKind, optional, required
from hloom.ops.rows import ENUM, INTEGER, row, table

_UNARY = (
    "abs ceil copy count-leading-zeros floor imag is-finite negate not opt-barrier popcnt real "
    "round-nearest-afz round-nearest-even sign"
)
_ACCURATE = (
    "acos acosh asin asinh atanh cbrt cosh cosine erf exponential exponential-minus-one log log-plus-one logistic "
    "rsqrt sine sinh sqrt tan tanh"
)
_BINARY = (
    "add add-dependency and atan2 complex divide maximum minimum mulhi multiply or power remainder shift-left "
    "shift-right-arithmetic shift-right-logical subtract xor"
)
_ACCURACY = {"result_accuracy": optional(AttributeKind.ACCURACY)}
DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
COMPARE_TYPES = ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")

ROWS = table(
    *(row(name, 1, omits_type=True) for name in _UNARY.split()),
    *(row(name, 1, _ACCURACY, omits_type=True) for name in _ACCURATE.split()),
    *(row(name, 2, omits_type=True) for name in _BINARY.split()),
    row("clamp", 3, omits_type=True),
    row("select", 3, omits_type=True),
    row("tuple-select", 3, omits_type=True),
    row(
        "compare",
        2,
        {"direction": required(ENUM, choices=DIRECTIONS), "type": optional(ENUM, choices=COMPARE_TYPES)},
        omits_type=True,
    ),
    row("convert", 1),
    row("bitcast-convert", 1),
    row("stochastic-convert", 2),
    row(
        "reduce-precision",
        1,
        {"exponent_bits": required(INTEGER), "mantissa_bits": required(INTEGER)},
    ),
)
