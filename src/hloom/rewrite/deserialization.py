"""Deserialization of rules from JSON data, with the checks of a definition; executes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hloom.ir import Op
from hloom.ops import OPS
from hloom.rewrite.codecs import MAX_DEPTH
from hloom.rewrite.declaration import depth_of
from hloom.rewrite.domain import check_domain
from hloom.rewrite.expressions import ARITIES, FEATURES, Expression, text_of
from hloom.rewrite.json_reader import JsonReader
from hloom.rewrite.pattern import (
    OPERATION_FLAGS,
    VALUE_FIELDS,
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
from hloom.rewrite.registry import REGISTERED, Origin, RuleError
from hloom.rewrite.rule import Rule
from hloom.rewrite.type_guards import is_list, is_tuple
from hloom.rewrite.verifier import check_made, check_operation, check_pattern

MAX_OPERATORS = 20_000
"""The maximum number of operators in all expressions of one rule of a file."""
MAX_TERMS = 1_000
"""The maximum number of terms of one rule of a file."""
MAX_RESULTS = 256
"""The maximum number of results of an operation in a rule file: more than any op of the tables has."""


class RuleDecoder:
    """One rule being assembled from data."""

    def __init__(self, rows: Mapping[str, Op]) -> None:
        self.rows = rows
        self.terms: list[Term] = []
        self.makes: list[Make] = []
        self.operators = 0

    def rule(self, part: JsonReader) -> Rule:
        common = ("name", "benefit", "statement", "family", "domain", "cost", "origin")
        is_native = part.has("native")
        own = (
            ("native", "roots", "depth", "effects", "because")
            if is_native
            else ("terms", "inner", "conditions", "makes", "replaced")
        )
        part.fields(*common, *own)
        options: dict[str, Any] = {
            "benefit": part["benefit"].integer(-(10**6), 10**6) if part.has("benefit") else 1,
            "statement": part["statement"].text() if part.has("statement") else "",
            "family": part["family"].text() if part.has("family") else "",
            "domain": _domain(part),
            "cost": REGISTERED[self.registered(part["cost"])] if part.has("cost") else None,
            "origin": _origin(part),
            "rows": self.rows,
        }
        name = part["name"].text()
        if is_native:
            return self.native(part, name, options)
        pattern = self.pattern(part)
        anchor = pattern.terms[pattern.roots[0]]
        assert isinstance(anchor, OperationTerm)
        return Rule(name, anchor.opcodes, pattern, depth=depth_of(pattern), **options)

    def native(self, part: JsonReader, name: str, options: dict[str, Any]) -> Rule:
        roots = part.texts("roots")
        for index, root in enumerate(roots):
            if root not in self.rows and root not in OPS:
                raise part["roots"].error(f"[{index}]: no op is called '{root}'")
        if not roots:
            raise part.error("it has no roots")
        depth = part["depth"].integer(1, 1_000) if part.has("depth") else 2
        function = self.registered(part["native"])
        because = part["because"].text() if part.has("because") else ""
        effects = part.flag("effects")
        return Rule(name, roots, native=function, depth=depth, effects=effects, because=because, **options)

    def registered(self, part: JsonReader) -> str:
        name = part.text()
        if name not in REGISTERED:
            raise part.error(f"no native function named '{name:.80}' is registered", "import the module that does it")
        return name

    def pattern(self, part: JsonReader) -> Pattern:
        inner = frozenset(index.integer(0, MAX_TERMS) for index in part.items("inner"))
        for term in part.items("terms"):
            self.terms.append(self.term(term))
        if any(term_index >= len(self.terms) for term_index in inner):
            raise part["inner"].error(f"there are only {len(self.terms)} terms")
        conditions = tuple(self.condition(condition) for condition in part.items("conditions"))
        for make in part.items("makes"):
            self.makes.append(self.make(make))
        replaced = tuple(self.replaced(pair) for pair in part.items("replaced"))
        pattern = Pattern(tuple(self.terms), conditions, tuple(self.makes), replaced, inner)
        check_pattern(pattern, set(), self.rows, values_may_be_unused=True)
        return pattern

    # Terms

    def term(self, part: JsonReader) -> Term:
        return self.value(part) if part.has("value") else self.operation(part)

    def value(self, part: JsonReader) -> ValueTerm:
        part.fields("value", *VALUE_FIELDS)
        shape = None
        if part.has("shape"):
            shape = tuple(map(_size, part.items("shape")))
        return ValueTerm(
            part["value"].text(),
            part.texts("dtypes"),
            part["rank"].integer(0, 64) if part.has("rank") else None,
            shape,
            is_constant=part.flag("is_constant"),
            is_splat=part.flag("is_splat"),
            number=_number(part["number"]) if part.has("number") else None,
            optional=part.flag("optional"),
            variadic=part.flag("variadic"),
        )

    def operation(self, part: JsonReader) -> OperationTerm:
        part.fields("operation", "opcodes", "operands", "attributes", "results", *OPERATION_FLAGS)
        opcodes = part.texts("opcodes")
        if not opcodes:
            raise part.error("it has no opcodes")
        term = OperationTerm(
            part["operation"].text(),
            opcodes,
            tuple(self.reference(operand, may_be_made=False) for operand in part.items("operands")),
            tuple((name, self.attribute(attribute)) for name, attribute in part.named("attributes")),
            part["results"].integer(1, MAX_RESULTS) if part.has("results") else 1,
            **{name: part.flag(name) for name in OPERATION_FLAGS},
        )
        if term.optional and not term.operands:
            raise part.error("it is optional, but has no operand to stand for it")
        _at(part, check_operation, term, self.terms, self.rows)
        return term

    def attribute(self, part: JsonReader) -> Any:
        if part.data == "any":
            return Anything()
        if part.data == "absent":
            return Absent()
        data = part.fields("same", "bind", "one-of", "holds", "computes")
        if len(data) != 1:
            raise part.error("it must have one key")
        key = next(iter(data))
        if key == "computes":
            return self.computes(part[key])
        if key == "one-of":
            values = part[key].value()
            if not is_tuple(values):
                raise part[key].error("it must be a list")
            return OneOf(values)
        if key == "same":
            return Same(part[key].value())
        return Bind(part[key].text()) if key == "bind" else Holds(self.registered(part[key]))

    def computes(self, part: JsonReader) -> Computes:
        part.fields("parameters", "output")
        parameters = tuple(parameter.integer(0, len(self.terms) - 1) for parameter in part.items("parameters"))
        if not all(isinstance(self.terms[parameter], ValueTerm) for parameter in parameters):
            raise part["parameters"].error("they must be values")
        return Computes(parameters, self.reference(part["output"], may_be_made=False))

    def reference(self, part: JsonReader, *, may_be_made: bool = True) -> Reference:
        if isinstance(part.data, dict):
            part.fields("term", "made", "result")
            if part.has("made") == part.has("term"):
                raise part.error("it must be a term or something made")
            is_made = part.has("made")
            number_part = part["made" if is_made else "term"]
            result = part["result"].integer(0, MAX_RESULTS) if part.has("result") else -1
        else:
            number_part, is_made, result = part, False, -1
        if is_made and not may_be_made:
            raise part.error("what is made cannot stand here")
        whole = self.makes if is_made else self.terms
        number = number_part.integer(0, len(whole) - 1)
        results = getattr(whole[number], "results", 1)
        if (result < 0) != (results == 1) or result >= results:
            raise part.error(f"it has {results} results" if results > 1 else "it has one result")
        return Reference(number, result, is_made)

    # Conditions and operations to make

    def condition(self, part: JsonReader) -> Condition:
        test = self.expression(part)
        return Condition(test, text_of(test, lambda term: self.terms[term].name or f"#{term}"))

    def expression(self, part: JsonReader, depth: int = 0, *, made: bool = False) -> Expression:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            raise part.error(f"the rule's expressions have more than {MAX_OPERATORS:,} operators")
        if depth > MAX_DEPTH:
            raise part.error(f"it is nested deeper than {MAX_DEPTH}")
        if not is_list(part.data):
            return Expression("known", part.value())
        operator, *arguments = part.data or [None]
        if not isinstance(operator, str):
            raise part.error("an expression is a list of an operator and its arguments")
        parts = [JsonReader(argument, f"{part.path}[{index}]") for index, argument in enumerate(arguments, 1)]
        least, most = ARITIES.get(operator, (-1, -1))
        if least < 0 or (operator == "made" and not made):
            raise part.error(f"no operator is called '{operator:.40}' here")
        if not least <= len(parts) <= (most if most is not None else MAX_TERMS):
            raise part.error(f"'{operator}' does not take {len(parts)} arguments")
        leaf = _LEAVES.get(operator)
        if leaf is not None:
            return leaf(self, parts)
        if operator == "call":
            self.registered(parts[0])
        if operator == "matches":
            return self.matching(parts[0], parts[1], depth)
        return Expression(operator, *[self.expression(argument, depth + 1, made=made) for argument in parts])

    def matching(self, value: JsonReader, pattern: JsonReader, depth: int) -> Expression:
        try:
            return self.expression(value, depth + 1).matches(pattern.text())
        except RuleError as error:
            raise pattern.error(error.message) from None

    def attribute_value(self, part: JsonReader) -> Expression:
        """The value of an attribute of a made operation: of made things, only results of native functions are values.
        """
        expression = self.expression(part, made=True)
        for leaf in expression.walk():
            if leaf.operator == "made" and not isinstance(self.makes[leaf.arguments[0]], MakeNative):
                raise part.error("an operation that the rule makes stands where a value is meant")
        return expression

    def known(self, parts: list[JsonReader]) -> Expression:
        return Expression("known", parts[0].value())

    def variable(self, parts: list[JsonReader]) -> Expression:
        return Expression("variable", parts[0].text())

    def node(self, parts: list[JsonReader]) -> Expression:
        return Expression("node", *self.term_and_result(parts))

    def feature(self, parts: list[JsonReader]) -> Expression:
        name = parts[2].text()
        is_attribute = name == "attribute" and len(parts) == 4
        if not is_attribute and (name not in FEATURES or len(parts) != 3):
            raise parts[2].error(f"a value has no '{name:.40}'", hint=f"it has {', '.join(sorted(FEATURES))}")
        return Expression("feature", *self.term_and_result(parts), name, *[part.text() for part in parts[3:]])

    def made(self, parts: list[JsonReader]) -> Expression:
        number = parts[0].integer(0, len(self.makes) - 1)
        results = getattr(self.makes[number], "results", 1)
        return Expression("made", number, parts[1].integer(-1, results - 1))

    def term_and_result(self, parts: list[JsonReader]) -> tuple[int, int]:
        term = parts[0].integer(0, len(self.terms) - 1)
        return term, parts[1].integer(-1, getattr(self.terms[term], "results", 1) - 1)

    def make(self, part: JsonReader) -> Make:
        if part.has("constant"):
            part.fields("constant", "type")
            return MakeConstant(self.expression(part["constant"]), self.type(part))
        results = part["results"].integer(1, MAX_RESULTS) if part.has("results") else 1
        if part.has("native"):
            part.fields("native", "arguments", "results")
            arguments = tuple(self.expression(argument, made=True) for argument in part.items("arguments"))
            return MakeNative(self.registered(part["native"]), arguments, results)
        part.fields("operation", "operands", "attributes", "type", "carry", "drop", "results")
        made = MakeOperation(
            part["operation"].text(),
            tuple(self.reference(operand) for operand in part.items("operands")),
            tuple((name, self.attribute_value(attribute)) for name, attribute in part.named("attributes")),
            self.type(part),
            self.carry(part["carry"]) if part.has("carry") else None,
            part.texts("drop"),
            results,
        )
        _at(part, check_made, made, self.makes, self.rows)
        return made

    def type(self, part: JsonReader) -> Expression | None:
        return self.expression(part["type"]) if part.has("type") else None

    def carry(self, part: JsonReader) -> int:
        term_index = part.integer(0, len(self.terms) - 1)
        if not isinstance(self.terms[term_index], OperationTerm):
            raise part.error("it must be an operation of the pattern")
        return term_index

    def replaced(self, part: JsonReader) -> tuple[Reference, Reference]:
        if not is_list(part.data) or len(part.data) != 2:
            raise part.error("it must be a pair: what is replaced, and what stands in its place")
        old, fresh = (JsonReader(reference, f"{part.path}[{index}]") for index, reference in enumerate(part.data))
        return self.reference(old, may_be_made=False), self.reference(fresh)


_LEAVES: dict[str, Callable[[RuleDecoder, list[JsonReader]], Expression]] = {
    "known": RuleDecoder.known,
    "variable": RuleDecoder.variable,
    "node": RuleDecoder.node,
    "feature": RuleDecoder.feature,
    "made": RuleDecoder.made,
}


def _at(part: JsonReader, check: Callable[..., None], *arguments: Any) -> None:
    """Run a check, and report where in the data it fails."""
    try:
        check(*arguments)
    except RuleError as error:
        raise part.error(error.message, hint=error.hint) from None


def _size(part: JsonReader) -> int | str | None:
    if part.data is None:
        return None
    return part.text() if isinstance(part.data, str) else part.integer(0, 1 << 62)


def _number(part: JsonReader) -> Any:
    value = part.value()
    number: object = value.item() if hasattr(value, "item") else value
    if not isinstance(number, (bool, int, float, complex)):
        raise part.error("it must be a number")
    return value


def _domain(part: JsonReader) -> dict[str, Any]:
    """The domain of the equivalence test."""
    domain: dict[str, Any] = {}
    for name, item in part.named("domain"):
        if name in ("values", "attributes"):
            domain[name] = {key: inside.value() for key, inside in part["domain"].named(name)}
        else:
            domain[name] = item.value()
    if domain:
        _at(part["domain"], check_domain, domain)
    return domain


def _origin(part: JsonReader) -> Origin | None:
    if not part.has("origin"):
        return None
    origin = part["origin"].value()
    file, line = origin if is_tuple(origin) and len(origin) == 2 else (None, None)
    if type(file) is not str or type(line) is not int:
        raise part["origin"].error("it must be a file and a line")
    return Origin(file, line)
