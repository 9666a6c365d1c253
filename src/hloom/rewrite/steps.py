"""A pattern as steps: each looks at one thing of a match and says what is wrong with it, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from hloom.ir import Apply, Constant, Graph, Literal, Node, Op, TensorType
from hloom.ops import OPS
from hloom.ops.behaviour import effect_of
from hloom.rewrite.attributes import attribute_check
from hloom.rewrite.expressions import NO_VALUE, compiled, number
from hloom.rewrite.looking import is_splat, splat_of
from hloom.rewrite.pattern import Computes, Condition, OperationTerm, Pattern, Reference, Same, ValueTerm
from hloom.rewrite.rule import RuleError

if TYPE_CHECKING:
    from hloom.rewrite.match import Match

MOST_WAYS = 256
"""In how many ways commutative and optional operations of one pattern may be combined."""

Check = Callable[["Match"], str]
"""What looks at a match: the reason why it is none, or an empty text."""


@dataclass(frozen=True, slots=True)
class Step:
    """A check; or, where `choices` is given, candidates for a term, to be tried one after the other."""

    take: Check
    choices: Callable[[Match], Iterator[Node]] | None = None
    term: int = -1
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to match a pattern: the order of operands and the missing parts of each operation settled."""

    anchor: int
    operands: Mapping[int, tuple[Reference, ...]]
    missing: frozenset[int]
    probes: dict = field(default_factory=dict)


def ways_of(pattern: Pattern) -> list[Way]:
    """All ways to match a pattern; raises RuleError where there are too many."""
    options: list[list[tuple[int, tuple[Reference, ...] | None]]] = []
    for place, term in enumerate(pattern.terms):
        if isinstance(term, OperationTerm):
            options.append([(place, operands) for operands in _orders(pattern, term)])
    count = 1
    for each in options:
        count *= len(each)
    if count > MOST_WAYS:
        hint = "make fewer operations commutative or optional"
        raise RuleError(f"the pattern can match in {count} ways, more than {MOST_WAYS}", hint=hint)
    found = []
    for combination in product(*options):
        operands = {place: order for place, order in combination if order is not None}
        missing = frozenset(place for place, order in combination if order is None)
        way = Way(pattern.roots[0], operands, missing)
        way.probes.update(_probes(pattern, way))
        found.append(way)
    return found


def _orders(pattern: Pattern, term: OperationTerm) -> Iterator[tuple[Reference, ...] | None]:
    """The operands in each order that may match; None stands for an optional operation that is missing."""
    whole = term.operands
    yield whole
    last = pattern.terms[whole[-1].term] if whole else None
    if isinstance(last, ValueTerm) and last.optional:
        yield whole[:-1]
    if term.commutative and len(whole) == 2 and not _alike(pattern, whole):
        yield whole[::-1]
    if term.optional:
        yield None


def _alike(pattern: Pattern, operands: tuple[Reference, ...]) -> bool:
    """Whether two operands may change places unseen: they are the same, or unconstrained and used here alone."""
    if operands[0] == operands[1]:
        return True
    for each in operands:
        term = pattern.terms[each.term]
        uses = sum(other.operands.count(each) for other in pattern.terms if isinstance(other, OperationTerm))
        named = any(
            leaf.operator in ("node", "feature") and leaf.arguments[0] == each.term
            for condition in pattern.conditions
            for leaf in condition.test.walk()
        )
        given = each.term in pattern.inner  # a parameter of a called graph: which one it is, is known already
        if not isinstance(term, ValueTerm) or not term.is_plain or uses > 1 or named or given:
            return False
    return True


def _probes(pattern: Pattern, way: Way) -> dict:
    """What must be so of the anchor and of its operands, two levels down."""
    found: dict = {}
    anchor = pattern.terms[way.anchor]
    assert isinstance(anchor, OperationTerm)
    for name, term in anchor.attributes:
        if isinstance(term, Same) and _is_plain(term.value):
            found["attribute", (), name] = (term.value,)
    level = [((), way.anchor)]
    for _ in range(2):
        level = [below for path, term in level for below in _probe_operands(pattern, way, path, term, found)]
    return found


