"""`hloom.auto_shard` on eight virtual devices, under both of XLA's partitioners; see `on_sharded_devices.py`.

Covers `sharded_jit.py`, `api/auto_shard.py`, `api/jax_specs.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

pytest.importorskip("jax")

from hloom.runtime import xla
from tests.runtime.on_sharded_devices import CASES, GSPMD_CASES, LONG_CASES

ROOT = Path(__file__).resolve().parents[2]


@lru_cache
def results(partitioner: str, *chosen: str) -> dict[str, str]:
    """What each quick case found, or each chosen one, from one child process for all of them."""
    environment = xla.environment(8) | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "JAX_ENABLE_X64": "0"}
    command = [sys.executable, "-m", "tests.runtime.on_sharded_devices", partitioner, *chosen]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CASES)
def test_on_sharded_devices(name: str):
    problem = results("shardy")[name]
    assert not problem, problem


@pytest.mark.parametrize("name", GSPMD_CASES)
def test_on_sharded_devices_under_gspmd(name: str):
    problem = results("gspmd", *GSPMD_CASES)[name]
    assert not problem, problem


@pytest.mark.long
@pytest.mark.parametrize("name", CASES.keys() - GSPMD_CASES)
def test_all_on_sharded_devices_under_gspmd(name: str):
    problem = results("gspmd")[name]
    assert not problem, problem


@pytest.mark.long
@pytest.mark.parametrize("name", LONG_CASES)
@pytest.mark.parametrize("partitioner", ["shardy", "gspmd"])
def test_long_on_sharded_devices(partitioner: str, name: str):
    problem = results(partitioner, name)[name]
    assert not problem, problem
