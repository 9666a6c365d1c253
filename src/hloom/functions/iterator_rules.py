"""How iterators of Python and itertools take their next item: a rule for each, after CPython's `itertoolsmodule.c`.

A rule is given the iterator object and its state, changes the state, and gives the item; None where there is none.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hloom.functions.code import Code
from hloom.functions.state import CallFrame
from hloom.functions.values import TRUE, UNBOUND, AbstractValue, Const, Fields, Ref, Scope, Tuple, Variable, is_none

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

State = Sequence[Any]
"""If only the run knows a part that decides which item is next, the part is a `ValueChoice`, which `next` refuses.

Counts are therefore kept in tuples: plain numbers from two paths would be joined into one number of the run.
"""
Step = Callable[["Interpreter", Ref, State], AbstractValue | None]
STEPS: dict[str, Step] = {}
NOTHING = Const(object())
"""Marks a part of a state that is not present yet, or no longer."""
STARTED = Const("started")


@dataclass(frozen=True, eq=False, slots=True)
class GeneratorCode:
    """A generator expression, with the variables around it."""

    node: ast.GeneratorExp
    code: Code
    scope: Scope


def _rule(*names: str) -> Callable[[Step], Step]:
    """Enter a step under the names of its rules."""

    def enter(step: Step) -> Step:
        STEPS.update(dict.fromkeys(names, step))
        return step

    return enter


def inner_scope(interpreter: Interpreter, rows: Sequence[ast.comprehension]) -> Scope:
    """A scope inside the present one for the names that a comprehension binds."""
    frame = interpreter.here
    names = {part.id for row in rows for part in ast.walk(row.target) if isinstance(part, ast.Name)}
    scope = Scope(frame.code, frame.scope, names)
    for variable in scope.variables.values():
        interpreter.store.set(variable, UNBOUND)
    return scope


def decided(interpreter: Interpreter, value: AbstractValue, what: str) -> bool:
    """Whether a value counts as true, which decides how many items there are."""
    truth = interpreter.operators.truth(value)
    if not isinstance(truth, bool):
        interpreter.refuse(
            f"{what} must be known when the program is compiled",
            hint="the length of the result would depend on data: use numpy.where, or a sum of products",
        )
    return truth


def unequal_lengths(interpreter: Interpreter, position: int, than: str) -> None:
    """Raise what `zip(..., strict=True)` raises where the source at a position is the first of another length."""
    others = "argument 1" if position == 1 else f"arguments 1-{position}"
    interpreter.raise_error(ValueError, f"zip() argument {position + 1} is {than} than {others}")


@_rule("zip")
def _zip(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    strict, *sources = state
    items: list[AbstractValue] = []
    for position, source in enumerate(sources):
        item = interpreter.iterators.next(source)
        if item is not None:
            items.append(item)
            continue
        if strict is TRUE and position:
            unequal_lengths(interpreter, position, "shorter")
        if strict is TRUE:
            for later, other in enumerate(sources[1:], 1):
                if interpreter.iterators.next(other) is not None:
                    unequal_lengths(interpreter, later, "longer")
        return None
    return Tuple(tuple(items)) if sources else None


@_rule("zip_longest")
def _zip_longest(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    fill, *sources = state
    items: list[AbstractValue] = []
    for position, source in enumerate(sources):
        item = None if source is NOTHING else interpreter.iterators.next(source)
        if item is None:
            sources[position] = NOTHING
            if all(other is NOTHING for other in sources):
                return None
        items.append(fill if item is None else item)
    interpreter.iterators.save(owner, fill, *sources)
    return Tuple(tuple(items)) if sources else None


@_rule("map")
def _map(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    function, *sources = state
    items: list[AbstractValue] = []
    for source in sources:
        item = interpreter.iterators.next(source)
        if item is None:
            return None
        items.append(item)
    return interpreter.calls.call(function, items, {})


@_rule("starmap")
def _starmap(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    function, source = state
    item = interpreter.iterators.next(source)
    return None if item is None else interpreter.calls.call(function, list(interpreter.iterators.items(item)), {})


@_rule("enumerate")
def _enumerate(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    count, source = state
    item = interpreter.iterators.next(source)
    if item is None:
        return None
    interpreter.iterators.save(owner, interpreter.operators.binary("+", count, Const(1)), source)
    return Tuple((count, item))


@_rule("filter", "filterfalse")
def _filter(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    wanted, function, source = state
    while (item := interpreter.iterators.next(source)) is not None:
        is_plain = isinstance(function, Const) and function.value in (None, bool)
        tested = item if is_plain else interpreter.calls.call(function, [item], {})
        name = "filter()" if wanted is TRUE else "filterfalse()"
        if decided(interpreter, tested, f"which items {name} yields") is (wanted is TRUE):
            return item
    return None


@_rule("takewhile")
def _takewhile(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    function, source = state
    item = interpreter.iterators.next(source)
    if item is None or not decided(
        interpreter, interpreter.calls.call(function, [item], {}), "which items takewhile() yields"
    ):
        return None
    return item


@_rule("dropwhile")
def _dropwhile(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    function, source, started = state
    while (item := interpreter.iterators.next(source)) is not None:
        if started is not NOTHING:
            return item
        if not decided(interpreter, interpreter.calls.call(function, [item], {}), "which items dropwhile() yields"):
            interpreter.iterators.save(owner, function, source, STARTED)
            return item
    return None


@_rule("compress")
def _compress(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    data, selectors = state
    while (item := interpreter.iterators.next(data)) is not None:
        selector = interpreter.iterators.next(selectors)
        if selector is None:
            return None
        if decided(interpreter, selector, "which items compress() yields"):
            return item
    return None


@_rule("chain")
def _chain(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    sources, current = state
    while True:
        if current is NOTHING:
            source = interpreter.iterators.next(sources)
            if source is None:
                return None
            current = interpreter.iterators.iterator(source)
            interpreter.iterators.save(owner, sources, current)
        item = interpreter.iterators.next(current)
        if item is not None:
            return item
        current = NOTHING
        interpreter.iterators.save(owner, sources, current)


@_rule("islice")
def _islice(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    source, numbers = state
    count, wanted, stop, step = numbers.value
    while count < wanted:
        if interpreter.iterators.next(source) is None:
            return None
        count += 1
    if stop is not None and count >= stop:
        return None
    item = interpreter.iterators.next(source)
    following = wanted + step if stop is None else min(wanted + step, stop)
    interpreter.iterators.save(owner, source, Const((count + 1, following, stop, step)))
    return item


@_rule("accumulate")
def _accumulate(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    function, source, total, initial = state
    if initial is not NOTHING:
        interpreter.iterators.save(owner, function, source, initial, NOTHING)
        return initial
    item = interpreter.iterators.next(source)
    if item is None:
        return None
    if total is NOTHING:
        made = item
    elif is_none(function):
        made = interpreter.operators.binary("+", interpreter.current(total), item)
    else:
        made = interpreter.calls.call(function, [interpreter.current(total), item], {})
    interpreter.iterators.save(owner, function, source, made, NOTHING)
    return made


@_rule("pairwise")
def _pairwise(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    source, former = state
    if former is NOTHING:
        first = interpreter.iterators.next(source)
        if first is None:
            return None
        former = first
    item = interpreter.iterators.next(source)
    if item is None:
        return None
    interpreter.iterators.save(owner, source, item)
    return Tuple((interpreter.current(former), item))


@_rule("repeat")
def _repeat(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    return state[0]


@_rule("cycle")
def _cycle(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    source, number, *saved = state
    item = None if source is NOTHING else interpreter.iterators.next(source)
    if item is not None:
        interpreter.iterators.save(owner, source, number, *saved, item)
        return item
    if not saved:
        return None
    (position,) = number.value
    interpreter.iterators.save(owner, NOTHING, Const(((position + 1) % len(saved),)), *saved)
    return saved[position]


@_rule("tee")
def _tee(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    source, buffer, number = state
    (position,) = number.value
    fields = interpreter.contents(buffer)
    if position == len(fields.items):
        item = interpreter.iterators.next(source)
        if item is None:
            return None
        interpreter.change(buffer, Fields(None, (*fields.items, item)))
    interpreter.iterators.save(owner, source, buffer, Const((position + 1,)))
    return interpreter.contents(buffer).items[position]


@_rule("callable")
def _callable(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    function, sentinel = state
    item = interpreter.calls.call(function, [], {})
    return (
        None
        if decided(interpreter, interpreter.operators.compare("==", item, sentinel), "which items iter() yields")
        else item
    )


# groupby: the groups take their items from the iterator that made them


def _read_group(interpreter: Interpreter, owner: Ref) -> bool:
    """Read the next item and its key; whether there is one."""
    function, source, *_, target, group = interpreter.iterators.state(owner)
    item = interpreter.iterators.next(source)
    if item is None:
        return False
    is_plain = is_none(function)
    ranked = item if is_plain else interpreter.calls.call(function, [item], {})
    key = Const(interpreter.static(ranked, "the key of groupby()"))
    interpreter.iterators.save(owner, function, source, key, item, target, group)
    return True


@_rule("groupby")
def _groupby(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    iterators = interpreter.iterators
    function, source, key, item, target, _ = state
    while key is NOTHING or (target is not NOTHING and target.value == key.value):
        if not _read_group(interpreter, owner):
            return None
        function, source, key, item, target, _ = iterators.state(owner)
    number = Const(object())
    iterators.save(owner, function, source, key, item, key, number)
    return Tuple((interpreter.embed(key.value), iterators.new(object, "group", owner, key, number)))


@_rule("group")
def _group(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    parent, wanted, number = state
    held = interpreter.iterators.state(parent)
    if not held or held[5].value is not number.value:
        return None
    if held[3] is NOTHING and not _read_group(interpreter, parent):
        return None
    function, source, key, item, target, group = interpreter.iterators.state(parent)
    if key.value != wanted.value:
        return None
    interpreter.iterators.save(parent, function, source, key, NOTHING, target, group)
    return item


# Generator expressions


@contextmanager
def _inside(interpreter: Interpreter, held: GeneratorCode) -> Iterator[None]:
    """Evaluate parts of a generator expression: among its own variables, called from here."""
    before = interpreter.frame
    depth = before.depth + 1 if before is not None else 0
    interpreter.frame = CallFrame(
        held.code, held.scope, Variable("left off"), Variable("result"), held.node, before, depth
    )
    try:
        yield
    finally:
        interpreter.frame = before


@_rule("generator")
def _generator(interpreter: Interpreter, owner: Ref, state: State) -> AbstractValue | None:
    code, *sources = state
    rows = code.value.node.generators
    iterators = interpreter.iterators
    with _inside(interpreter, code.value):
        while sources:
            row = rows[len(sources) - 1]
            item = iterators.next(sources[-1])
            if item is None:
                sources.pop()
                continue
            interpreter.assign(row.target, item)
            what = "which items a generator expression yields"
            if not all(decided(interpreter, interpreter.evaluate(test), what) for test in row.ifs):
                continue
            if len(sources) == len(rows):
                iterators.save(owner, code, *sources)
                return interpreter.evaluate(code.value.node.elt)
            sources.append(iterators.iterator(interpreter.consumed(rows[len(sources)].iter)))
    return None
