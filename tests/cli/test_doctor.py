"""`hloom doctor`: which compilers are here, and how to get the others."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import PackageNotFoundError
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


def test_features_that_work_and_how_to_get_the_others(call: Call, monkeypatch: pytest.MonkeyPatch):
    def version(name: str) -> str:
        if name in ("jax", "zstandard"):
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr("hloom.cli.doctor.version", version)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    features = {one["name"].partition(":")[0]: one for one in json.loads(call("doctor", "--json").stdout)["features"]}
    assert [one["problem"] for one in features.values()] == [
        "", "without jax", "without jax", "without zstandard", "without dot",
    ]  # fmt: skip
    assert features["run programs"] == {
        "name": "run programs: run, --verify, --measure, calibrate",
        "works": False,
        "problem": "without jax",
        "remedy": "pip install 'hloom[run]'",
    }
    shown = call("doctor").stdout
    assert "zstandard   not installed" in shown and "pip install 'hloom[zst]'" in shown


def test_compilers_that_are_missing(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HLOOM_TPU_PYTHON", "/nowhere\x1b[31m")
    result = call("doctor")
    assert result.exit_code == 0
    assert "HLOOM_TPU_PYTHON=/nowhere\\033[31m is not an executable file" in result.stdout
    assert "\x1b" not in result.stdout
    record = json.loads(call("doctor", "--json").stdout)
    assert record["compilers"][0]["found"] is False
