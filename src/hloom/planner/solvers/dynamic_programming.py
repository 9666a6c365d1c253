"""MindSpore's dynamic programming, made exact: shrink the cost graph, search what is left, recover in reverse.

Without a budget a table holds times alone, and the result is the optimum. Under a budget of memory every cell holds
all undominated pairs of time and bytes. There may be many: a cell keeps `states` of them at most, and where that was
too few the result says `is_exact=False`, with a bound on what the optimum can be. The memory is then still within the
budget; only a faster choice may have been missed, or, rarely, that there is one: then `missing` says what the lightest
choice found is short of.

Inexact are also: what the solver could not prove in its time, and the fewest missing bytes over several peaks where
nothing fits and the graph stays dense.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hloom.planner.solvers.budget_relaxation import relax
from hloom.planner.solvers.cost_graph import CostGraph
from hloom.planner.solvers.dense import solve_dense
from hloom.planner.solvers.eliminations import Elimination, Shrinking, search, shrink, undo
from hloom.planner.solvers.tables import Algebra, Frontier, MinPlus, Table
from hloom.text import HloomError

WIDTH = 4
"""Over how many nodes a star's table may be."""

CELLS = 1 << 22
"""How many sums one elimination may look at."""

STATES = 64
"""How many pairs of time and bytes a cell keeps."""

SECONDS = 60.0
"""How long the solver may look at what stays dense."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What may be spent: a star's leaves, sums per elimination, states per cell, seconds for what stays dense."""

    width: int
    cells: int
    states: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Choice:
    """One strategy per node, what they take, and how they were found.

    `bound` is what no choice within the budget can beat; `missing` are the bytes that the budget is short of, at the
    worst peak (the choice is then the one with the least missing). `eliminations` are the steps, `dense` how many
    nodes were left to the solver.
    """

    strategies: tuple[int, ...]
    time: float
    memory: tuple[float, ...]
    is_exact: bool
    eliminations: tuple[Elimination, ...]
    bound: float
    missing: float = 0.0
    dense: int = 0


def solve(
    graph: CostGraph,
    budget: float | np.ndarray | None = None,
    *,
    width: int = WIDTH,
    cells: int = CELLS,
    states: int = STATES,
    seconds: float = SECONDS,
) -> Choice:
    """The fastest choice of a strategy for each node, within a budget of bytes (for all peaks, or one for each).

    Where nothing fits, the choice with the fewest bytes missing. What may be spent is in `Limits`.

    >>> from hloom.planner.solvers.cost_graph import cost_edge, cost_node
    >>> nodes = (cost_node("a", [3, 1], [1, 9]), cost_node("b", [0, 5], [2, 2]))
    >>> graph = CostGraph(nodes, (cost_edge(0, 1, [[0, 9], [1, 0]]),))
    >>> solve(graph).strategies, solve(graph, budget=5).strategies, solve(graph, budget=2).missing
    ((1, 0), (0, 0), 1.0)

    Raises HloomError where every choice has an infinite time, whatever the budget.
    """
    limits = Limits(width, cells, states, seconds)
    fastest = _solve_times(graph, limits)
    if not math.isfinite(fastest.time):
        hint = f"every one has an infinite time somewhere (or HiGHS needs more than {seconds:g} s)"
        raise HloomError("no choice of strategies is allowed", hint=hint)
    if budget is None:
        return fastest
    most = np.broadcast_to(np.asarray(budget, float), (graph.peaks,))
    if (graph.memory_of(fastest.strategies) <= most).all():
        return fastest
    found = _solve_within(graph, most, limits) or _least_memory(graph, most, limits)
    if found.missing > 0:
        return found
    return found if found.is_exact else _bounded(graph, most, limits, found, fastest.time)


def _solve_times(graph: CostGraph, limits: Limits) -> Choice:
    """The fastest choice; its time is infinite if all are forbidden."""
    nodes = [Table((number,), node.time) for number, node in enumerate(graph.nodes)]
    edges = [Table((edge.source, edge.target), edge.time) for edge in graph.edges]
    shrunk = _shrink(graph, MinPlus(), nodes, edges, limits)
    left = _left(shrunk)
    if left:
        forbidden = Choice((0,) * len(graph.nodes), math.inf, (), True, (), math.inf)
        return _with_solver(graph, shrunk, left, None, limits) or forbidden
    strategies: dict[int, int] = {}
    undo(shrunk, strategies, dict.fromkeys(shrunk.constants, 0))
    return _choice(graph, strategies, shrunk, True, 0)


