"""Type checkers see the parameters of what `grad`, `vjp`, `jit` and `function` make, and names that are not there.

Covers `typed_calls.py`, which `make lint` checks too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hloom


@pytest.mark.long
def test_pyright_agrees():
    calls = Path(__file__).with_name("typed_calls.py")
    root = calls.parents[2]
    command = [sys.executable, "-m", "pyright", "--project", str(root), str(calls)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("name", "near"), [("plann", "plan"), ("autoshard", "auto_shard"), ("gref", "grep")])
def test_a_mistyped_name(name: str, near: str):
    with pytest.raises(AttributeError, match=f"module 'hloom' has no attribute '{name}'; did you mean .*{near}"):
        getattr(hloom, name)
