"""Syntax details of functions and modules that graphs do not hold and the printer needs; rows of unknown ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from hloom.ir import EMPTY, Attribute, AttributeKind, Attributes, Effect, Op, optional

FUNCTIONS = MappingProxyType({"oneflow.job": "oneflow.return", "func.func": "return"})
"""The function-like ops with a custom form, and how their bodies return."""
GENERIC_RETURNS = MappingProxyType({"oneflow.job": "oneflow.return", "func.func": "func.return"})
"""The full names of the ops that return from them."""

FORMS = "mlir.functions"
"""The module's attribute with its functions' forms, in the order of the text."""
MODULE = "mlir.module"
"""The module's attribute with its own form."""


@dataclass(frozen=True, slots=True)
class FunctionForm:
    """One function, or a run of ops outside functions (`keyword` is empty), by the name of its graph.

    `types` are the spellings of what a declaration without a body takes and yields.
    """

    name: str
    keyword: str
    visibility: str = ""
    attributes: Attributes = EMPTY
    properties: tuple[str, ...] = ()
    result_attributes: tuple[Attributes, ...] = ()
    is_generic: bool = False
    types: tuple[tuple[str, ...], tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class ModuleForm:
    """The `module` around the functions: absent, in the custom or in the generic form, with a name and attributes."""

    is_written: bool = True
    is_generic: bool = False
    name: str | None = None
    attributes: Attributes = EMPTY
    properties: tuple[str, ...] = ()


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
