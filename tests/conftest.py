"""Properties are tried on few examples, and XLA compiles quickly, unless `--hypothesis-profile long` asks for more."""

from __future__ import annotations

import gc
import os
import sys
import tempfile

import pytest
from hypothesis import settings

from tests.helpers.properties import LONG, QUICK
from tests.helpers.xla_flags import fusion_emitters

settings.load_profile(QUICK)

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
"""Tests are compiled, and their assertions rewritten, once: workers and children would do it again, and the next run too."""

os.environ.pop("COLUMNS", None)
"""pytest-xdist gives its workers 80 columns, and commands would leave out what wider lines show."""

os.environ["HLOOM_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), f"hloom-tests-{os.getuid()}")
"""Programs that tests compile for targets are not kept in the user's cache."""

gc.set_threshold(500_000, 4, 20)
"""Cycles are looked for rarely: trees and modules are large, and by Python's defaults a third of the time goes there."""

FLAGS = f"--xla_backend_optimization_level=0 {fusion_emitters(False)}"
"""Code of XLA's CPU compiler without LLVM's optimisations and without MLIR's lowering of fusions, which take most of the
time to compile. Tests that compare bits, or XLA's fusions, ask for the fusion emitters again."""


def pytest_configure(config: pytest.Config) -> None:
    """Let XLA compile quickly: what it does with HLO is the same, and numbers agree within rounding."""
    if config.getoption("--hypothesis-profile", default=None) != LONG:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS}".strip()


def pytest_collection_finish() -> None:
    """Leave what is there before the first test, which stays until the last one, out of every search for cycles."""
    gc.freeze()
