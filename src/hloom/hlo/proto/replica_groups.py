"""Replica groups as fields of an instruction's message, both ways."""

from __future__ import annotations

from typing import Any

from hloom.hlo.proto.meshes import read_axes, read_iota, read_mesh, write_axes, write_iota, write_mesh
from hloom.ir import ExplicitGroups, IotaGroups, MeshGroups, ReplicaGroups
from hloom.text import HloomError

FIELDS = (
    "collective_device_list",
    "iota_collective_device_list",
    "mesh_axes_replica_group_list",
    "replica_groups",
)
"""Where the groups may stand; the last one is from before 2024."""


def write_groups(instruction: Any, groups: ReplicaGroups) -> None:
    """Fill the one field for this kind of groups."""
    if isinstance(groups, ExplicitGroups):
        instruction.collective_device_list.SetInParent()
        for group in groups.listed:
            instruction.collective_device_list.replica_groups.add(replica_ids=group)
    elif isinstance(groups, IotaGroups):
        proto = instruction.iota_collective_device_list
        proto.num_replica_groups, proto.num_devices_per_group = groups.group_count, groups.group_size
        write_iota(proto, groups.devices)
    else:
        instruction.mesh_axes_replica_group_list.mesh.CopyFrom(write_mesh(groups.mesh))
        instruction.mesh_axes_replica_group_list.axes.extend(write_axes(groups.mesh, groups.axes))


def read_groups(instruction: Any) -> ReplicaGroups | None:
    """The groups, wherever they stand; None where the message says nothing of them."""
    field_name = instruction.WhichOneof("replica_group_list")
    if field_name is None:
        return _explicit(instruction.replica_groups) if instruction.replica_groups else None
    proto = getattr(instruction, field_name)
    if field_name == "mesh_axes_replica_group_list":
        mesh = read_mesh(proto.mesh)
        return MeshGroups(mesh, read_axes(mesh, proto.axes))
    if field_name == "iota_collective_device_list":
        return _iota(proto)
    if proto.HasField("iota_replica_group_list"):
        return _iota(proto.iota_replica_group_list)
    return _explicit(proto.replica_groups)


def _explicit(groups: Any) -> ExplicitGroups:
    return ExplicitGroups(tuple(tuple(group.replica_ids) for group in groups))


def _iota(proto: Any) -> IotaGroups:
    sizes = proto.num_replica_groups, proto.num_devices_per_group
    if min(sizes) < 0:
        raise HloomError(f"replica groups cannot have the sizes {list(sizes)}")
    return IotaGroups(*sizes, read_iota(proto.iota_reshape_dims, proto.iota_transpose_perm))
