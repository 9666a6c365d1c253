"""What says that a fault shows: commands, XLA, functions; what they do about crashes, time, and other faults."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hloom.formats.hlo import parse, print_module
from hloom.inspection.minimize import (
    CommandPredicate,
    DiffersBetweenFlags,
    DiffersFromEvaluator,
    FaultPredicate,
    SlowerThan,
    Verdict,
    XlaCrashes,
    XlaRefuses,
    minimize,
)
from hloom.inspection.minimize.predicates import FaultMessage
from hloom.ir import Module
from hloom.runtime import close
from hloom.text import HloomError
from tests.helpers.xla_flags import fusion_emitters

SMALL = "ENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] tanh(x) }"
UNKNOWN = """ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] tanh(x)
  z = f32[4] custom-call(y), custom_call_target="no_such_target"
  ROOT w = f32[4] add(z, x)
}"""
NOT_A_NUMBER = """ENTRY e {
  t = f32[64] parameter(0)
  o = f32[64] exponential-minus-one(t)
  l = f32[64] log(o)
  c = pred[64] compare(l, l), direction=NE
  n = f32[64] negate(t)
  s = f32[64] select(c, t, n)
  ROOT z = f32[64] sine(s)
}"""
SIGNS = {"t": np.linspace(-1, 1, 64, dtype=np.float32)}
"""Half of them make `log` yield NaN."""
FAST = "--xla_cpu_enable_fast_math=true --xla_cpu_fast_math_honor_nans=false --xla_cpu_fast_math_honor_infs=false"
FUSED = f"{fusion_emitters(True)} --xla_backend_optimization_level=2"


def verdict(predicate: FaultPredicate, text: str) -> Verdict:
    module = parse(text)
    return predicate.check(module, print_module(module))


def test_a_command_gets_the_file():
    assert verdict(CommandPredicate("grep -q tanh {}"), SMALL).shows
    assert not verdict(CommandPredicate("grep -q cosine {}"), SMALL).shows
    assert verdict(CommandPredicate("grep -q cosine {}", status="nonzero"), SMALL).shows
    assert (
        verdict(CommandPredicate("sh -c 'echo seen; exit 3' {}"), SMALL).reason
        == "it ended with exit status 3:\n  seen"
    )


def test_a_command_that_hangs_is_ended_with_what_it_started(tmp_path: Path):
    start = time.monotonic()
    pid = tmp_path / "pid"
    answer = verdict(CommandPredicate(f"sh -c 'sleep 60 & echo $! > {pid}; wait' {{}}", timeout=0.5), SMALL)
    assert answer == Verdict(False, "it was stopped after 0.5 s", is_checked=False)
    assert time.monotonic() - start < 20
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(int(pid.read_text()), 0)
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("./check.sh", "says nowhere where the file's name goes"),
        ("'unclosed {}", "does not read: No closing quotation"),
        ("./no-such-command {}", r"cannot run ./no-such-command: No such file or directory"),
    ],
)
def test_a_command_that_cannot_run(command: str, message: str):
    with pytest.raises(HloomError, match=message):
        verdict(CommandPredicate(command), SMALL)


def test_xla_refuses():
    result = minimize(parse(UNKNOWN), XlaRefuses())
    assert result.shows and "no_such_target" in result.reason
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter", "custom-call"]
    assert verdict(XlaRefuses(), SMALL) == Verdict(False, "XLA compiles it")


def test_messages_of_one_fault():
    first = FaultMessage()
    assert first.is_same("INVALID_ARGUMENT: Invalid dimension for reduce.12: 3 of 4")
    assert first.is_same("INVALID_ARGUMENT: Invalid dimension for add: 1 of 2\nmore")
    assert not first.is_same("NOT_FOUND: No registered implementation for untyped custom call")
    crash = FaultMessage("XLA crashed (signal SIGABRT): words (hlo_parser.cc:51)")
    assert crash.is_same("XLA crashed (signal SIGABRT): others (hlo_parser.cc:77)")
    assert not crash.is_same("XLA crashed (signal SIGABRT): words (shape.cc:51)")


def test_xla_runs_it_and_does_not_crash():
    assert verdict(XlaCrashes(), SMALL) == Verdict(False, "XLA runs it")
    assert "no_such_target" in verdict(XlaCrashes(), UNKNOWN).reason


def test_a_crash(monkeypatch: pytest.MonkeyPatch):
    """XLA's parser dies of a predicate as the value of a float, which hloom's own refuses to read: the text is given."""
    module = parse(SMALL)
    aborting = "HloModule m\n ENTRY e { ROOT c = f32[] constant(true) }"
    answer = XlaCrashes().check(module, aborting)
    assert answer.shows and "hlo_parser.cc" in answer.reason


@pytest.mark.long
def test_a_module_that_xla_dies_of():
    text = "ENTRY e { x = f32[4] parameter(1) y = f32[4] tanh(x) z = f32[4] cosine(y) ROOT w = f32[4] add(z, x) }"
    result = minimize(parse(text), XlaCrashes())
    assert result.shows and "hlo_computation.cc" in result.reason
    assert [node.opcode for node in result.module.entry.nodes] == ["parameter"]


def test_numbers_with_two_sets_of_flags():
    fast = DiffersBetweenFlags(f"{FUSED} {FAST}", FUSED, inputs=SIGNS)
    result = minimize(parse(NOT_A_NUMBER), fast)
    assert result.shows and result.instructions < 8, result.text
    assert not verdict(DiffersBetweenFlags(FUSED, FUSED), NOT_A_NUMBER).shows
    with pytest.raises(HloomError, match="XLA does not take the flags '--xla_no_such=1'"):
        verdict(DiffersBetweenFlags("", "--xla_no_such=1"), SMALL)
    close()


def test_which_flags_the_evaluator_agrees_with():
    made = minimize(parse(NOT_A_NUMBER), DiffersBetweenFlags(f"{FUSED} {FAST}", FUSED, inputs=SIGNS), steps=1)
    assert str(made.arbitration) == (
        f"hloom's evaluator finds the same results for both; XLA agrees with it on the module with '{FUSED}', but not "
        f"on the module with '{FUSED} {FAST}': XLA does not compute the module with '{FUSED} {FAST}' as written"
    )


def test_numbers_against_the_evaluator(monkeypatch: pytest.MonkeyPatch):
    assert verdict(DiffersFromEvaluator(), SMALL) == Verdict(False, "they agree")
    assert verdict(DiffersFromEvaluator(rtol=0, atol=0), NOT_A_NUMBER.replace("sine", "tan")).shows
    assert "no_such_target" in verdict(DiffersFromEvaluator(), UNKNOWN).reason


def test_time():
    assert verdict(SlowerThan(0), SMALL).shows
    assert verdict(SlowerThan(0, compiling=True), SMALL).shows
    assert not verdict(SlowerThan(60), SMALL).shows
    assert not verdict(SlowerThan(0), UNKNOWN).shows


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_functions_in_processes_of_their_own():
    """In a program of its own, `forked_functions.py`: jax may be imported here, and its threads forbid to fork."""
    root = Path(__file__).parents[3]
    paths = os.pathsep.join(map(str, (root / "src", root)))
    child = subprocess.run(
        [sys.executable, "-m", "tests.inspection.minimize.forked_functions"],
        cwd=root, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert child.stdout.splitlines() == [
        "dies: False, its process ended with exit status 7",
        "dies: True, it returned True",
        "hangs: False, it was stopped after 0.5 s",
    ], child.stderr


def test_a_function_cannot_be_forked_beside_jax(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "jax", sys)
    with pytest.raises(HloomError, match="jax is imported in this process"):
        minimize(parse(SMALL), bool, isolated=True)


def test_what_a_function_raises_passes_on():
    def raises(module: Module) -> bool:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        minimize(parse(SMALL), raises)


def test_what_is_no_predicate():
    with pytest.raises(HloomError, match="expected a function of a module as the predicate, not int"):
        minimize(parse(SMALL), 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(HloomError, match="isolated= is for functions"):
        minimize(parse(SMALL), XlaRefuses(), isolated=True)
