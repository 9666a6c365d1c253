"""Decides mesh axis by mesh axis: the largest first, the next one splits what is left.

A step only considers strategies that use the axes so far and agree with earlier decisions: a few dozen per cluster,
however many axes there are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers.assignment import Assignment
from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.dual_ascent import EVERY, ascend
from hloom.distribute.planner.solvers.factor_graph import FactorGraph, quotient_graph
from hloom.distribute.planner.solvers.message_passing import MessagePassing
from hloom.distribute.planner.strategies import ClassAxes, Strategy
from hloom.sharding import Mesh

SWEEPS = 100
"""How often messages are passed for one mesh axis, and for the bound, at most; one axis has few strategies."""

_Decided = dict[int, Strategy]
"""By node a strategy on some of the axes."""


def plan(
    problem: Problem,
    seconds: float = math.inf,
    *,
    starts: Sequence[Mapping[int, int]] = (),
) -> Assignment:
    """A choice made axis by axis, the largest axis first.

    If it exceeds the budget, axes are decided again, from the last one backwards. The bound covers all choices and
    comes from messages, if there is time. `starts` are ignored: a step has few choices.
    """
    deadline = Deadline(seconds)
    graph = quotient_graph(problem)
    steps = _steps(problem, graph, deadline)
    strategies = steps[-1]
    bound, notes = _bound(graph, deadline)
    cost = problem.cost(strategies)
    bound = min(bound, cost)
    return Assignment(
        strategies, cost, bound, planner="recursive", notes=notes, shared_bound=bound, is_cut=deadline.has_cut
    )


def _steps(problem: Problem, graph: FactorGraph, deadline: Deadline) -> list[dict[int, int]]:
    """The choices after each axis."""
    mesh = problem.mesh
    axes = sorted((name for name in mesh.names if mesh.size(name) > 1), key=lambda name: -mesh.size(name))
    steps: list[dict[int, int]] = []
    decided: _Decided = {}
    for count in range(1, len(axes) + 1):
        few = graph.restricted(_extending(problem, graph, decided, axes[: count - 1], axes[:count]))
        ascent = ascend(few, deadline, sweeps=SWEEPS)
        steps.append(ascent.graph.named(problem, ascent.choice))
        decided = {node: problem.options[node][steps[-1][node]] for node in graph.unary}
    if not steps:
        steps.append(graph.named(problem, dict.fromkeys(graph.unary, 0)))
    return steps


def _extending(
    problem: Problem, graph: FactorGraph, decided: _Decided, before: Collection[str], axes: Collection[str]
) -> dict[int, np.ndarray]:
    """The strategies over some axes, those of a class in the mesh's order, that agree with what was decided of those
    before; all where there are none.
    """
    extending: dict[int, np.ndarray] = {}
    for node, kept in graph.kept.items():
        known = _on(decided[node], before) if decided else _on(Strategy((), ()), ())
        options = [problem.options[node][number] for number in kept]
        fits = [
            _on(strategy, axes) == strategy and _on(strategy, before) == known and _is_ordered(strategy, problem.mesh)
            for strategy in options
        ]
        extending[node] = np.flatnonzero(fits) if any(fits) else np.arange(len(kept))
    return extending


def _on(strategy: Strategy, axes: Collection[str]) -> Strategy:
    """A strategy without the other axes."""
    return Strategy(_held_on(strategy.before, axes), _held_on(strategy.after, axes))


def _held_on(memory: ClassAxes, axes: Collection[str]) -> ClassAxes:
    left = ((number, tuple(axis for axis in own if axis in axes)) for number, own in memory)
    return tuple((number, own) for number, own in left if own)


def _is_ordered(strategy: Strategy, mesh: Mesh) -> bool:
    """Whether the axes of each class stand in the mesh's order before results are scattered."""
    return all(list(own) == sorted(own, key=mesh.names.index) for _, own in strategy.before)


def _bound(graph: FactorGraph, deadline: Deadline) -> tuple[float, tuple[str, ...]]:
    """What no choice costs less than, as far as there is time."""
    if deadline.cuts():
        return -math.inf, ("no bound: there was no time for one",)
    messages = MessagePassing(graph)
    bound = -math.inf
    for _ in range(0, SWEEPS, EVERY):
        for _ in range(EVERY):
            messages.sweep()
        before, bound = bound, max(bound, messages.bound())
        if bound - before < 1e-3 * bound or deadline.cuts():
            break
    return bound, ()
