"""The rewrite driver: applies rules until none fires, erases dead nodes, and keeps statistics.

A worklist holds the nodes at which rules may match, as in MLIR's greedy pattern rewrite driver
(mlir/lib/Transforms/Utils/GreedyPatternRewriteDriver.cpp). After a rewrite, the new nodes and the transitive users of
the replaced ones are added, as many levels up as the deepest rule looks down.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any

from hloom.ir import (
    Apply,
    Attributes,
    Graph,
    Inference,
    Missing,
    Module,
    Node,
    Op,
    Parameter,
    TupleType,
    TypeProblem,
    compatible,
    paused_collection,
    same_shape,
)
from hloom.ops import CONTROL_PREDECESSORS, SIMPLE_IN_FUSIONS, effect_of, fixed_form, is_fused, may_drop
from hloom.rewrite.builder import Builder
from hloom.rewrite.cycle_detection import CycleDetector
from hloom.rewrite.expression_compiler import NativeFailure
from hloom.rewrite.index import Candidate, PassedOver, RuleIndex
from hloom.rewrite.registry import RuleError
from hloom.rewrite.report import Report, RuleReport, Step
from hloom.rewrite.rule import Rule
from hloom.rewrite.rule_compiler import attempt_at, replacement_of
from hloom.text import HloomError

Replacement = Mapping[Node, Node]
"""The replacement for each node that a rule replaces."""

MAX_INDIRECT_USERS = 64
"""The maximum number of indirect users of a changed node to revisit."""
_MAX_REWRITES_PER_NODE = 64
"""The maximum number of rewrites per node of the original module; stops rules that grow the module without a cycle."""
_NO_MATCH = "it does not match"
_TIMED: ContextVar[bool] = ContextVar("whether rules are timed", default=False)
_MIN_MAX_REWRITES = 100_000
"""The maximum number of rewrites is at least this, so that small modules may grow by unrolling and folding."""


def rewrite(
    module: Module,
    rules: Iterable[Rule] | RuleIndex,
    *,
    name: str = "rules",
    graphs: Sequence[Graph] | None = None,
    touched: Collection[Node] | None = None,
    watch: Callable[[Step], None] | None = None,
) -> Report:
    """Apply rules all over a module, in place, until none fires; returns a report.

    `graphs` limits it to some graphs. `touched` are the nodes made, changed or left with a single user since the last
    time no rule fired: rules are then only tried at these and at nodes that may look at them. `watch` is called before
    each step. Raises RuleError, naming the rules, if rules undo each other, never terminate, or fail.
    """
    index = rules if isinstance(rules, RuleIndex) else RuleIndex(rules)
    driver = _Driver(module, index, Report(name), watch)
    driver.run(module.graphs if graphs is None else graphs, touched)
    return driver.report


@contextmanager
def timed_rules() -> Generator[None]:
    """Make reports include seconds per rule within this block; reading the clock slows attempts down."""
    token = _TIMED.set(True)
    try:
        yield
    finally:
        _TIMED.reset(token)


def apply_at(module: Module, rule: Rule | RuleIndex, node: Node) -> bool:
    """Apply one rule, or the first of an index that fires, at one node, in place; returns whether one fired."""
    index = RuleIndex([rule]) if isinstance(rule, Rule) else rule
    driver = _Driver(module, index, Report(), None)
    return isinstance(node, Apply) and driver.attempt_any(driver.index.at(node), node)


def explain(rules: Iterable[Rule], node: Node) -> list[tuple[Rule, str]]:
    """Why each rule does not fire at a node; an empty string if it does. The module is not changed."""
    reasons_by_rule: list[tuple[Rule, str]] = []
    for rule in rules:
        if node.opcode not in rule.roots:
            reasons_by_rule.append((rule, f"its root is {' or '.join(rule.roots)}, not {node.opcode}"))
            continue
        assert isinstance(node, Apply)
        reasons = [_reason_at(candidate, node) for candidate in RuleIndex([rule]).all_at(node)]
        reasons_by_rule.append((rule, "" if "" in reasons else "; or ".join(dict.fromkeys(reasons))))
    return reasons_by_rule


def replay(module: Module, rules: Iterable[Rule], steps: Iterable[Step]) -> Iterator[Step]:
    """Repeat steps in place on the module they were recorded on; yields each step after taking it.

    Raises RuleError if a step's rule is unknown, or does not fire where it fired before.
    """
    by_name = {rule.name: rule for rule in rules}
    for step in steps:
        rule = by_name.get(step.rule)
        if rule is None:
            raise RuleError(f"cannot take the step '{step}': its rule is not among those given")
        node = module[step.graph][step.node]
        if not apply_at(module, rule, node):
            raise RuleError(
                f"cannot take the step '{step}': the rule does not fire there", hint="give the module as it was"
            )
        yield step


def _reason_at(candidate: Candidate, node: Apply) -> str:
    build = Builder(node, candidate.rule.rows, explains=True)
    try:
        replacement = attempt_at(candidate.attempt, build, node)
        if replacement is None:
            reason = build.reason or _NO_MATCH
            return f"{reason}: {build.culprit!r}" if build.culprit is not None else reason
        return _obstacle(candidate.rule, node, replacement, build, {})
    except TypeProblem as problem:
        return problem.message
    finally:
        build.discard()


class _Driver:
    """One run: the worklist and the statistics."""

    def __init__(self, module: Module, index: RuleIndex, report: Report, watch: Callable[[Step], None] | None) -> None:
        self.module = module
        self.index = index
        self.report = report
        self.watch = watch
        self.accounts = {rule: RuleReport(rule) for rule in index.rules}
        report.rules = list(self.accounts.values())
        self.pending: list[Node] = []
        self.waiting: set[Node] = set()
        self.erased: set[Node] = set()
        self.consumed: set[Node] = set()
        self.unsound: set[Node] = set()
        self.passed_over: dict[PassedOver, int] = {}
        self.unchanged: Builder | None = None
        self.checked: set[Node] | None = None
        """Nodes that need no `check` any more, if checking happens at the first visit; None if all were checked."""
        self.fixed: dict[Graph, str] = {}
        self.inference = Inference()
        self.cycles = CycleDetector(module.node_count)
        self.most = _MAX_REWRITES_PER_NODE * module.node_count + _MIN_MAX_REWRITES
        self.sound: dict[tuple[Any, ...], Attributes] = {}
        """Combinations of op, types and attributes that passed `check`; holding the attributes keeps their ids valid.
        """
        self.attempt_any = self.attempt_timed if _TIMED.get() else self.attempt_first
        module.index_users()

    def run(self, graphs: Sequence[Graph], touched: Collection[Node] | None = None) -> None:
        started = perf_counter()
        try:
            with paused_collection():
                if touched is None:
                    self.fill_worklist(graphs)
                else:
                    self.fill_worklist_around(graphs, touched)
                self.empty_worklist()
        finally:
            self.count_mismatches()
        self.report.seconds = perf_counter() - started

    def fill_worklist(self, graphs: Sequence[Graph]) -> None:
        roots = self.index.roots
        nodes = [node for graph in reversed(graphs) for node in reversed(graph.nodes) if node.opcode in roots]
        for node in nodes:
            self.check(node)
        self.waiting.update(nodes)
        self.pending += nodes

    def fill_worklist_around(self, graphs: Sequence[Graph], touched: Collection[Node]) -> None:
        """Add touched nodes, their transitive users, and callers of their graphs, in the order of `fill_worklist`."""
        around = set(touched)
        for node in touched:
            around.update(self.users_within_depth(node))
        callers, pending = set[Graph](), list({node.graph for node in touched})
        while pending:
            for caller in pending.pop().callers:
                around.add(caller)
                if caller.graph not in callers:
                    callers.add(caller.graph)
                    pending.append(caller.graph)
        self.checked = set()
        for graph in reversed(graphs):
            for node in reversed(graph.nodes):
                if node in around:
                    self.push(node)

    def empty_worklist(self) -> None:
        pending, waiting, erased, visit = self.pending, self.waiting, self.erased, self.visit
        while pending:
            node = pending.pop()
            waiting.discard(node)
            if node not in erased:
                visit(node)

    def count_mismatches(self) -> None:
        """Count the rules ruled out without an attempt; attempts that ended without a reason are the remainder."""
        for missed, count in self.passed_over.items():
            for rule, reason in missed.reasons:
                self.accounts[rule].tried += count
                self.accounts[rule].rejected[reason] += count
        for account in self.accounts.values():
            if account.tried > account.matched:
                unexplained = account.tried - account.matched - sum(account.rejected.values())
                if unexplained:
                    account.rejected[_NO_MATCH] += unexplained

    def check(self, node: Node) -> None:
        """Record a node with inconsistent operands and attributes: rules assume consistency and skip it."""
        types = [operand.type for operand in node.operands]
        key = (node.__class__, getattr(node, "function", None), id(node.attributes), node.type, *types)
        if key in self.sound:
            return
        problem = _malformed(node)
        if not problem:
            try:
                if compatible(self.inference.type_of(node), node.type):
                    self.sound[key] = node.attributes
                    return
                problem = "its type is not the one that follows from its operands"
            except TypeProblem as mismatch:
                problem = mismatch.message
        self.unsound.add(node)
        self.report.notes.append(f"{node.name} of graph {node.graph.name} was passed by: {problem}")

    def visit(self, node: Node) -> None:
        candidates = self.index.at(node, self.passed_over)
        if not candidates or (not node.is_used and may_drop(node)):
            return
        if self.checked is not None and node not in self.checked:
            self.checked.add(node)
            self.check(node)
        if node in self.unsound:
            return
        assert isinstance(node, Apply)
        self.attempt_any(candidates, node)

    def attempt_first(self, candidates: Iterable[Candidate], node: Apply) -> bool:
        """Try rules at a node in order until one fires; returns whether one did."""
        build, accounts = self.builder_at(node), self.accounts
        for candidate in candidates:
            account = accounts[candidate.rule]
            account.tried += 1
            if self.attempt(candidate, node, build, account):
                account.matched += 1
                self.unchanged = None
                return True
        return False

    def builder_at(self, node: Apply) -> Builder:
        """A builder at a node: the last one if nothing was made with it, for most attempts make nothing."""
        build = self.unchanged
        if build is None:
            self.unchanged = build = Builder(node)
            return build
        build.root = build.insertion_point = node
        build.carries_itself = False
        return build

    def attempt_timed(self, candidates: Iterable[Candidate], node: Apply) -> bool:
        """The same, with timing."""
        build, accounts = self.builder_at(node), self.accounts
        for candidate in candidates:
            account = accounts[candidate.rule]
            account.tried += 1
            started = perf_counter()
            fired = self.attempt(candidate, node, build, account)
            account.seconds += perf_counter() - started
            if fired:
                account.matched += 1
                self.unchanged = None
                return True
        return False

    def attempt(self, candidate: Candidate, node: Apply, build: Builder, account: RuleReport) -> bool:
        """Try a rule at a node and apply the result; returns whether it fired. If not, the builder is unchanged."""
        build.rows = candidate.rule.rows
        try:
            result = candidate.attempt(build, node)
            if result is None:
                if not build.is_changed:
                    return False
                replacement, obstacle = None, build.reason or _NO_MATCH
            else:
                replacement = replacement_of(result, node)
                obstacle = _obstacle(candidate.rule, node, replacement, build, self.fixed)
        except TypeProblem as problem:
            replacement, obstacle = None, problem.message
        except HloomError as error:
            build.discard()
            raise RuleError(f"rule {candidate.rule} failed at {node!r}: {error.message}", hint=error.hint) from error
        except Exception as error:
            build.discard()
            if _is_incomplete(node, candidate.rule.depth) and not isinstance(error, NativeFailure):
                account.rejected["an operand is not defined, or its type is not known"] += 1
                return False
            words = str(error) if isinstance(error, NativeFailure) else f"{type(error).__name__}: {error}"
            raise RuleError(f"rule {candidate.rule} failed at {node!r}: {words}") from error
        if obstacle or replacement is None:
            if build.is_changed:
                build.discard()
            account.rejected[obstacle] += 1
            return False
        self.carry_out(candidate.rule, node, replacement, build)
        return True

    def carry_out(self, rule: Rule, root: Apply, replacement: Replacement, build: Builder) -> None:
        step = Step(rule.name, root.graph.name, root.name)
        try:
            self.cycles.enter(rule, root, build.made)
        except RuleError:
            build.discard()
            raise
        if len(self.report.steps) >= self.most:
            build.discard()
            raise RuleError(f"no end of rewriting: {self.most:,} rewrites, the last by {rule} at {root!r}")
        if self.watch:
            self.watch(step)
        self.report.steps.append(step)
        for node in build.moves:
            node.graph.move_before(node, build.made[0] if build.made else build.insertion_point)
        for old, fresh in replacement.items():
            self.push_users(old)
            if fresh in build.made:
                _carry_attributes(old, fresh, build)
            old.graph.replace_uses(old, fresh)
        self.consumed.update(build.consumed)
        if rule.effects:  # the rule has declared that the replacement has the same effects
            self.consumed.update(replacement)
        self.erase_dead(list(replacement))
        self.erase_dead([node for node in reversed(build.made) if not node.is_used])
        self.consumed.clear()
        if self.checked is not None:
            self.checked.update(build.made)
        for node in build.made:
            if node not in self.erased:
                self.push(node)
        for fresh in replacement.values():
            self.push(fresh)

    def push(self, node: Node) -> None:
        if node not in self.waiting and node.opcode in self.index.roots:
            self.waiting.add(node)
            self.pending.append(node)

    def push_users(self, node: Node) -> None:
        """Push the users of a node, and theirs, as many levels up as rules look down."""
        roots, waiting, pending = self.index.roots, self.waiting, self.pending
        level: Sequence[Node] = node.users
        for below in range(self.index.depth, 0, -1):
            for user in level:
                if user.opcode in roots and user not in waiting:
                    waiting.add(user)
                    pending.append(user)
            if below == 1 or not level:
                return
            level = _few_users(level)

    def users_within_depth(self, node: Node) -> Iterator[Node]:
        """The users of a node, and theirs, as many levels up as the deepest rule looks down."""
        level: Sequence[Node] = node.users
        for below in range(self.index.depth, 0, -1):
            yield from level
            level = _few_users(level) if below > 1 else ()

    def push_callers(self, graph: Graph) -> None:
        """Push the callers of a graph."""
        for caller in graph.callers:
            self.push(caller)

    def erase_dead(self, pending: list[Node]) -> None:
        """Erase unused nodes, and nodes only they used; push nodes left with one user, which may match now."""
        while pending:
            node = pending.pop()
            if node in self.erased:
                continue
            if node.is_used or isinstance(node, Parameter):
                if node.user_count == 1:
                    self.push_users(node)
                if isinstance(node.type, TupleType):  # one of its elements may be unused now
                    self.push(node)
                if isinstance(node, Parameter):  # its callers' operand may be unused now
                    self.push_callers(node.graph)
                continue
            if not (node in self.consumed or may_drop(node)):
                continue
            inputs = node.operands
            called = node.called_graphs
            node.graph.erase(node)
            self.cycles.forget(node)
            self.erased.add(node)
            self.report.erased += 1
            pending.extend(inputs)
            if called:
                self.erase_uncalled(list(called))

    def erase_uncalled(self, graphs: list[Graph]) -> None:
        """Erase graphs without callers, and graphs that only they called."""
        pending = [] if self.module.has_closures else graphs
        while pending:
            graph = pending.pop()
            if graph.is_declared or graph.callers or self.module.is_entry(graph) or graph.name not in self.module:
                continue
            for node in graph.nodes:
                pending.extend(node.called_graphs)
                self.cycles.forget(node)
                self.erased.add(node)
            self.report.erased += len(graph.nodes)
            self.module.erase_graph(graph)


def _malformed(node: Node) -> str:
    """What is wrong with a node's number of operands, or which attribute it lacks; empty if it is well-formed."""
    if not isinstance(node, Apply) or not isinstance(node.function, Op):
        return ""
    op = node.function
    if not op.accepts(len(node.operands)):
        return f"{op} does not take {len(node.operands)} operands"
    lacking = op.lacking(node.attributes)
    return "" if lacking is None else f"{op} needs the attribute '{lacking}'"


