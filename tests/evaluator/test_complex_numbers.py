"""Ops on complex numbers beside XLA's: how far apart is in EPSILONS."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from hloom.ir import DTYPES
from tests.evaluator.batches import assert_all, batch, every_pair, is_same, joined
from tests.helpers.properties import is_long

COMPLEX = {"c64": "f32", "c128": "f64"}

EPSILONS = {
    "abs": 0 if is_long() else 2,  # without LLVM's optimisations a square and a sum are rounded one by one
    "atan2": 64,
    "cosine": 8,
    "divide": 4,
    "exponential": 8,
    "exponential-minus-one": 8,
    "log": 64,
    "log-plus-one": 64,
    "logistic": 8,
    "multiply": 2,
    "power": 512,  # the turn is the exponent times a logarithm, rounded
    "rsqrt": 8,
    "sign": 2,
    "sine": 8,  # XLA's is zero for tiny numbers
    "sqrt": 4,
    "tan": 8,
    "tanh": 8,
}
"""How far complex results may be apart, in epsilons times the size of the result, which counts as 1 at least."""


def complex_values(dtype: str) -> np.ndarray:
    edges = np.array([0, -0.0, 1, -1, 0.5, -2, 3.3, 1e-5, -1e-3, 20, -20, 1e-20])
    generator = np.random.default_rng(0)
    sizes = np.exp(generator.uniform(-8, 2, 3000))
    values = (generator.standard_normal(3000) + 1j * generator.standard_normal(3000)) * sizes
    return np.concatenate([joined(*every_pair(edges)), values]).astype(DTYPES[dtype].numpy)


def assert_complex_near(opcode: str, theirs: np.ndarray, ours: np.ndarray, inputs: Sequence[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        left, right = theirs.astype(np.complex128), ours.astype(np.complex128)
        size = np.maximum(np.abs(left), 1) * float(np.finfo(theirs.dtype).eps)
        near = np.abs(left - right) <= EPSILONS.get(opcode, 0) * size
    assert_all(near | is_same(theirs, ours), opcode, theirs, ours, inputs)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_numbers(dtype):
    values = [complex_values(dtype)]
    kept = ["copy", "negate", *(opcode for opcode in EPSILONS if opcode not in ("abs", "atan2", "divide", "multiply", "power"))]
    results = [dtype] * len(kept) + [COMPLEX[dtype]] * 3
    for opcode, theirs, ours in batch([*kept, "abs", "imag", "real"], values, results):
        assert_complex_near(opcode, theirs, ours, values)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_pairs_of_complex_numbers(dtype):
    values = complex_values(dtype)
    some = [
        np.concatenate(parts) for parts in zip(every_pair(values[:144:5]), (values, np.roll(values, 17)), strict=True)
    ]
    for opcode, theirs, ours in batch(["add", "divide", "multiply", "subtract"], some):
        assert_complex_near(opcode, theirs, ours, some)
    for opcode, theirs, ours in batch(["compare, direction=EQ", "compare, direction=NE"], some, ["pred"] * 2):
        assert_all(theirs == ours, opcode, theirs, ours, some)
    values = values[144:]
    moderate = values[(np.abs(values) > 0.1) & (np.abs(values) < 4)]
    pairs = [moderate, np.roll(moderate, 17)]
    for opcode, theirs, ours in batch(["atan2", "power"], pairs):
        assert_complex_near(opcode, theirs, ours, pairs)
    parts = [np.real(values).copy(), np.imag(values).copy()]
    ((_, theirs, ours),) = batch(["complex"], parts, [dtype])
    assert is_same(theirs, ours).all()


LOST_BY_XLA = frozenset((
    "abs", "atan2", "cosine", "exponential", "log", "log-plus-one", "logistic", "sine", "sqrt", "tan", "tanh",
))  # fmt: skip
"""Where C99 has a number for parts that are not finite, for which XLA's formulas multiply zero by infinity to NaN, as
cos x cosh y - i sin x sinh y does (xla/service/elemental_ir_emitter.cc)."""


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_numbers_that_are_not_finite(dtype):
    edges = np.array([0, -0.0, 1, -2.5, math.inf, -math.inf, math.nan])
    values = joined(*every_pair(edges)).astype(DTYPES[dtype].numpy)
    opcodes = [opcode for opcode in EPSILONS if opcode not in ("abs", "atan2", "divide", "multiply", "power")]
    results = [dtype] * (len(opcodes) + 1) + [COMPLEX[dtype]] * 3
    for opcode, theirs, ours in batch([*opcodes, "negate", "abs", "real", "imag"], [values], results):
        assert_no_number_differs(opcode, theirs, ours, [values])
    pairs = every_pair(values)
    for opcode, theirs, ours in batch(["add", "divide", "multiply", "subtract", "power"], pairs):
        kept = np.isfinite(pairs[0]) & np.isfinite(pairs[1]) & (opcode == "power")  # how near is tested above
        assert_no_number_differs(opcode, theirs[~kept], ours[~kept], [pair[~kept] for pair in pairs])


def assert_no_number_differs(
    opcode: str, theirs: np.ndarray, ours: np.ndarray, inputs: Sequence[np.ndarray]
) -> None:
    """Both parts near to XLA's; ours may be a number where XLA's is NaN for the opcodes of LOST_BY_XLA."""
    holds = np.ones(theirs.shape, bool)
    for one, other in ((np.real(theirs), np.real(ours)), (np.imag(theirs), np.imag(ours))):
        is_lost = np.isnan(one) & (opcode in LOST_BY_XLA)
        holds &= is_lost | np.isclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert_all(holds, opcode, theirs, ours, inputs)
