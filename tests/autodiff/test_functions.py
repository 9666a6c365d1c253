"""Functions that HLO has no opcode for: their expressions are recognised, and differentiated by their own rules.

Covers `recognition.py`, `rules/cumulative.py`, `rules/functions.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from tests.autodiff.check import assert_derivatives, entry, module, run

CONSTANTS = """
  c1 = f64[] constant(1)
  one = f64[3] broadcast(c1), dimensions={}
  c2 = f64[] constant(2)
  two = f64[3] broadcast(c2), dimensions={}
  ch = f64[] constant(0.5)
  half = f64[3] broadcast(ch), dimensions={}
  cn = f64[] constant(nan)
  nan = f64[3] broadcast(cn), dimensions={}
  cl = f64[] constant(0.69314718055994529)
  log2 = f64[3] broadcast(cl), dimensions={}
  cm = f64[] constant(-0.69314718055994529)
  minus_log2 = f64[3] broadcast(cm), dimensions={}
  cb = f64[] constant(1e150)
  big = f64[3] broadcast(cb), dimensions={}
"""
LOGADDEXP = """
  d = f64[3] subtract(x, y)
  nan_d = pred[3] compare(d, d), direction=NE
  sum = f64[3] add(x, y)
  top = f64[3] maximum(x, y)
  size = f64[3] abs(d)
  negative = f64[3] negate(size)
  e = f64[3] exponential(negative)
  l = f64[3] log-plus-one(e)
  both = f64[3] add(top, l)
  ROOT r = f64[3] select(nan_d, sum, both)
