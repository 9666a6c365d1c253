"""Small networks for property tests: tables, values with several readers, nodes that read twice; and all their choices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from hypothesis import strategies as st

from hloom.planner.solvers.factor_graph import Network
from hloom.planner.solvers.factors import Side, Term, pair
from hloom.planner.solvers.memory_prices import HeldTogether, Holding
from hloom.planner.solvers.shared_value import Fan


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Up to five nodes of up to four strategies, with whole costs."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = random.integers(1, 5, random.integers(2, 6))
    terms: list[Term] = []
    for _ in range(random.integers(0, 6)):
        first, second = sorted(random.choice(len(sizes), 2, replace=False).tolist())
        terms.append(pair(first, second, random.integers(0, 12, (sizes[first], sizes[second])) * 1.0))
    terms += [_fan(random, sizes) for _ in range(random.integers(0, 3))]
    unary = {node: random.integers(0, 20, (1, size)) * 1.0 for node, size in enumerate(sizes)}
    return Network(unary, terms, {node: np.arange(size) for node, size in enumerate(sizes)})


def _fan(random: np.random.Generator, sizes: np.ndarray) -> Fan:
    """Readers may be the source itself, or the same node twice."""
    nodes = random.integers(0, len(sizes), random.integers(3, 7))
    sides = tuple(Side(int(node), _groups(random, int(sizes[node]))) for node in nodes)
    specs = int(random.integers(4, 6))
    known = tuple(random.permutation(specs)[: side.size] for side in sides[1:])
    return Fan(sides, random.integers(0, 12, (sides[0].size, specs)) * 1.0, known)


def _groups(random: np.random.Generator, size: int) -> np.ndarray:
    return np.unique(random.integers(0, size, size), return_inverse=True)[1]


def holdings(network: Network, seed: int) -> Holding:
    """Whole bytes at two moments, of strategies and of a pair."""
    random = np.random.default_rng(seed)
    unary = {node: random.integers(0, 20, (costs.shape[1], 2)) * 1.0 for node, costs in network.unary.items()}
    first, second = network.unary[0].shape[1], network.unary[1].shape[1]
    sides = (Side(0, np.arange(first)), Side(1, np.arange(second)))
    together = HeldTogether(sides, random.integers(0, 9, (2, first, second)) * 1.0)
    return Holding(("early", "late"), np.array([3.0, 5.0]), unary, [together])


def choices(network: Network) -> Iterator[dict[int, int]]:
    """Every choice there is."""
    ranges = (range(costs.shape[1]) for costs in network.unary.values())
    return (dict(zip(network.unary, each, strict=True)) for each in product(*ranges))
