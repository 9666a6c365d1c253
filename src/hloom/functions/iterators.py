"""Iterators: objects that are consumed by iteration, and their sources, which may change meanwhile.

`iter()` returns one of two things. A source with numbered items (`Series`, arrays, lists, dicts) is read item by item,
each when its turn comes. Everything else is an iterator object: a cell of the store that holds its class, its rule and
its state, so that branches and loops carry its progress.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Sequence
from types import GeneratorType
from typing import TYPE_CHECKING, Any, NoReturn

from hloom.functions.container_classes import is_container, is_mapping, plain_class
from hloom.functions.iterator_rules import STEPS, GeneratorCode, inner_scope, unequal_lengths
from hloom.functions.values import (
    ITERATOR,
    AbstractValue,
    Array,
    ConflictingValue,
    Const,
    Fields,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    described,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

INDEXED = (str, bytes, tuple, list, range)
"""The classes of Python's objects whose items have numbers."""
CLASSES: dict[str, type] = {
    "zip": zip, "strict zip": zip, "map": map, "enumerate": enumerate, "reversed": reversed, "range": range,
    "keys": type({}.keys()), "values": type({}.values()), "items": type({}.items()), "iter": ITERATOR,
    "watched": type(iter({})),
}  # fmt: skip
"""Python's class of each series."""
TEMPORARY = frozenset({"zip", "strict zip", "map", "enumerate", "reversed", "iter"})
"""The series that are iterators in Python: once they have a name, how far they have gone belongs to an object."""
BEYOND = 1 << 62
"""The number of the next item of an iterator that is used up: no list ever has that many."""
VIEWS = frozenset({"keys", "values", "items"})
"""The series that show what a dict holds."""


def is_iterator(value: AbstractValue) -> bool:
    """Whether a value is an iterator object."""
    return isinstance(value, Ref) and value.cell.cls is ITERATOR


def is_view(value: AbstractValue) -> bool:
    """Whether a value shows the keys, values or items of a dict."""
    return isinstance(value, Series) and value.rule in VIEWS


