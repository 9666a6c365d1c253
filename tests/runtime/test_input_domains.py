"""Random inputs are drawn inside the domains of the ops that they reach, through data movement, calls and loops."""

import math

import numpy as np
import pytest

from hloom.evaluator import evaluate
from hloom.formats.hlo import parse
from hloom.ops import OPS
from hloom.runtime import input_domains, run
from hloom.runtime.input_domains import ANY, NONZERO, POSITIVE, RESTRICTED, InputDomain

UNIT = InputDomain(-1.0, 1.0)


def domains(body: str, graphs: str = "") -> list[InputDomain]:
    return input_domains(parse(f"HloModule m\n{graphs}\nENTRY e {{\n{body}\n}}"))


@pytest.mark.parametrize(
    ("opcode", "domain"),
    [
        ("sqrt", POSITIVE), ("rsqrt", POSITIVE), ("log", POSITIVE), ("log-plus-one", InputDomain(low=-1.0)),
        ("acos", UNIT), ("asin", UNIT), ("atanh", UNIT), ("acosh", InputDomain(low=1.0)), ("tanh", ANY),
        ("exponential", ANY),
    ],
)  # fmt: skip
def test_functions_of_one_operand(opcode: str, domain: InputDomain):
    assert domains(f"x = f32[4] parameter(0)\nROOT y = f32[4] {opcode}(x)") == [domain]


def test_divisors_and_bases():
    pair = "x = f32[4] parameter(0)\ny = f32[4] parameter(1)\nROOT z = f32[4] "
    assert domains(pair + "divide(x, y)") == [ANY, NONZERO]
    assert domains(pair + "remainder(x, y)") == [ANY, NONZERO]
    assert domains(pair + "power(x, y)") == [POSITIVE, ANY]
    power = "x = f32[4] parameter(0)\nc = f32[] constant({})\nb = f32[4] broadcast(c), dimensions={{}}\nROOT z = f32[4] power(x, b)"
    assert domains(power.format(3)) == [ANY]
    assert domains(power.format(0.5)) == [POSITIVE]
    assert domains(pair.replace("f32", "s32") + "divide(x, y)".replace("f32", "s32")) == [ANY, NONZERO]


def test_variances_of_batch_normalisation():
    types = "x = f32[8,4] parameter(0)\n" + "\n".join(f"p{n} = f32[4] parameter({n})" for n in range(1, 5))
    inference = "ROOT y = f32[8,4] batch-norm-inference(x, p1, p2, p3, p4), epsilon=1e-5, feature_index=1"
    assert domains(f"{types}\n{inference}") == [ANY, ANY, ANY, ANY, POSITIVE]


GROWING = {
    "exponential": ANY, "log": InputDomain(low=1.0), "log-plus-one": POSITIVE, "sqrt": POSITIVE, "cbrt": POSITIVE,
    "tanh": POSITIVE, "logistic": ANY, "exponential-minus-one": POSITIVE,
}  # fmt: skip
"""What the operand of a growing function must be for the function's value to have a root."""


@pytest.mark.parametrize("opcode", GROWING)
def test_growing_functions_are_inverted(opcode: str):
    assert domains(f"x = f32[4] parameter(0)\ny = f32[4] {opcode}(x)\nROOT r = f32[4] sqrt(y)") == [GROWING[opcode]]


def test_one_minus_an_exponential_is_positive_below_zero():
    body = """x = f32[4] parameter(0)
      o = f32[] constant(1)
      b = f32[4] broadcast(o), dimensions={}
      e = f32[4] exponential(x)
      d = f32[4] subtract(b, e)
      ROOT l = f32[4] log(d)"""
    assert domains(body) == [InputDomain(high=0.0)]


def test_differences_that_are_roots():
    """Of a mean of squares less the square of a mean: the one is above 1, and the other between -1 and 1."""
    body = """s = f32[4] parameter(0)
      m = f32[4] parameter(1)
      q = f32[4] multiply(m, m)
      v = f32[4] subtract(s, q)
      ROOT d = f32[4] sqrt(v)"""
    assert domains(body) == [InputDomain(low=1.0), InputDomain(-1.0, 1.0)]


def test_sums_of_products_that_are_roots():
    body = """x = f32[3,4] parameter(0)
      w = f32[4,2] parameter(1)
      p = f32[3,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT l = f32[3,2] log(p)"""
    assert domains(body) == [POSITIVE, POSITIVE]


def test_divisors_that_are_cut_off_at_zero():
    body = """x = f32[4] parameter(0)
      y = f32[4] parameter(1)
      z = f32[] constant(0)
      b = f32[4] broadcast(z), dimensions={}
      m = f32[4] maximum(y, b)
      ROOT q = f32[4] divide(x, m)"""
    assert domains(body) == [ANY, POSITIVE]
    assert domains(body.replace("maximum", "minimum")) == [ANY, InputDomain(high=0.0)]


