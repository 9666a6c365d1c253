"""Calls of functions with their own derivatives, which are used instead of differentiating their programs.

y = call(x), to_apply=kernel    ->    (y, residuals) = call(x), to_apply=kernel.forward
                                      dx = call(residuals, dy), to_apply=kernel.backward
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.autodiff.activity import bits, differentiable, differentiable_leaves
from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import Emitter, leaf_types
from hloom.autodiff.linear import Tape
from hloom.autodiff.linearize import Session, Walk
from hloom.ir import Apply, Graph, Module, Node, TupleType
from hloom.rewrite import CalledFunction


def call_of_function(
    walk: Walk, node: Apply, operands: list[Node], leaves: Sequence[Any], needed: int, own: CalledFunction
) -> tuple[Node, dict[int, Any]]:
    """The value of a call, and the tangents of its result's leaves."""
    if walk.ops.is_forward:
        return _in_forward_mode(walk, node, operands, leaves, own)
    parts = own.parts(_moving(leaves))
    forward = embedded(walk.session, parts.forward, f"{own.computation}.forward")
    backward = embedded(walk.session, parts.backward, f"{own.computation}.backward")
    made = walk.emitter.op("call", *operands, to_apply=forward)
    elements = _elements(walk.emitter, made)
    results, residuals = elements[: parts.results], elements[parts.results :]
    types = leaf_types(node.type)
    given = list(bits(needed & differentiable_leaves(node.type)))
    moving = [leaf for leaf, value_type in enumerate(types) if differentiable(value_type)]

    def transpose(back: Backward, cotangents: list[Node | None]) -> None:
        known = dict(zip(given, cotangents, strict=True))
        asked = [known.get(leaf) or back.zeros(types[leaf]) for leaf in moving]
        yielded = _elements(back, back.op("call", *residuals, *asked, to_apply=backward))
        for operand, cotangent in zip(parts.moving, yielded, strict=True):
            back.give(leaves[operand], cotangent)

    assert isinstance(walk.ops, Tape), "reverse mode"
    outputs = walk.ops.call([types[leaf] for leaf in given], leaves, transpose)
    return _whole(walk.emitter, node, results), dict(zip(given, outputs, strict=True))


def _moving(leaves: Sequence[Any]) -> tuple[int, ...]:
    """The operands that have tangents: a rule may ask which do, or have derivatives by some alone."""
    return tuple(operand for operand, leaf in enumerate(leaves) if leaf is not None)


def _in_forward_mode(
    walk: Walk, node: Apply, operands: list[Node], leaves: Sequence[Any], own: CalledFunction
) -> tuple[Node, dict[int, Any]]:
    moving = _moving(leaves)
    graph = embedded(walk.session, own.forward(moving), f"{own.computation}.tangent")
    tangents = [leaves[operand] for operand in moving]
    elements = _elements(walk.emitter, walk.emitter.op("call", *operands, *tangents, to_apply=graph))
    types = leaf_types(node.type)
    moving = [leaf for leaf, value_type in enumerate(types) if differentiable(value_type)]
    return _whole(walk.emitter, node, elements[: len(types)]), dict(zip(moving, elements[len(types) :], strict=True))


def embedded(session: Session, program: Module, name: str) -> Graph:
    """The computation of a program in the module that is differentiated: a new one when it is first asked for."""
    key = ("function", program)
    if key not in session.kept:
        copies = session.module.copy_graphs(
            program, lambda graph: name if program.is_entry(graph) else f"{name}.{graph.name}"
        )
        session.kept[key] = copies[program.entry]
    return session.kept[key]


def _elements(emitter: Emitter, node: Node) -> list[Node]:
    if not isinstance(node.type, TupleType):
        return [node]
    return [emitter.element(node, number) for number in range(len(node.type.elements))]


def _whole(emitter: Emitter, node: Apply, results: Sequence[Node]) -> Node:
    return emitter.tuple(results) if isinstance(node.type, TupleType) else results[0]
