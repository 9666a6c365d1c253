"""How functions and modules were written: what the IR's graphs do not say and the printer needs."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from hloom.ir import EMPTY, Attributes

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
