"""The base case of dots: all devices split dimensions of one role, and no groups are needed.

Follows `PartitionBaseCase` and `PartitionBaseCaseBeforePartialMatch` in xla/service/spmd/dot_handler.cc; windowed
einsums, which XLA emits for accelerators, are left out.
"""

from __future__ import annotations

import math

from hloom.partitioner.dot import LHS, OUTPUT, RHS, Dot, PartitionedValue
from hloom.partitioner.reshard_all_to_all import can_reshard_directly
from hloom.partitioner.tile_assignment import TileAssignment
from hloom.partitioner.trace import all_reduce_along_dims


def partition_base_case(dot: Dot, *, may_reshard_if_mismatch: bool) -> bool:
    """Partition a dot of which all devices split the dimensions of one role."""
    dimensions, device_count, output = dot.dimensions, dot.device_count, dot.output.tiles
    if output.is_partially_replicated:
        return False
    batch = [dot.partitions(index, dimensions.batch) == device_count for index in (LHS, RHS)]
    to_rhs = dot.transposed_tiles(LHS, RHS)
    if batch[LHS] and batch[RHS] and to_rhs is not None and to_rhs.same_tiles(dot.rhs.tiles):
        dot.create()
        created = dot.transposed_tiles(LHS, OUTPUT)
        assert created is not None
        return dot.reshard_output(created)
    for may_all_gather in (False, True):
        for either in (dot, dot.swapped()):
            if _batch_like_one_operand(either, may_all_gather=may_all_gather):
                return True
    contracting = [dot.partitions(index, dimensions.contracting) == device_count for index in (LHS, RHS)]
    if all(contracting) and output.is_replicated:
        smaller = RHS if _total_bytes(dot.lhs) >= _total_bytes(dot.rhs) else LHS
        return _all_reduced(dot, smaller)
    for either in (dot, dot.swapped()):
        if _splits_own_dims(either):
            either.replicated(RHS).create()
            return True
    if may_reshard_if_mismatch and _match_output(dot):
        return True
    if not output.is_replicated:
        return False
    for index in (RHS, LHS):
        other, own = dot.value(1 - index), dot.value(index)
        if contracting[index] and other.tiles.is_replicated and math.prod(own.dims) > math.prod(dot.output.dims):
            return _all_reduced(dot, 1 - index)
    return False


def _total_bytes(value: PartitionedValue) -> int:
    return math.prod(value.dims) * value.element_bytes


def _batch_like_one_operand(dot: Dot, *, may_all_gather: bool) -> bool:
    """Reshard the right operand where the left one and the output split only batch dimensions, in the same way."""
    dimensions, device_count = dot.dimensions, dot.device_count
    if {dot.partitions(index, dimensions.batch) for index in (LHS, OUTPUT)} != {device_count}:
        return False
    created, wanted = dot.transposed_tiles(LHS, OUTPUT), dot.transposed_tiles(LHS, RHS)
    if created is None or wanted is None or not created.same_tiles(dot.output.tiles):
        return False
    if not may_all_gather and not can_reshard_directly(dot.rhs.tiles, wanted):
        return False
    dot.resharded(RHS, wanted).create()
    return True


def _splits_own_dims(dot: Dot) -> bool:
    """Whether the left operand and the output split only the left's non-contracting dimensions, in the same way."""
    own = dot.dimensions.lhs_non_contracting
    if {dot.partitions(index, own) for index in (LHS, OUTPUT)} != {dot.device_count}:
        return False
    created = dot.transposed_tiles(LHS, OUTPUT)
    return created is not None and created.same_tiles(dot.output.tiles)


def _all_reduced(dot: Dot, operand_index: int) -> bool:
    """Reshard one operand to match the other, and all-reduce the partial results."""
    wanted = dot.transposed_tiles(1 - operand_index, operand_index)
    assert wanted is not None
    dot = dot.resharded(operand_index, wanted)
    elements = dot.create()
    dims = tuple(dim.lhs for dim in dot.dimensions.contracting)
    all_reduce_along_dims(dot.trace.of_elements(dot.output.element_bytes), elements, dot.lhs.tiles, dims)
    return dot.reshard_output(TileAssignment.replicated(len(dot.output.dims)))


def _match_output(dot: Dot) -> bool:
    """Reshard the operands to match the output, where that is split along dimensions of one role."""
    if dot.partitions(OUTPUT, dot.dimensions.batch) == dot.device_count:
        lhs, rhs = dot.transposed_tiles(OUTPUT, LHS), dot.transposed_tiles(OUTPUT, RHS)
        if lhs is not None and rhs is not None:
            dot.resharded(LHS, lhs).resharded(RHS, rhs).create()
            return True
    for either in (dot, dot.swapped()):
        if either.partitions(OUTPUT, either.dimensions.lhs_non_contracting) == dot.device_count:
            wanted = either.transposed_tiles(OUTPUT, LHS)
            if wanted is not None:
                either.resharded(LHS, wanted).replicated(RHS).create()
                return True
    return False
