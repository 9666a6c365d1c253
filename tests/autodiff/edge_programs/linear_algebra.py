"""Factorizations, solves and what is made of them; algorithms of linear algebra written as loops."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import lax

from .program import DIFFERENCES, Table, complex_normal, declare, definite, normal, regular, uniform

PROGRAMS: Table = {}


@declare(PROGRAMS, definite(4, 2))
def cholesky_batched(a):
    return jnp.linalg.cholesky(a)


@declare(PROGRAMS, complex_normal(3, 3))
def cholesky_complex(a):
    return jnp.linalg.cholesky(a @ a.conj().T + 2 * jnp.eye(3))


@declare(PROGRAMS, definite(4), normal(4, 2, seed=1), reference=DIFFERENCES)
def cholesky_solve(a, b):
    """One triangle of the matrix is read, and it alone has a gradient; JAX takes the change to be symmetric."""
    return jsl.cho_solve(jsl.cho_factor(a), b), jsl.cholesky(a, lower=False)


@declare(PROGRAMS, regular(4), normal(4, 2, seed=1))
def solve(a, b):
    return jnp.linalg.solve(a, b)


@declare(PROGRAMS, regular(3, 2), normal(2, 3, seed=1))
def solve_batched(a, b):
    return jnp.linalg.solve(a, b[..., None]), jnp.linalg.inv(a)


@declare(PROGRAMS, complex_normal(3, 3) + 3 * np.eye(3), complex_normal(3, seed=1))
def solve_complex(a, b):
    return jnp.linalg.solve(a, b)


@declare(PROGRAMS, regular(4))
def determinants(a):
    return jnp.linalg.det(a), jnp.linalg.slogdet(a)[1]


@declare(PROGRAMS, normal(5, 3))
def lu_tall(a):
    return jsl.lu(a)[1:]


@declare(PROGRAMS, normal(3, 5))
def lu_wide(a):
    return jsl.lu(a)[1:]


@declare(PROGRAMS, np.tril(regular(4)), normal(4, 2, seed=1))
def triangular_solves(a, b):
    return (
        jsl.solve_triangular(a, b, lower=True),
        jsl.solve_triangular(a, b, lower=True, trans=1),
        jsl.solve_triangular(a, b, lower=True, unit_diagonal=True),
        lax.linalg.triangular_solve(a, b.T, left_side=False, lower=True),
        lax.linalg.triangular_solve(a, b.T, left_side=False, lower=True, transpose_a=True),
    )


@declare(PROGRAMS, complex_normal(3, 3) + 3 * np.eye(3), complex_normal(3, 2, seed=1))
def triangular_solve_adjoint(a, b):
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=False, transpose_a=True, conjugate_a=True
    ), lax.linalg.triangular_solve(a, b.T, left_side=False, lower=True, transpose_a=True, conjugate_a=True)


@declare(PROGRAMS, normal(5, 3))
def qr_thin(a):
    return jnp.linalg.qr(a)


@declare(PROGRAMS, complex_normal(4, 3))
def qr_complex(a):
    return jnp.linalg.qr(a)


@declare(PROGRAMS, normal(2, 4, 3))
def qr_batched(a):
    return jnp.linalg.qr(a)


@declare(PROGRAMS, normal(3, 5), reference=DIFFERENCES)
def qr_wide(a):
    return jnp.linalg.qr(a)


@declare(PROGRAMS, normal(4, 4))
def qr_square(a):
    return jnp.linalg.qr(a, mode="complete")


@declare(PROGRAMS, normal(5, 3))
def qr_triangle_alone(a):
    return jnp.linalg.qr(a, mode="r")


@declare(PROGRAMS, normal(5, 3), reference=DIFFERENCES)
def qr_full(a):
    """What a full Q determines: its first columns, and the projection onto the others."""
    q, r = jnp.linalg.qr(a, mode="complete")
    return q[:, :3], q[:, 3:] @ q[:, 3:].T, r


@declare(PROGRAMS, normal(5, 3), reference=DIFFERENCES)
def qr_pivoted(a):
    return jsl.qr(a, pivoting=True, mode="economic")[:2]


@declare(PROGRAMS, normal(5, 3), reference=DIFFERENCES)
def qr_reflectors_as_data(a):
    """The reflectors and their scales themselves."""
    return jnp.linalg.qr(a, mode="raw")


@declare(PROGRAMS, complex_normal(4, 2), reference=DIFFERENCES)
def qr_reflectors_complex(a):
    return jnp.linalg.qr(a, mode="raw")


@declare(PROGRAMS, complex_normal(2, 4), reference=DIFFERENCES)
def qr_wide_complex(a):
    return jnp.linalg.qr(a)


@declare(PROGRAMS, normal(5, 3), normal(5, 2, seed=1), normal(2, 5, seed=2), reference=DIFFERENCES)
def qr_times_others(a, b, c):
    """Q and its transpose applied, from either side."""
    packed, scales = jnp.linalg.qr(a, mode="raw")
    packed = packed.T
    apply = lax.linalg.ormqr
    return (
        apply(packed, scales, b), apply(packed, scales, b, transpose=True),
        apply(packed, scales, c, left=False), apply(packed, scales, c, left=False, transpose=True),
    )  # fmt: skip


@declare(PROGRAMS, complex_normal(3, 3) + np.diag([0.0, 3.0, 7.0]), reference=DIFFERENCES, tolerance=1e-6)
def eigenvectors_of_both_sides(a):
    return lax.linalg.eig(a, compute_left_eigenvectors=True)


@declare(PROGRAMS, definite(4))
def eigenvalues_of_symmetric(a):
    return jnp.linalg.eigvalsh(a)


@declare(PROGRAMS, definite(4), tolerance=1e-6)
def eigenvectors_of_symmetric(a):
    values, vectors = jnp.linalg.eigh(a)
    return values, jnp.abs(vectors)


@declare(PROGRAMS, complex_normal(3, 3), tolerance=1e-6)
def eigenvectors_of_hermitian(a):
    values, vectors = jnp.linalg.eigh(a + a.conj().T)
    return values, jnp.abs(vectors)


@declare(PROGRAMS, regular(4) + np.diag([0.0, 3.0, 6.0, 9.0]))
def eigenvalues(a):
    values = jnp.linalg.eigvals(a)
    return jnp.sum(values**3), jnp.sum(jnp.abs(values))


@declare(PROGRAMS, regular(3) + np.diag([0.0, 3.0, 7.0]), reference=DIFFERENCES, tolerance=1e-6)
def eigenvectors(a):
    """Vectors of length one: their absolute values are determined."""
    values, vectors = jnp.linalg.eig(a)
    return jnp.abs(values), jnp.abs(vectors)


@declare(PROGRAMS, normal(5, 3), tolerance=1e-6)
def svd_thin(a):
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return s, jnp.abs(u), jnp.abs(v)


@declare(PROGRAMS, normal(3, 5), tolerance=1e-6)
def svd_thin_wide(a):
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return s, jnp.abs(u), (u * s) @ v


@declare(PROGRAMS, complex_normal(4, 3), tolerance=1e-6)
def svd_complex(a):
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return s, jnp.abs(u), jnp.abs(v)


@declare(PROGRAMS, normal(2, 3, 3))
def singular_values(a):
    return jnp.linalg.svd(a, compute_uv=False)


@declare(PROGRAMS, normal(5, 3), reference=DIFFERENCES, tolerance=1e-6)
def svd_full(a):
    u, s, v = jnp.linalg.svd(a, full_matrices=True)
    return s, jnp.abs(u[:, :3]), u[:, 3:] @ u[:, 3:].T, jnp.abs(v)


@declare(PROGRAMS, normal(5, 3), normal(5, seed=1), tolerance=1e-6)
def least_squares(a, b):
    return jnp.linalg.lstsq(a, b)[0], jnp.linalg.pinv(a)


@declare(PROGRAMS, normal(4, 4) * 0.4)
def exponential(a):
    return jsl.expm(a)


@declare(PROGRAMS, normal(4), np.array([0.0, 1.0, 0.5, 0.2]) + 3, normal(4, seed=2), normal(4, 2, seed=3))
def tridiagonal_solve(low, diagonal, high, b):
    return lax.linalg.tridiagonal_solve(low.at[0].set(0), diagonal, high.at[3].set(0), b)


@declare(PROGRAMS, normal(4, 2), uniform(2), reference=DIFFERENCES)
def reflectors(a, scales):
    """Reflectors that no factorization made."""
    return lax.linalg.householder_product(jnp.tril(a, -1) + jnp.eye(4, 2), scales)


@declare(PROGRAMS, regular(3))
def powers_and_norms(a):
    return jnp.linalg.matrix_power(a, 5), jnp.linalg.norm(a, "nuc"), jnp.linalg.norm(a, 2), jnp.linalg.cond(a)


@declare(PROGRAMS, definite(3), normal(3, seed=8), tolerance=1e-6)
def gaussian_log_density(covariance, x):
    return jax.scipy.stats.multivariate_normal.logpdf(x, jnp.zeros(3), covariance)


@declare(PROGRAMS, regular(4), normal(4, seed=1), reference=DIFFERENCES)
def elimination_with_pivots(a, b):
    """Gauss's elimination by loops, with the pivot of the largest size."""

    def eliminate(k, s):
        a, b = s
        rows = jnp.arange(4)
        pivot = jnp.argmax(jnp.where(rows >= k, jnp.abs(a[:, k]), -1.0))
        order = rows.at[k].set(pivot).at[pivot].set(k)
        a, b = a[order], b[order]
        factor = jnp.where(rows > k, a[:, k] / a[k, k], 0.0)
        return a - factor[:, None] * a[k], b - factor * b[k]

    a, b = lax.fori_loop(0, 4, eliminate, (a, b))

    def substitute(i, x):
        k = 3 - i
        return x.at[k].set((b[k] - a[k] @ x) / a[k, k])

    return lax.fori_loop(0, 4, substitute, jnp.zeros(4))


