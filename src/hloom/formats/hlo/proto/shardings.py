"""Converts shardings to and from OpSharding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from hloom.formats import protobuf
from hloom.formats.hlo.proto.metadata import read_metadata, write_metadata
from hloom.ir import (
    REDUCTIONS,
    AxisRef,
    Devices,
    DimensionAxes,
    ExplicitDevices,
    HloMesh,
    IotaDevices,
    LeafSharding,
    Maximal,
    MeshSharding,
    ShardGroup,
    Sharding,
    Tiled,
    TupleSharding,
    TupleType,
    Type,
    Uniform,
    canonical,
)
from hloom.text import HloomError

MOST_AXES = 64
"""The maximum number of axes of a mesh, or of sizes of a device range: their product is an exact integer."""


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
    """Axes and parts of axes as AxisRefProto, by their index in the mesh."""
    protos = []
    for axis in axes:
        proto = protobuf.AxisRefProto(mesh_axis_index=mesh.names.index(axis.name))
        if axis.size is not None:
            proto.sub_axis_info.pre_size = axis.pre_size
            proto.sub_axis_info.size = axis.size
        protos.append(proto)
    return protos


def read_mesh(proto: Any) -> HloMesh:
    """A MeshProto as a mesh; HloomError if sizes, names or devices are inconsistent."""
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


def read_axes(
    mesh: HloMesh, protos: Iterable[Any], taken: list[AxisRef], *, is_sorted: bool = False
) -> tuple[AxisRef, ...]:
    """AxisRefProtos as axes, added to those taken; HloomError for axes that the mesh lacks or that are not allowed
    there.
    """
    axes: list[AxisRef] = []
    for proto in protos:
        axis_index = proto.mesh_axis_index
        if not 0 <= axis_index < len(mesh.names):
            raise HloomError(f"{mesh} has no axis number {axis_index}")
        axis = AxisRef(mesh.names[axis_index])
        if proto.HasField("sub_axis_info"):
            axis = AxisRef(axis.name, proto.sub_axis_info.pre_size, proto.sub_axis_info.size)
        problem = mesh.problem(axis) or mesh.clash(axis, taken, axes) or (is_sorted and mesh.misplaced(axis, axes))
        if problem:
            raise HloomError(f"{mesh}: {problem}")
        axes.append(axis)
        taken.append(axis)
    return tuple(axes)


def read_iota(dims: Sequence[int], permutation: Sequence[int]) -> IotaDevices:
    """A transposed range of devices; HloomError if sizes are negative or the permutation is invalid."""
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
    """Devices one by one or, if there are sizes, a range."""
    return read_iota(dims, permutation) if dims else ExplicitDevices(tuple(listed))


MOST_TILE_DIMENSIONS = 1024
"""The maximum number of tile dimensions of a sharding: their product is an exact integer."""

_GROUPS = ("shard_as", "shard_like")
_UNIFORM = ("REPLICATED", "MANUAL", "UNKNOWN", "UNREDUCED")
_SUBGROUPS = ("REPLICATED", "MAXIMAL", "MANUAL", "UNREDUCED")


def write_sharding(sharding: Sharding, type_: Type | None = None) -> Any:
    """A sharding as OpSharding; a single one for a tuple becomes one per leaf, as when XLA reads it from text."""
    if isinstance(type_, TupleType) and not isinstance(sharding, TupleSharding):
        sharding = TupleSharding((sharding,) * max(1, sum(1 for _ in type_.leaves())))
    if isinstance(sharding, TupleSharding):
        shardings = [_write_leaf(element) for element in sharding.elements]
        return protobuf.OpSharding(type=protobuf.OpSharding.TUPLE, tuple_shardings=shardings)
    return _write_leaf(sharding)


def _write_leaf(sharding: LeafSharding) -> Any:
    proto = protobuf.OpSharding()
    _WRITERS[type(sharding)](proto, sharding)
    if not isinstance(sharding, MeshSharding) and not proto.HasField("named_sharding"):
        _write_group(proto, sharding.group)
        proto.metadata.extend(map(write_metadata, sharding.metadata))
    return proto


def _write_uniform(proto: Any, sharding: Uniform) -> None:
    proto.type = protobuf.OpSharding.Type.Value(sharding.kind.upper())


def _write_maximal(proto: Any, sharding: Maximal) -> None:
    if sharding.in_mesh:
        proto.named_sharding.mesh.device_ids.append(sharding.device)
        proto.named_sharding.metadata.extend(map(write_metadata, sharding.metadata))
        return
    proto.type = protobuf.OpSharding.MAXIMAL
    proto.tile_assignment_devices.append(sharding.device)


def _write_tiled(proto: Any, sharding: Tiled) -> None:
    proto.type = protobuf.OpSharding.OTHER
    proto.tile_assignment_dimensions.extend(sharding.tile)
    if isinstance(sharding.devices, IotaDevices):
        write_iota(proto, sharding.devices)
    else:
        proto.tile_assignment_devices.extend(sharding.devices.numbers)
    if sharding.subgroups == ("replicated",):
        proto.replicate_on_last_tile_dim = True
    else:
        proto.last_tile_dims.extend(protobuf.OpSharding.Type.Value(subgroup.upper()) for subgroup in sharding.subgroups)


def _write_meshed(proto: Any, sharding: MeshSharding) -> None:
    named, mesh = proto.named_sharding, sharding.mesh
    named.mesh.CopyFrom(write_mesh(mesh))
    for dimension in sharding.dimensions:
        named.dim_shardings.add(axes=write_axes(mesh, dimension.axes), is_closed=not dimension.is_open)
    named.replicated_axes.extend(write_axes(mesh, sharding.replicated))
    named.unreduced_axes.extend(write_axes(mesh, sharding.unreduced))
    named.manual_axes.extend(write_axes(mesh, sharding.manual))
    named.reduction_op = REDUCTIONS.index(sharding.reduction)
    named.metadata.extend(map(write_metadata, sharding.metadata))


def _write_group(proto: Any, group: ShardGroup | None) -> None:
    if group is not None:
        proto.is_shard_group = True
        proto.shard_group_id = group.number
        proto.shard_group_type = _GROUPS.index(group.kind)


_WRITERS: dict[type, Callable[[Any, Any], None]] = {
    Uniform: _write_uniform,
    Maximal: _write_maximal,
    Tiled: _write_tiled,
    MeshSharding: _write_meshed,
}


def read_sharding(proto: Any) -> Sharding:
    """An OpSharding as a sharding, in the form of XLA's text; HloomError if it is malformed."""
    if proto.type == protobuf.OpSharding.TUPLE and not proto.HasField("named_sharding"):
        return TupleSharding(tuple(map(_read_leaf, proto.tuple_shardings)))
    return _read_leaf(proto)


