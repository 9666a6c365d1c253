"""Calls of shared graphs as one loop with a stack, if the program would otherwise be too large.

XLA puts a copy of a graph in place of each call: towers of functions that call the one below twice grow without bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.functions.recursion import erase_graphs
from hloom.functions.stack_machine import StackMachine, leaves_of
from hloom.ir import Graph, Module, Node, TensorType, callees_first, reachable
from hloom.ops import OPS
from hloom.passes import dce
from hloom.rewrite import has_own_derivative

LARGEST_INLINED = 8_000
"""The maximum number of instructions after inlining all calls; larger programs turn calls into a loop."""
GAIN = 4
"""The minimum factor by which that must shrink the program."""
MOST_LOOPS = 4
"""How many loops, for as many calls, are made of the same graphs, before what calls them becomes part of one loop."""
SMALL = 200
"""The maximum number of instructions of a graph that is still inlined in a program that is too large."""


def lower_shared_calls(module: Module) -> None:
    """Replace the calls of graphs that call others many times over by a loop with a stack, in too large a program."""
    order = callees_first(module)
    sizes = _expanded_sizes(order)
    if sizes[module.entry] <= LARGEST_INLINED:
        return
    for graph in order:
        for node in list(graph.nodes):
            if _may_change(node) and sizes[next(iter(node.called_graphs))] <= SMALL:
                graph.inline(node)
    dce(module)
    order = [graph for graph in callees_first(module) if graph is not module.entry]
    calls = [node for graph in module.graphs for node in graph.nodes if _may_change(node)]
    targets = dict.fromkeys(called for node in calls for called in node.called_graphs)  # in order: a set's order varies
    leads = set(targets)
    for graph in order:
        if any(called in leads for node in graph.nodes for called in node.called_graphs):
            leads.add(graph)
    members = reachable(targets, lambda graph: [called for called in graph.callees() if called in leads])
    loops = sum(node.graph not in members for node in calls)
    size = min(loops, MOST_LOOPS) * sum(len(graph.nodes) for graph in members)
    if not members or GAIN * size >= _expanded_sizes([*order, module.entry])[module.entry]:
        return
    depth = len(targets) + 2
    if loops > MOST_LOOPS and _holds_arrays_only(module.entry):
        outer = [graph for graph in order if graph in leads and graph not in members]
        members |= dict.fromkeys([*outer, _called_entry(module)])
    StackMachine(module, list(members), {}, depth).replace_calls()
    erase_graphs(module, list(members))


def _may_change(node: Node) -> bool:
    """Whether a node is a call of which nothing else is known: one with a derivative of its own stays."""
    return node.opcode == "call" and not has_own_derivative(node)


def _holds_arrays_only(graph: Graph) -> bool:
    """Whether registers can keep every value of a graph: arrays, and tuples of arrays."""
    return all(isinstance(leaf, TensorType) for node in graph.nodes for leaf in leaves_of(node.type))


def _called_entry(module: Module) -> Graph:
    """Give a module another entry, which calls the former one; the former one."""
    former, name = module.entry, module.entry.name
    entry = module.entry = module.add_graph(f"{name}_call")
    parameters = [entry.add_parameter(parameter.type, parameter.name) for parameter in former.parameters]
    entry.set_output(entry.add_apply(OPS["call"], parameters, former.root.type, {"to_apply": former}))
    module.rename_graph(former, f"{name}_body")
    module.rename_graph(entry, name)
    return former


def _expanded_sizes(order: Sequence[Graph]) -> dict[Graph, int]:
    """How many instructions each graph comes to with every call's graph in its place; callees first."""
    sizes: dict[Graph, int] = {}
    for graph in order:
        sizes[graph] = sum(1 + sum(sizes.get(called, 0) for called in node.called_graphs) for node in graph.nodes)
    return sizes
