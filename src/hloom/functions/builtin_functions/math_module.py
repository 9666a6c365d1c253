"""The functions of math, with the errors that they raise outside their domains."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.builtin_functions.table import BUILTINS, Handler, by_prelude, row
from hloom.functions.prelude import MATH_PRELUDE
from hloom.functions.values import PREDICATE, AbstractValue, Arguments, Array, Const, Keywords, described
from hloom.ir import TensorType

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


def _math(name: str, opcode: str | None, check: Callable[[Interpreter, Any], None] | None = None) -> Handler:
    def apply(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        nodes = [_real(interpreter, value, name) for value in arguments]
        if check is not None:
            check(interpreter, nodes)
        if opcode is not None:
            return Array(interpreter.emitter.elementwise(opcode, *nodes), True)
        made = interpreter.numbers.array(
            interpreter.library.call(getattr(np, _NUMPY_NAMES.get(name, name)), [Array(node) for node in nodes], {})
        )
        return Array(interpreter.numbers.convert(made.node, interpreter.numbers.of_python[float]), True)

    return apply


def _real(interpreter: Interpreter, value: AbstractValue, name: str) -> Any:
    """A real number as a float of Python's."""
    array = interpreter.numbers.array(value) if isinstance(value, (Array, Const)) else None
    if array is None or array.type.element_count != 1 or array.dtype.is_complex:
        interpreter.raise_error(TypeError, f"math.{name} takes real numbers, not {described(value)}")
    node = interpreter.emitter.reshape(array.node, ()) if array.dims else array.node
    return interpreter.numbers.convert(node, interpreter.numbers.of_python[float])


_NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
                "atanh": "arctanh"}  # fmt: skip


def _fmod_check(interpreter: Interpreter, nodes: Any) -> None:
    """Raise ValueError for an infinite dividend or a zero divisor, unless either is NaN."""
    emitter = interpreter.emitter
    x, y = nodes
    is_number = emitter.elementwise("and", emitter.compare("EQ", x, x), emitter.compare("EQ", y, y))
    infinite = emitter.compare("EQ", emitter.op("abs", x), emitter.like(math.inf, x))
    wrong = emitter.elementwise("or", infinite, emitter.compare("EQ", y, emitter.like(0.0, y)))
    fine = emitter.elementwise("not", emitter.elementwise("and", wrong, is_number))
    interpreter.check(fine, ValueError, "math domain error")


def _domain(test: Callable[[Any, Any], Any]) -> Callable[[Interpreter, Any], None]:
    def check(interpreter: Interpreter, nodes: Any) -> None:
        emitter = interpreter.emitter
        inside = test(emitter, nodes[0])
        is_nan = emitter.compare("NE", nodes[0], nodes[0])
        interpreter.check(emitter.elementwise("or", inside, is_nan), ValueError, "math domain error")

    return check


def _range_check(name: str) -> Callable[[Interpreter, Any], None]:
    """Where a finite argument gives an infinite result, Python raises OverflowError."""
    largest = {"exp": 709.782712893384, "expm1": 709.782712893384, "cosh": 710.4758600739439, "sinh": 710.4758600739439}

    def check(interpreter: Interpreter, nodes: Any) -> None:
        emitter = interpreter.emitter
        (node,) = nodes
        size = emitter.op("abs", node) if name in ("sinh", "cosh") else node
        bound = largest[name] if interpreter.numbers.of_python[float].name == "f64" else 88.72283
        fits = emitter.compare("LE", size, emitter.like(bound, node))
        other = emitter.elementwise("not", emitter.op("is-finite", node))
        interpreter.check(emitter.elementwise("or", fits, other), OverflowError, "math range error")

    return check


