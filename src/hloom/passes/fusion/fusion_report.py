"""Reports a module's fusions: contents, bytes read and written, time, and pairs of kernels worth fusing.

Fusions are expanded in a copy, and the kernel model (`kernel_model.py`) evaluates what each contained: so recomputation
counts, and any two kernels can be tried as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hloom.analysis import (
    MATHEMATICAL,
    NO_SCOPE,
    ComputeTime,
    CostReport,
    Device,
    Roofline,
    Timing,
    as_device,
    cost,
    roofline,
    scopes,
)
from hloom.ir import Apply, Graph, Module, ModuleLike, Node, Parameter, Trait, as_module
from hloom.ops import with_trait
from hloom.passes import running_graphs
from hloom.passes.fusion.cluster import runs_of
from hloom.passes.fusion.horizontal_fusion import sliced_cost, sliced_loops, unsliced
from hloom.passes.fusion.kernel_merger import KernelMerger
from hloom.passes.fusion.kernel_model import Kernel, KernelCost, KernelModel
from hloom.passes.fusion.target import fusion_target
from hloom.text import Bytes, Display, Displayed, DisplayTable, Record, Seconds, time_text

PLUMBING = with_trait(Trait.TUPLE) | {"constant", "parameter"}
"""Opcodes that fusions hold and that are not work."""
MOST_PAIRS = 20_000
"""The maximum number of pairs of kernels to examine in a computation."""


@dataclass(frozen=True, slots=True)
class FusionRow(Record):
    """One fusion: its contents by opcode and by scope, bytes read and written, and seconds of one run.

    `recomputation` is its compute time relative to computing each element once. `is_modelled` is false for library
    calls and kernels outside the model: then bytes are those of its boundary.
    """

    node: Apply
    times: int
    opcodes: Mapping[str, int]
    sources: Mapping[str, int]
    read: Bytes
    written: Bytes
    seconds: float
    recomputation: float
    is_modelled: bool
    json_keys = (
        "**node kind opcodes sources operands=node.operands.name times read written seconds total recomputation "
        "is_modelled"
    )

    @property
    def total(self) -> float:
        """Seconds of all runs."""
        return self.seconds * self.times

    @property
    def kind(self) -> str | None:
        """The attribute `kind` of the fusion."""
        return self.node.attributes.get("kind")


@dataclass(frozen=True, slots=True)
class MissedFusion(Record):
    """Two kernels that are faster as one: seconds saved over all runs; `obstacle` says why they cannot be fused."""

    first: Node
    second: Node
    saved: Seconds
    saved_bytes: int
    obstacle: str
    json_keys = "first=first.name second=second.name computation=first.graph.name saved saved_bytes obstacle"


@dataclass(frozen=True, slots=True)
class LibraryCalls:
    """The custom calls of one target: their name for people, how many instructions, and the seconds of all their runs.

    `problem` says why the FLOPs of some are unknown: then the seconds are at least those of reading and writing.
    """

    target: str
    name: str
    count: int
    seconds: float
    problem: str


@dataclass(frozen=True, slots=True, repr=False)
class FusionReport(Displayed, Record):
    """The fusions of a module on a device, slowest first; made by `fusions`.

    `kernel_seconds` are those of all that kernels of the model may hold, in all runs: of fusions, and of instructions
    that are in none. `library_calls` are the custom calls, which no kernel of the model may hold.
    """

    module: Module
    device: Device
    fusions: tuple[FusionRow, ...]
    missed: tuple[MissedFusion, ...]
    kernel_seconds: float
    library_calls: tuple[LibraryCalls, ...] = ()
    is_estimate: ClassVar[bool] = True
    json_keys = "module=module.name device=device.name is_estimate seconds kernel_seconds fusions missed library_calls"

    def __repr__(self) -> str:
        return f"<{len(self.fusions)} fusions of {self.module.name} on {self.device.name}: {time_text(self.seconds)}>"

    def display(self) -> Display:
        rows = [(row.node.name, counted(row.opcodes), row.read, row.written, row.total) for row in self.fusions]
        pairs = [(pair.first.name, pair.second.name, pair.saved, pair.obstacle) for pair in self.missed]
        calls = [(call.target, call.name, call.count, call.seconds, call.problem) for call in self.library_calls]
        columns = ("fusion", "holds", "reads", "writes", "seconds")
        tables = (
            DisplayTable("fusions", columns, rows, len(rows)),
            DisplayTable("missed", ("first", "second", "seconds saved", "why not"), pairs, len(pairs)),
            DisplayTable("library calls", ("target", "name", "calls", "seconds", "not counted"), calls, len(calls)),
        )
        return Display(repr(self), tables)

    @property
    def seconds(self) -> float:
        """Seconds of all fusions over all their runs."""
        return sum(row.total for row in self.fusions)


def fusions(module: ModuleLike, device: Device | str = "cpu") -> FusionReport:
    """What the fusions of a module hold and take on a device, and which pairs of kernels are worth fusing.

    Raises HloomError for a device that nobody knows, and where the module has no entry.
    """
    module = as_module(module)
    chosen = as_device(device)
    estimate = roofline(module, chosen)
    timings = {timing.node: timing for timing in estimate.timings}
    opened = _Opened(module)
    opened.open()
    costs = cost(opened.copy)
    rows: list[FusionRow] = []
    missed: list[MissedFusion] = []
    seconds = 0.0
    for graph, times in runs_of(costs, list(running_graphs(opened.copy))):
        computation = _Computation(opened, graph, times, costs, chosen, timings)
        rows += computation.rows()
        missed += computation.missed()
        seconds += computation.seconds()
    rows.sort(key=lambda row: (-row.total, row.node.name))
    missed.sort(key=lambda pair: (bool(pair.obstacle), -pair.saved, pair.first.name, pair.second.name))
    return FusionReport(module, chosen, tuple(rows), tuple(missed), seconds, _library_calls(estimate))


def _library_calls(estimate: Roofline) -> tuple[LibraryCalls, ...]:
    """The custom calls that take time, those that take most first."""
    seconds: dict[str, float] = {}
    for timing in estimate.timings:
        if timing.node.opcode == "custom-call":
            target = estimate.report.custom_call(timing.node).target
            seconds[target] = seconds.get(target, 0.0) + timing.total
    calls = [
        LibraryCalls(call.target, call.name, call.count, seconds[call.target], call.problem)
        for call in estimate.report.custom_calls
        if call.target in seconds
    ]
    return tuple(sorted(calls, key=lambda call: (-call.seconds, call.target)))


class _Opened:
    """A copy of a module with its fusions expanded, and what each contained."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.copy = module.clone()
        self.members: dict[Apply, list[Node]] = {}
        self.fusion_of: dict[Node, Apply] = {}
        self.original: dict[Node, Node] = {}
        self.original_graph: dict[Graph, Graph] = {}
        self.scopes = scopes(module)

    def open(self) -> None:
        """Replace fusions by their contents, except library fusions."""
        self.copy.index_users()
        for graph, own in zip(self.copy.graphs, self.module.graphs, strict=True):
            self.original_graph[graph] = own
            self.original.update(zip(graph.nodes, own.nodes, strict=True))
        for graph in list(running_graphs(self.copy)):
            results: dict[Node, Node] = {}
            for node in graph.nodes:
                if node.opcode == "fusion" and node.attributes.get("kind") != "kCustom":
                    self._open(graph, node, results)
            self._replace_uses(graph, results)

    def _open(self, graph: Graph, fusion: Node, results: dict[Node, Node]) -> None:
        """Expand a fusion in front of it; adds the nodes that now yield its value and elements to the results."""
        inner = next(iter(fusion.called_graphs), None)
        original = self.original[fusion]
        if inner is None or inner.output is None or inner.missing or len(inner.parameters) != len(fusion.operands):
            return
        if any(not referent.is_graph for referent in fusion.attributes.referents()):
            return
        mapping: dict[Any, Any] = {}
        result = graph.copy_body(inner, fusion.operands, mapping, before=fusion)
        assert isinstance(original, Apply), "a fusion applies an op"
        members = [mapping[node] for node in inner.nodes if not isinstance(node, Parameter)]
        self.members[original] = _without_slices(graph, result, members)
        self.fusion_of.update(dict.fromkeys(self.members[original], original))
        results[fusion] = result
        if result.opcode == "tuple":
            takers = [user for user in fusion.users if user.opcode == "get-tuple-element"]
            results.update({taker: result.operands[taker.attributes["index"]] for taker in takers})

    def _replace_uses(self, graph: Graph, results: dict[Node, Node]) -> None:
        """Redirect all uses to the contents, and remove the fusions and tuples whose elements alone are read."""
        if not results:
            return
        final = dict(results)
        for node in results:
            while final[node] in results:
                final[node] = results[final[node]]
        for user in dict.fromkeys(user for node in results for user in node.users if user not in results):
            graph.set_operands(user, [final.get(operand, operand) for operand in user.operands])
            if user.attributes.refers:
                graph.set_attributes(user, user.attributes.mapped(final))
        if graph.output in final:
            graph.set_output(final[graph.output])
        for node in reversed([node for node in graph.nodes if node in results]):
            graph.erase(node)
            made = results[node]
            if made in self.fusion_of and made.opcode == "tuple" and not made.is_used:
                graph.erase(made)
                self.members[self.fusion_of[made]].remove(made)


