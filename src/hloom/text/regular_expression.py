"""Regular expressions that run in time linear in the text, so that an untrusted pattern cannot hang a search.

A pattern is compiled to a nondeterministic automaton (Thompson, Regular Expression Search Algorithm, 1968); the
deterministic states, which are sets of its states, are built lazily while reading. Groups do not capture; there are no
back-references and no look-around.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hloom.text.source import ParseError, Source

MOST_CHARACTERS = 500
"""The maximum length of a pattern, in characters."""
MOST_STATES = 2_000
"""The maximum number of states of its automaton: counted repetitions copy states."""
MOST_SETS = 2_000
"""The maximum number of cached state sets; after that the cache is cleared."""
MOST_DEPTH = 50
"""The maximum nesting depth of groups."""
_CLASSES = {"d": r"[0-9]", "w": r"[A-Za-z0-9_]", "s": r"[ \t\r\n\f\v]"}
_COUNTS = re.compile(r"\{(?:([0-9]{1,9})|([0-9]{0,9}),([0-9]{0,9}))\}")
_SPECIAL = frozenset("\\.[](){}*+?|^$")


@dataclass(frozen=True, slots=True)
class CharacterSet:
    """Characters that are in one of several ranges, or in none of them."""

    ranges: tuple[tuple[str, str], ...]
    is_negated: bool = False

    def __contains__(self, character: str) -> bool:
        return any(first <= character <= last for first, last in self.ranges) is not self.is_negated


ANY = CharacterSet((), is_negated=True)
START, END, EMPTY = "^", "$", ""
"""Edges that read no character: at the text's start, at its end, anywhere."""


@dataclass(slots=True)
class RegularExpression:
    """A regular expression that may match anywhere in a text; made by `compile_pattern`.

    >>> compile_pattern("layer_[0-9]+/(mlp|attention)").search("jit(f)/layer_12/mlp/dot")
    True
    """

    text: str
    start: int
    accept: int
    edges: list[list[tuple[str | CharacterSet, int]]]
    literal: str | None = None
    _sets: dict[tuple[frozenset[int], str], frozenset[int]] = field(default_factory=dict)

    def search(self, text: str) -> bool:
        """Whether the pattern matches a part of the text."""
        if self.literal is not None:
            return self.literal in text
        states = self._closure({self.start}, is_start=True)
        later = self._closure({self.start}, is_start=False)
        for character in text:
            if self.accept in states:
                return True
            following = self._sets.get((states, character))
            if following is None:
                following = self._step(states, character) | later
                if len(self._sets) >= MOST_SETS:
                    self._sets.clear()
                self._sets[states, character] = following
            states = following
        return self.accept in self._closure(set(states), is_start=not text, is_end=True)

    def _step(self, states: frozenset[int], character: str) -> frozenset[int]:
        reached = {
            target
            for state in states
            for label, target in self.edges[state]
            if isinstance(label, CharacterSet) and character in label
        }
        return self._closure(reached, is_start=False)

    def _closure(self, states: set[int], *, is_start: bool, is_end: bool = False) -> frozenset[int]:
        """The states, and those reachable through edges that consume no character."""
        pending = list(states)
        while pending:
            for label, target in self.edges[pending.pop()]:
                is_open = label == EMPTY or (label == START and is_start) or (label == END and is_end)
                if is_open and target not in states:
                    states.add(target)
                    pending.append(target)
        return frozenset(states)


def compile_pattern(text: str, source: Source | None = None, offset: int = 0) -> RegularExpression:
    """Compile a regular expression; raises ParseError at its position after `offset` in the source it is part of."""
    reader = _PatternReader(text, source or Source(text, "pattern"), offset)
    if len(text) > MOST_CHARACTERS:
        raise reader.error(f"a pattern has at most {MOST_CHARACTERS} characters, not {len(text):,}")
    start, accept = reader.alternatives()
    if reader.position < len(text):
        raise reader.error("unmatched ')'")
    literal = text if not any(character in _SPECIAL for character in text) else None
    return RegularExpression(text, start, accept, reader.edges, literal)


Fragment = tuple[int, int]
"""A part of an automaton: its first and its last state."""


