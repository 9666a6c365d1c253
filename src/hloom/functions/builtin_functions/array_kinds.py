"""The two kinds of arrays: jax's, which are immutable, and NumPy's, which are mutable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hloom.functions.builtin_functions.table import Arguments, Handler, Keywords, row
from hloom.functions.container_classes import is_collection
from hloom.functions.prelude import of_jax, of_numpy
from hloom.functions.values import AbstractValue, Array, Fields, Tuple

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


def _copied(interpreter: Interpreter, value: AbstractValue, is_fixed: bool) -> AbstractValue:
    """A tree of the same elements in arrays of one kind."""
    if isinstance(value, Array):
        if value.weak:
            return value
        made = value.copied(interpreter.emitter.graph)
        made.is_fixed = is_fixed
        return made
    if isinstance(value, Tuple):
        return Tuple(tuple(_copied(interpreter, item, is_fixed) for item in value.items), value.cls)
    if is_collection(value):
        fields = interpreter.contents(value)
        items = tuple(_copied(interpreter, interpreter.current(item), is_fixed) for item in fields.items)
        return interpreter.new_object(value.cell.cls, Fields(fields.keys, items))
    return value


def _kind(is_fixed: bool) -> Handler:
    def convert(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        return _copied(interpreter, arguments[0], is_fixed)

    return convert


row(of_jax)(_kind(True))
row(of_numpy)(_kind(False))
