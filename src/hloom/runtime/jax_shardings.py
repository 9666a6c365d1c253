"""jax's shardings of HLO's V3 shardings (XLA's NamedSharding), axis by axis, and HLO's meshes of jax's.

Here the devices of a mesh are numbered by their ids, as `devices_indices_map` shows them. In a program that jax lowers
they are numbered by their positions in the mesh.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.ir import DimensionAxes, ExplicitDevices, HloMesh, MeshSharding, as_iota
from hloom.runtime import xla
from hloom.text import HloomError, Unsupported


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


def named_sharding(sharding: MeshSharding) -> Any:
    """A `jax.sharding.NamedSharding`: axes of partial sums are `Explicit`, as jax wants them, manual ones `Manual`.

    Raises HloomError where a device that the mesh names is missing.
    """
    axis_types = {axis.name: "Explicit" for axis in sharding.unreduced} | {
        axis.name: "Manual" for axis in sharding.manual
    }
    spec = partition_spec(sharding)
    return xla.libraries().jax.sharding.NamedSharding(_mesh(sharding.mesh, axis_types), spec)


def _mesh(mesh: HloMesh, axis_types: dict[str, str]) -> Any:
    jax = xla.libraries().jax
    by_number = {device.id: device for device in jax.devices()}
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
