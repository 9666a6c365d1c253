"""Where a NaN or an infinity of an output first arises is named, through calls and loops."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hloom.cli import main
from hloom.evaluator import evaluate, first_not_finite
from hloom.formats.hlo import parse
from hloom.text import HloomError


def origin(body: str, *inputs: np.ndarray, graphs: str = "") -> str | None:
    noted = first_not_finite(parse(f"HloModule m\n{graphs}\nENTRY e {{\n{body}\n}}"), list(inputs))
    return None if noted is None else str(noted)


X = np.array([4, -1, -2, 0], np.float32)


def test_the_instruction_whose_operands_are_finite():
    body = "x = f32[4] parameter(0)\nr = f32[4] sqrt(x)\nROOT y = f32[4] add(r, x)"
    assert origin(body, X) == "NaN first arises in r (sqrt): 2 of 4 values"
    assert origin(body, np.abs(X)) is None


def test_an_infinity_comes_before_the_nan_that_it_makes():
    body = "x = f32[4] parameter(0)\nl = f32[4] log(x)\nROOT y = f32[4] subtract(l, l)"
    assert origin(body, np.abs(X)) == "infinity first arises in l (log): 1 of 4 values"


def test_infinite_constants_are_masks():
    body = "x = f32[4] parameter(0)\nc = f32[] constant(-inf)\nm = f32[4] broadcast(c), dimensions={}\nROOT y = f32[4] subtract(m, m)"
    assert origin(body, X) == "NaN first arises in y (subtract): 4 of 4 values"
    assert origin(body.replace("ROOT y = f32[4] subtract(m, m)", "ROOT y = f32[4] add(m, x)"), X) == (
        "infinity is in the constant c: 1 of 1 values"
    )


def test_what_is_given_is_not_finite():
    body = "x = f32[4] parameter(0)\nROOT y = f32[4] negate(x)"
    assert origin(body, np.array([1, np.nan, 2, 3], np.float32)) == "NaN is given in the input x: 1 of 4 values"


def test_what_reaches_no_output_is_not_named():
    body = "x = f32[4] parameter(0)\nr = f32[4] sqrt(x)\nz = f32[4] multiply(x, x)\np = pred[4] compare(x, x), direction=NE\nROOT y = f32[4] select(p, r, z)"
    assert origin(body, X) is None


LOOP = """
round { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 v = f32[4] get-tuple-element(s), index=1
  o = s32[] constant(1) j = s32[] add(i, o) c = f32[4] call(v), to_apply=inner ROOT t = (s32[], f32[4]) tuple(j, c) }
inner { a = f32[4] parameter(0) o = f32[] constant(2) b = f32[4] broadcast(o), dimensions={} d = f32[4] subtract(a, b)
  ROOT l = f32[4] log(d) }
goes_on { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
"""


def test_loops_and_calls_are_looked_into():
    body = "x = f32[4] parameter(0)\nz = s32[] constant(0)\ns = (s32[], f32[4]) tuple(z, x)\nw = (s32[], f32[4]) while(s), condition=goes_on, body=round\nROOT y = f32[4] get-tuple-element(w), index=1"
    assert origin(body, np.full(4, 4, np.float32), graphs=LOOP) == "NaN first arises in l (log): 4 of 4 values"


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f64", "f8e5m2", "c64"])
def test_every_type_of_number(dtype: str):
    module = parse(f"ENTRY e {{ x = {dtype}[2] parameter(0) z = {dtype}[2] subtract(x, x) ROOT y = {dtype}[2] divide(z, z) }}")
    array = np.ones(2, module.entry.parameters[0].type.dtype.numpy)  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    assert str(first_not_finite(module, [array])).startswith("NaN first arises in y (divide): 2 of 2")
    assert not np.isfinite(evaluate(module, [array])[0].astype(np.complex64)).any()


def test_what_takes_long_is_not_looked_for():
    endless = LOOP.replace("constant(3)", "constant(3000000)")
    body = "x = f32[4] parameter(0)\nz = s32[] constant(0)\ns = (s32[], f32[4]) tuple(z, x)\nw = (s32[], f32[4]) while(s), condition=goes_on, body=round\nROOT y = f32[4] get-tuple-element(w), index=1"
    with pytest.raises(HloomError, match="where it arises is not looked for"):
        origin(body, X, graphs=endless.replace("log(d)", "tanh(d)"))


@pytest.mark.parametrize("command", ["run", "evaluate"])
def test_the_commands_say_it_in_one_line(command: str, tmp_path: Path):
    path = tmp_path / "step.hlo"
    path.write_text("HloModule m\nENTRY e { c = f32[] constant(-1) r = f32[] sqrt(c) ROOT y = f32[] negate(r) }")
    line = "NaN first arises in r (sqrt): 1 of 1 values"
    assert line in CliRunner().invoke(main, [command, str(path)]).output.splitlines()
    record = json.loads(CliRunner().invoke(main, [command, str(path), "--json"]).stdout)
    assert record["not_finite"] == {"instruction": "r", "opcode": "sqrt", "what": "NaN", "count": 1, "elements": 1}
    path.write_text(path.read_text().replace("-1", "4"))
    assert "not_finite" not in json.loads(CliRunner().invoke(main, [command, str(path), "--json"]).stdout)
