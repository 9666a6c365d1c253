"""Samplers, solvers of differential equations, random numbers and linear algebra: numpyro, diffrax, equinox, jax."""

from __future__ import annotations

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import lax
from jax.experimental.ode import odeint
from numpyro.infer import HMC, NUTS, SA
from numpyro.infer.reparam import LocScaleReparam

from .registry import floats, integers, key, program


def sampled(kernel: Any, *data: Any) -> tuple[Any, tuple[Any, ...]]:
    """One transition of a kernel."""
    state = kernel.init(key(), 10, None, data, {})
    return jax.jit(lambda state, *data: kernel.sample(state, data, {})), (state, *data)


@program
def eight_schools_by_nuts() -> Any:
    @numpyro.handlers.reparam(config={"effect": LocScaleReparam(0)})
    def model(error, y):
        centre = numpyro.sample("centre", dist.Normal(0, 5))
        spread = numpyro.sample("spread", dist.HalfCauchy(5))
        with numpyro.plate("schools", 8):
            effect = numpyro.sample("effect", dist.Normal(centre, spread))
            numpyro.sample("y", dist.Normal(effect, error), obs=y)

    return sampled(NUTS(model), jnp.ones(8), floats(8))


@program
def poisson_regression_by_nuts_with_dense_mass() -> Any:
    def model(x, y):
        weights = numpyro.sample("weights", dist.Normal(floats(24), 1.0))
        spread = numpyro.sample("spread", dist.Gamma(2.0, 1.0))
        numpyro.sample("y", dist.Poisson(jnp.exp(x @ weights * spread)), obs=y)

    return sampled(NUTS(model, dense_mass=True, max_tree_depth=8), floats(1000, 24), floats(1000))


@program
def chains_of_nuts_side_by_side() -> Any:
    def model(x, y):
        weights = numpyro.sample("weights", dist.Laplace(floats(12), 1.0))
        numpyro.sample("y", dist.Normal(x @ weights, 0.5), obs=y)

    kernel, data = NUTS(model), (floats(400, 12), floats(400))
    state = kernel.init(jax.random.split(key(), 4), 10, None, data, {})
    return jax.jit(lambda state, *data: kernel.sample(state, data, {})), (state, *data)


@program
def mixture_by_hmc_for_many_steps() -> Any:
    def model(y):
        shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(5)))
        centres = numpyro.sample("centres", dist.Normal(floats(5), 3.0))
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(shares), dist.Normal(centres, 1.0)), obs=y)

    kernel, y = HMC(model, trajectory_length=1.0), floats(2000)
    state = kernel.init(key(), 10, None, (y,), {})

    def run(state, y):
        return lax.scan(lambda s, _: (kernel.sample(s, (y,), {}), s.z), state, length=30)

    return jax.jit(run, donate_argnums=0), (state, y)


@program
def state_space_model_by_nuts() -> Any:
    def model(y):
        drift = numpyro.sample("drift", dist.Normal(0, 1))
        spread = numpyro.sample("spread", dist.Exponential(1.0))
        with numpyro.handlers.reparam(config={"path": numpyro.infer.reparam.TransformReparam()}):
            path = numpyro.sample(
                "path",
                dist.TransformedDistribution(
                    dist.GaussianRandomWalk(1.0, len(y)), dist.transforms.AffineTransform(drift, spread)
                ),
            )
        numpyro.sample("y", dist.StudentT(3.0, path, 0.3), obs=y)

    return sampled(NUTS(model), floats(300))


@program
def adaptive_ensemble_sampler() -> Any:
    def model(y):
        centre = numpyro.sample("centre", dist.Normal(floats(6), 1.0))
        spread = numpyro.sample("spread", dist.LogNormal(floats(6), 1.0))
        numpyro.sample("y", dist.Normal(centre, spread).to_event(1), obs=y)

    return sampled(SA(model), floats(64, 6))


@program
def stiff_reaction() -> Any:
    def field(time, y, rates):
        a, b, c = y
        first, second, third = rates[0] * a, rates[1] * b * c, rates[2] * b**2
        return jnp.stack([second - first, first - second - third, third])

    def solve(start, rates):
        saved = diffrax.SaveAt(ts=jnp.linspace(0.0, 10.0, 50))
        steps = diffrax.PIDController(1e-4, 1e-6)
        term = diffrax.ODETerm(field)
        return diffrax.diffeqsolve(
            term, diffrax.Kvaerno5(), 0.0, 10.0, 1e-3, start, rates, saveat=saved, stepsize_controller=steps
        ).ys

    return jax.jit(solve), (floats(3), floats(3))


@program
def stochastic_paths() -> Any:
    def path(random, start):
        motion = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-3, (16,), random)
        drift = diffrax.ODETerm(lambda t, y, args: -y)
        noise = diffrax.ControlTerm(lambda t, y, args: 0.1 * jnp.eye(16) * (1 + y**2), motion)
        terms = diffrax.MultiTerm(drift, noise)
        return diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 1.0, 0.01, start, saveat=diffrax.SaveAt(t1=True)).ys

    return jax.jit(jax.vmap(path)), (jax.random.split(key(), 50), floats(50, 16))


