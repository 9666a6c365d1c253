"""Fit the rates of matrix products and collectives on GPUs to measured times, and print rows for devices.toml.

    python scripts/calibrate_gpus.py [DEVICE ...]

The measured times are in tests/analysis/gpu_times. Rates are fitted to all rows. For the table at the end, each fifth
of the rows is estimated by rates that were fitted to the other four. That takes some minutes for a device.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from hloom.analysis import Device, device
from hloom.analysis.collective_cost import halves
from hloom.analysis.collective_rates import CollectiveRates, PairRates, PeerRates, RingRates
from hloom.analysis.matmul_time import MatmulRates, matmul_seconds
from tests.analysis.gpu_times import DEVICES, FOLDS, CollectiveRow, MatmulRow, accuracy, collectives, fold, matmuls

MATMULS = {"bf16": 2, "f32": 4, "f8": 1}
"""Bytes of an operand's element by type."""
ARRANGED = {("h100", "f8")}
"""Products whose right operand is transposed first: Hopper's f8 units take both operands with k innermost."""
BATCHED = {("h100", "f32")}
"""Products that run in other kernels if they have batch dimensions; for the others that made no difference."""
FASTER = {("h100", "f8"): 2.0}
"""By how much rates may exceed the data sheet's peak: XLA's table has the median time of a kernel
(xla/tools/matmul_perf_table_gen.cc), and where a product runs two, one of which transposes, that is their mean."""
HOST_SIZE = {"gb200": 4, "b300": 4}
"""Devices in a host where NVLink joins more: all-to-alls within a host take another way. Those of these devices are
fitted together, because both have NVLink 5, and one's rows are few for so many figures."""
OWN_SHARE, PIPELINING, OVERLAP = 0.5, 0.7, 0.5
"""Figures of collectives in a host of eight, whose rows are few. Fitting them did no better on rows left out."""
EAGER_BYTES = float(1 << 19)
"""NCCL sends up to 16 KiB on a channel eagerly (src/enqueue.cc, NCCL_P2P_LL_THRESHOLD); times jump at 32 of them."""
PART_BYTES = float(1 << 24)
"""The longest part that NCCL sends on a channel before it takes twice as many (src/enqueue.cc, addP2pToPlan): 32 chunks
of 512 KiB. It starts with as many of 32 channels as there are for each device: four of eight devices, one of 64."""
SHORT = 1 << 18
"""The most bytes of a message that takes next to no longer than one of a few bytes."""
ROUNDS = 8
STEPS = 800
TOLERANCE = 0.2
"""The relative error within which an estimate is good."""
BIAS = 0.2
"""The weight of the median's error; at 0.5 the spread of the f32 products on H100 suffered."""
WIDEST_WRITES = 4.0
"""The greatest multiple of the memory's bandwidth at which results may be written, where no row tells."""

Loss = Callable[[np.ndarray], float]
Made = Callable[..., Any]
"""What makes rates of some figures."""
Seconds = Callable[[Any, Sequence[Any]], np.ndarray]
"""What estimates rows by rates."""
Fitted = tuple[Any, Callable[[Sequence[Any]], np.ndarray]]
"""Rates, and what estimates rows by them."""
Fit = Callable[[Sequence[Any]], Fitted]
Law = Callable[[float, float], tuple[list[list[float]], Made]]
"""Of the shortest time and the highest throughput: figures to start from, and what makes rates of them."""


def main(names: Sequence[str]) -> None:
    """Print the rates of the devices of these names, or of all, and how well such rates do on rows left out."""
    rows: list[MatmulRow | CollectiveRow] = []
    seconds: list[float] = []
    for name in names or DEVICES.values():
        print(f"\n# {name}")
        for key, fit, own in _fits(name):
            print(f"{key} = {{ {_figures(fit(own)[0])} }}", flush=True)
            for number in range(FOLDS):
                apart = [row for row in own if fold(row) == number and row.device == name]
                rows += apart
                seconds += fit([row for row in own if fold(row) != number])[1](apart).tolist() if apart else []
    for name in names or DEVICES.values():
        print(f"\n{name}: {_repeated(name):.0%} of short messages are within 20 % of the median of their like")
    print(
        f"\n{'device':7} {'operation':20} {'type':5} {'rows':>5} {'median':>7} {'in 20 %':>8} {'10 %':>6} {'90 %':>6}"
    )
    for group, made in accuracy(rows, seconds).items():
        kind = f"{group[0]:7} {group[1]:20} {group[2]:5}"
        print(f"{kind} {made.rows:5} {made.median:7.3f} {made.within:8.0%} {made.low:6.2f} {made.high:6.2f}")


