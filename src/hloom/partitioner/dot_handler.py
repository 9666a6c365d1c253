"""The collectives that XLA's partitioner emits for a dot, or for a convolution whose windows are not split.

Follows `SpmdPartitioningVisitor::HandleDotHelper` and `PartitionDot` in xla/service/spmd/dot_handler.cc. XLA looks for
dimensions that operands and output split equally (batch, then non-contracting, then contracting ones), forms groups of
devices along them, and partitions the dot inside the groups: first where no operand has to be resharded to another
order of groups, then with such reshards. Failing all, operands are resharded to match the output.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hloom.partitioner.dot import LHS, RHS, Dot, DotDimensions, PartitionedValue
from hloom.partitioner.dot_base_case import partition_base_case
from hloom.partitioner.dot_batch_dims import group_on_batch_dims
from hloom.partitioner.dot_contracting_dims import group_on_contracting_dims
from hloom.partitioner.dot_non_contracting_dims import group_on_non_contracting_dims
from hloom.partitioner.grouped_sharding import group_on_dims
from hloom.partitioner.trace import Trace


def partition_dot(
    trace: Trace,
    dimensions: DotDimensions,
    lhs: PartitionedValue,
    rhs: PartitionedValue,
    output: PartitionedValue,
    device_count: int,
) -> float:
    """Trace the collectives of a dot, and return the share of its work that one device does."""
    known = {
        dim.output for dim in (*dimensions.batch, *dimensions.lhs_non_contracting, *dimensions.rhs_non_contracting)
    }
    windowed = math.prod(size for dim, size in enumerate(output.dims) if dim not in known)
    batch_and_own = (*dimensions.batch, *dimensions.lhs_non_contracting)
    work: list[int] = []

    def create_sharded_dot(left: PartitionedValue, right: PartitionedValue) -> int:
        left_dims, right_dims = left.tiles.shard_dims(left.dims), right.tiles.shard_dims(right.dims)
        rhs_own = math.prod(right_dims[dim.rhs] for dim in dimensions.rhs_non_contracting)
        lhs_own = math.prod(left_dims[dim.lhs] for dim in batch_and_own)
        contracted = math.prod(left_dims[dim.lhs] for dim in dimensions.contracting)
        work.append(rhs_own * lhs_own * contracted)
        return windowed * rhs_own * lhs_own

    _partition(Dot(dimensions, lhs, rhs, output, device_count, trace, create_sharded_dot, _partition))
    total = math.prod(lhs.dims[dim.lhs] for dim in (*batch_and_own, *dimensions.contracting))
    total *= math.prod(rhs.dims[dim.rhs] for dim in dimensions.rhs_non_contracting)
    return work[-1] / total if total else 1.0


def _partition(dot: Dot) -> None:
    attempts = (
        _partition_as_is,
        group_on_batch_dims,
        group_on_non_contracting_dims,
        group_on_contracting_dims,
        _remove_output_partial_replication,
        _partition_with_reshards,
    )
    for may_reshard_groups in (False, True):
        for attempt in attempts:
            count = len(dot.trace.collectives)
            if attempt(dot, may_reshard_groups):
                return
            del dot.trace.collectives[count:]
    for operand_index in (LHS, RHS):
        dot = dot.resharded(operand_index, dot.inferred_tiles(operand_index))
    dot.create()


def _partition_as_is(dot: Dot, may_reshard_groups: bool) -> bool:
    return partition_base_case(dot, may_reshard_if_mismatch=False)


def _partition_with_reshards(dot: Dot, may_reshard_groups: bool) -> bool:
    return partition_base_case(dot, may_reshard_if_mismatch=True)


def _remove_output_partial_replication(dot: Dot, may_reshard_groups: bool) -> bool:
    """Replicated operands and a partially replicated output: partition among one device of each replica.

    Follows `PartitionDotRemovingOutputPartialReplication`.
    """
    output = dot.output.tiles
    if not (dot.lhs.tiles.is_replicated and dot.rhs.tiles.is_replicated and output.is_partially_replicated):
        return False
    grouped = group_on_dims(output, (len(dot.output.dims),))
    inner = replace(dot.output, tiles=grouped.tiles)
    trace = dot.trace.inside(grouped.device_groups)
    _partition(replace(dot, output=inner, device_count=output.tile_count, trace=trace))
    return True
