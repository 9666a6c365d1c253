"""Programs with fewer channels, heads and experts: what the original computes with these weights zero, through XLA.

Covers `dimension_dependency.py`, `removed_values.py`, `removal.py`, `axis_class.py`, `structure_report.py`, `separation.py`,
`reduction_correction.py`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom import autodiff
from hloom.compress.pruning.dimension_dependency import Coupling
from hloom.text import HloomError
from tests.compress.quantization.programs import LAYERS, lowered, normal


def traced(function: Any, params: Any, *inputs: Any) -> tuple[hloom.Module, dict[str, np.ndarray], list[np.ndarray]]:
    """A program, its weights by path, and all of its arrays in order."""
    module = hloom.load(jax.jit(function).lower(params, *inputs))
    leaves = [
        (jax.tree_util.keystr(path), np.asarray(leaf)) for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    ]
    named = {"params" + path: array for path, array in leaves}
    return module, named, [*(array for _, array in leaves), *map(np.asarray, inputs)]


def check(module: hloom.Module, weights: dict, arrays: list, *arguments: Any, **options: Any):
    """Prune, and compare with the original with zeros."""
    made = hloom.prune_structured(module, weights, *arguments, **options)
    expected = hloom.run(module, made.zeroed(arrays)).outputs
    outputs = hloom.run(made.module, made.convert(arrays)).outputs
    assert not hloom.compare(outputs, expected, rtol=2e-4, atol=2e-5)
    again = hloom.parse(hloom.print(made.module), strict=True)
    assert not hloom.compare(hloom.run(again, made.convert(arrays)).outputs, expected, rtol=2e-4, atol=2e-5)
    return made


def roles(made: Any) -> list[tuple[str, int, int]]:
    return [(axis.role, axis.size, axis.kept) for axis in made.axes]


@pytest.mark.parametrize(
    "function", [jnp.tanh, jax.nn.sigmoid, jnp.exp, jax.nn.gelu, jax.nn.relu6, jax.nn.silu], ids=lambda f: f.__name__
)
def test_channels_between_two_products(function: Any):
    """Whatever the function makes of zero: the rows that read it are zero."""

    def mlp(params, x):
        return function(x @ params["up"] + params["bias"]) @ params["down"] + params["last"]

    params = {"up": normal(8, 12), "bias": normal(12), "down": normal(12, 6), "last": normal(6)}
    module, weights, arrays = traced(mlp, params, normal(5, 8))
    made = check(module, weights, arrays, 0.25)
    assert roles(made) == [("channels", 12, 9)]
    assert len(made.axes[0].dims) == 3
    assert sorted(p.dims for p in made.module.entry.parameters) == [(5, 8), (6,), (8, 9), (9,), (9, 6)]


def test_a_gated_network_joins_two_projections():
    def glu(params, x):
        gate, up = jnp.split(x @ params["both"], 2, axis=-1)
        return (jax.nn.silu(gate) * up) @ params["down"]

    module, weights, arrays = traced(glu, {"both": normal(8, 24), "down": normal(12, 6)}, normal(5, 8))
    made = check(module, weights, arrays, 0.5)
    assert roles(made) == [("channels", 12, 6)]
    both = next(positions for (_, dim), positions in made.axes[0].dims.items() if dim == 1)
    assert (both[:6] + 12 == both[6:]).all()


def test_layers_that_share_constants():
    """The zeros of a relu are one value: layers lose channels of their own all the same."""

    def network(params, x):
        zero = jnp.zeros((5, 12))
        for up, down in params["layers"]:
            x = jnp.maximum(x @ up, zero) @ down
        return x

    layers = [(normal(8, 12, seed=n), normal(12, 8, seed=n + 5)) for n in range(2)]
    module, weights, arrays = traced(network, {"layers": layers}, normal(5, 8))
    made = check(module, weights, arrays, 0.5, scope=None)
    assert [role for role in roles(made) if role[1] == 12] == [("channels", 12, 6)] * 2
    first, second = [axis for axis in made.axes if axis.size == 12]
    assert not first.dims.keys() & second.dims.keys()


def test_heads():
    module, arrays = lowered("attention")
    weights = {
        p.name: a for p, a in zip(module.entry.parameters, arrays, strict=True) if a.ndim == 3 and a.shape != (2, 5, 16)
    }
    made = check(module, weights, list(arrays), 0.5, axes=["heads"])
    assert roles(made) == [("heads", 4, 2)]
    assert sorted(p.dims for p in made.module.entry.parameters) == [
        (2, 4, 16),
        (2, 5, 16),
        (16, 2, 4),
        (16, 2, 4),
        (16, 2, 4),
    ]
    dims = check(module, weights, list(arrays), 0.5, axes=["head_dims"])
    assert {axis.role for axis in dims.axes} == {"head_dims"}


def test_heads_of_fused_projections():
    """Reshapes from d to [heads, k] keep heads whole; slices of one weight lose the same positions."""

    def attention(params, x):
        q, k, v = (part.reshape(2, 5, 4, 3) for part in jnp.split(x @ params["qkv"] + params["bias"], 3, axis=-1))
        scores = jnp.einsum("bthk,bshk->bhts", q, k) / np.sqrt(3)
        mixed = jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(jnp.where(jnp.tri(5, dtype=bool), scores, -1e9)), v)
        return mixed.reshape(2, 5, 12) @ params["o"]

    params = {"qkv": normal(8, 36, scale=0.3), "bias": normal(36), "o": normal(12, 8)}
    module, weights, arrays = traced(attention, params, normal(2, 5, 8))
    made = check(module, weights, arrays, 0.5)
    assert roles(made) == [("heads", 4, 2)]
    assert sorted(p.dims for p in made.module.entry.parameters) == [(2, 5, 8), (6, 8), (8, 18), (18,)]


def test_embedding_tables_whose_rows_are_multiplied_with_each_other():
    """JAX fills NaN for an index out of bounds; within them rows of tables are zero where the tables are."""

    def recommendation(params, x, indices):
        rows = [jax.nn.relu(x @ params["bottom"])]
        first, second = params["tables"]
        rows += [jnp.where(indices[..., None] > 2, first[indices], 0).sum(1), jnp.take(second, indices, axis=0).sum(1)]
        rows = jnp.stack(rows, 1)
        products = jnp.einsum("bif,bjf->bij", rows, rows)
        return jnp.concatenate([rows[:, 0], products.reshape(len(x), -1)], -1) @ params["top"]

    params = {"bottom": normal(8, 12), "tables": [normal(20, 12), normal(20, 12)], "top": normal(12 + 9, 4)}
    indices = np.random.default_rng(1).integers(0, 20, (5, 6)).astype(np.int32)
    module, weights, arrays = traced(recommendation, params, normal(5, 8), indices)
    made = check(module, weights, arrays, 0.25)
    assert roles(made) == [("channels", 12, 9)]
    assert {name.partition("__")[2].split("__")[0] for name, _ in made.axes[0].dims} == {"bottom", "tables", "top"}


def test_experts_lose_weights_and_the_router_stays():
    """Softmax over the experts knows them all; what weighs them is cut to those that are left."""

    def mixture(params, x):
        gates = jax.nn.softmax(x @ params["router"])
        h = jax.nn.gelu(jnp.einsum("td,edf->tef", x, params["up"]))
        return jnp.einsum("te,ted->td", gates, jnp.einsum("tef,efd->ted", h, params["down"]))

    params = {"router": normal(8, 6), "up": normal(6, 8, 10), "down": normal(6, 10, 8)}
    module, weights, arrays = traced(mixture, params, normal(5, 8))
    made = check(module, weights, arrays, 0.5, axes=["experts"])
    assert roles(made) == [("experts", 6, 3)]
    assert sorted(p.dims for p in made.module.entry.parameters) == [(3, 8, 10), (3, 10, 8), (5, 8), (8, 6)]
    both = check(module, weights, arrays, 0.5)
    assert {axis.role for axis in both.axes} == {"experts", "channels"}


@pytest.mark.parametrize("name", ["depthwise", "flattened", "pooled"])
def test_channels_of_convolutions(name: str):
    def conv(x, kernel, groups=1):
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=groups
        )

    def network(params, x):
        h = jax.nn.relu(conv(x, params["first"]) * params["scale"] + params["bias"])
        if name == "depthwise":
            h = jax.nn.relu(conv(h, params["middle"], 8))
        if name == "pooled":
            h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        if name == "flattened":
            return h.reshape(2, -1) @ params["dense"]
        return conv(h, params["last"]).sum((1, 2))

    params = {"first": normal(3, 3, 2, 8), "scale": normal(8), "bias": normal(8)}
    params |= {"dense": normal(6 * 6 * 8, 5)} if name == "flattened" else {"last": normal(1, 1, 8, 4)}
    params |= {"middle": normal(3, 3, 1, 8)} if name == "depthwise" else {}
    module, weights, arrays = traced(network, params, normal(2, 6, 6, 2))
    made = check(module, weights, arrays, 0.25)
    assert roles(made) == [("channels", 8, 6)]


@pytest.mark.parametrize(
    ("groups", "multiplier", "units"), [(4, 1, 4), (2, 1, 2), (8, 1, 8), (8, 2, 8), (4, 3, 4)], ids=str
)
def test_groups_of_convolutions(groups: int, multiplier: int, units: int):
    """Whole groups go, with their input and output channels: depthwise ones are groups of one."""

    def conv(x, kernel, groups=1):
        return jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
        )

    def block(params, x):
        h = jax.nn.relu(conv(x, params["first"]) + params["bias"])
        h = jax.nn.relu(conv(h, params["middle"], groups) + params["wide"])
        return conv(h, params["last"]).sum((1, 2))

    wide = 8 * multiplier
    params = {"first": normal(1, 1, 3, 8), "bias": normal(8), "middle": normal(3, 3, 8 // groups, wide)}
    params |= {"wide": normal(wide), "last": normal(1, 1, wide, 5)}
    module, weights, arrays = traced(block, params, normal(2, 6, 6, 3))
    made = check(module, weights, arrays, 0.5)
    assert roles(made) == [("channels", units, units // 2)]
    sizes = sorted(p.dims for p in made.module.entry.parameters)
    kernel = (3, 3, 8 // groups, wide // 2)
    assert kernel in sizes and (4,) in sizes and (1, 1, wide // 2, 5) in sizes
    counts = [n.attributes.get("feature_group_count") for n in made.module.entry.nodes if n.opcode == "convolution"]
    assert counts.count(groups // 2) >= 1


@pytest.mark.parametrize("groups", [2, 4])
def test_groups_of_a_convolution_that_reads_an_input(groups: int):
    """The input keeps its channels: the convolution reads those of the groups that are left."""

    def conv(x, kernel, groups):
        return jax.lax.conv_general_dilated(
            x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
        )

    def network(params, x):
        h = jax.nn.relu(conv(jax.nn.relu(conv(x, params["first"], groups)), params["second"], groups))
        return conv(h, params["last"], 1)

    params = {"first": normal(3, 3, 2, 24), "second": normal(3, 3, 24 // groups, 48), "last": normal(1, 1, 48, 5)}
    made = check(*traced(network, params, normal(2, 6, 6, 2 * groups)), 0.5)
    counts = [
        n.attributes.get("feature_group_count") or 1 for n in made.module.entry.nodes if n.opcode == "convolution"
    ]
    assert counts == [groups // 2, groups // 2, 1]


def test_groups_of_the_batch():
    module = hloom.parse("""ENTRY main {
  x = f32[5,8] parameter(0), metadata={op_name="x"}
  w = f32[8,6] parameter(1), metadata={op_name="params['w']"}
  h = f32[5,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[6,7,5] broadcast(h), dimensions={2,0}
  k = f32[3,5,6] parameter(2), metadata={op_name="params['k']"}
  c = f32[3,5,6] convolution(b, k), window={size=3}, dim_labels=b0f_0io->b0f, batch_group_count=2
  v = f32[6,4] parameter(3), metadata={op_name="params['v']"}
  ROOT y = f32[3,5,4] dot(c, v), lhs_contracting_dims={2}, rhs_contracting_dims={0}
}""")
    weights = {"params.w": normal(8, 6), "params.k": normal(3, 5, 6), "params.v": normal(6, 4)}
    made = check(module, weights, [normal(5, 8), *weights.values()], 0.5)
    assert roles(made) == [("channels", 2, 1)]
    assert [p.dims for p in made.module.entry.parameters] == [(5, 8), (8, 3), (3, 5, 3), (3, 4)]


def rms(x, scale):
    return x * jax.lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) / 16 + 1e-6) * scale


def moments(x, scale):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean(x * x, -1, keepdims=True) - mean * mean
    return (x - mean) * jax.lax.rsqrt(variance + 1e-6) * scale


def centred(x, scale):
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(jnp.mean((x - mean) ** 2, -1, keepdims=True) + 1e-6) * scale


def residual(norm: Any):
    def network(params, x):
        h = x @ params["embed"]
        for n in range(2):
            h = h + jnp.tanh(norm(h, params["scale"][n]) @ params["up"][n]) @ params["down"][n]
        return norm(h, params["final"]) @ params["head"]

    params = {"embed": normal(4, 16), "head": normal(16, 5), "final": normal(16), "scale": [normal(16), normal(16)]}
    params |= {"up": [normal(16, 6), normal(16, 6, seed=2)], "down": [normal(6, 16), normal(6, 16, seed=2)]}
    return traced(network, params, normal(3, 4))


@pytest.mark.parametrize("norm", [rms, moments], ids=lambda f: f.__name__)
def test_the_residual_stream(norm: Any):
    """Norms count all that there were: sums of zeros and others over the same number."""
    module, weights, arrays = residual(norm)
    made = check(module, weights, arrays, 0.25, axes=["residual"])
    assert roles(made) == [("residual", 16, 12)] and len(made.axes[0].dims) == 9
    assert {role for role, _, _ in roles(check(module, weights, arrays, 0.5))} == {"channels"}


def deviations(x, scale):
    centre = x - jnp.mean(x, -1, keepdims=True)
    squares = jnp.einsum("td,td->t", centre, centre)[:, None] / 15
    return centre / jnp.sqrt(squares + 1e-6) * scale


def soft(x, scale):
    return jax.nn.softmax(x) * scale


def twice(x, scale):
    return centred(jnp.exp(centred(x, scale)) - 0.5, scale)


@pytest.mark.parametrize("norm", [centred, deviations, soft, twice], ids=lambda f: f.__name__)
def test_norms_that_count_what_zeros_become(norm: Any):
    """(0 - mean)^2 and exp(0 - max) are the same at all removed positions: once computed, times their number."""
    module, weights, arrays = residual(norm)
    made = check(module, weights, arrays, 0.25, axes=["residual"])
    assert roles(made) == [("residual", 16, 12)]
    assert {role for role, _, _ in roles(check(module, weights, arrays, 0.5))} == {"channels"}
    whole = check(module, weights, arrays, 0.0, axes=["residual"])
    assert whole.module.entry.root.type == module.entry.root.type


def test_what_a_norm_misses_is_added():
    module = hloom.parse("""sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[5,8] parameter(0)
  w = f32[8,6] parameter(1)
  h = f32[5,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[5,6] cosine(h)
  z = f32[] constant(0)
  ROOT y = f32[5] reduce(e, z), dimensions={1}, to_apply=sum
}""")
    weights = {"w": normal(8, 6)}
    made = check(module, weights, [normal(5, 8), weights["w"]], 0.5, only=["w"])
    total = made.module.entry.root
    assert total.opcode == "add" and [operand.opcode for operand in total.operands] == ["reduce", "multiply"]


def test_a_norm_that_zeros_would_change():
    """What is the same at all removed positions cannot be multiplied up, nor can what comes out of a loop."""

    def products(x, scale):
        return x / jnp.prod(x + 2, -1, keepdims=True) * scale

    module, weights, _ = residual(products)
    with pytest.raises(HloomError, match=r"has no axis to prune; .*reduce sums up what is not zero"):
        hloom.prune_structured(module, weights, 0.25, axes=["residual"])


@pytest.mark.parametrize("norm", [rms, centred, soft], ids=lambda f: f.__name__)
def test_outputs_get_back_what_they_had(norm: Any):
    """A stream that is an output: its removed positions are what zero weights make of them, zero or -mean."""

    def network(params, x):
        h = x @ params["embed"]
        h = h + jnp.tanh(norm(h, 1.0) @ params["up"]) @ params["down"]
        return {"states": norm(h, 1.0), "stream": h, "sum": h.sum(-1)}

    params = {"embed": normal(4, 16), "up": normal(16, 6), "down": normal(6, 16)}
    module, weights, arrays = traced(network, params, normal(3, 4))
    with pytest.raises(HloomError, match="it is an output of the program"):
        hloom.prune_structured(module, weights, 0.25, axes=["residual"])
    made = check(module, weights, arrays, 0.25, axes=["residual"], pad_outputs=True)
    assert roles(made) == [("residual", 16, 12)]
    assert [leaf.shape for leaf in hloom.run(made.module, made.convert(arrays)).outputs] == [(3, 16), (3, 16), (3,)]
    assert [n.opcode for n in made.module.entry.nodes].count("concatenate") == 2
    assert check(module, weights, arrays, 0.5, axes=["channels"], pad_outputs=True).axes[0].size == 6


def test_an_output_that_is_alone():
    module, weights, arrays = traced(lambda params, x: jnp.exp(x @ params["w"]), {"w": normal(8, 6)}, normal(5, 8))
    made = check(module, weights, arrays, 0.5, only=[0], pad_outputs=True)
    assert roles(made) == [("channels", 6, 3)] and str(made.module.entry.root.type) == "f32[5,6]"


def test_outputs_that_cannot_be_put_back():
    """Of a table that is an output itself it is known what its rows are; of what an input adds to it, not."""

    def network(params, x, shift):
        return (x @ params["w"]) + shift

    module, weights, _ = traced(network, {"w": normal(8, 6)}, normal(5, 8), normal(5, 6))
    with pytest.raises(HloomError, match="it is an input of the program, and no weight"):
        hloom.prune_structured(module, weights, 0.5, pad_outputs=True, only=[0])
    module, weights, _ = traced(lambda params, x: params["w"].T @ x @ params["w"], {"w": normal(8, 6)}, normal(8, 8))
    with pytest.raises(HloomError, match="it is an output of the program, in two dimensions"):
        hloom.prune_structured(module, weights, 0.5, pad_outputs=True, only=[0])


def test_a_loop_over_layers():
    """Layers of a stack lose the same positions."""
    module, arrays = lowered("language model")
    weights = {p.name: a for p, a in zip(module.entry.parameters, arrays, strict=True) if a.dtype == np.float32}
    made = check(module, weights, list(arrays), 0.5)
    assert sorted(roles(made)) == [("channels", 24, 12), ("heads", 4, 2)]
    stream = check(module, weights, list(arrays), 0.5, axes=["residual"])
    assert roles(stream) == [("residual", 16, 8)]
    assert len(LAYERS) + 1 == len(stream.axes[0].dims)


def test_a_norm_in_a_loop():
    """The stream that a loop carries is zero at removed positions in every round."""

    def network(params, x):
        def layer(h, weights):
            return h + jnp.tanh(centred(h, weights["scale"]) @ weights["up"]) @ weights["down"], None

        h, _ = jax.lax.scan(layer, x @ params["embed"], params["layers"])
        return centred(h, 1.0) @ params["head"]

    layers = {"scale": normal(3, 16), "up": normal(3, 16, 6), "down": normal(3, 6, 16)}
    params = {"embed": normal(4, 16), "head": normal(16, 5), "layers": layers}
    module, weights, arrays = traced(network, params, normal(3, 4))
    made = check(module, weights, arrays, 0.25, axes=["residual"])
    assert roles(made) == [("residual", 16, 12)] and len(made.axes[0].dims) == 5


def test_groups_of_heads_that_share_keys_and_values():
    """Two heads of queries for one of keys and values: both go with it."""

    def attention(params, x):
        q = (x @ params["q"]).reshape(5, 4, 3)
        k, v = ((x @ params[name]).reshape(5, 2, 3) for name in "kv")
        k, v = (jnp.repeat(part, 2, axis=1) for part in (k, v))
        mixed = jnp.einsum("hts,shk->thk", jax.nn.softmax(jnp.einsum("thk,shk->hts", q, k)), v)
        return mixed.reshape(5, 12) @ params["o"]

    params = {"q": normal(8, 12), "k": normal(8, 6), "v": normal(8, 6), "o": normal(12, 8)}
    module, weights, arrays = traced(attention, params, normal(5, 8))
    made = check(module, weights, arrays, 0.5)
    assert roles(made) == [("heads", 2, 1)]
    assert sorted(p.dims for p in made.module.entry.parameters) == [(5, 8), (6, 8), (8, 3), (8, 3), (8, 6)]


def test_two_producers_that_must_agree():
    def glu(params, x):
        return (jax.nn.silu(x @ params["gate"]) * (x @ params["up"])) @ params["down"]

    params = {"gate": normal(8, 12), "up": normal(8, 12, seed=1), "down": normal(12, 6)}
    module, weights, arrays = traced(glu, params, normal(5, 8))
    made = check(module, weights, arrays, 0.5)
    assert roles(made) == [("channels", 12, 6)] and len(made.axes[0].dims) == 3


@pytest.mark.parametrize(("groups", "expected"), [(1, (8, 4)), (4, (4, 2))])
def test_group_norms(groups: int, expected: tuple[int, int]):
    """Of one group, the channels; of several, whole groups, so that the others are as large as they were."""

    def conv(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def network(params, x):
        h = conv(x, params["first"])
        parts = h.reshape(2, 6, 6, groups, 8 // groups) if groups > 1 else h
        axes = (1, 2, parts.ndim - 1)
        parts = (parts - parts.mean(axes, keepdims=True)) / jnp.sqrt(parts.var(axes, keepdims=True) + 1e-5)
        h = jax.nn.relu(parts.reshape(2, 6, 6, 8) * params["scale"] + params["bias"])
        return conv(h, params["last"]).sum((1, 2))

    params = {"first": normal(3, 3, 2, 8), "scale": normal(8), "bias": normal(8), "last": normal(1, 1, 8, 4)}
    module, weights, arrays = traced(network, params, normal(2, 6, 6, 2))
    assert roles(check(module, weights, arrays, 0.5)) == [("channels", *expected)]


def test_biases_and_statistics_do_not_matter():
    """A channel matters by what multiplies: its weights and its scale, not what is added or divided by."""

    def network(params, x):
        h = (x @ params["up"] - params["mean"]) * jax.lax.rsqrt(params["var"] + 1e-5) * params["scale"]
        return jax.nn.relu(h + params["bias"]) @ params["down"]

    params = {name: np.ones(6, np.float32) for name in ("mean", "var", "scale", "bias")}
    params |= {"up": np.ones((4, 6), np.float32), "down": np.ones((6, 5), np.float32)}
    for name in ("mean", "var", "bias"):
        params[name][:2] = 100
    params["scale"][4:] = 2
    params["up"][:, 3] = 3
    module, weights, arrays = traced(network, params, normal(3, 4))
    made = check(module, weights, arrays, 0.5)
    assert next(iter(made.axes[0].dims.values())).tolist() == [3, 4, 5]


def test_weights_have_an_equal_say():
    """A small scale on a channel counts as much as a small column: squares are divided by their mean over channels."""

    def network(params, x):
        return jnp.tanh(x @ params["up"] * params["scale"]) @ params["down"]

    up, down = np.full((64, 4), 3, np.float32), np.ones((4, 5), np.float32)
    params = {"up": up, "down": down, "scale": np.asarray([1, 0.1, 1, 0.1], np.float32)}
    params["up"][:, 0] = 2.9
    module, weights, arrays = traced(network, params, normal(3, 64))
    assert next(iter(check(module, weights, arrays, 0.5).axes[0].dims.values())).tolist() == [0, 2]


def test_derivatives_and_plans():
    module, arrays = lowered("attention")
    weights = {p.name: a for p, a in zip(module.entry.parameters, arrays, strict=True) if a.shape != (2, 5, 16)}
    made = hloom.prune_structured(module, weights, 0.5)
    derivative = hloom.run(autodiff.vjp(made.module, [4]), [*made.convert(arrays), np.ones((2, 5, 16), np.float32)])
    expected = hloom.run(autodiff.vjp(module, [4]), [*made.zeroed(arrays), np.ones((2, 5, 16), np.float32)])
    assert not hloom.compare(derivative.outputs, expected.outputs, rtol=1e-3, atol=1e-5)
    assert "f32[16,2,4]" in hloom.print(hloom.plan(made.module, mesh="data=2").annotate())


def test_multiples_and_limits():
    module, weights, arrays = residual(rms)
    assert roles(check(module, weights, arrays, 0.4, axes=["residual"], multiple=8)) == [("residual", 16, 16)]
    assert roles(check(module, weights, arrays, 1.0, axes=["residual"])) == [("residual", 16, 1)]
    assert roles(check(module, weights, arrays, 0.0, axes=["residual"])) == [("residual", 16, 16)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ROOT y = f32[5,6] negate(h)", r"y \(negate\): it is an output of the program"),
        ("s = f32[5,6] sort(h), dimensions={1}, to_apply=less\n  ROOT y = f32[5,3] dot(s, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}", r"s \(sort\)"),
        ("i = f32[6] iota(), iota_dimension=0\n  b = f32[5,6] broadcast(i), dimensions={1}\n  s = f32[5,6] add(h, b)\n  ROOT y = f32[5,3] dot(s, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "it numbers the positions"),
        ("z = f32[] constant(1)\n  e = f32[5,6] exponential(h)\n  ROOT y = f32[5] reduce(e, z), dimensions={1}, to_apply=sum", "reduce sums up what is not zero"),
        ("s = f32[5,3] slice(h), slice={[0:5], [0:6:2]}\n  ROOT y = f32[5] dot(s, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "slice has a stride"),
        ("c = f32[5,6] custom-call(h), custom_call_target=\"f\"\n  ROOT y = f32[5,3] dot(c, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}", "nobody knows what f computes"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, reason: str):
    module = hloom.parse(f"""less {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }}
sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY main {{
  x = f32[5,8] parameter(0)
  w = f32[8,6] parameter(1)
  v = f32[6,3] parameter(2)
  u = f32[3] parameter(3)
  h = f32[5,6] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  {text}
}}""")
    weights = {"w": normal(8, 6), "v": normal(6, 3), "u": normal(3)}
    with pytest.raises(HloomError, match="main has no axis to prune; .*" + reason):
        hloom.prune_structured(module, weights, 0.5, only=["w"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sparsity": 1.5}, "1.5 is not a valid sparsity"),
        ({"axes": ["rows"]}, "there is no axis 'rows'"),
        ({"axes": []}, "no axis is given"),
        ({"multiple": 0}, "numbers cannot be multiples of 0"),
        ({"only": ["z"]}, "the program has no parameter 'z'"),
    ],
)
def test_bad_options(options: dict, message: str):
    module, weights, _ = residual(rms)
    with pytest.raises(HloomError, match=message):
        hloom.prune_structured(module, weights, **options)
    with pytest.raises(HloomError, match="no array is given for it"):
        hloom.prune_structured(module, {})


def test_elided_constants_are_refused():
    module = hloom.parse("""ENTRY main {
  x = f32[5,8] parameter(0)
  w = f32[8,6] parameter(1)
  h = f32[5,6] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  v = f32[6,3] constant({...})
  ROOT y = f32[5,3] dot(h, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")
    with pytest.raises(HloomError, match="v in main is an elided constant"):
        hloom.prune_structured(module, {"w": normal(8, 6)}, only=["w"])


def test_a_stream_that_cannot_be_cut_is_followed_once(monkeypatch: pytest.MonkeyPatch):
    """Twelve layers on a residual stream that comes from an input: its own dimension is refused of every weight."""
    looked_at = 0
    original = Coupling._pass_on

    def counted(self: Coupling, *arguments: Any) -> None:
        nonlocal looked_at
        looked_at += 1
        original(self, *arguments)

    monkeypatch.setattr(Coupling, "_pass_on", counted)
    counts: list[int] = []
    for layers in (12, 24):
        looked_at = 0
        params = [
            {"up": normal(8, 16, seed=n, scale=0.2), "down": normal(16, 8, seed=n, scale=0.2)} for n in range(layers)
        ]

        def stack(params: Any, x: Any) -> Any:
            for layer in params:
                x = x + jnp.tanh(x @ layer["up"]) @ layer["down"]
            return x

        module, weights, arrays = traced(stack, params, normal(4, 8, seed=99))
        made = check(module, weights, arrays, 0.5)
        assert roles(made) == [("channels", 16, 8)] * layers
        refused = [one.reason for one in made.exclusions if one.name.endswith("dimension 1")]
        assert len(refused) == layers and all("input of the program" in why or "output" in why for why in refused)
        counts.append(looked_at)
    assert counts[1] <= 2.1 * counts[0]
