"""Cheap questions about a node and its operands that distinguish rules.

They are the inner nodes of the index's decision tree, as the positional predicates of MLIR's PDL interpreter are
(mlir/lib/Conversion/PDLToPDLInterp/PredicateTree.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hloom.ir import Apply, Node, TensorType
from hloom.rewrite.matchers import splat_of

Question = tuple[str, tuple[int, ...], str]
"""A fact to look up: its kind, the path to the node (operand numbers from the root), and an attribute's name."""
Answers = Mapping[Question, tuple[Any, ...]]
"""Facts, with the answers for which a rule may match."""


def answer_to(question: Question, node: Node) -> Any:
    """The answer to a question; None if there is no such node."""
    subject, way, name = question
    for operand_index in way:
        if operand_index >= len(node.operands):
            return None
        node = node.operands[operand_index]
    return _SUBJECTS[subject](node, name)


def _opcode(node: Node, name: str) -> str:
    return node.opcode


def _attribute(node: Node, name: str) -> Any:
    value = node.attribute(name) if isinstance(node, Apply) else node.attributes.get(name)
    try:
        hash(value)
    except TypeError:
        return None
    return value


def _splat(node: Node, name: str) -> Any:
    splat = splat_of(node)
    return None if splat is None else splat.item()


def _element(node: Node, name: str) -> str | None:
    return node.type.dtype.name if isinstance(node.type, TensorType) else None


def _rank(node: Node, name: str) -> int | None:
    return node.type.rank if isinstance(node.type, TensorType) else None


_SUBJECTS: dict[str, Callable[[Node, str], Any]] = {
    "opcode": _opcode,
    "attribute": _attribute,
    "splat": _splat,
    "element": _element,
    "rank": _rank,
}
