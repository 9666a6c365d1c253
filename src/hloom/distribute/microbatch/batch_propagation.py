"""Propagates a split of the batch through a program: what is split, what is combined, what mixes examples.

This is the propagation of a sharding over an axis with one device per iteration, by the same rules: a dimension that a
rule passes on is split, one that it sums leaves partial results. If a rule needs the whole dimension, examples mix.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Set

from hloom.analysis import called_computations, callees, is_branch, phis
from hloom.distribute.microbatch.batch_state import (
    FINAL,
    WHOLE,
    Final,
    MixedExamples,
    PartialResult,
    Sliced,
    State,
    Whole,
)
from hloom.distribute.microbatch.linearity import is_neutral, terms_of
from hloom.distribute.propagation import SUMMING, DataflowGraph, Equation, ShardingRule
from hloom.ir import Apply, Constant, FactorKind, Graph, Node, Runs
from hloom.ops import REDUCERS, SAME_BYTES

TRANSPARENT = (SAME_BYTES - {"add-dependency", "bitcast"}) | {"copy"}
"""Opcodes that yield their operands, array by array; a dependency has a token beside its array."""


MOST_STEPS = 100_000
"""The maximum number of instructions on the path from the batch to one that mixes examples."""


class BatchPropagation:
    """The states of a module's values where parameters are cut into `count` slices.

    `module` is that of `dataflow`, in canonical form. `cuts` gives for values by number the dimension that is cut;
    `whole` are nodes of the entry that are computed before the loop; `links` are those of `dataflow`, where they are
    known. Raises MixedExamples.
    """

    def __init__(
        self,
        dataflow: DataflowGraph,
        cuts: Mapping[int, int],
        count: int,
        whole: Iterable[Node] = (),
        links: BatchLinks | None = None,
    ) -> None:
        self.dataflow, self.count = dataflow, count
        self.entry: Graph = dataflow.module.entry
        self.states: dict[int, State] = {}
        self._causes: dict[int, int] = {}
        self.whole = frozenset(whole)
        self._links = links if links is not None else BatchLinks(dataflow)
        self._pending: deque[int] = deque()
        for leaf, dimension in cuts.items():
            self._join(leaf, Sliced(dimension), None, dataflow.leaves[leaf].node)
        self._run()
        for graph in dataflow.graphs:
            for node in graph.nodes:
                if called_computations(node):
                    self._check_control_flow(node)

    def state(self, leaf: int) -> State:
        """The state of a value by number."""
        return self.states.get(leaf, WHOLE)

    def states_of(self, node: Node) -> tuple[State, ...]:
        """The states of a node's arrays."""
        return tuple([self.states.get(leaf, WHOLE) for leaf in self.dataflow.values.get(node, ())])

    def equation_of(self, node: Node) -> Equation | None:
        """How the dimensions of an instruction's operands and results correspond."""
        return self._links.equations.get(node)

    def operand_states(self, node: Node, cut: Sliced | None = None) -> list[tuple[State, ...]]:
        """For each operand the states in which a node of the loop reads its arrays.

        `cut` is how its result is cut, where that does not follow from the operands.
        """
        own = [self.states_of(operand) for operand in node.operands]
        called = called_computations(node)
        if called:
            return [own[0], *map(self._taken, called)] if is_branch(node) else [self.states_of(node)]
        equation = self.equation_of(node)
        if equation is None:
            return own
        rule, states = equation.rule, [state for group in own for state in group]
        at = None
        for slot, state in enumerate(states):
            at = at or self._point(equation, slot, state)
        if cut is not None:
            at = rule.factor_at(rule.results, cut.dimension, cut.front)
        if at is None:
            return own
        for part in rule.factor_dims[at[0]]:
            if part.slot < rule.results:
                states[part.slot] = Sliced(part.dimension, part.front * at[1])
        result = self.states_of(node)[0]
        if isinstance(result, PartialResult):
            for number in accumulators_of(node):
                states[number] = result
        following = iter(states)
        return [tuple([next(following) for _ in group]) for group in own]

    def reads(self, node: Node, cut: Sliced | None = None) -> list[tuple[Node, State]]:
        """The arrays that a node of the loop reads, each with the state in which it does."""
        read: list[tuple[Node, State]] = []
        pending = (
            list(zip(node.operands, self.operand_states(node, cut), strict=True)) if node.opcode != "tuple" else []
        )
        while pending:
            operand, states = pending.pop()
            if operand.opcode == "tuple":
                start = 0
                for element in operand.operands:
                    count = len(self.states_of(element))
                    pending.append((element, states[start : start + count]))
                    start += count
            elif len(states) == 1:
                read.append((operand, states[0]))
            else:
                read.append((operand, WHOLE))
        return read

    def _taken(self, branch: Graph) -> tuple[State, ...]:
        return self.states_of(branch.parameters[0])

    def _point(self, equation: Equation, slot: int, state: State) -> tuple[int, int] | None:
        if not isinstance(state, Sliced):
            return None
        return equation.rule.factor_at(slot, state.dimension, state.front)

    @property
    def work(self) -> int:
        """The total size of the iteration spaces of split instructions."""
        return sum(
            math.prod(factor.size for factor in equation.rule.factors)
            for equation in self.dataflow.equations
            if any(isinstance(self.state(leaf), Sliced) for leaf in equation.leaves)
        )

    @property
    def all_work(self) -> int:
        """The total size of the iteration spaces of all instructions."""
        return sum(math.prod(factor.size for factor in equation.rule.factors) for equation in self.dataflow.equations)

    def share_of(self, nodes: Set[Node]) -> float:
        """The share of all points of iteration spaces that these nodes of the entry have, with what they call."""
        total = done = 0
        for equation in self.dataflow.equations:
            points = math.prod(factor.size for factor in equation.rule.factors)
            total += points
            if self._links.owners.get(equation.node.graph, equation.node) in nodes:
                done += points
        return done / total if total else 0.0

    def _run(self) -> None:
        """Go on until nothing changes: a state changes at most three times, so this ends."""
        while self._pending:
            leaf = self._pending.popleft()
            for number in self._links.readers[leaf]:
                self._transfer(self.dataflow.equations[number])
            for other, node in (*self._links.targets[leaf], *self._links.names[leaf]):
                self._join(other, self.state(leaf), leaf, node)

    def _join(self, leaf: int, state: State, cause: int | None, node: Node) -> None:
        """Let a value be what a source of it is; raises MixedExamples where another source is something else."""
        before = self.state(leaf)
        if before == state or isinstance(state, Whole):
            return
        owner = self.dataflow.leaves[leaf].node
        if owner in self.whole:
            return
        if not isinstance(before, Whole):
            if isinstance(before, Final) or (isinstance(before, PartialResult) and isinstance(state, Final)):
                state = FINAL
                if before == state:
                    return
            else:
                raise self._mixed(node, "it is cut in one way on one path and in another on another", leaf)
        self.states[leaf] = state
        if cause is not None:
            self._causes.setdefault(leaf, cause)
        if isinstance(state, Sliced):
            if owner.graph is not self.entry:
                self._cut_maker(leaf, state)
            self._cut_sources(leaf, state)
        self._pending.append(leaf)

    def _cut_maker(self, leaf: int, state: Sliced) -> None:
        """Inside a loop or a branch, let what a value that is cut is made from be cut as well."""
        node = self.dataflow.leaves[leaf].node
        if isinstance(node, Constant) and node.splat is None:
            raise self._mixed(node, "a constant inside a loop has other values for other examples", leaf)
        for number in self._links.makers[leaf]:
            equation = self.dataflow.equations[number]
            rule = equation.rule
            slot = equation.leaves.index(leaf, rule.results)
            at = rule.factor_at(slot, state.dimension, state.front)
            if at is None or not is_made_by_slices(rule, slot, state.dimension, at, self.count):
                raise self._mixed(node, rule.reason or "inside a loop it is made for all examples at once", leaf)
            if node.opcode == "iota":
                raise self._mixed(node, "inside a loop it numbers the examples", leaf)
            self._cut_operands(equation, at, leaf)
        for other, reader in self._links.names[leaf]:
            self._join(other, state, leaf, reader)

    def _cut_sources(self, leaf: int, state: Sliced) -> None:
        """Cut what all branches or iterations yield where one yields what is cut."""
        for source, reader in self._links.sources[leaf]:
            if self.dataflow.leaves[source].node.graph is not self.entry:
                self._join(source, state, leaf, reader)

    def _cut_operands(self, equation: Equation, at: tuple[int, int], cause: int) -> None:
        """Cut the operands that have a factor, but those of the entry: these are sliced where they are read."""
        factor, within = at
        for part in equation.rule.factor_dims[factor]:
            if part.slot < equation.rule.results:
                leaf = equation.leaves[part.slot]
                if self.dataflow.leaves[leaf].node.graph is not self.entry:
                    self._join(leaf, Sliced(part.dimension, part.front * within), cause, equation.node)

    def _transfer(self, equation: Equation) -> None:
        """What an instruction's results are, of its operands."""
        node, rule = equation.node, equation.rule
        operands = equation.leaves[: rule.results]
        states = [self.state(leaf) for leaf in operands]
        results = equation.leaves[rule.results :]
        cut = [slot for slot, state in enumerate(states) if isinstance(state, Sliced)]
        last = next((leaf for leaf in operands if isinstance(self.state(leaf), Final)), None)
        if last is not None:
            if cut:
                reason = "it needs what all examples make together, for each example"
                raise self._mixed(node, reason, last)
            self._finish(results, last, node)
            return
        partial = next((leaf for leaf in operands if isinstance(self.state(leaf), PartialResult)), None)
        if cut:
            if partial is not None:
                raise self._mixed(node, "it needs what all examples make together, for each example", partial)
            self._cut(equation, cut, results)
        elif partial is not None:
            state = self.state(partial)
            assert isinstance(state, PartialResult)
            terms = self._terms(equation, states, state.reducer)
            if terms is None:
                self._finish(results, partial, node)
                return
            for leaf in (*terms, *results):
                self._join(leaf, state, partial, node)

    def _terms(self, equation: Equation, states: list[State], reducer: str) -> list[int] | None:
        """The values that must become terms of a sum for an instruction to work on parts of it; None where it cannot.

        Inside a loop these are what it carries, which then starts from the sum's part of the first iteration.
        """
        node = equation.node
        if not isinstance(node, Apply) or len(states) != len(node.operands):
            return None
        slots = terms_of(node, states, reducer)
        if slots is None:
            return None
        entering = [slot for slot in slots if not is_neutral(node.operands[slot], reducer)]
        if entering and (
            node.graph is self.entry or not all(self._is_carried(node.operands[slot]) for slot in entering)
        ):
            return None
        return [equation.leaves[slot] for slot in entering]

    def _is_carried(self, node: Node) -> bool:
        """Whether a value is one that a loop or a branch is given."""
        return all(self._links.sources[leaf] for leaf in self.dataflow.values.get(node, ()))

    def _finish(self, results: Iterable[int], cause: int, node: Node) -> None:
        """Let results come after the loop."""
        for leaf in results:
            self._join(leaf, FINAL, cause, node)
        if node.graph is not self.entry:
            owner = self._links.owners[node.graph]
            for leaf in self._links.states_of_loop(owner):
                self._join(leaf, FINAL, cause, node)

    def _cut(self, equation: Equation, cut: list[int], results: tuple[int, ...]) -> None:
        """Results of operands of which some are cut."""
        node, rule = equation.node, equation.rule
        points: set[tuple[int, int]] = set()
        for slot in cut:
            leaf = equation.leaves[slot]
            state = self.states[leaf]
            assert isinstance(state, Sliced)
            at = rule.factor_at(slot, state.dimension, state.front)
            if at is None:
                raise self._mixed(node, rule.reason or "nothing says where the dimension goes", leaf)
            if not rule.propagates_from(slot, state.dimension, *at, self.count):
                raise self._mixed(node, rule.reason or _why_not(rule.factors[at[0]].kind), leaf)
            if rule.factors[at[0]].kind is FactorKind.INDEXED:
                raise self._mixed(node, "examples are looked up by number", leaf)
            if node.opcode == "convolution" and slot == 1 and _is_tap(node, state.dimension):
                raise self._mixed(node, "the elements of its window read the input at different offsets", leaf)
            points.add(at)
        cause = equation.leaves[cut[0]]
        if len(points) > 1:
            raise self._mixed(node, "two dimensions of the batch meet in it", cause)
        (at,) = points
        factor, within = at
        reducer = rule.factors[factor].reducer or "add"
        if node.graph is not self.entry:
            self._cut_operands(equation, at, cause)
        dims = {part.slot: part for part in rule.factor_dims[factor]}
        for slot, leaf in enumerate(results, rule.results):
            part = dims.get(slot)
            if part is not None:
                self._join(leaf, Sliced(part.dimension, part.front * within), cause, node)
            elif rule.factors[factor].kind not in SUMMING or reducer not in REDUCERS:
                raise self._mixed(node, "its result has the examples no more, and is not a sum over them", cause)
            elif node.graph is not self.entry and not _starts_neutral(node, reducer):
                raise self._mixed(node, "inside a loop it adds to a value that is not zero", cause)
            else:
                self._join(leaf, PartialResult(reducer), cause, node)

    def _check_control_flow(self, node: Node) -> None:
        """Raise MixedExamples where examples decide what runs, or where a sum inside a loop starts from a number."""
        tests = [(graph.root, "how often it runs depends on the examples") for graph in _conditions(node)]
        if is_branch(node):
            tests = [(node.operands[0], "which branch runs depends on the examples")]
        for test, reason in tests:
            for leaf in self.dataflow.values.get(test, ()):
                if isinstance(self.state(leaf), (Sliced, PartialResult)):
                    raise self._mixed(node, reason, leaf)
        for leaf, state in self._carried_sums(node):
            for source, _ in self._links.sources[leaf]:
                origin = self.dataflow.leaves[source].node
                is_unsliced = isinstance(self.state(source), Whole) and origin.graph is not self.entry
                if is_unsliced and not is_neutral(origin, state.reducer):
                    raise self._mixed(node, "inside a loop a sum starts from a value that is not zero", leaf)

    def _carried_sums(self, node: Node) -> list[tuple[int, PartialResult]]:
        """The partial results that a loop or a branch takes or yields."""
        sums: list[tuple[int, PartialResult]] = []
        for phi in phis(node):
            for leaf in self.dataflow.leaves_at(phi.names[0]) or ():
                state = self.state(leaf)
                if isinstance(state, PartialResult):
                    sums.append((leaf, state))
        return sums

    def _mixed(self, node: Node, reason: str, leaf: int) -> MixedExamples:
        path = [leaf]
        while path[-1] in self._causes and len(path) < MOST_STEPS:
            path.append(self._causes[path[-1]])
        leaves = [self.dataflow.leaves[number] for number in reversed(path)]
        combined = [number for number in path if isinstance(self.state(number), PartialResult)]
        first = self.dataflow.leaves[combined[-1]].node if combined else None
        return MixedExamples(node, reason, tuple(leaves), first)


