"""Meshes: the devices that a program is sharded over, as named axes with sizes.

Devices with adjacent numbers are near, as in `analysis.collective_cost`: minor axes stay inside a host and use its fast
links, axes that go beyond use the network.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.ir import Devices, IotaDevices
from hloom.sharding.spec import Spec, sub_axis_names
from hloom.text import HloomError

_AXIS = re.compile(r"([A-Za-z_][\w]*)=([0-9]{1,18})")
_SIZES = re.compile(r"[0-9]{1,18}(?:x[0-9]{1,18}){0,2}")
AXES = ("x", "y", "z")
"""The names of axes in meshes of which only the sizes are written."""
EXAMPLES = "data=2,model=4, or 2x4 for axes x and y"


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes, major to minor, with sizes, and the order of the devices.

    >>> mesh = Mesh.parse("data=2,model=4")
    >>> mesh.device_count, mesh.size("model"), mesh.local_dims((10, 8), Spec((("model",), ("data",))))
    (8, 4, (3, 4))
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    devices: Devices | None = None

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
    def axis_sizes(self) -> dict[str, int]:
        """The sizes by name."""
        return dict(zip(self.names, self.sizes, strict=True))

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

    def refined(self, parts: Mapping[str, Sequence[int]]) -> Mesh:
        """The same devices with some axes split into sub-axes, major to minor.

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
        for name, size in zip(self.names, self.sizes, strict=True):
            own = sub_axis_names(name, len(parts[name])) if name in parts else (name,)
            names += own
            sizes += parts.get(name, (size,))
        return Mesh(tuple(names), tuple(sizes), self.devices)

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
