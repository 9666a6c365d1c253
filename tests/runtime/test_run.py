"""Programs give the numbers that JAX gives, before and after XLA's optimisations, and through our printer.

Covers `xla.py`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from hloom.formats.hlo import parse, print_module
from hloom.ir.sharding import Tiled
from hloom.runtime import compare, run, run_per_device, run_text
from hloom.text import HloomError
from tests.corpus import lowered

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((4, 4), np.float32)
ROW = GENERATOR.standard_normal(16, np.float32)

JAX_PROGRAMS = {
    "dot": (lambda x: jnp.tanh(x @ x.T), X),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * 1.5), (0, x)), X),
    "conditional": (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), X),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x, axis=0)), X),
    "fft": (lambda x: jnp.fft.fft(x), X),
    "convolution": (lambda x: lax.conv(x.reshape(1, 1, 4, 4), x[:2, :2].reshape(1, 1, 2, 2), (1, 1), "SAME"), X),
    "random": (lambda x: x + jax.random.normal(jax.random.PRNGKey(3), x.shape), X),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(4)), X),
    "eigenvalues": (lambda x: jnp.linalg.eigvalsh(x @ x.T), X),
    "solve": (lambda x: jnp.linalg.solve(x, x.T), X),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), X),
    "gather_and_scatter": (lambda x: x[jnp.array([3, 0])] + jnp.zeros((2, 4)).at[1].add(x[2]), X),
    "top_k": (lambda x: lax.top_k(x, 3), ROW),
    "tree": (lambda pair: {"a": pair[0] + 1, "b": (pair[1],)}, (X, ROW)),
    "bfloat16": (lambda x: x.astype(jnp.bfloat16) * 2, X),
    "gradient": (jax.grad(lambda x: jnp.sum(jax.nn.gelu(x) ** 2)), X),
}

NOT_RUN = {
    "control.debug_print_ordered": "calls a Python function",
    "control.debug_print_unordered": "calls a Python function",
    "control.io_callback_ordered": "calls a Python function",
    "control.pure_callback": "calls a Python function",
    "control.foreign_call_with_string": "corpus_legacy",
    "control.foreign_calls": "corpus_effect",
    "linalg.factorisations_on_gpu": "cusolver_geqrf_ffi",
    "linalg.factorisations_on_tpu": "LuDecomposition",
    "sharding.collective_broadcast": "collective-broadcast",
    "sharding.ragged_all_to_all": "ragged-all-to-all",
    "sharding.partly_manual": "xla.sdy",
}
"""The corpus's programs that cannot be run, and what the error names."""

NOT_COMPARED = {
    "control.mapped_while": "the loop does not end for these inputs",
    "elementwise.high_multiply": "XLA's CPU lacks mulhi until it is legalised",
    "random.rng_uniform": "the state of rng advances from one execution to the next",
}
"""Programs of which two executions of one text cannot be compared, and why."""

SAMPLE = (
    "contraction.dot_batched", "contraction.convolution_2d", "contraction.dot_many_dimensions", "control.switch",
    "control.nested_control", "control.trees", "elementwise.total_order", "elementwise.high_multiply", "indexing.scatter",
    "indexing.reshape_and_transpose", "linalg.svd", "linalg.solve_gradients", "models.multilayer_perceptron",
    "random.typed_keys", "reduction.sort_complex", "reduction.top_k", "values.single_elements", "values.nan_payloads",
)  # fmt: skip
DEVICES = 8


@pytest.mark.parametrize("name", JAX_PROGRAMS)
def test_gives_what_jax_gives(name):
    function, argument = JAX_PROGRAMS[name]
    text = jax.jit(function).lower(argument).as_text("hlo")
    expected = jax.tree.leaves(jax.jit(function)(argument))
    inputs = jax.tree.leaves(argument)
    assert compare(run_text(text, inputs).outputs, expected, rtol=1e-6, atol=1e-6) == []
    assert compare(run(text, inputs).outputs, expected, rtol=1e-6, atol=1e-6) == []


@pytest.mark.parametrize("name", SAMPLE)
def test_optimised_text_gives_what_the_program_gives(name):
    assert_stages_agree(name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({*lowered("before")} - {*NOT_RUN}))
def test_every_program_runs_at_both_stages(name):
    if name.startswith("sharding."):
        run(lowered("before")[name], devices=DEVICES)
        if name in lowered("after"):
            run(lowered("after")[name], devices=DEVICES)
    else:
        assert_stages_agree(name)


