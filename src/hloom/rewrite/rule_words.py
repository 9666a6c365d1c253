"""The words of rules as text: what a form is cut into, what its conditions ask, and the names that texts may use."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hloom.rewrite.registry import RuleError, register
from hloom.rewrite.requirements import Requirement

_WORD = re.compile(r"->|-?\d+(?:\.\d+|e-?\d+)?\b|-?inf\b|[A-Za-z_]\w*(?:-[A-Za-z]\w*)*|\.\.\.|\S")
_SIGNS = frozenset(string.punctuation) - frozenset("(),=|:_")
"""What means nothing on its own."""
_NUMBER = re.compile(r"(-?\d+)|-?\d+\.\d+|-?\d+e-?\d+|-?inf")
_TRUTHS = {"true": True, "false": False}
IS, BUILDS, COMPUTES = "is ", "builds ", "computes "
"""The prefixes of the registered names of conditions, builders, and functions of attributes."""
IN_ORDER = "in order"
"""What a condition says of a commutative operation whose operands match only as they are written."""
OPERANDS = "operands"
"""The subject of a condition on all operations below the root."""


@dataclass(frozen=True, slots=True)
class Named:
    """A condition that texts may ask for: what follows from it for the root, and for an operand by its number."""

    of_root: Requirement | None = None
    of_operand: Callable[[int], Requirement] | None = None


CONDITIONS: dict[str, Named] = {}
"""The conditions that texts may name."""


def register_condition(
    name: str,
    holds: Callable[..., Any],
    *,
    of_root: Requirement | None = None,
    of_operand: Callable[[int], Requirement] | None = None,
    of_users: bool = False,
) -> None:
    """Let texts say `x is NAME`, `NAME` of the root, or `NAME(x, y)`; raises RuleError if the name is taken.

    What the index may test before is derived from `of_root` and `of_operand`, which must be weaker. `of_users` is of
    conditions that depend on the users of a value.
    """
    register(f"{IS}{name}", holds, of_users=of_users)
    CONDITIONS[name] = Named(of_root, of_operand)


def register_builder(name: str, build: Callable[..., Any]) -> None:
    """Let replacements say `NAME(x, ...)`, for a function of a Builder and these arguments; raises RuleError if the
    name is taken.
    """
    register(f"{BUILDS}{name}", build)


def register_value(name: str, compute: Callable[..., Any]) -> None:
    """Let attributes in replacements be `NAME(a, ...)`, for a function of values; raises RuleError if the name is
    taken.
    """
    register(f"{COMPUTES}{name}", compute)


@dataclass(frozen=True, slots=True)
class FormText:
    """One form of a rule as text, the conditions of all its forms, and what names of ops stand for."""

    text: str
    where: str
    opcodes: Mapping[str, str]

    def words(self) -> list[str]:
        """The words in order, with opcodes in place of their names; raises RuleError for a sign without a meaning."""
        text = self.text
        if self.where:
            text = f"{text}, {self.where}" if " if " in text else f"{text} if {self.where}"
        words = _WORD.findall(text)
        if not _SIGNS.isdisjoint(words) or not text.isascii():
            wrong = next(word for word in words if word in _SIGNS or not word.isascii())
            raise self.problem(f"'{wrong}' means nothing here")
        return [self.opcodes.get(word, word) for word in words] if self.opcodes else words

    def problem(self, message: str) -> RuleError:
        """An error about the form."""
        return RuleError(f"{message}: {self.text.strip()}")


class Asked(NamedTuple):
    """One condition as it is written: its subjects by name, and the names of conditions one of which must hold.

    A name may begin with `not `. A joint condition is one function of all its subjects; another is asked of each.
    """

    words: str
    subjects: tuple[str, ...]
    names: tuple[str, ...]
    is_joint: bool = False


def asked_of(words: Sequence[str]) -> Iterator[Asked]:
    """The conditions among the words after `if`."""
    said: list[str] = []
    level = 0
    for word in (*words, ","):
        level += (word == "(") - (word == ")")
        if word != "," or level:
            said.append(word)
        elif said:
            yield _asked(said)
            said = []


def _asked(said: list[str]) -> Asked:
    text = " ".join(said)
    if said[1:2] == ["("]:
        return Asked(text, tuple(word for word in said[2:-1] if word != ","), (said[0],), is_joint=True)
    verb = next((word for word in ("is", "are") if word in said), None)
    if verb is None:
        return Asked(text, ("root",), tuple(text.split(" or ")))
    at = said.index(verb)
    names = " ".join(said[at + 1 :]).split(" or ")
    return Asked(text, tuple([word for word in said[:at] if word != "and"]), tuple(names))


def number_of(word: str) -> bool | int | float | None:
    """The number that a word is; None for any other word."""
    number = _NUMBER.fullmatch(word)
    if number is None:
        return _TRUTHS.get(word)
    return int(word) if number[1] else float(word)
