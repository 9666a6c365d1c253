"""Slices at run-time indices, gathers and scatters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import S32, Emitter, array_type
from hloom.autodiff.linear import Linear, LinearOps
from hloom.autodiff.loop_state import loop
from hloom.autodiff.recognition import splat
from hloom.autodiff.rules.combiners import expanded, on_arrays
from hloom.autodiff.rules.reduction import DIRECT, extreme_bound
from hloom.autodiff.shift_invariance import Moved, follow_shape
from hloom.autodiff.table import absorption, rules, transposition
from hloom.ir import Apply, Constant, Graph, Node, SliceDimension, TensorType, Trait, TupleType
from hloom.ops import EXTREMES, reducer_of, with_trait


@rules("dynamic-slice")
def dynamic_slice(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    sizes = node.attributes["dynamic_slice_sizes"]
    return t.op("dynamic-slice", tangents[0], *node.operands[1:], dynamic_slice_sizes=sizes)


@rules("dynamic-update-slice")
def dynamic_update_slice(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    operand, update = (
        tangent if tangent is not None else t.zero(given)
        for tangent, given in zip(tangents, node.operands[:2], strict=False)
    )
    return t.op("dynamic-update-slice", operand, update, *node.operands[2:])


@transposition("dynamic-slice")
def transpose_dynamic_slice(b: Backward, value: Linear, cotangent: Node) -> None:
    """Added, in place, to the part of the sum so far that it was taken from."""
    operand, *starts = value.operands
    sizes = value.attributes["dynamic_slice_sizes"]

    def update(total: Node | None) -> Node:
        if total is None:
            return b.op("dynamic-update-slice", b.zeros(operand.type), cotangent, *starts)
        taken = b.op("dynamic-slice", total, *starts, dynamic_slice_sizes=sizes)
        return b.op("dynamic-update-slice", total, b.add(taken, cotangent), *starts)

    b.give_update(operand, update)


@transposition("dynamic-update-slice")
def transpose_dynamic_update_slice(b: Backward, value: Linear, cotangent: Node) -> None:
    operand, update, *starts = value.operands
    if isinstance(operand, Linear):
        nothing = b.zeros(update.type)
        b.give(operand, b.op("dynamic-update-slice", cotangent, nothing, *starts))
    if isinstance(update, Linear):
        sizes = array_type(update).dims
        b.give(update, b.op("dynamic-slice", cotangent, *starts, dynamic_slice_sizes=sizes))


# Gathers


@rules("gather")
def gather(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return t.op("gather", tangents[0], node.operands[1], **node.attributes)


def _scatter_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of the scatter that undoes a gather."""
    return {
        "update_window_dims": attributes["offset_dims"],
        "inserted_window_dims": attributes["collapsed_slice_dims"],
        "scatter_dims_to_operand_dims": attributes["start_index_map"],
        "input_batching_dims": attributes.get("operand_batching_dims", ()),
        "scatter_indices_batching_dims": attributes.get("start_indices_batching_dims", ()),
        "index_vector_dim": attributes["index_vector_dim"],
        "indices_are_sorted": attributes.get("indices_are_sorted", False),
    }


@transposition("gather")
def transpose_gather(b: Backward, value: Linear, cotangent: Node) -> None:
    """Added where it was taken from; a gather clamps its indices and a scatter does not, so they are clamped here."""
    operand, indices = value.operands
    attributes = value.attributes
    value_type = array_type(operand)
    limits = [value_type.dims[dim] - attributes["slice_sizes"][dim] for dim in attributes["start_index_map"]]
    vector = attributes["index_vector_dim"]
    clamped = indices if b.is_absorbing else clamp_indices(b, indices, limits, vector)

    def update(total: Node | None) -> Node:
        base = total if total is not None else b.zeros(value_type)
        reducer = b.reducer("add", value_type.dtype)
        return b.op("scatter", base, clamped, cotangent, to_apply=reducer, **_scatter_of(attributes))

    b.give_update(operand, update)


