"""Profitability: whether a replacement makes a module cheaper, each node counted once however often it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hloom.ir import Node


def is_profitable(cost: Callable[[Node], float], replacement: Mapping[Node, Node], made: Sequence[Node]) -> bool:
    """Whether the nodes that a replacement needs cost less than those that nothing uses after it."""
    needed = _needed(replacement, set(made))
    return sum(map(cost, needed)) < sum(map(cost, _freed(replacement, needed, set(made))))


def _needed(replacement: Mapping[Node, Node], made: set[Node]) -> set[Node]:
    """The made nodes that the replacement stands on."""
    needed: set[Node] = set()
    pending = [node for node in replacement.values() if node in made]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending.extend(operand for operand in node.inputs if operand in made)
    return needed


def _freed(replacement: Mapping[Node, Node], needed: set[Node], made: set[Node]) -> set[Node]:
    """The nodes that die: what is replaced, and what only dead nodes use."""
    kept = set(replacement.values())
    dead = {node for node in replacement if node not in kept}
    pending = list(dead)
    while pending:
        for below in pending.pop().inputs:
            if below in dead or below in kept or below.is_output or below.opcode == "parameter":
                continue
            if all(user in dead or (user in made and user not in needed) for user in below.users):
                dead.add(below)
                pending.append(below)
    return dead
