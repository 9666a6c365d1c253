"""Meshes: the devices that a program is sharded over, as named axes with sizes, and the link of each axis."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.ir import Devices, IotaDevices
from hloom.sharding.spec import Spec, sub_axis_names
from hloom.text import HloomError

_AXIS = re.compile(r"([A-Za-z_][\w]*)=([0-9]+)")


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
        """A mesh from `data=2,model=4`; raises HloomError for anything else."""
        axes = [_AXIS.fullmatch(part.strip()) for part in text.split(",")]
        if not text.strip() or None in axes:
            raise HloomError(f"'{text}' is no mesh", hint="write names and sizes, as in data=2,model=4")
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
        """The dimensions of a shard, rounded up where the split is uneven: XLA pads."""
        return tuple(-(-size // self.count(axes)) for size, axes in zip(dims, spec.dims, strict=True))

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in zip(self.names, self.sizes, strict=True))
