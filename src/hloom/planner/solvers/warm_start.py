"""From how some values should lie to a choice: a plan that someone wrote as a start for a planner."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import numpy as np

from hloom.ir import Node, TensorType
from hloom.planner.cost_model import itemsize_of
from hloom.planner.problem import Problem
from hloom.planner.solvers.dual_ascent import ascend
from hloom.planner.solvers.factor_graph import tied_graph
from hloom.sharding.spec import Spec

SWEEPS = 20
SECONDS = 5.0


def nearest(problem: Problem, specs: Mapping[Node, Spec]) -> dict[int, int]:
    """The cheapest choice of those under which the fewest bytes of values lie otherwise than they should."""
    network = tied_graph(problem)
    wrong = {node: np.zeros(len(problem.options[node])) for node in network.unary}
    for value, spec in specs.items():
        cluster = problem.clusters.of(value)
        if cluster is not None:
            kind = problem.representative[cluster.number]
            differs = [problem.spec_tables.result(value, each) != spec for each in problem.options[kind]]
            wrong[kind] += np.array(differs) * bytes_of(value)
    least = {}
    for node, kept in network.kept.items():
        known = wrong[node][kept]
        least[node] = np.flatnonzero(known == known.min())
    found = ascend(network.restricted(least), time.monotonic() + SECONDS, sweeps=SWEEPS)
    return found.network.named(problem, found.choice)


def bytes_of(value: Node) -> float:
    """The bytes of a whole array; none of a tuple."""
    return math.prod(value.type.dims) * itemsize_of(value) if isinstance(value.type, TensorType) else 0.0