@dataclass(slots=True)
class _PatternReader:
    text: str
    source: Source
    offset: int
    position: int = 0
    depth: int = 0
    edges: list[list[tuple[str | CharacterSet, int]]] = field(default_factory=list)

    def error(self, message: str) -> ParseError:
        return ParseError(message, self.source.location(self.offset + self.position))

    def alternatives(self) -> Fragment:
        branches = [self._sequence()]
        while self._accept("|"):
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        start, end = self._state(), self._state()
        for first, last in branches:
            self.edges[start].append((EMPTY, first))
            self.edges[last].append((EMPTY, end))
        return start, end

    def _sequence(self) -> Fragment:
        start = end = self._state()
        while self.position < len(self.text) and self.text[self.position] not in "|)":
            first, last = self._repeated()
            self.edges[end].append((EMPTY, first))
            end = last
        return start, end

    def _repeated(self) -> Fragment:
        begin = self.position
        states = len(self.edges)
        fragment = self._atom()
        size = len(self.edges) - states
        least_most = self._counts()
        if least_most is None:
            return fragment
        least, most = least_most
        copies = [fragment, *(self._copy(states, size, fragment) for _ in range(max(least, most or 0, 1) - 1))]
        if self.position < len(self.text) and self.text[self.position] in "*+?{":
            if self.text[self.position] != "?":
                raise self.error("a repetition of a repetition: put the first into brackets")
            self.position += 1  # lazy and greedy repetition match the same texts
        assert begin <= self.position
        return self._chained(copies, least, most)

    def _chained(self, copies: list[Fragment], least: int, most: int | None) -> Fragment:
        """Copies in sequence; those beyond `least` are optional, and the last repeats if `most` is None."""
        start = self._state()
        end = self._state()
        state = start
        for number, (first, last) in enumerate(copies):
            if number >= least:
                self.edges[state].append((EMPTY, end))
            if most is None and number == len(copies) - 1:
                self.edges[last].append((EMPTY, first))
            if most != 0:
                self.edges[state].append((EMPTY, first))
            state = last
        self.edges[state].append((EMPTY, end))
        return (start, end) if most != 0 else self._nothing(start, end)

    def _nothing(self, start: int, end: int) -> Fragment:
        self.edges[start] = [(EMPTY, end)]
        return start, end

    def _counts(self) -> tuple[int, int | None] | None:
        """The minimum and maximum repetitions of the preceding item; None if there is no quantifier."""
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._accept(sign):
                return counts
        match = _COUNTS.match(self.text, self.position)
        if match is None:
            return None
        least = int(match[1] or match[2] or 0)
        most = least if match[1] else int(match[3]) if match[3] else None
        if most is not None and most < least:
            raise self.error(f"a repetition of {least} to {most} times")
        self.position = match.end()
        return least, most

    def _copy(self, first_state: int, size: int, fragment: Fragment) -> Fragment:
        moved = len(self.edges) - first_state
        for state in range(first_state, first_state + size):
            self._state()
            self.edges[state + moved] = [(label, target + moved) for label, target in self.edges[state]]
        return fragment[0] + moved, fragment[1] + moved

    def _atom(self) -> Fragment:
        if self._accept("("):
            return self._group()
        character = self.text[self.position]
        if character in "*+?":
            raise self.error(f"'{character}' repeats nothing")
        self.position += 1
        if character in "^$":
            return self._edge(character)
        if character == ".":
            return self._edge(ANY)
        if character == "[":
            return self._edge(self._set())
        if character == "\\":
            return self._edge(self._escape())
        return self._edge(CharacterSet(((character, character),)))

    def _group(self) -> Fragment:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise self.error(f"groups nest deeper than {MOST_DEPTH}")
        if self._accept("?") and not self._accept(":"):
            raise self.error("only (...) and (?:...) are groups here")
        fragment = self.alternatives()
        if not self._accept(")"):
            raise self.error("expected ')'")
        self.depth -= 1
        return fragment

    def _escape(self) -> CharacterSet:
        if self.position >= len(self.text):
            raise self.error("nothing follows '\\'")
        character = self.text[self.position]
        if character.lower() in _CLASSES:
            self.position += 1
            return CharacterSet(tuple(_ranges(_CLASSES[character.lower()])), character.isupper())
        if character.isalnum():
            raise self.error(f"'\\{character}' is not known here")
        self.position += 1
        return CharacterSet(((character, character),))

    def _set(self) -> CharacterSet:
        is_negated = self._accept("^")
        ranges: list[tuple[str, str]] = []
        is_first = True
        while is_first or not self._accept("]"):
            if self.position >= len(self.text):
                raise self.error("expected ']'")
            first = self._member(ranges)
            if first and self.text[self.position : self.position + 1] == "-" and not self._ends_set():
                self.position += 1
                last = self._member(ranges)
                if not last or last < first:
                    raise self.error("a range from a greater to a smaller character")
                first, end = first, last
                ranges.append((first, end))
            elif first:
                ranges.append((first, first))
            is_first = False
        return CharacterSet(tuple(ranges), is_negated)

    def _ends_set(self) -> bool:
        return self.text[self.position + 1 : self.position + 2] in ("]", "")

    def _member(self, ranges: list[tuple[str, str]]) -> str:
        """One character of a set; a class such as `\\d` goes into the ranges, and the empty string is given."""
        character = self.text[self.position]
        self.position += 1
        if character != "\\":
            return character
        escaped = self._escape()
        if escaped.is_negated:
            raise self.error("a negated class in a set")
        if len(escaped.ranges) == 1 and escaped.ranges[0][0] == escaped.ranges[0][1]:
            return escaped.ranges[0][0]
        ranges.extend(escaped.ranges)
        return ""

    def _accept(self, literal: str) -> bool:
        if not self.text.startswith(literal, self.position):
            return False
        self.position += len(literal)
        return True

    def _state(self) -> int:
        if len(self.edges) >= MOST_STATES:
            raise self.error(f"a pattern of more than {MOST_STATES:,} states: its repetitions are too large")
        self.edges.append([])
        return len(self.edges) - 1

    def _edge(self, label: str | CharacterSet) -> Fragment:
        start, end = self._state(), self._state()
        self.edges[start].append((label, end))
        return start, end


def _ranges(text: str) -> Iterator[tuple[str, str]]:
    """The ranges of a set that is written without escapes: `[A-Za-z0-9_]`."""
    inner = text[1:-1]
    position = 0
    while position < len(inner):
        is_range = inner[position + 1 : position + 2] == "-"
        yield inner[position], inner[position + 2] if is_range else inner[position]
        position += 3 if is_range else 1
