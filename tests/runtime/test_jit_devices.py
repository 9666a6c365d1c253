"""`jit` and `inside_jit` on eight virtual devices, under both of XLA's partitioners; see `on_eight_devices.py`.

Covers `shardy.py`, `jax_shardings.py`.
"""

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from hloom.runtime import xla
from tests.runtime.on_eight_devices import CASES

ROOT = Path(__file__).resolve().parents[2]


@lru_cache
def results(partitioner):
    """What each case found, from one child process for all of them."""
    environment = xla.environment(8) | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "JAX_ENABLE_X64": "0"}
    command = [sys.executable, "-m", "tests.runtime.on_eight_devices", partitioner]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("partitioner", ["shardy", "gspmd"])
def test_on_eight_devices(partitioner, name):
    problem = results(partitioner)[name]
    assert not problem, problem
