"""Which device holds which part of an array, as HLO writes it; what it means is in `sharding/hlo_sharding.py`.

The three generations of the text are three kinds of value: `Tiled` with explicit devices (V1), `Tiled` with a range
(V2) and `MeshSharding` (V3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hloom.ir.devices import Devices, IotaDevices
from hloom.ir.mesh import AxisRef, HloMesh, axes_text
from hloom.ir.metadata import Metadata

UNIFORM_KINDS: tuple[str, ...] = ("replicated", "manual", "unknown", "unreduced")
SUBGROUP_KINDS: tuple[str, ...] = ("maximal", "manual", "unreduced", "replicated")
"""The roles of devices that hold the same tile, in XLA's sort order."""

REDUCTIONS: tuple[str, ...] = ("sum", "max", "min")
"""What combines partial results, in the order of XLA's NamedShardingProto.ReductionOpProto."""


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """Shardings that must come out the same (`shard_as`) or similar (`shard_like`) carry the same number."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f" {self.kind} {self.number}"


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every device does the same: see UNIFORM_KINDS.

    >>> str(Uniform("replicated", ShardGroup("shard_as", 1)))
    '{replicated shard_as 1}'
    """

    kind: str
    group: ShardGroup | None = None
    metadata: tuple[Metadata, ...] = ()

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self.kind == "replicated"

    def __str__(self) -> str:
        return f"{{{self.kind}{_extras(self.group, self.metadata)}}}"


@dataclass(frozen=True, slots=True)
class Maximal:
    """One device holds the whole array; `in_mesh` is V3's way to say so.

    >>> str(Maximal(3)), str(Maximal(3, in_mesh=True))
    ('{maximal device=3}', '{maximal_mesh[device_id=3]}')
    """

    device: int
    group: ShardGroup | None = None
    metadata: tuple[Metadata, ...] = ()
    in_mesh: bool = False

    @property
    def is_replicated(self) -> bool:
        """Never."""
        return False

    def __str__(self) -> str:
        if self.in_mesh:
            return f"{{maximal_mesh[device_id={self.device}]{_metadata_list(self.metadata)}}}"
        return f"{{maximal device={self.device}{_extras(self.group, self.metadata)}}}"


@dataclass(frozen=True, slots=True)
class Tiled:
    """The array cut into `tile` parts per dimension, then one dimension per subgroup of devices with the same part.

    `devices` go through `tile` with the last dimension fastest.

    >>> str(Tiled((4, 1, 2), IotaDevices((2, 4), (1, 0)), ("replicated",)))
    '{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}'
    """

    tile: tuple[int, ...]
    devices: Devices
    subgroups: tuple[str, ...] = ()
    group: ShardGroup | None = None
    metadata: tuple[Metadata, ...] = ()

    @property
    def rank(self) -> int:
        """The rank of the arrays that this shards."""
        return len(self.tile) - len(self.subgroups)

    @property
    def fits(self) -> bool:
        """Whether there is one device per tile; XLA reads other shardings too, and fails when it uses them."""
        return math.prod(self.tile) == self.devices.count > 0

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return set(self.subgroups) == {"replicated"} and math.prod(self.tile[: self.rank]) == 1

    def __str__(self) -> str:
        arrow = "<=" if isinstance(self.devices, IotaDevices) else ""
        tile = ",".join(map(str, self.tile))
        return f"{{devices=[{tile}]{arrow}{self.devices}{self._last_dims()}{_extras(self.group, self.metadata)}}}"

    def _last_dims(self) -> str:
        if self.subgroups == ("replicated",):
            return " last_tile_dim_replicate"
        return f" last_tile_dims={{{', '.join(self.subgroups)}}}" if self.subgroups else ""


@dataclass(frozen=True, slots=True)
class DimensionAxes:
    """The mesh axes that one dimension is split over, major first; propagation may add axes to an open dimension.

    >>> str(DimensionAxes((AxisRef("x"),), is_open=True))
    "{'x', ?}"
    """

    axes: tuple[AxisRef, ...] = ()
    is_open: bool = False

    def __str__(self) -> str:
        return "{" + ", ".join([*map(str, self.axes), *("?" if self.is_open else "")]) + "}"


@dataclass(frozen=True, slots=True)
class MeshSharding:
    """Each dimension over axes of a mesh; axes named nowhere hold copies.

    >>> mesh = HloMesh(("x", "y"), (2, 4))
    >>> print(MeshSharding(mesh, (DimensionAxes((AxisRef("x"),)), DimensionAxes()), unreduced=(AxisRef("y"),)))
    {mesh['x'=2,'y'=4], [{'x'}, {}], unreduced={'y'}}
    >>> print(MeshSharding(mesh))
    {mesh['x'=2,'y'=4], replicated}
    """

    mesh: HloMesh
    dimensions: tuple[DimensionAxes, ...] = ()
    replicated: tuple[AxisRef, ...] = ()
    unreduced: tuple[AxisRef, ...] = ()
    manual: tuple[AxisRef, ...] = ()
    reduction: str = "sum"
    metadata: tuple[Metadata, ...] = ()

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        partial = any(dimension.axes for dimension in self.dimensions) or self.unreduced or self.manual
        return not partial

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """Every axis that is named."""
        sharded = tuple(axis for dimension in self.dimensions for axis in dimension.axes)
        return sharded + self.replicated + self.unreduced + self.manual

    def __str__(self) -> str:
        return f"{{{self.mesh}, {self._uniform() or self._parts()}{_metadata_list(self.metadata)}}}"

    def _uniform(self) -> str | None:
        """The single word that describes the whole sharding, if there is one."""
        if self.dimensions or self.reduction != "sum":
            return None
        if not self.axes:
            return "replicated"
        whole = tuple(map(AxisRef, self.mesh.names))
        if self.axes == whole == self.unreduced:
            return "unreduced"
        return "manual" if self.axes == whole == self.manual else None

    def _parts(self) -> str:
        reduction = "" if self.reduction == "sum" else self.reduction
        lists = (("replicated=", self.replicated), (f"unreduced={reduction}", self.unreduced), ("manual=", self.manual))
        named = "".join(f", {name}{axes_text(axes)}" for name, axes in lists if axes)
        return f"[{', '.join(map(str, self.dimensions))}]{named}"


LeafSharding: TypeAlias = Uniform | Maximal | Tiled | MeshSharding


@dataclass(frozen=True, slots=True)
class TupleSharding:
    """One sharding per leaf of a tuple, in the order of the leaves.

    >>> print(TupleSharding((Uniform("replicated"), Maximal(1))))
    {{replicated}, {maximal device=1}}
    """

    elements: tuple[LeafSharding, ...] = ()

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds all of every leaf."""
        return all(element.is_replicated for element in self.elements)

    def __str__(self) -> str:
        texts = [f"/*index={i}*/{e}" if i and i % 5 == 0 else str(e) for i, e in enumerate(self.elements)]
        return "{" + ", ".join(texts) + "}"


Sharding: TypeAlias = LeafSharding | TupleSharding


def _extras(group: ShardGroup | None, metadata: Sequence[Metadata]) -> str:
    metadata_text = (
        f" metadata={{{metadata[0].text()}}}" if len(metadata) == 1 else _metadata_list(metadata).lstrip(",")
    )
    return f"{group or ''}{metadata_text}"


def _metadata_list(metadata: Sequence[Metadata]) -> str:
    listed = ", ".join(f"{{{entry.text()}}}" for entry in metadata)
    return f", metadata={{{listed}}}" if metadata else ""