@pytest.mark.parametrize("name", NOT_RUN)
def test_what_cannot_run_is_named(name):
    with pytest.raises(HloomError, match=NOT_RUN[name]):
        run(lowered("before")[name], devices=DEVICES if name.startswith("sharding.") else None)


@pytest.mark.parametrize("name", SAMPLE[:6])
def test_what_we_print_runs_the_same(name):
    assert_print_runs_the_same(name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted({*lowered("before")} - {*NOT_RUN} - {*NOT_COMPARED}))
def test_what_we_print_of_every_program_runs_the_same(name):
    assert_print_runs_the_same(name, devices=DEVICES if name.startswith("sharding.") else None)


def assert_print_runs_the_same(name, devices=None):
    """XLA computes the same bits from JAX's text and from what we print of it."""
    text = lowered("before")[name]
    first = run_text(text, seed=3, devices=devices)
    second = run_text(print_module(parse(text)), first.inputs, devices=devices)
    assert [output.tobytes() for output in first.outputs] == [output.tobytes() for output in second.outputs]


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "ring", "pipeline_scan", "sharded_map_gradients"])
def test_partitioned_text_gives_each_device_its_part(name):
    whole = run(lowered("before")[f"sharding.{name}"], seed=1, devices=DEVICES)
    after = parse(lowered("after")[f"sharding.{name}"])
    shardings = [parameter.attributes.get("sharding") for parameter in after.entry.parameters]
    pieces = [cut(array, sharding) for array, sharding in zip(whole.inputs, shardings, strict=True)]
    parts = run_per_device(after, list(zip(*pieces, strict=True)))
    for device in range(DEVICES):
        assert compare(parts.per_device[device], whole.per_device[device]) == []


def test_sharded_outputs_are_whole():
    text = """
    HloModule m, num_partitions=4

    ENTRY e {
      x = f32[8,2] parameter(0), sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}
      ROOT y = f32[8,2] add(x, x), sharding={devices=[4,1]<=[4]}
    }
    """
    x = np.arange(16, dtype=np.float32).reshape(8, 2)
    result = run(text, [x])
    assert np.array_equal(result.outputs[0], 2 * x)
    assert [device[0].shape for device in result.per_device] == [(2, 2)] * 4


def test_replicas_differ():
    text = "HloModule m, replica_count=2\n ENTRY e { ROOT i = u32[] replica-id() }"
    assert [device[0].item() for device in run(text).per_device] == [0, 1]


def test_seed_and_table():
    text = "ENTRY e { x = f32[3] parameter(0) y = s32[] constant(7) ROOT t = (f32[3], s32[]) tuple(x, y) }"
    first, same, other = run(text, seed=1), run(text, seed=1), run(text, seed=2)
    assert np.array_equal(first.outputs[0], same.outputs[0])
    assert not np.array_equal(first.outputs[0], other.outputs[0])
    assert [row.type for row in first.rows()] == ["f32[3]", "s32[]"]
    assert (first.rows()[1].minimum, first.rows()[1].maximum, first.rows()[1].not_finite) == (7.0, 7.0, 0)
    assert first.seconds > 0


def test_inputs_by_name_and_number():
    text = "HloModule m\n ENTRY e { x = s32[] parameter(0) p = (s32[], s32[]) parameter(1) q = s32[] get-tuple-element(p), index=1 ROOT y = s32[] subtract(x, q) }"
    inputs = {"x": np.int32(9), "p.1": np.int32(4), "1": np.int32(0)}
    assert run(text, inputs).outputs[0] == 5


def assert_stages_agree(name):
    before = run(lowered("before")[name], seed=1)
    if name in lowered("after"):
        after = run(lowered("after")[name], before.inputs)
        assert compare(before.outputs, after.outputs) == []


def cut(array, sharding):
    """Each device's part of an array."""
    if not isinstance(sharding, Tiled):
        return [array] * DEVICES
    tiles = sharding.devices.ids().reshape(sharding.tile)
    parts = [array] * DEVICES
    for tile in np.ndindex(tiles.shape):
        part = array
        for axis, index in enumerate(tile[: array.ndim]):
            part = np.split(part, sharding.tile[axis], axis)[index]
        parts[int(tiles[tile])] = part
    return parts
