"""Small cost graphs for property tests: trees, cycles, cliques, stars, several edges between two, or anything."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from benchmarks.mindspore.cost_graph import CostEdge, CostGraph, CostNode

Pairs = list[tuple[int, int]]

SHAPES: dict[str, tuple[int, Pairs]] = {
    "nothing": (3, []),
    "chain": (6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]),
    "tree": (7, [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (6, 2)]),
    "two trees": (6, [(0, 1), (0, 2), (3, 4), (5, 4)]),
    "cycle": (5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]),
    "diamond": (4, [(0, 1), (0, 2), (1, 3), (2, 3)]),
    "triangle": (3, [(0, 1), (0, 2), (1, 2)]),
    "star": (6, [(0, 1), (0, 2), (0, 3), (4, 0), (5, 0)]),
    "wheel": (6, [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5), (5, 1)]),
    "K4": (4, list(combinations(range(4), 2))),
    "K5": (5, list(combinations(range(5), 2))),
    "K33": (6, [(a, b) for a in range(3) for b in range(3, 6)]),
    "several edges": (3, [(0, 1), (0, 1), (1, 0), (1, 2), (2, 1)]),
}


@st.composite
def cost_graphs(draw: st.DrawFn) -> CostGraph:
    """A graph of one of the shapes or of random edges, with whole numbers, some of its pairs forbidden."""
    shape = draw(st.sampled_from([*SHAPES, "random"]))
    count, pairs = SHAPES[shape] if shape != "random" else _random_shape(draw)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = random.integers(1, 4, count)
    nodes = tuple(CostNode(f"n{number}", random.integers(0, 20, size) * 1.0) for number, size in enumerate(sizes))
    return CostGraph(nodes, tuple(_edge(random, sizes, pair) for pair in pairs))


def _random_shape(draw: st.DrawFn) -> tuple[int, Pairs]:
    count = draw(st.integers(2, 6))
    pair = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda ends: ends[0] != ends[1])
    return count, draw(st.lists(pair, max_size=2 * count))


def _edge(random: np.random.Generator, sizes: np.ndarray, pair: tuple[int, int]) -> CostEdge:
    shape = (sizes[pair[0]], sizes[pair[1]])
    time = random.integers(0, 20, shape) * 1.0
    if random.random() < 0.3:
        time[random.random(shape) < 0.2] = np.inf
    return CostEdge(*pair, time)
