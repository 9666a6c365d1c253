"""HLO's ops: one row per opcode, by family; and, by the same names, functions that apply them.

A row also says which traits an op has (such as rounding) and which dimensions move together: its axis map, which is its
sharding rule. To add an opcode, write its row in the family's file; reading, printing, verification and its function
(`ops.reduce_window`, `ops.and_`) follow from it. Never name a file here after an opcode: the module would hide that
function.

Source: ShapeInference (xla/service/shape_inference.cc) and ShapeVerifier (xla/service/hlo_verifier.cc) of jaxlib
0.10.2, whose answers the tests compare; each file names its functions.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from hloom.ir import ForwardedElement, Forwarding, Op, Runs, Trait
from hloom.ops import (
    collective,
    contraction,
    control_flow,
    custom,
    data_movement,
    elementwise,
    indexing,
    linalg,
    random,
    reduction,
)
from hloom.ops.convolution_rules import check_convolution as check_convolution
from hloom.ops.dot_rules import DotNumbers as DotNumbers
from hloom.ops.dot_rules import check_dot as check_dot
from hloom.ops.fused_computations import FUSIBLE as FUSIBLE
from hloom.ops.fused_computations import SIMPLE_IN_FUSIONS as SIMPLE_IN_FUSIONS
from hloom.ops.fused_computations import fixed_form as fixed_form
from hloom.ops.fused_computations import is_fused as is_fused
from hloom.ops.leaf_axes import separate_axes as separate_axes
from hloom.ops.reducers import REDUCERS as REDUCERS
from hloom.ops.reducers import reducer_of as reducer_of
from hloom.ops.rows import COMMON as COMMON
from hloom.ops.side_effects import CONTROL_PREDECESSORS as CONTROL_PREDECESSORS
from hloom.ops.side_effects import SideEffects as SideEffects
from hloom.ops.side_effects import effect_of as effect_of
from hloom.ops.side_effects import may_drop as may_drop
from hloom.ops.side_effects import may_merge as may_merge
from hloom.ops.side_effects import only_yields as only_yields
from hloom.ops.splats import splat_number as splat_number

OPS: dict[str, Op] = {
    **elementwise.ROWS,
    **data_movement.ROWS,
    **contraction.ROWS,
    **reduction.ROWS,
    **indexing.ROWS,
    **control_flow.ROWS,
    **collective.ROWS,
    **random.ROWS,
    **linalg.ROWS,
    **custom.ROWS,
}
"""Every op row by opcode. `parameter` and `constant` are kinds of nodes and have none."""


_WITH_TRAIT = {trait: frozenset(opcode for opcode, op in OPS.items() if trait in op.traits) for trait in Trait}


def with_trait(trait: Trait) -> frozenset[str]:
    """The opcodes of HLO's ops that have a trait."""
    return _WITH_TRAIT[trait]


PRODUCTS: tuple[str, ...] = tuple(
    opcode for opcode, op in OPS.items() if Trait.CONTRACTS in op.traits and opcode not in ("ragged-dot", "scaled-dot")
)
"""Opcodes that multiply two arrays and sum: `dot` and `convolution`, without the dots of groups and of scaled numbers,
which XLA expands."""
EXTREMES: frozenset[str] = (
    with_trait(Trait.ASSOCIATIVE) & with_trait(Trait.IDEMPOTENT) & with_trait(Trait.PROPAGATES_NAN)
)
"""Opcodes that return the greater or the lesser of two numbers: `maximum` and `minimum`."""
CONTROL_FLOW: frozenset[str] = frozenset(opcode for opcode, op in OPS.items() if op.flow and op.flow.is_control_flow)
"""Opcodes that run computations in their place: `call`, `conditional`, `while` and `async-start`."""
CALLERS: frozenset[str] = CONTROL_FLOW - with_trait(Trait.ASYNC_START)
"""Opcodes whose computations are parts of the program, of any instructions; `async-start` wraps a single operation."""
INLINABLE: frozenset[str] = frozenset(
    opcode
    for opcode, op in OPS.items()
    if op.flow and [callee.runs for callee in op.flow.callees] == [Runs.ONCE] and not op.flow.result_index
)
"""Opcodes that run one computation once, and yield what it yields: `call` and `fusion`."""
OWNERS: frozenset[str] = frozenset(opcode for opcode, op in OPS.items() if "calls" in op.attributes)
"""Opcodes whose computation nothing else may call: `fusion`, and the parts of a generic asynchronous operation."""
ASYNC_PARTS: frozenset[str] = OWNERS - INLINABLE
"""The parts of a generic asynchronous operation: `async-start`, `async-update` and `async-done`."""
SAME_BYTES: frozenset[str] = frozenset(
    opcode
    for opcode, op in OPS.items()
    if op.flow and op.flow.forwards == (ForwardedElement((0,), (), Forwarding.BUFFER),)
)
"""Opcodes whose result is their first operand in the same buffer, perhaps with another type or sharding:
`add-dependency`, `bitcast`, `domain` and `opt-barrier`."""


def __getattr__(name: str) -> Any:
    """The function that applies an op; dashes become underscores, and Python keywords get a trailing one."""
    opcode = name.rstrip("_").replace("_", "-")
    if opcode not in OPS:
        raise AttributeError(f"module 'hloom.ops' has no attribute '{name}', and no op is called '{opcode}'")
    return _application(opcode)


@cache
def _application(opcode: str) -> Callable[..., Any]:
    """The function that applies an op; attributes by keyword.

    The first operand with a method `apply_op(opcode, operands, attributes)` builds the application; the other operands
    may be plain numbers.
    """

    def apply(*operands: Any, **attributes: Any) -> Any:
        for operand in operands:
            apply_op = getattr(operand, "apply_op", None)
            if apply_op is not None:
                return apply_op(opcode, operands, attributes)
        raise TypeError(f"none of the operands of {opcode} says how to apply an op: {operands!r}")

    apply.__name__ = apply.__qualname__ = opcode.replace("-", "_")
    apply.__doc__ = f"Apply {opcode}; attributes by keyword."
    return apply


def unknown_op(name: str) -> Op:
    """A row for an opcode that is in no table: any operands, any attributes."""
    return Op(name, attributes=COMMON, is_known=False)
