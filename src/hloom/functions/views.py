"""Views: arrays that share elements with another, at positions known at compile time or at run time.

    row = x[i]; row += 1      ->  row is (x, [i]), with the i of that moment: x = update(x, subscript(x, [i]) + 1, [i])
    y = x.T; x[0] = 7; y      ->  y is (x, transpose): it is read again from x as it is now

A view is a pair of its owner, which may be a view itself, and of the map between their elements. Reading a view reads
the owner as it is at that point; writing it writes the owner, down to the array that holds the elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hloom.functions.values import PREDICATE, Array, Const, Tuple
from hloom.functions.view_maps import READ_ONLY, CallMap, IndexMap, ViewMap, WindowMap
from hloom.ir import Node

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


class MemoryLayout(NamedTuple):
    """How an array is laid out in memory."""

    is_known: bool
    order: tuple[int, ...] | None
    """The dimensions, those farthest apart first; None where they are in order."""


IN_ORDER = MemoryLayout(True, None)


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """Where the elements of an array are, if they are another array's."""

    owner: Array
    map: ViewMap
    strides: tuple[int, ...]
    """How far apart in memory NumPy's elements along each dimension are, counted in elements."""
    readings: dict[Array, Array] = field(default_factory=dict)
    """By the owner at a point: the view's elements at that point, whose node may be of a graph that was left."""


