"""Rows of scores that are all -inf, whose softmax is NaN, in programs that replace such rows by zeros.

    scores + term                  ->   scores + maximum(term, least / 2),  finite where term > -inf
    select(mask, scores, -inf)     ->   select(mask, scores, least),        finite where mask

The scores are made finite, so the softmax of such a row is a number and no gradient is NaN. The result is set to zero
in rows without finite scores. Other infinities are not handled: the dot is assumed to be finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite

import numpy as np

from hloom.ir import Node, TensorType
from hloom.passes.attention_form import ScoreStep, repeated
from hloom.passes.axis_labels import is_float, least_of
from hloom.rewrite import Builder, array_value

LEAST_MASKED = -1e30
"""A mask value not below this does not count as -inf if it is scaled afterwards."""
LEAST_SCALE = 2**-10
"""The smallest scale factor allowed for scores that are masked before."""

Finite = tuple[tuple[ScoreStep, ...], tuple[Node, ...], Node | None]


def with_finite_scores(
    build: Builder, steps: Sequence[ScoreStep], terms: Sequence[Node], least: float
) -> Finite | None:
    """Steps and terms that make finite scores instead of -inf, and a mask of finite ones: None for everywhere.

    None if that cannot be determined: terms multiply or bound scores, or masked ones become small.
    """
    remaining, own_terms, own_steps = iter(terms), list[Node](), list[ScoreStep]()
    kept: Node | None = None
    for step in steps:
        number = step.number
        mask = next(remaining) if step.opcode == "select" else None
        term = next(remaining) if step.has_term else None
        if mask is not None and number is not None:
            chosen = build.op("not", mask) if step.is_second else mask
            own_terms.append(mask)
            if number == -inf:
                step, kept = replace(step, number=least), _combined(build, "and", chosen, kept)
            elif not isfinite(number):
                return None
            elif kept is not None:
                kept = _combined(build, "or", build.op("not", chosen), kept)
        elif term is not None:
            if (
                mask is not None
                or step.opcode not in ("add", "subtract")
                or (step.opcode, step.is_second) == ("subtract", True)
            ):
                return None
            bounded, is_finite = _bounded(build, term, is_subtracted=step.opcode == "subtract")
            own_terms.append(bounded)
            kept = kept if is_finite is None else _combined(build, "and", is_finite, kept)
        elif step.opcode == "tanh" or (step.opcode == "maximum" and number is not None and isfinite(number)):
            kept = None
        elif (kept is not None and not _keeps_infinite(step, least)) or (number is not None and not isfinite(number)):
            return None
        own_steps.append(step)
    return tuple(own_steps), tuple(own_terms), kept


def _keeps_infinite(step: ScoreStep, least: float) -> bool:
    """Whether a step by a number keeps -inf, and makes no number near zero of the least one."""
    number = step.number
    if number is None or not isfinite(number):
        return False
    if step.opcode in ("add", "minimum"):
        return True
    if step.opcode == "subtract":
        return not step.is_second
    if step.opcode == "divide":
        return not step.is_second and 0 < number <= 1 / LEAST_SCALE and least < LEAST_MASKED
    return step.opcode == "multiply" and number >= LEAST_SCALE and least < LEAST_MASKED


def _bounded(build: Builder, term: Node, *, is_subtracted: bool) -> tuple[Node, Node | None]:
    """A term without infinite numbers, and where it was finite: None if its numbers are known to be."""
    numbers = array_value(term)
    if not is_float(term) or (numbers is not None and bool(np.isfinite(numbers.astype(np.float32)).all())):
        return term, None
    assert isinstance(term.type, TensorType), "it is an array"
    infinite, bound = (inf, -least_of(term) / 2) if is_subtracted else (-inf, least_of(term) / 2)
    is_finite = build.op("compare", term, build.constant(infinite, term.type), direction="NE")
    opcode = "minimum" if is_subtracted else "maximum"
    return build.op(opcode, term, build.constant(bound, term.type)), is_finite


def _combined(build: Builder, opcode: str, left: Node, right: Node | None) -> Node:
    """Truth values of two arrays that have size 1 where they do not vary."""
    if right is None:
        return left
    dims = tuple(max(sizes) for sizes in zip(left.dims, right.dims, strict=True))
    return build.op(opcode, repeated(build, left, dims), repeated(build, right, dims))
