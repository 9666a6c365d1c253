"""jax's public functions that have derivative rules, or whose programs are not what their derivatives are.

    ROWS["jax.numpy.linalg.solve"]  ->  a function of arrays of floating point, and the arrays

Each is a function of the arrays that it is differentiated with respect to. `NO_DERIVATIVE` lists the functions of the
same namespaces that have none: the table and it name all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax
from jax.lax import linalg as lax_linalg

NAMESPACES = {
    "jax.numpy.linalg": jnp.linalg, "jax.scipy.linalg": jsp.linalg, "jax.scipy.special": jsp.special,
    "jax.scipy.signal": jsp.signal, "jax.nn": jax.nn, "jax.random": jax.random, "jax.lax.linalg": lax_linalg,
    "jax.scipy.stats": jsp.stats,
}  # fmt: skip
"""Whose public functions are in the table."""
DENSITIES = ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")


@dataclass(frozen=True, slots=True)
class Row:
    """A function and where it is differentiated."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]


ROWS: dict[str, Row] = {}
SQUARE = np.array([[3.1, 0.4, -0.7], [0.2, 2.3, 0.5], [0.9, -0.3, 4.2]])
SYMMETRIC = np.array([[3.1, 0.4, -0.7], [0.4, 2.3, 0.5], [-0.7, 0.5, 4.2]])
TALL = np.array([[1.3, 0.4], [-0.7, 2.1], [0.6, -0.9], [0.2, 1.1]])
VECTOR = np.array([0.7, -1.2, 2.1])
OTHER = np.array([1.1, 0.3, -0.4])
POSITIVE = np.array([0.6, 1.7, 2.9])
UNIT = np.array([0.2, 0.55, 0.83])
SIGNAL = np.sin(np.arange(16) * 0.7) + 0.1 * np.arange(16)
KEY = np.array([3, 7], np.uint32)


def symmetric(x: Any) -> Any:
    """The symmetric matrix of the lower triangle: factorizations read one half."""
    return jnp.tril(x) + jnp.tril(x, -1).T


def row(name: str, function: Callable[..., Any], *arrays: Any) -> None:
    """Add a function to the table."""
    assert name not in ROWS, name
    ROWS[name] = Row(function, tuple(np.asarray(array, np.float64) for array in arrays))


def elementwise(prefix: str, module: Any, names: str, *arrays: Any) -> None:
    """Add functions of the same arrays."""
    for name in names.split():
        row(f"{prefix}.{name}", getattr(module, name), *arrays)


# jax.numpy.linalg

elementwise("jax.numpy.linalg", jnp.linalg, "det inv slogdet trace diagonal matrix_transpose cond", SQUARE)
elementwise("jax.numpy.linalg", jnp.linalg, "matrix_norm pinv svdvals", TALL)
elementwise("jax.numpy.linalg", jnp.linalg, "outer vecdot cross", VECTOR, OTHER)
elementwise("jax.numpy.linalg", jnp.linalg, "norm vector_norm", VECTOR)
elementwise("jax.numpy.linalg", jnp.linalg, "matmul solve", SQUARE, VECTOR)
row("jax.numpy.linalg.cholesky", lambda x: jnp.linalg.cholesky(symmetric(x)), SYMMETRIC)
row("jax.numpy.linalg.eig", lambda x: jnp.linalg.eig(x)[0], SQUARE)
row("jax.numpy.linalg.eigvals", jnp.linalg.eigvals, SQUARE)
row("jax.numpy.linalg.eigh", lambda x: [part**2 for part in jnp.linalg.eigh(symmetric(x))], SYMMETRIC)
row("jax.numpy.linalg.eigvalsh", lambda x: jnp.linalg.eigvalsh(symmetric(x)), SYMMETRIC)
row("jax.numpy.linalg.lstsq", lambda a, b: jnp.linalg.lstsq(a, b)[0], TALL, SIGNAL[:4])
row("jax.numpy.linalg.matrix_power", lambda x: (jnp.linalg.matrix_power(x, 3), jnp.linalg.matrix_power(x, -2)), SQUARE)
row("jax.numpy.linalg.multi_dot", lambda a, b, c: jnp.linalg.multi_dot([a, b, c]), TALL.T, TALL, VECTOR[:2])
row("jax.numpy.linalg.qr", lambda x: tuple(jnp.linalg.qr(x)), TALL)
row("jax.numpy.linalg.svd", lambda x: [y**2 for y in jnp.linalg.svd(x, full_matrices=False)], TALL)
row("jax.numpy.linalg.tensordot", lambda a, b: jnp.linalg.tensordot(a, b, axes=1), TALL.T, TALL)
row("jax.numpy.linalg.tensorinv", lambda a: jnp.linalg.tensorinv(a.reshape(3, 3, 1), ind=1), SQUARE)
row("jax.numpy.linalg.tensorsolve", jnp.linalg.tensorsolve, SQUARE, VECTOR)

