"""What goes over the wire: bytes each device sends, and steps that follow one another.

The bytes are those of bandwidth-optimal algorithms on groups of n devices (Thakur, Rabenseifner and Gropp,
Optimization of collective communication operations in MPICH, 2005): with S bytes of data, all-gather and
reduce-scatter send (n-1)/n S, all-reduce twice that. A ring takes n-1 steps for each half; recursive halving and
doubling takes log2 n of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hloom.analysis.call_graph import MALFORMED, CallGraph
from hloom.analysis.cost_properties import Cost
from hloom.analysis.sizes import leaf_bytes
from hloom.ir import Apply, ExplicitGroups, Graph, Module, TensorType, TupleType, Type
from hloom.text import HloomError

HOST_MEMORY = 5
"""The memory space that XLA numbers as the host's, in layouts: S(5)."""
COPIES = frozenset(("copy", "copy-start"))
"""Opcodes that are traffic only where they lead to or from the host."""
ALGORITHMS = ("ring", "halving-doubling")


@dataclass(frozen=True, slots=True)
class CollectiveCost:
    """One instruction's traffic in one run: bytes that a device sends to others and to or from the host.

    `group_size` is of the largest group. `steps` follow one another, each waiting for the one before: the latency.
    `times` is how often the instruction runs.
    """

    name: str
    computation: str
    opcode: str
    group_size: int
    sent_bytes: int
    host_bytes: int
    steps: int
    times: int


def traffic(
    module: Module, found: CallGraph, runs: dict[Graph, Cost], algorithm: str = "ring"
) -> tuple[CollectiveCost, ...]:
    """The traffic of every instruction that talks to other devices or to the host, in order of the graphs.

    Of a conditional's branches the one that accesses most bytes is taken to run. Raises ValueError for an algorithm
    that is none of ALGORITHMS.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"no algorithm is called '{algorithm}': they are {', '.join(ALGORITHMS)}")
    wires: list[CollectiveCost] = []
    for graph in found.graphs:
        times = runs.get(graph, Cost()).bytes_accessed
        nodes = (node for node in graph.nodes if isinstance(node, Apply) and node.opcode in _TRAFFIC)
        wires += [wire for wire in (_wire(node, module, times, algorithm) for node in nodes) if wire is not None]
    return tuple(wires)


def _wire(node: Apply, module: Module, times: int, algorithm: str) -> CollectiveCost | None:
    size = group_size(node, module)
    try:
        sent, host, halves = _TRAFFIC[node.opcode](node, size)
    except MALFORMED as problem:
        raise HloomError(f"{node!r} cannot be counted: {problem}", hint="verify the module") from problem
    if not sent and not host and node.opcode in COPIES:
        return None
    steps = halves * _steps(node.opcode, size, algorithm) if sent else halves
    return CollectiveCost(node.name, node.graph.name, node.opcode, size, sent, host, steps, times)


def _steps(opcode: str, size: int, algorithm: str) -> int:
    if opcode.startswith(("collective-permute", "send", "recv")):
        return 1
    is_exchange = "to-all" in opcode
    return (size - 1).bit_length() if algorithm == "halving-doubling" and not is_exchange else size - 1


def group_size(node: Apply, module: Module) -> int:
    """How many devices are in the largest group of a collective.

    What the numbers in its groups mean, and so how many devices a group has, follows from channel_id and
    use_global_device_ids (xla/service/collective_ops_utils.h, GetCollectiveOpGroupMode).
    """
    replicas = module.attributes.get("replica_count") or 1
    partitions = module.attributes.get("num_partitions") or 1
    if "source_target_pairs" in node.attributes:
        return 2
    groups = node.attributes.get("replica_groups")
    listed = groups is not None and not (isinstance(groups, ExplicitGroups) and not groups.listed)
    largest = _largest(groups) if listed else 0
    if node.attributes.get("channel_id") is None:
        return largest or replicas
    if "use_global_device_ids" not in node.op.attributes:
        return largest or partitions
    if node.attributes.get("use_global_device_ids"):
        return largest or replicas * partitions
    return (largest or replicas) * partitions


def _largest(groups: object) -> int:
    if isinstance(groups, ExplicitGroups):
        return max(map(len, groups.listed))
    return getattr(groups, "group_size", 1)


Traffic = tuple[int, int, int]
"""Bytes sent to other devices, bytes to or from the host, and how many times over the algorithm's steps."""


def _share(count: int, size: int) -> int:
    """(size-1)/size of so many bytes, rounded up."""
    return -(-count * (size - 1) // size) if size else 0


def _operand_bytes(node: Apply) -> int:
    return sum(leaf_bytes(operand.type) for operand in node.inputs)


def _all_reduce(node: Apply, size: int) -> Traffic:
    return 2 * _share(_operand_bytes(node), size), 0, 2


def _all_gather(node: Apply, size: int) -> Traffic:
    kind = node.type
    made = kind.elements[1] if node.opcode.endswith("-start") and isinstance(kind, TupleType) else kind
    return _share(leaf_bytes(made), size), 0, 1


def _cut(node: Apply, size: int) -> Traffic:
    return _share(_operand_bytes(node), size), 0, 1


def _ragged(node: Apply, size: int) -> Traffic:
    """At most: how much goes where depends on the data."""
    return _share(leaf_bytes(node.inputs[0].type), size), 0, 1


def _broadcast(node: Apply, size: int) -> Traffic:
    return (leaf_bytes(node.type) if size > 1 else 0), 0, 1


def _permute(node: Apply, size: int) -> Traffic:
    pairs = [pair for pair in node.attributes.get("source_target_pairs") or () if pair[0] != pair[1]]
    is_partial = node.attributes.get("slice_sizes") is not None
    moved = leaf_bytes(node.inputs[0].type) if is_partial else _operand_bytes(node)
    return (moved if pairs else 0), 0, 1


def _transfer(node: Apply, size: int) -> Traffic:
    """What a send gives away or a recv takes; between devices it is counted where it is sent."""
    kind: Type | None = node.inputs[0].type if node.opcode == "send" else node.type
    if node.opcode == "recv":
        kind = kind.elements[0] if isinstance(kind, TupleType) else kind
    count = leaf_bytes(kind)
    if node.attributes.get("is_host_transfer"):
        return 0, count, 1
    return (count if node.opcode == "send" else 0), 0, 1


def _feed(node: Apply, size: int) -> Traffic:
    kind = node.type if node.opcode == "infeed" else node.inputs[0].type
    return 0, leaf_bytes(kind), 1


def _copy(node: Apply, size: int) -> Traffic:
    source = node.inputs[0].type
    made = node.type.elements[0] if isinstance(node.type, TupleType) and node.type.elements else node.type
    return 0, (leaf_bytes(source) if _on_host(source) != _on_host(made) else 0), 1


def _on_host(kind: Type | None) -> bool:
    return isinstance(kind, TensorType) and kind.layout is not None and kind.layout.memory_space == HOST_MEMORY


_TRAFFIC: dict[str, Callable[[Apply, int], Traffic]] = {
    "all-reduce": _all_reduce,
    "all-reduce-start": _all_reduce,
    "all-gather": _all_gather,
    "all-gather-start": _all_gather,
    "reduce-scatter": _cut,
    "all-to-all": _cut,
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
