"""Ordered lists of device ids: explicit, or a reshaped and transposed range that is expanded only on request."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import TypeAlias

import numpy as np

from hloom.text import Unsupported

LARGEST_LIST = 2**24
"""The maximum number of device ids to expand into an array."""

LONGEST_TEXT = 2**16
"""The maximum number of device ids to write out one by one when a range is printed as a list."""

IotaFactor: TypeAlias = tuple[int, int]
"""A count of devices and the step between their ids. A transposed range is a list of these, major to minor."""


@dataclass(frozen=True, slots=True)
class ExplicitDevices:
    """Device ids, one by one.

    >>> str(ExplicitDevices((3, 1, 0, 2)))
    '3,1,0,2'
    """

    numbers: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of ids."""
        return len(self.numbers)

    def ids(self) -> np.ndarray:
        """The ids, in order."""
        return np.array(self.numbers, np.int64)

    def position(self, device: int) -> int:
        """The index of a device; raises ValueError if it is not in the list."""
        return self.numbers.index(device)

    def transposed(self, sizes: Sequence[int], order: Sequence[int]) -> ExplicitDevices:
        """The ids reshaped to these sizes and transposed to this order of dimensions."""
        return ExplicitDevices(tuple(self.ids().reshape(sizes).transpose(order).ravel().tolist()))

    def sorted_within(self, size: int) -> ExplicitDevices:
        """The ids with each run of `size` sorted."""
        return ExplicitDevices(tuple(np.sort(self.ids().reshape(-1, size), axis=1).ravel().tolist()))

    def __str__(self) -> str:
        return ",".join(map(str, self.numbers))


