"""What copies of instructions must not share: channels of collectives, and computations that run asynchronously."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloom.ir import Module, Node, Trait
from hloom.ops import ASYNC_PARTS, with_trait

TRANSFER_STARTS = with_trait(Trait.POINT_TO_POINT) & with_trait(Trait.ASYNC_START)
TRANSFER_ENDS = with_trait(Trait.POINT_TO_POINT) & with_trait(Trait.ASYNC_DONE)


class ChannelNumbers:
    """Unused channel numbers: a copy must not communicate on the original's channel."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._next_channel = 0

    def renumber(self, copies: Sequence[Node]) -> None:
        """Give the collectives of one set of copies new channels; those that shared one still do."""
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
    """Give each asynchronous operation among copies, in order, its own computation.

    Updates and dones use the computation of their start, which may be in another iteration of a loop.
    """
    for node in copies:
        called = node.attributes.get("calls") if node.opcode in ASYNC_PARTS else None
        if called is None:
            continue
        is_start = node.opcode == "async-start"
        own = called.module.clone_graph(called) if is_start else node.operands[0].attributes.get("calls", called)
        if own is not called:
            node.graph.set_attributes(node, node.attributes.changed(calls=own))


def _ends_elsewhere(nodes: Iterable[Node]) -> bool:
    """Whether a transfer starts in one iteration of a loop and ends in another: all iterations then share a channel."""
    return any(node.opcode in TRANSFER_ENDS and _starts_elsewhere(node, set(nodes)) for node in nodes)


def _starts_elsewhere(end: Node, nodes: set[Node]) -> bool:
    return not any(operand in nodes and operand.opcode in TRANSFER_STARTS for operand in end.operands)
