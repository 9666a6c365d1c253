"""Reads pipeline plans from untrusted JSON: each part is checked, and sizes are bounded."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from hloom.distribute.pipeline.machine import LARGEST_MACHINE
from hloom.distribute.pipeline.plan import InvalidPlan, PipelinePlan, Schedule, Stage
from hloom.distribute.pipeline.schedules import LARGEST_SCHEDULE
from hloom.sharding import mesh_from_json
from hloom.text import HloomError, read_limited

PLAN_BYTES = 1 << 24
"""The most bytes of a plan's JSON file."""
PLAN_FIELDS = ("stages", "microbatches", "schedule")
STAGE_FIELDS = ("layers", "devices", "recompute", "mesh")
EXAMPLE = (
    '{"stages": [{"layers": [0, 3], "devices": [0]}, {"layers": [4, 7], "devices": [1]}], '
    '"microbatches": 8, "schedule": "1f1b"}'
)


def plan_from_json(value: Any) -> PipelinePlan:
    """The plan that `PipelinePlan.to_json` wrote; raises InvalidPlan, which names the part, for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("stages"), list):
        raise InvalidPlan("this is not a plan of a pipeline", hint=f"a plan is {EXAMPLE}")
    _check_fields(value, PLAN_FIELDS, "the plan")
    listed = value["stages"]
    if len(listed) > LARGEST_SCHEDULE:
        raise InvalidPlan(f"a plan of {len(listed):,} stages", hint=f"at most {LARGEST_SCHEDULE:,} are planned")
    stages = tuple(_stage(number, stage) for number, stage in enumerate(listed))
    recompute = tuple(_recompute(number, stage) for number, stage in enumerate(listed))
    microbatches: Any = value.get("microbatches")
    if not _is_integer(microbatches):
        raise InvalidPlan(f"microbatches is {_shown(microbatches)}", hint="a number of microbatches, such as 8")
    return PipelinePlan(stages, microbatches, _schedule(value.get("schedule", Schedule.ONE_F_ONE_B.value)), recompute)


def load_plan(path: str | os.PathLike[str]) -> PipelinePlan:
    """The plan of a JSON file; raises HloomError where that cannot be read, and InvalidPlan where it is not a plan."""
    try:
        value = json.loads(read_limited(path, PLAN_BYTES))
    except ValueError as problem:
        raise InvalidPlan(f"{path} holds no plan of a pipeline: {problem}", hint=f"a plan is {EXAMPLE}") from None
    except RecursionError:
        raise InvalidPlan(f"{path} holds no plan of a pipeline: its values nest too deep") from None
    try:
        return plan_from_json(value)
    except HloomError as problem:
        raise InvalidPlan(f"{path}: {problem.message}", hint=problem.hint) from None


def as_plan(plan: PipelinePlan | Mapping[str, Any] | str | os.PathLike[str]) -> PipelinePlan:
    """A plan as it is, of its JSON, or of the file that has it; raises HloomError for anything else."""
    if isinstance(plan, PipelinePlan):
        return plan
    if isinstance(plan, Mapping):
        return plan_from_json(dict(plan))
    if isinstance(plan, (str, os.PathLike)):
        return load_plan(plan)
    raise HloomError(
        f"expected a plan of a pipeline, not {type(plan).__name__}",
        hint="give a PipelinePlan, its JSON, or the path of that"
    )


def _stage(number: int, value: Any) -> Stage:
    where = f"stage {number}"
    if not isinstance(value, dict):
        raise InvalidPlan(f"{where} is {_shown(value)}", hint='a stage is {"layers": [0, 3], "devices": [0]}')
    _check_fields(value, STAGE_FIELDS, where)
    layers: Any = value.get("layers")
    devices: Any = value.get("devices")
    if not _are_integers(layers) or len(layers) != 2:
        raise InvalidPlan(f"the layers of {where} are {_shown(layers)}", hint="its first and its last layer: [0, 3]")
    if not _are_integers(devices):
        raise InvalidPlan(f"the devices of {where} are {_shown(devices)}", hint="a list of their numbers: [0, 1]")
    if len(devices) > LARGEST_MACHINE:
        raise InvalidPlan(f"{where} is on {len(devices):,} devices", hint=f"at most {LARGEST_MACHINE:,} are possible")
    mesh = value.get("mesh")
    text = None if mesh is None else str(mesh_from_json(mesh))
    return Stage(layers[0], layers[1], tuple(devices), text)


def _recompute(number: int, value: dict[str, Any]) -> bool:
    recomputes = value.get("recompute", False)
    if not isinstance(recomputes, bool):
        raise InvalidPlan(f"recompute of stage {number} is {_shown(recomputes)}", hint="true or false")
    return recomputes


def _schedule(value: Any) -> Schedule:
    names = [schedule.value for schedule in Schedule]
    if value in names:
        return Schedule(value)
    near = get_close_matches(value, names, n=1) if isinstance(value, str) else []
    hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(names)}"
    raise InvalidPlan(f"no schedule is called {_shown(value)}", hint=hint)


def _check_fields(value: dict[str, Any], known: Iterable[str], where: str) -> None:
    for name in value:
        if name not in known:
            near = get_close_matches(name, list(known), n=1)
            hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(known)}"
            raise InvalidPlan(f"{where} has no field {_shown(name)}", hint=hint)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_integers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_integer, value))


def _shown(value: Any, most: int = 60) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else f"{text[:most]}..."
