"""Replica groups: which devices take part in a collective together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hloom.ir.devices import IotaDevices
from hloom.ir.mesh import AxisRef, HloMesh, axes_text, covers
from hloom.text import HloomError

Groups: TypeAlias = tuple[tuple[int, ...], ...]

MOST_DEVICES = 1 << 22
"""The maximum number of devices to list one by one; a module header may claim any number."""


def check_device_count(count: int) -> None:
    """Raise HloomError if there are too many devices to list."""
    if count > MOST_DEVICES:
        raise HloomError(
            f"groups of {count:,} devices are too large to be listed: {MOST_DEVICES:,} are the most",
            hint="look at replica_count, num_partitions and replica_groups",
        )


@dataclass(frozen=True, slots=True)
class ExplicitGroups:
    """The groups, device by device; none at all means one group of all devices.

    >>> str(ExplicitGroups(((0, 1), (2, 3)))), ExplicitGroups().groups(3)
    ('{{0,1},{2,3}}', ((0, 1, 2),))
    """

    listed: Groups = ()

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return len(self.listed) or 1

    @property
    def group_size(self) -> int | None:
        """The number of devices per group; None if sizes differ or a group is all devices."""
        sizes = {len(group) for group in self.listed}
        return sizes.pop() if len(sizes) == 1 else None

    def groups(self, device_count: int) -> Groups:
        """The devices of each group; HloomError if they are too many."""
        if not self.listed:
            check_device_count(device_count)
        return self.listed or (tuple(range(device_count)),)

    def __str__(self) -> str:
        return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in self.listed) + "}"


@dataclass(frozen=True, slots=True)
class IotaGroups:
    """A transposed range of devices, cut into groups.

    >>> groups = IotaGroups(4, 2, IotaDevices((2, 4), (1, 0)))
    >>> str(groups), groups.groups(8)
    ('[4,2]<=[2,4]T(1,0)', ((0, 4), (1, 5), (2, 6), (3, 7)))
    """

    group_count: int
    group_size: int
    devices: IotaDevices

    def groups(self, device_count: int) -> Groups:
        """The devices of each group; HloomError if the range does not fill them, or they are too many."""
        places = self.group_count * self.group_size
        if places != self.devices.count:
            raise HloomError(f"{self} has {places} places for {self.devices.count} devices")
        check_device_count(places)
        return _rows(self.devices.ids().reshape(self.group_count, self.group_size).tolist())

    def __str__(self) -> str:
        return f"[{self.group_count},{self.group_size}]<={self.devices}"


@dataclass(frozen=True, slots=True)
class MeshGroups:
    """One group per set of devices that differ only in their coordinates on these mesh axes.

    >>> groups = MeshGroups(HloMesh(("x", "y"), (2, 4)), (AxisRef("x"),))
    >>> str(groups), groups.groups(8)
    ("mesh['x'=2,'y'=4] {'x'}", ((0, 4), (1, 5), (2, 6), (3, 7)))
    """

    mesh: HloMesh
    axes: tuple[AxisRef, ...]

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return self.mesh.device_count // self.group_size

    @property
    def group_size(self) -> int:
        """The number of devices per group."""
        size = 1
        for axis in self.axes:
            size *= self.mesh.size(axis)
        return size

    def groups(self, device_count: int) -> Groups:
        """The devices of each group, the first axis slowest; HloomError if they do not fill the mesh or are many."""
        check_device_count(self.mesh.device_count)
        pieces = self.mesh.cut(self.axes)
        inside = [index for axis in self.axes for index, piece in enumerate(pieces) if covers(axis, piece)]
        outside = [index for index in range(len(pieces)) if index not in inside]
        array = self.mesh.assignment().reshape([self.mesh.size(piece) for piece in pieces])
        return _rows(array.transpose(outside + inside).reshape(self.group_count, self.group_size).tolist())

    def __str__(self) -> str:
        return f"{self.mesh} {axes_text(self.axes, ',')}"


ReplicaGroups: TypeAlias = ExplicitGroups | IotaGroups | MeshGroups


def _rows(rows: list[list[int]]) -> Groups:
    return tuple(map(tuple, rows))
