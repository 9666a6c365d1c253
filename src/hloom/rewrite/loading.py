"""From JSON data to rules, with the checks that a definition goes through; what it says is kept, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hloom.ir import Op
from hloom.ops import OPS
from hloom.rewrite.checks import check_made, check_operation, check_pattern
from hloom.rewrite.codecs import DEEPEST
from hloom.rewrite.declare import depth_of
from hloom.rewrite.domain import check_domain
from hloom.rewrite.expressions import ARITIES, FEATURES, Expression, text_of
from hloom.rewrite.parts import Part
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
from hloom.rewrite.rule import REGISTERED, Origin, Rule, RuleError

MOST_OPERATORS = 20_000
"""How many operators all expressions of one rule of a file may have."""
MOST_TERMS = 1_000
"""How many terms one rule of a file may have."""
MOST_RESULTS = 256


class Loader:
    """One rule being put together from data."""

    def __init__(self, rows: Mapping[str, Op]) -> None:
        self.rows = rows
        self.terms: list[Term] = []
        self.makes: list[Make] = []
        self.operators = 0

    def rule(self, part: Part) -> Rule:
        common = ("name", "benefit", "statement", "family", "domain", "cost", "origin")
        is_native = part.has("native")
        own = (
            ("native", "roots", "depth", "effects")
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

    def native(self, part: Part, name: str, options: dict[str, Any]) -> Rule:
        roots = part.texts("roots")
        for place, root in enumerate(roots):
            if root not in self.rows and root not in OPS:
                raise part["roots"].error(f"[{place}]: no op is called '{root}'")
        if not roots:
            raise part.error("it has no roots")
        depth = part["depth"].integer(1, 1_000) if part.has("depth") else 2
        function = self.registered(part["native"])
        return Rule(name, roots, native=function, depth=depth, effects=part.flag("effects"), **options)

    def registered(self, part: Part) -> str:
        name = part.text()
        if name not in REGISTERED:
            raise part.error(f"no native function named '{name:.80}' is registered", "import the module that does it")
        return name

    def pattern(self, part: Part) -> Pattern:
        inner = frozenset(each.integer(0, MOST_TERMS) for each in part.items("inner"))
        for each in part.items("terms"):
            self.terms.append(self.term(each))
        if any(place >= len(self.terms) for place in inner):
            raise part["inner"].error(f"there are only {len(self.terms)} terms")
        conditions = tuple(self.condition(each) for each in part.items("conditions"))
        for each in part.items("makes"):
            self.makes.append(self.make(each))
        replaced = tuple(self.replaced(each) for each in part.items("replaced"))
        found = Pattern(tuple(self.terms), conditions, tuple(self.makes), replaced, inner)
        check_pattern(found, set(), self.rows, values_may_be_unused=True)
        return found

    # Terms

    def term(self, part: Part) -> Term:
        return self.value(part) if part.has("value") else self.operation(part)

    def value(self, part: Part) -> ValueTerm:
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

    def operation(self, part: Part) -> OperationTerm:
        part.fields("operation", "opcodes", "operands", "attributes", "results", *OPERATION_FLAGS)
        opcodes = part.texts("opcodes")
        if not opcodes:
            raise part.error("it has no opcodes")
        term = OperationTerm(
            part["operation"].text(),
            opcodes,
            tuple(self.reference(each, may_be_made=False) for each in part.items("operands")),
            tuple((name, self.attribute(each)) for name, each in part.named("attributes")),
            part["results"].integer(1, MOST_RESULTS) if part.has("results") else 1,
            **{name: part.flag(name) for name in OPERATION_FLAGS},
        )
        if term.optional and not term.operands:
            raise part.error("it is optional, but has no operand to stand for it")
        _at(part, check_operation, term, self.terms, self.rows)
        return term

    def attribute(self, part: Part) -> Any:
        if part.data == "any":
            return Anything()
        if part.data == "absent":
            return Absent()
        part.fields("same", "bind", "one-of", "holds", "computes")
        if len(part.data) != 1:
            raise part.error("it must have one key")
        kind = next(iter(part.data))
        if kind == "computes":
            return self.computes(part[kind])
        if kind == "one-of":
            values = part[kind].value()
            if not isinstance(values, tuple):
                raise part[kind].error("it must be a list")
            return OneOf(values)
        if kind == "same":
            return Same(part[kind].value())
        return Bind(part[kind].text()) if kind == "bind" else Holds(self.registered(part[kind]))

    def computes(self, part: Part) -> Computes:
        part.fields("parameters", "output")
        parameters = tuple(each.integer(0, len(self.terms) - 1) for each in part.items("parameters"))
        if not all(isinstance(self.terms[each], ValueTerm) for each in parameters):
            raise part["parameters"].error("they must be values")
        return Computes(parameters, self.reference(part["output"], may_be_made=False))

    def reference(self, part: Part, *, may_be_made: bool = True) -> Reference:
        if isinstance(part.data, dict):
            part.fields("term", "made", "result")
            if part.has("made") == part.has("term"):
                raise part.error("it must be a term or something made")
            is_made = part.has("made")
            place = part["made" if is_made else "term"]
            result = part["result"].integer(0, MOST_RESULTS) if part.has("result") else -1
        else:
            place, is_made, result = part, False, -1
        if is_made and not may_be_made:
            raise part.error("what is made cannot stand here")
        whole = self.makes if is_made else self.terms
        number = place.integer(0, len(whole) - 1)
        results = getattr(whole[number], "results", 1)
        if (result < 0) != (results == 1) or result >= results:
            raise part.error(f"it has {results} results" if results > 1 else "it has one result")
        return Reference(number, result, is_made)

    # Conditions and what is made

    def condition(self, part: Part) -> Condition:
        test = self.expression(part)
        return Condition(test, text_of(test, lambda term: self.terms[term].name or f"#{term}"))

    def expression(self, part: Part, depth: int = 0, *, made: bool = False) -> Expression:
        self.operators += 1
        if self.operators > MOST_OPERATORS:
            raise part.error(f"the rule's expressions have more than {MOST_OPERATORS:,} operators")
        if depth > DEEPEST:
            raise part.error(f"it is nested deeper than {DEEPEST}")
        if not isinstance(part.data, list):
            return Expression("known", part.value())
        if not part.data or not isinstance(part.data[0], str):
            raise part.error("an expression is a list of an operator and its arguments")
        operator, *arguments = part.data
        parts = [Part(each, f"{part.path}[{place}]") for place, each in enumerate(arguments, 1)]
        least, most = ARITIES.get(operator, (-1, -1))
        if least < 0 or (operator == "made" and not made):
            raise part.error(f"no operator is called '{operator:.40}' here")
        if not least <= len(parts) <= (most if most is not None else MOST_TERMS):
            raise part.error(f"'{operator}' does not take {len(parts)} arguments")
        leaf = _LEAVES.get(operator)
        if leaf is not None:
            return leaf(self, parts)
        if operator == "call":
            self.registered(parts[0])
        return Expression(operator, *[self.expression(each, depth + 1, made=made) for each in parts])

    def attribute_value(self, part: Part) -> Expression:
        """What an attribute of a made operation is: of what was made, only what native functions gave is a value."""
        found = self.expression(part, made=True)
        for each in found.walk():
            if each.operator == "made" and not isinstance(self.makes[each.arguments[0]], MakeNative):
                raise part.error("an operation that the rule makes stands where a value is meant")
        return found

    def known(self, parts: list[Part]) -> Expression:
        return Expression("known", parts[0].value())

    def variable(self, parts: list[Part]) -> Expression:
        return Expression("variable", parts[0].text())

    def node(self, parts: list[Part]) -> Expression:
        return Expression("node", *self.place(parts))

    def feature(self, parts: list[Part]) -> Expression:
        name = parts[2].text()
        is_attribute = name == "attribute" and len(parts) == 4
        if not is_attribute and (name not in FEATURES or len(parts) != 3):
            raise parts[2].error(f"a value has no '{name:.40}'", hint=f"it has {', '.join(sorted(FEATURES))}")
        return Expression("feature", *self.place(parts), name, *[each.text() for each in parts[3:]])

    def made(self, parts: list[Part]) -> Expression:
        number = parts[0].integer(0, len(self.makes) - 1)
        results = getattr(self.makes[number], "results", 1)
        return Expression("made", number, parts[1].integer(-1, results - 1))

    def place(self, parts: list[Part]) -> tuple[int, int]:
        term = parts[0].integer(0, len(self.terms) - 1)
        return term, parts[1].integer(-1, getattr(self.terms[term], "results", 1) - 1)

    def make(self, part: Part) -> Make:
        if part.has("constant"):
            part.fields("constant", "type")
            return MakeConstant(self.expression(part["constant"]), self.type(part))
        results = part["results"].integer(1, MOST_RESULTS) if part.has("results") else 1
        if part.has("native"):
            part.fields("native", "arguments", "results")
            arguments = tuple(self.expression(each, made=True) for each in part.items("arguments"))
            return MakeNative(self.registered(part["native"]), arguments, results)
        part.fields("operation", "operands", "attributes", "type", "carry", "drop", "results")
        made = MakeOperation(
            part["operation"].text(),
            tuple(self.reference(each) for each in part.items("operands")),
            tuple((name, self.attribute_value(each)) for name, each in part.named("attributes")),
            self.type(part),
            self.carry(part["carry"]) if part.has("carry") else None,
            part.texts("drop"),
            results,
        )
        _at(part, check_made, made, self.makes, self.rows)
        return made

    def type(self, part: Part) -> Expression | None:
        return self.expression(part["type"]) if part.has("type") else None

    def carry(self, part: Part) -> int:
        found = part.integer(0, len(self.terms) - 1)
        if not isinstance(self.terms[found], OperationTerm):
            raise part.error("it must be an operation of the pattern")
        return found

    def replaced(self, part: Part) -> tuple[Reference, Reference]:
        if not isinstance(part.data, list) or len(part.data) != 2:
            raise part.error("it must be a pair: what is replaced, and what stands in its place")
        old, fresh = (Part(each, f"{part.path}[{place}]") for place, each in enumerate(part.data))
        return self.reference(old, may_be_made=False), self.reference(fresh)


_LEAVES: dict[str, Callable[[Loader, list[Part]], Expression]] = {
    "known": Loader.known,
    "variable": Loader.variable,
    "node": Loader.node,
    "feature": Loader.feature,
    "made": Loader.made,
}


def _at(part: Part, check: Callable[..., None], *arguments: Any) -> None:
    """Check, and say where in the data it is wrong."""
    try:
        check(*arguments)
    except RuleError as error:
        raise part.error(error.message, hint=error.hint) from None


def _size(part: Part) -> int | str | None:
    if part.data is None:
        return None
    return part.text() if isinstance(part.data, str) else part.integer(0, 1 << 62)


def _number(part: Part) -> Any:
    found = part.value()
    if not isinstance(getattr(found, "item", lambda: found)(), (bool, int, float, complex)):
        raise part.error("it must be a number")
    return found


def _domain(part: Part) -> dict[str, Any]:
    """The narrowing of the equivalence test."""
    found: dict[str, Any] = {}
    for name, each in part.named("domain"):
        if name in ("values", "attributes"):
            found[name] = {key: inside.value() for key, inside in part["domain"].named(name)}
        else:
            found[name] = each.value()
    if found:
        _at(part["domain"], check_domain, found)
    return found


def _origin(part: Part) -> Origin | None:
    if not part.has("origin"):
        return None
    found = part["origin"].value()
    if not (isinstance(found, tuple) and len(found) == 2 and type(found[0]) is str and type(found[1]) is int):
        raise part["origin"].error("it must be a file and a line")
    return Origin(*found)
