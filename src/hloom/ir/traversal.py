"""Walks over nodes and over graphs, without recursion: programs may be deeper than Python's recursion limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from hloom.ir.graph import Graph
    from hloom.ir.module import Module
    from hloom.ir.nodes import Node

Item = TypeVar("Item", bound=Hashable)


def reachable(starts: Iterable[Item], successors: Callable[[Item], Iterable[Item]]) -> dict[Item, None]:
    """What can be reached from some items, these included, each once, in the order of the visit.

    The successors of an item are asked for once.
    """
    reached: dict[Item, None] = {}
    pending = list(starts)
    while pending:
        item = pending.pop()
        if item not in reached:
            reached[item] = None
            pending += successors(item)
    return reached


def post_order(starts: Iterable[Item], successors: Callable[[Item], Iterable[Item]]) -> Iterator[Item]:
    """What can be reached from some items, these included, each once, and after its successors.

    Items that reach each other come in the order in which the visit leaves them.
    """
    entered: set[Item] = set()
    for start in starts:
        if start in entered:
            continue
        entered.add(start)
        opened = [(start, iter(successors(start)))]
        while opened:
            item, following = opened[-1]
            for successor in following:
                if successor not in entered:
                    entered.add(successor)
                    opened.append((successor, iter(successors(successor))))
                    break
            else:
                opened.pop()
                yield item


def operands_of(node: Node) -> tuple[Node, ...]:
    """The operands of a node: what a walk towards the parameters goes on with."""
    return node.operands


def callees_first(module: Module) -> list[Graph]:
    """The graphs, each after everything it calls; graphs that call each other keep the module's order."""
    return list(post_order(module.graphs, _defined_callees))


def _defined_callees(graph: Graph) -> list[Graph]:
    return [callee for callee in graph.callees() if not callee.is_declared]
