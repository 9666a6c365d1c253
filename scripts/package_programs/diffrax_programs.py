"""Solvers of differential equations: explicit, implicit, split, symplectic, stochastic; adjoints, events, paths."""

from __future__ import annotations

from functools import partial
from typing import Any

import diffrax  # pyright: ignore[reportMissingImports]
import jax
import jax.numpy as jnp
import optimistix  # pyright: ignore[reportMissingImports]

from .jax_calls import floats, key, texts
from .registry import Call, Program, register

__all__ = ["PROGRAMS", "texts"]

PROGRAMS: dict[str, Program] = {}
program = partial(register, PROGRAMS)


def _oscillator(t: Any, y: Any, rate: Any) -> Any:
    return jnp.stack([y[1], rate * (1 - y[0] ** 2) * y[1] - y[0] + jnp.sin(t)])


def _solve(solver: Any, **options: Any) -> Call:
    def solve(y: Any, rate: Any) -> Any:
        terms = diffrax.ODETerm(_oscillator)
        options.setdefault("max_steps", 16)
        return diffrax.diffeqsolve(terms, solver, 0.0, 1.0, 0.1, y, args=rate, throw=False, **options).ys

    return solve, (floats(2), floats())


@program
def bosh3_steps() -> Call:
    return _solve(diffrax.Bosh3(), saveat=diffrax.SaveAt(steps=True))


@program
def dopri8_dense() -> Call:
    control = diffrax.PIDController(rtol=1e-5, atol=1e-7, pcoeff=0.3, icoeff=0.4)

    def solve(y: Any, rate: Any, times: Any) -> Any:
        saved = diffrax.SaveAt(dense=True)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(_oscillator), diffrax.Dopri8(), 0.0, 1.0, 0.1, y, rate,
            saveat=saved, stepsize_controller=control, max_steps=16, throw=False,
        )  # fmt: skip
        return jax.vmap(solution.evaluate)(times), jax.vmap(solution.derivative)(times)

    return solve, (floats(2), floats(), floats(5))


@program
def kvaerno5_stiff() -> Call:
    return _solve(diffrax.Kvaerno5(), stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5))


@program
def implicit_euler() -> Call:
    solver = diffrax.ImplicitEuler(diffrax.VeryChord(1e-4, 1e-4, optimistix.max_norm))
    return _solve(solver, saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 4)))


@program
def leapfrog_midpoint() -> Call:
    return _solve(diffrax.LeapfrogMidpoint())


@program
def reversible_heun_adjoint() -> Call:
    solve, arguments = _solve(diffrax.ReversibleHeun())
    return jax.value_and_grad(lambda y, rate: solve(y, rate).sum(), (0, 1)), arguments


@program
def direct_adjoint() -> Call:
    solve, arguments = _solve(diffrax.Ralston(), adjoint=diffrax.DirectAdjoint())
    return jax.jacfwd(lambda rate, y: solve(y, rate)), arguments[::-1]


@program
def checkpointed_adjoint() -> Call:
    adjoint = diffrax.RecursiveCheckpointAdjoint(checkpoints=3)
    solve, arguments = _solve(diffrax.Midpoint(), adjoint=adjoint)
    return jax.value_and_grad(lambda y, rate: (solve(y, rate) ** 2).sum()), arguments


@program
def ken_carp4_split() -> Call:
    def solve(y: Any, rate: Any) -> Any:
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, rate: jnp.cos(t) + y * 0), diffrax.ODETerm(lambda t, y, rate: -rate * y)
        )
        control = diffrax.PIDController(rtol=1e-3, atol=1e-5)
        return diffrax.diffeqsolve(
            terms, diffrax.KenCarp4(), 0.0, 1.0, 0.1, y, rate, stepsize_controller=control, max_steps=8, throw=False
        ).ys

    return solve, (floats(3), floats())


