"""Ops that only a backend understands, and host transfers: custom calls, copies, feeds."""

from __future__ import annotations

from hloom.ir import (
    TOKEN,
    AttributeKind,
    Effect,
    ForwardedElement,
    Forwarding,
    OpFlow,
    TensorType,
    Trait,
    TupleType,
    Type,
    TypeNotGiven,
    TypeProblem,
    dtype,
    optional,
    required,
    without_layout,
)
from hloom.ops.buffer_checks import check_custom_call
from hloom.ops.leaf_axes import must_be, separate_axes
from hloom.ops.pair_checks import end_of, start_of
from hloom.ops.rows import (
    ALIASING,
    ANY,
    BOOLEAN,
    ENUM,
    GRAPH,
    GRAPHS,
    INTEGER,
    PRECISION,
    STRING,
    WINDOW,
    table,
    typed_row,
)

PADDING_TYPES = ("PADDING_INVALID", "PADDING_VALID", "PADDING_SAME")
SCHEDULES = ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
API_VERSIONS = (
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
)

_BACKEND_KNOWS = {"axes": "only the backend knows what the target computes"}


def _custom_call(*_: Type, result: Type | None) -> Type:
    if result is None:
        raise TypeNotGiven("custom-call needs its type written: only the backend knows what the target yields")
    return without_layout(result)


def _copy_start(operand: Type) -> Type:
    return TupleType([without_layout(operand), without_layout(operand), TensorType(dtype("u32"))])


def _copy_done(operand: Type) -> Type:
    if not isinstance(operand, TupleType) or len(operand.elements) != 3:
        raise TypeProblem(f"copy-done takes what copy-start yields, (copy, original, u32[]), not {operand}")
    return without_layout(operand.elements[0])


def _infeed(token: Type, *, result: Type | None) -> Type:
    must_be(token, TOKEN, "the operand of infeed")
    if not isinstance(result, TupleType) or len(result.elements) != 2 or result.elements[1] is not TOKEN:
        raise TypeProblem(f"infeed yields (value, token[]), not {result}")
    return without_layout(result)


def _outfeed(operand: Type, token: Type, *, outfeed_shape: Type | None) -> Type:
    must_be(token, TOKEN, "the second operand of outfeed")
    if outfeed_shape is not None:
        must_be(operand, outfeed_shape, "the first operand of outfeed")
    return TOKEN


ROWS = table(
    typed_row(
        "custom-call",
        ANY,
        {
            **WINDOW,
            "dim_labels": optional(AttributeKind.DIMENSION_LABELS),
            "feature_group_count": optional(INTEGER, 1),
            "batch_group_count": optional(INTEGER, 1),
            **PRECISION,
            "padding_type": optional(ENUM, "PADDING_INVALID", choices=PADDING_TYPES),
            "custom_call_target": required(STRING),
            "operand_layout_constraints": optional(AttributeKind.TYPES),
            "custom_call_has_side_effect": optional(BOOLEAN, False),
            "literal": optional(AttributeKind.LITERAL),
            **ALIASING,
            "schedule": optional(ENUM, "SCHEDULE_NONE", choices=SCHEDULES),
            "api_version": optional(ENUM, "API_VERSION_ORIGINAL", choices=API_VERSIONS),
            "to_apply": optional(GRAPH),
            "called_computations": optional(GRAPHS),
        },
        infer=_custom_call,
        check=check_custom_call,
        takes_buffers=True,
        because=_BACKEND_KNOWS,
        effect=Effect.CALLS,
    ),
    typed_row(
        "copy-start",
        1,
        {"cross_program_prefetch_index": optional(INTEGER)},
        infer=_copy_start,
        check=start_of("copy-done"),
        axes=separate_axes,
        effect=Effect.ORDER,
        traits=(Trait.ASYNC_START,),
        flow=OpFlow(forwards=(ForwardedElement((0,), (0,), Forwarding.COPY), ForwardedElement((0,), (1,)))),
    ),
    typed_row(
        "copy-done",
        1,
        infer=_copy_done,
        check=end_of("copy-start"),
        axes=separate_axes,
        effect=Effect.ORDER,
        traits=(Trait.ASYNC_DONE,),
        flow=OpFlow(forwards=(ForwardedElement((0, 0), ()),)),
    ),
    typed_row(
        "infeed",
        1,
        {"infeed_config": optional(STRING)},
        infer=_infeed,
        axes=separate_axes,
        effect=Effect.OUTSIDE,
        traits=(Trait.HOST_FEED,),
    ),
    typed_row(
        "outfeed",
        2,
        {"outfeed_shape": optional(AttributeKind.TYPE), "outfeed_config": optional(STRING)},
        infer=_outfeed,
        axes=separate_axes,
        effect=Effect.OUTSIDE,
        traits=(Trait.HOST_FEED,),
    ),
)
