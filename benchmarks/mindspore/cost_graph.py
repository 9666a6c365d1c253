"""A cost graph: operators with strategies, and tables of what two operators cost together.

Nothing here knows HLO: a node is a decision with so many strategies, each with a time; an edge is a table of times, a
row for each strategy of its source and a column for each of its target. An infinite time forbids a strategy or a pair.

Source: MindSpore's `CostGraph` (`frontend/parallel/auto_parallel/graph_costmodel.cc`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.text import HloomError


@dataclass(frozen=True, slots=True, eq=False)
class CostNode:
    """A decision, and the time of each of its strategies."""

    name: str
    time: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class CostEdge:
    """What two decisions cost together (a row per strategy of the source, a column per strategy of the target)."""

    source: int
    target: int
    time: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class CostGraph:
    """Nodes, and edges by their numbers; several edges may join the same two.

    >>> tanh = cost_node("tanh", [3.0, 1.0])
    >>> dot = cost_node("dot", [0.0, 5.0])
    >>> graph = CostGraph((tanh, dot), (cost_edge(0, 1, [[0, 9], [1, 0]]),))
    >>> graph.time_of((1, 0))
    2.0

    Raises HloomError where a table does not fit its nodes, or where a time is not a number.
    """

    nodes: tuple[CostNode, ...]
    edges: tuple[CostEdge, ...] = ()

    def __post_init__(self) -> None:
        for node in self.nodes:
            _check_node(node)
        for edge in self.edges:
            _check_edge(edge, self)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many strategies each node has."""
        return tuple(len(node.time) for node in self.nodes)

    def time_of(self, strategies: Sequence[int]) -> float:
        """The time of one strategy for each node."""
        alone = sum(float(node.time[choice]) for node, choice in zip(self.nodes, strategies, strict=True))
        return alone + sum(float(edge.time[strategies[edge.source], strategies[edge.target]]) for edge in self.edges)


def cost_node(name: str, time: Sequence[float] | np.ndarray) -> CostNode:
    """A node from plain numbers."""
    return CostNode(name, np.array(time, float))


def cost_edge(source: int, target: int, time: Sequence | np.ndarray) -> CostEdge:
    """An edge from plain numbers."""
    return CostEdge(source, target, np.array(time, float))


def _check_node(node: CostNode) -> None:
    if node.time.ndim != 1 or not len(node.time):
        raise HloomError(f"{node.name}: a node needs at least one strategy", hint="one time for each strategy")
    _check_times(node.name, node.time)


def _check_edge(edge: CostEdge, graph: CostGraph) -> None:
    name = f"edge {edge.source}-{edge.target}"
    count = len(graph.nodes)
    if edge.source == edge.target or not (0 <= edge.source < count and 0 <= edge.target < count):
        raise HloomError(f"{name}: an edge joins two different nodes of {count}")
    shape = (len(graph.nodes[edge.source].time), len(graph.nodes[edge.target].time))
    if edge.time.shape != shape:
        raise HloomError(f"{name}: a table of shape {edge.time.shape}", hint=f"the nodes' strategies make it {shape}")
    _check_times(name, edge.time)


def _check_times(name: str, time: np.ndarray) -> None:
    if not np.all(time > -np.inf):  # false for NaN too
        raise HloomError(f"{name}: a time is not a number, or minus infinity", hint="infinity forbids a strategy")
