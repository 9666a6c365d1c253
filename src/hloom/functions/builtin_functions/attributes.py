"""Types, attributes and texts of values; and builtins that are not supported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloom.functions.builtin_functions.table import BUILTINS, Handler, row
from hloom.functions.container_classes import is_mapping
from hloom.functions.values import (
    NONE,
    AbstractValue,
    Arguments,
    Array,
    Const,
    Derived,
    FunctionClosure,
    Keywords,
    MessageText,
    Method,
    PartialCall,
    Ref,
    Tuple,
    ValueChoice,
    described,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


@row(isinstance)
def is_instance(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.classes.is_instance(*arguments)


@row(type)
def type_of(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return Const(interpreter.classes.class_of(arguments[0]))


@row(callable)
def is_callable(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    (value,) = arguments
    if isinstance(value, Const):
        return Const(callable(value.value))
    if isinstance(value, Ref):
        return Const(interpreter.members.class_attribute(value, "__call__") is not None)
    return Const(isinstance(value, (FunctionClosure, PartialCall, Method, Derived, ValueChoice)))


def _has(interpreter: Interpreter, owner: AbstractValue, name: str) -> bool:
    if isinstance(owner, Const):
        return hasattr(owner.value, name)
    if isinstance(owner, Ref):
        held = interpreter.contents(owner)
        if held.keys is not None and not is_mapping(owner.cell.cls) and held.get(name) is not None:
            return True
        return hasattr(owner.cell.cls, name)
    if isinstance(owner, Tuple):
        return hasattr(owner.cls, name)
    return hasattr(interpreter.classes.class_of(owner), name)


@row(hasattr)
def has_attribute(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return Const(_has(interpreter, arguments[0], interpreter.static(arguments[1], "the name of an attribute")))


@row(getattr)
def get_attribute(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    name = interpreter.static(arguments[1], "the name of an attribute")
    if not isinstance(name, str):
        interpreter.raise_error(TypeError, f"attribute name must be string, not '{type(name).__name__}'")
    if len(arguments) > 2 and not _has(interpreter, arguments[0], name):
        return arguments[2]
    return interpreter.members.attribute(arguments[0], name)


@row(setattr)
def set_attribute(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    name = interpreter.static(arguments[1], "the name of an attribute")
    if not isinstance(name, str):
        interpreter.raise_error(TypeError, f"attribute name must be string, not '{type(name).__name__}'")
    interpreter.members.set_attribute(arguments[0], name, arguments[2])
    return NONE


@row(object.__setattr__)
def set_plainly(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    owner, name, value = arguments
    if not isinstance(owner, Ref):
        interpreter.raise_error(AttributeError, f"{described(owner)} has no attributes that can be set")
    interpreter.change(owner, interpreter.contents(owner).changed(interpreter.static(name, "a name"), value))
    return NONE


@row(print)
def refuse_print(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    interpreter.refuse("print() runs when the program is compiled, not when it runs", hint="use hloom.print_value(x)")


def _refused(name: str, hint: str) -> Handler:
    def refuse(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        interpreter.refuse(f"{name}() cannot be compiled", hint=hint)

    return refuse


for _function in (eval, exec, open, input, id, globals, locals, compile, __import__):
    BUILTINS[_function] = _refused(_function.__name__, "call it outside the function and pass its result")
BUILTINS[vars] = _refused("vars", "read attributes by their names, or use dataclasses.asdict()")


@row(repr)
def representation(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    (value,) = arguments
    interpreter.iterators.refuse_text(value)
    if isinstance(value, Array) or (isinstance(value, Const) and isinstance(value.value, MessageText)):
        return Const(MessageText("<value>"))
    return Const(repr(interpreter.static(value, "what becomes text")))


@row(str)
def text(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    if not arguments:
        return Const("")
    (value,) = arguments
    interpreter.iterators.refuse_text(value)
    if isinstance(value, Array):
        return Const(MessageText("<value>"))
    if isinstance(value, Const) and isinstance(value.value, MessageText):
        return value
    return Const(str(interpreter.static(value, "what becomes text")))
