"""Fit the parameters of TPUs in `src/hloom/analysis/tpus.toml` to the cycles that the TPU compiler estimates.

    python scripts/calibrate_tpus.py tpu-v5e FILE... [--held-out FILE...] [-o tpus.toml]

The files are optimised HLO texts compiled for that TPU: their instructions carry `estimated_cycles`. Prints, for every
held-out program, the rank correlation of instruction times and the ratio of totals, ours over the compiler's, and the
instructions with the largest errors. Without FILE nothing is fitted, and the held-out programs are compared with the
parameters that hloom has. With -o the device's table in that file is replaced.
"""

from __future__ import annotations

import argparse
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.stats import rankdata

import hloom
from hloom.analysis.cost import cost
from hloom.analysis.cost_analysis import MATHEMATICAL
from hloom.analysis.tpu_time import OWN_FILE, TpuParameters, tpu_cycles, tpu_parameters
from hloom.analysis.tpu_work import TpuWork, compiler_cycles, tpu_work
from hloom.ir import Apply

FACTS = {
    "tpu-v5e": {"clock": 1.5e9, "row_rate": 4.0, "hbm": 546.0},
    "tpu-v5p": {"clock": 1.75e9, "row_rate": 4.0, "hbm": 1580.0},
    "tpu-v6e": {"clock": 1.75e9, "row_rate": 4.0, "hbm": 936.0},
}
"""The clock (TPU book; v6e: its rate of bf16 over two arrays of 256 x 256), the rate of bf16 over 2 x array x array x
cores x clock, and the bandwidth over the clock, where its fit starts."""
SHAPES = {"tpu-v5e": (128, 1, False), "tpu-v5p": (128, 2, False), "tpu-v6e": (256, 1, True)}
"""Rows and columns of each systolic array, cores, and whether products leave results of bf16 in VMEM for nothing."""
START = {
    "vmem": 500.0,
    "latency": 2000.0,
    "window": 16.0,
    "shuffle": 100.0,
    "splat": 0.25,
    "start": 500.0,
    "fetch": 2000.0,
    "least_rows": 16.0,
}
REGISTERS = {
    "arithmetic": 0.3,
    "compare": 0.25,
    "convert": 0.5,
    "packed": 4.0,
    "move": 0.5,
    "spread": 4.0,
    "reduce": 0.5,
    "reduce-window": 3.0,
    "single": 0.3,
    "divide": 0.75,
    "exponential": 0.5,
    "tanh": 0.5,
    "log": 0.75,
    "rsqrt": 0.5,
    "sqrt": 0.3,
    "power": 1.0,
    "sine": 36.0,
    "erf": 5.0,
    "other": 2.0,
}
LONGER = 0.15
"""An instruction counts by this power of its cycles: long ones decide a program's time."""
PULL = 0.01
"""How strongly parameters that few programs decide are held where the fit starts: errors per e-fold."""
ROBUST = 0.05
"""The error, as a logarithm, from which on outliers count linearly."""
MOST_STEPS = 60
NEAR = 0.15
"""Programs whose total is off by no more than this are counted."""


class Row(NamedTuple):
    """An instruction: its program, what it does, and the compiler's cycles."""

    program: str
    node: Apply
    work: TpuWork
    cycles: int


def main() -> None:
    options = _options()
    device = options.device
    rows = [row for path in options.files for row in rows_of(path)]
    held = [row for path in options.held_out for row in rows_of(path)]
    parameters = fit(device, rows) if rows else tpu_parameters()[device]
    table = _toml(device, parameters)
    if rows:
        print(table)
    _print_table(held or rows, parameters)
    if options.output and rows:
        _replace(options.output, device, table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", choices=FACTS)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--held-out", nargs="*", default=[], type=Path)
    parser.add_argument("-o", "--output", type=Path, help=f"file whose table is replaced, such as {OWN_FILE.name}")
    return parser.parse_args()


def rows_of(path: Path) -> Iterator[Row]:
    """The instructions of a program that runs, with the compiler's cycles."""
    module = hloom.load(path)
    analysis = cost(module).analysis(MATHEMATICAL)
    name = f"{path.parent.name}/{path.stem}"
    for graph in analysis.call_graph.computations:
        for node in graph.nodes:
            cycles = compiler_cycles(node) if isinstance(node, Apply) else None
            if cycles and isinstance(node, Apply):
                yield Row(name, node, tpu_work(node, lambda product: analysis.own(product).flops), cycles)


