"""Ops on elements beside XLA's: every element type that an op takes, random values and the ones easily got wrong.

Integers and predicates are equal, floats as far apart as ULPS says. XLA's CPU takes denormals of f32, bf16 and f64 for
noughts and we do not, so those are taken for noughts on both sides before comparing.
"""

import cmath
import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

import hloom.evaluate.convert
import hloom.evaluate.elementwise  # noqa: F401
from hloom.evaluate import CannotEvaluate, evaluate
from hloom.evaluate.elementwise import order_keys
from hloom.hlo import parse
from hloom.ir import DTYPES, Kind
from hloom.ir.numbers import integer_range
from hloom.runtime import run_text
from tests.evaluate.xla import bits, types

FLOATS = types(
    "f16 bf16 f32 f64 f8e5m2 f8e8m0fnu", long="f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e4m3fnuz f4e2m1fn"
)
INTEGERS = ("s2", "s4", "s8", "s16", "s32", "s64", "u2", "u4", "u8", "u16", "u32", "u64")
COMPLEX = {"c64": "f32", "c128": "f64"}
FLOAT_OPS = [
    "abs",
    "ceil",
    "copy",
    "floor",
    "imag",
    "negate",
    "real",
    "round-nearest-afz",
    "round-nearest-even",
    "sign",
    "cbrt",
    "cosine",
    "erf",
    "exponential",
    "exponential-minus-one",
    "log",
    "log-plus-one",
    "logistic",
    "rsqrt",
    "sine",
    "sqrt",
    "tan",
    "tanh",
]
FLOAT_PAIR_OPS = ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract"]
INTEGER_OPS = ["count-leading-zeros", "copy", "negate", "not", "popcnt"]
INTEGER_PAIR_OPS = [
    "add",
    "and",
    "divide",
    "maximum",
    "minimum",
    "multiply",
    "or",
    "power",
    "remainder",
    "shift-left",
    "shift-right-arithmetic",
    "shift-right-logical",
    "subtract",
    "xor",
]
DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")

ULPS = {
    "atan2": (1, 1),
    "cbrt": (1, 3),
    "cosine": (1, 1),
    "erf": (4, 1),
    "exponential": (4, 1),
    "exponential-minus-one": (4, 3),
    "log": (1, 1),
    "log-plus-one": (2, 200),  # XLA's is a polynomial that is off near -0.41
    "logistic": (2, 2),
    "power": (1, 1),
    "rsqrt": (1, 2),
    "sine": (1, 1),
    "tan": (1, 1),
    "tanh": (4, 8),  # XLA's has not reached 1 at 19
}
"""How far results may be apart, in units in the last place of f32 and of f64; other ops are exact."""
NARROW_ULPS = 2
"""The same in narrower types, for the ops in ULPS: what is rounded to f32 may be rounded to either neighbour then."""

EPSILONS = {
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
    "sine": 8,  # XLA's is nought for tiny numbers
    "sqrt": 4,
    "tan": 8,
    "tanh": 8,
}
"""How far complex results may be apart, in epsilons times the size of the result, which counts as 1 at least."""


def batch(opcodes: Sequence[str], inputs: Sequence[np.ndarray], results: Sequence[str] | None = None) -> list[tuple]:
    """XLA's result and ours of each opcode, which may be followed by attributes, on inputs of its own dimensions."""
    shapes = [f"{dtype_name(each)}[{','.join(map(str, each.shape))}]" for each in inputs]
    whole = max(shapes, key=len)
    types = [whole] * len(opcodes) if results is None else [each + whole[whole.index("[") :] for each in results]
    lines = [f"x{place} = {shape} parameter({place})" for place, shape in enumerate(shapes)]
    operands = ", ".join(f"x{place}" for place in range(len(inputs)))
    for number, (opcode, kind) in enumerate(zip(opcodes, types, strict=True)):
        name, _, attributes = opcode.partition(", ")
        lines.append(f"y{number} = {kind} {name}({operands}){', ' if attributes else ''}{attributes}")
    lines.append(f"ROOT all = tuple({', '.join(f'y{number}' for number in range(len(opcodes)))})")
    text = "HloModule m\nENTRY e {\n  " + "\n  ".join(lines) + "\n}"
    return list(zip(opcodes, run_text(text, inputs).outputs, evaluate(parse(text), inputs), strict=True))


def dtype_name(array: np.ndarray) -> str:
    return next(name for name, kind in DTYPES.items() if kind.numpy == array.dtype)


