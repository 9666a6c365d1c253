"""The heads of rules as text: the root of a form, its operands, and the conditions that are of these alone.

Most attempts of a rule end there. A head is read from the words of a form at a tenth of the cost of its pattern, which
is read only when a node passes the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hloom.ir import Node
from hloom.rewrite.declaration import COMMUTATIVE
from hloom.rewrite.matchers import is_splat
from hloom.rewrite.registry import registered
from hloom.rewrite.requirements import Requirement, either, number_at, operand_is
from hloom.rewrite.rule_words import CONDITIONS, IN_ORDER, IS, OPERANDS, Asked, FormText, asked_of, number_of

ROOT = -1
"""The position of the root, where those of its operands count from 0."""

Guard = Callable[[Node, tuple[Node, ...]], Any]
"""A necessary condition on a root and its operands."""
Positions = Mapping[str, int]
"""Where the names of a form stand: at the root, or among its operands."""


class Operand(NamedTuple):
    """An operand of the root: an operation with one of some opcodes, a number, or whatever a name stands for.

    `below` are the names that stand right below an operation, with their positions; None where these may change.
    """

    opcodes: tuple[str, ...] = ()
    number: complex | None = None
    name: str = ""
    is_rest: bool = False
    below: tuple[tuple[str, int | None], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The root of a form with its operands in one order; `form` is the number of the form.

    `admits` says whether a node with one of the opcodes `roots` may match; `requires` is what of that a signature says.
    """

    form: int
    roots: tuple[str, ...]
    is_swapped: bool
    admits: Guard
    requires: tuple[Requirement, ...]


def heads_of(form: FormText, number: int) -> list[Head]:
    """The heads of a form: as it is written, and with the operands of a commutative root swapped."""
    words = form.words()
    arrow = words.index("->") if "->" in words else 0
    reader = _HeadReader([*words[:arrow], ""])
    asked = list(asked_of(words[words.index("if", arrow) + 1 :])) if "if" in words[arrow:] else []
    heads = [_head(reader, reader.operands, asked, number, is_swapped=False)]
    if reader.may_swap(asked):
        heads.append(_head(reader, reader.operands[::-1], asked, number, is_swapped=True))
    return heads


def positions_of(operands: Sequence[Operand]) -> Positions:
    """Where names stand; nothing is known of what follows any number of operands."""
    positions: dict[str, int] = {"root": ROOT}
    for position, operand in enumerate(operands):
        if operand.is_rest:
            break
        if operand.name:
            positions.setdefault(operand.name, position)
    return positions


class _HeadReader:
    """Reads the pattern of a form as far as its root's operands, and counts what stands below."""

    def __init__(self, words: list[str]) -> None:
        self.words, self.at = words, 0
        self.uses: dict[str, int] = {}
        self.variables: set[str] = set()
        self.roots = self.opcodes()
        self.operands: list[Operand] = []
        while words[self.at] != ")":
            if words[self.at] == ",":
                self.at += 1
            elif words[self.at + 1] == "=":
                self.at += 2
                self.attribute()
            else:
                self.operands.append(self.operand())

    def opcodes(self) -> tuple[str, ...]:
        """The opcodes of an operation, up to its operands."""
        end = self.words.index("(", self.at)
        opcodes = tuple(word for word in self.words[self.at : end] if word != "|")
        self.at = end + 1
        return opcodes

    def attribute(self) -> None:
        """The words of an attribute, of which only variables matter."""
        word = self.words[self.at]
        if word[:1].islower() and number_of(word) is None:
            self.variables.add(word)
        while self.words[self.at] not in (",", ")"):
            self.at += 1

    def operand(self) -> Operand:
        word, following = self.words[self.at], self.words[self.at + 1]
        number = number_of(word)
        if number is not None:
            self.at += 1
            return Operand(number=number)
        name = ""
        if following == ":":
            name = word
            self.at += 2
            following = self.words[self.at + 1]
        if following in ("(", "|"):
            opcodes = self.opcodes()
            return Operand(opcodes, name=name, below=self.below(opcodes[0] in COMMUTATIVE))
        self.at += 1
        self.uses[word] = self.uses.get(word, 0) + 1
        is_rest = following == "..."
        self.at += is_rest
        return Operand(name=word, is_rest=is_rest)

    def below(self, is_commutative: bool) -> tuple[tuple[str, int | None], ...]:
        """Pass the operands of an operation below the root, and count the names in them; those right below it."""
        names: list[tuple[str, int | None]] = []
        level, position = 1, 0
        while level:
            word, following = self.words[self.at], self.words[self.at + 1]
            if following == "=":
                self.at += 2
                self.attribute()
                continue
            level += (word == "(") - (word == ")")
            position += level == 1 and word == ","
            is_commutative = is_commutative or word == "..."
            if word not in _MARKS and following not in _AFTER_OPS:
                self.uses[word] = self.uses.get(word, 0) + 1
                if level == 1 and following != "...":
                    names.append((word, None if is_commutative else position))
            self.at += 1
        return tuple(names)

    def may_swap(self, asked: Sequence[Asked]) -> bool:
        """Whether the root's operands may also match in the other order, and that makes a difference."""
        if len(self.operands) != 2 or self.roots[0] not in COMMUTATIVE:
            return False
        if any(one.names == (IN_ORDER,) and one.subjects == ("root",) for one in asked):
            return False
        first, second = self.operands
        if first.name and first.name == second.name:
            return False
        named = {subject for one in asked if one.names != (IN_ORDER,) for subject in one.subjects} - self.variables
        return not all(
            one.name and not one.opcodes and not one.is_rest and self.uses[one.name] == 1 and one.name not in named
            for one in self.operands
        )


