"""Ops on floats beside XLA's: every type, random values and the ones easily got wrong; clamp and select of any type.

Results are as far apart as ULPS says. XLA's CPU takes denormals of f32, bf16 and f64 for
zeros and we do not, so those are taken for zeros on both sides before comparing.
"""

import cmath
import math
from collections.abc import Sequence

import ml_dtypes
import numpy as np
import pytest

from hloom.evaluator import CannotEvaluate, evaluate, evaluate_node
from hloom.evaluator.elementwise import FUNCTIONS
from hloom.evaluator.integers import WIDTH
from hloom.formats.hlo import parse
from hloom.ir import DTYPES, Apply, component
from hloom.ops import OPS
from hloom.runtime import run_text
from tests.evaluator.batches import (
    DIRECTIONS,
    assert_all,
    batch,
    distance,
    every_pair,
    integer_pairs,
    integer_values,
    joined,
    one,
    without_denormals,
)
from tests.evaluator.xla import bits, types

FLOATS = types(
    "f16 bf16 f32 f64 f8e5m2 f8e8m0fnu", long="f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e4m3fnuz f4e2m1fn"
)
FLOAT_OPS = (
    "abs", "ceil", "copy", "floor", "imag", "negate", "real", "round-nearest-afz", "round-nearest-even", "sign",
    "cbrt", "cosine", "erf", "exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "rsqrt",
    "sine", "sqrt", "tan", "tanh",
)  # fmt: skip
FLOAT_PAIR_OPS = ("add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract")

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


def assert_near(opcode: str, theirs: np.ndarray, ours: np.ndarray, inputs: Sequence[np.ndarray]) -> None:
    allowed = ULPS.get(opcode, (0, 0))[theirs.dtype == np.float64]
    if theirs.dtype.itemsize < 4 and allowed:
        allowed = NARROW_ULPS
    apart = distance(theirs, ours)
    if opcode == "logistic" and theirs.dtype == np.float16:  # XLA's rounds at every step
        apart = np.where(np.abs(theirs - ours) < 1e-3, 0, apart)
    assert_all(apart <= allowed, opcode, theirs, ours, inputs)


def float_values(dtype: str) -> np.ndarray:
    """Every value of a type of two bytes or less; edges and random sizes of wider ones. No denormals that XLA drops."""
    element_type = DTYPES[dtype]
    if element_type.bits <= 16:
        values = np.arange(2**element_type.bits).astype(f"u{element_type.byte_count}").view(element_type.numpy)
        return values[1:] if dtype == "f8e8m0fnu" else without_denormals(values)
    limits = ml_dtypes.finfo(element_type.numpy)
    generator = np.random.default_rng(0)
    edges = [0, limits.smallest_normal, limits.max, 1, 2, 0.5, 1.5, 2.5, 3, math.pi, math.pi / 2, 1e4, 1e-4, 88.7, 89, 104,
             710, 1e30, 1e-30, 0.49999997, 8388607.5, 8388608.5, 2**31, 2.0**63, math.inf, math.nan, 1 - 2**-24, 1 + 2**-23]  # fmt: skip
    sizes = [generator.uniform(-1, 1, 2000), generator.standard_normal(2000) * np.exp(generator.uniform(-60, 60, 2000))]
    spread = generator.uniform(-100, 100, 2000)
    return without_denormals(np.concatenate([edges, np.negative(edges), *sizes, spread]).astype(element_type.numpy))


def float_pairs(dtype: str) -> list[np.ndarray]:
    """Every pair of values of a byte; every pair of edges and random pairs of wider ones."""
    values, generator = float_values(dtype), np.random.default_rng(1)
    element_type = DTYPES[dtype]
    if element_type.bits <= 8:
        return every_pair(values)
    limit = float(ml_dtypes.finfo(element_type.numpy).max)
    edges = np.array([0, -0.0, 1, -1, 0.5, -0.5, 2, 3, -3, 1 / 3, limit, -limit, math.inf, -math.inf, math.nan, 1e-4])
    pairs = every_pair(edges.astype(element_type.numpy))
    return [np.concatenate([operand, generator.choice(values, 6000)]) for operand in pairs]


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
    orders = [f"compare, direction={direction}{comparison_type}" for direction in DIRECTIONS for comparison_type in ("", ", type=TOTALORDER")]
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
        expected = np.array([real(float(value)) for value in array]).astype(np.float32 if dtype != "f64" else np.float64)
        assert distance(one(opcode, array), expected.astype(array.dtype)).max() <= ulps
    turned = (values + 1j * values[::-1]).astype(np.complex64)
    expected = np.array([whole(complex(value)) for value in turned])
    assert np.allclose(one(opcode, turned), expected, rtol=1e-6, atol=1e-7)


def test_denormals_are_kept():
    tiny = np.array([1e-40, -1e-40, 2e-38], np.float32)
    assert one("add", tiny, tiny).tolist() == (tiny.astype(np.float64) * 2).astype(np.float32).tolist()
    assert one("compare, direction=LT", tiny[:2], tiny[1:], result="pred[2]").tolist() == [False, True]
    assert one("sqrt", np.array([5e-324], np.float64)).tolist() == [math.sqrt(5e-324)]


EDGES = (0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, 1 / 3, 1.5, -2.5, math.inf, -math.inf, math.nan)


