"""The common structure of values that meet at a control-flow join, and how it is carried through HLO.

In a `JoinSpec`, `leaves` are the carried arrays, in order; `lower` produces them from one of the values, `lift` turns
them back into a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hloom.functions.aliases import Origins
from hloom.functions.equality import same
from hloom.functions.store import Store
from hloom.functions.values import (
    PREDICATE,
    S32,
    UNBOUND,
    AbstractValue,
    Array,
    Cell,
    Const,
    Maybe,
    Ref,
    ValueChoice,
    described,
)
from hloom.functions.view_maps import ViewMap
from hloom.functions.views import IN_ORDER, MemoryLayout, View
from hloom.ir import Node, TensorType

if TYPE_CHECKING:
    from hloom.functions.joins import Join


class AbsentValue(AbstractValue):
    """Nothing: on a path that does not go on, any value will do."""

    __slots__ = ()


ABSENT = AbsentValue()


class NoCommonType(Exception):
    """Values that meet have no type in common."""


class JoinSpec:
    """The common structure of values that meet."""

    def leaves(self) -> Iterator[LeafSpec]:
        """The arrays that are carried."""
        return iter(())

    def lower(self, join: Join, value: Any, store: Store) -> Iterator[Node]:
        """The arrays of one value, made by the interpreter's present emitter."""
        return iter(())

    def lift(self, join: Join, nodes: Iterator[Node]) -> Any:
        """The value of arrays."""
        raise NotImplementedError

    def renewed(self, cells: dict[Cell, Cell]) -> JoinSpec:
        """The same with objects of its own, so that values lifted from one spec share none."""
        return self

    def absent(self, join: Join) -> Iterator[Node]:
        """Arrays that stand for no value: zeros."""
        for leaf in self.leaves():
            yield join.interpreter.emitter.zeros(leaf.type)


@dataclass(frozen=True)
class SameSpec(JoinSpec):
    """One value on all paths, which nothing has to be carried for."""

    value: Any

    def lift(self, join: Join, nodes: Iterator[Node]) -> Any:
        return self.value

    def renewed(self, cells: dict[Cell, Cell]) -> JoinSpec:
        if isinstance(self.value, Ref) and self.value.cell in cells:
            return SameSpec(Ref(cells[self.value.cell]))
        return self


@dataclass(frozen=True)
class LeafSpec(JoinSpec):
    """An array or a number."""

    type: TensorType
    weak: bool
    origins: Origins = field(default=(), compare=False)
    """Of arrays whose elements may be changed: which array it is on each path."""
    layout: MemoryLayout = IN_ORDER
    """Of an argument: how it is laid out in memory."""

    def leaves(self) -> Iterator[LeafSpec]:
        yield self

    def lower(self, join: Join, value: Any, store: Store) -> Iterator[Node]:
        if isinstance(value, Array):
            value = join.interpreter.views.unchecked(value) if value.identity.view is not None else store.array(value)
        yield join.interpreter.numbers.as_type(value, self.type)

    def lift(self, join: Join, nodes: Iterator[Node]) -> Any:
        array = Array(next(nodes), self.weak)
        if self.layout != IN_ORDER:
            return join.interpreter.views.laid_out(array, self.layout)
        return join.interpreter.aliases.joined(array, join, self.origins) if self.origins else array


