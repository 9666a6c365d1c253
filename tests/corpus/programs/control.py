"""Control flow, calls, custom derivatives, custom calls, effects and trees of values."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback

from .program import Family, bf16, f32, pred, s32

control = Family()


@control(pred(), f32(4))
def cond(which, x):
    return lax.cond(which, jnp.sin, lambda x: x * 2, x)


@control(s32(), f32(4), f32(4))
def switch(index, x, y):
    return lax.switch(index, [lax.add, lax.sub, lambda x, y: x * y + 1], x, y)


@control(f32(4))
def while_loop(x):
    return lax.while_loop(lambda carry: carry[0] < 10, lambda carry: (carry[0] + 1, carry[1] * 1.5), (0, x))


@control(f32(4), s32())
def fori_loop(x, bound):
    return lax.fori_loop(0, bound, lambda i, x: x.at[i % 4].add(i), x), lax.fori_loop(0, 5, lambda i, x: x + i, x)


@control(f32(4), f32(6, 4))
def scan(carry, rows):
    return lax.scan(lambda carry, row: (jnp.tanh(carry + row), carry.sum()), carry, rows)


@control(f32(4), f32(6, 4))
def scan_reversed_and_unrolled(carry, rows):
    step = lambda carry, row: (carry * row, (carry, row[0]))  # noqa: E731
    return lax.scan(step, carry, rows, reverse=True), lax.scan(step, carry, rows, unroll=3)


@control(f32(4, 4), f32(4))
def scan_remat_gradients(weights, x):
    layer = jax.checkpoint(lambda x, w: (jnp.sin(w * x), None))
    return jax.grad(lambda w, x: lax.scan(layer, x, w)[0].sum(), (0, 1))(weights, x)


@control(f32(4))
def remat_policies(x):
    block = lambda x: jnp.sin(jnp.cos(x)) @ x  # noqa: E731
    kept = jax.checkpoint(block, policy=jax.checkpoint_policies.dots_saveable)
    return jax.grad(kept)(x), jax.grad(jax.checkpoint(block, prevent_cse=False))(x)


@control(f32(3, 4), s32())
def nested_control(x, bound):
    def row(x):
        return lax.cond(x.sum() > 0, lambda x: lax.fori_loop(0, bound, lambda i, x: x * 2, x), jnp.negative, x)

    return lax.scan(lambda carry, x: (carry + 1, lax.map(row, jnp.stack([x, x]))), 0, x)


@control(f32(6, 3))
def mapped(x):
    return lax.map(jnp.cumsum, x), jax.vmap(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x))(x)


@control(f32(6, 3), f32(6, 3))
def mapped_while(x, y):
    return jax.vmap(lambda x, y: lax.while_loop(lambda c: c[0].sum() < 9, lambda c: (c[0] + c[1], c[1]), (x, y)))(x, y)


@control(f32(8, 2))
def associative_scan(x):
    return lax.associative_scan(lax.add, x), lax.associative_scan(lax.mul, x, reverse=True, axis=1)


@control(f32(4))
def optimization_barrier(x):
    y, z = lax.optimization_barrier((x, x + 1))
    return y * z


@control(f32(4))
def custom_derivatives(x):
    @jax.custom_jvp
    def clipped(x):
        return jnp.clip(x, -1, 1)

    @clipped.defjvp
    def _(primals, tangents):
        return clipped(*primals), tangents[0] * 2

    @jax.custom_vjp
    def squared(x):
        return x * x

    squared.defvjp(lambda x: (x * x, x), lambda x, cotangent: (cotangent * 3 * x,))
    return jax.grad(lambda x: squared(clipped(x)).sum())(x), jax.jvp(clipped, (x,), (x,))


@control(f32(4, 4))
def calls(x):
    @jax.jit
    def inner(x):
        return jnp.tanh(x @ x)

    @partial(jax.jit, inline=True)
    def inlined(x):
        return inner(x) + 1

    return inner(inlined(inner(x))), jax.jit(lambda x: x)(x)


@control(f32(4))
def composite(x):
    @partial(lax.composite, name="corpus.scaled_tanh", version=2)
    def scaled_tanh(x, *, scale):
        return jnp.tanh(x) * scale

    return scaled_tanh(x, scale=np.float32(2))


@control(f32(4), f32(4), jit={"donate_argnums": (0,)})
def donated(x, y):
    return x + y, x.sum()


@control({"weights": [f32(2, 3), bf16(3)], "bias": (f32(), None)}, f32(2))
def trees(parameters, x):
    weights, scale = parameters["weights"]
    return {"out": (x @ weights * scale, parameters["bias"]), "same": x, "empty": ()}


@control(f32(4))
def pure_callback(x):
    return jax.pure_callback(np.sort, x, x)


@control(f32(4))
def io_callback_ordered(x):
    return io_callback(np.negative, x, x, ordered=True)


@control(f32(4))
def debug_print_ordered(x):
    jax.debug.print("first {}", x, ordered=True)
    y = x * 2
    jax.debug.print("second {y}", y=y, ordered=True)
    return y


@control(f32(4))
def debug_print_unordered(x):
    jax.debug.print("value {}", x)
    return x + 1


@control(f32(4), f32(3, 4), stages=("before",), because="the targets are not registered")
def foreign_calls(x, y):
    typed = jax.ffi.ffi_call("corpus_typed", [x, y], vmap_method="broadcast_all", input_layouts=[(0,), (0, 1)],
                             output_layouts=[(0,), (1, 0)], input_output_aliases={0: 0})  # fmt: skip
    effect = jax.ffi.ffi_call("corpus_effect", x, has_side_effect=True)
    attributes = {"scale": np.float32(0.5), "axes": np.array([1, 2], np.int32), "name": 'a "quoted" name', "on": True}
    return typed(x, y, **attributes), effect(x, count=np.int64(3))


@control(f32(4), stages=("before",), because="the target is not registered")
def foreign_call_with_string(x):
    call = jax.ffi.ffi_call("corpus_legacy", x, custom_call_api_version=2, legacy_backend_config="plain; not json")
    return call(x)


@control(f32(4))
def platform_dependent(x):
    return lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)


@control(f32(4))
def named_scopes(x):
    with jax.named_scope("outer"), jax.named_scope('inner "quoted" \\ scope'):
        return jnp.sin(x)


@control(f32(3, 3), f32(3))
def implicit_solvers(matrix, x):
    root = lax.custom_root(lambda y: y**3 - x, x, lambda f, y: y * 0.5, lambda g, y: y / g(jnp.ones_like(y)))
    solution = lax.custom_linear_solve(lambda y: matrix @ y, x, lambda mv, b: b, symmetric=True)
    return root, solution


@control(f32(4), f32(4))
def higher_derivatives(x, y):
    def loss(x, y):
        return jnp.sum(jnp.tanh(x * y) ** 2)

    return jax.hessian(loss)(x, y), jax.jacfwd(jax.grad(loss))(x, y), jax.linearize(loss, x, y)[0]


@control(f32(3), jit={"compiler_options": {"xla_cpu_enable_fast_math": True}})
def compiler_options(x):
    return jnp.exp(x) / x


@control(f32(4), f32(4), jit={"keep_unused": True})
def unused_arguments(x, y):
    return x


@control(f32(4), s32())
def state_references(x, index):
    reference = jax.new_ref(x)
    reference[index] = 3.0
    return reference[...] * 2
