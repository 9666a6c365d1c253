"""A fake compiler for every target."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.targets.compiler.fake_compiler import FakeCompiler, fake_compiler


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCompiler:
    """The interpreter that all targets find."""
    return fake_compiler(tmp_path, monkeypatch)
