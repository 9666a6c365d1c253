"""What XLA's partitioner emitted, read from the partitioned module: collectives, FLOPs and memory per device.

A loop's body is counted once per iteration.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.analysis import (
    CostReport,
    Device,
    NodeCost,
    collective_line,
    comm_factor,
    cost,
    group_members,
    group_size,
    roofline,
    step_count,
)
from hloom.distribute.planner.cost_model import StepCost
from hloom.ir import Apply, MeshGroups, Module, Node, TensorType, Trait, TupleType
from hloom.sharding import Axes, Mesh
from hloom.targets.compiler import CompiledProgram
from hloom.text import Display, Displayed, DisplayTable

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
"""What the partitioner emits (xla/service/spmd/spmd_partitioner.h, SPMDCollectiveOpsCreator), and the reduce-scatters
that later passes make of it."""


@dataclass(frozen=True, slots=True)
class MeasuredCollective:
    """A collective of the partitioned module: its opcode, its groups' size, the bytes it is about, how often it runs.

    `origin` is the instruction that caused it; `bytes` are those of an all-gather's result, of a reduce-scatter's
    operand, and of either for the others. `members` are the devices of a group.
    """

    name: str
    origin: str
    opcode: str
    group: int
    bytes: float
    times: float
    members: tuple[int, ...] = ()

    @property
    def sent(self) -> float:
        """Bytes that a device sends in all runs, in a ring."""
        return comm_factor(self.opcode, self.group) * self.bytes * self.times

    def seconds(self, device: Device) -> float:
        """Seconds of all runs between such devices."""
        line = collective_line(self.opcode, self.members, device, step_count(self.opcode, self.group))
        return line.seconds(self.sent / self.times) * self.times if self.times else 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number that was expected and measured: bytes, or FLOPs."""

    name: str
    expected: float
    measured: float
    json_keys = "expected measured error"

    @property
    def error(self) -> float:
        """The prediction error, as a share of the measurement."""
        if self.expected == self.measured:
            return 0.0
        return (self.expected - self.measured) / self.measured if self.measured else math.inf


@dataclass(frozen=True, slots=True, repr=False)
class PartitionedProgram(Displayed):
    """What one device does and holds; `module` is the program after the partitioner.

    `flops` are those of dots and convolutions. `comparisons` pairs these numbers with predictions, if a plan has them.
    If a target's compiler made the program, it is `compiled`, and `module` the optimised one.
    """

    module: Module
    collectives: tuple[MeasuredCollective, ...]
    flops: float
    memory: int
    comparisons: tuple[Comparison, ...] = ()
    compiled: CompiledProgram | None = None

    def display(self) -> Display:
        sent = sorted(self.comm_bytes_by_opcode.items(), key=lambda item: -item[1])
        compared = [(one.name, one.expected, one.measured, one.error) for one in self.comparisons]
        tables = (
            DisplayTable("what is sent", ("collective", "bytes"), sent, len(sent)),
            DisplayTable("compared", ("what", "expected", "measured", "error"), compared, len(compared)),
        )
        figures = f"{self.flops:.3g} FLOPs, {self.comm_bytes:,.0f} bytes sent, {self.memory:,} bytes held"
        return Display(f"<{self.module.name} on one device: {figures}>", tables)

    @property
    def comm_bytes(self) -> float:
        """Bytes that a device sends."""
        return sum(collective.sent for collective in self.collectives)

    @property
    def runs_by_opcode(self) -> dict[str, float]:
        """How often collectives run, by opcode."""
        by_opcode: dict[str, float] = defaultdict(float)
        for collective in self.collectives:
            by_opcode[collective.opcode] += collective.times
        return dict(by_opcode)

    @property
    def comm_bytes_by_opcode(self) -> dict[str, float]:
        """The same by opcode of the collective."""
        by_opcode: dict[str, float] = defaultdict(float)
        for collective in self.collectives:
            by_opcode[collective.opcode] += collective.sent
        return dict(by_opcode)

    @property
    def comm_bytes_by_origin(self) -> dict[str, float]:
        """The same by the instruction that caused the collective."""
        by_origin: dict[str, float] = defaultdict(float)
        for collective in self.collectives:
            by_origin[collective.origin] += collective.sent
        return dict(by_origin)

    def comm_seconds_by_origin(self, device: Device) -> dict[str, float]:
        """The seconds of collectives between such devices by the instruction that caused them."""
        by_origin: dict[str, float] = defaultdict(float)
        for collective in self.collectives:
            by_origin[collective.origin] += collective.seconds(device)
        return dict(by_origin)

    def step_cost(self, device: Device, mesh: Mesh) -> StepCost:
        """The cost of a step on such devices, by the roofline and the links between them."""
        price = StepCost(self.flops, roofline(self.module, device).work_seconds())
        known: dict[tuple[int, ...], Axes] = {}
        for collective in self.collectives:
            if collective.members not in known:
                known[collective.members] = axes_of(collective.members, mesh)
            axes = known[collective.members]
            price.add_traffic(collective.opcode, axes, collective.sent, collective.seconds(device))
        return price


