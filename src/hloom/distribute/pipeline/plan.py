"""A pipeline plan: stages of layers on devices, microbatches, a schedule, and which activations are recomputed."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from hloom.formats.hlo import write_whole
from hloom.sharding import Mesh, mesh_to_json
from hloom.text import Display, Displayed, DisplayTable, HloomError


class InvalidPlan(HloomError):
    """Stages, devices and microbatches that are not pipeline."""


class Schedule(Enum):
    """In which order the stages of a pipeline run microbatches.

    GPipe (Huang et al. 2019); 1F1B (PipeDream-flush, Narayanan et al. 2021; DAPPLE, Fan et al. 2021); interleaved 1F1B
    (Megatron-LM, Narayanan et al. 2021), with several stages on each device; ZB-H1 of zero bubble pipeline parallelism
    (Qi et al. 2023).
    """

    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    INTERLEAVED = "interleaved"
    ZERO_BUBBLE = "zb-h1"


class ActionKind(Enum):
    """What a stage does with a microbatch; a backward is whole, or its inputs' gradients and its weights' apart."""

    FORWARD = "F"
    BACKWARD = "B"
    BACKWARD_INPUT = "I"
    BACKWARD_WEIGHT = "W"


@dataclass(frozen=True, slots=True)
class Action:
    """One microbatch's forward or backward in one stage.

    >>> str(Action(ActionKind.FORWARD, 1, 3))
    'F3@1'
    """

    kind: ActionKind
    stage: int
    microbatch: int

    def __str__(self) -> str:
        return f"{self.kind.value}{self.microbatch}@{self.stage}"


@dataclass(frozen=True, slots=True)
class Stage:
    """Layers `first` to `last`, both included, and the devices that run them.

    Several devices share each microbatch (data parallelism). With a `mesh` (`data=2,model=2`, the devices in row-major
    order of its axes) the planner says how the stage's programs are sharded over it.
    """

    first: int
    last: int
    devices: tuple[int, ...]
    mesh: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last:
            raise InvalidPlan(
                f"a stage of layers {self.first} to {self.last} has none",
                hint="`last` is the number of its last layer, not of the one after it",
            )
        if not self.devices or len(set(self.devices)) != len(self.devices) or min(self.devices) < 0:
            raise InvalidPlan(
                f"layers {self.first} to {self.last} are on devices {list(self.devices)}",
                hint="a stage needs one device or more, each named once, counted from 0",
            )
        mesh = self.device_mesh
        if mesh is not None and mesh.device_count != len(self.devices):
            raise InvalidPlan(
                f"layers {self.first} to {self.last} have a mesh {self.mesh} of {mesh.device_count} devices, "
                f"and {len(self.devices)} devices",
                hint="the sizes of a mesh's axes multiply to the number of the stage's devices",
            )

    @property
    def device_mesh(self) -> Mesh | None:
        """The stage's mesh, its devices numbered by their position in `devices`."""
        return None if self.mesh is None else Mesh.parse(self.mesh)


@dataclass(frozen=True, slots=True, repr=False)
class PipelinePlan(Displayed):
    """A pipeline: its stages in the order of the layers, and for each whether it recomputes its activations.

    Stages are on devices of their own. Only the interleaved schedule puts several on the same: with p groups of
    devices stage s is on group s mod p. Raises InvalidPlan for what is not a pipeline.
    """

    stages: tuple[Stage, ...]
    microbatches: int
    schedule: Schedule = Schedule.ONE_F_ONE_B
    recompute: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if not self.recompute:
            object.__setattr__(self, "recompute", (False,) * len(self.stages))
        if self.microbatches < 1:
            raise InvalidPlan(f"{self.microbatches} microbatches", hint="a step has one or more")
        if len(self.recompute) != len(self.stages):
            raise InvalidPlan(
                f"recompute has {len(self.recompute)} entries for {len(self.stages)} stages", hint="give one a stage"
            )
        _check_layers(self.stages)
        _check_devices(self)

    def display(self) -> Display:
        rows = (
            (number, f"{stage.first} to {stage.last}", str(stage.devices), stage.mesh, str(recomputes).lower())
            for number, (stage, recomputes) in enumerate(zip(self.stages, self.recompute, strict=True))
        )
        columns = ("stage", "layers", "devices", "mesh", "recomputes")
        title = f"<pipeline of {len(self.stages)} stages, {self.microbatches} microbatches, {self.schedule.value}>"
        return Display(title, [DisplayTable("stages", columns, rows, len(self.stages))])

    @property
    def device_groups(self) -> tuple[tuple[int, ...], ...]:
        """The devices of the stages, each group once, by its first stage.

        >>> PipelinePlan((Stage(0, 0, (0, 1)), Stage(1, 4, (2,))), 4).device_groups
        ((0, 1), (2,))
        """
        return tuple(dict.fromkeys(stage.devices for stage in self.stages))

    def group_of(self, stage: int) -> int:
        """Which of the groups of devices a stage is on."""
        return stage % len(self.device_groups)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON, which `plan_from_json` reads.

        >>> PipelinePlan((Stage(0, 3, (0, 1), "model=2"),), 8).to_json()["stages"]
        [{'layers': [0, 3], 'devices': [0, 1], 'recompute': False, 'mesh': {'model': 2}}]
        """
        stages = []
        for stage, recomputes in zip(self.stages, self.recompute, strict=True):
            mesh = stage.device_mesh
            stages.append(
                {"layers": [stage.first, stage.last], "devices": list(stage.devices), "recompute": recomputes}
                | ({} if mesh is None else {"mesh": mesh_to_json(mesh)})
            )
        return {"stages": stages, "microbatches": self.microbatches, "schedule": self.schedule.value}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the plan as JSON, whole or not at all; raises HloomError where it cannot be written."""
        return write_whole(path, json.dumps(self.to_json(), indent=2) + "\n")


def _check_layers(stages: tuple[Stage, ...]) -> None:
    if not stages:
        raise InvalidPlan("a pipeline without stages", hint="give one or more")
    expected = 0
    for number, stage in enumerate(stages):
        if stage.first != expected:
            raise InvalidPlan(
                f"stage {number} begins with layer {stage.first}", hint=f"it has to begin with layer {expected}"
            )
        expected = stage.last + 1


def _check_devices(plan: PipelinePlan) -> None:
    groups = plan.device_groups
    listed = [device for group in groups for device in group]
    if len(set(listed)) != len(listed):
        shared = min(device for device in listed if listed.count(device) > 1)
        raise InvalidPlan(
            f"device {shared} is in two stages that are on different devices", hint="give each stage devices of its own"
        )
    count, stages = len(groups), len(plan.stages)
    if plan.schedule is not Schedule.INTERLEAVED:
        if count != stages:
            raise InvalidPlan(
                f"{stages} stages on {count} groups of devices need the interleaved schedule",
                hint=f"the schedule is {plan.schedule.value}: give each stage devices of its own",
            )
        return
    for number, stage in enumerate(plan.stages):
        if stage.devices != groups[number % count]:
            raise InvalidPlan(
                f"stage {number} is on devices {list(stage.devices)}",
                hint=f"interleaved stages go around: it has to be on {list(groups[number % count])}",
            )
    if stages % count:
        raise InvalidPlan(f"{stages} stages interleaved on {count} groups of devices", hint="give each group as many")
    if stages > count and plan.microbatches % count:
        raise InvalidPlan(
            f"{plan.microbatches} microbatches interleaved over {count} groups of devices",
            hint=f"their number has to be a multiple of {count}",
        )
