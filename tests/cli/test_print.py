"""`hloom print`: forms, styles, files, and errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hloom.formats.hlo import PrintOptions, load, module_to_proto, parse, print_module, to_text
from hloom.ir import equal
from tests.cli.conftest import STEP, Call

MODULE = parse(STEP)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), PrintOptions()),
        (("--short-parsable",), PrintOptions.short_parsable()),
        (("--canonical",), PrintOptions.canonical()),
        (("--no-percent",), PrintOptions(percent=False)),
        (("--operand-types",), PrintOptions(operand_types=True)),
        (("--no-metadata",), PrintOptions(metadata=False)),
        (("--elide", 10), PrintOptions(constant_limit=10)),
        (
            ("--short-parsable", "--operand-types", "--elide", "0"),
            PrintOptions(
                percent=False,
                operand_types=True,
                signatures=False,
                metadata=False,
                backend_config=False,
                constant_limit=0,
            ),
        ),
    ],
)
def test_styles(call: Call, step: Path, options: tuple[object, ...], expected: PrintOptions):
    result = call("print", step, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == print_module(MODULE, expected)


def test_the_listing(call: Call, step: Path):
    assert call("print", step, "--ir").stdout == to_text(load(step), "ir")


def test_without_options_it_reads_back(call: Call, step: Path):
    assert equal(parse(call("print", step).stdout), MODULE)


def test_json(call: Call, step: Path):
    record = json.loads(call("print", step, "--short-parsable", "--json").stdout)
    assert record == {"schema_version": 1, "module": "step", "form": "short", "text": to_text(MODULE, "short")}


@pytest.mark.parametrize("name", ["out.hlo", "out.txt", "out", "out.hlo.gz", "out.txt.zst"])
def test_into_a_file(call: Call, step: Path, tmp_path: Path, name: str):
    result = call("print", step, "-o", tmp_path / name)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert equal(load(tmp_path / name), MODULE)
    assert sorted(os.listdir(tmp_path)) == sorted(["step.hlo", name])


def test_an_error_leaves_the_file_as_it_was(call: Call, broken: Path, tmp_path: Path):
    target = tmp_path / "out.hlo"
    target.write_text("before")
    assert call("print", broken, "-o", target).exit_code == 2
    assert target.read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["broken.hlo", "out.hlo"]


def test_notes_go_to_standard_error(call: Call):
    text = "HloModule m\nENTRY e {\n" + "".join(f"  x{n} = f32[] frobnicate{n}()\n" for n in range(8)) + "}\n"
    result = call("print", "-", "--no-percent", input=text)
    assert result.exit_code == 0
    assert "frobnicate7" in result.stdout
    notes = result.stderr.splitlines()
    assert len(notes) == 6
    assert notes[0].startswith("note: <stdin>:3:")
    assert notes[5] == "note: 3 more notes; `hloom inspect` lists them"


def test_fields_of_newer_protos_are_kept_and_only_inspect_says_so(call: Call, tmp_path: Path):
    proto = module_to_proto(MODULE)
    proto.computations[0].instructions[0].MergeFromString(b"\xfa\x3f\x03abc")
    (tmp_path / "newer.pb").write_bytes(proto.SerializeToString(deterministic=True))
    result = call("print", tmp_path / "newer.pb", "-o", tmp_path / "again.pb")
    assert (result.exit_code, result.stderr) == (0, "")
    assert (tmp_path / "again.pb").read_bytes() == (tmp_path / "newer.pb").read_bytes()
    said = " ".join(call("inspect", tmp_path / "newer.pb").stdout.split())
    assert "hloom does not understand, and keeps, field number 1023 of HloInstructionProto" in said


def test_strict(call: Call):
    text = "HloModule m\nENTRY e { ROOT x = f32[] negate(nowhere) }\n"
    assert call("print", "-", input=text).exit_code == 0
    result = call("print", "-", "--strict", input=text)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: <stdin>:2:")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--short-parsable", "--canonical"), "Error: --short-parsable and --canonical are two forms: give one"),
        (("--ir", "--no-percent"), "Error: --no-percent styles HLO text, and --ir is another form"),
        (("--elide", "-1"), "Error: Invalid value for '--elide': -1 is not in the range x>=0."),
    ],
)
def test_bad_usage(call: Call, step: Path, options: tuple[str, ...], message: str):
    result = call("print", step, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == message
