"""Which part of an array each device holds: together they hold it, as often as there are copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.ir import shard_dims, tile_of
from hloom.sharding import Mesh, Spec, parse_spec
from hloom.sharding.hlo_sharding import to_tiled
from hloom.sharding.shards import padded_share, parts_held
from hloom.text import HloomError
from tests.sharding.meshes import placed


@given(placed(manual=False), st.data())
@settings(deadline=None)
def test_every_element_is_held_once_per_copy(case: tuple[Mesh, Spec], data: st.DataObject):
    mesh, spec = case
    dims = data.draw(st.lists(st.integers(0, 9), min_size=spec.rank, max_size=spec.rank))
    counts = np.zeros(dims, np.int64)
    for part in parts_held(spec, mesh, dims).values():
        counts[part] += 1
    assert (counts == mesh.device_count // mesh.count(spec.axes)).all()


@given(placed(manual=False), st.data())
@settings(deadline=None)
def test_parts_are_where_the_sharding_says(case: tuple[Mesh, Spec], data: st.DataObject):
    mesh, spec = case
    dims = data.draw(st.lists(st.integers(1, 9), min_size=spec.rank, max_size=spec.rank))
    sharding = to_tiled(spec, mesh)
    steps = shard_dims(sharding, dims) if dims else ()
    assert steps == mesh.local_dims(dims, spec)
    for device, part in parts_held(spec, mesh, dims).items():
        index = tile_of(sharding, device, spec.rank)
        assert [each.start for each in part] == [min(i * s, d) for i, s, d in zip(index, steps, dims, strict=True)]


def test_uneven_dimensions_leave_less_or_nothing_for_the_last():
    held = parts_held(parse_spec("[data.model]"), Mesh.parse("data=2,model=3"), (7,))
    assert [(part[0].start, part[0].stop) for part in held.values()] == [(0, 2), (2, 4), (4, 6), (6, 7), (7, 7), (7, 7)]


@pytest.mark.parametrize(("text", "dims", "share"), [("[x]", (8,), 1.0), ("[x]", (5,), 1.6), ("[x,y]", (5, 3), 1.6 * 4 / 3), ("[-,-]", (5, 3), 1.0), ("[x]", (0,), 1.0)])  # fmt: skip
def test_what_padding_adds(text: str, dims: tuple[int, ...], share: float):
    assert padded_share(parse_spec(text), Mesh.parse("x=4,y=2"), dims) == pytest.approx(share)


def test_another_rank_is_refused():
    with pytest.raises(HloomError) as caught:
        parts_held(parse_spec("[x]"), Mesh.parse("x=4"), (5, 3))
    assert caught.value.message == "[x] is for arrays of rank 1, not 2"
