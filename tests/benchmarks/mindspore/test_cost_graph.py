"""Tables that do not fit their nodes are refused, each with its place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.mindspore.cost_graph import CostGraph, cost_edge, cost_node
from hloom.text import HloomError

A, B = cost_node("a", [1, 2]), cost_node("b", [1])

REFUSED = [
    (lambda: CostGraph((cost_node("a", []),)), "a: a node needs at least one strategy"),
    (lambda: CostGraph((cost_node("a", [np.nan]),)), "a: a time is not a number, or minus infinity"),
    (lambda: CostGraph((A, B), (cost_edge(0, 2, [[1]]),)), "edge 0-2: an edge joins two different nodes of 2"),
    (lambda: CostGraph((A, B), (cost_edge(1, 1, [[1]]),)), "edge 1-1: an edge joins two different nodes of 2"),
    (lambda: CostGraph((A, B), (cost_edge(0, 1, [[1, 2]]),)), "edge 0-1: a table of shape (1, 2)"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_does_not_fit_is_refused(make: Callable[[], CostGraph], message: str):
    with pytest.raises(HloomError) as error:
        make()
    assert error.value.message == message


def test_times_are_sums():
    graph = CostGraph((A, B), (cost_edge(1, 0, [[10, 20]]),))
    assert graph.time_of((1, 0)) == 2 + 1 + 20
