"""Collectives over axes of a mesh take as long as `analysis.collective_cost` gives the slowest of their groups.

Covers `distribute/planner/cost_model.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.analysis import collective_line, collective_seconds, device, devices
from hloom.analysis.collective_cost import CollectiveCost
from hloom.distribute.partitioner import TracedCollective
from hloom.distribute.planner.cost_model import CollectiveTimes, Rates
from hloom.ir import ExplicitDevices
from hloom.sharding import Mesh
from hloom.text import HloomError
from tests.helpers.properties import examples
from tests.sharding.meshes import meshes

INFINIBAND = 50e9
LARGE = 2**40


def nvlink(size: int) -> float:
    """Bytes per second that each of some H100s sends in a large all-gather, which was measured."""
    line = collective_line("all-gather", range(size), device("h100"))
    return 1 / line.byte_seconds


def bandwidth(name: str, mesh: Mesh, axis: str) -> float:
    """Bytes per second of a large all-gather along an axis."""
    step = TracedCollective("all-gather", mesh.size(axis), LARGE, (axis,))
    return step.elements_sent / CollectiveTimes(mesh, device(name)).seconds(step, 1)


@pytest.mark.parametrize(
    ("name", "text", "bandwidths"),
    [
        ("h100", "data=2,model=4", {"data": nvlink(2), "model": nvlink(4)}),
        ("h100", "data=4,model=8", {"data": INFINIBAND, "model": nvlink(8)}),
        ("h100", "model=8,data=4", {"model": 2 * INFINIBAND, "data": nvlink(4)}),
        ("h100", "data=16", {"data": 8 * INFINIBAND}),
        ("h100", "data=4,pipe=4,model=4", {"data": INFINIBAND, "pipe": 2 * INFINIBAND, "model": nvlink(4)}),
        ("mi300x", "data=2,model=8", {"data": 50e9, "model": 7 * 64e9}),
        ("tpu-v5e", "data=16,model=16", {"data": 1e11, "model": 1e11}),
    ],
)
def test_minor_axes_stay_inside_a_host(name: str, text: str, bandwidths: dict[str, float]):
    mesh = Mesh.parse(text)
    assert {axis: bandwidth(name, mesh, axis) for axis in mesh.names} == pytest.approx(bandwidths, rel=5e-3)
    assert CollectiveTimes(mesh, device(name)).slowest_bandwidth == pytest.approx(min(bandwidths.values()))


@given(st.data())
@examples(50)
def test_an_axis_takes_as_long_as_its_slowest_group(data: st.DataObject):
    chosen = device(data.draw(st.sampled_from([name for name in devices() if name not in ("cpu",)])))
    mesh = data.draw(meshes(most=64, smallest=2))
    opcode = data.draw(st.sampled_from(["all-gather", "all-reduce", "all-to-all", "reduce-scatter"]))
    times = CollectiveTimes(mesh, chosen)
    for number, (axis, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True)):
        groups = np.moveaxis(mesh.device_array(), number, -1).reshape(-1, size).tolist()
        step = TracedCollective(opcode, size, LARGE, (axis,))
        steps = 2 * (size - 1) if opcode == "all-reduce" else size - 1
        transfer = CollectiveCost("a", "e", opcode, size, round(step.elements_sent), 0, steps, 1)
        slowest = max(collective_seconds(transfer, group, chosen) for group in groups)
        assert times.seconds(step, 1) == pytest.approx(slowest, rel=1e-3)


def test_a_ring_over_two_axes_shares_the_links_between_hosts():
    mesh = Mesh.parse("data=2,model=8")
    step = TracedCollective("all-gather", 16, LARGE, ("data", "model"))
    seconds = CollectiveTimes(mesh, device("h100")).seconds(step, 1)
    assert step.elements_sent / seconds == pytest.approx(8 * INFINIBAND, rel=1e-3)


def test_the_order_of_the_devices_counts():
    spread = Mesh(("x", "y"), (8, 2), ExplicitDevices(tuple(range(0, 16, 2)) + tuple(range(1, 16, 2))))
    assert bandwidth("h100", spread, "y") == pytest.approx(nvlink(2), rel=5e-3)
    assert bandwidth("h100", Mesh.parse("x=8,y=2"), "x") == pytest.approx(4 * INFINIBAND, rel=1e-3)


def test_devices_that_no_link_joins():
    with pytest.raises(HloomError) as caught:
        Rates.of(replace(device("h100"), links=device("h100").links[:1]), Mesh.parse("x=16"))
    assert caught.value.message == "the mesh x=16 is wider than the links of h100 reach"
