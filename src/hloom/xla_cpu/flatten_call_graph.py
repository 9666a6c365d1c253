"""A flat call graph: each loop and each branch has computations of its own.

Follows `FlattenCallGraph` (xla/service/flatten_call_graph.cc).
"""

from __future__ import annotations

from hloom.analysis import called_computations, is_control_flow
from hloom.ir import Module
from hloom.passes import callees_first, own_copy

MOST_GROWTH = 4
"""By how much a module may grow; beyond, computations stay shared. Calls of calls would multiply without end."""


def flatten_call_graph(module: Module) -> None:
    """Copy computations that several instructions call, callers first."""
    limit = MOST_GROWTH * module.node_count + 10_000
    size = module.node_count
    pending = list(reversed(callees_first(module)))
    while pending:
        graph = pending.pop(0)
        for node in graph.nodes:
            for callee in called_computations(node) if is_control_flow(node) else ():
                if callee.is_declared or callee.is_called_once or size + len(callee.nodes) > limit:
                    continue
                copied = own_copy(callee, node)
                size += len(copied.nodes)
                pending.insert(0, copied)
