"""`hloom doctor`: which compilers are here, and how to get the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.targets.compiler.fake_compiler import fake_compiler


def test_compilers_that_are_found(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    compiler = fake_compiler(tmp_path, monkeypatch)
    result = call("doctor")
    assert result.exit_code == 0
    assert "libtpu 0.0.42" in result.stdout
    assert "not found" not in result.stdout
    record = json.loads(call("doctor", "--json").stdout)
    assert [entry["found"] for entry in record["compilers"]] == [True, True, True]
    assert record["compilers"][0]["python"] == str(compiler.python)
    assert record["compilers"][1]["targets"] == ["a100", "h100", "h200", "b200"]


def test_compilers_that_are_missing(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HLOOM_TPU_PYTHON", "/nowhere\x1b[31m")
    result = call("doctor")
    assert result.exit_code == 0
    assert "HLOOM_TPU_PYTHON=/nowhere\\033[31m is not an executable file" in result.stdout
    assert "\x1b" not in result.stdout
    record = json.loads(call("doctor", "--json").stdout)
    assert record["compilers"][0]["found"] is False
