"""Builds a match's replacement, and finds an insertion point that dominates all its uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hloom.ir import Apply, Node, Type, TypeProblem
from hloom.rewrite.builder import Builder
from hloom.rewrite.expression_compiler import NO_VALUE, Compute, compiled
from hloom.rewrite.match import PROJECTION, Match, matched_nodes
from hloom.rewrite.pattern import (
    Make,
    MakeConstant,
    MakeNative,
    MakeOperation,
    OperationTerm,
    Pattern,
    Reference,
    ValueTerm,
)
from hloom.rewrite.registry import registered
from hloom.text import HloomError

Produce = Callable[[Builder, Match], Any]


class Declined(TypeProblem):
    """A native builder returned nothing."""


def compile_replacement(pattern: Pattern) -> Callable[[Builder, Match], Mapping[Node, Node] | None]:
    """A function that makes a pattern's replacement for a match: the replacement of each replaced node."""
    resolve = _Resolver(pattern)
    produce = [_PRODUCERS[type(made)](made, resolve) for made in pattern.makes]
    carries = any(isinstance(make, MakeOperation) and make.carry is not None for make in pattern.makes)
    find_insertion_point = _insertion_point_finder(pattern) if len(pattern.roots) > 1 else None
    replacement = _compile_replaced(pattern, resolve)

    def make(build: Builder, match: Match) -> Mapping[Node, Node] | None:
        build.carries_itself = carries
        if find_insertion_point is not None and not find_insertion_point(build, match):
            return None
        for step in produce:
            match.made.append(step(build, match))
        return replacement(build, match)

    return make


