"""Gathers, scatters and slices whose place is computed."""

from hloom.ir import optional, required
from hloom.ops.rows import BOOLEAN, INTEGER, INTEGERS, TO_APPLY, row, table

ROWS = table(
    row("dynamic-slice", (1, None), {"dynamic_slice_sizes": required(INTEGERS)}),
    row("dynamic-update-slice", (2, None)),
    row(
        "gather",
        2,
        {
            "offset_dims": required(INTEGERS),
            "collapsed_slice_dims": required(INTEGERS),
            "start_index_map": required(INTEGERS),
            "operand_batching_dims": optional(INTEGERS, ()),
            "start_indices_batching_dims": optional(INTEGERS, ()),
            "index_vector_dim": required(INTEGER),
            "slice_sizes": required(INTEGERS),
            "indices_are_sorted": optional(BOOLEAN, False),
        },
        omits_type=True,
    ),
    row(
        "scatter",
        (3, None),
        {
            "update_window_dims": required(INTEGERS),
            "inserted_window_dims": required(INTEGERS),
            "scatter_dims_to_operand_dims": required(INTEGERS),
            "input_batching_dims": optional(INTEGERS, ()),
            "scatter_indices_batching_dims": optional(INTEGERS, ()),
            "index_vector_dim": required(INTEGER),
            "indices_are_sorted": optional(BOOLEAN, False),
            "unique_indices": optional(BOOLEAN, False),
            **TO_APPLY,
        },
        omits_type=True,
        operand_step=2,
    ),
)
