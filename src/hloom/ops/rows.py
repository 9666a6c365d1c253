"""How the family files make their rows: an op's own attributes, followed by those that every instruction may have."""

from __future__ import annotations

from collections.abc import Mapping

from hloom.ir import MANY, Attribute, AttributeKind, Op, optional, required

K = AttributeKind

COMMON: dict[str, Attribute] = {
    "sharding": optional(K.SHARDING, carried=True),
    "parameter_replication": optional(K.BOOLEANS, carried=True),
    "frontend_attributes": optional(K.FRONTEND, carried=True),
    "control-predecessors": optional(K.NODES),
    "statistics": optional(K.STATISTICS, carried=True),
    "result_accuracy": optional(K.ACCURACY),
    "origin": optional(K.ORIGIN, carried=True),
    "backend_config": optional(K.BACKEND_CONFIG),
}
"""What every instruction may have, in XLA's order; `metadata` stands apart, on the node itself."""


def row(
    name: str,
    arity: int | tuple[int, int | None],
    attributes: Mapping[str, Attribute] | None = None,
    *,
    omits_type: bool = False,
    operand_step: int = 1,
) -> Op:
    """One op; an arity that is a number means exactly so many operands."""
    bounds = (arity, arity) if isinstance(arity, int) else arity
    return Op(name, bounds, operand_step, {**(attributes or {}), **COMMON}, omits_type)


def table(*rows: Op) -> dict[str, Op]:
    """Rows by name."""
    return {each.name: each for each in rows}


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
