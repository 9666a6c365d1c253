"""Every subcommand, and every file that one reads, on endless and deeply nested input: an error or an answer, no crash."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from hloom.cli.main import COMMANDS
from tests.cli.conftest import Call

DEPTH = 1_200
"""How deep calls nest: beyond Python's recursion limit."""
OPTIONS = {
    "propagate": ("--mesh", "m=2", "--set", "x:0=m"),
    "plan": ("--mesh", "m=2"),
    "grep": ("negate",),
    "minimize": ("--failing", "true {}"),
    "opt": ("-p", "dce"),
    "compile": ("--for", "cpu"),
    "grad": ("--vjp",),
    "pipeline": ("--devices", "2"),
    "fit": ("--devices", "2"),
}
"""The options that subcommands need."""
READERS = [name for name in COMMANDS if name not in ("calibrate", "diff", "doctor", "passes")]
"""The subcommands that read one module."""
TROUBLE = {}
"""The exit status of an error where it is not 1."""
RUNNING = ("run", "evaluate", "grad", "pipeline", "fit", "quantize", "prune")
"""Those that may refuse deep calls, which XLA, numpy and derivatives bound, or have nothing to say of them."""


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is written goes into a folder for it, and the browser opens nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda page: True)


def nested_calls(depth: int) -> str:
    """A module of calls in calls."""
    graphs = ["c0 { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }"]
    graphs += [
        f"c{n} {{ x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=c{n - 1} }}" for n in range(1, depth)
    ]
    entry = f"ENTRY e {{ x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=c{depth - 1} }}"
    return "\n".join(["HloModule deep", *graphs, entry])


@pytest.mark.parametrize("name", [name for name in READERS if name not in RUNNING])
def test_deep_calls(call: Call, tmp_path: Path, name: str):
    path = tmp_path / "deep.hlo"
    path.write_text(nested_calls(DEPTH))
    result = call(name, path, *OPTIONS.get(name, ()))
    assert (result.exit_code, result.exception) == (0, None), result.stderr


@pytest.mark.parametrize("name", ["evaluate", "grad"])
def test_deep_calls_that_are_refused(call: Call, tmp_path: Path, name: str):
    path = tmp_path / "deep.hlo"
    path.write_text(nested_calls(DEPTH))
    result = call(name, path, *OPTIONS.get(name, ()))
    assert result.exit_code == 0 or result.stderr.startswith("error: ")


@pytest.mark.parametrize("name", READERS)
def test_deep_brackets(call: Call, tmp_path: Path, name: str):
    path = tmp_path / "brackets.hlo.gz"
    path.write_bytes(gzip.compress(b"ENTRY e { ROOT x = " + b"(" * 100_000))
    result = call(name, path, *OPTIONS.get(name, ()))
    assert result.exit_code == TROUBLE.get(name, 2)
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, json.dumps([1] * 1000), "\0" * 1000, ""],
    ids=["lists", "objects", "no plan", "zeros", "nothing"],
)
def test_plans_that_are_none(call: Call, step: Path, tmp_path: Path, text: str):
    path = tmp_path / "plan.json"
    path.write_text(text)
    result = call("plan", step, "--mesh", "m=2", "--like", path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "text",
    [
        *("a = " + "[" * 50_000, "a = " + "{a=" * 50_000, "[" + "a." * 100_000 + "a]", "a." * 100_000 + "a = 1"),
        *("a = {" + "a." * 100_000 + "a = 1}", ("a." * 190 + "a = 1\n") * 600, "\0", "a = 1"),
    ],
    ids=["lists", "tables", "dotted table", "dotted key", "dotted inline", "many dotted", "zero", "no device"],
)
def test_devices_that_are_none(call: Call, step: Path, tmp_path: Path, text: str):
    path = tmp_path / "devices.toml"
    path.write_text(text)
    result = call("roofline", step, "--devices", path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plan", ("--mesh", "m=2", "--like", "/dev/zero")),
        ("roofline", ("--devices", "/dev/zero")),
        ("run", ("--inputs", "/dev/zero")),
        ("run", ("--check", "/dev/zero")),
        ("opt", ("--load", "/dev/zero", "-p", "cse")),
        ("opt", ("-p", "/dev/zero")),
        ("quantize", ("--only", "w", "--check", "--inputs", "/dev/zero")),
        ("quantize", ("--only", "w", "--convert", "/dev/zero", "new.npz")),
        ("prune", ("--only", "w", "--weights", "/dev/zero")),
        ("prune", ("--only", "w", "--check", "--inputs", "/dev/zero")),
    ],
)
def test_files_that_never_end(call: Call, step: Path, name: str, options: tuple[str, ...]):
    result = call(name, step, *options)
    assert result.exit_code == 2
    assert "/dev/zero" in result.stderr


@pytest.mark.parametrize("name", READERS)
def test_a_module_that_never_ends(call: Call, name: str):
    result = call(name, "/dev/zero", *OPTIONS.get(name, ()))
    assert result.exit_code == TROUBLE.get(name, 2)
    assert "/dev/zero: it is a device" in result.stderr


def test_a_parameter_of_a_large_number(call: Call, tmp_path: Path):
    path = tmp_path / "large.hlo"
    path.write_text("ENTRY e { ROOT x = f32[5] parameter(1000000000) }")
    result = call("memory", path)
    assert result.exit_code == 0
    assert "argument" in result.stdout


def test_custom_calls_cost_nothing_negative(call: Call, tmp_path: Path):
    path = tmp_path / "custom.hlo"
    path.write_text('ENTRY e { x = f32[5] parameter(0) ROOT y = f32[5] custom-call(x), custom_call_target="f" }')
    assert "-1" not in call("cost", path).stdout
    record = json.loads(call("cost", path, "--json").stdout)
    assert record["total"]["flops"] == 0 and record["total_once"]["flops"] == 0
