"""The estimated time of a module on a device, by the roofline model."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from hloom.analysis.collective_cost import collective_seconds, group_members
from hloom.analysis.compute_time import MATRIX, ComputeTime
from hloom.analysis.control_flow import callee_of, flow_of, is_control_flow, is_loop
from hloom.analysis.cost import CostReport, cost
from hloom.analysis.cost_analysis import MATHEMATICAL, ONCE
from hloom.analysis.cost_groups import CostGroups, cost_groups
from hloom.analysis.cost_properties import Cost
from hloom.analysis.devices import DEFAULT_DEVICE, Device, as_device
from hloom.analysis.fusion import FORWARDING, VIEWS, FusionGroup, FusionModel, MovedBytes, border_bytes, has_fusions
from hloom.analysis.matmul_time import Matmul, MatmulRates
from hloom.analysis.op_names import op_name_of, source_of
from hloom.analysis.size_note import qualifier, varieties
from hloom.analysis.sizes import leaf_bytes
from hloom.analysis.tables import Table
from hloom.analysis.tpu_kernels import tpu_kernels
from hloom.ir import (
    Apply,
    Graph,
    ModuleLike,
    Node,
    Runs,
    Trait,
    as_module,
)
from hloom.text import Display, Displayed, DisplayTable, Record, Seconds, time_text

BOUNDS: tuple[str, ...] = ("compute", "memory", "link", "launch")
"""The possible bottlenecks of an instruction."""


@dataclass(frozen=True, slots=True)
class Timing(Record):
    """Seconds and costs of one run of an instruction, or of a group that runs as one kernel.

    `node` is the last instruction of the group that does work, `instructions` the size of the group, `times` how often
    it runs in a run of the module. Computing, moving data and communicating overlap: the longest one counts, plus the
    launch. `kinds` are the kinds of varying sizes involved (`varieties`). `unhidden` is what does not overlap after all
    of computing and moving data; only the model of TPUs knows it.
    """

    node: Apply
    instructions: int
    times: int
    cost: Cost
    comm_bytes: int
    compute: Seconds
    memory: Seconds
    link: Seconds
    launch: Seconds
    kinds: frozenset[str] = frozenset()
    unhidden: float = 0.0
    json_keys = (
        "**node op_name? source times instructions comm_bytes compute memory link launch seconds total **cost bound "
        "intensity sizes?=qualifier"
    )

    @property
    def seconds(self) -> float:
        """Seconds of one run."""
        return max(self.compute, self.memory, self.link) + self.unhidden + self.launch

    @property
    def total(self) -> float:
        """Seconds of all runs."""
        return self.seconds * self.times

    @property
    def bound(self) -> str:
        """Which of BOUNDS takes longest."""
        parts = (self.compute, self.memory, self.link, self.launch)
        return BOUNDS[parts.index(max(parts))]

    @property
    def intensity(self) -> float:
        """Operations per byte moved."""
        operations = self.cost.flops + self.cost.transcendentals
        return operations / self.cost.bytes_accessed if self.cost.bytes_accessed else 0.0

    @property
    def achieved(self) -> float:
        """Operations per second."""
        return (self.cost.flops + self.cost.transcendentals) / self.seconds if self.seconds else 0.0

    @property
    def op_name(self) -> str:
        """The scope that JAX or another framework gave the instruction, and its op; empty if none did."""
        return op_name_of(self.node)

    @property
    def source(self) -> str:
        """The source file and line of the instruction."""
        return source_of(self.node, self.node.graph.module.stack_tables)

    @property
    def qualifier(self) -> str:
        """The word before its figures: "at least" or the like where sizes vary."""
        return qualifier(self.kinds).strip()


@dataclass(frozen=True, slots=True)
class KernelWork:
    """The timing of a kernel, and what it consists of: compute seconds by instruction, and seconds of bytes moved."""

    timing: Timing
    computed: tuple[tuple[Apply, float], ...]
    moved: tuple[tuple[MovedBytes, float], ...]


@dataclass(frozen=True, slots=True)
class CompilerEstimate:
    """Seconds that a compiler's own cost model says for some instructions, and the roofline's for the same ones."""

    instructions: int
    compiler_seconds: float
    seconds: float

    def __str__(self) -> str:
        theirs, ours = time_text(self.compiler_seconds), time_text(self.seconds)
        return f"the compiler's estimate of {self.instructions:,} instructions: {theirs}; here {ours}"


class Roofline(Displayed, Record):
    """The time of a module on a device; made by `roofline`."""

    report: CostReport
    device: Device
    is_estimate: ClassVar[bool] = True
    json_keys = (
        "module=report.module.name device=device.name is_estimate sizes=report.sizes fused_by seconds "
        "start_seconds=device.start_seconds bounds compiler_estimate? unknown_loops=report.unknown_loops.name "
        "is_lower_bound=report.is_lower_bound uncounted=report.uncounted uncounted_kinds=report.uncounted_kinds "
        "instructions=timings"
    )

    def __init__(self, report: CostReport, on: Device) -> None:
        self.report = report
        self.device = on
        self.is_fused = has_fusions(report.module) or report.module.is_scheduled
        self._fusion = FusionModel(self.is_fused)
        self._computing = ComputeTime(on, report.analysis(MATHEMATICAL))
        self._graphs: dict[Graph, list[KernelWork]] = {}
        flops = report.analysis(MATHEMATICAL).own
        self._tpu = tpu_kernels(report.module, on, lambda node: flops(node).flops) if self.is_fused else None

    def __repr__(self) -> str:
        note = self.report.omissions
        time = f"{self.report.qualifier}{time_text(self.seconds)}{f'; {note}' if note else ''}"
        return f"<roofline of {self.report.module.name} on {self.device.name}: {time}>"

    def display(self) -> Display:
        bounds = list(self.bounds().items())
        timings = (
            (timing.node.name, timing.node.opcode, timing.total, timing.bound, timing.intensity)
            for timing in self.timings
        )
        columns = ("instruction", "opcode", "seconds", "bound by", "FLOP/byte")
        tables = (
            DisplayTable("what limits it", ("bound by", "seconds"), bounds, len(bounds)),
            DisplayTable("what takes the time", columns, timings, len(self.timings)),
        )
        return Display(repr(self), tables, 'roofline.by("scope", depth=2)')

    @property
    def seconds(self) -> float:
        """Seconds of one run of the module, including its start; concurrent work is counted sequentially."""
        return self.device.start_seconds + sum(timing.total for timing in self.timings)

    @cached_property
    def timings(self) -> tuple[Timing, ...]:
        """Everything that takes time, longest first."""
        timings = [
            timing if timing.times == times else _repeated(timing, times)
            for graph, _, times in self._running()
            for timing in self._timings_of(graph)
        ]
        return tuple(sorted(timings, key=lambda timing: -timing.total))

    def bounds(self) -> dict[str, float]:
        """Seconds for which each of BOUNDS is the bottleneck."""
        seconds: dict[str, float] = dict.fromkeys(BOUNDS, 0.0)
        for timing in self.timings:
            seconds[timing.bound] += timing.total
        return seconds

    def compiler_estimate(self) -> CompilerEstimate | None:
        """What the TPU compiler itself estimates, for the instructions where it does; None if there are none."""
        if self._tpu is None:
            return None
        rows = [(timing, self._tpu.compiler_seconds(timing.node)) for timing in self.timings]
        known = [(timing, seconds) for timing, seconds in rows if seconds is not None]
        if not known:
            return None
        theirs = sum(seconds * timing.times for timing, seconds in known)
        return CompilerEstimate(len(known), theirs, sum(timing.total for timing, _ in known))

    def work_seconds(self) -> dict[str, float]:
        """Seconds of what the device computes and moves itself, by what limits it; collectives apart."""
        seconds = {"compute": 0.0, "memory": 0.0, "launch": self.device.start_seconds}
        for timing in self.timings:
            if timing.node.has_trait(Trait.COLLECTIVE):
                continue
            limit = "compute" if timing.compute >= timing.memory else "memory"
            seconds[limit] += (max(timing.compute, timing.memory) + timing.unhidden) * timing.times
            seconds["launch"] += timing.launch * timing.times
        return seconds

    def by(self, what: str, *, depth: int | None = None) -> Table:
        """The seconds grouped by opcode, computation, scope, layer or source line, longest first.

        A fused group is attributed to its last instruction.
        """
        named = cost_groups(what, self.report.module, depth)
        groups: dict[str, list[float]] = {}
        kinds: dict[str, frozenset[str]] = {}
        for graph, context, times in self._running(named):
            for timing in self._timings_of(graph):
                name = named.name(timing.node, context)
                row = groups.setdefault(name, [0, *[0.0] * (1 + len(BOUNDS))])
                row[0] += times
                row[1] += timing.seconds * times
                row[2 + BOUNDS.index(timing.bound)] += timing.seconds * times
                kinds[name] = kinds.get(name, frozenset()) | timing.kinds
        columns = (what, "times", "seconds", *BOUNDS)
        ordered = sorted(groups.items(), key=lambda item: (-item[1][1], item[0]))
        if self.report.sizes:
            rows = tuple((key, *row, qualifier(kinds[key]).strip()) for key, row in ordered)
            return Table((*columns, "sizes"), rows)
        return Table(columns, tuple((key, *row) for key, row in ordered))

    def _running(self, groups: CostGroups | None = None) -> Iterator[tuple[Graph, Hashable, int]]:
        """The graphs whose instructions are timed separately, in each context, and how often they run."""
        for graph, context, runs, _ in self.report.contexts(groups):
            if runs.bytes_accessed and not self._fusion.is_pointwise(graph):
                yield graph, context, runs.bytes_accessed

    def kernels(self, graph: Graph) -> list[KernelWork]:
        """The kernels of one run of a graph, last first."""
        if graph not in self._graphs:
            made = [self._priced(group) for group in self._fusion.groups(graph)]
            self._graphs[graph] = [kernel for kernel in made if kernel is not None]
        return self._graphs[graph]

    def _timings_of(self, graph: Graph) -> Iterator[Timing]:
        """The timings of one run of a graph."""
        return (kernel.timing for kernel in self.kernels(graph))

    def _priced(self, group: FusionGroup) -> KernelWork | None:
        """A kernel with the times of the device's own model of instructions, if there is one."""
        kernel = self._kernel(group)
        if kernel is None or self._tpu is None:
            return kernel
        found = self._tpu.seconds(group.root)
        if found is None:
            return replace(kernel, timing=replace(kernel.timing, launch=self._tpu.launch(group.root)))
        link = self.link_seconds(group.root)
        named = {"compute": found.compute, "memory": found.memory, "link": link}
        return replace(kernel, timing=replace(kernel.timing, **named, launch=found.launch, unhidden=found.unhidden))

    def _kernel(self, group: FusionGroup) -> KernelWork | None:
        root = group.root
        if root.opcode in FORWARDING or (is_control_flow(root) and not self._fusion.is_inlined(root)):
            return None
        parts = [self._computing.seconds(member) for member in group.members]
        flops, functions = (
            sum(getattr(member_cost, name) for _, member_cost in parts) for name in ("flops", "transcendentals")
        )
        moved = self._moved(group, parts[0][1])
        transfer = self.report.communication.get(root)
        link = self.link_seconds(root)
        spent = Cost(flops, functions, max(0, sum(part.size for part in moved)))
        if spent == Cost() and not link:
            return None
        held = self._held_matmul(group)
        moving = [(part, self._moving_seconds(part, held if len(moved) > 1 else None)) for part in moved]
        memory = max(sum(seconds for _, seconds in moving), 0.0)
        if root in self._results:
            fresh = self.device.fresh_seconds(leaf_bytes(self.report.call_graph.type_of(root)))
            moving = [(part, seconds * (memory + fresh) / memory) for part, seconds in moving] if memory else moving
            memory += fresh
        sent = transfer.comm_bytes if transfer is not None else 0
        compute = sum(seconds for seconds, _ in parts)
        launched = self.device.launch_seconds if held is None else held.launch_seconds
        launch = launched if root.graph not in self._small_loops else 0.0
        if root.opcode not in MATRIX:
            launch += self.device.spreading_seconds(spent.bytes_accessed)
        shown = next(member for member in group.members if member.opcode not in VIEWS)
        kinds = varieties(group.members) if self.report.sizes else frozenset()
        timing = Timing(shown, len(group.members), 1, spent, sent, compute, memory, link, launch, kinds)
        computed = zip(group.members, (seconds for seconds, _ in parts), strict=True)
        return KernelWork(timing, tuple(computed), tuple(moving))

    def matmul(self, node: Apply) -> Matmul | None:
        """The matrix product that an instruction is, if the device has measured rates of its type."""
        return self._computing.matmul(node)

    def _held_matmul(self, group: FusionGroup) -> MatmulRates | None:
        if not self.device.matmul:
            return None
        held = (self._computing.held_matmul(member) for member in group.members)
        return next((rates for rates in held if rates is not None), None)

    def _moving_seconds(self, part: MovedBytes, held: MatmulRates | None) -> float:
        """Seconds to move a part of a kernel's bytes; a product's result is written at a rate of its own."""
        if held is not None and part.operand_index is None:
            return part.size / held.write_bandwidth
        return self.device.memory_seconds(part.size)

    def _moved(self, group: FusionGroup, root_cost: Cost) -> list[MovedBytes]:
        """The bytes that a kernel moves; those of an instruction that computes no operands are as it accesses them.

        These count as bytes of its operands and result if they are all of those, else of its result.
        """
        root, type_of = group.root, self.report.call_graph.type_of
        if not self.is_fused and self._fusion.is_consumer(root):
            return border_bytes(group, type_of)
        operands = [
            MovedBytes(root, number, leaf_bytes(type_of(operand))) for number, operand in enumerate(root.operands)
        ]
        whole = [*operands, MovedBytes(root, None, leaf_bytes(type_of(root)))]
        accessed = root_cost.bytes_accessed
        return whole if sum(part.size for part in whole) == accessed else [MovedBytes(root, None, accessed)]

    def link_seconds(self, node: Apply) -> float:
        """Seconds of communication in one run of an instruction, or of the collective that a fusion runs or starts."""
        node = self.communicating(node)
        transfer = self.report.communication.get(node)
        if transfer is None:
            return 0.0
        return collective_seconds(transfer, group_members(node, self.report.module), self.device)

    def communicating(self, node: Apply) -> Apply:
        """The collective that a fusion runs or starts; any other instruction itself."""
        called = node.attributes.get("calls") if node.opcode == "fusion" else None
        return self._fused_collectives.get(called, node) if isinstance(called, Graph) else node

    @cached_property
    def _fused_collectives(self) -> Mapping[Graph, Apply]:
        return {node.graph: node for node in self.report.communication if node.has_trait(Trait.COLLECTIVE)}

    @cached_property
    def _small_loops(self) -> frozenset[Graph]:
        """The graphs of loops that are compiled as a whole."""
        once = self.report.analysis(ONCE)
        loops = (call for part in self.report.call_graph.computations.values() for call in part.calls if is_loop(call))
        small = [loop for loop in loops if once.inclusive(loop).bytes_accessed < self.device.small_loop_bytes]
        return frozenset(graph for loop in small for graph in loop.called_graphs)

    @cached_property
    def _results(self) -> frozenset[Node]:
        """The instructions that make the module's results, looking through those that only forward them."""
        results: set[Node] = set()
        pending = [self.report.module.entry.root]
        while pending:
            node = pending.pop()
            if node in results:
                continue
            results.add(node)
            flow = flow_of(node)
            called = callee_of(node, Runs.ONCE) if flow is not None and flow.is_plain_call else None
            if called is not None and called.output is not None:
                pending.append(called.output)
            elif node.opcode in FORWARDING | VIEWS:
                pending += node.operands
        return frozenset(results)

    @property
    def fused_by(self) -> str:
        """Whose fusions these are: the "compiler"'s, or those of hloom's "model"."""
        return "compiler" if self.is_fused else "model"


def roofline(
    module: ModuleLike,
    device: Device | str = DEFAULT_DEVICE,
    *,
    trip_counts: Mapping[str, int] | None = None,
    unknown_trips: int = 1,
) -> Roofline:
    """Estimate how long a module takes on a device, given itself or by name.

    A module before optimisation is assumed to be fused by a simple model (`fusion.py`); an optimised one is taken as it
    is. Loops count as in `cost`. Raises HloomError for an unknown device, and as `cost` does.
    """
    module = as_module(module)
    on_device = as_device(device)
    return Roofline(cost(module, trip_counts=trip_counts, unknown_trips=unknown_trips), on_device)


def _repeated(timing: Timing, times: int) -> Timing:
    return replace(timing, times=times)
