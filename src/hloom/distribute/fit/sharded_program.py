"""One device's program under a sharding plan: the roofline of its work, plus collectives, and its memory.

The collectives are those that the partitioner is predicted to emit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hloom.analysis import CollectiveCost, Device, collective_seconds, liveness, roofline, step_count
from hloom.distribute.fit.combination import DeviceCost
from hloom.distribute.planner import CandidatePlan, device_program
from hloom.ir import Module, Trait
from hloom.sharding import Axes, Mesh
from hloom.targets.cpu import simulate_buffers


def work_seconds(module: Module, device: Device) -> dict[str, float]:
    """Seconds of what a device computes and moves, by what limits it; collectives apart."""
    seconds = {"compute": device.start_seconds, "memory": 0.0, "launch": 0.0}
    for timing in roofline(module, device).timings:
        if timing.node.has_trait(Trait.COLLECTIVE):
            continue
        limit = "compute" if timing.compute >= timing.memory else "memory"
        seconds[limit] += max(timing.compute, timing.memory) * timing.times
        seconds["launch"] += timing.launch * timing.times
    return seconds


def ideal_seconds(module: Module, device: Device, devices: int) -> float:
    """A lower bound for a program on this many devices: its work divided among them, without communication."""
    seconds = work_seconds(module, device)
    return (seconds["compute"] + seconds["memory"]) / devices


@dataclass(slots=True)
class ShardedProgram:
    """One device's program under a plan with its seconds by cause; the program is kept until it is simulated."""

    module: Module | None
    seconds: Mapping[str, float]
    comm_bytes: float

    @staticmethod
    def of(candidate: CandidatePlan, device: Device) -> ShardedProgram:
        """The program of a plan whose solution is known."""
        solution = candidate.solution
        assert solution is not None, "a plan that was solved or completed"
        problem = solution.problem
        program = device_program(problem, solution.choice.strategies, solution.specs).module
        seconds = {**work_seconds(program, device), "links": 0.0}
        sent = 0.0
        members: dict[Axes, tuple[int, ...]] = {}
        for collective in solution.forecast.collectives:
            step = collective.step
            if step.axes not in members:
                members[step.axes] = members_along(problem.mesh, step.axes)
            one_run = collective.sent / collective.times if collective.times else 0.0
            steps = step_count(step.opcode, step.group_size)
            cost = CollectiveCost("", "", step.opcode, step.group_size, round(one_run), 0, steps, 1)
            seconds["links"] += collective_seconds(cost, members[step.axes], device) * collective.times
            sent += collective.sent
        return ShardedProgram(program, seconds, sent)

    @property
    def step_seconds(self) -> float:
        """The time of a step."""
        return sum(self.seconds.values())

    def live_bytes(self) -> int:
        """The bytes at the peak by live ranges in the program's order: quick, and mostly less than is held."""
        assert self.module is not None, "it was simulated before"
        return liveness(self.module).peak

    def peak_bytes(self) -> int:
        """The bytes at the peak by the model of XLA's CPU compiler."""
        assert self.module is not None, "it was simulated before"
        module, self.module = self.module, None
        return simulate_buffers(module).peak

    def cost(self, peak_bytes: int) -> DeviceCost:
        """What a device takes, its peak being known."""
        return DeviceCost(self.seconds, self.comm_bytes, peak_bytes)


def members_along(mesh: Mesh, axes: Axes) -> tuple[int, ...]:
    """The devices of the first group along some axes of a mesh; all of them where none is named.

    >>> members_along(Mesh.parse("a=2,b=4"), ("a",)), members_along(Mesh.parse("a=2,b=4"), ("b",))
    ((0, 4), (0, 1, 2, 3))
    """
    ids = mesh.order.ids().reshape(mesh.sizes)
    along = tuple(slice(None) if not axes or name in axes else 0 for name in mesh.names)
    return tuple(np.asarray(ids[along]).reshape(-1).tolist())
