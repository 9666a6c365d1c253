"""From where a sharding puts the tiles to what each axis of a mesh does: the inverse of writing a spec as tiles.

Walking along an axis, the index of a device's tile moves in equal steps along one dimension, or stays. Where it moves
so for a while only, the axis is two or more: minor to major, each part moves in steps of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hloom.ir import Tiled, assignment
from hloom.sharding.mesh import Mesh
from hloom.text import HloomError, Unsupported

Place = int | str
"""What an axis splits: a dimension by its number, or a subgroup by its kind; "replicated" is where it splits none."""


@dataclass(frozen=True, slots=True)
class PlacedAxis:
    """An axis of a mesh and its parts, major to minor: how many steps, along what, and how far each step moves."""

    name: str
    sizes: tuple[int, ...]
    places: tuple[Place, ...]
    steps: tuple[int, ...]


def axes_of(sharding: Tiled, mesh: Mesh) -> tuple[PlacedAxis, ...]:
    """What each axis does, in the mesh's order; those of size 1 do nothing and are left out.

    Raises HloomError where the sharding names other devices than the mesh, Unsupported where its tiles do not follow
    the axes, nor parts of them.
    """
    places = [*range(sharding.rank), *sharding.subgroups]
    if "maximal" in places:
        raise Unsupported(f"{sharding}: a subgroup that is maximal is nothing that axes of a mesh say")
    kept = [number for number, place in enumerate(places) if place != "replicated"]
    tiles = _tiles(sharding, mesh)[kept]
    along = [places[number] for number in kept]
    axes: list[PlacedAxis] = []
    for number, (name, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True)):
        if size > 1:
            line = np.moveaxis(tiles, number + 1, -1).reshape(len(kept), -1, size)[:, 0]
            axes.append(_placed(name, line, along, sharding, mesh))
    if not np.array_equal(_rebuilt(axes, along, mesh), tiles):
        raise _unordered(sharding, mesh)
    return tuple(axes)


def _tiles(sharding: Tiled, mesh: Mesh) -> np.ndarray:
    """The index of each device's tile, per tile dimension, as an array over the mesh."""
    listed, wanted = assignment(sharding).ravel(), mesh.order.ids()
    order = np.argsort(listed, kind="stable")
    if not np.array_equal(listed[order], np.sort(wanted)):
        raise HloomError(f"{sharding} names other devices than the mesh {mesh}: its {len(wanted)} are {mesh.order}")
    positions = order[np.searchsorted(listed, wanted, sorter=order)]
    indices = np.array(np.unravel_index(positions, sharding.tile), np.int64)
    return indices.reshape(len(sharding.tile), *mesh.sizes)


def _placed(name: str, line: np.ndarray, along: list[Place], sharding: Tiled, mesh: Mesh) -> PlacedAxis:
    """An axis from the tiles on a line along it."""
    sizes: list[int] = []
    places: list[Place] = []
    steps: list[int] = []
    while line.shape[1] > 1:
        step = line[:, 1]
        moving = np.flatnonzero(step)
        same = (line == step[:, None] * np.arange(line.shape[1])).all(axis=0)
        run = line.shape[1] if same.all() else int(np.argmin(same))
        if run < 2 or line.shape[1] % run or len(moving) > 1 or (step < 0).any():
            raise _unordered(sharding, mesh)
        sizes.insert(0, run)
        places.insert(0, along[moving[0]] if len(moving) else "replicated")
        steps.insert(0, int(step[moving[0]]) if len(moving) else 0)
        line = line[:, ::run]
    return PlacedAxis(name, tuple(sizes), tuple(places), tuple(steps))


def _rebuilt(axes: list[PlacedAxis], along: list[Place], mesh: Mesh) -> np.ndarray:
    """The indices of the tiles, if each axis moves the same way wherever one stands."""
    tiles = np.zeros((len(along), *mesh.sizes), np.int64)
    for axis in axes:
        number = mesh.names.index(axis.name)
        shape = [size if each == number else 1 for each, size in enumerate(mesh.sizes)]
        coordinate = np.arange(mesh.sizes[number]).reshape(shape)
        for size, place, step in zip(reversed(axis.sizes), reversed(axis.places), reversed(axis.steps), strict=True):
            if place != "replicated":
                tiles[along.index(place)] += coordinate % size * step
            coordinate = coordinate // size
    return tiles


def _unordered(sharding: Tiled, mesh: Mesh) -> Unsupported:
    return Unsupported(f"{sharding} puts tiles on devices in an order that no axes of the mesh {mesh} give")
