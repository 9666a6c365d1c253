"""The functions of the module operator, and `slice`."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from hloom.functions.builtin_functions.arithmetic import absolute
from hloom.functions.builtin_functions.table import BUILTINS, Arguments, Keywords, check_count, row
from hloom.functions.prelude import attribute_of, called_method, item_of
from hloom.functions.values import NONE, AbstractValue, Array, Const, Fields, PartialCall, Tuple, described
from hloom.ir import dtype

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

PREDICATE = dtype("pred")

for _name, _symbol in (
    ("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("floordiv", "//"), ("mod", "%"), ("pow", "**"),
    ("matmul", "@"), ("lshift", "<<"), ("rshift", ">>"), ("and_", "&"), ("or_", "|"), ("xor", "^"),
    ("concat", "+"),
):  # fmt: skip

    def _operator(
        interpreter: Interpreter, arguments: Arguments, keywords: Keywords, symbol: str = _symbol
    ) -> AbstractValue:
        return interpreter.operators.binary(symbol, *arguments)

    BUILTINS[getattr(operator, _name)] = _operator
for _name, _symbol in (
    ("iadd", "+"), ("isub", "-"), ("imul", "*"), ("itruediv", "/"), ("ifloordiv", "//"), ("imod", "%"), ("ipow", "**"),
    ("imatmul", "@"), ("ilshift", "<<"), ("irshift", ">>"), ("iand", "&"), ("ior", "|"), ("ixor", "^"),
    ("iconcat", "+"),
):  # fmt: skip

    def _augmented(
        interpreter: Interpreter, arguments: Arguments, keywords: Keywords, symbol: str = _symbol
    ) -> AbstractValue:
        return interpreter.operators.augmented(symbol, *arguments)

    BUILTINS[getattr(operator, _name)] = _augmented
for _name, _symbol in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("is_", "is"),
                       ("is_not", "is not")):  # fmt: skip

    def _comparison(
        interpreter: Interpreter, arguments: Arguments, keywords: Keywords, symbol: str = _symbol
    ) -> AbstractValue:
        return interpreter.operators.compare(symbol, *arguments)

    BUILTINS[getattr(operator, _name)] = _comparison
for _name, _symbol in (("neg", "-"), ("pos", "+"), ("invert", "~"), ("inv", "~")):

    def _unary(
        interpreter: Interpreter, arguments: Arguments, keywords: Keywords, symbol: str = _symbol
    ) -> AbstractValue:
        return interpreter.operators.unary(symbol, *arguments)

    BUILTINS[getattr(operator, _name)] = _unary
BUILTINS[operator.abs] = absolute


@row(operator.getitem)
def get_item(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.indexing.get(*arguments)


@row(operator.setitem)
def set_item(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    owner, index, value = arguments
    interpreter.indexing.set(owner, index, value)
    return NONE


@row(operator.delitem)
def delete_item(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    owner, index = arguments
    interpreter.indexing.delete(owner, index)
    return NONE


@row(operator.not_)
def negated(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    truth = interpreter.operators.truth(arguments[0])
    if isinstance(truth, bool):
        return Const(not truth)
    return Array(interpreter.emitter.elementwise("not", truth), True)


@row(operator.truth)
def truth_value(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return BUILTINS[bool](interpreter, arguments, keywords)


for _function, _name in ((operator.countOf, "count"), (operator.indexOf, "index")):

    def _found(interpreter: Interpreter, arguments: Arguments, keywords: Keywords, name: str = _name) -> AbstractValue:
        items = Tuple(tuple(interpreter.members.items(arguments[0])))
        return interpreter.calls.call(interpreter.members.attribute(items, name), [arguments[1]], {})

    BUILTINS[_function] = _found


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


for _cls, _taken in ((operator.itemgetter, item_of), (operator.attrgetter, attribute_of)):

    def _getter(
        interpreter: Interpreter, arguments: Arguments, keywords: Keywords, taken: Any = _taken
    ) -> AbstractValue:
        check_count(interpreter, arguments, 1, max(1, len(arguments)), taken.__name__)
        return PartialCall(interpreter.embed(taken), (Tuple(tuple(arguments)),), {})

    BUILTINS[_cls] = _getter


@row(operator.methodcaller)
def method_caller(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    named = interpreter.new_object(dict, Fields(tuple(keywords), tuple(keywords.values())))
    return PartialCall(interpreter.embed(called_method), (arguments[0], Tuple(tuple(arguments[1:])), named), {})


@row(slice)
def make_slice(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 3, "slice")
    bounds = [NONE, *arguments, NONE] if len(arguments) == 1 else [*arguments, NONE][:3]
    return Tuple(tuple(bounds), slice)
