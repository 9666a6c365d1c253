"""Where XLA computes different numbers for two programs, hloom's evaluator is asked which of them it is right about."""

import numpy as np
import pytest

import hloom
from hloom.runtime import ProgramRun, arbitrate, run

STEP_OF_TWO = """
c { p = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(1)
  ROOT r = pred[] compare(i, n), direction=LT }
b { p = (s32[], f32[]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[] get-tuple-element(p), index=1
  k = s32[] constant(2) j = s32[] add(i, k) y = f32[] negate(x) ROOT r = (s32[], f32[]) tuple(j, y) }
ENTRY e { x = f32[] parameter(0) z = s32[] constant(0) t = (s32[], f32[]) tuple(z, x)
  w = (s32[], f32[]) while(t), condition=c, body=b ROOT y = f32[] get-tuple-element(w), index=1 }
"""
"""XLA's CPU compiler takes this loop, which runs once, for one that never runs."""
NEGATION = "ENTRY e { x = f32[] parameter(0) ROOT y = f32[] negate(x) }"
IDENTITY = "ENTRY e { x = f32[] parameter(0) ROOT y = f32[] copy(x) }"
X = [np.array(3, np.float32)]


def said(first: str, second: str, outputs: tuple[float, float] | None = None) -> str:
    """What the evaluator says of two programs that XLA ran, or that gave these numbers."""
    executions: list[ProgramRun] = []
    for number, (name, text) in enumerate((("A", first), ("B", second))):
        program = hloom.parse(text)
        results = run(program, X).outputs if outputs is None else [np.array(outputs[number], np.float32)]
        executions.append(ProgramRun(name, program, X, results))
    one, other = executions
    return str(arbitrate(one, other))


def test_xla_is_wrong_about_one_of_two_programs_that_are_alike():
    assert said(STEP_OF_TWO, NEGATION) == (
        "hloom's evaluator finds the same results for both; XLA agrees with it on B, but not on A: "
        "XLA does not compute A as written"
    )


@pytest.mark.parametrize(
    ("first", "second", "outputs", "words"),
    [
        (NEGATION, IDENTITY, (-3, 3), "too, finds that the programs differ; XLA agrees with it on A and on B"),
        (NEGATION, IDENTITY, (-3, 4), "too, finds that the programs differ; XLA agrees with it on A, but not on B"),
        (NEGATION, NEGATION, (-3, 4), "for both; XLA agrees with it on A, but not on B: XLA does not compute B as"),
        (NEGATION, NEGATION, (5, 4), "agrees with it neither on A nor on B: XLA does not compute A and B as written"),
    ],
)
def test_who_agrees_with_whom(first: str, second: str, outputs: tuple[float, float], words: str):
    assert words in said(first, second, outputs)


def test_what_the_evaluator_cannot_compute():
    opaque = 'ENTRY e { x = f32[] parameter(0) ROOT y = f32[] custom-call(x), custom_call_target="mine" }'
    assert said(opaque, NEGATION, (0, 1)).startswith("hloom's evaluator cannot tell which is right: ")
    program = hloom.parse(NEGATION)
    record = arbitrate(ProgramRun("A", program, X, [np.array(-3, np.float32)]), ProgramRun("B", program, X, [np.array(0, np.float32)])).to_json()
    assert record == {"evaluator_finds_same": True, "xla_agrees": {"A": True, "B": False}}
