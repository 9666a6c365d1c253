"""Loops that search an interval by comparisons, such as bisection: the program's derivative is meaningless.

    middle = (lower + upper) / 2;  p = compare(f(middle), y)
    lower = select(p, middle, lower);  upper = select(p, upper, middle)

The searched value reaches the result only through `p`, and a comparison has no derivative. What remains is the
derivative of the initial bounds, on which the result does not depend: a number, and a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hloom.analysis import is_branch
from hloom.autodiff.activity import bits
from hloom.autodiff.loop_state import LoopState, leaf_nodes
from hloom.ir import Apply, Constant, Node, TensorType, Trait
from hloom.ops import with_trait

MOST_READS = 3
"""How often a point between two bounds reads them: `lower + (upper - lower) * c`. A secant's reads them more often."""
_MEANS = frozenset({"add", "subtract", "multiply", "divide", "sqrt", "exponential", "log", "power"})
"""Ops that compute points between two bounds: arithmetic and geometric means."""
_PASSED_ON = with_trait(Trait.KEEPS_ORDER) | {"broadcast", "convert", "copy", "opt-barrier"}


def searches_interval(node: Apply, active: int) -> bool:
    """Whether a loop narrows an interval, or shrinks a step, by comparisons; `active` leaves have derivatives."""
    if not active or not any(inner.opcode == "select" or is_branch(inner) for inner in node.attributes["body"].nodes):
        return False
    body = _Body(node)
    partners: dict[int, set[int]] = {}
    for leaf in bits(active):
        for point in body.points_of(leaf):
            if body.is_shrinking_step(leaf, point):
                return True
            between = body.bounds_of(point)
            if leaf in between and len(between) == 2:
                partners.setdefault(leaf, set()).update(between - {leaf})
    return any(leaf in partners.get(other, ()) for leaf, others in partners.items() for other in others)


class _Body:
    """A loop's body, in which instructions that compute the same are one value."""

    def __init__(self, node: Apply) -> None:
        self.state = LoopState(node.attributes["body"], None, node.operands[0])
        self.values: dict[Node, Node] = {}
        known: dict[Any, Node] = {}
        for inner in (*self.state.body.parameters, *self.state.body.nodes):
            self.values.setdefault(inner, known.setdefault(self._key(inner), inner))
        self.results = [None if result is None else self.values[result] for result in self.state.results]
        self.leaves = {value: leaf for value in known.values() if (leaf := self.state.leaf_of(value)) is not None}

    def _key(self, node: Node) -> Any:
        if node.literal is not None and not node.rank:
            return node.type, node.literal
        if not isinstance(node, Apply) or not node.operands:
            return node
        operands = [self.values[operand] for operand in node.operands]
        if node.opcode == "copy":
            return self._key(operands[0])
        if node.opcode == "get-tuple-element" and operands[0].opcode == "tuple":
            return self._key(self.values[operands[0].operands[node.attributes["index"]]])
        return node.opcode, node.type, node.attributes, *operands

    def points_of(self, leaf: int) -> Iterator[Node]:
        """The points that an iteration moves a leaf to, or leaves it alone, as a comparison of the point says."""
        for predicate, alternatives in _choices(self.results[leaf]):
            given = [self.values[alternative] for alternative in alternatives]
            stays = [self.leaves.get(alternative) == leaf for alternative in given]
            if len(given) == 2 and stays.count(True) == 1:
                point = given[stays.index(False)]
                if self._reaches(self.values[predicate], point):
                    yield point

    def _reaches(self, start: Node, wanted: Node) -> bool:
        pending, seen = [start], {start}
        while pending:
            node = pending.pop()
            if node is wanted:
                return True
            operands = [self.values[operand] for operand in node.operands] if isinstance(node, Apply) else []
            further = [operand for operand in operands if operand not in seen]
            seen.update(further)
            pending += further
        return False

    def bounds_of(self, point: Node) -> set[int]:
        """The two leaves that a point is a mean of: none where it is something else.

        A point may be a leaf that the iteration before computed, from the bounds as that left them.
        """
        held = self.leaves.get(point)
        start = point if held is None else self.results[held]
        moved = {value: leaf for leaf, value in enumerate(self.results) if held is not None and value is not start}
        read: list[int] = []
        pending = [] if start is None else [start]
        while pending and len(read) <= MOST_READS:
            node = pending.pop()
            leaf = moved.get(node, self.leaves.get(node))
            if leaf is not None:
                read.append(leaf)
            elif isinstance(node, Apply) and (node.opcode in _MEANS or node.opcode in _PASSED_ON):
                pending += [self.values[operand] for operand in node.operands]
            elif not isinstance(node, Constant):
                return set()
        return set(read) if len(read) <= MOST_READS else set()

    def is_shrinking_step(self, leaf: int, point: Node) -> bool:
        """Whether a point is a step away from a leaf, and each iteration multiplies the step by a constant."""
        if point.opcode not in ("add", "subtract"):
            return False
        read = {self._leaf(operand) for operand in point.operands}
        steps = read - {leaf, None}
        if leaf not in read or len(steps) != 1:
            return False
        (step,) = steps
        result = self.results[step] if step is not None else None
        if not isinstance(result, Apply) or result.opcode not in ("multiply", "divide"):
            return False
        others = [operand for operand in result.operands if self._leaf(operand) != step]
        return len(others) == 1 and isinstance(_unwrapped(others[0]), Constant)

    def _leaf(self, node: Node) -> int | None:
        return self.leaves.get(self.values[_unwrapped(node)])


def _choices(node: Node | None) -> Iterator[tuple[Node, list[Node]]]:
    """What chooses a value, and the values that it chooses from: a select, or a branch that yields an operand."""
    if not isinstance(node, Apply):
        return
    if node.opcode == "select":
        yield node.operands[0], list(node.operands[1:])
    elif node.opcode == "conditional":
        yield from _branches(node, 0)
    elif node.opcode == "get-tuple-element":
        (source,) = node.operands
        if isinstance(source, Apply) and source.opcode == "conditional":
            yield from _branches(source, node.attributes["index"])


def _branches(node: Apply, leaf: int) -> Iterator[tuple[Node, list[Node]]]:
    alternatives = []
    for graph, operand in zip(node.called_graphs, node.operands[1:], strict=False):
        results, given = leaf_nodes(graph.root), leaf_nodes(operand)
        result = results[leaf] if leaf < len(results) else None
        held = None if result is None else LoopState(graph, graph.parameters[0], operand).leaf_of(result)
        value = None if held is None or held >= len(given) else given[held]
        if value is None:
            return
        alternatives.append(value)
    yield node.operands[0], alternatives


def _rank(node: Node) -> int | None:
    return node.type.rank if isinstance(node.type, TensorType) else None


def _unwrapped(node: Node) -> Node:
    while isinstance(node, Apply) and node.opcode in _PASSED_ON:
        node = node.operands[0]
    return node