class BatchLinks:
    """How states go from value to value of a module: the same for any cut of it.

    `readers` and `makers` are for each value the equations that have it as an operand or as a result, `names` the
    other names of the same value around a loop or a branch, `targets` the names of what it is a source of, `sources`
    the reverse, `equations` those of instructions. `owners` are for each graph
    inside a loop or a branch the node of the entry that it belongs to.
    """

    def __init__(self, dataflow: DataflowGraph) -> None:
        self.dataflow = dataflow
        count = len(dataflow.leaves)
        self.readers: list[list[int]] = [[] for _ in range(count)]
        self.makers: list[list[int]] = [[] for _ in range(count)]
        self.names: list[list[tuple[int, Node]]] = [[] for _ in range(count)]
        self.targets: list[list[tuple[int, Node]]] = [[] for _ in range(count)]
        self.sources: list[list[tuple[int, Node]]] = [[] for _ in range(count)]
        self.owners: dict[Graph, Node] = {}
        self.equations: dict[Node, Equation] = {}
        self._loop_values: dict[Node, list[int]] = {}
        for number, equation in enumerate(dataflow.equations):
            if called_computations(equation.node):
                continue
            if equation.node.opcode in TRANSPARENT:
                self._pass_on(equation)
                continue
            self.equations[equation.node] = equation
            for leaf in dict.fromkeys(equation.leaves[: equation.rule.results]):
                self.readers[leaf].append(number)
            for leaf in equation.leaves[equation.rule.results :]:
                self.makers[leaf].append(number)
        for graph in reversed(dataflow.graphs):
            for node in graph.nodes:
                self._link(node, graph)

    def states_of_loop(self, owner: Node) -> list[int]:
        """The values that are carried around a loop of the entry, or taken by a branch."""
        return self._loop_values.get(owner, [])

    def _pass_on(self, equation: Equation) -> None:
        """The results of a node that yields its operands are these."""
        half = equation.rule.results
        for one, other in zip(equation.leaves[:half], equation.leaves[half:], strict=True):
            self.targets[one].append((other, equation.node))
            self.sources[other].append((one, equation.node))

    def _link(self, node: Node, graph: Graph) -> None:
        called = called_computations(node) if isinstance(node, Apply) else ()
        if not called:
            return
        owner = self.owners.get(graph, node)
        self.owners.update(dict.fromkeys(called, owner))
        for phi in phis(node):
            names = [self.dataflow.leaves_at(name) or () for name in phi.names]
            for source in (*phi.sources, *phi.back_edges):
                given = self.dataflow.leaves_at(source) or ()
                for target in names:
                    for one, other in zip(given, target, strict=True):
                        self.targets[one].append((other, node))
                        self.sources[other].append((one, node))
            for first in names:
                for second in names:
                    if first is not second:
                        for one, other in zip(first, second, strict=True):
                            self.names[one].append((other, node))
            if node is owner:
                self._loop_values.setdefault(owner, []).extend(leaf for name in names for leaf in name)


