"""`hloom inspect`: its tables, its JSON, its notes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call

TABLES = """\
module     step ({path})
entry      main, 7 instructions
total      2 computations, 10 instructions
inputs     2 parameters, 192 B
outputs    2 outputs, 48 B
constants  52 B
devices    1 replica x 1 partition
"""
KEYS = {
    "schema_version": int,
    "name": str,
    "source": str,
    "entry": str,
    "is_scheduled": bool,
    "replica_count": int,
    "partition_count": int,
    "computation_count": int,
    "instruction_count": int,
    "entry_instruction_count": int,
    "parameter_count": int,
    "parameter_bytes": int,
    "output_count": int,
    "output_bytes": int,
    "constant_bytes": int,
    "elided_constant_count": int,
    "sharded_count": int,
    "opcodes": dict,
    "dtypes": dict,
    "calls": list,
    "unreached": list,
    "largest": list,
    "collectives": list,
    "custom_calls": dict,
    "custom_call_names": dict,
    "unresolved": list,
    "notes": list,
    "sizes": dict,
}
"""What the JSON of `inspect` has, and of which type."""


def test_tables(call: Call, step: Path):
    result = call("inspect", step)
    assert result.exit_code == 0
    assert result.stdout.startswith(TABLES.format(path=step))
    assert " main                     7                1\n" in result.stdout
    assert "   sum                    3   reduce       1\n" in result.stdout
    assert " dot           main          dot        f32[4,2]    32 B\n" in result.stdout
    assert result.stderr == ""


def test_json(call: Call, step: Path):
    record = json.loads(call("inspect", step, "--json").stdout)
    assert {name: type(value) for name, value in record.items()} == KEYS
    assert record["opcodes"] == {"parameter": 4, "constant": 2, "add": 1, "dot": 1, "reduce": 1, "tuple": 1}
    assert record["dtypes"] == {"f32": 11}
    assert record["calls"] == [
        {"computation": "main", "depth": 0, "opcodes": [], "times": 1, "instructions": 7, "is_repeated": False},
        {"computation": "sum", "depth": 1, "opcodes": ["reduce"], "times": 1, "instructions": 3, "is_repeated": False},
    ]
    assert record["largest"][0] == {
        "name": "scale",
        "computation": "main",
        "opcode": "constant",
        "type": "f32[12]",
        "bytes": 48,
    }


def test_into_a_file(call: Call, step: Path, tmp_path: Path):
    for options in ((), ("--json",)):
        result = call("inspect", step, *options, "-o", tmp_path / "out")
        assert result.stdout == ""
        assert (tmp_path / "out").read_text() == call("inspect", step, *options).stdout


def test_what_is_not_understood(call: Call):
    text = """HloModule m, num_partitions=4
    ENTRY e {
      a = f32[4] parameter(0), sharding={replicated}
      b = f32[16] all-gather(a), dimensions={0}
      c = f32[2] frobnicate(b, nowhere)
      n = f32[2] call(c), to_apply=nobody
      d = f32[3] custom-call(c), custom_call_target="there"
      ROOT t = (f32[?], token[]) tuple(d)
    }
    unused { ROOT p = s32[] parameter(0) }
    """
    result = call("inspect", "-", input=text)
    assert result.exit_code == 0
    for line in (
        "module     m (<stdin>)",
        "devices    1 replica x 4 partitions",
        "sharded    1 instruction",
        " all-gather       1           64 B",
        "  unused",
        "  computation nobody",
        "  operand nowhere in e",
    ):
        assert f"{line}\n" in result.stdout
    assert "notes\n  <stdin>:5:" in result.stdout
    record = json.loads(call("inspect", "-", "--json", input=text).stdout)
    assert record["unresolved"] == ["computation nobody", "operand nowhere in e"]
    assert record["collectives"] == [{"opcode": "all-gather", "count": 1, "bytes": 64}]
    assert record["custom_calls"] == {"there": 1}
    assert record["unreached"] == ["unused"]
    assert record["output_bytes"] == 0


def test_many_alike_calls_are_one_line(call: Call):
    reducers = "".join(
        f"r{n} {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\n" for n in range(60)
    )
    uses = "\n".join(f"y{n} = f32[] reduce(x, z), dimensions={{0}}, to_apply=r{n}" for n in range(60))
    text = f"HloModule m\n{reducers}ENTRY e {{ x = f32[2] parameter(0) z = f32[] constant(0)\n{uses} }}"
    assert " r0 and 59 like it              3   reduce      60\n" in call("inspect", "-", input=text).stdout


def test_long_tables_are_cut(call: Call):
    chain = "f0 { ROOT x = f32[] parameter(0) }\n" + "".join(
        f"f{n} {{ x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f{n - 1} }}\n" for n in range(1, 2000)
    )
    result = call("inspect", "-", input=f"HloModule m\n{chain}")
    assert result.exit_code == 0
    assert " 1970 more lines; --all shows them\n" in result.stdout
    assert "more lines" not in call("inspect", "-", "--all", input=f"HloModule m\n{chain}").stdout


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_errors(call: Call, broken: Path, option: tuple[str, ...]):
    result = call("inspect", broken, *option)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        f"error: {broken}:4:1: expected an operand, found '}}'",
        "  }",
        "  ^",
    ]