@absorption("gather")
def is_where_inside(value: Linear, predicate: Node, holds: bool) -> bool:
    """Whether a mask says which slices are within the operand: a scatter drops all others.

    broadcast(reduce-and(0 <= indices & indices <= limits))
    """
    operand, indices = value.operands
    attributes, index_type = value.attributes, array_type(indices)
    batch = tuple(dim for dim in range(array_type(value).rank) if dim not in attributes["offset_dims"])
    if attributes["offset_dims"]:
        if predicate.opcode != "broadcast" or tuple(predicate.attributes["dimensions"]) != batch:
            return False
        predicate = predicate.operands[0]
    vector, whole = attributes["index_vector_dim"], array_type(operand).dims
    outer = tuple(size for dim, size in enumerate(index_type.dims) if dim != vector)
    if not holds or array_type(predicate).dims != outer:
        return False
    if predicate.opcode == "reduce" and reducer_of(predicate.attributes["to_apply"]) == "and":
        if tuple(predicate.attributes["dimensions"]) != (vector,):
            return False
        predicate = predicate.operands[0]
    elif predicate.opcode == "reshape":
        predicate = predicate.operands[0]
    if predicate.opcode != "and" or array_type(predicate).dims != index_type.dims:
        return False
    limits = [whole[dim] - attributes["slice_sizes"][dim] for dim in attributes["start_index_map"]]
    bounds = dict(filter(None, (_bound(part, indices) for part in predicate.operands)))
    return len(bounds) == 2 and splat(bounds["GE"]) == 0 and _are_limits(bounds["LE"], limits, vector)


def _bound(comparison: Node, indices: Node) -> tuple[str, Node] | None:
    """The direction in which indices are compared, and with what."""
    if comparison.opcode != "compare":
        return None
    direction = comparison.attributes["direction"]  # pyright: ignore[reportAttributeAccessIssue]
    first, second = comparison.operands
    if direction not in ("GE", "LE"):
        return None
    if is_same_value(first, indices):
        return direction, second
    return ("LE" if direction == "GE" else "GE", first) if is_same_value(second, indices) else None


def _are_limits(node: Node, limits: Sequence[int], vector: int) -> bool:
    """Whether a node has, along the dimension of the components of indices, their limits, and is constant otherwise."""
    if len(set(limits)) == 1 and splat(node) is not None:
        return splat(node) == limits[0]
    chain: list[Apply] = []
    while isinstance(node, Apply) and node.opcode in ("broadcast", "reshape"):
        chain.append(node)
        node = node.operands[0]
    if node.literal is None or node.rank != 1:
        return False
    moved: Moved | None = Moved(1, 0, (0,))
    for step in reversed(chain):
        moved = moved and follow_shape(step, moved)
    return moved is not None and moved.dims == (vector,) and node.literal.numpy().tolist() == list(limits)


MOST_COMPARED = 50
"""The maximum number of instructions in two expressions to compare."""


def is_same_value(first: Node, second: Node) -> bool:
    """Whether two nodes are the same, or computed by the same instructions from the same values."""
    pending, seen = [(first, second)], set()
    while pending:
        pair = a, b = pending.pop()
        if a is b or pair in seen:
            continue
        seen.add(pair)
        if len(seen) > MOST_COMPARED or a.opcode != b.opcode or a.type != b.type or len(a.operands) != len(b.operands):
            return False
        if isinstance(a, Constant) and isinstance(b, Constant):
            if a.value != b.value:
                return False
        elif not _is_repeated(a, b):
            return False
        pending += zip(a.operands, b.operands, strict=True)
    return True


def _is_repeated(a: Node, b: Node) -> bool:
    if not isinstance(a, Apply) or not isinstance(b, Apply):
        return False
    return a.opcode in REPEATABLE and a.attributes == b.attributes


