"""Figures of pipelines that run: the bubble of what was dispatched against the bubble of the schedule."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import AtMost, Figure
from benchmarks.programs import Plan
from hloom.runtime import xla

ROOT = Path(__file__).parents[1]
PROGRAMS = "GPT", "conv net", "scan over layers"
DEVICES = 2, 4
LAYERS, WIDTH, REPEATS = 8, 128, 5
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
"""XLA's flag for one thread a device."""
MOST_SECONDS = 3000
AS_PREDICTED = AtMost(1.1)


def bubbles(plan: Plan) -> Iterator[Figure]:
    """For each program and schedule both bubbles; the ratio is that of the shares of time in which devices work."""
    del plan
    for row in measured_rows():
        measured, predicted = row["measured"], row["predicted"]
        working = (1 - measured) / (1 - predicted)
        yield Figure(
            f"bubble of {row['program']}, {row['schedule']} on {row['devices']} devices",
            f"{measured:.1%}",
            "predicted",
            f"{predicted:.1%}",
            max(working, 1 / working),
            bar=AS_PREDICTED,
        )


def measured_rows() -> list[dict[str, Any]]:
    """What `benchmarks.pipeline_steps` measures, on virtual devices of one thread each."""
    environment = os.environ | xla.environment(max(DEVICES)) | {"JAX_ENABLE_X64": "0"}
    environment["XLA_FLAGS"] += f" {ONE_THREAD}"
    sizes = map(str, (LAYERS, WIDTH, REPEATS))
    command = [sys.executable, "-m", "benchmarks.pipeline_steps", *sizes, ",".join(PROGRAMS), *map(str, DEVICES)]
    pipe = subprocess.PIPE
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=pipe, check=True, timeout=MOST_SECONDS)
    return json.loads(done.stdout)
