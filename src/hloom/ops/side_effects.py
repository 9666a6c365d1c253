"""What may be done with an instruction, by its effect: dropped when nothing uses it, or merged, moved, copied."""

from __future__ import annotations

from hloom.ir import Apply, Effect, Graph, Node, Op

_STRENGTH = (Effect.OUTSIDE, Effect.COMMUNICATION, Effect.STATE, Effect.ORDER)
"""What calls of several graphs do is the first of these that one of them does."""


def effect_of(node: Node) -> Effect | None:
    """What a node does beside yielding its value, calls followed; never Effect.CALLS.

    A custom call without `custom_call_has_side_effect` does nothing else; an opcode that no table has may do anything.
    """
    if not isinstance(node, Apply):
        return None
    op = node.function
    if not isinstance(op, Op):
        return Effect.OUTSIDE
    if op.effect is None and op.is_known:
        return None
    effect = _own_effect(node)
    return _effect_of_graphs(node) if effect is Effect.CALLS else effect


def may_drop(node: Node) -> bool:
    """Whether an unused node may go: its value is all there is to it, or an order that nothing waits for."""
    return effect_of(node) in (None, Effect.ORDER)


def may_merge(node: Node) -> bool:
    """Whether two of the same node are one, and one may be moved or computed twice."""
    return effect_of(node) is None


def _own_effect(node: Apply) -> Effect | None:
    if not node.op.is_known:
        return Effect.OUTSIDE
    if node.opcode == "custom-call":
        return Effect.OUTSIDE if node.attributes.get("custom_call_has_side_effect") else None
    return node.op.effect


def _effect_of_graphs(node: Apply) -> Effect | None:
    effects: set[Effect] = set()
    seen: set[Graph] = set()
    pending = list(node.called_graphs)
    while pending:
        graph = pending.pop()
        if graph in seen:
            continue
        seen.add(graph)
        if graph.is_declared:
            return Effect.OUTSIDE
        for member in graph.nodes:
            if not isinstance(member, Apply):
                continue
            effect = _own_effect(member) if member.has_row else Effect.OUTSIDE
            if effect is Effect.CALLS:
                pending.extend(member.called_graphs)
            elif effect is not None:
                effects.add(effect)
    return next((effect for effect in _STRENGTH if effect in effects), None)