_POSITIVE = _domain(lambda emitter, x: emitter.compare("GT", x, emitter.like(0.0, x)))
_NOT_NEGATIVE = _domain(lambda emitter, x: emitter.compare("GE", x, emitter.like(0.0, x)))
_UNIT = _domain(lambda emitter, x: emitter.compare("LE", emitter.op("abs", x), emitter.like(1.0, x)))
_INSIDE_UNIT = _domain(lambda emitter, x: emitter.compare("LT", emitter.op("abs", x), emitter.like(1.0, x)))
_FROM_ONE = _domain(lambda emitter, x: emitter.compare("GE", x, emitter.like(1.0, x)))
_ABOVE_MINUS_ONE = _domain(lambda emitter, x: emitter.compare("GT", x, emitter.like(-1.0, x)))
_FINITE = _domain(lambda emitter, x: emitter.op("is-finite", x))
for _name, _opcode, _check in (
    ("sqrt", "sqrt", _NOT_NEGATIVE), ("exp", "exponential", _range_check("exp")), ("sin", "sine", _FINITE),
    ("cos", "cosine", _FINITE), ("tan", "tan", _FINITE), ("tanh", "tanh", None),
    ("log1p", "log-plus-one", _ABOVE_MINUS_ONE),
    ("expm1", "exponential-minus-one", _range_check("expm1")), ("atan2", "atan2", None), ("cbrt", "cbrt", None),
    ("fabs", "abs", None), ("log2", None, _POSITIVE), ("log10", None, _POSITIVE), ("asin", None, _UNIT),
    ("acos", None, _UNIT), ("atan", None, None), ("sinh", None, _range_check("sinh")),
    ("cosh", None, _range_check("cosh")),
    ("asinh", None, None), ("acosh", None, _FROM_ONE), ("atanh", None, _INSIDE_UNIT), ("copysign", None, None),
    ("degrees", None, None), ("radians", None, None), ("fmod", "remainder", _fmod_check),
):  # fmt: skip
    BUILTINS[getattr(math, _name)] = _math(_name, _opcode, _check)


