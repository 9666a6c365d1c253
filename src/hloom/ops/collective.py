"""Ops that talk to other devices or ask which one this is."""

from hloom.ir import AttributeKind, optional, required
from hloom.ops.rows import ANY, BOOLEAN, DIMENSIONS, ENUM, INTEGER, INTEGERS, PAIRS, TO_APPLY, row, table

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

ROWS = table(
    row("all-gather", ANY, _ALL_GATHER),
    row("all-gather-start", ANY, _ALL_GATHER),
    row("all-gather-done", 1),
    row("all-reduce", ANY, _ALL_REDUCE),
    row("all-reduce-start", ANY, _ALL_REDUCE),
    row("all-reduce-done", 1),
    row("reduce-scatter", ANY, {**_GROUPS, **_CONSTRAIN, **_GLOBAL, **DIMENSIONS, **_MODE, **TO_APPLY}),
    row("all-to-all", ANY, {**_GROUPS, **_CONSTRAIN, "dimensions": optional(INTEGERS)}),
    row("ragged-all-to-all", 6, {**_GROUPS, "dimensions": optional(INTEGERS)}),
    row("collective-broadcast", ANY, {**_GROUPS, "has_dynamic_root": optional(BOOLEAN, False)}),
    row("collective-permute", (1, None), _PERMUTE),
    row("collective-permute-start", (1, None), _PERMUTE),
    row("collective-permute-done", 1),
    row("partition-id", 0, omits_type=True),
    row("replica-id", 0, omits_type=True),
    row("send", 2, _TRANSFER),
    row("send-done", 1, _TRANSFER),
    row("recv", 1, _TRANSFER),
    row("recv-done", 1, _TRANSFER),
)
