"""HLO's ops: one row per opcode, by family.

To add an opcode, write its row in the family's file; reading, printing and verification follow from it.
"""

from hloom.ir import Op
from hloom.ops import (
    collective,
    contraction,
    control,
    custom,
    elementwise,
    indexing,
    linalg,
    random,
    reduction,
    shaping,
)
from hloom.ops.rows import COMMON as COMMON

OPS: dict[str, Op] = {
    **elementwise.ROWS,
    **shaping.ROWS,
    **contraction.ROWS,
    **reduction.ROWS,
    **indexing.ROWS,
    **control.ROWS,
    **collective.ROWS,
    **random.ROWS,
    **linalg.ROWS,
    **custom.ROWS,
}
"""Every op row by opcode. `parameter` and `constant` are kinds of nodes and have none."""


def unknown_op(name: str) -> Op:
    """A row for an opcode that no table has: any operands, any attributes."""
    return Op(name, attributes=COMMON, is_known=False)
