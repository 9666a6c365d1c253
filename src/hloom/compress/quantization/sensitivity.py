"""The sensitivity of a program's outputs to each weight's format, and the best formats within a budget.

Every weight is quantised alone, in every format, and XLA runs the original with it. Squared errors of different weights
add up like independent rounding errors: that predicts the error of a choice, which an integer program makes (the
multiple-choice knapsack problem), and XLA then measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hloom.compress.quantization.noise import Noise
from hloom.compress.quantization.options import QuantizationOptions
from hloom.compress.quantization.quantization import QuantizedWeight
from hloom.compress.quantization.quantize import quantize_with
from hloom.ir import Module
from hloom.runtime import run
from hloom.solver import Constraint, minimize
from hloom.text import HloomError, Unattainable

FORMATS_TO_TRY = ("int8", "int4:32")
MOST_TRIES = 8
"""The maximum number of retries, each with a smaller target, if the measured error of a choice is too large."""
_TOLERANCE = 1e-5
"""By how much the solver may miss a bound of 1."""
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """One weight in one format: its bytes, and the error of the outputs when all other weights stay."""

    weight: str
    format: str
    bytes: int
    error: float


@dataclass(frozen=True, slots=True)
class FormatChoice:
    """The formats chosen for weights by name; others are not quantised.

    `bytes` are those of all weights, before and after; `predicted` is the output error predicted from the
    sensitivities, `measured` the real one.
    """

    formats: Mapping[str, str]
    sensitivities: tuple[Sensitivity, ...]
    bytes: tuple[int, int]
    predicted: float
    measured: float


class _Outputs:
    """A program's outputs on some inputs, and how far they are from these with other weights."""

    def __init__(self, module: Module, batches: Sequence[Sequence[Any]]) -> None:
        self.module = module
        self.batches = [list(arrays) for arrays in batches]
        self.exact = [run(module, arrays).outputs for arrays in self.batches]
        if not any(output.dtype.kind not in "biu" for output in self.exact[0]):
            raise HloomError(f"{module.name} has no output of floats: there is no error to measure")

    def error(self, weights: Mapping[int, np.ndarray]) -> float:
        """The error with other weights, by number: the root of the mean, over outputs, of its square."""
        noises: list[Noise] = []
        for arrays, exact in zip(self.batches, self.exact, strict=True):
            changed = [weights.get(number, array) for number, array in enumerate(arrays)]
            outputs = run(self.module, changed).outputs
            pairs = [(a, b) for a, b in zip(exact, outputs, strict=True) if a.dtype.kind not in "biu"]
            noises = noises or [Noise() for _ in pairs]
            for noise, pair in zip(noises, pairs, strict=True):
                noise.add(*pair)
        return float(np.sqrt(np.mean([noise.error**2 for noise in noises])))


def measure_sensitivities(
    module: Module, calibration: Sequence[Sequence[Any]], formats: Sequence[str] = FORMATS_TO_TRY, **options: Any
) -> list[Sensitivity]:
    """The error of the outputs for every weight in every format, the others as they are.

    `calibration` are inputs of the program, weights among them, `options` those of `quantize` that say which weights.
    """
    return _Search(module, calibration, formats, QuantizationOptions(**options)).sensitivities


def choose_formats(
    module: Module,
    calibration: Sequence[Sequence[Any]],
    formats: Sequence[str] = FORMATS_TO_TRY,
    *,
    error: float | None = None,
    bytes: int | None = None,
    **options: Any,
) -> FormatChoice:
    """Choose the format of every weight: the fewest bytes within an output error, or the smallest error within bytes.

    A weight may also stay unquantised. The error is measured; if it exceeds both the prediction and the limit, the
    choice is repeated with a lower target. Raises HloomError if nothing fits.
    """
    if (error is None) == (bytes is None):
        raise HloomError(
            "a choice of formats needs one budget",
            hint="error=0.01 (--error-budget), or bytes=10_000_000 (--bytes-budget)",
        )
    if error is not None and not error > 0:
        raise HloomError(f"an error of {error} allows nothing", hint="give an error above 0, such as 0.01")
    search = _Search(module, calibration, formats, QuantizationOptions(**options))
    if bytes is not None:
        return search.choice(search.least_error(bytes))
    assert error is not None, "one is given"
    allowed = error
    for _ in range(MOST_TRIES):
        choice = search.choice(search.fewest_bytes(allowed))
        if choice.measured <= error or not choice.formats:
            return choice
        allowed *= 0.95 * error / choice.measured
    return search.choice({})


