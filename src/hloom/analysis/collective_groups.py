"""The devices that take part in a collective together.

What the numbers in replica_groups mean follows from channel_id and use_global_device_ids
(xla/service/collective_ops_utils.h, GetCollectiveOpGroupMode, jaxlib 0.10.2). Device r * partitions + p runs replica r
and partition p.
"""

from __future__ import annotations

from hloom.ir import Apply, ExplicitGroups, Module, check_device_count


def group_size(node: Apply, module: Module) -> int:
    """How many devices are in the largest group of a collective."""
    replicas, partitions = _device_counts(module)
    if "source_target_pairs" in node.attributes:
        return 2
    groups = node.attributes.get("replica_groups")
    listed = groups is not None and not (isinstance(groups, ExplicitGroups) and not groups.listed)
    largest = _largest_size(groups) if listed else 0
    if node.attributes.get("channel_id") is None:
        return largest or replicas
    if "use_global_device_ids" not in node.op.attributes:
        return largest or partitions
    if node.attributes.get("use_global_device_ids"):
        return largest or replicas * partitions
    return (largest or replicas) * partitions


def group_members(node: Apply, module: Module) -> tuple[int, ...]:
    """The numbers of the devices in a collective's largest group; of a permutation the pair that is farthest apart.

    Raises HloomError where they are too many to be listed.
    """
    replicas, partitions = _device_counts(module)
    pairs = node.attributes.get("source_target_pairs")
    has_channel = node.attributes.get("channel_id") is not None
    if pairs is not None:
        farthest = max(pairs, key=lambda pair: abs(pair[0] - pair[1]), default=(0, 0))
        return tuple(farthest) if has_channel else tuple(number * partitions for number in farthest)
    groups = node.attributes.get("replica_groups")
    if not has_channel:
        return tuple(number * partitions for number in _largest(groups, replicas))
    if "use_global_device_ids" not in node.op.attributes:
        return _largest(groups, partitions)
    if node.attributes.get("use_global_device_ids"):
        return _largest(groups, replicas * partitions)
    replicas_of_group = _largest(groups, replicas)
    check_device_count(len(replicas_of_group) * partitions)
    return tuple(number * partitions + partition for number in replicas_of_group for partition in range(partitions))


def _device_counts(module: Module) -> tuple[int, int]:
    return module.attributes.get("replica_count") or 1, module.attributes.get("num_partitions") or 1


def _largest_size(groups: object) -> int:
    if isinstance(groups, ExplicitGroups):
        return max(map(len, groups.listed))
    return getattr(groups, "group_size", 1)


def _largest(groups: object, count: int) -> tuple[int, ...]:
    listed = groups.groups(count) if hasattr(groups, "groups") else ()  # type: ignore[attr-defined]
    return max(listed, key=len, default=()) or ExplicitGroups().groups(count)[0]