@declare(PROGRAMS, definite(3, seed=2) + np.diag([0.0, 2.0, 5.0]), reference=DIFFERENCES, tolerance=1e-6)
def jacobi_eigenvalues(a):
    """Jacobi's rotations until nothing is left off the diagonal."""

    def rotate(a, p, q):
        angle = 0.5 * jnp.arctan2(2 * a[p, q], a[q, q] - a[p, p])
        c, s = jnp.cos(angle), jnp.sin(angle)
        turn = jnp.eye(3).at[p, p].set(c).at[q, q].set(c).at[p, q].set(s).at[q, p].set(-s)
        return turn.T @ a @ turn

    def sweep(s):
        a, number = s
        return rotate(rotate(rotate(a, 0, 1), 0, 2), 1, 2), number + 1

    off = lambda a: jnp.sum((a - jnp.diag(jnp.diag(a))) ** 2)
    return jnp.sort(jnp.diag(lax.while_loop(lambda s: (off(s[0]) > 1e-16) & (s[1] < 20), sweep, (a, 0))[0]))


@declare(PROGRAMS, normal(5, 3), reference=DIFFERENCES)
def gram_schmidt(a):
    def column(k, q):
        v = a[:, k]
        v = v - (q * (jnp.arange(3) < k)) @ (q.T @ v)
        return q.at[:, k].set(v / jnp.sqrt(v @ v))

    return lax.fori_loop(0, 3, column, jnp.zeros((5, 3)))


