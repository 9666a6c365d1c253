"""Ranges, iterators and functions of them: `iter`, `next`, `zip`, `map` and the like, and itertools."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.builtin_functions.table import BUILTINS, Handler, row
from hloom.functions.container_classes import is_object
from hloom.functions.iterator_rules import NOTHING
from hloom.functions.iterators import is_iterator, is_view
from hloom.functions.values import (
    FALSE,
    NONE,
    PREDICATE,
    TRUE,
    AbstractValue,
    Arguments,
    Array,
    Const,
    Keywords,
    Ref,
    Series,
    Tuple,
    described,
    is_none,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

LAST = (1 << 63) - 1


@row(range)
def number_range(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
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
    start = arguments[1] if len(arguments) > 1 else Const(0)
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


# itertools


@row(itertools.chain)
def chain(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    sources = Tuple(tuple(map(interpreter.iterators.owned, arguments)))
    return BUILTINS[itertools.chain.from_iterable](interpreter, [sources], {})


def _by_rule(function: type, state: Callable[..., tuple[AbstractValue, ...]], rule: str) -> Handler:
    """An iterator whose last argument is the source; `state` says what the rule for its next item starts from."""

    def make(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        *given, source = arguments
        return interpreter.iterators.new(function, rule, *state(*given, interpreter.iterators.iterator(source)))

    return make


for _function, _state in (
    (filter, lambda function, source: (TRUE, function, source)),
    (itertools.filterfalse, lambda function, source: (FALSE, function, source)),
    (itertools.takewhile, lambda function, source: (function, source)),
    (itertools.dropwhile, lambda function, source: (function, source, NOTHING)),
    (itertools.starmap, lambda function, source: (function, source)),
    (itertools.pairwise, lambda source: (source, NOTHING)),
    (itertools.cycle, lambda source: (source, Const((0,)))),
):
    BUILTINS[_function] = _by_rule(_function, _state, _function.__name__)
BUILTINS[itertools.chain.from_iterable] = _by_rule(itertools.chain, lambda source: (source, NOTHING), "chain")


def _of_rows(interpreter: Interpreter, cls: type, rows: Iterable[Sequence[AbstractValue]]) -> AbstractValue:
    """An iterator over tuples that are made now, each of which counts as a step of the compiler."""
    items: list[AbstractValue] = []
    for items_of_row in rows:
        interpreter.step()
        items.append(Tuple(tuple(items_of_row)))
    return interpreter.iterators.new(cls, "series", Const(0), Tuple(tuple(items)))


def _of_pools(arrange: Any) -> Handler:
    """An iterator that takes all items of its source before it yields any."""

    def arranged(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
        items = list(interpreter.iterators.items(arguments[0]))
        sizes = [interpreter.static(size, "how many items are taken") for size in arguments[1:]]
        return _of_rows(interpreter, arrange, arrange(items, *sizes))

    return arranged


for _function in (itertools.combinations, itertools.combinations_with_replacement, itertools.permutations):
    BUILTINS[_function] = _of_pools(_function)


@row(itertools.product)
def product(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    times = interpreter.static(keywords.get("repeat", Const(1)), "repeat")
    pools = [list(interpreter.iterators.items(source)) for source in arguments] * times
    return _of_rows(interpreter, itertools.product, itertools.product(*pools))


@row(itertools.repeat)
def repeat(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    times = arguments[1] if len(arguments) > 1 else keywords.get("times")
    if times is None:
        return interpreter.iterators.new(itertools.repeat, "repeat", arguments[0])
    count = max(0, interpreter.static(times, "how often repeat() repeats"))
    return interpreter.iterators.new(itertools.repeat, "series", Const(0), Tuple((arguments[0],) * count))


@row(itertools.tee)
def tee(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    iterators = interpreter.iterators
    count = interpreter.static(arguments[1] if len(arguments) > 1 else Const(2), "how many iterators tee() makes")
    source, buffer = iterators.iterator(arguments[0]), interpreter.new_list([])
    return Tuple(tuple(iterators.new(object, "tee", source, buffer, Const((0,))) for _ in range(count)))


@row(itertools.islice)
def islice(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    bounds = [interpreter.static(value, "a bound of islice()") for value in arguments[1:]]
    start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: tuple(bounds)}[len(bounds)]
    start, step = 0 if start is None else start, 1 if step is None else step
    if not all(isinstance(bound, int) and bound >= 0 for bound in (start, stop or 0)):
        interpreter.raise_error(ValueError, "Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if not isinstance(step, int) or step < 1:
        interpreter.raise_error(ValueError, "Step for islice() must be a positive integer or None.")
    source = interpreter.iterators.iterator(arguments[0])
    return interpreter.iterators.new(itertools.islice, "islice", source, Const((0, start, stop, step)))


@row(itertools.zip_longest)
def zip_longest(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    sources = map(interpreter.iterators.iterator, arguments)
    fill = keywords.get("fillvalue", NONE)
    return interpreter.iterators.new(itertools.zip_longest, "zip_longest", fill, *sources)


@row(itertools.accumulate)
def accumulate(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    source, function = [*arguments, NONE][:2]
    initial = keywords.get("initial", NONE)
    state = function, interpreter.iterators.iterator(source), NOTHING, NOTHING if is_none(initial) else initial
    return interpreter.iterators.new(itertools.accumulate, "accumulate", *state)


@row(itertools.compress)
def compressed(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    sources = map(interpreter.iterators.iterator, arguments)
    return interpreter.iterators.new(itertools.compress, "compress", *sources)


@row(itertools.groupby)
def groups(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    source, key = [*arguments, NONE][:2]
    state = key, interpreter.iterators.iterator(source), *[NOTHING] * 4
    return interpreter.iterators.new(itertools.groupby, "groupby", *state)


@row(itertools.count)
def numbers_from(interpreter: Interpreter, arguments: Arguments, keywords: Keywords) -> AbstractValue:
    start = arguments[0] if arguments else Const(0)
    step = arguments[1] if len(arguments) > 1 else keywords.get("step", Const(1))
    if not (isinstance(step, Const) and isinstance(step.value, int) and step.value > 0):
        interpreter.refuse("count() takes steps that are positive integers, known when the program is compiled")
    if not issubclass(interpreter.classes.class_of(start), (int, np.integer)):
        interpreter.refuse("count() starts at an integer in a compiled function")
    return Series("iter", (number_range(interpreter, [start, Const(LAST), step], {}),))
