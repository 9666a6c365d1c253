"""Ranges of activations, measured on inputs: by maximum magnitude, percentile, or minimum squared error.

Source: the choices are those of NVIDIA's TensorRT and ONNX Runtime's quantiser (calibrate.py: MinMaxCalibrater,
PercentileCalibrater); histograms double their range as theirs do, so that they need one pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from hloom.compress.quantization.arithmetic import rounded
from hloom.compress.quantization.formats import NumberFormat
from hloom.evaluator import Value, evaluate
from hloom.ir import Module, Node
from hloom.text import HloomError

CLIPPINGS = ("minmax", "percentile", "mse")
"""How the range is chosen."""
BINS = 2048
PERCENTILE = 99.99
"""The percentile of magnitudes that `percentile` keeps."""
CANDIDATES = 100
"""The number of ranges that `mse` tries."""


class MagnitudeHistogram:
    """How often magnitudes are in BINS equal parts of a range, which is a power of two and doubles as needed."""

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.limit = 0.0
        self.greatest = 0.0

    def add(self, values: np.ndarray) -> None:
        """Count values; raises HloomError where one is not finite."""
        magnitudes = np.abs(values.astype(np.float64)).reshape(-1)
        greatest = float(magnitudes.max(initial=0.0))
        if not np.isfinite(greatest):
            raise HloomError("an activation is NaN or infinite on the inputs of the calibration")
        if greatest > self.limit:
            self._widen(float(2.0 ** np.ceil(np.log2(greatest))))
        self.greatest = max(self.greatest, greatest)
        if self.limit:
            bins = np.minimum((magnitudes * (BINS / self.limit)).astype(np.int64), BINS - 1)
            self.counts += np.bincount(bins, minlength=BINS)

    def _widen(self, limit: float) -> None:
        if self.limit:
            factor = int(min(limit / self.limit, BINS))
            merged = self.counts.reshape(-1, factor).sum(1)
            self.counts = np.concatenate([merged, np.zeros(BINS - len(merged), np.int64)])
        self.limit = limit

    def clip(self, clipping: str, form: NumberFormat, percentile: float = PERCENTILE) -> float:
        """The magnitude that maps to a format's largest number; 0 if all values are zero."""
        if clipping == "minmax" or not self.greatest:
            return self.greatest
        centres = (np.arange(BINS) + 0.5) * (self.limit / BINS)
        if clipping == "percentile":
            shares = np.cumsum(self.counts) / self.counts.sum()
            first = int(np.searchsorted(shares, percentile / 100))
            return min(float((first + 1) * self.limit / BINS), self.greatest)
        errors = []
        for step in range(1, CANDIDATES + 1):
            clip = self.greatest * step / CANDIDATES
            scale = clip / form.largest
            steps = rounded(centres / scale, form).astype(np.float64)
            # values are spread over a bin: rounding a uniform value to a step size costs at least size^2 / 12
            least = (form.spacing(steps) * scale) ** 2 / 12
            inside = np.where(centres <= clip, np.maximum((centres - steps * scale) ** 2, least), (centres - clip) ** 2)
            errors.append(float(np.sum(self.counts * inside)))
        return self.greatest * (int(np.argmin(errors)) + 1) / CANDIDATES


def calibrate(
    module: Module, products: Collection[tuple[str, str, int]], batches: Sequence[Sequence[Any]]
) -> dict[tuple[str, str, int], MagnitudeHistogram]:
    """The magnitudes of some operands on all inputs, computed by numpy.

    Operands are (computation's name, product's name, operand's index). Raises HloomError where numpy cannot compute the
    program, and where an operand was never computed.
    """
    if not batches:
        raise HloomError(
            "static activations need inputs to measure", hint="calibration=[arrays, ...], or --calibrate X.npz"
        )
    operands: dict[Node, list[tuple[str, str, int]]] = {}
    for key in products:
        graph, name, operand_index = key
        operands.setdefault(module[graph][name].operands[operand_index], []).append(key)
    histograms: dict[tuple[str, str, int], MagnitudeHistogram] = {}

    def count(node: Node, value: Value) -> None:
        for key in operands.get(node, ()):
            if isinstance(value, np.ndarray | np.generic):
                histograms.setdefault(key, MagnitudeHistogram()).add(np.asarray(value))

    for arrays in batches:
        evaluate(module, list(arrays), observe=count)
    missing = [name for _, name, _ in (key for key in products if key not in histograms)]
    if missing:
        raise HloomError(f"{missing[0]} is never computed on the inputs of the calibration")
    return histograms
