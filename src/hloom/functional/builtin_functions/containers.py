"""Python's own functions of containers and series; those of functools, itertools, dataclasses and copy."""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functional.builtin_functions.table import BUILTINS, Arguments, Keywords, check_count, row
from hloom.functional.container_classes import is_mapping
from hloom.functional.values import (
    FALSE,
    ITERATOR,
    NONE,
    AbstractValue,
    Array,
    Const,
    Fields,
    FunctionClosure,
    Parent,
    PartialCall,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    described,
)
from hloom.ir import dtype

if TYPE_CHECKING:
    from hloom.functional.interpreter import Interpreter

PREDICATE = dtype("pred")


@row(len)
def length(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "len")
    if isinstance(arguments[0], ValueChoice):
        return interpreter.control.choices(arguments[0], lambda option: length(interpreter, [option], {}))
    if isinstance(arguments[0], Array) and not arguments[0].dims:
        interpreter.raise_error(TypeError, "len() of unsized object")
    made = interpreter.members.length(arguments[0])
    return made if isinstance(made, Array) else Const(made)


@row(range)
def number_range(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 3, "range")
    parts: list[AbstractValue] = []
    for value in arguments:
        if isinstance(value, Const) and isinstance(value.value, np.integer):
            value = Const(int(value.value))
        if isinstance(value, Array):
            if not (value.dtype.is_integer or value.dtype is PREDICATE) or value.dims:
                interpreter.raise_error(TypeError, f"{described(value)} cannot be interpreted as an integer")
            value = Array(interpreter.numbers.convert(value.node, interpreter.numbers.of_python[int]), True)
        elif not (isinstance(value, Const) and isinstance(value.value, int)):
            interpreter.raise_error(TypeError, f"{described(value)} cannot be interpreted as an integer")
        parts.append(value)
    start, stop, step = {1: [Const(0), *parts, Const(1)], 2: [*parts, Const(1)], 3: parts}[len(parts)]
    if isinstance(step, Const) and step.value == 0:
        interpreter.raise_error(ValueError, "range() arg 3 must not be zero")
    return Series("range", (start, stop, step))


