"""Recognises functions computed by several instructions from their expressions, and differentiates them as a whole.

    select(ne(d, d), a + b, max(a, b) + log1p(exp(-|d|))), d = a - b        is log(exp(a) + exp(b))

A rule for such an expression gives the tangent of its root from those of its arguments. What is computed inside is
copied as any instruction is, and erased where nothing reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hloom.ir import Apply, Graph, Node, Trait
from hloom.ops import OPS, splat_number, with_trait

Expression = str | float | None | tuple[Any, ...]
"""A name, bound to the node that stands there and to the same one wherever it stands again; a number, for a constant
of that value in every element; None, for any constant number; or an opcode and expressions of its operands. compare
has its direction behind a dot. ("as", name, expression) binds a name to what an expression matches."""

_PLAIN_OPCODES = frozenset(OPS)
"""Heads of expressions that stand for themselves: with no direction behind them, and not "as"."""
TOLERANCE = 1e-6
"""The relative tolerance for a constant to match a number, as rounded to its element type."""


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """An expression and the tangent of its root: (linear ops, root, nodes by name, tangents by name) -> tangent.

    `arguments` are the names whose tangents are given.
    """

    expression: tuple[Any, ...]
    arguments: tuple[str, ...]
    linearize: Callable[..., Any]
    operands: frozenset[str] = frozenset()
    """Opcodes that operands of the root must have: most roots are passed by for want of them."""


@dataclass(frozen=True, slots=True)
class Recognized:
    """An instruction that is the root of a known function: the nodes that its rule needs, by name."""

    rule: FunctionRule
    nodes: dict[str, Node]
    inside: frozenset[Node]


Matcher = Callable[[Apply], Recognized | None]

FUNCTIONS: dict[str, list[FunctionRule | Matcher]] = {}
"""The functions that are recognised, by the opcode of their root."""


def function(expression: tuple[Any, ...], arguments: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the linearization of a function by the expression that computes it."""

    def declare(linearize: Callable[..., Any]) -> Callable[..., Any]:
        opcode = expression[0].partition(".")[0]
        parts = [_named(part) for part in expression[1:]]
        operands = _PLAIN_OPCODES.intersection(part[0] for part in parts if isinstance(part, tuple))
        rule = FunctionRule(expression, tuple(arguments.split()), linearize, operands)
        FUNCTIONS.setdefault(opcode, []).append(rule)
        return linearize

    return declare


def _named(expression: Any) -> Any:
    """The expression that is bound to a name; any other itself."""
    while isinstance(expression, tuple) and expression[0] == "as":
        expression = expression[2]
    return expression


def recognize(graph: Graph, stop: frozenset[Node]) -> dict[Node, Recognized]:
    """The instructions of a graph that are roots of known functions with nothing inside at which derivatives stop."""
    result: dict[Node, Recognized] = {}
    for node in graph.nodes:
        rules = FUNCTIONS.get(node.opcode)
        if rules is None:
            continue
        opcodes = {operand.opcode for operand in node.operands}
        if "get-tuple-element" in opcodes:
            opcodes = {_from_tuple(operand).opcode for operand in node.operands}
        for rule in rules:
            if isinstance(rule, FunctionRule):
                made = _by_expression(rule, node) if rule.operands <= opcodes else None
            else:
                made = rule(node) if isinstance(node, Apply) else None
            if made is not None and not made.inside & stop:
                result[node] = made
                break
    return result


def _by_expression(rule: FunctionRule, node: Node) -> Recognized | None:
    names = match(rule.expression, node, {})
    if names is None:
        return None
    outside = {names[name] for name in rule.arguments}
    inside: set[Node] = set()
    pending: list[Node] = [node]
    while pending:
        current = _from_tuple(pending.pop())
        if current not in inside and current not in outside and splat(current) is None:
            inside.add(current)
            pending += current.operands
    return Recognized(rule, names, frozenset(inside))


def match(expression: Expression, node: Node, names: dict[str, Node]) -> dict[str, Node] | None:
    """The names of an expression bound to nodes, where a node computes it; None where it does not."""
    if node.opcode == "get-tuple-element":
        node = _from_tuple(node)
    if isinstance(expression, str):
        known = names.get(expression)
        return {**names, expression: node} if known is None else names if known is node else None
    if not isinstance(expression, tuple):
        value = splat(node)
        if value is None or (expression is not None and not _equal(value, expression)):
            return None
        return names
    opcode, *parts = expression
    if opcode == "as":
        name, inner = parts
        if name in names:
            return names if names[name] is node else None
        result = match(inner, node, names)
        return None if result is None else {**result, name: node}
    opcode, _, direction = opcode.partition(".")
    if node.opcode != opcode or len(node.operands) != len(parts):
        return None
    if direction and node.attributes["direction"] != direction:  # pyright: ignore[reportAttributeAccessIssue]
        return None
    orders = [node.operands, node.operands[::-1]] if opcode in with_trait(Trait.COMMUTATIVE) else [node.operands]
    for order in orders:
        result: dict[str, Node] | None = names
        for part, operand in zip(parts, order, strict=True):
            expected = part[0] if isinstance(part, tuple) and part[0] in _PLAIN_OPCODES else operand.opcode
            if operand.opcode not in (expected, "get-tuple-element"):
                result = None
                break
            result = match(part, operand, result)
            if result is None:
                break
        if result is not None:
            return result
    return None


def _from_tuple(node: Node) -> Node:
    """The operand of a tuple that an element of it is; calls that were inlined leave such elements."""
    while isinstance(node, Apply) and node.opcode == "get-tuple-element" and node.operands[0].opcode == "tuple":
        node = node.operands[0].operands[node.attributes["index"]]
    return node


def _equal(value: Any, expected: float) -> bool:
    if isinstance(value, complex):
        return False
    return bool(abs(value - expected) <= TOLERANCE * abs(expected))


def splat(node: Node) -> Any:
    """The number that is every element of a constant; None where that is not known."""
    number = splat_number(node)
    return None if number is None else number.item()


def triangle_of(predicate: Node) -> tuple[Any, ...] | None:
    """What tells triangles of matrices apart, for a predicate that compares numbers of rows and columns; else None."""
    dims: tuple[int, ...] = getattr(predicate.type, "dims", ())
    shift = 0
    if isinstance(predicate, Apply) and predicate.opcode == "broadcast":
        if tuple(predicate.attributes["dimensions"]) != (len(dims) - 2, len(dims) - 1):
            return None
        predicate, shift = predicate.operands[0], len(dims) - 2
    if not isinstance(predicate, Apply) or predicate.opcode != "compare" or len(dims) < 2:
        return None
    numbers = tuple(_counted_dim(operand) for operand in predicate.operands)
    direction = predicate.attributes["direction"]
    row, column = len(dims) - 2 - shift, len(dims) - 1 - shift
    if numbers not in ((row, column), (column, row)):
        return None
    if numbers[0] == column:
        direction = {"GE": "LE", "LE": "GE", "GT": "LT", "LT": "GT"}.get(direction, direction)
    return dims, direction


def _counted_dim(node: Node) -> int | None:
    """The dimension along which a node counts from 0; None for other nodes."""
    if isinstance(node, Apply) and node.opcode == "add" and splat(node.operands[1]) == 0:
        node = node.operands[0]
    if isinstance(node, Apply) and node.opcode == "iota":
        return node.attributes["iota_dimension"]
    if isinstance(node, Apply) and node.opcode == "broadcast" and node.operands[0].opcode == "iota":
        dimensions = tuple(node.attributes["dimensions"])
        return dimensions[0] if len(dimensions) == 1 else None
    return None
