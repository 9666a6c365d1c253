"""Arithmetic on edge values is CPython's: every function of math and cmath, operators, built-in functions, methods.

Covers `functions/builtin_functions/arithmetic.py`, `functions/builtin_functions/cmath_module.py`,
`functions/integer_bounds.py`.

Left aside are denormals, which XLA's CPU takes for zeros, integers of more than 64 bits, and where NaN stands in complex
results of numbers that are not finite.
"""

from __future__ import annotations

import cmath
import itertools
import linecache
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hloom

INF, NAN, LARGEST = math.inf, math.nan, 1.7976931348623157e308
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.0, 1e-200, 1e200, -1e200, LARGEST, 2.0**63, 2.0**53, INF, -INF, NAN)
MORE_FLOATS = (1.5, -5.0, 7.25, 1e-5, 1e16, 2.0**62, -(2.0**63), 1e19, 709.0, 710.0, -745.0, 170.5, 171.0, 172.0)
INTEGERS = (0, 1, -1, 2, -3, 7, 63, 64, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
SMALL = (0, 1, -1, 2, -3, 7, 10)
PARTS = itertools.product((0.0, -0.0, 1.0, -2.5), (0.0, -0.0, 0.5, -3.0))
COMPLEX = (*(complex(*parts) for parts in PARTS), complex(1e200, 0.0), complex(3e200, 4e200))
NOT_FINITE = (complex(INF, 0.0), complex(-INF, -0.0), complex(1.0, INF), complex(INF, 2.0), complex(INF, INF))
ONE, TWO = [(x,) for x in (*FLOATS, *MORE_FLOATS)], list(itertools.product(FLOATS, FLOATS))
WHOLE, WHOLES = [(x,) for x in INTEGERS], list(itertools.product(INTEGERS, INTEGERS))
MIXED = [*itertools.product(FLOATS, INTEGERS), *itertools.product(INTEGERS, FLOATS)]
TURNS = [(x,) for x in COMPLEX]


@dataclass(frozen=True, slots=True)
class Grid:
    """An expression of x, y, z, with the values that it is computed for and how near a float must be."""

    text: str
    cases: Sequence[tuple[Any, ...]]
    ulps: int = 4


def _grids(texts: str, cases: Iterable[tuple[Any, ...]], ulps: int = 4) -> list[Grid]:
    return [Grid(text, list(cases), ulps) for text in texts.split(";")]


def _functions(module: Any, names: str, arguments: str, cases: Iterable[tuple[Any, ...]], ulps: int = 4) -> list[Grid]:
    kept = [name for name in names.split() if hasattr(module, name)]
    return [Grid(f"{module.__name__}.{name}({arguments})", list(cases), ulps) for name in kept]


def _is_complex_power(base: float, exponent: float) -> bool:
    """Where Python gives a complex number, which no program of floats yields."""
    is_finite = math.isfinite(base) and math.isfinite(exponent)
    return is_finite and base < 0 and exponent != math.floor(exponent)


GRIDS = [
    *_functions(math, "acos acosh asin asinh atan atanh ceil cos degrees erf erfc exp exp2 expm1 fabs floor frexp isfinite "
                "isinf isnan log log10 log1p log2 modf radians sin sqrt tan tanh trunc ulp", "x", [*ONE, *WHOLE]),
    *_functions(math, "cbrt cosh sinh gamma", "x", [*ONE, *WHOLE], 1000),
    *_functions(math, "lgamma", "x", ONE, 1000),
    *_functions(math, "factorial isqrt", "x", [(n,) for n in (0, 1, 5, 20, 21, 25, -1)]),
    *_grids("math.isqrt(x)", [(n,) for n in (2**52 + 1, 2**62, 3037000499**2, 3037000499**2 - 1, 2**63 - 1)]),
    *_functions(math, "atan2 copysign fmod isclose log nextafter pow remainder", "x, y", TWO),
    *_grids("math.hypot(x, y);math.dist((x, 1.0), (y, 2.0));math.hypot(x, y, 3.0)", TWO),
    *_grids("math.hypot(x, 1e300);math.hypot(1e-300, x);math.hypot(x, 12.0)", ONE),
    *_grids("math.isclose(x, y, rel_tol=0.1, abs_tol=1.0)", TWO),
    *_grids("math.ldexp(x, y)", itertools.product(FLOATS, (0, 1, -1, 1023, 1024, -2000, 2**62))),
    *_functions(math, "gcd lcm", "x, y", WHOLES),
    *_functions(math, "comb perm", "x, y", itertools.product((0, 1, 5, 20, 62, 66, 67, -3, 2**62), (0, 1, 3, 30, 33, -2))),
    *_grids("math.fsum([x, y, z])", [
        (1e16, 1.0, -1e16), (0.1, 0.2, -0.3), (1e308, 1e308, -1e308), (INF, -INF, 1.0), (INF, 1.0, 2.0), (NAN, 1.0, 2.0),
        (1e100, 1.0, -1e100), (-0.0, -0.0, -0.0), (1.0, 2.0**-53, 2.0**-106), (1.0, 2.0**-53, -(2.0**-106)), (1, 2, 3),
    ], 0),
    *_grids("math.fsum([x] * 10)", [(0.1,), (1e308,)], 0),
    *_grids("math.prod([x, y])", TWO),
    *_grids("x + y;x - y;x * y;x / y;x // y;x % y;divmod(x, y);x == y;x != y;x < y;x <= y;x > y;x >= y", [*TWO, *MIXED]),
    *_grids("x == y;x != y;x < y;x <= y;x > y;x >= y;x // y;x % y;x / y;divmod(x, y)", WHOLES),
    *_grids("x & y;x | y;x ^ y;x << y;x >> y", itertools.product(INTEGERS, (0, 1, 5, 62, 63, 64, 100, -1))),
    *_grids("x == 10**30;x < 10**30;x >= 10**30;x > -10**400;x <= 2**53 + 1;x != 2**63 - 1;2**63 > x", [*ONE, *WHOLE]),
    *_grids("x == 2.0**53;x < 2.0**63;x >= 9007199254740994.0;x > -math.inf;0.5 <= x", [*ONE, *WHOLE]),
    *_grids("x ** y;pow(x, y)", [(x, y) for x, y in [*TWO, *MIXED] if not _is_complex_power(x, y)]),
    *_grids("x + 1;-x;+x;not x", ONE),
    *_grids("~x;not x;x.bit_length();x.bit_count();x.conjugate();x.numerator;x.denominator;operator.index(x)", [*WHOLE, (True,)]),
    *_grids("x.real;x.imag;x.is_integer();x.conjugate()", ONE),
    *_grids("x.real;x.imag;x.conjugate()", [*WHOLE, (True,), (False,)]),
    *_grids("int(x);float(x);bool(x);complex(x);round(x);round(x, None);x.__floor__();x.__trunc__()", ONE),
    *_grids("int(x);float(x);bool(x);complex(x);round(x)", [*WHOLE, (True,)]),
    *[Grid(f"round(x, {digits})", [*ONE, *WHOLE, *((x,) for x in (2.675, 0.125, 1234.5, -1250.0, 1.15, 2.5e-10, 123456789.98765433))], 0)
      for digits in (0, 1, 2, 3, 15, 16, 20, 22, 400, -1, -2, -3, -15, -18, -19, -20, -400)],
    *_grids("pow(x, y, z)", itertools.product(
        (0, 2, -3, 2**62, 10**9 + 6, -(2**63)), (0, 1, 5, 100, -1, 2**40),
        (1, 2, 7, -7, 10**9 + 7, 2**31, 2**61 - 1, 2**63 - 1, -(2**63), 0),
    )),
    *_grids("x ** y;pow(x, y);operator.pow(x, y)", itertools.product(SMALL, (0, 1, 2, 3, 5, 18, 22, 23, 62, 63, 64, 100))),
    *_grids("min(x, y);max(x, y);min([x, y, 1.0]);max([x, y, 1.0])", [*TWO]),
    *_grids("min(x, y);max(x, y);abs(x - y) if x // 2 - y // 2 == 0 else 0", itertools.product(SMALL, SMALL)),
    *_grids("sum([x, y, z]);sum([x, y, z], 1.5)", [(1, 2, 3), (1.0, 2, 3), (1e16, 1.0, -1e16), (INF, -INF, 1.0), (True, True, False)], 0),
    *_grids("abs(x)", [*ONE, *TURNS, *((x,) for x in NOT_FINITE), (complex(NAN, INF),), (1e308 + 1.7e308j,), (1.7e308 + 1.7e308j,)]),
    *_functions(cmath, "acos acosh asin asinh atan atanh cos cosh exp log log10 phase polar sin sinh sqrt tan tanh", "x",
                [*TURNS, (-4.0,), (2,)]),
    *_functions(cmath, "cos cosh exp isfinite isinf isnan sin sinh tan tanh phase", "x", [(x,) for x in NOT_FINITE[2:]]),
    *_functions(cmath, "isfinite isinf isnan", "x", [*TURNS, (complex(NAN, INF),), (complex(1.0, NAN),)]),
    *_grids("cmath.rect(x, y)", itertools.product((0.5, -3.0, 1e200), (0.0, 1.5, -2.0, INF))),
    *_grids("cmath.isclose(x, y)", itertools.product(COMPLEX[::3], (*COMPLEX[::5], complex(INF, 0.0)))),
    *_grids("complex(x, y)", TWO),
    *_grids("x + y;x - y;x * y;x / y;x ** y;x == y;x != y", itertools.product(COMPLEX[:16], COMPLEX[:16:3])),
    *_grids("x ** 2;x ** 3;x ** -1;x ** -2", [(x,) for x in COMPLEX[:16] if x.real and x.imag] + [(0j,)]),
    *_grids("-x;bool(x)", TURNS),
]  # fmt: skip


def compiled(text: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function of what an expression names: Python's and hloom's."""
    names = [name for name in "xyz" if name in compile(text, "", "eval").co_names]
    source = f"def computed({', '.join(names)}):\n    return {text}\n"
    filename = f"<{text}>"
    linecache.cache[filename] = len(source), None, source.splitlines(True), filename
    scope: dict[str, Any] = {"math": math, "cmath": cmath, "operator": operator, "np": np}
    exec(compile(source, filename, "exec"), scope)
    return scope["computed"], hloom.function(scope["computed"])


def outcome(function: Callable[..., Any], case: tuple[Any, ...]) -> Any:
    try:
        return function(*case)
    except Exception as error:
        return error


def difference(ours: Any, theirs: Any, ulps: int) -> str | None:
    """How results differ; None where they are the same, or a number of Python's that has no 64 bits is refused."""
    if isinstance(theirs, tuple) and isinstance(ours, tuple):
        parts = [difference(one, other, ulps) for one, other in zip(ours, theirs, strict=True)]
        return next((part for part in parts if part), None)
    if _is_too_large(theirs):
        return None if isinstance(ours, OverflowError) else "should be refused"
    if isinstance(theirs, Exception):
        return None if isinstance(ours, type(theirs)) else "should raise"
    if type(ours) is not type(theirs):
        return "another type"
    if isinstance(theirs, complex):
        size = max(abs(theirs.real), abs(theirs.imag)) if cmath.isfinite(theirs) else 0.0
        parts = ((ours.real, theirs.real), (ours.imag, theirs.imag))
        return None if all(_is_near(one, other, 4 * ulps, size) for one, other in parts) else "another number"
    if isinstance(theirs, float):
        return None if _is_near(ours, theirs, ulps, abs(theirs)) else "another number"
    return None if ours == theirs else "another value"


def _is_too_large(value: Any) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(part, int) and not -(2**63) <= part < 2**63 for part in parts)


def _is_near(one: float, other: float, ulps: int, size: float) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    if one == other:
        return one != 0.0 or math.copysign(1.0, one) == math.copysign(1.0, other) or size > 0.0
    return math.isfinite(one) and math.isfinite(other) and abs(one - other) <= ulps * math.ulp(size)


def _is_denormal(value: Any) -> bool:
    return isinstance(value, float) and 0.0 < abs(value) < 2.3e-308


QUICK = ("math.fsum([x, y, z])", "math.hypot(x, y)", "math.fmod(x, y)", "x // y", "x == y", "int(x)", "pow(x, y, z)", "round(x, 2)")
PARAMETERS = [
    pytest.param(grid, id=f"{number}-{grid.text}", marks=() if grid.text in QUICK else pytest.mark.long)
    for number, grid in enumerate(GRIDS)
]


@pytest.mark.parametrize("grid", PARAMETERS)
def test_a_grid_of_edge_values(grid: Grid):
    python, function = compiled(grid.text)
    failures: list[str] = []
    for case in grid.cases:
        expected = outcome(python, case)
        if _is_denormal(expected):
            continue
        ours = outcome(function, case)
        problem = difference(ours, expected, grid.ulps)
        if problem:
            failures.append(f"{case}: {problem}: {ours!r}, not {expected!r}")
    assert not failures, f"{len(failures)} of {len(grid.cases)}: " + "\n".join(failures[:6])


REFUSED = ("x.as_integer_ratio()", "x.hex()", "hash(x)", "bin(x)", "hex(x)", "chr(x)", "x.to_bytes(8, 'little')", "round(x, 300)")


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_at_its_line(text: str):
    value = 1.5 if "round" in text or text == "x.hex()" else 5
    with pytest.raises(hloom.HloomError, match=rf"^<{text.replace('(', '.').replace(')', '.')}>:2:12: "):
        compiled(text)[1](value)


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "int32", "uint32", "int64", "uint64", "bool", "float32", "float64"]
)
def test_sum_adds_up_in_the_type_that_python_adds_up_in(dtype: str):
    values = np.array([1, 0, 1, 1] if dtype == "bool" else [100, 27, 127, 3], dtype)
    with np.errstate(all="ignore"):
        for text in ("sum(x)", "sum(x, 1)", "sum(x[1:3])"):
            python, function = compiled(text)
            expected, ours = python(values), function(values)
            assert (ours.dtype, ours) == (expected.dtype, expected), text


def test_an_error_inside_is_that_of_the_line_that_called():
    with pytest.raises(OverflowError, match=r"^<math.factorial.x.>:2:12: OverflowError: the number does not fit"):
        compiled("math.factorial(x)")[1](30)


def test_gradients_of_functions_that_are_scaled():
    assert hloom.grad(lambda x: math.hypot(x, 4.0))(3.0) == pytest.approx(0.6)
    assert hloom.grad(lambda x: math.hypot(x, 4e200))(3e200) == pytest.approx(0.6)
    assert hloom.grad(lambda x: math.hypot(x, 4e-200))(3e-200) == pytest.approx(0.6)
    assert hloom.grad(lambda x: math.fsum([x * x, 1e16, x, -1e16]))(3.0) == pytest.approx(7.0)
    assert hloom.grad(lambda x: math.dist((x, 0.0), (0.0, 4.0)))(3.0) == pytest.approx(0.6)
    assert hloom.grad(lambda x: math.pow(x, 3.0))(2.0) == pytest.approx(12.0)
