"""The exact extent of an insertion: which of two equal stretches corresponds to the other module's.

Where a layer is put between two, the beginning of the layer behind it computes what the inserted layer's beginning
computes, and the end of the one may be used as the other's. Equal expressions and equal uses so disagree, as in a text
diff about the brace that closes an inserted function. Pairs here move from one of the two to the other where fewer
values then have a user that does not stand for the user of the value's partner: a minimum cut, because a pair and its
users' pairs should move together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hloom.inspection.diff.minimum_cut import SINK, SOURCE, FlowNetwork
from hloom.inspection.diff.value_graph import Edges

UNPAIRED = -1
MOST_USERS = 64
"""The maximum number of users of an instruction to examine."""
MOST_PATHS = 64
"""How many values a border may tear; a stretch whose best border tears more stays where it is."""


@dataclass(slots=True)
class Side:
    """One module of a matching: edges, what instructions are, their op_names, and their partners in the other.

    What is `pinned`, the parameters of the entry, keeps its partner.
    """

    edges: Edges
    labels: Sequence[int]
    hints: Sequence[int]
    partner: Sequence[int]
    pinned: frozenset[int]

    def users(self, number: int) -> list[tuple[int, int]]:
        """The users of an instruction; of one that has very many, none."""
        users = self.edges.users[number]
        return users if len(users) <= MOST_USERS else []


def better_pairs(kept: Side, other: Side) -> Iterator[list[tuple[int, int]]]:
    """Pairs of an instruction and one of the other module, unmatched so far, that it should rather be matched with.

    Those of one list belong together. Linear: an unmatched instruction is in one stretch at most.
    """
    entered: set[int] = set()
    for number in other.edges.order:
        if other.partner[number] == UNPAIRED and number not in entered:
            rival = _rival(number, kept, other)
            if rival != UNPAIRED:
                stretch = _stretch(rival, number, kept, other, entered)
                moving = _Choice(stretch, kept, other).moving()
                if moving:
                    yield [(one, stretch[one]) for one in moving]


def _rival(number: int, kept: Side, other: Side) -> int:
    """What its matched users' counterparts use where they use it, if that looks the same."""
    for user, index in other.users(number):
        counterpart = other.partner[user]
        if counterpart == UNPAIRED:
            continue
        operands = kept.edges.operands[counterpart]
        rival = operands[index] if 0 <= index < len(operands) else UNPAIRED
        if rival != UNPAIRED and kept.labels[rival] == other.labels[number] and kept.partner[rival] != UNPAIRED:
            return rival
    return UNPAIRED


def _stretch(first: int, number: int, kept: Side, other: Side, entered: set[int]) -> dict[int, int]:
    """The pairs that follow from one through operands and users that look the same, the other's being unmatched."""
    stretch: dict[int, int] = {}

    def add(one: int, instead: int) -> None:
        is_free = other.partner[instead] == UNPAIRED and instead not in entered and one not in stretch
        if is_free and one not in kept.pinned and kept.labels[one] == other.labels[instead]:
            stretch[one] = instead
            entered.add(instead)
            pending.append((one, instead))

    pending: list[tuple[int, int]] = []
    add(first, number)
    while pending:
        one, instead = pending.pop()
        operands = kept.edges.operands[one], other.edges.operands[instead]
        if len(operands[0]) == len(operands[1]):
            for operand, candidate in zip(*operands, strict=True):
                add(operand, candidate)
        for user, candidate in _following(one, instead, kept, other):
            add(user, candidate)
    return stretch


def _following(one: int, instead: int, kept: Side, other: Side) -> Iterator[tuple[int, int]]:
    """Users of both with the same label and operand index, where either has one such user that is not settled."""
    theirs: dict[tuple[int, int], int] = {}
    for user, index in other.users(instead):
        key = other.labels[user], index
        if other.partner[user] == UNPAIRED:
            theirs[key] = UNPAIRED if key in theirs else user
    ours: dict[tuple[int, int], int] = {}
    users = set(other.users(instead)) if theirs else set()
    for user, index in kept.users(one) if theirs else ():
        key = kept.labels[user], index
        if (kept.partner[user], index) not in users:
            ours[key] = UNPAIRED if key in ours else user
    for key, user in ours.items():
        if user != UNPAIRED and theirs.get(key, UNPAIRED) != UNPAIRED:
            yield user, theirs[key]


