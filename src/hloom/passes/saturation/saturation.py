"""The pass `saturate`: the cheapest among all forms of a program that rules can produce.

Equality saturation (Tate et al. 2009; egg, Willsey et al. 2021; for tensor programs Tensat, Yang et al. 2021). It
starts from the result of `simplify-xla`, which is therefore one of the forms: the result never costs more. Loops, calls
and branches are single values in the surrounding graph, and their own graphs are saturated separately. Graphs of
fragments with missing names or types, and graphs with control dependencies, which constrain when instructions run, are
left as `simplify-xla` leaves them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from hloom.analysis import DEFAULT_DEVICE, LOOPED, ComputeTime, Cost, CostAnalysis, Device, as_device, call_graph_of
from hloom.ir import (
    Apply,
    Graph,
    Inference,
    Module,
    ModuleLike,
    Node,
    Op,
    TypeProblem,
    as_module,
    callees_first,
    compatible,
)
from hloom.ops import SideEffects
from hloom.passes import (
    EXPLORATION,
    INEXACT,
    STRICT,
    ValueNumbering,
    apply_in_place,
    control_predecessors,
    cse,
    dce,
    register_pass,
    sort_topologically,
)
from hloom.passes.saturation.egraph import OPAQUE, EGraph
from hloom.passes.saturation.exploration import Exploration
from hloom.passes.saturation.extraction import extract
from hloom.rewrite import Family, Report, Rule, RuleIndex
from hloom.text import Display, Displayed, DisplayTable, HloomError

COSTS = ("bytes", "flops", "seconds")
MOST_NODES = 20_000
"""The default maximum number of nodes to make for a graph, in addition to ten times its own number."""
ROUNDS = 8
SIBLING_ROUNDS = 2
"""The number of rounds in which merged products are offered: for the program, and for the results of the first round.
"""
MAX_RUNS = 6
"""Bounds how often a module is saturated again from its cheaper form; usually the second run finds nothing."""
COST_ROUNDING = 1e-9
"""Relative difference below which two costs are equal: sums of the same numbers in another order."""
TIE = 1e-3
"""The weight of the whole program's time relative to a unit of FLOPs or bytes, to break ties."""
SMALLEST = 3
"""Graphs of fewer nodes that compute something stay: they are what reductions and the like are given."""


@dataclass(slots=True, repr=False)
class SaturatedGraph(Displayed):
    """What was done with one graph: nodes made, rounds, whether nothing new could be said; costs before and after.

    `bound` is a lower bound on the cost of any form in the e-graph; 0 if unknown.
    """

    graph: str
    nodes: int
    rounds: int
    is_saturated: bool
    cost_before: float
    cost: float
    bound: float
    fired: Counter[str] = field(default_factory=Counter)

    def display(self) -> Display:
        fired = self.fired.most_common()
        title = f"<{self.graph}: cost {self.cost_before:,.4g} to {self.cost:,.4g}, {self.nodes:,} nodes made>"
        return Display(title, [DisplayTable("rules that fired", ("rule", "times"), fired, len(fired))])


def saturate(
    module: ModuleLike,
    rules: Iterable[Rule | Family] | None = None,
    *,
    cost: str | Callable[[Node], float] = "bytes",
    device: Device | str = DEFAULT_DEVICE,
    nodes: int = MOST_NODES,
    rounds: int = ROUNDS,
    seconds: float | None = None,
) -> tuple[Module, list[SaturatedGraph]]:
    """The cheapest form of a module that rules can produce, and a report for each of its graphs.

    `rules` defaults to those of `simplify-xla` and `EXPLORATION`. `cost` is one of COSTS: the total bytes accessed, or
    FLOPs and transcendentals, as `hloom cost` counts them, or seconds by the roofline of the `device`; or a function of
    an instruction. Seconds decide between forms of equal cost, and between
    those within 2 % of the fewest FLOPs. FLOPs ignore data movement (reshapes, transposes,
    slices, concatenations), bytes ignore computation: with either, the chosen form may be slower. At most `nodes` are
    made for a graph in `rounds`; no round starts after `seconds`, so then the result depends on the machine's speed.
    Raises HloomError for another cost, and as `cost` does.
    """
    module = as_module(module)
    copy = module.clone()
    _, done = _saturate_in_place(copy, rules, cost, device, nodes, rounds, seconds)
    return copy, done


