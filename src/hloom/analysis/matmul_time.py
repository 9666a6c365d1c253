"""The time of a matrix product on a GPU: tiles that its multiprocessors compute in waves.

A product's result is cut into tiles, and each multiprocessor computes one tile at a time. A tile takes the longer of
multiplying and of loading its operands from the cache, and then its pipeline has to fill and drain. A last wave that is
not full takes as long as a full one. Where there are fewer tiles than multiprocessors, the contracted dimension may be
split into parts that are summed at the end (split-K). Libraries choose among tiles and splits by trying them, so the
fastest counts. The shapes are those of CUTLASS's kernels for tensor cores (media/docs/cpp/efficient_gemm.md).

`scripts/calibrate_gpus.py` finds the rates from measured times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

TILES = ((64, 64), (64, 128), (128, 64), (64, 256), (256, 64), (128, 128), (128, 256), (256, 128))
"""Rows and columns of the result that a thread block may compute."""
SPLITS = (1, 2, 4, 8)
"""Into how many parts the contracted dimension may be split."""
WHOLE_TILE = 128 * 128
"""Elements of the tile that `tile_seconds` is about."""
PARTIAL_BYTES = 4
"""Bytes per element of the partial sums of split parts, which are f32."""


@dataclass(frozen=True, slots=True)
class MatmulRates:
    """Rates of matrix products of one element type, of all multiprocessors together.

    `launch_seconds` is the fixed time of a product. `rate` is in FLOP/s on full tiles; `tile_bandwidth` in bytes per
    second of operands that tiles load from the cache; `tile_seconds` what a tile of 128 x 128 takes beyond that, in
    proportion to its elements; `split_seconds` what summing the parts of a split takes beyond moving them.
    `write_bandwidth` is in bytes of results per second: part of them stays in the cache.

    Three are 0 where they do not apply. `arrange_bandwidth` is in bytes of the right operand per second, if the units
    need it in another order than XLA's. Products with batch dimensions may run in other kernels, with their own
    `batch_tile_bandwidth` and `batch_tile_seconds`.
    """

    launch_seconds: float
    rate: float
    tile_bandwidth: float
    tile_seconds: float
    split_seconds: float
    write_bandwidth: float
    arrange_bandwidth: float = 0.0
    batch_tile_bandwidth: float = 0.0
    batch_tile_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Matmul:
    """A product of `batch` matrices of m x k and k x n elements, on units of these rates.

    `width` is the size of an operand's element in bytes, `units` the number of multiprocessors, `bandwidth` that of the
    memory in bytes per second.
    """

    rates: MatmulRates
    units: int
    bandwidth: float
    width: float
    batch: int
    m: int
    n: int
    k: int

    @property
    def seconds(self) -> float:
        """Seconds of computing, without the launch; 0 if it has no elements."""
        return _seconds(self)

    def shared_seconds(self, shares: np.ndarray) -> np.ndarray:
        """Seconds of parts of a product; a row has a part's share of the batch, of m, of n and of k."""
        shapes = np.maximum(np.rint(shares * np.array([self.batch, self.m, self.n, self.k], np.float64)), 1.0)
        return matmul_seconds(shapes, self.rates, self.units, self.bandwidth, self.width)


@lru_cache(1 << 14)  # a large program has some hundreds of shapes
def _seconds(matmul: Matmul) -> float:
    shape = np.array([[matmul.batch, matmul.m, matmul.n, matmul.k]], np.float64)
    if not shape.all():
        return 0.0
    return float(matmul_seconds(shape, matmul.rates, matmul.units, matmul.bandwidth, matmul.width)[0])


def matmul_seconds(shapes: np.ndarray, rates: MatmulRates, units: int, bandwidth: float, width: float) -> np.ndarray:
    """Seconds of computing of products without their launches; a row of `shapes` is batch, m, n and k of one."""
    batch, m, n, k = (shapes[:, number, None, None] for number in range(4))
    rows, columns = (np.array(sizes, np.float64)[None, :, None] for sizes in zip(*TILES, strict=True))
    splits = np.array(SPLITS, np.float64)[None, None, :]
    tile_bandwidth = np.where(batch > 1, rates.batch_tile_bandwidth or rates.tile_bandwidth, rates.tile_bandwidth)
    tile_seconds = np.where(batch > 1, rates.batch_tile_seconds or rates.tile_seconds, rates.tile_seconds)
    waves = np.ceil(batch * np.ceil(m / rows) * np.ceil(n / columns) * splits / units)
    multiplying = 2 * rows * columns * units / rates.rate
    loading = (np.minimum(rows, m) + np.minimum(columns, n)) * width * units / tile_bandwidth
    each = np.maximum(multiplying, loading) * np.ceil(k / splits) + tile_seconds * (rows * columns / WHOLE_TILE)
    summing = np.where(splits > 1, rates.split_seconds + batch * m * n * splits * (PARTIAL_BYTES / bandwidth), 0.0)
    fastest = (waves * each + summing).reshape(len(shapes), -1).min(1)
    if not rates.arrange_bandwidth:
        return fastest
    return fastest + (batch * k * n).reshape(-1) * width / rates.arrange_bandwidth
