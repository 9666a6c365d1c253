"""The meaning of a sharding: the number of tiles, which device holds which, and whether two shardings are equivalent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from hloom.ir.devices import Devices, ExplicitDevices, as_explicit, as_iota, same_order
from hloom.ir.mesh import AxisRef, covers
from hloom.ir.sharding import (
    SUBGROUP_KINDS,
    UNIFORM_KINDS,
    DimensionAxes,
    LeafSharding,
    Maximal,
    MeshSharding,
    Sharding,
    Tiled,
    TupleSharding,
    Uniform,
)
from hloom.ir.types import TOKEN, BufferType, TensorType, TupleType, Type
from hloom.text import HloomError, Unsupported

Lowered: TypeAlias = Uniform | Maximal | Tiled
"""Shardings that can be written without a mesh."""


def tile_dims(sharding: LeafSharding, rank: int) -> tuple[int, ...]:
    """The number of tiles along each dimension of an array; raises HloomError for an array of another rank."""
    if isinstance(sharding, MeshSharding):
        dimensions = with_rank(sharding, rank).dimensions
        return tuple(math.prod(map(sharding.mesh.size, dimension.axes)) for dimension in dimensions)
    if isinstance(sharding, Tiled):
        _check_rank(sharding, sharding.rank, rank)
        return sharding.tile[:rank]
    return (1,) * rank


def shard_dims(sharding: LeafSharding, dims: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of one device's shard; the last tile is padded if the split is uneven.

    f32[10,8], {devices=[4,2]<=[8]}
      ->
    f32[3,4]
    """
    return tuple(-(-size // count) for size, count in zip(dims, tile_dims(sharding, len(dims)), strict=True))


def sharding_problem(sharding: Sharding, type_: Type, devices: int | None) -> str | None:
    """Why XLA refuses a sharding for values of a type, on so many devices where that is known; None where it does not.

    One sharding stands for all leaves of a tuple. Source: xla/hlo/ir/hlo_sharding.cc, HloSharding::Validate.
    """
    if type_ is TOKEN:
        return None
    leaves = list(type_.leaves())
    if not isinstance(sharding, TupleSharding):
        shardings: Sequence[LeafSharding] = (sharding,) * len(leaves)
    elif not isinstance(type_, TupleType):
        return f"{sharding} is for a tuple, not for {type_}"
    elif len(sharding.elements) == len(leaves) or (not leaves and len(sharding.elements) == 1):
        shardings = sharding.elements[: len(leaves)]
    else:
        return f"{sharding} is for {len(sharding.elements)} leaves, but {type_} has {len(leaves)}"
    for pair in dict.fromkeys(zip(shardings, leaves, strict=True)):
        if problem := _leaf_problem(*pair, devices):
            return problem
    return None


def _leaf_problem(sharding: LeafSharding, type_: Type, devices: int | None) -> str | None:
    if isinstance(sharding, Maximal):
        is_known = 0 <= sharding.device < (devices or sharding.device + 1)
        return None if is_known else f"{sharding} names a device that is not in 0 to {(devices or 1) - 1}"
    if isinstance(sharding, Tiled):
        if isinstance(canonical(sharding), Uniform):
            return None
        if not sharding.fits:
            return f"{sharding} has {math.prod(sharding.tile)} places for {sharding.devices.count} devices"
        if sharding.devices.count == 1:
            return None
        if isinstance(sharding.devices, ExplicitDevices) and (problem := _list_problem(sharding, devices)):
            return problem
    elif isinstance(sharding, Uniform) or sharding.is_replicated or _is_uniform(sharding):
        return None
    rank = type_.element.rank if isinstance(type_, BufferType) and isinstance(type_.element, TensorType) else None
    rank = type_.rank if isinstance(type_, TensorType) else rank or 0
    own = sharding.rank if isinstance(sharding, Tiled) else len(sharding.dimensions)
    if own != rank:
        return f"{sharding} is for arrays of rank {own}, not for {type_}"
    count = device_count(sharding)
    return None if devices in (None, count) else f"{sharding} is for {count} devices, and the module has {devices}"


def _is_uniform(sharding: MeshSharding) -> bool:
    return not sharding.dimensions and isinstance(lowered(sharding), Uniform)


def _list_problem(sharding: Tiled, devices: int | None) -> str | None:
    listed = sharding.devices.ids().tolist()
    if len(set(listed)) < len(listed):
        return f"{sharding} names a device twice"
    wrong = [device for device in listed if device < 0 or (devices is not None and device >= devices)]
    return f"{sharding} names device {wrong[0]}, which does not exist" if wrong else None


def device_count(sharding: LeafSharding) -> int | None:
    """The number of devices the sharding names; None if it holds for any number."""
    if isinstance(sharding, Uniform):
        return None
    if isinstance(sharding, Maximal):
        return 1
    return sharding.devices.count if isinstance(sharding, Tiled) else sharding.mesh.order.count


def assignment(sharding: LeafSharding) -> np.ndarray:
    """The device ids as an array: one dimension per array dimension, then one per subgroup.

    Raises HloomError if no devices are named, or not one per tile.
    """
    sharding = lowered(sharding)
    if isinstance(sharding, Uniform):
        raise HloomError(f"{sharding} names no devices")
    if isinstance(sharding, Maximal):
        return np.array([sharding.device], np.int64)
    _check_fit(sharding)
    return sharding.devices.ids().reshape(sharding.tile)


def tile_indices(assigned: np.ndarray, devices: np.ndarray) -> np.ndarray | None:
    """The index of the tile that each device holds, a row per dimension of the tiles: the inverse of `assignment`.

    None if tiles are assigned to devices other than these.

    >>> tile_indices(np.array([[0, 2], [1, 3]]), np.arange(4)).tolist()
    [[0, 1, 0, 1], [0, 0, 1, 1]]
    """
    listed = assigned.ravel()
    order = np.argsort(listed, kind="stable")
    if not np.array_equal(listed[order], np.sort(devices)):
        return None
    positions = order[np.searchsorted(listed, devices, sorter=order)]
    return np.array(np.unravel_index(positions, assigned.shape), np.int64)


def tile_of(sharding: LeafSharding, device: int, rank: int) -> tuple[int, ...]:
    """The index of the tile that a device holds; HloomError if it holds none. Device ranges are not expanded."""
    sharding = lowered(with_rank(sharding, rank) if isinstance(sharding, MeshSharding) else sharding)
    if isinstance(sharding, Uniform) or (isinstance(sharding, Maximal) and sharding.device == device):
        return (0,) * rank
    if isinstance(sharding, Maximal):
        raise HloomError(f"{sharding} gives device {device} no tile")
    _check_rank(sharding, sharding.rank, rank)
    _check_fit(sharding)
    try:
        position = sharding.devices.position(device)
    except ValueError:
        raise HloomError(f"{sharding} gives device {device} no tile") from None
    position //= math.prod(sharding.tile[rank:])
    index: list[int] = []
    for size in reversed(sharding.tile[:rank]):
        position, remainder = divmod(position, size)
        index.append(remainder)
    return tuple(reversed(index))


def equivalent(left: LeafSharding, right: LeafSharding, rank: int) -> bool:
    """Whether two shardings put the same parts of an array of this rank on the same devices.

    Metadata, shard groups and open dimensions are ignored.
    """
    return _same(canonical_form(left, rank), canonical_form(right, rank))


def with_explicit_devices(sharding: LeafSharding) -> Lowered:
    """The sharding in V1's form."""
    sharding = lowered(sharding)
    return replace(sharding, devices=as_explicit(sharding.devices)) if isinstance(sharding, Tiled) else sharding


def with_iota_devices(sharding: LeafSharding) -> Lowered | None:
    """The sharding in V2's form, or None if its devices are not a transposed range."""
    sharding = lowered(sharding)
    if not isinstance(sharding, Tiled):
        return sharding
    devices = as_iota(sharding.devices)
    return None if devices is None else replace(sharding, devices=devices)


def lowered(sharding: LeafSharding) -> Lowered:
    """The sharding without a mesh: parts of axes become tile dimensions.

    {mesh['x'=2,'y'=4], [{'y'}, {}], manual={'x'}}
      ->
    {devices=[4,1,2]<=[2,4]T(1,0) last_tile_dims={manual}}
    """
    if isinstance(sharding, Maximal):
        return replace(sharding, in_mesh=False)
    if not isinstance(sharding, MeshSharding):
        return sharding
    mesh = sharding.mesh
    if mesh.order.count != mesh.device_count:
        raise HloomError(f"{mesh} has {mesh.device_count} places for {mesh.order.count} devices")
    pieces = mesh.cut(sharding.axes)
    tiles = [_pieces(dimension.axes, pieces) for dimension in sharding.dimensions]
    manual, unreduced = _pieces(sharding.manual, pieces), _pieces(sharding.unreduced, pieces)
    taken = {index for tile in (*tiles, manual, unreduced) for index in tile}
    tiles += [manual, unreduced, [index for index in range(len(pieces)) if index not in taken]]
    sizes = [mesh.size(piece) for piece in pieces]
    tile = tuple(math.prod(sizes[index] for index in part) for part in tiles)
    kinds = ("manual", "unreduced", "replicated")
    for subgroup, part, size in zip(kinds, tiles[-3:], tile[-3:], strict=True):
        if size == mesh.device_count and (part or subgroup == "replicated"):
            return Uniform(subgroup, None, sharding.metadata)
    devices = mesh.order.transposed(sizes, [index for part in tiles for index in part])
    return canonical(Tiled(tile, devices, kinds, None, sharding.metadata))


def canonical(sharding: Tiled) -> Lowered:
    """The form that XLA gives a sharding as it reads it.

    Subgroups of one device are dropped, those of the same kind are merged, kinds are sorted, and so are devices that
    hold copies. A sharding whose canonical form would need a long list of devices is left as it is.

        {devices=[2,1,2,2]<=[8] last_tile_dims={replicated, manual}}
          ->
        {devices=[2,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}
    """
    data = sharding.tile[: sharding.rank]
    if math.prod(data) == 1 and len(set(sharding.subgroups)) == 1 and sharding.subgroups[0] in UNIFORM_KINDS:
        return Uniform(sharding.subgroups[0], sharding.group, sharding.metadata)
    if not sharding.subgroups or not sharding.fits:
        return sharding
    sizes: dict[str, int] = dict.fromkeys(SUBGROUP_KINDS, 1)
    for type_, size in zip(sharding.subgroups, sharding.tile[sharding.rank :], strict=True):
        sizes[type_] *= size
    kinds = tuple(type_ for type_, size in sizes.items() if size > 1)
    if math.prod(data) == 1 and len(kinds) == 1 and kinds[0] in UNIFORM_KINDS:
        return Uniform(kinds[0], sharding.group, sharding.metadata)
    if not data and not kinds:
        return sharding
    try:
        devices = _sorted_devices(sharding, sizes["replicated"])
    except Unsupported:
        return sharding
    return replace(sharding, tile=(*data, *(sizes[type_] for type_ in kinds)), devices=devices, subgroups=kinds)


def canonical_form(sharding: LeafSharding, rank: int) -> Lowered:
    """The canonical form without a mesh of a sharding of arrays of this rank.

    Raises HloomError for another rank, and where there are not as many devices as tiles.
    """
    sharding = lowered(with_rank(sharding, rank) if isinstance(sharding, MeshSharding) else sharding)
    if not isinstance(sharding, Tiled):
        return sharding
    _check_rank(sharding, sharding.rank, rank)
    _check_fit(sharding)
    return canonical(sharding)


def with_rank(sharding: MeshSharding, rank: int) -> MeshSharding:
    """The sharding with one entry per dimension; the text may omit all or the last. HloomError for another rank."""
    if len(sharding.dimensions) > rank:
        _check_rank(sharding, len(sharding.dimensions), rank)
    missing = (DimensionAxes(),) * (rank - len(sharding.dimensions))
    return replace(sharding, dimensions=sharding.dimensions + missing)


def _sorted_devices(sharding: Tiled, copies: int) -> Devices:
    kinds = [-1] * sharding.rank + [SUBGROUP_KINDS.index(type_) for type_ in sharding.subgroups]
    order = sorted(range(len(kinds)), key=kinds.__getitem__)
    devices = sharding.devices.transposed(sharding.tile, order)
    return devices.sorted_within(copies) if copies > 1 else devices


def _pieces(axes: Sequence[AxisRef], pieces: Sequence[AxisRef]) -> list[int]:
    return [index for axis in axes for index, piece in enumerate(pieces) if covers(axis, piece)]


def _same(left: Lowered, right: Lowered) -> bool:
    if isinstance(left, Tiled) and isinstance(right, Tiled):
        tiles = (left.tile, left.subgroups) == (right.tile, right.subgroups)
        return tiles and same_order(left.devices, right.devices)
    if isinstance(left, Maximal) and isinstance(right, Maximal):
        return left.device == right.device
    return isinstance(left, Uniform) and isinstance(right, Uniform) and left.kind == right.kind


def _check_rank(sharding: LeafSharding, own_rank: int, rank: int) -> None:
    if own_rank != rank:
        raise HloomError(f"{sharding} is for arrays of rank {own_rank}, not {rank}")


def _check_fit(sharding: Tiled) -> None:
    if not sharding.fits:
        places = math.prod(sharding.tile)
        raise HloomError(f"{sharding} has {places} places for {sharding.devices.count} devices")
