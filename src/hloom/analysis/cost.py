"""The cost of a module: FLOPs, transcendental functions and bytes, per instruction and in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from hloom.analysis.call_graph import CallGraph, CostClass, build_call_graph
from hloom.analysis.collective_cost import CollectiveCost, traffic
from hloom.analysis.control_flow import callees, is_branch
from hloom.analysis.cost_analysis import LEAST, LOOPED, MATHEMATICAL, ONCE, CostAnalysis, CostOptions, run_counts
from hloom.analysis.cost_groups import CostGroups, cost_groups
from hloom.analysis.cost_properties import ONE, ZERO, Cost
from hloom.analysis.rules import CustomCall, cost_rule, custom_call
from hloom.analysis.size_note import SizeNote, qualifier, size_note, varieties
from hloom.analysis.tables import Table
from hloom.analysis.trip_counts import TripCount, find_trip_counts
from hloom.ir import Apply, Graph, Module, ModuleLike, Runs, as_module
from hloom.text import Display, Displayed, DisplayTable, Record, count_text


@dataclass(frozen=True, slots=True)
class Loop:
    """A while loop: its trip count (None if it depends on the data), how that is known, and the cost of one iteration.
    """

    name: str
    computation: str
    trips: int | None
    source: str
    body: Cost


@dataclass(frozen=True, slots=True)
class Conditional:
    """A conditional and the cost of each branch, in order of branch index; for a pred, the true branch comes first."""

    name: str
    computation: str
    branches: tuple[tuple[str, Cost], ...]
    json_keys = "name computation branches=costs"

    @property
    def costs(self) -> dict[str, Cost]:
        """The cost of each branch by its name."""
        return dict(self.branches)


@dataclass(frozen=True, slots=True)
class NodeCost:
    """The cost of one instruction that runs.

    `once` is XLA's count, including the called graphs, with each loop's body once. `own` is the cost of one run without
    the instructions of those graphs, and `times` how often it runs, for each property: the sum of `total` over all
    instructions is the module's.
    """

    node: Apply
    times: Cost
    once: Cost
    own: Cost
    mathematical: Cost

    @property
    def total(self) -> Cost:
        """The instruction's own cost over one run of the module."""
        return self.own.times(self.times)


@dataclass(frozen=True, slots=True)
class CustomCallCost:
    """The custom calls of one target: a name for people, how many instructions, their cost over one run of the module.

    `problem` says why the FLOPs of some are unknown; empty if all are counted.
    """

    target: str
    name: str
    count: int
    uncounted: int
    total: Cost
    scratch_bytes: int
    problem: str
    json_keys = "target name count uncounted **total scratch_bytes problem"


