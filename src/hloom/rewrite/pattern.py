"""Declared rules as data: terms to match, conditions, operations to make, and the results they replace.

Terms are listed in topological order, operands first, and referred to by index; a `Reference` is a term and, for an
operation with several results, the number of the result. Similar to MLIR's PDL
(mlir/include/mlir/Dialect/PDL/IR/PDLOps.td), restricted to one graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hloom.rewrite.expressions import Expression


@dataclass(frozen=True, slots=True)
class Reference:
    """A value of a term or of something made; `result` is -1 for the only result."""

    term: int
    result: int = -1
    made: bool = False


@dataclass(frozen=True, slots=True)
class Same:
    """The attribute must have this value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Bind:
    """The attribute's value is bound to a variable; if that is bound already, the values must be equal."""

    name: str


@dataclass(frozen=True, slots=True)
class Anything:
    """The attribute may have any value, or be absent."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The attribute must be absent or equal its default."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """The attribute must have one of these values."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Holds:
    """The attribute must satisfy a registered predicate."""

    predicate: str


@dataclass(frozen=True, slots=True)
class Computes:
    """The attribute is a graph with these parameters, in order, and this result."""

    parameters: tuple[int, ...]
    output: Reference


AttributeTerm = Same | Bind | Anything | Absent | OneOf | Holds | Computes

ANY = Anything()
"""For an attribute: any value."""


@dataclass(frozen=True, slots=True)
class ValueTerm:
    """Any value, with constraints on its type and on whether it is a constant.

    `shape` has a number, a variable's name or None per dimension. `number` is the value in every element of a constant.
    A `variadic` term stands for all remaining operands; an `optional` one for an operand that may be missing.
    """

    name: str
    dtypes: tuple[str, ...] = ()
    rank: int | None = None
    shape: tuple[int | str | None, ...] | None = None
    is_constant: bool = False
    is_splat: bool = False
    number: Any = None
    optional: bool = False
    variadic: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it matches everything."""
        return self == ValueTerm(self.name)


@dataclass(frozen=True, slots=True)
class OperationTerm:
    """An operation: its opcode (or several), operands, and attributes; omitted ones must have their defaults.

    Only a `shared` one may be used outside the match. An `optional` one may be missing: then its first operand stands
    for it.
    """

    name: str
    opcodes: tuple[str, ...]
    operands: tuple[Reference, ...]
    attributes: tuple[tuple[str, AttributeTerm], ...] = ()
    results: int = 1
    shared: bool = False
    commutative: bool = False
    optional: bool = False
    effects: bool = False


Term = ValueTerm | OperationTerm

VALUE_FIELDS = ("dtypes", "rank", "shape", "is_constant", "is_splat", "number", "optional", "variadic")
"""The fields of a value term besides its name."""
OPERATION_FLAGS = ("shared", "commutative", "optional", "effects")
"""The boolean fields of an operation term."""


@dataclass(frozen=True, slots=True)
class MakeOperation:
    """An operation to make. `carry` is the term whose carried attributes are copied, except those in `drop`."""

    opcode: str
    operands: tuple[Reference, ...]
    attributes: tuple[tuple[str, Expression], ...] = ()
    type: Expression | None = None
    carry: int | None = None
    drop: tuple[str, ...] = ()
    results: int = 1
    name: str = ""


@dataclass(frozen=True, slots=True)
class MakeConstant:
    """A constant to make: a value, in every element of a type."""

    value: Expression
    type: Expression | None = None


@dataclass(frozen=True, slots=True)
class MakeNative:
    """A node to make by a registered function, which gets the builder and the arguments."""

    function: str
    arguments: tuple[Expression, ...]
    results: int = 1


Make = MakeOperation | MakeConstant | MakeNative


@dataclass(frozen=True, slots=True)
class Condition:
    """A clause that must hold, and its text."""

    test: Expression
    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A whole declared rule. `replaced` maps results of operation terms to their replacements."""

    terms: tuple[Term, ...]
    conditions: tuple[Condition, ...]
    makes: tuple[Make, ...]
    replaced: tuple[tuple[Reference, Reference], ...]
    inner: frozenset[int] = field(default=frozenset())

    @property
    def roots(self) -> tuple[int, ...]:
        """The terms whose results are replaced, each once; the last one declared is the anchor and comes first."""
        return tuple(sorted({old.term for old, _ in self.replaced}, reverse=True))

    def operations(self) -> Iterator[tuple[int, OperationTerm]]:
        """The operation terms of the graph itself, with their indices; excludes those inside called graphs."""
        for number, term in enumerate(self.terms):
            if isinstance(term, OperationTerm) and number not in self.inner:
                yield number, term

    def name_of(self, term: int) -> str:
        """The name of a term in messages."""
        return self.terms[term].name or f"#{term}"
