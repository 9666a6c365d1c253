"""The search for a smaller module: candidates are verified, measured and checked one by one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hloom.formats.hlo import print_module
from hloom.inspection.minimize.cuts import has_whole_pairs
from hloom.inspection.minimize.predicates import FaultPredicate, Verdict
from hloom.ir import Apply, Level, Module, TensorType, Type, TypeProblem, verify
from hloom.text import HloomError

Made = TypeVar("Made")
Size = tuple[int, int, int, int]
"""Instructions, those that compute, elements of all values, characters of the text: what counts, in this order."""


class OutOfSteps(Exception):
    """All the steps that were allowed are used."""


@dataclass(frozen=True, slots=True)
class MinimizationProgress:
    """How far a search has come: what it tries, and the smallest module that shows the fault so far.

    That is the input's own copy where `accepted`, the number of candidates that showed the fault, is 0.
    """

    reduction: str
    round: int
    steps: int
    accepted: int
    instructions: int
    module: Module


class ReductionSearch:
    """A module that shows a fault, and the count of what was tried to make it smaller.

    `steps` are the checks of the predicate, `refused` the candidates that did not verify, `accepted` those that showed
    the fault and became the module.
    """

    def __init__(
        self,
        module: Module,
        predicate: FaultPredicate,
        most_steps: int,
        told: Callable[[MinimizationProgress], object] | None = None,
    ) -> None:
        self.module = self.smallest = module
        self.looked_through: Module | None = None  # the module in which no instruction was told apart
        self.reduction, self.round = "the input", 0
        self.steps = self.refused = self.repeated = self.accepted = 0
        self.predicate, self._most_steps, self._told = predicate, most_steps, told
        verification = verify(module)
        if verification.level is Level.FUNCTIONAL:
            raise HloomError(f"{module.name} is not HLO: {verification.notes[0]}")
        self._level, self._has_pairs = verification.level, has_whole_pairs(module)
        text = print_module(module)
        self.size = self.smallest_size = size_of(module, text)
        self._seen = {_digest(text)}
        self.first = self.check(module, text)
        if self.first.shows:
            predicate.adopt(module)

    def check(self, module: Module, text: str) -> Verdict:
        """Ask the predicate, which is one step; raises OutOfSteps where none is left."""
        self.count_step()
        return self.predicate.check(module, text)

    def count_step(self) -> None:
        """Count one step, and tell of it; raises OutOfSteps where none is left."""
        if self.steps == self._most_steps:
            raise OutOfSteps
        self.steps += 1
        if self._told is not None:
            counts = self.steps, self.accepted, self.smallest_size[0]
            self._told(MinimizationProgress(self.reduction, self.round, *counts, self.smallest))

    def take(self, candidate: Module | None, *, may_grow: bool = False) -> bool:
        """Adopt a candidate if it is sound, smaller, and shows the fault; returns whether it was adopted.

        With `may_grow` it may be larger: for what opens the way to other reductions and cannot go on for ever.
        """
        if candidate is None or not self._is_sound(candidate):
            return False
        text = print_module(candidate)
        size = size_of(candidate, text)
        if size >= self.size and not may_grow:
            return False
        digest = _digest(text)
        if digest in self._seen:
            self.repeated += 1
            return False
        self._seen.add(digest)
        if not self.check(candidate, text).shows:
            return False
        self.module, self.size = candidate, size
        self.predicate.adopt(candidate)
        if size < self.smallest_size:
            self.smallest, self.smallest_size = candidate, size
        self.accepted += 1
        return True

    def _is_sound(self, candidate: Module) -> bool:
        try:
            if verify(candidate).level >= self._level and (has_whole_pairs(candidate) or not self._has_pairs):
                return True
        except HloomError:
            pass
        self.refused += 1
        return False


def size_of(module: Module, text: str) -> Size:
    """How large a module is, which has this text."""
    computing = sum(isinstance(node, Apply) for node in module.nodes())
    return module.node_count, computing, sum(_elements(node.type) for node in module.nodes()), len(text)


def _elements(value_type: Type | None) -> int:
    """How many elements a value has; of a dimension without a bound one is counted."""
    leaves = value_type.leaves() if value_type is not None else ()
    return sum(math.prod(max(dim, 1) for dim in leaf.dims) for leaf in leaves if isinstance(leaf, TensorType))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def attempt(make: Callable[[], Made | None]) -> Made | None:
    """The result of a reduction; None if types are inconsistent or it is not applicable."""
    try:
        return make()
    except (TypeProblem, HloomError):
        return None
