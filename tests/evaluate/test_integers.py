"""Ops on integers and predicates are XLA's, to the last bit: they wrap around, and nothing is undefined."""

import ml_dtypes
import numpy as np
import pytest

from hloom.ir import DTYPES
from tests.evaluate.batches import (
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
    kept = [opcode for opcode in (*INTEGER_OPS, *signed) if (dtype, opcode) != ("s4", "popcnt")]  # XLA's widens with the sign
    for opcode, theirs, ours in batch(kept, values):
        assert_all(theirs == ours, opcode, theirs, ours, values)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_pairs_of_integers(dtype):
    pairs = integer_pairs(dtype)
    opcodes = [*INTEGER_PAIR_OPS, *(f"compare, direction={direction}" for direction in DIRECTIONS)]
    results = [dtype] * len(INTEGER_PAIR_OPS) + ["pred"] * len(DIRECTIONS)
    for opcode, theirs, ours in batch(opcodes, pairs, results):
        is_known = pairs[1] < 64 if opcode == "power" else np.bool_(True)  # XLA's takes 6 bits of the exponent
        assert_all((theirs == ours) | ~is_known, opcode, theirs, ours, pairs)


def test_predicates():
    pairs = integer_pairs("pred")
    opcodes = ["add", "and", "maximum", "minimum", "multiply", "or", "xor", *(f"compare, direction={direction}" for direction in DIRECTIONS)]  # fmt: skip
    for opcode, theirs, ours in [*batch(opcodes, pairs, ["pred"] * len(opcodes)), *batch(["not", "copy"], pairs[:1])]:
        assert_all(theirs == ours, opcode, theirs, ours, pairs)


def test_where_integers_differ_from_those_of_the_cpu():
    assert one("popcnt", np.arange(-8, 8).astype(ml_dtypes.int4)).astype(int).tolist() == [
        (value & 15).bit_count() - 16 * ((value & 15).bit_count() > 7) for value in range(-8, 8)
    ]
    base, exponent = np.array([2, 3, -1, -1, 0], np.int32), np.array([64, 65, 101, 2**31 - 2, 64], np.int32)
    expected = [(int(b) ** 65 + 2**31) % 2**32 - 2**31 for b in (3,)]
    assert one("power", base, exponent).tolist() == [0, *expected, -1, 1, 0]


@pytest.mark.parametrize("dtype", ["s8", "s16", "s32", "s64", "u4", "u8", "u16", "u32", "u64"])
def test_high_multiply(dtype):
    x, y = integer_pairs(dtype)
    expected = (x.astype(object) * y.astype(object)) >> DTYPES[dtype].bits
    assert np.array_equal(one("mulhi", x, y).astype(object), expected)
