"""The values a program computes, per instruction: minimum, maximum, mean, and how many are not finite."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hloom.evaluator import Inputs, Value, evaluate
from hloom.ir import Module, Node, Parameter


@dataclass(slots=True)
class ValueStatistics:
    """Of all values of an instruction, in all its runs; complex numbers count by magnitude."""

    least: float = math.inf
    greatest: float = -math.inf
    total: float = 0.0
    finite: int = 0
    not_a_number: int = 0
    infinite: int = 0

    @property
    def count(self) -> int:
        """The number of values."""
        return self.finite + self.not_a_number + self.infinite

    @property
    def largest_magnitude(self) -> float:
        """The largest magnitude of a finite value; 0 if there is none."""
        return max(abs(self.least), abs(self.greatest)) if self.finite else 0.0

    def add(self, array: np.ndarray) -> None:
        """Count the values of one run."""
        values = np.abs(array) if np.iscomplexobj(array) else array
        values = np.asarray(values, dtype=np.float64)
        is_finite = np.isfinite(values)
        finite = values[is_finite] if not is_finite.all() else values
        self.not_a_number += int(np.isnan(values).sum())
        self.infinite += int(np.isinf(values).sum())
        if finite.size:
            self.finite += finite.size
            self.least = min(self.least, float(finite.min()))
            self.greatest = max(self.greatest, float(finite.max()))
            self.total += float(finite.sum())

    def __str__(self) -> str:
        text = "no finite value"
        if self.finite:
            text = f"{self.least:.4g} to {self.greatest:.4g}, mean {self.total / self.finite:.4g}"
        return f"{text}, NaN {self.not_a_number:,} and infinite {self.infinite:,} of {self.count:,}"


def value_statistics(module: Module, inputs: Inputs) -> dict[Node, ValueStatistics]:
    """Run a module with numpy, as `evaluate` does, and look at the value of every instruction that it executes.

    Raises as `evaluate` does: for inputs that do not fit, for what cannot be evaluated, and beyond its limits.
    """
    statistics: dict[Node, ValueStatistics] = {}

    def observe(node: Node, value: Value) -> None:
        if isinstance(value, np.ndarray) and not (isinstance(node, Parameter) and not module.is_entry(node.graph)):
            statistics.setdefault(node, ValueStatistics()).add(value)

    evaluate(module, inputs, observe=observe)
    return statistics