def _probe_operands(pattern: Pattern, way: Way, path: tuple[int, ...], term: int, found: dict) -> Iterator[tuple]:
    for place, reference in enumerate(way.operands.get(term, ())):
        here = (*path, place)
        below, through = _settled(pattern, way, reference)
        operand = pattern.terms[below.term]
        if isinstance(operand, OperationTerm):
            found["opcode", here, ""] = ("get-tuple-element",) if below.result >= 0 else operand.opcodes
            if below.result < 0 and not through:
                yield here, below.term
        elif operand.variadic:
            return
        elif operand.is_splat and isinstance(operand.number, (bool, int, float)):
            found["splat", here, ""] = (operand.number,)
        elif operand.dtypes:
            found["element", here, ""] = operand.dtypes
        elif operand.rank is not None:
            found["rank", here, ""] = (operand.rank,)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, str, tuple)) and getattr(value, "__hash__", None) is not None


def _settled(pattern: Pattern, way: Way, reference: Reference) -> tuple[Reference, bool]:
    """What a reference means where missing operations are left out, and whether any was."""
    through = False
    while reference.term in way.missing:
        term = pattern.terms[reference.term]
        assert isinstance(term, OperationTerm)
        reference, through = term.operands[0], True
    return reference, through


def steps_of(pattern: Pattern, way: Way, rows: Mapping[str, Op]) -> list[Step]:
    """The steps of one way: down from the anchor, then from what is known to the other roots, then the conditions."""
    return _Steps(pattern, way, rows).all()


class _Steps:
    """The steps so far, and the terms that they bind."""

    def __init__(self, pattern: Pattern, way: Way, rows: Mapping[str, Op]) -> None:
        self.pattern = pattern
        self.way = way
        self.rows = rows
        self.steps: list[Step] = []
        self.bound: set[int] = {way.anchor}

    def all(self) -> list[Step]:
        self.down(self.way.anchor)
        for term in self.unreached():
            self.across(term)
        for place in sorted(self.way.missing):
            self.stand_in(place)
        self.add(_only_used_inside(self.pattern, self.way))
        for condition in self.pattern.conditions:
            self.add(_condition(condition))
        return self.steps

    def add(self, check: Check) -> None:
        self.steps.append(Step(check))

    def unreached(self) -> Iterator[int]:
        """The other operations, one after the other, each sharing an operand with what is bound by then."""
        inner = self.pattern.inner
        while True:
            left = [
                place
                for place, _ in self.pattern.operations()
                if place not in self.bound and place not in self.way.missing and place not in inner
            ]
            if not left:
                return
            near = [place for place in reversed(left) if self.shared_operand(place) is not None]
            if not near:
                raise RuleError(f"nothing connects '{self.pattern.name_of(left[0])}' with the rest of the pattern")
            yield near[0]

    def shared_operand(self, place: int) -> tuple[int, Reference] | None:
        for position, reference in enumerate(self.way.operands[place]):
            settled, _ = _settled(self.pattern, self.way, reference)
            if settled.term in self.bound:
                return position, settled
        return None

    def across(self, place: int) -> None:
        """From a bound operand to an operation that uses it."""
        found = self.shared_operand(place)
        assert found is not None
        position, reference = found
        term = self.pattern.terms[place]
        assert isinstance(term, OperationTerm)
        missing = f"no {'/'.join(term.opcodes)} uses {self.pattern.name_of(reference.term)} too"
        self.steps.append(Step(lambda match: "", _users_like(term, reference, position), place, missing))
        self.bound.add(place)
        self.down(place)

    def down(self, place: int) -> None:
        """An operation's arity and attributes, and then its operands."""
        pending = [place]
        while pending:
            current = pending.pop()
            term = self.pattern.terms[current]
            assert isinstance(term, OperationTerm)
            operands = self.way.operands[current]
            variadic = any(self.is_variadic(each) for each in operands)
            self.add(_arity(current, len(operands) - variadic, variadic, self.name(current)))
            if not (term.effects or self.is_pure(term)):
                self.add(_no_effect(current, self.name(current)))
            self.add(attribute_check(current, term, self.name(current)))
            for name, attribute in term.attributes:
                if isinstance(attribute, Computes):
                    self.computes(current, name, attribute)
            for position, reference in enumerate(operands):
                below = self.operand(current, position, reference)
                if below is not None:
                    pending.append(below)

    def operand(self, user: int, position: int, reference: Reference) -> int | None:
        """The steps for one operand; the operation below that is still to be looked at."""
        if self.is_variadic(reference):
            self.add(_rest(user, position, reference.term, self.name(reference.term)))
            self.bound.add(reference.term)
            return None
        settled, _ = _settled(self.pattern, self.way, reference)
        term, name = self.pattern.terms[settled.term], self.name(settled.term)
        fetch = _operand_of(user, position)
        if settled.term in self.bound:
            self.add(_same(fetch, settled, name))
            return None
        self.bound.add(settled.term)
        if isinstance(term, ValueTerm):
            self.add(_value(fetch, settled.term, term, name))
            return None
        self.add(_operation(fetch, settled, term, name))
        return settled.term

    def computes(self, user: int, name: str, attribute: Computes) -> None:
        """A graph that an operation calls: its parameters by number, and its output by the same steps."""
        self.add(_called(user, name, attribute, self.name(user)))
        self.bound.update(attribute.parameters)
        output, _ = _settled(self.pattern, self.way, attribute.output)
        term = self.pattern.terms[output.term]
        fetch = _output_of(user, name)
        if output.term in self.bound:
            self.add(_same(fetch, output, self.name(output.term)))
            return
        self.bound.add(output.term)
        if isinstance(term, ValueTerm):
            self.add(_value(fetch, output.term, term, self.name(output.term)))
            return
        self.add(_operation(fetch, output, term, self.name(output.term), same_graph=False))
        self.down(output.term)

    def stand_in(self, place: int) -> None:
        """An optional operation that is missing: nothing stands for it, so that what is asked of it is None."""
        self.bound.add(place)

    def is_variadic(self, reference: Reference) -> bool:
        term = self.pattern.terms[reference.term]
        return isinstance(term, ValueTerm) and term.variadic

    def name(self, place: int) -> str:
        return self.pattern.name_of(place)

    def is_pure(self, term: OperationTerm) -> bool:
        """Whether no node of these opcodes has an effect."""
        rows = [self.rows.get(opcode) or OPS.get(opcode) for opcode in term.opcodes]
        return all(row is not None and row.is_known and row.effect is None for row in rows)


