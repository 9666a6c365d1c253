"""Measured times of matrix products and collectives on GPUs, and what hloom estimates for them; see README.md."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hloom.analysis import collective_line, comm_factor, device
from hloom.analysis.matmul_time import Matmul
from hloom.ir import dtype

FOLDER = Path(__file__).parent
DEVICES = {"sm_90": "h100", "sm_100_B200": "b200", "sm_100_GB200": "gb200", "sm_103": "b300"}
"""The devices of `devices.toml` by the names in the files."""
FOLDS = 5
"""Into how many parts the rows are cut, to estimate each by rates that were fitted to the others."""
Group = tuple[str, str, str]
"""A device, an operation and its element type."""
COARSE = 50e6
"""Bytes per second below which the files' times are coarse by more than 20 %."""


@dataclass(frozen=True, slots=True)
class MatmulRow:
    """Measured seconds of a product of this shape: batch, m, n and k."""

    device: str
    types: str
    shape: tuple[int, int, int, int]
    seconds: float

    @property
    def operand(self) -> str:
        """The element type of the operands, f8 for all of eight bits."""
        name = self.types.partition("x")[0]
        return "f8" if name.startswith("f8") else name

    @property
    def group(self) -> Group:
        """The device, the operation and its type."""
        return self.device, "matmul", self.operand


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """Measured seconds of a collective on `tensor_bytes` among groups of `size` devices."""

    device: str
    opcode: str
    size: int
    tensor_bytes: int
    seconds: float

    @property
    def group(self) -> Group:
        """The device, the operation and its type."""
        return self.device, self.opcode, "f32"

    @property
    def is_coarse(self) -> bool:
        """Whether the file's precision is worse than 20 %."""
        return self.tensor_bytes / self.seconds < COARSE


def matmuls() -> list[MatmulRow]:
    """All measured products."""
    return [
        MatmulRow(DEVICES[row["device"]], row["types"], shape, 2 * math.prod(shape) / float(row["flop_per_s"]))
        for row in _table("matmul")
        for shape in [(int(row["batch"]), int(row["m"]), int(row["n"]), int(row["k"]))]
    ]


def collectives() -> list[CollectiveRow]:
    """All measured collectives."""
    return [
        CollectiveRow(
            DEVICES[row["device"]],
            row["opcode"],
            int(row["devices_per_group"] or 2),
            int(row["tensor_bytes"]),
            float(row["seconds"]),
        )
        for row in _table("collectives")
    ]


def fold(row: MatmulRow | CollectiveRow) -> int:
    """Which of FOLDS parts a row belongs to; those of one shape or one message are together."""
    is_product = isinstance(row, MatmulRow)
    key = (row.device, row.shape) if is_product else (row.device, row.opcode, row.size, row.tensor_bytes)
    return zlib.crc32(repr(key).encode()) % FOLDS


def estimate(row: MatmulRow | CollectiveRow) -> float:
    """The seconds that the rates of `devices.toml` give."""
    known = device(row.device)
    if isinstance(row, CollectiveRow):
        line = collective_line(row.opcode, range(row.size), known)
        return line.seconds(row.tensor_bytes * comm_factor(row.opcode, row.size))
    rates = known.matmul_rates(dtype({"f8": "f8e4m3fn"}.get(row.operand, row.operand)))
    assert rates is not None
    batch, m, n, k = row.shape
    width = 1 if row.operand == "f8" else dtype(row.operand).byte_count
    computing = Matmul(rates, known.multiprocessors, known.memory_bandwidth, width, *row.shape).seconds
    written = batch * m * n * (4 if row.operand == "f32" else 2)
    moving = known.memory_seconds(batch * (m + n) * k * width) + written / rates.write_bandwidth
    return max(computing, moving) + rates.launch_seconds


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The quantiles of predicted over measured times, and the share of rows within 20 %."""

    rows: int
    median: float
    within: float
    low: float
    high: float


def accuracy(rows: Sequence[MatmulRow | CollectiveRow], seconds: Iterable[float]) -> dict[Group, Accuracy]:
    """How far estimates of these rows are from their times, for each device, operation and type."""
    ratios: dict[Group, list[float]] = defaultdict(list)
    for row, estimated in zip(rows, seconds, strict=True):
        ratios[row.group].append(estimated / row.seconds)
    return {group: _accuracy(np.array(own)) for group, own in sorted(ratios.items())}


def _accuracy(ratios: np.ndarray) -> Accuracy:
    low, median, high = (float(quantile) for quantile in np.quantile(ratios, (0.1, 0.5, 0.9)))
    return Accuracy(len(ratios), median, float(np.mean(np.abs(ratios - 1) <= 0.2)), low, high)


def _table(name: str) -> list[dict[str, str]]:
    text = gzip.decompress((FOLDER / f"{name}.csv.gz").read_bytes()).decode()
    return list(csv.DictReader(io.StringIO(text)))
