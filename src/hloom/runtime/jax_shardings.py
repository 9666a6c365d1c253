"""Conversion between jax's meshes and shardings and HLO's V3 shardings (XLA's NamedSharding), axis by axis.

Here the devices of a mesh are numbered by their ids, as `devices_indices_map` shows them. In a program that jax lowers
they are numbered by their positions in the mesh.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloom.ir import AxisRef, DimensionAxes, ExplicitDevices, HloMesh, MeshSharding, as_iota
from hloom.runtime import xla
from hloom.text import HloomError, Unsupported


def jax_mesh(mesh: HloMesh, devices: Sequence[Any] | None = None, manual: Sequence[str] = ()) -> Any:
    """A `jax.sharding.Mesh` of these devices, else of jax's own; all axes are `Auto`, but for the manual ones.

    Raises HloomError where a device that the mesh names is missing.
    """
    return _mesh(mesh, devices, dict.fromkeys(manual, "Manual"))


def hlo_mesh(mesh: Any) -> HloMesh:
    """The mesh of a `jax.sharding.Mesh`, or of an `AbstractMesh`, whose devices are in natural order."""
    sizes = tuple(mesh.shape[name] for name in mesh.axis_names)
    if isinstance(mesh, xla.libraries().jax.sharding.AbstractMesh):
        return HloMesh(tuple(mesh.axis_names), sizes)
    devices = ExplicitDevices(tuple(int(device.id) for device in mesh.devices.flat))
    return HloMesh(tuple(mesh.axis_names), sizes, as_iota(devices) or devices)


def partition_spec(sharding: MeshSharding) -> Any:
    """A `jax.sharding.PartitionSpec`; an open dimension without axes is `UNCONSTRAINED`.

    Raises Unsupported for what it cannot express: parts of axes, open dimensions with axes, partial results other than
    sums.
    """
    part = next((axis for axis in sharding.axes if axis.size is not None), None)
    if part is not None:
        raise Unsupported(f"{sharding}: jax has no word for {part}, part of an axis")
    if sharding.unreduced and sharding.reduction != "sum":
        raise Unsupported(f"{sharding}: jax's partial results are sums, not partial {sharding.reduction}")
    make = xla.libraries().jax.sharding.PartitionSpec
    entries = [_entry(dimension, make.UNCONSTRAINED, sharding) for dimension in sharding.dimensions]
    unreduced = frozenset(axis.name for axis in sharding.unreduced)
    return make(*entries, unreduced=unreduced) if unreduced else make(*entries)


def named_sharding(sharding: MeshSharding, devices: Sequence[Any] | None = None) -> Any:
    """A `jax.sharding.NamedSharding`: axes of partial sums are `Explicit`, as jax wants them, manual ones `Manual`."""
    axis_types = {axis.name: "Explicit" for axis in sharding.unreduced} | {
        axis.name: "Manual" for axis in sharding.manual
    }
    spec = partition_spec(sharding)
    return xla.libraries().jax.sharding.NamedSharding(_mesh(sharding.mesh, devices, axis_types), spec)


def mesh_sharding(sharding: Any, rank: int) -> MeshSharding:
    """The V3 sharding of a `NamedSharding` of an array of this rank.

    Raises Unsupported for jax's other shardings, which name no axes, and HloomError for another rank.
    """
    jax = xla.libraries().jax
    if not isinstance(sharding, jax.sharding.NamedSharding):
        raise Unsupported(f"expected a NamedSharding, whose axes have names, not {type(sharding).__name__}")
    spec, mesh = sharding.spec, sharding.mesh
    if len(spec) > rank:
        raise HloomError(f"{spec} is for arrays of rank {len(spec)}, not {rank}")
    dimensions = tuple(_dimension(entry, spec.UNCONSTRAINED) for entry in spec.partitions) + (DimensionAxes(),) * (
        rank - len(spec)
    )
    manual_type = jax.sharding.AxisType.Manual
    manual = [
        name for name, axis_type in zip(mesh.axis_names, mesh.axis_types, strict=True) if axis_type == manual_type
    ]
    unreduced = [name for name in mesh.axis_names if name in spec.unreduced]
    return MeshSharding(
        hlo_mesh(mesh), dimensions, unreduced=tuple(map(AxisRef, unreduced)), manual=tuple(map(AxisRef, manual))
    )


def _mesh(mesh: HloMesh, devices: Sequence[Any] | None, axis_types: dict[str, str]) -> Any:
    jax = xla.libraries().jax
    by_number = {device.id: device for device in (jax.devices() if devices is None else devices)}
    missing = [number for number in mesh.order.ids().tolist() if number not in by_number]
    if missing:
        hint = (
            f"there are {len(by_number)}; XLA_FLAGS={xla.DEVICES_FLAG}={mesh.device_count} makes virtual ones on a CPU"
        )
        raise HloomError(f"{mesh} names device {missing[0]}, which is missing", hint=hint)
    grid = np.empty(mesh.sizes, dtype=object)
    grid.ravel()[:] = [by_number[number] for number in mesh.order.ids().tolist()]
    types = tuple(getattr(jax.sharding.AxisType, axis_types.get(name, "Auto")) for name in mesh.names)
    return jax.sharding.Mesh(grid, mesh.names, axis_types=types)


def _entry(dimension: DimensionAxes, unconstrained: Any, sharding: MeshSharding) -> Any:
    names = tuple(axis.name for axis in dimension.axes)
    if not dimension.is_open:
        return names[0] if len(names) == 1 else names or None
    if names:
        raise Unsupported(f"{sharding}: jax has no word for a dimension that is split and still open")
    return unconstrained


def _dimension(entry: Any, unconstrained: Any) -> DimensionAxes:
    if entry is unconstrained:
        return DimensionAxes(is_open=True)
    names = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
    return DimensionAxes(tuple(map(AxisRef, names)))
