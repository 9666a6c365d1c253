"""Dynamic programming over a cost graph: six eliminations shrink it to a point, and are undone in reverse.

MindSpore's eliminations, in its order, with two of them made exact: a triangle goes into the table of the edge across
from it, and a star into a table over all its leaves. Direction decides only which elimination applies, never what it
may do. No table keeps which strategy was the best: when an elimination is undone, the one cell that matters is computed
again.

Source: MindSpore's `frontend/parallel/auto_parallel/dp_algo_costmodel.cc`; Jia, Lin, Qi, Aiken, "Exploring hidden
dimensions in parallelizing convolutional neural networks" (ICML 2018), section 5, for node and edge elimination.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from benchmarks.mindspore.cost_graph import CostGraph
from hloom.text import HloomError, Unsupported

KINDS = ("operator", "edge", "merge", "contract", "triangle", "star")
"""In the order in which they are tried."""
MAX_CELLS = 1 << 22
"""How many sums one elimination may compute, so that a table takes no more than 32 MiB."""

Scope = tuple[int, ...]
"""The nodes that a table's dimensions stand for."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Times by the strategies of a scope's nodes."""

    scope: Scope
    time: np.ndarray


@dataclass(frozen=True, slots=True)
class Solution:
    """One strategy per node, what they take together, and the eliminations that found them."""

    strategies: tuple[int, ...]
    time: float
    eliminations: tuple[Elimination, ...]


def solve(graph: CostGraph, max_cells: int = MAX_CELLS) -> Solution:
    """The fastest strategies.

    >>> from benchmarks.mindspore.cost_graph import cost_edge, cost_node
    >>> nodes = (cost_node("a", [3, 1]), cost_node("b", [0, 5]))
    >>> solve(CostGraph(nodes, (cost_edge(0, 1, [[0, 9], [1, 0]]),))).strategies
    (1, 0)

    Raises HloomError where every choice has an infinite time, and Unsupported where the graph is so dense that an
    elimination would compute more than `max_cells` sums.
    """
    shrunk = ShrunkGraph(graph.sizes, max_cells)
    for number, node in enumerate(graph.nodes):
        shrunk.add_node(number, Table((number,), node.time))
    for edge in graph.edges:
        shrunk.add_edge(Table((edge.source, edge.target), edge.time))
    shrink(shrunk)
    search(shrunk)
    chosen: dict[int, int] = {}
    undo(shrunk, chosen)
    strategies = tuple(chosen[number] for number in range(len(graph.nodes)))
    time = graph.time_of(strategies)
    if not math.isfinite(time):
        raise HloomError("no choice of strategies is allowed", hint="every one has an infinite time somewhere")
    return Solution(strategies, time, tuple(shrunk.log))


@dataclass(frozen=True, slots=True)
class Elimination:
    """What went, and how to undo it: the tables that were joined (by number) and the one that took their place."""

    rule: str
    gone: int | None
    tables: tuple[int, ...]
    result: int
    scope: Scope


@dataclass(slots=True)
class ShrunkGraph:
    """A cost graph on its way down: tables by number, and where each alive node stands in them."""

    sizes: tuple[int, ...]
    max_cells: int
    tables: list[Table] = field(default_factory=list)
    own: dict[int, int] = field(default_factory=dict)
    incident: dict[int, dict[int, None]] = field(default_factory=dict)
    between: dict[tuple[int, int], dict[int, None]] = field(default_factory=dict)
    constants: dict[int, None] = field(default_factory=dict)
    log: list[Elimination] = field(default_factory=list)
    waiting: dict[str, list] = field(default_factory=lambda: {rule: [] for rule in KINDS})
    changed: dict[int, None] = field(default_factory=dict)

    def add_node(self, node: int, table: Table) -> None:
        """An operator of the graph."""
        self.own[node] = self._number(table)
        self.incident[node] = {}

    def add_edge(self, table: Table) -> int:
        """A table between alive nodes."""
        number = self._number(table)
        for node in table.scope:
            self.incident[node][number] = None
        if len(table.scope) == 2:
            pair = _pair(table.scope)
            self.between.setdefault(pair, {})[number] = None
            heappush(self.waiting["edge"], pair)
            for node in self._common(pair):
                heappush(self.waiting["triangle"], node)
        return number

    def scope_of(self, node: int) -> Scope:
        """The nodes that share a table with a node."""
        return tuple(sorted({other for number in self.incident[node] for other in self.tables[number].scope} - {node}))

    def others(self, node: int) -> list[int]:
        """The far ends of a node's edges, if it has nothing but edges; otherwise nothing."""
        scopes = [self.tables[number].scope for number in self.incident[node]]
        if any(len(scope) != 2 for scope in scopes):
            return []
        return [first if second == node else second for first, second in scopes]

    def eliminate(self, rule: str, gone: int | None, joined: Sequence[int], scope: Scope) -> None:
        """Put one table over a scope in the place of several, and note how to undo it."""
        tables = [self.tables[number] for number in joined]
        result = _join(tables, scope, gone)
        for number in joined:
            self._remove(number)
        if gone is not None:
            del self.own[gone], self.incident[gone]
        self.log.append(Elimination(rule, gone, tuple(joined), self._add(result), scope))
        for node in scope:
            self.wake(node)

    def wake(self, node: int) -> None:
        """Look at a node again: what surrounds it has changed."""
        degree = len(self.incident[node])
        if degree == 1:
            heappush(self.waiting["merge"], node)
            heappush(self.waiting["contract"], node)
        elif degree == 2:
            heappush(self.waiting["operator"], node)
            heappush(self.waiting["triangle"], node)
        self.changed[node] = None

    def cells_of(self, node: int) -> int:
        """How many cells are looked at when a node is eliminated."""
        return math.prod(self.sizes[item] for item in (node, *self.scope_of(node)))

    def _number(self, table: Table) -> int:
        self.tables.append(table)
        return len(self.tables) - 1

    def _add(self, table: Table) -> int:
        if len(table.scope) > 1:
            return self.add_edge(table)
        number = self._number(table)
        if table.scope:
            self.own[table.scope[0]] = number
        else:
            self.constants[number] = None
        return number

    def _remove(self, number: int) -> None:
        scope = self.tables[number].scope
        for node in scope:
            self.incident[node].pop(number, None)
        if len(scope) == 2 and number in self.between.get(_pair(scope), ()):
            del self.between[_pair(scope)][number]
        elif not scope:
            del self.constants[number]

    def _common(self, pair: tuple[int, int]) -> list[int]:
        """Nodes of two edges, one to each of a pair."""
        few = min(pair, key=lambda node: len(self.incident[node]))
        far = pair[0] + pair[1] - few
        return [node for node in self.others(few) if len(self.incident[node]) == 2 and far in self.others(node)]


