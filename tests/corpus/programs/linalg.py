"""Linear algebra: XLA's own operations and the LAPACK custom calls."""

import jax
import jax.numpy as jnp
from jax import lax

from .program import Family, c64, f32, f64

linalg = Family()


@linalg(f32(4, 4), f64(2, 3, 3))
def cholesky(x, batch):
    return jnp.linalg.cholesky(x), lax.linalg.cholesky(batch, symmetrize_input=False)


@linalg(f32(3, 3), f32(3, 2), c64(3, 3))
def triangular_solve(matrix, right, c):
    solve = lax.linalg.triangular_solve
    return (
        solve(matrix, right, left_side=True, lower=True), solve(matrix, right.T, transpose_a=True, unit_diagonal=True),
        solve(c, c, conjugate_a=True, transpose_a=True, left_side=True),
    )  # fmt: skip


@linalg(f32(4, 3), f64(2, 3, 3))
def qr(x, batch):
    return jnp.linalg.qr(x), jnp.linalg.qr(batch, mode="complete"), lax.linalg.qr(x, pivoting=True)


@linalg(f32(4, 3))
def svd(x):
    return jnp.linalg.svd(x, full_matrices=False), jnp.linalg.svd(x, compute_uv=False), jnp.linalg.pinv(x)


@linalg(f32(3, 3), c64(3, 3))
def eigh(x, c):
    return jnp.linalg.eigh(x), jnp.linalg.eigvalsh(c)


@linalg(f64(3, 3))
def eig(x):
    return jnp.linalg.eig(x)


@linalg(f32(4, 4), f32(2, 3, 3))
def lu(x, batch):
    return jax.scipy.linalg.lu(x), lax.linalg.lu(batch), jnp.linalg.det(x)


@linalg(f32(3, 3), f32(3))
def solve(matrix, x):
    return jnp.linalg.solve(matrix, x), jnp.linalg.inv(matrix), jnp.linalg.slogdet(matrix)


@linalg(f32(3, 3), f32(3))
def solve_gradients(matrix, x):
    return jax.grad(lambda a, b: jnp.linalg.solve(a @ a.T, b).sum(), (0, 1))(matrix, x)


@linalg(f32(3, 3))
def factor_gradients(x):
    return (
        jax.grad(lambda x: jnp.linalg.cholesky(x).sum())(x), jax.grad(lambda x: jnp.linalg.svd(x)[1].sum())(x),
        jax.grad(lambda x: jnp.linalg.eigh(x)[0].sum())(x), jax.grad(lambda x: jnp.linalg.qr(x)[1].sum())(x),
    )  # fmt: skip


@linalg(f32(4, 4))
def schur_and_hessenberg(x):
    return jax.scipy.linalg.schur(x), lax.linalg.hessenberg(x), lax.linalg.tridiagonal(x + x.T)


@linalg(f32(5), f32(5), f32(5), f32(5, 2))
def tridiagonal_solve(lower, diagonal, upper, right):
    return lax.linalg.tridiagonal_solve(lower, diagonal, upper, right)


@linalg(f32(4, 4))
def matrix_functions(x):
    return jax.scipy.linalg.expm(x), jnp.linalg.matrix_power(x, 5)


@linalg(f32(4, 4), platform="tpu")
def factorisations_on_tpu(x):
    return jnp.linalg.qr(x), jnp.linalg.eigh(x), jax.scipy.linalg.lu(x), jnp.linalg.svd(x)


@linalg(f32(4, 4), f32(4), platform="cuda")
def factorisations_on_gpu(x, right):
    return jnp.linalg.qr(x), jnp.linalg.eigh(x), jnp.linalg.solve(x, right), jnp.linalg.svd(x), jnp.linalg.cholesky(x)
