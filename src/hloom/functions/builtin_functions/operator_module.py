"""The functions of the module operator, and `slice`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hloom.functions.builtin_functions.arithmetic import absolute
from hloom.functions.builtin_functions.table import BUILTINS, Handler, row
from hloom.functions.operators import Operators
from hloom.functions.prelude import attribute_of, called_method, item_of
from hloom.functions.symbols import BINARY, BINARY_METHODS, COMPARISONS, UNARY
from hloom.functions.values import (
    NONE,
    PREDICATE,
    AbstractValue,
    Arguments,
    Array,
    Keywords,
    PartialCall,
    Tuple,
    described,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


def _operator(operate: Callable[..., AbstractValue], symbol: str) -> Handler:
    def apply(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        return operate(interpreter.operators, symbol, *arguments)

    return apply


for _symbol, _function in BINARY.items():
    BUILTINS[_function] = _operator(Operators.binary, _symbol)
    BUILTINS[getattr(operator, f"i{BINARY_METHODS[_symbol]}")] = _operator(Operators.augmented, _symbol)
for _symbol, _function in UNARY.items():
    BUILTINS[_function] = _operator(Operators.unary, _symbol)
for _symbol, _function in {**COMPARISONS, "is": operator.is_, "is not": operator.is_not}.items():
    BUILTINS[_function] = _operator(Operators.compare, _symbol)
BUILTINS[operator.concat] = BUILTINS[operator.add]
BUILTINS[operator.iconcat] = BUILTINS[operator.iadd]
BUILTINS[operator.inv] = BUILTINS[operator.invert]
BUILTINS[operator.abs] = absolute


@row(operator.getitem)
def get_item(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.indexing.get(*arguments)


@row(operator.setitem)
def set_item(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    interpreter.indexing.set(*arguments)
    return NONE


@row(operator.delitem)
def delete_item(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    interpreter.indexing.delete(*arguments)
    return NONE


@row(operator.not_)
def negated(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.operators.inverted(arguments[0])


@row(operator.truth)
def truth_value(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return BUILTINS[bool](interpreter, arguments, keywords)


def _found(name: str) -> Handler:
    """`count` or `index` of any iterable, as of a tuple."""

    def find(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        items = Tuple(tuple(interpreter.iterators.items(arguments[0])))
        return interpreter.calls.call(interpreter.members.attribute(items, name), [arguments[1]], {})

    return find


BUILTINS[operator.countOf], BUILTINS[operator.indexOf] = _found("count"), _found("index")


@row(operator.index)
def whole_number(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    (value,) = arguments
    if isinstance(value, Array) and not (value.dtype.is_integer or value.dtype is PREDICATE):
        interpreter.raise_error(TypeError, f"{described(value)} cannot be interpreted as an integer")
    if isinstance(value, Array):
        return BUILTINS[int](interpreter, arguments, {})
    return interpreter.calls.known_call(operator.index, arguments, {})


@row(operator.contains)
def contains(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.operators.compare("in", arguments[1], arguments[0])


def _getter(taken: Any) -> Handler:
    def make(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        return PartialCall(interpreter.embed(taken), (Tuple(tuple(arguments)),), {})

    return make


BUILTINS[operator.itemgetter], BUILTINS[operator.attrgetter] = _getter(item_of), _getter(attribute_of)


@row(operator.methodcaller)
def method_caller(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    given = (arguments[0], Tuple(tuple(arguments[1:])), interpreter.new_dict(keywords))
    return PartialCall(interpreter.embed(called_method), given, {})


@row(slice)
def make_slice(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    bounds = [NONE, *arguments, NONE] if len(arguments) == 1 else [*arguments, NONE][:3]
    return Tuple(tuple(bounds), slice)
