"""Write the HLO protos of some JAX programs to a folder, before and after optimisation.

    python tests/formats/protobuf/lower_with_jax.py FOLDER

A program of its own, because XLA reads its flags (eight devices, dumps) once per process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def control_flow(x):
    grown = lax.while_loop(lambda y: y.sum() < 100, lambda y: y * 2, x)
    return lax.cond(grown[0] > 3, jnp.sin, jnp.cos, grown)


def scanned(x):
    return lax.scan(lambda carry, y: (carry + y, carry * y), jnp.float32(0), x)


def sorted_pairs(x):
    return lax.sort((x, jnp.arange(x.size)), num_keys=1), lax.top_k(x, 2)


def convolved(image, kernel):
    return lax.conv_general_dilated(image, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def scattered(x):
    return jnp.zeros(16).at[jnp.arange(8)].add(x)[jnp.array([1, 3])]


def random_solve(key):
    matrix = jax.random.normal(key, (4, 4))
    return jnp.linalg.cholesky(matrix @ matrix.T + 4 * jnp.eye(4)), jnp.fft.fft(matrix)


def narrow(x):
    return x.astype(jnp.float8_e4m3fn), x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16), x.astype(jnp.int4)


def called_back(x):
    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def programs() -> Iterator[tuple[str, Any, tuple]]:
    vector, key = jnp.arange(8.0), jax.random.PRNGKey(0)
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
    split = NamedSharding(mesh, PartitionSpec("data", "model"))
    matrix = jax.device_put(jnp.ones((8, 8)), split)

    def collectives(x):
        total = lax.psum(x, "model")
        gathered = lax.all_gather(x, "data")
        shifted = lax.ppermute(x, "model", [(0, 1), (1, 2)])
        exchanged = lax.all_to_all(x, "data", 0, 0, tiled=True)
        return total + shifted, gathered, exchanged, lax.psum_scatter(x, "data", tiled=True)

    spec = PartitionSpec("data", "model")
    mapped = jax.shard_map(collectives, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    yield "control_flow", jax.jit(control_flow), (vector,)
    yield "scanned", jax.jit(scanned), (vector,)
    yield "sorted_pairs", jax.jit(sorted_pairs), (vector,)
    yield "convolved", jax.jit(convolved), (jnp.ones((1, 8, 8, 3)), jnp.ones((3, 3, 3, 4)))
    yield "scattered", jax.jit(scattered), (vector,)
    yield "random_solve", jax.jit(random_solve), (key,)
    yield "narrow", jax.jit(narrow), (jnp.ones((4, 4)),)
    yield "called_back", jax.jit(called_back), (vector,)
    yield "collectives", jax.jit(mapped), (matrix,)
    yield "partitioned", jax.jit(lambda x: (x @ x.T).sum(), in_shardings=split), (matrix,)


def main(folder: Path) -> None:
    for name, function, arguments in programs():
        lowered = function.lower(*arguments)
        before = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        (folder / f"{name}.before.pb").write_bytes(before)
        (after,) = lowered.compile().runtime_executable().hlo_modules()
        (folder / f"{name}.after.pb").write_bytes(after.as_serialized_hlo_module_proto())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
