"""Rules as text: one line says what matches, what replaces it, and where that holds.

    multiply(negate(x), negate(y)) -> multiply(x, y)
    multiply(x, 1) -> x if integer or real
    subtract(x, subtract(x, y)) -> y; add(x, subtract(y, x)) -> y where integer
    f(x, g(x, y)) -> x for f/g in and/or, or/and

A name stands for one value, and for the same one wherever it stands; a number for a constant with it in every element;
`a|b(...)` for either op; `inner:op(...)` names an operation, and `root` is the outermost. The operands of commutative
ops match in either order. Attributes that a pattern does not name may have any value: `direction=LT|GT` asks for one
of these, `direction=d` binds it. Forms between semicolons are tried in turn, and those that `for` makes.

After `if` stand the conditions of one form, after `where` those of all, with commas between: `x and y are constant`,
`integer or predicate` (of the root), `operands are used once`, `less(x, y)`. `in order` keeps the operands of the root
where they are written, and `inner is in order` those of another commutative op.

In the replacement, `op(...)` makes an operation, a function that `register_builder` knows makes a value, and a number
makes a constant of the type of a value beside it, or, as in a select, of the root's. `type=x` gives what is made the
type of `x`. An attribute is a word, a number, a variable, or `NAME(a, ...)` of a function that `register_value` knows.

A text is compiled by the engine of declared rules, when a node that it may match is first seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hloom.ir import Apply, Node, Op
from hloom.ops import OPS
from hloom.rewrite.builder import Builder
from hloom.rewrite.declaration import Handle, PatternBuilder, ReplacementBuilder, one_of
from hloom.rewrite.expressions import Expression
from hloom.rewrite.match_variants import MatchVariant, variants_of
from hloom.rewrite.matchers import is_splat
from hloom.rewrite.pattern import ANY, Condition, OperationTerm, Pattern, ValueTerm
from hloom.rewrite.registry import Origin, RuleError, register, registered
from hloom.rewrite.requirements import Requirement, Signature, either, requirements_of
from hloom.rewrite.rule_compiler import Form, form_of

_TOKEN = re.compile(
    r"(?P<arrow>->)|(?P<number>-?\d+(?:\.\d+|e-?\d+)?\b|-?inf\b)|(?P<name>[A-Za-z_]\w*(?:-[A-Za-z]\w*)*)"
    r"|(?P<mark>\.\.\.|[(),=|:])|\s+|(?P<other>.)"
)
_NUMBER = re.compile(r"(-?\d+)|-?\d+\.\d+|-?\d+e-?\d+|-?inf")
_TRUTHS = {"true": True, "false": False}
_IS, _BUILDS, _COMPUTES = "is ", "builds ", "computes "
"""The prefixes of the registered names of conditions, builders, and functions of attributes."""


@dataclass(frozen=True, slots=True)
class Named:
    """A condition that texts may ask for: what follows from it for the root, and for an operand by its number."""

    of_root: Requirement | None = None
    of_operand: Callable[[int], Requirement] | None = None


_CONDITIONS: dict[str, Named] = {}


def register_condition(
    name: str,
    holds: Callable[..., Any],
    *,
    of_root: Requirement | None = None,
    of_operand: Callable[[int], Requirement] | None = None,
    of_users: bool = False,
) -> None:
    """Let texts say `x is NAME`, `NAME` of the root, or `NAME(x, y)`; raises RuleError if the name is taken.

    What the index may test before is derived from `of_root` and `of_operand`, which must be weaker. `of_users` is of
    conditions that depend on the users of a value.
    """
    register(f"{_IS}{name}", holds, of_users=of_users)
    _CONDITIONS[name] = Named(of_root, of_operand)


def register_builder(name: str, build: Callable[..., Any]) -> None:
    """Let replacements say `NAME(x, ...)`, for a function of a Builder and these arguments; raises RuleError if the
    name is taken.
    """
    register(f"{_BUILDS}{name}", build)


def register_value(name: str, compute: Callable[..., Any]) -> None:
    """Let attributes in replacements be `NAME(a, ...)`, for a function of values; raises RuleError if the name is
    taken.
    """
    register(f"{_COMPUTES}{name}", compute)


@dataclass(frozen=True, eq=False)
class RuleText:
    """One rule as text."""

    text: str
    rows: Mapping[str, Op] = field(default_factory=lambda: OPS, repr=False)

    @cached_property
    def _parts(self) -> tuple[list[str], str, list[dict[str, str]]]:
        """The forms, the conditions of all of them, and what each name of an op stands for, once or in turn."""
        body, _, turns = self.text.partition(" for ")
        body, _, where = body.partition(" where ")
        names, _, values = turns.partition(" in ")
        chosen = [dict(zip(names.split("/"), value.strip().split("/"), strict=True)) for value in values.split(",")]
        return body.split(";"), where, chosen if turns else [{}]

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The opcodes of nodes that it may match; nothing else is read of the text."""
        forms, _, chosen = self._parts
        words = [word.strip() for form in forms for word in form.partition("(")[0].split("|")]
        return tuple(dict.fromkeys(names.get(word, word) for names in chosen for word in words))

    @cached_property
    def depth(self) -> int:
        """The height of the highest pattern in operations."""
        heights = [1]
        for form in self._parts[0]:
            height = 0
            for character in form.partition("->")[0]:
                height += (character == "(") - (character == ")")
                heights.append(height)
        return max(heights)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Its forms as the data of declared rules, in order."""
        return self._patterns

    @cached_property
    def _patterns(self) -> tuple[Pattern, ...]:
        forms, where, chosen = self._parts
        return tuple(_FormReader(form, where, names, self.rows).pattern() for names in chosen for form in forms)

    @cached_property
    def variants(self) -> tuple[tuple[Pattern, MatchVariant], ...]:
        """The variants of all its forms, in the order in which they are tried: as the root is written, then swapped."""
        listed = [(pattern, variant) for pattern in self.patterns for variant in variants_of(pattern)]
        return tuple(sorted(listed, key=_is_swapped))

    @property
    def requirement(self) -> Requirement:
        """What the index may test of a node's signature: that of some variant holds."""
        return Requirement(self.text, self._admits)

    def _admits(self, signature: Signature) -> bool:
        return any(all(part.admits(signature) for part in parts) for parts in self._required)

    @cached_property
    def _required(self) -> list[tuple[Requirement, ...]]:
        """What each variant requires, the root's type first; each combination once."""
        required = [
            (*_asked(pattern, variant), *requirements_of(variant.answers)) for pattern, variant in self.variants
        ]
        return list({tuple(part.words for part in parts): parts for parts in required}.values())


