"""The language of queries, read into a list of steps in postfix order: `dot where bytes > 1MiB and scope ~ "mlp"`.

    query      = any { "where" any }
    any        = all { "or" all }
    all        = one { "and" one }
    one        = { "not" } ( "(" query ")" | near "(" query [ "," hops ] ")" | comparison | flag | opcode )
    near       = "near" | "uses" | "used_by" | "inside"
    comparison = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~" ) value
    value      = number [ unit ] | "text" | word | "[" dimensions "]"

Nothing of a query is executed, and nesting is bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from hloom.inspection.query.instructions import ALIASES, FIELDS, FieldKind
from hloom.ops import OPS
from hloom.text import Cursor, ParseError, RegularExpression, Source, compile_pattern

MOST_DEPTH = 64
"""How deep brackets may nest."""
MOST_CHARACTERS = 10_000
"""How long a query may be."""
MOST_HOPS = 1_000
NEIGHBOURS = ("near", "uses", "used_by", "inside")
KEYWORDS = frozenset(("and", "or", "not", "where", *NEIGHBOURS))
UNITS: dict[str, tuple[str, float]] = {
    "B": ("B", 1),
    **{f"{prefix}B": ("B", 1000**power) for power, prefix in enumerate("KMGTP", 1)},
    **{f"{prefix}iB": ("B", 1024**power) for power, prefix in enumerate("KMGTP", 1)},
    **{f"{prefix}F": ("F", 1000**power) for power, prefix in enumerate("KMGTP", 1)},
    **{prefix: ("", 1000**power) for power, prefix in enumerate("KMGTP", 1)},
    "s": ("s", 1),
    "ms": ("s", 1e-3),
    "us": ("s", 1e-6),
    "ns": ("s", 1e-9),
}
"""What a unit measures, and how much of it it is."""
_WORD = re.compile(r"[A-Za-z_*][\w*?.:/-]*+")
_NUMBER = re.compile(r"-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]{1,3})?")
_UNIT = re.compile(r"[A-Za-z]+")
_COMPARISON = re.compile(r"<=|>=|!=|!~|==|=|<|>|~")
_STRING = re.compile(r'"([^"]*+)"|\'([^\']*+)\'')
_DIMS = re.compile(r"\[([0-9*.,? ]*)\]")


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """A field, a sign, and a value: a number, a text, a pattern, or dimensions (None is any one, ... any number)."""

    field: str
    sign: str
    value: float | str | RegularExpression | tuple[object, ...]


@dataclass(frozen=True, slots=True)
class OpcodePattern:
    """The instructions of an opcode; `*` and `?` in it stand for any characters, and for any one."""

    pattern: RegularExpression


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The instructions within some hops of the previous step's result, in one of the relations NEIGHBOURS."""

    relation: str
    hops: int


Step = FieldComparison | OpcodePattern | Neighbours | str
"""A step of a query: a test, or what is made of the results before it: `and`, `or`, `not`."""


def parse_query(text: str, opcodes: frozenset[str] = frozenset()) -> list[Step]:
    """Read a query; `opcodes` are known beside HLO's. Raises ParseError at what is wrong."""
    cursor = Cursor(Source(text, "query"))
    if len(text) > MOST_CHARACTERS:
        raise cursor.error(f"a query has at most {MOST_CHARACTERS:,} characters, not {len(text):,}", 0)
    parser = _Parser(cursor, opcodes | OPS.keys() | {"parameter", "constant"})
    parser.query(0)
    if cursor.peek():
        raise cursor.error(f"expected 'and', 'or', 'where' or the end, found {cursor.next_token()}")
    return parser.steps


