"""Requirements of rules: necessary conditions on a node and its operands.

Native rules state theirs; those of declared rules follow from their patterns. The index reads the facts of a node once,
as its signature, and caches which rules may match for each signature: so rules with a common root cost almost nothing,
like the shared predicates of MLIR's PDL interpreter (mlir/lib/Conversion/PDLToPDLInterp/PredicateTree.cpp). A
requirement must be weaker than the rule: if it does not hold, the rule would not have matched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hloom.ir import Constant, DType, DTypeKind, Literal, Node, TensorType
from hloom.rewrite.matchers import VALUE_PRESERVING
from hloom.rewrite.questions import Answers

Mark = str | tuple[str, Any]
"""What an operand is: its opcode, with the number for constants and broadcasts of constants."""
Signature = tuple[DType | None, bool, tuple[Mark, ...] | None]
"""A node's element type, whether it or an operand may be empty, and its operands' marks; None if there are many."""

MOST_OPERANDS = 8
"""The maximum number of operands to describe; nodes with more have no marks."""
_ARRAY, _OTHER, _UNKNOWN = "array", "other", "unknown"
"""A constant with several numbers, a number not in `_NAMED`, and an operand that may or may not be a number."""
_NAMED: dict[complex, int] = {0: 0, 1: 1, -1: -1}
"""The numbers that signatures distinguish; zeros of either sign are equal, and true is 1."""


def signature_of(node: Node) -> Signature:
    """The facts about a node that requirements ask for, read at once."""
    node_type = node.type
    if isinstance(node_type, TensorType):
        element, may_be_empty = node_type.dtype, 0 in node_type.dims
    else:
        element, may_be_empty = None, True
    inputs = node.operands
    if len(inputs) > MOST_OPERANDS:
        return element, True, None
    marks: list[Mark] = []
    for operand in inputs:
        opcode, operand_type = operand.opcode, operand.type
        if not isinstance(operand_type, TensorType) or 0 in operand_type.dims:
            may_be_empty = True
        if opcode == "constant":
            marks.append((opcode, _number_of(operand)))
        elif opcode == "broadcast" and operand.operands:
            below = operand.operands[0]
            if below.opcode == "constant":
                marks.append((opcode, _number_of(below)))
            else:
                marks.append((opcode, _UNKNOWN) if below.opcode in VALUE_PRESERVING else opcode)
        else:
            marks.append(opcode)
    return element, may_be_empty, tuple(marks)


def _number_of(constant: Node) -> Any:
    value = constant.value if isinstance(constant, Constant) else None
    if not isinstance(value, Literal):
        return _UNKNOWN
    number = value.number
    return _ARRAY if number is None else _NAMED.get(number, _OTHER)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition in words, and a test whether a signature permits it."""

    words: str
    admits: Callable[[Signature], bool]

    operand: int = -1
    """The operand that it is about, if a single one."""

    def __str__(self) -> str:
        return self.words

    def reason(self, signature: Signature) -> str:
        """Why it does not hold for a node with this signature."""
        marks = signature[2]
        is_known = marks is not None and 0 <= self.operand < len(marks)
        mark = marks[self.operand] if marks is not None and is_known else ""
        about, _, wanted = self.words.partition(" is ")
        return f"{about} is {mark if isinstance(mark, str) else mark[0]}, not {wanted}" if mark else f"not {self.words}"


def operand_is(at: int, *opcodes: str) -> Requirement:
    """The operand with this number has one of these opcodes."""
    return _of_operand(at, f"operand {at} is {' or '.join(opcodes)}", _has_opcode(opcodes))


def some_operand(*opcodes: str) -> Requirement:
    """Some operand has one of these opcodes."""
    return _of_some(f"an operand is {' or '.join(opcodes)}", _has_opcode(opcodes))


def all_operands(*opcodes: str) -> Requirement:
    """Every operand has one of these opcodes."""
    return _of_all(f"all operands are {' or '.join(opcodes)}", _has_opcode(opcodes))


def number_at(at: int, *numbers: complex) -> Requirement:
    """The operand with this number is a splat of one of these numbers, or of any number if none is given."""
    return _of_operand(at, f"operand {at} is {_listed(numbers)}", _is_number(numbers))


