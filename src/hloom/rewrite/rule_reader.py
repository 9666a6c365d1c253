"""Reads one form of a rule as text into the session that declares a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hloom.ir import Op
from hloom.ops import OPS
from hloom.rewrite.declaration import Handle, PatternBuilder, ReplacementBuilder, one_of
from hloom.rewrite.expressions import Expression
from hloom.rewrite.pattern import ANY, Condition, OperationTerm, Pattern
from hloom.rewrite.rule_words import (
    BUILDS,
    COMPUTES,
    CONDITIONS,
    IN_ORDER,
    IS,
    OPERANDS,
    Asked,
    FormText,
    asked_of,
    number_of,
)


def read_form(form: FormText, rows: Mapping[str, Op] = OPS) -> Pattern:
    """A form as the data of a declared rule; raises RuleError for one that says nothing."""
    return _FormReader(form, rows).pattern()


class _FormReader:
    """The session, and the word that is read next."""

    def __init__(self, form: FormText, rows: Mapping[str, Op]) -> None:
        self.rows = rows
        self.words = form.words()
        self.problem = form.problem
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
        while self.at < len(self.words) and self.word() != "if":
            self.at += 1
        for asked in asked_of(self.words[self.at + 1 :]):
            self.condition(asked)
        self.at = start
        session.replacement = made = ReplacementBuilder(session)
        fresh = self.made(made, root)
        made.replace({root: fresh})
        return Pattern(tuple(session.terms), tuple(session.conditions), tuple(session.makes), tuple(session.replaced))

    # Words

    def word(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.words[at] if at < len(self.words) else ""

    def take(self) -> str:
        word = self.word()
        if not word:
            raise self.problem("something is missing at the end")
        self.at += 1
        return word

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
        value = number_of(self.word())
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

    def condition(self, asked: Asked) -> None:
        """One condition: on one or several names, or on the root."""
        if asked.is_joint:
            called = [self.value_of(word) for word in asked.subjects]
            self.where(Expression("holds", Expression("known", f"{IS}{asked.names[0]}"), *called), asked.words)
            return
        is_of_all = asked.subjects == (OPERANDS,)
        for subject in self.inner if is_of_all else [self.handle(name) for name in asked.subjects]:
            if asked.names == (IN_ORDER,):
                self.keep_order(subject.reference.term)
                continue
            test = self.test(asked.names[0], subject)
            for name in asked.names[1:]:
                test = test | self.test(name, subject)
            self.where(test, asked.words)

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
        if name not in CONDITIONS:
            raise self.problem(f"'{name}' is no condition")
        asked = Expression("holds", Expression("known", f"{IS}{name}"), subject.as_node())
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
        return made.native(f"{BUILDS}{function}", *arguments)

    def made_operation(self, made: ReplacementBuilder, opcode: str) -> Handle:
        """An operation to make: its numbers first, then its operands in order."""
        root, words = self.named["root"], list(self.words_here())
        beside = next((self.named[word] for _, word in words if word in self.named), root)
        like = root if opcode == "select" else beside
        numbers = ((at, number_of(word)) for at, word in words)
        constants = {at: made.constant(value, like=like) for at, value in numbers if value is not None}
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
        while level >= 0 and at < len(self.words) - 1:
            word = self.words[at]
            if not level and self.words[at - 1] in ("(", ",") and self.words[at + 1] in (")", ","):
                yield at, word
            level += (word == "(") - (word == ")")
            at += 1

    def argument(self, made: ReplacementBuilder, like: Handle) -> Any:
        """An argument of a builder: a value of the pattern or the replacement, a number, a variable, or an opcode."""
        word = self.word()
        if self.word(1) == "(":
            return self.made(made, like)
        number = self.number()
        if number is not None:
            return number
        self.take()
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
        return self.session.call(f"{COMPUTES}{word}", *arguments)
