"""Tile assignments and grouped shardings, by their devices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.partitioner.grouped_sharding import align_groups, dims_matching_groups, group_on_dims, ungroup
from hloom.partitioner.tile_assignment import TileAssignment, is_sub_tiling, replicate_on_dims, transpose_dims

TILES = TileAssignment.from_array(np.arange(8).reshape(2, 2, 2))


@st.composite
def assignments(draw: st.DrawFn) -> TileAssignment:
    """Up to 24 devices in any order, up to three dimensions and a replication."""
    shape = draw(st.lists(st.sampled_from((1, 2, 3)), min_size=2, max_size=4))
    devices = draw(st.permutations(range(int(np.prod(shape)))))
    return TileAssignment.from_array(np.array(devices).reshape(shape))


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
def test_ungrouping_undoes_grouping(tiles: TileAssignment, data: st.DataObject):
    if tiles.is_replicated:
        return
    dims = tuple(data.draw(st.lists(st.integers(0, len(tiles.tile_counts)), unique=True, min_size=1)))
    grouped = group_on_dims(tiles, dims)
    assert ungroup(grouped).same_tiles(tiles)
    assert align_groups(grouped, grouped) == grouped


@given(assignments(), st.data())
def test_dims_that_match_groups_form_them(tiles: TileAssignment, data: st.DataObject):
    if tiles.is_replicated:
        return
    dims = tuple(data.draw(st.lists(st.integers(0, len(tiles.tile_counts)), unique=True, min_size=1)))
    groups = group_on_dims(tiles, dims).device_groups
    matching = dims_matching_groups(tiles, groups)
    if matching is not None:
        formed = group_on_dims(tiles, matching).device_groups
        assert {frozenset(group) for group in formed} == {frozenset(group) for group in groups}


@given(assignments(), st.data())
def test_replicating_coarsens(tiles: TileAssignment, data: st.DataObject):
    dims = tuple(data.draw(st.lists(st.integers(0, len(tiles.tile_counts) - 1), unique=True)))
    assert is_sub_tiling(tiles, replicate_on_dims(tiles, dims))
