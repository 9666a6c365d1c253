"""Meshes, their axes and ranges of devices as messages, both ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hloom import protobuf
from hloom.ir import AxisRef, Devices, ExplicitDevices, HloMesh, IotaDevices
from hloom.text import HloomError

MOST_AXES = 64
"""How many axes a mesh, or sizes a range of devices, may have: their product is an exact integer."""


def write_mesh(mesh: HloMesh) -> Any:
    """A mesh as MeshProto."""
    proto = protobuf.MeshProto()
    for name, size in zip(mesh.names, mesh.sizes, strict=True):
        proto.axes.add(name=name, size=size)
    if isinstance(mesh.devices, ExplicitDevices):
        proto.device_ids.extend(mesh.devices.numbers)
    elif mesh.devices is not None:
        proto.iota_transform.reshape_dims.extend(mesh.devices.dims)
        proto.iota_transform.transpose_perm.extend(mesh.devices.permutation)
    return proto


def write_axes(mesh: HloMesh, axes: Iterable[AxisRef]) -> list[Any]:
    """Axes and parts of axes as AxisRefProto, by their places in the mesh."""
    protos = []
    for axis in axes:
        proto = protobuf.AxisRefProto(mesh_axis_index=mesh.names.index(axis.name))
        if axis.size is not None:
            proto.sub_axis_info.pre_size = axis.pre_size
            proto.sub_axis_info.size = axis.size
        protos.append(proto)
    return protos


def read_mesh(proto: Any) -> HloMesh:
    """A MeshProto as a mesh; HloomError where sizes, names or devices do not fit."""
    names = tuple(axis.name for axis in proto.axes)
    sizes = tuple(axis.size for axis in proto.axes)
    if len(names) > MOST_AXES or len(set(names)) != len(names) or any(size < 0 for size in sizes):
        raise HloomError(f"a mesh has {len(names)} axes: a negative size, a name twice, or more than {MOST_AXES}")
    mesh = HloMesh(names, sizes)
    if proto.HasField("iota_transform"):
        return HloMesh(names, sizes, read_iota(proto.iota_transform.reshape_dims, proto.iota_transform.transpose_perm))
    devices = tuple(proto.device_ids)
    if not devices or devices == tuple(range(len(devices))):
        return mesh
    if len(devices) != mesh.device_count or sorted(devices) != list(range(len(devices))):
        raise HloomError(f"a mesh of {mesh.device_count} devices lists {len(devices)}, or not each once")
    return HloMesh(names, sizes, ExplicitDevices(devices))


def read_axes(mesh: HloMesh, protos: Iterable[Any]) -> tuple[AxisRef, ...]:
    """AxisRefProtos as axes; HloomError where the mesh has no such axis or part."""
    axes = []
    for proto in protos:
        axis_index = proto.mesh_axis_index
        if not 0 <= axis_index < len(mesh.names):
            raise HloomError(f"{mesh} has no axis number {axis_index}")
        axis = AxisRef(mesh.names[axis_index])
        if proto.HasField("sub_axis_info"):
            axis = AxisRef(axis.name, proto.sub_axis_info.pre_size, proto.sub_axis_info.size)
        problem = mesh.problem(axis)
        if problem:
            raise HloomError(f"{mesh}: {problem}")
        axes.append(axis)
    return tuple(axes)


def read_iota(dims: Sequence[int], permutation: Sequence[int]) -> IotaDevices:
    """A transposed range of devices; HloomError where sizes are negative or the permutation is none."""
    if any(size < 0 for size in dims) or not 0 < len(dims) <= MOST_AXES:
        raise HloomError(f"a range of devices has {len(dims)} sizes: a negative one, none, or more than {MOST_AXES}")
    try:
        return IotaDevices(tuple(dims), tuple(permutation))
    except ValueError as problem:
        raise HloomError(f"a range of devices is malformed: {problem}") from None


def write_iota(proto: Any, devices: IotaDevices) -> None:
    """Fill `iota_reshape_dims` and `iota_transpose_perm`, which shardings and replica groups share."""
    proto.iota_reshape_dims.extend(devices.dims)
    proto.iota_transpose_perm.extend(devices.permutation)


def read_devices(listed: Sequence[int], dims: Sequence[int], permutation: Sequence[int]) -> Devices:
    """Devices one by one, or where there are sizes, a range."""
    return read_iota(dims, permutation) if dims else ExplicitDevices(tuple(listed))
