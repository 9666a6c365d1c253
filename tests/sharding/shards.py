"""Which slice of an array each device holds, computed from a spec's axes alone: what shardings are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.sharding import Mesh, Spec


def slices_held(spec: Spec, mesh: Mesh, dims: Sequence[int]) -> dict[int, tuple[slice, ...]]:
    """By device, the slice of each dimension that it holds, without XLA's padding: it may be empty."""
    indices = tile_indices(spec, mesh).reshape(spec.rank, mesh.device_count).T.tolist()
    shard_dims = mesh.local_dims(dims, spec)
    return {
        device: tuple(
            slice(min(number * shard, size), min((number + 1) * shard, size))
            for number, shard, size in zip(index, shard_dims, dims, strict=True)
        )
        for device, index in zip(mesh.order.ids().tolist(), indices, strict=True)
    }


def tile_indices(spec: Spec, mesh: Mesh) -> np.ndarray:
    """The index of the tile that each device of the mesh holds: an array of the mesh's shape per dimension."""
    tiles = np.zeros((spec.rank, *mesh.sizes), np.int64)
    for dim, axes in enumerate(spec.dims):
        for axis in axes:
            number, size = mesh.names.index(axis), mesh.size(axis)
            shape = [size if other == number else 1 for other in range(len(mesh.sizes))]
            tiles[dim] = tiles[dim] * size + np.arange(size).reshape(shape)
    return tiles
