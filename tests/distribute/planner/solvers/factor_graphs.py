"""Small networks for property tests: tables, values with several readers, nodes that read twice; and all their choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np
from hypothesis import strategies as st

from hloom.distribute.planner.solvers.factor_graph import FactorGraph
from hloom.distribute.planner.solvers.factors import Argument, CostFactor, pair
from hloom.distribute.planner.solvers.moment_program import MomentUse
from hloom.distribute.planner.solvers.reshard_factor import ReshardFactor


@st.composite
def factor_graphs(draw: st.DrawFn) -> FactorGraph:
    """Up to five nodes of up to four strategies, with whole costs."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = random.integers(1, 5, random.integers(2, 6))
    factors: list[CostFactor] = []
    for _ in range(random.integers(0, 6)):
        first, second = sorted(random.choice(len(sizes), 2, replace=False).tolist())
        factors.append(pair(first, second, random.integers(0, 12, (sizes[first], sizes[second])) * 1.0))
    factors += [_fan(random, sizes) for _ in range(random.integers(0, 3))]
    unary = {node: random.integers(0, 20, (1, size)) * 1.0 for node, size in enumerate(sizes)}
    return FactorGraph(unary, factors, {node: np.arange(size) for node, size in enumerate(sizes)})


def _fan(random: np.random.Generator, sizes: np.ndarray) -> ReshardFactor:
    """Readers may be the source itself, or the same node twice."""
    nodes = random.integers(0, len(sizes), random.integers(3, 7))
    arguments = tuple(Argument(int(node), _groups(random, int(sizes[node]))) for node in nodes)
    specs = int(random.integers(4, 6))
    known = tuple(random.permutation(specs)[: argument.size] for argument in arguments[1:])
    return ReshardFactor(arguments, random.integers(0, 12, (arguments[0].size, specs)) * 1.0, known)


def _groups(random: np.random.Generator, size: int) -> np.ndarray:
    return np.unique(random.integers(0, size, size), return_inverse=True)[1]


def holdings(graph: FactorGraph, seed: int) -> MomentUse:
    """Whole bytes of strategies at two moments."""
    random = np.random.default_rng(seed)
    unary = {node: random.integers(0, 20, (costs.shape[1], 2)) * 1.0 for node, costs in graph.unary.items()}
    return MomentUse(np.array([3.0, 5.0]), unary)


def held(use: MomentUse, choice: Mapping[int, int]) -> np.ndarray:
    """The bytes of a choice at each moment."""
    return use.constants + sum(use.unary[node][strategy] for node, strategy in choice.items())


def choices(graph: FactorGraph) -> Iterator[dict[int, int]]:
    """Every choice there is."""
    ranges = (range(costs.shape[1]) for costs in graph.unary.values())
    return (dict(zip(graph.unary, combination, strict=True)) for combination in product(*ranges))
