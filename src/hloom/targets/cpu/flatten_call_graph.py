"""A flat call graph: each loop and each branch has computations of its own.

Follows `FlattenCallGraph` (xla/service/flatten_call_graph.cc).
"""

from __future__ import annotations

from hloom.analysis import called_computations, is_control_flow
from hloom.ir import Graph, Module, Node, callees_first
from hloom.passes import own_copy

MOST_GROWTH = 4
"""The maximum growth of a module; beyond it, computations stay shared, since nested calls would multiply without bound.
"""


def flatten_call_graph(module: Module) -> None:
    """Copy computations that several instructions call, callers first."""
    limit = MOST_GROWTH * module.node_count + 10_000
    size = module.node_count
    pending = list(reversed(callees_first(module)))
    while pending:
        graph = pending.pop(0)
        for node in graph.nodes:
            if node.opcode == "conditional":
                size += _separate_branches(node, limit - size)
            for callee in called_computations(node) if is_control_flow(node) else ():
                if callee.is_declared or callee.is_called_once or size + len(callee.nodes) > limit:
                    continue
                copied = own_copy(callee, node)
                size += len(copied.nodes)
                pending.insert(0, copied)


def _separate_branches(conditional: Node, most_added: int) -> int:
    """Copy a computation that several branches of one conditional run; how many instructions that adds."""
    added = 0
    attributes, seen = conditional.attributes, set[Graph]()
    for name in ("branch_computations", "true_computation", "false_computation"):
        listed = attributes.get(name) or ()
        branches: list[Graph] = [listed] if isinstance(listed, Graph) else list(listed)
        for position, branch in enumerate(branches):
            if branch in seen and not branch.is_declared and added + len(branch.nodes) <= most_added:
                added += len(branch.nodes)
                module = branch.module
                copy = branches[position] = module.clone_graph(branch)
                module.graphs.remove(copy)
                module.graphs.insert(module.graphs.index(conditional.graph), copy)
            seen.add(branch)
        if added and branches:
            changed = branches[0] if isinstance(listed, Graph) else tuple(branches)
            attributes = attributes.changed(**{name: changed})
    if added:
        conditional.graph.set_attributes(conditional, attributes)
    return added
