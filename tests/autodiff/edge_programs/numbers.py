"""Functions of complex numbers, Fourier transforms, special functions, and what must not become NaN."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .program import DIFFERENCES, JAX, Table, complex_normal, declare, normal, uniform

PROGRAMS: Table = {}
Z = complex_normal(4)


@declare(PROGRAMS, Z)
def complex_functions(z):
    return [f(z) for f in (jnp.exp, jnp.log, jnp.sqrt, jnp.sin, jnp.cosh, jnp.tanh, jnp.log1p, jnp.expm1, lax.rsqrt)]


@declare(PROGRAMS, Z * 0.4)
def complex_inverse_functions(z):
    return [f(z) for f in (jnp.arcsin, jnp.arccos, jnp.arctan, jnp.arcsinh, jnp.arctanh, jnp.tan)]


@declare(PROGRAMS, Z, complex_normal(4, seed=1))
def complex_arithmetic(z, w):
    return z * w, z / w, z**3, z**w, jnp.conj(z) * w, z - 1j * w


@declare(PROGRAMS, Z)
def complex_parts(z):
    return jnp.abs(z), jnp.angle(z), jnp.real(z) * jnp.imag(z), jnp.abs(z) ** 2, z * jnp.conj(z)


@declare(PROGRAMS, np.array([0j, 1 + 1j]), reference=JAX)
def complex_absolute_at_zero(z):
    return jnp.abs(z)


@declare(PROGRAMS, normal(4), normal(4, seed=1))
def complex_from_parts(x, y):
    return lax.complex(x, y) ** 2, jnp.real(lax.complex(x, y) * 1j), (x + 0j) * y


@declare(PROGRAMS, complex_normal(3, 4), complex_normal(4, 2, seed=1))
def complex_products(a, b):
    return a @ b, jnp.einsum("ij,ik->jk", a.conj(), a), jnp.vdot(a, a)


@declare(PROGRAMS, complex_normal(3, 4))
def complex_reductions(a):
    return a.sum(0), a.prod(1), jnp.linalg.norm(a, axis=1), jnp.cumsum(a, 1), a.mean()


@declare(PROGRAMS, complex_normal(6))
def complex_moves(a):
    return a[::-1], jnp.roll(a, 2), a[jnp.array([0, 0, 5])], a.at[jnp.array([1, 1])].add(2j), jnp.pad(a, 1)


@declare(PROGRAMS, complex_normal(5), normal(6))
def fourier(z, x):
    return jnp.fft.fft(z), jnp.fft.ifft(z), jnp.fft.rfft(x), jnp.fft.irfft(z, n=8), jnp.fft.irfft(z, n=7)


@declare(PROGRAMS, normal(4, 6), complex_normal(4, 4))
def fourier_of_planes(x, z):
    return jnp.fft.rfft2(x), jnp.fft.irfft2(z, s=(4, 6)), jnp.fft.fft2(z), jnp.abs(jnp.fft.fftn(x))


@declare(PROGRAMS, complex_normal(4), complex_normal(4, seed=1))
def complex_branches(z, w):
    return jnp.where(jnp.abs(z) > jnp.abs(w), z * w, jnp.conj(z)), lax.cond(jnp.real(z[0]) > 0, jnp.sin, jnp.cos, w)


@declare(PROGRAMS, complex_normal(5, 3))
def complex_scan(rows):
    return lax.scan(lambda c, r: (jnp.sin(c) * r, jnp.abs(c)), jnp.ones(3, complex), rows)


@declare(PROGRAMS, complex_normal(2, 5, 4), complex_normal(3, 2, 2, seed=1)[..., None] + np.zeros((1, 1, 1, 2)))
def complex_convolution(x, k):
    return lax.conv_general_dilated(x[None], k, (1, 1), "SAME")


@declare(PROGRAMS, uniform(5, low=0.6, high=2.5))
def special_functions(x):
    special = jax.scipy.special
    return [f(x) for f in (special.gammaln, special.digamma, special.erf, special.erfc, special.i0e, special.i1e)]


@declare(PROGRAMS, uniform(4, low=0.3, high=3.0))
def exponential_integral(x):
    return jax.scipy.special.expi(x), jax.scipy.special.exp1(x)


@declare(PROGRAMS, uniform(4, low=0.1, high=0.9))
def inverse_functions(x):
    special = jax.scipy.special
    return special.erfinv(x), special.ndtri(x), special.logit(x), special.entr(x), special.xlogy(x, x)


@declare(PROGRAMS, uniform(4, low=0.6, high=2.0), uniform(4, seed=1, low=0.2, high=0.8), reference=DIFFERENCES,
         tolerance=1e-5)  # fmt: skip
def incomplete_functions(a, x):
    special = jax.scipy.special
    return special.gammainc(a, x), special.gammaincc(a, x), special.betainc(a, 1.5 * a, x)


@declare(PROGRAMS, np.array([0.0, 1.0, -2.0]), reference=JAX)
def safe_square_root(x):
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


@declare(PROGRAMS, np.array([0.0, 2.0, 3.0, 0.0]), reference=JAX)
def products_with_zeros(x):
    return jnp.prod(x), jnp.cumprod(x), jnp.prod(x[:3])


@declare(PROGRAMS, np.array([0.0, 2.0, 1.0]), np.array([0.0, 2.0, 3.0]), reference=JAX)
def powers_at_zero(x, y):
    return x**2, x**3.0, jnp.power(x + 1, y), x**0


@declare(PROGRAMS, np.array([0.0, 1.0, 1.0, -1.0]), np.array([0.0, 1.0, 2.0, -1.0]), reference=JAX)
def equal_operands(x, y):
    return jnp.maximum(x, y), jnp.minimum(x, y), jnp.clip(x, -1.0, 1.0), jnp.abs(x), jnp.sign(x)


@declare(PROGRAMS, normal(4), normal(4, seed=1))
def two_arguments(x, y):
    return jnp.arctan2(x, y), jnp.hypot(x, y), jnp.logaddexp(x, y), jnp.remainder(x, y), jnp.fmod(x, y), jnp.sinc(x)


@declare(PROGRAMS, normal(3, 5) * 3)
def normalizations(x):
    return (
        jax.nn.softmax(x), jax.nn.log_softmax(x, 0), jax.nn.logsumexp(x, 1), jax.nn.standardize(x), jax.nn.gelu(x),
        jax.nn.softplus(x), jax.nn.silu(x), jnp.var(x, 0), jnp.std(x, 1),
    )  # fmt: skip


@declare(PROGRAMS, np.array([1.0, -np.inf, 0.5]), reference=JAX)
def softmax_with_masks(x):
    return jax.nn.softmax(x), jax.nn.logsumexp(x)


@declare(PROGRAMS, normal(3, 4), normal(4, 5, seed=1))
def higher_order_inside(a, b):
    """Derivatives that JAX made are part of the program."""
    f = lambda q: jnp.sum(jnp.tanh(q @ b) ** 2)
    return jax.grad(f)(a), jax.jvp(f, (a,), (jnp.ones_like(a),))[1], jax.hessian(f)(a)[0, 0]


@declare(PROGRAMS, normal(4))
def rounding_and_integers(x):
    """Floors, conversions to integers and comparisons have no derivative; what is beside them has."""
    return x - jnp.floor(x), x * x.astype(jnp.int32), jnp.round(x) * jnp.sin(x), jnp.where(x > 0, x, 0 * x), x % 1.0


@declare(PROGRAMS, normal(3, 4), normal(3, 4, seed=1))
def products_of_many_forms(a, b):
    return (
        jnp.einsum("ij,ij->i", a, b), jnp.einsum("ij,kj->ki", a, b), jnp.tensordot(a, b, 2), jnp.outer(a[0], b[0]),
        jnp.kron(a, b), jnp.cross(a[:, :3], b[:, :3]), jnp.convolve(a[0], b[1]),
    )  # fmt: skip


@declare(PROGRAMS, np.array([1.0, 0.3j, -2.0j, 2 + 2j, 1e-9 + 1e9j]), reference=JAX)
def complex_functions_on_the_axes(z):
    """XLA's formulas have branches that are not taken there, and are infinite."""
    return jnp.sqrt(z), jnp.log(z), jnp.sqrt(z) * jnp.log(z * 1j)
