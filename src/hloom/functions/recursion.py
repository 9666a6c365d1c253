"""Cycles of calls as loops: tail calls need no stack (`tail_calls.py`); other recursion does (`stack_machine.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.functions.stack_machine import StackMachine
from hloom.functions.tail_calls import lower_tail_calls
from hloom.ir import Graph, Module
from hloom.passes import dce


def lower_recursion(module: Module, errors: dict[Graph, tuple[int, int, int]], depth: int) -> None:
    """Replace every call into a cycle of calls by a loop; the module then has no recursion."""
    for cycle in _cycles(module):
        if not lower_tail_calls(module, cycle, errors):
            StackMachine(module, cycle, errors, depth).replace_calls()
        erase_graphs(module, cycle)


def erase_graphs(module: Module, members: Sequence[Graph]) -> None:
    """Erase graphs that call each other, and what only they needed."""
    erased = set(members)
    for graph in members:
        for node in graph.nodes:
            if any(called in erased for called in node.called_graphs):
                graph.set_attributes(node, {})
    for graph in members:
        if graph in module.graphs:
            module.erase_graph(graph)
    dce(module)


def _cycles(module: Module) -> list[list[Graph]]:
    """The sets of graphs that call each other, innermost first (Tarjan's strongly connected components)."""
    calls = {graph: [called for node in graph.nodes for called in node.called_graphs] for graph in module.graphs}
    index: dict[Graph, int] = {}
    low: dict[Graph, int] = {}
    on_stack: set[Graph] = set()
    stack: list[Graph] = []
    collected: list[list[Graph]] = []
    for start in module.graphs:
        if start in index:
            continue
        work: list[tuple[Graph, int]] = [(start, 0)]
        while work:
            graph, number = work.pop()
            if number == 0:
                index[graph] = low[graph] = len(index)
                stack.append(graph)
                on_stack.add(graph)
            advanced = False
            for position in range(number, len(calls[graph])):
                called = calls[graph][position]
                if called not in index:
                    work.append((graph, position + 1))
                    work.append((called, 0))
                    advanced = True
                    break
                if called in on_stack:
                    low[graph] = min(low[graph], index[called])
            if advanced:
                continue
            for called in calls[graph]:
                if called in on_stack:
                    low[graph] = min(low[graph], low[called])
            if low[graph] == index[graph]:
                component: list[Graph] = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member is graph:
                        break
                if len(component) > 1 or graph in calls[graph]:
                    collected.append(component)
    return collected
