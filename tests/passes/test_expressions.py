"""Passes that rewrite arithmetic keep the value of small expressions on edge values: NaN, infinities, zeros and limits.

By the evaluator in every bit, and by XLA, which computes both programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

import hloom
from hloom.evaluator import evaluate, integers
from hloom.formats.hlo import parse
from hloom.ir import DTYPES, Module, dtype_of, verify
from hloom.passes.simplify import FAST_MATH, INEXACT
from hloom.rewrite import Report
from hloom.runtime import run, worker_client
from tests.evaluator.batches import distance, is_same
from tests.evaluator.xla import bits, types
from tests.helpers.xla_flags import fusion_emitters
from tests.passes.expressions import Expressions, expressions
from tests.passes.test_elementwise import ROUNDED

TYPES = ("pred", "s4", "s8", "s32", "s64", "u4", "u8", "u32", "f16", "bf16", "f32", "f64", "f8e5m2", "f8e4m3fn", "c64")
WHOLE = tuple(dtype for dtype in TYPES if DTYPES[dtype].is_integer or dtype == "pred")
STRICT_PASSES = ("fold", "simplify", "fold,simplify,cse,simplify")
INEXACT_PASSES = ("simplify-xla", "fast-math", "saturate", "saturate(cost=bytes)")
MAY_CHANGE_FLOATS = frozenset(rule.name for family in (*INEXACT, FAST_MATH) for rule in family)
SEEDS = [range(2), pytest.param(range(2, 40), marks=pytest.mark.long)]


@pytest.mark.parametrize("seeds", SEEDS, ids=["few", "many"])
@pytest.mark.parametrize("passes", STRICT_PASSES)
def test_strict_passes_keep_every_bit(passes: str, seeds: range):
    for dtype in TYPES:
        for seed in seeds:
            drawn = expressions(dtype, seed)
            after, report = changed(drawn, passes)
            if not ROUNDED & fired(report):
                assert_same_bits(drawn, after)


@pytest.mark.parametrize("seeds", SEEDS, ids=["few", "many"])
@pytest.mark.parametrize("passes", INEXACT_PASSES)
def test_inexact_passes_keep_integers(passes: str, seeds: range):
    for dtype in WHOLE:
        for seed in seeds:
            drawn = expressions(dtype, seed, 8)
            assert_same_bits(drawn, changed(drawn, passes)[0])


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 800), marks=pytest.mark.long)], ids=["few", "many"])
def test_simplify_xla_changes_floats_by_inexact_rules_only(seeds: range):
    for dtype in TYPES:
        for seed in seeds if dtype not in WHOLE else ():
            drawn = expressions(dtype, seed, 1)
            after, report = changed(drawn, "simplify-xla")
            if not (MAY_CHANGE_FLOATS | ROUNDED) & fired(report):
                assert_same_bits(drawn, after)


def changed(drawn: Expressions, passes: str) -> tuple[Module, Report]:
    """The module after passes, verified, and their report."""
    after, report = hloom.opt(parse(drawn.text), passes)
    verify(after)
    return after, report


def fired(report: Report) -> set[str]:
    """The names of the rules that fired."""
    return {step.rule for step in report.steps}.union(*(fired(part) for part in report.passes))


def assert_same_bits(drawn: Expressions, after: Module) -> None:
    """Every output has the same bits before and after, by the evaluator; those of NaNs aside."""
    results = zip(drawn.parts, evaluate(parse(drawn.text), drawn.inputs), evaluate(after, drawn.inputs), strict=True)
    for part, one, other in results:
        apart = bits(one) != bits(other)
        assert not apart.any(), f"{shown(drawn, apart, one, other)} of\n  {part}"


def shown(drawn: Expressions, apart: np.ndarray, one: np.ndarray, other: np.ndarray) -> str:
    """Where two results first differ."""
    index = np.flatnonzero(apart.reshape(-1, one.size).any(axis=0))[0]
    operands = ", ".join(f"{name}={array[index]}" for name, array in zip("xyp", drawn.inputs, strict=True))
    return f"{one[index]} became {other[index]} at {operands}"


@pytest.fixture
def unsimplified() -> Iterator[None]:
    """XLA without its own simplifier and folding, which have values of their own for some constants."""
    worker_client.close()
    with pytest.MonkeyPatch.context() as patch:
        flags = f"--xla_disable_hlo_passes=algsimp,constant_folding {fusion_emitters(True)}"
        patch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip())
        yield
        worker_client.close()


@pytest.mark.parametrize("dtype", types("s8", long="pred s4 s32 s64 u4 u8 u32 f16 bf16 f32 f64 f8e5m2 c64"))
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_xla_computes_the_same_of_both_programs(
    dtype: str, seed: int, unsimplified: None, monkeypatch: pytest.MonkeyPatch
):
    """Where XLA's own results differ, the second is as the evaluator has the first.

    XLA computes NaN that is a constant otherwise than one of the run, and s4 in bytes whose upper bits it leaves. Of
    integers' powers its code takes the exponent's lowest six bits, and what it computes when it compiles takes them all:
    a rule that makes scalars of arrays brings powers of constants from one to the other.
    """
    drawn = expressions(dtype, seed)
    after, report = changed(drawn, "fold,simplify,cse")
    before_by_xla, after_by_xla = (run(module, drawn.inputs).outputs for module in (parse(drawn.text), after))
    by_evaluator = evaluate(parse(drawn.text), drawn.inputs)
    monkeypatch.setattr(integers, "EXPONENT_BITS", DTYPES[dtype].bits)
    by_compiler = evaluate(parse(drawn.text), drawn.inputs)
    results = zip(drawn.parts, before_by_xla, after_by_xla, by_evaluator, by_compiler, strict=True)
    for part, theirs, made, ours, compiled in results:
        apart = ~near(theirs, made) & ~near(ours, made) & ~near(compiled, made)
        assert not apart.any(), f"{shown(drawn, apart, theirs, made)} ({fired(report)}) of\n  {part}"


def near(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where two results are the same but for the last places of functions; integers are the same."""
    element = dtype_of(one.dtype)
    if element.is_complex:
        with np.errstate(all="ignore"):
            size = np.maximum(np.abs(one), 1) * 1e-5
            return is_same(one, other) | (np.abs(one - other) <= size)
    return distance(one, other) <= 64 if element.is_float else np.asarray(one == other)
