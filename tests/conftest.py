"""Properties are tried on few examples, and XLA compiles quickly, unless `--hypothesis-profile long` asks for more."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.helpers.properties import LONG, QUICK

settings.load_profile(QUICK)


def pytest_configure(config: pytest.Config) -> None:
    """Leave LLVM's optimisations out: most of the tests' time goes into them, and what XLA does with HLO is the same."""
    if config.getoption("--hypothesis-profile", default=None) != LONG:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0".strip()