# jax.scipy.linalg

elementwise("jax.scipy.linalg", jsp.linalg, "det inv expm lu lu_factor sqrtm polar", SQUARE)
elementwise("jax.scipy.linalg", jsp.linalg, "companion circulant fiedler toeplitz hankel fiedler_companion", POSITIVE)
elementwise("jax.scipy.linalg", jsp.linalg, "solve", SQUARE, VECTOR)
row("jax.scipy.linalg.expm_frechet", jsp.linalg.expm_frechet, SQUARE * 0.3, SYMMETRIC)
row("jax.scipy.linalg.qr_multiply", lambda a, c: jsp.linalg.qr_multiply(a, c), SQUARE, SYMMETRIC)
row("jax.scipy.linalg.block_diag", jsp.linalg.block_diag, SQUARE, TALL)
row("jax.scipy.linalg.cho_factor", lambda x: jsp.linalg.cho_factor(symmetric(x))[0], SYMMETRIC)
row("jax.scipy.linalg.cho_solve", lambda x, b: jsp.linalg.cho_solve((x, True), b), SQUARE, VECTOR)
row("jax.scipy.linalg.cholesky", lambda x: jsp.linalg.cholesky(symmetric(x)), SYMMETRIC)
row("jax.scipy.linalg.convolution_matrix", lambda x: jsp.linalg.convolution_matrix(x, 4), VECTOR)
row("jax.scipy.linalg.eigh", lambda x: [part**2 for part in jsp.linalg.eigh(symmetric(x))], SYMMETRIC)
row("jax.scipy.linalg.eigh_tridiagonal", lambda d, e: jsp.linalg.eigh_tridiagonal(d, e, eigvals_only=True), VECTOR,
    OTHER[:2])  # fmt: skip
row("jax.scipy.linalg.funm", lambda x: jsp.linalg.funm(x, jnp.exp, disp=False)[0], SYMMETRIC)
row("jax.scipy.linalg.hessenberg", jsp.linalg.hessenberg, SQUARE)
row("jax.scipy.linalg.leslie", jsp.linalg.leslie, POSITIVE, UNIT[:2])
row("jax.scipy.linalg.lu_solve", lambda a, b: jsp.linalg.lu_solve(jsp.linalg.lu_factor(a), b), SQUARE, VECTOR)
row("jax.scipy.linalg.qr", lambda x: jsp.linalg.qr(x, mode="economic"), TALL)
row("jax.scipy.linalg.rsf2csf", lambda a: jsp.linalg.rsf2csf(jnp.triu(a), jnp.eye(3)), SQUARE)
row("jax.scipy.linalg.schur", lambda a: jsp.linalg.schur(a)[0], SQUARE)
row("jax.scipy.linalg.solve_sylvester", jsp.linalg.solve_sylvester, SQUARE, SYMMETRIC, np.outer(VECTOR, OTHER))
row("jax.scipy.linalg.solve_triangular", lambda a, b: jsp.linalg.solve_triangular(a, b, lower=True), SQUARE, VECTOR)
row("jax.scipy.linalg.svd", lambda x: [y**2 for y in jsp.linalg.svd(x, full_matrices=False)], TALL)

# jax.lax.linalg

