"""Which part of an array each device holds, to the element: what uneven dimensions leave for the last devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Spec
from hloom.text import HloomError

Part = tuple[slice, ...]


def parts_held(spec: Spec, mesh: Mesh, dims: Sequence[int]) -> dict[int, Part]:
    """By device, the slice of each dimension that it holds, without what XLA pads: it may be empty.

    Over partial and manual axes every device holds something of its own in that place.

    >>> parts_held(Spec((("x",),)), Mesh.parse("x=4"), (5,))
    {0: (slice(0, 2, None),), 1: (slice(2, 4, None),), 2: (slice(4, 5, None),), 3: (slice(5, 5, None),)}
    """
    if len(dims) != spec.rank:
        raise HloomError(f"{spec} is for arrays of rank {spec.rank}, not {len(dims)}")
    tiles = tile_indices(spec, mesh).reshape(spec.rank, mesh.device_count).T.tolist()
    steps = mesh.local_dims(dims, spec)
    return {
        device: tuple(
            slice(min(tile * step, size), min((tile + 1) * step, size))
            for tile, step, size in zip(index, steps, dims, strict=True)
        )
        for device, index in zip(mesh.order.ids().tolist(), tiles, strict=True)
    }


def tile_indices(spec: Spec, mesh: Mesh) -> np.ndarray:
    """The index of the tile that each place of the mesh holds: an array per dimension, of the mesh's shape."""
    tiles = np.zeros((spec.rank, *mesh.sizes), np.int64)
    for number, axes in enumerate(spec.dims):
        for axis in axes:
            place, size = mesh.names.index(axis), mesh.size(axis)
            shape = [size if each == place else 1 for each in range(len(mesh.sizes))]
            tiles[number] = tiles[number] * size + np.arange(size).reshape(shape)
    return tiles


def padded_share(spec: Spec, mesh: Mesh, dims: Sequence[int]) -> float:
    """How many times its elements an array's tiles hold together, padding counted: 1 where the split is even.

    >>> padded_share(Spec((("x",), ())), Mesh.parse("x=4"), (5, 3))
    1.6
    """
    share = 1.0
    for size, step, axes in zip(dims, mesh.local_dims(dims, spec), spec.dims, strict=True):
        share *= step * mesh.count(axes) / size if size else 1.0
    return share
