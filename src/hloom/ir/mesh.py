"""A mesh of devices with named axes, and references to axes or parts of axes to shard over."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hloom.ir.devices import Devices, IotaDevices
from hloom.text import Unsupported, escape

_NEEDS_ESCAPE = re.compile(r"['\\\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class AxisRef:
    """A mesh axis, or a part of it with `size` steps and with `pre_size` steps on its major side.

    An axis of 8 is 2 x 4, major to minor: `'x':(1)2` is the 2 and `'x':(2)4` the 4.

    >>> str(AxisRef("x")), str(AxisRef("x", 2, 4))
    ("'x'", "'x':(2)4")
    """

    name: str
    pre_size: int = 1
    size: int | None = None

    def __str__(self) -> str:
        return _quoted(self.name) + ("" if self.size is None else f":({self.pre_size}){self.size}")


@dataclass(frozen=True, slots=True)
class HloMesh:
    """An array of devices with named axes; without `devices`, ids are in row-major order.

    >>> mesh = HloMesh(("x", "y"), (2, 4), IotaDevices((4, 2), (1, 0)))
    >>> str(mesh)
    "mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0))"
    >>> mesh.assignment().tolist()
    [[0, 2, 4, 6], [1, 3, 5, 7]]
    """

    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    devices: Devices | None = None

    def __post_init__(self) -> None:
        if isinstance(self.devices, IotaDevices) and len(self.devices.dims) == 1:
            object.__setattr__(self, "devices", None)

    @property
    def device_count(self) -> int:
        """The product of the sizes."""
        return math.prod(self.sizes)

    @property
    def order(self) -> Devices:
        """The devices, the last axis fastest."""
        return self.devices or IotaDevices((self.device_count,))

    def assignment(self) -> np.ndarray:
        """The device ids as an array, one dimension per axis; Unsupported where they do not fill it."""
        if self.order.count != self.device_count:
            raise Unsupported(f"{self} has {self.device_count} places for {self.order.count} devices")
        return self.order.ids().reshape(self.sizes)

    def size(self, axis: AxisRef) -> int:
        """The number of devices along an axis or a part of one."""
        return self.sizes[self.names.index(axis.name)] if axis.size is None else axis.size

    def rank(self, axis: AxisRef) -> tuple[int, int]:
        """The position of an axis among all axes and parts, major to minor; the sort key for lists of axes."""
        return self.names.index(axis.name), axis.pre_size

    def problem(self, axis: AxisRef) -> str | None:
        """What is wrong with an axis on this mesh, or None."""
        if axis.name not in self.names:
            return f"the mesh has no axis {_quoted(axis.name)}"
        if axis.size is None:
            return None
        whole = self.sizes[self.names.index(axis.name)]
        if axis.pre_size < 1 or axis.size < 2:
            return f"{axis} is not part of an axis: the first number is at least 1, the second at least 2"
        if axis.size >= whole or whole % (axis.pre_size * axis.size):
            return f"{axis} is not part of an axis of {whole}: {axis.pre_size} * {axis.size} does not divide it"
        return None

    def clash(self, axis: AxisRef, taken: Sequence[AxisRef], neighbours: Sequence[AxisRef]) -> str | None:
        """Why an axis cannot be used together with those taken and after its neighbours in one list; None if it can.

        It must not overlap those taken, nor form one larger part with the last of its neighbours.
        """
        other = next((other for other in taken if overlap(other, axis)), None)
        if other is not None:
            return f"{axis} overlaps {other}, which is already used"
        if neighbours and mergeable(neighbours[-1], axis):
            return f"{neighbours[-1]}, {axis} must be written as one axis"
        return None

    def misplaced(self, axis: AxisRef, neighbours: Sequence[AxisRef]) -> str | None:
        """Why an axis cannot follow its neighbours in a sorted list; None if it can."""
        if neighbours and self.rank(axis) < self.rank(neighbours[-1]):
            return f"{axis} must stand before {neighbours[-1]}: the axes are sorted as in the mesh"
        return None

    def cut(self, used: Sequence[AxisRef]) -> tuple[AxisRef, ...]:
        """All axes, major to minor, split so that each used part of an axis is a whole number of pieces.

        >>> print(*HloMesh(("x", "y"), (2, 8)).cut([AxisRef("y", 2, 2)]))
        'x' 'y':(1)2 'y':(2)2 'y':(4)2
        """
        pieces: list[AxisRef] = []
        for name, size in zip(self.names, self.sizes, strict=True):
            parts = [axis for axis in used if axis.name == name and axis.size is not None]
            ends = {part.pre_size for part in parts} | {part.pre_size * (part.size or 1) for part in parts}
            bounds = sorted({1, size} | ends) if size else []
            if len(bounds) <= 2:
                pieces.append(AxisRef(name))
                continue
            pieces += [AxisRef(name, low, high // low) for low, high in pairwise(bounds)]
        return tuple(pieces)

    def __str__(self) -> str:
        axes = ",".join(f"{_quoted(name)}={size}" for name, size in zip(self.names, self.sizes, strict=True))
        return f"mesh[{axes}]" + ("" if self.devices is None else f", device_ids=({self.devices})")


def covers(whole: AxisRef, piece: AxisRef) -> bool:
    """Whether an axis contains a piece made by `HloMesh.cut`."""
    if whole.name != piece.name or whole.size is None:
        return whole.name == piece.name
    return whole.pre_size <= piece.pre_size < whole.pre_size * whole.size


def overlap(left: AxisRef, right: AxisRef) -> bool:
    """Whether two axes share steps, or split one axis in incompatible ways.

    >>> overlap(AxisRef("x", 1, 2), AxisRef("x", 2, 2)), overlap(AxisRef("x", 1, 4), AxisRef("x", 2, 2))
    (False, True)
    """
    if left.name != right.name:
        return False
    if left.size is None or right.size is None:
        return True
    first, second = sorted((left, right), key=lambda axis: axis.pre_size)
    return second.pre_size % (first.pre_size * (first.size or 1)) != 0


def mergeable(left: AxisRef, right: AxisRef) -> bool:
    """Whether two adjacent parts form one larger part and must be written as such."""
    if left.name != right.name or left.size is None or right.size is None:
        return False
    return left.pre_size * left.size == right.pre_size


def axes_text(axes: Sequence[AxisRef], separator: str = ", ") -> str:
    """Axes between braces."""
    return "{" + separator.join(map(str, axes)) + "}"


def _quoted(name: str) -> str:
    return f"'{escape(name) if _NEEDS_ESCAPE.search(name) else name}'"