def some_number(*numbers: complex) -> Requirement:
    """Some operand is a splat of one of these numbers, or of any number if none is given."""
    return _of_some(f"an operand is {_listed(numbers)}", _is_number(numbers))


def all_numbers() -> Requirement:
    """Every operand is a splat."""
    return _of_all("all operands are numbers", _is_number(()))


def constant_at(at: int) -> Requirement:
    """The operand with this number is a constant or a broadcast of one."""
    return _of_operand(at, f"operand {at} is a constant", _is_constant)


def some_constant() -> Requirement:
    """Some operand is a constant or a broadcast of one."""
    return _of_some("an operand is a constant", _is_constant)


def integers() -> Requirement:
    """The result has an integer type."""
    return _of_element("it yields integers", lambda element: element.is_integer)


def integers_or_predicates() -> Requirement:
    """The result has an integer type or pred."""
    return _of_element(
        "it yields integers or pred", lambda element: element.is_integer or element.kind is DTypeKind.BOOLEAN
    )


def predicates() -> Requirement:
    """The result is pred."""
    return _of_element("it yields pred", lambda element: element.kind is DTypeKind.BOOLEAN)


def floats() -> Requirement:
    """The result has a float type."""
    return _of_element("it yields floats", lambda element: element.is_float)


def complex_numbers() -> Requirement:
    """The result has a complex type."""
    return _of_element("it yields complex numbers", lambda element: element.is_complex)


def inexact_numbers() -> Requirement:
    """The result has a float or complex type."""
    return _of_element("it yields floats or complex numbers", lambda element: element.is_float or element.is_complex)


def emptiness() -> Requirement:
    """The result or an operand has, or may have, no elements."""
    return Requirement("something has no elements", lambda signature: signature[1])


def either(*requirements: Requirement) -> Requirement:
    """At least one of these holds."""
    words = ", or ".join(requirement.words for requirement in requirements)
    return Requirement(words, lambda signature: any(part.admits(signature) for part in requirements))


def requirements_of(answers: Answers) -> tuple[Requirement, ...]:
    """A pattern's requirements on its root's operands: their opcodes, and splat values."""
    required: list[Requirement] = []
    for (subject, path, _), values in answers.items():
        if len(path) == 1 and subject == "opcode":
            required.append(operand_is(path[0], *values))
        elif len(path) == 1 and subject == "splat":
            required.append(number_at(path[0], *values))
    return tuple(required)


def _of_operand(at: int, words: str, holds: Callable[[Mark], bool]) -> Requirement:
    def admits(signature: Signature) -> bool:
        marks = signature[2]
        return marks is None or (at < len(marks) and holds(marks[at]))

    return Requirement(words, admits, at)


def _of_some(words: str, holds: Callable[[Mark], bool]) -> Requirement:
    return Requirement(words, lambda signature: signature[2] is None or any(map(holds, signature[2])))


def _of_all(words: str, holds: Callable[[Mark], bool]) -> Requirement:
    return Requirement(words, lambda signature: signature[2] is None or all(map(holds, signature[2])))


def _of_element(words: str, holds: Callable[[DType], bool]) -> Requirement:
    return Requirement(words, lambda signature: signature[0] is not None and holds(signature[0]))


def _has_opcode(opcodes: tuple[str, ...]) -> Callable[[Mark], bool]:
    """Whether a mark has one of these opcodes."""
    wanted = frozenset(opcodes)
    return lambda mark: (mark if isinstance(mark, str) else mark[0]) in wanted


def _is_number(numbers: tuple[complex, ...]) -> Callable[[Mark], bool]:
    wanted: set[Any] = {_NAMED.get(number, _OTHER) for number in numbers}

    def holds(mark: Mark) -> bool:
        if isinstance(mark, str):
            return mark in VALUE_PRESERVING and mark != "broadcast"
        number = mark[1]
        return number == _UNKNOWN or (number != _ARRAY and (not wanted or number in wanted))

    return holds


def _is_constant(mark: Mark) -> bool:
    return not isinstance(mark, str) and (mark[1] != _UNKNOWN or mark[0] == "constant")


def _listed(numbers: tuple[complex, ...]) -> str:
    return " or ".join(map(str, numbers)) if numbers else "a number"