row("jax.lax.linalg.cholesky", lambda x: lax_linalg.cholesky(symmetric(x)), SYMMETRIC)
row("jax.lax.linalg.cholesky_update", lambda r, w: lax_linalg.cholesky_update(jnp.triu(r), w), SYMMETRIC, VECTOR)
row("jax.lax.linalg.eig", lambda x: lax_linalg.eig(x, compute_left_eigenvectors=False)[0], SQUARE)
row("jax.lax.linalg.eigh", lambda x: [y**2 for y in lax_linalg.eigh(symmetric(x))], SYMMETRIC)
row("jax.lax.linalg.hessenberg", lax_linalg.hessenberg, SQUARE)
row("jax.lax.linalg.householder_product", lax_linalg.householder_product, TALL, UNIT[:2])
row("jax.lax.linalg.lu", lax_linalg.lu, SQUARE)
row("jax.lax.linalg.ormqr", lambda a, t, c: lax_linalg.ormqr(a, t, c), SQUARE, UNIT, SYMMETRIC)
row("jax.lax.linalg.qdwh", lambda x: lax_linalg.qdwh(x)[:2], SQUARE)
row("jax.lax.linalg.qr", lambda x: lax_linalg.qr(x, full_matrices=False), TALL)
row("jax.lax.linalg.schur", lambda a: lax_linalg.schur(a)[0], SQUARE)
row("jax.lax.linalg.svd", lambda x: [y**2 for y in lax_linalg.svd(x, full_matrices=False)], TALL)
row("jax.lax.linalg.symmetric_product", lambda a, c: lax_linalg.symmetric_product(a, symmetric(c)), TALL.T[:, :3],
    SYMMETRIC[:2, :2])  # fmt: skip
row("jax.lax.linalg.triangular_solve", lambda a, b: lax_linalg.triangular_solve(a, b, left_side=True, lower=True),
    SQUARE, SYMMETRIC)  # fmt: skip
row("jax.lax.linalg.tridiagonal", lambda a: lax_linalg.tridiagonal(symmetric(a), lower=True), SYMMETRIC)
row("jax.lax.linalg.tridiagonal_solve", lambda d, b: lax_linalg.tridiagonal_solve(
    jnp.array([0.0, 0.3, -0.2]), d, jnp.array([0.5, 0.1, 0.0]), b[:, None]), POSITIVE, VECTOR)  # fmt: skip

# jax.scipy.special

elementwise("jax.scipy.special", jsp.special,
            "erf erfc erfcx expit log_ndtr ndtr dawsn fresnel sici i0 i0e i1 i1e log_softmax logsumexp softmax",
            VECTOR)  # fmt: skip
elementwise("jax.scipy.special", jsp.special, "wofz", VECTOR)
elementwise("jax.scipy.special", jsp.special,
            "digamma entr exp1 expi gamma gammaln loggamma factorial spence gammasgn", POSITIVE)  # fmt: skip
elementwise("jax.scipy.special", jsp.special, "erfinv logit ndtri", UNIT)
elementwise("jax.scipy.special", jsp.special, "beta betaln kl_div rel_entr gammainc gammaincc xlogy xlog1py poch comb",
            POSITIVE, UNIT)  # fmt: skip
elementwise("jax.scipy.special", jsp.special, "boxcox boxcox1p", POSITIVE, OTHER)
elementwise("jax.scipy.special", jsp.special, "owens_t", VECTOR, OTHER)
elementwise("jax.scipy.special", jsp.special, "betainc", POSITIVE, POSITIVE[::-1], UNIT)
elementwise("jax.scipy.special", jsp.special, "hyp1f1", POSITIVE, POSITIVE[::-1] + 0.3, UNIT)
row("jax.scipy.special.bessel_jn", lambda z: jsp.special.bessel_jn(z, v=3, n_iter=30), POSITIVE)
row("jax.scipy.special.expn", lambda x: jsp.special.expn(jnp.array([1, 2, 3]), x), POSITIVE)
row("jax.scipy.special.hyp2f1", jsp.special.hyp2f1, POSITIVE, POSITIVE[::-1], POSITIVE + 0.7, UNIT * 0.6)
row("jax.scipy.special.multigammaln", lambda a: jsp.special.multigammaln(a + 2, 3), POSITIVE)
row("jax.scipy.special.polygamma", lambda x: jsp.special.polygamma(jnp.array([1, 2, 3]), x), POSITIVE)
row("jax.scipy.special.sph_harm_y", lambda t, p: jsp.special.sph_harm_y(
    jnp.array([2, 1, 3]), jnp.array([1, 0, 2]), t, p, n_max=3), UNIT, POSITIVE)  # fmt: skip
row("jax.scipy.special.zeta", lambda q: jsp.special.zeta(2.5, q), POSITIVE)

