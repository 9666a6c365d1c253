"""Python's builtins on numbers: conversions, rounding, extremes, sums, tests over all items."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.builtin_functions.table import BUILTINS, Handler, row
from hloom.functions.iterators import is_iterator
from hloom.functions.prelude import all_true, any_true, power_modulo, round_beyond, round_integer, sum_from
from hloom.functions.values import (
    FALSE,
    NONE,
    PREDICATE,
    TRUE,
    AbstractValue,
    Arguments,
    Array,
    Const,
    Keywords,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    described,
    is_none,
    is_number,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

EXACT_DIGITS = 22
"""The largest power of ten that a float holds exactly."""
MOST_DECIMAL_DIGITS, MOST_WHOLE_DIGITS = 323, 308
"""Beyond this many digits, rounding returns the float itself or zero (CPython's `float___round___impl`)."""


@row(abs)
def absolute(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    (value,) = arguments
    if isinstance(value, Const):
        return Const(abs(value.value))
    if isinstance(value, Ref):
        method = interpreter.members.class_attribute(value, "__abs__")
        if method is not None:
            return interpreter.calls.call(method, [], {})
    return interpreter.numbers.absolute(value)


def _conversion(cls: type) -> Handler:
    def convert(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        if not arguments:
            return Const(cls())
        value, *rest = arguments
        if cls is int and rest and isinstance(value, Array):
            interpreter.raise_error(TypeError, "int() can't convert non-string with explicit base")
        if isinstance(value, ValueChoice):
            return interpreter.control.choices(value, lambda option: convert(interpreter, [option, *rest], keywords))
        if cls is bool:
            return interpreter.operators.truth_value(value)
        if cls is complex and rest:
            return _complex_of_parts(interpreter, value, rest[0])
        if isinstance(value, Const) and rest:
            with interpreter.errors_raised():
                return Const(cls(value.value, *(interpreter.static(item, "an argument") for item in rest)))
        if isinstance(value, Ref):
            method = interpreter.members.class_attribute(value, f"__{cls.__name__}__")
            if method is not None:
                return interpreter.calls.call(method, [], {})
        if not isinstance(value, (Array, Const)):
            interpreter.raise_error(TypeError, f"{cls.__name__}() takes a number, not {described(value)}")
        return interpreter.numbers.to_python(value, cls)

    return convert


def _complex_of_parts(interpreter: Interpreter, real: AbstractValue, imaginary: AbstractValue) -> AbstractValue:
    """`complex(a, b)`: real numbers are its parts, which a product with 1j would not keep; else it is a + b 1j."""
    if all(isinstance(part, Const) for part in (real, imaginary)):
        return interpreter.calls.known_call(complex, [real, imaginary], {})
    numbers = interpreter.numbers
    parts = [numbers.array(part) if isinstance(part, (Array, Const)) else None for part in (real, imaginary)]
    if any(part is None or part.dims or part.dtype.is_complex for part in parts):
        return interpreter.operators.binary("+", real, interpreter.operators.binary("*", imaginary, Const(1j)))
    nodes = [numbers.convert(part.node, numbers.of_python[float]) for part in parts if part is not None]
    return Array(interpreter.emitter.op("complex", *nodes), True)


for _cls in (bool, int, float, complex):
    BUILTINS[_cls] = _conversion(_cls)


@row(np.power)
def power_of_arrays(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """numpy.power: of integers with checks that jax's has not."""
    given = [interpreter.current(value) for value in arguments]
    are_numbers = all(isinstance(value, Array) or is_number(value) for value in given)
    if are_numbers and len(given) == 2 and not keywords and any(isinstance(value, Array) for value in given):
        element, weak = interpreter.numbers.promoted(given)
        if element.is_integer:
            if weak:
                given[0] = Array(interpreter.numbers.array(given[0], element).node)
            return interpreter.numbers.powers.power(*given)
    return interpreter.library.call(np.power, arguments, keywords)


@row(round)
def rounded(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    value, digits = arguments[0], [*arguments[1:], *keywords.values()]
    given = digits[0] if digits else NONE
    is_float = isinstance(given, Const) and given.value is not None and not hasattr(given.value, "__index__")
    if is_float or (isinstance(given, Array) and not given.dtype.is_integer):
        interpreter.raise_error(TypeError, f"{described(given)} cannot be interpreted as an integer")
    if isinstance(value, Const) and all(isinstance(item, Const) for item in digits):
        return interpreter.calls.known_call(round, [value, *digits], {})
    array = interpreter.numbers.array(value)
    emitter = interpreter.emitter
    if not array.weak:
        if array.dims or array.dtype is PREDICATE:
            cls = "ndarray" if array.dims else "bool"
            interpreter.raise_error(TypeError, f"type numpy.{cls} doesn't define __round__ method")
        if digits and not (isinstance(digits[0], Const) and digits[0].value is None):
            return interpreter.library.call(np.round, [array, *digits], {})
        array, digits = Array(array.node, True), []
    if array.dtype.is_integer or array.dtype is PREDICATE:
        whole = interpreter.numbers.array(array, interpreter.numbers.of_python[int])
        if (
            not digits
            or not isinstance(digits[0], Const)
            or not isinstance(digits[0].value, int)
            or digits[0].value >= 0
        ):
            return whole
        return _rounded_whole(interpreter, whole, -digits[0].value)
    if not digits or (isinstance(digits[0], Const) and digits[0].value is None):
        node = emitter.elementwise("round-nearest-even", array.node)
        return interpreter.numbers.to_python(Array(node, True), int)
    count = interpreter.static(digits[0], "the digits of round()")
    if isinstance(count, int) and (count > MOST_DECIMAL_DIGITS or count < -MOST_WHOLE_DIGITS):
        zero = emitter.mul(array.node, emitter.like(0.0, array.node))
        made = emitter.select(emitter.op("is-finite", array.node), zero, array.node)
        return array if count > 0 else Array(made, True)
    if not isinstance(count, int) or abs(count) > EXACT_DIGITS:
        interpreter.refuse(f"round() takes -{EXACT_DIGITS} to {EXACT_DIGITS} digits here")
    return Array((_rounded_decimal if count >= 0 else _rounded_to_tens)(interpreter, array, abs(count)), True)


def _rounded_whole(interpreter: Interpreter, whole: Array, digits: int) -> AbstractValue:
    """An integer rounded to tens, hundreds and so on."""
    largest = 2 ** (whole.dtype.bits - 1) - 1
    scale = 10 ** min(digits, 20)
    if scale <= largest:
        return interpreter.calls.call(interpreter.embed(round_integer), [whole, Const(scale)], {})
    if scale // 2 > largest:
        return interpreter.operators.binary("*", whole, Const(0))
    return interpreter.calls.call(interpreter.embed(round_beyond), [whole, Const(scale // 2)], {})


def _rounded_to_tens(interpreter: Interpreter, array: Array, digits: int) -> Any:
    """A float rounded to tens, hundreds and so on, ties to even: the rest by a power of ten is exact."""
    emitter, node = interpreter.emitter, array.node
    size, scale = emitter.op("abs", node), emitter.like(10.0**digits, node)
    rest = emitter.elementwise("remainder", size, scale)
    other = emitter.sub(scale, rest)
    is_tie = emitter.compare("EQ", rest, other)
    double_rest = emitter.elementwise("remainder", size, emitter.mul(scale, emitter.like(2.0, node)))
    is_odd = emitter.compare("GT", double_rest, scale)
    is_up = emitter.select(is_tie, is_odd, emitter.compare("GT", rest, other))
    rounded = emitter.select(is_up, emitter.add(size, other), emitter.sub(size, rest))
    is_finite = emitter.op("is-finite", node)
    fits = emitter.elementwise("or", emitter.op("is-finite", rounded), emitter.elementwise("not", is_finite))
    interpreter.check(fits, OverflowError, "rounded value too large to represent")
    signed = emitter.select(emitter.compare("LT", node, emitter.like(0.0, node)), emitter.neg(rounded), rounded)
    is_plain = emitter.elementwise("and", is_finite, emitter.compare("NE", node, emitter.like(0.0, node)))
    return emitter.select(is_plain, signed, node)


def _rounded_decimal(interpreter: Interpreter, array: Array, digits: int) -> Any:
    """The nearest decimal number of so many digits: ties are decided by an exact product, in two parts."""
    emitter = interpreter.emitter
    node = array.node
    scale = emitter.like(10.0**digits, node)
    product = emitter.mul(node, scale)
    split = emitter.like(134217729.0 if array.dtype.name == "f64" else 4097.0, node)

    def halves(value: Any) -> tuple[Any, Any]:
        large = emitter.mul(split, value)
        high = emitter.sub(large, emitter.sub(large, value))
        return high, emitter.sub(value, high)

    a_high, a_low = halves(node)
    b_high, b_low = halves(scale)
    error = emitter.sub(emitter.mul(a_high, b_high), product)
    for a, b in ((a_high, b_low), (a_low, b_high), (a_low, b_low)):
        error = emitter.add(error, emitter.mul(a, b))
    down = emitter.elementwise("floor", product)
    fraction = emitter.sub(product, down)
    half = emitter.like(0.5, node)
    exact_half = emitter.compare("EQ", fraction, half)
    nearest = emitter.elementwise("round-nearest-even", product)
    up = emitter.add(down, emitter.like(1.0, node))
    zero = emitter.like(0.0, node)
    above, below = emitter.compare("GT", error, zero), emitter.compare("LT", error, zero)
    decided = emitter.select(above, up, emitter.select(below, down, nearest))
    whole = emitter.select(exact_half, decided, nearest)
    # XLA multiplies by the inverse of a constant, which rounds twice: the divisor is not a constant to it.
    divisor = emitter.add(scale, emitter.mul(node, zero))
    result = emitter.div(whole, divisor)
    signed = emitter.select(emitter.compare("EQ", result, zero), emitter.mul(node, zero), result)
    limit = 9007199254740992.0 if array.dtype.name == "f64" else 16777216.0  # beyond, a float has no further digits
    is_small = emitter.compare("LT", emitter.op("abs", product), emitter.like(limit, node))
    return emitter.select(is_small, signed, node)


@row(pow)
def power(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    if len(arguments) == 3:
        if all(isinstance(value, Const) for value in arguments):
            return interpreter.calls.known_call(pow, arguments, keywords)
        for value in arguments:
            if not issubclass(interpreter.classes.class_of(value), int):
                interpreter.raise_error(TypeError, "pow() 3rd argument not allowed unless all arguments are integers")
        limit = Const(math.isqrt(2 ** (interpreter.numbers.of_python[int].bits - 1) - 1))
        return interpreter.calls.call(interpreter.embed(power_modulo), [*arguments, limit], {})
    return interpreter.operators.binary("**", *arguments)


@row(divmod)
def divided(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    binary = interpreter.operators.binary
    return Tuple((binary("//", *arguments), binary("%", *arguments)))


def _numpy_division(function: np.ufunc, symbols: tuple[str, ...]) -> Handler:
    """NumPy's division of arrays and numbers, with the signs of zeros that it gives, which jax's does not."""

    def divide(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        is_real = all(isinstance(value, (Array, Const)) for value in arguments)
        is_known = all(isinstance(value, Const) for value in arguments)
        if keywords or len(arguments) != 2 or not is_real or is_known:
            return interpreter.library.call(function, arguments, keywords)
        operands = [interpreter.current(value) for value in arguments]
        if not any(isinstance(value, Array) and not value.weak for value in operands):
            operands = [Array(value.node) if isinstance(value, Array) else value for value in operands]
        results = tuple(interpreter.operators.binary(symbol, *operands) for symbol in symbols)
        return results[0] if len(results) == 1 else Tuple(results)

    return divide


for _function, _symbols in ((np.remainder, ("%",)), (np.floor_divide, ("//",)), (np.divmod, ("//", "%"))):
    BUILTINS[_function] = _numpy_division(_function, _symbols)


def _spread(interpreter: Interpreter, arguments: Arguments) -> list[AbstractValue]:
    return list(interpreter.iterators.items(arguments[0])) if len(arguments) == 1 else list(arguments)


def _extreme(name: str, symbol: str) -> Handler:
    def extreme(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        key, default = keywords.get("key"), keywords.get("default")
        unknown = [keyword for keyword in keywords if keyword not in ("key", "default")]
        if not arguments or unknown:
            problem = f"unexpected keyword argument '{unknown[0]}'" if unknown else "at least 1 argument is expected"
            interpreter.raise_error(TypeError, f"{name}(): {problem}")
        if len(arguments) > 1 and default is not None:
            interpreter.raise_error(TypeError, f"{name}() takes no default with several arguments")
        if is_none(key):
            key = None
        if len(arguments) == 1 and isinstance(arguments[0], Array) and arguments[0].type.rank == 1 and key is None:
            array = arguments[0]
            if not array.dims[0] and default is None:
                interpreter.raise_error(ValueError, f"{name}() arg is an empty sequence")
            if array.dims[0]:
                return interpreter.library.call(np.max if name == "max" else np.min, [array], {})
        items = _spread(interpreter, arguments)
        if not items:
            if default is not None:
                return default
            interpreter.raise_error(ValueError, f"{name}() arg is an empty sequence")
        best = items[0]
        rank = interpreter.calls.call(key, [best], {}) if key is not None else best
        for item in items[1:]:
            other = interpreter.calls.call(key, [item], {}) if key is not None else item
            truth = interpreter.operators.truth(interpreter.operators.compare(symbol, other, rank))
            if isinstance(truth, bool):
                best, rank = (item, other) if truth else (best, rank)
            else:
                pair = interpreter.control.choose(
                    truth,
                    lambda item=item, other=other: Tuple((item, other)),
                    lambda best=best, rank=rank: Tuple((best, rank)),
                )
                best, rank = pair.items
        return best

    return extreme


BUILTINS[min], BUILTINS[max] = _extreme("min", "<"), _extreme("max", ">")


@row(sum)
def total(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    source, *rest = arguments
    start = rest[0] if rest else keywords.get("start", Const(0))
    if isinstance(source, Array) and source.dims:
        made = _summed(interpreter, source)
        return made if isinstance(start, Const) and start.value == 0 else interpreter.operators.binary("+", start, made)
    if isinstance(source, Series) and isinstance(interpreter.members.length(source), Array):
        return interpreter.calls.call(interpreter.embed(sum_from), [source, start], {})
    result = start
    for item in interpreter.iterators.items(source):
        result = interpreter.operators.binary("+", result, item)
    return result


def _summed(interpreter: Interpreter, source: Array) -> AbstractValue:
    """The sum of an array's rows as Python adds them up: in their own type, of bools in integers."""
    made = interpreter.library.call(np.sum, [source], {"axis": Const(0)})
    if isinstance(made, Array) and source.dtype.is_integer and made.dtype is not source.dtype:
        return Array(interpreter.numbers.convert(made.node, source.dtype))
    return made


def _quantified(is_all: bool) -> Handler:
    def quantified(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        source = arguments[0]
        if is_iterator(source) or isinstance(source, Series):  # it is used up as far as the item that decides
            return interpreter.calls.call(interpreter.embed(all_true if is_all else any_true), [source], {})
        if isinstance(source, Array) and source.type.rank == 1:
            made = interpreter.library.call(np.all if is_all else np.any, [source], {})
            return Array(made.node, True) if isinstance(made, Array) else made
        nodes: list[Any] = []
        for item in interpreter.iterators.items(source):
            truth = interpreter.operators.truth(item)
            if isinstance(truth, bool):
                if truth is not is_all and not nodes:
                    return FALSE if is_all else TRUE
                if truth is not is_all:
                    nodes.append(interpreter.emitter.constant(truth, PREDICATE))
            else:
                nodes.append(truth)
        if not nodes:
            return TRUE if is_all else FALSE
        result = nodes[0]
        for node in nodes[1:]:
            result = interpreter.emitter.elementwise("and" if is_all else "or", result, node)
        return Array(result, True)

    return quantified


BUILTINS[all], BUILTINS[any] = _quantified(True), _quantified(False)
