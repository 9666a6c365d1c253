"""Results of dynamic size are cut to their true sizes: what XLA's client returns beyond is arbitrary."""

import numpy as np
import pytest

from hloom.runtime import compare, run

RESIZED = "n = s32[] parameter(1) y = f32[<=5] set-dimension-size(x, n), dimensions={0}"
PROGRAMS = {
    "alone": f"ENTRY e {{ x = f32[5] parameter(0) {RESIZED} ROOT z = f32[<=5] negate(y) }}",
    "in a tuple": f"ENTRY e {{ x = f32[5] parameter(0) {RESIZED} ROOT t = (s32[], (f32[<=5], f32[5])) tuple(n, p) }}".replace(
        "ROOT", "z = f32[<=5] negate(y) p = (f32[<=5], f32[5]) tuple(z, x) ROOT"
    ),
    "not made by a tuple": """
        swap { p = (f32[<=5], s32[]) parameter(0) a = f32[<=5] get-tuple-element(p), index=0
          b = s32[] get-tuple-element(p), index=1 ROOT t = (s32[], f32[<=5]) tuple(b, a) }
        ENTRY e { x = f32[5] parameter(0) """
    + RESIZED
    + """ z = f32[<=5] negate(y) p = (f32[<=5], s32[]) tuple(z, n) ROOT c = (s32[], f32[<=5]) call(p), to_apply=swap }""",
}
X = np.arange(5, dtype=np.float32)


@pytest.mark.parametrize("size", [0, 3, 5])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_the_true_size(program: str, size: int):
    outputs = run(program, [X, np.int32(size)]).outputs
    (dynamic,) = (output for output in outputs if output.ndim and not np.array_equal(output, X))
    assert np.array_equal(dynamic, -X[:size])


def test_a_program_agrees_with_itself():
    first, second = (run(PROGRAMS["alone"], [X, np.int32(2)]) for _ in range(2))
    assert compare(first.outputs, second.outputs) == []


def test_two_dimensions():
    text = """ENTRY e { x = f32[3,4] parameter(0) m = s32[] constant(2) n = s32[] constant(3)
      y = f32[<=3,4] set-dimension-size(x, m), dimensions={0}
      ROOT z = f32[<=3,<=4] set-dimension-size(y, n), dimensions={1} }"""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(run(text, [x]).outputs[0], x[:2, :3])
