"""What the shell offers where the cursor is."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from hloom.analysis import devices
from hloom.cli.completion import SHELLS, VARIABLE
from hloom.cli.main import COMMANDS, main
from hloom.passes import PASSES
from tests.cli.conftest import Call


def completed(*words: str) -> list[tuple[str, str]]:
    """What stands for the last word: values, and whether the shell lists files itself."""
    items = ShellComplete(main, {}, "hloom", VARIABLE).get_completions(list(words[:-1]), words[-1])
    return [(item.type, item.value) for item in items]


def test_subcommands():
    assert completed("") == [("plain", name) for name in COMMANDS]
    assert completed("prin") == [("plain", "print")]


def test_options():
    assert ("plain", "--around") in completed("draw", "step.hlo", "--a")


@pytest.mark.parametrize("words", [("inspect", "st"), ("run", "step.hlo", "--check", "st"), ("draw", "x", "-o", "st")])
def test_files(words: tuple[str, ...]):
    assert completed(*words) == [("file", "st")]


def test_devices(tmp_path: Path):
    assert completed("roofline", "step.hlo", "--device", "h1") == [("plain", name) for name in devices() if "h1" in name]
    assert ("plain", "h100") in completed("plan", "step.hlo", "--device", "")


def test_the_last_pass_of_a_pipeline():
    assert completed("opt", "step.hlo", "-p", "") == [("plain", name) for name in PASSES]
    assert ("plain", "simplify,cse") in completed("opt", "step.hlo", "-p", "simplify,cs")
    assert ("plain", "fixpoint(dce,cse") in completed("opt", "step.hlo", "-p", "fixpoint(dce,cs")


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts(call: Call, shell: str):
    result = call("--completion", shell)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"{VARIABLE}={shell}_complete" in result.stdout