class CostReport(Displayed, Record):
    """The cost of a module; made by `cost`. Everything is computed on demand."""

    json_keys = (
        "module=module.name sizes total total_once mathematical "
        "minimum unknown_trips loops conditionals is_lower_bound uncounted uncounted_kinds custom_calls "
        "traffic=collective_costs"
    )

    def __init__(self, module: Module, trip_counts: Mapping[str, int], unknown_trips: int) -> None:
        self.module = module
        self.unknown_trips = unknown_trips
        self.call_graph: CallGraph = build_call_graph(module)
        self._trips: dict[Apply, TripCount] = find_trip_counts(self.call_graph, trip_counts)
        self._analyses: dict[CostOptions, CostAnalysis] = {}
        self._custom_calls: dict[CostClass, CustomCall] = {}

    def __repr__(self) -> str:
        note = f"; {self.omissions}" if self.omissions else ""
        return f"<cost of {self.module.name}: {self.qualifier}{self.total}{note}>"

    def display(self) -> Display:
        totals = [
            ("loops as often as they run", *_numbers(self.total)),
            ("loops once, as XLA does", *_numbers(self.total_once)),
            ("mathematically", *_numbers(self.mathematical)),
        ]
        columns = ("totals", "flops", "transcendentals", "bytes accessed")
        tables = [DisplayTable("totals", columns, totals, len(totals)), self.by("opcode").as_display("by opcode")]
        loops = [(loop.name, loop.computation, loop.trips, loop.source) for loop in self.loops]
        tables.append(DisplayTable("loops", ("loop", "computation", "runs", "how known"), loops, len(loops)))
        calls = [
            (call.target, call.name, call.count, *_numbers(call.total), call.problem) for call in self.custom_calls
        ]
        columns = ("target", "name", "calls", "flops", "transcendentals", "bytes accessed", "not counted because")
        tables.append(DisplayTable("custom calls", columns, calls, len(calls)))
        uncounted = [(name,) for name in self.uncounted]
        tables.append(DisplayTable("not counted", ("instruction",), uncounted, len(uncounted)))
        return Display(repr(self), tables, 'report.by("scope", depth=2)')

    @cached_property
    def sizes(self) -> SizeNote:
        """What the figures omit or assume because dimensions have no size; false if all have one."""
        return size_note(self.module)

    @property
    def is_lower_bound(self) -> bool:
        """Whether instructions are left out of the totals, or dimensions without a bound count as 0."""
        return bool(self.uncounted or self.sizes.unbounded_count)

    @property
    def qualifier(self) -> str:
        """The word before a total: "at least" if a cost or a size is unknown, "at most" if bounds count as sizes."""
        is_bounded = bool(self.sizes.bounded_count)
        return qualifier(("unbounded" if self.is_lower_bound else "", "bounded" if is_bounded else ""))

    @cached_property
    def omissions(self) -> str:
        """What the totals omit or assume; empty if everything is counted."""
        return "; ".join(filter(None, (str(self.sizes), uncounted_text(self.uncounted_kinds))))

    @property
    def total(self) -> Cost:
        """The module by XLA's rules, with loops repeated and the most expensive branches."""
        return self.analysis(LOOPED)(self.module.entry)

    @property
    def total_once(self) -> Cost:
        """The module as XLA's HloCostAnalysis counts it: every loop's body once."""
        return self.analysis(ONCE)(self.module.entry)

    @property
    def mathematical(self) -> Cost:
        """The module by the mathematical counts, with loops repeated."""
        return self.analysis(MATHEMATICAL)(self.module.entry)

    @property
    def minimum(self) -> Cost:
        """As `total`, with the cheapest branches."""
        return self.analysis(LEAST)(self.module.entry)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Every loop that runs, innermost first."""
        analysis = self.analysis(LOOPED)
        return tuple(
            Loop(node.name, node.graph.name, trips.count, trips.source, _body_cost(analysis, node))
            for node, trips in self._trips.items()
        )

    @property
    def unknown_loops(self) -> tuple[Loop, ...]:
        """The loops whose trip counts depend on the data: they are assumed to run `unknown_trips` times."""
        return tuple(loop for loop in self.loops if loop.trips is None)

    @cached_property
    def conditionals(self) -> tuple[Conditional, ...]:
        """Every conditional that runs, with the cost of each branch."""
        analysis = self.analysis(LOOPED)
        nodes = [call for counts in self.call_graph.computations.values() for call in counts.calls if is_branch(call)]
        return tuple(
            Conditional(
                node.name,
                node.graph.name,
                tuple((graph.name, analysis(graph)) for graph, runs in callees(node) if runs is Runs.IF_TAKEN),
            )
            for node in nodes
        )

    @cached_property
    def uncounted(self) -> tuple[str, ...]:
        """The instructions whose cost is unknown: custom calls, unknown opcodes, calls of computed functions.

        Also instructions of a fragment that need the types of missing operands.
        """
        return tuple(node.name for node in self._uncounted)

    @cached_property
    def uncounted_kinds(self) -> Mapping[str, int]:
        """How many instructions are not counted, by the target of custom calls and the opcode of others."""
        return dict(Counter(map(_kind_name, self._uncounted)).most_common())

    @cached_property
    def custom_calls(self) -> tuple[CustomCallCost, ...]:
        """The custom calls that run, by target, those with most FLOPs first."""
        groups: dict[str, list[tuple[Apply, CustomCall]]] = {}
        for node in self._running():
            if node.opcode == "custom-call":
                call = self.custom_call(node)
                groups.setdefault(call.target, []).append((node, call))
        looped = self.analysis(LOOPED)
        lines = [
            CustomCallCost(
                target,
                calls[0][1].name,
                len(calls),
                sum(call.work is None for _, call in calls),
                sum((looped.own(node).times(self._runs[node.graph]) for node, _ in calls), ZERO),
                max(call.scratch_bytes for _, call in calls),
                next((call.problem for _, call in calls if call.problem), ""),
            )
            for target, calls in groups.items()
        ]
        return tuple(sorted(lines, key=lambda line: (-line.total.flops, -line.total.bytes_accessed, line.target)))

    def custom_call(self, node: Apply) -> CustomCall:
        """What a custom call does and costs, as far as its target is known."""
        cost_class = self.call_graph.cost_class(node)
        known = self._custom_calls.get(cost_class)
        if known is None:
            instruction = self.call_graph.instruction(node)
            known = self._custom_calls[cost_class] = custom_call(instruction, self.analysis(LOOPED))
        return known

    @cached_property
    def _uncounted(self) -> tuple[Apply, ...]:
        if not any(map(self._is_uncounted, self.call_graph.classes.values())):  # the usual case, faster than all nodes
            return tuple(self.call_graph.computed)
        return (*filter(self._is_uncounted, self._running()), *self.call_graph.computed)

    def _is_uncounted(self, node: Apply) -> bool:
        if node.opcode == "custom-call":
            return self.custom_call(node).work is None
        if not node.has_row or cost_rule(node.op) is None:
            return True
        untyped = self.analysis(LOOPED).untyped
        return bool(untyped) and self.call_graph.cost_class(node) in untyped

    @cached_property
    def per_node(self) -> tuple[NodeCost, ...]:
        """The cost of every instruction that runs, callees first; parameters and constants cost nothing."""
        looped, once, mathematical = (self.analysis(options) for options in (LOOPED, ONCE, MATHEMATICAL))
        runs = self._runs
        return tuple(
            NodeCost(node, runs[node.graph], once.inclusive(node), looped.own(node), mathematical.own(node))
            for node in self._running()
        )

    @cached_property
    def collective_costs(self) -> tuple[CollectiveCost, ...]:
        """The traffic of every collective, transfer and copy, with ring algorithms."""
        return traffic(self.module, self.call_graph, self._runs)

    @cached_property
    def communication(self) -> Mapping[Apply, CollectiveCost]:
        """The same by instruction."""
        graphs = {graph.name: graph for graph in self.call_graph.computations} if self.collective_costs else {}
        nodes = ((graphs[transfer.computation][transfer.name], transfer) for transfer in self.collective_costs)
        return {node: transfer for node, transfer in nodes if isinstance(node, Apply)}

    def traffic(self, algorithm: str = "ring") -> tuple[CollectiveCost, ...]:
        """The traffic of every collective, transfer and copy, with the given algorithm."""
        return traffic(self.module, self.call_graph, self._runs, algorithm)

    def by(self, what: str, *, depth: int | None = None) -> Table:
        """The total grouped by opcode, computation, scope, layer or source line, by decreasing FLOPs.

        `depth` is the number of levels of a scope, a layer or a source line's stack that form a group; None takes all
        levels, but for a source line only the innermost. `count` is the number of instructions of the group, `times`
        the sum of their runs; `mathematical_flops` is the mathematical count. If the module has sizes that vary,
        `sizes` says whether a group's figures are "at least", "at most" or "roughly" right.
        """
        named = cost_groups(what, self.module, depth)
        looped, mathematical = self.analysis(LOOPED), self.analysis(MATHEMATICAL)
        counted = self._by_class if named.is_by_class else self._singly
        groups: dict[str, list[int]] = {}
        kinds: dict[str, frozenset[str]] = {}
        for graph, context, runs, exact_runs in self.contexts(named):
            for node, count in counted(graph):
                total = looped.own(node).times(runs)
                key = named.name(node, context)
                row = groups.setdefault(key, [0] * 6)
                if self.sizes:
                    kinds[key] = kinds.get(key, frozenset()) | varieties([node])
                exact = mathematical.own(node).flops * exact_runs.flops
                added = (1, runs.flops, total.flops, total.transcendentals, total.bytes_accessed, exact)
                for column, number in enumerate(added):
                    row[column] += number * count
        columns = (what, "count", "times", "flops", "transcendentals", "bytes_accessed", "mathematical_flops")
        ordered = sorted(groups.items(), key=lambda item: (-item[1][2], -item[1][4], item[0]))
        if self.sizes:
            rows = tuple((key, *row, qualifier(kinds[key]).strip()) for key, row in ordered)
            return Table((*columns, "sizes"), rows)
        return Table(columns, tuple((key, *row) for key, row in ordered))

    def analysis(self, options: CostOptions) -> CostAnalysis:
        """The costs of graphs and instructions under the given options."""
        if options not in self._analyses:
            counts = {
                loop: self.unknown_trips if trips.count is None else trips.count for loop, trips in self._trips.items()
            }
            self._analyses[options] = CostAnalysis(self.call_graph, options, counts)
        return self._analyses[options]

    @cached_property
    def _runs(self) -> dict[Graph, Cost]:
        return run_counts(self.analysis(LOOPED))

    def _running(self) -> Iterator[Apply]:
        for graph in self.call_graph.computations:
            if graph in self._runs:
                yield from self._nodes(graph)

    def _nodes(self, graph: Graph) -> Iterator[Apply]:
        return (node for node in graph.nodes if isinstance(node, Apply) and node not in self._computed)

    def _singly(self, graph: Graph) -> Iterator[tuple[Apply, int]]:
        return ((node, 1) for node in self._nodes(graph))

    def _by_class(self, graph: Graph) -> Iterator[tuple[Apply, int]]:
        """One instruction of each class in a computation, and the number of instructions of that class."""
        counts = self.call_graph.computations[graph].classes
        return ((self.call_graph.classes[cost_class], count) for cost_class, count in counts.items())

    @cached_property
    def _computed(self) -> frozenset[Apply]:
        return frozenset(self.call_graph.computed)

    def contexts(self, groups: CostGroups | None = None) -> Iterator[tuple[Graph, Hashable, Cost, Cost]]:
        """Every graph that runs, in each context that the groups distinguish, with its number of runs there, by both
        counts.

        Each graph once if there are no groups or contexts do not matter to them.
        """
        looped, exact = self.analysis(LOOPED), self.analysis(MATHEMATICAL)
        outside = groups.outside if groups is not None else None
        waiting: dict[Graph, dict[Hashable, tuple[Cost, Cost]]] = {self.module.entry: {outside: (ONE, ONE)}}
        for graph in reversed(self.call_graph.computations):
            for context, (runs, exact_runs) in waiting.get(graph, {}).items():
                yield graph, context, runs, exact_runs
                for call in self.call_graph.computations[graph].calls:
                    both = zip(looped.callee_runs(call), exact.callee_runs(call), strict=True)
                    for (called, times), (_, exact_times) in both:
                        inside = groups.inside(call, called, context) if groups is not None else None
                        contexts = waiting.setdefault(called, {})
                        before = contexts.get(inside, (ZERO, ZERO))
                        after = before[0] + runs.times(times), before[1] + exact_runs.times(exact_times)
                        contexts[inside] = after


def cost(module: ModuleLike, *, trip_counts: Mapping[str, int] | None = None, unknown_trips: int = 1) -> CostReport:
    """Compute the cost of a module.

    `trip_counts` gives iterations by the names of while instructions (`while.6`, or `computation/while.6`) and
    overrides what the text says or what can be derived; loops whose counts depend on the data run `unknown_trips`
    times. Raises HloomError for a module without an entry, for graphs that call each other in a cycle, and for a name
    that no loop has.
    """
    module = as_module(module)
    return CostReport(module, trip_counts or {}, unknown_trips)


def uncounted_text(kinds: Mapping[str, int], most: int = 5) -> str:
    """What totals leave out, with the numbers of its kinds: "without 3 instructions of unknown cost: 2 mine, 1 f".
    """
    if not kinds:
        return ""
    named = [f"{count:,} {name}" for name, count in list(kinds.items())[:most]]
    if len(kinds) > most:
        named.append(f"{sum(list(kinds.values())[most:]):,} others")
    return f"without {count_text(sum(kinds.values()), 'instruction')} of unknown cost: {', '.join(named)}"


def _kind_name(node: Apply) -> str:
    if node.opcode != "custom-call":
        return node.opcode
    return str(node.attributes.get("custom_call_target") or "custom-call")


def _body_cost(analysis: CostAnalysis, node: Apply) -> Cost:
    return sum((analysis(graph) for graph, _ in callees(node)), ZERO)


def _numbers(total: Cost) -> tuple[int, int, int]:
    known = _without_unknown(total)
    return known.flops, known.transcendentals, known.bytes_accessed


def _without_unknown(cost: Cost) -> Cost:
    """A cost without negative counts: XLA's analysis uses -1 for unknown."""
    return Cost(max(cost.flops, 0), max(cost.transcendentals, 0), max(cost.bytes_accessed, 0))
