"""The exit status of every subcommand: 0 done or yes, 1 the answer is no, 2 bad input or usage.

Covers `exit_status.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from hloom.cli.exit_status import NO, TROUBLE, YES
from hloom.cli.main import COMMANDS

Call = Callable[..., Result]
STEP = """
HloModule step

ENTRY e {
  x = f32[64,64] parameter(0)
  w.1 = f32[64,64] parameter(1)
  h = f32[64,64] dot(x, w.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[64,64] tanh(h)
}
"""
OTHER = STEP.replace("tanh", "sine")
OPTIONS = {
    "compile": ("--for", "cpu"),
    "draw": ("-o", "step.dot"),
    "page": ("-o", "step.html"),
    "fit": ("--devices", 2),
    "grep": ("dot",),
    "minimize": ("--failing", "grep frobnicate {}"),
    "pipeline": ("--devices", 2),
    "plan": ("--mesh", "data=2"),
    "propagate": ("--mesh", "data=2", "--set", "x:0=data"),
}
"""What subcommands need beside FILE."""
WITHOUT_FILE = {"calibrate", "doctor"}
TWO_FILES = {"diff"}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in WITHOUT_FILE])
def test_a_bad_file_is_trouble(call: Call, tmp_path: Path, name: str):
    broken = tmp_path / "broken.hlo"
    broken.write_text("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x }")
    for file in (tmp_path / "none.hlo", broken):
        result = call(name, file, *((file,) if name in TWO_FILES else ()), *OPTIONS.get(name, ()))
        assert result.exit_code == TROUBLE, result.output
        assert result.stderr.startswith(("error: ", "Usage: ")) and "Traceback" not in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_bad_usage_is_trouble(call: Call, step: Path, name: str):
    assert call(name, step, "--frobnicate").exit_code == TROUBLE
    if name not in {*WITHOUT_FILE, "opt", "roofline"}:
        assert call(name).exit_code == TROUBLE


def answers(step: Path) -> dict[str, tuple[tuple[object, ...], tuple[object, ...]]]:
    """What each subcommand that answers a question says no to, and what yes."""
    other = step.with_name("other.hlo")
    other.write_text(OTHER)
    dump = step.with_name("dump")
    dump.mkdir()
    for number, text in enumerate((STEP, STEP, OTHER)):
        stage = f"000{number}.p.after_{'abc'[number]}.before_{'bcd'[number]}"
        (dump / f"module_0001.jit_f.{stage}.txt").write_text(text)
    np.savez(step.with_name("x.npz"), x=np.ones((64, 64), "f4"), w=np.ones((64, 64), "f4"))
    inputs = ("--choices", "int8,int4:32", "--calibrate", step.with_name("x.npz"))
    return {
        "diff": ((step, other), (step, step)),
        "grep": ((step, "convolution"), (step, "dot")),
        "memory": ((step, "--budget", "1kB"), (step, "--budget", "1GiB")),
        "plan": (
            (step, "--mesh", "data=2", "--memory", "1kB"),
            (step, "--mesh", "data=2", "--memory", "1GiB"),
        ),
        "fit": ((step, "--devices", 2, "--memory", "1kB"), (step, "--devices", 2, "--memory", "1GiB")),
        "minimize": ((step, "--failing", "grep frobnicate {}"), (step, "--failing", "grep tanh {}", "--steps", 1)),
        "opt": ((step, "-p", "remat(budget=1kB)"), (step, "-p", "remat(budget=1GiB)")),
        "run": ((step, "--check", other), (step, "--check", step)),
        "passes": ((dump, "--diff", 0, 2), (dump, "--diff", 0, 1)),
        "pipeline": (
            (step, "--devices", 2, "--batch", "x:0", "--memory", "1kB"),
            (step, "--devices", 1, "--batch", "x:0", "--memory", "1GiB"),
        ),
        "quantize": (
            (step, "--only", "w", "--bytes-budget", "1B", *inputs),
            (step, "--only", "w", "--bytes-budget", "6kB", *inputs),
        ),
    }


ANSWERS = ("diff", "grep", "memory", "plan", "fit", "minimize", "opt", "run", "passes", "pipeline", "quantize")
IN_OTHER_TESTS = {
    "compile": "tests/cli/test_compile.py, memory that runs out",
    "grad": "tests/cli/test_grad.py, a derivative that is wrong",
}
WITHOUT_AN_ANSWER = {
    "inspect", "print", "draw", "page", "view", "cost", "roofline", "fusions", "calibrate", "propagate", "prune",
    "evaluate", "why-oom", "doctor",
}  # fmt: skip
"""What shows, writes or explains something: nothing of it is a no."""


def test_every_subcommand_is_known_here():
    assert sorted({*ANSWERS, *IN_OTHER_TESTS, *WITHOUT_AN_ANSWER}) == sorted(COMMANDS)


@pytest.mark.parametrize("name", ANSWERS)
def test_the_answer_no(call: Call, tmp_path: Path, name: str):
    step = tmp_path / "step.hlo"
    step.write_text(STEP)
    refused, accepted = answers(step)[name]
    no = call(name, *refused)
    assert no.exit_code == NO, no.output
    yes = call(name, *accepted)
    assert yes.exit_code == YES, yes.output


@pytest.mark.parametrize(
    ("budget", "status", "words"),
    [
        ("hbm=1GiB,vmem=1GiB", 0, "VMEM: fits into 1.0 GiB"),
        ("hbm=1GiB,vmem=1KiB", 1, "VMEM: does not fit"),
        ("vmem=1GiB", 0, "VMEM: fits"),
        ("cache=1GiB", 2, "no memory is called 'cache'"),
        ("vmem=1B,vmem=2B", 2, "two budgets for one memory"),
    ],
)
def test_a_budget_for_each_memory(call: Call, tmp_path: Path, budget: str, status: int, words: str):
    path = tmp_path / "tpu.hlo"
    path.write_text(
        "HloModule m, is_scheduled=true\nENTRY e {\n x = f32[64,128]{1,0:T(8,128)} parameter(0)\n"
        " s = f32[64,128]{1,0:T(8,128)S(1)} sine(x)\n ROOT c = f32[64,128]{1,0:T(8,128)} cosine(s)\n}\n"
    )
    result = call("memory", path, "--budget", budget)
    assert result.exit_code == status
    assert words in result.output + result.stderr
    why = call("why-oom", path, "--quick", "--budget", budget)
    assert (why.exit_code == TROUBLE) == (status == TROUBLE)
    assert words in why.output + why.stderr


@pytest.mark.parametrize("name", ["memory", "why-oom"])
@pytest.mark.parametrize("options", [[], ["--for", "v5e"], ["--for", "h100"]])
def test_vmem_is_the_compilers_to_decide(
    call: Call, step: Path, name: str, options: list[str], monkeypatch: pytest.MonkeyPatch
):
    for compiler in ("HLOOM_TPU_PYTHON", "HLOOM_GPU_PYTHON"):
        monkeypatch.setenv(compiler, "/nowhere/python")
    result = call(name, step, "--budget", "vmem=1MiB", *options)
    assert result.exit_code == TROUBLE
    assert "what is in vmem is decided by the compiler for the device, which has not seen this program" in result.stderr
    assert "give --for v5e" in result.stderr