def saturate_in_place(
    module: Module,
    cost: str = "bytes",
    device: str = DEFAULT_DEVICE,
    nodes: int | str = MOST_NODES,
    rounds: int | str = ROUNDS,
) -> Report:
    """As `saturate`, of the module itself."""
    report = Report("saturate")
    try:
        limits = int(nodes), int(rounds)
    except ValueError:
        raise HloomError(f"nodes and rounds are numbers, not {nodes} and {rounds}") from None
    before = module.node_count
    is_changed, graphs = _saturate_in_place(module, None, cost, device, *limits, None)
    if is_changed:
        report.changes, report.erased = 1, max(before - module.node_count, 0)
    else:
        report.notes.append("nothing cheaper was found: the program stays as it is")
    for done in graphs:
        bound = f", no form costs less than {done.bound:,.6g}" if done.bound else ""
        state = "saturated" if done.is_saturated else "stopped"
        report.notes.append(
            f"{done.graph}: {cost} {done.cost_before:,.6g} -> {done.cost:,.6g}{bound}; {state} after {done.rounds} "
            f"rounds with {done.nodes:,} nodes"
        )
    return report


def _saturate_in_place(
    module: Module,
    rules: Iterable[Rule | Family] | None,
    cost: str | Callable[[Node], float],
    device: Device | str,
    nodes: int,
    rounds: int,
    seconds: float | None,
) -> tuple[bool, list[SaturatedGraph]]:
    """Whether a cheaper form was found and used, and a report for each graph.

    Each run starts from the result of the previous one, until that is no cheaper: rounds are bounded, so one run may
    stop short of what a second one finds, and the pass would otherwise change its own output.
    """
    if isinstance(cost, str) and cost not in COSTS:
        raise HloomError(f"programs are not compared by '{cost}'", hint=f"cost is {', '.join(COSTS)}")
    if nodes < 1 or rounds < 0:
        raise HloomError(f"{nodes} nodes in {rounds} rounds: nothing can be tried", hint="give numbers above 0")
    if module.has_closures:
        raise HloomError(f"{module.name} has functions as values: saturation is for HLO")
    index = RuleIndex(_default_rules() if rules is None else _flat(rules))
    until = None if seconds is None else monotonic() + seconds
    saturation = _Saturation(index, cost, as_device(device), nodes, rounds, until)
    best = _size(module, cost, saturation.device)
    is_changed, done = False, list[SaturatedGraph]()
    for _ in range(MAX_RUNS):
        candidate = module.clone()
        graphs = saturation.run(candidate)
        size = _size(candidate, cost, saturation.device)
        if not size.is_below(best):
            return is_changed, done or graphs
        module.take(candidate)
        is_changed, best = True, size
        done = _joined(done, graphs)
    return is_changed, done