def one(opcode: str, *inputs: np.ndarray, result: str | None = None) -> np.ndarray:
    """Our result of one opcode."""
    shapes = [f"{dtype_name(each)}[{','.join(map(str, each.shape))}]" for each in inputs]
    lines = [f"x{place} = {shape} parameter({place})" for place, shape in enumerate(shapes)]
    name, _, attributes = opcode.partition(", ")
    operands = ", ".join(f"x{place}" for place in range(len(inputs)))
    root = f"ROOT y = {result or shapes[0]} {name}({operands}){', ' if attributes else ''}{attributes}"
    return evaluate(parse("ENTRY e {\n  " + "\n  ".join([*lines, root]) + "\n}"), inputs)[0]


def without_denormals(array: np.ndarray) -> np.ndarray:
    """Noughts for what XLA takes for noughts, or rounds to the least normal number after taking it so.

    What f8e8m0fnu has for nought, which it cannot hold, is NaN.
    """
    name = dtype_name(array)
    if name == "f8e8m0fnu":
        return np.where(array.view(np.uint8) == 0, np.array(np.nan, array.dtype), array)
    if name not in ("f32", "f64", "bf16"):
        return array
    least = ml_dtypes.finfo(array.dtype).smallest_normal
    noughts = np.where(np.signbit(array), np.array(-0.0, array.dtype), np.array(0, array.dtype))
    with np.errstate(all="ignore"):
        return np.where(np.abs(array) <= least, noughts, array)


def distance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How many floats lie between; none between NaNs, infinitely many between a NaN and a number."""
    with np.errstate(all="ignore"):
        sides = [without_denormals(each) for each in (left, right)]
        keys = [order_keys(each).astype(object if left.dtype.itemsize == 8 else np.int64) for each in sides]
        is_nan = [np.isnan(each) for each in sides]
        apart = np.abs(keys[0] - keys[1]).astype(np.float64)
    return np.where(is_nan[0] | is_nan[1], np.where(is_nan[0] & is_nan[1], 0.0, np.inf), apart)


def assert_near(opcode: str, theirs: np.ndarray, ours: np.ndarray, inputs: Sequence[np.ndarray]) -> None:
    allowed = ULPS.get(opcode, (0, 0))[theirs.dtype == np.float64]
    if theirs.dtype.itemsize < 4 and allowed:
        allowed = NARROW_ULPS
    apart = distance(theirs, ours)
    if opcode == "logistic" and theirs.dtype == np.float16:  # XLA's rounds at every step
        apart = np.where(np.abs(theirs - ours) < 1e-3, 0, apart)
    assert_all(apart <= allowed, opcode, theirs, ours, inputs)


def assert_all(
    holds: np.ndarray, opcode: str, theirs: np.ndarray, ours: np.ndarray, inputs: Sequence[np.ndarray]
) -> None:
    wrong = np.flatnonzero(~holds)
    shown = [
        f"{opcode}({', '.join(str(each.flat[place]) for each in inputs)}): XLA {theirs.flat[place]}, we {ours.flat[place]}"
        for place in wrong[:5]
    ]
    assert not wrong.size, f"{wrong.size} differ: " + "; ".join(shown)


def float_values(dtype: str) -> np.ndarray:
    """Every value of a type of two bytes or less; edges and random sizes of wider ones. No denormals that XLA drops."""
    kind = DTYPES[dtype]
    if kind.bits <= 16:
        values = np.arange(2**kind.bits).astype(f"u{kind.byte_count}").view(kind.numpy)
        return values[1:] if dtype == "f8e8m0fnu" else without_denormals(values)
    limits = ml_dtypes.finfo(kind.numpy)
    generator = np.random.default_rng(0)
    edges = [0, limits.smallest_normal, limits.max, 1, 2, 0.5, 1.5, 2.5, 3, math.pi, math.pi / 2, 1e4, 1e-4, 88.7, 89, 104,
             710, 1e30, 1e-30, 0.49999997, 8388607.5, 8388608.5, 2**31, 2.0**63, math.inf, math.nan, 1 - 2**-24, 1 + 2**-23]  # fmt: skip
    sizes = [generator.uniform(-1, 1, 2000), generator.standard_normal(2000) * np.exp(generator.uniform(-60, 60, 2000))]
    spread = generator.uniform(-100, 100, 2000)
    return without_denormals(np.concatenate([edges, np.negative(edges), *sizes, spread]).astype(kind.numpy))


def float_pairs(dtype: str) -> list[np.ndarray]:
    """Every pair of values of a byte; every pair of edges and random pairs of wider ones."""
    values, generator = float_values(dtype), np.random.default_rng(1)
    kind = DTYPES[dtype]
    if kind.bits <= 8:
        return every_pair(values)
    limit = float(ml_dtypes.finfo(kind.numpy).max)
    edges = np.array([0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -3, 1 / 3, limit, -limit, math.inf, -math.inf, math.nan, 1e-4])
    pairs = every_pair(edges.astype(kind.numpy))
    return [np.concatenate([each, generator.choice(values, 6000)]) for each in pairs]


def every_pair(values: np.ndarray) -> list[np.ndarray]:
    return [np.ascontiguousarray(each.ravel()) for each in np.meshgrid(values, values, indexing="ij")]


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype):
    values = [float_values(dtype)]
    for opcode, theirs, ours in batch(FLOAT_OPS, values):
        assert_near(opcode, theirs, ours, values)
    ((opcode, theirs, ours),) = batch(["is-finite"], values, ["pred"])
    assert_all(theirs == ours, opcode, theirs, ours, values)


@pytest.mark.parametrize("dtype", FLOATS)
def test_pairs_of_floats(dtype):
    pairs = float_pairs(dtype)
    for opcode, theirs, ours in batch(FLOAT_PAIR_OPS, pairs):
        assert_near(opcode, theirs, ours, pairs)


@pytest.mark.parametrize("dtype", FLOATS)
def test_comparisons_of_floats(dtype):
    pairs = float_pairs(dtype)
    orders = [f"compare, direction={each}{kind}" for each in DIRECTIONS for kind in ("", ", type=TOTALORDER")]
    for opcode, theirs, ours in batch(orders, pairs, ["pred"] * len(orders)):
        assert_all(theirs == ours, opcode, theirs, ours, pairs)


@pytest.mark.parametrize("dtype", [*FLOATS, "s4", "s32", "u8", "pred"])
def test_clamp_and_select(dtype):
    values = float_pairs(dtype) if DTYPES[dtype].is_float else integer_pairs(dtype)
    low, high = values
    operand = np.roll(low, 7)
    for bounds in ((low, high), (low[-3:-2].reshape(()), high[1:2].reshape(()))):
        shape = f"{dtype}[{','.join(map(str, bounds[0].shape))}]"
        whole = f"{dtype}[{len(operand)}]"
        text = f"""HloModule m
