"""What XLA's partitioner emitted: collectives, FLOPs and memory of one device, read from the partitioned module.

A loop's body counts as often as it runs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from hloom.analysis import NodeCost, cost
from hloom.analysis.collectives import group_size
from hloom.ir import Apply, MeshGroups, Module, Node, TensorType, TupleType

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
CONTRACTIONS = frozenset({"dot", "convolution"})


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of the partitioned module: its kind, its groups' size, the bytes it is about, how often it runs.

    `origin` is the instruction that caused it; `bytes` are those of an all-gather's result, of a reduce-scatter's
    operand, and of either for the others.
    """

    name: str
    origin: str
    kind: str
    group: int
    bytes: float
    times: float

    @property
    def sent(self) -> float:
        """Bytes that a device sends in a run, in a ring."""
        if self.kind == "collective-permute":
            return self.bytes * self.times
        return (2 if self.kind == "all-reduce" else 1) * (self.group - 1) / self.group * self.bytes * self.times


@dataclass(frozen=True, slots=True)
class Emitted:
    """What one device does and holds; `module` is the program after the partitioner."""

    module: Module
    collectives: tuple[Collective, ...]
    flops: float
    memory: int

    @property
    def wire(self) -> float:
        """Bytes that a device sends."""
        return sum(each.sent for each in self.collectives)

    @property
    def wire_by_kind(self) -> dict[str, float]:
        """The same by kind of collective."""
        found: dict[str, float] = defaultdict(float)
        for each in self.collectives:
            found[each.kind] += each.sent
        return dict(found)

    @property
    def wire_by_origin(self) -> dict[str, float]:
        """The same by the instruction that caused the collective."""
        found: dict[str, float] = defaultdict(float)
        for each in self.collectives:
            found[each.origin] += each.sent
        return dict(found)


def emitted(module: Module, devices: int, memory: int) -> Emitted:
    """The account of a partitioned module that takes so many bytes."""
    found = list(cost(module).per_node)
    flops = sum(each.total.flops for each in found if each.node.opcode in CONTRACTIONS)
    return Emitted(module, tuple(collectives(found, devices)), float(flops), memory)


def collectives(nodes: list[NodeCost], devices: int) -> Iterator[Collective]:
    """The collectives among the nodes of a partitioned module.

    An all-reduce that only slices read is what backends make a reduce-scatter of, and two that are only added are one
    of the sum: they are charged so.
    """
    free: set[Node] = set()
    for each in nodes:
        free |= _added(each.node, free)
    for each in nodes:
        node = each.node
        kind = node.opcode.removesuffix("-start")
        if kind not in KINDS or node in free:
            continue
        origin = node.metadata.op_name if node.metadata is not None else ""
        times = float(each.times.bytes_accessed)
        for charged, group, size in _charged(node, kind, devices):
            yield Collective(node.name, origin or "", charged, group, size, times)


def _charged(node: Apply, kind: str, devices: int) -> Iterator[tuple[str, int, float]]:
    """The kinds, groups and bytes that a collective is charged as."""
    group, size = _group(node, devices), _bytes(node)
    if kind == "collective-permute":
        pairs = [pair for pair in node.attributes.get("source_target_pairs") or () if pair[0] != pair[1]]
        if pairs:
            yield kind, len(pairs), size
        return
    if kind != "all-reduce":
        yield kind, group, size * group if kind == "reduce-scatter" else size
        return
    parts = _parts(node, group)
    if parts > 1:
        yield "reduce-scatter", parts, size
    if group > parts:
        yield "all-reduce", group // parts, size / parts


def _parts(node: Apply, group: int) -> int:
    """Into how many parts the readers of an all-reduce cut it."""
    users = node.users
    if not users or node.is_output or any(user.opcode != "dynamic-slice" for user in users):
        return 1
    return math.gcd(group, max(1, round(_bytes(node) / max(map(_bytes, users)))))


def _group(node: Apply, devices: int) -> int:
    """The size of a collective's groups; groups that go across the mesh's order are charged as all devices."""
    groups = node.attributes.get("replica_groups")
    if isinstance(groups, MeshGroups) and groups.mesh.devices is not None:
        return devices
    return group_size(node, node.graph.module)


def _added(node: Node, free: set[Node]) -> set[Node]:
    """The second of two all-reduces whose results are only added to each other."""
    if node.opcode != "add" or len(set(node.inputs)) != 2:
        return set()
    first, second = (_reduced(operand, free) for operand in node.inputs)
    if first is None or second is None or first.type is not second.type:
        return set()
    same = _group(first, 0) == _group(second, 0)
    return {second} if same else set()


def _reduced(value: Node, free: set[Node]) -> Apply | None:
    if len(value.users) != 1 or value.use_count != 1:
        return None
    if value.opcode == "dynamic-slice":
        value = value.inputs[0]
    is_only = value.opcode == "all-reduce" and len(value.users) == 1 and value not in free
    return value if is_only and isinstance(value, Apply) else None


def _bytes(node: Node) -> float:
    kinds = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    return sum(math.prod(kind.dims) * max(kind.dtype.bits / 8, 1) for kind in kinds if isinstance(kind, TensorType))