def operator_elimination(graph: ShrunkGraph) -> bool:
    """Fold an operator between two others into an edge.

    u -> v -> w
      ->
    u -> w, costing min over v of (u,v) + v + (v,w)
    """
    node = _next(graph, "operator", _is_operator)
    if node is None:
        return False
    first, second = graph.incident[node]
    into, out = (first, second) if graph.tables[first].scope[1] == node else (second, first)
    scope = (graph.tables[into].scope[0], graph.tables[out].scope[1])
    graph.eliminate("operator", node, (into, graph.own[node], out), scope)
    return True


def edge_elimination(graph: ShrunkGraph) -> bool:
    """Make one edge of all edges between two operators, whichever way they point.

    u => v
      ->
    u -> v, costing the sum
    """
    while graph.waiting["edge"]:
        edges = graph.between.get(heappop(graph.waiting["edge"]), {})
        if len(edges) > 1:
            numbers = tuple(edges)
            graph.eliminate("edge", None, numbers, graph.tables[numbers[0]].scope)
            return True
    return False


def merge_elimination(graph: ShrunkGraph) -> bool:
    """Fold an operator that only one edge leaves into that edge's target.

    u -> v
      ->
    v, costing v + min over u of u + (u,v)
    """
    return _fold_leaf(graph, "merge", 0)


def contract_elimination(graph: ShrunkGraph) -> bool:
    """Fold an operator that only one edge reaches into that edge's source.

    u -> v
      ->
    u, costing u + min over v of (u,v) + v
    """
    return _fold_leaf(graph, "contract", 1)


def triangle_elimination(graph: ShrunkGraph) -> bool:
    """Fold an operator of two edges into the edge between their other ends.

        u - v, u - w, v -> w
          ->
        v -> w, costing (v,w) + min over u of (u,v) + u + (u,w)

    MindSpore folds it into v, with the best w of each: then the choice of w is not free any more.
    """
    node = _next(graph, "triangle", _is_triangle)
    if node is None:
        return False
    (across,) = graph.between[_pair(graph.others(node))]
    joined = (*graph.incident[node], graph.own[node], across)
    graph.eliminate("triangle", node, joined, graph.tables[across].scope)
    return True


