"""What hloom does with jax, a test for each feature: run for every version of jax by `scripts/test_versions.py`.

A feature that an older jax does not have must say so, with the version that has it.
"""

from __future__ import annotations

import warnings
from functools import wraps

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import hloom
from hloom.cli import main
from hloom.formats.hlo import print_module
from hloom.runtime.library_names import numbers
from hloom.text import HloomError

TEXT = """
HloModule step

ENTRY main {
  x = f32[8,16] parameter(0)
  w = f32[16,4] parameter(1)
  product = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  negative = f32[8,4] negate(product)
  ROOT result = f32[8,4] negate(negative)
}
"""
ONES = np.ones(3, np.float32)
SLOPE = np.float32(np.sin(1) + np.cos(1)) * ONES
"""The derivative of x * sin(x) at 1."""


def since(version):
    """Of a feature that jax has from a version on: before, it raises an error that names the version."""

    def decorate(test):
        @wraps(test)
        def checked(*arguments, **keywords):
            if numbers(jax.__version__) >= numbers(version):
                return test(*arguments, **keywords)
            with pytest.raises(HloomError, match=f"which jax {jax.__version__} does not have\n.*jax>={version}"):
                test(*arguments, **keywords)
            return pytest.skip(f"needs jax {version}")

        return checked

    return decorate


def objective(x):
    return jnp.sum(x * jnp.sin(jnp.negative(jnp.negative(x))))


def rewritten():
    return hloom.jit(objective, "simplify")


def command(tmp_path, *arguments):
    file = tmp_path / "step.hlo"
    file.write_text(TEXT)
    result = CliRunner().invoke(main, [arguments[0], str(file), *arguments[1:]])
    assert result.exit_code == 0, result.output


def test_run(tmp_path):
    command(tmp_path, "run")


def test_verify(tmp_path):
    command(tmp_path, "opt", "-p", "simplify", "--verify")


def test_plan_measure(tmp_path):
    command(tmp_path, "plan", "--mesh", "data=2,model=2", "--measure", "1")


def test_load_lowered():
    """Also what XLA compiled; nothing in it is unknown."""
    lowered = jax.jit(lambda x: jnp.sin(x) @ x).lower(np.ones((4, 4), np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        modules = [hloom.load(lowered), hloom.load(lowered.compile())]
    assert all("dot" in print_module(module) and not module.notes for module in modules)


def test_stablehlo():
    lowered = jax.jit(lambda x: jnp.sin(x) @ x).lower(np.ones((4, 4), np.float32))
    assert "dot(" in print_module(hloom.load(lowered.as_text()))


def test_export():
    exported = jax.export.export(jax.jit(jnp.sin))(ONES)
    assert "sine(" in print_module(hloom.load(bytes(exported.mlir_module_serialized)))


@since("0.8.3")
def test_jit():
    np.testing.assert_allclose(rewritten()(ONES), objective(ONES), rtol=1e-6)
    assert "negate(" not in print_module(rewritten().rewritten(ONES))


@since("0.8.3")
def test_grad():
    np.testing.assert_allclose(jax.grad(rewritten())(ONES), SLOPE, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(jax.checkpoint(rewritten()))(ONES), SLOPE, rtol=1e-6)
    np.testing.assert_allclose(jax.hessian(rewritten())(ONES), jax.hessian(objective)(ONES), rtol=1e-6)


@since("0.8.3")
def test_jvp():
    np.testing.assert_allclose(jax.jvp(rewritten(), (ONES,), (ONES,))[1], SLOPE.sum(), rtol=1e-6)


@since("0.8.3")
def test_vmap():
    np.testing.assert_allclose(jax.vmap(rewritten())(np.stack([ONES, ONES])), 2 * [objective(ONES)], rtol=1e-6)


def test_differentiable():
    _, pullback = jax.vjp(hloom.differentiable(objective), ONES)
    np.testing.assert_allclose(pullback(jnp.float32(1))[0], SLOPE, rtol=1e-6)


def test_function():
    """Calls of NumPy and jax in compiled functions are traced by jax."""

    @hloom.function
    def compiled(x):
        total = 0.0
        for number in range(3):
            total = total + jnp.sum(np.sin(x) * number)
        return total

    np.testing.assert_allclose(compiled(ONES), 9 * np.sin(1), rtol=1e-6)


@since("0.8.3")
def test_auto_shard():
    sharded = hloom.auto_shard(lambda x, w: x @ w, mesh="data=1,model=1")
    np.testing.assert_allclose(sharded(np.ones((8, 16)), np.ones((16, 4))), np.full((8, 4), 16.0))


@since("0.10.2")
def test_inside_jit():
    with hloom.inside_jit(lambda module: False):
        np.testing.assert_allclose(jax.jit(lambda x: jnp.negative(jnp.negative(x)))(ONES), ONES)
