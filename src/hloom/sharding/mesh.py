"""Meshes: the devices that a program is sharded over, as named axes with sizes, and the link of each axis.

Devices with adjacent numbers are near, as in `analysis.collective_cost`: minor axes stay inside a host and use its fast
link, axes that go beyond use the network. An axis with some steps inside a host and some outside is as slow as the
slower part: each of a host's devices sends its share of a ring's bytes outside, so the network carries as many shares
as the axis has devices in the host.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hloom.analysis import HOST, Device
from hloom.ir import Devices, IotaDevices
from hloom.sharding.spec import Spec, sub_axis_names
from hloom.text import HloomError, Unsupported

_AXIS = re.compile(r"([A-Za-z_][\w]*)=([0-9]{1,18})")
_SIZES = re.compile(r"[0-9]{1,18}(?:x[0-9]{1,18}){0,2}")
AXES = ("x", "y", "z")
"""The names of axes in meshes of which only the sizes are written."""
EXAMPLES = "data=2,model=4, or 2x4 for axes x and y"


@dataclass(frozen=True, slots=True)
class AxisLink:
    """The link between neighbours along an axis: bytes per second that a device sends, and latency in seconds."""

    bandwidth: float = 100e9
    latency: float = 1e-6


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes, major to minor, with sizes; the order of the devices; and the link of each axis.

    >>> mesh = Mesh.parse("data=2,model=4")
    >>> mesh.device_count, mesh.size("model"), mesh.local_dims((10, 8), Spec((("model",), ("data",))))
    (8, 4, (3, 4))
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    devices: Devices | None = None
    links: Mapping[str, AxisLink] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if (
            len(set(self.names)) < len(self.names)
            or len(self.names) != len(self.sizes)
            or min(self.sizes, default=1) < 1
        ):
            raise HloomError(f"a mesh has axes of different names and of sizes from 1, not {self}")
        if self.devices is not None and self.devices.count != self.device_count:
            raise HloomError(f"{self} has {self.device_count} positions for {self.devices.count} devices")

    @classmethod
    def parse(cls, text: str) -> Mesh:
        """A mesh from `data=2,model=4`, or from `2x4` with the axes x and y; raises HloomError for anything else."""
        if _SIZES.fullmatch(text.strip()):
            sizes = tuple(map(int, text.split("x")))
            return cls(AXES[: len(sizes)], sizes)
        axes = [_AXIS.fullmatch(part.strip()) for part in text.split(",")]
        if not text.strip() or None in axes:
            raise HloomError(f"'{text}' is not a mesh", hint=f"write names and sizes, as in {EXAMPLES}")
        return cls(tuple(match[1] for match in axes if match), tuple(int(match[2]) for match in axes if match))

    @property
    def device_count(self) -> int:
        """The product of the sizes."""
        return math.prod(self.sizes)

    @property
    def order(self) -> Devices:
        """The devices in row-major order of the axes."""
        return self.devices or IotaDevices((self.device_count,))

    def device_array(self) -> np.ndarray:
        """The device ids as an array, one dimension per axis."""
        return self.order.ids().reshape(self.sizes)

    def size(self, axis: str) -> int:
        """The size of an axis; raises HloomError where the mesh has no such axis."""
        if axis not in self.names:
            raise HloomError(f"the mesh {self} has no axis '{axis}'")
        return self.sizes[self.names.index(axis)]

    def count(self, axes: Iterable[str]) -> int:
        """The product of the sizes of some axes."""
        return math.prod(map(self.size, axes))

    def link(self, axis: str) -> AxisLink:
        """The link of an axis."""
        return self.links.get(axis, AxisLink())

    def refined(self, parts: Mapping[str, Sequence[int]]) -> Mesh:
        """The same devices with some axes split into sub-axes, major to minor, that have the same links.

        Raises HloomError where the sizes of an axis's sub-axes do not multiply to its own.

        >>> print(Mesh.parse("data=4,model=2").refined({"data": (2, 2)}))
        data_0=2,data_1=2,model=2
        """
        for axis, counts in parts.items():
            if math.prod(counts) != self.size(axis) or not counts:
                product = " x ".join(map(str, counts))
                raise HloomError(f"axis {axis} of the mesh {self} is {self.size(axis)}, not {product or 'nothing'}")
        names: list[str] = []
        sizes: list[int] = []
        links: dict[str, AxisLink] = {}
        for name, size in zip(self.names, self.sizes, strict=True):
            own = sub_axis_names(name, len(parts[name])) if name in parts else (name,)
            names += own
            sizes += parts.get(name, (size,))
            links |= dict.fromkeys(own, self.links[name]) if name in self.links else {}
        return Mesh(tuple(names), tuple(sizes), self.devices, links)

    def local_dims(self, dims: Sequence[int], spec: Spec) -> tuple[int, ...]:
        """The dimensions of a shard, rounded up for uneven splits: XLA pads."""
        return tuple(-(-size // self.count(axes)) for size, axes in zip(dims, spec.dims, strict=True))

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in zip(self.names, self.sizes, strict=True))


def as_mesh(mesh: Mesh | Mapping[str, int] | str) -> Mesh:
    """A mesh as it is, from the sizes of its axes, or from its text; raises HloomError for anything else.

    >>> print(as_mesh({"data": 2, "model": 4}), as_mesh("2x4"))
    data=2,model=4 x=2,y=4
    """
    if isinstance(mesh, Mesh):
        return mesh
    if isinstance(mesh, str):
        return Mesh.parse(mesh)
    if not isinstance(mesh, Mapping):
        hint = f'give a Mesh, a dict such as {{"data": 2, "model": 4}}, or a text: {EXAMPLES}'
        raise HloomError(f"expected a mesh, not {type(mesh).__name__}", hint=hint)
    for name, size in mesh.items():
        if not isinstance(size, int) or isinstance(size, bool) or _AXIS.fullmatch(f"{name}={size}") is None:
            raise HloomError(f"{name!r}: {size!r} is not an axis of a mesh", hint='as in {"data": 2, "model": 4}')
    return Mesh(tuple(mesh), tuple(mesh.values()))


def mesh_with_links(device: Device, text: str | Mesh) -> Mesh:
    """A mesh of such devices with the link of each axis; links that it has already stay.

    Raises Unsupported where the device's links do not reach: no link for that many devices, or none at all.

    >>> from hloom.analysis import device
    >>> mesh = mesh_with_links(device("h100"), "data=4,model=8")
    >>> mesh.link("model").bandwidth, mesh.link("data").bandwidth
    (450000000000.0, 50000000000.0)
    """
    mesh = Mesh.parse(text) if isinstance(text, str) else text
    devices = mesh.device_array()
    links = {
        name: mesh.links.get(name) or _link(device, np.moveaxis(devices, number, -1).reshape(-1, size), mesh, name)
        for number, (name, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True))
        if size > 1
    }
    return replace(mesh, links={**mesh.links, **links})


def _link(device: Device, groups: np.ndarray, mesh: Mesh, axis: str) -> AxisLink:
    """The bandwidth and mean latency of a ring over the groups of an axis, a row each; of unlike groups the slowest."""
    rings = [_ring(device, tuple(row), mesh, axis) for row in np.unique(_blocks(device, groups), axis=0).tolist()]
    return AxisLink(min(link.bandwidth for link in rings), max(link.latency for link in rings))


def _blocks(device: Device, groups: np.ndarray) -> np.ndarray:
    """The number of blocks of each link that the members of each group span; a row per group."""
    joined = [link.devices for link in device.links if link.topology != HOST and link.devices is not None]
    if not joined:
        return np.zeros((1, 0), np.int64)
    return np.array([[len(np.unique(row // count)) for count in joined] for row in groups], np.int64)


def _ring(device: Device, blocks: tuple[int, ...], mesh: Mesh, axis: str) -> AxisLink:
    size, parts, latency, bandwidth = mesh.size(axis), mesh.size(axis), 0.0, math.inf
    counts = iter(blocks)
    for link in (link for link in device.links if link.topology != HOST):
        left = 1 if link.devices is None else next(counts)
        if parts > left:
            rate = link.bandwidth * ((size / left - 1) if link.topology == "mesh" else 1)
            bandwidth = min(bandwidth, rate * size / parts)
            latency += (parts - left) * link.latency
        parts = left
        if parts == 1:
            return AxisLink(bandwidth, latency / (size - 1))
    raise Unsupported(
        f"axis {axis} of the mesh {mesh} is wider than the links of {device.name} reach",
        hint="a last link without `devices` joins any number",
    )
