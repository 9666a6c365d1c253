"""Rules on all-reduces: sums of several become one, one of another becomes one, parts are taken before.

Follows XLA's xla/hlo/transforms/collectives/all_reduce_reassociate.cc (AllReduceReassociate),
xla/hlo/transforms/simplifiers/all_reduce_folder.cc (AllReduceFolder),
xla/service/gpu/transforms/reduce_scatter_creator.cc (ReduceScatterCreator) and
xla/hlo/transforms/collectives/all_gather_broadcast_reorder.cc (AllGatherBroadcastReorder).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.ir import Apply, ExplicitGroups, Graph, Node, SliceDimension
from hloom.ops import REDUCERS
from hloom.passes.computation_order import has_control_dependencies, is_awaited
from hloom.passes.rules.convert import preserves_values
from hloom.passes.rules.dimensions import dims_after_reshape, resized
from hloom.passes.rules.participants import device_counts, is_unlisted, participants, values_on_devices
from hloom.passes.rules.reducers import combiner_of, is_idempotent, is_identity, same_reduction
from hloom.passes.rules.value_properties import is_zero
from hloom.rewrite import Builder, Family, all_operands, operand_is, tensor_type, used_once

REASSOCIATION = Family(
    "all-reduce-reassociation", because="looks through chains of views and compares groups of devices"
)
WIDENING = Family("all-reduce-widening", because="looks through chains of views and counts the bytes sent")
FOLDING = Family("all-reduce-folding", because="computes the groups of both steps together")
SCATTERING = Family("reduce-scatter", because="compares groups of devices, and the parts that each of them takes")
GATHERING = Family("all-gather", because="computes the shape of what each device repeats")

LOOKED_THROUGH = ("convert", "pad", "reshape", "slice", "transpose")
"""What may be done to a sum as well as to its terms; of pads, those of zeros, of converts, those to wider floats."""
_MOST_STEPS = 6
"""How many of these there may be between an all-reduce and what combines it with another."""
_KEY = "collective_group_key"
_SCHEDULING = "_scheduling_group_id"
_OWN = frozenset(("backend_config", "channel_id", "frontend_attributes", "replica_groups", "to_apply"))


@REASSOCIATION.rewrites(
    *REDUCERS, depth=_MOST_STEPS + 2, requires=all_operands("all-reduce", "dynamic-slice", *LOOKED_THROUGH)
)
def combination_of_all_reduces(build: Builder, node: Apply) -> Node | None:
    """add(all-reduce(x), all-reduce(y)), to_apply=add -> all-reduce(add(x, y))

    So too of all-reduces that are reshaped, transposed, sliced or padded with the identity, where no more is sent, and
    of the same dynamic slice of both.
    """
    return _combined(build, node, widens=False)


@WIDENING.rewrites(*REDUCERS, depth=_MOST_STEPS + 2, requires=all_operands("all-reduce", *LOOKED_THROUGH))
def combination_of_converted_all_reduces(build: Builder, node: Apply) -> Node | None:
    """add(convert(all-reduce(x)), convert(all-reduce(y))) -> all-reduce(add(convert(x), convert(y)))

    Where every value of the narrow type is one of the wide one, and no more bytes are sent.
    """
    return _combined(build, node, widens=True)


def _combined(build: Builder, node: Apply, *, widens: bool) -> Node | None:
    if tensor_type(node) is None:
        return None
    if all(operand.opcode == "dynamic-slice" for operand in node.operands):
        return None if widens else _combined_slices(build, node)
    left, right = (_looked_through(operand, node.opcode) for operand in node.operands)
    if left is None or right is None:
        return build.decline("an operand is not an all-reduce that only this uses")
    has_converts = any(step.opcode == "convert" for steps, _ in (left, right) for step in steps)
    if has_converts != widens:
        return build.decline("the element type changes on the way" if has_converts else "no element type changes")
    (first_steps, first), (second_steps, second) = left, right
    problem = _obstacle(first, second, node.opcode)
    if problem:
        return build.decline(problem)
    if _bytes(node) > sum(map(_bytes, {first, second})):
        return build.decline("more would be sent")
    operands = [
        _moved(build, steps, inner.operands[0]) for steps, inner in ((first_steps, first), (second_steps, second))
    ]
    made = build.like(node, *operands, type=node.type)
    build.consumed += [first, second]
    build.carries_itself = True
    return _all_reduce(build, first, made)


def _combined_slices(build: Builder, node: Apply) -> Node | None:
    """add of the same dynamic slice of all-reduce(x) and all-reduce(y) -> dynamic-slice(all-reduce(add(x, y)), i)"""
    one, other = node.operands
    first, second = one.operands[0], other.operands[0]
    if not (_only_here(one, node) and _only_here(other, node) and _only_here(first, one) and _only_here(second, other)):
        return build.decline("something else uses a slice or what is sliced")
    if one.operands[1:] != other.operands[1:] or one.attributes != other.attributes or first.type != second.type:
        return build.decline("the slices differ")
    if not isinstance(one, Apply) or not isinstance(first, Apply) or not isinstance(second, Apply):
        return None
    if first.opcode != "all-reduce" or second.opcode != "all-reduce":
        return None
    problem = _obstacle(first, second, node.opcode)
    if problem:
        return build.decline(problem)
    build.consumed += [first, second]
    build.carries_itself = True
    made = build.op(node.opcode, first.operands[0], second.operands[0])
    return build.like(one, _all_reduce(build, first, made), *one.operands[1:])


def _looked_through(operand: Node, opcode: str) -> tuple[list[Apply], Apply] | None:
    """The steps from an operand down to the all-reduce that it is of, each used once, and the all-reduce."""
    steps: list[Apply] = []
    while isinstance(operand, Apply) and operand.opcode in LOOKED_THROUGH and len(steps) < _MOST_STEPS:
        if operand.user_count != 1 or operand.is_output or has_control_dependencies(operand):
            return None
        if operand.opcode == "pad" and not is_identity_of(opcode, operand.operands[1]):
            return None
        if operand.opcode == "convert" and not widens(operand):
            return None
        steps.append(operand)
        operand = operand.operands[0]
    if not isinstance(operand, Apply) or operand.opcode != "all-reduce" or operand.user_count != 1:
        return None
    return None if operand.is_output or tensor_type(operand) is None else (steps, operand)


def is_identity_of(opcode: str, start: Node) -> bool:
    """Whether a constant changes nothing, or only the sign of zero, when it is combined with what devices have."""
    return is_identity(opcode, start) or (opcode == "add" and is_zero(start))


def widens(convert: Node) -> bool:
    """Whether floats become floats of a type that holds them all; integers would have wrapped before."""
    narrow, wide = tensor_type(convert.operands[0]), tensor_type(convert)
    return (
        narrow is not None and wide is not None and narrow.dtype.is_float and preserves_values(narrow.dtype, wide.dtype)
    )


def _moved(build: Builder, steps: Sequence[Apply], operand: Node) -> Node:
    """The steps that an all-reduce's result went through, on what goes into it."""
    for step in reversed(steps):
        operand = build.like(step, operand, *step.operands[1:], type=step.type)
    return operand


