"""How long a collective takes on a device's links: alpha-beta, over the links that its groups span.

Devices with neighbouring numbers are near: a link that joins d devices joins 0 to d-1, d to 2d-1 and so on. A ring
over n devices in b such blocks makes n-b of its n-1 steps on the near link and b-1 on the next, as NCCL has it
(src/graph/tuning.cc). Rings run side by side, so that all of a block's devices send what leaves it together.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.analysis.collective_cost import CollectiveCost
from hloom.analysis.devices import Device, Link
from hloom.ir import Apply, Module

EXCHANGES = frozenset(("all-to-all", "ragged-all-to-all"))
"""Collectives in which each device sends something of its own to each other."""
PAIRWISE = frozenset(("collective-permute", "collective-permute-start", "send", "recv"))
HOST = "host"


def wire_seconds(wire: CollectiveCost, members: Sequence[int], device: Device) -> float:
    """Seconds of one run of a collective between devices of these numbers, or of a transfer to the host.

    Nought where the device states no links.
    """
    between = [link for link in device.links if link.topology != HOST]
    host = [link for link in device.links if link.topology == HOST]
    seconds = wire.host_bytes / host[0].bandwidth + host[0].latency if wire.host_bytes and host else 0.0
    if not wire.sent_bytes or not between:
        return seconds
    if wire.opcode in PAIRWISE:
        farthest = _spanned(members, between)[-1]
        return seconds + wire.sent_bytes / farthest.bandwidth + farthest.latency
    return seconds + _rounds(wire, members, between)


def _spanned(members: Sequence[int], links: Sequence[Link]) -> list[Link]:
    """The links from the nearest to the one that joins all members, or to the last."""
    found: list[Link] = []
    for link in links:
        found.append(link)
        if link.devices is None or len({member // link.devices for member in members}) <= 1:
            break
    return found


def _rounds(wire: CollectiveCost, members: Sequence[int], links: Sequence[Link]) -> float:
    """A ring's time, or an exchange's: the latency of all steps, and the bytes on the link that is busy longest."""
    size = len(members)
    halves = wire.steps / (size - 1) if size > 1 else 1.0
    latency, longest, parts = 0.0, 0.0, size
    spanned = _spanned(members, links)
    for link in spanned:
        is_last = link is spanned[-1]
        blocks = 1 if is_last or link.devices is None else len({member // link.devices for member in members})
        if parts > blocks:
            latency += halves * (parts - blocks) * link.latency
            longest = max(longest, _busy(wire, link, size, size / parts, size / blocks))
        parts = blocks
    return latency + longest


def _busy(wire: CollectiveCost, link: Link, size: int, inside: float, joined: float) -> float:
    """Seconds for the bytes on one link, which makes of blocks of `inside` members blocks of `joined`."""
    rate = link.bandwidth * ((joined - 1) if link.topology == "mesh" else 1)
    if wire.opcode in EXCHANGES:
        return wire.sent_bytes * (joined - inside) / (size - 1) / rate
    return wire.sent_bytes / (rate * inside)


def members_of(node: Apply, module: Module) -> tuple[int, ...]:
    """The numbers of the devices in a collective's largest group; of a permutation the pair that is farthest apart.

    Device r * partitions + p runs replica r and partition p. What the numbers in groups mean follows from channel_id
    and use_global_device_ids (xla/service/collective_ops_utils.h, GetCollectiveOpGroupMode).
    """
    replicas = module.attributes.get("replica_count") or 1
    partitions = module.attributes.get("num_partitions") or 1
    pairs = node.attributes.get("source_target_pairs")
    has_channel = node.attributes.get("channel_id") is not None
    if pairs is not None:
        pair = max(pairs, key=lambda each: abs(each[0] - each[1]), default=(0, 0))
        return tuple(pair) if has_channel else tuple(number * partitions for number in pair)
    groups = node.attributes.get("replica_groups")
    if not has_channel:
        return tuple(number * partitions for number in _largest(groups, replicas))
    if "use_global_device_ids" not in node.op.attributes:
        return _largest(groups, partitions)
    if node.attributes.get("use_global_device_ids"):
        return _largest(groups, replicas * partitions)
    return tuple(number * partitions + each for number in _largest(groups, replicas) for each in range(partitions))


def _largest(groups: object, count: int) -> tuple[int, ...]:
    listed = groups.groups(count) if hasattr(groups, "groups") else ()  # type: ignore[attr-defined]
    return max(listed, key=len, default=()) or tuple(range(count))