@program
def semi_implicit_euler() -> Call:
    def solve(position: Any, momentum: Any) -> Any:
        terms = diffrax.ODETerm(lambda t, p, _: p), diffrax.ODETerm(lambda t, q, _: -q / (1e-3 + (q**2).sum()) ** 1.5)
        saved = diffrax.SaveAt(t1=True, steps=2)
        return diffrax.diffeqsolve(
            terms, diffrax.SemiImplicitEuler(), 0.0, 1.0, 0.05, (position, momentum), saveat=saved, max_steps=32
        ).ys

    return solve, (floats(2), floats(2))


@program
def event_with_root() -> Call:
    event = diffrax.Event(lambda t, y, args, **_: y[0], optimistix.Newton(1e-4, 1e-4))
    return _solve(diffrax.Tsit5(), event=event, saveat=diffrax.SaveAt(t1=True, steps=True))


@program
def ito_milstein() -> Call:
    def solve(y: Any, key: Any) -> Any:
        path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=0.05, shape=(), key=key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, _: -y), diffrax.ControlTerm(lambda t, y, _: 0.2 * jnp.sin(y), path)
        )
        return diffrax.diffeqsolve(terms, diffrax.ItoMilstein(), 0.0, 1.0, 0.1, y, max_steps=12).ys

    return jax.vmap(solve, (0, None)), (floats(4), key())


@program
def additive_noise_runge_kutta() -> Call:
    def solve(y: Any, key: Any) -> Any:
        levy = diffrax.SpaceTimeLevyArea
        path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=0.05, shape=(3,), key=key, levy_area=levy)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, _: jnp.tanh(y)), diffrax.ControlTerm(lambda t, y, _: 0.1 * jnp.eye(3), path)
        )
        return diffrax.diffeqsolve(terms, diffrax.ShARK(), 0.0, 1.0, 0.1, y, max_steps=12).ys

    return solve, (floats(3), key())


@program
def langevin() -> Call:
    def solve(y: Any, key: Any) -> Any:
        path = diffrax.VirtualBrownianTree(
            0.0, 1.0, tol=0.05, shape=(2,), key=key, levy_area=diffrax.SpaceTimeTimeLevyArea
        )
        drift = diffrax.UnderdampedLangevinDriftTerm(1.0, 0.5, lambda x, args: 2 * x)
        terms = diffrax.MultiTerm(drift, diffrax.UnderdampedLangevinDiffusionTerm(1.0, 0.5, path))
        saved = diffrax.SaveAt(t1=True)
        return diffrax.diffeqsolve(terms, diffrax.ALIGN(0.1), 0.0, 1.0, 0.1, (y, y), saveat=saved, max_steps=12).ys

    return solve, (floats(2), key())


@program
def controlled_equation() -> Call:
    """A neural controlled differential equation along a cubic path, and its gradient."""

    def loss(weights: Any, times: Any, values: Any) -> Any:
        coefficients = diffrax.backward_hermite_coefficients(times, values)
        path = diffrax.CubicInterpolation(times, coefficients)
        field = diffrax.ControlTerm(lambda t, y, w: jnp.tanh(w @ y).reshape(4, 2), path).to_ode()
        solution = diffrax.diffeqsolve(field, diffrax.Heun(), 0.0, 1.0, 0.125, jnp.ones(4), args=weights, max_steps=8)
        return jnp.sum(solution.ys**2)

    return jax.value_and_grad(loss), (floats(8, 4), floats(6), floats(6, 2))


@program
def continuous_normalizing_flow() -> Call:
    def density(weights: Any, x: Any) -> Any:
        def field(t: Any, state: Any, weights: Any) -> Any:
            move = lambda x: jnp.tanh(weights[0] @ x + t) @ weights[1]  # noqa: E731
            return move(state[0]), jnp.trace(jax.jacfwd(move)(state[0]))

        term = diffrax.ODETerm(field)
        start = x, jnp.zeros(())
        ys: Any = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.25, start, args=weights, max_steps=8).ys
        return -0.5 * (ys[0] ** 2).sum() + ys[1].sum()

    average = lambda weights, batch: jax.vmap(partial(density, weights))(batch).mean()  # noqa: E731
    return jax.value_and_grad(average), ((floats(6, 2), floats(6, 2)), floats(5, 2))
