"""What XLA's verifier asks of collectives beyond their types: who takes part, and who sends to whom.

Source: xla/service/hlo_verifier.cc, CheckReplicaGroups, HandleAllToAll, CheckDuplicatedSourceOrTarget,
CheckInplaceCollectivePermute and VerifyLayoutConstrainedAllReduce.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from hloom.ir import Apply, ExplicitGroups, IotaGroups, ReplicaGroups, Surroundings, TensorType, TupleType, Type


def check_groups(node: Apply, _: Surroundings) -> str | None:
    """Groups of one size each, every device in one of them."""
    groups: ReplicaGroups | None = node.attributes.get("replica_groups")
    return _group_problem(node) or (_size_problem(groups) if isinstance(groups, ExplicitGroups) else None)


def check_reduction(node: Apply, surroundings: Surroundings) -> str | None:
    """Groups of any sizes; either all of a module's all-reduces have constrained layouts, or none has."""
    constrained = bool(node.attributes.get("constrain_layout"))
    if surroundings.claim("constrain_layout", constrained) is not constrained:
        return "all-reduces before this one differ in constrain_layout: it must be the same in the whole module"
    return _group_problem(node)


def check_all_to_all(node: Apply, surroundings: Surroundings) -> str | None:
    """Groups as above, and without a dimension one operand for each device of a group."""
    problem = check_groups(node, surroundings)
    if problem or "dimensions" in node.attributes:
        return problem
    groups: ReplicaGroups | None = node.attributes.get("replica_groups")
    size = None if groups is None else groups.group_size
    if size is None:
        size = surroundings.count("num_partitions" if "channel_id" in node.attributes else "replica_count")
    return None if size == len(node.operands) else f"it has {len(node.operands)} operands for groups of {size} devices"


def _group_problem(node: Apply) -> str | None:
    groups: ReplicaGroups | None = node.attributes.get("replica_groups")
    if isinstance(groups, IotaGroups):
        places = groups.group_count * groups.group_size
        return None if places == groups.devices.count else f"{groups} has {places} places for other devices"
    if isinstance(groups, ExplicitGroups) and groups.listed:
        return _listed_problem(groups)
    if groups is None or isinstance(groups, ExplicitGroups):
        is_flat = "channel_id" in node.attributes and node.attributes.get("use_global_device_ids")
        return "use_global_device_ids=true needs replica_groups that are not empty" if is_flat else None
    return None


def _listed_problem(groups: ExplicitGroups) -> str | None:
    if () in groups.listed:
        return f"replica_groups={groups} have a group without devices"
    listed = list(chain.from_iterable(groups.listed))
    if sorted(listed) == list(range(len(listed))):
        return None
    wrong = next((device for device in listed if not 0 <= device < len(listed)), None)
    if wrong is not None:
        return f"replica_groups list {len(listed)} devices, so that {wrong} is not in 0 to {len(listed) - 1}"
    return f"replica_groups list device {Counter(listed).most_common(1)[0][0]} twice"


def _size_problem(groups: ExplicitGroups) -> str | None:
    sizes = {len(group) for group in groups.listed}
    return f"replica_groups={groups} must be of one size" if len(sizes) > 1 else None


def check_permutation(node: Apply, surroundings: Surroundings) -> str | None:
    """Each device sends to one other at most, and receives from one at most; in place, one per slice."""
    is_in_place = "slice_sizes" in node.attributes
    problem = _offsets_problem(node.operand_types()) if is_in_place else None
    if problem:
        return problem
    most = _slices(node) if is_in_place else 1
    limit = surroundings.count("num_partitions" if "channel_id" in node.attributes else "replica_count")
    pairs: Sequence[Sequence[int]] = node.attributes["source_target_pairs"]
    for end, what in enumerate(("source", "target")):
        times = Counter(pair[end] for pair in pairs if len(pair) == 2)
        if wrong := [device for device in times if device < 0 or 1 < limit <= device]:
            return f"{wrong[0]} is a {what} in source_target_pairs, but no device has that number"
        if often := [device for device, count in times.items() if count > most]:
            return f"{often[0]} is a {what} in source_target_pairs more than {'once' if most == 1 else f'{most} times'}"
    return None


def _slices(node: Apply) -> int:
    """How many offsets the first buffer has: a tuple of tuples is one for each, or one buffer's for each buffer."""
    buffer, offsets = node.operands[0].type, node.operands[2].type
    if isinstance(buffer, TupleType) and isinstance(offsets, TupleType) and offsets.elements:
        offsets = offsets.elements[0]
    return len(offsets.elements) if isinstance(offsets, TupleType) else 1


def _offsets_problem(types: Sequence[Type | None]) -> str | None:
    if len(types) != 4:
        return None
    for buffer, offsets in zip(types[:2], types[2:], strict=True):
        buffers = buffer.elements if isinstance(buffer, TupleType) else [buffer]
        parts = offsets.elements if isinstance(buffer, TupleType) and isinstance(offsets, TupleType) else [offsets]
        if len(buffers) != len(parts):
            return f"there are {len(buffers)} buffers and {len(parts)} tuples of offsets"
        for array, part in zip(buffers, parts, strict=True):
            if problem := _offset_problem(array, part):
                return problem
    return None


def _offset_problem(array: Type | None, offset: Type | None) -> str | None:
    if not isinstance(array, TensorType) or offset is None:
        return None
    if not isinstance(offset, TupleType):
        return f"the offset of a slice of {array} is a tuple, not {offset}"
    nested = [element.elements for element in offset.elements if isinstance(element, TupleType)]
    if nested and len(nested) != len(offset.elements):
        return f"offsets are arrays or tuples of arrays, not {offset}"
    wrong = [indices for indices in nested or [offset.elements] if len(indices) != array.rank]
    return f"an offset of {array} has {array.rank} numbers, not {len(wrong[0])}" if wrong else None
