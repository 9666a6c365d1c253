"""The cost model: seconds of work and of collectives on a mesh, from FLOPs and bytes sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hloom.analysis import Device, MatrixPrecision, alpha_beta_seconds, step_count
from hloom.distribute.partitioner import TracedCollective
from hloom.ir import Node, TensorType
from hloom.sharding import Axes, AxisLink, Mesh

Work = dict[MatrixPrecision, float]
"""FLOPs of dots and convolutions by their precision."""


@dataclass(frozen=True, slots=True)
class Rates:
    """FLOPs per second, bytes that a device sends per second, and bytes of results written per second.

    The last is so large that it only breaks ties between plans of equal time. `flops` is the rate of all dots unless
    there is a `device`, whose rates depend on the precision. `work_share` is the weight of work's time in an objective.
    `links` are those of axes with a link of their own; any other axis has `bandwidth` and no latency. With
    `is_overlapped`, work and collectives run concurrently.
    """

    flops: float = 100e12
    bandwidth: float = 100e9
    write_bandwidth: float = 1e16
    links: Mapping[str, AxisLink] = field(default_factory=dict, hash=False)
    is_overlapped: bool = False
    device: Device | None = field(default=None, hash=False)
    work_share: float = 1.0

    @classmethod
    def of(cls, device: Device, mesh: Mesh) -> Rates:
        """The rates of a device: its matrix rates, and the links of the mesh."""
        slowest = min(mesh.link(name).bandwidth for name in mesh.names)
        return cls(bandwidth=slowest, links=mesh.links, device=device)

    def matrix_seconds(self, precision: MatrixPrecision, flops: float) -> float:
        """The time of this many FLOPs of dots or convolutions."""
        rate = self.flops if self.device is None else precision.rate(self.device)
        return flops / rate * self.work_share

    def weighted(self, share: float) -> Rates:
        """Rates at which an objective counts this share of the time of work, and the rest of that of collectives."""
        rest = 1 - share
        links = {axis: AxisLink(link.bandwidth / rest, link.latency * rest) for axis, link in self.links.items()}
        return replace(self, work_share=share, bandwidth=self.bandwidth / rest, links=links, is_overlapped=False)

    def on_one_axis(self, name: str) -> Rates:
        """The same for a mesh whose axes were made one."""
        return replace(self, links={name: self.link(())}) if self.links else self

    def link(self, axes: Axes) -> AxisLink:
        """The link a collective over some axes uses: the slowest of theirs, or of all links if none are named."""
        links = [self.links[axis] for axis in axes or self.links if axis in self.links]
        if not links:
            return AxisLink(self.bandwidth, 0.0)
        return AxisLink(min(link.bandwidth for link in links), max(link.latency for link in links))

    def seconds(self, step: TracedCollective, width: float) -> float:
        """The time of a collective on elements of `width` bytes: a ring's hops, plus its bytes."""
        link = self.link(step.axes)
        return alpha_beta_seconds(hops(step), step.elements_sent * width, link.latency, link.bandwidth)


def hops(step: TracedCollective) -> int:
    """How often a collective waits for a link."""
    return step_count(step.opcode, step.group_size)


@dataclass(slots=True)
class StepCost:
    """The cost of a plan, or a part of it, per device: work, bytes sent by kind of collective, bytes of results.

    `work` are the FLOPs of dots and convolutions by their precision; `traffic` the bytes sent, and the hops waited for,
    by the axes that they go over.
    """

    work: Work = field(default_factory=dict)
    comm_bytes: dict[str, float] = field(default_factory=dict)
    written_bytes: float = 0.0
    traffic: dict[Axes, tuple[float, float]] = field(default_factory=dict)

    def add_collectives(self, steps: Iterable[TracedCollective], width: float, times: float = 1) -> None:
        """Add collectives on elements of `width` bytes that run `times` times."""
        for step in steps:
            sent = step.elements_sent * width * times
            self.comm_bytes[step.opcode] = self.comm_bytes.get(step.opcode, 0.0) + sent
            known, waited = self.traffic.get(step.axes, (0.0, 0.0))
            self.traffic[step.axes] = known + sent, waited + hops(step) * times

    def add_work(self, precision: MatrixPrecision, flops: float) -> None:
        """Add FLOPs of dots or convolutions."""
        self.work[precision] = self.work.get(precision, 0.0) + flops

    @property
    def flops(self) -> float:
        """All FLOPs of dots and convolutions."""
        return sum(self.work.values())

    @property
    def sent(self) -> float:
        """All bytes sent."""
        return sum(self.comm_bytes.values())

    def compute_seconds(self, rates: Rates) -> float:
        """The seconds of work."""
        return sum(rates.matrix_seconds(precision, flops) for precision, flops in self.work.items())

    def comm_seconds(self, rates: Rates) -> float:
        """The seconds of all collectives."""
        return sum(self.comm_seconds_by_axes(rates).values())

    def comm_seconds_by_axes(self, rates: Rates) -> dict[Axes, float]:
        """Seconds of collectives by the axes they use."""
        return {
            axes: alpha_beta_seconds(waited, sent, rates.link(axes).latency, rates.link(axes).bandwidth)
            for axes, (sent, waited) in self.traffic.items()
        }

    def seconds(self, rates: Rates) -> float:
        """The time of a step: work and collectives one after the other, or at the same time where they overlap."""
        return step_seconds(self.compute_seconds(rates), self.comm_seconds(rates), rates)

    def objective(self, rates: Rates) -> float:
        """The planners' objective: seconds, with ties broken by the bytes of results."""
        return self.seconds(rates) + self.written_bytes / rates.write_bandwidth


def step_seconds(compute_seconds: float, comm_seconds: float, rates: Rates) -> float:
    """The time of a step from the seconds of its work and of its collectives."""
    return max(compute_seconds, comm_seconds) if rates.is_overlapped else compute_seconds + comm_seconds


def dims_of(node: Node) -> tuple[int, ...]:
    """The dimensions of an array."""
    return node.type.dims if isinstance(node.type, TensorType) else ()


def itemsize_of(node: Node) -> float:
    """Bytes per element of an array."""
    return max(node.type.dtype.bits / 8, 1) if isinstance(node.type, TensorType) else 0
