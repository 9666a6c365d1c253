"""Instructions for one slice of the batch: adapts types and attributes that contain sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hloom.distribute.microbatch.batch_propagation import BatchPropagation
from hloom.distribute.microbatch.batch_state import Sliced, State, local_type
from hloom.ir import Apply, Attributes, Constant, Graph, Literal, TensorType, Type, map_leaves


def local_type_of(value_type: Type | None, states: Sequence[State], count: int) -> Type | None:
    """A type of which each leaf is as one of `count` iterations has it; `states` has one for each leaf."""
    if value_type is None:
        return None
    following = iter(states)
    return map_leaves(value_type, lambda leaf: local_type(leaf, next(following), count))


def local_attributes(
    node: Apply, operands: Sequence[Sequence[State]], results: Sequence[State], count: int
) -> Attributes:
    """The attributes of a node with the sizes of one slice; states are given for the leaves of each operand."""
    change = _CHANGES.get(node.opcode)
    changed = change(node, operands, results, count) if change is not None else None
    return node.attributes.changed(changed) if changed else node.attributes


def localize(graph: Graph, propagation: BatchPropagation) -> None:
    """Give the nodes of a graph inside a loop or a branch the types and attributes of one slice."""
    count = propagation.count
    for node in graph.nodes:
        if isinstance(node, Apply):
            operands = [propagation.states_of(operand) for operand in node.operands]
            attributes = local_attributes(node, operands, propagation.states_of(node), count)
            if attributes is not node.attributes:
                graph.set_attributes(node, attributes)
    for node in graph.nodes:
        made = local_type_of(node.type, propagation.states_of(node), count)
        if made is not node.type:
            graph.set_type(node, made)
            if isinstance(node, Constant):
                graph.set_value(node, local_literal(node, made))


def local_literal(node: Constant, made: Type | None) -> Literal:
    """The value of a constant of one number in the type of a slice."""
    assert isinstance(node.value, Literal) and isinstance(made, TensorType)
    return Literal.splat(made, node.value.splat_value())


def _slice(node: Apply, operands: Sequence[Sequence[State]], results: Sequence[State], count: int) -> dict[str, Any]:
    dims = list(node.attributes["slice"])
    for state in results:
        if isinstance(state, Sliced):
            part = dims[state.dimension]
            dims[state.dimension] = replace(part, limit=part.limit // count)
    return {"slice": tuple(dims)}


def _dynamic_slice(
    node: Apply, operands: Sequence[Sequence[State]], results: Sequence[State], count: int
) -> dict[str, Any]:
    sizes = list(node.attributes["dynamic_slice_sizes"])
    for state in results:
        if isinstance(state, Sliced):
            sizes[state.dimension] //= count
    return {"dynamic_slice_sizes": tuple(sizes)}


def _gather(node: Apply, operands: Sequence[Sequence[State]], results: Sequence[State], count: int) -> dict[str, Any]:
    sizes = list(node.attributes["slice_sizes"])
    operand_type = node.operands[0].type
    for state in operands[0]:
        if not isinstance(state, Sliced) or not isinstance(operand_type, TensorType):
            continue
        if sizes[state.dimension] == operand_type.dims[state.dimension]:
            sizes[state.dimension] //= count
    return {"slice_sizes": tuple(sizes)}


def _custom_call(
    node: Apply, operands: Sequence[Sequence[State]], results: Sequence[State], count: int
) -> dict[str, Any]:
    constraints = node.attributes.get("operand_layout_constraints")
    if constraints is None:
        return {}
    pairs = zip(constraints, operands, strict=True)
    return {"operand_layout_constraints": tuple(local_type_of(type_, states, count) for type_, states in pairs)}


def _convolution(
    node: Apply, operands: Sequence[Sequence[State]], results: Sequence[State], count: int
) -> dict[str, Any]:
    """Groups are cut where the kernel is, along its output features, with the dimension that the groups stand in."""
    labels = node.attributes["dim_labels"]
    (image,), (kernel,) = operands
    if not (isinstance(image, Sliced) and isinstance(kernel, Sliced)) or labels.rhs[kernel.dimension] != "o":
        return {}
    name = {"f": "feature_group_count", "b": "batch_group_count"}[labels.lhs[image.dimension]]
    return {name: node.attributes[name] // count}


_CHANGES: dict[str, Callable[[Apply, Sequence[Sequence[State]], Sequence[State], int], dict[str, Any]]] = {
    "convolution": _convolution,
    "custom-call": _custom_call,
    "dynamic-slice": _dynamic_slice,
    "gather": _gather,
    "slice": _slice,
}
"""Opcodes whose attributes name sizes of operands or results, and what they are for a slice."""
