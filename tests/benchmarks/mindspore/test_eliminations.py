"""Each elimination, on the graph that it is for; together they find what exhaustive search finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given

from benchmarks.mindspore.cost_graph import CostEdge, CostGraph, cost_edge, cost_node
from benchmarks.mindspore.eliminations import (
    ShrunkGraph,
    Table,
    edge_elimination,
    merge_elimination,
    operator_elimination,
    shrink,
    solve,
    star_elimination,
    triangle_elimination,
)
from hloom.text import HloomError, Unsupported
from tests.benchmarks.mindspore.brute_force import brute_force
from tests.benchmarks.mindspore.cost_graphs import cost_graphs
from tests.helpers.properties import examples

KINDS = [
    # edges                                                    eliminations
    ([(0, 1)], ["merge 0"]),
    ([(0, 1), (1, 2)], ["operator 1", "merge 0"]),
    ([(0, 1), (0, 1)], ["edge", "merge 0"]),
    ([(0, 1), (1, 0)], ["edge", "merge 0"]),
    ([(0, 2), (1, 2)], ["merge 0", "merge 1"]),
    ([(2, 0), (2, 1)], ["contract 0", "merge 2"]),
    ([(0, 1), (0, 2), (1, 2)], ["operator 1", "edge", "merge 0"]),
    ([(0, 1), (0, 2), (1, 3), (2, 3)], ["operator 1", "operator 2", "edge", "merge 0"]),
    ([(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], ["triangle 0", "operator 2", "edge", "merge 1"]),
    ([(0, 2), (0, 3), (1, 2), (1, 3)], ["star 0", "operator 2", "edge", "merge 1"]),
    (
        [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)],
        ["star 0", "star 1", "edge", "merge 2"],
    ),
]


@pytest.mark.parametrize(("edges", "expected"), KINDS)
def test_what_is_eliminated_in_which_order(edges: list[tuple[int, int]], expected: list[str]):
    result = solve(_graph(edges))
    steps = [f"{step.rule} {step.gone}" if step.gone is not None else step.rule for step in result.eliminations]
    assert [step for step in steps if not step.startswith("search")] == expected


def test_an_operator_becomes_an_edge():
    graph = _graph([(0, 1), (1, 2)])
    shrunk = _start(graph)
    assert operator_elimination(shrunk)
    (left, right), middle = (edge.time for edge in graph.edges), graph.nodes[1].time
    assert _only_edge(shrunk).scope == (0, 2)
    np.testing.assert_array_equal(
        _only_edge(shrunk).time, (left[:, :, None] + middle[:, None] + right[None]).min(axis=1)
    )


def test_edges_become_one_whichever_way_they_point():
    graph = _graph([(0, 1), (1, 0)])
    shrunk = _start(graph)
    assert edge_elimination(shrunk)
    np.testing.assert_array_equal(_only_edge(shrunk).time, graph.edges[0].time + graph.edges[1].time.T)


def test_a_leaf_goes_into_its_neighbour():
    graph = _graph([(0, 1)])
    shrunk = _start(graph)
    assert merge_elimination(shrunk)
    expected = graph.nodes[1].time + (graph.nodes[0].time[:, None] + graph.edges[0].time).min(axis=0)
    np.testing.assert_array_equal(shrunk.tables[shrunk.own[1]].time, expected)


def test_a_triangle_goes_into_the_edge_across():
    graph = _graph([(0, 1), (0, 2), (2, 1)])
    shrunk = _start(graph)
    assert triangle_elimination(shrunk)
    to_one, to_two, across = (edge.time for edge in graph.edges)
    folded = (graph.nodes[0].time[:, None, None] + to_two[:, :, None] + to_one[:, None, :]).min(axis=0)
    assert _only_edge(shrunk).scope == (2, 1)
    np.testing.assert_array_equal(_only_edge(shrunk).time, across + folded)


def test_a_star_becomes_a_table_over_its_leaves():
    graph = _graph([(0, 1), (0, 2), (3, 0)])
    shrunk = _start(graph)
    shrunk.changed = {0: None}
    assert star_elimination(shrunk)
    a, b, c = (edge.time for edge in graph.edges)
    table = graph.nodes[0].time[:, None, None, None] + a[:, :, None, None] + b[:, None, :, None] + c.T[:, None, None, :]
    assert _only_edge(shrunk).scope == (1, 2, 3)
    np.testing.assert_array_equal(_only_edge(shrunk).time, table.min(axis=0))


@given(cost_graphs())
@examples(40)
def test_the_optimum_is_found(graph: CostGraph):
    expected = brute_force(graph)
    assume(expected is not None)
    assert expected is not None
    result = solve(graph)
    assert result.time == graph.time_of(expected) == graph.time_of(result.strategies)


def test_a_graph_that_stays_dense_is_refused():
    graph = _graph([(a, b) for a in range(6) for b in range(a)])
    with pytest.raises(Unsupported, match="6 operators stay dense: an elimination would compute 216 sums"):
        solve(graph, max_cells=20)


def test_a_choice_that_is_impossible_everywhere_is_refused():
    graph = CostGraph((cost_node("a", [1, 2]), cost_node("b", [1])), (cost_edge(0, 1, [[np.inf], [np.inf]]),))
    with pytest.raises(HloomError) as error:
        solve(graph)
    assert str(error.value) == "no choice of strategies is allowed\n  every one has an infinite time somewhere"


def test_a_chain_of_ten_thousand_is_shrunk_to_a_point():
    random = np.random.default_rng(0)
    nodes = tuple(cost_node(f"n{number}", random.random(4)) for number in range(10_000))
    graph = CostGraph(nodes, tuple(cost_edge(n, n + 1, random.random((4, 4))) for n in range(9_999)))
    result = solve(graph)
    assert result.time == pytest.approx(_along_a_chain(graph))
    assert {step.rule for step in result.eliminations} == {"operator", "merge", "search"}


def _along_a_chain(graph: CostGraph) -> float:
    best = graph.nodes[0].time
    for edge, node in zip(graph.edges, graph.nodes[1:], strict=True):
        best = (best[:, None] + edge.time).min(axis=0) + node.time
    return float(best.min())


def test_mindspores_triangle_would_tie_the_third_node():
    """Folding a triangle's tip into one corner fixes the best other corner too early; here the table keeps both."""
    nodes = tuple(cost_node(name, [0.0, 0.0]) for name in "uvw")
    agree, differ = [[0, 9], [9, 0]], [[9, 0], [0, 9]]
    graph = CostGraph(nodes, (cost_edge(0, 1, agree), cost_edge(0, 2, agree), cost_edge(2, 1, differ)))
    assert solve(graph).time == 9.0


