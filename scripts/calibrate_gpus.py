"""Fit the rates of matrix products and collectives on GPUs to measured times, and print rows for devices.toml.

    python scripts/calibrate_gpus.py [DEVICE ...]

The measured times are in tests/analysis/gpu_times. Rates are fitted to two thirds of the rows; the table at the end is
of the other third, by the rates that devices.toml has now. Each fit starts at several points and takes up to a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from hloom.analysis import Device, device
from hloom.analysis.collective_cost import halves
from hloom.analysis.collective_rates import CollectiveRates, PairRates, PeerRates, RingRates
from hloom.analysis.matmul_time import MatmulRates, matmul_seconds
from tests.analysis.gpu_times import DEVICES, CollectiveRow, MatmulRow, accuracy, collectives, matmuls

MATMULS = {"bf16": 2, "f32": 4, "f8": 1}
"""Bytes of an operand's element by type."""
ARRANGED = {("h100", "f8")}
"""Products whose right operand is transposed first: Hopper's f8 units take both operands with k innermost."""
BATCHED = {("h100", "f32")}
"""Products that run in other kernels if they have batch dimensions; for the others that made no difference."""
FASTER = {("h100", "f8"): 2.0}
"""By how much rates may exceed the data sheet's peak: the times of these rows do, and the reason is not known."""
HOST_SIZE = {"gb200": 4, "b300": 4}
"""Devices in a host where NVLink joins more; all-to-alls within a host take another way."""
TOGETHER = ("gb200", "b300")
"""Devices whose all-to-alls are fitted together: both have NVLink 5, and one's rows are few for so many figures."""
EAGER_BYTES = float(1 << 19)
"""NCCL sends up to 16 KiB on a channel eagerly (src/enqueue.cc, NCCL_P2P_LL_THRESHOLD); times jump at 32 of them."""
ROUNDS = 8
STEPS = 800
TOLERANCE = 0.2
"""The relative error within which an estimate is good."""
BIAS = 0.2
"""The weight of the median's error; at 0.5 the spread of the f32 products on H100 suffered."""
WIDEST_WRITES = 4.0
"""The greatest multiple of the memory's bandwidth at which results may be written, where no row tells."""

Loss = Callable[[np.ndarray], float]


def main(names: Sequence[str]) -> None:
    """Print the rates of the devices of these names, or of all, and the accuracy of those in devices.toml."""
    for name in names or DEVICES.values():
        known = device(name)
        print(f"\n# {name}")
        rows = [row for row in matmuls()[0] if row.device == name]
        for element_type, width in MATMULS.items():
            own = [row for row in rows if row.operand == element_type]
            if own:
                key = "f32_fast" if element_type == "f32" else element_type
                print(f"[{name}.matmul.{key}]\n{_lines(_fit_matmul(own, known, element_type, width))}\n")
        measured = [row for row in collectives()[0] if not row.is_coarse]
        for opcode in sorted({row.opcode for row in measured}):
            alike = TOGETHER if opcode == "all-to-all" and name in TOGETHER else (name,)
            own = [row for row in measured if row.opcode == opcode and row.device in alike]
            limit = HOST_SIZE.get(name)
            parts = [own]
            if opcode == "all-to-all" and limit:
                parts = [[row for row in own if (row.size > limit) == is_far] for is_far in (False, True)]
            for part in parts:
                rates = _fit_collective(part, opcode, is_far=part is not parts[0], is_wide=limit is not None)
                print(f"{opcode} = {{ {_lines(rates).replace(chr(10), ', ')} }}")
    print(
        f"\n{'device':7} {'operation':20} {'type':5} {'rows':>5} {'median':>7} {'in 20 %':>8} {'10 %':>6} {'90 %':>6}"
    )
    for group, made in accuracy([*matmuls()[1], *collectives()[1]]).items():
        kind = f"{group[0]:7} {group[1]:20} {group[2]:5}"
        print(f"{kind} {made.rows:5} {made.median:7.3f} {made.within:8.0%} {made.low:6.2f} {made.high:6.2f}")


def _fit_matmul(rows: Sequence[MatmulRow], known: Device, element_type: str, width: int) -> MatmulRates:
    """The rates of one element type that come nearest to some measured products."""
    shapes = np.array([row.shape for row in rows], np.float64)
    seconds = np.array([row.seconds for row in rows])
    batch, m, n, k = shapes.T
    reading = batch * (m + n) * k * width / known.memory_bandwidth
    written = batch * m * n * (4 if element_type == "f32" else 2)
    peak = known.matrix["f32_fast" if element_type == "f32" else element_type]
    start = [5e-6, 0.8 * peak, 4.5 * known.memory_bandwidth, 0.8e-6, 2e-6, 1.3 * known.memory_bandwidth]
    key = known.name, element_type
    start += [2e12] if key in ARRANGED else []
    start += [0.7 * start[2], start[3]] if key in BATCHED else []

    def rates_at(point: np.ndarray) -> MatmulRates:
        figures = [float(figure) for figure in np.exp(point)]
        figures[1] = min(figures[1], FASTER.get(key, 1.0) * peak)
        figures[5] = min(figures[5], WIDEST_WRITES * known.memory_bandwidth)
        rest = figures[6:] if key in ARRANGED else [0.0, *figures[6:]]
        return MatmulRates(*figures[:6], *rest)

    def loss(point: np.ndarray) -> float:
        rates = rates_at(point)
        computing = matmul_seconds(shapes, rates, known.multiprocessors, known.memory_bandwidth, width)
        moving = reading + written / rates.write_bandwidth
        return _loss((np.maximum(computing, moving) + rates.launch_seconds) / seconds)

    shares = (1.2, 1.0, 0.7, 1.5, 2.0, 0.8, 1.0, 1.0, 0.5)
    slower = [figure * share for figure, share in zip(start, shares, strict=False)]
    return rates_at(min((_fit(loss, point) for point in (start, slower)), key=loss))


