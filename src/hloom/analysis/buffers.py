"""Which values share a buffer, and when each buffer is in use.

Values that share a buffer are joined: a loop's state across iterations, a branch's result and the conditional's, an
array and its in-place update, a donated parameter and its output. If the earlier value is still read after the later
one is written, a compiler inserts a copy, and the two stay separate. A compiled module already contains its copies:
there all of them share (xla/hlo/analysis/hlo_alias_analysis.cc), even an operand that a conditional holds until its end
while a branch overwrites it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hloom.analysis.dataflow import BufferAlias, ValueTable
from hloom.analysis.disjoint_sets import DisjointSets


class Span(NamedTuple):
    """The first and the last time at which a value needs its buffer."""

    start: int
    end: int
    value: int


@dataclass(slots=True)
class Buffer:
    """A piece of memory: its bytes, the values in it, and their spans in time order.

    `reusing` are those of its values that overwrote an operand at its last read.
    """

    size: int
    spans: list[Span]
    reusing: set[int] = field(default_factory=set)

    @property
    def values(self) -> list[int]:
        """The numbers of the values in it, in time order."""
        return [span.value for span in self.spans]


class Buffers:
    """The buffers of a program; `of(value)` is the one that holds a value.

    `donations` are aliases of parameters and outputs in addition to those of `values`. `is_final` says that all copies
    have been inserted.
    """

    def __init__(self, values: ValueTable, donations: Iterable[BufferAlias] = (), is_final: bool = False) -> None:
        self._values = values
        self._sharing = DisjointSets[int]()
        self._spans: dict[int, list[Span]] = {}
        tables = set(values.tables.values())
        for alias in values.aliases:
            self._join(alias, is_final or alias.earlier in tables)
        for alias in donations:
            self._join(alias, False)
        self._buffers: dict[int, Buffer] = {}

    def __iter__(self) -> Iterator[Buffer]:
        """Each non-empty buffer once, in the order in which their first values are defined."""
        seen: set[int] = set()
        for value, size in enumerate(self._values.sizes):
            root = self._sharing.root(value) if size else value
            if size and root not in seen:
                seen.add(root)
                yield self.of(value)

    def of(self, value: int) -> Buffer:
        """The buffer of a value."""
        root = self._sharing.root(value)
        buffer = self._buffers.get(root)
        if buffer is None:
            spans = self._spans_of(root)
            sizes = self._values.sizes
            buffer = Buffer(max([sizes[span.value] for span in spans]), spans)
            self._buffers[root] = buffer
        return buffer

    def _spans_of(self, root: int) -> list[Span]:
        spans = self._spans.get(root)
        return [Span(self._values.starts[root], self._values.ends[root], root)] if spans is None else spans

    def _join(self, alias: BufferAlias, is_required: bool) -> None:
        """Join the buffers of two values, unless their lifetimes overlap and a copy can separate them.

        Values in different memory spaces never share.
        """
        if self._values.spaces[alias.earlier] != self._values.spaces[alias.later]:
            return
        one, other = self._sharing.root(alias.earlier), self._sharing.root(alias.later)
        if one == other:
            return
        few, many = sorted((self._spans_of(one), self._spans_of(other)), key=len)
        places = [bisect_left(many, span) for span in few]
        if not any(_meets(many, position, span, alias.may_touch) for position, span in zip(places, few, strict=True)):
            for position, span in zip(reversed(places), reversed(few), strict=True):
                many.insert(position, span)
        elif is_required:
            many = _in_turn(sorted([*many, *few]))
        else:
            return
        self._sharing.join(one, other)
        self._spans.pop(other, None)
        self._spans[one] = many


def _meets(spans: list[Span], position: int, span: Span, may_touch: bool) -> bool:
    """Whether a span inserted at this position would overlap its neighbours."""
    less = 0 if may_touch else 1
    before = position > 0 and spans[position - 1].end > span.start - less
    after = position < len(spans) and spans[position].start < span.end + less
    return before or after


def _in_turn(spans: list[Span]) -> list[Span]:
    """The spans of values in one buffer, with the earlier of two overlapping ones cut off where the later begins."""
    made = spans[:1]
    for span in spans[1:]:
        last = made[-1]
        if last.end > span.start:
            made[-1] = last._replace(end=span.start)
            span = span._replace(end=max(span.end, last.end))
        made.append(span)
    return made
