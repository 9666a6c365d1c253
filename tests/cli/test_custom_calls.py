"""What every view says of a module whose custom calls are counted, or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call

GEMM = (
    'custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"dot_dimension_numbers":'
    '{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}'
)
STEP = f"""HloModule step, is_scheduled=true
copied {{ a = f32[64,64] parameter(0) ROOT n = f32[64,64] negate(a) }}
ENTRY e {{
  x = f32[64,64] parameter(0)
  g = (f32[64,64], s8[100]) custom-call(x, x), {GEMM}
  y = f32[64,64] get-tuple-element(g), index=0
  ROOT f = f32[64,64] fusion(y), kind=kLoop, calls=copied
}}
"""
MINE = STEP.replace("fusion(y)", "fusion(m)").replace(
    "  ROOT f", '  m = f32[64,64] custom-call(y), custom_call_target="mine"\n  ROOT f'
)
LEAST = "without 1 instruction of unknown cost: 1 mine"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A module whose calls are all counted, and one with a call that is not."""
    counted, uncounted = tmp_path / "counted.hlo", tmp_path / "uncounted.hlo"
    counted.write_text(STEP)
    uncounted.write_text(MINE)
    return counted, uncounted


def test_cost(call: Call, files: tuple[Path, Path]):
    counted, uncounted = (" ".join(call("cost", file).stdout.split()) for file in files)
    assert "loops per iteration 528,384 0" in counted and "loops once, as in XLA at least 4,09" in counted
    assert "__cublas$gemm cuBLAS matrix product 1 524,288 48.0 KiB" in counted and "unknown" not in counted
    assert f"totals, {LEAST}" in uncounted and "loops per iteration at least 528,384 at least 0" in uncounted
    assert "mine 1 32.0 KiB unknown target" in uncounted and "operands: m" in uncounted
    record = json.loads(call("cost", files[1], "--json").stdout)
    assert (record["is_lower_bound"], record["uncounted_kinds"], record["total"]["flops"]) == (True, {"mine": 1}, 528384)
    assert [line["name"] for line in record["custom_calls"]] == ["cuBLAS matrix product", "mine"]


def test_roofline(call: Call, files: tuple[Path, Path]):
    counted, uncounted = (" ".join(call("roofline", file, "--device", "h100").stdout.split()) for file in files)
    assert "total (estimate) at least" not in counted and "unknown cost" not in counted
    assert f"80 GB: {LEAST}" in uncounted and "total (estimate) at least" in uncounted
    record = json.loads(call("roofline", files[1], "--device", "h100", "--json").stdout)
    assert (record["is_lower_bound"], record["uncounted_kinds"], record["uncounted"]) == (True, {"mine": 1}, ["m"])


def test_inspect(call: Call, files: tuple[Path, Path]):
    shown = " ".join(call("inspect", files[1]).stdout.split())
    assert "__cublas$gemm cuBLAS matrix product 1 mine 1" in shown
    record = json.loads(call("inspect", files[1], "--json").stdout)
    assert record["custom_call_names"] == {"__cublas$gemm": "cuBLAS matrix product"}


def test_fusions(call: Call, files: tuple[Path, Path]):
    shown = " ".join(call("fusions", files[1], "--device", "h100").stdout.split())
    assert "__cublas$gemm cuBLAS matrix product 1" in shown and "mine 1 at least" in shown
    record = json.loads(call("fusions", files[1], "--device", "h100", "--json").stdout)
    assert {row["target"]: row["problem"] for row in record["library_calls"]} == {
        "__cublas$gemm": "",
        "mine": "unknown target",
    }


def test_diff(call: Call, files: tuple[Path, Path]):
    shown = " ".join(call("diff", *files).stdout.split())
    assert f"after: {LEAST}" in shown and "flops 528,384 at least 528,384 roughly 0" in shown
    record = json.loads(call("diff", *files, "--json").stdout)
    assert record["costs"]["omissions"] == {"before": "", "after": LEAST}


def test_passes(call: Call, tmp_path: Path):
    for stage, text in (("before_optimizations", MINE), ("0001.p.after_dce", MINE), ("sm_9.0a_gpu_after_optimizations", STEP)):
        (tmp_path / f"module_0001.jit_f.{stage}.txt").write_text(text)
    rows = json.loads(call("passes", tmp_path, "--json").stdout)["states"]
    assert [row["flops_qualifier"] for row in rows] == ["at least", "at least", ""]
    assert "at least 528,384" in " ".join(call("passes", tmp_path).stdout.split())
