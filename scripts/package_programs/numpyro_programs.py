"""Samplers and variational inference of numpyro: a step of each."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpyro  # pyright: ignore[reportMissingImports]
import numpyro.distributions as dist  # pyright: ignore[reportMissingImports]
from numpyro.contrib.control_flow import scan  # pyright: ignore[reportMissingImports]
from numpyro.infer import (  # pyright: ignore[reportMissingImports]
    HMC,
    NUTS,
    SA,
    SVI,
    BarkerMH,
    DiscreteHMCGibbs,
    HMCGibbs,
    MixedHMC,
    Predictive,
    RenyiELBO,
    Trace_ELBO,
    TraceGraph_ELBO,
    TraceMeanField_ELBO,
    autoguide,
)  # fmt: skip
from numpyro.infer.reparam import LocScaleReparam  # pyright: ignore[reportMissingImports]

from .jax_calls import floats, integers, key, texts
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def _regression(x: Any, y: Any = None) -> None:
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[-1]]).to_event(1))
    scale = numpyro.sample("scale", dist.Exponential(1.0))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.StudentT(4.0, x @ weights, scale), obs=y)


def _schools(y: Any) -> None:
    mean, spread = numpyro.sample("mean", dist.Normal(0, 5)), numpyro.sample("spread", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(y)):
        effect = numpyro.sample("effect", dist.Normal(mean, spread))
        numpyro.sample("y", dist.Normal(effect, 2.0), obs=y)


def _mixture(y: Any) -> None:
    weights = numpyro.sample("shares", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("components", 3):
        means = numpyro.sample("means", dist.Normal(0, 3))
    with numpyro.plate("data", len(y)):
        component = numpyro.sample("component", dist.Categorical(weights))
        numpyro.sample("y", dist.Normal(means[component], 1.0), obs=y)


def _sampler_step(kernel: Any, *arguments: Any) -> Call:
    data = tuple(jnp.zeros(argument.shape, argument.dtype) for argument in arguments)
    state = kernel.init(key(), 10, None, data, {})
    return (lambda state, *data: kernel.sample(state, data, {})), (state, *arguments)


def _inference_step(inference: Any, *arguments: Any) -> Call:
    data = tuple(jnp.zeros(argument.shape, argument.dtype) for argument in arguments)
    return inference.update, (inference.init(key(), *data), *arguments)


@program
def hmc_dense_mass() -> Call:
    return _sampler_step(
        HMC(_regression, num_steps=4, dense_mass=True, trajectory_length=None), floats(10, 3), floats(10)
    )


@program
def nuts_schools_reparametrized() -> Call:
    model = numpyro.handlers.reparam(_schools, config={"effect": LocScaleReparam(0)})
    return _sampler_step(NUTS(model, max_tree_depth=4), floats(8))


@program
def sample_adaptive() -> Call:
    return _sampler_step(SA(_schools, adapt_state_size=6), floats(8))


@program
def barker() -> Call:
    return _sampler_step(BarkerMH(_regression), floats(10, 3), floats(10))


@program
def gibbs_of_discrete() -> Call:
    return _sampler_step(DiscreteHMCGibbs(NUTS(_mixture, max_tree_depth=2), modified=True), floats(6))


@program
def gibbs_by_function() -> Call:
    def update(rng_key: Any, gibbs_sites: Any, hmc_sites: Any) -> Any:
        return {"mean": hmc_sites["effect"].mean() + jax.random.normal(rng_key)}

    return _sampler_step(HMCGibbs(HMC(_schools, num_steps=3, trajectory_length=None), update, ["mean"]), floats(8))


@program
def mixed_hmc() -> Call:
    return _sampler_step(
        MixedHMC(HMC(_mixture, num_steps=2, trajectory_length=None), num_discrete_updates=4), floats(6)
    )


@program
def autoregressive_flow_guide() -> Call:
    guide = autoguide.AutoIAFNormal(_regression, num_flows=1, hidden_dims=[8])
    return _inference_step(
        SVI(_regression, guide, numpyro.optim.ClippedAdam(1e-2), Trace_ELBO()), floats(9, 2), floats(9)
    )


@program
def block_neural_flow_guide() -> Call:
    guide = autoguide.AutoBNAFNormal(_schools, num_flows=1, hidden_factors=[2])
    return _inference_step(SVI(_schools, guide, numpyro.optim.RMSProp(1e-2), RenyiELBO(2, 3)), floats(8))


@program
def low_rank_guide() -> Call:
    guide = autoguide.AutoLowRankMultivariateNormal(_regression, rank=2)
    inference = SVI(_regression, guide, numpyro.optim.Adagrad(1e-2), Trace_ELBO(num_particles=3))
    return _inference_step(inference, floats(9, 4), floats(9))


@program
def mean_field_of_network() -> Call:
    def model(x: Any, y: Any) -> None:
        hidden = x
        for index, (rows, columns) in enumerate(((3, 6), (6, 1))):
            normal = dist.Normal(jnp.zeros((rows, columns)), jnp.ones((rows, columns))).to_event(2)
            hidden = jnp.tanh(hidden @ numpyro.sample(f"weights{index}", normal))
        precision = numpyro.sample("precision", dist.Gamma(3.0, 1.0))
        numpyro.sample("y", dist.Normal(hidden[:, 0], 1 / jnp.sqrt(precision)).to_event(1), obs=y)

    inference = SVI(model, autoguide.AutoNormal(model), numpyro.optim.Adam(1e-2), TraceMeanField_ELBO())
    return _inference_step(inference, floats(7, 3), floats(7))


@program
def discrete_guide() -> Call:
    def model(y: Any) -> None:
        chosen = numpyro.sample("chosen", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(chosen * 2.0, 1.0).expand([4]).to_event(1), obs=y)

    def guide(y: Any) -> None:
        share = numpyro.param("share", 0.5, constraint=dist.constraints.unit_interval)
        numpyro.sample("chosen", dist.Bernoulli(share))

    return _inference_step(SVI(model, guide, numpyro.optim.SGD(0.1), TraceGraph_ELBO()), floats(4))


@program
def hidden_markov_enumerated() -> Call:
    def model(y: Any) -> None:
        with numpyro.plate("states", 3):
            transitions = numpyro.sample("transitions", dist.Dirichlet(jnp.ones(3)))
            means = numpyro.sample("means", dist.Normal(0, 2))

        def step(state: Any, value: Any) -> Any:
            state = numpyro.sample("state", dist.Categorical(transitions[state]), infer={"enumerate": "parallel"})
            numpyro.sample("y", dist.Normal(means[state], 1.0), obs=value)
            return state, None

        scan(step, 0, y)

    return _sampler_step(NUTS(model, max_tree_depth=2), floats(5))


@program
def local_level_series() -> Call:
    def model(y: Any) -> None:
        scale, drift = numpyro.sample("scale", dist.LogNormal(0, 1)), numpyro.sample("drift", dist.Normal(0, 1))

        def step(level: Any, value: Any) -> Any:
            level = numpyro.sample("level", dist.Normal(level + drift, scale))
            return numpyro.sample("y", dist.Laplace(level, 1.0), obs=value), None

        scan(step, 0.0, y)

    return _sampler_step(HMC(model, num_steps=3, trajectory_length=None, adapt_step_size=False), floats(6))


@program
def predictive_draws() -> Call:
    def draw(key: Any, weights: Any, scale: Any, x: Any) -> Any:
        return Predictive(_regression, {"weights": weights, "scale": scale})(key, x)["y"]

    return draw, (key(), floats(5, 3), floats(5), floats(10, 3))


@program
def log_densities() -> Call:
    """Densities of many distributions, and their gradients."""

    def total(x: Any, rate: Any, count: Any) -> Any:
        densities = (
            dist.GammaPoisson(rate, rate).log_prob(count), dist.ZeroInflatedPoisson(0.2, rate).log_prob(count),
            dist.BetaBinomial(rate, rate, 12).log_prob(count), dist.Weibull(rate, 1.5).log_prob(rate),
            dist.Kumaraswamy(rate, rate).log_prob(jax.nn.sigmoid(x)), dist.Gumbel(x, rate).log_prob(x),
            dist.TruncatedNormal(x, rate, low=-3.0, high=3.0).log_prob(x), dist.VonMises(x, rate).log_prob(x),
            dist.AsymmetricLaplace(x, rate, 0.7).log_prob(x), dist.Wishart(5.0, jnp.eye(2)).log_prob(jnp.eye(2)),
        )  # fmt: skip
        return sum(jnp.sum(density) for density in densities)

    return jax.value_and_grad(total, (0, 1)), (floats(4), floats(4), integers(4))