def _without_slices(graph: Graph, result: Node, members: list[Node]) -> list[Node]:
    """The contents of a fusion of loops with different dimensions, without the final concatenation and its slices."""
    loops = [unsliced(part) for part in result.operands] if result.opcode == "tuple" else []
    operands = [loop for loop in loops if loop is not None]
    if len(operands) < max(1, len(loops)):
        return members
    slices = dict.fromkeys(result.operands)
    graph.set_operands(result, operands)
    for node in (*slices, *dict.fromkeys(part.operands[0] for part in slices)):
        if not node.is_used:
            graph.erase(node)
            members.remove(node)
    return members


class _Computation:
    """The kernels of one computation: expanded fusions and single instructions."""

    def __init__(
        self,
        opened: _Opened,
        graph: Graph,
        times: int,
        costs: CostReport,
        on: Device,
        timings: Mapping[Apply, Timing],
    ) -> None:
        self.opened = opened
        self.times = times
        self.timings = timings
        target = fusion_target(on)
        self.model = KernelModel(graph, target, ComputeTime(on, costs.analysis(MATHEMATICAL)), costs.call_graph)
        self.original = opened.original_graph[graph]
        self.kernels: dict[Apply, tuple[Kernel, KernelCost]] = {}
        for fusion, nodes in opened.members.items():
            if fusion.graph is self.original:
                kernel = self._kernel(nodes)
                if kernel is not None:
                    self.kernels[fusion] = kernel, self.model.assessed(kernel)[0]

        self.alone = list(self._alone())

    def _alone(self) -> Iterator[tuple[Kernel, KernelCost]]:
        """The instructions that no fusion held and kernels may hold."""
        model = self.model
        for number, is_fusible in enumerate(model.is_fusible):
            if is_fusible and model.nodes[number] not in self.opened.fusion_of:
                kernel = Kernel((number,), (number,))
                yield kernel, model.assessed(kernel)[0]

    def seconds(self) -> float:
        """Seconds of all kernels over all runs."""
        return self.times * sum(taken.seconds for _, taken in (*self.kernels.values(), *self.alone))

    def _kernel(self, nodes: Sequence[Node]) -> Kernel | None:
        """The contents of a fusion as a kernel; None if the model does not cover them."""
        model = self.model
        work = [node for node in nodes if node.opcode not in PLUMBING]
        if not work or not all(model.is_fusible[model.numbers[node]] for node in work):
            return None
        inside = set(work)
        stored = [node for node in work if node.is_output or any(user not in inside for user in node.users)]
        roots = tuple(sorted(model.numbers[node] for node in stored))
        return Kernel(roots, tuple(sorted(model.numbers[node] for node in work))) if roots else None

    def rows(self) -> list[FusionRow]:
        """The fusions of the computation."""
        return [self._row(node) for node in self.original.nodes if isinstance(node, Apply) and node.opcode == "fusion"]

    def _row(self, fusion: Apply) -> FusionRow:
        inner = [node for graph in fusion.called_graphs for node in graph.nodes if node.opcode not in PLUMBING]
        opcodes = Counter(node.opcode for node in inner)
        sources = Counter(self.opened.scopes.text(node) or NO_SCOPE for node in inner)
        if fusion in self.kernels:
            taken = self.kernels[fusion][1]
            again = taken.compute / taken.once if taken.once else 1.0
            measures = taken.read, taken.written, taken.seconds, again, True
        else:
            timing = self.timings.get(fusion)
            moved = timing.cost.bytes_accessed if timing is not None else 0
            written = min(moved, fusion.type.byte_count if fusion.type is not None else 0)
            measures = moved - written, written, timing.seconds if timing is not None else 0.0, 1.0, False
        return FusionRow(fusion, self.times, dict(opcodes.most_common()), dict(sources.most_common()), *measures)

    def missed(self) -> list[MissedFusion]:
        """The pairs of kernels, instructions alone among them, that take less time as one."""
        model = self.model
        kernels = list(self.kernels.values())
        names: dict[int, Node] = {kernel.roots[0]: fusion for fusion, (kernel, _) in self.kernels.items()}
        for kernel, taken in self.alone:
            if not model.is_leaf[kernel.roots[0]]:
                kernels.append((kernel, taken))
                names[kernel.roots[0]] = self.opened.original[model.nodes[kernel.roots[0]]]
        merger = KernelMerger(model, kernels)
        by_root = {kernel.roots[0]: (kernel, taken) for kernel, taken in kernels}
        pairs: dict[tuple[int, int], MissedFusion] = {}
        for first, second in merger.neighbours():
            pair = min(first, second), max(first, second)
            if first == second or pair in pairs or len(pairs) >= MOST_PAIRS:
                continue
            together = self._merged(by_root[first][0], by_root[second][0])
            merged, obstacle = model.assessed(together)
            saved = by_root[first][1].seconds + by_root[second][1].seconds - merged.seconds
            before = sum(by_root[name][1].read + by_root[name][1].written for name in pair)
            if saved <= 1e-12:
                continue
            if obstacle and sliced_loops(model, together) is not None and sliced_cost(model, together) is not None:
                obstacle = ""
            if not obstacle and merger.is_separated(first, second):
                obstacle = "a third kernel needs the one and makes what the other needs"
            pairs[pair] = MissedFusion(
                names[pair[0]], names[pair[1]], saved * self.times, before - merged.read - merged.written, obstacle
            )
        return list(pairs.values())

    def _merged(self, first: Kernel, second: Kernel) -> Kernel:
        """Two kernels merged; values only they read are no longer stored."""
        model = self.model
        members = {*first.members, *second.members}
        roots = [
            root
            for root in {*first.roots, *second.roots}
            if model.is_stored[root] or any(model.numbers[user] not in members for user in model.nodes[root].users)
        ]
        return Kernel(tuple(sorted(roots)), tuple(sorted(members)))


def counted(counts: Mapping[str, int], most: int = 4) -> str:
    """Names with how often they occur, the most frequent first.

    >>> counted({"add": 2, "tanh": 1})
    '2 add, tanh'
    """
    shown = [f"{count} {name}" if count > 1 else name for name, count in list(counts.items())[:most]]
    return ", ".join(shown) + (f" and {len(counts) - most} more" if len(counts) > most else "")
