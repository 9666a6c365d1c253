"""`hloom grep`: lines, counts, JSON, and grep's exit status."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Call


def test_lines_have_their_computation_and_cost(call: Call, step: Path):
    result = call("grep", step, "dot")
    assert result.exit_code == 0
    assert result.stdout.startswith("main: %dot = f32[4,2]{1,0} dot(%x, %w)")
    assert "  // 32 B, 128 FLOPs" in result.stdout


def test_the_order_of_grep(call: Call, step: Path):
    assert call("grep", "dot", step).stdout == call("grep", step, "dot").stdout
    assert call("grep", "dot", "absent.hlo").stderr == "error: cannot read dot: no such file or directory\n"


def test_only_lines(call: Call, step: Path):
    assert call("grep", step, "constant where rank = 0", "--lines").stdout == "%zero = f32[] constant(0)\n"


def test_count_and_status(call: Call, step: Path):
    assert (call("grep", step, "parameter", "--count").stdout, call("grep", step, "sort").exit_code) == ("4\n", 1)


def test_json(call: Call, step: Path):
    (record,) = json.loads(call("grep", step, "dot", "--json").stdout)["matches"]
    assert (record["name"], record["shape"], record["flops"], record["op_name"]) == ("dot", "[4,2]", 128, "jit(f)/dot")


def test_the_number_of_matches_as_json(call: Call, step: Path):
    record = json.loads(call("grep", step, "dot", "--json", "--count").stdout)
    assert (record["count"], record["matches"]) == (1, None)


def test_errors_point_and_have_a_status_of_their_own(call: Call, step: Path):
    result = call("grep", step, "dot and byte > 3")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: query:1:9: no field is called 'byte'\n  dot and byte > 3\n          ^\n")


def test_a_fragment_has_no_costs(call: Call, tmp_path: Path):
    path = tmp_path / "line.hlo"
    path.write_text("x = f32[2] negate(y)\n")
    assert "x = f32[2] negate(" in call("grep", path, "negate").stdout


def test_fields_are_listed(call: Call):
    assert "live_bytes" in call("grep", "--fields").stdout