class _Resolver:
    """Resolves references to nodes: matched ones, made ones, and the results of either."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern

    def one(self, reference: Reference, build: Builder, match: Match) -> Node:
        if reference.made and reference.result < 0:
            return match.made[reference.term]
        nodes = self.several(reference, build, match)
        if len(nodes) != 1:
            raise TypeProblem(f"{self.pattern.name_of(reference.term)} stands for {len(nodes)} values")
        return nodes[0]

    def fetch(self, reference: Reference) -> Produce:
        """A function that gives the one node of a reference."""
        number = reference.term
        if reference.result < 0 and reference.made:
            return lambda build, match: match.made[number]
        if self.is_one(reference) and not getattr(self.pattern.terms[number], "optional", False):
            return lambda build, match: match.slots[number]
        return lambda build, match: self.one(reference, build, match)

    def is_one(self, reference: Reference) -> bool:
        """Whether a reference always stands for exactly one value."""
        term = None if reference.made else self.pattern.terms[reference.term]
        return reference.result < 0 and not (isinstance(term, ValueTerm) and (term.optional or term.variadic))

    def several(self, reference: Reference, build: Builder, match: Match) -> tuple[Node, ...]:
        """The nodes of a reference: none for a missing optional operand, many for a variadic one."""
        if reference.made:
            made = match.made[reference.term]
            if reference.result < 0:
                return (made,)
            results: Node | tuple[Node, ...] = made
            return (results[reference.result] if isinstance(results, tuple) else build.get(made, reference.result),)
        matched: Node | tuple[Node, ...] | None = match.slots[reference.term]
        if matched is None:
            term = self.pattern.terms[reference.term]
            if isinstance(term, OperationTerm):  # a missing optional operation: use its first operand
                return self.several(term.operands[0], build, match)
            return ()
        if isinstance(matched, tuple):
            return matched
        if reference.result >= 0:
            return (match.node(reference.term, reference.result) or build.get(matched, reference.result),)
        return (matched,)


def _produce_operation(make: MakeOperation, resolve: _Resolver) -> Produce:
    attributes = [(name, compiled(value)) for name, value in make.attributes]
    type_of = compiled(make.type) if make.type is not None else None
    given = {name for name, _ in attributes}
    if not attributes and type_of is None and make.carry is None and all(map(resolve.is_one, make.operands)):
        return _produce_plain(make, resolve)

    def produce(build: Builder, match: Match) -> Any:
        operands = [node for operand in make.operands for node in resolve.several(operand, build, match)]
        values: dict[str, Any] = {}
        if make.carry is not None:
            values.update(_carried(match.slots[make.carry], build, make.opcode, {*make.drop, *given}))
        values.update((name, _value_of(compute, match)) for name, compute in attributes)
        wanted = _type(_value_of(type_of, match)) if type_of else None
        node = build.op(make.opcode, *operands, type=wanted, attributes=values)
        if make.carry is not None:
            node.graph.set_metadata(node, match.slots[make.carry].raw_metadata)
        return node

    return produce


def _produce_plain(make: MakeOperation, resolve: _Resolver) -> Produce:
    """The same for an operation without attributes: its type is inferred once per combination of operand types."""
    types: dict[tuple[Type | None, ...], Type] = {}
    fetches = [resolve.fetch(operand) for operand in make.operands]

    def produce(build: Builder, match: Match) -> Any:
        operands = [fetch(build, match) for fetch in fetches]
        key = tuple([node.type for node in operands])
        known = types.get(key)
        if known is None:
            node = build.op(make.opcode, *operands)
            if node.type is not None and not build.has_layouts:
                types[key] = node.type
            return node
        return build.apply(build.row(make.opcode), operands, known)

    return produce


def _produce_constant(make: MakeConstant, resolve: _Resolver) -> Produce:
    value = compiled(make.value)
    type_of = compiled(make.type) if make.type is not None else None

    def produce(build: Builder, match: Match) -> Any:
        number = _value_of(value, match)
        try:
            return build.constant(getattr(number, "value", number), _value_of(type_of, match) if type_of else None)
        except HloomError as error:
            raise TypeProblem(error.message) from None

    return produce


def _produce_native(make: MakeNative, resolve: _Resolver) -> Produce:
    arguments = [compiled(source) for source in make.arguments]

    def produce(build: Builder, match: Match) -> Any:
        built = registered(make.function)(build, *[argument(match) for argument in arguments])
        if built is None:
            raise Declined(build.reason or f"{make.function} builds nothing here")
        return built

    return produce


_PRODUCERS: dict[type[Make], Callable[[Any, _Resolver], Produce]] = {
    MakeOperation: _produce_operation,
    MakeConstant: _produce_constant,
    MakeNative: _produce_native,
}


def _value_of(compute: Compute, match: Match) -> Any:
    """The value of an expression; raises TypeProblem if it has none for this match."""
    try:
        return compute(match)
    except NO_VALUE as error:
        raise TypeProblem(f"what the rule makes has no value here: {error}") from None


def _type(value: Any) -> Type | None:
    if isinstance(value, (Type, type(None))):
        return value
    raise TypeProblem(f"{value!r} is not a type")


def _carried(node: Node | None, build: Builder, opcode: str, without: set[str]) -> dict[str, Any]:
    """The carried attributes of a node that the made operation has too; a row for an unknown op has all of them."""
    if not isinstance(node, Apply):
        return {}
    row, own = build.row(opcode), node.op.attributes
    return {
        name: value
        for name, value in node.attributes.items()
        if name not in without and name in own and own[name].carried and (not row.is_known or name in row.attributes)
    }


def _compile_replaced(pattern: Pattern, resolve: _Resolver) -> Callable[[Builder, Match], dict[Node, Node] | None]:
    """The replacement of each replaced node of a match; tells the builder which nodes with effects may go."""
    several = [term_index for term_index in pattern.roots if _result_count(pattern, term_index) > 1]
    consumed = [term_index for term_index, term in pattern.operations() if term.effects]
    if len(pattern.replaced) == 1 and not several and not consumed:
        ((old, made),) = pattern.replaced
        fetch = resolve.fetch(made)
        if old.result < 0:
            return lambda build, match: {match.slots[old.term]: fetch(build, match)}

    def replacement(build: Builder, match: Match) -> dict[Node, Node] | None:
        replaced: dict[Node, Node] = {}
        for old, fresh in pattern.replaced:
            node, value = match.slots[old.term], resolve.one(fresh, build, match)
            if old.result < 0:
                replaced[node] = value
                continue
            for user in node.users:
                if user.opcode == PROJECTION and user.attributes.get("index") == old.result:
                    replaced[user] = value
        for term_index in several:
            whole = _tuple_of_results(pattern, term_index, resolve, build, match)
            if whole is not None:
                replaced[match.slots[term_index]] = whole
        for term_index in consumed:
            if match.slots[term_index]:
                build.consumed.append(match.slots[term_index])
        return replaced or None

    return replacement


def _result_count(pattern: Pattern, term_index: int) -> int:
    term = pattern.terms[term_index]
    assert isinstance(term, OperationTerm)
    return term.results


def _tuple_of_results(
    pattern: Pattern, term_index: int, resolve: _Resolver, build: Builder, match: Match
) -> Node | None:
    """A new tuple, if an operation with several results is also used as a whole."""
    node, term = match.slots[term_index], pattern.terms[term_index]
    assert isinstance(term, OperationTerm)
    if not (node.is_output or any(user.opcode != PROJECTION for user in node.users)):
        return None
    by_result = {old.result: fresh for old, fresh in pattern.replaced if old.term == term_index}
    if len(by_result) < term.results:
        raise Declined(f"{term.name} is used as a tuple, and not all of its results are replaced")
    return build.op("tuple", *[resolve.one(by_result[result], build, match) for result in range(term.results)])


def _insertion_point_finder(pattern: Pattern) -> Callable[[Builder, Match], bool]:
    """A function that makes new nodes go before the first root, moving up later nodes that they need.

    It returns False if an operand of one root depends on another root.
    """
    anchors, operations = pattern.roots, tuple(pattern.operations())
    values = [
        number
        for number, term in enumerate(pattern.terms)
        if isinstance(term, ValueTerm) and number not in pattern.inner
    ]

    def find(build: Builder, match: Match) -> bool:
        slots = match.slots
        first = slots[anchors[0]]
        graph = first.graph
        for anchor in anchors:
            if graph.comes_before(slots[anchor], first):
                first = slots[anchor]
        covered = matched_nodes(operations, match)
        late: set[Node] = set()
        pending = [operand for node in covered for operand in node.operands if operand not in covered]
        pending += [slots[number] for number in values if isinstance(slots[number], Node)]
        while pending:
            node = pending.pop()
            if node in late or node.graph is not graph or graph.comes_before(node, first):
                continue
            if node in covered:
                build.reason = "an operand of one root depends on another root"
                return False
            late.add(node)
            pending.extend(node.operands)
        build.insertion_point = first
        build.moves = [node for node in graph.nodes if node in late] if late else []
        return True

    return find
