"""Maxima that only keep exponentials from overflowing: their derivative is known to be zero.

    m = reduce-max(x);  e = exp(x - m);  e / sum(e)          does not depend on m, nor does
    m = reduce-max(x);  log(sum(exp(x - m))) + m

JAX stops the gradient at such a maximum; HLO does not say so. Here it is proven: m is moved by a symbolic amount, and
each value that it reaches is followed as what it gains (a multiple of the amount) or is scaled by (a power of its
exponential). Where all of them end in values that neither gain nor are scaled, the maximum counts as a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.ir import Apply, Graph, Module, Node, Trait, node_axes
from hloom.ops import reducer_of, splat_number, with_trait

MOST_FOLLOWED = 200
"""How many instructions are followed from one maximum."""
_LINEAR = (with_trait(Trait.REINDEXES) - {"reverse", "slice"}) | {"convert"}
"""Ops that move every element, and keep those of a dimension in order."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A value that gains `gain` times the amount, or is scaled by its exponential to the power `power`.

    `dims` tells, for each dimension of the maximum, in which dimension of the value it stands; the amount is the same
    along all others.
    """

    gain: int
    power: int
    dims: tuple[int, ...]


def shift_invariant_maxima(module: Module) -> frozenset[Node]:
    """The maxima that may be moved without changing any result of their computations."""
    result: set[Node] = set()
    for graph in module.graphs:
        maxima = [node for node in graph.nodes if node.attributes.refers and _is_maximum(node)]
        if maxima and any(node.opcode == "exponential" for node in graph.nodes):
            result.update(_free_maxima(graph, maxima))
    return frozenset(result)


def _is_maximum(node: Node) -> bool:
    return node.opcode == "reduce" and len(node.operands) == 2 and reducer_of(node.attributes["to_apply"]) == "maximum"


def _free_maxima(graph: Graph, maxima: Sequence[Node]) -> list[Node]:
    """The maxima that, followed in order, end in values that do not move."""
    moves = {node: _Move(node, graph.root) for node in maxima}
    reached: dict[Node, list[_Move]] = {}
    for node in graph.nodes:
        if not reached.keys().isdisjoint(node.operands):
            reaching = dict.fromkeys(move for operand in node.operands for move in reached.get(operand, ()))
            further = [move for move in reaching if move.is_free and move.passes(node)]
            if further:
                reached[node] = further
        if node in moves:
            reached.setdefault(node, []).append(moves[node])
    return [node for node, move in moves.items() if move.is_free]


class _Move:
    """What has been seen of a maximum that is moved: the values that it moves, and whether it may be free."""

    __slots__ = ("_count", "_moved", "_root", "_tuples", "is_free")

    def __init__(self, start: Node, root: Node) -> None:
        rank = len(getattr(start.type, "dims", ()))
        self._moved: dict[Node, Moved] = {start: Moved(1, 0, tuple(range(rank)))}
        self._tuples: set[Node] = set()
        """Tuples of which elements alone are read, as calls that were inlined leave them."""
        self._root = root
        self._count = 0
        self.is_free = start is not root

    def passes(self, node: Node) -> bool:
        """Follow to an instruction that reads a value that is moved; whether its own value is."""
        self._count += 1
        reads_tuple = node.opcode != "get-tuple-element" and not self._tuples.isdisjoint(node.operands)
        if reads_tuple or self._count > MOST_FOLLOWED or not isinstance(node, Apply):
            self.is_free = False
            return False
        if node.opcode == "tuple":
            self._tuples.add(node)
            self.is_free = node is not self._root
            return True
        after = _after(node, self._moved)
        is_moved = after is None or bool(after.gain or after.power)
        self.is_free = not is_moved or (after is not None and node is not self._root)
        if after is not None and is_moved:
            self._moved[node] = after
        return is_moved


STILL = Moved(0, 0, ())


def _after(node: Apply, moved: dict[Node, Moved]) -> Moved | None:
    if node.opcode == "get-tuple-element" and node.operands[0].opcode == "tuple":
        return moved.get(node.operands[0].operands[node.attributes["index"]], STILL)
    return _follow(node, [moved.get(operand) for operand in node.operands])


def _follow(node: Apply, touched: list[Moved | None]) -> Moved | None:
    """What becomes of the result; None where that is not known."""
    opcode = node.opcode
    first = touched[0] if touched else None
    if opcode in _LINEAR:
        return first and follow_shape(node, first)
    if opcode == "reduce":
        return _reduced(node, touched)
    if opcode == "is-finite":
        return STILL
    if opcode in ("compare", "sign") and first is not None:
        return STILL if opcode == "sign" and not first.gain else None
    if opcode == "abs" and first is not None:
        return None if first.gain else first
    if opcode in ("exponential", "log") and first is not None:
        if opcode == "exponential" and not first.power:
            return Moved(0, first.gain, first.dims)
        if opcode == "log" and not first.gain:
            return Moved(first.power, 0, first.dims)
        return None
    if opcode == "select":
        return _selected(node, touched)
    if opcode == "maximum":
        return _with_nothing(node, touched)
    if len(touched) == 2:
        return _combined(opcode, touched)
    return None


def _combined(opcode: str, touched: list[Moved | None]) -> Moved | None:
    a, b = touched
    dims = a.dims if a is not None else b.dims if b is not None else ()
    if a is not None and b is not None and a.dims != b.dims:
        return None
    (gain_a, power_a), (gain_b, power_b) = ((value.gain, value.power) if value else (0, 0) for value in (a, b))
    if opcode in ("add", "subtract"):
        sign = 1 if opcode == "add" else -1
        if power_a or power_b:
            same = a is not None and b is not None and power_a == power_b and not gain_a and not gain_b
            return Moved(0, power_a, dims) if same else None
        return Moved(gain_a + sign * gain_b, 0, dims)
    if opcode in ("multiply", "divide"):
        sign = 1 if opcode == "multiply" else -1
        return None if gain_a or gain_b else Moved(0, power_a + sign * power_b, dims)
    return None


def _with_nothing(node: Apply, touched: list[Moved | None]) -> Moved | None:
    """maximum(m, -inf) is m."""
    for own, other in ((0, 1), (1, 0)):
        if touched[own] is not None and touched[other] is None and splat_number(node.operands[other]) == -np.inf:
            return touched[own]
    return None


def _selected(node: Apply, touched: list[Moved | None]) -> Moved | None:
    """select(is-finite(m), m, c): where m is not finite it is a constant, and there it does not move."""
    predicate, on_true, _ = node.operands
    if touched[0] is not None:
        return None
    if predicate.opcode == "is-finite" and predicate.operands[0] is on_true and touched[2] is None:
        return touched[1]
    if touched[1] is not None and touched[2] is not None and touched[1] == touched[2]:
        return touched[1]
    return None


def _reduced(node: Apply, touched: list[Moved | None]) -> Moved | None:
    """A sum of scaled values is scaled, where the amount is the same for all that are added up."""
    first = touched[0]
    if first is None or any(touched[1:]) or first.gain or len(touched) != 2:
        return None
    if reducer_of(node.attributes["to_apply"]) != "add":
        return None
    gone = node.attributes["dimensions"]
    if any(dim in gone for dim in first.dims):
        return None
    return Moved(0, first.power, tuple(dim - sum(value < dim for value in gone) for dim in first.dims))


def follow_shape(node: Apply, moved: Moved) -> Moved | None:
    """The value after an instruction that only moves elements; None where its dimensions cannot be followed."""
    axes = node_axes(node)
    if axes is None:
        return None
    targets, sizes = axes.target_dims(), node.operands[0].dims
    if any(targets[dim] is None and sizes[dim] != 1 for dim in moved.dims):
        return None
    return Moved(moved.gain, moved.power, tuple(target for dim in moved.dims if (target := targets[dim]) is not None))
