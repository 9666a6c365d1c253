"""Random programs in which the rules for tuples and barriers fire."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.passes.domains.shapes import array_text, element, entry, sizes


def element_of_tuple(random: Random) -> str:
    types = _types(random)
    which = random.randrange(len(types))
    return entry(*_parameters(types), f"t = {_tuple(types)} tuple({_names(types)})", _get(types, which, "g", "t"))


def tuple_of_elements(random: Random) -> str:
    types = _types(random)
    return entry(
        f"t = {_tuple(types)} parameter(0)",
        *(_get(types, number, f"x{number}", "t") for number in range(len(types))),
        f"u = {_tuple(types)} tuple({_names(types)})",
    )


def element_of_nested_tuple(random: Random) -> str:
    types = _types(random)
    which = random.randrange(len(types))
    return entry(
        *_parameters(types),
        f"t = {_tuple(types)} tuple({_names(types)})",
        f"u = ({_tuple(types)}, {types[0]}) tuple(t, x0)",
        f"v = {_tuple(types)} get-tuple-element(u), index=0",
        _get(types, which, "g", "v"),
    )


def barrier_of_unused(random: Random) -> str:
    types = [array_text("f32", sizes(random, 0, 2)) for _ in range(random.randint(2, 4))]
    used = random.randrange(len(types))
    negated = [f"n{number} = {item} negate(x{number})" for number, item in enumerate(types)]
    names = ", ".join(f"n{number}" for number in range(len(types)))
    return entry(
        *_parameters(types),
        *negated,
        f"t = {_tuple(types)} tuple({names})",
        f"b = {_tuple(types)} opt-barrier(t)",
        _get(types, used, "g", "b"),
        f"r = {types[used]} abs(g)",
    )


def _types(random: Random) -> list[str]:
    return [array_text(element(random), sizes(random, 0, 2)) for _ in range(random.randint(1, 4))]


def _parameters(types: list[str]) -> list[str]:
    return [f"x{number} = {item} parameter({number})" for number, item in enumerate(types)]


def _tuple(types: list[str]) -> str:
    return f"({', '.join(types)})"


def _names(types: list[str]) -> str:
    return ", ".join(f"x{number}" for number in range(len(types)))


def _get(types: list[str], which: int, made: str, operand: str) -> str:
    return f"{made} = {types[which]} get-tuple-element({operand}), index={which}"


WITHOUT_NUMBERS = {"dynamic-slice-of-static-pad": "nothing outside XLA's compiler runs PadToStatic and SliceToDynamic"}
"""Rules of which no program can be run, and why."""

DOMAINS: dict[str, Callable[[Random], str]] = {
    "element-of-tuple": element_of_tuple,
    "element-of-nested-tuple": element_of_nested_tuple,
    "tuple-of-elements": tuple_of_elements,
    "barrier-of-unused": barrier_of_unused,
}
