"""Grouped shardings, by their devices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hloom.distribute.partitioner.grouped_sharding import align_groups, dims_matching_groups, group_on_dims, ungroup
from hloom.distribute.partitioner.tile_assignment import TileAssignment
from tests.distribute.partitioner.assignments import assignments


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