def _solve_within(
    graph: CostGraph, budget: np.ndarray, limits: Limits, prices: np.ndarray | None = None
) -> Choice | None:
    """The fastest choice within a budget; None where none was found. Prices say which states are kept of too many."""
    nodes, edges, least, ceiling = _states(graph)
    room = budget - least
    if (room < 0).any():
        return None
    frontier = Frontier(room, ceiling, limits.states, prices)
    shrunk = _shrink(graph, frontier, nodes, edges, limits)
    left = _left(shrunk)
    if not left:
        return _recovered(graph, shrunk, frontier)
    found = _with_solver(graph, shrunk, left, room, limits)
    over = np.zeros(graph.peaks) if found is None else np.maximum(graph.memory_of(found.strategies) - budget, 0.0)
    if over.any():  # by the solver's tolerance
        found = _with_solver(graph, shrunk, left, room - 2 * over, limits)
        found = found and replace(found, is_exact=False)
    return found and replace(found, is_exact=found.is_exact and frontier.is_exact)


def _with_solver(
    graph: CostGraph, shrunk: Shrinking, left: dict[int, Table], room: np.ndarray | None, limits: Limits
) -> Choice | None:
    """What stayed dense by the solver, the rest by undoing."""
    dense = solve_dense(left, graph.sizes, room, limits.seconds)
    if not dense.is_possible:
        return None
    count = len(dense.strategies)
    undo(shrunk, dense.strategies, dense.states)
    return _choice(graph, dense.strategies, shrunk, dense.is_optimal, count)


def _recovered(graph: CostGraph, shrunk: Shrinking, frontier: Frontier) -> Choice | None:
    (last,) = shrunk.constants
    total = shrunk.tables[last]
    if not np.isfinite(total.time[0]):
        return None
    strategies: dict[int, int] = {}
    undo(shrunk, strategies, {last: 0})
    return _choice(graph, strategies, shrunk, frontier.is_exact, 0)


def _least_memory(graph: CostGraph, budget: np.ndarray, limits: Limits) -> Choice:
    """Where nothing fits: the fastest of the choices with the fewest bytes missing at the worst peak."""
    lightest = _lightest(graph, budget, limits)
    missing = float((graph.memory_of(lightest.strategies) - budget).max())
    if missing <= 0:  # the search within the budget dropped too many states
        return replace(lightest, is_exact=False)
    found = _solve_within(graph, budget + missing, limits) or lightest
    is_exact = found.is_exact and lightest.is_exact
    return replace(found, is_exact=is_exact, bound=found.time if is_exact else -math.inf, missing=missing)


def _lightest(graph: CostGraph, budget: np.ndarray, limits: Limits) -> Choice:
    """A choice with the least memory; with several peaks, with the least excess over the budget at the worst."""
    weights = np.ones((1, 1)) if graph.peaks == 1 else np.vstack([np.ones(graph.peaks), np.eye(graph.peaks)])
    light = [_solve_times(_as_times(graph, each), limits) for each in weights]
    excess = [float((graph.memory_of(each.strategies) - budget).max()) for each in light]
    best = light[int(np.argmin(excess))]
    if graph.peaks > 1:
        best = _least_excess(graph, budget, min(excess), limits) or replace(best, is_exact=False)
    return _choice(graph, dict(enumerate(best.strategies)), None, best.is_exact, best.dense)


def _least_excess(graph: CostGraph, budget: np.ndarray, most: float, limits: Limits) -> Choice | None:
    """The least excess, times left aside; None where a dense rest or dropped states are in the way."""
    nodes, edges, least, _ = _states(_as_times(graph, np.zeros(graph.peaks)))
    room = np.maximum(budget + most - least, 0.0)
    endless = np.full(graph.peaks, np.finfo(float).max / 4)  # so that no bytes count as harmless
    frontier = Frontier(room, endless, limits.states)
    shrunk = _shrink(graph, frontier, nodes, edges, limits)
    if _left(shrunk):
        return None
    (last,) = shrunk.constants
    total = shrunk.tables[last]
    assert total.memory is not None
    excess = np.where(np.isfinite(total.time), (total.memory + least - budget).max(axis=-1), np.inf)
    if not np.isfinite(excess.min()):
        return None
    strategies: dict[int, int] = {}
    undo(shrunk, strategies, {last: int(np.argmin(excess))})
    return _choice(graph, strategies, shrunk, frontier.is_exact, 0)


