"""What planning by dynamic programming starts from: operators with strategies, and tables between them.

Nothing here knows HLO: a node is a decision with so many strategies, each with a time and with what it holds at each
of the moments when memory peaks; an edge is a table of times, a row for each strategy of its source and a column for
each of its target. An infinite time forbids a strategy or a pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.text import HloomError


@dataclass(frozen=True, slots=True, eq=False)
class CostNode:
    """A decision: the time of each strategy, and its bytes at each peak (a row per strategy)."""

    name: str
    time: np.ndarray
    memory: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class CostEdge:
    """What two decisions cost together, and what that holds at each peak, if anything (source, target, peak)."""

    source: int
    target: int
    time: np.ndarray
    memory: np.ndarray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CostGraph:
    """Nodes, and edges by their numbers; several edges may join the same two.

    >>> tanh = cost_node("tanh", [3.0, 1.0])
    >>> dot = cost_node("dot", [0.0, 5.0])
    >>> graph = CostGraph((tanh, dot), (cost_edge(0, 1, [[0, 9], [1, 0]]),))
    >>> graph.time_of((1, 0))
    2.0

    Raises HloomError where a table does not fit its nodes, or where a time or a size is not a number.
    """

    nodes: tuple[CostNode, ...]
    edges: tuple[CostEdge, ...] = ()

    def __post_init__(self) -> None:
        for node in self.nodes:
            _check_node(node, self.peaks)
        for edge in self.edges:
            _check_edge(edge, self)

    @property
    def peaks(self) -> int:
        """At how many moments memory is counted."""
        return self.nodes[0].memory.shape[1] if self.nodes and self.nodes[0].memory.ndim == 2 else 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many strategies each node has."""
        return tuple(len(node.time) for node in self.nodes)

    def time_of(self, strategies: Sequence[int]) -> float:
        """The time of a choice of one strategy for each node."""
        alone = sum(float(node.time[choice]) for node, choice in zip(self.nodes, strategies, strict=True))
        return alone + sum(float(edge.time[strategies[edge.source], strategies[edge.target]]) for edge in self.edges)

    def memory_of(self, strategies: Sequence[int]) -> np.ndarray:
        """The bytes of a choice at each peak."""
        total = np.zeros(self.peaks)
        for node, choice in zip(self.nodes, strategies, strict=True):
            total += node.memory[choice]
        for edge in self.edges:
            if edge.memory is not None:
                total += edge.memory[strategies[edge.source], strategies[edge.target]]
        return total


def cost_node(name: str, time: Sequence[float] | np.ndarray, memory: Sequence | np.ndarray | None = None) -> CostNode:
    """A node from plain numbers: bytes may be a number per strategy (one peak), a row per strategy, or left out."""
    times = np.array(time, float)
    held = np.zeros((len(times), 0)) if memory is None else np.array(memory, float)
    return CostNode(name, times, held[:, None] if held.ndim == 1 else held)


def cost_edge(source: int, target: int, time: Sequence | np.ndarray, memory: np.ndarray | None = None) -> CostEdge:
    """An edge from plain numbers; bytes of a single peak need no third dimension."""
    held = None if memory is None else np.array(memory, float)
    if held is not None and held.ndim == 2:
        held = held[:, :, None]
    return CostEdge(source, target, np.array(time, float), held)


def _check_node(node: CostNode, peaks: int) -> None:
    if node.time.ndim != 1 or not len(node.time):
        raise HloomError(f"{node.name}: a node needs at least one strategy", hint="one time for each strategy")
    if node.memory.shape != (len(node.time), peaks):
        raise HloomError(
            f"{node.name}: memory of shape {node.memory.shape} for {len(node.time)} strategies and {peaks} peaks",
            hint="a row for each strategy, and the same peaks in all nodes",
        )
    _check_numbers(node.name, node.time, node.memory)


def _check_edge(edge: CostEdge, graph: CostGraph) -> None:
    name = f"edge {edge.source}-{edge.target}"
    count = len(graph.nodes)
    if edge.source == edge.target or not (0 <= edge.source < count and 0 <= edge.target < count):
        raise HloomError(f"{name}: an edge joins two different nodes of {count}")
    shape = (len(graph.nodes[edge.source].time), len(graph.nodes[edge.target].time))
    if edge.time.shape != shape:
        raise HloomError(f"{name}: a table of shape {edge.time.shape}", hint=f"the nodes' strategies make it {shape}")
    if edge.memory is not None and edge.memory.shape != (*shape, graph.peaks):
        raise HloomError(f"{name}: memory of shape {edge.memory.shape}", hint=f"it should be {(*shape, graph.peaks)}")
    _check_numbers(name, edge.time, edge.memory if edge.memory is not None else np.zeros(0))


def _check_numbers(name: str, time: np.ndarray, memory: np.ndarray) -> None:
    if not np.all(time > -np.inf):  # false for NaN too
        raise HloomError(f"{name}: a time is not a number, or minus infinity", hint="infinity forbids a strategy")
    if not np.all(np.isfinite(memory)):
        raise HloomError(f"{name}: bytes must be finite", hint="an infinite time forbids a strategy")
