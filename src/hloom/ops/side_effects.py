"""What an instruction's effect permits: dropping it when unused, merging, moving and copying it."""

from __future__ import annotations

from collections.abc import Iterable

from hloom.ir import Apply, Effect, Graph, Node, Op, Trait

CONTROL_PREDECESSORS = "control-predecessors"
"""The attribute that names the nodes a node must run after."""
_STRENGTH = (Effect.OUTSIDE, Effect.COMMUNICATION, Effect.STATE, Effect.ORDER)
"""Effects from strongest to weakest; the effect of several called graphs is the strongest one among them."""
_ASYNC_STEPS = (Trait.ASYNC_UPDATE, Trait.ASYNC_DONE)
_LONGEST_ASYNC = 1_000
"""The maximum number of steps followed to the start of an asynchronous operation; a longer one may do anything."""


def effect_of(node: Node) -> Effect | None:
    """A node's side effect, calls followed; never Effect.CALLS.

    A custom call without `custom_call_has_side_effect` has none; an opcode that is in no table may do anything.
    """
    effect = _own_effect(node)
    if effect is not Effect.CALLS:
        return effect
    called = _called_graphs(node)
    return Effect.OUTSIDE if called is None else _effect_of_graphs(called)


def may_drop(node: Node) -> bool:
    """Whether an unused node may be removed: it has no effect besides its value or an order that nothing waits for.

    A node with control dependencies on others stays, as in XLA (`HloComputation::IsSafelyRemovable`,
    xla/hlo/ir/hlo_computation.cc); one that others wait for counts as used.
    """
    return not node.attributes.get(CONTROL_PREDECESSORS) and only_yields(node)


def only_yields(node: Node) -> bool:
    """Whether a node has no effect besides its value or an order that nothing waits for, whatever it waits for itself.
    """
    return effect_of(node) in (None, Effect.ORDER)


def may_merge(node: Node) -> bool:
    """Whether two identical nodes may be merged, and one may be moved or recomputed."""
    return effect_of(node) is None


def _own_effect(node: Node) -> Effect | None:
    """A node's own effect; Effect.CALLS if its graphs decide."""
    if not isinstance(node, Apply):
        return None
    op = node.function
    if not isinstance(op, Op) or not op.is_known:
        return Effect.OUTSIDE
    if op.name == "custom-call":
        return Effect.OUTSIDE if node.attributes.get("custom_call_has_side_effect") else None
    return op.effect


def _called_graphs(node: Node) -> Iterable[Graph] | None:
    """The graphs that a node calls; of a step of an asynchronous operation those of its start, None if that is far.

    An unread end stays with a start that does something: XLA refuses the one without the other.
    """
    for _ in range(_LONGEST_ASYNC):
        if node.called_graphs or not node.operands or not any(map(node.has_trait, _ASYNC_STEPS)):
            return node.called_graphs
        node = node.operands[0]
    return None


class SideEffects:
    """Effects of nodes, with the effects of called graphs cached, for passes that ask about many calls.

    Valid as long as no node with an effect is added to or removed from a graph.
    """

    def __init__(self) -> None:
        self._of_graph: dict[Graph, Effect | None] = {}

    def may_merge(self, node: Node) -> bool:
        """As the function `may_merge`."""
        return self._effect_of(node) is None

    def may_drop(self, node: Node) -> bool:
        """As the function `may_drop`."""
        return not node.attributes.get(CONTROL_PREDECESSORS) and self._effect_of(node) in (None, Effect.ORDER)

    def _effect_of(self, node: Node) -> Effect | None:
        effect = _own_effect(node)
        if effect is not Effect.CALLS:
            return effect
        called = _called_graphs(node)
        return Effect.OUTSIDE if called is None else _strongest({self._effect(graph) for graph in called})

    def _effect(self, graph: Graph) -> Effect | None:
        """The strongest effect in a graph and those that it calls, callees first."""
        pending = [graph]
        opened: set[Graph] = set()
        while pending:
            current = pending[-1]
            if current in self._of_graph:
                pending.pop()
                continue
            own, callees = _effects_within(current)
            unknown = [callee for callee in callees if callee not in self._of_graph]
            if unknown and current not in opened:
                opened.add(current)
                pending += unknown
                continue
            # an unknown callee calls this graph back (recursion): compute the effect of everything reachable at once
            below = _effect_of_graphs(unknown) if unknown else None
            self._of_graph[current] = _strongest({*own, below, *(self._of_graph.get(callee) for callee in callees)})
            pending.pop()
        return self._of_graph[graph]


def _effects_within(graph: Graph) -> tuple[set[Effect], list[Graph]]:
    """The effects of a graph's own nodes, and the graphs that it calls."""
    if graph.is_declared:
        return {Effect.OUTSIDE}, []
    effects: set[Effect] = set()
    callees: list[Graph] = []
    for member in graph.nodes:
        effect = _own_effect(member)
        if effect is Effect.CALLS:  # an asynchronous operation's steps do what its start does
            callees.extend(member.called_graphs)
        elif effect is not None:
            effects.add(effect)
    return effects, callees


def _effect_of_graphs(graphs: Iterable[Graph]) -> Effect | None:
    effects: set[Effect | None] = set()
    seen: set[Graph] = set()
    pending = list(graphs)
    while pending:
        graph = pending.pop()
        if graph not in seen:
            seen.add(graph)
            own, callees = _effects_within(graph)
            effects |= own
            pending += callees
    return _strongest(effects)


def _strongest(effects: set[Effect | None]) -> Effect | None:
    return next((effect for effect in _STRENGTH if effect in effects), None)
