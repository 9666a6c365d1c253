"""Whether the roofline model, calibrated here, orders programs as their times on this machine do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.figures import AtLeast, Figure
from benchmarks.programs import Plan
from hloom.analysis import device, roofline
from hloom.cli.calibrate import to_toml
from hloom.formats.hlo import parse
from hloom.runtime import run
from hloom.runtime.calibration import BestTimes, calibrate

PROGRAMS = Path(__file__).with_name("rank_programs.py")
ROUNDS, SAMPLES = 3, 5
"""How often calibrating and measuring take turns, and how often a program runs each time; the fewest seconds count."""
LEAST_RANK_CORRELATION = 0.9


def ranks(plan: Plan) -> Iterator[Figure]:
    """The rank correlation of estimates and times, and how far an estimate is from the time, in the median."""
    modules = {name: parse(text) for name, text in _texts().items()}
    seconds = dict.fromkeys(modules, float("inf"))
    best = BestTimes()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cpu.toml"
        for _ in range(ROUNDS):  # in turns, so that what slows the machine for a while slows both
            path.write_text(to_toml(calibrate(best), "cpu"))
            for name, module in modules.items():
                seconds[name] = min(seconds[name], *(run(module).seconds for _ in range(SAMPLES)))
        here = device("cpu", path)
    estimates = {name: roofline(module, here).seconds for name, module in modules.items()}
    correlation = spearman(list(estimates.values()), list(seconds.values()))
    error = median(abs(estimates[name] / seconds[name] - 1) for name in modules)
    subject = f"roofline: {len(modules)} programs"
    bar = AtLeast(LEAST_RANK_CORRELATION)
    yield Figure(subject, f"{correlation:.3f}", "rank correlation with XLA's times", "1", correlation, bar=bar)
    yield Figure(subject, f"{error:.0%} off", "median, of XLA's times", "0%", 1 + error)


def spearman(left: list[float], right: list[float]) -> float:
    """The correlation of ranks, of values that are all different."""
    rows = np.array([np.argsort(np.argsort(values)) for values in (left, right)])
    return float(np.corrcoef(rows)[0, 1])  # pyright: ignore[reportIndexIssue]


def _texts() -> dict[str, str]:
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-P", str(PROGRAMS)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)
