"""The cheapest set of values from which another can be computed: a minimum cut with node capacities."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)
Arcs = dict[object, dict[object, float]]


def min_node_cut(
    capacity: Mapping[Item, float],
    operands: Mapping[Item, Sequence[Item]],
    sink: Item,
    behind: Mapping[Item, float] = MappingProxyType({}),
) -> set[Item]:
    """The cheapest set of nodes that every way to the sink passes, the sink itself allowed; of equals the nearest.

    Nodes without `operands` are where ways begin. A node between the cut and the sink costs what `behind` says. Each
    augmenting path is a shortest one (Edmonds and Karp, "Theoretical improvements in algorithmic efficiency for network
    flow problems", JACM 19, 1972).

    >>> sorted(min_node_cut({"mask": 8.0, "row": 1.0, "column": 2.0}, {"mask": ["row", "column"]}, "mask"))
    ['column', 'row']
    """
    rest = _residual(capacity, operands)
    for node, amount in behind.items():
        arcs = rest[None, True]
        arcs[(node, False)] = arcs.get((node, False), 0.0) + amount
        rest[(node, False)].setdefault((None, True), 0.0)
    start, end = (None, True), (sink, True)
    while (path := _path(rest, start, end)) is not None:
        flow = min(rest[a][b] for a, b in path)
        if math.isinf(flow):
            return {sink}
        for a, b in path:
            rest[a][b] -= flow
            rest[b][a] = rest[b].get(a, 0.0) + flow
    near = _reaching(rest, end)
    return {node for node in capacity if (node, True) in near and (node, False) not in near}


def _residual(capacity: Mapping[Item, float], operands: Mapping[Item, Sequence[Item]]) -> Arcs:
    """Each node as an arc of its capacity from its front (False) to its back (True); the source is in front of all."""
    rest: Arcs = {(None, True): {}}
    for node, amount in capacity.items():
        rest.setdefault((node, False), {})[(node, True)] = amount
        rest.setdefault((node, True), {}).setdefault((node, False), 0.0)
    for node in capacity:
        for source in [(operand, True) for operand in operands.get(node, ())] or [(None, True)]:
            rest[source][(node, False)] = math.inf
            rest[(node, False)].setdefault(source, 0.0)
    return rest


def _path(rest: Arcs, start: object, end: object) -> list[tuple[object, object]] | None:
    """The arcs of a shortest path on which something is left; None where there is none."""
    before: dict[object, object] = {start: start}
    pending = deque([start])
    while pending and end not in before:
        here = pending.popleft()
        for there, amount in rest[here].items():
            if amount > 0 and there not in before:
                before[there] = here
                pending.append(there)
    if end not in before:
        return None
    path: list[tuple[object, object]] = []
    while end != start:
        path.append((before[end], end))
        end = before[end]
    return path


def _reaching(rest: Arcs, end: object) -> set[object]:
    """All from which something is left on a way to the end."""
    reaching, pending = {end}, [end]
    into: dict[object, list[object]] = {}
    for here, arcs in rest.items():
        for there, amount in arcs.items():
            if amount > 0:
                into.setdefault(there, []).append(here)
    while pending:
        for here in into.get(pending.pop(), ()):
            if here not in reaching:
                reaching.add(here)
                pending.append(here)
    return reaching
