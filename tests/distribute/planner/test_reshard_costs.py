"""The table of reshards: seconds of what the partitioner would emit, whatever was asked before."""

from __future__ import annotations

import itertools

import numpy as np

from hloom.distribute.partitioner import reshard_collectives
from hloom.distribute.planner.cost_model import Rates, uniform_device
from hloom.distribute.planner.reshard_costs import ReshardCosts
from hloom.sharding import Mesh, parse_spec

MESH = Mesh.parse("x=2,y=4")
RATES = Rates(uniform_device(bandwidth=1e9))
DIMS = (64, 32)
SPECS = [parse_spec(text) for text in ("[-,-]", "[x,-]", "[-,x]", "[x,y]", "[x.y,-]")]


def seconds(source, target) -> float:
    return sum(RATES.collectives(MESH).seconds(step, 4.0) for step in reshard_collectives(DIMS, source, target, MESH))


def test_each_entry_is_what_the_collectives_take():
    costs = ReshardCosts(MESH, RATES).seconds(DIMS, 4.0, SPECS, SPECS)
    assert costs.shape == (len(SPECS), len(SPECS))
    for (row, source), (column, target) in itertools.product(enumerate(SPECS), repeat=2):
        assert costs[row, column] == seconds(source, target)
    assert (np.diagonal(costs) == 0).all()


def test_a_table_that_grows_keeps_its_entries():
    costs = ReshardCosts(MESH, RATES)
    costs.seconds(DIMS, 4.0, SPECS[:2], SPECS[1:2])
    costs.seconds(DIMS, 4.0, SPECS[3:], SPECS[:1])
    again = costs.seconds(DIMS, 4.0, [SPECS[4], SPECS[0]], [SPECS[1], SPECS[0]])
    assert again.tolist() == [[seconds(SPECS[4], SPECS[1]), seconds(SPECS[4], SPECS[0])], [seconds(SPECS[0], SPECS[1]), 0]]


def test_wider_elements_take_longer():
    costs = ReshardCosts(MESH, RATES)
    narrow, wide = (costs.seconds(DIMS, width, SPECS[1:2], SPECS[:1])[0, 0] for width in (2.0, 4.0))
    assert wide == 2 * narrow > 0
