"""Loops with a known trip count or bound: the forward loop stacks the values that the backward loop reads.

A loop over slices of arrays keeps its shape: where each iteration takes another slice of an array that never changes,
or writes another slice of one that it only writes, the backward loop writes and takes slices of their cotangents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hloom.autodiff.activity import bits, differentiable_leaves
from hloom.autodiff.backward import Backward
from hloom.autodiff.checkpointing import checkpointed
from hloom.autodiff.elementwise_loops import diagonal_loop, is_diagonal
from hloom.autodiff.emitter import S32, Emitter, array_type, flatten, leaf_types, unflatten
from hloom.autodiff.interval_search import searches_interval
from hloom.autodiff.last_iteration import overwrites, overwriting_loop
from hloom.autodiff.linear import Linear, Tape, Zero
from hloom.autodiff.linearize import (
    STRUCTURES,
    Linearized,
    Session,
    Task,
    Transposed,
    Walk,
    active_leaves,
    leaves_of,
    linearized,
    location_of,
    place_of,
    transposed,
    with_tangents,
)
from hloom.autodiff.loop_state import LoopState, loop, with_leaves
from hloom.autodiff.residuals import Residuals
from hloom.ir import Apply, DType, Node, TensorType, TupleType
from hloom.text import Unsupported

MOST_STACKED = 16
"""In how many loops a loop may stand and stack: each adds a dimension to its stacks, of which arrays have few."""


@dataclass(slots=True)
class SlicedLeaf:
    """A leaf of the state of which each iteration takes, or writes, a slice of its own."""

    starts: tuple[Node, ...]
    sizes: tuple[int, ...]


@dataclass(slots=True)
class LoopParts:
    """A loop's body linearized and transposed, and how its leaves are carried backward.

    `count` bounds the trip count; `is_bound` says that it may be less. `read` and `written` are sliced leaves.
    """

    node: Apply
    part: Linearized
    back: Transposed
    state: LoopState
    residuals: Residuals
    count: int
    is_bound: bool
    read: dict[int, SlicedLeaf]
    written: dict[int, SlicedLeaf]
    carried: list[int] = field(default_factory=list)


def while_loop(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> Task:
    """A loop: in forward mode with tangents in its state; in reverse by stacks, by checkpoints, or without either."""
    session = walk.session
    leaves = leaves_of(node.operands[0], tangents[0])
    body = node.attributes["body"]
    varied = active_leaves(leaves)
    reached, wanted = session.activity.carried(body, varied, needed)
    active = reached & wanted & differentiable_leaves(node.type)
    if searches_interval(node, active):
        raise Unsupported(
            f"{place_of(node)}: this loop searches by bisection: the derivative of its program is that of the interval "
            "it began with, not of what it finds",
            location_of(node),
            f"stop={node.name} makes what it finds a constant; in JAX, jax.lax.custom_root differentiates a root",
        )
    if walk.ops.is_forward:
        value, result = yield _forward_loop(walk, node, operands[0], leaves, active)
    else:
        count = session.trips.get(node)
        bound = session.options.max_iterations if count is None else None
        limit = count if count is not None else bound
        options = session.options
        is_free = count is None and options.checkpoints is None and options.max_iterations is None
        if is_free and is_diagonal(session, node, leaves, active):
            value, result = yield diagonal_loop(walk, node, operands[0], leaves, active)
        elif is_free and overwrites(session, node, active):
            value, result = yield overwriting_loop(walk, node, operands[0], leaves, active)
        elif limit is None or session.loop_depth >= MOST_STACKED:
            value, result = yield checkpointed(walk, node, operands[0], leaves, active)
        else:
            is_bound = bound is not None
            value, result = yield _stacked_loop(walk, node, operands[0], leaves, active, needed, limit, is_bound)
    return value, result if isinstance(node.type, TupleType) else result[0]


def _forward_loop(walk: Walk, node: Apply, init: Node, leaves: list[Any], active: int) -> Task:
    emitter = walk.emitter
    made, moved = yield with_tangents(walk.session, node.attributes["body"], active, active)
    value_type, types = node.type, leaf_types(node.type)
    assert value_type is not None, "a loop has a type"
    count, carried = len(types), list(bits(active))
    started = [leaves[leaf] if leaves[leaf] is not None else emitter.zeros(types[leaf]) for leaf in carried]

    def condition(inner: Emitter, state: list[Node]) -> Node:
        graph = node.attributes["condition"]
        return with_leaves(inner, graph, state[:count])[graph.root]

    def body(inner: Emitter, state: list[Node]) -> list[Node]:
        whole = unflatten(inner, value_type, state[:count])
        yielded = inner.copy_graph(made, [whole, *state[count:]])
        result = {leaf: inner.element(yielded, 1 + number) for number, leaf in enumerate(moved)}
        further = [result[leaf] if leaf in result else inner.zeros(types[leaf]) for leaf in carried]
        return [*flatten(inner, inner.element(yielded, 0)), *further]

    done = loop(emitter, node.name, [*flatten(emitter, init), *started], condition, body)
    result = dict(zip(carried, done[count:], strict=True))
    return unflatten(emitter, value_type, done[:count]), [result.get(leaf) for leaf in range(count)]


def _stacked_loop(
    walk: Walk,
    node: Apply,
    init: Node,
    leaves: list[Any],
    active: int,
    needed: int,
    count: int,
    is_bound: bool,
) -> Task:
    parts = yield _loop_parts(walk.session, node, leaves, active, needed, count, is_bound)
    started = flatten(walk.emitter, init)
    value, stacks, total = _forward_stacking(walk, parts, init, started)
    known: dict[Any, Any] = {}
    residuals = parts.residuals
    kept = residuals.invariant_part([*residuals.once, *residuals.remade])
    residuals.remake(walk.emitter, kept, dict(enumerate(started)), known)
    kept_values = [known[item] for item in kept]
    types = leaf_types(node.type)
    kept_leaves = set(parts.part.inputs) if is_bound or not count else set()  # they may stay as they were
    given = [
        leaf
        for leaf in bits(active)
        if leaf not in parts.read and (parts.part.tangents[leaf] is not None or leaf in kept_leaves)
    ]

    def transpose(backward: Backward, cotangents: list[Node | None]) -> None:
        value = {leaf: cotangent for leaf, cotangent in zip(given, cotangents, strict=True) if cotangent is not None}
        results = _backward_loop(backward, parts, value, kept, kept_values, stacks, total)
        for leaf, result in results.items():
            backward.give(leaves[leaf], result)

    assert isinstance(walk.ops, Tape), "reverse mode"
    outputs = walk.ops.call([types[leaf] for leaf in given], leaves, transpose)
    derived = dict(zip(given, outputs, strict=True))
    return value, [derived.get(leaf) for leaf in range(len(types))]


def _loop_parts(
    session: Session, node: Apply, leaves: list[Any], active: int, needed: int, count: int, is_bound: bool
) -> Task:
    body = node.attributes["body"]
    before = LoopState(body, None, node.operands[0])
    written = {} if is_bound else _written_slices(before, active & ~active_leaves(leaves), count)
    session.loop_depth += 1
    part = yield linearized(session, body, active & ~sum(1 << leaf for leaf in written), active)
    session.loop_depth -= 1
    part.forward.set_output(part.value)
    state = LoopState(part.forward, part.value, node.operands[0])
    slices: dict[int, SlicedLeaf] = {}
    for leaf in written:
        tangent = part.tangents[leaf]
        if isinstance(tangent, Linear) and tangent.opcode == "dynamic-update-slice":
            assert isinstance(tangent.operands[0], Zero), "nothing else uses the leaf"
            part.tangents[leaf] = tangent.operands[1]
            slices[leaf] = SlicedLeaf(tangent.operands[2:], array_type(tangent.operands[1]).dims)
    read = {} if is_bound else _read_slices(part, state, needed, count)
    given = [leaf for leaf in bits(active) if part.tangents[leaf] is not None and leaf not in read]
    back = transposed(session, part, given)
    starts = [start for value in (*slices.values(), *read.values()) for start in value.starts]
    residuals = Residuals(state, list(dict.fromkeys([*back.residuals, *starts])))
    carried = sorted({*part.inputs, *given} - set(read) - set(slices))
    return LoopParts(node, part, back, state, residuals, count, is_bound, read, slices, carried)


def _written_slices(state: LoopState, candidates: int, count: int) -> set[int]:
    """The leaves that an iteration only writes a slice of, another each time."""
    uses: dict[int, int] = {}
    for node in state.body.nodes:
        for operand in node.operands:
            leaf = state.leaf_of(operand)
            if leaf is not None:
                uses[leaf] = uses.get(leaf, 0) + 1
    whole = any(
        operand is state.parameter and node.opcode != "get-tuple-element"
        for node in state.body.nodes
        for operand in node.operands
    )
    value = set()
    for leaf in () if whole else bits(candidates):
        result = state.results[leaf]
        if not isinstance(result, Apply) or result.opcode != "dynamic-update-slice" or uses.get(leaf) != 1:
            continue
        if state.leaf_of(result.operands[0]) != leaf or _uses(state, result) != 1:
            continue
        sizes, dims = array_type(result.operands[1]).dims, array_type(result).dims
        if state.takes_apart(result.operands[2:], sizes, dims, count):
            value.add(leaf)
    return value


def _uses(state: LoopState, node: Node) -> int:
    return sum(operand is node for value in state.body.nodes for operand in value.operands)


def _read_slices(part: Linearized, state: LoopState, needed: int, count: int) -> dict[int, SlicedLeaf]:
    """The leaves that never change and whose tangent is only read, by another slice each time.

    The slice becomes the tangent that is given: its cotangent is written into the leaf's.
    """
    users: dict[Linear, list[Any]] = {}
    for entry in part.tape.entries:
        for operand in entry.operands:
            if isinstance(operand, Linear):
                users.setdefault(operand, []).append(entry)
    result: dict[int, SlicedLeaf] = {}
    for leaf, tangent in list(part.inputs.items()):
        own = users.get(tangent, [])
        if leaf not in state.invariant or needed >> leaf & 1 or len(own) != 1:
            continue
        if sum(value is tangent for value in part.tangents) > 1:
            continue
        (entry,) = own
        if not isinstance(entry, Linear) or entry.opcode != "dynamic-slice":
            continue
        sizes = entry.attributes["dynamic_slice_sizes"]
        if state.takes_apart(entry.operands[1:], sizes, array_type(tangent).dims, count):
            result[leaf] = SlicedLeaf(entry.operands[1:], sizes)
            part.inputs[leaf] = entry
    gone = {part.inputs[leaf] for leaf in result}
    part.tape.entries[:] = [entry for entry in part.tape.entries if entry not in gone]
    return result


def _index_leaf(parts: LoopParts) -> int | None:
    """A leaf that counts iterations from 0."""
    for leaf, counter in parts.state.counters.items():
        if (counter.start, counter.step) == (0, 1):
            return leaf
    return None


def _index_type(parts: LoopParts) -> DType:
    leaf = _index_leaf(parts)
    value_type = None if leaf is None else parts.state.types[leaf]
    signed = isinstance(value_type, TensorType) and value_type.dtype.name in ("s32", "s64")
    return value_type.dtype if signed and isinstance(value_type, TensorType) else S32


def _forward_stacking(
    walk: Walk, parts: LoopParts, init: Node, started: list[Node]
) -> tuple[Node, list[Node], Node | None]:
    """The loop with the stacks in its state: its value, the stacks, and the count where it is not known."""
    emitter, node, value_type = walk.emitter, parts.node, parts.node.type
    assert value_type is not None, "a loop has a type"
    stacked = parts.residuals.stacked
    if not stacked and not parts.is_bound:
        return emitter.op("while", init, **node.attributes), [], None
    element, own = _index_type(parts), _index_leaf(parts)
    has_own = own is not None and array_type(started[own]).dtype is element
    count = len(started)
    rows = [max(parts.count, 1)]
    types = [array_type(value) for value in stacked]
    further = [] if has_own else [emitter.constant(0, element)]
    stacks = [emitter.zeros(TensorType(value.dtype, [*rows, *value.dims])) for value in types]

    def condition(inner: Emitter, state: list[Node]) -> Node:
        graph = node.attributes["condition"]
        return with_leaves(inner, graph, state[:count])[graph.root]

    def body(inner: Emitter, state: list[Node]) -> list[Node]:
        mapping = with_leaves(inner, parts.part.forward, state[:count])
        index = state[own] if has_own and own is not None else state[count]
        held = state[len(state) - len(stacked) :]
        after = [] if has_own else [inner.add(index, inner.constant(1, element))]
        made = [put_row(inner, stack, mapping[value], index) for stack, value in zip(held, stacked, strict=True)]
        return [*flatten(inner, mapping[parts.part.value]), *after, *made]

    done = loop(emitter, node.name, [*started, *further, *stacks], condition, body)
    total = done[own] if has_own and own is not None else done[count]
    return (
        unflatten(emitter, value_type, done[:count]),
        done[len(done) - len(stacked) :],
        total if parts.is_bound else None,
    )


def put_row(emitter: Emitter, stack: Node, value: Node, index: Node) -> Node:
    """Write a value into a row of a stack."""
    value_type = array_type(value)
    row = emitter.reshape(value, [1, *value_type.dims])
    zero = emitter.constant(0, array_type(index))
    return emitter.op("dynamic-update-slice", stack, row, index, *[zero] * value_type.rank)


def get_row(emitter: Emitter, stack: Node, index: Node) -> Node:
    """A row of a stack."""
    dims = array_type(stack).dims[1:]
    zero = emitter.constant(0, array_type(index))
    row = emitter.op("dynamic-slice", stack, index, *[zero] * len(dims), dynamic_slice_sizes=(1, *dims))
    return emitter.reshape(row, dims)


def _backward_loop(
    backward: Backward,
    parts: LoopParts,
    cotangents: dict[int, Node],
    kept: Sequence[Node],
    kept_values: list[Node],
    stacks: list[Node],
    total: Node | None,
) -> dict[int, Node]:
    """The loop over iterations from the last to the first: the cotangents of the leaves before it."""
    types, element = parts.state.types, _index_type(parts)
    last = (
        backward.constant(parts.count - 1, element)
        if total is None
        else backward.sub(backward.convert(total, element), backward.constant(1, element))
    )
    carried, written, read = parts.carried, list(parts.written), list(parts.read)
    first = [cotangents.get(leaf) or backward.zeros(types[leaf]) for leaf in (*carried, *written)]
    made = [backward.zeros(types[leaf]) for leaf in read]
    groups = [1, len(carried), len(written), len(read), len(kept), len(stacks)]

    def condition(inner: Emitter, state: list[Node]) -> Node:
        return inner.compare("GE", state[0], inner.constant(0, element))

    def body(inner: Emitter, state: list[Node]) -> list[Node]:
        (index,), own, outer, buffers, once, rows = _grouped(state, groups)
        known = _remade(inner, parts, index, kept, once)
        for value, stack in zip(parts.residuals.stacked, rows, strict=True):
            known[value] = get_row(inner, stack, index)
        parts.residuals.remake(inner, parts.residuals.recomputed, {}, known)
        incoming = dict(zip(carried, own, strict=True))
        for leaf, whole in zip(written, outer, strict=True):
            piece = parts.written[leaf]
            starts = [known[start] for start in piece.starts]
            incoming[leaf] = inner.op("dynamic-slice", whole, *starts, dynamic_slice_sizes=piece.sizes)
        residuals = [known[residual] for residual in parts.back.residuals]
        results = parts.back.embed(inner, [incoming[leaf] for leaf in parts.back.cotangents], residuals)
        after = [results[leaf] if leaf in results else inner.zeros(types[leaf]) for leaf in carried]
        filled = []
        for leaf, buffer in zip(read, buffers, strict=True):
            starts = [known[start] for start in parts.read[leaf].starts]
            filled.append(
                inner.op("dynamic-update-slice", buffer, results[leaf], *starts) if leaf in results else buffer
            )
        return [inner.sub(index, inner.constant(1, element)), *after, *outer, *filled, *once, *rows]

    init = [last, *first, *made, *kept_values, *stacks]
    done = loop(backward, f"{parts.node.name}.backward", init, condition, body)
    _, own, _, buffers, _, _ = _grouped(done, groups)
    results = dict(zip([*carried, *read], [*own, *buffers], strict=True))
    if total is None:
        return results
    fits = backward.compare("LE", backward.convert(total, element), backward.constant(parts.count, element))
    return {leaf: backward.select(fits, node, backward.like(float("nan"), node)) for leaf, node in results.items()}


def _remade(
    inner: Emitter, parts: LoopParts, index: Node, kept: Sequence[Node], once: Sequence[Node]
) -> dict[Any, Any]:
    """The values that are kept once or made again, in an iteration of the backward loop."""
    state, residuals = parts.state, parts.residuals
    known: dict[Any, Any] = dict(zip(kept, once, strict=True))
    leaves = {leaf: value for node, value in known.items() if (leaf := state.leaf_of(node)) is not None}
    for leaf in residuals.sources(residuals.remade) & set(state.counters):
        counter, value_type = state.counters[leaf], state.types[leaf]
        assert isinstance(value_type, TensorType), "a counter is an integer"
        value = inner.convert(index, value_type.dtype)
        if counter.step != 1:
            value = inner.mul(value, inner.constant(counter.step, value_type.dtype))
        leaves[leaf] = inner.add(value, inner.constant(counter.start, value_type.dtype)) if counter.start else value
    residuals.remake(inner, residuals.remade, leaves, known)
    return known


def _grouped(values: Sequence[Node], sizes: Sequence[int]) -> list[list[Node]]:
    groups, start = [], 0
    for size in sizes:
        groups.append(list(values[start : start + size]))
        start += size
    return groups


STRUCTURES["while"] = while_loop
