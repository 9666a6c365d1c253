"""The functions of cmath: their values on both sides of branch cuts, and Python's errors."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.builtin_functions.table import BUILTINS, Handler, by_prelude, row
from hloom.functions.prelude import isclose, polar, rect
from hloom.functions.values import AbstractValue, Arguments, Array, Const, Keywords, described

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

Emitting = Any
"""An emitter of instructions."""
Part = Callable[[Emitting, Any, Any], Any]
"""Of the two parts of a number, whether it is outside a function's domain."""


@dataclass(frozen=True, slots=True)
class ComplexFunction:
    """A function by NumPy's name: what is outside its domain, whether it overflows, and the signs of its parts.

    `signs` say for the real and the imaginary part whose sign each has: "re" or "im" of the argument, "-im" the other
    one. Computed values have them but on a branch cut, whose side the sign of a zero decides. `keeps_zero` says that
    zero is itself, with its signs.
    """

    numpy: str
    outside: Part | None = None
    overflows: bool = False
    signs: tuple[str, str] = ("", "")
    keeps_zero: bool = False


def _infinite(emitter: Emitting, part: Any) -> Any:
    return emitter.compare("EQ", emitter.op("abs", part), emitter.like(math.inf, part))


def _is_number(emitter: Emitting, part: Any) -> Any:
    return emitter.compare("EQ", part, part)


def _and(emitter: Emitting, one: Any, other: Any) -> Any:
    return emitter.elementwise("and", one, other)


def _real_at_infinity(emitter: Emitting, real: Any, imaginary: Any) -> Any:
    return _and(emitter, _infinite(emitter, real), _is_number(emitter, imaginary))


def _imaginary_at_infinity_alone(emitter: Emitting, real: Any, imaginary: Any) -> Any:
    return _and(emitter, _infinite(emitter, imaginary), emitter.op("is-finite", real))


def _turns_without_end(emitter: Emitting, real: Any, imaginary: Any) -> Any:
    is_above = emitter.compare("GT", real, emitter.like(-math.inf, real))
    return _and(emitter, _infinite(emitter, imaginary), is_above)


def _zero(emitter: Emitting, real: Any, imaginary: Any) -> Any:
    zero = emitter.like(0.0, real)
    return _and(emitter, emitter.compare("EQ", real, zero), emitter.compare("EQ", imaginary, zero))


def _one(emitter: Emitting, real: Any, imaginary: Any) -> Any:
    is_one = emitter.compare("EQ", emitter.op("abs", real), emitter.like(1.0, real))
    return _and(emitter, is_one, emitter.compare("EQ", imaginary, emitter.like(0.0, real)))


def _swapped(test: Part) -> Part:
    """A test of the two parts in each other's place."""
    return lambda emitter, real, imaginary: test(emitter, imaginary, real)


FUNCTIONS = {
    "acos": ComplexFunction("arccos", signs=("", "-im")),
    "acosh": ComplexFunction("arccosh", signs=("", "im")),
    "asin": ComplexFunction("arcsin", signs=("re", "im")),
    "asinh": ComplexFunction("arcsinh", signs=("re", "im")),
    "atan": ComplexFunction("arctan", _swapped(_one), signs=("re", "im")),
    "atanh": ComplexFunction("arctanh", _one, signs=("re", "im")),
    "cos": ComplexFunction("cos", _real_at_infinity, True),
    "cosh": ComplexFunction("cosh", _swapped(_real_at_infinity), True),
    "exp": ComplexFunction("exp", _turns_without_end, True),
    "log": ComplexFunction("log", _zero),
    "log10": ComplexFunction("log10", _zero),
    "phase": ComplexFunction("angle"),
    "sin": ComplexFunction("sin", _real_at_infinity, True, keeps_zero=True),
    "sinh": ComplexFunction("sinh", _swapped(_real_at_infinity), True, keeps_zero=True),
    "sqrt": ComplexFunction("sqrt", signs=("", "im")),
    "tan": ComplexFunction("tan", _swapped(_imaginary_at_infinity_alone), keeps_zero=True),
    "tanh": ComplexFunction("tanh", _imaginary_at_infinity_alone, keeps_zero=True),
}