def axes_of(members: Sequence[int], mesh: Mesh) -> Axes:
    """The axes along which the positions of some devices differ."""
    ids = mesh.order.ids().reshape(mesh.sizes)
    coordinates = np.argwhere(np.isin(ids, members))
    return tuple(name for name, along in zip(mesh.names, coordinates.T, strict=True) if len(set(along.tolist())) > 1)


def read_partitioned(module: Module, devices: int, memory: int) -> PartitionedProgram:
    """The account of a partitioned module that needs `memory` bytes."""
    costs = list(cost(module).per_node)
    flops = sum(product.total.flops for product in costs if product.node.has_trait(Trait.CONTRACTS))
    return PartitionedProgram(module, tuple(collectives(costs, devices)), float(flops), memory)


def read_compiled(program: CompiledProgram) -> PartitionedProgram:
    """The account of what a target's compiler made of an annotated module, as `hloom cost` counts it."""
    report = cost(program.module)
    products = (
        one for one in report.per_node if one.node.has_trait(Trait.CONTRACTS) or one.node.opcode == "custom-call"
    )
    flops = float(sum(product.total.flops for product in products))  # those of libraries, too: GPUs call cuBLAS
    sent = tuple(_compiled_collectives(report))
    return PartitionedProgram(program.module, sent, flops, program.memory.peak, compiled=program)


def _compiled_collectives(report: CostReport) -> Iterator[MeasuredCollective]:
    for node, transfer in report.communication.items():
        opcode = transfer.opcode.removesuffix("-start")
        if opcode in COLLECTIVES and transfer.comm_bytes and transfer.times:
            origin = node.metadata.op_name if node.metadata is not None else ""
            size = transfer.comm_bytes / comm_factor(opcode, transfer.group_size)
            members = group_members(node, report.module)
            times = float(transfer.times)
            yield MeasuredCollective(node.name, origin or "", opcode, transfer.group_size, size, times, members)


def collectives(nodes: list[NodeCost], devices: int) -> Iterator[MeasuredCollective]:
    """The collectives among the nodes of a partitioned module.

    Backends turn an all-reduce that is only sliced into a reduce-scatter, and merge two that are only added: costs
    reflect that.
    """
    free: set[Node] = set()
    for node_cost in nodes:
        free |= _added(node_cost.node, free)
    for node_cost in nodes:
        node = node_cost.node
        opcode = node.opcode.removesuffix("-start")
        if opcode not in COLLECTIVES or node in free:
            continue
        origin = node.metadata.op_name if node.metadata is not None else ""
        times = float(node_cost.times.bytes_accessed)
        for charged, group, size in _charged(node, opcode, devices):
            members = group_members(node, node.graph.module)
            yield MeasuredCollective(node.name, origin or "", charged, group, size, times, members)


def _charged(node: Apply, opcode: str, devices: int) -> Iterator[tuple[str, int, float]]:
    """The kinds, groups and bytes that a collective is charged as."""
    group, size = _group(node, devices), _bytes(node)
    if opcode == "collective-permute":
        pairs = [pair for pair in node.attributes.get("source_target_pairs") or () if pair[0] != pair[1]]
        if pairs:
            yield opcode, len(pairs), size
        return
    if opcode != "all-reduce":
        yield opcode, group, size * group if opcode == "reduce-scatter" else size
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
    """The size of a collective's groups; groups that do not follow the mesh count as all devices."""
    groups = node.attributes.get("replica_groups")
    if isinstance(groups, MeshGroups) and groups.mesh.devices is not None:
        return devices
    return group_size(node, node.graph.module)


def _added(node: Node, free: set[Node]) -> set[Node]:
    """The second of two all-reduces whose results are only added to each other."""
    if node.opcode != "add" or len(set(node.operands)) != 2:
        return set()
    first, second = (_reduced(operand, free) for operand in node.operands)
    if first is None or second is None or first.type is not second.type:
        return set()
    same = _group(first, 0) == _group(second, 0)
    return {second} if same else set()


def _reduced(value: Node, free: set[Node]) -> Apply | None:
    if len(value.users) != 1 or value.use_count != 1:
        return None
    if value.opcode == "dynamic-slice":
        value = value.operands[0]
    is_only = value.opcode == "all-reduce" and len(value.users) == 1 and value not in free
    return value if is_only and isinstance(value, Apply) else None


def _bytes(node: Node) -> float:
    array_types = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    return sum(
        math.prod(array_type.dims) * max(array_type.dtype.bits / 8, 1)
        for array_type in array_types
        if isinstance(array_type, TensorType)
    )
