"""What XLA's partitioner emits where a value changes from one spec to another: steps of collectives, with their sizes.

The partitioner tries, in this order: gathering into a coarser spec, cutting into a finer one, an all-to-all between
dimensions (before or after a cut or a gather), and else it gathers everything and cuts. A step whose devices come out
in another order ends in a collective-permute. Calibrated against micro-modules: tests/runtime/test_partition.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Axes, Spec

Dims = tuple[Axes, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One collective: its kind, the devices of a group, and the elements that it is about on one device.

    `elements` are those of the result for an all-gather, of the operand for a reduce-scatter, and of either for the
    others.
    """

    kind: str
    group: int
    elements: int
    axes: Axes = field(default=(), compare=False, repr=False)
    """The mesh axes that it goes over; none where that is not known, which counts as all of them."""

    @property
    def sent(self) -> float:
        """The elements that a device sends in a ring."""
        share = (self.group - 1) / self.group
        if self.kind == "collective-permute":
            return float(self.elements)
        return (2 if self.kind == "all-reduce" else 1) * share * self.elements


@dataclass(frozen=True, slots=True)
class Shape:
    """What a price of a reshard depends on: the dimensions, and the mesh's names and sizes."""

    dims: tuple[int, ...]
    names: Axes
    sizes: tuple[int, ...]

    def count(self, axes: Axes) -> int:
        """How many devices these axes count together."""
        return math.prod(self.sizes[self.names.index(axis)] for axis in axes)

    def local(self, dims: Dims) -> int:
        """The elements that one device holds."""
        return math.prod(-(-size // self.count(axes)) for size, axes in zip(self.dims, dims, strict=True))

    def owners(self, axes: Axes) -> Axes:
        """The mesh axes that these prime axes are parts of."""
        return tuple(dict.fromkeys(axis.rpartition(".")[0] for axis in axes))

    def counts(self, dims: Dims) -> tuple[int, ...]:
        """The parts of each dimension."""
        return tuple(map(self.count, dims))

    def is_ordered(self, dims: Dims) -> bool:
        """Whether the devices stand in the mesh's own order when the tiles are gone through."""
        used = [axis for axes in dims for axis in axes]
        order = used + [name for name in self.names if name not in used]
        return [a for a in order if self.count((a,)) > 1] == [a for a in self.names if self.count((a,)) > 1]

    def group(self, size: int, *specs: Dims) -> int:
        """The size of a group as it is charged: of devices out of order, as if it were all of them.

        Groups of devices that are not neighbours in the mesh's order cross it; the judge of plans charges them so too.
        """
        return size if all(map(self.is_ordered, specs)) else math.prod(self.sizes)


def reshard(dims: Sequence[int], source: Spec, target: Spec, mesh: Mesh) -> tuple[Step, ...]:
    """The steps between two complete specs of an array of these dimensions.

    >>> mesh, split = Mesh.parse("x=8"), Spec((("x",), ()))
    >>> reshard((64, 64), split, Spec(((), ("x",))), mesh)
    (Step(kind='all-to-all', group=8, elements=512),)
    >>> reshard((64, 64), split, Spec.replicated(2), mesh)
    (Step(kind='all-gather', group=8, elements=4096),)
    """
    if source.dims == target.dims:
        return ()
    names, sizes, parts = _primes(mesh.names, mesh.sizes)
    before, after = (tuple(tuple(p for a in axes for p in parts[a]) for axes in s.dims) for s in (source, target))
    return _steps(Shape(tuple(dims), names, sizes), before, after)


@lru_cache(64)
def _primes(names: Axes, sizes: tuple[int, ...]) -> tuple[Axes, tuple[int, ...], dict[str, Axes]]:
    """The mesh with every axis cut into axes of prime sizes: an all-to-all may move a part of an axis."""
    parts: dict[str, list[tuple[str, int]]] = {}
    for name, size in zip(names, sizes, strict=True):
        found, divisor = [], 2
        while size > 1:
            if size % divisor:
                divisor += 1
                continue
            found.append((f"{name}.{len(found)}", divisor))
            size //= divisor
        parts[name] = found
    flat = [part for each in parts.values() for part in each]
    named = {name: tuple(part for part, _ in each) for name, each in parts.items()}
    return tuple(part for part, _ in flat), tuple(size for _, size in flat), named


@lru_cache(1 << 18)
def _steps(shape: Shape, source: Dims, target: Dims) -> tuple[Step, ...]:
    if source == target:
        return ()
    before, after = shape.counts(source), shape.counts(target)
    if all(b % a == 0 for a, b in zip(after, before, strict=True)):
        return (*_gather(shape, source, target),)
    if all(a % b == 0 for a, b in zip(after, before, strict=True)):
        return _permuted(shape, _refined(shape, source, target), target)
    found = list(_exchanges(shape, source, target))
    if found:
        return min(found, key=_sent)
    return (*_gather(shape, source, ((),) * len(source)),)


def _sent(steps: tuple[Step, ...]) -> float:
    return sum(step.sent for step in steps)


def _gather(shape: Shape, source: Dims, target: Dims) -> Iterator[Step]:
    """All-gathers from the last dimension to the first; a permute before them where the order is not the target's."""
    is_prefix = all(a[: len(b)] == b for a, b in zip(source, target, strict=True))
    if not is_prefix:
        yield Step("collective-permute", 2, shape.local(source), _moved(shape, source, target))
        source = _like(shape, target, source)
    now = list(source)
    for place in reversed(range(len(now))):
        group = shape.count(now[place]) // shape.count(target[place])
        over = shape.owners(tuple(axis for axis in now[place] if axis not in target[place]))
        now[place] = target[place]
        if group > 1:
            charged = group if any(target) else shape.group(group, source)
            yield Step("all-gather", charged, shape.local(tuple(now)), over)


def _like(shape: Shape, target: Dims, source: Dims) -> Dims:
    """A spec with the source's counts that refines the target; the source itself where none is found."""
    return _refined(shape, target, source) or source


def _refined(shape: Shape, source: Dims, target: Dims) -> Dims:
    """The source cut into the target's counts, with the target's own axes where these can be had."""
    used = {axis for axes in source for axis in axes}
    spare = [axis for axes in target for axis in axes if axis not in used]
    spare += [axis for axis in shape.names if axis not in used and axis not in spare]
    found: list[Axes] = []
    for have, want in zip(source, target, strict=True):
        now = have
        for axis in [a for a in want if a in spare] + list(spare):
            if axis in spare and shape.count(want) % shape.count((*now, axis)) == 0 and shape.count((axis,)) > 1:
                spare.remove(axis)
                now = (*now, axis)
        if shape.count(now) != shape.count(want):
            return ()
        found.append(now)
    return tuple(found)


def _permuted(shape: Shape, now: Dims, target: Dims) -> tuple[Step, ...]:
    if now == target:
        return ()
    return (Step("collective-permute", 2, shape.local(target), _moved(shape, now, target)),)


def _moved(shape: Shape, now: Dims, target: Dims) -> Axes:
    """The mesh axes that split other dimensions, or in another order, in one than in the other."""
    differing = [axis for a, b in zip(now, target, strict=True) if a != b for axis in (*a, *b)]
    return shape.owners(tuple(differing))


def _exchanges(shape: Shape, source: Dims, target: Dims) -> Iterator[tuple[Step, ...]]:
    """Ways by all-to-all: plain, before a cut, after a cut, after a gather of whole dimensions."""
    have, want = math.prod(shape.counts(source)), math.prod(shape.counts(target))
    if have == want:
        steps = _all_to_all(shape, source, target)
        if steps is not None:
            yield steps
    elif have < want:
        for place, axes in enumerate(target):
            for kept in range(len(axes)):
                middle = (*target[:place], axes[:kept], *target[place + 1 :])
                if math.prod(shape.counts(middle)) == have and middle != source:
                    steps = _all_to_all(shape, source, middle)
                    if steps is not None:
                        yield steps
        for middle in _cuts(shape, source, target, want // have):
            steps = _all_to_all(shape, middle, target)
            if steps is not None:
                yield steps
    else:
        for place, axes in enumerate(source):
            middle = (*source[:place], (), *source[place + 1 :])
            if axes and math.prod(shape.counts(middle)) == want:
                steps = () if middle == target else _all_to_all(shape, middle, target)
                if steps is not None:
                    yield (*_gather(shape, source, middle), *steps)


def _cuts(shape: Shape, source: Dims, target: Dims, ratio: int) -> Iterator[Dims]:
    used = {axis for axes in source for axis in axes}
    spare = tuple(a for a in shape.names if a not in used)
    for place, (have, want) in enumerate(zip(source, target, strict=True)):
        for run in (spare[i:j] for i in range(len(spare)) for j in range(i + 1, len(spare) + 1)):
            finer = (*have, *run)
            if shape.count(run) == ratio and shape.count(want) % shape.count(finer) == 0:
                yield (*source[:place], finer, *source[place + 1 :])


def _all_to_all(shape: Shape, source: Dims, target: Dims) -> tuple[Step, ...] | None:
    """Exchanges between pairs of dimensions whose counts change inversely; None where they do not pair up."""
    now, steps = list(source), []
    for place in range(len(source)):
        while shape.count(now[place]) > shape.count(target[place]):
            moved = _exchange(shape, now, target, place)
            if moved is None:
                return None
            steps.append(moved)
    if shape.counts(tuple(now)) != shape.counts(target):
        return None
    return (*steps, *_permuted(shape, tuple(now), target))


def _exchange(shape: Shape, now: list[Axes], target: Dims, place: int) -> Step | None:
    """Move the minor part of one dimension's axes to another dimension, in place."""
    ratio = shape.count(now[place]) // shape.count(target[place])
    for other, axes in enumerate(target):
        grow = shape.count(axes) // shape.count(now[other])
        if other == place or grow <= 1 or shape.count(axes) % shape.count(now[other]):
            continue
        group = min(ratio, grow)
        if max(ratio, grow) % group:
            continue
        before = tuple(now)
        moved = _minor(shape, now[place], group)
        if moved is None:
            return None
        now[place] = now[place][: len(now[place]) - len(moved)]
        now[other] = (*now[other], *moved)
        return Step("all-to-all", shape.group(group, tuple(now)), shape.local(before), shape.owners(moved))
    return None


def _minor(shape: Shape, axes: Axes, count: int) -> Axes | None:
    for length in range(1, len(axes) + 1):
        if shape.count(axes[-length:]) == count:
            return axes[-length:]
    return None