REPEATABLE = with_trait(Trait.ELEMENTWISE) | with_trait(Trait.MOVES_DATA) | with_trait(Trait.GENERATES)
"""Ops that yield the same again for the same operands."""


def clamp_indices(b: Backward, indices: Node, limits: Sequence[int], index_vector_dim: int) -> Node:
    """Indices within 0 and their limits; as they are where they are known to be so."""
    if are_within(indices, min(limits, default=0)):
        return indices
    value_type = array_type(indices)
    most = int(np.iinfo(value_type.dtype.numpy).max)
    bounds = np.array([min(limit, most) for limit in limits], value_type.dtype.numpy)
    if len(set(limits)) <= 1 or index_vector_dim == value_type.rank:
        return b.op("clamp", b.constant(0, value_type.dtype), indices, b.constant(int(bounds[0]), value_type.dtype))
    upper = b.constant(bounds, TensorType(value_type.dtype, bounds.shape))
    wide = b.broadcast(upper, value_type.dims, [index_vector_dim])
    return b.op("clamp", b.zeros(value_type), indices, wide)


def are_within(indices: Node, limit: int) -> bool:
    """Whether indices are known to be between 0 and a limit: constants, counts, and what is clamped."""
    node = indices
    for _ in range(20):
        if node.literal is not None:
            if node.literal.is_elided:
                return False
            values = node.literal.numpy()
            return not values.size or (int(values.min()) >= 0 and int(values.max()) <= limit)
        if node.opcode == "iota":
            return array_type(node).dims[node.attributes["iota_dimension"]] - 1 <= limit
        if node.opcode == "clamp":
            return are_within(node.operands[0], limit) and are_within(node.operands[2], limit)
        if node.opcode != "convert" and not node.has_trait(Trait.REINDEXES):
            return False
        if not array_type(node.operands[0]).dtype.is_integer:
            return False
        node = node.operands[0]
    return False


# Scatters


def scatter_opcode(node: Apply) -> str:
    """How a scatter of one operand combines: an opcode, "set" where the update stays, or nothing that is known."""
    return _combining_opcode(node.attributes["to_apply"]) if len(node.operands) == 3 else ""


def _combining_opcode(graph: Graph) -> str:
    root = graph.root
    if isinstance(root.type, TupleType):
        return "set" if root.opcode == "tuple" and root.operands[0] is graph.parameters[1] else ""
    if root is graph.parameters[1]:
        return "set"
    if root.opcode == "subtract" and root.operands == tuple(graph.parameters):
        return "subtract"
    return reducer_of(graph)


