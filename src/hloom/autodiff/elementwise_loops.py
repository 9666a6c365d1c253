"""Loops that compute each element independently, such as Newton's iteration on many numbers; uses forward mode.

    x = while(x, a): x = (x + a / x) / 2        carries D = dx/da beside x;  the cotangent of a is D times that of x

An element of the result only depends on the same element of the inputs. So the Jacobian is diagonal: an array of the
elements' shape for each pair of a changing leaf and an input. It is carried forward, and nothing of an iteration is
saved or recomputed for the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.analysis import ELEMENTWISE
from hloom.autodiff.activity import bits, differentiable_leaves
from hloom.autodiff.emitter import Emitter, array_type, flatten, leaf_types, unflatten
from hloom.autodiff.linearize import Session, Task, Walk, active_leaves, with_tangents
from hloom.autodiff.loop_state import LoopState, loop, with_leaves
from hloom.ir import Apply, Graph, Node, TensorType, Trait
from hloom.ops import SAME_BYTES, may_merge, with_trait

MOST_COLUMNS = 3
"""For how many inputs the derivative is carried forward: of more, each iteration is computed more often than by
checkpoints."""
MOST_NESTED = 16
"""How many loops inside a loop are looked at: each of those asks again where the outer one is not elementwise."""
_PASSED_ON = with_trait(Trait.TUPLE) | (SAME_BYTES - {"bitcast"}) | {"copy"}


def is_diagonal(session: Session, node: Apply, leaves: Sequence[Any], active: int) -> bool:
    """Whether a loop computes elements by themselves, and of few inputs."""
    columns = active_leaves(leaves)
    if columns.bit_count() > MOST_COLUMNS:
        return False
    types = {leaf: value_type for leaf, value_type in enumerate(leaf_types(node.type)) if active >> leaf & 1}
    shapes = {value_type.dims if isinstance(value_type, TensorType) else None for value_type in types.values()}
    if len(shapes) != 1 or None in shapes:
        return False
    (dims,) = shapes
    pending: list[tuple[Graph, int]] = [(node.attributes["body"], active)]
    seen = set(pending)
    while pending:
        graph, mask = pending.pop()
        if not all(_has_elements(value_type, dims) for value_type in _chosen(graph.parameters[0], mask)):
            return False
        count = len(leaf_types(graph.parameters[0].type))
        needed_by = session.activity.active(graph, [mask >> leaf & 1 for leaf in range(count)], mask)
        for inner, needed in needed_by.items():
            if inner.opcode == "while" and isinstance(inner, Apply):
                body: Graph = inner.attributes["body"]
                whole = differentiable_leaves(inner.type)
                reached, wanted = session.activity.carried(body, whole, needed)
                entry = body, reached & wanted & whole
                if len(seen) > MOST_NESTED:
                    return False
                if entry not in seen:
                    seen.add(entry)
                    pending.append(entry)
            elif inner.opcode not in _PASSED_ON and not _is_pointwise(inner, dims, needed_by):
                return False
            if columns.bit_count() > 1 and not may_merge(inner):
                return False
    return True


def _chosen(node: Node, mask: int) -> list[Any]:
    return [value_type for leaf, value_type in enumerate(leaf_types(node.type)) if mask >> leaf & 1]


def _has_elements(value_type: Any, dims: Any) -> bool:
    """Whether a value is an array of real numbers of some dimensions."""
    return isinstance(value_type, TensorType) and value_type.dtype.is_float and value_type.dims == dims


def _is_pointwise(node: Node, dims: Any, active: dict[Node, int]) -> bool:
    if node.opcode not in ELEMENTWISE or not _has_elements(node.type, dims):
        return False
    return all(_has_elements(operand.type, dims) for operand in node.operands if operand in active)


def diagonal_loop(walk: Walk, node: Apply, init: Node, leaves: list[Any], active: int) -> Task:
    """A loop with the diagonals of its Jacobian in its state; its tangents are the inputs' times these."""
    emitter, ops, value_type, types = walk.emitter, walk.ops, node.type, leaf_types(node.type)
    assert value_type is not None, "a loop has a type"
    made, moved = yield with_tangents(walk.session, node.attributes["body"], active, active)
    constant = LoopState(node.attributes["body"], None, node.operands[0]).invariant
    changing = [leaf for leaf in bits(active) if leaf not in constant]
    columns = [leaf for leaf in bits(active) if leaves[leaf] is not None]
    count, size = len(types), len(changing)

    def goes_on(inner: Emitter, state: list[Node]) -> Node:
        graph: Graph = node.attributes["condition"]
        return with_leaves(inner, graph, state[:count])[graph.root]

    def step(inner: Emitter, state: list[Node]) -> list[Node]:
        whole = unflatten(inner, value_type, state[:count])
        known: dict[Any, Any] = {}
        after: list[Node] = []
        for number, column in enumerate(columns):
            own = dict(zip(changing, state[count + number * size :], strict=False))
            given = [own[leaf] if leaf in own else _unit(inner, types[leaf], leaf == column) for leaf in bits(active)]
            yielded = inner.copy_graph(made, [whole, *given], known)
            result = {leaf: inner.element(yielded, 1 + position) for position, leaf in enumerate(moved)}
            after += [result[leaf] if leaf in result else inner.zeros(types[leaf]) for leaf in changing]
            value = inner.element(yielded, 0)
            known = {inner_node: known[inner_node] for inner_node in independent}
        return [*flatten(inner, value), *after]

    independent = _independent(made)
    seeds = [_unit(emitter, types[leaf], leaf == column) for column in columns for leaf in changing]
    done = loop(emitter, node.name, [*flatten(emitter, init), *seeds], goes_on, step)
    results: list[Any] = [leaves[leaf] if leaf in constant and active >> leaf & 1 else None for leaf in range(count)]
    for number, column in enumerate(columns):
        for position, leaf in enumerate(changing):
            diagonal = done[count + number * size + position]
            moving = ops.convert(leaves[column], array_type(diagonal).dtype)
            results[leaf] = ops.add(results[leaf], ops.mul(diagonal, moving))
    return unflatten(emitter, value_type, done[:count]), results


def _unit(emitter: Emitter, value_type: Any, is_one: bool) -> Node:
    return emitter.constant(1 if is_one else 0, value_type)


def _independent(graph: Graph) -> list[Node]:
    """The instructions that depend on the first parameter alone: the same for all tangents."""
    dependent: set[Node] = set(graph.parameters[1:])
    for node in graph.nodes:
        if not dependent.isdisjoint(node.operands):
            dependent.add(node)
    return [node for node in graph.nodes if node not in dependent and node is not graph.parameters[0]]
