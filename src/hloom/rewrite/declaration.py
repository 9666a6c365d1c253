"""Declarative rules: a function of `p` describes what to match and what replaces it.

    @rule(benefit=2)
    def fold_transposes(p):
        '''transpose(transpose(x)) -> transpose(x)'''
        x = p.value("x")
        first, second = p.attribute("first"), p.attribute("second")
        inner = p.op("transpose", x, dimensions=first)
        outer = p.op("transpose", inner, dimensions=second)
        with p.rewrite() as r:
            r.replace({outer: r.op("transpose", x, dimensions=p.call("compose", first, second))})

The function runs once, when the rule is defined; its description is kept as data (`pattern`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from hloom.ir import Node, Op, Trait
from hloom.ops import OPS, with_trait
from hloom.rewrite.domain import check_domain
from hloom.rewrite.expressions import FEATURES, Expression, call, choose, expression, text_of
from hloom.rewrite.function_calls import PREFIX, call_name
from hloom.rewrite.pattern import (
    Absent,
    Anything,
    Bind,
    Computes,
    Condition,
    Holds,
    Make,
    MakeConstant,
    MakeNative,
    MakeOperation,
    OneOf,
    OperationTerm,
    Pattern,
    Reference,
    Same,
    Term,
    ValueTerm,
)
from hloom.rewrite.registry import Origin, RuleError, origin_of
from hloom.rewrite.rule import Rule
from hloom.rewrite.type_check import check_types
from hloom.rewrite.type_guards import is_list
from hloom.rewrite.type_text import check_type_or_element, element_names, type_from
from hloom.rewrite.verifier import check_made, check_operation, check_pattern

COMMUTATIVE = with_trait(Trait.COMMUTATIVE)
"""The ops whose operands match in either order, unless a pattern says otherwise."""


class Handle:
    """A value of the pattern or of the replacement: usable as an operand, and a source of expressions.

    `x.shape`, `x.rank`, `x.dtype`, `x.type`, `x.value` (the number in every element of a constant) and others are
    expressions; any other name is an attribute of the operation; use `x.attribute("shape")` if the names clash.
    """

    __slots__ = ("reference", "session")

    def __init__(self, session: PatternBuilder, reference: Reference) -> None:
        self.session = session
        self.reference = reference

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in FEATURES:
            return self._feature(name)
        return self.attribute(name)

    def attribute(self, name: str) -> Expression:
        """The value of an attribute of the matched operation."""
        return self._feature("attribute", name)

    def as_node(self) -> Expression:
        """The node itself, for native functions."""
        return Expression("node", self.reference.term, self.reference.result)

    def as_expression(self) -> Expression:
        """The result of a native function as an attribute's value; raises RuleError for matched values."""
        if not self.reference.made:
            raise RuleError("a value of the pattern stands where a number or an attribute is meant")
        if not isinstance(self.session.makes[self.reference.term], MakeNative):
            raise RuleError("an operation that the rule makes stands where a number or an attribute is meant")
        return _made_value(self.reference)

    def apply_op(self, opcode: str, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """Called by `hloom.ops`: adds an op to the pattern, or to the replacement once that has begun."""
        return self.session.apply(opcode, operands, attributes)

    def _feature(self, name: str, *arguments: Any) -> Expression:
        if self.reference.made:
            raise RuleError(f"'{name}' of what a rule makes is not known when the rule is defined")
        return Expression("feature", self.reference.term, self.reference.result, name, *arguments)

    def __iter__(self) -> Iterator[Any]:
        raise RuleError("this operation has one result; results=2 and more give several")


class PatternBuilder:
    """Collects the description of a rule: `p` of the declarative API."""

    def __init__(self, rows: Mapping[str, Op] = OPS) -> None:
        self.rows = rows
        self.terms: list[Term] = []
        self.variables: dict[str, Expression] = {}
        self.conditions: list[Condition] = []
        self.makes: list[Make] = []
        self.replaced: list[tuple[Reference, Reference]] = []
        self.inner: set[int] = set()
        self.domain: dict[str, Any] = {}
        self.replacement: ReplacementBuilder | None = None
        self.are_free = False
        self._depth = 0

    # What to match

    def value(
        self,
        name: str,
        *,
        dtype: str | Sequence[str] = (),
        rank: int | None = None,
        shape: Sequence[Any] | None = None,
        optional: bool = False,
    ) -> Handle:
        """Any value with these element types, this rank, or these dimensions (numbers, `p.dimension(...)`, or None)."""
        dtypes = element_names(dtype)
        if rank is not None and (type(rank) is not int or rank < 0):
            raise RuleError(f"a rank is a number from 0 on, not {rank!r:.40}")
        sizes = None if shape is None else tuple(map(_dimension, shape))
        return self._term(ValueTerm(name, dtypes, rank, sizes, optional=optional))

    def any(self) -> Handle:
        """Any value that the rule does not use."""
        return self._term(ValueTerm(""))

    def values(self, name: str) -> Handle:
        """All operands of an operation that no other handle stands for, in the middle or at an end."""
        return self._term(ValueTerm(name, variadic=True))

    def constant(
        self, name: str = "", value: Any = None, *, dtype: str | Sequence[str] = (), splat: bool = True
    ) -> Handle:
        """A constant with one number in every element (this one if given); with `splat=False`, any array constant."""
        dtypes = element_names(dtype)
        return self._term(ValueTerm(name, dtypes, is_constant=True, is_splat=splat, number=value))

    def attribute(self, name: str) -> Expression:
        """A variable for an attribute's value; if it occurs twice, both values must be equal."""
        return self.variables.setdefault(name, Expression("variable", name))

    dimension = attribute

    def attributes(self, *names: str) -> dict[str, Any]:
        """Variables for several attributes, named like them: `**p.attributes("strides", "groups")` on both sides."""
        return {name: self.attribute(name) for name in names}

    def op(
        self,
        opcode: str | Sequence[str],
        *operands: Any,
        results: int = 1,
        shared: bool = False,
        commutative: bool | None = None,
        optional: bool = False,
        effects: bool = False,
        name: str | None = None,
        scope: str | None = None,
        source_file: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Any:
        """An operation with one of these opcodes; returns several handles if it has several results.

        `scope` and `source_file` are regular expressions that must match a part of the metadata's op_name and file.
        Attributes are values, variables, `ANY`, None (absent), `one_of(...)`, `holding(...)`, or `p.graph(...)`;
        omitted ones must have their defaults.
        """
        opcodes = (opcode,) if isinstance(opcode, str) else tuple(opcode)
        given = {**(attributes or {}), **named}
        terms = tuple((key, self._attribute(value)) for key, value in given.items())
        swaps = opcodes[0] in COMMUTATIVE if commutative is None else commutative
        references = tuple(self._operand(operand) for operand in operands)
        term = OperationTerm(
            name or opcodes[0], opcodes, references, terms, results, shared, swaps, optional, effects
        )  # fmt: skip
        check_operation(term, self.terms, self.rows)
        handle = self._term(term)
        asked = {"scope": scope, "source_file": source_file}
        self.where(*[getattr(handle, name).matches(text) for name, text in asked.items() if text is not None])
        if results == 1:
            return handle
        return tuple(Handle(self, Reference(handle.reference.term, result)) for result in range(results))

    def graph(self, function: Callable[..., Any]) -> Computes:
        """A computation held by an attribute, described by a function of its parameters that returns its result."""
        count = function.__code__.co_argcount
        self._depth += 1
        parameters = [self.value(name) for name in function.__code__.co_varnames[:count]]
        output = function(*parameters)
        self._depth -= 1
        return Computes(tuple(parameter.reference.term for parameter in parameters), output.reference)

    def where(self, *conditions: Any) -> None:
        """Conditions that must hold."""
        for condition in conditions:
            if isinstance(condition, bool):
                raise RuleError("a condition was true or false already when the rule was defined")
            test = expression(condition)
            self.conditions.append(Condition(test, text_of(test, self._name_of)))

    def where_same(self, *items: Any) -> None:
        """Operations that must agree in these attributes: handles first, then names."""
        handles = [item for item in items if isinstance(item, Handle)]
        for name in [item for item in items if isinstance(item, str)]:
            for other in handles[1:]:
                self.where(handles[0].attribute(name) == other.attribute(name))

    def call(self, name: str, *arguments: Any) -> Expression:
        """The result of a registered native function of nodes and values."""
        return call(name, *arguments)

    def choose(self, condition: Any, on_true: Any, on_false: Any) -> Expression:
        """One of two values."""
        return choose(condition, on_true, on_false)

    def equivalence(self, *, reason: str, **domain: Any) -> None:
        """Restrict the inputs of the rule's equivalence test, with a reason; `domain.KEYS` lists the options."""
        self.domain = {**domain, "reason": reason}
        check_domain(self.domain)

    # What replaces it

    @contextmanager
    def rewrite(self) -> Generator[ReplacementBuilder, None, None]:
        """The replacement: `with p.rewrite() as r: ...; r.replace({old: new})`."""
        self.replacement = ReplacementBuilder(self)
        yield self.replacement
        if not self.replaced:
            raise RuleError("the rewrite replaces nothing: call r.replace({old: new})")

    def apply(self, opcode: str, operands: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Add an op to the part being described: the pattern, or the replacement."""
        side = self.replacement or self
        return side.op(opcode, *operands, **named)

    def pattern(self) -> Pattern:
        """The checked pattern."""
        pattern = Pattern(
            tuple(self.terms), tuple(self.conditions), tuple(self.makes), tuple(self.replaced), frozenset(self.inner)
        )
        check_pattern(pattern, set(self.variables), self.rows, values_may_be_unused=self.are_free)
        return pattern

    def _term(self, term: Term) -> Handle:
        if self.replacement is not None:
            raise RuleError("the pattern must be complete before the rewrite begins")
        if self._depth:
            self.inner.add(len(self.terms))
        self.terms.append(term)
        return Handle(self, Reference(len(self.terms) - 1))

    def _operand(self, value: Any) -> Reference:
        if isinstance(value, Handle):
            return value.reference
        if isinstance(value, tuple):
            raise RuleError("an operation with several results stands as an operand: choose one of its results")
        return self.constant("", value).reference

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, (Anything, OneOf, Holds, Computes)):
            return value
        if value is None:
            return Absent()
        if not isinstance(value, Expression):
            return Same(tuple(value) if is_list(value) else value)
        if value.operator != "variable":
            hint = "bind it to p.attribute(...) and use p.where(...)"
            raise RuleError(f"an attribute is compared with '{value}'", hint=hint)
        return Bind(value.arguments[0])

    def _name_of(self, term: int) -> str:
        return self.terms[term].name or f"#{term}"


class ReplacementBuilder:
    """Collects the nodes a rule makes: `r` of the declarative API."""

    def __init__(self, session: PatternBuilder) -> None:
        self._session = session

    def op(
        self,
        opcode: str,
        *operands: Any,
        type: Any = None,
        carry: Handle | None = None,
        drop: Sequence[str] = (),
        results: int = 1,
        attributes: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> Any:
        """An operation to make; its type is inferred unless `type` gives it (another value's `.type`, an expression).

        `carry` names the matched operation whose metadata and carried attributes are copied, except those in `drop`.
        """
        given = {key: value for key, value in {**(attributes or {}), **named}.items() if value is not None}
        values = tuple((key, expression(value)) for key, value in given.items())
        references = tuple(self._operand(operand) for operand in operands)
        type_expression = None if type is None else expression(type_from(type) if isinstance(type, str) else type)
        source = None if carry is None else carry.reference.term
        made = MakeOperation(opcode, references, values, type_expression, source, tuple(drop), results)
        check_made(made, self._session.makes, self._session.rows)
        return self._made(made, results)

    def constant(self, value: Any, type: Any = None, *, like: Handle | None = None) -> Handle:
        """A constant with one number in every element of a type, or of the type of another value."""
        if like is not None and like.reference.made:
            raise RuleError(
                "like= names a value that the rule makes: its type is not known when the rule is defined",
                hint="name a value of the pattern, or give its type: r.constant(value, x.type)",
            )
        wanted_type = like.type if like is not None else type
        if isinstance(wanted_type, str):
            check_type_or_element(wanted_type)
        return self._made(MakeConstant(expression(value), None if wanted_type is None else expression(wanted_type)), 1)

    def native(self, function: str, *arguments: Any, results: int = 1) -> Any:
        """The result of a registered builder function, which gets the Builder and the arguments, with handles as nodes.

        For an attribute's value, use `p.call`, which computes without building.
        """
        expressions = tuple(_native_argument(argument) for argument in arguments)
        return self._made(MakeNative(function, expressions, results), results)

    def call(self, function: Callable[..., Any], *operands: Any, results: int = 1, **keywords: Any) -> Any:
        """A call of a function of arrays, such as jax's, traced for the types of the matched operands.

        Keywords are passed to the function: values, or expressions of matched values. It must return as many arrays as
        `results` says, in the order of its output tree. The rule does not fire if their types differ from those they
        replace.
        """
        names = tuple(keywords)
        for name, value in keywords.items():
            if isinstance(value, Handle):
                called = call_name(function).removeprefix(PREFIX)
                raise RuleError(
                    f"the keyword {name} of {called} is an array, and keywords are traced as numbers",
                    hint=f"give the constant's number, {name}=handle.value, or pass the array as an operand",
                )
        arguments = [results, names, *keywords.values(), *map(self._call_operand, operands)]
        return self.native(call_name(function), *arguments, results=results)

    def replace(self, replaced: Mapping[Any, Any]) -> None:
        """Replace results of the pattern by values of the replacement or of the pattern."""
        for old, fresh in replaced.items():
            if not isinstance(old, Handle) or old.reference.made:
                raise RuleError("what is replaced must be a result of an operation of the pattern")
            self._session.replaced.append((old.reference, self._operand(fresh)))

    def _call_operand(self, value: Any) -> Handle:
        self._operand(value)
        return value

    def _operand(self, value: Any) -> Reference:
        if isinstance(value, Handle):
            return value.reference
        if isinstance(value, (bool, int, float, complex, Expression)):
            raise RuleError(f"{value!r} is not a value: make a constant of it with r.constant(value, like=...)")
        raise RuleError(f"{value!r} is not a value of the pattern or the replacement")

    def _made(self, make: Make, results: int) -> Any:
        self._session.makes.append(make)
        number = len(self._session.makes) - 1
        if results == 1:
            return Handle(self._session, Reference(number, made=True))
        return tuple(Handle(self._session, Reference(number, result, True)) for result in range(results))


def call_function(function: Callable[..., Any], *operands: Any, results: int = 1, **keywords: Any) -> Any:
    """`r.call` for the second function of `rule_from`; raises RuleError in the first."""
    sessions = [operand.session for operand in operands if isinstance(operand, Handle)]
    if not sessions or sessions[0].replacement is None:
        raise RuleError("a function is called in a replacement, of values of the rule")
    return sessions[0].replacement.call(function, *operands, results=results, **keywords)


def rule(
    function: Callable[[PatternBuilder], None] | None = None,
    *,
    benefit: int = 1,
    name: str | None = None,
    cost: Callable[[Node], float] | None = None,
    family: str = "",
    rows: Mapping[str, Op] = OPS,
) -> Any:
    """Turn a function that declares a rule into a Rule; raises RuleError, with the place, if it is not valid.

    With `cost` the rule fires only if the nodes it makes cost less than those it makes dead, each node counted once.
    """
    if function is None:
        return partial(rule, benefit=benefit, name=name, cost=cost, family=family, rows=rows)
    session, origin = PatternBuilder(rows), origin_of(function)
    title = name or function.__name__.strip("_").replace("_", "-")
    try:
        function(session)
        return finish_rule(
            session,
            title,
            origin,
            benefit=benefit,
            cost=cost,
            family=family,
            rows=rows,
            statement=function.__doc__ or "",
        )
    except RuleError as error:
        raise RuleError(f"rule {title} ({origin}): {error.message}", hint=error.hint) from None


def finish_rule(session: PatternBuilder, name: str, origin: Origin, **options: Any) -> Rule:
    """The rule that a session has described; raises RuleError if it is not valid."""
    pattern = session.pattern()
    anchor = pattern.terms[pattern.roots[0]]
    assert isinstance(anchor, OperationTerm)
    declared = Rule(
        name, anchor.opcodes, pattern, depth=depth_of(pattern), domain=session.domain, origin=origin, **options
    )
    check_types(declared)
    return declared


def depth_of(pattern: Pattern) -> int:
    """The height of a pattern in operations, including those reached from several roots."""
    heights: dict[int, int] = {}
    for term_index, term in enumerate(pattern.terms):
        below = [heights.get(operand.term, 0) for operand in getattr(term, "operands", ())]
        heights[term_index] = 1 + max(below, default=0) if isinstance(term, OperationTerm) else 0
    return max(heights.values(), default=1) * (2 if len(pattern.roots) > 1 else 1)


def one_of(*values: Any) -> OneOf:
    """For an attribute: one of these values."""
    return OneOf(values)


def holding(predicate: str) -> Holds:
    """For an attribute: a value that satisfies a registered predicate."""
    return Holds(predicate)


def _dimension(size: Any) -> int | str | None:
    if isinstance(size, Expression) and size.operator == "variable":
        return size.arguments[0]
    if size is None or isinstance(size, int):
        return size
    raise RuleError(f"a dimension is a number, p.dimension(...) or None, not {size!r}")


def _native_argument(value: Any) -> Expression:
    if isinstance(value, Handle) and value.reference.made:
        return _made_value(value.reference)
    return value.as_node() if isinstance(value, Handle) else expression(value)


def _made_value(reference: Reference) -> Expression:
    return Expression("made", reference.term, reference.result)
