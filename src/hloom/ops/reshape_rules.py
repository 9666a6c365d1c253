"""Reshapes and bitcasts: which dimensions split and which merge."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import UNBOUNDED, AxisMap, AxisMapBuilder, FactorKind, TensorType, Type, TypeNotGiven, TypeProblem, dtype
from hloom.ops.shapes import array, scalar

Factors = list[list[int]]
"""The factors of each dimension."""


def infer_reshape(operand: Type, *, result: Type | None) -> Type:
    """The written type, after checking that it holds the same elements."""
    operand_type = array(operand)
    made = _written(operand_type, result)
    if UNBOUNDED in made.dims:
        raise TypeProblem(f"the result must not have unbounded dimensions, but is {made}")
    if UNBOUNDED not in operand_type.dims:
        return _same_count(operand_type, made)
    if operand_type.dynamic and sum(operand_type.dynamic) > operand_type.dims.count(UNBOUNDED):
        raise TypeProblem(f"the operand must not mix bounded and unbounded dimensions, but is {operand_type}")
    return made


def infer_dynamic_reshape(operand: Type, *sizes: Type, result: Type | None) -> Type:
    """The written type, after checking that it holds the same elements and that each dimension has a size."""
    operand_type = array(operand)
    made = _written(operand_type, result)
    if len(sizes) != made.rank:
        raise TypeProblem(f"{made} has {made.rank} dimensions, but {len(sizes)} sizes are given")
    for number, size in enumerate(sizes):
        if scalar(size, f"size {number}") is not TensorType(dtype("s32")):
            raise TypeProblem(f"size {number} must be s32[], but is {size}")
    return made if UNBOUNDED in operand_type.dims + made.dims else _same_count(operand_type, made)


def infer_bitcast(operand: Type, *, result: Type | None) -> Type:
    """The written type, after checking that it has the same number of bits, or as many in whole tiles."""
    operand_type = array(operand)
    if result is None:
        raise TypeNotGiven("the type must be written: a bitcast may yield any type of the same size")
    made = array(result, "the result")
    if UNBOUNDED in operand_type.dims or UNBOUNDED in made.dims:
        raise TypeProblem(f"a bitcast needs known sizes, but goes from {operand_type} to {made}")
    bits, wanted = (type_.element_count * type_.dtype.bits for type_ in (operand_type, made))
    if bits != wanted and _stored_bits(operand) != _stored_bits(result):
        raise TypeProblem(f"{operand_type} takes {bits} bits, but {made} takes {wanted}")
    return made


def _stored_bits(type_: Type) -> int:
    """The bits of an array in whole tiles of its layout."""
    return type_.stored_count * type_.dtype.bits if isinstance(type_, TensorType) else 0


def _written(array_type: TensorType, result: Type | None) -> TensorType:
    if result is None:
        raise TypeNotGiven("the type must be written: the operand does not say which dimensions are wanted")
    made = array(result, "the result")
    if made.dtype is not array_type.dtype:
        raise TypeProblem(f"the result must be of type {array_type.dtype} like the operand, but is {made}")
    return made


def _same_count(array_type: TensorType, made: TensorType) -> TensorType:
    if array_type.element_count != made.element_count:
        raise TypeProblem(f"{array_type} has {array_type.element_count} elements, but {made} has {made.element_count}")
    return made


def reshape_axes(operand: Type, *sizes: Type, result: Type) -> AxisMap:
    """Dimensions split and merge where their products meet.

    reshape(f32[8,32]) as f32[2,128]   is   [(ab),c] -> [a,(bc)]   a=2 b=4 c=32
    """
    build = AxisMapBuilder()
    taken, made = matched(build, array(operand).dims, array(result, "the result").dims)
    build.operand(*taken)
    for _ in sizes:
        build.operand()
    return build.result(*made).finish()


def bitcast_axes(operand: Type, *, result: Type) -> AxisMap:
    """A reshape of the dimensions in the order of memory."""
    if not isinstance(operand, TensorType) or not isinstance(result, TensorType):
        raise TypeProblem(f"a bitcast goes from array to array, not from {operand} to {result}")
    build = AxisMapBuilder()
    outer, inner = _major_to_minor(operand), _major_to_minor(result)
    before, after = [operand.dims[dim] for dim in outer], [result.dims[dim] for dim in inner]
    plain = operand.dtype.bits == result.dtype.bits and not _tiled(operand) and not _tiled(result)
    taken, made = matched(build, before, after) if plain else _apart(build, before, after)
    build.operand(*[taken[outer.index(dim)] for dim in range(operand.rank)])
    return build.result(*[made[inner.index(dim)] for dim in range(result.rank)]).finish()


def _major_to_minor(array_type: TensorType) -> list[int]:
    return (
        list(range(array_type.rank)) if array_type.layout is None else list(reversed(array_type.layout.minor_to_major))
    )


def _tiled(array_type: TensorType) -> bool:
    return array_type.layout is not None and bool(array_type.layout.tiles)


def matched(build: AxisMapBuilder, before: Sequence[int], after: Sequence[int]) -> tuple[Factors, Factors]:
    """The factors of two lists of dimensions with the same elements in the same order.

    Dimensions of size 1 have none. From the point where two dimensions share no common major part until the products
    meet again, nothing corresponds and everything is whole: reshape [6,5] -> [5,6].
    """
    if any(size <= 0 for size in (*before, *after)) or math.prod(before) != math.prod(after):
        return _matched_in_front(build, before, after)
    return _Matching(build, before, after).run()


def _matched_in_front(build: AxisMapBuilder, before: Sequence[int], after: Sequence[int]) -> tuple[Factors, Factors]:
    """If products say nothing (no elements, unknown sizes), equal leading dimensions correspond."""
    shared: Factors = []
    for a, b in zip(before, after, strict=False):
        if a != b:
            break
        shared.append([build.factor(a)])
    taken, made = _apart(build, before[len(shared) :], after[len(shared) :])
    return shared + taken, shared + made


def _apart(build: AxisMapBuilder, before: Sequence[int], after: Sequence[int]) -> tuple[Factors, Factors]:
    """Separate factors for both sides: nothing corresponds."""
    taken, made = (
        [[build.factor(size, FactorKind.NEED_REPLICATION)] if size != 1 else [] for size in sizes]
        for sizes in (before, after)
    )
    return taken, made


class _Matching:
    """Two lists of dimensions and how far each is matched: the position and the unmatched part of the dimension there.
    """

    def __init__(self, build: AxisMapBuilder, before: Sequence[int], after: Sequence[int]) -> None:
        self.build = build
        self.sizes = (list(before), list(after))
        self.factors: tuple[Factors, Factors] = ([[] for _ in before], [[] for _ in after])
        self.place = [0, 0]
        self.left = [1, 1]

    def run(self) -> tuple[Factors, Factors]:
        while self._advance(0) and self._advance(1):
            common = math.gcd(*self.left)
            if common == 1:
                self._skip_to_meeting()
                continue
            factor = self.build.factor(common)
            for side in (0, 1):
                self.factors[side][self.place[side] - 1].append(factor)
                self.left[side] //= common
        return self.factors

    def _advance(self, side: int) -> bool:
        """Advance to a dimension with an unmatched part, if there is one."""
        while self.left[side] == 1 and self.place[side] < len(self.sizes[side]):
            self.left[side] = self.sizes[side][self.place[side]]
            self.place[side] += 1
        return self.left[side] > 1

    def _skip_to_meeting(self) -> None:
        """Give whole factors to the unmatched parts until both sides have consumed equally many elements."""
        passed = [self._take(0), self._take(1)]
        while passed[0] != passed[1]:
            behind = 0 if passed[0] < passed[1] else 1
            self._advance(behind)
            passed[behind] *= self._take(behind)

    def _take(self, side: int) -> int:
        size = self.left[side]
        self.factors[side][self.place[side] - 1].append(self.build.factor(size, FactorKind.NEED_REPLICATION))
        self.left[side] = 1
        return size