@dataclass(frozen=True, slots=True)
class IotaDevices:
    """The ids 0, 1, 2, ... as an array of `dims`, transposed by `permutation`; nothing is expanded until `ids()`.

    Equal orders are equal values: dimensions of size 1 are dropped, dimensions that stay adjacent are merged, and an
    empty list is `[0]`.

    >>> IotaDevices((2, 2, 2), (1, 2, 0)) == IotaDevices((2, 4), (1, 0))
    True
    >>> str(IotaDevices((2, 4), (1, 0))), IotaDevices((2, 4), (1, 0)).ids().tolist()
    ('[2,4]T(1,0)', [0, 4, 1, 5, 2, 6, 3, 7])
    """

    dims: tuple[int, ...]
    permutation: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        permutation = self.permutation or tuple(range(len(self.dims)))
        if sorted(permutation) != list(range(len(self.dims))):
            raise ValueError(f"{permutation} is not a permutation of the {len(self.dims)} dimensions")
        steps = (1, *accumulate(reversed(self.dims[1:]), mul))[::-1]
        dims, permutation = _dimensions([(self.dims[axis], steps[axis]) for axis in permutation])
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "permutation", permutation)

    @property
    def count(self) -> int:
        """The number of ids."""
        return math.prod(self.dims)

    @property
    def factors(self) -> tuple[IotaFactor, ...]:
        """Counts and steps, major to minor.

        >>> IotaDevices((2, 4), (1, 0)).factors
        ((4, 1), (2, 4))
        """
        steps = [math.prod(self.dims[axis + 1 :]) for axis in range(len(self.dims))]
        return tuple((self.dims[axis], steps[axis]) for axis in self.permutation)

    def ids(self) -> np.ndarray:
        """The ids, in order; Unsupported above LARGEST_LIST."""
        if self.count > LARGEST_LIST:
            raise Unsupported(f"a list of {self.count} devices is not expanded: {LARGEST_LIST} is the limit")
        return np.arange(self.count, dtype=np.int64).reshape(self.dims).transpose(self.permutation).ravel()

    def position(self, device: int) -> int:
        """The index of a device; raises ValueError if it is not in the list.

        >>> IotaDevices((2, 4), (1, 0)).position(6)
        5
        """
        if not 0 <= device < self.count:
            raise ValueError(f"device {device} is not among {self.count}")
        position = 0
        for count, step in self.factors:
            position = position * count + device // step % count
        return position

    def transposed(self, sizes: Sequence[int], order: Sequence[int]) -> Devices:
        """The ids reshaped to these sizes and transposed; stays a range wherever HLO can express it."""
        moved = [axis for axis in order if sizes[axis] != 1]
        if moved == sorted(moved):
            return self
        parts = _split(self.factors, sizes)
        if parts is None:
            return as_explicit(self).transposed(sizes, order)
        return _iota(factor for axis in order for factor in parts[axis])

    def sorted_within(self, size: int) -> Devices:
        """The ids with each run of `size` sorted; stays a range wherever HLO can express it."""
        parts = _split(self.factors, (self.count // size, size))
        if parts is None:
            return as_explicit(self).sorted_within(size)
        return _iota((*parts[0], *sorted(parts[1], key=lambda factor: -factor[1])))

    def __str__(self) -> str:
        dims = ",".join(map(str, self.dims))
        return f"[{dims}]" if len(self.dims) == 1 else f"[{dims}]T({','.join(map(str, self.permutation))})"


Devices: TypeAlias = ExplicitDevices | IotaDevices


def as_explicit(devices: Devices) -> ExplicitDevices:
    """The same ids, written out; Unsupported above LONGEST_TEXT."""
    if isinstance(devices, ExplicitDevices):
        return devices
    if devices.count > LONGEST_TEXT:
        raise Unsupported(f"a list of {devices.count} devices is not written out: {LONGEST_TEXT} is the limit")
    return ExplicitDevices(tuple(devices.ids().tolist()))


def as_iota(devices: Devices) -> IotaDevices | None:
    """The same ids as a transposed range, or None if they do not form one.

    >>> print(as_iota(ExplicitDevices((0, 4, 1, 5, 2, 6, 3, 7))))
    [2,4]T(1,0)
    >>> as_iota(ExplicitDevices((0, 2, 3, 1)))
    """
    if isinstance(devices, IotaDevices):
        return devices
    ids = devices.ids()
    if not np.array_equal(np.sort(ids), np.arange(len(ids))) or not len(ids):
        return None
    factors: list[IotaFactor] = []
    while len(ids) > 1:
        step = int(ids[1] - ids[0])
        breaks = np.flatnonzero(np.diff(ids) != step)
        run = int(breaks[0]) + 1 if len(breaks) else len(ids)
        if step < 1 or len(ids) % run or (np.diff(ids.reshape(-1, run), axis=1) != step).any():
            return None
        factors.insert(0, (run, step))
        ids = ids[::run]
    iota = _iota(factors)
    return iota if np.array_equal(iota.ids(), devices.ids()) else None


def same_order(left: Devices, right: Devices) -> bool:
    """Whether two lists name the same devices in the same order."""
    if type(left) is type(right):
        return left == right
    return left.count == right.count and np.array_equal(left.ids(), right.ids())


def _dimensions(factors: Iterable[IotaFactor]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dims and the permutation that produce these factors, with as few dimensions as possible."""
    merged: list[IotaFactor] = []
    for count, step in factors:
        if count == 1:
            continue
        if merged and merged[-1][1] == count * step:
            merged[-1] = (merged[-1][0] * count, step)
        else:
            merged.append((count, step))
    if not merged:
        return (1,), (0,)
    if any(count == 0 for count, _ in merged):
        return (0,), (0,)
    by_step = sorted(range(len(merged)), key=lambda index: -merged[index][1])
    permutation = [0] * len(merged)
    for axis, index in enumerate(by_step):
        permutation[index] = axis
    return tuple(merged[index][0] for index in by_step), tuple(permutation)


def _iota(factors: Iterable[IotaFactor]) -> IotaDevices:
    return IotaDevices(*_dimensions(factors))


def _split(factors: Sequence[IotaFactor], sizes: Sequence[int]) -> list[list[IotaFactor]] | None:
    """The factors that make up each of these sizes, split where needed; None if a split does not divide evenly."""
    remaining = list(reversed(factors))
    parts: list[list[IotaFactor]] = []
    for size in sizes:
        part: list[IotaFactor] = []
        while size > 1:
            if not remaining:
                return None
            count, step = remaining.pop()
            if size % count == 0:
                part.append((count, step))
                size //= count
            elif count % size == 0:
                part.append((size, step * (count // size)))
                remaining.append((count // size, step))
                size = 1
            else:
                return None
        parts.append(part)
    return parts
