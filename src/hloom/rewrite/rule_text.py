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

A text is compiled by the engine of declared rules, when a node first passes its head (`rule_head`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from hloom.ir import Apply, Node, Op
from hloom.ops import OPS
from hloom.rewrite.builder import Builder
from hloom.rewrite.expressions import Expression
from hloom.rewrite.match_variants import MatchVariant, variants_of
from hloom.rewrite.pattern import OperationTerm, Pattern, ValueTerm
from hloom.rewrite.registry import Origin, RuleError
from hloom.rewrite.requirements import Requirement, Signature
from hloom.rewrite.rule import NativeRewrite
from hloom.rewrite.rule_compiler import Form, form_of
from hloom.rewrite.rule_head import Head, heads_of
from hloom.rewrite.rule_reader import read_form
from hloom.rewrite.rule_words import FormText


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
    def _forms(self) -> list[FormText]:
        forms, where, chosen = self._parts
        return [FormText(form, where, names) for names in chosen for form in forms]

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The opcodes of nodes that it may match; nothing else is read of the text."""
        forms, _, chosen = self._parts
        words = [word.strip() for form in forms for word in form.partition("(")[0].split("|")]
        return tuple(dict.fromkeys(names.get(word, word) for names in chosen for word in words))

    @cached_property
    def depth(self) -> int:
        """The height of the highest pattern in operations."""
        highest = 1
        for form in self._parts[0]:
            height = 0
            for part in form.partition("->")[0].split("(")[1:]:
                height += 1
                highest = max(highest, height)
                height -= part.count(")")
        return highest

    @cached_property
    def heads(self) -> list[Head]:
        """The heads of all its forms, in the order in which they are tried: as the root is written, then swapped."""
        try:
            heads = [head for number, form in enumerate(self._forms) for head in heads_of(form, number)]
        except (RuleError, LookupError, ValueError):
            _ = self.patterns  # says what is wrong
            raise
        return sorted(heads, key=lambda head: head.is_swapped)

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """Its forms as the data of declared rules, in order."""
        return tuple(pattern for pattern, _ in map(self.form, range(len(self._forms))))

    def form(self, number: int) -> tuple[Pattern, list[MatchVariant]]:
        """A form as the data of a declared rule, and its variants; read once."""
        if number not in self._read:
            pattern = read_form(self._forms[number], self.rows)
            self._read[number] = pattern, variants_of(pattern)
        return self._read[number]

    def attempt(self, opcode: str) -> NativeRewrite:
        """The function that tries it at nodes with an opcode."""
        if opcode not in self._attempts:
            self._attempts[opcode] = _attempt_of(self, opcode)
        return self._attempts[opcode]

    @cached_property
    def _attempts(self) -> dict[str, NativeRewrite]:
        return {}

    @cached_property
    def _read(self) -> dict[int, tuple[Pattern, list[MatchVariant]]]:
        return {}

    @property
    def requirement(self) -> Requirement:
        """What the index may test of a node's signature: that of some head holds."""
        return Requirement(self.text, self._admits)

    def _admits(self, signature: Signature) -> bool:
        for parts in self._required:
            for part in parts:
                if not part.admits(signature):
                    break
            else:
                return True
        return False

    @cached_property
    def _required(self) -> list[tuple[Requirement, ...]]:
        """What each head requires, the root's type first; each combination once."""
        return list({tuple([part.words for part in head.requires]): head.requires for head in self.heads}.values())


class _Candidate:
    """A head, and the variants of its form in the same order, which are compiled when a node passes the head."""

    __slots__ = ("_forms", "_text", "_whole", "admits", "head")

    def __init__(self, text: RuleText, head: Head) -> None:
        self.head, self.admits, self._text = head, head.admits, text
        self._forms: list[Form] | None = None
        self._whole: list[Form] | None = None

    @property
    def forms(self) -> list[Form]:
        """What is left to match behind the head."""
        if self._forms is None:
            self._forms = [
                form_of(_behind_head(pattern, variant), variant, self._text.rows) for pattern, variant in self._variants
            ]
        return self._forms

    @property
    def whole(self) -> list[Form]:
        """All of the match, which says at what it ends."""
        if self._whole is None:
            self._whole = [form_of(pattern, variant, self._text.rows) for pattern, variant in self._variants]
        return self._whole

    @property
    def _variants(self) -> Iterator[tuple[Pattern, MatchVariant]]:
        pattern, variants = self._text.form(self.head.form)
        return ((pattern, variant) for variant in variants if _is_swapped(pattern, variant) == self.head.is_swapped)


class TextRewrite:
    """The native function of a rule as text, which is registered under its name."""

    __slots__ = ("origin", "text")

    def __init__(self, text: RuleText, origin: Origin) -> None:
        self.text, self.origin = text, origin

    def __call__(self, build: Builder, node: Apply) -> Node | None:
        return self.text.attempt(node.opcode)(build, node)


def _attempt_of(text: RuleText, opcode: str) -> NativeRewrite:
    """Tries a rule at nodes with an opcode. Most attempts end at heads, which need no match; the match says why."""
    candidates: list[_Candidate] | None = None

    def attempt(build: Builder, node: Apply) -> Node | None:
        nonlocal candidates
        if candidates is None:
            candidates = [_Candidate(text, head) for head in text.heads if opcode in head.roots]
        if build.explains:
            return _explained(candidates, build, node)
        operands = node.operands
        for candidate in candidates:
            if candidate.admits(node, operands):
                for form in candidate.forms:
                    match = form.match_at(node)
                    if match.furthest < 0:
                        made = form.make(build, match)
                        return None if made is None else made[node]
        return None

    return attempt


def _explained(candidates: list[_Candidate], build: Builder, node: Apply) -> Node | None:
    """The same with the whole match of every variant; the builder gets the reason of the one that got furthest."""
    furthest = -1
    for candidate in candidates:
        for form in candidate.whole:
            match = form.match_at(node)
            if match.furthest < 0:
                made = form.make(build, match)
                return None if made is None else made[node]
            if match.furthest > furthest:
                furthest, build.reason, build.culprit = match.furthest, match.reason, match.reported
    return None


def _is_swapped(pattern: Pattern, variant: MatchVariant) -> bool:
    root = pattern.terms[variant.anchor]
    return isinstance(root, OperationTerm) and variant.operands[variant.anchor] != root.operands


def _behind_head(pattern: Pattern, variant: MatchVariant) -> Pattern:
    """The pattern without the conditions that its head tests."""
    seen = {variant.anchor}
    for operand in variant.operands[variant.anchor]:
        term = pattern.terms[operand.term]
        if isinstance(term, ValueTerm) and term.variadic:
            break
        seen.add(operand.term)
    left = [condition for condition in pattern.conditions if not _is_of(condition.test, seen)]
    return replace(pattern, conditions=tuple(left))


def _is_of(test: Expression, terms: set[int]) -> bool:
    """Whether a condition is about these terms alone."""
    if test.operator != "holds":
        return all(_is_of(argument, terms) for argument in test.arguments)
    return all(subject.operator == "node" and subject.arguments[0] in terms for subject in test.arguments[1:])
