"""Inference, differential equations, optimisation and physics: numpyro, diffrax, jaxopt, equinox, haiku, mujoco-mjx."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import jaxopt
import numpyro
import numpyro.distributions as dist
import optax
from jax import lax
from numpyro.infer import HMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

from .registry import cross_entropy, floats, integers, key, program


@program
def logistic_regression_by_nuts() -> Any:
    def model(x, y):
        weights = numpyro.sample("weights", dist.Normal(floats(8), 1.0))
        bias = numpyro.sample("bias", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Bernoulli(logits=x @ weights + bias), obs=y)

    kernel, data = NUTS(model), (floats(200, 8), floats(200))
    state = kernel.init(key(), 10, None, data, {})
    return jax.jit(lambda state, *data: kernel.sample(state, data, {})), (state, *data)


@program
def gaussian_process_by_hmc() -> Any:
    x = floats(40, 1)

    def model(x, y):
        length = numpyro.sample("length", dist.LogNormal(0.0, 1.0))
        scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
        covariance = scale * jnp.exp(-0.5 * (x - x.T) ** 2 / length) + 0.1 * jnp.eye(40)
        numpyro.sample("y", dist.MultivariateNormal(floats(40), covariance), obs=y)

    kernel = HMC(model, num_steps=5)
    state = kernel.init(key(), 10, None, (x, floats(40)), {})
    return jax.jit(lambda state, *data: kernel.sample(state, data, {})), (state, x, floats(40))


@program
def linear_regression_by_svi() -> Any:
    def model(x, y):
        weights = numpyro.sample("weights", dist.Normal(floats(16), 1.0))
        numpyro.sample("y", dist.Normal(x @ weights, 0.1), obs=y)

    inference = SVI(model, AutoNormal(model), numpyro.optim.Adam(1e-2), Trace_ELBO(4))
    data = (floats(300, 16), floats(300))
    return jax.jit(inference.update), (inference.init(key(), *data), *data)


def _field(time: Any, y: Any, rate: Any) -> Any:
    return -rate * y + jnp.sin(y)


@program
def differential_equation() -> Any:
    def solve(start, rate):
        steps = diffrax.PIDController(1e-4, 1e-4)
        term = diffrax.ODETerm(_field)
        return diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0.0, 1.0, 0.1, start, args=rate, stepsize_controller=steps
        ).ys

    return jax.jit(solve), (floats(64), floats(64))


@program
def differential_equation_gradient() -> Any:
    def loss(start, rate):
        term = diffrax.ODETerm(_field)
        solution = diffrax.diffeqsolve(term, diffrax.Dopri5(), 0.0, 1.0, 0.05, start, args=rate, max_steps=64)
        return jnp.sum(solution.ys**2)

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1))), (floats(512), floats(512))


@program
def limited_memory_bfgs() -> Any:
    solver = jaxopt.LBFGS(lambda w, x: jnp.sum(jnp.logaddexp(0, x @ w)) + 0.01 * w @ w, maxiter=20)
    return jax.jit(lambda w, x: solver.run(w, x).params), (floats(20), floats(100, 20))


@program
def physics_step() -> Any:
    import mujoco
    from mujoco import mjx

    text = (
        '<mujoco><worldbody><geom type="plane" size="5 5 .1"/><body pos="0 0 1"><freejoint/><geom size=".1"/>'
        '<body pos=".2 0 0"><joint type="hinge" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 .3 0 0"/>'
        "</body></body></worldbody></mujoco>"
    )
    model = mjx.put_model(mujoco.MjModel.from_xml_string(text))
    return jax.jit(mjx.step), (model, mjx.make_data(model))


@program
def equinox_perceptron() -> Any:
    weights, static = eqx.partition(eqx.nn.MLP(64, 10, 256, 3, key=key()), eqx.is_array)

    def step(weights, x, y):
        value, gradients = jax.value_and_grad(lambda w: cross_entropy(jax.vmap(eqx.combine(w, static))(x), y))(weights)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients), value

    return jax.jit(step), (weights, floats(512, 64), integers(512))


@program
def equinox_attention() -> Any:
    weights, static = eqx.partition(eqx.nn.MultiheadAttention(4, 128, key=key()), eqx.is_array)
    return jax.jit(lambda w, x: jax.vmap(lambda x: eqx.combine(w, static)(x, x, x))(x)), (weights, floats(8, 64, 128))


@program
def haiku_language_model() -> Any:
    def forward(x):
        core = hk.LSTM(128)
        outputs, _ = hk.dynamic_unroll(core, hk.Embed(500, 64)(x), core.initial_state(x.shape[0]), time_major=False)
        return hk.Linear(500)(outputs)

    model, optimizer, x = hk.without_apply_rng(hk.transform(forward)), optax.adam(1e-3), integers(8, 64)
    weights = model.init(key(), x)

    def step(weights, state, x):
        value, gradients = jax.value_and_grad(lambda w: cross_entropy(model.apply(w, x), x))(weights)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(weights, updates), state, value

    return jax.jit(step, donate_argnums=(0, 1)), (weights, optimizer.init(weights), x)


@program
def molecular_dynamics() -> Any:
    def energy(r):
        gaps = r[:, None] - r[None]
        inverse = 1 / (jnp.sum(gaps * gaps, -1) + jnp.eye(len(r))) ** 3
        return jnp.sum(jnp.triu(inverse * inverse - inverse, 1))

    def step(state, _):
        r, v = state
        v = v - 0.001 * jax.grad(energy)(r)
        return (r + 0.001 * v, v), energy(r)

    return jax.jit(lambda r, v: lax.scan(step, (r, v), None, length=20)), (floats(128, 3), floats(128, 3))