Guard = Callable[[Node, tuple[Node, ...]], Any]
"""A necessary condition on a root and its operands."""


class _Candidate:
    """One variant of a form, whose match is compiled when its guards let a node pass for the first time."""

    __slots__ = ("_form", "_whole", "guards", "pattern", "rows", "variant")

    def __init__(self, pattern: Pattern, variant: MatchVariant, rows: Mapping[str, Op]) -> None:
        self.guards = tuple(_guards(pattern, variant))
        self.pattern, self.variant, self.rows = pattern, variant, rows
        self._form: Form | None = None
        self._whole: Form | None = None

    @property
    def form(self) -> Form:
        """What is left to match behind the guards."""
        if self._form is None:
            positions = _positions(self.pattern, self.variant)
            left = [one for one in self.pattern.conditions if _guard_of(one.test, positions) is None]
            self._form = form_of(replace(self.pattern, conditions=tuple(left)), self.variant, self.rows)
        return self._form

    @property
    def whole(self) -> Form:
        """All of the match, which says at what it ends."""
        if self._whole is None:
            self._whole = form_of(self.pattern, self.variant, self.rows)
        return self._whole


class TextRewrite:
    """The native function of a rule as text. Most attempts end at guards, which need no match; the match says why."""

    __slots__ = ("candidates", "origin", "text")

    def __init__(self, text: RuleText, origin: Origin) -> None:
        self.text, self.origin = text, origin
        self.candidates: dict[str, list[_Candidate]] = {}

    def __call__(self, build: Builder, node: Apply) -> Node | None:
        candidates = self.candidates.get(node.opcode)
        if candidates is None:
            candidates = self.candidates[node.opcode] = list(self._compiled(node.opcode))
        operands, furthest = node.operands, -1
        for candidate in candidates:
            for guard in candidate.guards:
                if not guard(node, operands) and not build.explains:
                    break
            else:
                form = candidate.whole if build.explains else candidate.form
                match = form.match_at(node)
                if match.furthest < 0:
                    made = form.make(build, match)
                    return None if made is None else made[node]
                if build.explains and match.furthest > furthest:
                    furthest, build.reason, build.culprit = match.furthest, match.reason, match.reported
        return None

    def _compiled(self, opcode: str) -> Iterator[_Candidate]:
        for pattern, variant in self.text.variants:
            anchor = pattern.terms[variant.anchor]
            if isinstance(anchor, OperationTerm) and opcode in anchor.opcodes:
                yield _Candidate(pattern, variant, self.text.rows)