def edges(dtype: str) -> np.ndarray:
    """Values at which functions have a special result: of floats the greatest and the denormals too."""
    element_type = DTYPES[dtype]
    if element_type.is_complex:
        parts = every_pair(np.array([0, -0.0, 1, -0.5, math.inf, -math.inf, math.nan]))
        return joined(*parts).astype(element_type.numpy)
    if not element_type.is_float:
        return integer_values(dtype)[:24]
    limits = ml_dtypes.finfo(element_type.numpy)
    sizes = [float(limits.max), float(limits.smallest_normal), float(limits.smallest_subnormal)]
    with np.errstate(all="ignore"):
        return np.array([*EDGES, *sizes, *np.negative(sizes)]).astype(element_type.numpy)


@pytest.mark.parametrize("dtype", types("pred s32 s4 u64 f32 bf16 f8e5m2 c64", long="s2 s8 s16 s64 u2 u4 u8 u16 u32 f16 f64 f8e4m3fn f8e4m3fnuz f8e8m0fnu c128"))
def test_a_scalar_gives_what_many_give(dtype):
    """Numpy has paths of their own for scalars and for one exponent of many bases."""
    element_type = DTYPES[dtype]
    values = edges(dtype)
    pairs = every_pair(values)
    orders = [f"compare, direction={direction}, type=TOTALORDER" for direction in DIRECTIONS if element_type.is_float]
    rows = [(opcode, None) for opcode in [*sorted(FUNCTIONS[element_type.kind]), *(WIDTH if element_type.is_integer else ())]]
    rows += [(f"compare, direction={direction}", "pred") for direction in DIRECTIONS[: 2 if element_type.is_complex else 6]]
    rows += [(order, "pred") for order in orders]
    rows += [("convert", target) for target in DTYPES if target not in ("s1", "u1")]
    for opcode, result in rows:
        name = opcode.partition(",")[0]
        operands = pairs if OPS[name].arity[0] == 2 else [values]
        result = result or {"is-finite": "pred"}.get(name) or (
            str(component(element_type)) if element_type.is_complex and name in ("abs", "imag", "real") else dtype
        )
        many = one(opcode, *operands, result=f"{result}[{len(operands[0])}]")
        scalar = node_of(opcode, dtype, len(operands), result)
        alone = np.array([evaluate_node(scalar, [operand[index, ...] for operand in operands]) for index in range(len(many))], many.dtype)
        allowed = 1 if name == "power" and result in ("f32", "f64") else 0  # a square is a power or a product
        if DTYPES[result].is_float:
            assert_all(distance(many, alone) <= allowed, opcode, many, alone, operands)
        else:
            assert np.array_equal(bits(alone), bits(many)), opcode


def node_of(opcode: str, dtype: str, count: int, result: str) -> Apply:
    """An instruction of scalars."""
    name, _, attributes = opcode.partition(", ")
    lines = [f"x{index} = {dtype}[] parameter({index})" for index in range(count)]
    operands = ", ".join(f"x{index}" for index in range(count))
    lines.append(f"ROOT y = {result}[] {name}({operands}){', ' if attributes else ''}{attributes}")
    root = parse("ENTRY e {\n  " + "\n  ".join(lines) + "\n}").entry.root
    assert isinstance(root, Apply)
    return root


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_powers_of_scalars_are_those_of_xla(dtype):
    """As pow of C has them: the square root would have NaN for -inf and -0 for -0."""
    exponents = (0.5, -0.5, 2, -1, -2, 0, 1, 3, 1 / 3, math.inf)
    bases = edges(dtype)
    bases = bases[without_denormals(bases) == bases]
    lines = [f"e{number} = {dtype}[] constant({exponent})\n  b{number} = {dtype}[{len(bases)}] broadcast(e{number}), dimensions={{}}\n"
             f"  y{number} = {dtype}[{len(bases)}] power(x, b{number})" for number, exponent in enumerate(exponents)]  # fmt: skip
    names = ", ".join(f"y{number}" for number in range(len(exponents)))
    text = f"HloModule m\nENTRY e {{\n  x = {dtype}[{len(bases)}] parameter(0)\n  " + "\n  ".join(lines) + f"\n  ROOT all = tuple({names})\n}}"
    for exponent, theirs, ours in zip(exponents, run_text(text, [bases]).outputs, evaluate(parse(text), [bases]), strict=True):
        assert_near("power", theirs, ours, [bases, np.full(len(bases), exponent)])


def test_a_graph_of_scalars_runs_on_whole_arrays():
    module = parse("""
      softplus { a = bf16[] parameter(0) b = bf16[] parameter(1) c = bf16[] maximum(a, b) d = bf16[] subtract(a, b)
        e = s16[] bitcast-convert(d) f = s16[] constant(32767) g = s16[] and(e, f) h = bf16[] bitcast-convert(g)
        i = bf16[] negate(h) j = bf16[] exponential(i) k = bf16[] log-plus-one(j) ROOT l = bf16[] add(c, k) }
      ENTRY e { x = bf16[50] parameter(0) y = bf16[50] parameter(1) ROOT z = bf16[50] map(x, y), dimensions={0}, to_apply=softplus }
    """)
    x, y = (np.random.default_rng(seed).standard_normal(50).astype(ml_dtypes.bfloat16) for seed in (0, 1))
    (output,) = evaluate(module, [x, y])
    expected = np.logaddexp(x.astype(np.float64), y.astype(np.float64))
    assert np.allclose(output.astype(np.float64), expected, rtol=2e-2, atol=2e-2)


def test_what_a_type_lacks_is_named():
    with pytest.raises(CannotEvaluate, match="y: cannot evaluate remainder: there is not one of c64"):
        one("remainder", np.array([1], np.complex64), np.array([2], np.complex64))
    with pytest.raises(CannotEvaluate, match="y: cannot evaluate compare: complex numbers have no order"):
        one("compare, direction=LT", np.array([1], np.complex64), np.array([2], np.complex64), result="pred[1]")