# jax.scipy.signal

elementwise("jax.scipy.signal", jsp.signal, "convolve correlate fftconvolve", SIGNAL, VECTOR)
elementwise("jax.scipy.signal", jsp.signal, "convolve2d correlate2d", SQUARE, TALL[:2])
row("jax.scipy.signal.csd", lambda x, y: jsp.signal.csd(x, y, nperseg=8)[1], SIGNAL, SIGNAL**2)
row("jax.scipy.signal.detrend", jsp.signal.detrend, SIGNAL)
row("jax.scipy.signal.istft", lambda x: jsp.signal.istft(jsp.signal.stft(x, nperseg=8)[2] ** 2, nperseg=8)[1], SIGNAL)
row("jax.scipy.signal.stft", lambda x: jsp.signal.stft(x, nperseg=8)[2], SIGNAL)
row("jax.scipy.signal.welch", lambda x: jsp.signal.welch(x, nperseg=8)[1], SIGNAL)

# jax.nn

elementwise("jax.nn", jax.nn,
            "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid log_softmax "
            "logmeanexp logsumexp mish relu relu6 selu sigmoid silu soft_sign softmax softplus sparse_plus "
            "sparse_sigmoid squareplus standardize swish tanh", np.array([0.7, -1.2, 0.0, 3.0]))  # fmt: skip
row("jax.nn.log1mexp", jax.nn.log1mexp, POSITIVE)
row("jax.nn.glu", jax.nn.glu, SIGNAL)
row("jax.nn.dot_product_attention", jax.nn.dot_product_attention, *(SIGNAL.reshape(1, 4, 2, 2) + n for n in range(3)))
row("jax.nn.scaled_dot_general", lambda a, b: jax.nn.scaled_dot_general(
    a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32), TALL.T, TALL)  # fmt: skip

# jax.random: samples as functions of the distribution's parameters


def key() -> Any:
    """A key of random numbers."""
    return jax.random.wrap_key_data(jnp.asarray(KEY))


row("jax.random.beta", lambda a, b: jax.random.beta(key(), a, b), POSITIVE, POSITIVE[::-1])
row("jax.random.chisquare", lambda df: jax.random.chisquare(key(), df), POSITIVE)
row("jax.random.dirichlet", lambda a: jax.random.dirichlet(key(), a), POSITIVE)
row("jax.random.f", lambda a, b: jax.random.f(key(), a, b), POSITIVE, POSITIVE[::-1])
row("jax.random.gamma", lambda a: jax.random.gamma(key(), a), POSITIVE)
row("jax.random.generalized_normal", lambda s: s * jax.random.generalized_normal(key(), 1.5, (3,)), POSITIVE)
row("jax.random.loggamma", lambda a: jax.random.loggamma(key(), a), POSITIVE)
row("jax.random.lognormal", lambda s: jax.random.lognormal(key(), s, (3,)), POSITIVE)
row("jax.random.multivariate_normal", lambda m, c: jax.random.multivariate_normal(
    key(), m, symmetric(c), method="cholesky"), VECTOR, SYMMETRIC)  # fmt: skip
row("jax.random.pareto", lambda b: jax.random.pareto(key(), b), POSITIVE)
row("jax.random.rayleigh", lambda s: jax.random.rayleigh(key(), s), POSITIVE)
row("jax.random.t", lambda df: jax.random.t(key(), df), POSITIVE)
row("jax.random.triangular", lambda a, m, b: jax.random.triangular(key(), a, a + m, a + m + b), VECTOR, UNIT, POSITIVE)
row("jax.random.truncated_normal", lambda a, b: jax.random.truncated_normal(key(), -a, b), POSITIVE, POSITIVE[::-1])
row("jax.random.uniform", lambda a, b: jax.random.uniform(key(), (3,), minval=-a, maxval=b), POSITIVE, POSITIVE[::-1])
row("jax.random.wald", lambda m: jax.random.wald(key(), m), POSITIVE)
row("jax.random.weibull_min", lambda s, c: jax.random.weibull_min(key(), s, c), POSITIVE, POSITIVE[::-1])
for name in ("ball", "cauchy", "double_sided_maxwell", "exponential", "gumbel", "laplace", "logistic", "maxwell", "normal",
             "orthogonal"):  # fmt: skip
    further = {"ball": (3,), "double_sided_maxwell": (0.3, 1.2, (3,)), "orthogonal": (3,)}.get(name, ((3,),))
    row(f"jax.random.{name}", lambda s, name=name, further=further: s * getattr(jax.random, name)(key(), *further),
        POSITIVE)  # fmt: skip

