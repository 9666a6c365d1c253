"""Sums of slices' cotangents: slices are joined by concatenation and padding, and then added.

Slices that do not overlap along their only cut dimension become one concatenation, with zeros in its gaps. Parts of at
least half of the operand are padded and added, so that compilers fuse the sum; smaller parts are added in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from hloom.autodiff.emitter import S32, Emitter, array_type
from hloom.ir import Node, PaddingDimension, SliceDimension, TensorType

SHARE_ADDED_WHOLE = 0.5
"""From which share of the operand's elements on slices are padded to its size: a compiler fuses the sum then."""


@dataclass(frozen=True, slots=True)
class SlicedPart:
    """A cotangent of a slice and where it was taken from."""

    limits: tuple[SliceDimension, ...]
    value: Node

    @property
    def is_contiguous(self) -> bool:
        return all(limit.stride == 1 for limit in self.limits)


def add_slices(emitter: Emitter, total: Node | None, whole: TensorType, parts: Sequence[SlicedPart]) -> Node:
    """The sum so far, or zero, with the cotangents of slices added where they were taken from."""
    given = [part for part in parts if array_type(part.value).element_count]
    runs, rest = _runs(given, whole)
    terms = sorted([*runs, *[[part] for part in rest]], key=lambda run: _element_count(run), reverse=True)
    in_place: list[SlicedPart] = []
    for run in terms:
        share = _element_count(run) / whole.element_count
        if total is None or share >= SHARE_ADDED_WHOLE or not run[0].is_contiguous:
            joined = _joined(emitter, run, whole)
            total = joined if total is None else emitter.add(total, joined)
        else:
            in_place += run
    total = total if total is not None else emitter.zeros(whole)
    for part in in_place:
        total = _added_in_place(emitter, total, part)
    return total


def _element_count(run: Sequence[SlicedPart]) -> int:
    return sum(array_type(part.value).element_count for part in run)


def _cut_dim(part: SlicedPart, whole: TensorType) -> int | None:
    """The one dimension along which a slice is shorter than its operand; None where there are more, or strides."""
    cut = [dim for dim, limit in enumerate(part.limits) if (limit.start, limit.limit) != (0, whole.dims[dim])]
    return cut[0] if len(cut) == 1 and part.is_contiguous else None


def _runs(parts: Sequence[SlicedPart], whole: TensorType) -> tuple[list[list[SlicedPart]], list[SlicedPart]]:
    """Slices that do not overlap along the dimension that they cut, in its order; and those that cut none or more."""
    by_dim: dict[int, list[tuple[int, int, SlicedPart]]] = {}
    rest: list[SlicedPart] = []
    for part in parts:
        dim = _cut_dim(part, whole)
        if dim is None:
            rest.append(part)
        else:
            limit = part.limits[dim]
            by_dim.setdefault(dim, []).append((limit.start, limit.limit, part))
    runs: list[list[SlicedPart]] = []
    for own in by_dim.values():
        ends: list[tuple[int, int]] = []
        for start, end, part in sorted(own, key=lambda item: item[:2]):
            if ends and ends[0][0] <= start:
                number = heappop(ends)[1]
                runs[number].append(part)
            else:
                number = len(runs)
                runs.append([part])
            heappush(ends, (end, number))
    return runs, rest


def _joined(emitter: Emitter, run: Sequence[SlicedPart], whole: TensorType) -> Node:
    """An array of the operand's dimensions with the slices where they were, and zeros elsewhere."""
    first = run[0]
    if len(run) == 1:
        padding = tuple(
            PaddingDimension(limit.start, size - limit.start - _span(limit), limit.stride - 1)
            for limit, size in zip(first.limits, whole.dims, strict=True)
        )
        if all(part == PaddingDimension(0, 0) for part in padding):
            return first.value
        return emitter.op("pad", first.value, emitter.constant(0, whole.dtype), padding=padding)
    dim = _cut_dim(first, whole)
    assert dim is not None, "a run is of slices that cut one dimension"
    pieces: list[Node] = []
    end = 0
    for part in run:
        limit = part.limits[dim]
        pieces += _gap(emitter, whole, dim, limit.start - end)
        pieces.append(part.value)
        end = limit.limit
    pieces += _gap(emitter, whole, dim, whole.dims[dim] - end)
    return emitter.op("concatenate", *pieces, dimensions=(dim,))


def _span(limit: SliceDimension) -> int:
    """How many elements there are from the first one taken to the last, both included."""
    count = max(0, -(-(limit.limit - limit.start) // limit.stride))
    return max(0, (count - 1) * limit.stride + min(count, 1))


def _gap(emitter: Emitter, whole: TensorType, dim: int, size: int) -> list[Node]:
    if not size:
        return []
    return [emitter.zeros(TensorType(whole.dtype, [*whole.dims[:dim], size, *whole.dims[dim + 1 :]]))]


def _added_in_place(emitter: Emitter, total: Node, part: SlicedPart) -> Node:
    taken = emitter.op("slice", total, slice=part.limits)
    starts = [emitter.constant(limit.start, S32) for limit in part.limits]
    return emitter.op("dynamic-update-slice", total, emitter.add(taken, part.value), *starts)
