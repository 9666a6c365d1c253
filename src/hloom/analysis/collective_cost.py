"""The cost of collectives: bytes that each device sends, sequential steps, and seconds.

With n devices in a group and S bytes of data, all-gather, reduce-scatter and all-to-all send (n-1)/n S, all-reduce
twice that; a ring takes n-1 steps for each half of an all-reduce, recursive halving and doubling log2 n (Thakur,
Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005). The time is alpha-beta: the
latency of each step, plus the bytes at the bandwidth of the slowest link (Hockney, The communication challenge for MPP,
1994). Cost reports, the roofline model, the planner's tables and the accounts of partitioned modules all use this
module.

Devices with adjacent numbers are near: an interconnect that joins d devices joins 0 to d-1, d to 2d-1 and so on. A ring
over n devices in b such blocks makes n-b of its n-1 steps on the near interconnect and b-1 on the next, as in NCCL
(src/graph/tuning.cc, ncclTopoTuneModel). Several rings run in parallel, so all devices of a block share the sending of
what leaves it.

A link whose collectives were measured has rates of them (`collective_rates.py`), which price those that stay within it.

The meaning of the numbers in replica_groups follows from channel_id and use_global_device_ids
(xla/service/collective_ops_utils.h, GetCollectiveOpGroupMode, jaxlib 0.10.2). Device r * partitions + p runs replica r
and partition p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hloom.analysis.call_graph import MALFORMED, CallGraph
from hloom.analysis.collective_rates import CollectiveLine, CollectiveRates, MessageTime
from hloom.analysis.cost_properties import Cost
from hloom.analysis.devices import Interconnect
from hloom.analysis.sizes import leaf_bytes
from hloom.analysis.tpu_kernels import COLLECTIVE_START, collective_part
from hloom.ir import Apply, ExplicitGroups, Graph, Module, Node, TensorType, Trait, TupleType, Type, check_device_count
from hloom.ops import with_trait
from hloom.text import HloomError


def group_size(node: Apply, module: Module) -> int:
    """The number of devices in a collective's largest group."""
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
    """The device numbers of a collective's largest group; for a permutation, the pair farthest apart.

    Raises HloomError if there are too many to list.
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


HOST_MEMORY = 5
"""XLA's memory space number for host memory, written S(5) in layouts."""
ALGORITHMS = ("ring", "halving-doubling")
ALL_TO_ALL = frozenset(("all-to-all", "ragged-all-to-all"))
"""Collectives in which each device sends different data to every other."""
PAIRWISE = with_trait(Trait.POINT_TO_POINT) | {"collective-permute", "collective-permute-start"}
"""Transfers from one device to another: one step, all bytes."""
HOST = "host"
"""The topology name of the interconnect to the host."""


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """The traffic of one run of an instruction: bytes that a device sends to others and to or from the host.

    `group_size` is that of the largest group. `steps` are sequential, each waiting for the previous one, and determine
    the latency. `times` is how often the instruction runs.
    """

    name: str
    computation: str
    opcode: str
    group_size: int
    comm_bytes: int
    host_bytes: int
    steps: int
    times: int


_COMMUNICATION = (Trait.COLLECTIVE, Trait.POINT_TO_POINT, Trait.HOST_FEED)


def halves(opcode: str) -> int:
    """How many passes the data makes: two for an all-reduce, which is a reduce-scatter and an all-gather."""
    return 2 if opcode.startswith("all-reduce") else 1


def comm_factor(opcode: str, group_size: int) -> float:
    """The bytes that a device sends in one run, as a multiple of the size of the data.

    >>> comm_factor("all-gather", 4), comm_factor("all-reduce", 4), comm_factor("collective-permute", 4)
    (0.75, 1.5, 1.0)
    """
    return 1.0 if opcode in PAIRWISE else halves(opcode) * (group_size - 1) / group_size