# jax.scipy.stats

STATISTICS: dict[str, tuple[Any, ...]] = {
    "beta": (UNIT, POSITIVE, POSITIVE[::-1]), "cauchy": (VECTOR, OTHER, POSITIVE), "chi2": (POSITIVE, POSITIVE[::-1]),
    "expon": (POSITIVE, -UNIT, POSITIVE[::-1]), "gamma": (POSITIVE, POSITIVE[::-1]), "gennorm": (VECTOR, POSITIVE),
    "gumbel_l": (VECTOR, OTHER, POSITIVE), "gumbel_r": (VECTOR, OTHER, POSITIVE), "laplace": (VECTOR, OTHER, POSITIVE),
    "logistic": (VECTOR, OTHER, POSITIVE), "norm": (VECTOR, OTHER, POSITIVE), "pareto": (POSITIVE + 2, POSITIVE),
    "t": (VECTOR, POSITIVE, OTHER), "truncnorm": (UNIT, -POSITIVE, POSITIVE), "uniform": (UNIT, -UNIT, POSITIVE + 2),
    "vonmises": (VECTOR, POSITIVE), "wrapcauchy": (POSITIVE, UNIT),
}  # fmt: skip
COUNTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "bernoulli": (np.array([0, 1, 1]), (UNIT,)), "betabinom": (np.array([0, 2, 3]), (5.0, POSITIVE, POSITIVE[::-1])),
    "binom": (np.array([0, 2, 3]), (5.0, UNIT)), "geom": (np.array([1, 2, 3]), (UNIT,)),
    "nbinom": (np.array([0, 2, 3]), (POSITIVE, UNIT)), "poisson": (np.array([0, 2, 3]), (POSITIVE,)),
}  # fmt: skip
for name, arrays in STATISTICS.items():
    for density_name in DENSITIES:
        if hasattr(getattr(jsp.stats, name), density_name):
            given = (UNIT, *arrays[1:]) if density_name in ("ppf", "isf") else arrays
            row(f"jax.scipy.stats.{name}.{density_name}", getattr(getattr(jsp.stats, name), density_name), *given)
for name, (counts, arrays) in COUNTS.items():
    for density_name in DENSITIES:
        if hasattr(getattr(jsp.stats, name), density_name) and density_name != "ppf":
            density = getattr(getattr(jsp.stats, name), density_name)
            row(f"jax.scipy.stats.{name}.{density_name}", lambda *p, f=density, c=counts: f(c, *p), *arrays)
for density_name in ("pdf", "logpdf"):
    row(f"jax.scipy.stats.dirichlet.{density_name}", lambda a, density_name=density_name: getattr(jsp.stats.dirichlet, density_name)(
        UNIT / UNIT.sum(), a), POSITIVE)  # fmt: skip
    row(f"jax.scipy.stats.multivariate_normal.{density_name}", lambda x, m, c, density_name=density_name: getattr(
        jsp.stats.multivariate_normal, density_name)(x, m, symmetric(c)), VECTOR, OTHER, SYMMETRIC)  # fmt: skip
    row(f"jax.scipy.stats.gaussian_kde.{density_name}", lambda d, x, density_name=density_name: getattr(
        jsp.stats.gaussian_kde(d), density_name)(x), SIGNAL, VECTOR)  # fmt: skip
for density_name in ("pmf", "logpmf"):
    row(f"jax.scipy.stats.multinomial.{density_name}", lambda p, density_name=density_name: getattr(jsp.stats.multinomial, density_name)(
        np.array([1, 2, 1]), 4, p / p.sum()), UNIT)  # fmt: skip
row("jax.scipy.stats.sem", jsp.stats.sem, VECTOR)


# Functions that take rules: jax.custom_jvp and custom_vjp in their forms, jax.lax.custom_*


@jax.custom_jvp
def sign_and_cube(x: Any) -> Any:
    """Two results, one of them without a derivative."""
    return jnp.sign(x), x**3