def _is_incomplete(node: Node, depth: int) -> bool:
    """Whether an operand, up to this many levels down, is undefined or of unknown type, so its consistency was not
    checked.
    """
    level = [node]
    for _ in range(depth):
        level = [operand for user in level for operand in user.operands][:MAX_INDIRECT_USERS]
        if any(isinstance(operand, Missing) or operand.type is None for operand in level):
            return True
    return False


def _few_users(nodes: Iterable[Node]) -> Sequence[Node]:
    users: list[Node] = []
    for node in nodes:
        users += node.users
        if len(users) > MAX_INDIRECT_USERS:
            return users[:MAX_INDIRECT_USERS]
    return users


def _obstacle(rule: Rule, root: Apply, replacement: Replacement, build: Builder, fixed: dict[Graph, str]) -> str:
    """Why a replacement must not be applied; empty if it may. `fixed` caches the result of `fixed_form`."""
    if rule.native and not rule.effects and effect_of(root) is not None:
        return "the root has an effect besides its value"
    for old in (*replacement, *build.consumed):
        if old.attributes.get(CONTROL_PREDECESSORS):
            return f"{'the root' if old is root else old.name} has control predecessors"
        if _is_awaited(old):
            return f"{'the root' if old is root else old.name} has control successors"
    obstacle = _fusion_obstacle(root.graph, build.made, fixed)
    if obstacle:
        return obstacle
    made = set(build.made)
    for old, fresh in replacement.items():
        if old is fresh:
            return "the replacement is what it replaces"
        if old.is_output and isinstance(fresh, Missing):
            return "the graph's output would be a value that nothing defines"
        if not same_shape(old.type, fresh.type) and old.is_used:
            return "the replacement has another type than what it replaces"
        if build.made and not made.isdisjoint(old.users):
            return "the replacement uses what it replaces"
    if rule.cost is not None and not is_profitable(rule.cost, replacement, build.made):
        return "the module would not get cheaper"
    return ""


