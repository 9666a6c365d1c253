"""The buffers that XLA's CPU compiler would assign to an uncompiled program.

The passes run in the order of `CpuCompiler::RunHloPasses` (xla/service/cpu/cpu_compiler.cc), as far as they affect what
is stored; buffers are then counted as for a compiled module (xla/service/buffer_assignment.cc: `hloom.analysis`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hloom.analysis import BROADCASTS, ComputationSchedule, Donations, Liveness, Scheduler, as_written, liveness
from hloom.ir import Graph, Module, Node, Trait, TupleType
from hloom.ops import with_trait
from hloom.passes import ADD_UPDATES, SIMPLIFY_STRICTLY_BEFORE_DOTS, apply_in_place, dce, hoist, inline
from hloom.targets.cpu.algebraic_simplifier import simplify
from hloom.targets.cpu.all_to_all_decomposer import decompose_all_to_alls
from hloom.targets.cpu.bfs_scheduler import last_consumers, schedule_breadth_first
from hloom.targets.cpu.copy_insertion import has_all_copies, insert_copies
from hloom.targets.cpu.copy_remover import elementwise_operands
from hloom.targets.cpu.flatten_call_graph import flatten_call_graph
from hloom.targets.cpu.gather_simplifier import simplify_gathers
from hloom.targets.cpu.instruction_fusion import fuse_instructions
from hloom.targets.cpu.layout_assignment import (
    assign_layouts,
    clear_layouts,
    copy_tuple_elements,
    take_out_of_tuples,
)
from hloom.targets.cpu.optimization_barrier_expander import expand_optimization_barriers, merge_kernels
from hloom.targets.cpu.select_and_scatter_expander import expand_select_and_scatter
from hloom.targets.cpu.tree_reduction import rewrite_reductions

NOT_HOISTED = BROADCASTS | (with_trait(Trait.REINDEXES) - {"copy"}) | with_trait(Trait.TUPLE) | {"constant"}
"""Opcodes not hoisted out of a loop by themselves: `NotWorthHoistingIndividually`
(xla/service/while_loop_invariant_code_motion.cc).
"""


class KernelScheduler(Scheduler):
    """Schedules kernels in the order that a target's compiler chooses, of a graph and the nodes fused in it.

    A fused instruction lives until the last kernel that computes it runs.
    """

    def __init__(
        self, module: Module, fused: Mapping[Graph, set[Node]], order: Callable[[Graph, set[Node]], Sequence[Node]]
    ) -> None:
        super().__init__(has_all_copies(module), as_written)
        self._fused = fused
        self._order = order

    def schedule(self, graph: Graph) -> ComputationSchedule:
        """The schedule of a computation."""
        if graph not in self._schedules:
            fused = self._fused.get(graph, set())
            order = self._order(graph, fused)
            shared = {node: elementwise_operands(node, fused) for node in order if node not in fused}
            self._schedules[graph] = ComputationSchedule(order, last_consumers(order, fused), shared)
        return self._schedules[graph]


def simulate_buffers(module: Module, given: Donations | None = None, *, keeps_barriers: bool = True) -> Liveness:
    """The buffers of one device's program; `given` are donations in addition to its own. The module is changed: pass a
    copy.

    XLA's CPU compiler merges what barriers keep apart; with `keeps_barriers` they stay, as on other backends.
    """
    inline(module)
    ADD_UPDATES.run(module)
    for graph in module.graphs:
        clear_layouts(graph)
        decompose_all_to_alls(graph)
    simplify(module)
    state_sizes = {
        node.attributes["body"]: len(node.type.elements)
        for graph in module.graphs
        for node in graph.nodes
        if node.opcode == "while" and isinstance(node.type, TupleType)
    }
    if hoist(module, NOT_HOISTED, needs_unchanged=True).changes:
        # several loops share what left them, and carry less
        apply_in_place(module, ["cse", SIMPLIFY_STRICTLY_BEFORE_DOTS])
    for graph in module.graphs:
        expand_select_and_scatter(graph)
        simplify_gathers(graph)
    is_expanded = not keeps_barriers and expand_optimization_barriers(module)
    for graph in module.graphs:
        rewrite_reductions(graph)
        assign_layouts(graph)
    dce(module)  # transposes that dots read through
    flatten_call_graph(module)
    module.index_users()
    copies = {graph: copy_tuple_elements(graph) for graph in module.graphs}
    fused = {graph: fuse_instructions(graph) for graph in module.graphs}
    for graph, made in copies.items():
        take_out_of_tuples(made, fused[graph])
    if is_expanded:
        merge_kernels(module, fused)
    insert_copies(module, fused)
    order = partial(schedule_breadth_first, state_sizes=state_sizes)
    return liveness(module, given=given, scheduler=KernelScheduler(module, fused, order))