ENTRY e {{
  low = {shape} parameter(0)
  high = {shape} parameter(1)
  x = {whole} parameter(2)
  y = {whole} parameter(3)
  p = pred[{len(operand)}] parameter(4)
  q = pred[] parameter(5)
  clamped = {whole} clamp(low, x, high)
  chosen = {whole} select(p, x, y)
  one = {whole} select(q, x, y)
  ROOT all = tuple(clamped, chosen, one)
}}"""
        choices = np.random.default_rng(2).integers(0, 2, len(operand)).astype(bool)
        inputs = [*bounds, operand, high, choices, np.bool_(False)]
        for theirs, ours in zip(run_text(text, inputs).outputs, evaluate(parse(text), inputs), strict=True):
            apart = distance(theirs, ours) if DTYPES[dtype].is_float else theirs != ours
            assert not np.any(apart)


def integer_values(dtype: str) -> np.ndarray:
    """Every value of a byte; edges and random sizes of wider ones."""
    kind = DTYPES[dtype]
    if kind.kind is Kind.BOOLEAN:
        return np.array([False, True])
    least, greatest = integer_range(kind)
    if kind.bits <= 8:
        return np.arange(least, greatest + 1).astype(kind.numpy)
    generator = np.random.default_rng(0)
    edges = [
        0,
        1,
        2,
        3,
        5,
        8,
        15,
        16,
        17,
        31,
        32,
        33,
        63,
        64,
        65,
        -1,
        -2,
        -3,
        -7,
        2**15,
        2**31,
        least,
        least + 1,
        greatest,
    ]
    wide = generator.integers(least, greatest, 600, dtype=kind.numpy, endpoint=True)
    held = np.array([each for each in edges if least <= each <= greatest], object).astype(kind.numpy)
    return np.concatenate([held, wide, wide >> generator.integers(0, kind.bits, 600).astype(kind.numpy)])


def integer_pairs(dtype: str) -> list[np.ndarray]:
    values = integer_values(dtype)
    if len(values) <= 256:
        return every_pair(values)
    generator = np.random.default_rng(3)
    return [np.concatenate([each, generator.choice(values, 3000)]) for each in every_pair(values[:24])]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    values = [integer_values(dtype)]
    signed = ["abs", "sign"] if dtype[0] == "s" else []
    kept = [each for each in (*INTEGER_OPS, *signed) if (dtype, each) != ("s4", "popcnt")]  # XLA's widens with the sign
    for opcode, theirs, ours in batch(kept, values):
        assert_all(theirs == ours, opcode, theirs, ours, values)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_pairs_of_integers(dtype):
    pairs = integer_pairs(dtype)
    opcodes = [*INTEGER_PAIR_OPS, *(f"compare, direction={each}" for each in DIRECTIONS)]
    results = [dtype] * len(INTEGER_PAIR_OPS) + ["pred"] * len(DIRECTIONS)
    for opcode, theirs, ours in batch(opcodes, pairs, results):
        is_known = pairs[1] < 64 if opcode == "power" else np.bool_(True)  # XLA's takes 6 bits of the exponent
        assert_all((theirs == ours) | ~is_known, opcode, theirs, ours, pairs)


def test_predicates():
    pairs = integer_pairs("pred")
    opcodes = ["add", "and", "maximum", "minimum", "multiply", "or", "xor", *(f"compare, direction={each}" for each in DIRECTIONS)]  # fmt: skip
    for opcode, theirs, ours in [*batch(opcodes, pairs, ["pred"] * len(opcodes)), *batch(["not", "copy"], pairs[:1])]:
        assert_all(theirs == ours, opcode, theirs, ours, pairs)


def test_where_integers_differ_from_those_of_the_cpu():
    assert one("popcnt", np.arange(-8, 8).astype(ml_dtypes.int4)).astype(int).tolist() == [
        (each & 15).bit_count() - 16 * ((each & 15).bit_count() > 7) for each in range(-8, 8)
    ]
    base, exponent = np.int32([2, 3, -1, -1, 0]), np.int32([64, 65, 101, 2**31 - 2, 64])
    expected = [(int(b) ** 65 + 2**31) % 2**32 - 2**31 for b in (3,)]
    assert one("power", base, exponent).tolist() == [0, *expected, -1, 1, 0]


@pytest.mark.parametrize("dtype", ["s8", "s16", "s32", "s64", "u4", "u8", "u16", "u32", "u64"])
def test_high_multiply(dtype):
    x, y = integer_pairs(dtype)
    expected = (x.astype(object) * y.astype(object)) >> DTYPES[dtype].bits
    assert np.array_equal(one("mulhi", x, y).astype(object), expected)


def complex_values(dtype: str) -> np.ndarray:
    edges = np.array([0, -0.0, 1, -1, 0.5, -2, 3.3, 1e-5, -1e-3, 20, -20, 1e-20])
    generator = np.random.default_rng(0)
    sizes = np.exp(generator.uniform(-8, 2, 3000))
    values = (generator.standard_normal(3000) + 1j * generator.standard_normal(3000)) * sizes
    return np.concatenate([joined(*every_pair(edges)), values]).astype(DTYPES[dtype].numpy)


def joined(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    whole = np.empty(real.shape, np.complex128)
    whole.real, whole.imag = real, imaginary
    return whole


def is_same(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Whether both parts are equal, or both NaN."""
    parts = [(np.real(left), np.real(right)), (np.imag(left), np.imag(right))]
    return np.logical_and.reduce([(a == b) | (np.isnan(a) & np.isnan(b)) for a, b in parts])


