"""`hloom.differentiable`: jax's transformations of functions whose derivatives hloom makes.

Covers `differentiation.py`, `api/differentiable.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import hloom

jax: Any = pytest.importorskip("jax")
jnp: Any = pytest.importorskip("jax.numpy")
lax = jax.lax
spec = jax.sharding.PartitionSpec


@hloom.differentiable
def root(a):
    """Newton's iteration, until it no longer moves."""
    step = lambda state: (0.5 * (state[0] + a / state[0]), state[0])  # noqa: E731
    return lax.while_loop(lambda state: jnp.abs(state[0] - state[1]) > 1e-6 * state[0], step, (a, 0.0 * a))[0]


@hloom.differentiable(checkpoints=4)
def repeat(parameters, count):
    step = lambda i, y: jnp.sin(parameters["w"] @ y) + parameters["b"]  # noqa: E731
    return {"y": lax.fori_loop(0, count, step, parameters["b"]), "count": count}


PARAMETERS = {"w": jnp.eye(3) * 0.5 + 0.1, "b": jnp.arange(3.0)}


def loss(parameters):
    return (repeat(parameters, 7)["y"] ** 2).sum()


def unrolled(parameters):
    y = parameters["b"]
    for _ in range(7):
        y = jnp.sin(parameters["w"] @ y) + parameters["b"]
    return (y**2).sum()


def test_gradient_through_a_while_loop():
    assert jax.grad(root)(4.0) == pytest.approx(0.25, rel=1e-5)
    assert jax.jit(jax.grad(root))(9.0) == pytest.approx(1 / 6, rel=1e-5)


def test_forward_mode():
    value, tangent = jax.jvp(root, (4.0,), (2.0,))
    assert (float(value), float(tangent)) == (pytest.approx(2.0), pytest.approx(0.5, rel=1e-5))


def test_second_order():
    assert jax.grad(jax.grad(root))(4.0) == pytest.approx(-0.25 * 4**-1.5, rel=1e-4)
    assert jax.hessian(root)(4.0) == pytest.approx(-0.25 * 4**-1.5, rel=1e-4)


def test_batches():
    values = jnp.array([1.0, 4.0, 9.0])
    np.testing.assert_allclose(jax.vmap(root)(values), [1, 2, 3], rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(jax.grad(root))(values), [1 / 2, 1 / 4, 1 / 6], rtol=1e-4)
    np.testing.assert_allclose(jax.grad(lambda x: jax.vmap(root)(x).sum())(values), [1 / 2, 1 / 4, 1 / 6], rtol=1e-4)


def halved_until_small(weights, x):
    """Halved until it is small: how often depends on the example."""
    step = lambda state: (jnp.sin(weights * state[0]) * 0.5, state[1] + state[0].sum())  # noqa: E731
    return lax.while_loop(lambda state: jnp.abs(state[0]).max() > 0.05, step, (x, 0.0 * x.sum()))[1]


halved = hloom.differentiable(halved_until_small)

WEIGHTS = jnp.array([0.9, 1.1, 0.7])
EXAMPLES = jnp.array([[0.1, 0.3, 0.2], [1.0, 2.0, -1.5], [0.01, 0.02, 0.0], [3.0, -2.0, 1.0]])
TRANSFORMED = {
    "gradient of the weights": (jax.grad(halved), (None, 0)),
    "gradient of the examples": (jax.grad(halved, 1), (None, 0)),
    "gradient of both": (jax.grad(halved, (0, 1)), (None, 0)),
    "traced before": (jax.jit(jax.grad(halved)), (None, 0)),
    "second order": (jax.hessian(halved, 1), (None, 0)),
    "reverse over reverse": (jax.jacrev(jax.grad(halved)), (None, 0)),
    "forward": (lambda w, x: jax.jvp(halved, (w, x), (x, w)), (None, 0)),
    "batches of batches": (lambda w, x: jax.vmap(jax.grad(halved), (0, None))(jnp.stack([w, 0.5 * w]), x), (None, 0)),
    "inside a loss": (jax.grad(lambda w, x: jax.vmap(lambda v: halved(w, v * x))(EXAMPLES).sum() ** 2), (None, 0)),
    "gradient of gradients": (
        jax.grad(lambda w, x: jax.vmap(lambda v: (jax.grad(halved)(w, v * x) ** 2).sum())(EXAMPLES).sum()), (None, 0)
    ),
    "other dimensions": (jax.grad(halved, 1), (None, 1)),
}


CHEAP = ("gradient of both", "other dimensions")


