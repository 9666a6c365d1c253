"""The op rows: MindSpore's primitives that we know, and rows for those that we do not."""

from __future__ import annotations

from functools import lru_cache

from hloom.ir import COMMON, AttributeKind, Effect, Op, optional, required

PREFIX = "mindir."
PRIMITIVE_FUNCTION = "PrimFunc_"
"""What stands before the name of a primitive whose arguments are all operands."""
PRIMITIVE_ATTRIBUTES = "primitive_attrs"
"""The attribute that holds a primitive's attributes: pairs of names and values, as written."""
VALUE = "value"

ARITIES: dict[str, tuple[int, int | None]] = {
    "Return": (1, 1),
    "MakeTuple": (0, None),
    "make_tuple": (0, None),
    "TupleGetItem": (2, 2),
    "Depend": (2, None),
    "Load": (2, 2),
    "UpdateState": (1, None),
    "Switch": (3, 3),
    "switch_layer": (2, 2),
    "SwitchLayer": (2, 2),
    "Partial": (1, None),
}
"""How many operands the primitives of structure and control flow take."""


def row(name: str, arity: tuple[int, int | None], effect: Effect | None = None) -> Op:
    """The row of a known primitive."""
    attributes = {PRIMITIVE_ATTRIBUTES: optional(AttributeKind.ANY, ()), **COMMON}
    return Op(PREFIX + name, arity, attributes=attributes, effect=effect)


ROWS: dict[str, Op] = {PREFIX + name: row(name, arity) for name, arity in ARITIES.items()}
"""The rows of known primitives by opcode."""
RETURN = ROWS[PREFIX + "Return"]
VALUE_ROW = Op(PREFIX + VALUE, (0, 0), attributes={VALUE: required(AttributeKind.ANY), **COMMON})
"""A constant that is no tensor and no graph: its attribute `value` is a number, a text, a tuple, or a word."""


def row_of(name: str) -> Op:
    """The row of a primitive; one that says it is unknown where no table has it."""
    return ROWS.get(PREFIX + name) or _unknown_row(name)


@lru_cache(maxsize=1 << 12)
def _unknown_row(name: str) -> Op:
    attributes = {PRIMITIVE_ATTRIBUTES: optional(AttributeKind.ANY, ()), **COMMON}
    return Op(PREFIX + name, attributes=attributes, is_known=False)
