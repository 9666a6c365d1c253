"""The links of mesh axes give the same times as `analysis.collective_cost` gives the collectives over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hloom.analysis import device, devices
from hloom.analysis.collective_cost import CollectiveCost, collective_seconds
from hloom.ir import ExplicitDevices
from hloom.sharding import AxisLink, Mesh, mesh_with_links
from hloom.text import HloomError
from tests.helpers.properties import examples
from tests.sharding.meshes import meshes

NVLINK, INFINIBAND = 450e9, 50e9


@pytest.mark.parametrize(
    ("name", "text", "bandwidths"),
    [
        ("h100", "data=2,model=4", {"data": NVLINK, "model": NVLINK}),
        ("h100", "data=4,model=8", {"data": INFINIBAND, "model": NVLINK}),
        ("h100", "model=8,data=4", {"model": 2 * INFINIBAND, "data": NVLINK}),
        ("h100", "data=16", {"data": 8 * INFINIBAND}),
        ("h100", "data=4,pipe=4,model=4", {"data": INFINIBAND, "pipe": 2 * INFINIBAND, "model": NVLINK}),
        ("mi300x", "data=2,model=8", {"data": 50e9, "model": 7 * 64e9}),
        ("tpu-v5e", "data=16,model=16", {"data": 1e11, "model": 1e11}),
    ],
)
def test_minor_axes_stay_inside_a_host(name: str, text: str, bandwidths: dict[str, float]):
    mesh = mesh_with_links(device(name), text)
    assert {axis: mesh.link(axis).bandwidth for axis in mesh.names} == bandwidths


@given(st.data())
@examples(50)
def test_an_axis_takes_as_long_as_its_slowest_group(data: st.DataObject):
    chosen = device(data.draw(st.sampled_from([name for name in devices() if name not in ("cpu",)])))
    mesh = data.draw(meshes(most=64, smallest=2))
    linked = mesh_with_links(chosen, mesh)
    devices_of = mesh.device_array()
    for number, (axis, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True)):
        groups = np.moveaxis(devices_of, number, -1).reshape(-1, size).tolist()
        transfer = CollectiveCost("a", "e", "all-gather", size, 10**12, 0, size - 1, 1)
        slowest = max(collective_seconds(transfer, group, chosen) for group in groups)
        link = linked.link(axis)
        assert transfer.comm_bytes / link.bandwidth + transfer.steps * link.latency == pytest.approx(slowest, rel=1e-3)


def test_links_that_a_mesh_has_stay():
    mesh = Mesh(("x", "y"), (2, 4), None, {"x": AxisLink(1e9, 1e-3)})
    links = mesh_with_links(device("h100"), mesh).links
    assert links["x"] == AxisLink(1e9, 1e-3)
    assert (links["y"].bandwidth, links["y"].latency) == (NVLINK, pytest.approx(1.9e-6))


def test_the_order_of_the_devices_counts():
    spread = Mesh(("x", "y"), (8, 2), ExplicitDevices(tuple(range(0, 16, 2)) + tuple(range(1, 16, 2))))
    assert mesh_with_links(device("h100"), spread).link("y").bandwidth == NVLINK
    assert mesh_with_links(device("h100"), "x=8,y=2").link("x").bandwidth == 4 * INFINIBAND


def test_devices_that_no_link_joins():
    with pytest.raises(HloomError) as caught:
        mesh_with_links(replace(device("h100"), links=device("h100").links[:1]), "x=16")
    assert caught.value.message == "axis x of the mesh x=16 is wider than the links of h100 reach"
