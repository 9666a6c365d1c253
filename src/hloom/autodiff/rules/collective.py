"""Communication ops. The objective is the sum over all devices, so the transpose sends back what a device received.

all-reduce by add    its cotangent all-reduced
all-gather           reduce-scatter            and the other way round
all-to-all           itself
collective-permute   the pairs turned around
collective-broadcast the sum, at the device that sends

An all-reduce or reduce-scatter by another computation gathers or exchanges the operands, which are then combined by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import PREDICATE, Emitter, array_type
from hloom.autodiff.linear import FORWARD_FORMS, Linear, LinearOps, Tape, Zero
from hloom.autodiff.linearize import STRUCTURES, Walk, place_of
from hloom.autodiff.rules.combiners import expanded
from hloom.autodiff.rules.reduction import DIRECT, extreme_bound, halved
from hloom.autodiff.table import none, rules, structural, transposition
from hloom.ir import Apply, ExplicitGroups, Graph, Node, TensorType, TupleType, check_device_count
from hloom.ops import EXTREMES, OPS, reducer_of
from hloom.text import HloomError, Unsupported

none("ragged-all-to-all", because="who sends is known only when the program runs")
structural(
    "all-reduce-start all-reduce-done all-gather-start all-gather-done collective-permute-start "
    "collective-permute-done copy-start copy-done"
)

_MEANING = ("replica_groups", "channel_id", "use_global_device_ids", "mode", "constrain_layout")


def _kept(node: Apply | Linear, *further: str) -> dict[str, Any]:
    return {name: node.attributes[name] for name in (*_MEANING, *further) if name in node.attributes}


def _each(node: Apply) -> list[Any]:
    """The results of a collective, one for each operand."""
    value_type = node.type
    return list(value_type.elements) if isinstance(value_type, TupleType) else [value_type]


def _gathered(node: Apply, results: Sequence[Any]) -> Any:
    return list(results) if isinstance(node.type, TupleType) else results[0]


def _value(t: LinearOps, node: Apply, number: int) -> Node:
    return t.primal.element(node, number) if isinstance(node.type, TupleType) else node


def combining_opcode(graph: Graph) -> str:
    """The opcode that a computation of two parameters combines them by, markers of shardings seen through."""
    root = graph.root
    while root.opcode == "custom-call" and root.attributes["custom_call_target"] == "Sharding":
        root = root.operands[0]
    if root is not graph.root and set(root.operands) == set(graph.parameters):
        return root.opcode
    return reducer_of(graph)


def _groups(node: Apply) -> tuple[tuple[int, ...], ...]:
    """The groups of a collective, of replicas or of devices as it says; those that are not listed are of one device."""
    attributes = node.graph.module.attributes
    replicas, partitions = (attributes.get(name) or 1 for name in ("replica_count", "num_partitions"))
    count = replicas
    if node.attributes.get("channel_id"):
        count = replicas * partitions if node.attributes.get("use_global_device_ids") else partitions
    groups = _listed(node, count)
    rest = set(range(count)) - {device for group in groups for device in group}
    return (*groups, *[(device,) for device in sorted(rest)])


def _listed(node: Apply, count: int) -> tuple[tuple[int, ...], ...]:
    """The groups that a collective lists among so many replicas or devices; all are one group where it lists none."""
    check_device_count(count)
    return (node.attributes.get("replica_groups") or ExplicitGroups()).groups(count)


def _group_size(node: Apply) -> int:
    sizes = {len(group) for group in _groups(node)}
    if len(sizes) != 1:
        raise Unsupported(f"{place_of(node)}: {node.opcode} by a computation of its own in groups of different sizes")
    return sizes.pop()


def gathered(session: Any, node: Apply) -> Graph | None:
    """An all-reduce by any computation: all operands gathered, and combined in a tree."""
    graph: Graph = node.attributes["to_apply"]
    if combining_opcode(graph) in DIRECT:
        return None
    attributes = node.graph.module.attributes
    size = _group_size(node)
    if node.attributes.get("channel_id") and not node.attributes.get("use_global_device_ids"):
        replicas, partitions = (attributes.get(name) or 1 for name in ("replica_count", "num_partitions"))
        if replicas > 1 and partitions > 1:
            raise Unsupported(f"{place_of(node)}: all-reduce by a computation of its own over replicas and partitions")
        size = max(replicas, partitions)

    def make(emitter: Emitter, operands: list[Node]) -> Node | list[Node]:
        results = []
        for operand in operands:
            value_type = array_type(operand)
            column = emitter.reshape(operand, [*value_type.dims, 1])
            made = TensorType(value_type.dtype, [*value_type.dims, size])
            every = emitter.op("all-gather", column, type=made, dimensions=(value_type.rank,), **_kept(node))
            results += halved(emitter, graph, [every])
        return results if isinstance(node.type, TupleType) else results[0]

    return expanded(session, node, make)


def exchanged(session: Any, node: Apply) -> Graph | None:
    """A reduce-scatter by any computation: the parts sent to where they belong, and combined there."""
    graph: Graph = node.attributes["to_apply"]
    opcode = combining_opcode(graph)
    if opcode == "add":
        return None
    attributes = node.graph.module.attributes
    if node.attributes.get("channel_id") and (attributes.get("replica_count") or 1) > 1:
        raise Unsupported(f"{place_of(node)}: a reduce-scatter over replicas and partitions that does not add")
    size, (along,) = _group_size(node), node.attributes["dimensions"]
    kept: dict[str, Any] = {"replica_groups": ExplicitGroups(_groups(node))}  # all-to-all has to list them
    if node.attributes.get("channel_id"):
        kept["channel_id"] = node.attributes["channel_id"]

    def make(emitter: Emitter, operands: list[Node]) -> Node | list[Node]:
        results = []
        for operand in operands:
            value_type = array_type(operand)
            sent = emitter.op("all-to-all", operand, type=value_type, dimensions=(along,), **kept)
            dims = value_type.dims
            parts = emitter.reshape(sent, [*dims[:along], size, dims[along] // size, *dims[along + 1 :]])
            if opcode in EXTREMES:
                results.append(emitter.reduce(opcode, parts, [along]))
            else:
                order = [dim for dim in range(value_type.rank + 1) if dim != along]
                results += halved(emitter, graph, [emitter.transpose(parts, [*order, along])])
        return results if isinstance(node.type, TupleType) else results[0]

    return expanded(session, node, make)


@rules("all-reduce", expand=gathered)
def all_reduce(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """A sum; of an extreme the mean of the tangents that equal it."""
    opcode = combining_opcode(node.attributes["to_apply"])
    results = []
    for number, (operand, tangent) in enumerate(zip(node.operands, tangents, strict=True)):
        if tangent is None:
            results.append(None)
            continue
        value_type = array_type(operand)
        attributes = {**_kept(node), "to_apply": t.primal.reducer("add", value_type.dtype)}
        if opcode == "add":
            results.append(t.op("all-reduce", tangent, type=value_type, **attributes))
        else:
            p = t.primal
            direction, bound = extreme_bound(p, operand, _value(t, node, number), opcode)
            weights = p.convert(p.compare(direction, operand, bound), value_type.dtype)
            count = p.op("all-reduce", weights, type=value_type, **attributes)
            count = count if direction == "EQ" else p.op("maximum", count, p.like(1, count))
            results.append(t.div(t.op("all-reduce", t.mul(weights, tangent), type=value_type, **attributes), count))
    return _gathered(node, results)


@transposition("all-reduce")
def transpose_all_reduce(b: Backward, value: Linear, cotangent: Node) -> None:
    b.give(value.operands[0], b.op("all-reduce", cotangent, type=value.type, **value.attributes))


@rules("all-gather")
def all_gather(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return _one_by_one(t, node, tangents, "dimensions")


@rules("collective-broadcast")
def collective_broadcast(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    if node.attributes.get("has_dynamic_root"):
        raise Unsupported(f"{place_of(node)}: who sends a collective-broadcast is known only when the program runs")
    results = [
        None if tangent is None else t.op(BROADCAST, tangent, type=array_type(operand), call=node)
        for operand, tangent in zip(node.operands, tangents, strict=True)
    ]
    return _gathered(node, results)


BROADCAST = "broadcast-from-root"
"""The linear op that yields what the first device of each group has, and zeros where no group is."""


def _from_root(emitter: Emitter, operand: Node, *, type: Any, call: Apply) -> Node:
    return emitter.op("collective-broadcast", operand, type=type, **_kept(call))


FORWARD_FORMS[BROADCAST] = _from_root


@transposition(BROADCAST)
def transpose_from_root(b: Backward, value: Linear, cotangent: Node) -> None:
    """The sum over each group, at its root; zeros elsewhere."""
    call: Apply = value.attributes["call"]
    attributes = call.graph.module.attributes
    replicas, partitions = (attributes.get(name) or 1 for name in ("replica_count", "num_partitions"))
    across = bool(call.attributes.get("channel_id"))
    count = partitions if across else replicas
    senders = [group[0] for group in _listed(call, count) if group]
    if not all(0 <= sender < count for sender in senders):
        raise HloomError(f"{place_of(call)}: its replica_groups name devices that are not among the {count}")
    roots = np.zeros(count, bool)
    roots[senders] = True
    groups = _groups(call)
    if across:
        groups = tuple(tuple(n * partitions + device for device in group) for n in range(replicas) for group in groups)
    value_type = array_type(cotangent)
    total = b.op(
        "all-reduce",
        cotangent,
        type=value_type,
        to_apply=b.reducer("add", value_type.dtype),
        channel_id=call.attributes.get("channel_id"),
        replica_groups=ExplicitGroups(groups),
        use_global_device_ids=across,
    )
    number = b.op("partition-id" if across else "replica-id")
    table = b.constant(roots, TensorType(PREDICATE, roots.shape))
    own = b.reshape(b.op("dynamic-slice", table, number, dynamic_slice_sizes=(1,)), [])
    b.give(value.operands[0], b.select(b.broadcast(own, value_type.dims), total, b.zeros(value_type)))


@rules("reduce-scatter", expand=exchanged)
def reduce_scatter(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    return _one_by_one(t, node, tangents, "dimensions", "to_apply")


@rules("collective-permute")
def collective_permute(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    if node.attributes.get("slice_sizes") or len(node.operands) != 1:
        raise Unsupported(f"{place_of(node)}: a collective-permute into parts of buffers has no derivative here")
    return _one_by_one(t, node, tangents, "source_target_pairs")


def _one_by_one(t: LinearOps, node: Apply, tangents: list[Any], *further: str) -> Any:
    """The same collective of each operand's tangent."""
    results = [
        None if tangent is None else t.op(node.opcode, tangent, type=_plain(value_type), **_kept(node, *further))
        for tangent, value_type in zip(tangents, _each(node), strict=True)
    ]
    return _gathered(node, results)


