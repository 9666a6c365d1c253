"""Calls, choices and loops of functional graphs as HLO's `call`, `conditional` and `while`.

A graph that ends in a call goes on in the called one: tail calls are jumps, and graphs that jump to themselves, through
others or not, are loops. Where both arms of a choice reach a graph, the arms end in a jump to it, and it follows the
conditional once; what leaves a loop ends it in the same way. Where an arm or a loop ends in one of several jumps, a tag
says in which.

Everything here is a generator that yields the generators whose results it wants; `run` keeps them on a stack of its
own, so that programs may nest to any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hloom.dialects.arrays import type_of_node
from hloom.dialects.mindir.emitter import PREDICATE, ComputationEmitter, Within
from hloom.dialects.mindir.free_variables import References
from hloom.dialects.mindir.locations import error_at
from hloom.dialects.mindir.lowered_values import (
    INDEX_TYPE,
    Aggregate,
    Choice,
    Closure,
    LoweredValue,
    aggregate,
    closure,
    functions_in,
    joined,
    leaf_types,
    leaves,
    skeleton_of,
    with_arrays,
    with_dynamic_numbers,
)
from hloom.ir import Graph, Module, Node, reachable

Task = Generator[Any, Any, Any]
"""A generator that yields tasks, is sent their results, and returns its own."""

MOST_ACTIVATIONS = 100_000
"""How many graphs may be entered: functions are specialised to the functions that they are given."""
MOST_JOINS = 20
"""How often the values that a loop carries are joined before they must agree."""


def run(task: Task) -> Any:
    """The result of a task."""
    stack = [task]
    result: Any = None
    while stack:
        try:
            waited = stack[-1].send(result)
        except StopIteration as stop:
            stack.pop()
            result = stop.value
            continue
        stack.append(waited)
        result = None
    return result


@dataclass(frozen=True, slots=True)
class Region:
    """Where calls may go: a tail call to one of `targets` is a jump; no call may enter the `surrounding` loops."""

    targets: frozenset[Graph] = frozenset()
    surrounding: frozenset[Graph] = frozenset()

    def with_targets(self, graphs: Iterable[Graph]) -> Region:
        return Region(self.targets | frozenset(graphs), self.surrounding)

    def of_loop(self, header: Graph, exits: Iterable[Graph]) -> Region:
        """The region of a loop's body."""
        return Region(self.targets | {header, *exits}, self.surrounding | {header})

    def of_value(self) -> Region:
        """The region of a call whose result is used here."""
        return Region(frozenset(), self.surrounding)


Target = Graph | None
"""Where a region ends: in a jump to a graph, or with a result (None)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a region ends: by target the value that goes there, and the tag's number; `tag` where there are several."""

    values: dict[Target, LoweredValue]
    tags: dict[Target, int]
    tag: Node | None = None

    @property
    def target(self) -> Target:
        """The only target."""
        (target,) = self.values
        return target


def ending(target: Target, value: LoweredValue) -> Outcome:
    """The outcome with one target."""
    return Outcome({target: value}, {target: 0})


@dataclass(frozen=True, slots=True)
class TailCall:
    """A call that ends a graph."""

    function: LoweredValue
    arguments: tuple[LoweredValue, ...]
    node: Node


@dataclass(slots=True)
class _Branch:
    """A computation that is being built, its parameter a tuple of arrays, and how it ends."""

    graph: Graph
    outcome: Outcome


GraphBody = Callable[[Graph, Mapping[Node, LoweredValue], Region], Task]
"""Lowers a graph's nodes, given the values of its parameters and free variables: a task with a TailCall or a value."""


