"""The buffers of a program that is not compiled yet, as the CPU client's executable would hold them."""

from __future__ import annotations

from hloom.analysis.liveness import Liveness, liveness
from hloom.analysis.schedule import ComputationSchedule, Scheduler, as_written
from hloom.ir import Graph, Module, Node
from hloom.xla_cpu.bfs_scheduler import breadth_first, last_readers
from hloom.xla_cpu.copy_insertion import copy_donated
from hloom.xla_cpu.instruction_fusion import fuse
from hloom.xla_cpu.layout_assignment import lay_out
from hloom.xla_cpu.simplifier import simplify


class _KernelScheduler(Scheduler):
    """The order of each graph's kernels, and of what is fused at which place it is read for the last time."""

    def __init__(self, fused: dict[Graph, set[Node]]) -> None:
        super().__init__(False, as_written)
        self._fused = fused

    def schedule(self, graph: Graph) -> ComputationSchedule:
        """The schedule of a computation."""
        if graph not in self._schedules:
            fused = self._fused.get(graph, set())
            order = breadth_first(graph, fused)
            self._schedules[graph] = ComputationSchedule(order, last_readers(order, fused))
        return self._schedules[graph]


def held(module: Module) -> Liveness:
    """The buffers of one device's program. The module is changed: copies and repeated work are written out."""
    fused: dict[Graph, set[Node]] = {}
    simplify(module)
    for graph in module.graphs:
        lay_out(graph)
    module.index_users()
    for graph in module.graphs:
        fused[graph] = fuse(graph)
    copy_donated(module, fused[module.entry])
    return liveness(module, scheduler=_KernelScheduler(fused))
