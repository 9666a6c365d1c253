"""Tuples where StableHLO takes arrays only: as constants and as what is selected."""

from __future__ import annotations

from typing import Any

from hloom.ir import Node, TupleType, Type
from hloom.ir.literal import Literal
from hloom.runtime.emit import Emitter
from hloom.text import Unsupported

DEEPEST = 100
"""How deep tuples may nest here; what XLA prints has two or three levels."""


def expand_constant(node: Any) -> None:
    """Make a constant of a tuple from constants of its elements.

        constant((1, {2, 3}))  ->  tuple(constant(1), constant({2, 3}))
    """
    if isinstance(node.value, Literal) and node.value.is_tuple:
        _check_depth(node.value.type)
        emitter = Emitter(node)
        emitter.finish(_constant(emitter, node.value))


def expand_select(node: Node) -> None:
    """Select each array of a tuple: tuple-select is an opcode of 2020 that today's XLA has no more.

        tuple-select(p, t, f)  ->  tuple(select(p, t#0, f#0), ...)
    """
    predicate, one, other = node.inputs
    _check_depth(node.type)
    emitter = Emitter(node)
    emitter.finish(_select(emitter, predicate, one, other, node.type))


def _check_depth(kind: Type | None) -> None:
    level: list[Type | None] = [kind]
    for _ in range(DEEPEST):
        level = [element for each in level if isinstance(each, TupleType) for element in each.elements]
    if level:
        raise Unsupported(f"its tuples nest deeper than {DEEPEST}")


def _constant(emitter: Emitter, literal: Literal) -> Node:
    if not literal.is_tuple:
        return emitter.graph.add_constant(literal, literal.type, before=emitter.node)
    elements = tuple(_constant(emitter, element) for element in literal.elements)
    return emitter.apply("tuple", elements, literal.type)


def _select(emitter: Emitter, predicate: Node, one: Node, other: Node, kind: Type | None) -> Node:
    if kind is None:
        raise Unsupported("its type is not written")
    if not isinstance(kind, TupleType):
        return emitter.apply("select", (predicate, one, other), kind)
    chosen = []
    for index, element in enumerate(kind.elements):
        parts = [emitter.apply("get-tuple-element", (whole,), element, index=index) for whole in (one, other)]
        chosen.append(_select(emitter, predicate, parts[0], parts[1], element))
    return emitter.apply("tuple", tuple(chosen), kind)
