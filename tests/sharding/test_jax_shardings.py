"""jax's meshes and shardings, and specs: on twelve virtual devices, see `on_twelve_devices.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

pytest.importorskip("jax")

from hloom.runtime import xla
from tests.sharding.on_twelve_devices import CASES, DEVICES

ROOT = Path(__file__).resolve().parents[2]


@lru_cache
def results() -> dict[str, str]:
    """What each case found, from one child process for all of them."""
    environment = xla.environment(DEVICES) | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    command = [sys.executable, "-m", "tests.sharding.on_twelve_devices"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CASES)
def test_on_twelve_devices(name: str):
    problem = results()[name]
    assert not problem, problem