def _special(name: str) -> Handler:
    def apply(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        given = interpreter.numbers.array(arguments[0], interpreter.numbers.of_python[float]).node
        is_gamma = name in ("gamma", "lgamma")
        if is_gamma:
            _check_pole(interpreter, given, name)
        made = interpreter.numbers.array(interpreter.library.call(getattr(math, name), [Array(given)], {}))
        if is_gamma:
            _check_overflow(interpreter, made.node, given)
        return Array(made.node, True)

    return apply


for _name in ("erf", "erfc", "gamma", "lgamma"):
    BUILTINS[getattr(math, _name)] = _special(_name)


def _check_pole(interpreter: Interpreter, node: Any, name: str) -> None:
    """The gamma function has poles at zero and at the whole numbers below, and no limit at -infinity."""
    emitter = interpreter.emitter
    is_integral = emitter.compare("EQ", emitter.elementwise("floor", node), node)
    wrong = emitter.elementwise("and", is_integral, emitter.compare("LE", node, emitter.like(0.0, node)))
    if name == "lgamma":
        wrong = emitter.elementwise("and", wrong, emitter.op("is-finite", node))
    interpreter.check(emitter.elementwise("not", wrong), ValueError, "math domain error")


def _check_overflow(interpreter: Interpreter, result: Any, *operands: Any) -> None:
    """Raise OverflowError for an infinite result of finite operands."""
    emitter = interpreter.emitter
    fits = emitter.compare("NE", emitter.op("abs", result), emitter.like(math.inf, result))
    for operand in operands:
        fits = emitter.elementwise("or", fits, emitter.elementwise("not", emitter.op("is-finite", operand)))
    interpreter.check(fits, OverflowError, "math range error")


_LOG = _math("log", "log", _POSITIVE)


@row(math.log)
def logarithm(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    if len(arguments) == 1:
        return _LOG(interpreter, arguments, keywords)
    logarithms = [interpreter.calls.call(Const(math.log), [value], {}) for value in arguments]
    return interpreter.operators.binary("/", *logarithms)


@row(math.pow)
def float_power(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    emitter = interpreter.emitter
    base, exponent = (_real(interpreter, value, "pow") for value in arguments)
    zero = emitter.like(0.0, base)
    is_zero = emitter.elementwise("and", emitter.compare("EQ", base, zero), emitter.compare("LT", exponent, zero))
    is_fraction = emitter.compare("NE", emitter.elementwise("floor", exponent), exponent)
    is_complex = emitter.elementwise("and", emitter.compare("LT", base, zero), is_fraction)
    wrong = emitter.elementwise("or", is_zero, is_complex)
    for node in (base, exponent):
        wrong = emitter.elementwise("and", wrong, emitter.op("is-finite", node))
    interpreter.check(emitter.elementwise("not", wrong), ValueError, "math domain error")
    made = emitter.elementwise("power", base, exponent)
    _check_overflow(interpreter, made, base, exponent)
    return Array(made, True)


@row(math.exp2)
def power_of_two(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return float_power(interpreter, [Const(2.0), *arguments], keywords)


def _to_integer(opcode: str | None) -> Handler:
    def apply(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        array = interpreter.numbers.array(arguments[0])
        if array.dtype.is_float and opcode is not None:
            array = Array(interpreter.emitter.elementwise(opcode, array.node), True)
        return interpreter.numbers.to_python(array, int)

    return apply


BUILTINS[math.floor], BUILTINS[math.ceil], BUILTINS[math.trunc] = map(_to_integer, ("floor", "ceil", None))


def _test(name: str) -> Handler:
    def apply(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        emitter, numbers = interpreter.emitter, interpreter.numbers
        node = numbers.convert(numbers.array(arguments[0]).node, numbers.of_python[float])
        if name == "isfinite":
            return Array(emitter.op("is-finite", node), True)
        is_nan = emitter.compare("NE", node, node)
        if name == "isnan":
            return Array(is_nan, True)
        other = emitter.elementwise("or", emitter.op("is-finite", node), is_nan)
        return Array(emitter.elementwise("not", other), True)

    return apply


for _name in ("isfinite", "isnan", "isinf"):
    BUILTINS[getattr(math, _name)] = _test(_name)


@row(math.prod)
def math_product(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    result: AbstractValue = keywords.get("start", Const(1))
    for item in interpreter.iterators.items(arguments[0]):
        result = interpreter.operators.binary("*", result, item)
    return result


@row(math.hypot)
def hypotenuse(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """The root of a sum of squares, scaled by the largest where those would over- or underflow."""
    emitter = interpreter.emitter
    nodes = [_real(interpreter, value, "hypot") for value in arguments]
    largest, is_infinite = emitter.like(0.0, nodes[0]), emitter.constant(False, TensorType(PREDICATE))
    for node in nodes:
        size = emitter.op("abs", node)
        largest = emitter.elementwise("maximum", largest, size)
        infinity = emitter.like(math.inf, size)
        is_infinite = emitter.elementwise("or", is_infinite, emitter.compare("EQ", size, infinity))
    reach = 2.0**500 if interpreter.numbers.of_python[float].name == "f64" else 2.0**60
    is_large = emitter.compare("GT", largest, emitter.like(reach, largest))
    is_small = emitter.compare("LT", largest, emitter.like(1 / reach, largest))
    is_plain = emitter.elementwise("or", is_infinite, emitter.compare("EQ", largest, emitter.like(0.0, largest)))
    one = emitter.like(1.0, largest)
    # No constant, whose square XLA would take apart from those of the numbers: (x c) (x c) -> (x x) (c c).
    size = emitter.select(emitter.elementwise("or", is_large, is_small), largest, one)
    size = emitter.select(is_plain, one, size)
    total = emitter.like(0.0, nodes[0])
    for node in nodes:
        scaled = emitter.div(node, size)
        total = emitter.add(total, emitter.mul(scaled, scaled))
    made = emitter.mul(emitter.elementwise("sqrt", total), size)
    return Array(emitter.select(is_infinite, emitter.like(math.inf, made), made), True)


for _name, _function in MATH_PRELUDE.items():
    BUILTINS[getattr(math, _name)] = by_prelude(_function)
