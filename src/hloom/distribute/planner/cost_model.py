"""The cost model: seconds of work and of collectives on a mesh of devices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hloom.analysis import HOST, Device, Interconnect, MessageTime, collective_line, step_count
from hloom.distribute.partitioner import TracedCollective
from hloom.ir import Node, TensorType
from hloom.sharding import Axes, Mesh
from hloom.text import Unsupported

WRITE_BANDWIDTH = 1e16
"""Bytes of results per second in an objective: so many that they only break ties between plans of equal time."""
CAUSES = ("compute", "memory", "launch")
"""What the time of work goes to: kernels that compute longer than they move bytes, the others, and launches."""


def uniform_device(flops: float = 100e12, bandwidth: float = 100e9, latency: float = 0.0) -> Device:
    """A device whose dots all run at one rate, and whose links are alike; nothing else takes time."""
    link = Interconnect("link", "link", "switch", bandwidth, latency)
    rates = {"f32": flops}, {"f32": math.inf}
    return Device("uniform", "a device of one rate", math.inf, math.inf, 0.0, *rates, {}, {}, (link,))


@dataclass(frozen=True, slots=True)
class Rates:
    """A device, and how an objective counts its time: the shares of work and of collectives.

    With `is_overlapped`, work and collectives run concurrently.
    """

    device: Device = field(default_factory=uniform_device, hash=False)
    is_overlapped: bool = False
    work_share: float = 1.0
    comm_share: float = 1.0
    _collectives: dict[Mesh, CollectiveTimes] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, device: Device, mesh: Mesh) -> Rates:
        """The rates of a device; raises Unsupported where its links do not reach all devices of the mesh."""
        joined = [link.devices for link in device.links if link.topology != HOST]
        numbers = mesh.device_array()
        if mesh.device_count > 1 and not any(count is None or numbers.max() < count for count in joined):
            raise Unsupported(
                f"the mesh {mesh} is wider than the links of {device.name} reach",
                hint="a last link without `devices` joins any number",
            )
        return cls(device)

    def weighted(self, share: float) -> Rates:
        """Rates at which an objective counts this share of the time of work, and the rest of that of collectives."""
        return replace(self, work_share=share, comm_share=1 - share, is_overlapped=False)

    def collectives(self, mesh: Mesh) -> CollectiveTimes:
        """The times of collectives on a mesh of such devices."""
        if mesh not in self._collectives:
            self._collectives[mesh] = CollectiveTimes(mesh, self.device)
        return self._collectives[mesh]


class CollectiveTimes:
    """The seconds of collectives over axes of a mesh; the slowest of the groups along the axes counts."""

    def __init__(self, mesh: Mesh, device: Device) -> None:
        self._mesh, self._device = mesh, device
        self._groups: dict[Axes, list[tuple[int, ...]]] = {}
        self._times: dict[tuple[str, Axes, int], tuple[MessageTime, ...]] = {}

    def seconds(self, step: TracedCollective, width: float) -> float:
        """The time of a collective on elements of `width` bytes."""
        times, sent = self._times_of(step.opcode, step.axes, step.group_size), step.elements_sent * width
        return times[0].seconds(sent) if len(times) == 1 else max(time.seconds(sent) for time in times)

    @property
    def slowest_bandwidth(self) -> float:
        """Bytes that a device sends per second in rings along the slowest axis."""
        axes = [(name,) for name, size in zip(self._mesh.names, self._mesh.sizes, strict=True) if size > 1]
        times = [time for axis in axes for time in self._times_of("all-gather", axis, self._mesh.count(axis))]
        return min((1 / time.byte_seconds for time in times if time.byte_seconds), default=math.inf)

    def _times_of(self, opcode: str, axes: Axes, group_size: int) -> tuple[MessageTime, ...]:
        """The times of the groups along some axes, each once."""
        key = opcode, axes, group_size
        if key not in self._times:
            steps = step_count(opcode, group_size)
            times = (collective_line(opcode, members, self._device, steps) for members in self._members(axes))
            self._times[key] = tuple(dict.fromkeys(times))
        return self._times[key]

    def _members(self, axes: Axes) -> list[tuple[int, ...]]:
        """Groups along some axes, or all if none are named: one for each pattern of blocks that links join."""
        if axes not in self._groups:
            names = self._mesh.names
            along = [names.index(axis) for axis in axes if axis in names] or range(len(names))
            numbers = np.moveaxis(self._mesh.device_array(), along, range(-len(along), 0))
            rows = numbers.reshape(-1, math.prod(numbers.shape[-len(along) :])).tolist()
            joined = [link.devices for link in self._device.links if link.topology != HOST and link.devices]
            spread = {tuple(len({member // count for member in row}) for count in joined): row for row in rows}
            self._groups[axes] = [tuple(row) for row in spread.values()]
        return self._groups[axes]


@dataclass(slots=True)
class StepCost:
    """The cost of a plan, or a part of it, per device: work, bytes sent by kind of collective, bytes of results.

    `flops` are those of dots and convolutions, `work` the seconds of all work by its CAUSES; `traffic` has the bytes
    sent, and the seconds that takes, by the axes that they go over.
    """

    flops: float = 0.0
    work: Mapping[str, float] = field(default_factory=dict)
    comm_bytes: dict[str, float] = field(default_factory=dict)
    written_bytes: float = 0.0
    traffic: dict[Axes, tuple[float, float]] = field(default_factory=dict)

    def add_collectives(
        self, steps: Iterable[TracedCollective], width: float, times: float, collectives: CollectiveTimes
    ) -> None:
        """Add collectives on elements of `width` bytes that run `times` times."""
        for step in steps:
            self.add_traffic(
                step.opcode, step.axes, step.elements_sent * width * times, collectives.seconds(step, width) * times
            )

    def add_traffic(self, opcode: str, axes: Axes, sent: float, seconds: float) -> None:
        """Add bytes that a collective sends over some axes, and the seconds that this takes."""
        self.comm_bytes[opcode] = self.comm_bytes.get(opcode, 0.0) + sent
        known = self.traffic.get(axes, (0.0, 0.0))
        self.traffic[axes] = known[0] + sent, known[1] + seconds

    @property
    def sent(self) -> float:
        """All bytes sent."""
        return sum(self.comm_bytes.values())

    def compute_seconds(self, rates: Rates) -> float:
        """The seconds of work."""
        return sum(self.work.values()) * rates.work_share

    def comm_seconds(self, rates: Rates) -> float:
        """The seconds of all collectives."""
        return sum(seconds for _, seconds in self.traffic.values()) * rates.comm_share

    def seconds(self, rates: Rates) -> float:
        """The time of a step: work and collectives one after the other, or at the same time where they overlap."""
        return step_seconds(self.compute_seconds(rates), self.comm_seconds(rates), rates)

    def objective(self, rates: Rates) -> float:
        """The planners' objective: seconds, with ties broken by the bytes of results."""
        return self.seconds(rates) + self.written_bytes / WRITE_BANDWIDTH


def step_seconds(compute_seconds: float, comm_seconds: float, rates: Rates) -> float:
    """The time of a step from the seconds of its work and of its collectives."""
    return max(compute_seconds, comm_seconds) if rates.is_overlapped else compute_seconds + comm_seconds


def itemsize_of(node: Node) -> float:
    """Bytes per element of an array."""
    return max(node.type.dtype.bits / 8, 1) if isinstance(node.type, TensorType) else 0
