"""The figures of one state: what a module has, costs and holds at its peak."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hloom.analysis import MALFORMED, cost, liveness
from hloom.ir import Module
from hloom.text import HloomError


@dataclass(frozen=True, slots=True)
class StateFigures:
    """Instructions by opcode, FLOPs, bytes at the peak of memory, and runs of collectives by opcode.

    FLOPs, bytes and collectives are None where the module cannot be followed, with the reason in `problem`. Bytes are
    by liveness: in the module's own order where it is scheduled, by a list schedule otherwise.
    """

    opcodes: Counter[str]
    flops: int | None
    peak_bytes: int | None
    collectives: dict[str, int] | None
    problem: str = ""

    @property
    def instructions(self) -> int:
        """How many instructions all computations have together."""
        return self.opcodes.total()


def figures_of(module: Module) -> StateFigures:
    """Work out the figures of a module."""
    opcodes = Counter(node.opcode for node in module.nodes())
    try:
        report = cost(module)
        peak = liveness(module, None if module.is_scheduled else "list").peak
    except (HloomError, *MALFORMED) as problem:
        return StateFigures(opcodes, None, None, None, f"it cannot be followed: {problem}")
    collectives: dict[str, int] = {}
    for transfer in report.collective_costs:
        opcode = transfer.opcode.removesuffix("-start")
        collectives[opcode] = collectives.get(opcode, 0) + transfer.times
    return StateFigures(opcodes, max(report.total.flops, 0), peak, collectives)