class Views:
    """The views of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    def made(self, array: Array, owner: Array, way: ViewMap, strides: Sequence[int]) -> Array:
        """Note of a new array that its elements are those of an owner, read just now."""
        if owner.identity.is_fixed:
            array.is_fixed = True
        elif not owner.weak:
            array.view = View(owner.identity, way, tuple(strides))
            array.view.readings[owner] = array
        return array

    def indexed(self, array: Array, owner: Array, parts: Sequence[Any]) -> Array:
        """An element, a part or a copy of an owner, by the kind of index: a part is a view."""
        if owner.identity.is_fixed:
            array.is_fixed = True
        is_basic = all(_is_basic(part) for part in parts)
        if not is_basic or not (array.dims or any(part is Ellipsis for part in parts)):
            return array
        places = skeleton(owner.dims, strides_of(owner)) if all(owner.dims) else np.zeros(owner.dims, np.int8)
        known = tuple(0 if isinstance(part, Array) else part for part in parts)
        strides = places[known].strides if all(owner.dims) else row_major(array.dims)
        return self.made(array, owner, IndexMap(tuple(parts)), strides)

    def window(self, owner: Array, starts: Sequence[Node], sizes: Sequence[int]) -> Array:
        """A part of known size that begins where only the run knows."""
        way = WindowMap(tuple(Array(start, True) for start in starts), tuple(sizes))
        return self.made(way.read(self.interpreter, owner), owner, way, strides_of(owner))

    def remade(self, owner: Array, way: ViewMap, strides: tuple[int, ...]) -> Array:
        """A view that paths had in common, where they have met."""
        now = self.unchecked(owner)
        return self.made(Array(way.read(self.interpreter, now).node), now, way, strides)

    def ordered(self, array: Array, order: tuple[int, ...]) -> Array:
        """An array from outside as one whose dimensions are in another order in memory: a transpose of another one."""
        interpreter = self.interpreter
        memory = Array(interpreter.emitter.transpose(array.node, order))
        if array in interpreter.protected:
            interpreter.protected[memory] = interpreter.protected[array]
        inverse = Tuple(tuple(Const(order.index(axis)) for axis in range(len(order))))
        return interpreter.numbers.array(interpreter.library.call(np.transpose, [memory, inverse], {}))

    def laid_out(self, array: Array, layout: MemoryLayout) -> Array:
        """A new array that is laid out in memory in a certain way."""
        array.is_row_major = layout.is_known
        return array if layout.order is None else self.ordered(array, layout.order)

    def outermost(self, array: Array, parts: Sequence[Any]) -> tuple[Array, list[Any]]:
        """The array that an index of a row, or of a transpose, is of, and the index: `x[i][j]` is `x[i, j]`."""
        index, view = list(parts), array.identity.view
        while view is not None and view.map.problem is None and all(map(_is_basic, index)):
            if isinstance(view.map, IndexMap) and view.map.is_of_numbers():
                pushed: list[Any] | None = [*view.map.parts, *index]
            else:
                pushed = view.map.pushed(self.interpreter, index) if isinstance(view.map, CallMap) else None
            if pushed is None:
                break
            owner = self.interpreter.now(view.owner)
            array, index, view = owner, pushed, owner.identity.view
        return array, index

    def copied(self, array: Array) -> Array:
        """A copy that is laid out as the array is."""
        made = array.copied(self.interpreter.emitter.graph)
        made.is_row_major = is_row_major(array)
        return made

    # Reading and writing

    def reading(self, array: Array) -> Array:
        """The elements of a view as they are now."""
        view = array.view
        assert view is not None
        owner = self.interpreter.now(view.owner)
        return self._reading(array, view, owner)

    def unchecked(self, array: Array) -> Array:
        """The elements of an array or a view as they are now, though they may be those of another by now."""
        view = array.identity.view
        if view is None:
            return self.interpreter.store.array(array)
        return self._reading(array.identity, view, self.unchecked(view.owner))

    def _reading(self, array: Array, view: View, owner: Array) -> Array:
        known = view.readings.get(owner)
        if known is not None and self.interpreter.is_visible(known.node):
            return known
        made = view.map.read(self.interpreter, owner)
        made.root = array
        view.readings[owner] = made
        return made

    def change(self, array: Array, elements: Array) -> None:
        """Change the elements of an array, or of the owner of a view."""
        interpreter = self.interpreter
        if array.view is None:
            interpreter.store.set(array, elements)
            interpreter.aliases.changed(array)
            return
        owner = array.view.owner
        now = interpreter.now(owner)
        self.change(owner, array.view.map.write(interpreter, now, elements))
        elements.root = array
        after = interpreter.now(owner)
        array.view.readings[after] = elements

    def check_changeable(self, array: Array, doing: str) -> None:
        """Refuse, or raise what NumPy raises, where the elements of an array may not be changed."""
        interpreter = self.interpreter
        one = array.identity
        while one.view is not None:
            problem = one.view.map.problem
            if problem == READ_ONLY:
                interpreter.raise_error(ValueError, "assignment destination is read-only")
            if problem is not None:
                interpreter.refuse(f"{doing}: {problem}", hint="copy() it first")
            one = one.view.owner.identity
        reason = interpreter.protected.get(one)
        if reason is not None:
            interpreter.refuse(f"{doing}: {reason}", hint="copy() it first")


def _is_basic(part: Any) -> bool:
    """Whether a part of an index is one for which NumPy gives a view: numbers, slices, `None` and `...`."""
    if isinstance(part, Array):
        return not part.dims and part.dtype is not PREDICATE and not part.identity.is_boxed
    return not isinstance(part, (bool, np.bool_, list, np.ndarray))


def row_major(dims: Sequence[int]) -> tuple[int, ...]:
    """The strides of a new array of NumPy's, counted in elements."""
    strides: list[int] = []
    size = 1
    for length in reversed(dims):
        strides.append(size)
        size *= max(length, 1)
    return tuple(reversed(strides))


def strides_of(array: Array) -> tuple[int, ...]:
    """How far apart in memory NumPy's elements along each dimension are, where new arrays are laid out row by row."""
    view = array.identity.view
    return row_major(array.dims) if view is None else view.strides


def is_row_major(array: Array) -> bool:
    """Whether NumPy lays out a new array of this one's elements row by row."""
    return layout_of(array) == IN_ORDER


def layout_of(array: Array) -> MemoryLayout:
    """How NumPy lays out an array, and its copies that keep the layout."""
    is_known = array.memory.is_row_major
    return MemoryLayout(is_known, memory_order(array.dims, strides_of(array)) if is_known and not array.weak else None)


def memory_order(dims: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The dimensions as NumPy's order "K" has them, those farthest apart first; None where they are in order."""
    axes = sorted(range(len(dims)), key=lambda axis: -abs(strides[axis]) if dims[axis] > 1 else -math.inf)
    long = [axis for axis in axes if dims[axis] > 1]
    return None if long == sorted(long) or 0 in dims else tuple(axes)


def skeleton(dims: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """An array of bytes with these strides whose elements must not be read: it has but one."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), tuple(dims), tuple(strides))
