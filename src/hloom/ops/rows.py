"""How the family files make their rows: an op's own attributes, followed by those that every instruction may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from hloom.ir import COMMON as COMMON
from hloom.ir import (
    MANY,
    Apply,
    Attribute,
    AttributeKind,
    AxisMap,
    Effect,
    ForwardedElement,
    Forwarding,
    Op,
    OpFlow,
    Surroundings,
    Trait,
    Type,
    optional,
    required,
)

K = AttributeKind
Check = Callable[[Apply, Surroundings], str | None]
"""Why XLA's verifier refuses a node whose type is right; None where it does not."""


def row(
    name: str,
    arity: int | tuple[int, int | None],
    attributes: Mapping[str, Attribute] | None = None,
    *,
    omits_type: bool = True,
    operand_step: int = 1,
    infer: Callable[..., Type] | None = None,
    axes: Callable[..., AxisMap] | None = None,
    check: Check | None = None,
    takes_buffers: bool = False,
    effect: Effect | None = None,
    because: Mapping[str, str] | None = None,
    traits: Iterable[Trait] = (),
    flow: OpFlow | None = None,
) -> Op:
    """One op; an arity given as a number means exactly that many operands."""
    return Op(
        name,
        (arity, arity) if isinstance(arity, int) else arity,
        operand_step,
        {**(attributes or {}), **COMMON},
        omits_type,
        infer=infer,
        axes=axes,
        check=check,
        takes_buffers=takes_buffers,
        effect=effect,
        because=because or {},
        traits=frozenset(traits),
        flow=flow,
    )


typed_row = partial(row, omits_type=False)
"""One op whose result type must be written in HLO text."""


def both(first: Check, second: Check) -> Check:
    """Two checks as one."""
    return lambda node, surroundings: first(node, surroundings) or second(node, surroundings)


def table(*rows: Op) -> dict[str, Op]:
    """Rows by name."""
    return {row.name: row for row in rows}


ANY = (0, MANY)
"""As an arity: any number of operands."""

INTEGER, BOOLEAN, FLOAT, STRING = K.INTEGER, K.BOOLEAN, K.FLOAT, K.STRING
INTEGERS, PAIRS, ENUM = K.INTEGERS, K.PAIRS, K.ENUM
GRAPH, GRAPHS = K.GRAPH, K.GRAPHS

DIMENSIONS = {"dimensions": required(INTEGERS)}
TO_APPLY = {"to_apply": required(GRAPH)}
PRECISION = {"operand_precision": optional(K.PRECISIONS)}
ALIASING = {"output_to_operand_aliasing": optional(K.ALIASING, ())}
WINDOW = {"window": optional(K.WINDOW)}

SAME_BUFFER = OpFlow(forwards=(ForwardedElement((0,), (), Forwarding.BUFFER),))
"""The flow of an op whose result has the bytes of its first operand."""
MOVES = (Trait.MOVES_DATA, Trait.REINDEXES)
