"""The link of each axis of a mesh, from the links that a device states.

Devices with neighbouring numbers are near, as in `analysis.collective_cost`: minor axes stay inside a host and use its
fast link, axes that reach beyond use the network. An axis with some steps inside a host and some outside is as slow as
the slower part: each of a host's devices sends its share of a ring's bytes outside, so the network carries as many
shares as the axis has devices in the host.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hloom.analysis import HOST, Device
from hloom.sharding.mesh import AxisLink, Mesh
from hloom.text import Unsupported


def mesh_with_links(device: Device, text: str | Mesh) -> Mesh:
    """A mesh of such devices with the link of each axis; links that it has already stay.

    Raises Unsupported where the device's links do not reach: no link for that many devices, or none at all.

    >>> from hloom.analysis import device
    >>> mesh = mesh_with_links(device("h100"), "data=4,model=8")
    >>> mesh.link("model").bandwidth, mesh.link("data").bandwidth
    (450000000000.0, 50000000000.0)
    """
    mesh = Mesh.parse(text) if isinstance(text, str) else text
    devices = mesh.device_array()
    links = {
        name: mesh.links.get(name) or _link(device, np.moveaxis(devices, number, -1).reshape(-1, size), mesh, name)
        for number, (name, size) in enumerate(zip(mesh.names, mesh.sizes, strict=True))
        if size > 1
    }
    return replace(mesh, links={**mesh.links, **links})


def _link(device: Device, groups: np.ndarray, mesh: Mesh, axis: str) -> AxisLink:
    """The bandwidth and mean latency of a ring over the groups of an axis, a row each; of unlike groups the slowest."""
    rings = [_ring(device, tuple(row), mesh, axis) for row in np.unique(_blocks(device, groups), axis=0).tolist()]
    return AxisLink(min(link.bandwidth for link in rings), max(link.latency for link in rings))


def _blocks(device: Device, groups: np.ndarray) -> np.ndarray:
    """How many blocks of each link the members of each group are in; a row per group."""
    joined = [link.devices for link in device.links if link.topology != HOST and link.devices is not None]
    if not joined:
        return np.zeros((1, 0), np.int64)
    return np.array([[len(np.unique(row // count)) for count in joined] for row in groups], np.int64)


def _ring(device: Device, blocks: tuple[int, ...], mesh: Mesh, axis: str) -> AxisLink:
    size, parts, latency, bandwidth = mesh.size(axis), mesh.size(axis), 0.0, math.inf
    counts = iter(blocks)
    for link in (link for link in device.links if link.topology != HOST):
        left = 1 if link.devices is None else next(counts)
        if parts > left:
            rate = link.bandwidth * ((size / left - 1) if link.topology == "mesh" else 1)
            bandwidth = min(bandwidth, rate * size / parts)
            latency += (parts - left) * link.latency
        parts = left
        if parts == 1:
            return AxisLink(bandwidth, latency / (size - 1))
    raise Unsupported(
        f"axis {axis} of the mesh {mesh} is wider than the links of {device.name} reach",
        hint="a last link without `devices` joins any number",
    )