class _Search:
    """The weights of a program, quantised in all formats, and what that does to the outputs."""

    def __init__(
        self,
        module: Module,
        calibration: Sequence[Sequence[Any]],
        formats: Sequence[str],
        options: QuantizationOptions,
    ) -> None:
        if not calibration:
            raise HloomError(
                "sensitivities need inputs to measure errors on", hint="calibration=[arrays, ...], or --calibrate X.npz"
            )
        if not formats or len(set(formats)) < len(formats):
            raise HloomError(
                "formats to choose from are some, all different",
                hint="formats=('int8', 'int4:32'), or --choices int8,int4:32",
            )
        self.made = {text: quantize_with(module, replace(options, weights=text)) for text in formats}
        self.weights = {text: {w.name: w for w in one.weights} for text, one in self.made.items()}
        every = {w.name: w for one in self.made.values() for w in one.weights}
        self.names = [*every]
        self.outputs = _Outputs(module, calibration)
        self.arrays = list(calibration[0])
        if any(
            not np.array_equal(self.arrays[w.number], arrays[w.number])
            for w in every.values()
            for arrays in calibration
        ):
            raise HloomError("the inputs of the calibration have different weights: no error belongs to one of them")
        self.sensitivities = [
            Sensitivity(
                name, text, weight.bytes_after, self.outputs.error({weight.number: self._dequantized(text, weight)})
            )
            for text in formats
            for name, weight in self.weights[text].items()
        ]
        self.bytes_before = {weight.name: weight.bytes_before for weight in every.values()}

    def _dequantized(self, text: str, weight: QuantizedWeight) -> np.ndarray:
        made = self.made[text].quantized(weight, self.arrays[weight.number])
        return made.dequantized(weight.type.dtype.numpy)

    def choice(self, formats: Mapping[str, str]) -> FormatChoice:
        """What a choice of formats means, its error measured."""
        by_name = {(one.weight, one.format): one for one in self.sensitivities}
        chosen = [by_name[pair] for pair in formats.items()]
        after = sum(one.bytes for one in chosen) + sum(b for n, b in self.bytes_before.items() if n not in formats)
        changed = {}
        for name, text in formats.items():
            weight = self.weights[text][name]
            changed[weight.number] = self._dequantized(text, weight)
        return FormatChoice(
            dict(formats),
            tuple(self.sensitivities),
            (sum(self.bytes_before.values()), after),
            float(np.sqrt(sum(one.error**2 for one in chosen))),
            self.outputs.error(changed) if changed else 0.0,
        )

    def fewest_bytes(self, error: float) -> dict[str, str]:
        """The formats of the fewest bytes whose predicted error is within another."""
        rows = [(one.error / error) ** 2 for one in self.sensitivities]
        total = max(sum(self.bytes_before.values()), 1)
        made = self._solve(
            [one.bytes / total for one in self.sensitivities],
            self._kept(1 / total),
            rows,
            dict.fromkeys(self.names, 0.0),
        )
        assert made is not None, "all weights may stay"
        return made

    def least_error(self, budget: int) -> dict[str, str]:
        """The formats of the least predicted error that take no more bytes than a budget."""
        least = sum(
            min([self.bytes_before[name], *(held[name].bytes_after for held in self.weights.values() if name in held)])
            for name in self.names
        )
        if least > budget:
            raise Unattainable(
                f"no choice of {', '.join(self.weights)} fits into {budget:,} bytes: the smallest takes {least:,}",
                hint="allow more bytes, or narrower formats",
            )
        finite = [one.error**2 for one in self.sensitivities if np.isfinite(one.error)]
        greatest = max(max(finite, default=0.0), np.finfo(np.float64).tiny)
        costs = [one.error**2 / greatest for one in self.sensitivities]
        rows = [one.bytes / budget for one in self.sensitivities]
        made = self._solve(costs, dict.fromkeys(self.names, 0.0), rows, self._kept(1 / budget))
        if made is None:
            raise Unattainable(f"no choice of {', '.join(self.weights)} with a finite error takes {budget:,} bytes")
        return made

    def _kept(self, scale: float) -> dict[str, float]:
        return {name: size * scale for name, size in self.bytes_before.items()}

    def _solve(
        self,
        costs: Sequence[float],
        kept_costs: Mapping[str, float],
        sizes: Sequence[float],
        kept_sizes: Mapping[str, float],
    ) -> dict[str, str] | None:
        """The cheapest formats whose sizes sum up to 1 at most; columns are the sensitivities, and what stays."""
        columns = [*((one.weight, one.format) for one in self.sensitivities), *((name, "") for name in self.names)]
        cost = np.array([*costs, *(kept_costs[name] for name in self.names)])
        size = np.array([*sizes, *(kept_sizes[name] for name in self.names)])
        upper = np.array(np.isfinite(cost) & np.isfinite(size) & (size <= 1), np.float64)
        cost, size = np.where(upper > 0, cost, 0), np.where(upper > 0, size, 0)
        numbers = np.arange(len(columns))
        rows: list[Constraint] = []
        for name in self.names:
            own = np.array([number for number, (weight, _) in enumerate(columns) if weight == name])
            rows += [Constraint(own, np.ones(len(own)), 1), Constraint(own, -np.ones(len(own)), -1)]
        for bound in (1, 1 - _TOLERANCE):
            solved = minimize(cost, np.zeros(len(columns)), upper, [Constraint(numbers, size, bound), *rows])
            if solved is None:
                return None
            taken = np.round(solved[0])
            if taken @ size <= 1 + _ROUNDING:
                chosen = {columns[number] for number in np.flatnonzero(taken)}
                return {name: text for name, text in sorted(chosen) if text}
        return None
