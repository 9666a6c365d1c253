"""The collectives that XLA's partitioner emits for a dot, or for a convolution whose windows are not split.

Follows `SpmdPartitioningVisitor::HandleDotHelper` and `PartitionDot` in xla/service/spmd/dot_handler.cc. XLA looks for
dimensions that operands and output split equally (batch, then non-contracting, then contracting ones), forms groups of
devices along them, and partitions the dot inside the groups: first where no operand has to be resharded to another
order of groups, then with such reshards. Failing all, operands are resharded to match the output.

The base case, where all devices split dimensions of one role and no groups are needed, follows `PartitionBaseCase` and
`PartitionBaseCaseBeforePartialMatch`; windowed einsums, which XLA emits for accelerators, are left out. Groups along
batch dimensions follow `PartitionDotGroupOnBatchDims` and `PartitionDotGroupOnBatchImpl`, those along contracting ones,
whose results are reduced, `PartitionDotGroupOnContractingDims` and `PartitionDotGroupOnContractingImpl`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hloom.distribute.partitioner.dot import LHS, OUTPUT, RHS, DimNumbers, Dot, DotDimensions, PartitionedValue
from hloom.distribute.partitioner.dot_non_contracting_dims import group_on_non_contracting_dims
from hloom.distribute.partitioner.grouped_sharding import (
    GroupedSharding,
    align_groups,
    dims_matching_groups,
    group_on_dims,
    ungroup,
)
from hloom.distribute.partitioner.reshard import can_reshard_directly, reshard
from hloom.distribute.partitioner.tile_assignment import (
    Dims,
    TileAssignment,
    is_sub_tiling,
    replicate_on_dims,
    transpose_dims,
)
from hloom.distribute.partitioner.trace import Trace, all_reduce_along_dims


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
    if dot.dimensions.is_replicated:
        dot.replicated(LHS).replicated(RHS).create()
        return
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


def group_on_batch_dims(dot: Dot, may_reshard_groups: bool) -> bool:
    """Partition a dot in groups along batch dimensions."""
    batch = dot.dimensions.batch
    asked = dot.partitions(OUTPUT, batch)
    if asked == 1 or asked not in (dot.partitions(LHS, batch), dot.partitions(RHS, batch)):
        return False
    dims = [tuple(dim[index] for dim in batch) for index in (LHS, RHS, OUTPUT)]
    output = group_on_dims(dot.output.tiles, dims[OUTPUT])
    is_matching = all(dot.lhs.tiles.tile_counts[dim.lhs] == dot.rhs.tiles.tile_counts[dim.rhs] for dim in batch)
    if is_matching and not may_reshard_groups:
        lhs, rhs = group_on_dims(dot.lhs.tiles, dims[LHS]), group_on_dims(dot.rhs.tiles, dims[RHS])
        is_matching = ungroup(align_groups(rhs, lhs)).same_tiles(dot.rhs.tiles)
    if is_matching:
        lhs, rhs = group_on_dims(dot.lhs.tiles, dims[LHS]), group_on_dims(dot.rhs.tiles, dims[RHS])
        if dot.lhs.bytes > dot.rhs.bytes:
            rhs = align_groups(rhs, lhs)
            dot = dot.resharded(RHS, ungroup(rhs))
        else:
            lhs = align_groups(lhs, rhs)
            dot = dot.resharded(LHS, ungroup(lhs))
        shape = list(dot.output.tiles.shape)
        for dim in batch:
            shape[dim.output] = lhs.group_dim_sizes[dims[LHS].index(dim.lhs)]
        reshaped = TileAssignment.from_array(dot.output.tiles.array().reshape(shape))
        output = align_groups(group_on_dims(reshaped, dims[OUTPUT]), lhs)
        operands = [dot.lhs.per_group(lhs), dot.rhs.per_group(rhs)]
    else:
        operands = []
        for index in (LHS, RHS):
            operand = _reshard_to_output_batch(dot, index, output, may_reshard_groups)
            if operand is None:
                return False
            operands.append(operand)
    dot.partition(
        replace(
            dot,
            lhs=operands[LHS],
            rhs=operands[RHS],
            output=dot.output.per_group(output),
            device_count=dot.device_count // len(output.device_groups),
            trace=dot.trace.inside(output.device_groups),
        )
    )
    return dot.reshard_output(ungroup(output))


def _reshard_to_output_batch(
    dot: Dot, operand_index: int, output: GroupedSharding, may_reshard_groups: bool
) -> PartitionedValue | None:
    """An operand split along batch dimensions like the output; None if its other tiles leave too few devices."""
    operand = dot.value(operand_index)
    if operand.tiles.is_replicated:
        dims = list(operand.dims)
        for dim, size in zip(dot.dimensions.batch, output.group_dim_sizes, strict=True):
            dims[dim[operand_index]] = -(-dims[dim[operand_index]] // size)
        return replace(operand, dims=tuple(dims), tiles=TileAssignment.replicated(len(dims)))
    shape = list(operand.tiles.shape)
    for dim, size in zip(dot.dimensions.batch, output.group_dim_sizes, strict=True):
        shape[dim[operand_index]] = size
    device_count = len(operand.tiles.devices)
    if math.prod(shape) > device_count:
        fewer = _fewer_tiles(dot, operand_index, shape, device_count)
        if fewer is None:
            return None
        shape = fewer
    if math.prod(shape) != device_count:
        return None
    batch = tuple(dim[operand_index] for dim in dot.dimensions.batch)
    reshaped = TileAssignment.from_array(operand.tiles.array().reshape(shape))
    grouped = align_groups(group_on_dims(reshaped, batch), output)
    wanted = ungroup(grouped)
    if not may_reshard_groups and not wanted.same_tiles(operand.tiles):
        return None
    reshard(dot.operand_trace(operand), operand.dims, operand.tiles, wanted)
    return operand.per_group(grouped)


def _fewer_tiles(dot: Dot, operand_index: int, shape: list[int], device_count: int) -> list[int] | None:
    """The shape without the tiles of other dimensions, or the replication, that batch dimensions now take."""
    dimensions = dot.dimensions
    own = (dimensions.lhs_non_contracting, dimensions.rhs_non_contracting)[operand_index]
    contracting = dot.partitions(operand_index, dimensions.contracting)
    other_contracting = dot.partitions(1 - operand_index, dimensions.contracting)
    ratio, rest = divmod(math.prod(shape), device_count)
    if rest:
        return None
    if dot.value(operand_index).tiles.is_partially_replicated and shape[-1] % ratio == 0:
        return [*shape[:-1], shape[-1] // ratio]
    if ratio == dot.partitions(operand_index, own) and (ratio != contracting or contracting == other_contracting):
        dropped = {dim[operand_index] for dim in own}
    elif ratio == contracting:
        dropped = {dim[operand_index] for dim in dimensions.contracting}
    else:
        return None
    return [1 if dim in dropped else count for dim, count in enumerate(shape)]


def group_on_contracting_dims(dot: Dot, may_reshard_groups: bool) -> bool:
    """Partition a dot in groups along contracting dimensions."""
    contracting = dot.dimensions.contracting
    lhs, rhs = dot.partitions(LHS, contracting), dot.partitions(RHS, contracting)
    if lhs == rhs > 1 and _group_on(dot, contracting, may_reshard_groups):
        return True
    if min(lhs, rhs) == 1:
        return False
    lhs_counts, rhs_counts = dot.lhs.tiles.tile_counts, dot.rhs.tiles.tile_counts
    matching = tuple(dim for dim in contracting if lhs_counts[dim.lhs] == rhs_counts[dim.rhs] > 1)
    return bool(matching) and _group_on(dot, matching, may_reshard_groups)


def _group_on(dot: Dot, contracting: tuple[DimNumbers, ...], may_reshard_groups: bool) -> bool:
    """Group on some contracting dimensions, resharding the smaller operand to the larger one's groups."""
    dims = [tuple(dim[index] for dim in contracting) for index in (LHS, RHS)]
    group_count = math.prod(dot.lhs.tiles.tile_counts[dim] for dim in dims[LHS])
    larger = LHS if dot.lhs.bytes > dot.rhs.bytes else RHS
    smaller = 1 - larger
    shape = list(dot.value(smaller).tiles.shape)
    for large_dim, small_dim in zip(dims[larger], dims[smaller], strict=True):
        shape[small_dim] = dot.value(larger).tiles.tile_counts[large_dim]
    reference = group_on_dims(dot.value(larger).tiles, dims[larger])
    aligned = align_groups(group_on_dims(dot.value(smaller).tiles.reshaped(shape), dims[smaller]), reference)
    if not may_reshard_groups and not ungroup(aligned).same_tiles(dot.value(smaller).tiles):
        return False
    dot = dot.resharded(smaller, ungroup(aligned))
    lhs, rhs = (reference, aligned) if larger == LHS else (aligned, reference)
    plan = _output_tiles(dot, lhs, rhs, group_count)
    rank = len(dot.output.dims)
    slice_dims = tuple(dim for dim in plan.slice_dims if dim < rank)
    output_dims = dot.output.dims
    if slice_dims:
        kept = replicate_on_dims(plan.output, tuple(dim for dim in range(rank) if dim not in slice_dims))
        output_dims = kept.shard_dims(output_dims)
    trace, lhs_tiles = dot.trace.of_elements(dot.output.element_bytes), dot.lhs.tiles

    def create_and_reduce(left: PartitionedValue, right: PartitionedValue) -> int:
        elements = dot.create_sharded_dot(left, right)
        if not slice_dims:
            all_reduce_along_dims(trace, elements, lhs_tiles, dims[LHS])
            return elements
        all_reduce_along_dims(trace, elements, plan.outer, slice_dims)
        tile_count = math.prod(plan.outer.tile_counts[dim] for dim in slice_dims)
        if all(dot.output.dims[dim] % plan.outer.tile_counts[dim] == 0 for dim in slice_dims):
            trace.scatter_last(tile_count)
        if rank in plan.slice_dims:
            all_reduce_along_dims(trace, elements // tile_count, plan.outer, (rank,))
        return elements // tile_count

    dot.partition(
        replace(
            dot,
            lhs=dot.lhs.per_group(lhs),
            rhs=dot.rhs.per_group(rhs),
            output=replace(dot.output, dims=output_dims, tiles=plan.inner),
            device_count=dot.device_count // group_count,
            trace=dot.trace.inside(lhs.device_groups),
            create_sharded_dot=create_and_reduce,
        )
    )
    return dot.reshard_output(plan.outer)


@dataclass(frozen=True, slots=True)
class _OutputTiles:
    """The output's tiles inside the groups and over all devices, the dimensions that are sliced, its tiles before."""

    inner: TileAssignment
    outer: TileAssignment
    slice_dims: Dims
    output: TileAssignment


def _output_tiles(dot: Dot, lhs: GroupedSharding, rhs: GroupedSharding, group_count: int) -> _OutputTiles:
    """How the groups' results are reduced (`GetDotGroupPartitionContractingOutputShardings`)."""
    output, rank, dimensions = dot.output.tiles, len(dot.output.dims), dot.dimensions
    replicated = TileAssignment.replicated(rank)
    if not output.is_replicated and (not output.is_partially_replicated or output.replication % group_count):
        output = _coarser_output_tiles(dot, lhs, rhs)
    if output.is_partially_replicated and output.replication % group_count == 0:
        grouped = group_on_dims(output, (rank,), (output.replication // group_count,))
        grouped = align_groups(grouped, lhs, ignore_group_order=True)
        return _OutputTiles(grouped.tiles, ungroup(grouped), (), output)
    matching = dims_matching_groups(output, lhs.device_groups)
    if matching is not None:
        if not matching:
            return _OutputTiles(replicated, replicated, (), output)
        return _OutputTiles(group_on_dims(output, matching).tiles, output, matching, output)
    if not output.is_replicated:
        for dims in (dimensions.lhs_non_contracting, dimensions.rhs_non_contracting, dimensions.batch):
            if dot.partitions(OUTPUT, dims) == group_count:
                slice_dims = tuple(dim.output for dim in dims)
                grouped = align_groups(group_on_dims(output, slice_dims), lhs)
                return _OutputTiles(grouped.tiles, ungroup(grouped), slice_dims, output)
    return _OutputTiles(replicated, replicated, (), output)


def _coarser_output_tiles(dot: Dot, lhs: GroupedSharding, rhs: GroupedSharding) -> TileAssignment:
    """The output's tiles, or coarser ones from the only operand with other tiles."""
    output = dot.output.tiles
    if lhs.tiles.is_replicated == rhs.tiles.is_replicated:
        return output
    index = RHS if lhs.tiles.is_replicated else LHS
    operand = replicate_on_dims(ungroup((lhs, rhs)[index]), tuple(dim[index] for dim in dot.dimensions.contracting))
    mapping = dot.dimensions.index_mapping(index, OUTPUT, len(dot.value(index).dims))
    given = transpose_dims(operand, mapping, len(dot.output.dims))
    return given if given is not None and is_sub_tiling(output, given) else output