def _graph(edges: list[tuple[int, int]]) -> CostGraph:
    random = np.random.default_rng(1)
    count = max(node for edge in edges for node in edge) + 1
    sizes = [2 + number % 2 for number in range(count)]
    nodes = tuple(cost_node(f"n{number}", random.integers(0, 9, size)) for number, size in enumerate(sizes))
    return CostGraph(nodes, tuple(CostEdge(a, b, random.integers(0, 9, (sizes[a], sizes[b])) * 1.0) for a, b in edges))


def _start(graph: CostGraph) -> ShrunkGraph:
    shrunk = ShrunkGraph(graph.sizes, max_cells=1000)
    for number, node in enumerate(graph.nodes):
        shrunk.add_node(number, Table((number,), node.time))
    for edge in graph.edges:
        shrunk.add_edge(Table((edge.source, edge.target), edge.time))
    for number in shrunk.own:
        shrunk.wake(number)
    return shrunk


def _only_edge(shrunk: ShrunkGraph) -> Table:
    (number,) = {number for tables in shrunk.incident.values() for number in tables}
    return shrunk.tables[number]


def test_shrinking_ends():
    shrunk = _start(_graph([(a, b) for a in range(5) for b in range(a)]))
    shrink(shrunk)
    assert len(shrunk.own) == 1