"""
EXPRESSIONS = {
    "asin": (
        "a = f64[3] subtract(one, x) b = f64[3] add(x, one) c = f64[3] multiply(a, b) s = f64[3] sqrt(c)"
        " d = f64[3] add(s, one) t = f64[3] atan2(x, d) ROOT r = f64[3] add(t, t)",
        "divide",
        [0.3, -0.9, 0.0],
    ),
    "acos": (
        "a = f64[3] subtract(one, x) b = f64[3] add(one, x) c = f64[3] multiply(a, b) s = f64[3] sqrt(c)"
        " ROOT r = f64[3] atan2(s, x)",
        "divide",
        [0.3, -0.9, 0.0],
    ),
    "logistic": (
        "m = f64[3] negate(x) a = f64[3] exponential(m) d = f64[3] add(one, a) ROOT r = f64[3] divide(one, d)",
        "multiply",
        [0.3, -2.5, 40.0],
    ),
    "sinh": (
        "m = f64[3] abs(x) small = pred[3] compare(m, one), direction=LT e = f64[3] exponential-minus-one(x)"
        " f = f64[3] add(e, one) q = f64[3] divide(e, f) g = f64[3] add(e, q) h = f64[3] multiply(g, half)"
        " u = f64[3] add(x, minus_log2) v = f64[3] exponential(u) w = f64[3] subtract(minus_log2, x)"
        " z = f64[3] exponential(w) k = f64[3] subtract(v, z) ROOT r = f64[3] select(small, h, k)",
        "multiply",
        [0.3, -2.5, 0.0],
    ),
    "asinh": (
        "sign = f64[3] sign(x) m = f64[3] abs(x) large = pred[3] compare(m, big), direction=GE l = f64[3] log(m)"
        " ll = f64[3] add(l, log2) q = f64[3] multiply(m, m) q1 = f64[3] add(q, one) s = f64[3] sqrt(q1)"
        " s1 = f64[3] add(s, one) v = f64[3] divide(q, s1) w = f64[3] add(m, v) z = f64[3] log-plus-one(w)"
        " k = f64[3] select(large, ll, z) ROOT r = f64[3] multiply(sign, k)",
        "divide",
        [0.3, -2.5, 0.01],
    ),
    "acosh": (
        "large = pred[3] compare(x, big), direction=GE l = f64[3] log(x) ll = f64[3] add(l, log2)"
        " m = f64[3] subtract(x, one) sm = f64[3] sqrt(m) n = f64[3] add(x, one) sn = f64[3] sqrt(n)"
        " a = f64[3] add(sn, sm) b = f64[3] multiply(sm, a) z = f64[3] log-plus-one(b)"
        " ROOT r = f64[3] select(large, ll, z)",
        "multiply",
        [1.3, 2.5, 7.0],
    ),
    "atanh": (
        "m = f64[3] abs(x) outside = pred[3] compare(m, one), direction=GT a = f64[3] log-plus-one(x)"
        " n = f64[3] negate(x) b = f64[3] log-plus-one(n) d = f64[3] subtract(a, b) h = f64[3] multiply(d, half)"
        " ROOT r = f64[3] select(outside, nan, h)",
        "divide",
        [0.3, -0.9, 0.0],
    ),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_functions_of_one_number(name: str):
    """One op on the cotangent, where the instructions one by one would have several."""
    text, opcode, x = EXPRESSIONS[name]
    program = entry(f"x = f64[3] parameter(0) {CONSTANTS} {text}")
    assert_derivatives(program, [np.array(x)], tolerance=1e-5)
    gradient = hloom.vjp(program)
    (cotangent,) = (node for node in gradient.entry.parameters if node.name.startswith("cotangent"))
    assert [user.opcode for user in cotangent.users] == [opcode]
    negated = name == "acos"
    assert gradient.entry.root.operands[0].opcode == ("negate" if negated else opcode)


def test_logaddexp():
    program = entry(f"x = f64[3] parameter(0) y = f64[3] parameter(1) {LOGADDEXP}")
    assert_derivatives(program, [np.array([0.3, -2.0, 1.0]), np.array([0.5, 3.0, 1.0])])
    infinities = [np.array([-np.inf, np.inf, -np.inf]), np.array([-np.inf, 0.0, 0.0])]
    first, second = run(hloom.vjp(program), [*infinities, np.ones(3)])
    np.testing.assert_array_equal(first, [1, 1, 0])
    np.testing.assert_array_equal(second, [1, 0, 1])


def test_the_size_of_a_product_by_logarithms_is_differentiated_without_logarithms():
    program = module("""
      or { a = pred[] parameter(0) b = pred[] parameter(1) ROOT c = pred[] or(a, b) }
      ENTRY e {
        x = f64[2,3] parameter(0)
        zero = f64[] constant(0)
        zeros = f64[2,3] broadcast(zero), dimensions={}
        is_zero = pred[2,3] compare(x, zeros), direction=EQ
        no = pred[] constant(false)
        any_zero = pred[2] reduce(is_zero, no), dimensions={1}, to_apply=or
        size = f64[2,3] abs(x)
        logarithms = f64[2,3] log(size)
        sum = f64[2] reduce(logarithms, zero), dimensions={1}, to_apply=add_f64
        infinity = f64[] constant(-inf)
        infinities = f64[2] broadcast(infinity), dimensions={}
        exponent = f64[2] select(any_zero, infinities, sum)
        ROOT product = f64[2] exponential(exponent)
      }""")
    assert_derivatives(program, [np.array([[0.5, -2.0, 3.0], [1.5, 0.25, -0.5]])])
    gradient = hloom.vjp(program)
    assert not {"log", "exponential"} & {node.opcode for node in gradient.entry.nodes}
    (cotangent,) = run(gradient, [np.array([[0.5, 0.0, 3.0], [1.0, 2.0, 4.0]]), np.ones(2)])
    np.testing.assert_allclose(cotangent, [[0, 0, 0], [8, 4, 2]])


def test_an_instruction_to_stop_at_is_not_seen_through():
    program = entry(f"x = f64[3] parameter(0) y = f64[3] parameter(1) {LOGADDEXP}")
    x, y = np.array([0.3, -2.0, 1.0]), np.array([0.5, 3.0, 2.0])
    first, second = run(hloom.vjp(program, stop=["l"]), [x, y, np.ones(3)])
    np.testing.assert_array_equal(first, [0, 0, 0])
    np.testing.assert_array_equal(second, [1, 1, 1])


SOFTMAX = """
ENTRY e {
  z = f64[2,3] parameter(0)
  zero = f64[] constant(0)
  e = f64[2,3] exponential(z)
  s = f64[DIMS] reduce(e, zero), dimensions={OVER}, to_apply=add_f64
  t = f64[WIDE] reshape(s)
  b = f64[2,3] broadcast(s), dimensions={KEPT}
  ROOT y = f64[2,3] divide(e, b)
}"""


@pytest.mark.parametrize(("dims", "over", "kept"), [("2", "1", "0"), ("3", "0", "1"), ("", "0,1", "")])
def test_softmax_needs_its_result_alone(dims: str, over: str, kept: str):
    text = SOFTMAX.replace("DIMS", dims).replace("OVER", over).replace("KEPT", kept).replace("WIDE", dims or "1")
    program = module(text)
    assert_derivatives(program)
    gradient = hloom.vjp(program)
    assert [node.opcode for node in gradient.entry.nodes].count("divide") == 1


def test_a_sum_along_another_dimension_is_no_softmax():
    text = "z = f64[3,3] parameter(0) zero = f64[] constant(0) e = f64[3,3] exponential(z) s = f64[3] reduce(e, zero), dimensions={1}, to_apply=add_f64 b = f64[3,3] broadcast(s), dimensions={1} ROOT y = f64[3,3] divide(e, b)"
    assert_derivatives(entry(text))


@pytest.mark.parametrize("exponent", [3, 5])
def test_a_power_by_products_has_one_product_of_the_cotangent(exponent: int):
    products = "p2 = f64[3] multiply(x, x) " + " ".join(
        f"p{n} = f64[3] multiply(p{n - 1}, x)" for n in range(3, exponent + 1)
    )
    program = entry(f"x = f64[3] parameter(0) {products} ROOT r = f64[3] negate(p{exponent})")
    assert_derivatives(program)
    (result,) = run(hloom.vjp(program), [np.array([1.0, 2.0, -1.0]), np.ones(3)])
    np.testing.assert_allclose(result, -exponent * np.array([1.0, 2.0, -1.0]) ** (exponent - 1))


CUMULATIVE = """
COMBINE
ENTRY e {
  x = f64[2,SIZE] parameter(0)
  start = f64[] constant(START)
  ROOT r = f64[2,SIZE] reduce-window(x, start), window={size=1xSIZE pad=0_0xPADDING}, to_apply=NAME
}"""
SCALARS = LOGADDEXP.replace("[3]", "[]")
LOGADDEXP_OF_SCALARS = f"lae {{ x = f64[] parameter(0) y = f64[] parameter(1) {SCALARS} }}"


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("from_end", [False, True])
@pytest.mark.parametrize(
    ("name", "start"), [("multiply_f64", "1"), ("lae", "-inf"), ("maximum_f64", "-inf"), ("minimum_f64", "inf")]
)
def test_cumulative_reductions(name: str, start: str, from_end: bool, size: int):
    padding = f"0_{size - 1}" if from_end else f"{size - 1}_0"
    text = CUMULATIVE.replace("COMBINE", LOGADDEXP_OF_SCALARS).replace("SIZE", str(size)).replace("START", start)
    program = module(text.replace("PADDING", padding).replace("NAME", name))
    assert_derivatives(program, orders=1)
    opcodes = {node.opcode for node in hloom.vjp(program).entry.nodes}
    assert size == 1 or "select-and-scatter" not in opcodes


@pytest.mark.parametrize("from_end", [False, True])
def test_ties_of_cumulative_maxima(from_end: bool):
    """The first of the equal elements, as in every window."""
    padding = "0_3" if from_end else "3_0"
    text = CUMULATIVE.replace("COMBINE", "").replace("SIZE", "4").replace("START", "-inf").replace("2,", "")
    program = module(text.replace("1x4", "4").replace("0_0xPADDING", padding).replace("NAME", "maximum_f64"))
    (result,) = run(hloom.vjp(program), [np.array([2.0, 1.0, 2.0, 2.0]), np.array([1.0, 10.0, 100.0, 1000.0])])
    np.testing.assert_array_equal(result, [1, 0, 110, 1000] if from_end else [1111, 0, 0, 0])


def test_a_cumulative_reduction_whose_initial_value_changes_results_is_unrolled():
    text = CUMULATIVE.replace("COMBINE", "").replace("SIZE", "4").replace("START", "0.5")
    assert_derivatives(module(text.replace("PADDING", "3_0").replace("NAME", "multiply_f64")), orders=1)


def test_the_window_that_a_derivative_of_a_maximum_has():
    """Selected together: the derivative selects as well, and is not unrolled."""
    text = """
