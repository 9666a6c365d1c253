"""Random bits are those of XLA's CPU, to the last bit; what XLA leaves to the device is refused."""

import numpy as np
import pytest

from hloom.evaluator import CannotEvaluate, evaluate
from hloom.formats.hlo import parse
from hloom.runtime import run_text
from tests.helpers.properties import is_long

DIMENSIONS = ("", "5", "4,3", "3,5", "7,1,3", "0,3", "3,4,2")
STATES = (
    (5, 6, 7),
    (2**64 - 3, 2**64 - 2, 2**63 + 7),
    (123456789012345678, 2**32 - 2, 2**64 - 1),
)
"""Their counters pass through 2^32 and 2^64."""
ALGORITHMS = [("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3), ("rng_default", 2), ("rng_default", 3)]


def generator(algorithm: str, size: int, dtypes: str) -> str:
    """A program that yields the states after, and the numbers, of every type, and of every or of every second dimensions."""
    shapes = [
        f"{dtype}[{dims}]"
        for number, dtype in enumerate(dtypes.split())
        for dims in (DIMENSIONS if is_long() else DIMENSIONS[number % 2 :: 2])
    ]
    lines = [f"state = u64[{size}] parameter(0)"]
    for number, shape in enumerate(shapes):
        lines.append(f"both{number} = (u64[{size}], {shape}) rng-bit-generator(state), algorithm={algorithm}")
        lines.append(f"after{number} = u64[{size}] get-tuple-element(both{number}), index=0")
        lines.append(f"bits{number} = {shape} get-tuple-element(both{number}), index=1")
    names = [f"{name}{number}" for number in range(len(shapes)) for name in ("after", "bits")]
    return "HloModule m\nENTRY e {\n  " + "\n  ".join([*lines, f"ROOT all = tuple({', '.join(names)})"]) + "\n}"


@pytest.mark.parametrize(("algorithm", "size"), ALGORITHMS)
def test_bits(algorithm, size):
    text = generator(algorithm, size, "u4 u16 u32 u64")
    for state in STATES:
        inputs = [np.array(state[:size], np.uint64)]
        for theirs, ours in zip(run_text(text, inputs).outputs, evaluate(parse(text), inputs), strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            assert (ours == theirs).all()


@pytest.mark.parametrize(
    ("dtype", "unsigned"), [("s4", "u4"), ("s8", "u8"), ("f16", "u16"), ("bf16", "u16"), ("s32", "u32"), ("f64", "u64")]
)
def test_other_types_have_the_bits_of_unsigned_integers(dtype, unsigned):
    state = [np.array([1, 2, 3], np.uint64)]
    outputs = evaluate(parse(generator("rng_philox", 3, dtype)), state)
    expected = evaluate(parse(generator("rng_philox", 3, unsigned)), state)
    for number, (ours, words) in enumerate(zip(outputs, expected, strict=True)):
        view = ours.view(words.dtype) if number % 2 else ours
        assert view.tolist() == words.tolist()


def test_numbers_without_the_state():
    state = [np.array([1, 2], np.uint64)]
    alone = "ENTRY e { s = u64[2] parameter(0) ROOT n = u32[6] rng-bit-generator(s), algorithm=rng_three_fry }"
    both = "ENTRY e { s = u64[2] parameter(0) ROOT n = (u64[2], u32[6]) rng-bit-generator(s), algorithm=rng_three_fry }"
    assert evaluate(parse(alone), state)[0].tolist() == evaluate(parse(both), state)[1].tolist()


def test_bits_are_spread_evenly():
    text = "ENTRY e { s = u64[2] parameter(0) ROOT n = (u64[2], u32[40000]) rng-bit-generator(s), algorithm=ALGORITHM }"
    for algorithm in ("rng_three_fry", "rng_philox"):
        numbers = evaluate(parse(text.replace("ALGORITHM", algorithm)), [np.array([8, 9], np.uint64)])[1]
        counts = [int((numbers >> bit & 1).sum()) for bit in range(32)]
        assert max(abs(count - 20000) for count in counts) < 500


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("rng = f32[2] rng(a, a), distribution=rng_uniform", "rng: cannot evaluate rng: the numbers come from the device"),
        ("u = u64[2] rng-get-and-update-state(), delta=1", "u: cannot evaluate rng-get-and-update-state: the state is"),
        ("b = u32[2] rng-bit-generator(s), algorithm=rng_three_fry", "rng_three_fry has a state of 2 u64, not 3"),
        ("b = u32[2] rng-bit-generator(t), algorithm=rng_philox", "rng_philox has a state of 2 or 3 u64, not 4"),
        ("b = c64[2] rng-bit-generator(s), algorithm=rng_philox", r"XLA makes no random bits of c64\[2\]"),
    ],
)
def test_what_is_refused(line, message):
    text = f"ENTRY e {{ a = f32[] parameter(0) s = u64[3] parameter(1) t = u64[4] parameter(2) ROOT {line} }}"
    inputs = [np.float32(0), np.arange(3, dtype=np.uint64), np.arange(4, dtype=np.uint64)]
    with pytest.raises(CannotEvaluate, match=message):
        evaluate(parse(text), inputs)