_MARKS = frozenset("(),|:=") | {"..."}
_AFTER_OPS = frozenset("(|:")
"""What follows an opcode, or the name of an operation."""


def _head(
    reader: _HeadReader, operands: Sequence[Operand], asked: Sequence[Asked], number: int, *, is_swapped: bool
) -> Head:
    tests, required = _of_operands(operands)
    requires: list[Requirement] = []
    positions = positions_of(operands)
    below = {name: (at, position) for at in reversed(range(len(operands))) for name, position in operands[at].below}
    for one in asked:
        if one.names == (IN_ORDER,):
            continue
        if one.is_joint:
            known = [positions[name] for name in one.subjects if name in positions and name not in reader.variables]
            if len(known) == len(one.subjects):
                tests.append(_joint(registered(f"{IS}{one.names[0]}"), known))
            continue
        for position in _asked_at(one, operands, positions):
            tests.append(_at(position, _test(one)))
            part = _required(one, position)
            if part is not None:
                requires.append(part)
        for name in one.subjects:
            if name in below and name not in positions:
                guard = _below(*below[name], one)
                if guard is not None:
                    tests.append(guard)
    return Head(number, reader.roots, is_swapped, _all(tests), (*requires, *required))


def _of_operands(operands: Sequence[Operand]) -> tuple[list[Guard], list[Requirement]]:
    """What operands must be, as tests and as requirements of the signature."""
    tests: list[Guard] = []
    required: list[Requirement] = []
    positions = positions_of(operands)
    for position, operand in enumerate(operands):
        if operand.is_rest:
            break
        if operand.opcodes:
            tests.append(_operand_opcode(position, frozenset(operand.opcodes)))
            required.append(operand_is(position, *operand.opcodes))
        elif operand.number is not None:
            tests.append(_operand_number(position, operand.number))
            required.append(number_at(position, operand.number))
        elif positions[operand.name] != position:
            first = positions[operand.name]
            tests.append(_same_operand(first, position))
            if operands[first].opcodes:
                required.append(operand_is(position, *operands[first].opcodes))
    return tests, required


def _asked_at(asked: Asked, operands: Sequence[Operand], positions: Positions) -> Iterator[int]:
    """Where the subjects of a condition stand that are the root or its operands."""
    if asked.subjects == (OPERANDS,):
        yield from (position for position, operand in enumerate(operands) if operand.opcodes)
        return
    for name in asked.subjects:
        if name in positions:
            yield positions[name]


def _test(asked: Asked) -> Callable[[Node], Any]:
    """A condition on one node."""
    parts = [_named(name) for name in asked.names]
    if len(parts) == 1:
        return parts[0]
    if len(parts) == 2:
        first, second = parts
        return lambda node: first(node) or second(node)
    return lambda node: any(part(node) for part in parts)


def _named(name: str) -> Callable[[Node], Any]:
    holds = registered(f"{IS}{name.removeprefix('not ')}")
    return (lambda node: not holds(node)) if name.startswith("not ") else holds


def _all(tests: Sequence[Guard]) -> Guard:
    """One test for several, with as few calls as possible: it runs at every attempt."""
    if not tests:
        return lambda node, operands: True
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        first, second = tests
        return lambda node, operands: first(node, operands) and second(node, operands)

    first, second, *rest = tests
    last = _all(rest)
    return lambda node, operands: first(node, operands) and second(node, operands) and last(node, operands)


def _at(position: int, holds: Callable[[Node], Any]) -> Guard:
    """A condition on the node at a position."""
    if position == ROOT:
        return lambda node, operands: holds(node)
    return lambda node, operands: holds(operands[position])


def _below(operand: int, position: int | None, asked: Asked) -> Guard | None:
    """A necessary condition for one on an operand's operand; None if it would say little."""
    holds = _test(asked)
    if position is None:
        if any(name.startswith("not ") for name in asked.names):
            return None
        return lambda node, operands: any(map(holds, operands[operand].operands))

    def admits(node: Node, operands: tuple[Node, ...]) -> bool:
        below = operands[operand].operands
        return position < len(below) and holds(below[position])

    return admits


def _joint(holds: Callable[..., Any], positions: list[int]) -> Guard:
    """A condition on several nodes at once."""
    if len(positions) == 2 and ROOT in positions:
        other = max(positions)
        if positions[0] == ROOT:
            return lambda node, operands: holds(node, operands[other])
        return lambda node, operands: holds(operands[other], node)
    return lambda node, operands: holds(*[node if position == ROOT else operands[position] for position in positions])


def _operand_opcode(position: int, opcodes: frozenset[str]) -> Guard:
    return lambda node, operands: operands[position].opcode in opcodes


def _same_operand(first: int, second: int) -> Guard:
    return lambda node, operands: operands[first] is operands[second]


def _operand_number(position: int, value: complex) -> Guard:
    return lambda node, operands: is_splat(operands[position], value)


def _required(asked: Asked, position: int) -> Requirement | None:
    """What a condition on the node at a position requires of the signature."""
    parts: list[Requirement] = []
    for name in asked.names:
        named = CONDITIONS.get(name)
        if named is None:
            return None
        part = named.of_root if position == ROOT else None if named.of_operand is None else named.of_operand(position)
        if part is None:
            return None
        parts.append(part)
    return parts[0] if len(parts) == 1 else either(*parts)
