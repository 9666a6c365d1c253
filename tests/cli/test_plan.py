"""`hloom plan`: what it shows and writes, what may be demanded, and how it is checked against XLA.

Covers `plan_report.py`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import hloom
from tests.cli.conftest import BROKEN, Call

LAYERS = """HloModule layers, input_output_alias={ {0}: (1, {}, may-alias) }

ENTRY main {
  x = f32[64,128] parameter(0)
  w = f32[128,512] parameter(1)
  v = f32[512,128] parameter(2)
  h = f32[64,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[64,512] tanh(h)
  y = f32[64,128] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  da = f32[64,512] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  dw = f32[128,512] dot(x, da), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  w1 = f32[128,512] subtract(w, dw)
  ROOT out = (f32[128,512], f32[64,128]) tuple(w1, y)
}
"""
LOOP = """HloModule loop
body {
  c = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  x = f32[64,64] get-tuple-element(c), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = (s32[], f32[64,64]) tuple(j, d)
}
condition {
  c = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  end = s32[] constant(3)
  ROOT l = pred[] compare(i, end), direction=LT
}
ENTRY main {
  x = f32[64,64] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[64,64]) tuple(zero, x)
  w = (s32[], f32[64,64]) while(t), condition=condition, body=body
  ROOT r = f32[64,64] get-tuple-element(w), index=1
}
"""
MESH = "data=2,model=4"


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    path = tmp_path / "layers.hlo"
    path.write_text(LAYERS)
    return path


def test_what_is_shown(call: Call, layers: Path):
    result = call("plan", layers, "--mesh", MESH)
    assert (result.exit_code, result.stderr) == (0, "")
    for title in ("plans, best first", "shardings", "collectives", "limited by: "):
        assert title in result.stdout
    assert "runner-up plans" not in result.stdout


def test_explained_in_full(call: Call, layers: Path):
    result = call("plan", layers, "--mesh", MESH, "--explain", "--planner", "expert")
    assert result.exit_code == 0
    assert "runner-up plans" in result.stdout
    record = json.loads(call("plan", layers, "--mesh", MESH, "--explain", "--json").stdout)
    explanation = record["explanation"]
    assert {"does", "table", "collectives", "limits", "binding"} <= explanation.keys()
    assert record["alternatives"]
    sent = sum(collective["sent"] for collective in explanation["collectives"])
    assert sent == pytest.approx(sum(sum(row["sent"].values()) for row in explanation["table"]))


def test_a_plan_that_is_written_is_a_plan_and_can_be_kept_to(call: Call, layers: Path, tmp_path: Path):
    first, second = tmp_path / "plan.json", tmp_path / "again.json"
    assert call("plan", layers, "--mesh", MESH, "--pin", "x=[data,-]", "-o", first).exit_code == 0
    plan = json.loads(first.read_text())
    assert plan["mesh"] == {"data": 2, "model": 4}
    assert plan["params"]["0"] == ["data", None]
    assert call("plan", layers, "--mesh", MESH, "--like", first, "-o", second).exit_code == 0
    assert json.loads(second.read_text()) == plan
    assert sorted(os.listdir(tmp_path)) == ["again.json", "layers.hlo", "plan.json"]


def test_annotated_hlo_is_written(call: Call, layers: Path, tmp_path: Path):
    path = tmp_path / "spread.hlo"
    assert call("plan", layers, "--mesh", MESH, "-o", path).exit_code == 0
    assert "sharding" in hloom.load(path).entry["w"].attributes


def test_a_plan_of_a_loop_says_that_its_json_is_not_all(call: Call, tmp_path: Path):
    loop = tmp_path / "loop.hlo"
    loop.write_text(LOOP)
    result = call("plan", loop, "--mesh", MESH, "-o", tmp_path / "plan.json")
    assert result.stderr.startswith("warning: plan.json: ")
    assert "of loops and branches are read by hloom alone" in result.stderr
    assert call("plan", loop, "--mesh", MESH, "-o", tmp_path / "plan.hlo").stderr == ""


def test_forbidden_axes(call: Call, layers: Path):
    result = call("plan", layers, "--mesh", MESH, "--forbid", "model", "--forbid", "x:1=data", "--json")
    plan = json.loads(result.stdout)["plan"]
    assert "model" not in json.dumps([plan["params"], plan["ops"], plan["outputs"]])
    assert plan["params"].get("0", [None, None])[1] is None


def test_verified_and_run(call: Call, layers: Path):
    result = call("plan", layers, "--mesh", MESH, "--verify", "--run", "--json")
    assert result.exit_code == 0
    record = json.loads(result.stdout)
    assert {"sent", "FLOPs", "memory"} <= record["compared"].keys()
    assert record["compared"]["FLOPs"]["expected"] == record["compared"]["FLOPs"]["measured"]
    assert record["run"]["agrees"] and record["run"]["worst"] < 1e-5


def test_uneven_parameters_are_run(call: Call, layers: Path):
    layers.write_text(LAYERS.replace("64", "63"))
    result = call("plan", layers, "--mesh", "data=2", "--pin", "x=[data,-]", "--run")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "results differ from one device's by" in result.stdout


def test_measured(call: Call, layers: Path):
    result = call("plan", layers, "--mesh", "data=2", "--measure", "1", "--json")
    candidates = json.loads(result.stdout)["candidates"]
    assert all(candidate["measured"] for candidate in candidates)
    assert candidates[0]["step_seconds"] == min(candidate["step_seconds"] for candidate in candidates)


def test_a_budget_that_nothing_keeps(call: Call, layers: Path):
    result = call("plan", layers, "--mesh", "data=2", "--memory", "1kB")
    assert result.exit_code == 1
    assert "does not fit: the smallest plan found exceeds the memory by " in result.stdout
    assert "no plan within the memory budget takes less than" in result.stdout
    assert re.search("proven: every plan needs at least .* per device", result.stdout)


def test_a_plan_that_does_not_fit_is_written_on_demand(call: Call, layers: Path, tmp_path: Path):
    path = tmp_path / "plan.json"
    asked = ("plan", layers, "--mesh", "data=2", "--memory", "1kB", "-o", path)
    result = call(*asked)
    assert result.exit_code == 1 and not path.exists()
    assert result.stderr.startswith("error: the plan does not fit and was not written; use --best-effort")
    assert call(*asked, "--best-effort").exit_code == 1 and path.exists()


def test_an_axis_that_splits_nothing_is_named(call: Call, layers: Path):
    result = call("plan", layers, "--mesh", "data=2,many=4096")
    assert "axis many of 4,096 devices splits nothing" in result.stdout


def test_what_the_gap_is_relative_to(call: Call, layers: Path):
    assert (
        "lower bound: by the cost tables, no plan takes less than " in call("plan", layers, "--mesh", "data=2").stdout
    )


def test_a_devices_links_are_paid_for(call: Call, layers: Path):
    flat = json.loads(call("plan", layers, "--mesh", MESH, "--pin", "x=[data,-]", "--json").stdout)
    slow = json.loads(call("plan", layers, "--mesh", MESH, "--pin", "x=[data,-]", "--device", "h100", "--json").stdout)
    assert slow["plan"]["mesh"] == {"data": 2, "model": 4}
    assert slow["step_seconds"] != flat["step_seconds"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--pin", "x"), "'x' is not a pin: write NAME=SPEC, as in x=[data,-]"),
        (("--pin", "x=data"), "'data' is not a spec"),
        (("--pin", "x=[data,-]", "--pin", "x=[-,data]"), "x cannot have both specs [data,-] and [-,data]"),
        (("--forbid", "a b"), "'a b' forbids nothing"),
        (("--memory", "much"), "'much' is not a number of bytes"),
        (("--measure", "-1"), "-1 is not in the range"),
    ],
)
def test_bad_usage_exits_with_2(call: Call, layers: Path, arguments: tuple[str, ...], says: str):
    result = call("plan", layers, "--mesh", MESH, *arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--mesh", "eight"), "error: 'eight' is not a mesh"),
        (("--mesh", MESH, "--pin", "u=[-]"), "error: u cannot be pinned: the program has no array of that name"),
        (("--mesh", MESH, "--forbid", "z"), "error: the mesh data=2,model=4 has no axis 'z'"),
        (("--mesh", MESH, "--planner", "best"), "error: there is no planner 'best'"),
        (("--mesh", MESH, "--like", "nowhere.json"), "error: cannot read nowhere.json: no such file"),
        (("--mesh", MESH, "--device", "abacus"), "error: no device is called 'abacus'"),
        (("--mesh", MESH, "-o", "nowhere/plan.json"), "error: cannot write nowhere/plan.json"),
        (("--mesh", MESH, "-o", "plan.txt"), "error: plan.txt: a plan is written as .json (the plan) or as .hlo"),
        (("--mesh", MESH, "--pin", "w2=[-,data]"), "error: w2 cannot be pinned: the program has no array of that name"),
    ],
)
def test_errors_exit_with_1(call: Call, layers: Path, arguments: tuple[str, ...], says: str):
    result = call("plan", layers, *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(says)


def test_what_is_no_program_and_no_plan(call: Call, layers: Path, tmp_path: Path):
    (tmp_path / "broken.hlo").write_text(BROKEN)
    assert call("plan", tmp_path / "broken.hlo", "--mesh", MESH).exit_code == 2
    (tmp_path / "plan.json").write_text('{"params": 3}')
    result = call("plan", layers, "--mesh", MESH, "--like", tmp_path / "plan.json")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {tmp_path / 'plan.json'}: this is not a plan\n")
