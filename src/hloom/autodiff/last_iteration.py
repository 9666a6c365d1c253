"""Loops whose iterations overwrite the state, such as rejection sampling: only the last iteration has a derivative.

    x = draw(key, rate)   until   accepts(x, rate)

The state before the last iteration has no part in the result but through integers, and what never changes. The forward
loop carries the residuals of its latest iteration; the backward loop runs once, or not at all where the forward one did
not. So neither time nor memory depends on the trip count, and nothing is computed again.
"""

from __future__ import annotations

from typing import Any

from hloom.autodiff.activity import bits
from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import PREDICATE, Emitter, array_type, flatten, leaf_types, unflatten
from hloom.autodiff.linear import Tape
from hloom.autodiff.linearize import Linearized, Session, Task, Transposed, Walk, linearized, transposed
from hloom.autodiff.loop_state import LoopState, loop, with_leaves
from hloom.ir import Apply, Graph, Node


def overwrites(session: Session, node: Apply, active: int) -> bool:
    """Whether active leaves after an iteration depend on none before it but on those that never change."""
    body: Graph = node.attributes["body"]
    changing = active & ~sum(1 << leaf for leaf in LoopState(body, None, node.operands[0]).invariant)
    summary = session.activity.summary(body)
    return bool(changing) and not any(summary[leaf] & changing for leaf in bits(changing))


def overwriting_loop(walk: Walk, node: Apply, init: Node, leaves: list[Any], active: int) -> Task:
    """A loop that overwrites its active leaves, in reverse mode."""
    session, value_type, types = walk.session, node.type, leaf_types(node.type)
    assert value_type is not None, "a loop has a type"
    session.loop_depth += 1
    part: Linearized = yield linearized(session, node.attributes["body"], active, active)
    session.loop_depth -= 1
    part.forward.set_output(part.value)
    back = transposed(session, part, bits(active))
    started = flatten(walk.emitter, init)
    done, has_run, residuals = _forward(walk.emitter, node, part, back, started)
    given = sorted(part.inputs)  # those that the body overwrites too: the loop may not run at all

    def transpose(backward: Backward, cotangents: list[Node | None]) -> None:
        value = {leaf: cotangent for leaf, cotangent in zip(given, cotangents, strict=True) if cotangent is not None}
        first = [value.get(leaf) or backward.zeros(types[leaf]) for leaf in given]
        for leaf, result in zip(given, _backward(backward, node, back, given, first, has_run, residuals), strict=True):
            backward.give(leaves[leaf], result)

    assert isinstance(walk.ops, Tape), "reverse mode"
    outputs = walk.ops.call([types[leaf] for leaf in given], leaves, transpose)
    tangents = dict(zip(given, outputs, strict=True))
    return unflatten(walk.emitter, value_type, done), [tangents.get(leaf) for leaf in range(len(types))]


def _forward(
    emitter: Emitter, node: Apply, part: Linearized, back: Transposed, started: list[Node]
) -> tuple[list[Node], Node, list[Node]]:
    """The loop with the residuals of its latest iteration: its leaves, whether it has run, the residuals."""
    state = LoopState(part.forward, part.value, node.operands[0])
    never_change = {residual: state.leaf_of(residual) for residual in back.residuals}
    kept = {residual: started[leaf] for residual, leaf in never_change.items() if leaf in state.invariant}
    latest = [residual for residual in back.residuals if residual not in kept]
    count = len(started)

    def goes_on(inner: Emitter, held: list[Node]) -> Node:
        graph: Graph = node.attributes["condition"]
        return with_leaves(inner, graph, held[:count])[graph.root]

    def step(inner: Emitter, held: list[Node]) -> list[Node]:
        mapping = with_leaves(inner, part.forward, held[:count])
        after = flatten(inner, mapping[part.value])
        return [*after, inner.constant(True, PREDICATE), *[mapping[residual] for residual in latest]]

    unknown = [emitter.zeros(array_type(residual)) for residual in latest]
    done = loop(emitter, node.name, [*started, emitter.constant(False, PREDICATE), *unknown], goes_on, step)
    kept.update(zip(latest, done[count + 1 :], strict=True))
    return done[:count], done[count], [kept[residual] for residual in back.residuals]


def _backward(
    backward: Backward,
    node: Apply,
    back: Transposed,
    carried: list[int],
    cotangents: list[Node],
    has_run: Node,
    residuals: list[Node],
) -> list[Node]:
    """The cotangents of the leaves before the loop: those after it, taken back by one iteration where there was one."""

    def remains(inner: Emitter, state: list[Node]) -> Node:
        return state[0]

    def step_back(inner: Emitter, state: list[Node]) -> list[Node]:
        incoming = dict(zip(carried, state[1 : 1 + len(carried)], strict=True))
        held = state[1 + len(carried) :]
        results = back.embed(inner, [incoming[leaf] for leaf in back.cotangents], held)
        after = [results[leaf] if leaf in results else inner.zeros(array_type(incoming[leaf])) for leaf in carried]
        return [inner.constant(False, PREDICATE), *after, *held]

    done = loop(backward, f"{node.name}.backward", [has_run, *cotangents, *residuals], remains, step_back)
    return done[1 : 1 + len(carried)]
