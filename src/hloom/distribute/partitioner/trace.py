"""The trace of the partitioner: the collectives that it would emit, in order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hloom.analysis import comm_factor
from hloom.distribute.partitioner.grouped_sharding import DeviceGroups
from hloom.distribute.partitioner.tile_assignment import Dims, TileAssignment
from hloom.ir import tile_indices
from hloom.sharding import Axes, Mesh
from hloom.text import Unsupported


@dataclass(frozen=True, slots=True)
class TracedCollective:
    """One collective: its opcode, the number of devices in a group, and its elements on one device.

    `elements` are those of the result for an all-gather, of the operand for a reduce-scatter, and of either for the
    others.
    """

    opcode: str
    group_size: int
    elements: int
    axes: Axes = field(default=(), compare=False, repr=False)
    """The mesh axes that its groups span; empty where they are not known, which counts as all axes."""
    operand_index: int | None = field(default=None, compare=False, repr=False)
    """The operand of a dot that is resharded; None for a dot's result and outside of dots."""
    signature: tuple = field(default=(), compare=False, repr=False)
    """The opcode, dimensions and devices: XLA emits equal collectives of one value once (`PartitionedHlo::Reshard`'s
    cache), so that two of equal signature are one."""

    @property
    def elements_sent(self) -> float:
        """The elements that a device sends in a ring (Thakur, Rabenseifner and Gropp, Optimization of collective
        communication operations in MPICH, 2005)."""
        return comm_factor(self.opcode, self.group_size) * self.elements


@dataclass(frozen=True, slots=True, eq=False)
class MeshCoordinates:
    """The coordinates of every device on the axes of the mesh: a row per device, a column per axis."""

    axis_names: tuple[str, ...]
    coordinates: np.ndarray

    @classmethod
    def of(cls, mesh: Mesh) -> MeshCoordinates:
        """The coordinates of a mesh's devices, which must be numbered from 0: XLA's partitions are."""
        indices = tile_indices(mesh.device_array(), np.arange(mesh.device_count))
        if indices is None:
            raise Unsupported(
                f"the devices of the mesh {mesh} are not numbered from 0 to {mesh.device_count - 1}",
                hint="XLA's partitions are: leave `devices` out, or give a permutation",
            )
        return cls(mesh.names, indices.T)

    def axes_between(self, first: np.ndarray, second: np.ndarray) -> tuple[str, ...]:
        """The axes along which some of these devices differ, pairwise."""
        differ = self.coordinates[first] != self.coordinates[second]
        return tuple(name for number, name in enumerate(self.axis_names) if differ[:, number].any())


@dataclass(slots=True)
class Trace:
    """The collectives emitted so far; the values they move have elements of `element_bytes` bytes.

    Groups whose devices are out of order count as groups of all devices, as in modules that XLA has partitioned, unless
    they are formed inside groups or listed explicitly. Inside groups, `group` holds the devices of the first one.
    """

    mesh: MeshCoordinates
    element_bytes: int = 1
    collectives: list[TracedCollective] = field(default_factory=list)
    group: tuple[int, ...] | None = None
    operand_index: int | None = None

    def inside(self, groups: DeviceGroups) -> Trace:
        """The same trace, inside of groups (`CreatePerGroupPartitioningState`)."""
        first = groups[0]
        return replace(self, group=first if self.group is None else tuple(self.group[device] for device in first))

    def of_elements(self, element_bytes: int) -> Trace:
        """The same trace for a value with this element size."""
        return self if element_bytes == self.element_bytes else replace(self, element_bytes=element_bytes)

    def of_operand(self, operand_index: int, element_bytes: int) -> Trace:
        """The same trace, for reshards of an operand."""
        return replace(self, operand_index=operand_index, element_bytes=element_bytes)

    def add(
        self,
        opcode: str,
        minor_counts: Mapping[int, int],
        elements: int,
        tiles: TileAssignment,
        *,
        is_inner: bool = False,
    ) -> None:
        """Add a collective among devices that hold the last `minor_counts` tiles of some dimensions; replication is
        last.

        Nothing is emitted for groups of one device. `is_inner` says that XLA forms the groups itself, whatever the
        order of devices.
        """
        size = math.prod(minor_counts.values())
        if size == 1:
            return
        is_plain = is_inner or self.group is not None or tiles.is_explicit or tiles.is_iota
        array = tiles.array()
        for dim, count in minor_counts.items():
            array = np.moveaxis(array, dim, 0)[:count]
            array = np.moveaxis(array, 0, dim)
        index = tuple(slice(None) if dim in minor_counts else 0 for dim in range(array.ndim))
        counted = size if is_plain else len(self.mesh.coordinates)
        members = self._mesh_devices(array[index].ravel())
        axes = self.mesh.axes_between(members, members[:1])
        signature = (opcode, *minor_counts, *members.tolist())
        self.collectives.append(
            TracedCollective(opcode, counted, elements * self.element_bytes, axes, self.operand_index, signature)
        )

    def add_permute(self, elements: int, source: TileAssignment, target: TileAssignment) -> None:
        """Add a collective-permute from the devices that hold tiles to those that should."""
        sources, targets = (self._mesh_devices(tiles.devices) for tiles in (source, target))
        axes = self.mesh.axes_between(sources, targets)
        signature = ("collective-permute", *sources.tolist(), *targets.tolist())
        self.collectives.append(
            TracedCollective(
                "collective-permute", 2, elements * self.element_bytes, axes, self.operand_index, signature
            )
        )

    def scatter_last(self, tile_count: int) -> None:
        """If the last collective is an all-reduce whose result is sliced into tiles, make part of it a reduce-scatter.

        Backends do so where `MatchReduceScatter` (xla/service/collective_opt_utils.cc) finds the slices.
        """
        if tile_count < 2 or not self.collectives or self.collectives[-1].opcode != "all-reduce":
            return
        last = self.collectives.pop()
        scattered = math.gcd(last.group_size, tile_count)
        if scattered > 1:
            self.collectives.append(TracedCollective("reduce-scatter", scattered, last.elements, last.axes))
        if last.group_size > scattered:
            reduced = last.group_size // scattered
            self.collectives.append(TracedCollective("all-reduce", reduced, last.elements // scattered, last.axes))

    def _mesh_devices(self, devices: Sequence[int] | np.ndarray) -> np.ndarray:
        """Devices by their numbers in the mesh, from those in the group."""
        numbers = np.asarray(devices)
        return numbers if self.group is None else np.asarray(self.group)[numbers]


def all_reduce_along_dims(trace: Trace, elements: int, tiles: TileAssignment, dims: Dims) -> None:
    """All-reduces along dimensions (the replication being the last), from the last to the first.

    Follows `SpmdPartitioner::AllReduceAlongShardingDims`.
    """
    for dim in sorted(dims, reverse=True):
        trace.add("all-reduce", {dim: tiles.shape[dim]}, elements, tiles)