@dataclass(frozen=True)
class ViewSpec(JoinSpec):
    """A view of one array on all paths: the numbers of its map that differ are carried, its elements are not."""

    owner: Array
    maps: tuple[ViewMap, ...]
    """From the array that holds the elements on."""
    strides: tuple[tuple[int, ...], ...]
    types: tuple[TensorType, ...]

    def leaves(self) -> Iterator[LeafSpec]:
        for element in self.types:
            yield LeafSpec(element, True)

    def lower(self, join: Join, value: Any, store: Store) -> Iterator[Node]:
        elements = iter(self.types)
        for view, way in zip(chain_of(value), self.maps, strict=True):
            for number in view.map.numbers(way):
                held = number if isinstance(number, Array) else Const(int(number))
                yield join.interpreter.numbers.as_type(held, next(elements))

    def lift(self, join: Join, nodes: Iterator[Node]) -> Any:
        array = self.owner
        numbers = (Array(next(nodes), True) for _ in self.types)
        for way, strides in zip(self.maps, self.strides, strict=True):
            array = join.interpreter.views.remade(array, way.moved(numbers), strides)
        return array

    def is_like(self, other: ViewSpec) -> bool:
        """Whether both carry the numbers of one map."""
        if self.owner is not other.owner or len(self.maps) != len(other.maps) or self.types != other.types:
            return False
        rows = [(own, own.joined(given)) for own, given in zip(self.maps, other.maps, strict=True)]
        return all(common is not None and common.moving() == own.moving() for own, common in rows)


def chain_of(array: Array) -> list[View]:
    """The views that lead from the array that holds the elements to a view of it."""
    views: list[View] = []
    one = array.identity
    while one.view is not None:
        views.append(one.view)
        one = one.view.owner.identity
    return views[::-1]


@dataclass(frozen=True)
class PartsSpec(JoinSpec):
    """A value made of others: how it comes apart, and how it is put together."""

    parts: tuple[JoinSpec, ...]
    take: Callable[[Any, Store], Sequence[Any]]
    make: Callable[[Join, Sequence[Any]], Any]

    @classmethod
    def like(cls, value: AbstractValue, parts: Sequence[JoinSpec]) -> PartsSpec:
        """The spec of values of one kind."""
        return cls(tuple(parts), lambda given, store: given.children, lambda join, items: value.with_children(items))

    def leaves(self) -> Iterator[LeafSpec]:
        for part in self.parts:
            yield from part.leaves()

    def lower(self, join: Join, value: Any, store: Store) -> Iterator[Node]:
        for part, item in zip(self.parts, self.take(value, store), strict=True):
            yield from part.absent(join) if item is ABSENT else part.lower(join, item, store)

    def lift(self, join: Join, nodes: Iterator[Node]) -> Any:
        return self.make(join, [part.lift(join, nodes) for part in self.parts])

    def renewed(self, cells: dict[Cell, Cell]) -> JoinSpec:
        return PartsSpec(tuple(part.renewed(cells) for part in self.parts), self.take, self.make)


@dataclass(frozen=True)
class CellSpec(JoinSpec):
    """A mutable object that each path made for itself: one that stands for it after the join."""

    cell: Cell
    content: JoinSpec

    def leaves(self) -> Iterator[LeafSpec]:
        return self.content.leaves()

    def lower(self, join: Join, value: Any, store: Store) -> Iterator[Node]:
        return self.content.lower(join, store.get(value.cell), store)

    def lift(self, join: Join, nodes: Iterator[Node]) -> Any:
        join.store.set(self.cell, self.content.lift(join, nodes))
        return Ref(self.cell)

    def renewed(self, cells: dict[Cell, Cell]) -> JoinSpec:
        cells[self.cell] = Cell(self.cell.cls, self.cell.frozen)
        return CellSpec(cells[self.cell], self.content.renewed(cells))


@dataclass(frozen=True)
class MaybeSpec(JoinSpec):
    """A variable that is bound on some paths only."""

    content: JoinSpec

    def leaves(self) -> Iterator[LeafSpec]:
        yield LeafSpec(TensorType(PREDICATE), True)
        yield from self.content.leaves()

    def lower(self, join: Join, value: Any, store: Store) -> Iterator[Node]:
        emitter = join.interpreter.emitter
        if value is UNBOUND:
            yield emitter.constant(False, PREDICATE)
            yield from self.content.absent(join)
        elif isinstance(value, Maybe):
            yield value.flag.node
            yield from self.content.lower(join, value.value, store)
        else:
            yield emitter.constant(True, PREDICATE)
            yield from self.content.lower(join, value, store)

    def lift(self, join: Join, nodes: Iterator[Node]) -> Any:
        flag = Array(next(nodes), True)
        return Maybe(self.content.lift(join, nodes), flag)

    def renewed(self, cells: dict[Cell, Cell]) -> JoinSpec:
        return MaybeSpec(self.content.renewed(cells))