@program
def predator_and_prey_fitted() -> Any:
    def field(time, y, p):
        x, z = y
        return p[0] * x - p[1] * x * z, p[2] * x * z - p[3] * z

    def loss(p, starts, targets):
        def one(start):
            saved = diffrax.SaveAt(ts=jnp.linspace(0.0, 5.0, 20))
            term, steps = diffrax.ODETerm(field), diffrax.PIDController(1e-3, 1e-4)
            return diffrax.diffeqsolve(
                term, diffrax.Tsit5(), 0.0, 5.0, 0.1, start, p, saveat=saved, stepsize_controller=steps, max_steps=128
            ).ys

        made = jax.vmap(one)(starts)
        return sum(((a - b) ** 2).mean() for a, b in zip(made, targets, strict=True))

    starts, targets = (floats(40), floats(40)), (floats(40, 20), floats(40, 20))
    return jax.jit(jax.value_and_grad(loss)), (floats(4), starts, targets)


@program
def wave_on_a_grid_by_odeint() -> Any:
    def field(state, time, speed):
        u, v = state
        bend = sum(jnp.roll(u, shift, axis) for shift in (1, -1) for axis in (0, 1)) - 4 * u
        return v, speed * bend - 0.1 * v

    def loss(speed, u, v):
        end, _ = odeint(field, (u, v), jnp.linspace(0.0, 1.0, 5), speed)
        return (end[-1] ** 2).sum()

    return jax.jit(jax.grad(loss)), (floats(48, 48), floats(48, 48), floats(48, 48))


@program
def controlled_equation_of_equinox() -> Any:
    field = eqx.nn.MLP(8, 8 * 4, 32, 1, activation=jax.nn.softplus, final_activation=jnp.tanh, key=key())
    weights, static = eqx.partition(field, eqx.is_array)

    def loss(weights, times, series):
        def one(values):
            rows = diffrax.backward_hermite_coefficients(times, values)
            control = diffrax.CubicInterpolation(times, rows)
            term = diffrax.ControlTerm(
                lambda t, y, args: eqx.combine(weights, static)(y).reshape(8, 4), control
            ).to_ode()
            return diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.05, jnp.zeros(8), max_steps=64).ys[-1]

        return (jax.vmap(one)(series) ** 2).mean()

    return jax.jit(jax.value_and_grad(loss)), (weights, jnp.linspace(0.0, 1.0, 30), floats(32, 30, 4))


@program
def draws_of_many_distributions() -> Any:
    def draw(random, shape, logits):
        keys = jax.random.split(random, 10)
        return (
            jax.random.gamma(keys[0], shape, (200, 50)),
            jax.random.dirichlet(keys[1], shape, (100,)),
            jax.random.poisson(keys[2], 4.0, (300, 20)),
            jax.random.truncated_normal(keys[3], -1.0, 2.0, (500,)),
            jax.random.categorical(keys[4], logits, shape=(64, 30)),
            jax.random.permutation(keys[5], 5000),
            jax.random.choice(keys[6], 2000, (300,), replace=False),
            jax.random.multivariate_normal(keys[7], shape, jnp.eye(50), (40,)),
            jax.random.binomial(keys[8], 20, 0.3, (60, 40)),
            jax.random.orthogonal(keys[9], 24),
        )

    return jax.jit(draw), (key(), jnp.ones(50), floats(30))


@program
def bits_of_threefry_and_rbg() -> Any:
    def draw(random):
        first, second = jax.random.split(random)
        many = jax.vmap(lambda k: jax.random.uniform(k, (37,)))(jax.random.split(first, 113))
        words = jax.random.bits(second, (1001, 3), jnp.uint16), jax.random.bits(first, (77,), jnp.uint8)
        fast = jax.random.normal(jax.random.key(3, impl="rbg"), (129, 7))
        return many, words, fast, jax.random.randint(second, (5, 13), 0, 1000)

    return jax.jit(draw), (key(),)


@program
def particle_filter() -> Any:
    def step(carry, seen):
        random, particles = carry
        random, move, draw = jax.random.split(random, 3)
        particles = 0.9 * particles + jax.random.normal(move, particles.shape)
        scores = -0.5 * ((particles[:, :2] - seen) ** 2).sum(-1)
        chosen = jax.random.categorical(draw, scores, shape=(particles.shape[0],))
        return (random, particles[chosen]), jax.nn.logsumexp(scores)

    return jax.jit(lambda random, start, seen: lax.scan(step, (random, start), seen)), (
        key(),
        floats(1000, 8),
        floats(100, 2),
    )


@program
def annealed_chains() -> Any:
    def energy(x):
        return (x**4 - 3 * x**2).sum(-1) + 0.1 * (x[..., 1:] * x[..., :-1]).sum(-1)

    def step(state, heat):
        random, x = state
        random, first, second, third = jax.random.split(random, 4)
        proposal = x + 0.2 * jax.random.normal(first, x.shape)
        taken = jnp.log(jax.random.uniform(second, x.shape[:1])) < (energy(x) - energy(proposal)) / heat
        x = jnp.where(taken[:, None], proposal, x)
        partner = jax.random.permutation(third, x.shape[0])
        return (random, jnp.where((energy(x[partner]) < energy(x))[:, None], x[partner], x)), energy(x).mean()

    return jax.jit(lambda state, heats: lax.scan(step, state, heats)), ((key(), floats(128, 10)), jnp.ones(200))


