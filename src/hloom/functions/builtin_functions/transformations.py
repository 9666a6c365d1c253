"""hloom's own functions inside programs: derivatives, printing, and the two kinds of arrays.

Arrays of jax cannot be changed, those of NumPy can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hloom.functions import gradients
from hloom.functions.builtin_functions.containers import identity
from hloom.functions.builtin_functions.table import BUILTINS, Handler, row
from hloom.functions.container_classes import is_collection
from hloom.functions.prelude import of_jax, of_numpy
from hloom.functions.values import FALSE, AbstractValue, Arguments, Array, Const, Derived, Keywords, Tuple

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


def _function_and_wrt(
    interpreter: Interpreter, name: str, arguments: Arguments, keywords: Keywords, options: tuple[str, ...] = ()
) -> tuple[AbstractValue, Any]:
    """The function that is differentiated, and what `wrt` or `argnums` says; raises TypeError for other arguments."""
    if not 1 <= len(arguments) <= 2:
        interpreter.raise_error(TypeError, f"{name}() takes a function and wrt, {len(arguments)} arguments are given")
    taken = ("wrt", "argnums") if len(arguments) == 1 else ()
    unknown = next((key for key in keywords if key not in (*taken, *options)), None)
    if unknown is not None:
        interpreter.raise_error(TypeError, f"{name}() got an unexpected keyword argument '{unknown}'")
    wrt = arguments[1] if len(arguments) > 1 else keywords.get("wrt", keywords.get("argnums", Const(0)))
    numbers = interpreter.static(wrt, "wrt")
    return arguments[0], tuple(numbers) if isinstance(numbers, list) else numbers


def _derivative(name: str) -> Handler:
    def derive(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        given, numbers = _function_and_wrt(interpreter, name, arguments, keywords, ("has_aux",))
        options = {"wrt": numbers, "has_aux": bool(interpreter.static(keywords.get("has_aux", FALSE), "has_aux"))}
        return Derived(name, given, options)

    return derive


BUILTINS["grad"], BUILTINS["value_and_grad"] = _derivative("grad"), _derivative("value_and_grad")


def call_derived_outside(
    interpreter: Interpreter,
    derived: tuple[str, Any, dict[str, Any]],
    given: Arguments,
    named: dict[str, AbstractValue],
) -> AbstractValue:
    """A call of what `hloom.grad` and the like made outside of the program."""
    name, original, options = derived
    if name in ("jacobian", "hessian"):
        made = BUILTINS[name](interpreter, [interpreter.embed(original), Const(options["wrt"])], {})
    else:
        made = Derived(name, interpreter.embed(original), options)
    return interpreter.calls.call(made, given, named)


@row("jvp")
def forward_mode(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return gradients.jvp(interpreter, arguments, keywords)


@row("vjp")
def reverse_mode(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return gradients.vjp(interpreter, arguments, keywords)


@row("jacobian")
def jacobian(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    given, wrt = _function_and_wrt(interpreter, "jacobian", arguments, keywords)
    return Derived("jacobian", given, {"wrt": wrt})


@row("hessian")
def hessian(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    given, wrt = _function_and_wrt(interpreter, "hessian", arguments, keywords)
    return Derived("jacobian", Derived("grad", given, {"wrt": wrt, "has_aux": False}), {"wrt": wrt})


@row("print_value")
def print_value(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    label = interpreter.static([*arguments[1:], *keywords.values(), Const("")][0], "a label")
    interpreter.printing.print(arguments[0], label)
    return arguments[0]


@row("function")
def function(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    if arguments:
        return arguments[0]
    return Const(identity)


def _copied(interpreter: Interpreter, value: AbstractValue, is_fixed: bool) -> AbstractValue:
    """A tree of the same elements in arrays of one kind."""
    if isinstance(value, Array):
        if value.weak:
            return value
        made = value.copied(interpreter.emitter.graph)
        made.is_fixed = is_fixed
        return made
    if not (isinstance(value, Tuple) or is_collection(value)):
        return value
    parts = [_copied(interpreter, interpreter.current(item), is_fixed) for item in interpreter.members.parts(value)]
    return interpreter.members.with_parts(value, parts)


def _kind(is_fixed: bool) -> Handler:
    def convert(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        return _copied(interpreter, arguments[0], is_fixed)

    return convert


row(of_jax)(_kind(True))
row(of_numpy)(_kind(False))