def assert_complex_near(opcode: str, theirs: np.ndarray, ours: np.ndarray, inputs: Sequence[np.ndarray]) -> None:
    with np.errstate(all="ignore"):
        left, right = theirs.astype(np.complex128), ours.astype(np.complex128)
        size = np.maximum(np.abs(left), 1) * float(np.finfo(theirs.dtype).eps)
        near = np.abs(left - right) <= EPSILONS.get(opcode, 0) * size
    assert_all(near | is_same(theirs, ours), opcode, theirs, ours, inputs)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_numbers(dtype):
    values = [complex_values(dtype)]
    kept = ["copy", "negate", *(each for each in EPSILONS if each not in ("atan2", "divide", "multiply", "power"))]
    results = [dtype] * len(kept) + [COMPLEX[dtype]] * 3
    for opcode, theirs, ours in batch([*kept, "abs", "imag", "real"], values, results):
        assert_complex_near(opcode, theirs, ours, values)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_pairs_of_complex_numbers(dtype):
    values = complex_values(dtype)
    some = [
        np.concatenate(each) for each in zip(every_pair(values[:144:5]), (values, np.roll(values, 17)), strict=True)
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


def test_complex_numbers_that_are_not_finite():
    edges = np.array([0, -0.0, 1, -2.5, math.inf, -math.inf, math.nan])
    values = joined(*every_pair(edges)).astype(np.complex64)
    for opcode, theirs, ours in batch(["negate", "rsqrt", "exponential-minus-one"], [values]):
        assert_all(is_same(theirs, ours) | np.isclose(theirs, ours), opcode, theirs, ours, [values])
    pairs = every_pair(values)
    for opcode, theirs, ours in batch(["add", "divide", "multiply", "subtract"], pairs):
        assert_all(is_same(theirs, ours) | np.isclose(theirs, ours), opcode, theirs, ours, pairs)


ABSENT = {
    "acos": (math.acos, cmath.acos),
    "acosh": (math.acosh, cmath.acosh),
    "asin": (math.asin, cmath.asin),
    "asinh": (math.asinh, cmath.asinh),
    "atanh": (math.atanh, cmath.atanh),
    "cosh": (math.cosh, cmath.cosh),
    "sinh": (math.sinh, cmath.sinh),
}
"""What XLA's CPU lacks: Python's own functions of reals and of complex numbers."""


@pytest.mark.parametrize("opcode", ABSENT)
def test_functions_that_the_cpu_lacks(opcode):
    real, whole = ABSENT[opcode]
    values = np.random.default_rng(0).uniform(-0.99, 0.99, 500) + (2.5 if opcode == "acosh" else 0)
    for dtype, ulps in (("f32", 0), ("f64", 2), ("bf16", 0), ("f16", 0)):
        array = values.astype(DTYPES[dtype].numpy)
        expected = np.array([real(float(each)) for each in array]).astype(np.float32 if dtype != "f64" else np.float64)
        assert distance(one(opcode, array), expected.astype(array.dtype)).max() <= ulps
    turned = (values + 1j * values[::-1]).astype(np.complex64)
    expected = np.array([whole(complex(each)) for each in turned])
    assert np.allclose(one(opcode, turned), expected, rtol=1e-6, atol=1e-7)


def test_denormals_are_kept():
    tiny = np.float32([1e-40, -1e-40, 2e-38])
    assert one("add", tiny, tiny).tolist() == (tiny.astype(np.float64) * 2).astype(np.float32).tolist()
    assert one("compare, direction=LT", tiny[:2], tiny[1:], result="pred[2]").tolist() == [False, True]
    assert one("sqrt", np.float64([5e-324])).tolist() == [math.sqrt(5e-324)]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f8e5m2", "s32", "s4", "u64"])
def test_one_element_gives_what_many_give(dtype):
    values = (float_pairs(dtype) if DTYPES[dtype].is_float else integer_pairs(dtype))[0][-40:]
    pairs = [values, values[::-1].copy()]
    opcodes = FLOAT_PAIR_OPS if DTYPES[dtype].is_float else [*INTEGER_PAIR_OPS, "mulhi"]
    unary = FLOAT_OPS if DTYPES[dtype].is_float else INTEGER_OPS
    for opcode, operands in [*((each, pairs) for each in opcodes), *((each, pairs[:1]) for each in unary)]:
        many = one(opcode, *operands)
        alone = [one(opcode, *(each[place].reshape(()) for each in operands)) for place in range(len(values))]
        assert np.array_equal(bits(np.array(alone, many.dtype)), bits(many))


def test_a_graph_of_scalars_runs_on_whole_arrays():
    module = parse("""
      softplus { a = bf16[] parameter(0) b = bf16[] parameter(1) c = bf16[] maximum(a, b) d = bf16[] subtract(a, b)
        e = s16[] bitcast-convert(d) f = s16[] constant(32767) g = s16[] and(e, f) h = bf16[] bitcast-convert(g)
        i = bf16[] negate(h) j = bf16[] exponential(i) k = bf16[] log-plus-one(j) ROOT l = bf16[] add(c, k) }
      ENTRY e { x = bf16[50] parameter(0) y = bf16[50] parameter(1) ROOT z = bf16[50] map(x, y), dimensions={0}, to_apply=softplus }
    """)
    x, y = (np.random.default_rng(seed).standard_normal(50).astype(ml_dtypes.bfloat16) for seed in (0, 1))
    (found,) = evaluate(module, [x, y])
    expected = np.logaddexp(x.astype(np.float64), y.astype(np.float64))
    assert np.allclose(found.astype(np.float64), expected, rtol=2e-2, atol=2e-2)


def test_what_a_type_lacks_is_named():
    with pytest.raises(CannotEvaluate, match="y: cannot evaluate remainder: there is none of c64"):
        one("remainder", np.complex64([1]), np.complex64([2]))
    with pytest.raises(CannotEvaluate, match="y: cannot evaluate compare: complex numbers have no order"):
        one("compare, direction=LT", np.complex64([1]), np.complex64([2]), result="pred[1]")