def star_elimination(graph: ShrunkGraph) -> bool:
    """Replace an operator by a table over all that it touches, the operator of the smallest such table first.

        u - v, u - w, u - x
          ->
        {v, w, x}, costing min over u of u + (u,v) + (u,w) + (u,x)

    Raises Unsupported where even that would compute more than `max_cells` sums.
    """
    waiting = graph.waiting["star"]
    for node in graph.changed:
        if node in graph.own:
            heappush(waiting, (graph.cells_of(node), node))
    graph.changed.clear()
    while waiting:
        cells, node = waiting[0]
        if node not in graph.own or not graph.incident[node] or graph.cells_of(node) != cells:
            heappop(waiting)
            continue
        if cells > graph.max_cells:
            raise Unsupported(f"{len(graph.own)} operators stay dense: an elimination would compute {cells:,} sums")
        heappop(waiting)
        scope = graph.scope_of(node)
        folded = (graph.own[scope[0]],) if len(scope) == 1 else ()
        graph.eliminate("star", node, (*graph.incident[node], graph.own[node], *folded), scope)
        return True
    return False


ELIMINATIONS: tuple[Callable[[ShrunkGraph], bool], ...] = (
    operator_elimination,
    edge_elimination,
    merge_elimination,
    contract_elimination,
    triangle_elimination,
    star_elimination,
)
"""In the order in which they are tried, from the first again after each success."""


def shrink(graph: ShrunkGraph) -> None:
    """Eliminate until nothing more can be."""
    for node in graph.own:
        graph.wake(node)
    while any(eliminate(graph) for eliminate in ELIMINATIONS):
        pass


def search(graph: ShrunkGraph) -> None:
    """Minimise out the operators that stand alone, and add what remains of each part of the graph."""
    for node in [node for node, tables in graph.incident.items() if not tables]:
        graph.eliminate("search", node, (graph.own[node],), ())
    left = list(graph.constants)
    while len(left) > 1:
        graph.eliminate("search", None, (left.pop(), left.pop()), ())
        left.append(graph.log[-1].result)


def undo(graph: ShrunkGraph, strategies: dict[int, int]) -> None:
    """Complete a choice of strategies by undoing the eliminations in reverse: of equally good ones the first."""
    for step in reversed(graph.log):
        if step.gone is not None:
            tables = [graph.tables[number] for number in step.tables]
            total = sum(table.time[_at(table.scope, strategies)] for table in tables)
            strategies[step.gone] = int(np.argmin(total))


def _fold_leaf(graph: ShrunkGraph, rule: str, end: int) -> bool:
    node = _next(graph, rule, lambda graph, node: _is_leaf(graph, node, end))
    if node is None:
        return False
    (edge,) = graph.incident[node]
    (target,) = graph.others(node)
    graph.eliminate(rule, node, (edge, graph.own[node], graph.own[target]), (target,))
    return True


def _next(graph: ShrunkGraph, rule: str, fits: Callable[[ShrunkGraph, int], bool]) -> int | None:
    waiting = graph.waiting[rule]
    while waiting:
        node = heappop(waiting)
        if node in graph.own and fits(graph, node):
            return node
    return None


def _is_operator(graph: ShrunkGraph, node: int) -> bool:
    others = graph.others(node)
    if len(others) != 2 or others[0] == others[1]:
        return False
    first, second = (graph.tables[number].scope for number in graph.incident[node])
    return (first[0] == node) != (second[0] == node)


def _is_leaf(graph: ShrunkGraph, node: int, end: int) -> bool:
    scopes = [graph.tables[number].scope for number in graph.incident[node]]
    return len(scopes) == 1 and len(scopes[0]) == 2 and scopes[0][end] == node


def _is_triangle(graph: ShrunkGraph, node: int) -> bool:
    others = graph.others(node)
    return len(others) == 2 and others[0] != others[1] and len(graph.between.get(_pair(others), ())) == 1


def _pair(scope: Sequence[int]) -> tuple[int, int]:
    first, second = scope
    return (first, second) if first < second else (second, first)


def _join(tables: Sequence[Table], scope: Scope, gone: int | None) -> Table:
    """The sum of tables over a scope, with one more node minimised out.

    left[u,v], v[v], right[v,w]  ->  result[u,w] = min over v of left[u,v] + v[v] + right[v,w]
    """
    order = scope if gone is None else (*scope[:1], gone, *scope[1:])  # so that the minimum runs along contiguous rows
    total = _spread(tables[0], order)
    for table in tables[1:]:
        total = total + _spread(table, order)
    return Table(scope, total if gone is None else total.min(axis=order.index(gone)))


def _spread(table: Table, order: Scope) -> np.ndarray:
    """A table's times with its dimensions in an order, of size 1 where it has none."""
    axis_of = {node: axis for axis, node in enumerate(table.scope)}
    moved = table.time.transpose([axis_of[node] for node in order if node in axis_of])
    sizes = iter(moved.shape)
    return moved.reshape([next(sizes) if node in axis_of else 1 for node in order])


def _at(scope: Scope, strategies: Mapping[int, int]) -> tuple:
    return tuple(strategies.get(node, slice(None)) for node in scope)