@dataclass(frozen=True)
class ChoiceSpec(JoinSpec):
    """Values that no one type holds, as a tagged union: which one it is, and what each alternative holds."""

    alternatives: tuple[tuple[AbstractValue, Store], ...]
    """A value of each alternative, and the store that its variables and objects are in."""
    parts: tuple[JoinSpec, ...]

    def leaves(self) -> Iterator[LeafSpec]:
        yield LeafSpec(TensorType(S32), True)
        for part in self.parts:
            yield from part.leaves()

    def lower(self, join: Join, value: Any, store: Store) -> Iterator[Node]:
        emitter = join.interpreter.emitter
        options = value.options if isinstance(value, ValueChoice) else (value,)
        numbers = [self._number(join, option, store) for option in options]

        def chosen(rows: Sequence[tuple[int, Node]]) -> Node:
            """Of rows of an option's number and a node, that of the option which the value is."""
            made = rows[0][1]
            for position, node in rows[1:]:
                is_it = emitter.compare("EQ", value.tag.node, emitter.constant(position, S32))
                made = node if node is made else emitter.select(is_it, node, made)
            return made

        yield chosen([(position, emitter.constant(number, S32)) for position, number in enumerate(numbers)])
        for number, part in enumerate(self.parts):
            own = [position for position, given in enumerate(numbers) if given == number]
            if not own:
                yield from part.absent(join)
                continue
            rows = [list(part.lower(join, options[position], store)) for position in own]
            for column in zip(*rows, strict=True):
                yield chosen(list(zip(own, column, strict=True)))

    def _number(self, join: Join, value: AbstractValue, store: Store) -> int:
        for number, (option, _) in enumerate(self.alternatives):
            if option is value:
                return number
        for number, (option, known) in enumerate(self.alternatives):
            if join.is_alike(option, known, value, store):
                return number
        raise NoCommonType(f"{described(value)} is not one of the values that were joined")

    def lift(self, join: Join, nodes: Iterator[Node]) -> Any:
        tag = Array(next(nodes), True)
        return ValueChoice(tag, tuple(part.lift(join, nodes) for part in self.parts))


def same_shape(a: JoinSpec | None, b: JoinSpec | None) -> bool:
    """Whether two specs carry the same arrays, of as many alternatives."""
    if a is None or b is None:
        return a is b
    if type(a) is not type(b):
        return False
    if isinstance(a, LeafSpec) and isinstance(b, LeafSpec):
        return a.type == b.type and a.weak == b.weak and a.layout == b.layout
    if isinstance(a, ViewSpec) and isinstance(b, ViewSpec):
        return a.is_like(b)
    if isinstance(a, SameSpec) and isinstance(b, SameSpec):
        return same(a.value, b.value) or (isinstance(a.value, Ref) and isinstance(b.value, Ref))
    left, right = _inner_specs(a), _inner_specs(b)
    return len(left) == len(right) and all(map(same_shape, left, right))


def count_alternatives(spec: JoinSpec) -> int:
    """The maximum total number of alternatives of tagged unions in a spec."""
    own = len(spec.parts) if isinstance(spec, ChoiceSpec) else 0
    return own + sum(map(count_alternatives, _inner_specs(spec)))


def _inner_specs(spec: JoinSpec) -> Sequence[JoinSpec]:
    if isinstance(spec, (PartsSpec, ChoiceSpec)):
        return spec.parts
    return (spec.content,) if isinstance(spec, (CellSpec, MaybeSpec)) else ()