def _all_reduce(build: Builder, like: Apply, operand: Node) -> Apply:
    """The same all-reduce of an array of any element type."""
    attributes = {**like.attributes, "to_apply": reducer_for(build, like, operand)}
    return build.op("all-reduce", operand, attributes=attributes)


def reducer_for(build: Builder, all_reduce: Apply, operand: Node) -> Graph:
    """The computation of an all-reduce, for the elements of another operand."""
    reducer: Graph = all_reduce.attributes["to_apply"]
    before, made = tensor_type(all_reduce), tensor_type(operand)
    assert before is not None and made is not None
    return reducer if before.dtype is made.dtype else build.reducer(combiner_of(reducer), made.dtype)


def _obstacle(first: Apply, second: Apply, opcode: str) -> str:
    """Why two all-reduces cannot be one that combines by an opcode; empty where they can."""
    if any(combiner_of(reduction.attributes["to_apply"]) != opcode for reduction in (first, second)):
        return "they combine by another op"
    if first.attributes.get("replica_groups") != second.attributes.get("replica_groups"):
        return "the groups differ"
    return _difference(first, second) or binding(first) or binding(second)


def _difference(first: Apply, second: Apply) -> str:
    """How two all-reduces differ beside their groups and operands; empty where they do not."""
    if ("channel_id" in first.attributes) != ("channel_id" in second.attributes):
        return "only one has a channel"
    if group_key(first) != group_key(second):
        return f"their {_KEY} differ"
    ours, others = (
        {name: value for name, value in node.attributes.items() if name not in _OWN} for node in (first, second)
    )
    return "" if ours == others else "their attributes differ"


