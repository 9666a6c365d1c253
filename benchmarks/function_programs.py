"""Python functions that several compilers compile: plain Python, which an interpreter without hloom can import."""

from __future__ import annotations


def newton(a: float, tolerance: float = 1e-12) -> float:
    x = a
    while abs(x * x - a) > tolerance:
        x = 0.5 * (x + a / x)
    return x


def divided(x: float, n: int) -> float:
    for _ in range(n):
        x = 0.5 * (x + 2.0 / x)
    return x


def multiplied(x: float, n: int) -> float:
    for _ in range(n):
        x = 3.9 * x * (1.0 - x)
    return x


def product(n: int, x: float) -> float:
    if n <= 1:
        return x
    return product(n - 1, x * (1.0 - 1e-9 * n))
