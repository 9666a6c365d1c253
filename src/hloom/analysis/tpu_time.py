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

from hloom.analysis.tpu_work import MatrixWork, TpuWork
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
HIDDEN_BYTES = 4096
"""A product does not wait for less than this from HBM, a register: a bias, say."""
NARROW_BITS = 8
"""Products of elements this narrow run at a rate of their own."""


@dataclass(frozen=True, slots=True)
class TpuParameters:
    """How fast a TPU core computes and moves: cycles, bytes per cycle, and cycles per f32 vector register.

    `clock` is in cycles per second, `array` the rows and columns of the systolic array, `cores` how many cores share
    the windows of an instruction and the bandwidth of HBM; other rates are a core's.

    Moving: `hbm` and `vmem` are bytes per cycle, `latency` the cycles until a window's data arrive, `window` those of
    a window for which nothing is loaded, `shuffle` those of a window that is transposed within VMEM, `splat` those to
    fill a register.

    Products: `row_rate` is rows per cycle through a tile, `tile_load` the cycles to load one, `least_rows` the fewest
    rows that count, `drain` the cycles to pack a register of results, `start` and `hbm_start` those before a product
    whose operands stand in VMEM or in HBM, `step` those for each window; `narrow` multiplies a product of 8-bit
    elements. What a fusion computes beside its product counts `beside` of its cycles, and `packed_beside` for packing.

    `overlap` is the share of the shorter of moving and computing that is not hidden. `registers` are the cycles of each
    class of vector operation for one register.
    """

    clock: float
    array: int
    cores: int
    hbm: float
    vmem: float
    latency: float
    window: float
    shuffle: float
    splat: float
    row_rate: float
    tile_load: float
    least_rows: float
    drain: float
    start: float
    hbm_start: float
    step: float
    narrow: float
    beside: float
    packed_beside: float
    overlap: float
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
        return _product_cycles(work, moving, on)
    windows = on.rounds(work.windows)
    if "relayout" in work.registers:
        moving = on.register_cycles("relayout") * work.registers["relayout"] if work.moved else 0.0
        fixed = on.latency if work.moved else on.shuffle
        return TpuCycles(0.0, moving, windows * fixed, moving + windows * fixed)
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
    apart = ("packed", "reduce-window") if work.products or "reduce-window" in work.registers else PASSING
    return sum(on.register_cycles(name) * count for name, count in work.registers.items() if name not in apart)


def _product_cycles(work: TpuWork, moving: float, on: TpuParameters) -> TpuCycles:
    """Products, and sliding windows, which the compiler emits alike; vector operations run beside them in part."""
    windows = on.rounds(work.windows)
    matrix = on.register_cycles("reduce-window") * work.registers.get("reduce-window", 0.0)
    matrix += sum(_matrix_cycles(product, on) for product in work.products)
    beside = on.beside * _vector_cycles(work, on) + on.packed_beside * work.registers.get("packed", 0.0)
    beside += on.drain * sum(product.results for product in work.products)
    compute = math.hypot(matrix, beside) * windows / work.windows
    longer, shorter = max(moving, compute), min(moving, compute) / windows
    fixed = (on.hbm_start if work.moved >= HIDDEN_BYTES else on.start) + windows * on.step
    return TpuCycles(compute, moving, fixed, longer + on.overlap * shorter + fixed)


def _matrix_cycles(product: MatrixWork, on: TpuParameters) -> float:
    """Cycles of a product, by the cheapest choice of the factor that stays in the array."""
    rows, contracted, columns = (max(1.0, size) for size in (product.rows, product.contracted, product.columns))
    choices = ((rows, contracted, columns), (contracted, rows, columns), (columns, contracted, rows))
    choices = choices[:1] if product.streams_rows else choices
    cycles = product.passes * min(_tile_cycles(*choice, on) for choice in choices)
    return cycles * (on.narrow if product.element_bits <= NARROW_BITS else 1.0)


def _tile_cycles(rows: float, height: float, width: float, on: TpuParameters) -> float:
    """Cycles of streaming rows through the tiles of a factor, whose edges count as far as they are filled."""
    down, across = height / on.array, width / on.array
    streamed = max(1.0, down) * max(1.0, across) * max(rows, on.least_rows) / on.row_rate
    return streamed + down * across * on.tile_load
