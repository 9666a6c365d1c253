"""Rows for ops that no dialect describes, and the attributes that every row of a dialect should have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from hloom.ir import Attribute, AttributeKind, Effect, Op, optional

SPELLINGS = "mlir.types"
"""The attribute that keeps how the results' types were spelled, where that is not the canonical spelling."""
PROPERTIES = "mlir.properties"
"""The attribute that keeps which attributes stood between `<{` and `}>`."""
REGIONS = "mlir.regions"
"""The attribute that holds an op's regions, as graphs."""

CARRIED: Mapping[str, Attribute] = MappingProxyType(
    {
        SPELLINGS: optional(AttributeKind.STRING, carried=True),
        PROPERTIES: optional(AttributeKind.ANY, carried=True),
    }
)
"""What every op may have for the sake of its text; a dialect puts it into its rows."""

_UNKNOWN: Mapping[str, Attribute] = {**CARRIED, REGIONS: optional(AttributeKind.GRAPHS)}


@cache
def unknown_op(name: str) -> Op:
    """A row for an op of no known dialect: any operands, attributes and effect."""
    return Op(name, attributes=_UNKNOWN, is_known=False, effect=Effect.OUTSIDE)