def _bounded(graph: CostGraph, budget: np.ndarray, limits: Limits, found: Choice, fastest: float) -> Choice:
    """An inexact choice with what no other can beat; or a faster one, met on the way or with states kept by price."""
    relaxed = relax(graph, budget, found.time, lambda priced: _solve_times(priced, limits).strategies)
    bound = max(fastest, relaxed.bound)
    if relaxed.strategies is not None and graph.time_of(relaxed.strategies) < found.time:
        found = _choice(graph, dict(enumerate(relaxed.strategies)), None, False, found.dense)
    if bound < found.time:
        again = _solve_within(graph, budget, limits, relaxed.prices)
        found = again if again is not None and again.time < found.time else found
    return replace(found, bound=found.time if found.is_exact else min(bound, found.time))


def _shrink(graph: CostGraph, algebra: Algebra, nodes: list[Table], edges: list[Table], limits: Limits) -> Shrinking:
    shrunk = Shrinking(algebra, graph.sizes, limits.width, limits.cells)
    for number, table in enumerate(nodes):
        shrunk.add_node(number, table)
    for table in edges:
        shrunk.add_edge(table)
    shrink(shrunk)
    search(shrunk)
    return shrunk


def _left(shrunk: Shrinking) -> dict[int, Table]:
    """The tables of a graph that stayed dense, by number; none where it was searched to the end."""
    if not shrunk.own:
        return {}
    numbers = {*shrunk.own.values(), *shrunk.constants, *(each for found in shrunk.incident.values() for each in found)}
    return {number: shrunk.tables[number] for number in sorted(numbers)}


def _states(graph: CostGraph) -> tuple[list[Table], list[Table], np.ndarray, np.ndarray]:
    """Tables of one state per cell, bytes above the least; and the sums of the least, and of the most above it."""
    least, ceiling = np.zeros(graph.peaks), np.zeros(graph.peaks)
    nodes, edges = [], []
    for number, node in enumerate(graph.nodes):
        low = node.memory.min(axis=0)
        above = node.memory - low
        nodes.append(Table((number,), node.time[:, None], above[:, None], above.max(axis=0)))
        least, ceiling = least + low, ceiling + above.max(axis=0)
    for edge in graph.edges:
        memory = np.zeros((*edge.time.shape, graph.peaks)) if edge.memory is None else edge.memory
        low = memory.min(axis=(0, 1))
        above = memory - low
        most = above.max(axis=(0, 1))
        edges.append(Table((edge.source, edge.target), edge.time[..., None], above[:, :, None], most))
        least, ceiling = least + low, ceiling + most
    return nodes, edges, least, ceiling


def _as_times(graph: CostGraph, weights: np.ndarray) -> CostGraph:
    """A graph whose times are its bytes; what is forbidden stays so."""
    nodes = (replace(node, time=_priced(node.time, node.memory, weights)) for node in graph.nodes)
    edges = (replace(edge, time=_priced(edge.time, edge.memory, weights)) for edge in graph.edges)
    return CostGraph(tuple(nodes), tuple(edges))


def _priced(time: np.ndarray, memory: np.ndarray | None, weights: np.ndarray) -> np.ndarray:
    bytes_held = np.zeros(time.shape) if memory is None else memory @ weights
    return np.where(np.isfinite(time), bytes_held, np.inf)


def _choice(
    graph: CostGraph, strategies: dict[int, int], shrunk: Shrinking | None, is_exact: bool, dense: int
) -> Choice:
    chosen = tuple(strategies[number] for number in range(len(graph.nodes)))
    time = graph.time_of(chosen)
    memory = tuple(float(each) for each in graph.memory_of(chosen))
    steps = tuple(shrunk.log) if shrunk else ()
    return Choice(chosen, time, memory, is_exact, steps, time if is_exact else -math.inf, dense=dense)
