"""What public functions accept as a plan: a plan, the result of `hloom.plan`, its JSON, or a file of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from hloom.distribute.planner import Plan, plan_from_json
from hloom.ir import Module
from hloom.text import HloomError, read_limited

PLAN_BYTES = 1 << 26
"""The maximum size of a plan's JSON file in bytes: a plan has about 100 bytes per value."""


class Planned(Protocol):
    """Anything with a plan: `PlanResult`, and other search results."""

    @property
    def plan(self) -> Plan: ...


PlanLike: TypeAlias = Plan | Planned | Mapping[str, Any] | str | os.PathLike[str]
"""A plan, what has one, its JSON as a dict, or the path of its JSON."""


def as_plan(plan: PlanLike, module: Module | None = None) -> Plan:
    """Return a plan unchanged, or get it from what holds it; JSON is checked against the module's values.

    Raises HloomError for anything that holds no plan.
    """
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, Mapping):
        return plan_from_json(dict(plan), module)
    if isinstance(plan, (str, os.PathLike)):
        return load_plan(plan, module)
    held = getattr(plan, "plan", None)
    if isinstance(held, Plan):
        return held
    hint = "give what hloom.plan returns, its JSON as a dict, or the path of that"
    raise HloomError(f"expected a plan, not {type(plan).__name__}", hint=hint)


def load_plan(path: str | os.PathLike[str], module: Module | None = None) -> Plan:
    """The plan in a JSON file; raises HloomError if it is not valid."""
    try:
        value = json.loads(read_limited(path, PLAN_BYTES))
    except ValueError as problem:
        raise HloomError(f"{path} holds no plan: {problem}") from None
    except RecursionError:
        raise HloomError(f"{path} holds no plan: its values nest too deep") from None
    try:
        return plan_from_json(value, module, Path(path).name)
    except HloomError as problem:
        raise HloomError(f"{path}: {problem.message}", problem.location, problem.hint) from None
