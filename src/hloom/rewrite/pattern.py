"""Declared rules as data: terms to match, conditions, operations to make, and the results that they replace.

Terms are listed in topological order, operands first, and referred to by index; a `Reference` is a term and, for an
operation with several results, the number of the result. Like MLIR's PDL
(mlir/include/mlir/Dialect/PDL/IR/PDLOps.td), restricted to one graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hloom.rewrite.expressions import Expression


@dataclass(frozen=True, slots=True)
class Reference:
    """A value: of a term of the pattern, or of something made; `result` is -1 for the only result."""

    term: int
    result: int = -1
    made: bool = False


@dataclass(frozen=True, slots=True)
class Same:
    """An attribute that must have this value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Bind:
    """An attribute whose value gets a name; a name that has a value already must have the same."""

    name: str


@dataclass(frozen=True, slots=True)
class Anything:
    """An attribute that may have any value, or none."""


@dataclass(frozen=True, slots=True)
class Absent:
    """An attribute that must not be given, or equal its default."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """An attribute that must have one of these values."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Holds:
    """An attribute of which a registered predicate must hold."""

    predicate: str


@dataclass(frozen=True, slots=True)
class Computes:
    """An attribute that is a graph: these parameters, in order, and what it yields of them."""

    parameters: tuple[int, ...]
    output: Reference


AttributeTerm = Same | Bind | Anything | Absent | OneOf | Holds | Computes

ANY = Anything()
"""As an attribute: whatever it is."""


@dataclass(frozen=True, slots=True)
class ValueTerm:
    """Any value: what is known of its type, and whether it must be a constant.

    `shape` has a number, a variable's name or None per dimension. `number` is the value that a constant has in every
    place. A `variadic` one stands for all remaining operands; an `optional` one for an operand that may be missing.
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
    """An operation: its opcode (or several), operands, and attributes; those left out must have their defaults.

    Used outside the match only if `shared`. An `optional` one may be missing: then its first operand stands for it.
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
"""What a value term says beside its name."""
OPERATION_FLAGS = ("shared", "commutative", "optional", "effects")
"""What an operation term says by true or false."""


@dataclass(frozen=True, slots=True)
class MakeOperation:
    """An operation to make. `carry` is the term whose carried attributes go over, but those in `drop`."""

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
    """What a registered function builds; it gets the builder and the arguments."""

    function: str
    arguments: tuple[Expression, ...]
    results: int = 1


Make = MakeOperation | MakeConstant | MakeNative


@dataclass(frozen=True, slots=True)
class Condition:
    """A clause that must hold, and how it reads."""

    test: Expression
    text: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A whole declared rule. `replaced` are results of operation terms, and what stands in their place."""

    terms: tuple[Term, ...]
    conditions: tuple[Condition, ...]
    makes: tuple[Make, ...]
    replaced: tuple[tuple[Reference, Reference], ...]
    inner: frozenset[int] = field(default=frozenset())

    @property
    def roots(self) -> tuple[int, ...]:
        """The terms whose results are replaced, each once; the last one made is the anchor and comes first."""
        return tuple(sorted({old.term for old, _ in self.replaced}, reverse=True))

    def operations(self) -> Iterator[tuple[int, OperationTerm]]:
        """The operation terms of the graph itself, with their numbers; those inside called graphs are left out."""
        for number, term in enumerate(self.terms):
            if isinstance(term, OperationTerm) and number not in self.inner:
                yield number, term

    def name_of(self, term: int) -> str:
        """How messages call a term."""
        return self.terms[term].name or f"#{term}"
