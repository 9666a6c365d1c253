"""Random programs in which the rules for tuples and barriers fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.domains.shaping import element, entry, kind, sizes


def element_of_tuple(random: Random) -> str:
    kinds = _kinds(random)
    which = random.randrange(len(kinds))
    return entry(
        *_parameters(kinds), f"t = {_tuple(kinds)} tuple({_names(kinds)})", _get(kinds, which, "g", "t")
    )


def tuple_of_elements(random: Random) -> str:
    kinds = _kinds(random)
    return entry(
        f"t = {_tuple(kinds)} parameter(0)",
        *(_get(kinds, number, f"x{number}", "t") for number in range(len(kinds))),
        f"u = {_tuple(kinds)} tuple({_names(kinds)})",
    )


def barrier_of_unused(random: Random) -> str:
    kinds = [kind("f32", sizes(random, 0, 2)) for _ in range(random.randint(2, 4))]
    used = random.randrange(len(kinds))
    negated = [f"n{number} = {each} negate(x{number})" for number, each in enumerate(kinds)]
    names = ", ".join(f"n{number}" for number in range(len(kinds)))
    return entry(
        *_parameters(kinds),
        *negated,
        f"t = {_tuple(kinds)} tuple({names})",
        f"b = {_tuple(kinds)} opt-barrier(t)",
        _get(kinds, used, "g", "b"),
        f"r = {kinds[used]} abs(g)",
    )


def _kinds(random: Random) -> list[str]:
    return [kind(element(random), sizes(random, 0, 2)) for _ in range(random.randint(1, 4))]


def _parameters(kinds: list[str]) -> list[str]:
    return [f"x{number} = {each} parameter({number})" for number, each in enumerate(kinds)]


def _tuple(kinds: list[str]) -> str:
    return f"({', '.join(kinds)})"


def _names(kinds: list[str]) -> str:
    return ", ".join(f"x{number}" for number in range(len(kinds)))


def _get(kinds: list[str], which: int, made: str, operand: str) -> str:
    return f"{made} = {kinds[which]} get-tuple-element({operand}), index={which}"


WITHOUT_NUMBERS = {"dynamic-slice-of-static-pad": "nothing outside XLA's compiler runs PadToStatic and SliceToDynamic"}
"""Rules of which no program can be run, and why."""

DOMAINS: dict[str, Callable[[Random], str]] = {
    "element-of-tuple": element_of_tuple,
    "tuple-of-elements": tuple_of_elements,
    "barrier-of-unused": barrier_of_unused,
}
