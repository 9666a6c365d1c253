"""Fusion: which instructions a backend computes inside their consumers, so that their results are never stored.

Each purpose has a policy that says which opcodes are fused into which; the logic common to all policies is here.
`MEMORY` says which values of an uncompiled module take memory, `KERNELS` what runs as one kernel on an accelerator;
`hloom.targets.cpu.instruction_fusion` follows XLA's CPU compiler in detail, with its own policy.

Source: xla/service/instruction_fusion.cc, InstructionFusion::ShouldFuse and IsExpensive;
xla/backends/gpu/transforms/priority_fusion.cc (openxla/xla of early 2026). The two estimates are much simpler:
compilers fuse more in some cases (producers into several consumers, siblings) and less in others (groups that are too
large, bad access patterns).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hloom.analysis.alias_info import ELEMENTWISE
from hloom.analysis.control_flow import callee_of, flow_of
from hloom.analysis.sizes import elements, leaf_bytes
from hloom.ir import Apply, Constant, Graph, Module, Node, Runs, Trait, Type
from hloom.ops import PRODUCTS, SAME_BYTES, with_trait

SLICES = with_trait(Trait.READS_PART)
"""Opcodes that read only as much of their first operand as they yield."""
VIEWS = with_trait(Trait.KEEPS_ORDER)
"""Opcodes that only reinterpret the same bytes as another type."""
BROADCASTS = with_trait(Trait.GENERATES) | {"broadcast"}
"""Opcodes whose values are so cheap that each consumer computes them itself."""
DATA_MOVEMENT = BROADCASTS | (
    with_trait(Trait.MOVES_DATA) - SLICES - VIEWS - {"copy", "dynamic-reshape", "dynamic-update-slice"}
)
"""Opcodes that rearrange elements, beside slices and views. A copy is meant to exist, a dynamic reshape has a size that
only the run knows, and a dynamic update works in place."""
DOTS = with_trait(Trait.CONTRACTS)
"""Opcodes that read their operands in any order of dimensions."""
FORWARDING = (SAME_BYTES - VIEWS) | with_trait(Trait.TUPLE) | {"after-all", "parameter", "tuple-select"}
"""Opcodes that forward values without touching them."""
EXPENSIVE = (with_trait(Trait.TRANSCENDENTAL) | {"divide", "remainder"}) - {"cosine", "sine", "sinh", "tan"}
"""Elementwise opcodes that are not computed twice to save memory (xla/service/instruction_fusion.cc,
InstructionFusion::IsExpensive, of real numbers)."""
BRANCHING = frozenset(("concatenate", "dot", "dynamic-update-slice", "pad", "reduce", "reduce-window"))
"""Opcodes whose code branches or loops, so that what it computes is not found again by a second reader
(xla/service/elemental_ir_emitter.cc, ElementalIrEmitter::OpInvalidatesCache)."""


@dataclass(frozen=True, slots=True)
class FusionPolicy:
    """Which opcodes are fused into which.

    `producers` may be computed inside their consumers, `consumers` compute their operands; `folded` producers are also
    read unchanged by `folding` consumers. Only `duplicated` producers are recomputed in several consumers.
    """

    producers: frozenset[str]
    consumers: frozenset[str]
    duplicated: frozenset[str]
    folded: frozenset[str] = frozenset()
    folding: frozenset[str] = frozenset()

    def fuses(self, producer: Node, consumer: Node) -> bool:
        """Whether a consumer computes a producer itself."""
        if producer.opcode not in self.producers:
            return False
        is_folded = producer.opcode in self.folded and consumer.opcode in self.folding
        return consumer.opcode in self.consumers or is_folded

    def may_duplicate(self, producer: Node) -> bool:
        """Whether several consumers may each recompute a producer."""
        return producer.opcode in self.duplicated


_MOVED = (ELEMENTWISE | DATA_MOVEMENT | SLICES | {"reshape"}) - {"copy"}
MEMORY = FusionPolicy(
    producers=_MOVED,
    consumers=_MOVED | {"reduce", "dynamic-update-slice", "map", "reduce-window", "select-and-scatter"},
    duplicated=_MOVED - EXPENSIVE,
    folded=with_trait(Trait.REINDEXES) - {"bitcast", "copy", "reverse", "slice"},
    folding=frozenset(PRODUCTS),
)
"""Which values of an uncompiled module take no memory: XLA's CPU and GPU compilers duplicate cheap producers."""
_JOINED = ELEMENTWISE | SLICES | DATA_MOVEMENT | VIEWS
KERNELS = FusionPolicy(
    producers=_JOINED,
    consumers=_JOINED | {"reduce", "dynamic-update-slice", "map"} - {"gather"},
    duplicated=BROADCASTS,
)
"""What runs as one kernel, for time estimates: a kernel computes its own producers and recomputes broadcasts."""