# The checks

Fetch = Callable[["Match"], Node]


def _operand_of(user: int, position: int) -> Fetch:
    return lambda match: match.slots[user].inputs[position]


def _output_of(user: int, name: str) -> Fetch:
    return lambda match: match.slots[user].attributes[name].root


def _arity(place: int, count: int, variadic: bool, name: str) -> Check:
    reason = f"{name} has another number of operands"

    def check(match: Match) -> str:
        given = len(match.slots[place].inputs)
        return "" if given == count or (variadic and given >= count) else reason

    return check


def _no_effect(place: int, name: str) -> Check:
    reason = f"{name} has an effect beside its value"
    return lambda match: "" if effect_of(match.slots[place]) is None else reason


def _same(fetch: Fetch, reference: Reference, name: str) -> Check:
    reason = f"another value stands in the place of {name}"
    term, result = reference.term, reference.result

    def check(match: Match) -> str:
        node = fetch(match)
        if result >= 0:
            if node.opcode != "get-tuple-element" or node.attributes.get("index") != result:
                return reason
            node = node.inputs[0]
        return "" if node is match.slots[term] else reason

    return check


def _operation(fetch: Fetch, reference: Reference, term: OperationTerm, name: str, same_graph: bool = True) -> Check:
    place, result, opcodes = reference.term, reference.result, frozenset(term.opcodes)
    reason = f"{name} is no {'/'.join(term.opcodes)}"

    def check(match: Match) -> str:
        node = fetch(match)
        if result >= 0:
            if node.opcode != "get-tuple-element" or node.attributes.get("index") != result:
                return reason
            node = node.inputs[0]
        if not isinstance(node, Apply) or not isinstance(node.function, Op) or node.function.name not in opcodes:
            return reason
        match.slots[place] = node
        return ""

    return check


def _value(fetch: Fetch, place: int, term: ValueTerm, name: str) -> Check:
    if term.is_plain:

        def bind(match: Match) -> str:
            match.slots[place] = fetch(match)
            return ""

        return bind

    def check(match: Match) -> str:
        node = fetch(match)
        match.slots[place] = node
        problem = _type_problem(node, term, name, match)
        return problem or (_constant_problem(node, term, name) if term.is_constant else "")

    return check


def _type_problem(node: Node, term: ValueTerm, name: str, match: Match) -> str:
    if not term.dtypes and term.rank is None and term.shape is None:
        return ""
    kind = node.type
    if not isinstance(kind, TensorType):
        return f"{name} is no array"
    if term.dtypes and kind.dtype.name not in term.dtypes:
        return f"{name} has another element type than {'/'.join(term.dtypes)}"
    if term.rank is not None and kind.rank != term.rank:
        return f"{name} has another rank than {term.rank}"
    if term.shape is None:
        return ""
    if kind.rank != len(term.shape):
        return f"{name} has another rank than {len(term.shape)}"
    for size, wanted in zip(kind.dims, term.shape, strict=True):
        if isinstance(wanted, str):
            wanted = match.variables.setdefault(wanted, size)
        if wanted is not None and size != wanted:
            return f"{name} has other dimensions"
    return ""


