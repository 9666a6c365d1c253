"""Tile assignments, by their devices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.distribute.partitioner.tile_assignment import (
    TileAssignment,
    is_sub_tiling,
    replicate_on_dims,
    transpose_dims,
)
from tests.distribute.partitioner.assignments import assignments

TILES = TileAssignment.from_array(np.arange(8).reshape(2, 2, 2))


def test_one_tile_is_replicated():
    assert TileAssignment.from_array(np.arange(8).reshape(1, 1, 8)) == TileAssignment.replicated(2)


def test_devices_of_one_tile_are_sorted():
    assert TileAssignment.from_array(np.array([[3, 1], [2, 0]])).devices == (1, 3, 0, 2)


def test_tiles_are_padded():
    assert TILES.shard_dims((5, 8)) == (3, 4)


def test_replicated_on_one_dimension():
    assert replicate_on_dims(TILES, (0,)) == TileAssignment((1, 2), 4, (0, 1, 4, 5, 2, 3, 6, 7))


@pytest.mark.parametrize(
    ("to_target", "rank", "expected"),
    [
        ((1, 0), 2, TileAssignment((2, 2), 2, (0, 1, 4, 5, 2, 3, 6, 7))),
        ((2, 0), 3, TileAssignment((2, 1, 2), 2, (0, 1, 4, 5, 2, 3, 6, 7))),
        ((0, -1), 1, None),
    ],
)
def test_transposed(to_target: tuple[int, ...], rank: int, expected: TileAssignment | None):
    assert transpose_dims(TILES, to_target, rank) == expected


@given(assignments())
def test_every_device_is_in_its_tile(tiles: TileAssignment):
    if not tiles.is_replicated:
        for device, index in enumerate(tiles.indices()):
            assert tiles.array()[tuple(index)] == device


@given(assignments(), st.data())
def test_replicating_coarsens(tiles: TileAssignment, data: st.DataObject):
    dims = tuple(data.draw(st.lists(st.integers(0, len(tiles.tile_counts) - 1), unique=True)))
    assert is_sub_tiling(tiles, replicate_on_dims(tiles, dims))