def binding(collective: Apply) -> str:
    """What says when or how a collective runs; empty where nothing does."""
    if collective.attributes.get("constrain_layout") or "sharding" in collective.attributes:
        return "its layout or sharding is given"
    if len(collective.operands) != 1 or collective.type != collective.operands[0].type:
        return "it is of several arrays, or changes the layout"
    if has_control_dependencies(collective) or is_awaited(collective):
        return "control dependencies name it"
    return ""


def group_key(collective: Node) -> str | None:
    """The key of collectives that are to run as one, among the frontend attributes."""
    return _frontend_attribute(collective, _KEY)


def _frontend_attribute(node: Node, name: str) -> str | None:
    return dict(node.attributes.get("frontend_attributes") or ()).get(name)


def _only_here(node: Node, user: Node) -> bool:
    return not node.is_output and node.user_count == 1 and user in node.users


def _bytes(node: Node) -> int:
    return node.type.byte_count if node.type is not None else 0


@REASSOCIATION.rewrites(
    *REDUCERS, depth=2, requires=all_operands("reduce-scatter"), because="compares the groups of two collectives"
)
def combination_of_reduce_scatters(build: Builder, node: Apply) -> Node | None:
    """add(reduce-scatter(x), reduce-scatter(y)), to_apply=add -> reduce-scatter(add(x, y))

    Follows xla/hlo/transforms/collectives/reduce_scatter_reassociate.cc (ReduceScatterReassociate).
    """
    first, second = node.operands
    if not isinstance(first, Apply) or not isinstance(second, Apply):
        return None
    if not (_only_here(first, node) and _only_here(second, node)):
        return build.decline("something else uses an operand")
    groups = [collective.attributes.get("replica_groups") for collective in (first, second)]
    if any(combiner_of(collective.attributes["to_apply"]) != node.opcode for collective in (first, second)):
        return build.decline("they combine by another op")
    problem = _difference(first, second) or restraint_of_scatter(first) or restraint_of_scatter(second)
    ids = [
        dict(collective.attributes.get("frontend_attributes") or ()).get(_SCHEDULING) for collective in (first, second)
    ]
    if groups[0] != groups[1] or first.operands[0].type != second.operands[0].type or problem:
        return build.decline(problem or "the groups or the operands differ")
    if None not in ids and ids[0] != ids[1]:
        return build.decline("they are scheduled apart")
    build.consumed += [first, second]
    build.carries_itself = True
    kept = dict(first.attributes.get("frontend_attributes") or ())
    if ids[0] != ids[1]:
        kept.pop(_SCHEDULING, None)
    made = build.op(node.opcode, first.operands[0], second.operands[0])
    return build.like(first, made, type=first.type, frontend_attributes=tuple(kept.items()) or None)


