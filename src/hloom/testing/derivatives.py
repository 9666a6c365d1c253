"""Derivatives compared with central differences, in double precision, on random inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom import autodiff
from hloom.autodiff import in_double_precision
from hloom.ir import Module
from hloom.runtime import run
from hloom.text import tracked

STEP = 1e-6
"""The distance of the two evaluations, relative to inputs of about 1."""
TOLERANCE = 1e-5
"""How far a derivative and a difference may be apart, relative to the greater of them and of 1."""


@dataclass(frozen=True, slots=True)
class DerivativeCheck:
    """A directional derivative with respect to one parameter, and the central difference in the same direction."""

    parameter: str
    derivative: float
    difference: float

    @property
    def error(self) -> float:
        """How far they are apart, relative to the greater of them and of 1."""
        scale = max(abs(self.derivative), abs(self.difference), 1.0)
        distance = abs(self.derivative - self.difference) / scale
        return distance if np.isfinite(distance) else float("inf")

    @property
    def agrees(self) -> bool:
        return self.error <= TOLERANCE


def check_derivatives(
    module: Module,
    wrt: autodiff.Which = None,
    *,
    of: int | None = None,
    stop: Iterable[str] = (),
    seed: int = 0,
    **options: Any,
) -> list[DerivativeCheck]:
    """One comparison for each parameter, in a random direction; of all results in a random combination, or of one.

    The module is run in double precision. A kink between the two evaluations shows as a disagreement: another seed
    says whether it was one. Raises HloomError as `autodiff.vjp` does, and Unsupported for what has no double precision.
    """
    program = in_double_precision(module)
    backward = autodiff.vjp(program, wrt, stop=stop, **options)
    chosen = autodiff.parameters_of(program, wrt)
    rng = np.random.default_rng(seed)
    first = run(program, seed=seed)
    inputs = [np.array(operand) for operand in first.inputs]
    floats = [number for number, output in enumerate(first.outputs) if output.dtype.kind in "fc"]
    weights = {number: _direction(rng, first.outputs[number]) for number in floats}
    if of is not None:
        weights = {number: value if number == of else np.zeros_like(value) for number, value in weights.items()}
    result = run(backward, [*inputs, *weights.values()]).outputs
    checks = []
    for (leaf, name), gradient in tracked(list(zip(chosen, result, strict=True))):
        direction = _direction(rng, gradient)
        ends = [
            _combined(run(program, _moved(inputs, leaf, direction * (sign * STEP))).outputs, weights)
            for sign in (1, -1)
        ]
        difference = (ends[0] - ends[1]) / (2 * STEP)
        checks.append(DerivativeCheck(name, _paired(gradient, direction), difference))
    return checks


def _direction(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    made = np.asarray(rng.standard_normal(like.shape))
    if like.dtype.kind == "c":
        made = made + 1j * rng.standard_normal(like.shape)
    return np.asarray(made, like.dtype)


def _moved(inputs: list[np.ndarray], leaf: int, change: np.ndarray) -> list[np.ndarray]:
    return [operand + change if number == leaf else operand for number, operand in enumerate(inputs)]


def _combined(outputs: tuple[np.ndarray, ...], weights: dict[int, np.ndarray]) -> float:
    return sum(_paired(outputs[number], weight) for number, weight in weights.items())


def _paired(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.real(np.sum(a * b)))
