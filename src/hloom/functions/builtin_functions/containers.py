"""Python's builtins on containers; and those of functools, dataclasses and copy."""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hloom.functions.builtin_functions.table import BUILTINS, Arguments, Keywords, check_count, row
from hloom.functions.container_classes import is_dict
from hloom.functions.values import (
    FALSE,
    NONE,
    AbstractValue,
    Array,
    Const,
    Fields,
    FunctionClosure,
    Parent,
    PartialCall,
    Ref,
    Tuple,
    ValueChoice,
    is_none,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


@row(len)
def length(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "len")
    if isinstance(arguments[0], ValueChoice):
        return interpreter.control.choices(arguments[0], lambda option: length(interpreter, [option], {}))
    if isinstance(arguments[0], Array) and not arguments[0].dims:
        interpreter.raise_error(TypeError, "len() of unsized object")
    made = interpreter.members.length(arguments[0])
    return made if isinstance(made, Array) else Const(made)


@row(tuple)
def make_tuple(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return Tuple(tuple(interpreter.members.items(arguments[0])) if arguments else ())


@row(dataclasses.replace)
def replace(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    owner = arguments[0]
    if not isinstance(owner, Ref) or not dataclasses.is_dataclass(owner.cell.cls):
        interpreter.raise_error(TypeError, "replace() should be called on dataclass instances")
    fields = interpreter.contents(owner)
    names = [field.name for field in dataclasses.fields(owner.cell.cls) if field.init]
    values = {name: item for name in names if (item := fields.get(name)) is not None}
    return interpreter.calls.call(Const(owner.cell.cls), [], {**values, **keywords})


@row(dataclasses.fields)
def fields_of(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    owner = arguments[0]
    cls = owner.cell.cls if isinstance(owner, Ref) else interpreter.static(owner, "a dataclass")
    return Tuple(tuple(map(Const, dataclasses.fields(cls))))


def _as_plain(interpreter: Interpreter, value: AbstractValue, as_dict: bool) -> AbstractValue:
    if isinstance(value, Ref) and dataclasses.is_dataclass(value.cell.cls):
        fields = interpreter.contents(value)
        items = tuple(_as_plain(interpreter, item, as_dict) for item in fields.items)
        return interpreter.new_object(dict, Fields(fields.keys, items)) if as_dict else Tuple(items)
    if isinstance(value, Ref):
        fields = interpreter.contents(value)
        items = tuple(_as_plain(interpreter, item, as_dict) for item in fields.items)
        return interpreter.new_object(value.cell.cls, Fields(fields.keys, items))
    if isinstance(value, Tuple):
        return Tuple(tuple(_as_plain(interpreter, item, as_dict) for item in value.items), value.cls)
    return value


def _instance(interpreter: Interpreter, arguments: Arguments, name: str) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, name)
    owner = arguments[0]
    if not isinstance(owner, Ref) or not dataclasses.is_dataclass(owner.cell.cls):
        interpreter.raise_error(TypeError, f"{name}() should be called on dataclass instances")
    return owner


@row(dataclasses.asdict)
def as_dict(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return _as_plain(interpreter, _instance(interpreter, arguments, "asdict"), True)


@row(dataclasses.astuple)
def as_tuple(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return _as_plain(interpreter, _instance(interpreter, arguments, "astuple"), False)


@row(list)
def make_list(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.new_list(list(interpreter.members.items(arguments[0])) if arguments else ())


@row(set, frozenset)
def make_set(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    items = list(interpreter.members.items(arguments[0])) if arguments else []
    return Const(frozenset(interpreter.static(item, "an element of a set") for item in items))


def pairs_of(interpreter: Interpreter, source: AbstractValue) -> Iterator[tuple[Any, AbstractValue]]:
    """The keys and items of a dict, or of the pairs that one is made of."""
    if is_dict(source):
        fields = interpreter.contents(source)
        yield from fields.pairs
        return
    for number, pair in enumerate(interpreter.iterators.items(source)):
        parts = list(interpreter.iterators.items(pair))
        if len(parts) != 2:
            message = f"dictionary update sequence element #{number} has length {len(parts)}; 2 is required"
            interpreter.raise_error(ValueError, message)
        yield interpreter.static(parts[0], "the key of a dict"), parts[1]


@row(dict)
def make_dict(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 0, 1, "dict")
    fields = Fields((), ())
    for source in arguments:
        if is_dict(source):
            fields = interpreter.contents(source)
            continue
        for key, item in pairs_of(interpreter, source):
            fields = fields.changed(key, item)
    for name, value in keywords.items():
        fields = fields.changed(name, value)
    return interpreter.new_object(dict, fields)


@row(sorted)
def sort(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    source = arguments[0]
    key = keywords.get("key")
    if is_none(key):
        key = None
    is_reversed = interpreter.operators.truth(keywords.get("reverse", FALSE))
    if not isinstance(is_reversed, bool):
        interpreter.refuse("whether sorted() reverses must be known when the program is compiled")
    items = list(interpreter.members.items(source))
    keys = [interpreter.calls.call(key, [item], {}) for item in items] if key is not None else list(items)
    if all(isinstance(value, Const) for value in keys):
        order = sorted(range(len(items)), key=lambda n: keys[n].value, reverse=is_reversed)  # type: ignore[attr-defined]
        return interpreter.new_list([items[number] for number in order])
    pairs = [Tuple((rank, item)) for rank, item in zip(keys, items, strict=True)]
    for last in range(len(pairs) - 1, 0, -1):  # a network of comparisons, stable as Python's sort is
        for number in range(last):
            a, b = pairs[number], pairs[number + 1]
            symbol, left, right = ("<", a.items[0], b.items[0]) if is_reversed else ("<", b.items[0], a.items[0])
            truth = interpreter.operators.truth(interpreter.operators.compare(symbol, left, right))
            if isinstance(truth, bool):
                if truth:
                    pairs[number], pairs[number + 1] = b, a
                continue
            made = interpreter.control.choose(truth, lambda a=a, b=b: Tuple((b, a)), lambda a=a, b=b: Tuple((a, b)))
            pairs[number], pairs[number + 1] = made.items
    return interpreter.new_list([pair.items[1] for pair in pairs])


@row(functools.reduce)
def reduce(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 2, 3, "reduce")
    function, source, *rest = arguments
    items = interpreter.iterators.items(source)
    first = rest[0] if rest else next(items, None)
    if first is None:
        interpreter.raise_error(TypeError, "reduce() of empty iterable with no initial value")
    result = first
    for item in items:
        result = interpreter.calls.call(function, [result, item], {})
    return result


@row(functools.partial)
def partial(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return PartialCall(arguments[0], tuple(arguments[1:]), keywords)


@row(functools.wraps)
def wraps(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return Const(identity)


def identity(value: Any) -> Any:
    """What a decorator that changes nothing is."""
    return value


@row(identity)
def same_value(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return arguments[0]


@row(SimpleNamespace)
def namespace(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.new_object(SimpleNamespace, Fields(tuple(keywords), tuple(keywords.values())))


@row(super)
def parent_class(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """`super()` and `super(cls, self)`: the methods of the classes that follow in the order of resolution."""
    frame = interpreter.frame
    if arguments:
        cls, owner = interpreter.static(arguments[0], "the class of super()"), arguments[1]
    else:
        assert frame is not None
        cell = frame.scope.find_outside("__class__")
        names = frame.code.parameters
        if cell is None or not names:
            interpreter.raise_error(RuntimeError, "super(): no arguments")
        cls, owner = cell.cell_contents, interpreter.load(names[0])
    return Parent(cls, owner)


@row(dict.fromkeys)
def dict_of_keys(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "fromkeys")
    value = arguments[1] if len(arguments) > 1 else NONE
    keys = [interpreter.static(key, "the key of a dict") for key in interpreter.members.items(arguments[0])]
    return interpreter.new_object(dict, Fields(tuple(dict.fromkeys(keys)), (value,) * len(set(keys))))


@row(functools.lru_cache, functools.cache)
def cached(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """A function that remembers its results is the function itself, where it changes nothing."""
    function = arguments[0] if arguments else NONE
    if not isinstance(function, FunctionClosure):
        return Const(cached_function)
    if any(isinstance(part, ast.Nonlocal) for part in ast.walk(function.code.node)):
        interpreter.refuse(
            "a function with a cache that assigns a nonlocal name would do so once for each argument",
            hint="leave out the cache",
        )
    return function


def cached_function(function: Any) -> Any:
    """The decorator that `functools.lru_cache(maxsize=...)` gives."""
    return functools.lru_cache(function)


BUILTINS[cached_function] = cached


@row(copy.copy)
def shallow_copy(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    (value,) = arguments
    if isinstance(value, Ref):
        return interpreter.new_object(value.cell.cls, interpreter.contents(value))
    return interpreter.views.copied(value) if isinstance(value, Array) else value


@row(copy.deepcopy)
def deep_copy(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    (value,) = arguments
    if isinstance(value, Ref):
        fields = interpreter.contents(value)
        items = tuple(deep_copy(interpreter, [item], {}) for item in fields.items)
        return interpreter.new_object(value.cell.cls, Fields(fields.keys, items))
    if isinstance(value, Tuple):
        return Tuple(tuple(deep_copy(interpreter, [item], {}) for item in value.items), value.cls)
    return interpreter.views.copied(value) if isinstance(value, Array) else value