class ControlFlow:
    """Lowers calls of functional graphs."""

    def __init__(self, module: Module, emitter: ComputationEmitter, body: GraphBody) -> None:
        self.references = References(module)
        self.order: dict[Target, int] = {graph: index for index, graph in enumerate(module.graphs)}
        self.emitter = emitter
        self.body = body
        self.activations = 0
        self.functions: dict[tuple[Graph, LoweredValue], tuple[Graph, LoweredValue]] = {}

    # Calls

    def value_of_call(self, call: TailCall, region: Region) -> Task:
        """The value of a call whose result is used."""
        inner = region.of_value()
        function = call.function
        if isinstance(function, Closure) and self.references.counts.get(function.graph, 0) > 1:
            return (yield self.shared_call(inner, function, call))
        outcome = yield self.jump(inner, call)
        return outcome.values[None]

    def shared_call(self, region: Region, function: Closure, call: TailCall) -> Task:
        """A call of a graph that several calls want: an HLO computation per skeleton of what it is given."""
        given = aggregate([function, *call.arguments])
        key = (function.graph, skeleton_of(given))
        arrays = list(leaves(given))
        if key not in self.functions:
            branch = yield self.branch(function.graph.name, key[1], lambda value: self.entered(region, value, call))
            result = branch.outcome.values[None]
            self.emitter.finish(branch.graph, list(leaves(result)))
            self.functions[key] = branch.graph, skeleton_of(result)
        graph, skeleton = self.functions[key]
        return self.emitter.call(graph, arrays, skeleton)

    def entered(self, region: Region, value: LoweredValue, call: TailCall) -> Task:
        """The outcome of a function with its arguments, as they come out of a tuple."""
        assert isinstance(value, Aggregate), "a function and its arguments are a tuple"
        function, *arguments = value.elements
        return self.jump(region, TailCall(function, tuple(arguments), call.node))

    def jump(self, region: Region, call: TailCall) -> Task:
        """The outcome of a tail call."""
        while True:
            function, arguments = call.function, call.arguments
            self.emitter.build.metadata = call.node.raw_metadata
            if isinstance(function, Choice):
                return (yield self.choose(region, function, call))
            if not isinstance(function, Closure):
                raise error_at(call.node, "this value is not a function that is known here")
            graph = function.graph
            state = aggregate((*function.captured, *function.bound, *arguments))
            self.check_call(function, call)
            if graph in region.targets:
                return ending(graph, state)
            if graph in region.surrounding:
                hint = "a call whose result is used further needs a stack; one that comes last is a loop"
                raise error_at(call.node, f"graph {graph.name} calls itself here, and not as its last step", hint)
            self.activations += 1
            if self.activations > MOST_ACTIVATIONS:
                raise error_at(call.node, f"functions call functions more than {MOST_ACTIVATIONS:,} times here")
            if self.may_recur(region, graph, state):
                return (yield self.loop(region, graph, state, call))
            result = yield self.entry(region, graph, state)
            if not isinstance(result, TailCall):
                return ending(None, result)
            call = result

    def may_recur(self, region: Region, graph: Graph, state: Aggregate) -> bool:
        """Whether a graph, given these values, may lead to itself, not through the region's targets."""
        given = list(functions_in(state))
        if not given and graph not in self.references.recursive:
            return False
        return self.references.reaches([*self.references.graphs.get(graph, ()), *given], graph, region.targets)

    def check_call(self, function: Closure, call: TailCall) -> None:
        graph = function.graph
        if graph.output is None:
            raise error_at(call.node, f"graph {graph.name} is called and not defined")
        count = len(function.bound) + len(call.arguments)
        if count != len(graph.parameters):
            raise error_at(
                call.node, f"graph {graph.name} takes {len(graph.parameters)} arguments and is given {count}"
            )

    def entry(self, region: Region, graph: Graph, state: Aggregate) -> Task:
        """A graph's nodes with the values of a state: a tail call, or the graph's value."""
        free = self.references.free[graph]
        values = dict(zip((*free, *graph.parameters), state.elements, strict=True))
        return self.body(graph, values, region)

    def function_of(self, graph: Graph, values: Mapping[Node, LoweredValue]) -> Closure:
        """A graph as a value where these are the values of nodes."""
        return closure(graph, tuple(values[node] for node in self.references.free.get(graph, ())))

    # Choices

    def choose(self, region: Region, function: Choice, call: TailCall) -> Task:
        """The outcome of a call of one of several functions."""
        starts = [[option.graph, *functions_in(aggregate((option, *call.arguments)))] for option in function.options]
        reached = [self.references.reachable(graphs, region.targets) for graphs in starts]
        common = set[Graph].union(*(a & b for i, a in enumerate(reached) for b in reached[:i]))
        inner = region.with_targets(common)
        tasks = [self.option_task(inner, option, call) for option in function.options]
        outcome = yield self.conditional(function.selector, tasks)
        return (yield self.settle(region, outcome, call))

    def option_task(self, region: Region, option: Closure, call: TailCall) -> tuple[LoweredValue, Callable[..., Task]]:
        given = aggregate((option, *call.arguments))
        return given, lambda value: self.entered(region, value, call)

    def conditional(self, selector: Any, tasks: list[tuple[LoweredValue, Callable[[LoweredValue], Task]]]) -> Task:
        """A conditional of branches, each given a value; what they end in is joined."""
        branches: list[_Branch] = []
        for given, task in tasks:
            branches.append((yield self.branch("branch", skeleton_of(given), task)))
        skeletons = self.joined_outcomes([branch.outcome for branch in branches])
        for branch in branches:
            self.finish_branch(branch, skeletons)
        operands = [list(leaves(given)) for given, _ in tasks]
        results = self.emitter.conditional(selector, [branch.graph for branch in branches], operands)
        return self.outcome_of(skeletons, results)

    def branch(self, name: str, skeleton: LoweredValue, task: Callable[[LoweredValue], Task]) -> Task:
        """A computation given a value of this skeleton: what a task makes of it, and how that ends."""
        with_parameter = self.emitter.begin(name, leaf_types(skeleton))
        outcome = yield task(with_arrays(skeleton, iter(with_parameter.arrays)))
        self.emitter.leave(with_parameter)
        return _Branch(with_parameter.graph, outcome)

    def joined_outcomes(self, outcomes: list[Outcome]) -> dict[Target, LoweredValue]:
        """The skeleton of the values that reach each target, in the order of graphs, the result last."""
        skeletons: dict[Target, LoweredValue] = {}
        for outcome in outcomes:
            for target, value in outcome.values.items():
                skeleton = skeleton_of(value)
                known = skeletons.get(target)
                skeletons[target] = skeleton if known is None else joined(known, skeleton, _called(target))
        return dict(sorted(skeletons.items(), key=lambda item: self.order.get(item[0], len(self.order))))

    def finish_branch(self, branch: _Branch, skeletons: Mapping[Target, LoweredValue]) -> None:
        """Make a computation return the arrays of all targets, after a tag if there are several."""
        within = self.emitter.enter(branch.graph)
        self.emitter.finish(branch.graph, self.outcome_arrays(branch.outcome, skeletons))
        self.emitter.leave(within)

    def outcome_arrays(self, outcome: Outcome, skeletons: Mapping[Target, LoweredValue]) -> list[Node]:
        arrays: list[Node] = []
        if len(skeletons) > 1:
            arrays.append(self.tag_of(outcome, list(skeletons)))
        for target, skeleton in skeletons.items():
            value = outcome.values.get(target)
            if value is None:
                arrays += self.emitter.zeros(skeleton)
            else:
                arrays += self.emitter.conformed(value, skeleton, _called(target))
        return arrays

    def tag_of(self, outcome: Outcome, targets: list[Target]) -> Node:
        """The index among the targets of the one that an outcome ends in."""
        if outcome.tag is None:
            return self.emitter.index(targets.index(outcome.target))
        numbers = {outcome.tags[target]: targets.index(target) for target in outcome.values}
        return self.emitter.renumbered(outcome.tag, numbers)

    def outcome_of(self, skeletons: Mapping[Target, LoweredValue], arrays: list[Node]) -> Outcome:
        """The outcome whose arrays these are."""
        targets = list(skeletons)
        rest = iter(arrays)
        tag = next(rest) if len(targets) > 1 else None
        values = {target: with_arrays(skeleton, rest) for target, skeleton in skeletons.items()}
        return Outcome(values, {target: index for index, target in enumerate(targets)}, tag)

    def settle(self, region: Region, outcome: Outcome, call: TailCall) -> Task:
        """Continue in those targets of an outcome that are not the region's."""
        while True:
            local = [target for target in outcome.values if target is not None and target not in region.targets]
            if not local:
                return outcome
            if len(outcome.values) == 1:
                return (yield self.jump(region, self.resumed(local[0], outcome, call)))
            outcome = yield self.settle_one(region, outcome, self.first_of(local, region), local, call)

    def first_of(self, targets: list[Graph], region: Region) -> Graph:
        """A target that no other one leads to."""
        for target in targets:
            others = [other for other in targets if other is not target]
            if not self.references.reaches(others, target, region.targets):
                return target
        return targets[0]

    def settle_one(self, region: Region, outcome: Outcome, target: Graph, local: list[Graph], call: TailCall) -> Task:
        """Continue in one of several targets; the others stay."""
        assert outcome.tag is not None, "several targets have a tag"
        inner = region.with_targets(other for other in local if other is not target)
        others: dict[Target, LoweredValue] = {t: value for t, value in outcome.values.items() if t is not target}
        is_target = self.emitter.equals(outcome.tag, outcome.tags[target])
        rest = aggregate((outcome.tag, *others.values()))
        resumed = self.resumed(target, outcome, call)
        given = aggregate((resumed.function, *resumed.arguments))

        def stay(value: LoweredValue) -> Task:
            assert isinstance(value, Aggregate), "it is given a tuple"
            tag, *values = value.elements
            kept = dict(zip(others, values, strict=True))
            return (yield from _done(Outcome(kept, outcome.tags, tag if isinstance(tag, Node) else None)))

        return (
            yield self.conditional(is_target, [(given, lambda value: self.entered(inner, value, call)), (rest, stay)])
        )

    def resumed(self, target: Graph, outcome: Outcome, call: TailCall) -> TailCall:
        """The call that a jump to a target is."""
        value = outcome.values[target]
        assert isinstance(value, Aggregate), "what goes to a graph is a tuple"
        count = len(self.references.free[target])
        return TailCall(closure(target, value.elements[:count]), value.elements[count:], call.node)

    # Loops

    def loop(self, region: Region, header: Graph, state: Aggregate, call: TailCall) -> Task:
        """The outcome of entering a graph that is jumped to again: a while, if it is, and what follows it."""
        skeleton = with_dynamic_numbers(skeleton_of(state))
        inner = region.of_loop(header, self.exits(region, header, state))
        for _ in range(MOST_JOINS):
            attempt = yield self.guarded_loop(region, inner, header, state, skeleton, call)
            if attempt is None:
                attempt = yield self.tagged_loop(inner, header, state, skeleton, call)
            if isinstance(attempt, Outcome):
                return (yield self.settle(region, attempt, call))
            if isinstance(attempt, TailCall):
                return (yield self.jump(region, attempt))
            skeleton = attempt
        raise error_at(call.node, f"the values that the loop {header.name} carries do not settle")

    def exits(self, region: Region, header: Graph, state: Aggregate) -> set[Graph]:
        """The graphs that a loop leads to and that do not lead back to it."""
        inside = self.references.reachable([header, *functions_in(state)], region.targets)
        back: dict[Graph, list[Graph]] = {graph: [] for graph in inside}
        for graph in inside:
            for called in self.references.graphs.get(graph, ()):
                if called in back:
                    back[called].append(graph)
        return inside - reachable([header], back.__getitem__).keys() - set(functions_in(state))

    def guarded_loop(
        self, region: Region, inner: Region, header: Graph, state: Aggregate, skeleton: LoweredValue, call: TailCall
    ) -> Task:
        """A loop whose header chooses between a body that ends in a jump to the header and what follows the loop.

        The call that follows the loop; the joined skeleton where the body's jump does not fit; None where the loop is
        not of this form.
        """
        within, carried = self.begin("body", skeleton)
        end = yield self.entry(inner, header, carried)
        side = self.body_side(region, header, end)
        if side is None:
            self.emitter.leave(within)
            return None
        outcome = yield self.jump(inner, TailCall(end.function.options[side], end.arguments, end.node))
        if list(outcome.values) != [header]:
            self.emitter.leave(within)
            return None
        carries = joined(skeleton, skeleton_of(outcome.values[header]), _called(header))
        if carries != skeleton:
            self.emitter.leave(within)
            return carries
        self.emitter.finish(within.graph, self.emitter.conformed(outcome.values[header], skeleton, _called(header)))
        self.emitter.leave(within)
        condition = yield self.condition(inner, header, skeleton, side)
        initial = self.emitter.conformed(state, skeleton, _called(header))
        final = with_arrays(skeleton, iter(self.emitter.loop(condition, within.graph, initial)))
        assert isinstance(final, Aggregate), "a loop carries a tuple"
        end = yield self.entry(region, header, final)
        return TailCall(end.function.options[1 - side], end.arguments, end.node)

    def begin(self, name: str, skeleton: LoweredValue) -> tuple[Within, Aggregate]:
        """Begin a computation of a loop; with it the values that the loop carries."""
        within = self.emitter.begin(name, leaf_types(skeleton))
        carried = with_arrays(skeleton, iter(within.arrays))
        assert isinstance(carried, Aggregate), "a loop carries a tuple"
        return within, carried

    def body_side(self, region: Region, header: Graph, end: object) -> int | None:
        """Which of the two functions that a header chooses from leads back to it, where one alone does."""
        if not isinstance(end, TailCall) or not isinstance(end.function, Choice):
            return None
        function = end.function
        if len(function.options) != 2 or type_of_node_or_type(function.selector) is not PREDICATE:
            return None
        leads = [
            self.references.reaches(
                [option.graph, *functions_in(aggregate((option, *end.arguments)))], header, region.targets
            )
            for option in function.options
        ]
        return leads.index(True) if leads.count(True) == 1 else None

    def condition(self, inner: Region, header: Graph, skeleton: LoweredValue, side: int) -> Task:
        """The computation that says whether a guarded loop goes on."""
        within, carried = self.begin("condition", skeleton)
        end = yield self.entry(inner, header, carried)
        selector = end.function.selector
        self.emitter.finish_with(within.graph, selector if side == 0 else self.emitter.negated(selector))
        self.emitter.leave(within)
        return within.graph

    def tagged_loop(
        self, inner: Region, header: Graph, state: Aggregate, skeleton: LoweredValue, call: TailCall
    ) -> Task:
        """A loop of any form: it goes on while the tag says that the body ended in a jump to the header.

        What follows the loop as an outcome, or the joined skeleton where the body's jump does not fit.
        """
        within, carried = self.begin("body", skeleton)
        outcome: Outcome = yield self.region_outcome(inner, header, carried)
        if header not in outcome.values:
            return (yield self.called_once(within, outcome, state, skeleton))
        carries = joined(skeleton, skeleton_of(outcome.values[header]), _called(header))
        if carries != skeleton:
            self.emitter.leave(within)
            return carries
        if len(outcome.values) == 1:
            raise error_at(call.node, f"the loop {header.name} never ends")
        skeletons = self.joined_outcomes([outcome])
        skeletons[header] = skeleton
        return (yield from _done(self.tagged_while(within, header, outcome, skeletons, state)))

    def tagged_while(
        self, within: Within, header: Graph, outcome: Outcome, skeletons: dict[Target, LoweredValue], state: Aggregate
    ) -> Outcome:
        """A while over the tag and the arrays of all targets; what the targets but the header get."""
        targets = list(skeletons)
        arrays = self.outcome_arrays(outcome, skeletons)
        body = self.emitter.widened(within, arrays, self.span(skeletons, header))
        initial = self.outcome_arrays(ending(header, state), skeletons)
        condition = self.emitter.tag_condition([type_of_node(array) for array in arrays], targets.index(header))
        result = self.outcome_of(skeletons, self.emitter.loop(condition, body, initial))
        values = {target: value for target, value in result.values.items() if target is not header}
        return Outcome(values, result.tags, result.tag if len(values) > 1 else None)

    def span(self, skeletons: Mapping[Target, LoweredValue], header: Graph) -> int:
        """Where the header's arrays begin among those of all targets."""
        position = 1
        for target, skeleton in skeletons.items():
            if target is header:
                return position
            position += len(leaf_types(skeleton))
        raise AssertionError("the header is among the targets")

    def region_outcome(self, inner: Region, header: Graph, carried: Aggregate) -> Task:
        """The outcome of a header's nodes and what follows them."""
        end = yield self.entry(inner, header, carried)
        if isinstance(end, TailCall):
            return (yield self.jump(inner, end))
        return ending(None, end)

    def called_once(self, within: Within, outcome: Outcome, state: Aggregate, skeleton: LoweredValue) -> Task:
        """Call a computation that turned out not to be a loop."""
        skeletons = self.joined_outcomes([outcome])
        self.emitter.finish(within.graph, self.outcome_arrays(outcome, skeletons))
        self.emitter.leave(within)
        arrays = self.emitter.conformed(state, skeleton, "an argument")
        result = self.emitter.call(within.graph, arrays, aggregate(list(_with_tag(skeletons))))
        return (yield from _done(self.outcome_of(skeletons, list(leaves(result)))))


def type_of_node_or_type(value: object) -> object:
    return value.type if isinstance(value, Node) else value


def _with_tag(skeletons: Mapping[Target, LoweredValue]) -> Iterable[LoweredValue]:
    if len(skeletons) > 1:
        yield INDEX_TYPE
    yield from skeletons.values()


def _done(result: Any) -> Task:
    """A task that has its result."""
    return result
    yield


def _called(target: Target) -> str:
    return "a result" if target is None else f"what {target.name} is given"
