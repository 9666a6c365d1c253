"""What work and collectives cost on a mesh: FLOPs and bytes on the wire through rates, as seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hloom.analysis import Device
from hloom.ir import Node, TensorType, dtype
from hloom.sharding.mesh import Link, Mesh
from hloom.sharding.resharding import Shape, Step
from hloom.sharding.spec import Axes, Spec


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds from counts: FLOPs and bytes on the wire a second, and bytes of results written (which break ties).

    `links` are those of axes that have one of their own; any other sends `wire` bytes a second and waits for nothing.
    With `is_overlapped` work and collectives run at the same time.
    """

    flops: float = 100e12
    wire: float = 100e9
    touched: float = 1e16
    links: Mapping[str, Link] = field(default_factory=dict, hash=False)
    is_overlapped: bool = False

    @classmethod
    def of(cls, device: Device, mesh: Mesh) -> Rates:
        """The rates of a device: its matrix rate for f32, and the links of the mesh."""
        slowest = min(mesh.link(name).bandwidth for name in mesh.names)
        return cls(device.matrix_rate(dtype("f32")), slowest, links=mesh.links)

    def weighted(self, share: float) -> Rates:
        """Rates at which an objective counts this share of the time of work, and the rest of that of collectives."""
        rest = 1 - share
        links = {axis: Link(link.bandwidth / rest, link.latency * rest) for axis, link in self.links.items()}
        return replace(self, flops=self.flops / share, wire=self.wire / rest, links=links, is_overlapped=False)

    def on_one_axis(self, name: str) -> Rates:
        """The same for a mesh whose axes were made one."""
        return replace(self, links={name: self.link(())}) if self.links else self

    def link(self, axes: Axes) -> Link:
        """What a collective over some axes rides on: the slowest of their links, and of all where none are named."""
        found = [self.links[axis] for axis in axes or self.links if axis in self.links]
        if not found:
            return Link(self.wire, 0.0)
        return Link(min(link.bandwidth for link in found), max(link.latency for link in found))

    def seconds(self, step: Step, width: float) -> float:
        """The time of a collective of elements that are so many bytes wide: a ring's hops, and its bytes."""
        link = self.link(step.axes)
        return hops(step) * link.latency + step.sent * width / link.bandwidth


def hops(step: Step) -> int:
    """How often a collective waits for a link: a ring goes once around, and twice to reduce everything everywhere."""
    if step.kind == "collective-permute":
        return 1
    return (2 if step.kind == "all-reduce" else 1) * (step.group - 1)


@dataclass(slots=True)
class Price:
    """What a plan, or a part of it, costs per device: FLOPs, bytes sent by kind of collective, bytes of results.

    `traffic` are the bytes sent and the hops waited for by the axes that they go over.
    """

    flops: float = 0.0
    wire: dict[str, float] = field(default_factory=dict)
    touched: float = 0.0
    traffic: dict[Axes, tuple[float, float]] = field(default_factory=dict)

    def send(self, steps: Iterable[Step], width: float, times: float = 1) -> None:
        """Add collectives of elements that are so many bytes wide and that run so often."""
        for step in steps:
            sent = step.sent * width * times
            self.wire[step.kind] = self.wire.get(step.kind, 0.0) + sent
            known, waited = self.traffic.get(step.axes, (0.0, 0.0))
            self.traffic[step.axes] = known + sent, waited + hops(step) * times

    @property
    def sent(self) -> float:
        """All bytes sent."""
        return sum(self.wire.values())

    def working(self, rates: Rates) -> float:
        """The seconds of work."""
        return self.flops / rates.flops

    def sending(self, rates: Rates) -> float:
        """The seconds of all collectives."""
        return sum(self.sending_over(rates).values())

    def sending_over(self, rates: Rates) -> dict[Axes, float]:
        """The seconds of collectives by the axes that they go over."""
        return {
            axes: sent / rates.link(axes).bandwidth + waited * rates.link(axes).latency
            for axes, (sent, waited) in self.traffic.items()
        }

    def seconds(self, rates: Rates) -> float:
        """The time of a step: work and collectives one after the other, or at the same time where they overlap."""
        return together(self.working(rates), self.sending(rates), rates)

    def objective(self, rates: Rates) -> float:
        """What planners make least: seconds, ties broken by the bytes of results."""
        return self.seconds(rates) + self.touched / rates.touched


def together(working: float, sending: float, rates: Rates) -> float:
    """The time of a step from the seconds of its work and of its collectives."""
    return max(working, sending) if rates.is_overlapped else working + sending


def combining(
    elements: int, partial: Sequence[Axes], operands: Sequence[Spec], natural: Spec, result: Spec, mesh: Mesh
) -> tuple[Step, ...]:
    """The collectives that combine partial results of so many elements a device, as the partitioner emits them.

    `partial` are the axes of each dimension that was contracted.
    `natural` is how the result lies before; axes of `result` that are partial scatter it. Calibrated against
    micro-modules of dots: what goes into two dimensions is reduced whole for all but the first, what is scattered over
    some axes only is so first, and groups of devices out of order are charged as if they were all devices.
    """
    shape = Shape((), mesh.names, mesh.sizes)
    everyone = mesh.device_count
    is_ordered = shape.is_ordered(operands[0].dims) if operands else True
    combined = tuple(axis for axes in partial for axis in axes)
    scattered = [(place, axes) for place, each in enumerate(result.dims) if (axes := _among(each, combined))]
    rest = tuple(axis for axis in combined if all(axis not in axes for _, axes in scattered))
    if not scattered:
        is_crossing = not natural.axes and not is_ordered
        groups = (everyone if is_crossing else mesh.count(axes) for axes in partial)
        return tuple(Step("all-reduce", group, elements) for group in groups)
    if len(scattered) > 1 or rest:
        whole = 1 if shape.is_ordered(result.dims) else everyone
        first = scattered[0][1]
        steps = [Step("all-reduce", max(whole, mesh.count(axes)), elements) for _, axes in scattered[1:]]
        parts = math.prod(mesh.count(axes) for _, axes in scattered)
        steps += _scattering(elements, max(whole, mesh.count(first)), parts)
        left = elements // parts
        return (*steps, *([Step("all-reduce", max(whole, mesh.count(rest)), left)] if rest else []))
    ((place, axes),) = scattered
    parts = mesh.count(axes)
    if not natural.axes and _has_minor_copies(axes, mesh):
        return Step("all-reduce", parts, elements // parts), Step("collective-permute", 2, elements // parts)
    is_crossing = not is_ordered and (not natural.axes or bool(natural.dims[place]))
    return tuple(_scattering(elements, everyone if is_crossing else parts, parts))


def _scattering(elements: int, group: int, parts: int) -> list[Step]:
    """An all-reduce over a group whose every reader cuts it into parts: a reduce-scatter, and the rest reduced."""
    parts = math.gcd(group, parts)
    steps = [Step("reduce-scatter", parts, elements)]
    return steps + ([Step("all-reduce", group // parts, elements // parts)] if group > parts else [])


def _among(axes: Axes, wanted: Axes) -> Axes:
    return tuple(axis for axis in axes if axis in wanted)


def _has_minor_copies(axes: Axes, mesh: Mesh) -> bool:
    """Whether an axis that is not used stands behind these in the mesh's order."""
    last = max(mesh.names.index(axis) for axis in axes)
    return math.prod(mesh.sizes[last + 1 :]) > 1


def width_of(node: Node) -> float:
    """Bytes per element of an array."""
    return max(node.type.dtype.bits / 8, 1) if isinstance(node.type, TensorType) else 0
