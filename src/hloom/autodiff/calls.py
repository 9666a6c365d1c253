"""Calls and branches: called graphs are linearized separately and return their residuals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.autodiff.activity import bits, branches_of, leaf_count
from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import Emitter, leaf_types, unflatten
from hloom.autodiff.linear import Linear, Tape
from hloom.autodiff.linearize import (
    STRUCTURES,
    Session,
    Task,
    Transposed,
    Walk,
    active_leaves,
    flattened,
    leaves_of,
    linearized,
    transposed,
    with_tangents,
)
from hloom.autodiff.own_derivatives import call_of_function
from hloom.ir import Apply, Graph, Node, TupleType, Type
from hloom.rewrite import called_function

MOST_INLINED = 16
"""Computations with at most this many instructions are inlined: a call would be longer than its contents, and cotangent
masks do not pass through calls.
"""


def call(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> Task:
    """A call of the graph that yields its residuals too; backward, a call of its transposition."""
    graph = next(iter(node.called_graphs))
    leaves = flattened(node, tangents)
    own = called_function(node)
    if own is not None:
        value, moved = call_of_function(walk, node, operands, leaves, needed, own)
        return value, _placed(node.type, moved)
    if len(graph.nodes) <= MOST_INLINED:
        return (yield walk.inlined(graph, operands, leaves, needed))
    active = active_leaves(leaves)
    if walk.ops.is_forward:
        made, given = yield with_tangents(walk.session, graph, active, needed)
        further = [leaves[leaf] for leaf in bits(active)]
        return _yielded(walk.emitter, node, _apply(walk.emitter, node, made, [*operands, *further]), given)
    part, back = yield _linearized_call(walk.session, graph, active, needed)
    made = _apply(walk.emitter, node, part.forward, operands)
    value = walk.emitter.element(made, 0)
    residuals = [walk.emitter.element(made, 1 + number) for number in range(len(back.residuals))]
    types = leaf_types(node.type)

    def transpose(backward: Backward, cotangents: list[Node | None]) -> None:
        given = [
            cotangent if cotangent is not None else backward.zeros(types[leaf])
            for leaf, cotangent in zip(back.cotangents, cotangents, strict=True)
        ]
        yielded = backward.op("call", *given, *residuals, to_apply=back.graph)
        for number, leaf in enumerate(back.results):
            backward.give(leaves[leaf], backward.element(yielded, number))

    assert isinstance(walk.ops, Tape), "reverse mode"
    outputs = walk.ops.call([types[leaf] for leaf in back.cotangents], leaves, transpose)
    return value, _placed(node.type, dict(zip(back.cotangents, outputs, strict=True)))


def _apply(emitter: Emitter, node: Apply, graph: Graph, operands: Sequence[Node]) -> Node:
    assert graph.output is not None, "it has one"
    kept = {name: value for name, value in node.attributes.items() if name != "is_composite"}
    return emitter.op("call", *operands, **{**kept, "to_apply": graph, "backend_config": None})


def _linearized_call(session: Session, graph: Graph, active: int, wanted: int) -> Task:
    key = ("call", graph, active, wanted)
    if key not in session.kept:
        part = yield linearized(session, graph, active, wanted)
        back = transposed(session, part, bits(wanted))
        part.forward.set_output(Emitter(part.forward).tuple([part.value, *back.residuals]))
        back.graph.set_output(Emitter(back.graph).tuple(back.results.values()))
        session.kept[key] = part, back
    return session.kept[key]


def _yielded(emitter: Emitter, node: Apply, made: Node, leaves: Sequence[int]) -> tuple[Node, Any]:
    """The value and the tangents of what yields (value, tangents of some leaves)."""
    value = emitter.element(made, 0)
    result = {leaf: emitter.element(made, 1 + number) for number, leaf in enumerate(leaves)}
    return value, _placed(node.type, result)


def _placed(value_type: Type | None, leaves: dict[int, Any]) -> Any:
    if not isinstance(value_type, TupleType):
        return leaves.get(0)
    return [leaves.get(leaf) for leaf in range(leaf_count(value_type))]


def conditional(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> Task:
    """A choice between branches that yield their residuals too; backward, a choice between their transpositions.

    Residuals of the same type in different branches share a slot of the result; a branch fills what it lacks with
    zeros. A tangent that several branches take has one cotangent.
    """
    branches = branches_of(node)
    leaves = [leaves_of(operand, tangent) for operand, tangent in zip(node.operands[1:], tangents[1:], strict=True)]
    if walk.ops.is_forward:
        return (yield _forward_conditional(walk, node, branches, operands, leaves, needed))
    session = walk.session
    parts = []
    for graph, own in zip(branches, leaves, strict=True):
        parts.append((yield linearized(session, graph, active_leaves(own), needed)))
    given = sorted({leaf for part in parts for leaf in bits(needed) if part.tangents[leaf] is not None})
    backs = [transposed(session, part, given) for part in parts]
    slots, placed = _shared_slots(backs)
    for part, back, numbers in zip(parts, backs, placed, strict=True):
        emitter = Emitter(part.forward)
        held = dict(zip(numbers, back.residuals, strict=True))
        rest = [held[slot] if slot in held else zeros_of(emitter, value_type) for slot, value_type in enumerate(slots)]
        part.forward.set_output(emitter.tuple([part.value, *rest]))
    made = _choose(walk.emitter, node, [part.forward for part in parts], operands)
    residuals = [walk.emitter.element(made, 1 + slot) for slot in range(len(slots))]
    sources = list(dict.fromkeys(t for part in leaves for t in part if t is not None))
    sources = [value for value in sources if any(leaves[n][k] is value for n, b in enumerate(backs) for k in b.results)]
    types = leaf_types(node.type)
    graphs = [
        _backward_branch(session, back, part_leaves, sources, slots, numbers, [types[leaf] for leaf in given], given)
        for back, part_leaves, numbers in zip(backs, leaves, placed, strict=True)
    ]

    def transpose(backward: Backward, cotangents: list[Node | None]) -> None:
        known = [
            cotangent if cotangent is not None else backward.zeros(types[leaf])
            for leaf, cotangent in zip(given, cotangents, strict=True)
        ]
        argument = backward.tuple([*known, *residuals])
        yielded = _choose(backward, node, graphs, [operands[0], *[argument] * len(graphs)])
        for number, source in enumerate(sources):
            backward.give(source, backward.element(yielded, number))

    assert isinstance(walk.ops, Tape), "reverse mode"
    outputs = walk.ops.call([types[leaf] for leaf in given], sources, transpose)
    return walk.emitter.element(made, 0), _placed(node.type, dict(zip(given, outputs, strict=True)))


def _shared_slots(backs: list[Transposed]) -> tuple[list[Type], list[list[int]]]:
    """The types of the residuals of all branches, a slot of a type shared; and for each branch the slots of its own."""
    slots: list[Type] = []
    placed = []
    for back in backs:
        free = list(range(len(slots)))
        numbers = []
        for residual in back.residuals:
            assert residual.type is not None, "it has one"
            same = [slot for slot in free if slots[slot] is residual.type]
            if same:
                free.remove(same[0])
                numbers.append(same[0])
            else:
                numbers.append(len(slots))
                slots.append(residual.type)
        placed.append(numbers)
    return slots, placed


def _backward_branch(
    session: Session,
    back: Transposed,
    leaves: list[Any],
    sources: list[Linear],
    slots: list[Type],
    numbers: list[int],
    types: list[Type],
    given: list[int],
) -> Graph:
    graph = session.module.add_graph(back.graph.name)
    emitter = Emitter(graph)
    argument = graph.add_parameter(emitter.typed(TupleType([*types, *slots])), "argument")
    cotangents = [emitter.element(argument, given.index(leaf)) for leaf in back.cotangents]
    residuals = [emitter.element(argument, len(types) + slot) for slot in numbers]
    results = back.embed(emitter, cotangents, residuals)
    totals: dict[Linear, Node] = {}
    for leaf, node in results.items():
        source = leaves[leaf]
        totals[source] = emitter.add(totals[source], node) if source in totals else node
    graph.set_output(emitter.tuple([totals[s] if s in totals else zeros_of(emitter, s.type) for s in sources]))
    return graph


def zeros_of(emitter: Emitter, value_type: Type | None) -> Node:
    """A value of any type whose arrays are zeros."""
    if not isinstance(value_type, TupleType):
        assert value_type is not None, "it has a type"
        return emitter.zeros(value_type)
    return unflatten(emitter, value_type, [emitter.zeros(leaf) for leaf in value_type.leaves()])


def _choose(emitter: Emitter, node: Apply, graphs: Sequence[Graph], operands: Sequence[Node]) -> Node:
    if "branch_computations" in node.attributes:
        return emitter.op("conditional", *operands, branch_computations=tuple(graphs))
    return emitter.op("conditional", *operands, true_computation=graphs[0], false_computation=graphs[1])


def _forward_conditional(
    walk: Walk, node: Apply, branches: Sequence[Graph], operands: list[Node], leaves: list[list[Any]], needed: int
) -> Task:
    emitter, session = walk.emitter, walk.session
    masks = [active_leaves(value) for value in leaves]
    parts = []
    for graph, mask in zip(branches, masks, strict=True):
        parts.append((yield with_tangents(session, graph, mask, needed)))
    given = sorted({leaf for _, result in parts for leaf in result})
    types = leaf_types(node.type)
    graphs, arguments = [], []
    for (graph, result), operand, mask, own in zip(parts, operands[1:], masks, leaves, strict=True):
        further = [own[leaf] for leaf in bits(mask)]
        wrapper = session.module.add_graph(graph.name)
        inner = Emitter(wrapper)
        arguments.append(emitter.tuple([operand, *further]))
        argument = wrapper.add_parameter(arguments[-1].type, "argument")
        yielded = inner.copy_graph(graph, [inner.element(argument, n) for n in range(1 + len(further))])
        parts_of = list(yielded.operands)
        wrapper.set_output(
            inner.tuple(
                [parts_of[0], *[parts_of[1 + result.index(n)] if n in result else inner.zeros(types[n]) for n in given]]
            )
        )
        graphs.append(wrapper)
    return _yielded(emitter, node, _choose(emitter, node, graphs, [operands[0], *arguments]), given)


STRUCTURES["call"] = call
STRUCTURES["conditional"] = conditional
