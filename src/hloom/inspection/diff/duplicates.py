"""Which of several equal instructions corresponds to the one that remains of them: the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from hloom.inspection.diff.insertions import MOST_USERS, UNPAIRED, Side


def expression_classes(side: Side) -> list[int]:
    """A number for every instruction; equal numbers, equal expressions of the entry's parameters.

    Parameters of other computations are equal where their types and numbers are.
    """
    classes = list(side.labels)
    for number in side.pinned:
        classes[number] = hash((classes[number], number))
    for number in side.edges.order:
        operands = side.edges.operands[number]
        if operands:
            classes[number] = hash((classes[number], *[classes[operand] for operand in operands]))
    return classes


def first_of_equals(
    kept: Side, other: Side, graphs: Sequence[object], order: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Instructions without partner, with the one that they should be matched with: an equal one further on is so far.

    What is left of equal instructions is used where they were. Common subexpressions are replaced by the first, and
    clones stand behind what they are of. Equal ones of which `graphs` names the same computation count. `order` are the
    other's instructions, operands before users. The partners must have changed before the next pair is taken. Linear.
    """
    classes = expression_classes(kept)
    for number in reversed(order):
        partner = other.partner[number]
        if partner == UNPAIRED:
            continue
        first = partner
        for user, index in islice(other.edges.users[number], MOST_USERS):
            operands = kept.edges.operands[other.partner[user]] if other.partner[user] != UNPAIRED else ()
            equal = operands[index] if 0 <= index < len(operands) else partner
            is_like = classes[equal] == classes[partner] and graphs[equal] is graphs[partner]
            if equal < first and kept.partner[equal] == UNPAIRED and is_like:
                first = equal
        if first != partner and not _is_told_apart(partner, first, number, kept, other):
            yield first, number


def _is_told_apart(partner: int, first: int, number: int, kept: Side, other: Side) -> bool:
    """Whether the op_name says that it is the partner and not the first."""
    hint = other.hints[number]
    return bool(hint) and kept.hints[partner] == hint != kept.hints[first]
