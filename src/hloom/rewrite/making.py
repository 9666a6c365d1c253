"""From a match to its replacement: making what the rule says, and finding the place where it can stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hloom.ir import Apply, DType, Node, TensorType, TupleType, Type, TypeProblem, dtype
from hloom.rewrite.builder import Builder
from hloom.rewrite.expressions import NO_VALUE, Compute, compiled
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
from hloom.rewrite.rule import registered
from hloom.text import HloomError

Produce = Callable[[Builder, Match], Any]


class Declined(TypeProblem):
    """A native builder gave nothing."""


def maker_of(pattern: Pattern) -> Callable[[Builder, Match], Mapping[Node, Node] | None]:
    """A function that makes a pattern's replacement for a match: what each replaced node gives way to."""
    resolve = _Resolver(pattern)
    produce = [_PRODUCERS[type(each)](each, resolve) for each in pattern.makes]

    def make(build: Builder, match: Match) -> Mapping[Node, Node] | None:
        build.carries_itself = any(isinstance(each, MakeOperation) and each.carry is not None for each in pattern.makes)
        if not _find_place(pattern, build, match):
            return None
        for each in produce:
            match.made.append(each(build, match))
        return _replacement(pattern, resolve, build, match)

    return make


class _Resolver:
    """From references to nodes: matched ones, made ones, and the results of either."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern

    def one(self, reference: Reference, build: Builder, match: Match) -> Node:
        found = self.several(reference, build, match)
        if len(found) != 1:
            raise TypeProblem(f"{self.pattern.name_of(reference.term)} stands for {len(found)} values")
        return found[0]

    def is_one(self, reference: Reference) -> bool:
        """Whether a reference always stands for one value."""
        term = None if reference.made else self.pattern.terms[reference.term]
        return reference.result < 0 and not (isinstance(term, ValueTerm) and (term.optional or term.variadic))

    def several(self, reference: Reference, build: Builder, match: Match) -> tuple[Node, ...]:
        """The nodes of a reference: none for a missing optional operand, many for a variadic one."""
        if reference.made:
            made = match.made[reference.term]
            if reference.result < 0:
                return (made,)
            return (made[reference.result] if isinstance(made, tuple) else build.get(made, reference.result),)
        found = match.slots[reference.term]
        if found is None:
            term = self.pattern.terms[reference.term]
            if isinstance(term, OperationTerm):  # an optional operation that is missing: its first operand
                return self.several(term.operands[0], build, match)
            return ()
        if isinstance(found, tuple):
            return found
        if reference.result >= 0:
            return (match.node(reference.term, reference.result) or build.get(found, reference.result),)
        return (found,)


def _produce_operation(make: MakeOperation, resolve: _Resolver) -> Produce:
    attributes = [(name, compiled(value)) for name, value in make.attributes]
    kind = compiled(make.type) if make.type is not None else None
    given = {name for name, _ in attributes}
    if not attributes and kind is None and make.carry is None and all(map(resolve.is_one, make.operands)):
        return _produce_plain(make, resolve)

    def produce(build: Builder, match: Match) -> Any:
        operands = [node for each in make.operands for node in resolve.several(each, build, match)]
        values = {}
        if make.carry is not None:
            values.update(_carried(match.slots[make.carry], build, make.opcode, {*make.drop, *given}))
        values.update((name, _value_of(compute, match)) for name, compute in attributes)
        wanted = _type(_value_of(kind, match)) if kind else None
        node = build.op(make.opcode, *operands, type=wanted, attributes=values)
        if make.carry is not None:
            node.graph.set_metadata(node, match.slots[make.carry].raw_metadata)
        return node

    return produce


def _produce_plain(make: MakeOperation, resolve: _Resolver) -> Produce:
    """The same for an operation without attributes: what its type is for which operand types is inferred once."""
    types: dict[tuple[Type | None, ...], Type] = {}

    def produce(build: Builder, match: Match) -> Any:
        operands = [resolve.several(each, build, match)[0] for each in make.operands]
        key = tuple([node.type for node in operands])
        found = types.get(key)
        if found is None:
            node = build.op(make.opcode, *operands)
            if node.type is not None and not build.has_layouts:
                types[key] = node.type
            return node
        return build.apply(build.row(make.opcode), operands, found)

    return produce


def _produce_constant(make: MakeConstant, resolve: _Resolver) -> Produce:
    value = compiled(make.value)
    kind = compiled(make.type) if make.type is not None else None

    def produce(build: Builder, match: Match) -> Any:
        found = _value_of(value, match)
        try:
            return build.constant(getattr(found, "value", found), _value_of(kind, match) if kind else None)
        except HloomError as error:
            raise TypeProblem(error.message) from None

    return produce


def _produce_native(make: MakeNative, resolve: _Resolver) -> Produce:
    arguments = [compiled(each) for each in make.arguments]

    def produce(build: Builder, match: Match) -> Any:
        found = registered(make.function)(build, *[argument(match) for argument in arguments])
        if found is None:
            raise Declined(build.reason or f"{make.function} builds nothing here")
        return found

    return produce


_PRODUCERS: dict[type[Make], Callable[[Any, _Resolver], Produce]] = {
    MakeOperation: _produce_operation,
    MakeConstant: _produce_constant,
    MakeNative: _produce_native,
}


def _value_of(compute: Compute, match: Match) -> Any:
    """The value of an expression; raises TypeProblem where it has none for this match."""
    try:
        return compute(match)
    except NO_VALUE as error:
        raise TypeProblem(f"what the rule makes has no value here: {error}") from None


def _type(value: Any) -> Type | None:
    if isinstance(value, (Type, type(None))):
        return value
    raise TypeProblem(f"{value!r} is no type")


def _carried(node: Node | None, build: Builder, opcode: str, without: set[str]) -> dict[str, Any]:
    """The carried attributes of a node that the made operation has too; a row made for an unknown op has all."""
    if not isinstance(node, Apply):
        return {}
    row, own = build.row(opcode), node.op.attributes
    return {
        name: value
        for name, value in node.attributes.items()
        if name not in without and name in own and own[name].carried and (not row.is_known or name in row.attributes)
    }


def _replacement(pattern: Pattern, resolve: _Resolver, build: Builder, match: Match) -> dict[Node, Node] | None:
    found: dict[Node, Node] = {}
    for old, fresh in pattern.replaced:
        node, value = match.slots[old.term], resolve.one(fresh, build, match)
        if old.result < 0:
            found[node] = value
            continue
        for user in node.users:
            if user.opcode == PROJECTION and user.attributes.get("index") == old.result:
                found[user] = value
    for place in pattern.roots:
        whole = _whole_tuple(pattern, place, resolve, build, match)
        if whole is not None:
            found[match.slots[place]] = whole
    build.consumed.extend(_consumed(pattern, match))
    return found or None


def _whole_tuple(pattern: Pattern, place: int, resolve: _Resolver, build: Builder, match: Match) -> Node | None:
    """A new tuple where an operation of several results is used as a whole, too."""
    node, term = match.slots[place], pattern.terms[place]
    assert isinstance(term, OperationTerm)
    if term.results == 1 or not (node.is_output or any(user.opcode != PROJECTION for user in node.users)):
        return None
    by_result = {old.result: fresh for old, fresh in pattern.replaced if old.term == place}
    if len(by_result) < term.results:
        raise Declined(f"{term.name} is used as a tuple, and not all of its results are replaced")
    return build.op("tuple", *[resolve.one(by_result[result], build, match) for result in range(term.results)])


def _consumed(pattern: Pattern, match: Match) -> list[Node]:
    """The matched operations that a rule may take out although they have an effect."""
    return [match.slots[place] for place, term in pattern.operations() if term.effects and match.slots[place]]


def _find_place(pattern: Pattern, build: Builder, match: Match) -> bool:
    """Let new nodes stand before the first root; what they need from further down is to be moved up.

    False where an operand of one root depends on another root.
    """
    roots = [match.slots[place] for place in pattern.roots]
    if len(roots) == 1:
        return True
    graph = roots[0].graph
    first = roots[0]
    for root in roots[1:]:
        if graph.comes_before(root, first):
            first = root
    covered = set(matched_nodes(pattern, match))
    late: set[Node] = set()
    pending = [each for node in covered for each in node.inputs if each not in covered]
    pending += [each for place, each in enumerate(match.slots) if _is_used_value(pattern, place, each)]
    while pending:
        node = pending.pop()
        if node in late or node.graph is not graph or graph.comes_before(node, first):
            continue
        if node in covered:
            build.reason = "an operand of one root depends on another root"
            return False
        late.add(node)
        pending.extend(node.inputs)
    build.place = first
    build.moves = [node for node in graph.nodes if node in late] if late else []
    return True


def _is_used_value(pattern: Pattern, place: int, node: Any) -> bool:
    return isinstance(node, Node) and isinstance(pattern.terms[place], ValueTerm) and place not in pattern.inner


def like_type(kind: Type | None, element: str | DType | None = None, dims: tuple[int, ...] | None = None) -> Type:
    """The type of an array with another element type or other dimensions; raises TypeProblem for what is no array."""
    if isinstance(kind, TupleType) or not isinstance(kind, TensorType):
        raise TypeProblem(f"{kind} is no array")
    wanted = dtype(element) if isinstance(element, str) else element or kind.dtype
    return TensorType(wanted, kind.dims if dims is None else tuple(int(getattr(d, "value", d)) for d in dims))