MOVES = {
    "reshape": "m = f32[2,2] reshape(x)\nROOT y = f32[2,2] sqrt(m)",
    "broadcast": "m = f32[4,3] broadcast(x), dimensions={0}\nROOT y = f32[4,3] sqrt(m)",
    "slice": "m = f32[2] slice(x), slice={[0:2]}\nROOT y = f32[2] sqrt(m)",
    "concatenate": "m = f32[8] concatenate(x, x), dimensions={0}\nROOT y = f32[8] sqrt(m)",
    "convert": "m = f64[4] convert(x)\nROOT y = f64[4] sqrt(m)",
    "select": "p = pred[4] parameter(1)\nm = f32[4] select(p, x, x)\nROOT y = f32[4] sqrt(m)",
    "tuple": "t = (f32[4], f32[4]) tuple(x, x)\nm = f32[4] get-tuple-element(t), index=1\nROOT y = f32[4] sqrt(m)",
    "call": "ROOT y = f32[4] call(x), to_apply=root",
    "fusion": "ROOT y = f32[4] fusion(x), kind=kLoop, calls=root",
    "epsilon": "c = f32[] constant(1e-5)\nb = f32[4] broadcast(c), dimensions={}\nm = f32[4] add(x, b)\nROOT y = f32[4] rsqrt(m)",
    "factor": "c = f32[] constant(0.9)\nb = f32[4] broadcast(c), dimensions={}\nm = f32[4] multiply(x, b)\nROOT y = f32[4] sqrt(m)",
    "sum": "z = f32[] constant(0)\nm = f32[] reduce(x, z), dimensions={0}, to_apply=plus\nROOT y = f32[] log(m)",
    "second moment": "g = f32[4] parameter(1)\ns = f32[4] multiply(g, g)\nm = f32[4] add(x, s)\nROOT y = f32[4] sqrt(m)",
    "loop": "ROOT y = (s32[], f32[4]) while(start), condition=goes_on, body=round",
}
GRAPHS = """
root { a = f32[4] parameter(0) ROOT r = f32[4] sqrt(a) }
plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
round { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 v = f32[4] get-tuple-element(s), index=1
  o = s32[] constant(1) j = s32[] add(i, o) w = f32[4] sqrt(v) ROOT t = (s32[], f32[4]) tuple(j, w) }
goes_on { s = (s32[], f32[4]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(3)
  ROOT l = pred[] compare(i, n), direction=LT }
"""


@pytest.mark.parametrize("name", MOVES)
def test_what_a_parameter_is_followed_through(name: str):
    start = "zero = s32[] constant(0)\nstart = (s32[], f32[4]) tuple(zero, x)\n" if name == "loop" else ""
    body = f"x = f32[4] parameter(0)\n{start}{MOVES[name]}"
    assert domains(body, GRAPHS)[0] == POSITIVE
    module = parse(f"HloModule m\n{GRAPHS}\nENTRY e {{\n{body}\n}}")
    result = run(module, seed=3)
    for array in (*result.outputs, *evaluate(module, result.inputs)):
        assert np.isfinite(array).all()


def test_intervals_that_constants_move():
    body = "x = f32[4] parameter(0)\nc = f32[] constant({})\nb = f32[4] broadcast(c), dimensions={{}}\nm = f32[4] {}\nROOT y = f32[4] log(m)"
    assert domains(body.format(1, "subtract(b, x)")) == [InputDomain(-math.inf, 1.0)]
    assert domains(body.format(2, "subtract(x, b)")) == [InputDomain(low=2.0)]
    assert domains(body.format(-2, "multiply(x, b)")) == [InputDomain(-math.inf, -0.0)]
    assert domains(body.format(1, "maximum(x, b)")) == [ANY]
    assert domains(body.format(0, "negate(x)").replace("b = f32[4] broadcast(c), dimensions={}\n", "")) == [InputDomain(-math.inf, -0.0)]


def test_elements_of_a_tuple_have_domains_of_their_own():
    body = "t = (f32[4], (f32[4], s32[])) parameter(0)\np = (f32[4], s32[]) get-tuple-element(t), index=1\nx = f32[4] get-tuple-element(p), index=0\nROOT y = f32[4] log(x)"
    assert domains(body) == [ANY, POSITIVE, ANY]


def test_a_matrix_for_cholesky_is_definite():
    module = parse("ENTRY e { a = f32[2,5,5] parameter(0) ROOT l = f32[2,5,5] cholesky(a), lower=true }")
    assert np.isfinite(run(module).outputs[0]).all()


def test_what_is_drawn_is_inside():
    normal = np.random.default_rng(0).standard_normal(1000)
    assert (POSITIVE.draw(normal) > 0).all()
    assert (np.abs(UNIT.draw(normal)) < 1).all() and UNIT.draw(normal).std() > 0.2
    assert (InputDomain(-math.inf, 1.0).draw(normal) < 1).all()
    assert (np.abs(NONZERO.draw(normal)) > 0.05).all()
    assert ANY.draw(normal) is normal
    assert NONZERO.choose(np.arange(8), 7).min() == 1
    assert POSITIVE.meet(InputDomain(high=-1.0)) == POSITIVE  # nothing is in both


def test_parameters_without_a_domain_keep_their_values():
    text = "ENTRY e {{ x = f32[4] parameter(0) y = f32[4] parameter(1) ROOT z = f32[4] {}(x, y) }}"
    plain, divided = (run(parse(text.format(opcode)), seed=5).inputs for opcode in ("add", "divide"))
    assert np.array_equal(plain[0], divided[0]) and not np.array_equal(plain[1], divided[1])


def test_every_row_is_an_opcode_with_such_an_operand():
    assert all(opcode in OPS and number < OPS[opcode].arity[0] for opcode, rows in RESTRICTED.items() for number, _ in rows)