@declare(PROGRAMS, definite(3, seed=6), reference=DIFFERENCES, tolerance=1e-6)
def square_root_by_iteration(a):
    """Denman and Beavers' iteration, inverses inside."""

    def step(s):
        y, z, _ = s
        following = 0.5 * (y + jnp.linalg.inv(z))
        return following, 0.5 * (z + jnp.linalg.inv(y)), jnp.max(jnp.abs(following - y))

    return lax.while_loop(lambda s: s[2] > 1e-12, step, (a, jnp.eye(3), 1.0))[0]


@declare(PROGRAMS, definite(3, seed=7), normal(3, seed=8), np.int32(3), reference=DIFFERENCES)
def factorization_in_loop(a, b, count):
    return lax.fori_loop(0, count, lambda i, x: jnp.linalg.solve(a + jnp.diag(jnp.sin(x) ** 2), x + b), b)


@declare(PROGRAMS, definite(3, seed=9), np.array(True))
def factorization_in_branch(a, flag):
    return lax.cond(flag, jnp.linalg.cholesky, lambda m: jnp.linalg.inv(m), a)


@declare(PROGRAMS, complex_normal(3, 3), reference=DIFFERENCES)
def schur_form(a):
    """What does not depend on the phases of the vectors."""
    form, vectors = jsl.schur(a, output="complex")
    return jnp.diag(form), jnp.abs(form), jnp.abs(vectors)


