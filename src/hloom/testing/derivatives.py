"""Compares derivatives with central differences, in double precision, on random inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hloom import autodiff
from hloom.autodiff import in_double_precision
from hloom.ir import Module
from hloom.runtime import Inputs, run
from hloom.text import tracked

STEP = 1e-6
"""The distance of the two evaluations, relative to inputs of about 1."""
TOLERANCE = 1e-5
"""How far a derivative and a difference may be apart, relative to the greater of them and of what is small."""
SMALL = 1e-3
"""What is small where inputs were scaled, relative to the greatest derivative; otherwise what is below 1."""
WIDER = (4.0, 16.0)
"""Further steps, as multiples of the first: differences of these are as far apart as each of them may be off."""
CERTAINTY = 10.0
"""How many times as far as differences are apart a derivative has to be off before it counts as wrong."""
SPREAD = 0.01
"""How far differences may be apart, relative to themselves: where steps matter more, they are not derivatives."""
SCALES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
"""What random inputs are multiplied by, one after the other, until differences say something: programs that repeat
products, such as recurrent networks, explode where weights are about 1."""


@dataclass(frozen=True, slots=True)
class DerivativeCheck:
    """A directional derivative with respect to one parameter, and the central difference in the same direction.

    Both, and `uncertainty`, are in the unit of the result.
    """

    parameter: str
    derivative: float
    difference: float
    uncertainty: float = 0.0
    """How far differences of other steps are apart: 0 where the first agrees, and no others were asked for."""
    scale: float = 1.0
    """What the random inputs were multiplied by."""
    floor: float = 1.0
    """What is small: errors are relative to that, where both are smaller."""
    json_keys = "* error agrees"

    @property
    def error(self) -> float:
        """How far they are apart, relative to the greatest of them and of `floor`."""
        distance = abs(self.derivative - self.difference) / max(abs(self.derivative), abs(self.difference), self.floor)
        return distance if np.isfinite(distance) else float("inf")

    @property
    def agrees(self) -> bool:
        return self.error <= TOLERANCE

    @property
    def is_conclusive(self) -> bool:
        """Whether the difference says if the derivative is right: not where it is itself as far off as that."""
        if self.agrees:
            return True
        steady = max(SPREAD * abs(self.difference), TOLERANCE * min(self.floor, 1.0))
        is_steady = self.uncertainty <= steady  # false for NaN
        return is_steady and not abs(self.derivative - self.difference) <= CERTAINTY * self.uncertainty


def check_derivatives(
    module: Module,
    wrt: autodiff.Which = None,
    *,
    of: int | None = None,
    stop: Iterable[str] = (),
    seed: int = 0,
    inputs: Inputs | None = None,
    **options: Any,
) -> list[DerivativeCheck]:
    """One comparison for each parameter, in a random direction; of all results in a random combination, or of one.

    The module is run in double precision, on the inputs given or on random ones, which are made smaller where
    differences say nothing of them (`SCALES`). A kink between the two evaluations shows as a disagreement: another seed
    says whether it was one. Raises HloomError as `autodiff.vjp` does, and Unsupported for what has no double precision.
    """
    program = in_double_precision(module)
    comparison = _Comparison(program, autodiff.vjp(program, wrt, stop=stop, **options), of)
    chosen = autodiff.parameters_of(program, wrt)
    first: list[DerivativeCheck] = []
    given = run(program, inputs, seed=seed).inputs
    for scale in SCALES if inputs is None else SCALES[:1]:
        scaled = [np.array(operand * scale if operand.dtype.kind in "fc" else operand) for operand in given]
        checks = comparison.at(scaled, chosen, seed, scale)
        if all(check.is_conclusive for check in checks):
            return checks
        first = first or checks
    return first


class _Comparison:
    """A program beside its backward part."""

    def __init__(self, program: Module, backward: Module, of: int | None) -> None:
        self.program = program
        self.backward = backward
        self.of = of

    def at(
        self, inputs: list[np.ndarray], chosen: Sequence[tuple[int, str]], seed: int, scale: float
    ) -> list[DerivativeCheck]:
        """The comparisons at one point."""
        rng = np.random.default_rng(seed)
        outputs = run(self.program, inputs).outputs
        floats = [number for number, output in enumerate(outputs) if output.dtype.kind in "fc"]
        weights = {number: _direction(rng, outputs[number]) for number in floats}
        if self.of is not None:
            weights.update({number: np.zeros_like(value) for number, value in weights.items() if number != self.of})
        result = run(self.backward, [*inputs, *weights.values()]).outputs
        directions = [_direction(rng, gradient) for gradient in result]
        slopes = [_paired(gradient, direction) for gradient, direction in zip(result, directions, strict=True)]
        floor = 1.0 if scale == 1.0 else max([SMALL * abs(slope) for slope in slopes] + [np.finfo(np.float64).tiny])
        checks = []
        for (leaf, name), direction, slope in tracked(list(zip(chosen, directions, slopes, strict=True))):

            def difference(step: float, leaf: int = leaf, direction: np.ndarray = direction) -> float:
                ends = [
                    _combined(run(self.program, _moved(inputs, leaf, direction * (sign * step))).outputs, weights)
                    for sign in (1, -1)
                ]
                return (ends[0] - ends[1]) / (2 * step)

            check = DerivativeCheck(name, slope, difference(STEP * scale), scale=scale, floor=floor)
            if not check.agrees:
                all_steps = [check.difference, *(difference(STEP * scale * factor) for factor in WIDER)]
                check = replace(check, uncertainty=max(all_steps) - min(all_steps))
            checks.append(check)
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
