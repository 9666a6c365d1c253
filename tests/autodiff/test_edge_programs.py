"""Edge programs: both modes agree with each other, and with JAX's derivatives or central differences, in f64.

Covers `rules/hessenberg.py`, `rules/orthogonal.py`, `rules/schur.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloom
from hloom.ir import Module
from tests.helpers.properties import parameters

jax: Any = pytest.importorskip("jax")

from .edge_programs import DIFFERENCES, JAX, PROGRAMS, Program  # noqa: E402

STEP = 1e-6
MOST_COMPARED = 500
"""Up to how many instructions a program with loops is differentiated by checkpoints too: XLA compiles it once more."""


@pytest.mark.parametrize("name", parameters(PROGRAMS, 12))
def test_edge_program(name: str):
    with jax.enable_x64(True):
        check(PROGRAMS[name])


def test_a_real_schur_form_with_blocks_of_two_rows_has_no_derivative():
    """A rotation has complex eigenvalues: NaN, rather than numbers that mean nothing."""
    with jax.enable_x64(True):
        form = jax.jit(lambda a: jax.scipy.linalg.schur(a)[0])
        matrix = np.array([[0.0, -1.0], [1.0, 0.0]])
        (gradient,) = outputs(hloom.vjp(hloom.load(form.lower(matrix))), [matrix, np.ones((2, 2))])
    assert np.isnan(gradient).all()


def check(program: Program) -> None:
    """<c, J v> = <J^T c, v>, and J^T c is JAX's, or J v that of central differences."""
    arguments = [np.asarray(value) for value in program.arguments]
    wrt = [number for number, value in enumerate(arguments) if value.dtype.kind in "fc"]

    def flat(*moved: Any) -> list[Any]:
        given = list(arguments)
        for number, value in zip(wrt, moved, strict=True):
            given[number] = value
        leaves = jax.tree.leaves(program.function(*map(jax.numpy.asarray, given)))
        return [leaf for leaf in leaves if jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact)]

    point = [arguments[number] for number in wrt]
    module = hloom.load(jax.jit(flat, keep_unused=True).lower(*point))
    rng = np.random.default_rng(1)
    directions = [direction(rng, value) for value in point]
    forward = outputs(hloom.jvp(module), [*point, *directions])
    tangents = forward[len(forward) // 2 :]
    cotangents = [direction(rng, tangent) for tangent in tangents]
    gradients = outputs(hloom.vjp(module), [*point, *cotangents])
    if module.node_count < MOST_COMPARED and any(node.opcode == "while" for node in module.nodes()):
        by_checkpoints = outputs(hloom.vjp(module, checkpoints=4), [*point, *cotangents])
        for gradient, expected in zip(by_checkpoints, gradients, strict=True):
            assert_close(gradient, expected, program.rounding, "cotangents by checkpoints")
    assert all(np.isfinite(value).all() for value in (*tangents, *gradients)) or program.reference == JAX
    if program.reference != JAX:
        assert_close(inner(gradients, directions), inner(cotangents, tangents), program.rounding, "reverse and forward mode")
        compiled = jax.jit(flat)
        ahead, behind = (
            compiled(*[value + sign * STEP * move for value, move in zip(point, directions, strict=True)])
            for sign in (1, -1)
        )
        for number, (tangent, a, b) in enumerate(zip(tangents, ahead, behind, strict=True)):
            difference = (np.asarray(a) - np.asarray(b)) / (2 * STEP)
            assert_close(tangent, difference, 20 * program.tolerance, f"central difference of result {number}")
    if program.reference != DIFFERENCES:
        _, tangents_of_jax = jax.jvp(flat, point, directions)
        for number, (tangent, expected) in enumerate(zip(tangents, tangents_of_jax, strict=True)):
            assert_close(tangent, expected, program.rounding, f"JAX's tangent of result {number}")
        expected = jax.vjp(flat, *point)[1]([jax.numpy.asarray(value) for value in cotangents])
        for number, (gradient, value) in enumerate(zip(gradients, expected, strict=True)):
            assert_close(gradient, value, program.rounding, f"JAX's cotangent of argument {number}")


def direction(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    made = rng.standard_normal(like.shape)
    if like.dtype.kind == "c":
        made = made + 1j * rng.standard_normal(like.shape)
    return np.asarray(made, like.dtype)


def outputs(module: Module, inputs: list[Any]) -> list[np.ndarray]:
    """What XLA gives, of a module that is whole HLO."""
    assert hloom.verify(module).level is hloom.Level.HLO
    return [np.asarray(value) for value in hloom.run(module, inputs).outputs]


def inner(left: list[Any], right: list[Any]) -> np.ndarray:
    return np.asarray(sum(float(np.real(np.sum(a * b))) for a, b in zip(left, right, strict=True)))


def assert_close(got: Any, expected: Any, tolerance: float, what: str) -> None:
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, what
    if expected.size:
        finite = expected[np.isfinite(expected)]
        scale = 1 + float(np.max(np.abs(finite), initial=0.0))
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale, err_msg=what)