def comm_bytes(data_bytes: int, group_size: int, opcode: str = "all-gather") -> int:
    """The bytes that a device sends in one run, each half rounded up to whole bytes.

    >>> comm_bytes(10, 4), comm_bytes(10, 4, "all-reduce")
    (8, 16)
    """
    return halves(opcode) * -(-data_bytes * (group_size - 1) // group_size) if group_size else 0


def step_count(opcode: str, group_size: int, algorithm: str = "ring") -> int:
    """The number of sequential steps in one run.

    >>> step_count("all-reduce", 8), step_count("all-reduce", 8, "halving-doubling"), step_count("all-to-all", 8)
    (14, 6, 7)
    """
    if opcode in PAIRWISE:
        return 1
    is_halving = algorithm == "halving-doubling" and opcode not in ALL_TO_ALL
    return halves(opcode) * ((group_size - 1).bit_length() if is_halving else group_size - 1)


class HasLinks(Protocol):
    """Anything with links between devices, nearest first: a `Device`, or several of them in a row."""

    @property
    def links(self) -> tuple[Interconnect, ...]: ...


_MEASURED_AS = {
    "all-reduce-start": "all-reduce",
    "all-gather-start": "all-gather",
    "collective-broadcast": "all-gather",
    "ragged-all-to-all": "all-to-all",
    **dict.fromkeys(PAIRWISE, "collective-permute"),
}
"""The opcode of the rates that others take too: they send the same bytes in the same steps."""


def collective_line(opcode: str, members: Sequence[int], device: HasLinks, steps: int | None = None) -> MessageTime:
    """The time of a collective between these devices by the bytes that each sends.

    It follows the rates of the link that joins them if that has some for the opcode. Else it is in proportion to the
    bytes, `steps` are those of a ring if None, and the launch is that of the nearest link, if that was measured. All
    zeros if the device specifies no interconnects.
    """
    links = [link for link in device.links if link.topology != HOST]
    if not links:
        return CollectiveLine(0.0, 0.0)
    spanned = _spanned(members, links)
    joined = spanned[-1].devices
    if joined is None or len({member // joined for member in members}) <= 1:
        rates = _measured_rates(opcode, links[len(spanned) - 1 :])
        if rates is not None:
            size = max(len(members), 2)
            return rates.time(size, halves(opcode)).scaled(1 / comm_factor(opcode, size))
    near = _measured_rates(opcode, links)
    launch = near.launch(max(len(members), 1)) if near is not None else 0.0
    if opcode in PAIRWISE:
        return CollectiveLine(launch + spanned[-1].latency, 1 / spanned[-1].bandwidth)
    line = _ring_line(opcode, members, links, step_count(opcode, len(members)) if steps is None else steps)
    return line._replace(latency=launch + line.latency)


def _measured_rates(opcode: str, links: Sequence[Interconnect]) -> CollectiveRates | None:
    """The rates of an opcode on the first of some links, or on the next of the same technology that has some."""
    alike = (link for link in links if link.technology == links[0].technology)
    name = _MEASURED_AS.get(opcode, opcode)
    return next((link.collectives[name] for link in alike if link.collectives and name in link.collectives), None)


def collective_seconds(cost: CollectiveCost, members: Sequence[int], device: HasLinks) -> float:
    """Seconds of one run of a collective between these devices, or of a transfer to the host.

    0 if the device specifies no interconnects.
    """
    host = [CollectiveLine(link.latency, 1 / link.bandwidth) for link in device.links if link.topology == HOST]
    line = collective_line(cost.opcode, members, device, cost.steps)
    return line.seconds(cost.comm_bytes) + (host[0].seconds(cost.host_bytes) if host else 0.0)


def _spanned(members: Sequence[int], links: Sequence[Interconnect]) -> list[Interconnect]:
    """The interconnects from the nearest to the one that joins all members, or to the last."""
    spanned: list[Interconnect] = []
    for link in links:
        spanned.append(link)
        if link.devices is None or len({member // link.devices for member in members}) <= 1:
            break
    return spanned


def _ring_line(opcode: str, members: Sequence[int], links: Sequence[Interconnect], steps: int) -> CollectiveLine:
    """A ring or an all-to-all: the latency of all steps, and a byte's time on the link that is busy longest."""
    size = len(members)
    rounds = steps / (size - 1) if size > 1 else 1.0
    latency, longest, parts = 0.0, 0.0, size
    spanned = _spanned(members, links)
    for link in spanned:
        is_last = link is spanned[-1]
        blocks = 1 if is_last or link.devices is None else len({member // link.devices for member in members})
        if parts > blocks:
            latency += rounds * (parts - blocks) * link.latency
            longest = max(longest, _byte_seconds(opcode, link, size, size / parts, size / blocks))
        parts = blocks
    return CollectiveLine(latency, longest)


def _byte_seconds(opcode: str, link: Interconnect, size: int, inside: float, joined: float) -> float:
    """Seconds per byte sent on one interconnect, which joins blocks of `inside` members to blocks of `joined`."""
    rate = link.bandwidth * ((joined - 1) if link.topology == "mesh" else 1)
    if opcode in ALL_TO_ALL:
        return (joined - inside) / (size - 1) / rate
    return 1 / (rate * inside)


def traffic(
    module: Module, call_graph: CallGraph, runs: dict[Graph, Cost], algorithm: str = "ring"
) -> tuple[CollectiveCost, ...]:
    """The traffic of every instruction that communicates with other devices or the host, in order of the computations.

    For a conditional, the branch that accesses most bytes is assumed to run. Raises ValueError for an algorithm that is
    not one of ALGORITHMS.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"no algorithm is called '{algorithm}': they are {', '.join(ALGORITHMS)}")
    costs: list[CollectiveCost] = []
    continued = _continued(call_graph)
    for graph in call_graph.computations:
        counts, is_fused = runs.get(graph, Cost()), _is_fused(graph, call_graph)
        times = counts.flops if is_fused else counts.bytes_accessed  # the bytes of a fusion count outside of it
        for node in graph.nodes:
            if isinstance(node, Apply) and node.opcode in _TRAFFIC and node not in continued:
                opcode = _fused_opcode(node) if is_fused else node.opcode
                counted = _cost(node, opcode, module, times, algorithm)
                costs += [] if counted is None else [counted]
    return tuple(costs)


def _is_fused(graph: Graph, call_graph: CallGraph) -> bool:
    return any(caller.opcode == "fusion" for caller in call_graph.callers.get(graph, ()))


def _continued(call_graph: CallGraph) -> frozenset[Node]:
    """The collectives of fusions that only continue or end what another fusion starts, as the TPU compiler has them."""
    fused = [graph for graph in call_graph.computations if _is_fused(graph, call_graph)]
    members = [node for graph in fused for node in graph.nodes if node.has_trait(Trait.COLLECTIVE)]
    starting = {graph for graph in {node.graph for node in members} if collective_part(graph) == COLLECTIVE_START}
    channels = {node.attributes.get("channel_id") for node in members if node.graph in starting} - {None}
    return frozenset(
        node for node in members if node.attributes.get("channel_id") in channels and node.graph not in starting
    )


def _fused_opcode(node: Apply) -> str:
    """The opcode that a collective is charged as: an all-reduce that is cut inside its fusion is a reduce-scatter.

    libtpu calls these computations all-reduce-scatter.
    """
    root = node.graph.output
    is_cut = node.opcode == "all-reduce" and root is not None and root.opcode == "dynamic-slice"
    return "reduce-scatter" if is_cut and node.users == (root,) else node.opcode


def _cost(node: Apply, opcode: str, module: Module, times: int, algorithm: str) -> CollectiveCost | None:
    size = group_size(node, module)
    try:
        sent, host = _TRAFFIC[opcode](node, size)
    except MALFORMED as problem:
        raise HloomError(f"{node!r} cannot be counted: {problem}", hint="verify the module") from problem
    if not sent and not host and not any(map(node.has_trait, _COMMUNICATION)):  # a copy within a device
        return None
    steps = step_count(opcode, size, algorithm) if sent else halves(opcode)
    return CollectiveCost(node.name, node.graph.name, opcode, size, sent, host, steps, times)


Traffic = tuple[int, int]
"""Bytes sent to other devices, and bytes to or from the host."""


def _operand_bytes(node: Apply) -> int:
    return sum(leaf_bytes(operand.type) for operand in node.operands)


def _all_reduce(node: Apply, size: int) -> Traffic:
    return comm_bytes(_operand_bytes(node), size, node.opcode), 0


def _all_gather(node: Apply, size: int) -> Traffic:
    value_type = node.type
    made = (
        value_type.elements[1] if node.opcode.endswith("-start") and isinstance(value_type, TupleType) else value_type
    )
    return comm_bytes(leaf_bytes(made), size), 0


def _scatter(node: Apply, size: int) -> Traffic:
    return comm_bytes(_operand_bytes(node), size), 0


def _ragged(node: Apply, size: int) -> Traffic:
    """An upper bound: the distribution depends on the data."""
    return comm_bytes(leaf_bytes(node.operands[0].type), size), 0


def _broadcast(node: Apply, size: int) -> Traffic:
    return (leaf_bytes(node.type) if size > 1 else 0), 0


def _permute(node: Apply, size: int) -> Traffic:
    pairs = [pair for pair in node.attributes.get("source_target_pairs") or () if pair[0] != pair[1]]
    is_partial = node.attributes.get("slice_sizes") is not None
    moved = leaf_bytes(node.operands[0].type) if is_partial else _operand_bytes(node)
    return (moved if pairs else 0), 0


def _transfer(node: Apply, size: int) -> Traffic:
    """The bytes that a send sends or a recv receives; between devices they are counted at the sender."""
    value_type: Type | None = node.operands[0].type if node.opcode == "send" else node.type
    if node.opcode == "recv":
        value_type = value_type.elements[0] if isinstance(value_type, TupleType) else value_type
    count = leaf_bytes(value_type)
    if node.attributes.get("is_host_transfer"):
        return 0, count
    return (count if node.opcode == "send" else 0), 0


def _feed(node: Apply, size: int) -> Traffic:
    value_type = node.type if node.opcode == "infeed" else node.operands[0].type
    return 0, leaf_bytes(value_type)


def _copy(node: Apply, size: int) -> Traffic:
    source = node.operands[0].type
    made = node.type.elements[0] if isinstance(node.type, TupleType) and node.type.elements else node.type
    return 0, (leaf_bytes(source) if _on_host(source) != _on_host(made) else 0)


def _on_host(value_type: Type | None) -> bool:
    return (
        isinstance(value_type, TensorType)
        and value_type.layout is not None
        and value_type.layout.memory_space == HOST_MEMORY
    )


_TRAFFIC: dict[str, Callable[[Apply, int], Traffic]] = {
    "all-reduce": _all_reduce,
    "all-reduce-start": _all_reduce,
    "all-gather": _all_gather,
    "all-gather-start": _all_gather,
    "reduce-scatter": _scatter,
    "all-to-all": _scatter,
    "ragged-all-to-all": _ragged,
    "collective-broadcast": _broadcast,
    "collective-permute": _permute,
    "collective-permute-start": _permute,
    "send": _transfer,
    "recv": _transfer,
    "infeed": _feed,
    "outfeed": _feed,
    "copy": _copy,
    "copy-start": _copy,
}
