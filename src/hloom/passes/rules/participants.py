"""Which devices take part in a collective together, and what each of them computes of its own number.

Devices have one number each, replica by replica. The modes are those of XLA's
xla/hlo/ir/collective_op_group_mode.h (CollectiveOpGroupMode).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.evaluator import TABLE, GraphRunner
from hloom.ir import Apply, Constant, ExplicitGroups, Module, Node, TensorType, Trait
from hloom.ops import with_trait
from hloom.rewrite import array_value
from hloom.text import HloomError

MOST_PARTICIPANTS = 1 << 14
"""How many devices are looked at one by one."""
MOST_NODES = 64
"""Of how many instructions a number of a device may be computed."""
MOST_ELEMENTS = 1 << 22
"""How many elements they may have together, on all devices."""
_RESHAPES = with_trait(Trait.KEEPS_ORDER) | {"copy"}


def device_counts(module: Module, collective: Node) -> tuple[int, int]:
    """The replicas and partitions that run a module, as its header says; where it does not, as the groups do."""
    replicas, partitions = (module.attributes.get(name) for name in ("replica_count", "num_partitions"))
    groups = collective.attributes.get("replica_groups")
    listed = 0
    if groups is not None and (not isinstance(groups, ExplicitGroups) or groups.listed):
        listed = sum(len(group) for group in groups.groups(1))
    if collective.attributes.get("use_global_device_ids"):
        return replicas or 1, partitions or max(listed // (replicas or 1), 1)
    return replicas or listed or 1, partitions or 1


def participants(collective: Apply) -> list[list[int]] | None:
    """The devices of each group, in the order of their parts; None where groups are unequal, unknown or too many.

    One group of all devices is known where the header says how many there are.
    """
    header = collective.graph.module.attributes
    if is_unlisted(collective) and not (header.get("replica_count") or header.get("num_partitions")):
        return None
    try:
        replicas, partitions = device_counts(collective.graph.module, collective)
        groups = collective.attributes.get("replica_groups") or ExplicitGroups()
        is_global = collective.attributes.get("use_global_device_ids")
        listed = groups.groups(replicas * partitions if is_global else replicas)
    except HloomError:
        return None
    count = replicas * partitions
    if count > MOST_PARTICIPANTS or sum(map(len, listed)) > MOST_PARTICIPANTS:
        return None
    across = range(partitions)
    if is_global:
        made = [list(group) for group in listed]
    elif "channel_id" in collective.attributes:
        made = [[replica * partitions + partition for replica in group for partition in across] for group in listed]
    else:
        made = [[replica * partitions + partition for replica in group] for group in listed for partition in across]
    is_complete = sorted(number for group in made for number in group) == list(range(count))
    return made if is_complete and len({len(group) for group in made}) == 1 else None


def is_unlisted(collective: Node) -> bool:
    """Whether its groups are all devices, without a list of them."""
    groups = collective.attributes.get("replica_groups")
    return groups is None or (isinstance(groups, ExplicitGroups) and not groups.listed)


def values_on_devices(node: Node, replicas: int, partitions: int) -> np.ndarray | None:
    """What each device computes of constants and of its own number, device by device; None for all else."""
    count = replicas * partitions
    values: dict[Node, np.ndarray] = {}
    cone = _cone(node, count)
    for inner in cone or ():
        value = _value(inner, [values[operand] for operand in inner.operands], count, partitions)
        if value is None:
            return None
        values[inner] = value
    return values.get(node)


def _cone(node: Node, count: int) -> list[Node] | None:
    """The instructions that a value is computed of, operands first; None where they are many or large."""
    reached: dict[Node, bool] = {}
    ordered: list[Node] = []
    pending, elements = [node], 0
    while pending:
        current = pending[-1]
        if current in reached:
            pending.pop()
            if not reached[current]:
                reached[current] = True
                ordered.append(current)
            continue
        if not isinstance(current.type, TensorType) or not current.type.is_static or len(reached) == MOST_NODES:
            return None
        elements += current.type.element_count * count
        if elements > MOST_ELEMENTS:
            return None
        reached[current] = False
        pending += [operand for operand in current.operands if operand not in reached]
    return ordered


def _value(node: Node, operands: Sequence[np.ndarray], count: int, partitions: int) -> np.ndarray | None:
    """One instruction's value on each device, the devices being the first dimension."""
    assert isinstance(node.type, TensorType)
    dims, element = node.type.dims, node.type.dtype
    if isinstance(node, Constant):
        constant = array_value(node)
        return None if constant is None else np.broadcast_to(constant, (count, *dims))
    if not isinstance(node, Apply) or element.is_float or element.is_complex:
        return None
    match node.opcode:
        case "replica-id":
            return (np.arange(count) // partitions).astype(element.numpy)
        case "partition-id":
            return (np.arange(count) % partitions).astype(element.numpy)
        case "iota":
            along = node.attributes["iota_dimension"]
            counted = np.arange(dims[along]).reshape([-1 if dim == along else 1 for dim in range(len(dims))])
            return np.broadcast_to(counted.astype(element.numpy), (count, *dims))
        case "broadcast" if not operands[0].ndim - 1:
            return np.broadcast_to(operands[0].reshape(count, *[1] * len(dims)), (count, *dims))
        case "slice":
            taken = [slice(part.start, part.limit, part.stride) for part in node.attributes["slice"]]
            return operands[0][(slice(None), *taken)]
        case "dynamic-slice":
            return _dynamic_slice(node, operands)
        case opcode if opcode in _RESHAPES:
            same = isinstance(node.operands[0].type, TensorType) and node.operands[0].type.dtype is element
            return operands[0].reshape(count, *dims) if same else None
        case opcode if (row := TABLE.get(opcode)) is not None and row.is_pointwise and operands:
            return _pointwise(node, operands, (count, *dims))
        case _:
            return None


def _pointwise(node: Apply, operands: Sequence[np.ndarray], dims: tuple[int, ...]) -> np.ndarray | None:
    try:
        with np.errstate(all="ignore"):
            value = GraphRunner().apply_mapped(node, tuple(operands))
    except HloomError:
        return None
    return np.broadcast_to(np.asarray(value), dims) if isinstance(value, (np.ndarray, np.generic)) else None


def _dynamic_slice(node: Apply, operands: Sequence[np.ndarray]) -> np.ndarray:
    array, *starts = operands
    sizes = node.attributes["dynamic_slice_sizes"]
    column = (len(array), *[1] * len(sizes))
    taken = [np.arange(len(array)).reshape(column)]
    for dim, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        at = np.clip(start.astype(np.int64), 0, array.shape[dim + 1] - size).reshape(column)
        taken.append(at + np.arange(size).reshape([-1 if axis == dim + 1 else 1 for axis in range(len(column))]))
    return array[tuple(taken)]
