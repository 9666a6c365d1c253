"""The maps of views: which elements of its owner a view has, how they are read, and how the owner takes others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.functional.values import Array
from hloom.ir import TensorType

if TYPE_CHECKING:
    from hloom.functional.interpreter import Interpreter

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
class IndexMap(ViewMap):
    """`owner[parts]`: numbers, slices, `None` and `...`; a number may be one that only the run knows."""

    parts: tuple[Any, ...]

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

    def opened(self, interpreter: Interpreter) -> ViewMap:
        return IndexMap(_opened(interpreter, self.parts))

    def moving(self) -> int:
        return sum(1 for part in self.parts if part is MOVING)

    def numbers(self, template: ViewMap) -> tuple[Any, ...]:
        assert isinstance(template, IndexMap)
        return tuple(a for a, b in zip(self.parts, template.parts, strict=True) if b is MOVING)

    def moved(self, numbers: Iterator[Array]) -> ViewMap:
        return IndexMap(tuple(next(numbers) if part is MOVING else part for part in self.parts))


def _opened(interpreter: Interpreter, parts: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        MOVING if isinstance(part, Array) and not interpreter.is_visible(part.node) else part for part in parts
    )


def _is_number(part: Any) -> bool:
    return part is MOVING or isinstance(part, (Array, int, np.integer))


def _is_known(part: Any) -> bool:
    return part is not MOVING and not isinstance(part, Array)


@dataclass(frozen=True, eq=False, slots=True)
class WindowMap(ViewMap):
    """A part of known size that begins where only the run knows: one number for each dimension."""

    starts: tuple[Any, ...]
    sizes: tuple[int, ...]

    def read(self, interpreter: Interpreter, owner: Array) -> Array:
        starts = [start.node for start in self.starts]
        return Array(interpreter.emitter.op("dynamic-slice", owner.node, *starts, dynamic_slice_sizes=self.sizes))

    def write(self, interpreter: Interpreter, owner: Array, value: Array) -> Array:
        starts = [start.node for start in self.starts]
        return Array(interpreter.emitter.op("dynamic-update-slice", owner.node, value.node, *starts))

    def joined(self, other: ViewMap) -> ViewMap | None:
        if self is other:
            return self
        if not isinstance(other, WindowMap) or self.sizes != other.sizes:
            return None
        rows = zip(self.starts, other.starts, strict=True)
        return WindowMap(tuple(a if a is b else MOVING for a, b in rows), self.sizes)

    def opened(self, interpreter: Interpreter) -> ViewMap:
        return WindowMap(_opened(interpreter, self.starts), self.sizes)

    def moving(self) -> int:
        return sum(1 for part in self.starts if part is MOVING)

    def numbers(self, template: ViewMap) -> tuple[Any, ...]:
        assert isinstance(template, WindowMap)
        return tuple(a for a, b in zip(self.starts, template.starts, strict=True) if b is MOVING)

    def moved(self, numbers: Iterator[Array]) -> ViewMap:
        return WindowMap(tuple(next(numbers) if part is MOVING else part for part in self.starts), self.sizes)


@dataclass(frozen=True, slots=True)
class Footprint:
    """Where in memory the elements of an array of NumPy's are."""

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    start: int

    @classmethod
    def of(cls, array: np.ndarray) -> Footprint:
        return cls(array.shape, array.strides, array.__array_interface__["data"][0])

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
    owner: Footprint
    part: Footprint
    problem: str | None = None

    def read(self, interpreter: Interpreter, owner: Array) -> Array:
        if self.call is not None:
            return self.call(interpreter, owner)
        return interpreter.library.subscript(_flat(interpreter, owner), [self.places()])

    def write(self, interpreter: Interpreter, owner: Array, value: Array) -> Array:
        emitter = interpreter.emitter
        places = self.places()
        inverse = _inverse(places, owner.type.element_count)
        if inverse is not None:
            flipped, order = inverse
            node = value.node if not flipped else emitter.op("reverse", value.node, dimensions=flipped)
            return Array(emitter.reshape(emitter.transpose(node, order), owner.dims))
        row = places.ravel()
        is_run = bool((np.diff(row) == 1).all())
        part: Any = slice(int(row[0]), int(row[-1]) + 1) if is_run else row
        changed = interpreter.library.update(_flat(interpreter, owner), [part], _flat(interpreter, value))
        return Array(emitter.reshape(changed.node, owner.dims))

    def places(self) -> np.ndarray:
        """The number of the owner's element, counted row by row, for each element of the view."""
        addresses = self.owner.addresses().ravel()
        order = np.argsort(addresses, kind="stable")
        return order[np.searchsorted(addresses, self.part.addresses(), sorter=order)]

    def is_one_to_one(self) -> bool:
        """Whether no two elements of the view are one of the owner's."""
        steps = [(abs(stride), size) for size, stride in zip(self.part.dims, self.part.strides, strict=True) if size > 1]
        reach = 0
        for stride, size in sorted(steps):
            if stride <= reach:
                return False
            reach += stride * (size - 1)
        return True

    def joined(self, other: ViewMap) -> ViewMap | None:
        if self is other:
            return self
        is_like = isinstance(other, CallMap) and self.key is not None and self.key == other.key
        return self if is_like else None


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
