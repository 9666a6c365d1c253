"""The ranges of values that a page shows, and what is not finite."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes  # noqa: F401 - numpy learns bfloat16
import numpy as np
import pytest
from click.testing import CliRunner, Result

from hloom.cli import main
from hloom.formats.hlo import parse
from hloom.inspection.page import page_text, value_statistics
from hloom.text import HloomError
from tests.inspection.page.test_document import Blocks

LOOP = """
HloModule loop

body {
  p = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[2] get-tuple-element(p), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  twice = f32[2] add(v, v)
  ROOT t = (s32[], f32[2]) tuple(next, twice)
}

condition {
  p = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  three = s32[] constant(3)
  ROOT less = pred[] compare(i, three), direction=LT
}

ENTRY main {
  x = f32[2] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[2]) tuple(zero, x)
  loop = (s32[], f32[2]) while(start), condition=condition, body=body
  v = f32[2] get-tuple-element(loop), index=1
  ROOT l = f32[2] log(v)
}
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_values_of_every_run_count():
    module = parse(LOOP)
    statistics = {node.name: value for node, value in value_statistics(module, [np.array([1, -2], np.float32)]).items()}
    twice = statistics["twice"]
    assert (twice.least, twice.greatest, twice.count) == (-16, 8, 6)
    assert twice.total == 2 + 4 + 8 - 4 - 8 - 16
    assert str(twice) == "-16 to 8, mean -2.333, NaN 0 and infinite 0 of 6"
    assert (statistics["x"].least, statistics["less"].count) == (-2, 4)
    assert statistics["l"].not_a_number == 1
    assert "start" not in statistics


def test_what_is_not_finite_is_an_overlay():
    page = Blocks(page_text(parse(LOOP), numerics=[np.array([0, -1], np.float32)]))
    overlays = page.packed("overlays")
    assert overlays["not finite"]["main"]["results"]["main/l"]["value"] == "NaN"
    assert overlays["largest magnitude"]["body"]["results"]["body/twice"] == {"value": 8.0}
    texts = {n["id"]: {a["key"]: a["value"] for a in n["attrs"]} for g in page.packed("graphs") for n in g["nodes"]}
    assert texts["main/l"]["numerics"] == "no finite value, NaN 1 and infinite 1 of 2"


def test_types_that_numpy_has_not_and_complex_numbers_and_nothing():
    module = parse(
        "ENTRY e { x = bf16[3] parameter(0) c = c64[2] parameter(1) n = f32[0] parameter(2) "
        "y = bf16[3] negate(x) d = c64[2] add(c, c) m = f32[0] negate(n) "
        "ROOT r = (bf16[3], c64[2], f32[0]) tuple(y, d, m) }"
    )
    inputs = [np.array([1, 2, -4]).astype("bfloat16"), np.array([3 + 4j, 0], np.complex64), np.zeros(0, np.float32)]
    statistics = {node.name: str(value) for node, value in value_statistics(module, inputs).items()}
    assert statistics["y"] == "-2 to 4, mean 0.3333, NaN 0 and infinite 0 of 3"
    assert statistics["d"] == "0 to 10, mean 5, NaN 0 and infinite 0 of 2"
    assert statistics["m"] == "no finite value, NaN 0 and infinite 0 of 0"


def test_inputs_that_do_not_fit():
    with pytest.raises(HloomError, match="x"):
        page_text(parse(LOOP), numerics=[np.array([1, 2, 3], np.float32)])


def test_the_command(tmp_path: Path):
    (tmp_path / "loop.hlo").write_text(LOOP)
    np.savez(tmp_path / "x.npz", x=np.array([1, 2], np.float32))
    for numerics in ("random", tmp_path / "x.npz"):
        page = tmp_path / "page.html"
        assert run("page", tmp_path / "loop.hlo", "--numerics", numerics, "-o", page).exit_code == 0
        assert "largest magnitude" in Blocks(page.read_text()).packed("overlays")
    result = run("page", tmp_path / "loop.hlo", "--numerics", tmp_path / "none.npz", "-o", tmp_path / "y.html")
    assert (result.exit_code, (tmp_path / "y.html").exists()) == (2, False)