def fit(device: str, rows: Sequence[Row]) -> TpuParameters:
    """The parameters whose cycles are nearest the compiler's, by the robust sum of squared logarithms of ratios."""
    facts = FACTS[device]
    fitted = {**START, "hbm": facts["hbm"]}
    names, classes = list(fitted), list(REGISTERS)
    start = np.log([*fitted.values(), *REGISTERS.values()])
    wanted = np.log([row.cycles for row in rows])
    weights = np.clip(np.exp(LONGER * (wanted - np.median(wanted))), 0.5, 2.0)

    def parameters(logarithms: np.ndarray) -> TpuParameters:
        values = [float(value) for value in np.exp(logarithms)]
        registers = dict(zip(classes, values[len(names) :], strict=True))
        plain = dict(zip(names, values, strict=False))
        return TpuParameters(facts["clock"], *SHAPES[device], row_rate=facts["row_rate"], registers=registers, **plain)

    def errors(logarithms: np.ndarray) -> np.ndarray:
        found = np.log(cycles_of(rows, parameters(logarithms))) - wanted
        return np.concatenate([found * weights, PULL * (logarithms - start)])

    solved = least_squares(errors, start, loss="soft_l1", f_scale=ROBUST, max_nfev=MOST_STEPS)
    return _rounded(parameters(solved.x))


def cycles_of(rows: Sequence[Row], on: TpuParameters) -> np.ndarray:
    """Our cycles for each row."""
    return np.array([max(1.0, tpu_cycles(row.node, row.work, on).total) for row in rows])


def _rounded(parameters: TpuParameters) -> TpuParameters:
    plain = {name: float(f"{value:.4g}") for name, value in asdict(parameters).items() if isinstance(value, float)}
    return replace(parameters, **plain, registers={name: float(f"{v:.3g}") for name, v in parameters.registers.items()})


def _toml(device: str, parameters: TpuParameters) -> str:
    fields = asdict(parameters)
    registers = fields.pop("registers")
    plain = (f"{name} = {str(value).lower()}" for name, value in fields.items())
    lines = [f"[{device}]", *plain, "", f"[{device}.registers]"]
    return "\n".join([*lines, *(f"{name} = {value}" for name, value in registers.items()), ""])


def _replace(path: Path, device: str, table: str) -> None:
    text = path.read_text() if path.exists() else ""
    kept = re.sub(rf"^\[{re.escape(device)}\]\n.*?(?=^\[tpu-(?!{device[4:]})|\Z)", "", text, flags=re.M | re.S)
    made = f"{kept.rstrip()}\n\n{table}" if kept.strip() else table
    tomllib.loads(made)
    path.write_text(made)


def _print_table(rows: Sequence[Row], on: TpuParameters) -> None:
    found = cycles_of(rows, on)
    wanted = np.array([row.cycles for row in rows], float)
    print(
        f"all: {len(rows)} instructions, Spearman {_spearman(found, wanted):.3f}, "
        f"median error {np.median(np.abs(np.log(found / wanted))):.3f}, total {found.sum() / wanted.sum():.2f}"
    )
    near = 0
    programs = dict.fromkeys(row.program for row in rows)
    for program in programs:
        chosen = np.array([row.program == program for row in rows])
        ratio = found[chosen].sum() / wanted[chosen].sum()
        near += abs(ratio - 1) <= NEAR
        rank = _spearman(found[chosen], wanted[chosen])
        print(f"{program:32} {chosen.sum():4} {rank:7.3f} {ratio:6.2f}")
    print(f"{near} of {len(programs)} programs within {NEAR:.0%}")
    worst = sorted(range(len(rows)), key=lambda number: -abs(found[number] - wanted[number]))[:20]
    for number in worst:
        row = rows[number]
        print(f"{row.program:28} {row.node.name[:36]:36} {row.cycles:9} {found[number]:11.0f}")


def _spearman(found: np.ndarray, wanted: np.ndarray) -> float:
    if len(found) < 3:
        return math.nan
    ranks = [rankdata(values) for values in (found, wanted)]
    return float(np.corrcoef(ranks)[0, 1])


if __name__ == "__main__":
    main()
