"""Facts about a node and its operands that cost little to look up and tell rules apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hloom.ir import Apply, Node, TensorType
from hloom.rewrite.looking import splat_of

Probe = tuple[str, tuple[int, ...], str]
"""A fact to look up: its kind, the way to the node (operand numbers from the root), and an attribute's name."""
Probes = Mapping[Probe, tuple[Any, ...]]
"""Facts, and the answers with which a rule may match."""


def probe(question: Probe, node: Node) -> Any:
    """The answer to a probe; None where there is no such node."""
    kind, way, name = question
    for place in way:
        if place >= len(node.inputs):
            return None
        node = node.inputs[place]
    return _KINDS[kind](node, name)


def _opcode(node: Node, name: str) -> str:
    return node.opcode


def _attribute(node: Node, name: str) -> Any:
    found = node.attribute(name) if isinstance(node, Apply) else node.attributes.get(name)
    try:
        hash(found)
    except TypeError:
        return None
    return found


def _splat(node: Node, name: str) -> Any:
    found = splat_of(node)
    return None if found is None else found.item()


def _element(node: Node, name: str) -> str | None:
    return node.type.dtype.name if isinstance(node.type, TensorType) else None


def _rank(node: Node, name: str) -> int | None:
    return node.type.rank if isinstance(node.type, TensorType) else None


_KINDS: dict[str, Callable[[Node, str], Any]] = {
    "opcode": _opcode,
    "attribute": _attribute,
    "splat": _splat,
    "element": _element,
    "rank": _rank,
}
