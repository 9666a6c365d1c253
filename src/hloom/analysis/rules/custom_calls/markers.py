"""Custom calls that compute nothing: marks for passes of XLA, and values in another form."""

from __future__ import annotations

from hloom.analysis.rules.custom_calls.kinds import kind, moves, nothing

_NOTHING = "no cost: a mark for XLA, which leaves no code"
kind(
    (
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        r"xla\.sdy\.\w+",
        r"local_xla\.sdy\.\w+",
        "InspectSharding",
        "GlobalToLocalShape",
        "LocalToGlobalShape",
    ),
    "sharding",
    nothing,
    because=_NOTHING,
)
kind(
    ("annotate_device_placement", "MoveToHost", "MoveToDevice", r"PinTo\w+"),
    "memory placement",
    nothing,
    because=_NOTHING,
)
kind(
    ("LayoutConstraint", "OptimizationBarrier", "shape_assertion", r"check\.\w+", r"stablehlo\.\w*assert\w*"),
    "constraint on compilation",
    nothing,
    because=_NOTHING,
)
kind(
    ("AssumeGatherIndicesInBound", r"__xla_internal_\w+", r"xla_internal_\w+", "Nop"),
    "note to the compiler",
    nothing,
    because=_NOTHING,
)
kind(
    ("AllocateBuffer", "CreateBuffer", "ConcatBitcast", "Pin", "Unpin"),
    "memory without work",
    nothing,
    because="no cost: memory is reserved or named",
)
kind(
    r"AsyncCollective\w*",
    "mark of a collective that runs beside others",
    nothing,
    because="no cost: the collective is in the fusion beside it",
)
kind(
    (
        "PadToStatic",
        "SliceToDynamic",
        "X64Combine",
        "X64SplitLow",
        "X64SplitHigh",
        "GatherScatterIndicesBitpacked",
        r"(cu|hip)_lu_pivots_to_permutation(_ffi)?",
    ),
    "values in another form",
    moves,
    because="no FLOPs: operands are read and results written",
)
