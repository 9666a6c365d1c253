"""A program to look at, and two ways to call hloom: in this process, and as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from hloom.cli import main
from tests.targets.compiler.fake_compiler import fake_compiler

ROOT = Path(__file__).resolve().parents[2]

STEP = """HloModule step, entry_computation_layout={(f32[4,8]{1,0}, f32[8,2]{1,0})->(f32[4,2]{1,0}, f32[4]{0})}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(f32[] %a, f32[] %b)
}

ENTRY %main (x: f32[4,8], w: f32[8,2]) -> (f32[4,2], f32[4]) {
  %x = f32[4,8]{1,0} parameter(0)
  %w = f32[8,2]{1,0} parameter(1)
  %dot = f32[4,2]{1,0} dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot"}
  %scale = f32[12]{0} constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
  %zero = f32[] constant(0)
  %total = f32[4]{0} reduce(%dot, %zero), dimensions={1}, to_apply=%sum
  ROOT %out = (f32[4,2]{1,0}, f32[4]{0}) tuple(%dot, %total)
}
"""
BROKEN = "ENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] negate(x,\n}\n"
BROKEN_MESSAGE = "3:28: "

Call = Callable[..., Result]


@pytest.fixture
def call() -> Call:
    """Call hloom with arguments, and perhaps a standard input, in this process; JSON is as its schema says."""

    def called(*arguments: object, input: str | None = None) -> Result:
        texts = [str(argument) for argument in arguments]
        result = CliRunner().invoke(main, texts, input=input)
        if "--json" in texts and result.stdout.startswith("{"):
            validator(texts[0]).validate(json.loads(result.stdout))
        return result

    return called


@pytest.fixture(scope="module", autouse=True)
def _compilers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let commands that compile for a target find a fake compiler: the real ones are large, and take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        fake_compiler(tmp_path_factory.mktemp("compilers"), patch)
        yield


@pytest.fixture
def step(tmp_path: Path) -> Path:
    """A small module in a file."""
    path = tmp_path / "step.hlo"
    path.write_text(STEP)
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A file that does not read."""
    path = tmp_path / "broken.hlo"
    path.write_text(BROKEN)
    return path


@cache
def validator(command: str) -> Draft202012Validator:
    """Checks what a subcommand writes with --json."""
    return Draft202012Validator(json.loads((ROOT / "docs" / "schemas" / f"{command}.json").read_text()))


def spawn(*arguments: object, input: str | None = None) -> subprocess.CompletedProcess[str]:
    """Call hloom as a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "hloom", *map(str, arguments)]
    return subprocess.run(command, input=input, capture_output=True, text=True, env=environment, check=False)
