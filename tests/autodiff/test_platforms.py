"""Linear algebra as JAX lowers it for GPUs: its gradient is a sound program with the arguments' types."""

from __future__ import annotations

from typing import Any

import pytest

import hloom

jax: Any = pytest.importorskip("jax")
jnp: Any = pytest.importorskip("jax.numpy")

PROGRAMS = {
    "qr": (jnp.linalg.qr, (4, 4)),
    "qr of a tall matrix": (jnp.linalg.qr, (4, 2)),
    "eigh": (jnp.linalg.eigh, (4, 4)),
    "eigh of a batch": (jnp.linalg.eigh, (3, 4, 4)),
    "lu": (jax.scipy.linalg.lu, (4, 4)),
    "solve": (lambda a: jnp.linalg.solve(a, a @ a), (4, 4)),
    "svd": (lambda a: jnp.linalg.svd(a, full_matrices=False), (4, 4)),
    "full svd": (jnp.linalg.svd, (4, 2)),
    "cholesky": (jnp.linalg.cholesky, (4, 4)),
    "triangular solve": (lambda a: jax.scipy.linalg.solve_triangular(a, a @ a), (4, 4)),
    "tridiagonal solve": (lambda a: jax.lax.linalg.tridiagonal_solve(a[0], a[1], a[2], a.T), (3, 4)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_linear_algebra_of_cuda(name: str):
    function, dims = PROGRAMS[name]
    argument = jax.ShapeDtypeStruct(dims, jnp.float32)
    lowered = jax.jit(function).trace(argument).lower(lowering_platforms=("cuda",))
    gradient = hloom.vjp(hloom.from_stablehlo(lowered.as_text()))
    assert hloom.verify(gradient).level is hloom.Level.HLO
    read = hloom.parse(hloom.print(gradient), strict=True)
    assert str(read.entry.root.type).startswith(f"(f32[{','.join(map(str, dims))}]")
