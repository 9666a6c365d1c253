"""The collectives that XLA's partitioner emits for reshards, dots and reductions of arrays with given specs.

Results are cached, since a planner asks for the same ones many times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hloom.distribute.partitioner.dot import LHS, OUTPUT, RHS, DotDimensions, PartitionedValue, reshard_created
from hloom.distribute.partitioner.dot_handler import partition_dot
from hloom.distribute.partitioner.reshard import reshard
from hloom.distribute.partitioner.tile_assignment import Dims, TileAssignment
from hloom.distribute.partitioner.trace import MeshCoordinates, Trace, TracedCollective, all_reduce_along_dims
from hloom.ir import Tiled, assignment
from hloom.sharding import Axes, Mesh, Spec, to_tiled

DimAxes = tuple[Axes, ...]
"""The axes that split each dimension: `Spec.dims`."""


@dataclass(frozen=True, slots=True)
class ShardedArray:
    """An array as far as the collectives of a dot depend on it: dimensions, bytes per element, axes per dimension."""

    dims: Dims
    element_bytes: int
    axes: DimAxes

    def partitioned(self, mesh: Mesh, index: int) -> PartitionedValue:
        """The array on a mesh, as the LHS, RHS or OUTPUT of a dot."""
        return PartitionedValue(self.dims, self.element_bytes, tiles_on(self.axes, mesh), index)


def reshard_collectives(dims: Sequence[int], source: Spec, target: Spec, mesh: Mesh) -> tuple[TracedCollective, ...]:
    """The collectives of a reshard between two specs, without partial results, of an array of these dimensions.

    >>> mesh, split = Mesh.parse("x=8"), Spec((("x",), ()))
    >>> reshard_collectives((64, 64), split, Spec(((), ("x",))), mesh)
    (TracedCollective(opcode='all-to-all', group_size=8, elements=512),)
    >>> reshard_collectives((64, 64), split, Spec.replicated(2), mesh)
    (TracedCollective(opcode='all-gather', group_size=8, elements=4096),)
    """
    if source.dims == target.dims:
        return ()
    return _scaled_reshard(tuple(dims), source.dims, target.dims, mesh)


@lru_cache(1 << 18)
def dot_collectives(
    dimensions: DotDimensions, lhs: ShardedArray, rhs: ShardedArray, output: ShardedArray, mesh: Mesh
) -> tuple[tuple[TracedCollective, ...], float]:
    """The collectives, in bytes, of a dot or convolution in given specs, and the share of its work on one device."""
    trace = Trace(_coordinates(mesh))
    operands = lhs.partitioned(mesh, LHS), rhs.partitioned(mesh, RHS), output.partitioned(mesh, OUTPUT)
    share = partition_dot(trace, dimensions, *operands, mesh.device_count)
    return tuple(trace.collectives), share


@lru_cache(1 << 18)
def reduction_collectives(
    dims: Dims, partial: tuple[Axes, ...], operand: DimAxes, natural: DimAxes, result: DimAxes, mesh: Mesh
) -> tuple[TracedCollective, ...]:
    """The collectives that combine partial results of reductions and of lookups in a split operand.

    `partial` are the axes of each dimension that is reduced, `natural` those of the result before it is combined.
    Partial results are all-reduced along one dimension after the other; where the last all-reduce is sliced at once, it
    is a reduce-scatter. Follows `SpmdPartitioningVisitor::HandleReduce` in xla/service/spmd/spmd_partitioner.cc.
    """
    trace, source = Trace(_coordinates(mesh)), tiles_on(natural, mesh)
    elements = math.prod(source.shard_dims(dims))
    all_reduce_along_dims(trace, elements, tiles_on(operand, mesh), tuple(operand.index(axes) for axes in partial))
    reshard_created(trace, dims, 1, source, tiles_on(result, mesh))
    return tuple(trace.collectives)


@lru_cache(1 << 18)
def _scaled_reshard(dims: Dims, source: DimAxes, target: DimAxes, mesh: Mesh) -> tuple[TracedCollective, ...]:
    """The collectives of a reshard, scaled from those of the smallest array whose tiles are as even."""
    count = mesh.device_count
    smallest = tuple(size if size % count else count for size in dims)
    ratio = math.prod(dims) // math.prod(smallest)
    collectives = _reshard(smallest, source, target, mesh)
    return tuple(replace(collective, elements=collective.elements * ratio) for collective in collectives)


@lru_cache(1 << 18)
def _reshard(dims: Dims, source: DimAxes, target: DimAxes, mesh: Mesh) -> tuple[TracedCollective, ...]:
    trace = Trace(_coordinates(mesh))
    reshard(trace, dims, tiles_on(source, mesh), tiles_on(target, mesh))
    return tuple(trace.collectives)


@lru_cache(64)
def _coordinates(mesh: Mesh) -> MeshCoordinates:
    return MeshCoordinates.of(mesh)


@lru_cache(1 << 16)
def tiles_on(axes: DimAxes, mesh: Mesh) -> TileAssignment:
    """The tile assignment of a spec's dimensions on a mesh."""
    sharding = to_tiled(Spec(axes), mesh)
    if not isinstance(sharding, Tiled):
        return TileAssignment.replicated(len(axes))
    devices = assignment(sharding)
    return TileAssignment.from_array(devices.reshape(*devices.shape[: len(axes)], -1))
