"""Measured times of matrix products and collectives on GPUs, and what hloom estimates for them; see README.md."""

from __future__ import annotations

import csv
import gzip
import io
import math
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from hloom.analysis import collective_line, comm_factor, device
from hloom.analysis.matmul_time import Matmul
from hloom.ir import dtype

FOLDER = Path(__file__).parent
DEVICES = {"sm_90": "h100", "sm_100_B200": "b200", "sm_100_GB200": "gb200", "sm_103": "b300"}
"""The devices of `devices.toml` by the names in the files."""
SEED = 20261128
Row = TypeVar("Row")
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
    def group(self) -> tuple[str, str, str]:
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
    def group(self) -> tuple[str, str, str]:
        """The device, the operation and its type."""
        return self.device, self.opcode, "f32"

    @property
    def is_coarse(self) -> bool:
        """Whether the file's precision is worse than 20 %."""
        return self.tensor_bytes / self.seconds < COARSE


def matmuls() -> tuple[list[MatmulRow], list[MatmulRow]]:
    """The rows of two thirds of the shapes, to fit rates to, and those of the third that is held out."""
    table = _table("matmul")
    keys = [(row["device"], _shape(row)) for row in table]
    held = _drawn(sorted(set(keys)))
    rows = [
        MatmulRow(DEVICES[name], row["types"], shape, 2 * math.prod(shape) / float(row["flop_per_s"]))
        for row, (name, shape) in zip(table, keys, strict=True)
    ]
    return _split(rows, [key in held for key in keys])


def collectives() -> tuple[list[CollectiveRow], list[CollectiveRow]]:
    """Two thirds of the rows, to fit rates to, and the third that is held out."""
    rows = [
        CollectiveRow(
            DEVICES[row["device"]],
            row["opcode"],
            int(row["devices_per_group"] or 2),
            int(row["tensor_bytes"]),
            float(row["seconds"]),
        )
        for row in _table("collectives")
    ]
    held = _drawn(list(range(len(rows))))
    return _split(rows, [number in held for number in range(len(rows))])


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


def accuracy(rows: Iterable[MatmulRow | CollectiveRow]) -> dict[tuple[str, str, str], Accuracy]:
    """How far the estimates are from the measurements, for each device, operation and type."""
    ratios: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        ratios[row.group].append(estimate(row) / row.seconds)
    return {group: _accuracy(np.array(own)) for group, own in sorted(ratios.items())}


def _accuracy(ratios: np.ndarray) -> Accuracy:
    low, median, high = (float(quantile) for quantile in np.quantile(ratios, (0.1, 0.5, 0.9)))
    return Accuracy(len(ratios), median, float(np.mean(np.abs(ratios - 1) <= 0.2)), low, high)


def _table(name: str) -> list[dict[str, str]]:
    text = gzip.decompress((FOLDER / f"{name}.csv.gz").read_bytes()).decode()
    return list(csv.DictReader(io.StringIO(text)))


def _shape(row: dict[str, str]) -> tuple[int, int, int, int]:
    return int(row["batch"]), int(row["m"]), int(row["n"]), int(row["k"])


def _drawn(keys: list[Any]) -> set[Any]:
    """A third of some keys, the same in every run."""
    random.Random(SEED).shuffle(keys)
    return set(keys[: len(keys) // 3])


def _split(rows: list[Row], is_held: list[bool]) -> tuple[list[Row], list[Row]]:
    pairs = list(zip(rows, is_held, strict=True))
    return [row for row, held in pairs if not held], [row for row, held in pairs if held]
