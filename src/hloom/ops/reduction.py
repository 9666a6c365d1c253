"""Reductions, windows, sorting and batch normalisation."""

from hloom.ir import optional, required
from hloom.ops.rows import BOOLEAN, DIMENSIONS, FLOAT, GRAPH, INTEGER, TO_APPLY, WINDOW, row, table

_BATCH_NORM = {"epsilon": required(FLOAT), "feature_index": required(INTEGER)}

ROWS = table(
    row("reduce", (2, None), {**DIMENSIONS, **TO_APPLY}, omits_type=True, operand_step=2),
    row("reduce-window", (2, None), {**WINDOW, **TO_APPLY}, omits_type=True, operand_step=2),
    row("select-and-scatter", 3, {**WINDOW, "select": required(GRAPH), "scatter": required(GRAPH)}, omits_type=True),
    row("sort", (1, None), {**DIMENSIONS, "is_stable": optional(BOOLEAN, False), **TO_APPLY}, omits_type=True),
    row(
        "topk",
        1,
        {
            "k": required(INTEGER),
            "largest": optional(BOOLEAN, True),
            "is_stable": optional(BOOLEAN, False),
        },
        omits_type=True,
    ),
    row(
        "scan",
        (0, None),
        {
            **DIMENSIONS,
            "is_reverse": optional(BOOLEAN, False),
            "is_associative": optional(BOOLEAN),
            "num_carries": required(INTEGER),
            **TO_APPLY,
        },
        omits_type=True,
    ),
    row("batch-norm-training", 3, _BATCH_NORM, omits_type=True),
    row("batch-norm-inference", 5, _BATCH_NORM, omits_type=True),
    row("batch-norm-grad", 5, _BATCH_NORM, omits_type=True),
)