@SCATTERING.rewrites("reduce-scatter", depth=2, effects=True, requires=operand_is(0, "all-reduce"))
def reduce_scatter_of_all_reduce(build: Builder, node: Apply) -> Node | None:
    """reduce-scatter(all-reduce(x)) -> all-reduce(reduce-scatter(x)): the part is reduced, not the whole

    Where the devices of each group of the all-reduce take the same part, and the sums are those of the same devices.
    Follows xla/hlo/transforms/collectives/all_reduce_reduce_scatter_reorder.cc (AllReduceReduceScatterReorder).
    """
    reduced = node.operands[0]
    if not isinstance(reduced, Apply) or not used_once(reduced) or len(node.operands) != 1:
        return build.decline("something else uses the all-reduce")
    if not same_reduction(node.attributes["to_apply"], reduced.attributes["to_apply"]):
        return build.decline("they combine by different ops")
    problem = binding(reduced) or restraint_of_scatter(node)
    first, second = participants(reduced), participants(node)
    if problem or first is None or second is None or not _may_exchange(first, second):
        return build.decline(problem or "other devices would be summed up, or other parts")
    build.consumed += [node, reduced]
    build.carries_itself = True
    part = build.like(node, reduced.operands[0], type=node.type)
    return build.op("all-reduce", part, attributes=reduced.attributes)


def _may_exchange(first: Sequence[Sequence[int]], second: Sequence[Sequence[int]]) -> bool:
    """Whether devices reduce the same in groups of one and then of the other partition, the second by parts."""
    members = {device: group for group in first for device in group}
    taken = {device: (group, position) for group in second for position, device in enumerate(group)}
    for device, (group, position) in taken.items():
        before = sorted(inner for other in group for inner in members[other])
        after = sorted(inner for other in members[device] for inner in taken[other][0])
        if before != after or any(taken[other][1] != position for other in members[device]):
            return False
    return True