def _repeated(name: str) -> float:
    """The share of short messages whose time is near the median of the others of the same opcode and group size.

    Their bytes take next to no time, so no law of opcode, group and bytes can do much better.
    """
    alike: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in collectives():
        if (
            row.device == name
            and row.opcode != "collective-permute"
            and row.tensor_bytes <= SHORT
            and not row.is_coarse
        ):
            alike[row.opcode, row.size].append(row.seconds)
    near = [
        abs(np.median(np.delete(times, number)) / time - 1) <= TOLERANCE
        for times in alike.values()
        if len(times) > 1
        for number, time in enumerate(times)
    ]
    return float(np.mean(near))


def _fits(name: str) -> Iterator[tuple[str, Fit, list[Any]]]:
    """Of each row of rates of a device: its name, what fits them, and the measured rows."""
    for element_type in MATMULS:
        products = [row for row in matmuls() if (row.device, row.operand) == (name, element_type)]
        if products:
            key = "f32_fast" if element_type == "f32" else element_type
            yield key, partial(_fit_matmul, known=device(name), element_type=element_type), products
    messages = [row for row in collectives() if row.device == name]
    for opcode in sorted({row.opcode for row in messages}):
        own = [row for row in messages if row.opcode == opcode]
        if name not in HOST_SIZE:
            law = _host_pairs if opcode == "collective-permute" else _host_rings
            yield opcode, partial(_fit_collective, law=law), own
        elif opcode != "all-to-all":
            law = {"collective-permute": _domain_pairs, "all-reduce": _switched_rings}.get(opcode, _domain_rings)
            yield opcode, partial(_fit_collective, law=law), own
        else:
            own = [row for row in collectives() if row.opcode == opcode and row.device in HOST_SIZE]
            near = [row for row in own if row.size <= HOST_SIZE[name]]
            yield f"{opcode} (in a host)", partial(_fit_collective, law=_domain_rings), near
            yield opcode, partial(_fit_collective, law=_peers), [row for row in own if row not in near]


def _fit_matmul(rows: Sequence[MatmulRow], *, known: Device, element_type: str) -> Fitted:
    """The rates of one element type that come nearest to some measured products."""
    width = MATMULS[element_type]
    peak = known.matrix["f32_fast" if element_type == "f32" else element_type]
    start = [5e-6, 0.8 * peak, 4.5 * known.memory_bandwidth, 0.8e-6, 2e-6, 1.3 * known.memory_bandwidth]
    key = known.name, element_type
    start += [2e12] if key in ARRANGED else []
    start += [0.7 * start[2], start[3]] if key in BATCHED else []

    def made(*figures: float) -> MatmulRates:
        launch, rate, loading, tile, split, writing, *rest = figures
        rate = min(rate, FASTER.get(key, 1.0) * peak)
        writing = min(writing, WIDEST_WRITES * known.memory_bandwidth)
        rest = rest if key in ARRANGED else [0.0, *rest]
        return MatmulRates(launch, rate, loading, tile, split, writing, *rest)

    def seconds(rates: MatmulRates, some: Sequence[MatmulRow]) -> np.ndarray:
        shapes, numbers = np.unique(np.array([row.shape for row in some], np.float64), axis=0, return_inverse=True)
        batch, m, n, k = shapes.T
        computing = matmul_seconds(shapes, rates, known.multiprocessors, known.memory_bandwidth, width)
        written = batch * m * n * (4 if element_type == "f32" else 2)
        moving = batch * (m + n) * k * width / known.memory_bandwidth + written / rates.write_bandwidth
        return (np.maximum(computing, moving) + rates.launch_seconds)[numbers]

    shares = (1.2, 1.0, 0.7, 1.5, 2.0, 0.8, 1.0, 1.0, 0.5)
    slower = [figure * share for figure, share in zip(start, shares, strict=False)]
    return _nearest(made, seconds, (start, slower), rows)


def _fit_collective(rows: Sequence[CollectiveRow], *, law: Law) -> Fitted:
    """The rates of one opcode that come nearest to some measured collectives."""
    fine = [row for row in rows if not row.is_coarse]
    passes = halves(fine[0].opcode)
    starts, made = law(min(row.seconds for row in fine), passes * max(row.tensor_bytes / row.seconds for row in fine))

    def seconds(rates: CollectiveRates, some: Sequence[CollectiveRow]) -> np.ndarray:
        sizes, sent = np.array([(row.size, row.tensor_bytes) for row in some], np.float64).T
        estimated = np.zeros(len(some))
        for size in np.unique(sizes):
            estimated[sizes == size] = rates.time(int(size), passes).each(sent[sizes == size])
        return estimated

    return _nearest(made, seconds, starts, fine)


