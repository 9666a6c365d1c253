"""One device's program under a sharding plan: the roofline of its work, plus collectives, and its memory.

The collectives are those that the partitioner is predicted to emit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hloom.analysis import Device, liveness, roofline
from hloom.distribute.fit.combination import DeviceCost
from hloom.distribute.planner import CandidatePlan, Rates, device_program
from hloom.ir import Module
from hloom.targets.cpu import simulate_buffers


def ideal_seconds(module: Module, device: Device, devices: int) -> float:
    """A lower bound for a program on this many devices: its work divided among them, without communication."""
    seconds = roofline(module, device).work_seconds()
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
        expected = candidate.price(Rates(device))
        assert expected is not None
        seconds = {**roofline(program, device).work_seconds(), "links": expected.comm_seconds(Rates(device))}
        return ShardedProgram(program, seconds, expected.sent)

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