@dataclass(slots=True)
class _Saturation:
    """Runs over modules with one set of rules, one cost and the same limits.

    `settled` are graphs that a run left as they were, by the number of their contents: another run need not try them.
    """

    index: RuleIndex
    cost: str | Callable[[Node], float]
    device: Device
    most_nodes: int
    rounds: int
    until: float | None
    numbering: ValueNumbering = field(default_factory=ValueNumbering)
    settled: dict[int, SaturatedGraph] = field(default_factory=dict)

    def run(self, module: Module) -> list[SaturatedGraph]:
        """Saturate every graph once, callees first."""
        apply_in_place(module, ["simplify-xla"])
        cse(module)
        known: dict[Graph, Cost] = {}
        effects = SideEffects()
        done: list[SaturatedGraph] = []
        for graph in callees_first(module):
            self.numbering.callees(graph)
            if not (_is_small(graph) or _is_fused(graph) or control_predecessors(graph)) and _is_complete(graph):
                done.append(self._once(graph, effects, known))
        dce(module)
        return done

    def _once(self, graph: Graph, effects: SideEffects, known: dict[Graph, Cost]) -> SaturatedGraph:
        """Saturate a graph unless a run before left the same one as it was."""
        before = self.numbering.contents(graph)
        if before in self.settled:
            return replace(self.settled[before], graph=graph.name, fired=Counter())
        done = self._saturate(EGraph(graph, self.numbering, effects), _Costs(graph, self.cost, self.device, known))
        if before is not None and before == self.numbering.contents(graph):
            self.settled[before] = done
        return done

    def _saturate(self, egraph: EGraph, costs: _Costs) -> SaturatedGraph:
        graph = egraph.graph
        roots = [graph.root, *(node for node in graph.nodes if not egraph.effects.may_drop(node))]
        before = sum(map(costs, graph.nodes))
        program = list(graph.nodes)
        work = Exploration(egraph, self.index, min(self.most_nodes, 10 * len(program) + 1_000), costs.are_given)
        rounds_done, is_saturated = self._explore(work)
        costs = costs.renewed()
        chosen = extract(egraph, roots, costs, program, costs.seconds if costs.measure == "flops" else None)
        _write(graph, egraph, chosen.choice)
        return SaturatedGraph(
            graph.name, egraph.size, rounds_done, is_saturated, before, chosen.cost, chosen.bound, work.fired
        )

    def _explore(self, work: Exploration) -> tuple[int, bool]:
        """The number of rounds done, and whether the last one found nothing new."""
        done = 0
        while done < self.rounds and not work.is_exhausted and (self.until is None or monotonic() < self.until):
            done += 1
            if done <= SIBLING_ROUNDS:
                work.merge_siblings()
            if not work.run_round():
                return done, not work.is_exhausted
        return done, False


@dataclass(frozen=True, slots=True)
class _Size:
    """A module's cost, seconds (each graph counted once), and number of nodes."""

    cost: float
    seconds: float
    nodes: int

    def is_below(self, other: _Size) -> bool:
        """Whether the cost, of equal ones the seconds, of equal ones the nodes are fewer: no chain falls forever."""
        for own, before in ((self.cost, other.cost), (self.seconds, other.seconds)):
            slack = COST_ROUNDING * abs(before)
            if abs(own - before) > slack:
                return own < before
        return self.nodes < other.nodes


def _size(module: Module, cost: str | Callable[[Node], float], on: Device) -> _Size:
    total, seconds, known = 0.0, 0.0, dict[Graph, Cost]()
    for graph in callees_first(module):
        if not _is_fused(graph) and _is_complete(graph):
            costs = _Costs(graph, cost, on, known)
            total += sum(map(costs.amount, graph.nodes))
            seconds += math.fsum(map(costs.seconds, graph.nodes))
    return _Size(total, seconds, module.node_count)


def _joined(before: Sequence[SaturatedGraph], after: Sequence[SaturatedGraph]) -> list[SaturatedGraph]:
    """The accounts of a later run, each with the cost and the rules of the runs before it."""
    earlier = {done.graph: done for done in before}
    for done in after:
        if done.graph in earlier:
            done.cost_before = earlier[done.graph].cost_before
            done.fired.update(earlier[done.graph].fired)
    return list(after)