def _read_leaf(proto: Any) -> LeafSharding:
    if proto.HasField("named_sharding"):
        return _read_meshed(proto.named_sharding)
    metadata = tuple(map(read_metadata, proto.metadata))
    group = _read_group(proto)
    if proto.type == protobuf.OpSharding.MAXIMAL:
        if len(proto.tile_assignment_devices) != 1:
            raise HloomError("a sharding that is maximal names exactly one device")
        return Maximal(proto.tile_assignment_devices[0], group, metadata)
    if proto.type == protobuf.OpSharding.OTHER:
        return _read_tiled(proto, group, metadata)
    name = _name(proto.type)
    if name not in _UNIFORM:
        raise HloomError(f"a sharding inside another, or of the kind {name}")
    return Uniform(name.lower(), group, metadata)


def _read_group(proto: Any) -> ShardGroup | None:
    if not proto.is_shard_group:
        return None
    if proto.shard_group_type not in (0, 1):
        raise HloomError(f"a shard group of the unknown kind {proto.shard_group_type}")
    return ShardGroup(_GROUPS[proto.shard_group_type], proto.shard_group_id)


def _read_tiled(proto: Any, group: ShardGroup | None, metadata: tuple) -> LeafSharding:
    tile = tuple(proto.tile_assignment_dimensions)
    if any(size < 0 for size in tile) or not 0 < len(tile) <= MOST_TILE_DIMENSIONS:
        raise HloomError(f"a sharding has {len(tile)} tile dimensions: a negative one, none, or far too many")
    subgroups = ("replicated",) if proto.replicate_on_last_tile_dim else tuple(map(_subgroup, proto.last_tile_dims))
    if len(subgroups) > len(tile):
        raise HloomError(f"a sharding has {len(subgroups)} subgroups, but only {len(tile)} tile dimensions")
    devices = read_devices(proto.tile_assignment_devices, proto.iota_reshape_dims, proto.iota_transpose_perm)
    if isinstance(devices, ExplicitDevices) and len(devices.numbers) != prod(tile):
        raise HloomError(f"a sharding of {prod(tile)} tiles lists {len(devices.numbers)} devices")
    return canonical(Tiled(tile, devices, subgroups, group, metadata))


def _subgroup(number: int) -> str:
    if _name(number) not in _SUBGROUPS:
        raise HloomError(f"devices with the same tile cannot be {_name(number)}")
    return _name(number).lower()


def _name(number: int) -> str:
    names = {value: name for name, value in protobuf.OpSharding.Type.items()}
    return names.get(number, str(number))


def _read_meshed(named: Any) -> LeafSharding:
    metadata = tuple(map(read_metadata, named.metadata))
    if not named.mesh.axes and len(named.mesh.device_ids) == 1 and not named.dim_shardings:
        return Maximal(named.mesh.device_ids[0], None, metadata, in_mesh=True)
    mesh = read_mesh(named.mesh)
    taken: list[AxisRef] = []
    return MeshSharding(
        mesh,
        tuple(DimensionAxes(read_axes(mesh, dim.axes, taken), not dim.is_closed) for dim in named.dim_shardings),
        read_axes(mesh, named.replicated_axes, taken, is_sorted=True),
        read_axes(mesh, named.unreduced_axes, taken, is_sorted=True),
        read_axes(mesh, named.manual_axes, taken, is_sorted=True),
        reduction=_reduction(named.reduction_op),
        metadata=metadata,
    )


def _reduction(number: int) -> str:
    if not 0 <= number < len(REDUCTIONS):
        raise HloomError(f"a sharding combines its partial results by the unknown reduction {number}")
    return REDUCTIONS[number]
