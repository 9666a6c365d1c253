"""Ranges, iterators and functions of them: `iter`, `next`, `zip`, `map` and the like, and itertools."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from hloom.functions.builtin_functions.table import Arguments, Keywords, check_count, row
from hloom.functions.container_classes import is_object
from hloom.functions.iterator_rules import NOTHING
from hloom.functions.iterators import is_iterator, is_view
from hloom.functions.values import (
    FALSE,
    NONE,
    TRUE,
    AbstractValue,
    Array,
    Const,
    Ref,
    Series,
    Tuple,
    described,
    is_none,
)
from hloom.ir import dtype

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

PREDICATE = dtype("pred")
LAST = (1 << 63) - 1


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


@row(iter)
def iterate(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "iter")
    if len(arguments) == 2:
        return interpreter.iterators.new(type(iter(int, 1)), "callable", *arguments)
    source = arguments[0]
    if is_object(source):
        method = interpreter.members.class_attribute(source, "__iter__")
        if method is not None:
            return interpreter.calls.call(method, [], {})
    source = interpreter.iterators.begun(source)
    return source if is_iterator(source) else Series("iter", (source,))


@row(next)
def next_item(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "next")
    source, default = arguments[0], arguments[1] if len(arguments) > 1 else None
    if is_object(source):
        method = interpreter.members.class_attribute(source, "__next__")
        if method is not None and default is None:
            return interpreter.calls.call(method, [], {})
        if method is not None:
            interpreter.refuse("next() with a default of an object that raises StopIteration cannot be compiled")
    source = interpreter.iterators.owned(source)
    if not isinstance(source, Ref) or not is_iterator(source):
        interpreter.raise_error(TypeError, f"{described(source)} is not an iterator")
    return interpreter.iterators.next_or(source, default)


@row(enumerate)
def enumerated(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "enumerate")
    start = arguments[1] if len(arguments) > 1 else keywords.get("start", Const(0))
    if not issubclass(interpreter.classes.class_of(start), (int, np.integer)):
        interpreter.raise_error(TypeError, f"{described(start)} cannot be interpreted as an integer")
    source = interpreter.iterators.begun(arguments[0])
    if interpreter.iterators.is_numbered(source):
        return Series("enumerate", (source, start))
    return interpreter.iterators.new(enumerate, "enumerate", start, source)


@row(zip)
def zipped(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    strict = interpreter.operators.truth(keywords.get("strict", FALSE))
    if not isinstance(strict, bool):
        interpreter.refuse("strict must be known when the program is compiled")
    sources = list(map(interpreter.iterators.begun, arguments))
    if not all(map(interpreter.iterators.is_numbered, sources)):
        flag = TRUE if strict else FALSE
        return interpreter.iterators.new(zip, "zip", flag, *map(interpreter.iterators.iterator, sources))
    return Series("strict zip" if strict and len(sources) > 1 else "zip", tuple(sources))


@row(reversed)
def backwards(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "reversed")
    source = arguments[0]
    if is_object(source):
        method = interpreter.members.class_attribute(source, "__reversed__")
        if method is not None:
            return interpreter.calls.call(method, [], {})
    if not _is_reversible(interpreter, source):
        name = interpreter.classes.class_of(source).__name__
        interpreter.raise_error(TypeError, f"'{name}' object is not reversible")
    length = interpreter.members.length(source)
    begun = source if is_object(source) else interpreter.iterators.begun(source)
    return Series("reversed", (begun, length if isinstance(length, Array) else Const(length)))


def _is_reversible(interpreter: Interpreter, source: AbstractValue) -> bool:
    if isinstance(source, Series):
        return source.rule == "range" or is_view(source)
    if isinstance(source, Const):
        return hasattr(type(source.value), "__reversed__") or isinstance(source.value, (str, bytes, tuple))
    if is_object(source):
        return interpreter.members.class_attribute(source, "__getitem__") is not None
    if is_iterator(source):
        return False
    return not isinstance(source, Array) or bool(source.dims)


@row(map)
def mapped(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    if len(arguments) < 2:
        interpreter.raise_error(TypeError, "map() must have at least two arguments.")
    function, *sources = arguments
    sources = list(map(interpreter.iterators.begun, sources))
    if all(map(interpreter.iterators.is_numbered, sources)):
        return Series("map", (function, *sources))
    return interpreter.iterators.new(map, "map", function, *map(interpreter.iterators.iterator, sources))


@row(filter)
def filtered(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 2, 2, "filter")
    return interpreter.iterators.new(filter, "filter", TRUE, arguments[0], _source(interpreter, arguments[1]))


def _source(interpreter: Interpreter, source: AbstractValue) -> Ref:
    return interpreter.iterators.iterator(source)


# itertools


@row(itertools.chain)
def chain(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    return chain_of_one(interpreter, [Tuple(tuple(map(interpreter.iterators.owned, arguments)))], {})


@row(itertools.chain.from_iterable)
def chain_of_one(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "from_iterable")
    return interpreter.iterators.new(itertools.chain, "chain", _source(interpreter, arguments[0]), NOTHING)


def _of_pools(name: str) -> None:
    """What takes all items of its sources before it yields any."""
    arrange = getattr(itertools, name)

    @row(arrange)
    def arranged(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        check_count(interpreter, arguments, 1, 2, name)
        items = list(interpreter.iterators.items(arguments[0]))
        size = arguments[1] if len(arguments) > 1 else keywords.get("r")
        sizes = () if size is None else (interpreter.static(size, "how many items are taken"),)
        rows: list[AbstractValue] = []
        for row_of_items in arrange(items, *sizes):
            interpreter.step()
            rows.append(Tuple(row_of_items))
        return interpreter.iterators.new(arrange, "series", Const(0), Tuple(tuple(rows)))


for _name in ("combinations", "combinations_with_replacement", "permutations"):
    _of_pools(_name)


@row(itertools.product)
def product(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    times = interpreter.static(keywords.get("repeat", Const(1)), "repeat")
    pools = [list(interpreter.iterators.items(source)) for source in arguments] * times
    rows: list[AbstractValue] = []
    for items in itertools.product(*pools):
        interpreter.step()
        rows.append(Tuple(items))
    return interpreter.iterators.new(itertools.product, "series", Const(0), Tuple(tuple(rows)))


@row(itertools.pairwise)
def pairwise(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "pairwise")
    return interpreter.iterators.new(itertools.pairwise, "pairwise", _source(interpreter, arguments[0]), NOTHING)


@row(itertools.repeat)
def repeat(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "repeat")
    times = arguments[1] if len(arguments) > 1 else keywords.get("times")
    if times is None:
        return interpreter.iterators.new(itertools.repeat, "repeat", arguments[0])
    count = max(0, interpreter.static(times, "how often repeat() repeats"))
    return interpreter.iterators.new(itertools.repeat, "series", Const(0), Tuple((arguments[0],) * count))


@row(itertools.cycle)
def cycle(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 1, "cycle")
    return interpreter.iterators.new(itertools.cycle, "cycle", _source(interpreter, arguments[0]), Const((0,)))


@row(itertools.tee)
def tee(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "tee")
    count = interpreter.static(arguments[1] if len(arguments) > 1 else Const(2), "how many iterators tee() makes")
    source, buffer = _source(interpreter, arguments[0]), interpreter.new_list([])
    return Tuple(tuple(interpreter.iterators.new(object, "tee", source, buffer, Const((0,))) for _ in range(count)))


@row(itertools.islice)
def islice(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 2, 4, "islice")
    bounds = [interpreter.static(value, "a bound of islice()") for value in arguments[1:]]
    start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: tuple(bounds)}[len(bounds)]
    start, step = 0 if start is None else start, 1 if step is None else step
    if not all(isinstance(bound, int) and bound >= 0 for bound in (start, stop or 0)):
        interpreter.raise_error(ValueError, "Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if not isinstance(step, int) or step < 1:
        interpreter.raise_error(ValueError, "Step for islice() must be a positive integer or None.")
    source = _source(interpreter, arguments[0])
    return interpreter.iterators.new(itertools.islice, "islice", source, Const((0, start, stop, step)))


@row(itertools.takewhile)
def takewhile(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 2, 2, "takewhile")
    return interpreter.iterators.new(itertools.takewhile, "takewhile", arguments[0], _source(interpreter, arguments[1]))


@row(itertools.dropwhile)
def dropwhile(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 2, 2, "dropwhile")
    source = _source(interpreter, arguments[1])
    return interpreter.iterators.new(itertools.dropwhile, "dropwhile", arguments[0], source, NOTHING)


@row(itertools.filterfalse)
def rejected(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 2, 2, "filterfalse")
    source = _source(interpreter, arguments[1])
    return interpreter.iterators.new(itertools.filterfalse, "filterfalse", FALSE, arguments[0], source)


@row(itertools.starmap)
def starmap(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 2, 2, "starmap")
    return interpreter.iterators.new(itertools.starmap, "starmap", arguments[0], _source(interpreter, arguments[1]))


@row(itertools.zip_longest)
def zip_longest(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    sources = [_source(interpreter, source) for source in arguments]
    fill = keywords.get("fillvalue", NONE)
    return interpreter.iterators.new(itertools.zip_longest, "zip_longest", fill, *sources)


@row(itertools.accumulate)
def accumulate(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "accumulate")
    function = arguments[1] if len(arguments) > 1 else keywords.get("func", NONE)
    initial = keywords.get("initial", NONE)
    if is_none(initial):
        initial = NOTHING
    source = _source(interpreter, arguments[0])
    return interpreter.iterators.new(itertools.accumulate, "accumulate", function, source, NOTHING, initial)


@row(itertools.compress)
def compressed(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 2, 2, "compress")
    return interpreter.iterators.new(itertools.compress, "compress", *(_source(interpreter, one) for one in arguments))


@row(itertools.groupby)
def groups(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 1, 2, "groupby")
    key = arguments[1] if len(arguments) > 1 else keywords.get("key", NONE)
    return interpreter.iterators.new(
        itertools.groupby, "groupby", key, _source(interpreter, arguments[0]), NOTHING, NOTHING, NOTHING, NOTHING
    )


@row(itertools.count)
def numbers_from(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    check_count(interpreter, arguments, 0, 2, "count")
    start, step = [*arguments, *(keywords.get(name, Const(default)) for name, default in
                                 (("start", 0), ("step", 1))[len(arguments):])]  # fmt: skip
    if not (isinstance(step, Const) and isinstance(step.value, int) and step.value > 0):
        interpreter.refuse("count() takes steps that are positive integers, known when the program is compiled")
    if not issubclass(interpreter.classes.class_of(start), (int, np.integer)):
        interpreter.refuse("count() starts at an integer in a compiled function")
    return Series("iter", (number_range(interpreter, [start, Const(LAST), step], {}),))