@row(enumerate)
def enumerated(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    start = arguments[1] if len(arguments) > 1 else keywords.get("start", Const(0))
    source = arguments[0]
    if not issubclass(interpreter.classes.class_of(start), (int, np.integer)):
        interpreter.raise_error(TypeError, f"{described(start)} cannot be interpreted as an integer")
    check_iterable(interpreter, source)
    if is_iterator(source):
        source = Tuple(tuple(interpreter.members.items(source)))
    return Series("enumerate", (source, start))


@row(zip)
def zipped(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    strict = interpreter.static(keywords.get("strict", FALSE), "strict")
    for source in arguments:
        check_iterable(interpreter, source)
    if strict:
        lengths = [interpreter.members.length(value) for value in arguments]
        if all(isinstance(item, int) for item in lengths) and len(set(lengths)) > 1:
            interpreter.raise_error(ValueError, "zip() arguments have unequal lengths")
    if any(map(is_iterator, arguments)):
        return _zipped_iterators(interpreter, arguments)
    return Series("zip", tuple(arguments))


def _zipped_iterators(interpreter: Interpreter, arguments: Arguments) -> AbstractValue:
    """Rows of items that are taken in turn, until one source has none left, as Python does."""
    sources = [iterate(interpreter, [value], {}) for value in arguments]
    rows: list[AbstractValue] = []
    while True:
        interpreter.step()
        items: list[AbstractValue] = []
        for source in sources:
            if not interpreter.members.length(source):
                return interpreter.new_iterator(rows)
            items.append(interpreter.members.next_item(source))
        rows.append(Tuple(tuple(items)))


@row(reversed)
def backwards(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_iterable(interpreter, arguments[0])
    return Series("reversed", tuple(arguments))


def check_iterable(interpreter: Interpreter, source: AbstractValue) -> None:
    """Raise TypeError, as Python does, for what has no items."""
    is_number = isinstance(source, Array) and not source.dims
    if is_number or (isinstance(source, Const) and not hasattr(type(source.value), "__iter__")):
        interpreter.raise_error(TypeError, f"{described(source)} is not iterable")


@row(map)
def mapped(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    if len(arguments) < 2:
        interpreter.raise_error(TypeError, "map() must have at least two arguments.")
    if isinstance(arguments[0], Const) and not callable(arguments[0].value):
        interpreter.raise_error(TypeError, f"{described(arguments[0])} is not callable")
    lengths = [interpreter.members.length(source) for source in arguments[1:]]
    if all(isinstance(item, int) for item in lengths):
        rows = list(zip(*(list(interpreter.members.items(source)) for source in arguments[1:]), strict=False))
        return interpreter.new_iterator([interpreter.calls.call(arguments[0], list(items), {}) for items in rows])
    return Series("map", tuple(arguments))


@row(filter)
def filtered(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 2, 2, "filter")
    function, source = arguments
    kept: list[AbstractValue] = []
    for item in interpreter.members.items(source):
        tested = (
            item
            if isinstance(function, Const) and function.value is None
            else interpreter.calls.call(function, [item], {})
        )
        truth = interpreter.operators.truth(tested)
        if not isinstance(truth, bool):
            interpreter.refuse(
                "which items filter() keeps must be known when the program is compiled",
                hint="the length of the result would depend on data",
            )
        if truth:
            kept.append(item)
    return interpreter.new_iterator(kept)


@row(tuple)
def make_tuple(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return Tuple(tuple(interpreter.members.items(arguments[0])) if arguments else ())


def is_iterator(value: AbstractValue) -> bool:
    return isinstance(value, Ref) and value.cell.cls is ITERATOR


@row(iter)
def iterate(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "iter")
    source = arguments[0]
    return source if is_iterator(source) else interpreter.new_iterator(list(interpreter.members.items(source)))


@row(next)
def next_item(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "next")
    source = arguments[0]
    if not is_iterator(source):
        interpreter.raise_error(TypeError, f"{described(source)} is not an iterator")
    if interpreter.members.length(source):
        return interpreter.members.next_item(source)
    if len(arguments) > 1:
        return arguments[1]
    interpreter.raise_error(StopIteration, "")


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


@row(dataclasses.asdict)
def as_dict(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return _as_plain(interpreter, arguments[0], True)


@row(dataclasses.astuple)
def as_tuple(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return _as_plain(interpreter, arguments[0], False)


@row(list)
def make_list(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return interpreter.new_list(list(interpreter.members.items(arguments[0])) if arguments else ())


@row(set, frozenset)
def make_set(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    items = list(interpreter.members.items(arguments[0])) if arguments else []
    return Const(frozenset(interpreter.static(item, "an element of a set") for item in items))


@row(dict)
def make_dict(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    fields = Fields((), ())
    if arguments:
        source = arguments[0]
        if isinstance(source, Ref) and is_mapping(source.cell.cls):
            fields = interpreter.contents(source)
        else:
            for pair in interpreter.members.items(source):
                key, item = interpreter.members.items(pair)
                fields = fields.changed(interpreter.static(key, "the key of a dict"), item)
    for name, value in keywords.items():
        fields = fields.changed(name, value)
    return interpreter.new_object(dict, fields)


@row(sorted)
def sort(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    source = arguments[0]
    key = keywords.get("key")
    if isinstance(key, Const) and key.value is None:
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
    function, source, *rest = arguments
    items = list(interpreter.members.items(source))
    if not rest and not items:
        interpreter.raise_error(TypeError, "reduce() of empty iterable with no initial value")
    result = rest[0] if rest else items.pop(0)
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


@row(itertools.chain)
def chain(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return Tuple(tuple(item for source in arguments for item in interpreter.members.items(source)))


@row(itertools.product)
def product(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    times = interpreter.static(keywords.get("repeat", Const(1)), "repeat")
    rows = [list(interpreter.members.items(source)) for source in arguments] * times
    return Tuple(tuple(Tuple(items) for items in itertools.product(*rows)))


@row(itertools.repeat)
def repeat(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    times = arguments[1] if len(arguments) > 1 else keywords.get("times")
    if times is None:
        interpreter.refuse("repeat() without a count does not end", hint="give how often")
    return Tuple((arguments[0],) * max(0, interpreter.static(times, "how often repeat() repeats")))


def _arrangements(name: str) -> None:
    arrange = getattr(itertools, name)

    @row(arrange)
    def arranged(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        items = list(interpreter.members.items(arguments[0]))
        size = arguments[1] if len(arguments) > 1 else keywords.get("r")
        sizes = () if size is None else (interpreter.static(size, "how many items are taken"),)
        rows: list[AbstractValue] = []
        for row_of_items in arrange(items, *sizes):
            interpreter.step()
            rows.append(Tuple(row_of_items))
        return Tuple(tuple(rows))


for _name in ("combinations", "combinations_with_replacement", "permutations", "pairwise"):
    _arrangements(_name)


@row(itertools.islice)
def islice(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    bounds = [interpreter.static(value, "a bound of islice()") for value in arguments[1:]]
    return Tuple(tuple(itertools.islice(interpreter.members.items(arguments[0]), *bounds)))


def _while_true(name: str) -> None:
    @row(getattr(itertools, name))
    def chosen(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        function, source = arguments
        items = list(interpreter.members.items(source))
        for number, item in enumerate(items):
            truth = interpreter.operators.truth(interpreter.calls.call(function, [item], {}))
            if not isinstance(truth, bool):
                interpreter.refuse(
                    f"which items {name}() yields must be known when the program is compiled",
                    hint="the length of the result would depend on data",
                )
            if not truth:
                return Tuple(tuple(items[:number] if name == "takewhile" else items[number:]))
        return Tuple(tuple(items) if name == "takewhile" else ())


_while_true("takewhile")
_while_true("dropwhile")


@row(itertools.starmap)
def starmap(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    function, source = arguments
    rows = [list(interpreter.members.items(item)) for item in interpreter.members.items(source)]
    return Tuple(tuple(interpreter.calls.call(function, items, {}) for items in rows))


@row(itertools.zip_longest)
def zip_longest(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    rows = [list(interpreter.members.items(source)) for source in arguments]
    filled = itertools.zip_longest(*rows, fillvalue=keywords.get("fillvalue", NONE))
    return Tuple(tuple(Tuple(tuple(items)) for items in filled))


@row(itertools.chain.from_iterable)
def chain_of_one(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return chain(interpreter, list(interpreter.members.items(arguments[0])), {})


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


@row(itertools.accumulate)
def accumulate(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    collected: list[AbstractValue] = []
    function = arguments[1] if len(arguments) > 1 else keywords.get("func")
    items = list(interpreter.members.items(arguments[0]))
    if "initial" in keywords:
        items.insert(0, keywords["initial"])
    for item in items:
        if not collected:
            collected.append(item)
        elif function is None:
            collected.append(interpreter.operators.binary("+", collected[-1], item))
        else:
            collected.append(interpreter.calls.call(function, [collected[-1], item], {}))
    return Tuple(tuple(collected))


@row(dict.fromkeys)
def dict_of_keys(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "fromkeys")
    value = arguments[1] if len(arguments) > 1 else NONE
    keys = [interpreter.static(key, "the key of a dict") for key in interpreter.members.items(arguments[0])]
    return interpreter.new_object(dict, Fields(tuple(dict.fromkeys(keys)), (value,) * len(set(keys))))


@row(itertools.filterfalse)
def rejected(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    kept: list[AbstractValue] = []
    for item in interpreter.members.items(arguments[1]):
        truth = interpreter.operators.truth(interpreter.calls.call(arguments[0], [item], {}))
        if not isinstance(truth, bool):
            interpreter.refuse(
                "which items filterfalse() keeps must be known when the program is compiled",
                hint="the length of the result would depend on data",
            )
        if not truth:
            kept.append(item)
    return Tuple(tuple(kept))


@row(itertools.compress)
def compressed(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    data, selectors = (list(interpreter.members.items(source)) for source in arguments)
    truths = [interpreter.operators.truth(selector) for selector in selectors]
    if not all(isinstance(truth, bool) for truth in truths):
        interpreter.refuse(
            "which items compress() keeps must be known when the program is compiled",
            hint="the length of the result would depend on data",
        )
    return Tuple(tuple(itertools.compress(data, truths)))


@row(itertools.groupby)
def groups(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    key = arguments[1] if len(arguments) > 1 else keywords.get("key", NONE)
    rows: list[tuple[Any, list[AbstractValue]]] = []
    for item in interpreter.members.items(arguments[0]):
        ranked = item if isinstance(key, Const) and key.value is None else interpreter.calls.call(key, [item], {})
        known = interpreter.static(ranked, "the key of groupby()")
        if not rows or rows[-1][0] != known:
            rows.append((known, []))
        rows[-1][1].append(item)
    return Tuple(tuple(Tuple((interpreter.embed(known), interpreter.new_iterator(items))) for known, items in rows))


LAST = (1 << 63) - 1


@row(itertools.count)
def numbers_from(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    start, step = [*arguments, *(keywords.get(name, Const(default)) for name, default in
                                 (("start", 0), ("step", 1))[len(arguments):])]  # fmt: skip
    if not (isinstance(step, Const) and isinstance(step.value, int) and step.value > 0):
        interpreter.refuse("count() takes steps that are positive integers, known when the program is compiled")
    return number_range(interpreter, [start, Const(LAST), step], {})


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
    return value.copied(interpreter.emitter.graph) if isinstance(value, Array) else value


@row(copy.deepcopy)
def deep_copy(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    (value,) = arguments
    if isinstance(value, Ref):
        fields = interpreter.contents(value)
        items = tuple(deep_copy(interpreter, [item], {}) for item in fields.items)
        return interpreter.new_object(value.cell.cls, Fields(fields.keys, items))
    if isinstance(value, Tuple):
        return Tuple(tuple(deep_copy(interpreter, [item], {}) for item in value.items), value.cls)
    return value.copied(interpreter.emitter.graph) if isinstance(value, Array) else value