def _host_rings(launch: float, bandwidth: float) -> tuple[list[list[float]], Made]:
    """Rings in a host whose devices are all joined: the rows repeat too badly to tell more than three figures."""
    starts = [[launch * share, bandwidth, wait] for share, wait in ((0.8, 1e-6), (0.5, 4e-6), (1.2, 2e-6))]
    return starts, lambda launch, bandwidth, wait: RingRates(
        launch, bandwidth, OWN_SHARE, PIPELINING, doubling_seconds=wait
    )


def _domain_rings(launch: float, bandwidth: float) -> tuple[list[list[float]], Made]:
    """Rings within NVLink that joins hosts."""
    guesses = ((1, 1e-6, 0.8), (0.6, 2e-6, 1.0), (0.8, 1e-6, 0.4))
    starts = [[launch * share, bandwidth, 0.5, pipelining, step] for share, step, pipelining in guesses]
    return starts, RingRates


def _switched_rings(launch: float, bandwidth: float) -> tuple[list[list[float]], Made]:
    """Rings within such a domain, or its switches where these take less time."""
    starts, _ = _domain_rings(launch, bandwidth)
    return [[*start, 5e-5] for start in starts], lambda *figures: RingRates(*figures[:-1], latency_limit=figures[-1])


def _peers(launch: float, bandwidth: float) -> tuple[list[list[float]], Made]:
    """All-to-alls between hosts."""
    starts = [[launch, 0.75e-6, 1.5e11, bandwidth, 0.5, 0.5, limit] for limit in (3e-4, 1e-3)]
    return starts, lambda launch, peer, *rest: PeerRates(launch, peer, EAGER_BYTES, *rest)


def _host_pairs(launch: float, bandwidth: float) -> tuple[list[list[float]], Made]:
    """One device of a host sends to one other: two figures fewer, because others did no better on rows left out."""
    starts = [[launch, 1e10, 1.2 * bandwidth, rate] for rate in (4e10, 1.2e11)]
    return starts, lambda launch, eager, whole, channel: PairRates(
        launch, EAGER_BYTES, eager, whole, 4 * PART_BYTES, channel, handshake_seconds=launch, overlap=OVERLAP
    )


def _domain_pairs(launch: float, bandwidth: float) -> tuple[list[list[float]], Made]:
    """One device sends to one other within NVLink that joins hosts."""
    starts = [[launch, 1e10, 1.2 * bandwidth, rate, 5e-6, 0.5] for rate in (2e10, 7e10)]
    return starts, lambda launch, eager, whole, channel, handshake, overlap: PairRates(
        launch, EAGER_BYTES, eager, whole, PART_BYTES, channel, handshake, overlap=min(round(overlap, 3), 1.0)
    )


def _nearest(made: Made, seconds: Seconds, starts: Sequence[Sequence[float]], rows: Sequence[Any]) -> Fitted:
    """The rates of the least loss on some rows, from several starts, and what estimates rows by them."""
    measured = np.array([row.seconds for row in rows])

    def loss(point: np.ndarray) -> float:
        return _loss(seconds(made(*np.exp(point).tolist()), rows) / measured)

    rates = made(*np.exp(min((_fit(loss, start) for start in starts), key=loss)).tolist())
    return rates, partial(seconds, rates)


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


def _figures(rates: MatmulRates | CollectiveRates) -> str:
    """Figures as an inline table of TOML, to four digits; those that do not apply are left out."""
    figures = ((field, getattr(rates, field.name)) for field in fields(rates))
    return ", ".join(
        f"{field.name} = {_number(figure)}" for field, figure in figures if figure or field.default is MISSING
    )


def _number(figure: float) -> str:
    """A float of TOML: 2.5e-06, 880000000000.0.

    >>> _number(8.8042e14), _number(0.5)
    ('8.804e+14', '0.5')
    """
    text = f"{figure:.0f}" if figure in (EAGER_BYTES, PART_BYTES, 4 * PART_BYTES) else f"{figure:.4g}"
    return text if "e" in text or "." in text else f"{text}.0"


if __name__ == "__main__":
    main(sys.argv[1:])
