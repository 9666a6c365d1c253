"""After calibrating, estimates order programs as their times on this machine do: a long test.

    make test-long TESTS="tests/analysis/test_roofline_ranks.py -s"

The numbers that it prints stand in docs/time.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from hloom.analysis import device, roofline
from hloom.cli.calibrate import to_toml
from hloom.hlo import parse
from hloom.runtime import run
from hloom.runtime.calibration import BestTimes, calibrate

PROGRAMS = Path(__file__).with_name("rank_programs.py")
ROUNDS, SAMPLES = 3, 5
LEAST_RANK_CORRELATION = 0.9
FEWEST_PROGRAMS = 24


def texts() -> dict[str, str]:
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-P", str(PROGRAMS)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)


def spearman(left: list[float], right: list[float]) -> float:
    """The correlation of ranks, of values that are all different."""
    ranks = [np.argsort(np.argsort(values)) for values in (left, right)]
    return float(np.corrcoef(*ranks)[0, 1])


def test_spearman_by_hand():
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(1 - 6 * 2 / (4 * 15))


@pytest.mark.long
def test_estimates_rank_programs_as_this_machine_does(tmp_path: Path):
    modules = {name: parse(text) for name, text in texts().items()}
    seconds = dict.fromkeys(modules, float("inf"))
    path = tmp_path / "cpu.toml"
    best = BestTimes()
    for _ in range(ROUNDS):  # in turns, so that what slows the machine for a while slows both
        path.write_text(to_toml(calibrate(best), "cpu"))
        for name, module in modules.items():
            seconds[name] = min(seconds[name], *(run(module).seconds for _ in range(SAMPLES)))
    here = device("cpu", path)
    estimates = {name: roofline(module, here).seconds for name, module in modules.items()}
    ratios = {name: estimates[name] / seconds[name] for name in modules}
    for name in sorted(ratios, key=lambda program: ratios[program]):
        print(f"{name:34}{estimates[name] * 1e6:12.1f} us{seconds[name] * 1e6:12.1f} us{ratios[name]:8.2f}")  # noqa: T201
    correlation = spearman(list(estimates.values()), list(seconds.values()))
    error = median(abs(ratio - 1) for ratio in ratios.values())
    print(f"{len(modules)} programs, Spearman {correlation:.3f}, median relative error {error:.0%}")  # noqa: T201
    assert len(modules) >= FEWEST_PROGRAMS
    assert correlation >= LEAST_RANK_CORRELATION
