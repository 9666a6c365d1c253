"""The corpus beside JAX: what JAX differentiates has the same gradient; see `on_eight_devices.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

FAMILIES = ("contraction", "control", "elementwise", "indexing", "linalg", "models", "random", "reduction", "values")


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_beside_jax(family: str):
    flags = "--xla_force_host_platform_device_count=8"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "XLA_FLAGS": flags}
    command = [sys.executable, "-m", "tests.autodiff.on_eight_devices", family]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert result.returncode == 0, result.stderr
    verdicts = json.loads(result.stdout.splitlines()[-1])
    assert verdicts
    wrong = {name: why for name, why in verdicts.items() if why and not why.startswith("not compared")}
    assert not wrong, wrong
