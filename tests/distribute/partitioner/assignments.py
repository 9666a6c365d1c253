"""Tile assignments for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from hloom.distribute.partitioner.tile_assignment import TileAssignment


@st.composite
def assignments(draw: st.DrawFn) -> TileAssignment:
    """Up to 24 devices in any order, up to three dimensions and a replication."""
    shape = draw(st.lists(st.sampled_from((1, 2, 3)), min_size=2, max_size=4))
    devices = draw(st.permutations(range(int(np.prod(shape)))))
    return TileAssignment.from_array(np.array(devices).reshape(shape))
