"""`hloom.compile` takes what `hloom.load` reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import hloom
from tests.cli.conftest import STEP
from tests.targets.compiler.fake_compiler import fake_compiler


def test_a_text_and_a_file_and_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compiler = fake_compiler(tmp_path, monkeypatch)
    path = tmp_path / "step.hlo"
    path.write_text(STEP)
    results = [hloom.compile(program, "v5e") for program in (STEP, path, hloom.parse(STEP))]
    assert [result.memory.peak for result in results] == [7264] * 3
    assert isinstance(results[0], hloom.CompiledProgram)
    assert len(compiler.requests) == 1
