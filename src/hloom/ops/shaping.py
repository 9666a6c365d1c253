"""Ops that move, repeat or regroup elements without computing on them."""

from hloom.ir import AttributeKind, optional, required
from hloom.ops.rows import ANY, DIMENSIONS, INTEGER, INTEGERS, row, table

ROWS = table(
    row("bitcast", 1),
    row("broadcast", 1, {"dimensions": optional(INTEGERS)}, omits_type=True),
    row("concatenate", ANY, DIMENSIONS, omits_type=True),
    row("dynamic-reshape", (1, None)),
    row("get-dimension-size", 1, DIMENSIONS, omits_type=True),
    row("iota", 0, {"iota_dimension": required(INTEGER)}),
    row("pad", 2, {"padding": required(AttributeKind.PADDING)}, omits_type=True),
    row("reshape", 1, {"inferred_dimension": optional(INTEGER)}),
    row("reverse", 1, DIMENSIONS, omits_type=True),
    row("set-dimension-size", 2, DIMENSIONS, omits_type=True),
    row("slice", 1, {"slice": required(AttributeKind.SLICES)}),
    row("transpose", 1, DIMENSIONS, omits_type=True),
)
