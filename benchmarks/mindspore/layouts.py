"""The layouts of tensors in MindSpore's cost model, and what moving one costs there.

A layout is a matrix of devices and, for each dimension of a tensor, the dimension of that matrix which splits it.
Formulas: `tensor_redistribution.cc` and `redistribution_operator_infer.cc` in MindSpore's
`frontend/parallel/tensor_layout`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Range = tuple[int, int]
"""A dimension of a matrix of devices, as the strides where it begins and ends: of [4,2] they are (2,8) and (1,2)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A shape, a matrix of devices (major first), and per dimension the matrix's dimension, or None where whole."""

    shape: tuple[int, ...]
    arrangement: tuple[int, ...]
    map: tuple[int | None, ...]

    @property
    def splits(self) -> tuple[int, ...]:
        """Into how many parts each dimension is split."""
        return tuple(1 if axis is None else self.arrangement[axis] for axis in self.map)

    @property
    def slice_size(self) -> int:
        """How many elements a device holds."""
        return math.prod(size // part for size, part in zip(self.shape, self.splits, strict=True))

    def ranges(self) -> list[Range | None]:
        """The strides of the devices that split each dimension."""
        strides = [math.prod(self.arrangement[axis:]) for axis in range(len(self.arrangement) + 1)]
        return [
            None if axis is None or self.arrangement[axis] == 1 else (strides[axis + 1], strides[axis])
            for axis in self.map
        ]


@dataclass(frozen=True, slots=True)
class Moves:
    """Elements per device: what is computed, and what is sent forwards and backwards."""

    computation: float = 0.0
    forward: float = 0.0
    backward: float = 0.0


def moves(source: Layout, target: Layout) -> Moves:
    """Splits, all-to-alls and all-gathers from one layout to another, each on a slice as large as the source's.

    That no step's size counts but the source's, and that an all-gather or all-to-all pays its slice once more as
    computation, is as MindSpore has it.

    >>> rows, columns = Layout((8, 8), (4, 1), (0, 1)), Layout((8, 8), (1, 4), (0, 1))
    >>> moves(rows, columns)
    Moves(computation=32.0, forward=32.0, backward=32.0)
    """
    before, after, is_expanded = _aligned(source, target)
    steps = _steps(before, after)
    size, total = float(source.slice_size), Moves()
    for operation, dim, count in steps:
        sent = {"split": (0.0, 0.0), "permute": (2.0, 2.0), "gather": (count / 2, 0.5)}[operation]
        worked = 0 if operation == "split" else 1 if dim == 0 else 1 + 2 * count
        total = Moves(
            total.computation + size * (worked + 1),
            total.forward + size * sent[0],
            total.backward + size * sent[1],
        )
    if steps and is_expanded:
        return Moves(total.computation + 2 * size, total.forward, total.backward)
    return total


def _steps(before: Sequence[Range | None], after: Sequence[Range | None]) -> list[tuple[str, int, int]]:
    """What is done, at which place it is gathered, among how many devices."""
    steps: list[tuple[str, int, int]] = []
    pending = dict(enumerate(before))
    while pending:
        at_first = len(steps)
        _split_and_permute(pending, before, after, steps)
        _gather(pending, after, steps)
        if len(steps) == at_first and pending:
            dim = min(pending)
            steps.append(("gather", dim, _size(pending[dim])))
            pending[dim] = None
    return steps


def _split_and_permute(
    pending: dict[int, Range | None],
    before: Sequence[Range | None],
    after: Sequence[Range | None],
    steps: list[tuple[str, int, int]],
) -> None:
    for dim in sorted(pending):
        if pending[dim] == after[dim]:
            del pending[dim]
        elif pending[dim] is None and after[dim] not in pending.values():
            steps.append(("split", dim, _size(after[dim])))
            del pending[dim]
    changed = True
    while changed:
        changed = False
        for dim in sorted(pending):
            if pending[dim] == after[dim]:
                del pending[dim]
            elif pending[dim] is None and after[dim] in pending.values():
                gathered = before.index(after[dim])
                steps.append(("permute", gathered, _size(after[dim])))
                del pending[dim]
                pending[gathered] = None
                changed = True


def _gather(pending: dict[int, Range | None], after: Sequence[Range | None], steps: list[tuple[str, int, int]]) -> None:
    for dim in sorted(pending):
        if pending[dim] is not None and pending[dim] not in after:
            steps.append(("gather", dim, _size(pending[dim])))
            pending[dim] = None
            if after[dim] is None:
                del pending[dim]


def _aligned(source: Layout, target: Layout) -> tuple[list[Range | None], list[Range | None], bool]:
    """Both layouts over the same parts of dimensions, split by the same parts of the matrix of devices."""
    cuts = {stride for layout in (source, target) for span in layout.ranges() if span for stride in span}
    while True:
        parts = [
            (_cut(first, cuts), _cut(second, cuts))
            for first, second in zip(source.ranges(), target.ranges(), strict=True)
        ]
        needed = {stride for pair in parts for stride in _needed(*pair)} - cuts
        if not needed:
            break
        cuts |= needed
    before, after = [], []
    for first, second in parts:
        ends = sorted({*_ends(first)[:-1], *_ends(second)[:-1]})
        before += _places(first, ends)
        after += _places(second, ends)
    return before, after, len(before) > len(source.shape)


def _cut(whole: Range | None, cuts: set[int]) -> list[Range]:
    """A dimension of the matrix cut at strides, major first."""
    if whole is None:
        return []
    strides = sorted((cut for cut in cuts if whole[0] <= cut <= whole[1]), reverse=True)
    return [(low, high) for high, low in pairwise(strides)]


def _ends(parts: list[Range]) -> list[int]:
    """Into how many pieces a dimension is split after each part."""
    return [math.prod(_size(part) for part in parts[: dim + 1]) for dim in range(len(parts))]


def _needed(first: list[Range], second: list[Range]) -> list[int]:
    """Strides where a part must be cut for the other layout's parts to end where it ends."""
    result = []
    for parts, others in ((first, second), (second, first)):
        start = 1
        for part in parts:
            end = start * _size(part)
            result += [part[0] * end // stop for stop in _ends(others)[:-1] if start < stop < end]
            start = end
    return result


def _places(parts: list[Range], ends: list[int]) -> list[Range | None]:
    """Which part splits each piece between ends; the last piece goes on to the dimension's end."""
    begin, split = 1, {}
    for part in parts:
        split[begin] = part
        begin *= _size(part)
    return [split.get(item) for item in (1, *ends)]


def _size(part: Range | None) -> int:
    return 1 if part is None else part[1] // part[0]
