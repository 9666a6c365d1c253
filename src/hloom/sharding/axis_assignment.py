"""Axis assignments: what each mesh axis does in a tile assignment. The inverse of writing a spec as tiles.

Walking along an axis, the index of a device's tile moves in equal strides along one dimension, or stays. Where it does
so for part of the axis only, the axis is a product of sub-axes with a stride each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hloom.ir import Tiled, assignment, tile_indices
from hloom.sharding.mesh import Mesh
from hloom.text import HloomError, Unsupported

Target = int | str
"""What an axis shards: a dimension by its number, or a subgroup by its name; "replicated" is neither."""


@dataclass(frozen=True, slots=True)
class AxisAssignment:
    """A mesh axis and its sub-axes, major to minor: their sizes, what they shard, and their strides in tiles."""

    name: str
    sizes: tuple[int, ...]
    targets: tuple[Target, ...]
    strides: tuple[int, ...]


def axis_assignments(sharding: Tiled, mesh: Mesh) -> tuple[AxisAssignment, ...]:
    """What each axis does, in the mesh's order; axes of size 1 do nothing and are left out.

    Raises HloomError where the sharding names other devices than the mesh, Unsupported where its tiles follow neither
    axes nor sub-axes.
    """
    targets = [*range(sharding.rank), *sharding.subgroups]
    if "maximal" in targets:
        raise Unsupported(f"{sharding}: a subgroup that is maximal is nothing that axes of a mesh say")
    kept = [number for number, target in enumerate(targets) if target != "replicated"]
    tiles = _tile_indices(sharding, mesh)[kept]
    along = [targets[number] for number in kept]
    axes: list[AxisAssignment] = []
    for number, (name, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True)):
        if size > 1:
            line = np.moveaxis(tiles, number + 1, -1).reshape(len(kept), -1, size)[:, 0]
            axes.append(_axis_assignment(name, line, along, sharding, mesh))
    if not np.array_equal(_tiles_of_axes(axes, along, mesh), tiles):
        raise _unordered(sharding, mesh)
    return tuple(axes)


def _tile_indices(sharding: Tiled, mesh: Mesh) -> np.ndarray:
    """The index of each device's tile, per tile dimension, as an array over the mesh."""
    devices = mesh.order.ids()
    indices = tile_indices(assignment(sharding), devices)
    if indices is None:
        raise HloomError(f"{sharding} names other devices than the mesh {mesh}: its {len(devices)} are {mesh.order}")
    return indices.reshape(len(sharding.tile), *mesh.sizes)


def _axis_assignment(name: str, line: np.ndarray, along: list[Target], sharding: Tiled, mesh: Mesh) -> AxisAssignment:
    """An axis from the tiles on a line along it."""
    sizes: list[int] = []
    targets: list[Target] = []
    strides: list[int] = []
    while line.shape[1] > 1:
        step = line[:, 1]
        moving = np.flatnonzero(step)
        is_equal = (line == step[:, None] * np.arange(line.shape[1])).all(axis=0)
        run = line.shape[1] if is_equal.all() else int(np.argmin(is_equal))
        if run < 2 or line.shape[1] % run or len(moving) > 1 or (step < 0).any():
            raise _unordered(sharding, mesh)
        sizes.insert(0, run)
        targets.insert(0, along[moving[0]] if len(moving) else "replicated")
        strides.insert(0, int(step[moving[0]]) if len(moving) else 0)
        line = line[:, ::run]
    return AxisAssignment(name, tuple(sizes), tuple(targets), tuple(strides))


def _tiles_of_axes(axes: list[AxisAssignment], along: list[Target], mesh: Mesh) -> np.ndarray:
    """The indices of the tiles, if each axis moves the same way from every device."""
    tiles = np.zeros((len(along), *mesh.sizes), np.int64)
    for axis in axes:
        number = mesh.names.index(axis.name)
        shape = [size if other == number else 1 for other, size in enumerate(mesh.sizes)]
        coordinate = np.arange(mesh.sizes[number]).reshape(shape)
        sub_axes = list(zip(axis.sizes, axis.targets, axis.strides, strict=True))
        for size, target, stride in reversed(sub_axes):
            if target != "replicated":
                tiles[along.index(target)] += coordinate % size * stride
            coordinate = coordinate // size
    return tiles


def _unordered(sharding: Tiled, mesh: Mesh) -> Unsupported:
    return Unsupported(f"{sharding} puts tiles on devices in an order that no axes of the mesh {mesh} give")
