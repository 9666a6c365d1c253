"""Programs over a batch as loops over slices: the same numbers, less memory, and refusals where examples mix.

Covers `batch_propagation.py`, `batch_state.py`, `batched_indices.py`, `linearity.py`, `local_program.py`, `loop.py`,
`microbatch.py`, `phases.py`, `whole_values.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hloom
from hloom import microbatch
from hloom.distribute.microbatch import MixedExamples, microbatch_loop, propose_batch
from hloom.formats.hlo import parse, print_module
from hloom.ir import Module
from hloom.runtime import memory
from hloom.testing import assert_equivalent

BATCH, LENGTH, WIDTH, WORDS, LAYERS = 8, 6, 16, 32, 2
RANDOM = np.random.default_rng(0)


def normal(*dims: int) -> np.ndarray:
    return (RANDOM.standard_normal(dims) * 0.3).astype(np.float32)


WEIGHTS = {
    "embedding": normal(WORDS, WIDTH),
    "layers": {
        "qkv": normal(LAYERS, WIDTH, 3 * WIDTH),
        "out": normal(LAYERS, WIDTH, WIDTH),
        "up": normal(LAYERS, WIDTH, 4 * WIDTH),
        "down": normal(LAYERS, 4 * WIDTH, WIDTH),
    },
}
TOKENS = RANDOM.integers(0, WORDS, (BATCH, LENGTH + 1)).astype(np.int32)
MASK = (RANDOM.random((BATCH, LENGTH)) > 0.3).astype(np.float32)
ZEROS = jax.tree.map(np.zeros_like, WEIGHTS)


def block(x: Any, w: Any) -> Any:
    q, k, v = (part.reshape(*part.shape[:2], 2, -1) for part in jnp.split(x @ w["qkv"], 3, -1))
    scores = jnp.einsum("bthd,bshd->bhts", q, k)
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    x = x + jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v).reshape(x.shape) @ w["out"]
    centred = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return x + jax.nn.gelu(centred @ w["up"]) @ w["down"]


def loss(
    weights: Any, tokens: Any, mask: Any = None, key: Any = None, *, remat: bool = False, roll: bool = True
) -> Any:
    x = weights["embedding"][tokens[:, :-1]]
    if key is not None:
        x = jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)
    layer = jax.checkpoint(block) if remat else block
    if roll:
        x, _ = lax.scan(lambda x, w: (layer(x, w), None), x, weights["layers"])
    else:
        for number in range(LAYERS):
            x = layer(x, jax.tree.map(lambda stacked, number=number: stacked[number], weights["layers"]))
    logits = jax.nn.log_softmax(x @ weights["embedding"].T)
    lost = -jnp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0]
    return lost.mean() if mask is None else jnp.sum(lost * mask) / jnp.sum(mask)


def adam(weights: Any, first: Any, second: Any, tokens: Any) -> Any:
    value, slopes = jax.value_and_grad(loss)(weights, tokens)
    norm = jnp.sqrt(sum(jnp.sum(slope * slope) for slope in jax.tree.leaves(slopes)))
    slopes = jax.tree.map(lambda slope: slope * jnp.minimum(1, 1 / norm), slopes)
    first = jax.tree.map(lambda m, slope: 0.9 * m + 0.1 * slope, first, slopes)
    second = jax.tree.map(lambda v, slope: 0.99 * v + 0.01 * slope * slope, second, slopes)
    return (
        jax.tree.map(lambda w, m, v: w - 0.01 * m / (jnp.sqrt(v) + 1e-8), weights, first, second),
        first,
        second,
        value,
    )


def convolution(weights: Any, images: Any, labels: Any) -> Any:
    hidden = jax.nn.relu(lax.conv_general_dilated(images, weights["kernel"], (1, 1), "SAME"))
    hidden = lax.reduce_window(hidden, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    logits = jax.nn.log_softmax(hidden.reshape(hidden.shape[0], -1) @ weights["out"])
    return -logits[jnp.arange(BATCH), labels].mean()


def recurrence(weights: Any, rows: Any) -> Any:
    def step(hidden: Any, row: Any) -> Any:
        hidden = jnp.tanh(row @ weights["in"] + hidden @ weights["hidden"])
        return hidden, hidden

    return jnp.mean(lax.scan(step, jnp.zeros((BATCH, 8)), rows.swapaxes(0, 1))[1] ** 2)


def experts(weights: Any, rows: Any) -> Any:
    chosen, which = lax.top_k(jax.nn.softmax(rows @ weights["router"]), 2)
    made = jnp.einsum("bd,edh->beh", rows, weights["experts"])
    return jnp.mean((jnp.take_along_axis(made, which[..., None], 1) * chosen[..., None]).sum(1) ** 2)


def newton(scale: Any, values: Any) -> Any:
    def root(value: Any) -> Any:
        return lax.while_loop(
            lambda state: state[1] < 5, lambda state: ((state[0] + value / state[0]) / 2, state[1] + 1), (value, 0)
        )[0]

    return jnp.sum(jax.vmap(root)(jnp.abs(values) @ scale))


CONVOLUTION = ({"kernel": normal(4, 3, 3, 3), "out": normal(64, 5)}, normal(BATCH, 3, 8, 8), np.arange(BATCH) % 5)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "adam": (adam, (WEIGHTS, ZEROS, ZEROS, TOKENS), 1),
    "unrolled": (jax.value_and_grad(lambda w, t: loss(w, t, roll=False)), (WEIGHTS, TOKENS), 1),
    "rematerialised": (jax.value_and_grad(lambda w, t: loss(w, t, remat=True)), (WEIGHTS, TOKENS), 1),
    "dropout": (jax.value_and_grad(lambda w, t, k: loss(w, t, key=k)), (WEIGHTS, TOKENS, jax.random.PRNGKey(0)), 2),
    "masked": (jax.value_and_grad(loss), (WEIGHTS, TOKENS, MASK), 2),
    "convolution": (jax.value_and_grad(convolution), CONVOLUTION, 2),
    "recurrence": (
        jax.value_and_grad(recurrence),
        ({"in": normal(5, 8), "hidden": normal(8, 8)}, normal(BATCH, 7, 5)),
        1,
    ),
    "experts": (
        jax.value_and_grad(experts),
        ({"router": normal(6, 4), "experts": normal(4, 6, 7)}, normal(BATCH, 6)),
        1,
    ),
    "newton": (newton, (np.abs(normal(4, 3)), normal(BATCH, 4)), 1),
    "per example": (lambda w, t: w["embedding"][t] @ w["layers"]["out"][0], (WEIGHTS, TOKENS), 1),
}
"""Programs, their arguments, and how many of the last parameters are the batch, or go with it."""


@cache
def lowered(name: str) -> tuple[Module, list[np.ndarray]]:
    function, arguments, _ = PROGRAMS[name]
    text = jax.jit(function, keep_unused=True).lower(*arguments).as_text("hlo")
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    return parse(text), [leaf.astype(np.int32) if leaf.dtype == np.int64 else leaf for leaf in leaves]


@pytest.mark.parametrize("name", PROGRAMS)
def test_slices_give_what_the_whole_batch_gives(name: str):
    module, arguments = lowered(name)
    last = len(arguments) - PROGRAMS[name][2]
    batch = {number: 0 for number in range(last, len(arguments)) if arguments[number].shape[:1] == (BATCH,)}
    sliced = microbatch(module, 4, batch=batch)
    for ours, theirs in zip(hloom.run(sliced, arguments).outputs, hloom.run(module, arguments).outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5 * np.abs(theirs).max())
    assert hloom.cost(sliced).total.flops < 1.12 * hloom.cost(module).total.flops


def test_a_training_step_needs_less_memory():
    module, _ = lowered("adam")
    sliced = microbatch(module, 4)
    assert memory(print_module(sliced))["temporaries"] < 0.4 * memory(print_module(module))["temporaries"]


@pytest.mark.parametrize("name", ["adam", "masked", "convolution", "experts"])
def test_the_batch_is_proposed(name: str):
    module, arguments = lowered(name)
    assert propose_batch(module, 4)[0].size == BATCH
    proposed = module.entry[propose_batch(module, 4)[0].parameter]
    assert proposed.number >= len(arguments) - PROGRAMS[name][2]  # pyright: ignore[reportAttributeAccessIssue]


def _halve(x: Any) -> Any:
    """Each row halved until it is small: as a batch, rounds go on until the last one is."""
    rows = jax.vmap(lambda row: lax.while_loop(lambda v: jnp.sum(v * v) > 1, lambda v: v / 2, row))
    return rows(lax.stop_gradient(x)) * x


MIXING: dict[str, tuple[Callable[..., Any], str]] = {
    "norm": (lambda w, x: jnp.sum(((x @ w - (x @ w).mean(0)) / jnp.sqrt((x @ w).var(0) + 1e-5)) ** 3), "together"),
    "sort": (lambda w, x: jnp.sum(jnp.sort(x @ w, 0)[:3]), "sort"),
    "contrast": (lambda w, x: jnp.mean(jax.nn.log_softmax((x @ w) @ (x @ w).T)), r"\(dot\)"),
    "shift": (lambda w, x: jnp.sum((x @ w)[1:] * (x @ w)[:-1]), "slice"),
    "rounds": (lambda w, x: jnp.sum(_halve(x @ w)), "how often it runs"),
    "cumulative": (lambda w, x: jnp.sum(jnp.cumsum(x @ w, 0) ** 2), "reduce-window"),
}


@pytest.mark.parametrize("name", MIXING)
def test_examples_that_mix_are_refused_with_the_way_to_them(name: str):
    function, reason = MIXING[name]
    text = jax.jit(jax.grad(function)).lower(normal(64, 64), normal(BATCH, 64)).as_text("hlo")
    module = parse(text)
    before = print_module(module)
    number = next(p.number for p in module.entry.parameters if p.type.dims[0] == BATCH)  # pyright: ignore
    with pytest.raises(MixedExamples, match=reason) as raised:
        microbatch(module, 4, batch={number: 0})
    assert str(raised.value).splitlines()[-1].startswith("  the way from the batch to it: ")
    assert print_module(module) == before


def test_channels_of_weights_are_not_proposed_where_the_batch_mixes():
    """before: the kernel's channels were cut, 3 % of the work; after: the batch's refusal, as if it were named."""

    def network(kernels: Any, x: Any) -> Any:
        for kernel in kernels:
            x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu((x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5))
        return jnp.sum(x**3)

    kernels = [normal(3, 3, 4, 8), normal(3, 3, 8, 8), normal(3, 3, 8, 8), normal(3, 3, 8, 8), normal(3, 3, 8, 8)]
    lowered = jax.jit(jax.value_and_grad(network)).lower(kernels, normal(BATCH, 8, 8, 4))
    with pytest.raises(MixedExamples, match="the way from the batch to it: x"):
        microbatch(parse(lowered.as_text("hlo")), 4)


SUM = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"


def test_a_sum_over_slices_starts_once():
    """What a reduction starts from enters the sum once, not once for each slice."""
    module = parse(
        SUM
        + """ENTRY e {
        x = f32[8] parameter(0)
        start = f32[] parameter(1)
        ROOT total = f32[] reduce(x, start), dimensions={0}, to_apply=add
        }"""
    )
    values = [np.arange(8, dtype=np.float32), np.float32(100)]
    assert hloom.run(microbatch(module, 4, batch="x:0"), values).outputs[0] == 128


def test_products_of_sums_over_slices_are_taken_once():
    """before: a product that makes less of a sum was taken for each slice; after: of the sum of all."""

    def loss(w: Any, queries: Any, keys: Any) -> Any:
        scores = jnp.tanh(queries @ w) @ jnp.tanh(keys @ w).T
        return -jnp.diagonal(jax.nn.log_softmax(scores)).mean()

    arguments = normal(8, 4), normal(64, 8), normal(64, 8)
    module = parse(jax.jit(jax.grad(loss)).lower(*arguments).as_text("hlo"))
    sliced = microbatch(module, 4, batch="1:0")
    assert hloom.cost(sliced).total.flops < 1.05 * hloom.cost(module).total.flops
    assert_equivalent(module, sliced, list(arguments))


def test_random_numbers_are_those_of_the_whole_batch():
    module = parse(
        """ENTRY e {
        x = f32[8,2] parameter(0)
        seed = u64[2] parameter(1)
        drawn = (u64[2], u32[8,2]) rng-bit-generator(seed), algorithm=rng_three_fry
        bits = u32[8,2] get-tuple-element(drawn), index=1
        small = f32[8,2] convert(bits)
        ROOT product = f32[8,2] multiply(x, small)
        }"""
    )
    values = [normal(8, 2), np.array([1, 2], np.uint64)]
    sliced = microbatch(module, 2, batch={"x": 0})
    np.testing.assert_array_equal(hloom.run(sliced, values).outputs[0], hloom.run(module, values).outputs[0])


def test_a_batch_in_a_dimension_behind_others():
    """[3,8] as one dimension of 24: each slice is a piece of each of the three parts."""
    module = parse(
        SUM
        + """ENTRY e {
        x = f32[3,8] parameter(0)
        flat = f32[24] reshape(x)
        numbers = f32[24] iota(), iota_dimension=0
        product = f32[24] multiply(flat, numbers)
        back = f32[3,8] reshape(product)
        zero = f32[] constant(0)
        sums = f32[3] reduce(back, zero), dimensions={1}, to_apply=add
        ROOT r = (f32[24], f32[3]) tuple(product, sums)
        }"""
    )
    values = [normal(3, 8)]
    sliced = microbatch(module, 4, batch={"x": 1})
    for ours, theirs in zip(hloom.run(sliced, values).outputs, hloom.run(module, values).outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_sums_of_a_narrow_type_are_held_in_a_wider_one():
    text = (
        SUM.replace("f32", "bf16")
        + """ENTRY e {
        x = bf16[8,4] parameter(0)
        zero = bf16[] constant(0)
        ROOT total = bf16[4] reduce(x, zero), dimensions={0}, to_apply=add
        }"""
    )
    for accumulate, held in (("f32", "f32[4]"), (None, "bf16[4]")):
        sliced = microbatch(parse(text), 4, batch="x:0", accumulate=accumulate)
        last = sliced["microbatch.body"].root.operands[-1]
        assert str(last.type).startswith(held)


@pytest.mark.parametrize(
    ("n", "batch", "reason"),
    [
        (3, {"x": 0}, "8 examples cannot be cut into 3 equal slices"),
        (0, None, "cannot be cut into 0 slices"),
        ("x", None, "cannot be cut into x slices"),
        (2, {"y": 0}, "no parameter 'y'"),
        (2, {"x": 5}, "no dimension 5"),
        (2, "x", "names no dimension"),
        (2, "x:0 x:1", "x has two batch dimensions, 0 and 1"),
        (10**30, None, "no dimension of a parameter"),
    ],
)
def test_what_is_no_batch_is_refused(n: int, batch: Any, reason: str):
    module = parse("ENTRY e { x = f32[8,2] parameter(0)\n ROOT y = f32[8,2] negate(x) }")
    with pytest.raises(hloom.HloomError, match=reason):
        microbatch(module, n, batch=batch)


def test_effects_on_slices_are_refused():
    module = parse(
        """ENTRY e {
        x = f32[8] parameter(0)
        ROOT y = f32[8] custom-call(x), custom_call_target="Sharding", custom_call_has_side_effect=true
        }"""
    )
    with pytest.raises(hloom.HloomError, match="y \\(custom-call\\) would run 2 times"):
        microbatch(module, 2, batch={"x": 0})


def test_collectives_on_slices_are_refused():
    module = parse(
        SUM
        + """ENTRY e {
        x = f32[8] parameter(0)
        ROOT y = f32[8] all-reduce(x), replica_groups={}, to_apply=add
        }"""
    )
    with pytest.raises(hloom.HloomError, match="y \\(all-reduce\\) would run 2 times"):
        microbatch(module, 2, batch={"x": 0})


def test_dynamic_sizes_are_refused():
    module = parse("ENTRY e { x = f32[<=8,2] parameter(0)\n ROOT y = f32[<=8,2] negate(x) }")
    with pytest.raises(hloom.HloomError, match="dynamic sizes"):
        microbatch(module, 2, batch={"x": 0})


def test_fragments_are_refused():
    module = parse("ENTRY e { x = f32[8] parameter(0)\n ROOT y = f32[8] add(x, %gone) }")
    with pytest.raises(hloom.HloomError, match="is a fragment, and cannot be cut into slices"):
        microbatch(module, 2, batch={"x": 0})


def test_what_is_looked_up_by_number_is_made_before_the_loop():
    """A scatter writes to examples by their numbers in the whole batch."""
    module = parse(
        SUM
        + """ENTRY e {
        x = f32[8] parameter(0)
        numbers = s32[3,1] parameter(1)
        weights = f32[3] parameter(2)
        zero = f32[] constant(0)
        zeros = f32[8] broadcast(zero), dimensions={}
        written = f32[8] scatter(zeros, numbers, weights), update_window_dims={}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
        ROOT product = f32[8] multiply(x, written)
        }"""
    )
    values = [normal(8), np.array([[1], [6], [6]], np.int32), normal(3)]
    sliced = microbatch(module, 4, batch={"x": 0})
    np.testing.assert_allclose(hloom.run(sliced, values).outputs[0], hloom.run(module, values).outputs[0], rtol=1e-6)


@pytest.mark.parametrize(
    "late", ["sine(x), control-predecessors={first}", "sine(total), control-predecessors={first, one}"]
)
def test_control_predecessors_follow_their_instructions(late):
    """Inside the loop an instruction follows those of its slice; what follows the loop waits for all of it."""
    module = parse(
        SUM
        + f"""ENTRY e {{
        x = f32[8] parameter(0)
        zero = f32[] constant(0)
        one = f32[8] cosine(x)
        first = f32[8] exponential(x), control-predecessors={{one}}
        total = f32[] reduce(first, zero), dimensions={{0}}, to_apply=add, control-predecessors={{zero, first}}
        last = {"f32[8]" if "(x)" in late else "f32[]"} {late}
        ROOT all = tuple(total, last, first)
        }}"""
    )
    values = [normal(8)]
    sliced = microbatch(module, 2, batch={"x": 0})
    for ours, theirs in zip(hloom.run(sliced, values).outputs, hloom.run(module, values).outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_the_window_of_a_convolution_is_no_batch():
    module = parse(
        """ENTRY e {
        image = f32[1,8,3] parameter(0)
        kernel = f32[4,3,2] parameter(1)
        ROOT r = f32[1,5,2] convolution(image, kernel), window={size=4}, dim_labels=b0f_0io->b0f
        }"""
    )
    with pytest.raises(MixedExamples, match="the elements of its window read the input at different offsets"):
        microbatch(module, 2, batch={"kernel": 0})


@pytest.mark.parametrize(
    "function, values, batch",
    [
        (lambda x: jax.vmap(lambda row: lax.fori_loop(0, 3, lambda i, r: r[i] * r, row))(x), [normal(4, 3)], [0]),
        (
            lambda x, k: lax.conv_general_dilated(
                x, k, (1, 1), "SAME", feature_group_count=4, dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
            [normal(2, 3, 3, 4), normal(2, 2, 1, 8)],
            [3, 3],
        ),
        (
            lambda number, x: lax.switch(
                number, [lambda x: jnp.zeros_like(x), jnp.sin, lambda x: x @ jnp.ones((2, 2))], x
            ),
            [np.int32(1), normal(4, 2)],
            [None, 0],
        ),
        (lambda x: ((x.sum(), (lax.fori_loop(0, 2, lambda i, v: jnp.sin(v), x), x)), x), [normal(4, 2)], [0]),
    ],
    ids=["a_row_in_a_loop", "groups_of_channels", "a_branch_of_zeros", "nested_results"],
)
def test_slices_of_sizes_in_attributes_and_of_what_is_called(function, values, batch):
    module = parse(jax.jit(function).lower(*values).as_text("hlo"))
    cut = {number: dimension for number, dimension in enumerate(batch) if dimension is not None}
    sliced = microbatch(module, 2, batch=cut)
    for ours, theirs in zip(hloom.run(sliced, values).outputs, hloom.run(module, values).outputs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_program_that_yields_nothing_of_its_batch_has_no_loop_over_slices():
    text = "ENTRY e { x = f32[8,4] parameter(0) y = f32[8,4] tanh(x) ROOT nothing = () tuple() }"
    with pytest.raises(hloom.HloomError, match="no loop over its slices"):
        microbatch_loop(parse(text), 2)


CUT_ALREADY = "module_mean is cut into 4 slices already, by the loop while"


@pytest.mark.parametrize("batch", [None, {"x": 0}])
def test_a_second_cut_says_that_the_program_is_cut_already(batch: dict[str, int] | None):
    module = parse("""
        add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
        ENTRY mean { x = f32[8,3] parameter(0)  squares = f32[8,3] multiply(x, x)  zero = f32[] constant(0)
          ROOT sum = f32[3] reduce(squares, zero), dimensions={0}, to_apply=add }""")
    with pytest.raises(hloom.HloomError, match=CUT_ALREADY) as caught:
        microbatch(microbatch(module, 4), 2, batch=batch)
    assert CUT_ALREADY in caught.value.message
    assert caught.value.hint == "for 2 times as many, cut the program as it was before: microbatch(8)"
