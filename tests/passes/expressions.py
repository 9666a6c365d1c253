"""Small random expressions of elementwise ops with edge values as constants, many in one module, and inputs for them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np

from hloom.ir import DTYPES, DTypeKind
from hloom.ir.number_conversion import integer_range
from tests.evaluator.batches import every_pair
from tests.evaluator.edge_programs import edges

_ROUNDING = ("abs", "ceil", "floor", "negate", "round-nearest-afz", "round-nearest-even", "sign", "real", "sqrt", "rsqrt")
_CURVES = (
    "cbrt", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "cosine", "sine", "tan", "tanh",
)  # fmt: skip
_ARITHMETIC = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder")
_BITS = ("and", "or", "xor", "shift-left", "shift-right-logical", "shift-right-arithmetic")
_UNARY = {
    DTypeKind.BOOLEAN: ("not",),
    DTypeKind.SIGNED: ("negate", "not", "popcnt", "count-leading-zeros", "abs", "sign"),
    DTypeKind.UNSIGNED: ("negate", "not", "popcnt", "count-leading-zeros"),
    DTypeKind.FLOAT: (*_ROUNDING, *_CURVES),
    DTypeKind.COMPLEX: ("negate", "sign", "exponential", "log", "sqrt", "rsqrt", "tanh", "sine", "cosine"),
}
_BINARY = {
    DTypeKind.BOOLEAN: ("and", "or", "xor", "maximum", "minimum", "add", "multiply"),
    DTypeKind.SIGNED: (*_ARITHMETIC, *_BITS),
    DTypeKind.UNSIGNED: (*_ARITHMETIC, *_BITS),
    DTypeKind.FLOAT: (*_ARITHMETIC, "atan2"),
    DTypeKind.COMPLEX: ("add", "subtract", "multiply", "divide", "power"),
}
_CONSTANTS = {
    DTypeKind.BOOLEAN: ("true", "false"),
    DTypeKind.FLOAT: ("0", "-0.0", "1", "-1", "0.5", "-0.5", "2", "-2", "3", "0.25", "4", "inf", "-inf", "nan"),
    DTypeKind.COMPLEX: ("(0,0)", "(-0.0,0)", "(1,0)", "(-1,0)", "(0,1)", "(2,0)", "(0.5,0)", "(nan,0)", "(inf,0)"),
}
_BETWEEN = ("s4", "s8", "s32", "u8", "u32", "f16", "bf16", "f32", "f64", "pred")
"""Types that a value is converted to, and back."""
_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


@dataclass(frozen=True, slots=True)
class Expressions:
    """A module that yields many expressions of x, y and p; the text of each, and inputs: all pairs of edge values."""

    text: str
    parts: list[str]
    inputs: list[np.ndarray]


def expressions(dtype: str, seed: int, count: int = 25) -> Expressions:
    """Expressions of one to four ops of elements of one type."""
    random = Random(f"{dtype} {seed}")
    inputs = every_pair(edges(dtype))
    inputs.append(np.arange(inputs[0].size) * 7 % 3 == 0)
    writers = [_Writer(random, dtype, inputs[0].size, f"e{number}.") for number in range(count)]
    size = f"[{inputs[0].size}]"
    lines = [f"x = {dtype}{size} parameter(0)", f"y = {dtype}{size} parameter(1)", f"p = pred{size} parameter(2)"]
    parts = ["\n  ".join(writer.lines) for writer in writers]
    lines += [*parts, f"ROOT all = tuple({', '.join(writer.last for writer in writers)})"]
    return Expressions("HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}\n", parts, inputs)


class _Writer:
    """Writes one expression, line by line."""

    def __init__(self, random: Random, dtype: str, size: int, prefix: str) -> None:
        self.random, self.dtype, self.prefix = random, dtype, prefix
        self.dims = f"[{size}]"
        self.kind = DTYPES[dtype].kind
        self.lines: list[str] = []
        self.last = ""
        self._values, self._truths = ["x", "y"], ["p"]
        for _ in range(random.randint(1, 4)):
            self._write()

    def _write(self) -> None:
        chance = self.random.random()
        if chance < 0.5:
            self._keep(f"{self.random.choice(_BINARY[self.kind])}({self._value()}, {self._value()})")
        elif chance < 0.68:
            self._keep(f"{self.random.choice(_UNARY[self.kind])}({self._value()})")
        elif chance < 0.76:
            direction = self.random.choice(_DIRECTIONS[: 2 if self.kind is DTypeKind.COMPLEX else 6])
            if self.kind is DTypeKind.FLOAT and self.random.random() < 0.15:  # of inputs: nothing says a made NaN's sign
                self._keep(f"compare(x, y), direction={direction}, type=TOTALORDER", "pred")
            else:
                self._keep(f"compare({self._value()}, {self._value()}), direction={direction}", "pred")
        elif chance < 0.84:
            self._keep(f"select({self._truth()}, {self._value()}, {self._value()})")
        elif chance < 0.89 and self.kind is not DTypeKind.COMPLEX:
            self._keep(f"clamp({self._value()}, {self._value()}, {self._value()})")
        elif chance < 0.94 and self.kind is not DTypeKind.COMPLEX:
            between = self._line(f"convert({self._value()})", self.random.choice(_BETWEEN))
            self._keep(f"convert({between})")
        else:
            opcode = self.random.choice(("not", "and", "or", "xor"))
            operands = [self._truth() for _ in range(1 if opcode == "not" else 2)]
            self._keep(f"{opcode}({', '.join(operands)})", "pred")

    def _keep(self, text: str, dtype: str = "") -> None:
        self.last = self._line(text, dtype or self.dtype)
        (self._truths if dtype == "pred" else self._values).append(self.last)

    def _line(self, text: str, dtype: str, dims: str | None = None) -> str:
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {dtype}{self.dims if dims is None else dims} {text}")
        return name

    def _value(self) -> str:
        if self.random.random() < 0.35:
            constant = self._line(f"constant({self.random.choice(self._constants())})", self.dtype, "[]")
            return self._line(f"broadcast({constant}), dimensions={{}}", self.dtype)
        return self.random.choice([*self._values[-3:], "x", "y"])

    def _truth(self) -> str:
        return self.random.choice(self._truths)

    def _constants(self) -> list[str]:
        element = DTYPES[self.dtype]
        if element.is_integer:
            least, greatest = integer_range(element)
            numbers = (0, 1, 2, 3, 4, 7, 8, 31, 32, -1, -2, least, least + 1, greatest)
            return [str(number) for number in numbers if least <= number <= greatest]
        known = list(_CONSTANTS[self.kind])
        has_infinity = not element.is_float or np.isinf(np.array(np.inf).astype(element.numpy))
        return known if has_infinity else [text for text in known if "inf" not in text]
