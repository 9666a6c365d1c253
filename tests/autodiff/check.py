"""What the tests of derivatives share: HLO in, numbers out, beside central differences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import hloom
from hloom.ir import DTYPES, Module, TensorType

REDUCERS = "".join(
    f"{op}_{value_type} {{ a = {value_type}[] parameter(0) b = {value_type}[] parameter(1) ROOT c = {value_type}[] {op}(a, b) }}\n"
    for op in ("add", "maximum", "minimum", "multiply")
    for value_type in ("f64",)
)
"""Computations that tests apply: add_f64, maximum_f64, minimum_f64, multiply_f64."""


def module(text: str) -> Module:
    """A module from its computations; those of REDUCERS are there."""
    return hloom.parse(f"HloModule m\n{REDUCERS}\n{text}")


def entry(body: str) -> Module:
    """A module whose entry is these lines."""
    return module(f"ENTRY e {{\n{body}\n}}")


def inputs_of(program: Module, seed: int = 0, low: float = -1.0, high: float = 1.0) -> list[np.ndarray]:
    """Random inputs: floats between bounds, small integers."""
    rng = np.random.default_rng(seed)
    made = []
    for parameter in program.entry.parameters:
        value_type = parameter.type
        assert isinstance(value_type, TensorType)
        if value_type.dtype.is_complex:
            both = rng.uniform(low, high, value_type.dims) + 1j * rng.uniform(low, high, value_type.dims)
            made.append(both.astype(value_type.dtype.numpy))
        elif value_type.dtype.is_float:
            made.append(rng.uniform(low, high, value_type.dims).astype(value_type.dtype.numpy))
        else:
            made.append(
                rng.integers(0, 2 if value_type.dtype is DTYPES["pred"] else 4, value_type.dims).astype(
                    value_type.dtype.numpy
                )
            )
    return made


def run(program: Module, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The results, by numpy: the programs are small, and XLA takes a tenth of a second to compile one."""
    assert hloom.verify(program).level is hloom.Level.HLO, hloom.print(program)
    return hloom.evaluate(hloom.parse(hloom.print(program)), list(inputs))


def assert_derivatives(
    program: Module,
    inputs: Sequence[np.ndarray] | None = None,
    *,
    tolerance: float = 2e-6,
    step: float = 1e-5,
    low: float = -1.0,
    high: float = 1.0,
    orders: int = 2,
    **options: object,
) -> None:
    """Both modes agree with central differences in random directions, and so does the gradient's own derivative."""
    given = list(inputs if inputs is not None else inputs_of(program, low=low, high=high))
    rng = np.random.default_rng(7)
    floats = [n for n, value in enumerate(given) if value.dtype.kind in "fc"]
    directions = [_direction(rng, given[n]) for n in floats]
    results = run(program, given)
    ahead, behind = (run(program, _moved(given, floats, directions, sign * step)) for sign in (1, -1))
    numeric = [(a - b) / (2 * step) for a, b, r in zip(ahead, behind, results, strict=True) if r.dtype.kind in "fc"]
    forward = run(hloom.jvp(program), [*given, *directions])
    tangents = forward[len(results) :]
    for got, want in zip(tangents, numeric, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance * 10, atol=tolerance)
    cotangents = [_direction(rng, tangent) for tangent in tangents]
    gradient = hloom.vjp(program, **options)  # pyright: ignore[reportCallIssue, reportArgumentType]
    result = run(gradient, [*given, *cotangents])
    there = sum(float(np.real(np.sum(c * t))) for c, t in zip(cotangents, tangents, strict=True))
    back = sum(float(np.real(np.sum(d * g))) for d, g in zip(directions, result, strict=True))
    np.testing.assert_allclose(back, there, rtol=1e-9, atol=1e-9)
    if orders > 1:
        assert_derivatives(gradient, [*given, *cotangents], tolerance=tolerance * 5, step=step, orders=orders - 1)


def _direction(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    made = rng.standard_normal(like.shape)
    if like.dtype.kind == "c":
        made = made + 1j * rng.standard_normal(like.shape)
    return np.asarray(made).astype(like.dtype)


def _moved(
    given: Sequence[np.ndarray], floats: Sequence[int], directions: Sequence[np.ndarray], step: float
) -> list[np.ndarray]:
    moved = list(given)
    for number, direction in zip(floats, directions, strict=True):
        moved[number] = given[number] + step * direction
    return moved
