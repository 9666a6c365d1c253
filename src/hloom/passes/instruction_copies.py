"""What copies of instructions need of their own: channels of collectives, and computations that run asynchronously."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloom.ir import Module, Node, Trait
from hloom.ops import ASYNC_PARTS, with_trait

TRANSFER_STARTS = with_trait(Trait.POINT_TO_POINT) & with_trait(Trait.ASYNC_START)
TRANSFER_ENDS = with_trait(Trait.POINT_TO_POINT) & with_trait(Trait.ASYNC_DONE)


class ChannelNumbers:
    """Numbers of channels that no collective of a module has yet: a copy must not talk on the original's channel."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._next_channel = 0

    def renumber(self, copies: Sequence[Node]) -> None:
        """Give the collectives among copies that stand beside each other own channels; those that shared one do."""
        talking = [node for node in copies if node.attributes.get("channel_id") is not None]
        if _ends_elsewhere(talking):
            talking = [node for node in talking if not node.has_trait(Trait.POINT_TO_POINT)]
        if talking and not self._next_channel:
            used = [node.attributes.get("channel_id") for node in self._module.nodes()]
            self._next_channel = 1 + max(number for number in used if number is not None)
        renumbered: dict[int, int] = {}
        for node in talking:
            old = node.attributes["channel_id"]
            if old not in renumbered:
                renumbered[old], self._next_channel = self._next_channel, self._next_channel + 1
            node.graph.set_attributes(node, node.attributes.changed(channel_id=renumbered[old]))


def separate_computations(copies: Iterable[Node]) -> None:
    """Give each asynchronous operation among copies, in their order, a computation of its own.

    What follows a start runs what the start does, which may be of another round of a loop.
    """
    for node in copies:
        called = node.attributes.get("calls") if node.opcode in ASYNC_PARTS else None
        if called is None:
            continue
        is_start = node.opcode == "async-start"
        own = called.module.clone_graph(called) if is_start else node.inputs[0].attributes.get("calls", called)
        if own is not called:
            node.graph.set_attributes(node, node.attributes.changed(calls=own))


def _ends_elsewhere(nodes: Iterable[Node]) -> bool:
    """Whether a transfer starts in one round of a loop and ends in another: all its rounds then use one channel."""
    return any(node.opcode in TRANSFER_ENDS and _starts_elsewhere(node, set(nodes)) for node in nodes)


def _starts_elsewhere(end: Node, nodes: set[Node]) -> bool:
    return not any(operand in nodes and operand.opcode in TRANSFER_STARTS for operand in end.inputs)
