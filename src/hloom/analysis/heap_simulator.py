"""The heap simulator: offsets of temporary buffers in one allocation so that buffers live at the same time do not
overlap.

Buffers are placed by decreasing size, each in the smallest gap that fits, and once more by decreasing lifetime; the
lower total wins. XLA does the same (xla/service/heap_simulator/heap_simulator.cc, GlobalDecreasingSizeBestFitHeap,
jaxlib 0.10.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hloom.analysis.buffers import Buffer, Span

MOST_PACKED = 2000
"""The maximum number of buffers to pack, largest first, because packing takes quadratic time; the others are assumed to
fit into gaps.
"""


def height(buffers: Sequence[Buffer], length: int, alignment: int) -> int:
    """The bytes of the allocation that holds all these buffers, over `length` time steps; `alignment` is of offsets."""
    lowest = int(live_bytes(buffers, length, alignment).max(initial=0))
    largest = sorted(buffers, key=lambda buffer: -buffer.size)[:MOST_PACKED]
    lengths = _lengths(largest)
    packed = _packed(sorted(largest, key=lambda buffer: (-buffer.size, -lengths[id(buffer)][0])), alignment)
    if packed > lowest:
        by_lifetime = sorted(largest, key=lambda buffer: (-lengths[id(buffer)][1], -buffer.size))
        packed = min(packed, _packed(by_lifetime, alignment))
    return packed if len(largest) == len(buffers) else max(lowest, packed)


def height_in_time_order(buffers: Sequence[Buffer], length: int, alignment: int) -> int:
    """The same, for a compiler that places buffers in the order in which their values are defined.

    A buffer is in use from the definition of its first value to the last use of its last one, gaps included.
    """
    largest = sorted(buffers, key=lambda buffer: -buffer.size)[:MOST_PACKED]
    hulls = [Buffer(buffer.size, [_hull(buffer.spans)]) for buffer in sorted(largest, key=lambda one: one.spans[0])]
    packed = _packed(hulls, alignment)
    if len(largest) == len(buffers):
        return packed
    return max(packed, int(live_bytes(buffers, length, alignment).max(initial=0)))


def _hull(spans: Sequence[Span]) -> Span:
    return Span(spans[0].start, max(span.end for span in spans), spans[0].value)


def live_bytes(buffers: Iterable[Buffer], length: int, alignment: int = 1) -> np.ndarray:
    """The bytes in use at each time, with sizes rounded up to multiples of the alignment."""
    changes = np.zeros(length + 2, dtype=np.int64)
    for buffer in buffers:
        size = aligned(buffer.size, alignment)
        last = -1
        for start, end, _ in buffer.spans:
            start = max(start, last + 1)
            if end < start:
                continue
            changes[start] += size
            changes[end + 1] -= size
            last = end
    return np.cumsum(changes)[: length + 1]


def aligned(size: int, alignment: int) -> int:
    """The size rounded up to a multiple of the alignment."""
    return -(-size // alignment) * alignment


def _lengths(buffers: Sequence[Buffer]) -> dict[int, tuple[int, int]]:
    """The lifetimes of a buffer's first value and of the whole buffer, by id; measured in definitions and last uses.

    XLA's heap simulator counts this way; among buffers of equal size, the longer-lived choose first. An operand whose
    buffer is reused is freed just before the result is defined, others after (`HeapSimulator::RunComputation`).
    """
    events: list[tuple[int, int, int, int, int]] = []
    for buffer in buffers:
        for position, (start, end, value) in enumerate(buffer.spans):
            following = buffer.spans[position + 1].value if position + 1 < len(buffer.spans) else -1
            events.append((start, 0, value, 1, value))
            events.append((end, 0, following, 0, value) if following in buffer.reusing else (end, 1, value, 0, value))
    clock = {(event, value): time for time, (_, _, _, event, value) in enumerate(sorted(events))}
    lengths: dict[int, tuple[int, int]] = {}
    for buffer in buffers:
        first, last = buffer.spans[0].value, buffer.spans[-1].value
        born = clock[1, first]
        lengths[id(buffer)] = (clock[0, first] - born, clock[0, last] - born)
    return lengths


def _extents(buffer: Buffer) -> list[tuple[int, int]]:
    """When a buffer is in use, with adjacent spans merged."""
    extents: list[tuple[int, int]] = []
    for start, end, _ in buffer.spans:
        if extents and start <= extents[-1][1] + 1:
            extents[-1] = (extents[-1][0], max(end, extents[-1][1]))
        else:
            extents.append((start, end))
    return extents


def _packed(buffers: Sequence[Buffer], alignment: int) -> int:
    extents = [_extents(buffer) for buffer in buffers]
    count = sum(map(len, extents))
    starts, ends, bottoms, tops = (np.zeros(count, dtype=np.int64) for _ in range(4))
    used, top = 0, 0
    for buffer, spans in zip(buffers, extents, strict=True):
        meets = np.zeros(used, dtype=bool)
        for start, end in spans:
            meets |= (starts[:used] <= end) & (ends[:used] >= start)
        offset = _gap(bottoms[:used][meets], tops[:used][meets], buffer.size)
        next_offset = aligned(offset + buffer.size, alignment)
        for start, end in spans:
            starts[used], ends[used], bottoms[used], tops[used] = start, end, offset, next_offset
            used += 1
        top = max(top, offset + buffer.size)
    return top


def _gap(bottoms: np.ndarray, tops: np.ndarray, size: int) -> int:
    """The offset of the smallest sufficient gap between the buffers in use, or the end of them."""
    if not len(bottoms):
        return 0
    order = np.argsort(bottoms, kind="stable")
    bottoms, reached = bottoms[order], np.maximum.accumulate(tops[order])
    begins = np.concatenate(([0], reached[:-1]))
    gaps = bottoms - begins
    fitting = np.flatnonzero(gaps >= size)
    if not len(fitting):
        return int(reached[-1])
    return int(begins[fitting[np.argmin(gaps[fitting])]])
