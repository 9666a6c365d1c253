"""Meshes and specs for property tests: axes of any small size, devices in any order, every axis in any role."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from hloom.ir import ExplicitDevices, IotaDevices
from hloom.sharding import Mesh, Spec, spec_of

NAMES = ("x", "y", "z", "w")
ORDERS = ("natural", "iota", "listed")


@st.composite
def meshes(draw, most: int = 24, smallest: int = 1, orders=ORDERS) -> Mesh:
    sizes: list[int] = []
    while len(sizes) < len(NAMES) and math.prod(sizes) * 2 <= most and (draw(st.booleans()) or not sizes):
        sizes.append(draw(st.integers(smallest, most // math.prod(sizes))))
    count, order = math.prod(sizes), draw(st.sampled_from(orders))
    names = draw(st.permutations(NAMES))[: len(sizes)]
    return Mesh(tuple(names), tuple(sizes), draw(_devices(order, count)))


@st.composite
def _devices(draw, order: str, count: int):
    if order == "natural":
        return None
    if order == "listed":
        return ExplicitDevices(tuple(draw(st.permutations(range(count)))))
    major = draw(st.sampled_from([size for size in range(1, count + 1) if count % size == 0]))
    return IotaDevices((major, count // major), (1, 0))


@st.composite
def specs(draw, mesh: Mesh, reducers=("add",), manual: bool = True, most_rank: int = 4) -> Spec:
    """Each axis shards a dimension, replicates, holds partial results, or is manual."""
    rank = draw(st.integers(0, most_rank))
    dims: list[list[str]] = [[] for _ in range(rank)]
    partial, manual_axes = [], []
    reducer = draw(st.sampled_from(reducers)) if reducers else ""
    roles = [*range(rank), "replicated", *(["partial"] if reducers else []), *(["manual"] if manual else [])]
    for axis in draw(st.permutations(mesh.names)):
        role = draw(st.sampled_from(roles))
        if isinstance(role, int):
            dims[role].append(axis)
        elif role == "partial":
            partial.append((axis, reducer))
        elif role == "manual":
            manual_axes.append(axis)
    return spec_of(dims, partial, manual_axes)


@st.composite
def meshes_with_specs(draw, **options):
    """A mesh and a spec on it."""
    limits = {name: options.pop(name) for name in ("most", "smallest", "orders") if name in options}
    mesh = draw(meshes(**limits))
    return mesh, draw(specs(mesh, **options))


def without_trivial_axes(spec: Spec, mesh: Mesh) -> Spec:
    """A spec as V1 and V2 keep it: without axes of size 1."""
    return spec.without([name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size == 1])
