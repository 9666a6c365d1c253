"""Assigns a part of an array to an overlapping part with NumPy's semantics: copying first, or overwriting in order.

    x[:3] = x[::2]     ->  x[:3] = copy(x[::2])            nothing is read after it was overwritten
    x[::2] = x[:3]     ->  x[0] = x[0]; x[2] = x[1]; ..    the last element reads what the second wrote

The rules are those of `PyArray_AssignArray` and `raw_array_assign_array` in NumPy's array_assign_array.c: it copies
first unless the target has one dimension and both parts go the same way through memory. Then it goes up through
memory, or down where the source begins below the target and reaches into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.container_classes import is_row
from hloom.functions.values import AbstractValue, Array, Const
from hloom.functions.view_maps import CallMap, IndexMap, ViewMap, WindowMap
from hloom.functions.views import skeleton, strides_of

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

OVERWRITES = "NumPy overwrites the elements of this array while it reads them, in an order that is not known here"


def shares_elements(interpreter: Interpreter, owner: Array, value: AbstractValue) -> bool:
    """Whether a value is an array, or a sequence that holds one, that may have elements of an array."""
    if isinstance(value, Array):
        return value.has_elements and interpreter.aliases.share(owner, value)
    is_items = is_row(value)
    return is_items and any(shares_elements(interpreter, owner, item) for item in interpreter.iterators.items(value))


def as_it_goes(interpreter: Interpreter, target: Array, source: Array) -> Array:
    """What NumPy writes to a target of elements that may be those of the target."""
    length = target.dims[0] if len(target.dims) == 1 else 0
    if length < 2 or source.type.element_count != length or not source.dims or source.dims[-1] != length:
        return source
    step, source_step = strides_of(target)[0], strides_of(source)[-1]
    if step == source_step or step * source_step <= 0:
        return source
    memory = target.memory
    if memory is not source.memory or not memory.is_row_major:
        interpreter.refuse(OVERWRITES, hint="copy() the right side first")
    first, source_first = (_first(interpreter, array) for array in (target, source))
    if first is None or source_first is None:
        interpreter.refuse(OVERWRITES, hint="copy() the right side first")
    upwards = slice(None, None, 1 if step > 0 else -1)
    made = interpreter.library.subscript(source, [Ellipsis, upwards])
    back = length - 1 if step < 0 else 0
    apart = _sum(interpreter, [source_first, Const(back * (source_step - step)), _times(interpreter, first, -1)])
    places: Any
    if isinstance(apart, Const):
        places = _written(apart.value, abs(source_step), abs(step), length)
        if np.array_equal(places, np.arange(length)):
            return source
    else:
        arguments = [apart, Const(abs(source_step)), Const(abs(step)), Const(length)]
        places = interpreter.calls.call(interpreter.embed(_written), arguments, {})
    made = interpreter.library.subscript(made, [Ellipsis, places])
    return interpreter.library.subscript(made, [Ellipsis, upwards])


def _written(apart: Any, source_step: Any, step: Any, length: Any) -> Any:
    """For each element of a target, counted upwards through memory, the element of the source that it gets.

    `apart`: how far the first of the source is above the first of the target. Compiled where only the run knows it.
    """
    number = np.arange(length)
    distance = apart + number * source_step
    overwriter = distance // step
    is_element = (distance % step == 0) & (overwriter >= 0) & (overwriter < length)
    goes_down = (apart < 0) & (apart + length * source_step > 0)
    is_before = np.where(goes_down, overwriter > number, overwriter < number)
    got = np.where(is_element & is_before, overwriter, number)
    for _ in range(int(length).bit_length()):
        got = got[got]
    return got


def _first(interpreter: Interpreter, array: Array) -> AbstractValue | None:
    """How far in memory the first element is from that of the array that holds it; None where that is not known."""
    terms: list[AbstractValue] = []
    one = array.identity
    while one.view is not None:
        owner = one.view.owner.identity
        further = _terms(interpreter, one.view.map, owner)
        if further is None:
            return None
        terms.extend(further)
        one = owner
    return _sum(interpreter, terms)


def _terms(interpreter: Interpreter, way: ViewMap, owner: Array) -> list[AbstractValue] | None:
    """Numbers whose sum is how far in memory a view's first element is from its owner's."""
    strides = strides_of(owner)
    if isinstance(way, CallMap):
        return [Const((way.part.start - way.owner.start) // owner.dtype.numpy.itemsize)]
    if isinstance(way, WindowMap):
        return [_times(interpreter, start, stride) for start, stride in zip(way.parts, strides, strict=True)]
    if not isinstance(way, IndexMap):
        return None
    places = skeleton(owner.dims, strides)
    known = places[tuple(0 if isinstance(part, Array) else part for part in way.parts)]
    start, end = (array.__array_interface__["data"][0] for array in (places, known))
    terms: list[AbstractValue] = [Const(end - start)]
    for part, axis in _axes(way.parts, len(owner.dims)):
        if isinstance(part, Array):
            number = Array(interpreter.numbers.convert(part.node, interpreter.numbers.of_python[int]), True)
            from_the_start = interpreter.operators.binary("%", number, Const(owner.dims[axis]))
            terms.append(_times(interpreter, from_the_start, strides[axis]))
    return terms


def _axes(parts: Sequence[Any], rank: int) -> Iterator[tuple[Any, int]]:
    """The parts of an index with the dimensions that they are of."""
    taken = [part for part in parts if part is not None]
    before = next((number for number, part in enumerate(taken) if part is Ellipsis), len(taken))
    after = taken[before + 1 :]
    yield from zip(taken[:before], range(before), strict=True)
    yield from zip(after, range(rank - len(after), rank), strict=True)


def _times(interpreter: Interpreter, number: AbstractValue, factor: int) -> AbstractValue:
    return interpreter.operators.binary("*", number, Const(factor))


def _sum(interpreter: Interpreter, terms: Sequence[AbstractValue]) -> AbstractValue:
    total: AbstractValue = Const(0)
    for term in terms:
        total = interpreter.operators.binary("+", total, term)
    return total