def _constant_problem(node: Node, term: ValueTerm, name: str) -> str:
    if not term.is_splat:
        is_constant = isinstance(node, Constant) and isinstance(node.value, Literal) and not node.value.is_elided
        return "" if is_constant else f"{name} is no constant"
    if term.number is None:
        return "" if splat_of(node) is not None else f"{name} is no constant with one value in every place"
    return "" if is_splat(node, term.number) else f"{name} is not {term.number}"


def _rest(user: int, position: int, place: int, name: str) -> Check:
    def check(match: Match) -> str:
        found = match.slots[user].inputs[position:]
        if match.slots[place] not in (None, found):
            return f"other values stand in the place of {name}"
        match.slots[place] = found
        return ""

    return check


def _users_like(term: OperationTerm, reference: Reference, position: int) -> Callable[[Match], Iterator[Node]]:
    def choices(match: Match) -> Iterator[Node]:
        nodes = [match.slots[reference.term]]
        if reference.result >= 0:
            nodes = [u for u in nodes[0].users if u.attributes.get("index") == reference.result]
        taken = set(map(id, match.slots))
        for node in nodes:
            for user in node.users:
                fits = user.opcode in term.opcodes and len(user.inputs) > position and user.inputs[position] is node
                if fits and id(user) not in taken:
                    yield user

    return choices


def _called(user: int, name: str, attribute: Computes, title: str) -> Check:
    def check(match: Match) -> str:
        graph = match.slots[user].attributes.get(name)
        if not isinstance(graph, Graph) or graph.output is None:
            return f"{title} has no graph as {name}"
        if len(graph.parameters) != len(attribute.parameters):
            return f"{name} of {title} has another number of parameters"
        for place, parameter in zip(attribute.parameters, graph.parameters, strict=True):
            match.slots[place] = parameter
        return ""

    return check


def _condition(condition: Condition) -> Check:
    test, reason = compiled(condition.test), f"not {condition.text}"

    def check(match: Match) -> str:
        try:
            return "" if number(test(match)) else reason
        except NO_VALUE:
            return f"{condition.text} has no value here"

    return check


def _only_used_inside(pattern: Pattern, way: Way) -> Check:
    """Whether all operations but the roots and the shared ones are used by the match alone, in one graph."""
    terms = [(place, term) for place, term in pattern.operations() if place not in way.missing]
    replaced = {(old.term, old.result) for old, _ in pattern.replaced}
    roots = set(pattern.roots)
    values = [place for place, term in enumerate(pattern.terms) if _stays(term) and place not in pattern.inner]

    def check(match: Match) -> str:
        graph = match.slots[way.anchor].graph
        covered = {match.slots[place] for place, _ in terms}
        kept = {node for place in values for node in _behind(match.slots[place])}
        for place, term in terms:
            node = match.slots[place]
            if node.graph is not graph:
                return f"{pattern.name_of(place)} stands in another graph"
            if term.shared or (place in roots and term.results == 1):
                continue
            name = pattern.name_of(place)
            if node in kept:
                return f"{name} is used elsewhere too"
            if term.results == 1:
                if not covered.issuperset(node.users) or node.is_output:
                    return f"{name} is used elsewhere too"
                continue
            problem = _results_problem(node, place, name, covered, replaced, place in roots)
            if problem:
                return problem
        return ""

    return check


def _stays(term: OperationTerm | ValueTerm) -> bool:
    """Whether a term stands for values that are given to the replacement: what stays, whatever yields it."""
    return isinstance(term, ValueTerm) and not term.is_constant


def _behind(value: Any) -> Iterator[Node]:
    """The nodes that yield the values of a term: of a result of several, the operation."""
    for node in value if isinstance(value, tuple) else () if value is None else (value,):
        yield node.inputs[0] if node.opcode == "get-tuple-element" else node


def _results_problem(
    node: Node, place: int, name: str, covered: set[Node], replaced: set[tuple[int, int]], is_root: bool
) -> str:
    for user in node.users:
        if user.opcode != "get-tuple-element":
            if user in covered:
                continue
            return f"{name} is used as a tuple" if not is_root else ""
        index = user.attributes.get("index")
        if (place, index) in replaced:
            continue
        if not covered.issuperset(user.users) or user.is_output:
            return f"result {index} of {name} is used elsewhere too"
    return f"{name} is used as a tuple" if node.is_output and not is_root else ""
