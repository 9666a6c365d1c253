"""Ops that communicate with other devices or return the id of this one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest

from hloom.ir import (
    TOKEN,
    AttributeKind,
    AxisMap,
    AxisMapBuilder,
    Effect,
    ExplicitGroups,
    FactorKind,
    ForwardedElement,
    Forwarding,
    Graph,
    OpFlow,
    ReplicaGroups,
    TensorType,
    Trait,
    TupleType,
    Type,
    TypeNotGiven,
    TypeProblem,
    dtype,
    optional,
    required,
    same_shape,
    without_layout,
)
from hloom.ops.group_checks import check_all_to_all, check_groups, check_permutation, check_reduction
from hloom.ops.leaf_axes import identity_axes, must_be, result_of_graph, separate_axes
from hloom.ops.pair_checks import end_of, start_of, transfer_to
from hloom.ops.rows import (
    ANY,
    BOOLEAN,
    DIMENSIONS,
    ENUM,
    INTEGER,
    INTEGERS,
    PAIRS,
    TO_APPLY,
    both,
    row,
    table,
    typed_row,
)

MODES = ("cross_replica", "cross_partition", "cross_replica_and_partition", "flattened_id")

_CHANNEL = {"channel_id": optional(INTEGER)}
_GROUPS = {**_CHANNEL, "replica_groups": optional(AttributeKind.REPLICA_GROUPS)}
_CONSTRAIN = {"constrain_layout": optional(BOOLEAN, False)}
_GLOBAL = {"use_global_device_ids": optional(BOOLEAN, False)}
_MODE = {"mode": optional(ENUM, choices=MODES)}
_ALL_GATHER = {**_GROUPS, **_CONSTRAIN, **DIMENSIONS, **_GLOBAL}
_ALL_REDUCE = {**_GROUPS, **_CONSTRAIN, **_GLOBAL, **_MODE, **TO_APPLY}
_PERMUTE = {**_CHANNEL, "source_target_pairs": required(PAIRS), "slice_sizes": optional(PAIRS)}
_TRANSFER = {"channel_id": optional(INTEGER), "is_host_transfer": optional(BOOLEAN, False)}
_COUNTER = TensorType(dtype("u32"))


def _arrays(operands: Sequence[Type], what: str) -> list[TensorType]:
    arrays = [operand for operand in operands if isinstance(operand, TensorType)]
    if not operands or len(arrays) != len(operands):
        raise TypeProblem(f"{what} takes one array or more, not {', '.join(map(str, operands)) or 'nothing'}")
    return arrays


def _together(kinds: Sequence[Type]) -> Type:
    return without_layout(kinds[0] if len(kinds) == 1 else TupleType(kinds))


def _only(dimensions: Sequence[int], rank: int, what: str) -> int:
    if len(dimensions) != 1 or not 0 <= dimensions[0] < rank:
        raise TypeProblem(f"{what} works on one dimension of 0 to {rank - 1}, not on {tuple(dimensions)}")
    return dimensions[0]


def _group_size(groups: ReplicaGroups | None) -> int | None:
    """The number of devices per group; None if it depends on the number of devices."""
    if groups is None or (isinstance(groups, ExplicitGroups) and not groups.group_count):
        return None
    if groups.group_size == 0:
        raise TypeProblem("replica groups have no devices in them")
    return groups.group_size


def _resized(array: TensorType, dimension: int, size: int) -> TensorType:
    return TensorType(array.dtype, (*array.dims[:dimension], size, *array.dims[dimension + 1 :]), None, array.dynamic)


def _all_gather(
    *operands: Type, dimensions: tuple[int, ...], replica_groups: ReplicaGroups | None, result: Type | None
) -> Type:
    arrays = _arrays(operands, "all-gather")
    size = _group_size(replica_groups)
    written = result.elements if isinstance(result, TupleType) else (result,) * len(arrays)
    if len(written) != len(arrays):
        raise TypeProblem(f"all-gather of {len(arrays)} operands cannot yield {result}")
    return _together([_gathered(a, dimensions, size, w) for a, w in zip(arrays, written, strict=True)])


def _gathered(array: TensorType, dimensions: tuple[int, ...], size: int | None, written: Type | None) -> Type:
    dimension = _only(dimensions, array.rank, "all-gather")
    if size is not None:
        return _resized(array, dimension, array.dims[dimension] * size)
    if not isinstance(written, TensorType) or written.rank != array.rank:
        raise TypeNotGiven("all-gather over all devices needs its type written: the number of devices is not known")
    part, whole = array.dims[dimension], written.dims[dimension]
    if whole % part if part else whole:
        raise TypeProblem(f"all-gather makes dimension {dimension} a multiple of {part}, not {whole}")
    return _resized(array, dimension, whole)


def _all_gather_start(
    *operands: Type, dimensions: tuple[int, ...], replica_groups: ReplicaGroups | None, result: Type | None
) -> Type:
    written = result.elements[1] if isinstance(result, TupleType) and len(result.elements) > 1 else None
    gathered = _all_gather(*operands, dimensions=dimensions, replica_groups=replica_groups, result=written)
    return TupleType([_together(operands), gathered])


def _all_gather_done(operand: Type) -> Type:
    if not isinstance(operand, TupleType) or len(operand.elements) < 2:
        raise TypeProblem(f"all-gather-done takes what all-gather-start yields, (operand, result), not {operand}")
    return without_layout(operand.elements[1])


def _all_reduce(*operands: Type, to_apply: Graph) -> Type:
    arrays = _arrays(operands, "all-reduce")
    _check_reducer(arrays, to_apply)
    return _together(arrays)


def _all_reduce_start(*operands: Type, to_apply: Graph, result: Type | None) -> Type:
    """What it yields, or that in another floating-point type, to which XLA lets it round."""
    return _rounded(_all_reduce(*operands, to_apply=to_apply), result)


def _rounded(exact: Type, written: Type | None) -> Type:
    """The type as written, where the element types alone differ from the exact one, and all are floating-point."""
    pairs = zip_longest(exact.leaves(), written.leaves() if written is not None else ())
    is_rounded = all(
        isinstance(left, TensorType)
        and isinstance(right, TensorType)
        and left.dtype.is_float
        and right.dtype.is_float
        and same_shape(left.with_dtype(right.dtype), right)
        for left, right in pairs
    )
    return exact if written is None or not is_rounded else without_layout(written)


def _check_reducer(arrays: Sequence[TensorType], to_apply: Graph) -> None:
    if not to_apply.is_declared and len(to_apply.parameters) != 2:
        raise TypeProblem(f"the reducer {to_apply.name} takes {len(to_apply.parameters)} values, but must take 2")
    scalar = to_apply.parameters[0].type if to_apply.parameters else None
    if isinstance(scalar, TensorType) and len(arrays) == 1:
        must_be(result_of_graph(to_apply, [scalar, scalar], "the reducer"), scalar, "what the reducer yields")


def _reduce_scatter(
    *operands: Type,
    dimensions: tuple[int, ...],
    replica_groups: ReplicaGroups | None,
    to_apply: Graph,
    result: Type | None,
) -> Type:
    arrays = _arrays(operands, "reduce-scatter")
    _check_reducer(arrays, to_apply)
    size = _group_size(replica_groups)
    written = result.elements if isinstance(result, TupleType) else (result,) * len(arrays)
    if len(written) != len(arrays):
        raise TypeProblem(f"reduce-scatter of {len(arrays)} operands cannot yield {result}")
    return _together([_scattered(a, dimensions, size, w) for a, w in zip(arrays, written, strict=True)])


def _scattered(array: TensorType, dimensions: tuple[int, ...], size: int | None, written: Type | None) -> Type:
    dimension = _only(dimensions, array.rank, "reduce-scatter")
    whole = array.dims[dimension]
    if size is None:
        if not isinstance(written, TensorType) or written.rank != array.rank:
            raise TypeNotGiven("reduce-scatter over all devices needs its type written")
        part = written.dims[dimension]
        if whole % part if part else whole:
            raise TypeProblem(
                f"reduce-scatter cuts dimension {dimension} of size {whole}, which {part} does not divide"
            )
        return _resized(array, dimension, part)
    if whole % size:
        raise TypeProblem(f"reduce-scatter cannot cut dimension {dimension} of size {whole} into {size} parts")
    return _resized(array, dimension, whole // size)


def _all_to_all(*operands: Type, dimensions: tuple[int, ...] | None, replica_groups: ReplicaGroups | None) -> Type:
    arrays = _arrays(operands, "all-to-all")
    size = _group_size(replica_groups)
    if dimensions is None:
        for array in arrays[1:]:
            must_be(array, arrays[0], "a further operand of all-to-all")
        return without_layout(TupleType(arrays))
    dimension = _only(dimensions, arrays[0].rank, "all-to-all")
    if len(arrays) != 1:
        raise TypeProblem(f"all-to-all over a dimension takes one operand, not {len(arrays)}")
    if size and arrays[0].dims[dimension] % size:
        raise TypeProblem(f"all-to-all cannot cut {arrays[0]} into {size} parts along dimension {dimension}")
    return without_layout(arrays[0])


def _ragged_all_to_all(operand: Type, output: Type, *offsets_and_sizes: Type) -> Type:
    operand_array, output_array = _arrays([operand, output], "ragged-all-to-all")
    if operand_array.rank == 0 or operand_array.dtype is not output_array.dtype:
        raise TypeProblem(f"ragged-all-to-all moves rows of {operand} into {output}: the element types must agree")
    if operand_array.dims[1:] != output_array.dims[1:]:
        raise TypeProblem(f"ragged-all-to-all moves rows: {operand} and {output} may differ in dimension 0 only")
    for vector in _arrays(offsets_and_sizes, "ragged-all-to-all"):
        if (
            not vector.dtype.is_integer
            or vector.dims != _arrays(offsets_and_sizes, "")[0].dims
            or vector.rank not in (1, 2)
        ):
            raise TypeProblem(f"offsets and sizes are integer vectors of one length, not {vector}")
    return without_layout(output)


def _broadcast(*operands: Type, has_dynamic_root: bool) -> Type:
    moved = operands[:-1] if has_dynamic_root else operands
    return _together(_arrays(moved, "collective-broadcast"))


def _permute(*operands: Type, slice_sizes: tuple[object, ...] | None) -> Type:
    if slice_sizes is not None:
        return without_layout(operands[1])
    return _together(_arrays(operands, "collective-permute"))


def _permute_start(*operands: Type, slice_sizes: tuple[object, ...] | None, result: Type | None) -> Type:
    if slice_sizes is not None:
        return TupleType([*map(without_layout, operands), _COUNTER, _COUNTER])
    moved = _together(_arrays(operands, "collective-permute-start"))
    if isinstance(result, TupleType) and len(result.elements) >= 2:
        ends = [_rounded(moved, written) for written in result.elements[:2]]
        return TupleType([*ends, *map(without_layout, result.elements[2:])])
    return TupleType([moved, moved, _COUNTER, _COUNTER])


def _second(operand: Type) -> Type:
    if not isinstance(operand, TupleType) or len(operand.elements) < 2:
        raise TypeProblem(f"this takes what the starting instruction yields, a tuple, not {operand}")
    return without_layout(operand.elements[1])


def _number() -> Type:
    return _COUNTER


def _send(operand: Type, token: Type) -> Type:
    must_be(token, TOKEN, "the second operand of send")
    return TupleType([without_layout(operand), _COUNTER, TOKEN])


def _send_done(operand: Type) -> Type:
    return _transfer_state(operand, "send-done").elements[2]


def _recv(token: Type, *, result: Type | None) -> Type:
    must_be(token, TOKEN, "the operand of recv")
    received = _transfer_state(result, "recv").elements[0] if result is not None else None
    if received is None:
        raise TypeNotGiven("recv needs its type written: what arrives is not known here")
    return TupleType([without_layout(received), _COUNTER, TOKEN])


def _recv_done(operand: Type) -> Type:
    return TupleType([without_layout(_transfer_state(operand, "recv-done").elements[0]), TOKEN])


def _transfer_state(type_: Type | None, what: str) -> TupleType:
    if not isinstance(type_, TupleType) or len(type_.elements) != 3 or type_.elements[2] is not TOKEN:
        raise TypeProblem(f"{what} deals in tuples (value, u32[], token[]), not {type_}")
    return type_


def _exchanged(*operands: Type, dimensions: tuple[int, ...] | None, result: Type) -> AxisMap:
    """All dimensions are passed through except the one along which devices gather, scatter or exchange."""
    written = result.elements if isinstance(result, TupleType) else (result,)
    build = AxisMapBuilder()
    moved = dimensions[0] if dimensions else None
    results: list[list[list[int]]] = []
    for operand, yielded in zip(_arrays(operands, "a collective"), written, strict=True):
        if not isinstance(yielded, TensorType):
            raise TypeProblem(f"a collective yields arrays, not {yielded}")
        shared = [None if dim == moved else build.factor(size) for dim, size in enumerate(operand.dims)]
        parts = [build.factor(operand.dims[p], FactorKind.SHIFTED) if f is None else f for p, f in enumerate(shared)]
        build.operand(*[[part] for part in parts])
        wholes = [build.factor(yielded.dims[p], FactorKind.SHIFTED) if f is None else f for p, f in enumerate(shared)]
        results.append([[whole] for whole in wholes])
    for dimensions_of_result in results:
        build.result(*dimensions_of_result)
    return build.finish()


_communication = partial(typed_row, effect=Effect.COMMUNICATION)
_collective = partial(_communication, traits=(Trait.COLLECTIVE,))
_start = partial(_communication, traits=(Trait.COLLECTIVE, Trait.ASYNC_START))
_done = partial(_communication, traits=(Trait.COLLECTIVE, Trait.ASYNC_DONE))
_transfer = partial(_communication, traits=(Trait.POINT_TO_POINT, Trait.ASYNC_START))
_transfer_done = partial(_communication, traits=(Trait.POINT_TO_POINT, Trait.ASYNC_DONE))
_BUFFER, _COPY = Forwarding.BUFFER, Forwarding.COPY


def _forwards(*elements: ForwardedElement) -> OpFlow:
    return OpFlow(forwards=elements)


ROWS = table(
    _collective("all-gather", ANY, _ALL_GATHER, infer=_all_gather, axes=_exchanged, check=check_groups),
    _start(
        "all-gather-start",
        ANY,
        _ALL_GATHER,
        infer=_all_gather_start,
        check=both(check_groups, start_of("all-gather-done")),
        axes=separate_axes,
        flow=_forwards(ForwardedElement((), (0,), _BUFFER)),
    ),
    _done(
        "all-gather-done",
        1,
        infer=_all_gather_done,
        check=end_of("all-gather-start"),
        axes=separate_axes,
        flow=_forwards(ForwardedElement((0, 1), (), _BUFFER)),
    ),
    _collective("all-reduce", ANY, _ALL_REDUCE, infer=_all_reduce, axes=identity_axes, check=check_reduction),
    _start(
        "all-reduce-start",
        ANY,
        _ALL_REDUCE,
        infer=_all_reduce_start,
        axes=identity_axes,
        check=both(check_reduction, start_of("all-reduce-done")),
    ),
    _done(
        "all-reduce-done",
        1,
        infer=without_layout,
        axes=identity_axes,
        check=end_of("all-reduce-start"),
        flow=_forwards(ForwardedElement((0,), ())),
    ),
    _collective(
        "reduce-scatter",
        ANY,
        {**_GROUPS, **_CONSTRAIN, **_GLOBAL, **DIMENSIONS, **_MODE, **TO_APPLY},
        infer=_reduce_scatter,
        check=check_groups,
        axes=_exchanged,
    ),
    _collective(
        "all-to-all",
        ANY,
        {**_GROUPS, **_CONSTRAIN, "dimensions": optional(INTEGERS)},
        infer=_all_to_all,
        check=check_all_to_all,
        axes=_exchanged,
    ),
    _collective(
        "ragged-all-to-all",
        6,
        {**_GROUPS, "dimensions": optional(INTEGERS)},
        infer=_ragged_all_to_all,
        check=check_groups,
        axes=separate_axes,
    ),
    _collective(
        "collective-broadcast",
        ANY,
        {**_GROUPS, "has_dynamic_root": optional(BOOLEAN, False)},
        infer=_broadcast,
        axes=separate_axes,
    ),
    _collective(
        "collective-permute", (1, None), _PERMUTE, infer=_permute, axes=separate_axes, check=check_permutation
    ),
    _start(
        "collective-permute-start",
        (1, None),
        _PERMUTE,
        infer=_permute_start,
        check=both(check_permutation, start_of("collective-permute-done")),
        axes=separate_axes,
        flow=_forwards(ForwardedElement((), (0,)), ForwardedElement((), (1,), _COPY)),
    ),
    _done(
        "collective-permute-done",
        1,
        infer=_second,
        check=end_of("collective-permute-start"),
        axes=separate_axes,
        flow=_forwards(ForwardedElement((0, 1), ())),
    ),
    row("partition-id", 0, infer=_number, axes=separate_axes, traits=(Trait.DEVICE_ID,)),
    row("replica-id", 0, infer=_number, axes=separate_axes, traits=(Trait.DEVICE_ID,)),
    _transfer(
        "send",
        2,
        _TRANSFER,
        infer=_send,
        check=transfer_to("send-done"),
        axes=separate_axes,
        flow=_forwards(ForwardedElement((0,), (0,), _BUFFER)),
    ),
    _transfer_done(
        "send-done",
        1,
        _TRANSFER,
        infer=_send_done,
        check=end_of("send", "get-tuple-element"),
        axes=separate_axes,
        flow=_forwards(ForwardedElement((0, 2), (), _BUFFER)),
    ),
    _transfer("recv", 1, _TRANSFER, infer=_recv, axes=separate_axes, check=transfer_to("recv-done")),
    _transfer_done(
        "recv-done",
        1,
        _TRANSFER,
        infer=_recv_done,
        check=end_of("recv", "get-tuple-element"),
        axes=separate_axes,
        flow=_forwards(ForwardedElement((0, 0), (0,), _BUFFER)),
    ),
)
