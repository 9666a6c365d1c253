"""Merges kernels into one with several results: producers with consumers, siblings, and independent ones.

    a = tanh(x); b = negate(a)       a is stored, and read again: one kernel stores both
    a = x + 1; b = x * 2             x is read once
    a = x + 1; b = y + 1             one launch for both
    a = x + 1; b = y[:5] + 1         the same, of different dimensions (`horizontal_fusion.py`)

The pair that saves most is merged first. Two kernels are never merged if a third one depends on the first and the
second on it: the dependents of the first kernel are searched up to the second in a topological order; after a merge,
that order is repaired between the two only (Pearce and Kelly, J. Experimental Algorithmics 11, 2006). A search that
grows too long counts as having found such a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain

from hloom.passes.fusion.horizontal_fusion import SlicedLoops, sliced_cost, sliced_loops
from hloom.passes.fusion.kernel_model import Kernel, KernelCost, KernelModel

MAX_VISITS = 400
"""The maximum number of kernels visited by a dependence search."""
MAX_PARTNERS = 3
"""With how many of the kernels that read a value, or come next with the same dimensions, one is compared."""
MAX_CANDIDATES = 15
"""The maximum number of pairs to examine per kernel, on average."""
LEAST_SAVING = 1e-12
"""The minimum saving in seconds; anything less is rounding error."""


@dataclass(slots=True)
class _Unit:
    """A kernel, or an instruction that is in none, in the order of execution."""

    position: int
    reads: list[int]
    roots: list[int]
    kernel: Kernel | None = None
    cost: KernelCost | None = None
    version: int = 0


class KernelMerger:
    """The kernels of one computation and their dependences."""

    def __init__(
        self, model: KernelModel, kernels: Sequence[tuple[Kernel, KernelCost]], *, horizontal: bool = True
    ) -> None:
        self.model = model
        self.horizontal = horizontal
        self.units: dict[int, _Unit] = {}
        self._unit_of: dict[int, int] = {}
        self._readers: dict[int, list[int]] = {}
        fused = {number for kernel, _ in kernels for number in kernel.members}
        for number in range(len(model.nodes)):
            if number not in fused:
                self._enter(_Unit(number, model.needs(number), [number]))
        for kernel, cost in kernels:
            self._enter(_Unit(kernel.roots[0], model.reads(kernel), list(kernel.roots), kernel, cost))
        self._queue: list[tuple[float, int, int, int, int]] = []
        self._seen: set[tuple[int, int, int, int]] = set()
        self._partners: dict[int, list[int]] = {}
        self.budget = MAX_CANDIDATES * len(kernels)

    def _enter(self, unit: _Unit) -> None:
        number = unit.position
        self.units[number] = unit
        self._unit_of.update(dict.fromkeys(unit.roots, number))
        for used in unit.reads:
            self._readers.setdefault(used, []).append(number)

    def merge(self) -> list[tuple[Kernel, KernelCost]]:
        """Merge for as long as that saves time; returns the kernels in execution order."""
        for first, second in chain(self.neighbours(), self._of_equal_dimensions() if self.horizontal else ()):
            self._partners.setdefault(first, []).append(second)
            self._partners.setdefault(second, []).append(first)
            self._consider(first, second)
        while self._queue:
            _, first, second, *versions = heappop(self._queue)
            pair = self.units.get(first), self.units.get(second)
            if pair[0] is None or pair[1] is None or [unit.version for unit in pair if unit] != versions:
                continue
            if self._merge(first, second):
                merged = self._current(first)
                self._drop_results(merged)
                self._consider_again(merged)
        if self.horizontal:
            self._merge_loops()
        ordered = sorted(self.units.values(), key=lambda unit: unit.position)
        return [(unit.kernel, unit.cost) for unit in ordered if unit.kernel is not None and unit.cost is not None]

    def neighbours(self) -> Iterator[tuple[int, int]]:
        """Pairs of kernels that read each other or the same value, a few for each value, by their first roots."""
        for name, unit in sorted(self.units.items()):
            for root in unit.roots if unit.kernel is not None else ():
                for reader in self._kernels_among(self._readers.get(root, ())):
                    yield name, reader
        for _, readers in sorted(self._readers.items()):
            known = self._kernels_among(readers, len(readers))
            for at, reader in enumerate(known):
                for other in known[at + 1 : at + 1 + MAX_PARTNERS]:
                    yield reader, other

    def _of_equal_dimensions(self) -> Iterator[tuple[int, int]]:
        """Pairs of kernels that come next to each other among those of their dimensions."""
        last_of: dict[int, list[int]] = {}
        for name, unit in sorted(self.units.items()):
            if unit.kernel is not None:
                similar = last_of.setdefault(self.model.root_keys[unit.roots[0]], [])
                for earlier in similar:
                    yield earlier, name
                similar.append(name)
                del similar[:-2]

    def _merge_loops(self) -> None:
        """Merge loops of different dimensions, as they come in the order of execution."""
        last_of: dict[tuple[str, ...], list[int]] = {}
        loops_of: dict[int, SlicedLoops] = {}
        for name, unit in sorted(self.units.items(), key=lambda item: item[1].position):
            loops = None if unit.kernel is None else sliced_loops(self.model, unit.kernel)
            if loops is None:
                continue
            similar = last_of.setdefault(loops.dtypes, [])
            for earlier in similar:
                joined = loops_of[earlier].joined(loops)
                if joined is not None and self._saves_time(earlier, name) and self._merge(earlier, name):
                    loops_of[earlier] = joined
                    break
            else:
                loops_of[name] = loops
                similar.append(name)
                del similar[:-MAX_PARTNERS]

    def _saves_time(self, first: int, second: int) -> bool:
        merged = self._merged(first, second)
        return merged is not None and self._saving(first, second, merged[1]) > LEAST_SAVING

    def _saving(self, first: int, second: int, merged: KernelCost) -> float:
        a, b = self.units[first].cost, self.units[second].cost
        assert a is not None and b is not None
        return a.seconds + b.seconds - merged.seconds

    def _kernels_among(self, names: Sequence[int], most: int = MAX_PARTNERS) -> list[int]:
        current = dict.fromkeys(self._current(name) for name in names[: 4 * most])
        return [name for name in current if self.units[name].kernel is not None][:most]

    def _current(self, name: int) -> int:
        """The unit that an instruction's unit has become part of."""
        current = name
        while current not in self.units:
            current = self._unit_of[current]
        while name != current:
            self._unit_of[name], name = current, self._unit_of[name]
        return current

    def _consider(self, first: int, second: int) -> None:
        """Put a pair into the queue if it saves time."""
        if first == second or self.budget <= 0:
            return
        if self.units[first].position > self.units[second].position:
            first, second = second, first
        pair = first, second, self.units[first].version, self.units[second].version
        roots = (*self.units[first].roots, *self.units[second].roots)
        if pair in self._seen or self.model.kernel_key(roots) is None:
            return
        if not self.horizontal and any(map(self.model.is_update, roots)):
            return
        self._seen.add(pair)
        self.budget -= 1
        merged = self._merged(first, second)
        if merged is None:
            return
        a, b = self.units[first], self.units[second]
        saving = self._saving(first, second, merged[1])
        if saving > LEAST_SAVING and (self.horizontal or self._saves_bytes(a, b, merged[1])):
            heappush(self._queue, (-saving, first, second, a.version, b.version))

    def _saves_bytes(self, first: _Unit, second: _Unit, merged: KernelCost) -> bool:
        """Whether one kernel moves fewer bytes than two, values of one element aside."""
        assert first.cost is not None and second.cost is not None
        shared = [used for used in set(first.reads).intersection(second.reads) if self.model.elements[used] == 1]
        moved = first.cost.read + second.cost.read - merged.read
        return moved > sum(map(self.model.whole_bytes, shared))

    def _merged(self, first: int, second: int) -> tuple[Kernel, KernelCost] | None:
        """Two kernels merged, with the cost; None if the target does not allow it."""
        a, b = self.units[first].kernel, self.units[second].kernel
        assert a is not None and b is not None
        roots = tuple(sorted({*a.roots, *b.roots}))
        kernel = Kernel(roots, tuple(sorted({*a.members, *b.members})))
        has_one_loop = self.model.kernel_key(roots) is not None
        cost = self.model.cost(kernel) if has_one_loop else sliced_cost(self.model, kernel)
        return None if cost is None else (kernel, cost)

    def _drop_results(self, name: int) -> None:
        """Stop storing values that no other kernel reads and that are not results, if that is no slower."""
        unit = self.units[name]
        assert unit.kernel is not None and unit.cost is not None
        needed = tuple(root for root in unit.kernel.roots if self._is_needed(root, name))
        if not needed or needed == unit.kernel.roots:
            return
        kernel = Kernel(needed, unit.kernel.members)
        cost = self.model.cost(kernel)
        if cost is not None and cost.seconds <= unit.cost.seconds:
            unit.kernel, unit.cost, unit.roots = kernel, cost, list(needed)

    def _is_needed(self, root: int, name: int) -> bool:
        """Whether a result is one of the computation, or read by other kernels than its own."""
        readers = self._readers.get(root, ())
        return self.model.is_stored[root] or any(self._current(reader) != name for reader in readers)

    def _merge(self, first: int, second: int) -> bool:
        """Merge two kernels unless a third one is between them; returns whether they were merged."""
        a, b = self.units[first], self.units[second]
        if a.position > b.position:
            first, second, a, b = second, first, b, a
        after = self._between(first, second, self._following)
        if after is None or self._stands_between(after, second):
            return False
        before = self._between(second, first, self._preceding)
        merged = self._merged(first, second)
        if before is None or merged is None:
            return False
        slots = sorted(self.units[name].position for name in (first, second, *after, *before))
        a.kernel, a.cost = merged
        a.roots = list(merged[0].roots)
        a.reads = self.model.reads(a.kernel)
        a.version += 1
        del self.units[second]
        self._unit_of[second] = first
        self._partners[first] = self._partners.pop(first, []) + self._partners.pop(second, [])
        for used in a.reads:
            self._readers.setdefault(used, []).append(first)
        order = [*self._in_order(before), first, *self._in_order(after)]
        for name, position in zip(order, [*slots[: len(before) + 1], *slots[len(before) + 2 :]], strict=True):
            self.units[name].position = position
        return True

    def is_separated(self, first: int, second: int) -> bool:
        """Whether a third kernel depends on one of two kernels while the other depends on it; kernels are named by
        roots.
        """
        first, second = sorted((first, second), key=lambda name: self.units[name].position)
        after = self._between(first, second, self._following)
        return after is None or self._stands_between(after, second)

    def _stands_between(self, after: Iterable[int], second: int) -> bool:
        return any(second in self._following(name) for name in after)

    def _between(self, start: int, end: int, neighbours: Callable[[int], Sequence[int]]) -> set[int] | None:
        """What is reachable from one kernel in the range up to another; None if that is too much."""
        bounds = sorted((self.units[start].position, self.units[end].position))
        reached: set[int] = set()
        pending = [start]
        while pending:
            names = neighbours(pending.pop())
            if len(names) > MAX_VISITS:
                return None
            for name in names:
                if name not in reached and bounds[0] < self.units[name].position < bounds[1]:
                    reached.add(name)
                    pending.append(name)
            if len(reached) > MAX_VISITS:
                return None
        return reached

    def _following(self, name: int) -> list[int]:
        """The kernels that read a kernel's stored values; if very many, just more than a search visits."""
        readers: list[int] = []
        for root in self.units[name].roots:
            readers += self._readers.get(root, ())[: MAX_VISITS + 1]
        return [self._current(reader) for reader in readers]

    def _preceding(self, name: int) -> list[int]:
        return [self._current(used) for used in self.units[name].reads]

    def _consider_again(self, name: int) -> None:
        """Compare a merged kernel with those that its parts were compared with."""
        partners = dict.fromkeys(self._current(other) for other in self._partners.get(name, ()))
        partners.pop(name, None)
        self._partners[name] = list(partners)
        for other in self._partners[name][: 2 * MAX_PARTNERS]:
            self._consider(name, other)

    def _in_order(self, names: Iterable[int]) -> list[int]:
        return sorted(names, key=lambda name: self.units[name].position)
