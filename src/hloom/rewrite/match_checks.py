"""The checks of a match program: each tests one property and returns why there is no match, or an empty string."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hloom.ir import Apply, Constant, Graph, Literal, Node, Op, TensorType
from hloom.ops import effect_of
from hloom.rewrite.expression_compiler import NO_VALUE, compiled, number
from hloom.rewrite.match import PROJECTION, Match
from hloom.rewrite.match_variants import MatchVariant
from hloom.rewrite.matchers import is_splat, splat_of
from hloom.rewrite.pattern import (
    Absent,
    Bind,
    Computes,
    Condition,
    Holds,
    OneOf,
    OperationTerm,
    Pattern,
    Reference,
    Same,
    ValueTerm,
)
from hloom.rewrite.registry import registered

Check = Callable[[Match], str]
"""Tests a match; returns the reason for failure, or an empty string."""

Fetch = Callable[[Match], Node]


def operand_of(user: int, position: int) -> Fetch:
    return lambda match: match.slots[user].operands[position]


def output_of(user: int, name: str) -> Fetch:
    return lambda match: match.slots[user].attributes[name].root


def arity_check(term_index: int, count: int, variadic: bool, name: str) -> Check:
    reason = f"{name} has another number of operands"

    def check(match: Match) -> str:
        given = len(match.slots[term_index].operands)
        return "" if given == count or (variadic and given >= count) else reason

    return check


def effect_check(term_index: int, name: str) -> Check:
    reason = f"{name} has an effect besides its value"
    return lambda match: "" if effect_of(match.slots[term_index]) is None else reason


def same_check(fetch: Fetch, reference: Reference, name: str, path: str) -> Check:
    """Checks that an operand is the value a term is bound to."""
    reason = f"{path} is another value than {name}"
    term, result = reference.term, reference.result

    def check(match: Match) -> str:
        node = operand = fetch(match)
        if result >= 0 and _is_result(node, result):
            node = node.operands[0]
        elif result >= 0:
            node = None
        if node is match.slots[term]:
            return ""
        match.culprit = operand
        return reason

    return check


def _is_result(node: Node, result: int) -> bool:
    return node.opcode == PROJECTION and node.attributes.get("index") == result


def operation_check(fetch: Fetch, reference: Reference, term: OperationTerm, path: str) -> Check:
    """Checks that an operand has one of a term's opcodes, and binds the term."""
    term_index, result, opcodes = reference.term, reference.result, frozenset(term.opcodes)
    wanted = "/".join(term.opcodes)

    def check(match: Match) -> str:
        node = fetch(match)
        if result >= 0:
            if not _is_result(node, result):
                match.culprit = node
                return f"{path} is {node.opcode}, not result {result} of {wanted}"
            node = node.operands[0]
        if not isinstance(node, Apply) or not isinstance(node.function, Op) or node.function.name not in opcodes:
            match.culprit = node
            return f"{path} is {node.opcode}, not {wanted}"
        match.slots[term_index] = node
        return ""

    return check


def value_check(fetch: Fetch, term_index: int, term: ValueTerm, name: str) -> Check:
    if term.is_plain:

        def bind(match: Match) -> str:
            match.slots[term_index] = fetch(match)
            return ""

        return bind

    def check(match: Match) -> str:
        node = fetch(match)
        match.slots[term_index] = node
        problem = _type_problem(node, term, name, match)
        return problem or (_constant_problem(node, term, name) if term.is_constant else "")

    return check


def _type_problem(node: Node, term: ValueTerm, name: str, match: Match) -> str:
    if not term.dtypes and term.rank is None and term.shape is None:
        return ""
    node_type = node.type
    if not isinstance(node_type, TensorType):
        return f"{name} is not an array"
    if term.dtypes and node_type.dtype.name not in term.dtypes:
        return f"{name} has another element type than {'/'.join(term.dtypes)}"
    if term.rank is not None and node_type.rank != term.rank:
        return f"{name} has another rank than {term.rank}"
    if term.shape is None:
        return ""
    if node_type.rank != len(term.shape):
        return f"{name} has another rank than {len(term.shape)}"
    for size, wanted in zip(node_type.dims, term.shape, strict=True):
        if isinstance(wanted, str):
            wanted = match.variables.setdefault(wanted, size)
        if wanted is not None and size != wanted:
            return f"{name} has other dimensions"
    return ""


def _constant_problem(node: Node, term: ValueTerm, name: str) -> str:
    if not term.is_splat:
        is_constant = isinstance(node, Constant) and isinstance(node.value, Literal) and not node.value.is_elided
        return "" if is_constant else f"{name} is not a constant"
    if term.number is None:
        return "" if splat_of(node) is not None else f"{name} is not a constant with one value in every element"
    return "" if is_splat(node, term.number) else f"{name} is not {term.number}"


def rest_check(user: int, position: int, after: int, term_index: int, name: str) -> Check:
    """Checks the operands of a variadic term: from a position on, except those `after` them."""

    def check(match: Match) -> str:
        inputs = match.slots[user].operands
        rest = inputs[position : len(inputs) - after]
        if match.slots[term_index] not in (None, rest):
            return f"other values stand in the place of {name}"
        match.slots[term_index] = rest
        return ""

    return check


def users_like(term: OperationTerm, reference: Reference, position: int) -> Callable[[Match], Iterator[Node]]:
    def choices(match: Match) -> Iterator[Node]:
        nodes = [match.slots[reference.term]]
        if reference.result >= 0:
            nodes = [u for u in nodes[0].users if u.attributes.get("index") == reference.result]
        taken = set(map(id, match.slots))
        for node in nodes:
            for user in node.users:
                has_position = -len(user.operands) <= position < len(user.operands)
                fits = user.opcode in term.opcodes and has_position and user.operands[position] is node
                if fits and id(user) not in taken:
                    yield user

    return choices