@sign_and_cube.defjvp
def _sign_and_cube_tangents(primals: Any, tangents: Any) -> Any:
    sign, cube = sign_and_cube(*primals)
    return (sign, cube), (jnp.zeros_like(sign), 3 * primals[0] ** 2 * tangents[0])


@jax.custom_jvp
def count_and_cube(x: Any) -> Any:
    """Two results, one of them of whole numbers."""
    return jnp.int32(x > 0), x**3


@count_and_cube.defjvp
def _count_and_cube_tangents(primals: Any, tangents: Any) -> Any:
    count, cube = count_and_cube(*primals)
    return (count, cube), (np.zeros(count.shape, jax.dtypes.float0), 3 * primals[0] ** 2 * tangents[0])


@jax.custom_jvp
def symbolic(x: Any, y: Any) -> Any:
    """Rules that see which tangents are zero."""
    return jnp.sin(x) * y


def _symbolic_tangents(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    moved = jnp.zeros_like(x * y)
    if not isinstance(dx, jax.custom_derivatives.SymbolicZero):
        moved = moved + jnp.cos(x) * y * dx
    if not isinstance(dy, jax.custom_derivatives.SymbolicZero):
        moved = moved + 2 * jnp.sin(x) * dy
    return symbolic(x, y), moved


symbolic.defjvp(_symbolic_tangents, symbolic_zeros=True)


@jax.custom_vjp
def clipped(x: Any, y: Any) -> tuple[Any, Any]:
    """A reverse mode of its own, of two results."""
    return x * y, jnp.exp(x)


def _clipped_forward(x: Any, y: Any) -> Any:
    return clipped(x, y), (x, y)


def _clipped_backward(kept: Any, cotangents: Any) -> Any:
    x, y = kept
    first, second = cotangents
    return 2 * first * y * x + second * jnp.exp(x), first * x**3


clipped.defvjp(_clipped_forward, _clipped_backward)


@jax.custom_vjp
def asking(x: Any, y: Any) -> Any:
    """A rule that asks which arguments are differentiated."""
    return x * y


def _asking_forward(x: Any, y: Any) -> Any:
    return x.value * y.value, (x.value, y.value, 3.0 if y.perturbed else 1.0)


asking.defvjp(
    _asking_forward, lambda kept, cotangent: (cotangent * kept[1] * kept[2], cotangent * kept[0]), symbolic_zeros=True
)


def nondiff(function: Callable[..., Any], x: Any, power: int) -> Any:
    """A function and a number that are not differentiated."""
    return function(x) ** power


scaled = jax.custom_jvp(nondiff, nondiff_argnums=(0, 2))


@scaled.defjvp
def _scaled_tangents(function: Any, power: int, primals: Any, tangents: Any) -> Any:
    return scaled(function, primals[0], power), 5 * power * function(primals[0]) * tangents[0]


def _of_gradient(x: Any) -> Any:
    return jnp.sin(x), lambda cotangent: cotangent * x**2


def custom_solve(a: Any, b: Any) -> Any:
    """`jax.lax.custom_linear_solve` of a matrix that moves."""
    return lax.custom_linear_solve(lambda x: a @ x, b, lambda _, r: jnp.linalg.inv(a) @ r,
                                   lambda _, r: jnp.linalg.inv(a).T @ r)  # fmt: skip


def custom_root(a: Any) -> Any:
    """`jax.lax.custom_root`: cube roots by Newton's method."""

    def solve(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 40, lambda _, y: y - f(y) / (3 * y * y), x)

    return lax.custom_root(lambda x: x**3 - a, jnp.ones_like(a), solve, lambda g, y: y / g(jnp.ones_like(y)))


def converted(x: Any, y: Any) -> Any:
    """`jax.closure_convert`, of a function that a custom derivative calls."""
    function, captured = jax.closure_convert(lambda v: v * jnp.sin(y), x)
    return function(x, *captured)


def checkpointed(x: Any) -> Any:
    """Rules within `jax.checkpoint`, a scan and a branch."""

    def body(carry: Any, _: Any) -> Any:
        cube = sign_and_cube(carry)[1]
        return lax.cond(jnp.sum(cube) > 0, lambda c: jax.nn.relu(c) * 0.1, lambda c: c * 0.2, cube) + carry, cube

    return lax.scan(jax.checkpoint(body), x, None, length=3)


def in_a_while_loop(x: Any) -> Any:
    """Rules within a loop whose trip count jax knows."""
    return lax.fori_loop(0, 3, lambda _, y: jax.nn.softplus(sign_and_cube(y)[1] * 0.1), x)


row("custom_jvp of two results", lambda x: sign_and_cube(x)[1] * x, VECTOR)
row("custom_jvp with whole numbers", lambda x: count_and_cube(x)[1] * x, VECTOR)
row("custom_jvp with symbolic zeros", lambda x: symbolic(x, 2.0) + symbolic(x, x), VECTOR)
row("custom_vjp with symbolic zeros", lambda x: asking(x, jnp.array(2.0)) * x + asking(x, x), VECTOR)
row("custom_jvp of arguments that do not move", lambda x: scaled(jnp.sin, x, 3) * x, VECTOR)
row("custom_vjp of two results", lambda x, y: clipped(x, y * x), VECTOR, OTHER)
row("custom_vjp, one result unused", lambda x, y: clipped(x, y)[1] * clipped(y, x)[0], VECTOR, OTHER)
row("custom_gradient", jax.custom_gradient(_of_gradient), VECTOR)
row("custom_linear_solve", custom_solve, SQUARE, VECTOR)
row("custom_root", custom_root, POSITIVE)
row("closure_convert", converted, VECTOR, OTHER)
row("linear_call", lambda x: jax.custom_derivatives.linear_call(
    lambda s, v: v * s, lambda s, v: v * s, OTHER, x) ** 2, VECTOR)  # fmt: skip
row("linear_call, another transpose", lambda x: jax.custom_derivatives.linear_call(
    lambda s, v: v * s, lambda s, v: 2 * v * s, OTHER, x) ** 2, VECTOR)  # fmt: skip
row("checkpoint, scan and cond", checkpointed, VECTOR)
row("fori_loop", in_a_while_loop, POSITIVE)
row("stop_gradient", lambda x: x * lax.stop_gradient(x**2) + jax.nn.softmax(x), VECTOR)
row("vmap of custom_jvp", lambda x: jax.vmap(sign_and_cube)(x)[1] * x, VECTOR)
row("cg", lambda a, b: jsp.sparse.linalg.cg(lambda u: a @ (a.T @ u) + u, b)[0], SQUARE, VECTOR)
row("gmres", lambda a, b: jsp.sparse.linalg.gmres(lambda u: a @ u, b)[0], SQUARE, VECTOR)
row("bicgstab", lambda a, b: jsp.sparse.linalg.bicgstab(lambda u: a @ u, b)[0], SQUARE, VECTOR)

_WITHOUT = (
    "jax.numpy.linalg.matrix_rank jax.scipy.linalg.dft jax.scipy.linalg.hadamard jax.scipy.linalg.helmert "
    "jax.scipy.linalg.hilbert jax.scipy.linalg.invhilbert jax.scipy.linalg.invpascal jax.scipy.linalg.pascal "
    "jax.scipy.special.bernoulli jax.nn.get_scaled_dot_general_config jax.nn.one_hot jax.nn.scaled_matmul "
    "jax.random.PRNGKey jax.random.bernoulli jax.random.binomial jax.random.bits jax.random.categorical "
    "jax.random.choice jax.random.clone jax.random.fold_in jax.random.geometric jax.random.key jax.random.key_data "
    "jax.random.key_dtype jax.random.key_impl jax.random.multinomial jax.random.permutation jax.random.poisson "
    "jax.random.rademacher jax.random.randint jax.random.split jax.random.wrap_key_data "
    "jax.lax.linalg.lu_pivots_to_permutation jax.scipy.stats.mode jax.scipy.stats.rankdata"
)
NO_DERIVATIVE = frozenset(_WITHOUT.split())
"""Public functions of the namespaces that yield whole numbers, keys or constants, or that need an accelerator."""
QUICK = (
    "custom_jvp of two results", "custom_jvp with whole numbers", "custom_vjp with symbolic zeros",
    "custom_vjp, one result unused", "jax.numpy.linalg.solve",
)  # fmt: skip
"""What `make test` compares; `make test-long` compares all."""
LESS_EXACT = {"jax.nn.dot_product_attention": 1e-4, "jax.nn.scaled_dot_general": 1e-4}
"""The tolerance where jax computes parts in 32 bits."""
