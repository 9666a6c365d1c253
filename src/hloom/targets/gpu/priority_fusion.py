"""Priority fusion: an instruction is computed in all kernels that read its result, if that saves time.

    y = exponential(x); a = add(y, z); b = reduce(y)      two kernels, which both compute y; y is never stored

A kernel that is a reduction computes its operands, and little behind it; what is recomputed costs time, and what is not
stored saves it. Follows `PriorityFusionQueue::CanFuse` and `CalculateProducerPriority` (xla/backends/gpu/transforms/
priority_fusion.cc), `IsProducerConsumerFusible` (xla/service/gpu/gpu_fusible.cc) and
`GpuHloCostAnalysis::ProducerConsumerMergedTooLarge` (xla/service/gpu/model/gpu_hlo_cost_analysis.cc). XLA chooses the
producer that saves most first; here users are decided on before operands.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hloom.analysis import (
    BRANCHING,
    BROADCASTS,
    DATA_MOVEMENT,
    ELEMENTWISE,
    SLICES,
    VIEWS,
    Device,
    FusionPolicy,
    elements,
    leaf_bytes,
)
from hloom.ir import Apply, Graph, Node, TensorType, dtype
from hloom.ops import OPS
from hloom.targets.gpu.softmax_fusion import reduction_diamonds

F32 = dtype("f32")
_LOOPS = ELEMENTWISE | VIEWS | DATA_MOVEMENT | SLICES | {"copy", "dynamic-update-slice", "reduce", "reduce-window"}
POLICY = FusionPolicy(producers=_LOOPS, consumers=_LOOPS | {"scatter"}, duplicated=_LOOPS)
"""What a loop can compute (`IsLoopFusibleAsProducer`, `IsLoopFusibleAsConsumer`, `IsInputFusible`)."""
CYCLES = {
    "add": 7, "subtract": 7, "divide": 19, "sqrt": 75, "rsqrt": 75, "exponential": 79, "log": 166, "cbrt": 178,
    "exponential-minus-one": 190, "log-plus-one": 229, "atan2": 431, "tanh": 467, "power": 510, "sine": 958,
    "cosine": 978,
}  # fmt: skip
"""What elementwise instructions count as, in FLOPs for each element: clock cycles that XLA measured for f32 on an H100
(xla/service/gpu/model/hlo_op_profiles_data.h, sm_90)."""
OTHER_CYCLES = 3
"""The same for other opcodes (`kDefaultFlopsPerElement`)."""
BLOCK = 512
"""Elements that a block of threads computes, 4 in each of 128 threads."""
LAUNCH_SECONDS = 1e-6  # `kKernelLaunchOverhead`
SIGNIFICANT = 16
"""The minimum number of elements that a reduction adds up for it to be a kernel of its own kind."""
MOST_SPLITS = 10
"""The maximum number of instructions in a kernel whose code branches (`kMaxBasicBlockSplitsPerFusion`)."""
MOST_CODE = 10_000
"""The maximum number of instructions in the code of a kernel, repetitions included (`kMaxIRSize`)."""
MOST_ARRAYS = 96
"""The maximum number of arrays that a kernel reads and writes (`MaxOperandsAndOutputsPerFusion`)."""


def fuse_by_priority(graph: Graph, kernels: Mapping[Node, Node], device: Device) -> set[Node]:
    """The nodes whose results are never stored; `kernels` has the roots of those that are fused already."""
    return _Fusion(graph, kernels, device).fused


@dataclass(slots=True, eq=False)
class _Kernel:
    """What a kernel computes, how many elements of each, and how many elements of which arrays it reads."""

    root: Node
    computed: dict[Node, float] = field(default_factory=dict)
    emitted: dict[Node, int] = field(default_factory=dict)
    reads: dict[Node, float] = field(default_factory=dict)

    @property
    def can_reduce(self) -> bool:
        """Whether it is still a reduction if an operand is one: it has no other, and only changes its result's form."""
        return all(map(_keeps_reduction, self.computed)) and not any(map(_is_significant_reduction, self.computed))

    def seconds(self, device: Device) -> float:
        """The time of a run on a device, without its launch (`EstimateRunTimeForInstruction`)."""
        blocks = math.ceil(max(elements(operand.type) for operand in (self.root, *self.root.operands[:1])) / BLOCK)
        busy = min(1.0, max(blocks, 1) / device.multiprocessors)
        flops = sum(count * _flops(node) for node, count in self.computed.items())
        root, reads = self.root, self.reads
        written = leaf_bytes(root.type)
        if root.opcode == "dynamic-update-slice" and root.operands[0] not in self.computed:  # in place
            written = leaf_bytes(root.operands[1].type)
            reads = {node: count for node, count in reads.items() if node is not root.operands[0]}
        moved = written + sum(_read_bytes(node, count) for node, count in reads.items())
        return device.busy_seconds(flops / (busy * device.vector_rate(F32)), moved)