def graph_check(user: int, name: str, attribute: Computes, title: str) -> Check:
    def check(match: Match) -> str:
        graph = match.slots[user].attributes.get(name)
        if not isinstance(graph, Graph) or graph.output is None:
            return f"{title} has no graph as {name}"
        if len(graph.parameters) != len(attribute.parameters):
            return f"{name} of {title} has another number of parameters"
        for term_index, parameter in zip(attribute.parameters, graph.parameters, strict=True):
            match.slots[term_index] = parameter
        return ""

    return check


def asked_check(condition: Condition) -> Check:
    """Checks a condition of a rule as text, which has a value for whatever node."""
    test, reason = compiled(condition.test), f"not {condition.text}"
    return lambda match: "" if test(match) else reason


def condition_check(condition: Condition) -> Check:
    test, reason = compiled(condition.test), f"not {condition.text}"

    def check(match: Match) -> str:
        try:
            return "" if number(test(match)) else reason
        except NO_VALUE:
            return f"{condition.text} has no value here"

    return check


def use_check(pattern: Pattern, variant: MatchVariant) -> Check:
    """Checks that all operations except roots and shared ones are used only inside the match, in one graph."""
    terms = [(term_index, term) for term_index, term in pattern.operations() if term_index not in variant.missing]
    replaced = {(old.term, old.result) for old, _ in pattern.replaced}
    roots = set(pattern.roots)
    values = [
        term_index for term_index, term in enumerate(pattern.terms) if _stays(term) and term_index not in pattern.inner
    ]

    def check(match: Match) -> str:
        graph = match.slots[variant.anchor].graph
        covered = {match.slots[term_index] for term_index, _ in terms}
        kept = {node for term_index in values for node in _behind(match.slots[term_index])}
        for term_index, term in terms:
            node = match.slots[term_index]
            if node.graph is not graph:
                return f"{pattern.name_of(term_index)} stands in another graph"
            if term.shared or (term_index in roots and term.results == 1):
                continue
            name = pattern.name_of(term_index)
            if node in kept:
                return f"{name} is used elsewhere too"
            if term.results == 1:
                if not covered.issuperset(node.users) or node.is_output:
                    return f"{name} is used elsewhere too"
                continue
            problem = _results_problem(node, term_index, name, covered, replaced, term_index in roots)
            if problem:
                return problem
        return ""

    return check


def _stays(term: OperationTerm | ValueTerm) -> bool:
    """Whether a term stands for values passed to the replacement, which stay whatever yields them."""
    return isinstance(term, ValueTerm) and not term.is_constant


def _behind(value: Node | tuple[Node, ...] | None) -> Iterator[Node]:
    """The nodes that yield the values of a term; for a result of several, the operation."""
    for node in value if isinstance(value, tuple) else () if value is None else (value,):
        yield node.operands[0] if node.opcode == PROJECTION else node


def _results_problem(
    node: Node, term_index: int, name: str, covered: set[Node], replaced: set[tuple[int, int]], is_root: bool
) -> str:
    for user in node.users:
        if user.opcode != PROJECTION:
            if user in covered:
                continue
            return f"{name} is used as a tuple" if not is_root else ""
        index = user.attributes.get("index")
        if (term_index, index) in replaced:
            continue
        if not covered.issuperset(user.users) or user.is_output:
            return f"result {index} of {name} is used elsewhere too"
    return f"{name} is used as a tuple" if node.is_output and not is_root else ""


# Attributes


def attribute_check(term_index: int, term: OperationTerm, title: str, *, all_are_named: bool) -> Callable[[Match], str]:
    """Checks the attributes of an operation: the named ones, and that no other changes its meaning."""
    named = {name: attribute for name, attribute in term.attributes if not isinstance(attribute, Absent)}
    checks = [(name, _checks[type(wanted)](wanted)) for name, wanted in named.items() if type(wanted) in _checks]

    def check(match: Match) -> str:
        node = match.slots[term_index]
        for name, holds in checks:
            if not holds(node.attribute(name), match):
                return f"{name} of {title} is another"
        if all_are_named:
            return ""
        for name, value in node.attributes.items() if node.attributes else ():
            if name not in named and not _is_default(node, name, value):
                return f"{title} has {name}, which the pattern does not name"
        return ""

    return check


def _is_default(node: Apply, name: str, value: Any) -> bool:
    """Whether an attribute that the pattern omits is carried or has its default value."""
    row = node.op.attributes.get(name)
    return row is not None and (row.carried or value == row.default or number(value) == row.default)


def _same(term: Same) -> Callable[[Any, Match], bool]:
    wanted = number(term.value)
    return lambda value, match: value == term.value or number(value) == wanted


def _bind(term: Bind) -> Callable[[Any, Match], bool]:
    def holds(value: Any, match: Match) -> bool:
        if term.name in match.variables:
            return match.variables[term.name] == value
        match.variables[term.name] = value
        return True

    return holds


def _one_of(term: OneOf) -> Callable[[Any, Match], bool]:
    return lambda value, match: number(value) in term.values


def _holds(term: Holds) -> Callable[[Any, Match], bool]:
    return lambda value, match: bool(registered(term.predicate)(value))


_checks: dict[type, Callable[[Any], Callable[[Any, Match], bool]]] = {
    Same: _same,
    Bind: _bind,
    OneOf: _one_of,
    Holds: _holds,
}
