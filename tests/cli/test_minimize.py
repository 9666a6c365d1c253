"""`hloom minimize`: predicates, output, errors, Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hloom.cli import minimize as cli_minimize
from hloom.inspection.minimize import MinimizationProgress
from hloom.runtime import load_arrays, save_arrays
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
        assert result.exit_code == 2 and result.stderr.startswith("error: ") and message in result.stderr
    result = call("minimize", step, "--failing", "true {}", "-o", tmp_path / "none" / "small.hlo")
    assert result.exit_code == 2 and "no such file or directory" in result.stderr


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
    assert result.stderr.startswith("interrupted: wrote the smallest module so far, ")
    assert call("inspect", output).exit_code == 0 and " reduce(" in output.read_text()


def test_ctrl_c_before_anything_is_smaller(call: Call, step: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    output = tmp_path / "small.hlo"
    interrupted_after(1, monkeypatch)
    result = call("minimize", step, "--failing", "grep -q reduce {}", "-o", output)
    assert result.exit_code == 130 and not output.exists()
    assert result.stderr == "interrupted: no smaller module shows the fault yet; nothing was written\n"


PASSES = """import hloom


@hloom.rule
def drop_negate(p):
    \"\"\"exp(-x) -> exp(x)\"\"\"
    x = p.value("x")
    e = p.op("exponential", p.op("negate", x))
    with p.rewrite() as r:
        r.replace({e: r.op("exponential", x)})
"""
DECAY = """ENTRY e {
  x = f32[4] parameter(0)
  t = f32[4] abs(x)
  n = f32[4] negate(t)
  e = f32[4] exponential(n)
  ROOT y = f32[4] tanh(e)
}"""


@pytest.fixture
def decay(tmp_path: Path) -> Path:
    (tmp_path / "my_passes.py").write_text(PASSES)
    path = tmp_path / "decay.hlo"
    path.write_text(DECAY)
    return path


def test_a_pass_that_is_wrong(call: Call, decay: Path, tmp_path: Path):
    options = ("--load", tmp_path / "my_passes.py", "--passes", "cse,drop-negate,dce")
    saved = tmp_path / "small.npz"
    result = call("minimize", decay, *options, "--save-inputs", saved, "-o", tmp_path / "small.hlo")
    assert result.exit_code == 0, result.stderr
    assert "application 2 of 3, pass drop-negate, rule drop-negate: output 0" in result.stderr
    text = (tmp_path / "small.hlo").read_text()
    assert "negate(%t.value)" in text and "abs" not in text and "tanh" not in text
    assert [array.shape for array in load_arrays(saved).values()] == [(1,)]
    record = json.loads(call("minimize", decay, *options, "--json").stdout)
    assert record["pass"].pop("reason").startswith("output 0")
    assert record["pass"] == {"name": "drop-negate", "number": 2, "count": 3, "rules": ["drop-negate"]}
    assert record["needs_inputs"] is False and "inputs" not in record
    assert record["arbitration"] == {
        "evaluator_finds_same": False,
        "xla_agrees": {"the input": True, "what drop-negate makes of it": True},
    }
    assert (
        "hloom's evaluator, too, finds that the programs differ; XLA agrees with it on the input and on what "
        "drop-negate makes of it" in result.stderr
    )
    result = call("minimize", decay, "--passes", "cse,dce")
    assert result.exit_code == 1 and "the fault does not show in module_e after cse, dce" in result.stderr


def test_inputs_that_are_given(call: Call, decay: Path, tmp_path: Path):
    options = ("--load", tmp_path / "my_passes.py", "--passes", "drop-negate")
    save_arrays(tmp_path / "x.npz", {"x": np.ones(3, np.float32)})
    result = call("minimize", decay, *options, "--inputs", tmp_path / "x.npz")
    assert result.exit_code == 2 and "the program takes f32[4]" in result.stderr
    save_arrays(tmp_path / "x.npz", {"x": np.ones(4, np.float32)})
    assert call("minimize", decay, *options, "--inputs", tmp_path / "x.npz").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--failing", "true {}", "--save-inputs", "x.npz"), "--save-inputs applies only to wrong numbers"),
        (("--xla-refuses", "--inputs", "x.npz"), "--inputs applies only to wrong numbers"),
        (("--xla-refuses", "--load", "x.py"), "--load needs --passes"),
        (("--failing", "true {}", "--xla-passes"), "--xla-passes needs a fault of XLA"),
        (("--passes", "cse", "--xla-passes"), "--xla-passes needs a fault of XLA"),
        (("--xla-refuses", "--passes", "cse", "--xla-passes"), "give only one of --passes and --xla-passes"),
        (("--passes", "csee"), "there is no pass named 'csee'"),
        (("--passes", ""), "a pass"),
    ],
)
def test_options_that_do_not_go_together(call: Call, decay: Path, options: tuple[str, ...], message: str):
    result = call("minimize", decay, *options)
    assert result.exit_code == 2 and message in result.stderr, result.stderr