class _Parser:
    def __init__(self, cursor: Cursor, opcodes: frozenset[str]) -> None:
        self.cursor = cursor
        self.opcodes = opcodes
        self.steps: list[Step] = []

    def query(self, depth: int) -> None:
        if depth > MOST_DEPTH:
            raise self.cursor.error(f"brackets nest deeper than {MOST_DEPTH}")
        self._any(depth)
        while self._keyword("where"):
            self._any(depth)
            self.steps.append("and")

    def _any(self, depth: int) -> None:
        self._all(depth)
        while self._keyword("or"):
            self._all(depth)
            self.steps.append("or")

    def _all(self, depth: int) -> None:
        self._one(depth)
        while self._keyword("and"):
            self._one(depth)
            self.steps.append("and")

    def _one(self, depth: int) -> None:
        is_negated = False
        while self._keyword("not"):
            is_negated = not is_negated
        relation = next((name for name in NEIGHBOURS if self._keyword(name)), None)
        if relation is not None:
            self._neighbours(relation, depth)
        elif self.cursor.accept("("):
            self.query(depth + 1)
            self.cursor.expect(")")
        else:
            self._test()
        if is_negated:
            self.steps.append("not")

    def _neighbours(self, relation: str, depth: int) -> None:
        self.cursor.expect("(", f"after '{relation}'")
        self.query(depth + 1)
        hops = 1
        if relation != "inside" and self.cursor.accept(","):
            start = self.cursor.skip()
            digits = self.cursor.read(_NUMBER, "a number of hops")[0]
            if not digits.isdecimal() or len(digits) > 4 or not 1 <= int(digits) <= MOST_HOPS:
                raise self.cursor.error(f"a number of hops is 1 to {MOST_HOPS:,}, not {digits[:20]}", start)
            hops = int(digits)
        self.cursor.expect(")")
        self.steps.append(Neighbours(relation, hops))

    def _keyword(self, word: str) -> bool:
        match = self.cursor.match_ahead(_WORD)
        if match is None or match[0] != word:
            return False
        self.cursor.position = match.end()
        return True

    def _test(self) -> None:
        cursor = self.cursor
        start = cursor.skip()
        word = cursor.read(_WORD, "a field, an opcode or '('")[0]
        if word in KEYWORDS:
            raise cursor.error(f"expected a field, an opcode or '(', found '{word}'", start)
        name = ALIASES.get(word, word)
        if cursor.match_ahead(_COMPARISON):
            self._comparison(name, word, start)
        elif name in FIELDS and FIELDS[name].kind is FieldKind.FLAG:
            self.steps.append(FieldComparison(name, "=", 1.0))
        elif name in FIELDS:
            raise cursor.error(f"expected a comparison after '{word}', found {cursor.next_token()}")
        else:
            self._opcode(word, start)

    def _opcode(self, word: str, start: int) -> None:
        pattern = glob(word)
        if not any(map(pattern.search, self.opcodes)):
            names = [*self.opcodes, *(name for name, field in FIELDS.items() if field.kind is FieldKind.FLAG)]
            raise self._unknown(f"'{word}' is not an opcode", word, names, start)
        self.steps.append(OpcodePattern(pattern))

    def _comparison(self, name: str, word: str, start: int) -> None:
        if name not in FIELDS:
            raise self._unknown(f"no field is called '{word}'", word, [*FIELDS, *ALIASES], start)
        field = FIELDS[name]
        at = self.cursor.skip()
        sign = self.cursor.read(_COMPARISON, "a comparison")[0].replace("==", "=")
        signs = _SIGNS[field.kind]
        if sign not in signs:
            allowed = " ".join(signs) or "its name"
            raise self.cursor.error(f"'{word}' is a {field.kind.value}: compare it by {allowed}", at)
        self.steps.append(FieldComparison(name, sign, self._value(name, sign)))

    def _value(self, name: str, sign: str) -> float | str | RegularExpression | tuple[object, ...]:
        field = FIELDS[name]
        if field.kind is FieldKind.NUMBER:
            return self._number(name)
        if field.kind is FieldKind.SHAPE:
            return self._dims()
        start = self.cursor.skip()
        string = self.cursor.match(_STRING)
        if string is None:
            text, offset = self.cursor.read(_WORD, "a text")[0], start
        else:
            text, offset = string[1] if string[1] is not None else string[2], start + 1
        return compile_pattern(text, self.cursor.source, offset) if "~" in sign else text

    def _number(self, name: str) -> float:
        number = float(self.cursor.read(_NUMBER, "a number")[0])
        at = self.cursor.position
        match = _UNIT.match(self.cursor.text, self.cursor.skip())
        if match is None or match[0] in KEYWORDS:
            return number
        self.cursor.position = match.end()
        measured, factor = UNITS.get(match[0], (None, 0.0))
        expected = FIELDS[name].unit
        if measured is None or (measured and measured != expected):
            units = " ".join(unit for unit, (of, _) in UNITS.items() if of in (expected, ""))
            raise self.cursor.error(f"'{match[0]}' is not a unit of {name}", at, f"units: {units}")
        return number * factor

    def _dims(self) -> tuple[object, ...]:
        start = self.cursor.skip()
        parts = self.cursor.read(_DIMS, "dimensions such as [8,128] or [*,128]")[1].replace(" ", "").split(",")
        dims: list[object] = []
        for part in parts if parts != [""] else []:
            if part not in ("*", "...") and (not part.isdecimal() or len(part) > 18):
                raise self.cursor.error(f"'{part[:20]}' is not a dimension: a number, * or ...", start)
            dims.append(None if part == "*" else ... if part == "..." else int(part))
        if dims.count(...) > 1:
            raise self.cursor.error("'...' stands once at most", start)
        return tuple(dims)

    def _unknown(self, message: str, word: str, names: list[str], start: int) -> ParseError:
        near = get_close_matches(word, names, 3)
        return self.cursor.error(message, start, f"near: {', '.join(near)}" if near else f"fields: {' '.join(FIELDS)}")


def glob(word: str) -> RegularExpression:
    """The pattern of an opcode with `*` and `?`.

    >>> glob("all-*").search("all-reduce"), glob("all-*").search("dot")
    (True, False)
    """
    parts = (".*" if character == "*" else "." if character == "?" else re.escape(character) for character in word)
    return compile_pattern(f"^{''.join(parts)}$")


_SIGNS: dict[FieldKind, tuple[str, ...]] = {
    FieldKind.TEXT: ("=", "!=", "~", "!~"),
    FieldKind.NUMBER: ("=", "!=", "<", "<=", ">", ">="),
    FieldKind.FLAG: (),
    FieldKind.SHAPE: ("=", "!="),
}
