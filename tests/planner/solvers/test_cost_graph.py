"""Tables that do not fit their nodes are refused, each with its place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hloom.planner.solvers.brute_force import brute_force
from hloom.planner.solvers.cost_graph import CostGraph, cost_edge, cost_node
from hloom.text import HloomError, Unsupported

A, B = cost_node("a", [1, 2], [[3, 4], [5, 6]]), cost_node("b", [1], [[1, 1]])

REFUSED = [
    (lambda: CostGraph((cost_node("a", []),)), "a: a node needs at least one strategy"),
    (lambda: CostGraph((A, cost_node("b", [1]))), "b: memory of shape (1, 0) for 1 strategies and 2 peaks"),
    (lambda: CostGraph((cost_node("a", [np.nan]),)), "a: a time is not a number, or minus infinity"),
    (lambda: CostGraph((cost_node("a", [1], [np.inf]),)), "a: bytes must be finite"),
    (lambda: CostGraph((A, B), (cost_edge(0, 2, [[1]]),)), "edge 0-2: an edge joins two different nodes of 2"),
    (lambda: CostGraph((A, B), (cost_edge(1, 1, [[1]]),)), "edge 1-1: an edge joins two different nodes of 2"),
    (lambda: CostGraph((A, B), (cost_edge(0, 1, [[1, 2]]),)), "edge 0-1: a table of shape (1, 2)"),
    (
        lambda: CostGraph((A, B), (cost_edge(0, 1, [[1], [2]], np.zeros((2, 1))),)),
        "edge 0-1: memory of shape (2, 1, 1)",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_does_not_fit_is_refused(make: Callable[[], CostGraph], message: str):
    with pytest.raises(HloomError) as error:
        make()
    assert error.value.message == message


def test_times_and_bytes_are_sums():
    graph = CostGraph((A, B), (cost_edge(1, 0, [[10, 20]], np.array([[[1, 0], [0, 1]]])),))
    assert graph.time_of((1, 0)) == 2 + 1 + 20
    assert graph.memory_of((1, 0)).tolist() == [5 + 1 + 0, 6 + 1 + 1]


def test_exhaustive_search_has_an_end():
    graph = CostGraph(tuple(cost_node(f"n{number}", [0] * 4) for number in range(12)))
    with pytest.raises(Unsupported, match="16,777,216 choices are too many to look at each"):
        brute_force(graph)
