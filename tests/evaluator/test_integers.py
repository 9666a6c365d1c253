"""Ops on integers and predicates are XLA's, to the last bit: they wrap around, and nothing is undefined."""

import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.formats.hlo import parse
from hloom.ir import DTYPES
from hloom.ir.number_conversion import integer_range
from hloom.runtime import run_text
from tests.evaluator.batches import (
    DIRECTIONS,
    INTEGER_OPS,
    INTEGER_PAIR_OPS,
    assert_all,
    batch,
    integer_pairs,
    integer_values,
    one,
)

INTEGERS = ("s2", "s4", "s8", "s16", "s32", "s64", "u2", "u4", "u8", "u16", "u32", "u64")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    values = [integer_values(dtype)]
    signed = ["abs", "sign"] if dtype[0] == "s" else []
    for opcode, theirs, ours in batch([*INTEGER_OPS, *signed], values):
        assert_all(theirs == ours, opcode, theirs, ours, values)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_pairs_of_integers(dtype):
    pairs = integer_pairs(dtype)
    opcodes = [*INTEGER_PAIR_OPS, *(f"compare, direction={direction}" for direction in DIRECTIONS)]
    results = [dtype] * len(INTEGER_PAIR_OPS) + ["pred"] * len(DIRECTIONS)
    for opcode, theirs, ours in batch(opcodes, pairs, results):
        assert_all(theirs == ours, opcode, theirs, ours, pairs)


def test_predicates():
    pairs = integer_pairs("pred")
    opcodes = ["add", "and", "maximum", "minimum", "multiply", "or", "xor", *(f"compare, direction={direction}" for direction in DIRECTIONS)]  # fmt: skip
    for opcode, theirs, ours in [*batch(opcodes, pairs, ["pred"] * len(opcodes)), *batch(["not", "copy"], pairs[:1])]:
        assert_all(theirs == ours, opcode, theirs, ours, pairs)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_by_constants(dtype):
    """XLA divides 1 by what has the constant exponent -1, which is -1 of zero; of an exponent of the run it is 0."""
    least, greatest = integer_range(DTYPES[dtype])
    bases = integer_values(dtype)[:24]
    exponents = [exponent for exponent in (-1, -2, -3, 0, 1, 2, 3, 63, 64, 65, 100, 128, 200) if least <= exponent <= greatest]
    for shape in ("", f"[{len(bases)}]"):
        operands = [bases[:1].reshape(())] if not shape else [bases]
        whole = f"{dtype}{shape or '[]'}"
        lines = [f"x = {whole} parameter(0)"]
        for number, exponent in enumerate(exponents):
            lines.append(f"e{number} = {dtype}[] constant({exponent})")
            lines.append(f"b{number} = {whole} broadcast(e{number}), dimensions={{}}")
            lines.append(f"y{number} = {whole} power(x, b{number})")
        lines.append(f"ROOT all = tuple({', '.join(f'y{number}' for number in range(len(exponents)))})")
        text = "HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}"
        results = zip(exponents, run_text(text, operands).outputs, evaluate(parse(text), operands), strict=True)
        for exponent, theirs, ours in results:
            assert_all(theirs == ours, f"power by {exponent}", theirs, ours, operands)


@pytest.mark.parametrize("dtype", ["s8", "s16", "s32", "s64", "u4", "u8", "u16", "u32", "u64"])
def test_high_multiply(dtype):
    x, y = integer_pairs(dtype)
    expected = (x.astype(object) * y.astype(object)) >> DTYPES[dtype].bits
    assert np.array_equal(one("mulhi", x, y).astype(object), expected)