class _Fusion:
    def __init__(self, graph: Graph, kernels: Mapping[Node, Node], device: Device) -> None:
        self.graph = graph
        self.device = device
        self.other = kernels
        self.fused: set[Node] = {node for node, root in kernels.items() if node is not root}
        self.diamonds = reduction_diamonds(graph)
        self.kernels_of: dict[Node, tuple[_Kernel, ...]] = {}
        for node in reversed(graph.nodes):
            if isinstance(node, Apply) and node not in kernels:
                self._enter(node)
        for node in graph.nodes:
            kernels_of_view = self.kernels_of.get(node, ()) if node.opcode in VIEWS and node not in self.fused else ()
            if isinstance(node, Apply) and kernels_of_view and all(len(one.computed) == 1 for one in kernels_of_view):
                graph.set_function(node, OPS["bitcast"])

    def _enter(self, node: Apply) -> None:
        """Decide on a node after its users."""
        readers: dict[_Kernel, list[Node]] = {}
        can_fuse = node.is_used and not node.is_output and node.opcode in POLICY.producers
        for user in node.users if can_fuse else ():
            kernels = self.kernels_of.get(user)
            if kernels is None or not self._can_fuse(node, user):
                can_fuse = False
                break
            for kernel in kernels:
                readers.setdefault(kernel, []).append(user)
        can_fuse = can_fuse and all(self._accepts(kernel, node, users) for kernel, users in readers.items())
        if can_fuse and self._saves_time(node, readers):
            self.fused.add(node)
            self.kernels_of[node] = tuple(readers)
            for kernel, users in readers.items():
                self._join(kernel, node, users)
            return
        self.kernels_of[node] = (_kernel_of(node),)

    def _can_fuse(self, producer: Node, consumer: Node) -> bool:
        if not POLICY.fuses(producer, consumer) or not isinstance(producer.type, TensorType):
            return False
        if consumer.opcode in ("dynamic-update-slice", "scatter"):
            return self._keeps_in_place(producer, consumer)
        return True

    def _keeps_in_place(self, producer: Node, consumer: Node) -> bool:
        """Whether an update stays in place: its kernel reads nothing of the array beside what it overwrites."""
        array = consumer.operands[0]
        if producer is array:
            return consumer.opcode != "scatter"
        return array not in producer.operands or producer.opcode in ELEMENTWISE

    def _accepts(self, kernel: _Kernel, node: Apply, users: Sequence[Node]) -> bool:
        """Whether a kernel can compute an operand."""
        if kernel.root.opcode in VIEWS and len(kernel.computed) == 1:
            return False  # a view of what is stored
        is_tiled = self.diamonds.get(node) in kernel.computed
        if _is_significant_reduction(node) and not is_tiled and not kernel.can_reduce:
            return False
        if len(kernel.reads.keys() | set(node.operands)) > MOST_ARRAYS:
            return False
        splits = sum(member.opcode in BRANCHING for member in (*kernel.computed, node))
        if splits > MOST_SPLITS:
            return False
        return sum(kernel.emitted.values()) + self._emissions(kernel, node, users) <= MOST_CODE

    def _emissions(self, kernel: _Kernel, node: Node, users: Sequence[Node]) -> int:
        """How often the code of a kernel computes a node: once for each index at which it is read."""
        same = [user for user in users if user.dims == node.dims]
        counts = [kernel.emitted[user] for user in users if user.dims != node.dims]
        return sum(counts) + max([kernel.emitted[user] for user in same], default=0)

    def _saves_time(self, node: Apply, readers: Mapping[_Kernel, Sequence[Node]]) -> bool:
        """Whether kernels that compute a node are faster than those that read it, with the one that stores it."""
        if node.opcode in VIEWS | BROADCASTS:
            return True
        apart = LAUNCH_SECONDS + _kernel_of(node).seconds(self.device)
        together = 0.0
        for kernel, users in readers.items():
            apart += kernel.seconds(self.device)
            made = _Kernel(kernel.root, dict(kernel.computed), {}, dict(kernel.reads))
            self._compute(made, node, users)
            together += made.seconds(self.device)
        return together < apart

    def _join(self, kernel: _Kernel, node: Node, users: Sequence[Node]) -> None:
        kernel.emitted[node] = self._emissions(kernel, node, users)
        self._compute(kernel, node, users)

    def _compute(self, kernel: _Kernel, node: Node, users: Iterable[Node]) -> None:
        count = max(_elements_read(user, node, kernel.computed[user]) for user in users)
        if not kernel.computed.keys().isdisjoint(self.diamonds.values()):
            count = min(count, elements(node.type))  # a tile is computed once
        kernel.computed[node] = count
        kernel.reads.pop(node, None)
        for operand in node.operands:
            read = _elements_read(node, operand, count)
            kernel.reads[operand] = max(kernel.reads.get(operand, 0), read)


def _kernel_of(node: Apply) -> _Kernel:
    """The kernel of one instruction."""
    count = elements(node.type)
    return _Kernel(node, {node: count}, {node: 1}, {one: _elements_read(node, one, count) for one in node.operands})


def _elements_read(node: Node, operand: Node, count: float) -> float:
    """How many elements of an operand are read for so many elements of a result."""
    own, size = elements(node.type), elements(operand.type)
    if node.opcode == "dynamic-update-slice":
        return count if operand is node.operands[0] else min(count, size)
    if node.opcode in BRANCHING and own:
        return count * size / own
    return count if operand.dims else 0


def _read_bytes(node: Node, count: float) -> float:
    """The bytes of an array of which so many elements are read, each from memory once."""
    if node.opcode in BROADCASTS:  # spread where it is read, as that saves most
        return sum(leaf_bytes(operand.type) for operand in node.operands)
    size = elements(node.type)
    return leaf_bytes(node.type) * min(1.0, count / size) if size else 0.0


def _flops(node: Node) -> float:
    """What an element of a result counts as, in FLOPs."""
    if node.opcode == "reduce":
        return OTHER_CYCLES * elements(node.operands[0].type) / max(elements(node.type), 1)
    return CYCLES.get(node.opcode, OTHER_CYCLES) if node.opcode in ELEMENTWISE else 0


def _is_significant_reduction(node: Node) -> bool:
    if node.opcode != "reduce" or not isinstance(node.type, TensorType):
        return False
    return elements(node.operands[0].type) >= SIGNIFICANT * elements(node.type)


def _keeps_reduction(node: Node) -> bool:
    """Whether a kernel that computes this behind a reduction is still a reduction."""
    return node.opcode in VIEWS or (node.opcode in ELEMENTWISE and len(node.operands) == 1)
