"""Optimization barriers, which separate recomputed values up to layout assignment, and what is merged afterwards.

    b = opt-barrier(tuple(x, y))
    get-tuple-element(b), index=1   ->   y

XLA's CPU compiler expands barriers after its last simplification before layouts, and looks for equal instructions once
more after fusion. So what `jax.checkpoint` lets the backward part compute again is merged with what the forward part
computed, wherever both were fused in the same way. Follows `OptimizationBarrierExpander`
(xla/service/optimization_barrier_expander.cc), and `HloCSE` in "simplification after layout assignment"
(`CpuCompiler::RunHloPassesAfterLayoutAssn`, xla/service/cpu/cpu_compiler.cc).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping

from hloom.ir import Graph, Module, Node
from hloom.ops import SideEffects
from hloom.passes import ValueNumbering, dce, merge_key


def expand_optimization_barriers(module: Module) -> bool:
    """Make the readers of barriers read the forwarded values; returns whether there were any."""
    barriers = [node for graph in module.graphs for node in graph.nodes if node.opcode == "opt-barrier"]
    for barrier in barriers:
        barrier.graph.replace_uses(barrier, barrier.operands[0])
    if not barriers:
        return False
    for graph in dict.fromkeys(barrier.graph for barrier in barriers):
        for node in graph.nodes:
            if node.opcode == "get-tuple-element" and node.operands[0].opcode == "tuple":
                graph.replace_uses(node, node.operands[0].operands[node.attributes["index"]])
    dce(module)
    return True


def merge_kernels(module: Module, fused: Mapping[Graph, Collection[Node]]) -> None:
    """Merge kernels that compute the same of the same; `fused` are the instructions that are stored nowhere.

    A kernel is equal to another one if what is fused in both is equal.
    """
    numbering, effects = ValueNumbering(), SideEffects()
    numbering.graphs(module)
    for graph in module.graphs:
        if graph in fused:
            _merge(graph, fused[graph], numbering, effects)


def _merge(graph: Graph, fused: Collection[Node], numbering: ValueNumbering, effects: SideEffects) -> None:
    numbers: dict[Node, int] = {}
    first: dict[Hashable, Node] = {}
    merged: dict[Node, Node] = {}
    for node in graph.nodes:
        if any(operand in merged for operand in node.operands):
            graph.set_operands(node, [merged.get(operand, operand) for operand in node.operands])
        numbers[node] = len(numbers)
        key = merge_key(node, numbers, numbering, effects)
        kept = node if key is None else first.setdefault((node in fused, key), node)
        if kept is not node:
            merged[node] = kept
    if graph.output in merged:
        graph.set_output(merged[graph.output])
    for node in reversed(merged):
        graph.erase(node)
