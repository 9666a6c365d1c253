"""View maps: which elements of its owner a view has, how they are read, and how they are written back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functions.values import Array
from hloom.ir import TensorType

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

READ_ONLY = "NumPy gives a view that is read-only"
MOVING = "moving"
"""Stands for a number of an index that paths give differently."""


class ViewMap:
    """Which elements of its owner a view has."""

    problem: str | None = None
    """Why elements cannot be changed through the view, if they cannot."""

    def read(self, interpreter: Interpreter, owner: Array) -> Array:
        """The elements of the view, of the owner's."""
        raise NotImplementedError

    def write(self, interpreter: Interpreter, owner: Array, value: Array) -> Array:
        """The owner's elements where the view's are others."""
        raise NotImplementedError

    def joined(self, other: ViewMap) -> ViewMap | None:
        """What two maps have in common, with `MOVING` where their numbers differ; None where they are unlike."""
        return self if self is other else None

    def opened(self, interpreter: Interpreter) -> ViewMap:
        """The same with `MOVING` for the numbers that only a path computes."""
        return self

    def moving(self) -> int:
        """How many numbers stand open in what maps have in common."""
        return 0

    def numbers(self, template: ViewMap) -> tuple[Any, ...]:
        """The numbers, known or of the run, that stand open in what this map has in common with others."""
        return ()

    def moved(self, numbers: Iterator[Array]) -> ViewMap:
        """The same with numbers in place of those that stand open."""
        return self


@dataclass(frozen=True, eq=False, slots=True)
class NumberedMap(ViewMap):
    """A map with numbers, any of which may be known by the run only."""

    parts: tuple[Any, ...]

    def opened(self, interpreter: Interpreter) -> ViewMap:
        is_inner = [isinstance(part, Array) and not interpreter.is_visible(part.node) for part in self.parts]
        parts = zip(self.parts, is_inner, strict=True)
        return replace(self, parts=tuple(MOVING if is_moving else part for part, is_moving in parts))

    def moving(self) -> int:
        return sum(1 for part in self.parts if part is MOVING)

    def numbers(self, template: ViewMap) -> tuple[Any, ...]:
        assert isinstance(template, NumberedMap)
        return tuple(a for a, b in zip(self.parts, template.parts, strict=True) if b is MOVING)

    def moved(self, numbers: Iterator[Array]) -> ViewMap:
        return replace(self, parts=tuple(next(numbers) if part is MOVING else part for part in self.parts))


@dataclass(frozen=True, eq=False, slots=True)
class IndexMap(NumberedMap):
    """`owner[parts]`: numbers, slices, `None` and `...`."""

    def read(self, interpreter: Interpreter, owner: Array) -> Array:
        return interpreter.library.subscript(owner, self.parts)

    def write(self, interpreter: Interpreter, owner: Array, value: Array) -> Array:
        return interpreter.library.update(owner, self.parts, value)

    def joined(self, other: ViewMap) -> ViewMap | None:
        if self is other:
            return self
        if not isinstance(other, IndexMap) or len(self.parts) != len(other.parts):
            return None
        parts: list[Any] = []
        for a, b in zip(self.parts, other.parts, strict=True):
            if a is b or (_is_known(a) and _is_known(b) and a == b):
                parts.append(a)
            elif _is_number(a) and _is_number(b):
                parts.append(MOVING)
            else:
                return None
        return IndexMap(tuple(parts))

    def is_of_numbers(self) -> bool:
        """Whether it takes a row, or a row of a row."""
        return all(map(_is_number, self.parts))


def _is_number(part: Any) -> bool:
    return part is MOVING or isinstance(part, (Array, int, np.integer))


def _is_known(part: Any) -> bool:
    return part is not MOVING and not isinstance(part, Array)


@dataclass(frozen=True, eq=False, slots=True)
class WindowMap(NumberedMap):
    """A part of known size that begins where only the run knows: its parts are where, in each dimension."""

    sizes: tuple[int, ...]

    def read(self, interpreter: Interpreter, owner: Array) -> Array:
        starts = [start.node for start in self.parts]
        return Array(interpreter.emitter.op("dynamic-slice", owner.node, *starts, dynamic_slice_sizes=self.sizes))

    def write(self, interpreter: Interpreter, owner: Array, value: Array) -> Array:
        starts = [start.node for start in self.parts]
        return Array(interpreter.emitter.op("dynamic-update-slice", owner.node, value.node, *starts))

    def joined(self, other: ViewMap) -> ViewMap | None:
        if not isinstance(other, WindowMap) or self.sizes != other.sizes:
            return None
        rows = zip(self.parts, other.parts, strict=True)
        return self if self is other else WindowMap(tuple(a if a is b else MOVING for a, b in rows), self.sizes)


