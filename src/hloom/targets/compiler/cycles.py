"""Sums the cycles that a TPU's compiler estimates: `estimated_cycles` in the backend config of its instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hloom.analysis import build_call_graph, callees, find_trip_counts
from hloom.ir import Apply, Constant, Graph, Module, Node, Runs

_CYCLES = re.compile(r'"estimated_cycles"\s*:\s*"?(\d{1,18})\b')
_ASSUMED_TRIPS = 1
"""Iterations of a loop whose number depends on the data, as in XLA's own cost analysis."""


@dataclass(frozen=True, slots=True)
class CompilerCycles:
    """The compiler's estimates, summed along the entry: loops count their iterations, a conditional its longest branch.

    It is the time of the instructions one after the other: copies and collectives that run beside them have no
    estimate and are not counted. `instructions` have an estimate, as they are written; `unknown_loops` run a number of
    iterations that depends on data and count once.
    """

    total: int
    instructions: int
    unknown_loops: int


def estimated_cycles(node: Node) -> int | None:
    """The compiler's estimate for one instruction; None if it has none."""
    if isinstance(node, Constant):
        return None
    config = node.attributes.get("backend_config")
    match = _CYCLES.search(str(config)) if config is not None else None
    return int(match[1]) if match else None


def compiler_cycles(module: Module) -> CompilerCycles | None:
    """The cycles of an optimised module; None if its compiler estimates none."""
    call_graph = build_call_graph(module)
    trips = find_trip_counts(call_graph, {})
    totals: dict[Graph, int] = {}
    instructions = 0
    for graph in call_graph.computations:  # callees come before their callers
        total = 0
        for node in graph.nodes:
            own = estimated_cycles(node)
            if own is not None:
                total += own
                instructions += 1
            elif isinstance(node, Apply):
                total += _called(node, totals, trips[node].count if node in trips else None)
        totals[graph] = total
    if not instructions:
        return None
    unknown = sum(1 for trip in trips.values() if trip.count is None)
    return CompilerCycles(totals[module.entry], instructions, unknown)


def _called(node: Apply, totals: dict[Graph, int], trips: int | None) -> int:
    """The cycles of what a node calls each time it runs."""
    count = _ASSUMED_TRIPS if trips is None else trips
    total = longest = 0
    for graph, runs in callees(node):
        cycles = totals.get(graph, 0)
        if runs is Runs.IF_TAKEN:
            longest = max(longest, cycles)
        elif runs is Runs.PER_ITERATION:
            total += count * cycles
        elif runs is Runs.PER_TEST:
            total += (count + 1) * cycles
        else:
            total += cycles
    return total + longest
