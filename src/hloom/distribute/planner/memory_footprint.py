"""The memory of a device under a choice: its program as XLA's CPU compiler would run it, buffer by buffer.

The device's program is written out with local shapes and all collectives (`device_program`), then simplified, laid out,
fused and ordered like XLA (`hloom.targets.cpu`), and its buffers are counted as for any compiled module. Other backends
fuse and order differently, so for them this is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hloom.analysis import Liveness
from hloom.distribute.planner.device_program import ValueOrigin, device_program
from hloom.distribute.planner.problem import Problem
from hloom.ir import Node, paused_collection
from hloom.sharding import Spec
from hloom.targets.cpu import simulate_buffers


@dataclass(frozen=True, slots=True)
class Footprint:
    """The buffers of one device's program, and by the nodes that fill them what of the original program they hold."""

    liveness: Liveness
    origins: Mapping[Node, ValueOrigin]

    @property
    def bytes(self) -> int:
        """Arguments and outputs, with aliases counted once, and temporaries."""
        return self.liveness.peak

    def origin(self, node: Node) -> ValueOrigin | None:
        """What a node holds; copies inserted by the compiler hold what they copy."""
        seen = 0
        while node not in self.origins and node.operands and seen < len(self.origins):
            node, seen = node.operands[0], seen + 1
        return self.origins.get(node)


def footprint(problem: Problem, choice: Mapping[int, int], specs: Mapping[Node, Spec]) -> int:
    """Bytes at the peak: parameters, outputs that alias none of them, and what is live between."""
    return footprint_of(problem, choice, specs).bytes


@paused_collection()
def footprint_of(problem: Problem, choice: Mapping[int, int], specs: Mapping[Node, Spec]) -> Footprint:
    """The same, buffer by buffer; `specs` are those of the choice, with reshards hoisted or not."""
    program = device_program(problem, choice, specs)
    names = {node.name: origin for node, origin in program.origins.items() if node.opcode == "while"}
    live = simulate_buffers(program.module, keeps_barriers=False)
    for node in live.steps:  # loops that carry more than before are other instructions of the same names
        if node.opcode == "while" and node not in program.origins and node.name in names:
            program.origins[node] = names[node.name]
    return Footprint(live, program.origins)