class _FormReader:
    """Reads one form into the session that declares a rule."""

    def __init__(self, text: str, when: str, opcodes: Mapping[str, str], rows: Mapping[str, Op]) -> None:
        self.text, self.opcodes, self.rows = text, opcodes, rows
        self.tokens: list[tuple[str, str]] = []
        if when:
            text = f"{text}, {when}" if " if " in text else f"{text} if {when}"
        for token in _TOKEN.finditer(text):
            if token.lastgroup == "other":
                raise self.problem(f"'{token[0]}' means nothing here")
            if token.lastgroup is not None:
                self.tokens.append((token.lastgroup, token[0]))
        self.at = 0
        self.session = PatternBuilder(rows)
        self.named: dict[str, Handle] = {}
        self.inner: list[Handle] = []

    def pattern(self) -> Pattern:
        session = self.session
        root = self.named["root"] = self.operation("root")
        self.inner.remove(root)
        self.expect("->")
        start = self.at
        while self.at < len(self.tokens) and self.word() != "if":
            self.at += 1
        self.conditions()
        self.at = start
        session.replacement = made = ReplacementBuilder(session)
        fresh = self.made(made, root)
        made.replace({root: fresh})
        return Pattern(tuple(session.terms), tuple(session.conditions), tuple(session.makes), tuple(session.replaced))

    # Tokens

    def problem(self, message: str) -> RuleError:
        return RuleError(f"{message}: {self.text.strip()}")

    def word(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def take(self) -> str:
        word = self.word()
        self.at += 1
        return self.opcodes.get(word, word)

    def accept(self, word: str) -> bool:
        if self.word() != word:
            return False
        self.at += 1
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.problem(f"'{word}' is missing before '{self.word()}'")

    def number(self) -> Any:
        """The number that stands here; None if none does."""
        value = _number(self.word())
        self.at += value is not None
        return value

    # The pattern

    def operation(self, name: str = "") -> Handle:
        """An operation to match."""
        opcodes = [self.take()]
        while self.accept("|"):
            opcodes.append(self.take())
        self.expect("(")
        operands: list[Any] = []
        attributes: dict[str, Any] = {}
        while not self.accept(")"):
            if self.word(1) == "=":
                key = self.take()
                self.at += 1
                attributes[key] = self.attribute()
            else:
                operands.append(self.operand())
            self.accept(",")
        known = [row for row in (self.rows.get(opcode) or OPS.get(opcode) for opcode in opcodes) if row is not None]
        given = {key: ANY for row in known for key, own in row.attributes.items() if not own.carried} | attributes
        handle = self.session.op(opcodes, *operands, shared=name != "root", name=name or None, attributes=given)
        self.inner.append(handle)
        return handle

    def operand(self) -> Any:
        number = self.number()
        if number is not None:
            return self.session.constant("", number)
        if self.word(1) == ":":
            name = self.take()
            self.at += 1
            self.named[name] = self.operation(name)
            return self.named[name]
        if self.word(1) in ("(", "|"):
            return self.operation()
        name = self.take()
        if name not in self.named:
            rest = self.accept("...")
            self.named[name] = self.session.values(name) if rest else self.session.value(name)
        return self.named[name]

    def attribute(self) -> Any:
        """What an attribute must be: one of some words, a number, or what a variable holds."""
        number = self.number()
        if number is not None:
            return number
        words = [self.take()]
        while self.accept("|"):
            words.append(self.take())
        return self.session.attribute(words[0]) if words[0].islower() else one_of(*words)

    # The conditions

    def conditions(self) -> None:
        words: list[str] = []
        level = 0
        for word in [self.opcodes.get(word, word) for _, word in self.tokens[self.at + 1 :]] + [","]:
            level += (word == "(") - (word == ")")
            if word != "," or level:
                words.append(word)
            elif words:
                self.condition(words)
                words = []

    def condition(self, words: list[str]) -> None:
        """One condition: on one or several names, or on the root."""
        said = " ".join(words)
        if words[1:2] == ["("]:
            called = [self.value_of(word) for word in words[2:-1] if word != ","]
            self.where(Expression("holds", Expression("known", f"{_IS}{words[0]}"), *called), said)
            return
        verb = next((word for word in ("is", "are") if word in words), None)
        subjects = [self.named["root"]]
        if verb is not None:
            at = words.index(verb)
            names, words = [word for word in words[:at] if word != "and"], words[at + 1 :]
            subjects = self.inner if names == ["operands"] else [self.handle(name) for name in names]
        for subject in subjects:
            if words == ["in", "order"]:
                self.keep_order(subject.reference.term)
                continue
            parts = " ".join(words).split(" or ")
            test = self.test(parts[0], subject)
            for part in parts[1:]:
                test = test | self.test(part, subject)
            self.where(test, said)

    def keep_order(self, at: int) -> None:
        term = self.session.terms[at]
        if not isinstance(term, OperationTerm):
            raise self.problem(f"'{term.name}' has no operands")
        self.session.terms[at] = replace(term, commutative=False)

    def value_of(self, word: str) -> Expression:
        """What a condition is asked of: a value of the pattern, or what an attribute is bound to."""
        variable = self.session.variables.get(word)
        return self.handle(word).as_node() if variable is None else variable

    def test(self, words: str, subject: Handle) -> Expression:
        name = words.removeprefix("not ")
        if name not in _CONDITIONS:
            raise self.problem(f"'{name}' is no condition")
        asked = Expression("holds", Expression("known", f"{_IS}{name}"), subject.as_node())
        return asked if name == words else ~asked

    def where(self, test: Expression, said: str) -> None:
        self.session.conditions.append(Condition(test, f"true that {said}"))

    def handle(self, name: str) -> Handle:
        if name not in self.named:
            raise self.problem(f"'{name}' names nothing in the pattern")
        return self.named[name]

    # The replacement

    def made(self, made: ReplacementBuilder, like: Handle) -> Handle:
        """What stands here in the replacement; a number becomes a constant like a value."""
        number = self.number()
        if number is not None:
            return made.constant(number, like=like)
        if self.word(1) != "(":
            return self.handle(self.take())
        function = self.take()
        self.at += 1
        if (self.rows.get(function) or OPS.get(function)) is not None:
            return self.made_operation(made, function)
        arguments: list[Any] = []
        while not self.accept(")"):
            arguments.append(self.argument(made, like))
            self.accept(",")
        return made.native(f"{_BUILDS}{function}", *arguments)

    def made_operation(self, made: ReplacementBuilder, opcode: str) -> Handle:
        """An operation to make: its numbers first, then its operands in order."""
        root, words = self.named["root"], list(self.words_here())
        beside = next((self.named[word] for _, word in words if word in self.named), root)
        like = root if opcode == "select" else beside
        constants = {at: made.constant(value, like=like) for at, word in words if (value := _number(word)) is not None}
        operands: list[Handle] = []
        attributes: dict[str, Any] = {}
        result_type: Any = None
        while not self.accept(")"):
            if self.word(1) == "=":
                key = self.take()
                self.at += 1
                if key == "type":
                    result_type = self.handle(self.take()).type
                else:
                    attributes[key] = self.value()
            elif self.at in constants:
                operands.append(constants[self.at])
                self.at += 1
            else:
                operands.append(self.made(made, root))
            self.accept(",")
        return made.op(opcode, *operands, type=result_type, attributes=attributes)

    def words_here(self) -> Iterator[tuple[int, str]]:
        """The operands here that are one word each, with their positions."""
        level, at = 0, self.at
        while level >= 0:
            word = self.tokens[at][1]
            if not level and self.tokens[at - 1][1] in ("(", ",") and self.tokens[at + 1][1] in (")", ","):
                yield at, word
            level += (word == "(") - (word == ")")
            at += 1

    def argument(self, made: ReplacementBuilder, like: Handle) -> Any:
        """An argument of a builder: a value of the pattern or the replacement, a number, a variable, or an opcode."""
        word = self.opcodes.get(self.word(), self.word())
        if self.word(1) == "(":
            return self.made(made, like)
        number = self.number()
        if number is not None:
            return number
        self.at += 1
        return self.named.get(word) or self.session.variables.get(word, word)

    def value(self) -> Any:
        """The value of an attribute of what is made: a word, a number, a variable, or a function of them."""
        number = self.number()
        if number is not None:
            return number
        word = self.take()
        if not self.accept("("):
            return self.session.variables.get(word, word)
        arguments: list[Any] = []
        while not self.accept(")"):
            arguments.append(self.named[self.take()] if self.word() in self.named else self.value())
            self.accept(",")
        return self.session.call(f"{_COMPUTES}{word}", *arguments)


def _number(word: str) -> bool | int | float | None:
    """The number that a word is; None for any other word."""
    number = _NUMBER.fullmatch(word)
    if number is None:
        return _TRUTHS.get(word)
    return int(word) if number[1] else float(word)


def _is_swapped(form: tuple[Pattern, MatchVariant]) -> bool:
    pattern, variant = form
    root = pattern.terms[variant.anchor]
    return isinstance(root, OperationTerm) and variant.operands[variant.anchor] != root.operands


def _positions(pattern: Pattern, variant: MatchVariant) -> dict[int, int]:
    """Where the terms of a variant stand among the operands of the root; -1 for the root."""
    positions: dict[int, int] = {variant.anchor: -1}
    for position, operand in enumerate(variant.operands[variant.anchor]):
        term = pattern.terms[operand.term]
        if isinstance(term, ValueTerm) and term.variadic:
            break
        positions.setdefault(operand.term, position)
    return positions


def _guards(pattern: Pattern, variant: MatchVariant) -> Iterator[Guard]:
    positions = _positions(pattern, variant)
    for position, operand in enumerate(variant.operands[variant.anchor]):
        term, first = pattern.terms[operand.term], positions.get(operand.term)
        if first is None:
            break
        if first != position:
            yield _same_operand(first, position)
        elif isinstance(term, OperationTerm):
            yield _operand_of(position, frozenset(term.opcodes))
        elif term.number is not None:
            yield _operand_number(position, term.number)
    for condition in pattern.conditions:
        guard = _guard_of(condition.test, positions)
        if guard is not None:
            yield guard


def _same_operand(first: int, second: int) -> Guard:
    return lambda node, operands: operands[first] is operands[second]


def _operand_of(position: int, opcodes: frozenset[str]) -> Guard:
    return lambda node, operands: operands[position].opcode in opcodes


def _operand_number(position: int, value: complex) -> Guard:
    return lambda node, operands: is_splat(operands[position], value)


def _guard_of(test: Expression, positions: Mapping[int, int]) -> Guard | None:
    """A condition as a function of the root and its operands; None where it is of anything else."""
    if test.operator != "holds":
        parts = [_guard_of(argument, positions) for argument in test.arguments]
        if None in parts or test.operator not in ("or", "not"):
            return None
        first, last = parts[0], parts[-1]
        assert first is not None and last is not None
        if test.operator == "not":
            return lambda node, operands: not first(node, operands)
        return lambda node, operands: first(node, operands) or last(node, operands)
    name, *subjects = test.arguments
    asked: list[int] = []
    for subject in subjects:
        position = positions.get(subject.arguments[0]) if subject.operator == "node" else None
        if position is None:
            return None
        asked.append(position)
    holds, first = registered(name.arguments[0]), asked[0]
    if len(asked) > 1:
        return lambda node, operands: holds(*[node if position < 0 else operands[position] for position in asked])
    return (lambda node, operands: holds(node)) if first < 0 else (lambda node, operands: holds(operands[first]))


def _asked(pattern: Pattern, variant: MatchVariant) -> Iterator[Requirement]:
    """What the conditions of a variant require of the root and of its operands."""
    positions = _positions(pattern, variant)
    for condition in pattern.conditions:
        required = _required_by(condition.test, positions)
        if required is not None:
            yield required


def _required_by(test: Expression, positions: Mapping[int, int]) -> Requirement | None:
    if test.operator == "or":
        parts = [
            part for part in (_required_by(argument, positions) for argument in test.arguments) if part is not None
        ]
        return either(*parts) if len(parts) == len(test.arguments) else None
    if test.operator != "holds" or len(test.arguments) != 2:
        return None
    name, subject = test.arguments[0].arguments[0].removeprefix(_IS), test.arguments[1].arguments[0]
    position = positions.get(subject)
    if position is None:
        return None
    named = _CONDITIONS[name]
    if position < 0:
        return named.of_root
    return None if named.of_operand is None else named.of_operand(position)
