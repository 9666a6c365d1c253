"""Asynchronous chains: from async-done and async-update back to the async-start they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import Apply, Graph, Node


def chain_start(inputs: Sequence[Node]) -> Apply | None:
    """The async-start that an async-update or async-done goes back to; None where it goes back to none."""
    node = inputs[0] if inputs else None
    while isinstance(node, Apply) and node.opcode == "async-update" and node.inputs:
        node = node.inputs[0]
    return node if isinstance(node, Apply) and node.opcode == "async-start" else None


def wrapped_opcode(inputs: Sequence[Node]) -> str | None:
    """The opcode that the async-start behind these inputs wraps, or None."""
    start = chain_start(inputs)
    graph = start.attributes.get("calls") if start else None
    return graph.output.opcode if isinstance(graph, Graph) and graph.output else None