def _fit_collective(rows: Sequence[CollectiveRow], opcode: str, *, is_far: bool, is_wide: bool) -> CollectiveRates:
    """The rates of one opcode that come nearest to some measured collectives."""
    longest = max(rows, key=lambda row: row.tensor_bytes / row.seconds)
    bandwidth = longest.tensor_bytes / longest.seconds
    launch = min(row.seconds for row in rows)
    limit = [5e-5] if is_wide and opcode == "all-reduce" else []
    rings = [
        [launch * share, step, bandwidth * halves(opcode), 0.5, pipelining, *limit]
        for share, step, pipelining in ((1, 1e-6, 0.8), (0.6, 2e-6, 1.0), (0.8, 1e-6, 0.4))
    ]
    starts: dict[type[CollectiveRates], list[list[float]]] = {RingRates: rings}
    if opcode == "collective-permute":
        channels = [(part * 2.0**20, rate) for part in (16, 64) for rate in (2e10, 7e10, 1.4e11)]
        starts = {PairRates: [[launch, 1e10, 1.2 * bandwidth, *channel, 5e-6, 0.5] for channel in channels]}
    elif is_far:
        starts = {PeerRates: [[launch, 0.75e-6, 1.5e11, bandwidth, 0.5, 0.5, limit] for limit in (3e-4, 1e-3)]}
    [(kind, points)] = starts.items()

    def rates_at(point: np.ndarray) -> CollectiveRates:
        figures = [float(figure) for figure in np.exp(point)]
        if kind is PairRates:
            launch, eager, whole, *channel, overlap = figures
            whole = max(whole, bandwidth)
            return PairRates(launch, EAGER_BYTES, eager, whole, *channel, overlap=min(round(overlap, 3), 1.0))
        if kind is PeerRates:
            launch, peer, *rest = figures
            return PeerRates(launch, peer, EAGER_BYTES, *rest)
        return RingRates(*figures)

    def loss(point: np.ndarray) -> float:
        rates = rates_at(point)
        times = {size: rates.time(size, halves(opcode)) for size in {row.size for row in rows}}
        return _loss(np.array([times[row.size].seconds(row.tensor_bytes) / row.seconds for row in rows]))

    fitted = [_fit(loss, point) for point in points]
    return rates_at(min(fitted, key=loss))


def _loss(ratios: np.ndarray) -> float:
    """Small if most ratios are near 1 and half of them below; errors beyond 65 % count alike."""
    logarithms = np.log(ratios)
    errors = np.abs(logarithms)
    spread = np.minimum(errors, 0.5) + 0.5 * np.clip((errors - 0.6 * TOLERANCE) / 0.1, 0, 1)
    return float(np.mean(spread) + BIAS * abs(np.median(logarithms)))


def _fit(loss: Loss, start: Sequence[float]) -> np.ndarray:
    """The logarithms of the figures that make a loss smallest, from rough ones (Nelder and Mead, 1965, restarted)."""
    best = np.log(np.array(start))
    for number in range(ROUNDS):
        found = _descend(loss, best, 0.4 / (1 + number / 2), np.random.default_rng(number))
        best = min((best, found), key=loss)
    return best


def _descend(loss: Loss, start: np.ndarray, edge: float, random: np.random.Generator) -> np.ndarray:
    """One run of Nelder and Mead's method from a simplex with edges of this length."""
    directions = random.choice([-1.0, 1.0], len(start))
    corners = np.vstack([start, start + edge * np.diag(directions)])
    values = np.array([loss(corner) for corner in corners])
    for _ in range(STEPS):
        order = np.argsort(values)
        corners, values = corners[order], values[order]
        if values[-1] - values[0] < 1e-7:
            break
        centre, worst = corners[:-1].mean(0), corners[-1]
        reflected = 2 * centre - worst
        value = loss(reflected)
        if value < values[0]:
            expanded = 3 * centre - 2 * worst
            farther = loss(expanded)
            reflected, value = (expanded, farther) if farther < value else (reflected, value)
        elif value >= values[-2]:
            reflected = (centre + worst) / 2
            value = loss(reflected)
        if value < values[-1]:
            corners[-1], values[-1] = reflected, value
        else:
            corners[1:] = (corners[0] + corners[1:]) / 2
            values[1:] = [loss(corner) for corner in corners[1:]]
    return corners[np.argmin(values)]


def _lines(rates: MatmulRates | CollectiveRates) -> str:
    """Figures as lines of TOML, to four digits; those that do not apply are left out."""
    figures = ((field.name, getattr(rates, field.name)) for field in fields(rates))
    return "\n".join(f"{name} = {_number(figure)}" for name, figure in figures if figure or not _may_be_left(name))


def _number(figure: float) -> str:
    """A float of TOML: 2.5e-06, 880000000000.0.

    >>> _number(8.8042e14), _number(0.5)
    ('8.804e+14', '0.5')
    """
    text = f"{figure:.0f}" if figure == EAGER_BYTES else f"{figure:.4g}"
    return text if "e" in text or "." in text else f"{text}.0"


def _may_be_left(name: str) -> bool:
    return name in ("arrange_bandwidth", "batch_tile_bandwidth", "batch_tile_seconds", "latency_limit")


if __name__ == "__main__":
    main(sys.argv[1:])
