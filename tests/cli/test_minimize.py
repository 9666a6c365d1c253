"""`hloom minimize`: predicates, output, errors, Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hloom.cli import minimize as cli_minimize
from hloom.minimize import MinimizationProgress
from tests.cli.conftest import Call

SMALLEST = "HloModule step"


def test_the_smallest_goes_to_the_standard_output(call: Call, step: Path):
    result = call("minimize", step, "--failing", "grep -q reduce {}")
    assert result.exit_code == 0
    assert result.stdout.startswith(SMALLEST) and " reduce(" in result.stdout and " dot(" not in result.stdout
    assert "10 instructions to 6 in" in result.stderr and "candidates checked" in result.stderr
    assert call("minimize", step, "--failing", "grep -q reduce {}", "-o", "-").stdout == result.stdout


def test_a_file_is_written_whole(call: Call, step: Path, tmp_path: Path):
    output = tmp_path / "small.hlo"
    result = call("minimize", step, "--failing", "grep -q reduce {}", "-o", output, "--json")
    assert result.exit_code == 0
    record = json.loads(result.stdout)
    assert record["shows"] and record["is_finished"] and record["instructions"] == 6 and "text" not in record
    assert output.read_text().startswith(SMALLEST)
    record = json.loads(call("minimize", step, "--failing", "grep -q reduce {}", "--json").stdout)
    assert record["text"] == output.read_text()


def test_a_fault_that_does_not_show_writes_nothing(call: Call, step: Path, tmp_path: Path):
    output = tmp_path / "small.hlo"
    result = call("minimize", step, "--failing", "grep -q frobnicate {}", "-o", output)
    assert (result.exit_code, result.stdout) == (1, "") and not output.exists()
    assert result.stderr == (
        "error: the fault does not show in step itself: 'grep -q frobnicate {}' does not hold\n"
        "  it ended with exit status 1\n"
    )
    assert call("minimize", step, "--failing", "grep -q frobnicate {}", "--status", "nonzero").exit_code == 0


def test_a_fault_that_always_shows(call: Call, step: Path):
    assert "10 instructions to 1 in" in call("minimize", step, "--failing", "true {}").stderr


def test_steps(call: Call, step: Path):
    result = call("minimize", step, "--failing", "grep -q reduce {}", "--steps", 2)
    assert result.exit_code == 0 and "stopped when the steps ran out" in result.stderr
    assert " reduce(" in result.stdout


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--failing", "true {}", "--xla-crashes"),
        ("--differs-between", "--xla_a=1"),
        ("--failing", "true {}", "--status", "maybe"),
        ("--failing", "true {}", "--steps", 0),
        ("--failing", "true {}", "--timeout", 0),
        ("--slower-than", "soon"),
    ],
)
def test_bad_usage(call: Call, step: Path, options: tuple[object, ...]):
    result = call("minimize", step, *options)
    assert result.exit_code == 2 and result.stdout == ""


def test_errors(call: Call, step: Path, tmp_path: Path):
    for command, message in (("true", "says nowhere"), ("./no-such {}", "cannot run ./no-such")):
        result = call("minimize", step, "--failing", command)
        assert result.exit_code == 1 and result.stderr.startswith("error: ") and message in result.stderr
    result = call("minimize", step, "--failing", "true {}", "-o", tmp_path / "none" / "small.hlo")
    assert result.exit_code == 1 and "no such file or directory" in result.stderr


@pytest.mark.parametrize("option", ["--xla-refuses", "--xla-crashes", "--differs-from-evaluator"])
def test_a_module_without_a_fault(call: Call, step: Path, option: str):
    result = call("minimize", step, option)
    assert result.exit_code == 1 and "the fault does not show in step itself: 'XLA " in result.stderr


def test_a_fault_of_xla(call: Call, tmp_path: Path):
    path = tmp_path / "unknown.hlo"
    path.write_text(
        'ENTRY e { x = f32[4] parameter(0) y = f32[4] custom-call(x), custom_call_target="frob" ROOT z = f32[4] tanh(y) }'
    )
    result = call("minimize", path, "--xla-refuses")
    assert result.exit_code == 0 and "tanh" not in result.stdout and 'custom_call_target="frob"' in result.stdout
    result = call("minimize", path, "--slower-than", 0)
    assert result.exit_code == 1 and "frob" in result.stderr


def interrupted_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Ctrl-C come before the check of this number."""
    original = cli_minimize.minimize

    def interrupted(module, predicate, *, steps: int, told):
        def stop(state: MinimizationProgress) -> None:
            told(state)
            if state.steps == limit:
                raise KeyboardInterrupt

        return original(module, predicate, steps=steps, told=stop)

    limit = steps
    monkeypatch.setattr(cli_minimize, "minimize", interrupted)


def test_ctrl_c_writes_the_smallest_so_far(call: Call, step: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    output = tmp_path / "small.hlo"
    interrupted_after(8, monkeypatch)
    result = call("minimize", step, "--failing", "grep -q reduce {}", "-o", output)
    assert result.exit_code == 130
    assert result.stderr.startswith("interrupted: the smallest module so far, ")
    assert call("inspect", output).exit_code == 0 and " reduce(" in output.read_text()


def test_ctrl_c_before_anything_is_smaller(call: Call, step: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    output = tmp_path / "small.hlo"
    interrupted_after(1, monkeypatch)
    result = call("minimize", step, "--failing", "grep -q reduce {}", "-o", output)
    assert result.exit_code == 130 and not output.exists()
    assert result.stderr == "interrupted: nothing smaller shows the fault so far, and nothing is written\n"
