"""Python's builtins on containers; and those of collections, functools, dataclasses and copy."""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hloom.functions.builtin_functions.table import BUILTINS, Handler, row
from hloom.functions.container_classes import class_with_option, is_dict, option_of, plain_class
from hloom.functions.values import (
    FALSE,
    NONE,
    AbstractValue,
    Arguments,
    Array,
    Const,
    Fields,
    FunctionClosure,
    Keywords,
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
    if isinstance(arguments[0], ValueChoice):
        return interpreter.control.choices(arguments[0], lambda option: length(interpreter, [option], {}))
    if isinstance(arguments[0], Array) and not arguments[0].dims:
        interpreter.raise_error(TypeError, "len() of unsized object")
    made = interpreter.members.length(arguments[0])
    return made if isinstance(made, Array) else Const(made)


@row(tuple)
def make_tuple(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return Tuple(tuple(interpreter.iterators.items(arguments[0])) if arguments else ())


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
    parts = [_as_plain(interpreter, item, as_dict) for item in interpreter.members.parts(value)]
    if isinstance(value, Ref) and dataclasses.is_dataclass(value.cell.cls):
        names = interpreter.contents(value).keys
        return interpreter.new_object(dict, Fields(names, tuple(parts))) if as_dict else Tuple(tuple(parts))
    return interpreter.members.with_parts(value, parts)


def _plain(name: str, as_dict: bool) -> Handler:
    def convert(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        owner = arguments[0]
        if not isinstance(owner, Ref) or not dataclasses.is_dataclass(owner.cell.cls):
            interpreter.raise_error(TypeError, f"{name}() should be called on dataclass instances")
        return _as_plain(interpreter, owner, as_dict)

    return convert


BUILTINS[dataclasses.asdict], BUILTINS[dataclasses.astuple] = _plain("asdict", True), _plain("astuple", False)


@row(list)
def make_list(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.new_list(list(interpreter.iterators.items(arguments[0])) if arguments else ())


@row(set, frozenset)
def make_set(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    items = list(interpreter.iterators.items(arguments[0])) if arguments else []
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
    items = list(interpreter.iterators.items(source))
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
    value = arguments[1] if len(arguments) > 1 else NONE
    keys = [interpreter.static(key, "the key of a dict") for key in interpreter.iterators.items(arguments[0])]
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
    if isinstance(value, Array):
        return interpreter.views.copied(value)
    parts = [deep_copy(interpreter, [item], {}) for item in interpreter.members.parts(value)]
    return interpreter.members.with_parts(value, parts)


@row(deque)
def make_deque(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    bound = arguments[1] if len(arguments) > 1 else keywords.get("maxlen", NONE)
    most = interpreter.static(bound, "the greatest length of a deque")
    items = list(interpreter.iterators.items(arguments[0])) if arguments else []
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


def counts_of(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> Fields:
    """How often the keys occur in what a Counter is made of, or updated with."""
    fields = Fields((), ())
    for source in arguments:
        if isinstance(source, Ref) and interpreter.contents(source).keys is not None:
            fields = interpreter.contents(source)
            continue
        for item in interpreter.iterators.items(source):
            key = interpreter.static(item, "what a Counter counts")
            former = fields.get(key) or Const(0)
            fields = fields.changed(key, interpreter.operators.binary("+", former, Const(1)))
    for key, item in keywords.items():
        fields = fields.changed(key, item)
    return fields


@row(Counter)
def counter(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    """`collections.Counter(...)`"""
    return interpreter.new_object(Counter, counts_of(interpreter, arguments, keywords))
