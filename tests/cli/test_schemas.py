"""What --json writes is as docs/schemas says, which is made from the classes of the reports.

Every call with --json in these tests is checked against its schema (`conftest.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from jsonschema import Draft202012Validator, ValidationError

from hloom.cli import main
from hloom.cli.main import COMMANDS
from hloom.runtime import save_arrays
from scripts.make_schemas import FOLDER, REPORTS, files, schema
from tests.cli.conftest import Call, validator

LOSS = """sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[4,8] parameter(0)
  up = f32[8,16] parameter(1)
  down = f32[16,8] parameter(2)
  high = f32[4,16] dot(x, up), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bent = f32[4,16] tanh(high)
  low = f32[4,8] dot(bent, down), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  ROOT loss = f32[] reduce(low, zero), dimensions={0,1}, to_apply=sum
}
"""
MESH = ("--mesh", "m=2")
CASES = [
    ("inspect", "step.hlo"),
    ("print", "step.hlo"),
    ("draw", "step.hlo"),
    ("grep", "step.hlo", "dot"),
    ("cost", "step.hlo"),
    ("cost", "step.hlo", "--for", "v5e"),
    ("roofline", "step.hlo", "--by", "opcode"),
    ("roofline", "step.hlo", "--timeline", "--device", "h100"),
    ("roofline", "--list"),
    ("fusions", "step.hlo"),
    ("memory", "step.hlo", "--budget", "1MiB"),
    ("why-oom", "step.hlo", "--memory", "1kB"),
    ("why-oom", "step.hlo", "--for", "v5e"),
    ("compile", "step.hlo", "--for", "v5e"),
    ("doctor",),
    ("diff", "step.hlo", "step.hlo"),
    ("passes", "dump"),
    ("minimize", "step.hlo", "--failing", "grep -q reduce {}"),
    ("opt", "step.hlo", "-p", "simplify", "--trace-misses", "dot"),
    ("opt", "--list"),
    ("opt", "--list-rules", "simplify"),
    ("grad", "loss.hlo", "--check"),
    ("quantize", "step.hlo", "--only", "w", "--check"),
    ("prune", "step.hlo", "--only", "w", "--weights", "w.npz"),
    ("prune", "loss.hlo", "--weights", "net.npz", "--structured", "channels", "--check"),
    ("propagate", "step.hlo", *MESH, "--set", "x:0=m"),
    ("propagate", "step.hlo", *MESH, "--enumerate"),
    ("plan", "step.hlo", *MESH, "--explain"),
    ("pipeline", "step.hlo", "--devices", "1", "--batch", "x:0"),
    ("fit", "step.hlo", "--devices", "1", "--batch", "x:0"),
    ("run", "step.hlo"),
    ("evaluate", "step.hlo"),
]
"""Calls of every subcommand but `calibrate`, which takes long: `test_roofline.py` calls it with clocks of its own."""
UNITS = (
    "second|byte|flop|share|ratio|rate|relative|time|count|factor|decibel|operations|number|unit|norm|benefit|scale|how"
)
"""What is said where a number that is no count comes."""


def with_json() -> list[str]:
    """The subcommands that have --json."""
    commands = {name: main.get_command(click.Context(main), name) for name in COMMANDS}
    return [name for name, command in commands.items() if command and any("--json" in o.opts for o in command.params)]


def numbers() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Every key of a number: its subcommand, its name, its schema, and that of the object around it."""
    for command in REPORTS:
        for definition in schema(command)["$defs"].values():
            for name, value in definition.get("properties", {}).items():
                if "number" in value.get("type", ()):
                    yield command, name, value, definition


def test_every_subcommand_with_json_has_a_schema():
    assert sorted(with_json()) == sorted(REPORTS)


def test_the_files_are_up_to_date():
    written = {path: path.read_text() for path in FOLDER.iterdir()}
    assert written == files(), "python scripts/make_schemas.py"


@pytest.mark.parametrize("command", REPORTS)
def test_a_schema_is_one_and_wants_the_version(command: str):
    Draft202012Validator.check_schema(schema(command))
    with pytest.raises(ValidationError):
        validator(command).validate({})


def test_every_number_has_a_unit():
    for command, name, value, owner in numbers():
        said = " ".join((name, value.get("description", ""), owner["description"]))
        assert re.search(UNITS, said, re.IGNORECASE), f"{command}: {name}"


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_what_is_written(call: Call, step: Path, case: tuple[str, ...], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(step.parent)
    Path("dump").mkdir()
    for stage in ("before_optimizations", "0001.p.after_dce"):
        Path(f"dump/module_0001.step.{stage}.txt").write_text(step.read_text())
    Path("loss.hlo").write_text(LOSS)
    save_arrays(Path("w.npz"), {"w": np.ones((8, 2), np.float32)})
    save_arrays(Path("net.npz"), {"up": np.ones((8, 16), np.float32), "down": np.ones((16, 8), np.float32)})
    result = call(*case, "--json")
    assert result.exit_code in (0, 1), result.stderr
    validator(case[0]).validate(json.loads(result.stdout))


@pytest.mark.parametrize(
    "change", [{"opcodes": 3}, {"opcodes": {"dot": "many"}}, {"schema_version": 2}, {"largest": [{}]}]
)
def test_a_schema_refuses_what_is_otherwise(call: Call, step: Path, change: dict[str, Any]):
    record = json.loads(call("inspect", step, "--json").stdout)
    validator("inspect").validate(record | {"a key that is new": 1})
    with pytest.raises(ValidationError):
        validator("inspect").validate(record | change)


def test_every_subcommand_is_tried():
    assert {case[0] for case in CASES} == set(REPORTS) - {"calibrate"}
