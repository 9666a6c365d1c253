"""What is written in the language that is compiled: jax's control flow and `vmap`, and integer functions of math."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any) -> Any:
    """jax.lax.fori_loop"""
    for i in range(lower, upper):
        init_val = body_fun(i, init_val)
    return init_val


def while_loop(cond_fun: Any, body_fun: Any, init_val: Any) -> Any:
    """jax.lax.while_loop"""
    while cond_fun(init_val):
        init_val = body_fun(init_val)
    return init_val


def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any) -> Any:
    """jax.lax.cond"""
    if pred:
        return true_fun(*operands)
    return false_fun(*operands)


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    """jax.lax.switch"""
    number = min(max(index, 0), len(branches) - 1)
    return branches[number](*operands)


def scan(f: Any, init: Any, xs: Any = None, length: Any = None) -> Any:
    """jax.lax.scan, of one array or none; its rounds are known."""
    rows = []
    for i in range(length if xs is None else len(xs)):
        init, row = f(init, None if xs is None else xs[i])
        rows.append(row)
    if rows[0] is None:
        return init, None
    return init, np.stack(rows)


def vmap(fun: Any) -> Any:
    """jax.vmap, over the first dimension of every argument."""

    def mapped(*arguments: Any) -> Any:
        return np.stack([fun(*[argument[i] for argument in arguments]) for i in range(len(arguments[0]))])

    return mapped


def gcd(a: Any, b: Any) -> Any:
    """math.gcd"""
    while b != 0:
        a, b = b, a % b
    return abs(a)


def factorial(n: Any) -> Any:
    """math.factorial"""
    if n < 0:
        raise ValueError("factorial() not defined for negative values")
    result = 1
    for k in range(2, n + 1):
        result = result * k
    return result


def isqrt(n: Any) -> Any:
    """math.isqrt"""
    if n < 0:
        raise ValueError("isqrt() argument must be nonnegative")
    low = int(math.sqrt(n))
    while low * low > n:
        low = low - 1
    while (low + 1) * (low + 1) <= n:
        low = low + 1
    return low


def round_integer(n: Any, scale: Any) -> Any:
    """`round` of an integer to tens, hundreds and so on, ties to even"""
    rest = n % scale
    down = n - rest
    if 2 * rest > scale or (2 * rest == scale and (down // scale) % 2 == 1):
        return down + scale
    return down


def isclose(a: Any, b: Any, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> Any:
    """math.isclose"""
    return a == b or abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol)


PRELUDE: dict[str, Any] = {
    "fori_loop": fori_loop, "while_loop": while_loop, "cond": cond, "switch": switch, "scan": scan, "vmap": vmap,
}  # fmt: skip
"""By the name of jax's function."""
MATH_PRELUDE: dict[str, Any] = {"gcd": gcd, "factorial": factorial, "isqrt": isqrt, "isclose": isclose}
"""By the name of the function of the module math."""