selected { a = f64[] parameter(0) x = f64[] parameter(1) b = f64[] parameter(2) y = f64[] parameter(3)
  ge = pred[] compare(a, b), direction=GE p = f64[] select(ge, a, b) q = f64[] select(ge, x, y)
  ROOT r = (f64[], f64[]) tuple(p, q) }
ENTRY e {
  v = f64[6] parameter(0)
  x = f64[6] parameter(1)
  least = f64[] constant(-inf)
  zero = f64[] constant(0)
  ROOT r = (f64[3], f64[3]) reduce-window(v, x, least, zero), window={size=2 stride=2}, to_apply=selected
}"""
    program = module(text)
    assert_derivatives(program)
    opcodes = [node.opcode for node in hloom.vjp(program).entry.nodes]
    assert opcodes.count("select-and-scatter") == 2
    assert "slice" not in opcodes


def test_a_maximum_that_a_computation_yields_beside_others_is_followed_through_the_tuple():
    """The maximum of a softmax has no derivative, and so none of its ties is counted."""
    text = """
maximum_of { z = f64[3] parameter(0) least = f64[] constant(-inf)
  m = f64[] reduce(z, least), dimensions={0}, to_apply=maximum_f64 w = f64[3] broadcast(m), dimensions={}
  d = f64[3] subtract(z, w) e = f64[3] exponential(d) zero = f64[] constant(0)
  s = f64[] reduce(e, zero), dimensions={0}, to_apply=add_f64 ROOT r = (f64[3], f64[]) tuple(e, s) }
ENTRY e { z = f64[3] parameter(0) c = (f64[3], f64[]) call(z), to_apply=maximum_of
  e = f64[3] get-tuple-element(c), index=0 s = f64[] get-tuple-element(c), index=1
  w = f64[3] broadcast(s), dimensions={} ROOT r = f64[3] divide(e, w) }"""
    program = module(text)
    assert_derivatives(program)
    opcodes = [node.opcode for node in hloom.vjp(program).entry.nodes]
    assert "compare" not in opcodes
