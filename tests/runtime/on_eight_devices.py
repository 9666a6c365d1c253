"""Programs on eight virtual devices: a child process runs each one and prints what it found, as JSON.

python -m tests.runtime.on_eight_devices shardy|gspmd
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import hloom
from hloom.formats.hlo import parse
from hloom.runtime.inside_jit import inside_jit
from hloom.runtime.jit_rewrite import jit
from tests.runtime.changes import (
    everything,
    fuse_each,
    nothing,
    sine_to_cosine,
    sine_to_square_of_cosine,
)
from tests.runtime.steep_function import to_twice_steep

VALUES = np.arange(64, dtype=np.float32).reshape(8, 8) / 64


def mesh(axis_type=AxisType.Auto):
    return jax.make_mesh((4, 2), ("a", "b"), axis_types=(axis_type, axis_type))


def split(*axes):
    return NamedSharding(mesh(), P(*axes))


def assert_close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-5, atol=1e-6)


def constrained(x):
    return lax.with_sharding_constraint(jnp.sin(x) @ x.T, split("a", "b")) * 2


def constrained_cosine(x):
    return (np.cos(x) @ np.asarray(x).T) * 2


def collectives(function, x):
    text = function.lower(x).compile().as_text()
    return sorted(re.findall(r"\b(all-[a-z]+|collective-[a-z]+|reduce-scatter)\(", text))


# hloom.jit


def constraints_survive():
    result = jit(constrained, sine_to_cosine)(VALUES)
    assert_close(result, constrained_cosine(VALUES))
    assert result.sharding == jax.jit(constrained)(VALUES).sharding == split("a", "b")
    options = {"in_shardings": split("a", "b")}
    ours, theirs = jit(constrained, sine_to_cosine, **options), jax.jit(constrained, **options)  # pyright: ignore[reportArgumentType]
    assert collectives(ours, VALUES) == collectives(theirs, VALUES) != []


def unconstrained_dimensions_survive():
    def function(x):
        return lax.with_sharding_constraint(jnp.sin(x), split("a", P.UNCONSTRAINED))

    sharded = jax.device_put(VALUES, split(None, "b"))
    result = jit(function, sine_to_cosine)(sharded)
    assert_close(result, np.cos(VALUES))
    assert result.sharding == jax.jit(function)(sharded).sharding


def shardings_of_arguments_and_results():
    changed = jit(lambda x: jnp.sin(x) + 1, sine_to_cosine, in_shardings=split("a"), out_shardings=split(None, "b"))
    result = changed(VALUES)
    assert_close(result, np.cos(VALUES) + 1)
    assert result.sharding == split(None, "b")


def sharded_arguments():
    def function(x):
        return jnp.sin(x) + x.sum()

    sharded = jax.device_put(VALUES, split("a"))
    changed = jit(function, sine_to_cosine)
    assert_close(changed(sharded), np.cos(VALUES) + VALUES.sum())
    assert changed(sharded).sharding == jax.jit(function)(sharded).sharding
    assert jax.grad(lambda x: changed(x).sum())(sharded).sharding == split("a")


def nested_functions_with_constraints():
    inner = jit(constrained, sine_to_cosine)

    def outer(x):
        return inner(x) + inner(x * 2) + constrained(x)

    plain = (np.sin(VALUES) @ VALUES.T) * 2
    expected = constrained_cosine(VALUES) + constrained_cosine(VALUES * 2) + plain
    for function in (jax.jit(outer), jit(outer, nothing), jit(outer, everything)):
        result = function(VALUES)
        assert_close(result, expected)
        assert result.sharding == split("a", "b")


def two_meshes():
    line = jax.make_mesh((8,), ("c",), axis_types=(AxisType.Auto,))

    def outer(x):
        x = lax.with_sharding_constraint(x, NamedSharding(line, P("c")))
        return jit(constrained, sine_to_cosine)(x).sum()

    assert_close(jax.jit(outer)(VALUES), constrained_cosine(VALUES).sum())


def per_device_code_inside():
    def function(x):
        def body(part):
            return lax.psum(jnp.sin(part), "a")

        return jax.shard_map(body, mesh=mesh(), in_specs=P("a", "b"), out_specs=P(None, "b"))(x) + 1

    result = jit(function, sine_to_cosine)(VALUES)
    assert_close(result, np.cos(VALUES).reshape(4, 2, 8).sum(0) + 1)
    assert result.sharding == jax.jit(function)(VALUES).sharding


def inside_per_device_code():
    body = jit(lambda part: lax.psum(jnp.sin(part), "a"), sine_to_cosine)
    function = jax.shard_map(body, mesh=mesh(), in_specs=P("a", "b"), out_specs=P(None, "b"))
    assert_close(jax.jit(function)(VALUES), np.cos(VALUES).reshape(4, 2, 8).sum(0))


def meshes_with_explicit_axes():
    with jax.set_mesh(mesh(AxisType.Explicit)):
        sharded = jax.device_put(VALUES, P("a", "b"))

        def function(x):
            return jnp.sin(x) @ jnp.ones((8, 8))

        result = jit(function, sine_to_cosine)(sharded)
        assert result.sharding == jax.jit(function)(sharded).sharding
        assert_close(result, np.cos(VALUES) @ np.ones((8, 8)))


def donated_sharded_arguments():
    sharded = jax.device_put(VALUES, split("a"))
    assert_close(jit(jnp.sin, sine_to_cosine, donate_argnums=0)(sharded), np.cos(VALUES))
    assert sharded.is_deleted()


def transformations_with_constraints():
    stacked = jax.vmap(jit(constrained, sine_to_cosine))(jnp.stack([VALUES, VALUES]))
    assert_close(stacked[1], constrained_cosine(VALUES))
    ours = jax.grad(lambda x: jit(constrained, everything)(x).sum())(VALUES)
    assert_close(ours, jax.grad(lambda x: constrained(x).sum())(VALUES))


def derivatives_of_functions_in_replacements():
    """Where rules put a function with a derivative of its own: around devices' own code, inside it, with constraints."""
    steep = partial(hloom.jit, passes=[to_twice_steep])
    per_device = partial(jax.shard_map, mesh=mesh(), in_specs=P("a"), out_specs=P("a"))
    x = jax.device_put(jnp.linspace(-1.0, 1.0, 16).reshape(8, 2), split("a"))
    functions = [
        steep(jnp.tanh),
        steep(lambda x: lax.with_sharding_constraint(jnp.tanh(x), split("a"))),
        steep(lambda x: per_device(jnp.tanh)(x)),
        per_device(steep(jnp.tanh), check_vma=False),
    ]
    for function in functions:
        gradient = jax.jit(jax.grad(lambda x, function=function: function(x).sum()))(x)
        assert_close(gradient, 2 * (1 - jnp.tanh(x) ** 2))
    summed = per_device(steep(lambda x: lax.psum(jnp.tanh(x), "a")), check_vma=False)
    for refused in (per_device(steep(jnp.tanh)), summed):
        try:
            jax.grad(lambda x, function=refused: function(x).sum())(x)
        except hloom.RewriteError as error:
            assert "has a derivative of its own, and cannot be differentiated with it" in error.message
        else:
            raise AssertionError("another derivative was taken")


