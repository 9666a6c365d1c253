"""The form of a rule: a linearization by opcode, a transposition by linear opcode, or the reason why there is none.

`rules("sine", ...)` sets a linearization down: from an instruction and the tangents of its operands, the tangent of its
result, in linear ops. `transposition("slice", ...)` says how a linear op hands a cotangent on. `expansion("map", ...)`
says an op by others, which are differentiated in its place. `none("floor", because=...)` says that an op has no
derivative, or that its derivative is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Linearization = Callable[..., Any]
"""(linear ops, instruction, tangents of its operands) -> tangent: None where it is zero."""

Expansion = Callable[[Any, Any], Any]
"""(session, instruction) -> a graph of its operands that computes the same; None where the rule covers it."""


@dataclass(frozen=True, slots=True)
class DerivativeRule:
    """How an opcode is differentiated.

    One of: `linearize`; `expand`, which yields a graph that computes the same by other ops; `structural`, for what the
    engine itself follows (tuples, calls, loops); or `because`, why there is no derivative. `is_zero` tells a zero
    derivative from a missing one.
    """

    linearize: Linearization | None = None
    expand: Expansion | None = None
    structural: bool = False
    because: str = ""
    is_zero: bool = False


RULES: dict[str, DerivativeRule] = {}
"""The rule of every opcode; the family files fill it."""

TRANSPOSITIONS: dict[str, Callable[..., None]] = {}
"""How each linear op hands the cotangent of its result to its linear operands."""

ABSORPTIONS: dict[str, Callable[[Any, Any, bool], bool]] = {}
"""Which masks of its cotangent a linear op's transposition makes superfluous: (linear value, predicate, holds)."""


def rules(opcodes: str, *, expand: Expansion | None = None) -> Callable[[Linearization], Linearization]:
    """Set down the linearization of some opcodes, and how those that it does not cover are said by other ops."""

    def declare(function: Linearization) -> Linearization:
        for opcode in opcodes.split():
            _set(opcode, DerivativeRule(linearize=function, expand=expand))
        return function

    return declare


def expansion(opcodes: str) -> Callable[[Expansion], Expansion]:
    """Set down how some opcodes are said by others."""

    def declare(function: Expansion) -> Expansion:
        for opcode in opcodes.split():
            _set(opcode, DerivativeRule(expand=function))
        return function

    return declare


def structural(opcodes: str) -> None:
    """Set down that the engine itself follows these opcodes."""
    for opcode in opcodes.split():
        _set(opcode, DerivativeRule(structural=True))


def zero(opcodes: str, *, because: str) -> None:
    """Set down that the derivative of some opcodes is zero everywhere."""
    for opcode in opcodes.split():
        _set(opcode, DerivativeRule(because=because, is_zero=True))


def none(opcodes: str, *, because: str) -> None:
    """Set down that some opcodes cannot be differentiated."""
    for opcode in opcodes.split():
        _set(opcode, DerivativeRule(because=because))


def transposition(opcodes: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Set down how some linear ops are transposed: (backward pass, linear value, cotangent) -> None."""

    def declare(function: Callable[..., None]) -> Callable[..., None]:
        for opcode in opcodes.split():
            if opcode in TRANSPOSITIONS:
                raise ValueError(f"{opcode} has a transposition already")
            TRANSPOSITIONS[opcode] = function
        return function

    return declare


def absorption(opcode: str) -> Callable[[Callable[[Any, Any, bool], bool]], Callable[[Any, Any, bool], bool]]:
    """Set down which masks the transposition of a linear op makes superfluous."""

    def declare(function: Callable[[Any, Any, bool], bool]) -> Callable[[Any, Any, bool], bool]:
        ABSORPTIONS[opcode] = function
        return function

    return declare


def is_differentiable(opcode: str) -> bool:
    """Whether an opcode may have a derivative that is not zero; those without a rule may, and are refused later."""
    rule = RULES.get(opcode)
    return rule is None or not rule.is_zero


def _set(opcode: str, rule: DerivativeRule) -> None:
    if opcode in RULES:
        raise ValueError(f"{opcode} has a rule already")
    RULES[opcode] = rule
