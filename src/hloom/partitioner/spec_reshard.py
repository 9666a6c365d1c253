"""What XLA's partitioner emits where a value changes from one spec to another: steps of collectives, with their sizes.

`spmd/` retraces the partitioner's own way; here it is asked about specs, and remembered. Calibrated against
micro-modules: tests/runtime/test_partition.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from hloom.partitioner.collective import Step as Step
from hloom.partitioner.reshard import change
from hloom.partitioner.tile_assignment import Tiles, tiles_of
from hloom.partitioner.trace import Trace, World
from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Axes, Spec

Dims = tuple[Axes, ...]


def reshard(dims: Sequence[int], source: Spec, target: Spec, mesh: Mesh) -> tuple[Step, ...]:
    """The steps between two complete specs of an array of these dimensions.

    >>> mesh, split = Mesh.parse("x=8"), Spec((("x",), ()))
    >>> reshard((64, 64), split, Spec(((), ("x",))), mesh)
    (Step(kind='all-to-all', group=8, elements=512),)
    >>> reshard((64, 64), split, Spec.replicated(2), mesh)
    (Step(kind='all-gather', group=8, elements=4096),)
    """
    if source.dims == target.dims:
        return ()
    return _steps(tuple(dims), source.dims, target.dims, mesh)


@lru_cache(1 << 18)
def _steps(dims: tuple[int, ...], source: Dims, target: Dims, mesh: Mesh) -> tuple[Step, ...]:
    """The steps, scaled from those of the smallest array whose parts are as even."""
    count = mesh.device_count
    smallest = tuple(size if size % count else count for size in dims)
    ratio = math.prod(dims) // math.prod(smallest)
    steps = _traced_steps(smallest, source, target, mesh)
    return tuple(Step(step.kind, step.group, step.elements * ratio, step.axes, step.side, step.mark) for step in steps)


@lru_cache(1 << 18)
def _traced_steps(dims: tuple[int, ...], source: Dims, target: Dims, mesh: Mesh) -> tuple[Step, ...]:
    trace = traced(mesh)
    change(trace, dims, tiles_on(source, mesh), tiles_on(target, mesh))
    return tuple(trace.steps)


def traced(mesh: Mesh) -> Trace:
    """A trace on which nothing stands yet."""
    return Trace(_world(mesh))


@lru_cache(64)
def _world(mesh: Mesh) -> World:
    return World.of(mesh)


@lru_cache(1 << 16)
def tiles_on(dims: Dims, mesh: Mesh) -> Tiles:
    """The tiles of a spec's dimensions on a mesh."""
    used = [axis for axes in dims for axis in axes]
    order = used + [name for name in mesh.names if name not in used]
    devices = np.asarray(mesh.order.ids()).reshape(mesh.sizes)
    array = devices.transpose([mesh.names.index(axis) for axis in order])
    return tiles_of(array.reshape(*(mesh.count(axes) for axes in dims), -1))