def fused_nodes(graph: Graph, order: Sequence[Node], policy: FusionPolicy = MEMORY) -> dict[Node, int]:
    """The nodes computed inside all their readers, each with the position of the last instruction that then reads its
    operands.

    ```
    a = exponential(x); b = add(a, y); dot(b, z)     a is fused into b, and x is needed until b is made
    ```
    """
    users: dict[Node, list[int]] = {}
    for position, node in enumerate(order):
        for used in node.operands:
            users.setdefault(used, []).append(position)
    last: dict[Node, int] = {}
    for position in range(len(order) - 1, -1, -1):
        node = order[position]
        readers = users.get(node)
        if not readers or node is graph.output or type(node) is not Apply or node.opcode not in policy.producers:
            continue
        if len(readers) > 1 and not policy.may_duplicate(node):
            continue
        if all(policy.fuses(node, order[reader]) for reader in readers):
            last[node] = max([last.get(order[reader], reader) for reader in readers])
    return last


@dataclass(slots=True, eq=False)
class FusionGroup:
    """Instructions that run as one kernel: the last one, whose result alone is stored, and all of them, last first."""

    root: Apply
    members: list[Apply] = field(default_factory=list)


def has_fusions(module: Module) -> bool:
    """Whether a compiler has already created fusions."""
    return any(node.opcode == "fusion" for node in module.nodes())


class FusionModel:
    """The kernels of a module's computations; `is_final` says that a compiler has fused, so each instruction is a
    kernel.

    An instruction joins the kernel of its users if they are all in the same one; broadcasts are recomputed in each
    kernel that reads them. Views are free, and so are transposes that only dots read.
    """

    def __init__(self, is_final: bool, policy: FusionPolicy = KERNELS) -> None:
        self.is_final = is_final
        self.policy = policy
        self._inlined: dict[Graph, bool] = {}

    def groups(self, graph: Graph) -> list[FusionGroup]:
        """The kernels of a computation, last first; instructions that only forward values are in none."""
        if self.is_final:
            return [FusionGroup(node, [node]) for node in _reversed_applies(graph) if node.opcode not in VIEWS]
        grouping = _Grouping(self)
        for node in _reversed_applies(graph):
            grouping.enter(node, node is graph.output)
        return [group for group in grouping.groups if not grouping.is_free(group)]

    def is_consumer(self, node: Node) -> bool:
        """Whether an instruction's kernel also computes its operands."""
        return node.opcode in self.policy.consumers or self.is_inlined(node)

    def is_producer(self, node: Node) -> bool:
        """Whether an instruction may be computed in its user's kernel."""
        return node.opcode in self.policy.producers or self.is_inlined(node)

    def is_inlined(self, node: Node) -> bool:
        """Whether a call's computation is purely elementwise, so that the call counts as one operation."""
        graph = _called_once(node)
        return graph is not None and self.is_pointwise(graph)

    def is_pointwise(self, graph: Graph) -> bool:
        """Whether a whole computation would become part of a caller's kernel."""
        if self.is_final or graph is graph.module.entry:
            return False
        pending, entered = [graph], set[Graph]()
        while pending:
            current = pending[-1]
            called = [] if current in entered else [_called_once(node) for node in current.nodes]
            entered.add(current)
            waiting = [callee for callee in called if callee and callee not in self._inlined and callee not in entered]
            if waiting:  # callees first; a cycle of calls ends at computations already entered
                pending += waiting
                continue
            pending.pop()
            if current not in self._inlined:
                self._inlined[current] = all(map(self._is_pointwise_op, current.nodes))
        return self._inlined[graph]

    def _is_pointwise_op(self, node: Node) -> bool:
        """Whether an instruction would become part of a caller's kernel, given the decisions for its callees."""
        if not isinstance(node, Apply):
            return True
        callee = _called_once(node)
        is_inlined = callee is not None and self._inlined.get(callee, False)
        return node.opcode not in SLICES and (node.opcode in self.policy.producers or is_inlined)