@declare(PROGRAMS, complex_normal(2, 4, 4), reference=DIFFERENCES)
def schur_forms_without_vectors(a):
    return jnp.abs(lax.linalg.schur(a, compute_schur_vectors=False)[0])


@declare(PROGRAMS, definite(3, seed=2), reference=DIFFERENCES)
def square_root_by_schur_form(a):
    return jsl.sqrtm(a)


@declare(PROGRAMS, normal(3, 3), regular(2, seed=1), normal(3, 2, seed=2), reference=DIFFERENCES)
def sylvester_equation(a, b, c):
    return jsl.solve_sylvester(a, b, c)


@declare(PROGRAMS, normal(2, 4, 4), reference=DIFFERENCES)
def hessenberg_form(a):
    packed, scales = lax.linalg.hessenberg(a)
    return packed, scales, lax.linalg.householder_product(jnp.tril(packed[..., 1:, :-1], -1), scales)


@declare(PROGRAMS, complex_normal(4, 4), reference=DIFFERENCES)
def hessenberg_form_of_complex_numbers(a):
    return lax.linalg.hessenberg(a)


@declare(PROGRAMS, normal(4, 4), reference=DIFFERENCES)
def tridiagonal_form(a):
    return lax.linalg.tridiagonal(a + a.T, lower=True)


@declare(PROGRAMS, complex_normal(2, 4, 4), reference=DIFFERENCES)
def tridiagonal_form_of_the_upper_triangle(a):
    return lax.linalg.tridiagonal(a + a.conj().mT, lower=False)


@declare(PROGRAMS, normal(4, 4), reference=DIFFERENCES)
def real_schur_form(a):
    """Of a matrix whose eigenvalues are real."""
    spread = jnp.diag(jnp.arange(4.0)) + 0.1 * a
    form, vectors = jsl.schur(spread)
    return form, vectors, lax.linalg.schur(spread, compute_schur_vectors=False)[0]


@declare(PROGRAMS, normal(4, 4), normal(4, 2, seed=1))
def determinant_and_solutions_of_one_decomposition(a, b):
    decomposition = jsl.lu_factor(a)
    solutions = jsl.lu_solve(decomposition, b), jsl.lu_solve(decomposition, b, trans=1)
    return *solutions, jnp.prod(jnp.diagonal(decomposition[0])), jnp.linalg.slogdet(a)[1]


@declare(PROGRAMS, normal(4, 4), normal(4, 2, seed=1))
def determinant_beside_a_triangle(a, b):
    """What reads a triangle of the decomposition besides needs more than its diagonal."""
    packed = jsl.lu_factor(a)[0]
    return jnp.prod(jnp.diagonal(packed)), lax.linalg.triangular_solve(packed, b, left_side=True, lower=True)