@rules("scatter", expand=lambda session, node: scatter_expansion(session, node))
def scatter(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    opcode = scatter_opcode(node)
    if opcode in EXTREMES:
        return _extreme(t, node, tangents)
    operand, updates = (
        tangents[position] if tangents[position] is not None else t.zero(node.operands[position]) for position in (0, 2)
    )
    return t.op("scatter", operand, node.operands[1], updates, **node.attributes)


def _extreme(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The mean of the tangents of the operand's element and the updates that equal the result."""
    p, (operand, indices, updates) = t.primal, node.operands
    value_type = array_type(node)
    adds = {**node.attributes, "to_apply": p.reducer("add", value_type.dtype)}
    windows = array_type(updates)
    there = _gathered(p, node, indices, windows, node.attributes)
    inside = _inside(p, array_type(operand), indices, windows, node.attributes)
    (of_updates, least), (of_operand, bound) = (
        extreme_bound(p, given, extreme, scatter_opcode(node)) for given, extreme in ((updates, there), (operand, node))
    )
    equal = p.op("and", p.compare(of_updates, updates, least), inside)
    own = p.convert(p.compare(of_operand, operand, bound), value_type.dtype)
    weights = p.convert(equal, value_type.dtype)
    count = p.op("scatter", own, indices, weights, **adds)
    count = count if of_updates == of_operand == "EQ" else p.op("maximum", count, p.like(1, count))
    moved = t.mul(own, tangents[0])
    given = t.mul(weights, tangents[2])
    total = t.op(
        "scatter",
        moved if moved is not None else t.zero(node),
        indices,
        given if given is not None else t.zero(updates),
        **adds,
    )
    return t.div(total, count)


@transposition("scatter")
def transpose_scatter(b: Backward, value: Linear, cotangent: Node) -> None:
    """The operand's: the cotangent, zeros where updates replaced it. The updates': what was gathered from there.

    Its negative where they were subtracted. Updates that fell outside have none. Of several that replaced the same
    element, the one that stayed has it.
    """
    operand, indices, updates = value.operands
    attributes = value.attributes
    combining = _combining_opcode(attributes["to_apply"])
    is_set = combining == "set"
    if isinstance(operand, Linear):
        if is_set:
            nothing = b.zeros(updates.type)
            b.give(operand, b.op("scatter", cotangent, indices, nothing, **attributes))
        else:
            b.give(operand, cotangent)
    if not isinstance(updates, Linear):
        return
    windows, whole = array_type(updates), array_type(cotangent)
    taken = _gathered(b, cotangent, indices, windows, attributes)
    if is_set and not attributes.get("unique_indices") and _batch_count(windows, attributes) > 1:
        taken = b.select(_stayed(b, whole, indices, windows, attributes), taken, b.like(0, taken))
    if combining == "subtract":
        taken = b.neg(taken)
    if are_inside(whole, indices, windows, attributes):
        b.give(updates, taken)
    else:
        b.give_masked(updates, _inside(b, whole, indices, windows, attributes), True, taken)


def _window_sizes(whole: TensorType, updates: TensorType, attributes: Mapping[str, Any]) -> list[int]:
    """The size of an update's window along each dimension of the operand."""
    gone = {*attributes["inserted_window_dims"], *attributes.get("input_batching_dims", ())}
    sizes = iter([updates.dims[dim] for dim in attributes["update_window_dims"]])
    return [1 if dim in gone else next(sizes) for dim in range(whole.rank)]


def _batch_count(updates: TensorType, attributes: Mapping[str, Any]) -> int:
    taken = attributes["update_window_dims"]
    return int(np.prod([size for dim, size in enumerate(updates.dims) if dim not in taken], dtype=np.int64))


def _gathered(b: Emitter, node: Node, indices: Node, updates: TensorType, attributes: Mapping[str, Any]) -> Node:
    """What stands where the updates go."""
    return b.op(
        "gather",
        node,
        indices,
        offset_dims=attributes["update_window_dims"],
        collapsed_slice_dims=attributes["inserted_window_dims"],
        start_index_map=attributes["scatter_dims_to_operand_dims"],
        operand_batching_dims=attributes.get("input_batching_dims", ()),
        start_indices_batching_dims=attributes.get("scatter_indices_batching_dims", ()),
        index_vector_dim=attributes["index_vector_dim"],
        slice_sizes=tuple(_window_sizes(array_type(node), updates, attributes)),
        indices_are_sorted=attributes.get("indices_are_sorted", False),
    )


def _limits(whole: TensorType, updates: TensorType, attributes: Mapping[str, Any]) -> list[int]:
    sizes = _window_sizes(whole, updates, attributes)
    return [whole.dims[dim] - sizes[dim] for dim in attributes["scatter_dims_to_operand_dims"]]


def are_inside(whole: TensorType, indices: Node, updates: TensorType, attributes: Mapping[str, Any]) -> bool:
    return are_within(indices, min(_limits(whole, updates, attributes), default=0))


def _inside(b: Emitter, whole: TensorType, indices: Node, updates: TensorType, attributes: Mapping[str, Any]) -> Node:
    """Which elements of the updates are of windows that are within the operand, as an array of the updates' dims."""
    value_type = array_type(indices)
    vector = attributes["index_vector_dim"]
    limits = _limits(whole, updates, attributes)
    most = int(np.iinfo(value_type.dtype.numpy).max)
    bounds = np.array([min(limit, most) for limit in limits], value_type.dtype.numpy)
    if vector == value_type.rank:
        upper = b.constant(int(bounds[0]), value_type)
    else:
        upper = b.broadcast(b.constant(bounds, TensorType(value_type.dtype, bounds.shape)), value_type.dims, [vector])
    within = b.op("and", b.compare("GE", indices, b.zeros(value_type)), b.compare("LE", indices, upper))
    if vector < value_type.rank:
        within = b.reduce("and", within, [vector])
    scattered = [dim for dim in range(updates.rank) if dim not in attributes["update_window_dims"]]
    return b.broadcast(within, updates.dims, scattered)


def _stayed(b: Emitter, whole: TensorType, indices: Node, updates: TensorType, attributes: Mapping[str, Any]) -> Node:
    """Which elements of the updates stayed: numbers are scattered in their stead, and compared with what is there."""
    count = int(np.prod(updates.dims, dtype=np.int64))
    numbers = b.reshape(b.iota(S32, [count], 0), updates.dims)
    graph = _second(b)
    left = b.op("scatter", b.zeros(TensorType(S32, whole.dims)), indices, numbers, **{**attributes, "to_apply": graph})
    return b.compare("EQ", _gathered(b, left, indices, updates, attributes), numbers)


def _second(b: Emitter) -> Graph:
    """The computation of two integers that yields the second."""
    module = b.graph.module
    if "autodiff.second" in module:
        return module["autodiff.second"]
    graph = module.add_graph("autodiff.second")
    graph.add_parameter(TensorType(S32), "lhs")
    graph.set_output(graph.add_parameter(TensorType(S32), "rhs"))
    return graph


def scatter_expansion(session: Any, node: Apply) -> Graph | None:
    """A scatter by any combiner: where indices are unique, combined with what is there; else one update at a time."""
    if scatter_opcode(node) in ("set", "subtract", *DIRECT):
        return None
    if node.attributes.get("unique_indices") or _batch_count(array_type(node.operands[-1]), node.attributes) == 1:
        return expanded(session, node, lambda emitter, given: _combined_at_once(emitter, node, given))
    return expanded(session, node, lambda emitter, given: _one_by_one(session, emitter, node, given))


def _combined_at_once(emitter: Emitter, node: Apply, given: list[Node]) -> Node | list[Node]:
    count = len(given) // 2
    operands, indices, updates = given[:count], given[count], given[count + 1 :]
    attributes = node.attributes
    there = [
        _gathered(emitter, value, indices, array_type(update), attributes)
        for value, update in zip(operands, updates, strict=True)
    ]
    made = on_arrays(emitter, attributes["to_apply"], [*there, *updates])
    results = []
    for operand, value in zip(operands, made, strict=True):
        element = array_type(operand).dtype
        keep = emitter.graph.module.add_graph("autodiff.replace")
        keep.add_parameter(TensorType(element), "lhs")
        keep.set_output(keep.add_parameter(TensorType(element), "rhs"))
        results.append(emitter.op("scatter", operand, indices, value, **{**attributes, "to_apply": keep}))
    return results if isinstance(node.type, TupleType) else results[0]


def _one_by_one(session: Any, emitter: Emitter, node: Apply, given: list[Node]) -> Node | list[Node]:
    """A loop over the updates, in their order."""
    count = len(given) // 2
    operands, indices, updates = given[:count], given[count], given[count + 1 :]
    attributes = node.attributes
    whole, shape = array_type(operands[0]), array_type(updates[0])
    steps = _batch_count(shape, attributes)
    starts = _starts(emitter, indices, whole, shape, attributes)
    sizes = tuple(_window_sizes(whole, shape, attributes))
    scattered = [dim for dim in range(shape.rank) if dim not in attributes["update_window_dims"]]
    order = [*scattered, *attributes["update_window_dims"]]
    rows = [emitter.reshape(emitter.transpose(value, order), [steps, *sizes]) for value in updates]
    limits = emitter.constant(
        np.array([size - own for size, own in zip(whole.dims, sizes, strict=True)], np.int32).reshape(-1),
        TensorType(S32, [whole.rank]),
    )

    def condition(inner: Emitter, state: list[Node]) -> Node:
        return inner.compare("LT", state[0], inner.constant(steps, S32))

    def body(inner: Emitter, state: list[Node]) -> list[Node]:
        index, table, most = state[:3]
        held, offered = state[3 : 3 + count], state[3 + count :]
        zero = inner.constant(0, S32)
        start = inner.reshape(
            inner.op("dynamic-slice", table, index, zero, dynamic_slice_sizes=(1, whole.rank)), [whole.rank]
        )
        fits = inner.op("and", inner.compare("GE", start, inner.zeros(array_type(start))),
                        inner.compare("LE", start, most))  # fmt: skip
        inside = inner.reduce("and", fits, [0])
        at = [
            inner.reshape(inner.op("slice", start, slice=(SliceDimension(dim, dim + 1),)), [])
            for dim in range(whole.rank)
        ]
        there = [inner.op("dynamic-slice", value, *at, dynamic_slice_sizes=sizes) for value in held]
        update = [
            inner.reshape(
                inner.op("dynamic-slice", value, index, *[zero] * whole.rank, dynamic_slice_sizes=(1, *sizes)), sizes
            )
            for value in offered
        ]
        made = on_arrays(inner, attributes["to_apply"], [*there, *update])
        kept = [inner.op("select", inner.broadcast(inside, sizes), a, b) for a, b in zip(made, there, strict=True)]
        after = [inner.op("dynamic-update-slice", value, row, *at) for value, row in zip(held, kept, strict=True)]
        return [inner.add(index, inner.constant(1, S32)), table, most, *after, *offered]

    init = [emitter.constant(0, S32), starts, limits, *operands, *rows]
    done = loop(emitter, node.name, init, condition, body)
    session.trips[done[0].operands[0]] = steps
    results = done[3 : 3 + count]
    return results if isinstance(node.type, TupleType) else results[0]


def _starts(
    emitter: Emitter, indices: Node, whole: TensorType, updates: TensorType, attributes: Mapping[str, Any]
) -> Node:
    """Where each update begins along each dimension of the operand: s32[updates, rank]."""
    vector, value_type = attributes["index_vector_dim"], array_type(indices)
    steps = _batch_count(updates, attributes)
    outer = [size for dim, size in enumerate(value_type.dims) if dim != vector]
    if vector < value_type.rank:
        indices = emitter.transpose(indices, [*[dim for dim in range(value_type.rank) if dim != vector], vector])
    table = emitter.reshape(emitter.convert(indices, S32), [steps, len(attributes["scatter_dims_to_operand_dims"])])
    columns = []
    batching = attributes.get("input_batching_dims", ())
    for dim in range(whole.rank):
        if dim in attributes["scatter_dims_to_operand_dims"]:
            position = attributes["scatter_dims_to_operand_dims"].index(dim)
            parts = (SliceDimension(0, steps), SliceDimension(position, position + 1))
            columns.append(emitter.op("slice", table, slice=parts))
        elif dim in batching:
            source = attributes["scatter_indices_batching_dims"][batching.index(dim)]
            position = source - (vector < source)
            columns.append(emitter.reshape(emitter.iota(S32, outer, position), [steps, 1]))
        else:
            columns.append(emitter.zeros(TensorType(S32, [steps, 1])))
    return emitter.op("concatenate", *columns, dimensions=(1,))