class Iterators:
    """The iterators of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    # What is gone over

    def begun(self, source: AbstractValue) -> AbstractValue:
        """What `iter(source)` goes over: an iterator object, or a source whose items have numbers."""
        if isinstance(source, ValueChoice):
            self.interpreter.refuse("which of several containers is meant must be known when the program is compiled")
        if isinstance(source, Ref):
            return self._begun_object(source)
        if isinstance(source, Const):
            return self._begun_constant(source)
        if isinstance(source, Series) and source.rule in VIEWS:
            return self._watched(source, source.parts[0])
        is_number = isinstance(source, Array) and not source.dims
        if is_number or not isinstance(source, (Array, Tuple, Series)):
            self.interpreter.raise_error(TypeError, f"{described(source)} is not iterable")
        return source

    def _begun_object(self, source: Ref) -> AbstractValue:
        interpreter = self.interpreter
        cls = source.cell.cls
        if is_mapping(cls) or plain_class(cls) is deque:
            return self._watched(source, source)
        if is_container(cls) or cls is ITERATOR:
            return source
        method = interpreter.members.class_attribute(source, "__iter__")
        if method is None:
            if interpreter.members.class_attribute(source, "__getitem__") is None:
                interpreter.raise_error(TypeError, f"{described(source)} is not iterable")
            return source
        made = interpreter.calls.call(method, [], {})
        if is_iterator(made):
            return made
        if isinstance(made, Ref) and interpreter.members.class_attribute(made, "__next__") is not None:
            interpreter.refuse(
                "an iterator of a class of its own cannot be gone over: where it ends, it raises StopIteration",
                hint="let __iter__ return iter() of a list or a tuple",
            )
        if not isinstance(made, Const):
            interpreter.raise_error(TypeError, f"iter() returned non-iterator {described(made)}")
        return self.begun(made)

    def _begun_constant(self, source: Const) -> AbstractValue:
        interpreter = self.interpreter
        held = interpreter.static(source, "what is gone over")
        if isinstance(held, INDEXED):
            return source
        if hasattr(type(held), "__next__"):
            interpreter.refuse(
                f"{described(source)} is an iterator from outside the function, which each call would use up further",
                hint="make it inside the function",
            )
        with interpreter.errors_raised():
            made = iter(held)
        items: list[AbstractValue] = []
        for item in made:
            interpreter.step()
            items.append(interpreter.embed(item))
        return Tuple(tuple(items))

    def _watched(self, source: AbstractValue, owner: AbstractValue) -> AbstractValue:
        """A dict, or a deque, that may not change its size while it is gone over."""
        assert isinstance(owner, Ref)
        fields = self.interpreter.contents(owner)
        return Series("watched", (source, owner, Const(fields if fields.keys is None else fields.keys)))

    def is_numbered(self, source: AbstractValue) -> bool:
        """Whether the items of what was begun have numbers."""
        if isinstance(source, Series):
            return all(self.is_numbered(part) for part in _sources(source))
        return not is_iterator(source)

    def has(self, source: AbstractValue, number: int) -> bool:
        """Whether a source, as it is now, has an item of this number."""
        if isinstance(source, Series):
            if source.rule == "watched":
                self._check_watched(source)
                return number < self._count(source.parts[0])
            if source.rule == "reversed":
                size = self.interpreter.static(source.parts[1], "how many items there are")
                return self.has(source.parts[0], max(size - 1 - number, 0)) and number < size
            if source.rule == "strict zip":
                return self._has_row(source, number)
            if source.rule != "range":
                sources = _sources(source)
                return bool(sources) and all(self.has(part, number) for part in sources)
        return number < self._count(source)

    def _has_row(self, source: Series, number: int) -> bool:
        """Whether `zip(..., strict=True)` has another row; raises ValueError where only some of its sources have."""
        there = [self.has(part, number) for part in source.parts]
        for position, is_there in enumerate(there):
            if is_there is not there[0]:
                unequal_lengths(self.interpreter, position, "longer" if is_there else "shorter")
        return bool(there) and there[0]

    def _check_watched(self, source: Series) -> None:
        interpreter = self.interpreter
        _, owner, seen = source.parts
        assert isinstance(owner, Ref) and isinstance(seen, Const)
        fields = interpreter.contents(owner)
        if fields.keys is None:
            if fields is seen.value:
                return
            if len(fields.items) != len(seen.value.items):
                interpreter.raise_error(RuntimeError, "deque mutated during iteration")
            interpreter.refuse("a deque is changed while it is gone over", hint="go over a list of its items")
        if len(fields.keys) != len(seen.value):
            cls = "OrderedDict mutated" if plain_class(owner.cell.cls).__name__ == "OrderedDict" else None
            interpreter.raise_error(RuntimeError, f"{cls or 'dictionary changed size'} during iteration")
        if fields.keys != seen.value:
            interpreter.refuse("the keys of a dict are changed while it is gone over", hint="go over list(it)")

    def _count(self, source: AbstractValue) -> int:
        length = self.interpreter.members.length(source)
        if not isinstance(length, int):
            self.interpreter.refuse(
                "how many items there are must be known when the program is compiled",
                hint="write a for loop, which may run as often as data say",
            )
        return length

    def items(self, source: AbstractValue) -> Iterator[AbstractValue]:
        """The items of a source, each as it is when it is asked for."""
        interpreter = self.interpreter
        source = self.begun(source)
        if not self.is_numbered(source):
            while (item := self.next(source)) is not None:
                interpreter.step()
                yield item
            return
        number = 0
        while self.has(source, number):
            interpreter.step()
            yield interpreter.current(interpreter.members.item(source, Const(number)))
            number += 1

    # Iterator objects

    def new(self, cls: type, rule: str, *state: AbstractValue) -> Ref:
        """A new iterator object."""
        return self.interpreter.new_object(ITERATOR, Fields(None, (Const(cls), Const(rule), *state)))

    def iterator(self, source: AbstractValue) -> Ref:
        """The iterator object that goes over a source."""
        source = self.begun(source)
        if isinstance(source, Ref) and is_iterator(source):
            return source
        return self.new(_class_of(source), "series", Const(0), source)

    def owned(self, value: AbstractValue) -> AbstractValue:
        """The value of a call, which may get a name: what is used up as it is gone over is an object from here on."""
        return self.iterator(value) if isinstance(value, Series) and value.rule in TEMPORARY else value

    def class_of(self, iterator: AbstractValue) -> type:
        """Python's class of an iterator object."""
        assert isinstance(iterator, Ref)
        return self.interpreter.contents(iterator).items[0].value  # type: ignore[attr-defined]

    def series(self, iterator: AbstractValue) -> tuple[AbstractValue, AbstractValue] | None:
        """The number of the next item, and the source, of an iterator whose items have numbers."""
        if not isinstance(iterator, Ref) or not is_iterator(iterator):
            return None
        _, rule, *state = self._held(iterator)
        return (state[0], state[1]) if isinstance(rule, Const) and rule.value == "series" else None

    def _held(self, iterator: Ref) -> Sequence[AbstractValue]:
        """What an iterator object holds, where one path has not taken more from it than another."""
        if isinstance(self.interpreter.store.get(iterator.cell), ConflictingValue):
            self._refuse_unknown()
        return self.interpreter.contents(iterator).items

    def refuse_text(self, value: AbstractValue) -> None:
        """Refuse the text of an iterator, which is its address."""
        if is_iterator(value):
            self.interpreter.refuse("the text of an iterator is its address", hint="make a list of it first")

    def state(self, iterator: Ref) -> Sequence[Any]:
        """The state of an iterator object."""
        return self.interpreter.contents(iterator).items[2:]

    def save(self, iterator: Ref, *state: AbstractValue) -> None:
        """Change the state of an iterator object."""
        self.interpreter.change(iterator, Fields(None, (*self.interpreter.contents(iterator).items[:2], *state)))

    def finish(self, iterator: Ref) -> None:
        """Mark an iterator as used up: it yields nothing again, even if its source grows."""
        held, cls = self.series(iterator), self.interpreter.contents(iterator).items[0]
        if held is None or _is_watched(held[1]):
            self.interpreter.change(iterator, Fields(None, (cls, Const("finished"))))
        elif _may_grow(held[1]):
            self.save(iterator, Const(BEYOND), held[1])

    def next(self, iterator: AbstractValue) -> AbstractValue | None:
        """Take the next item; None, and it is used up, where there is none."""
        interpreter = self.interpreter
        assert isinstance(iterator, Ref)
        interpreter.step()
        rule = self._held(iterator)[1]
        if not isinstance(rule, Const):
            self._refuse_unknown()
        if rule.value == "finished":
            return None
        if rule.value == "series":
            item = self._next_of_series(iterator)
        else:
            state = self.state(iterator)
            if any(isinstance(part, ValueChoice) for part in state):
                self._refuse_unknown()
            item = STEPS[rule.value](interpreter, iterator, state)
        if item is not None:
            return interpreter.current(item)
        self.finish(iterator)
        return None

    def _next_of_series(self, iterator: Ref) -> AbstractValue | None:
        number, source = self.state(iterator)
        if not isinstance(number, Const):
            self._refuse_unknown()
        if not self.has(source, number.value):
            return None
        self.save(iterator, Const(number.value + 1), source)
        return self.interpreter.members.item(source, number)

    def _refuse_unknown(self) -> NoReturn:
        self.interpreter.refuse(
            "how far this iterator has gone must be known when the program is compiled",
            hint="use a for loop over an array, or an index of your own",
        )

    def next_or(self, iterator: Ref, default: AbstractValue | None) -> AbstractValue:
        """`next(iterator)`, with or without a default; the run says whether there is an item where it alone knows."""
        interpreter = self.interpreter
        held = self.series(iterator)
        length = interpreter.members.length(held[1]) if held is not None else 0
        if held is None or (isinstance(held[0], Const) and isinstance(length, int)):
            item = self.next(iterator)
            if item is not None:
                return item
            return default if default is not None else interpreter.raise_error(StopIteration, "")
        number, source = held
        size: AbstractValue = length if isinstance(length, Array) else Const(length)
        there = interpreter.operators.truth(interpreter.operators.compare("<", number, size))

        def take() -> AbstractValue:
            self.save(iterator, interpreter.operators.binary("+", number, Const(1)), source)
            return interpreter.current(interpreter.members.item(source, number))

        if isinstance(there, bool):
            return take() if there else default if default is not None else interpreter.raise_error(StopIteration, "")
        if default is None:
            interpreter.check(there, StopIteration, "")
            return take()
        return interpreter.control.choose(there, take, lambda: default)

    # Generator expressions

    def generator(self, node: ast.GeneratorExp, source: AbstractValue) -> Ref:
        """A generator expression: it reads names when an item is asked for, but goes over its first source from now."""
        scope = inner_scope(self.interpreter, node.generators)
        held = Const(GeneratorCode(node, self.interpreter.here.code, scope))
        return self.new(GeneratorType, "generator", held, self.iterator(source))


def _sources(series: Series) -> Sequence[AbstractValue]:
    """The parts of a series that it goes over."""
    if series.rule in ("range", "watched", *VIEWS):
        return ()
    if series.rule == "map":
        return series.parts[1:]
    return series.parts[:1] if series.rule in ("enumerate", "reversed", "iter") else series.parts


def _may_grow(source: AbstractValue) -> bool:
    """Whether a source may have more items later than now."""
    return any(map(_may_grow, _sources(source))) if isinstance(source, Series) else isinstance(source, Ref)


def _is_watched(source: AbstractValue) -> bool:
    """Whether going over a source further raises where it has changed."""
    return isinstance(source, Series) and (source.rule == "watched" or any(map(_is_watched, _sources(source))))


def _class_of(source: AbstractValue) -> type:
    """Python's class of the iterator over a source."""
    return CLASSES[source.rule] if isinstance(source, Series) else ITERATOR