def _plain(value_type: Any) -> TensorType:
    assert isinstance(value_type, TensorType), "collectives are of arrays"
    return value_type.with_layout(None)


@rules("all-to-all")
def all_to_all(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """Of one array, its parts; of several, one for each device: the linear op is of all together."""
    if node.attributes.get("dimensions"):
        return _one_by_one(t, node, tangents, "dimensions")
    parts = [
        tangent if tangent is not None else t.zero(given)
        for tangent, given in zip(tangents, node.operands, strict=True)
    ]
    if not isinstance(t, Tape):
        used = [t.primal.zeros(value.type) if isinstance(value, Zero) else value for value in parts]
        made = t.primal.op("all-to-all", *used, type=node.type, **_kept(node))
        return [t.primal.element(made, n) for n in range(len(parts))] if len(parts) > 1 else made
    types = [array_type(value) for value in parts]

    def transpose(backward: Backward, cotangents: list[Node | None]) -> None:
        given = [
            cotangent if cotangent is not None else backward.zeros(k)
            for cotangent, k in zip(cotangents, types, strict=True)
        ]
        made = backward.op("all-to-all", *given, type=node.type, **_kept(node))
        for number, part in enumerate(parts):
            backward.give(part, backward.element(made, number) if len(parts) > 1 else made)

    outputs = t.call(types, [value for value in parts if isinstance(value, Linear)], transpose)
    return _gathered(node, outputs)


@transposition("all-gather")
def transpose_all_gather(b: Backward, value: Linear, cotangent: Node) -> None:
    value_type = array_type(value.operands[0])
    attributes = {**_kept(value, "dimensions"), "to_apply": b.reducer("add", value_type.dtype)}
    b.give(value.operands[0], b.op("reduce-scatter", cotangent, type=value_type, **attributes))


@transposition("reduce-scatter")
def transpose_reduce_scatter(b: Backward, value: Linear, cotangent: Node) -> None:
    kept = {name: item for name, item in _kept(value, "dimensions").items() if name != "mode"}
    b.give(value.operands[0], b.op("all-gather", cotangent, type=array_type(value.operands[0]), **kept))


@transposition("all-to-all")
def transpose_all_to_all(b: Backward, value: Linear, cotangent: Node) -> None:
    b.give(value.operands[0], b.op("all-to-all", cotangent, type=value.type, **value.attributes))


@transposition("collective-permute")
def transpose_collective_permute(b: Backward, value: Linear, cotangent: Node) -> None:
    pairs = tuple((target, source) for source, target in value.attributes["source_target_pairs"])
    attributes = {**value.attributes, "source_target_pairs": pairs}
    b.give(value.operands[0], b.op("collective-permute", cotangent, type=value.type, **attributes))


# Asynchronous pairs, as the ops that they are


def _reduced(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    made = walk.emitter.op("all-reduce", *operands, type=node.type, **node.attributes)
    assert isinstance(made, Apply), "it is applied"
    return made, all_reduce(walk.ops, made, tangents)


def _started(opcode: str, rule: Any) -> Any:
    """A collective that yields (operands, results): done at once."""

    def start(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
        emitter, value_type = walk.emitter, node.type
        assert isinstance(value_type, TupleType), "a start yields a tuple"
        known = {name: value for name, value in node.attributes.items() if name in OPS[opcode].attributes}
        made = emitter.op(opcode, *operands, type=value_type.elements[1], **known)
        assert isinstance(made, Apply), "it is applied"
        result = rule(walk.ops, made, tangents)
        taken = operands[0] if len(operands) == 1 else emitter.tuple(operands)
        rest = [_nothing(emitter, element) for element in value_type.elements[2:]]
        after = [None] * sum(1 for element in value_type.elements[2:] for _ in element.leaves())
        results = list(result) if isinstance(made.type, TupleType) else [result]
        return emitter.tuple([taken, made, *rest]), [*tangents, *results, *after]

    return start


def _nothing(emitter: Emitter, value_type: Any) -> Node:
    return emitter.zeros(value_type)


def _copy_started(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    emitter, value_type = walk.emitter, node.type
    assert isinstance(value_type, TupleType), "a start yields a tuple"
    made = emitter.op("copy", operands[0])
    rest = [_nothing(emitter, element) for element in value_type.elements[2:]]
    return emitter.tuple([made, operands[0], *rest]), [tangents[0], tangents[0], *[None] * len(rest)]


def _done(number: int) -> Any:
    def done(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
        value = operands[0]
        if not isinstance(value.type, TupleType) or node.opcode == "all-reduce-done":
            return value, tangents[0]
        value_type = value.type
        start = sum(1 for element in value_type.elements[:number] for _ in element.leaves())
        count = sum(1 for _ in value_type.elements[number].leaves())
        result = tangents[0][start : start + count]
        return walk.emitter.element(value, number), result if isinstance(node.type, TupleType) else result[0]

    return done


STRUCTURES["all-reduce-start"] = _reduced
STRUCTURES["all-reduce-done"] = _done(0)
STRUCTURES["all-gather-start"] = _started("all-gather", all_gather)
STRUCTURES["all-gather-done"] = _done(1)
STRUCTURES["collective-permute-start"] = _started("collective-permute", collective_permute)
STRUCTURES["collective-permute-done"] = _done(1)
STRUCTURES["copy-start"] = _copy_started
STRUCTURES["copy-done"] = _done(0)