def _is_tap(convolution: Node, dimension: int) -> bool:
    """Whether a dimension of a convolution's kernel is one of its window."""
    return convolution.attributes["dim_labels"].rhs[dimension] not in "io"


def is_made_by_slices(rule: ShardingRule, slot: int, dimension: int, at: tuple[int, int], count: int) -> bool:
    """Whether slices of a result are made of slices of the operands: not where indices count the whole dimension."""
    return rule.factors[at[0]].kind is FactorKind.PARALLEL and rule.propagates_from(slot, dimension, *at, count)


def _why_not(kind: FactorKind) -> str:
    reasons = {
        FactorKind.WINDOWED: "its windows reach over several examples",
        FactorKind.SHIFTED: "it moves examples to other places",
        FactorKind.NEED_REPLICATION: "it needs all examples at once",
    }
    return reasons.get(kind, "the slices would not be even")


def _conditions(node: Node) -> list[Graph]:
    """The computations that decide whether a loop goes on."""
    return [graph for graph, runs in callees(node) if runs is Runs.PER_TEST]


def _starts_neutral(node: Node, reducer: str) -> bool:
    """Whether what a node accumulates starts from a value that may enter once in every iteration."""
    slots = accumulators_of(node)
    return all(is_neutral(node.operands[slot], reducer) for slot in slots)


def accumulators_of(node: Node) -> range:
    """The operands to which a node adds what it sums up, by number."""
    half = len(node.operands) // 2
    match node.opcode:
        case "reduce" | "reduce-window":
            return range(half, len(node.operands))
        case "scatter":
            return range((len(node.operands) - 1) // 2)
        case "select-and-scatter":
            return range(2, 3)
    return range(0)