@dataclass(frozen=True, slots=True)
class StridedLayout:
    """Where in memory the elements of an array of NumPy's are."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    start: int

    @classmethod
    def of(cls, array: np.ndarray) -> StridedLayout:
        return cls(array.shape, array.strides, array.__array_interface__["data"][0])

    def row_major(self) -> tuple[int, ...]:
        """The strides of a new array with these dimensions, if elements are as large as they are near."""
        steps = [abs(stride) for size, stride in zip(self.dims, self.strides, strict=True) if size > 1]
        strides: list[int] = []
        step = min(steps, default=0)
        for size in reversed(self.dims):
            strides.append(step)
            step *= size
        return tuple(reversed(strides))

    def is_contiguous(self) -> bool:
        """Whether elements follow each other row by row."""
        rows = zip(self.dims, self.strides, self.row_major(), strict=True)
        return all(size == 1 or stride == wanted for size, stride, wanted in rows)

    def addresses(self) -> np.ndarray:
        """The address of each element."""
        made = np.full(self.dims, self.start, np.int64)
        for axis, (size, stride) in enumerate(zip(self.dims, self.strides, strict=True)):
            along = [1] * len(self.dims)
            along[axis] = size
            made = made + (np.arange(size) * stride).reshape(along)
        return made


@dataclass(frozen=True, eq=False, slots=True)
class CallMap(ViewMap):
    """What a function or a method of NumPy gives of its owner, at places that NumPy was asked for."""

    key: Any
    """What calls that give the same places have in common; None where nothing is known of it."""
    call: Callable[[Interpreter, Array], Array] | None
    """The call with an owner in place of the first; None where elements are taken one by one."""
    owner: StridedLayout
    part: StridedLayout
    problem: str | None = None

    def read(self, interpreter: Interpreter, owner: Array) -> Array:
        if self.call is not None:
            return self.call(interpreter, owner)
        return interpreter.library.subscript(_flat(interpreter, owner), [self.places()])

    def write(self, interpreter: Interpreter, owner: Array, value: Array) -> Array:
        emitter = interpreter.emitter
        if owner.type.element_count == value.type.element_count and self.is_reshape():
            return Array(emitter.reshape(value.node, owner.dims))
        places: np.ndarray | None = None
        inverse = self.transposition()
        if inverse is None:
            places = self.places()
            inverse = _inverse(places, owner.type.element_count)
        if inverse is not None:
            flipped, order = inverse
            node = value.node if not flipped else emitter.op("reverse", value.node, dimensions=flipped)
            return Array(emitter.reshape(emitter.transpose(node, order), owner.dims))
        assert places is not None
        row = places.ravel()
        is_run = bool((np.diff(row) == 1).all())
        part: Any = slice(int(row[0]), int(row[-1]) + 1) if is_run else row
        changed = interpreter.library.update(_flat(interpreter, owner), [part], _flat(interpreter, value))
        return Array(emitter.reshape(changed.node, owner.dims))

    def is_reshape(self) -> bool:
        """Whether the view has the owner's elements in their order."""
        is_in_order = self.owner.is_contiguous() and self.part.is_contiguous()
        steps = [min((abs(step) for step in one.strides if step), default=0) for one in (self.owner, self.part)]
        return is_in_order and self.owner.start == self.part.start and steps[0] == steps[1]

    def transposition(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The dimensions to reverse, and their order, that give the owner, if it has the same ones."""
        order: list[int] = []
        flipped: list[int] = []
        start = self.owner.start
        for size, stride in zip(self.owner.dims, self.owner.strides, strict=True):
            rows = enumerate(zip(self.part.dims, self.part.strides, strict=True))
            axes = [
                axis for axis, (length, step) in rows
                if axis not in order and length == size and (size == 1 or abs(step) == abs(stride) != 0)
            ]  # fmt: skip
            if not axes:
                return None
            order.append(axes[0])
            if size > 1 and self.part.strides[axes[0]] != stride:
                flipped.append(axes[0])
                start += (size - 1) * stride
        is_all = len(order) == len(self.part.dims) and start == self.part.start
        return (tuple(flipped), tuple(order)) if is_all else None

    def pushed(self, interpreter: Interpreter, parts: Sequence[Any]) -> list[Any] | None:
        """An index of the view as one of the owner, where the view has its dimensions; None where it has not.

        An index of numbers with one slice at most: what it gives has no order of dimensions that would differ.
        """
        inverse = self.transposition()
        rank = len(self.part.dims)
        if inverse is None or any(part is None for part in parts):
            return None
        flipped, order = inverse
        before = next((number for number, part in enumerate(parts) if part is Ellipsis), len(parts))
        after = list(parts[before + 1 :])
        full = [*parts[:before], *[slice(None)] * (rank - before - len(after)), *after]
        slices = [axis for axis, part in enumerate(full) if isinstance(part, slice)]
        if len(slices) > 1 or any(axis in flipped for axis in slices):
            return None
        for axis in flipped:
            full[axis] = _from_the_end(interpreter, full[axis])
        return [full[axis] for axis in order]

    def places(self) -> np.ndarray:
        """The number of the owner's element, counted row by row, for each element of the view."""
        addresses = self.owner.addresses().ravel()
        order = np.argsort(addresses, kind="stable")
        return order[np.searchsorted(addresses, self.part.addresses(), sorter=order)]

    def is_one_to_one(self) -> bool:
        """Whether no two elements of the view are one of the owner's."""
        steps = sorted(zip(map(abs, self.part.strides), self.part.dims, strict=True))
        reach = 0
        for stride, size in steps:
            if size == 1:
                continue
            if stride <= reach:
                return False
            reach += stride * (size - 1)
        return True

    def joined(self, other: ViewMap) -> ViewMap | None:
        if self is other:
            return self
        is_like = isinstance(other, CallMap) and self.key is not None and self.key == other.key
        return self if is_like else None


def _from_the_end(interpreter: Interpreter, number: Any) -> Any:
    """A number of an index along a dimension that is reversed."""
    if not isinstance(number, Array):
        return -1 - int(number)
    emitter = interpreter.emitter
    return Array(emitter.sub(emitter.like(-1, number.node), number.node), number.weak)


def _flat(interpreter: Interpreter, array: Array) -> Array:
    return Array(interpreter.emitter.reshape(array.node, (array.type.element_count,)))


def _inverse(places: np.ndarray, size: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The dimensions to reverse, and their order, that give the owner row by row; None where no such has all of it."""
    if places.size != size or not size:
        return None
    steps = [
        int(places.take(1, axis).flat[0] - places.flat[0]) if length > 1 else 0
        for axis, length in enumerate(places.shape)
    ]
    flipped = tuple(axis for axis, step in enumerate(steps) if step < 0)
    order = tuple(int(axis) for axis in np.argsort([-abs(step) for step in steps], kind="stable"))
    rows = np.flip(places, flipped).transpose(order).ravel()
    return (flipped, order) if np.array_equal(rows, np.arange(size)) else None


@dataclass(frozen=True, eq=False, slots=True)
class ComplexPartMap(ViewMap):
    """The real or the imaginary parts of an array of complex numbers."""

    is_real: bool

    def read(self, interpreter: Interpreter, owner: Array) -> Array:
        return Array(interpreter.emitter.op("real" if self.is_real else "imag", owner.node))

    def write(self, interpreter: Interpreter, owner: Array, value: Array) -> Array:
        emitter = interpreter.emitter
        other = emitter.op("imag" if self.is_real else "real", owner.node)
        parts = (value.node, other) if self.is_real else (other, value.node)
        return Array(emitter.op("complex", *parts))

    def joined(self, other: ViewMap) -> ViewMap | None:
        return self if isinstance(other, ComplexPartMap) and other.is_real == self.is_real else None


def zeros_like(interpreter: Interpreter, arrays: Sequence[Array]) -> list[Array]:
    """Arrays of zeros in place of others, on whose elements nothing depends."""
    return [Array(interpreter.emitter.zeros(TensorType(array.dtype, array.dims)), array.weak) for array in arrays]
