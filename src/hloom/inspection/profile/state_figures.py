"""The figures of one state: a module's size, cost and peak memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hloom.analysis import ALL_KNOWN, MALFORMED, SizeNote, cost, liveness
from hloom.ir import Module
from hloom.text import HloomError

OWN, LIST = "own", "list"


@dataclass(frozen=True, slots=True)
class StateFigures:
    """Instructions by opcode, FLOPs, bytes at the peak of memory, and runs of collectives by opcode.

    FLOPs, bytes and collectives are None where the module cannot be followed, with the reason in `problem`. Bytes are
    by liveness in the order `schedule`: `own` where the module is scheduled, `list` otherwise. `hloom.memory` simulates
    XLA's CPU compiler, which is nearer to its peak and takes ten times as long: too long for the states of a dump.
    """

    opcodes: Counter[str]
    flops: int | None
    peak_bytes: int | None
    collectives: dict[str, int] | None
    problem: str = ""
    schedule: str = ""
    sizes: SizeNote = ALL_KNOWN
    flops_qualifier: str = ""
    """The word before the FLOPs: "at least" if an instruction is not counted or a size is unknown."""

    @property
    def instructions(self) -> int:
        """The number of instructions in all computations."""
        return self.opcodes.total()


def figures_of(module: Module) -> StateFigures:
    """Work out the figures of a module."""
    opcodes = Counter(node.opcode for node in module.nodes())
    try:
        report = cost(module)
        schedule = OWN if module.is_scheduled else LIST
        peak = liveness(module, None if module.is_scheduled else LIST).peak
    except (HloomError, *MALFORMED) as problem:
        return StateFigures(opcodes, None, None, None, f"it cannot be followed: {problem}")
    collectives: dict[str, int] = {}
    for transfer in report.collective_costs:
        opcode = transfer.opcode.removesuffix("-start")
        collectives[opcode] = collectives.get(opcode, 0) + transfer.times
    flops = max(report.total.flops, 0)
    vague = {"sizes": report.sizes, "flops_qualifier": report.qualifier}
    return StateFigures(opcodes, flops, peak, collectives, schedule=schedule, **vague)
