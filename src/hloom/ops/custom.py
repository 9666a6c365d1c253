"""What only a backend understands, and what goes to the host: custom calls, copies, feeds."""

from hloom.ir import AttributeKind, optional, required
from hloom.ops.rows import ALIASING, ANY, BOOLEAN, ENUM, GRAPH, GRAPHS, INTEGER, PRECISION, STRING, WINDOW, row, table

PADDING_TYPES = ("PADDING_INVALID", "PADDING_VALID", "PADDING_SAME")
SCHEDULES = ("SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST")
API_VERSIONS = (
    "API_VERSION_UNSPECIFIED",
    "API_VERSION_ORIGINAL",
    "API_VERSION_STATUS_RETURNING",
    "API_VERSION_STATUS_RETURNING_UNIFIED",
    "API_VERSION_TYPED_FFI",
)

ROWS = table(
    row(
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
    ),
    row("copy-start", 1, {"cross_program_prefetch_index": optional(INTEGER)}),
    row("copy-done", 1),
    row("infeed", 1, {"infeed_config": optional(STRING)}),
    row("outfeed", 2, {"outfeed_shape": optional(AttributeKind.TYPE), "outfeed_config": optional(STRING)}),
)
