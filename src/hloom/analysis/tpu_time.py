"""The time of an instruction of an optimised TPU program, whose operands pass through VMEM in windows.

    latency + load -> compute -> store                               one window
    windows x longer of (latency + passes, compute) + the shorter   several, with the next one fetched meanwhile

Passes over a window are its load, its store, and another one if narrow elements are unpacked or many are reduced.
Operands that stand in VMEM already are loaded as well, results that stay there are not stored.

The parameters of each device stand in `tpus.toml`, in cycles of its clock. `scripts/calibrate_tpus.py` fits them to the
cycles that the TPU compiler estimates for instructions of many programs; the model itself never reads these cycles.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from hloom.analysis.tpu_work import LANES, MatrixWork, TpuWork
from hloom.ir import Apply, TensorType

OWN_FILE = Path(__file__).with_name("tpus.toml")
LIKE = {
    "logistic": "exponential",
    "exponential-minus-one": "exponential",
    "log-plus-one": "log",
    "cosine": "sine",
    "tan": "sine",
    "remainder": "divide",
    "atan2": "erf",
    "cbrt": "power",
}
"""Classes of operations without a rate of their own, and the class whose rate they take."""
PASSING = ("packed", "reduce")
"""Classes that take another pass over a window, which no other computation hides; both share one pass."""
OTHER = "other"
"""The class of operations that have neither."""


@dataclass(frozen=True, slots=True)
class TpuParameters:
    """How fast a TPU core computes and moves: cycles, bytes per cycle, and cycles per f32 vector register.

    `clock` is in cycles per second, `array` the rows and columns of the systolic array, `cores` how many cores share
    the windows of an instruction and the bandwidth of HBM; other rates are a core's. `bf16_vectors` says whether vector
    registers compute on bf16; elsewhere a product's result that is not plain f32 passes through HBM as f32.

    Moving: `hbm` and `vmem` are bytes per cycle, `latency` the cycles until a window's data arrive, `window` those of
    a window for which nothing is loaded, `shuffle` those of a window that is transposed within VMEM, `splat` those to
    fill a register.

    Products: `row_rate` is rows per cycle through tiles, `least_rows` those that loading a tile takes, `start` the
    cycles before the first result, `fetch` those until a factor in HBM has arrived.

    `registers` are the cycles of each class of vector operation for one register.
    """

    clock: float
    array: int
    cores: int
    bf16_vectors: bool
    hbm: float
    vmem: float
    latency: float
    window: float
    shuffle: float
    splat: float
    row_rate: float
    start: float
    fetch: float
    least_rows: float
    registers: Mapping[str, float]

    def rounds(self, windows: int) -> int:
        """How many windows the core that computes most of an instruction's windows has."""
        return -(-windows // self.cores)

    def register_cycles(self, name: str) -> float:
        """Cycles of a class of operations for one register."""
        known = self.registers
        return known.get(LIKE.get(name, name), known[OTHER])


class TpuCycles(NamedTuple):
    """Cycles of one run: computing, moving data, what passes before and between, and all together."""

    compute: float
    memory: float
    fixed: float
    total: float


@lru_cache(1)
def tpu_parameters() -> Mapping[str, TpuParameters]:
    """The parameters of the TPUs that hloom knows, by the device's name."""
    tables = tomllib.loads(OWN_FILE.read_text())
    return {name: TpuParameters(**table) for name, table in tables.items()}


def tpu_cycles(node: Apply, work: TpuWork, on: TpuParameters) -> TpuCycles:
    """The cycles of one run of an instruction that does this work."""
    moving = work.moved / on.hbm
    if work.products or "reduce-window" in work.registers:
        return _product_cycles(work, on)
    windows = on.rounds(work.windows)
    if "relayout" in work.registers:
        transfers = work.windows * on.latency * ((work.loaded > 0) + (work.stored > 0))
        moving = work.registers["relayout"] * LANES * 4 / on.hbm
        fixed = transfers + work.windows * on.shuffle
        return TpuCycles(0.0, moving, fixed, moving + fixed)
    is_packed = "packed" in work.registers
    stays = not work.moved and not is_packed and work.fills_tiles
    if stays and node.opcode in ("broadcast", "copy", "iota"):
        filling = on.splat * work.registers.get("single", 0.0)
        return TpuCycles(filling, 0.0, windows * on.window, filling + windows * on.window)
    compute = _vector_cycles(work, on) * windows / work.windows
    if stays and not work.has_operands:
        return TpuCycles(compute, 0.0, windows * on.window, compute + windows * on.window)
    passing = max(on.register_cycles(name) * work.registers.get(name, 0.0) for name in PASSING)
    moving += (work.local / on.vmem + passing) * windows / work.windows
    fetch, busy = on.latency + moving / windows, compute / windows
    total = windows * max(fetch, busy) + min(fetch, busy)
    return TpuCycles(compute, moving, windows * on.latency, total)


def scalar_cycles(on: TpuParameters) -> float:
    """Cycles of an instruction that computes scalars: the compiler estimates none, a window's overhead is assumed."""
    return on.window


def is_scalar(node: Apply) -> bool:
    """Whether an instruction computes a scalar from scalars."""
    kinds = (node.type, *(operand.type for operand in node.operands))
    return all(isinstance(kind, TensorType) and not kind.dims for kind in kinds)


def _vector_cycles(work: TpuWork, on: TpuParameters) -> float:
    apart = (*PASSING, "reduce-window")
    return sum(on.register_cycles(name) * count for name, count in work.registers.items() if name not in apart)


def _product_cycles(work: TpuWork, on: TpuParameters) -> TpuCycles:
    """Products, and sliding windows, which the compiler emits alike; vector operations run beside them."""
    windows = on.rounds(work.windows)
    matrix = on.register_cycles("reduce-window") * work.registers.get("reduce-window", 0.0)
    matrix += sum(_matrix_cycles(product, on) for product in work.products)
    compute = max(matrix, _vector_cycles(work, on)) * windows / work.windows
    rounded = work.rounded if work.is_sent or not on.bf16_vectors else 0
    moving = (work.moved + rounded) / on.hbm
    fixed = max(1, len(work.products)) * on.start + work.fetches * on.fetch
    fixed += on.latency if work.is_sent or (not on.bf16_vectors and (rounded or work.stored)) else 0.0
    longer, shorter = max(moving, compute), min(moving, compute) / windows
    return TpuCycles(compute, moving, fixed, longer + shorter + fixed)


def _matrix_cycles(product: MatrixWork, on: TpuParameters) -> float:
    """Cycles of streaming rows through tiles of the array, whose load takes as long as some rows do."""
    filled = min(1.0, product.contracted / on.array)
    rows = max(product.rows, on.least_rows * filled)
    tiles = math.ceil(product.contracted / on.array) * math.ceil(product.columns / on.array)
    return product.passes * rows * tiles / on.row_rate
