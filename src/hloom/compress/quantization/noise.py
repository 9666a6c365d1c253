"""The difference between two arrays as noise on a signal.

The signal-to-noise ratio is 10 log10(sum |x|^2 / sum |x - x'|^2), in decibels; the error is the root of its inverse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hloom.text import HloomError, Record


@dataclass(slots=True)
class Noise(Record):
    """Sums of squares of the original's values and of the differences, and the maximum difference."""

    signal: float = 0.0
    noise: float = 0.0
    greatest: float = 0.0
    """The maximum difference, in the unit of the values."""
    json_keys = "error snr greatest"

    def add(self, original: np.ndarray, quantized: np.ndarray) -> None:
        """Count two arrays' values; raises HloomError where they are not of one shape."""
        if original.shape != quantized.shape:
            raise HloomError(f"a value of shape {original.shape} cannot be compared with one of {quantized.shape}")
        wide = np.complex128 if original.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            one, other = original.astype(wide), quantized.astype(wide)
            same = (one == other) | (np.isnan(one) & np.isnan(other))
            difference = np.abs(np.where(same, 0, one - other))
        self.signal += float(np.sum(np.abs(np.where(np.isfinite(one), one, 0)) ** 2))
        self.noise += float(np.sum(np.where(np.isnan(difference), math.inf, difference) ** 2))
        self.greatest = max(self.greatest, float(np.max(difference, initial=0.0)))

    @classmethod
    def of(cls, original: Iterable[np.ndarray], quantized: Iterable[np.ndarray]) -> tuple[Noise, ...]:
        """The noise of each of some arrays."""
        noises: list[Noise] = []
        for one, other in zip(original, quantized, strict=True):
            noises.append(cls())
            noises[-1].add(one, other)
        return tuple(noises)

    @property
    def error(self) -> float:
        """The norm of the differences over that of the values; 0 where nothing differs."""
        if not self.noise:
            return 0.0
        return math.sqrt(self.noise / self.signal) if self.signal else math.inf

    @property
    def snr(self) -> float:
        """In decibels; infinite where nothing differs."""
        error = self.error
        return -20 * math.log10(error) if 0 < error < math.inf else (math.inf if not error else -math.inf)
