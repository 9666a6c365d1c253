"""Caches from short pieces of text to what they were parsed as: types with opcodes, literals, attributes.

Such texts repeat within and across modules, so the caches are shared by all modules.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple, TypeVar

from hloom.formats.hlo.literal_reader import read_literal
from hloom.formats.hlo.type_reader import read_type, simple_type
from hloom.ir import Attributes, Literal, Op, TensorType, Type
from hloom.ops import COMMON, OPS
from hloom.text import Cursor, HloomError, Source

MEMORABLE = 1024
"""Longer texts, in characters, are not cached: they rarely repeat. Configs of TPU programs repeat, at 600 or so."""
MOST = 16_384
"""The maximum number of cached texts; then the cache is cleared."""
VARIADIC, LEAF = -1, -2
"""In place of an arity: opcodes that accept several operand counts; parameters and constants."""
LEAF_ROW = Op("parameter or constant", attributes=COMMON)
"""The attributes that parameters and constants may carry."""

_ROWS = {**OPS, "parameter": LEAF_ROW, "constant": LEAF_ROW}
_Value = TypeVar("_Value")


class TypedOpcode(NamedTuple):
    """A parsed type and opcode, such as `f32[2] add`, with caches for lines that start with it."""

    type: Type
    row: Op
    attributes: dict[str, Attributes]
    arity: int
    literals: dict[str, Literal] | None
    """Literals of this type by their text; None unless the opcode is `constant`."""


class LineMemos:
    """Parsed values by text; attributes only if they refer to nothing in their module."""

    def __init__(self) -> None:
        self.typed_opcodes: dict[str, TypedOpcode] = {}
        self._attributes: defaultdict[Op, dict[str, Attributes]] = defaultdict(dict)
        self._types: dict[str, Type] = {}
        self._literals: list[dict[str, Literal]] = []
        self.count = 0

    def remember(self, memo: dict[str, _Value], text: str, value: _Value) -> None:
        """Cache a parsed text if it is short; clears the cache when it is full."""
        if len(text) >= MEMORABLE:
            return
        if self.count >= MOST:
            self._forget()
        self.count += 1
        memo[text] = value

    def _forget(self) -> None:
        for memo in (self.typed_opcodes, self._types, *self._attributes.values(), *self._literals):
            memo.clear()
        self._literals.clear()
        self.count = 0

    def read_typed_opcode(self, text: str) -> TypedOpcode | None:
        """Parse `f32[2] add`; None unless it is a plain type and a known opcode."""
        type_text, _, opcode = text.rpartition(" ")
        row = _ROWS.get(opcode)
        type_ = None if row is None else self.read_type(type_text)
        if row is None or type_ is None:
            return None
        literals: dict[str, Literal] | None = None
        arity = LEAF
        if opcode == "constant":
            if any(isinstance(leaf, TensorType) and leaf.dynamic for leaf in type_.leaves()):
                return None  # the literal's type differs: see `static_type`
            literals = {}
        elif row is not LEAF_ROW:
            least, most = row.arity
            arity = least if least == most else VARIADIC
        typed = TypedOpcode(type_, row, self._attributes[row], arity, literals)
        self.remember(self.typed_opcodes, text, typed)
        if literals is not None and text in self.typed_opcodes:
            self._literals.append(literals)
        return typed

    def read_type(self, text: str) -> Type | None:
        """The type that the whole text denotes; None if it is not a type."""
        known = self._types.get(text) or simple_type(text)
        if known is not None:
            return known
        cursor = Cursor(Source(text))
        try:
            type_ = read_type(cursor)
        except HloomError:
            return None
        if cursor.peek():
            return None
        self.remember(self._types, text, type_)
        return type_

    def read_literal(self, type_: Type, text: str, literals: dict[str, Literal]) -> Literal | None:
        """The literal that a text denotes; elided literals are not shared."""
        cursor = Cursor(Source(text))
        try:
            literal = read_literal(cursor, type_)
        except HloomError:
            return None
        if cursor.peek():
            return None
        if not literal.is_elided:
            self.remember(literals, text, literal)
        return literal


TOLERANT, STRICT = LineMemos(), LineMemos()
"""The caches of each mode: the modes accept different texts."""