def _write(graph: Graph, egraph: EGraph, choice: dict[int, Node]) -> None:
    """Leave the chosen nodes, each with the chosen nodes of its operands' classes."""
    root = choice[egraph.class_of[graph.root]]
    kept = set(choice.values())
    for node in kept:
        operands = [choice[egraph.class_of[operand]] for operand in node.operands]
        if any(one is not other for one, other in zip(operands, node.operands, strict=True)):
            graph.set_operands(node, operands)
    graph.set_output(root)
    graph.module.forget_users()
    graph.keep_only(kept | set(graph.parameters))
    sort_topologically(graph)
    graph.module.index_users()


class _Costs:
    """The cost of a graph's nodes by one measure, with ties broken by time.

    The costs of called graphs are `known` as far as requested: callees no longer change when a caller is counted.
    `whole` is the graph's initial time in seconds: this much time counts less than one FLOP or byte.
    """

    def __init__(
        self,
        graph: Graph,
        measure: str | Callable[[Node], float],
        on: Device,
        known: dict[Graph, Cost],
        whole: float | None = None,
    ) -> None:
        self.graph, self.measure, self.on, self.known = graph, measure, on, known
        self.analysis = CostAnalysis(call_graph_of(graph, graph.callees(), known), LOOPED, {}, known)
        self._compute = ComputeTime(on, self.analysis)
        self._whole = math.fsum(map(self.seconds, graph.nodes)) or 1.0 if whole is None else whole

    @property
    def are_given(self) -> bool:
        """Whether they are by a function of the user's."""
        return not isinstance(self.measure, str)

    def renewed(self) -> _Costs:
        """The same for the graph as it is now, with the graphs that were added."""
        return _Costs(self.graph, self.measure, self.on, self.known, self._whole)

    def seconds(self, node: Node) -> float:
        """The time of a node by the device's roofline."""
        if not isinstance(node, Apply) or node.opcode in OPAQUE:
            return 0.0
        return self.on.busy_seconds(self._compute.seconds(node)[0], self.analysis.own(node).bytes_accessed)

    def amount(self, node: Node) -> float:
        """The cost of a node by the measure alone."""
        if not isinstance(node, Apply):
            return 0.0
        if not isinstance(self.measure, str):
            return self.measure(node)
        if node.opcode in OPAQUE:
            return 0.0
        cost = self.analysis.own(node)
        if self.measure == "seconds":
            return self.seconds(node) + 1e-21 * cost.bytes_accessed
        return cost.bytes_accessed if self.measure == "bytes" else cost.flops + cost.transcendentals

    def __call__(self, node: Node) -> float:
        decides = self.measure in ("bytes", "flops") and isinstance(node, Apply) and node.opcode not in OPAQUE
        return self.amount(node) + (TIE * self.seconds(node) / self._whole if decides else 0.0)


def _default_rules() -> list[Rule]:
    return [rule for family in (*STRICT, *INEXACT, *EXPLORATION) for rule in family if not OPAQUE & set(rule.roots)]


def _flat(rules: Iterable[Rule | Family]) -> Sequence[Rule]:
    return [rule for item in rules for rule in ([item] if isinstance(item, Rule) else item)]


def _is_small(graph: Graph) -> bool:
    if graph.module.is_entry(graph):
        return False
    return sum(isinstance(node, Apply) for node in graph.nodes) < SMALLEST


def _is_complete(graph: Graph) -> bool:
    """Whether all that a graph uses is there, and each node has the type that follows: rules count on that."""
    inference = Inference()
    for node in graph.nodes:
        if not isinstance(node, Apply) or not isinstance(node.function, Op):
            continue
        op = node.function
        if not op.accepts(len(node.operands)) or op.lacking(node.attributes) is not None or node.type is None:
            return False
        try:
            if not compatible(inference.type_of(node), node.type):
                return False
        except TypeProblem:
            return False
    return not graph.missing


def _is_fused(graph: Graph) -> bool:
    return any(caller.opcode == "fusion" for caller in graph.callers)


register_pass(
    "saturate", "the cheapest form that rules make, by equality saturation", saturate_in_place,
    ("cost", "device", "nodes", "rounds"),
)  # fmt: skip