def _fusion_obstacle(graph: Graph, made: Sequence[Node], fixed: dict[Graph, str]) -> str:
    """Why the fusion that calls a computation forbids replacements in it, or this one."""
    if not is_fused(graph):
        return ""
    if graph not in fixed:
        fixed[graph] = fixed_form(graph)
    foreign = next((node.opcode for node in made if node.opcode not in SIMPLE_IN_FUSIONS), "")
    return fixed[graph] or (f"a rule puts no {foreign} into a kLoop fusion" if foreign else "")


def _is_awaited(node: Node) -> bool:
    """Whether others depend on a node by control dependencies, and so on everything that it is replaced by."""
    return any(
        user.attributes.refers and node in (user.attributes.get(CONTROL_PREDECESSORS) or ()) for user in node.users
    )


def _carry_attributes(old: Node, fresh: Node, build: Builder) -> None:
    """Copy the layout and the carried attributes of a replaced node to its replacement, unless that has its own."""
    if not same_shape(old.type, fresh.type):
        return
    if fresh.type is not old.type and old.type is not None:
        fresh.graph.set_type(fresh, old.type)
    if not old.attributes or not isinstance(old, Apply) or not old.has_row or build.carries_itself:
        return
    rows = old.op.attributes
    carried = {
        name: value
        for name, value in old.attributes.items()
        if name in rows and rows[name].carried and name not in fresh.attributes
    }
    if carried:
        fresh.graph.set_attributes(fresh, fresh.attributes.changed(carried))


def is_profitable(cost: Callable[[Node], float], replacement: Mapping[Node, Node], made: Sequence[Node]) -> bool:
    """Whether the nodes that a replacement needs cost less than those that die because of it."""
    needed = _needed(replacement, set(made))
    return sum(map(cost, needed)) < sum(map(cost, _freed(replacement, needed, set(made))))


def _needed(replacement: Mapping[Node, Node], made: set[Node]) -> set[Node]:
    """The made nodes that the replacement depends on."""
    needed: set[Node] = set()
    pending = [node for node in replacement.values() if node in made]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending.extend(operand for operand in node.operands if operand in made)
    return needed


def _freed(replacement: Mapping[Node, Node], needed: set[Node], made: set[Node]) -> set[Node]:
    """The nodes that die: the replaced ones, and those used only by dead nodes."""
    kept = set(replacement.values())
    dead = {node for node in replacement if node not in kept}
    pending = list(dead)
    while pending:
        for below in pending.pop().operands:
            if below in dead or below in kept or below.is_output or below.opcode == "parameter":
                continue
            if all(user in dead or (user in made and user not in needed) for user in below.users):
                dead.add(below)
                pending.append(below)
    return dead