class _Choice:
    """Which instructions of a stretch move, so that least values are torn: a network whose cut is the border."""

    def __init__(self, stretch: dict[int, int], kept: Side, other: Side) -> None:
        self._stretch, self._kept, self._other = stretch, kept, other
        self._network = FlowNetwork()
        self._node = {one: self._network.add_node() for one in stretch}

    def moving(self) -> list[int]:
        """The instructions that move; the fewest, where several choices tear as few values."""
        for one in self._stretch:
            self._add_hint(one)
            for is_moved in (False, True):
                self._add_value(one, is_moved)
        values = dict.fromkeys(operand for one in self._stretch for operand in self._kept.edges.operands[one])
        for value in values:
            if value not in self._stretch:
                self._add_value(value, False)
        behind = self._network.behind(MOST_PATHS) or set()
        return [one for one, node in self._node.items() if node in behind]

    def _image(self, number: int, is_moved: bool) -> int:
        return self._stretch[number] if is_moved else self._kept.partner[number]

    def _is_kept(self, value: int, is_moved: bool, user: int, index: int, is_user_moved: bool) -> bool:
        """Whether a user's counterpart uses the value's where the user uses the value."""
        image = self._image(user, is_user_moved)
        operands = self._other.edges.operands[image] if image != UNPAIRED else ()
        return index < len(operands) and operands[index] == self._image(value, is_moved)

    def _add_value(self, value: int, is_moved: bool) -> None:
        """A value that is torn where it has moved, or has not, and one of its users has not done the same."""
        users = self._kept.users(value)
        needed: dict[int, bool] = {}
        for user, index in users:
            if user not in self._stretch:
                if not self._is_kept(value, is_moved, user, index, False):
                    return self._add_cost(value, is_moved)
                continue
            stays, moves = (self._is_kept(value, is_moved, user, index, choice) for choice in (False, True))
            if stays == moves and not stays:
                return self._add_cost(value, is_moved)
            if stays != moves and needed.setdefault(user, moves) != moves:
                return self._add_cost(value, is_moved)
        opposed = [self._node[user] for user, moves in needed.items() if moves != is_moved]
        following = [self._node[user] for user, moves in needed.items() if moves == is_moved]
        if opposed and value in self._stretch:  # users that must do what the value does not: no cut says so
            return self._add_cost(value, is_moved)
        own = self._node.get(value, SOURCE)
        if following:
            self._add_torn(own, following, is_moved)
        if opposed:
            self._add_torn(SINK, opposed, True)
        return None

    def _add_torn(self, value: int, users: list[int], is_behind: bool) -> None:
        """One is the cost of a value that is behind the cut, or before it, where one of its users is not."""
        torn = self._network.add_node()
        self._network.add_arc(*((torn, value) if is_behind else (value, torn)), 1)
        for user in users:
            self._network.add_arc(*((user, torn) if is_behind else (torn, user)))

    def _add_cost(self, one: int, is_moved: bool, cost: int = 1) -> None:
        """What it costs if an instruction has moved, or has not; nothing for one that cannot."""
        if one in self._node:
            self._network.add_arc(*((SOURCE, self._node[one]) if is_moved else (self._node[one], SINK)), cost)

    def _add_hint(self, one: int) -> None:
        """An op_name that only one of the two instructions has is worth a value."""
        hint, partner = self._kept.hints[one], self._kept.partner[one]
        hints = self._other.hints[partner] if partner != UNPAIRED else 0, self._other.hints[self._stretch[one]]
        if hint and (hint == hints[0]) != (hint == hints[1]):
            self._add_cost(one, hint == hints[0])
