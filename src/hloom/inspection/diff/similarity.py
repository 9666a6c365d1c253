"""Matches similar instructions near matched ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hloom.inspection.diff.labels import VIEWS, meaning
from hloom.inspection.diff.value_graph import START, Edges, ValueGraph
from hloom.ir import Node, TensorType, Trait, same_shape
from hloom.ops import CALLERS, with_trait

MOST_USERS = 64
"""The maximum number of users of a matched instruction, and of users of an unmatched one, to examine."""
SAME_OPCODE = 4.0
"""The least score of a pair of one opcode."""
OTHER_OPCODE = 3.5
"""The least score, without the opcode's, of a pair of two."""
FIXED = CALLERS | with_trait(Trait.TUPLE) | {"parameter", "constant", "fusion"}
"""Opcodes that do not change into others."""

Partners = tuple[list[int], list[int]]


def similar_pairs(
    graphs: tuple[ValueGraph, ValueGraph],
    edges: tuple[Edges, Edges],
    partners: Partners,
    hints: tuple[Sequence[int], Sequence[int]],
) -> list[tuple[int, int]]:
    """Pairs of unmatched instructions, the most similar first; an instruction is in one pair at most.

    A score adds up: opcode 2, type 1, attributes 0.5, operands 2, users 2, op_name 1.
    """
    scored: list[tuple[float, int, int]] = []
    for left in edges[0].order:
        if partners[0][left] >= 0:
            continue
        for right in _candidates(left, edges, partners):
            score = _score(left, right, graphs, edges, partners, hints)
            if score:
                scored.append((-score, left, right))
    scored.sort()
    taken: tuple[set[int], set[int]] = set(), set()
    pairs: list[tuple[int, int]] = []
    for _, left, right in scored:
        if left not in taken[0] and right not in taken[1]:
            taken[0].add(left)
            taken[1].add(right)
            pairs.append((left, right))
    return pairs


def _candidates(left: int, edges: tuple[Edges, Edges], partners: Partners) -> dict[int, None]:
    """Unmatched users of what the operands stand for, and operands of what the users stand for."""
    return dict.fromkeys(right for right in _near(left, edges, partners) if partners[1][right] < 0)


def _near(left: int, edges: tuple[Edges, Edges], partners: Partners) -> Iterator[int]:
    for operand in edges[0].operands[left][:MOST_USERS]:
        users = edges[1].users[partners[0][operand]] if partners[0][operand] >= 0 else ()
        if len(users) <= MOST_USERS:
            yield from (user for user, _ in users)
    for user, index in edges[0].users[left][:MOST_USERS]:
        if partners[0][user] >= 0:
            operands = edges[1].operands[partners[0][user]]
            yield from operands if len(operands) <= MOST_USERS else operands[index : index + 1]


def _score(
    left: int,
    right: int,
    graphs: tuple[ValueGraph, ValueGraph],
    edges: tuple[Edges, Edges],
    partners: Partners,
    hints: tuple[Sequence[int], Sequence[int]],
) -> float:
    """How similar two instructions are; 0 where they are not similar enough."""
    one, other = graphs[0].nodes[left], graphs[1].nodes[right]
    has_opcode = _opcode(one) == _opcode(other)
    if not has_opcode and (one.opcode in FIXED or other.opcode in FIXED):
        return 0.0
    score = _type_score(one, other)
    score += 2 * _operand_share(edges[0].operands[left], edges[1].operands[right], partners)
    score += 2 * _user_share(edges[0].users[left], edges[1].users[right], partners)
    if hints[0][left] and hints[0][left] == hints[1][right]:
        score += 1
    if not has_opcode:
        return score if score >= OTHER_OPCODE else 0.0
    score += 2.5 if meaning(one) == meaning(other) else 2
    return score if score >= SAME_OPCODE else 0.0


def _opcode(node: Node) -> str:
    opcode = node.opcode.removesuffix(START)
    return VIEWS.get(opcode, opcode)


def _type_score(one: Node, other: Node) -> float:
    if same_shape(one.type, other.type):
        return 1.0
    if isinstance(one.type, TensorType) and isinstance(other.type, TensorType):
        return 0.5 * (one.type.dims == other.type.dims) + 0.25 * (one.type.dtype is other.type.dtype)
    return 0.0


def _operand_share(ours: tuple[int, ...], theirs: tuple[int, ...], partners: Partners) -> float:
    """Which share of the operands are pairs; half counts what is one at another index."""
    if not ours or not theirs:
        return 0.0
    others = set(theirs)
    same = sum(
        1.0 if index < len(theirs) and partners[0][operand] == theirs[index] else 0.5 * (partners[0][operand] in others)
        for index, operand in enumerate(ours)
    )
    return same / max(len(ours), len(theirs))


def _user_share(ours: list[tuple[int, int]], theirs: list[tuple[int, int]], partners: Partners) -> float:
    if not ours or not theirs:
        return 0.0
    others, users = set(theirs[: 4 * MOST_USERS]), {user for user, _ in theirs[: 4 * MOST_USERS]}
    same = sum(
        1.0 if (partners[0][user], index) in others else 0.5 * (partners[0][user] in users)
        for user, index in ours[:MOST_USERS]
    )
    return same / max(min(len(ours), MOST_USERS), min(len(theirs), MOST_USERS))