@SCATTERING.rewrites("dynamic-slice", depth=2, effects=True, requires=operand_is(0, "all-gather"))
def slice_of_all_gather(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(all-gather(x), 4 * replica-id()) -> x, where each device takes what it gave

    Follows xla/hlo/transforms/collectives/all_gather_simplifier.cc (AllGatherSimplifier).
    """
    gathered = node.operands[0]
    if not isinstance(gathered, Apply) or len(gathered.operands) != 1 or len(gathered.attributes["dimensions"]) != 1:
        return None
    given, part = gathered.operands[0], tensor_type(node)
    groups, (dim,) = participants(gathered), gathered.attributes["dimensions"]
    if part is None or groups is None or given.type != node.type or has_control_dependencies(node):
        return build.decline("it takes another part, or the groups are not known")
    if not _takes_own_parts(gathered, node.operands[1 + dim], groups, part.dims[dim]):
        return build.decline("the devices do not take the parts in the order of their group")
    build.consumed.append(node)
    if used_once(gathered) and not has_control_dependencies(gathered):
        build.consumed.append(gathered)
    return given


def restraint_of_scatter(scatter: Apply) -> str:
    """What says when or how a reduce-scatter runs; empty where nothing does."""
    if scatter.attributes.get("constrain_layout") or "sharding" in scatter.attributes:
        return "its layout or sharding is given"
    if len(scatter.operands) != 1 or tensor_type(scatter) is None:
        return "it is of several arrays"
    return "control dependencies name it" if has_control_dependencies(scatter) or is_awaited(scatter) else ""


@FOLDING.rewrites("all-reduce", depth=2, effects=True, requires=operand_is(0, "all-reduce"))
def all_reduce_of_all_reduce(build: Builder, node: Apply) -> Node | None:
    """all-reduce(all-reduce(x), {{0,1},{2,3}}), {{0,2},{1,3}} -> all-reduce(x), {{0,1,2,3}}

    Where each device gets what every device of a group has, and once: of maxima and the like, several times as well.
    """
    inner = node.operands[0]
    if not isinstance(inner, Apply) or not used_once(inner) or len(node.operands) != 1:
        return build.decline("something else uses the inner one")
    if not same_reduction(node.attributes["to_apply"], inner.attributes["to_apply"]):
        return build.decline("they combine by different ops")
    combiner = combiner_of(node.attributes["to_apply"])
    problem = _difference(node, inner) if group_key(node) == group_key(inner) else ""
    problem = problem or binding(node) or binding(inner)
    if not combiner or problem:
        return build.decline(problem or "the op is not known")
    if any(is_unlisted(collective) for collective in (node, inner)):
        return build.decline("the groups are not listed")
    groups = _folded_groups(node, inner, is_idempotent(combiner))
    if groups is None:
        return build.decline("no groups do the same at once")
    build.consumed += [node, inner]
    build.carries_itself = True
    attributes = {**node.attributes, "replica_groups": ExplicitGroups(groups)}
    attributes["frontend_attributes"] = _joined_frontend_attributes(inner, node)
    return build.op("all-reduce", inner.operands[0], attributes=attributes)


def _folded_groups(node: Apply, inner: Apply, may_repeat: bool) -> tuple[tuple[int, ...], ...] | None:
    """The groups of replicas, or of devices, whose values each device gets in two steps."""
    if "channel_id" in node.attributes and not node.attributes.get("use_global_device_ids"):
        return None
    if participants(node) is None or participants(inner) is None:
        return None
    first, second = (collective.attributes["replica_groups"].groups(1) for collective in (inner, node))
    before = {number: group for group in first for number in group}
    made: dict[int, tuple[int, ...]] = {}
    for group in second:
        reached = [number for member in group for number in before.get(member, ())]
        if len(set(reached)) < len(reached) and not may_repeat:
            return None
        made |= dict.fromkeys(group, tuple(sorted(set(reached))))
    if any(made.get(number) != group for group in made.values() for number in group):
        return None
    return tuple(dict.fromkeys(made[number] for number in sorted(made)))


def _joined_frontend_attributes(inner: Apply, node: Apply) -> tuple[tuple[str, str], ...] | None:
    """The frontend attributes of both; where values differ, both after one another, but for keys of groups."""
    joined = dict(inner.attributes.get("frontend_attributes") or ())
    for name, value in node.attributes.get("frontend_attributes") or ():
        if joined.setdefault(name, value) != value:
            joined[name] = f"{joined[name]},{value}"
    if None not in (keys := (group_key(inner), group_key(node))) and keys[0] != keys[1]:
        del joined[_KEY]
    return tuple(joined.items()) or None


@SCATTERING.rewrites("dynamic-slice", depth=3, effects=True, requires=operand_is(0, "all-reduce", "reshape"))
def slice_of_all_reduce(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(all-reduce(x), 4 * replica-id()) -> reduce-scatter(x), where each device takes its own part

    Its place is computed for each device, of constants, tables and its number. A reshape between them may leave the
    dimension that is cut as it is; what no device takes is cut off before.
    """
    whole = node.operands[0]
    reduced = whole.operands[0] if whole.opcode == "reshape" else whole
    if (
        not isinstance(reduced, Apply)
        or reduced.opcode != "all-reduce"
        or not used_once(whole)
        or not used_once(reduced)
    ):
        return build.decline("there is no all-reduce that only this uses")
    source, sliced, part = tensor_type(reduced), tensor_type(whole), tensor_type(node)
    if source is None or sliced is None or part is None or not source.is_static or binding(reduced):
        return build.decline("it is not an all-reduce of one array that may move")
    cut = [dim for dim, (size, kept) in enumerate(zip(sliced.dims, part.dims, strict=True)) if size != kept]
    groups = participants(reduced)
    if len(cut) != 1 or groups is None or len(groups[0]) < 2:
        return build.decline("not one dimension is cut, or the groups are not known")
    (dim,) = cut
    size, count = part.dims[dim], len(groups[0])
    dims = (dim,) if reduced is whole else dims_after_reshape(sliced.dims, source.dims, (dim,))
    if dims is None or not size or count * size > sliced.dims[dim]:
        return build.decline("the parts do not fit, or the reshape splits or joins the dimension that is cut")
    if not _takes_own_parts(reduced, node.operands[1 + dim], groups, size):
        return build.decline("the devices do not take the parts in the order of their group")
    build.consumed += [node, reduced]
    build.carries_itself = True
    return _reduce_scatter(build, node, reduced, dims[0], size, groups)


def _takes_own_parts(reduced: Apply, start: Node, groups: Sequence[Sequence[int]], size: int) -> bool:
    """Whether the n-th device of each group takes the n-th part."""
    starts = values_on_devices(start, *device_counts(reduced.graph.module, reduced))
    if starts is None:
        return False
    at = starts.astype(np.int64)[np.asarray(groups)]
    return bool((at == np.arange(at.shape[1]) * size).all())


def _reduce_scatter(
    build: Builder, node: Apply, reduced: Apply, dim: int, size: int, groups: Sequence[Sequence[int]]
) -> Node:
    operand = reduced.operands[0]
    source, part = tensor_type(operand), tensor_type(node)
    assert source is not None and part is not None
    count = len(groups[0])
    if count * size < source.dims[dim]:
        ends = [count * size if at == dim else whole for at, whole in enumerate(source.dims)]
        operand = build.op("slice", operand, slice=tuple(SliceDimension(0, end) for end in ends))
    attributes = {name: value for name, value in reduced.attributes.items() if name != "sharding"}
    if "channel_id" in attributes and not attributes.get("use_global_device_ids"):
        attributes |= {"replica_groups": ExplicitGroups(tuple(map(tuple, groups))), "use_global_device_ids": True}
    sizes = [size if at == dim else whole for at, whole in enumerate(source.dims)]
    attributes["dimensions"] = (dim,)
    made = build.op("reduce-scatter", operand, type=resized(source, sizes), attributes=attributes)
    return made if made.type == part else build.op("reshape", made, type=part)


@GATHERING.rewrites("all-gather", depth=2, effects=True, requires=operand_is(0, "broadcast"))
def all_gather_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """all-gather(broadcast(x)) -> broadcast(all-gather(x)): each element is sent once

    Along a dimension that repeats, each device's x becomes one row, whose repetitions a reshape joins.
    """
    spread, made = node.operands[0], tensor_type(node)
    if (
        not isinstance(spread, Apply)
        or made is None
        or len(node.operands) != 1
        or len(node.attributes["dimensions"]) != 1
    ):
        return None
    wide, source = tensor_type(spread), tensor_type(spread.operands[0])
    if (
        wide is None
        or source is None
        or not wide.is_static
        or has_control_dependencies(node)
        or "sharding" in node.attributes
    ):
        return build.decline("its type or sharding is given otherwise")
    if source.element_count >= wide.element_count or not wide.element_count or node.attributes.get("constrain_layout"):
        return build.decline("nothing is repeated")
    if is_awaited(node):
        return build.decline("control dependencies name it")
    build.consumed.append(node)
    build.carries_itself = True
    (along,), dims = node.attributes["dimensions"], tuple(spread.attributes["dimensions"])
    count = made.dims[along] // wide.dims[along]
    if along in dims:
        dim = dims.index(along)
        gathered = [size * count if at == dim else size for at, size in enumerate(source.dims)]
        less = build.like(node, spread.operands[0], type=resized(source, gathered), dimensions=(dim,))
        return build.op("broadcast", less, type=made.with_layout(None), dimensions=dims)
    row = build.op("reshape", spread.operands[0], type=resized(source, (1, *source.dims)))
    rows = build.like(node, row, type=resized(source, (count, *source.dims)), dimensions=(0,))
    repeated = (*wide.dims[:along], count, *wide.dims[along:])
    moved = (along, *(dim + (dim >= along) for dim in dims))
    full = build.op("broadcast", rows, type=resized(wide, repeated), dimensions=moved)
    return build.op("reshape", full, type=made.with_layout(None))
