"""`deque`, `defaultdict`, `OrderedDict` and `Counter` of Python's module `collections`."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

from hloom.functions.builtin_functions.containers import make_dict
from hloom.functions.builtin_functions.methods import counter
from hloom.functions.builtin_functions.table import Arguments, Keywords, check_count, row
from hloom.functions.container_classes import class_with_option, option_of, plain_class
from hloom.functions.values import NONE, AbstractValue, Const, Fields, FunctionClosure, Ref

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

row(Counter)(counter)


@row(deque)
def make_deque(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 0, 2, "deque")
    bound = arguments[1] if len(arguments) > 1 else keywords.get("maxlen", NONE)
    most = interpreter.static(bound, "the greatest length of a deque")
    items = list(interpreter.members.items(arguments[0])) if arguments else []
    kept = items if most is None else items[max(0, len(items) - most) :]
    return interpreter.new_object(class_with_option(deque, most), Fields(None, tuple(kept)))


@row(OrderedDict)
def make_ordered_dict(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return _of_class(OrderedDict, interpreter, arguments, keywords)


@row(defaultdict)
def make_default_dict(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    factory: Any = arguments[0] if arguments else NONE
    if isinstance(factory, Const):
        factory = factory.value
    elif isinstance(factory, FunctionClosure) and factory.original is not None:
        factory = factory.original
    return _of_class(class_with_option(defaultdict, factory), interpreter, arguments[1:], keywords)


def _of_class(cls: type, interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    made = make_dict(interpreter, arguments, keywords)
    assert isinstance(made, Ref)
    return interpreter.new_object(cls, interpreter.contents(made))


def missing_item(interpreter: Interpreter, owner: Ref, key: Any) -> AbstractValue:
    """`owner[key]` where a dict has no such key: what a defaultdict makes then, a Counter's 0, else KeyError."""
    plain, factory = plain_class(owner.cell.cls), option_of(owner.cell.cls)
    if plain is Counter:
        return Const(0)
    if plain is not defaultdict or factory is None:
        interpreter.raise_error(KeyError, repr(key))
    made = interpreter.calls.call(interpreter.embed(factory), [], {})
    interpreter.change(owner, interpreter.contents(owner).changed(key, made))
    return made