@program
def decompositions() -> Any:
    def all_of(a, b):
        u, s, vt = jnp.linalg.svd(a, full_matrices=False)
        values, vectors = jnp.linalg.eigh(a.T @ a)
        _, r = jnp.linalg.qr(a)
        return (u * s) @ vt, vectors * values, jnp.linalg.lstsq(a, b)[0], jnp.linalg.pinv(a), jnp.linalg.slogdet(r)[1]

    return jax.jit(all_of), (floats(90, 60), floats(90, 4))


@program
def exponentials_and_batched_solves() -> Any:
    def loss(a, b):
        made = jax.vmap(jax.scipy.linalg.expm)(0.1 * a)
        return (jnp.linalg.solve(made + 2 * jnp.eye(20), b) ** 2).sum()

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1))), (floats(16, 20, 20), floats(16, 20, 3))


@program
def krylov_methods() -> Any:
    def apply(matrix, x):
        return matrix @ (matrix.T @ x) + x

    def solve(matrix, b):
        first, _ = jax.scipy.sparse.linalg.cg(lambda x: apply(matrix, x), b, maxiter=50)
        second, _ = jax.scipy.sparse.linalg.gmres(lambda x: apply(matrix, x) + 0.1 * jnp.roll(x, 1), b, restart=12)
        third, _ = jax.scipy.sparse.linalg.bicgstab(lambda x: apply(matrix, x) - 0.1 * jnp.roll(x, 1), b)
        return first, second, third

    return jax.jit(solve), (floats(150, 100), floats(150))


@program
def spectral_flow() -> Any:
    grid = 64
    waves = jnp.fft.fftfreq(grid) * grid
    kx, ky = waves[:, None], waves[None, : grid // 2 + 1]
    squared = kx**2 + ky**2
    inverse = jnp.where(squared == 0, 0.0, 1 / jnp.where(squared == 0, 1.0, squared))

    def field(w):
        stream = w * inverse
        u, v = jnp.fft.irfft2(1j * ky * stream), jnp.fft.irfft2(-1j * kx * stream)
        wx, wy = jnp.fft.irfft2(1j * kx * w), jnp.fft.irfft2(1j * ky * w)
        return -jnp.fft.rfft2(u * wx + v * wy) - 1e-3 * squared * w

    def step(w, _):
        middle = w + 0.005 * field(w)
        return w + 0.01 * field(middle), jnp.abs(w).max()

    return jax.jit(lambda w: lax.scan(step, jnp.fft.rfft2(w), length=50)), (floats(grid, grid),)


@program
def lanczos_with_reorthogonalisation() -> Any:
    def run(matrix, start):
        def step(carry, row):
            basis, vector, previous, beta = carry
            moved = matrix @ vector - beta * previous
            alpha = moved @ vector
            moved = moved - alpha * vector
            moved = moved - basis.T @ (basis @ moved)
            norm = jnp.linalg.norm(moved)
            basis = basis.at[row].set(moved / norm)
            return (basis, moved / norm, vector, norm), (alpha, norm)

        zero = jnp.zeros_like(start)
        (basis, *_), (alpha, beta) = lax.scan(
            step, (floats(30, len(start)), start, zero, jnp.float32(0)), jnp.arange(30)
        )
        return jnp.linalg.eigvalsh(jnp.diag(alpha) + jnp.diag(beta[:-1], 1) + jnp.diag(beta[:-1], -1)), basis

    return jax.jit(run), (floats(256, 256), floats(256))


@program
def hidden_markov_models() -> Any:
    def forward(starts, moves, seen, series):
        def step(alpha, symbol):
            alpha = jax.nn.logsumexp(alpha[:, None] + moves, 0) + seen[:, symbol]
            return alpha, alpha

        last, _ = lax.scan(step, starts + seen[:, series[0]], series[1:])
        return jax.nn.logsumexp(last)

    def loss(p, many):
        return -jax.vmap(forward, (None, None, None, 0))(*p, many).mean()

    return jax.jit(jax.value_and_grad(loss)), ((floats(16), floats(16, 16), floats(16, 40)), integers(32, 60))


@program
def bootstrap_of_regressions() -> Any:
    def one(random, x, y):
        rows = jax.random.choice(random, len(x), (len(x),))
        a, b = x[rows], y[rows]
        factor = jax.scipy.linalg.cho_factor(a.T @ a + 1e-3 * jnp.eye(x.shape[1]))
        return jax.scipy.linalg.cho_solve(factor, a.T @ b)

    def run(random, x, y):
        fits = jax.vmap(one, (0, None, None))(jax.random.split(random, 100), x, y)
        return jnp.percentile(fits, jnp.array([5.0, 50.0, 95.0]), axis=0)

    return jax.jit(run), (key(), floats(250, 6), floats(250))
