"""Exhaustive search: what eliminations must agree with wherever it can be afforded."""

from __future__ import annotations

import numpy as np

from benchmarks.mindspore.cost_graph import CostGraph


def brute_force(graph: CostGraph) -> tuple[int, ...] | None:
    """The fastest choice of strategies, of equally fast ones the first; None where all are forbidden."""
    sizes = graph.sizes
    time = np.zeros(sizes)
    for number, node in enumerate(graph.nodes):
        time += node.time.reshape(_shape(sizes, number))
    for edge in graph.edges:
        ordered = edge.time.T if edge.source > edge.target else edge.time
        time += ordered.reshape(_shape(sizes, edge.source, edge.target))
    best = int(np.argmin(time))
    if not np.isfinite(time.flat[best]):
        return None
    return tuple(int(strategy) for strategy in np.unravel_index(best, sizes))


def _shape(sizes: tuple[int, ...], *axes: int) -> tuple[int, ...]:
    return tuple(size if axis in axes else 1 for axis, size in enumerate(sizes))
