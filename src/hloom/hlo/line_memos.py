"""What the short texts of lines were read as: types with opcodes, literals, attributes.

They repeat, within a module and from one to the next, so they are remembered for all modules.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple, TypeVar

from hloom.hlo.literal_reader import read_literal
from hloom.hlo.type_reader import read_type, simple_type
from hloom.ir import Attributes, Literal, Op, TensorType, Type
from hloom.ops import COMMON, OPS
from hloom.text import Cursor, HloomError, Source

MEMORABLE = 256
"""Texts longer than this are not remembered: they hardly repeat."""
MOST = 16_384
"""How many texts are remembered before all are forgotten."""
VARIADIC, LEAF = -1, -2
"""In place of an arity: of opcodes that take more than one number of operands, of parameters and constants."""
LEAF_ROW = Op("parameter or constant", attributes=COMMON)
"""What parameters and constants may carry."""

_ROWS = {**OPS, "parameter": LEAF_ROW, "constant": LEAF_ROW}
_Value = TypeVar("_Value")


class TypedOpcode(NamedTuple):
    """What a type and opcode were read as, as in `f32[2] add`, and what is remembered of lines that begin so."""

    type: Type
    row: Op
    attributes: dict[str, Attributes]
    arity: int
    literals: dict[str, Literal] | None
    """By the texts of constants of this type; None where the opcode is another."""


class LineMemos:
    """What was read so far, by text; attributes only where they refer to nothing in their module."""

    def __init__(self) -> None:
        self.typed_opcodes: dict[str, TypedOpcode] = {}
        self._attributes: defaultdict[Op, dict[str, Attributes]] = defaultdict(dict)
        self._types: dict[str, Type] = {}
        self._literals: list[dict[str, Literal]] = []
        self.count = 0

    def remember(self, memo: dict[str, _Value], text: str, value: _Value) -> None:
        """Keep what a text was read as, if it is short; when there are too many, begin anew."""
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
        """What `f32[2] add` says; None where that is not a plain type and known opcode."""
        type_text, _, opcode = text.rpartition(" ")
        row = _ROWS.get(opcode)
        type_ = None if row is None else self.read_type(type_text)
        if row is None or type_ is None:
            return None
        literals: dict[str, Literal] | None = None
        arity = LEAF
        if opcode == "constant":
            if any(isinstance(leaf, TensorType) and leaf.dynamic for leaf in type_.leaves()):
                return None  # the literal's type is another: see `static_type`
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
        """The type that a text is, all of it; None where it is none."""
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
        """The literal that a text is; one that leaves elements out is another each time."""
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
"""What was read in each mode: they do not take the same texts."""