def _handler(name: str, function: ComplexFunction) -> Handler:
    def apply(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        if len(arguments) == 2:
            logarithms = [interpreter.calls.call(Const(cmath.log), [value], {}) for value in arguments]
            return interpreter.operators.binary("/", *logarithms)
        node = _complex(interpreter, arguments[0], name)
        emitter = interpreter.emitter
        parts = emitter.op("real", node), emitter.op("imag", node)
        if function.outside is not None:
            inside = emitter.elementwise("not", function.outside(emitter, *parts))
            interpreter.check(inside, ValueError, "math domain error")
        made = interpreter.numbers.array(interpreter.library.call(getattr(np, function.numpy), [Array(node)], {}))
        if function.overflows:
            fits = emitter.elementwise("not", _any(emitter, _infinite, made.node))
            unbounded = emitter.elementwise("not", interpreter.numbers.is_finite(node))
            interpreter.check(emitter.elementwise("or", fits, unbounded), OverflowError, "math range error")
        result = _signed(emitter, made.node, parts, function.signs)
        if function.keeps_zero:
            result = emitter.select(_zero(emitter, *parts), node, result)
        return Array(result, True)

    return apply


def _complex(interpreter: Interpreter, value: AbstractValue, name: str) -> Any:
    array = interpreter.numbers.array(value) if isinstance(value, (Array, Const)) else None
    if array is None or array.type.element_count != 1:
        interpreter.raise_error(TypeError, f"cmath.{name} takes numbers, not {described(value)}")
    node = interpreter.emitter.reshape(array.node, ()) if array.dims else array.node
    return interpreter.numbers.convert(node, interpreter.numbers.of_python[complex])


def _signed(emitter: Emitting, node: Any, parts: tuple[Any, Any], signs: tuple[str, str]) -> Any:
    """A result whose parts have the signs that the argument's parts give them."""
    if signs == ("", ""):
        return node
    table = {"re": parts[0], "im": parts[1], "-im": emitter.neg(parts[1])}
    rows = zip((emitter.op("real", node), emitter.op("imag", node)), signs, strict=True)
    return emitter.op("complex", *(part if not sign else _copied(emitter, part, table[sign]) for part, sign in rows))


def _copied(emitter: Emitting, part: Any, sign: Any) -> Any:
    """A number with the sign of another, that of a zero too."""
    zero = emitter.like(0.0, sign)
    is_below = emitter.compare("LT", emitter.div(emitter.like(1.0, sign), sign), zero)
    negative = emitter.elementwise("or", emitter.compare("LT", sign, zero), is_below)
    size = emitter.op("abs", part)
    return emitter.select(negative, emitter.neg(size), size)


def _any(emitter: Emitting, test: Callable[[Emitting, Any], Any], node: Any) -> Any:
    return emitter.elementwise("or", *(test(emitter, emitter.op(part, node)) for part in ("real", "imag")))


def _test(name: str) -> Handler:
    tests = {"isinf": _infinite, "isnan": lambda emitter, part: emitter.compare("NE", part, part)}

    def apply(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        node = _complex(interpreter, arguments[0], name)
        if name == "isfinite":
            return Array(interpreter.numbers.is_finite(node), True)
        return Array(_any(interpreter.emitter, tests[name], node), True)

    return apply


@row(cmath.polar)
def polar_coordinates(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    number = Array(_complex(interpreter, arguments[0], "polar"), True)
    return interpreter.calls.call(interpreter.embed(polar), [number], {})


for _name, _function in FUNCTIONS.items():
    BUILTINS[getattr(cmath, _name)] = _handler(_name, _function)
for _name in ("isfinite", "isinf", "isnan"):
    BUILTINS[getattr(cmath, _name)] = _test(_name)
BUILTINS[cmath.rect], BUILTINS[cmath.isclose] = by_prelude(rect), by_prelude(isclose)