def _called_once(node: Node) -> Graph | None:
    """The computation that a plain call runs."""
    flow = flow_of(node)
    return callee_of(node, Runs.ONCE) if flow is not None and flow.is_plain_call else None


def _reversed_applies(graph: Graph) -> Iterator[Apply]:
    return (node for node in reversed(graph.nodes) if isinstance(node, Apply))


class _Grouping:
    """Assigns a computation's instructions to kernels, entered from the last to the first."""

    def __init__(self, model: FusionModel) -> None:
        self.model = model
        self.groups: list[FusionGroup] = []
        self._group_of_users: dict[Node, FusionGroup | None] = {}  # None if the users are in several kernels
        self._stored: set[Node] = set()  # read by an instruction that does not compute its operands

    def enter(self, node: Apply, is_output: bool) -> None:
        """Put an instruction into its users' kernel or a new one; all its users have been entered."""
        is_consumer = self.model.is_consumer(node)
        group = None if is_output else self._group_of_users.get(node)
        is_fused = node not in self._stored and self.model.is_producer(node)
        is_duplicated = self.model.policy.may_duplicate(node) and node in self._group_of_users
        if group is None and is_fused and not is_output and is_duplicated:
            return
        if group is None or not is_fused:
            group = FusionGroup(node)
            if node.opcode not in FORWARDING:
                self.groups.append(group)
        group.members.append(node)
        for operand in node.operands:
            if self._group_of_users.setdefault(operand, group) is not group:
                self._group_of_users[operand] = None
            if not is_consumer:
                self._stored.add(operand)

    def is_free(self, group: FusionGroup) -> bool:
        """Whether a kernel only reinterprets memory."""
        if all(member.opcode in VIEWS for member in group.members):
            return True
        is_transpose = group.root.opcode == "transpose" and len(group.members) == 1
        user = self._group_of_users.get(group.root)
        return is_transpose and user is not None and user.root.opcode in DOTS


class MovedBytes(NamedTuple):
    """Bytes that a kernel moves, of an instruction's operand with this index, or of its result if that is None."""

    node: Apply
    operand_index: int | None
    size: int


def border_bytes(group: FusionGroup, type_of: Callable[[Node], Type | None]) -> list[MovedBytes]:
    """The bytes that a kernel reads from outside, each operand once, and those of its result."""
    inside = set(group.members)
    moved: list[MovedBytes] = []
    seen: set[Node] = set()
    for member in group.members:
        for number, operand in enumerate(member.operands):
            if operand in inside or operand in seen:
                continue
            if number == 0 and member.opcode in SLICES:
                moved.append(MovedBytes(member, None, leaf_bytes(type_of(member))))
            elif number == 0 and member.opcode == "dynamic-update-slice":
                continue  # updated in place
            else:
                seen.add(operand)
                moved += _read_bytes(member, number, type_of)
    root = group.root
    if root.opcode == "dynamic-update-slice" and len(root.operands) > 1:
        return [*moved, MovedBytes(root, 1, leaf_bytes(type_of(root.operands[1])))]  # updated in place
    return [*moved, MovedBytes(root, None, leaf_bytes(type_of(root)))]


def _read_bytes(node: Apply, number: int, type_of: Callable[[Node], Type | None]) -> list[MovedBytes]:
    """The bytes read for an operand; for a recomputed broadcast, those of its own operands."""
    operand = node.operands[number]
    if isinstance(operand, Constant) and elements(operand.type) <= 1:
        return []
    if isinstance(operand, Apply) and operand.opcode in BROADCASTS:
        sources = enumerate(operand.operands)
        return [MovedBytes(operand, index, leaf_bytes(type_of(source))) for index, source in sources]
    return [MovedBytes(node, number, leaf_bytes(type_of(operand)))]