@pytest.mark.parametrize(
    "name", [name if name in CHEAP else pytest.param(name, marks=pytest.mark.long) for name in TRANSFORMED]
)
def test_batches_of_derivatives(name: str):
    function, axes = TRANSFORMED[name]
    examples = jnp.moveaxis(EXAMPLES, 0, axes[1])
    batched = jax.vmap(function, axes)
    wanted = jax.tree.map(lambda *parts: jnp.stack(parts), *[function(WEIGHTS, example) for example in EXAMPLES])
    jax.tree.map(lambda got, want: np.testing.assert_allclose(got, want, 2e-4, 2e-5), batched(WEIGHTS, examples), wanted)


def test_a_batch_of_derivatives_is_one_program():
    """The body of the loop works on whole batches: no loop takes one example after the other."""
    text = jax.jit(jax.vmap(jax.grad(halved), (None, 0))).lower(WEIGHTS, jnp.ones((17, 3))).as_text()
    assert "sine" in text
    assert "17x3xf32" in text
    assert "tensor<1x3xf32>" not in text.replace("128x", "")


@pytest.mark.parametrize("uses_shardy", [True, False])
def test_devices_that_work_by_hand(uses_shardy: bool):
    """A dynamic loop inside shard_map, whichever partitioner is on; of one device, whose sum is its own."""
    mesh = jax.make_mesh((1,), ("d",), devices=jax.devices()[:1], axis_types=(jax.sharding.AxisType.Auto,))
    by_hand = jax.shard_map(
        lambda w, x: lax.psum(halved_until_small(w, x), "d"), mesh=mesh, in_specs=(spec("d"), spec("d")), out_specs=spec(),
        check_vma=False,
    )  # fmt: skip
    former = jax.config.jax_use_shardy_partitioner
    jax.config.update("jax_use_shardy_partitioner", uses_shardy)
    try:
        gradient = jax.jit(jax.grad(hloom.differentiable(by_hand)))(WEIGHTS, EXAMPLES[1])
    finally:
        jax.config.update("jax_use_shardy_partitioner", former)
    np.testing.assert_allclose(gradient, jax.grad(halved)(WEIGHTS, EXAMPLES[1]), rtol=1e-5)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_devices_that_work_by_hand_within_the_function(is_compiled: bool):
    """Arguments that are on no device in particular are put on those of the mesh."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
    size = len(jax.devices())
    rows = jnp.linspace(-1.0, 2.0, 2 * size).reshape(2 * size, 1)

    def total(w, x):
        return jax.shard_map(
            lambda w, x: lax.psum(jnp.tanh(w * x).sum(), "d"), mesh=mesh, in_specs=(spec(), spec("d")), out_specs=spec()
        )(w, x)  # fmt: skip

    gradient = jax.grad(hloom.differentiable(total), (0, 1))
    made = (jax.jit(gradient) if is_compiled else gradient)(jnp.float32(0.5), rows)
    for value, wanted in zip(made, jax.grad(lambda w, x: jnp.tanh(w * x).sum(), (0, 1))(0.5, rows), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


@pytest.mark.long
def test_eight_devices_that_work_by_hand():
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    result = subprocess.run(
        [*command, "-k", "within_the_function or varia"], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout


def test_values_whose_variation_over_devices_is_checked_are_refused():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
    inner = hloom.differentiable(lambda x: lax.psum(jnp.tanh(x).sum(), "d"))
    outer = jax.shard_map(inner, mesh=mesh, in_specs=(spec("d"),), out_specs=spec())
    with pytest.raises(hloom.HloomError, match="checks over which axes of the mesh values vary") as raised:
        jax.grad(outer)(jnp.ones(2 * len(jax.devices())))
    assert "check_vma=False" in str(raised.value)


def test_trees_and_integers():
    value, gradient = jax.value_and_grad(loss)(PARAMETERS)
    wanted_value, wanted = jax.value_and_grad(unrolled)(PARAMETERS)
    np.testing.assert_allclose(value, wanted_value, rtol=1e-5)
    for name in PARAMETERS:
        np.testing.assert_allclose(gradient[name], wanted[name], rtol=1e-4, atol=1e-5)


def test_inside_a_larger_program():
    def whole(function, parameters):
        step = lambda carry, _: (carry + 1e-3 * function(parameters) * carry, None)  # noqa: E731
        return lax.scan(step, 1.0, None, length=3)[0]

    gradient = jax.jit(jax.grad(lambda p: whole(loss, p)))(PARAMETERS)
    wanted = jax.grad(lambda p: whole(unrolled, p))(PARAMETERS)
    np.testing.assert_allclose(gradient["w"], wanted["w"], rtol=1e-4, atol=1e-6)
    again = jax.grad(jax.checkpoint(loss))(PARAMETERS)
    np.testing.assert_allclose(again["b"], jax.grad(unrolled)(PARAMETERS)["b"], rtol=1e-4)


def test_what_is_not_a_function_is_refused():
    with pytest.raises(hloom.HloomError, match="expected a function to differentiate, not int"):
        hloom.differentiable(3)  # pyright: ignore[reportCallIssue, reportArgumentType]
