"""Rewrites gathers and scatters that index each example by its own number to use batching dimensions.

`logits[arange(n), labels]` reaches HLO as a gather whose indices are pairs of an example's number and its label. The
number is known: element i is looked up in row i. With the rows as a batching dimension the batch can be cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloom.evaluator import CannotEvaluate, LimitReached, evaluate_node
from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType
from hloom.ops import OPS

MAX_ELEMENTS = 1 << 20
"""The maximum number of elements to evaluate to see whether indices enumerate the examples."""
MAX_STEPS = 64
"""The maximum number of instructions that compute them."""
_FIELDS = {
    "gather": ("collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims"),
    "scatter": (
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
    ),
}
"""By opcode the attributes for dimensions of size one that are left out, those that are looked up, and the batching
dimensions of the operand and of the indices.
"""


def write_batching_dims(module: Module) -> int:
    """Rewrite such gathers and scatters of a module, in place; how many there were."""
    changed = 0
    for graph in module.graphs:
        for node in list(graph.nodes):
            if isinstance(node, Apply) and node.opcode in _FIELDS:
                changed += _write(graph, node)
    return changed


def _write(graph: Graph, node: Apply) -> bool:
    if len(node.operands) != (2 if node.opcode == "gather" else 3):
        return False
    operand, indices = node.operands[:2]
    vector: int = node.attributes.get("index_vector_dim") or 0
    if indices.opcode != "concatenate" or tuple(indices.attributes["dimensions"]) != (vector,):
        return False
    if not isinstance(operand.type, TensorType) or any(_width(part, vector) != 1 for part in indices.operands):
        return False
    fields = [tuple(node.attributes.get(name) or ()) for name in _FIELDS[node.opcode]]
    left_out, looked_up, batched, index_batched = fields
    counted: list[tuple[int, int, int]] = []
    for number, part in enumerate(indices.operands):
        dim = looked_up[number]
        counted_dim = _counted_dimension(part, vector)
        taken = {index_dim for _, _, index_dim in counted} | set(index_batched)
        if counted_dim is None or counted_dim in taken or dim not in left_out:
            continue
        if operand.type.dims[dim] == part.dims[counted_dim]:
            counted.append((number, dim, counted_dim))
    rest = [number for number in range(len(indices.operands)) if number not in {part for part, _, _ in counted}]
    if not counted or not rest:
        return False
    parts = [indices.operands[number] for number in rest]
    index = parts[0] if len(parts) == 1 else _concatenated(graph, indices, parts, vector)
    pairs = sorted([*zip(batched, index_batched, strict=True), *((dim, index_dim) for _, dim, index_dim in counted)])
    dims = {dim for _, dim, _ in counted}
    values: dict[str, Any] = dict(
        zip(
            _FIELDS[node.opcode],
            (
                tuple(dim for dim in left_out if dim not in dims),
                tuple(looked_up[number] for number in rest),
                tuple(dim for dim, _ in pairs),
                tuple(dim for _, dim in pairs),
            ),
            strict=True,
        )
    )
    graph.set_attributes(node, node.attributes.changed(values))
    graph.set_operands(node, (operand, index, *node.operands[2:]))
    return True


def _concatenated(graph: Graph, indices: Node, parts: Sequence[Node], vector: int) -> Node:
    assert isinstance(indices.type, TensorType)
    dims = list(indices.type.dims)
    dims[vector] = len(parts)
    made_type = TensorType(indices.type.dtype, dims)
    return graph.add_apply(OPS["concatenate"], parts, made_type, {"dimensions": (vector,)}, before=indices)


def _counted_dimension(node: Node, vector: int) -> int | None:
    """The dimension along which known indices count from zero; None where they are not known, or do not."""
    if not isinstance(node.type, TensorType) or node.type.element_count > MAX_ELEMENTS:
        return None
    value = _known_value(node)
    if value is None:
        return None
    for dim, size in enumerate(value.shape):
        if dim == vector or size < 2:
            continue
        expected = np.arange(size).reshape([-1 if other == dim else 1 for other in range(value.ndim)])
        if np.array_equal(value, np.broadcast_to(expected, value.shape)):
            return dim
    return None


def _known_value(node: Node) -> np.ndarray | None:
    """The value of a node that depends on no parameter and is made in few steps."""
    values: dict[Node, Any] = {}
    steps, pending = 0, [node]
    while pending:
        current = pending[-1]
        if current in values:
            pending.pop()
            continue
        late = [operand for operand in current.operands if operand not in values]
        is_known = isinstance(current, (Apply, Constant)) and next(iter(current.called_graphs), None) is None
        steps += 1
        if not is_known or steps > MAX_STEPS or _count(current) > MAX_ELEMENTS:
            return None
        if late:
            pending += late
            continue
        pending.pop()
        if isinstance(current, Constant):
            if current.literal is None or current.literal.is_left_out:
                return None
            values[current] = current.literal.numpy()
            continue
        try:
            assert isinstance(current, Apply)
            values[current] = evaluate_node(current, [values[operand] for operand in current.operands])
        except (CannotEvaluate, LimitReached):
            return None
    return np.asarray(values[node])


def _count(node: Node) -> int:
    return node.type.element_count if isinstance(node.type, TensorType) and node.type.is_static else MAX_ELEMENTS + 1


def _width(node: Node, vector: int) -> int:
    dims = node.dims
    return dims[vector] if vector < len(dims) else 0