def shardings_that_a_change_adds():
    """A change may shard parameters and operations: GSPMD follows, also where Shardy was meant to."""
    tiled = parse(
        "ENTRY e { x = f32[8,8] parameter(0), sharding={devices=[8,1]<=[8]} ROOT y = f32[8,8] negate(x) }"
    ).entry.parameters[0]

    def change(module):
        (parameter,) = module.entry.parameters
        module.entry.set_attributes(parameter, parameter.attributes.changed(sharding=tiled.attributes["sharding"]))

    result = jit(lambda x: jnp.sin(x) * 2, change, in_shardings=split())(VALUES)
    assert_close(result, np.sin(VALUES) * 2)
    assert result.sharding.shard_shape((8, 8)) == (1, 8)


# inside_jit


def late_changes_of_partitioned_modules():
    for stage in ("pre_scheduler", "post_scheduler"):
        with inside_jit(sine_to_square_of_cosine, stage=stage):
            sharded = jax.device_put(VALUES, split("a", "b"))
            result = jax.jit(lambda x: jnp.sin(x) @ x.T)(sharded)
            assert_close(result, np.cos(VALUES) ** 2 @ VALUES.T)
            assert_close(jax.jit(lambda x: jnp.sin(x).sum())(sharded), (np.cos(VALUES) ** 2).sum())


def late_changes_see_one_devices_share():
    shapes = []

    def change(module):
        shapes.extend(node.type.dims for node in module.nodes() if node.opcode == "sine")
        return False

    with inside_jit(change):
        jax.jit(lambda x: jnp.sin(x) * 2)(jax.device_put(VALUES, split("a", "b")))
    assert (2, 4) in shapes


def late_fusing_keeps_numbers():
    sharded = jax.device_put(VALUES, split("a", "b"))
    with inside_jit(fuse_each("copy")):
        assert_close(jax.jit(lambda x: jnp.sin(x).T @ x)(sharded), np.sin(VALUES).T @ VALUES)


CASES = {
    case.__name__: case
    for case in (
        constraints_survive,
        unconstrained_dimensions_survive,
        shardings_of_arguments_and_results,
        sharded_arguments,
        nested_functions_with_constraints,
        two_meshes,
        per_device_code_inside,
        inside_per_device_code,
        meshes_with_explicit_axes,
        donated_sharded_arguments,
        transformations_with_constraints,
        derivatives_of_functions_in_replacements,
        shardings_that_a_change_adds,
        late_changes_of_partitioned_modules,
        late_changes_see_one_devices_share,
        late_fusing_keeps_numbers,
    )
}


def main(partitioner: str) -> None:
    """Run every case; each one's traceback, or nothing where it passed."""
    jax.config.update("jax_use_shardy_partitioner", partitioner == "shardy")
    results = {}
    for name, case in CASES.items():
        try:
            case()
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
