"""Random networks of jax with a stream of features: norms, attention, experts, convolutions, loops, shared weights.

Every block takes and returns a stream of [TOKENS, WIDTH]; `random_network` draws blocks, and returns a function of
parameters and an input.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

TOKENS, WIDTH, INPUTS, CLASSES = 5, 12, 4, 3
Block = Callable[[Any, Any], Any]
ACTIVATIONS = (jnp.tanh, jax.nn.relu, jax.nn.sigmoid, jax.nn.gelu, jnp.cos, lambda x: jnp.exp(jnp.tanh(x)))


class Network(NamedTuple):
    """`function(params, x)`, and what it is made of."""

    function: Callable[[Any, Any], Any]
    params: Any
    x: np.ndarray
    blocks: tuple[str, ...]


class Weights:
    """Draws arrays of float64, of different norms along every dimension."""

    def __init__(self, random: Random) -> None:
        self._generator = np.random.default_rng(random.randrange(1 << 30))

    def __call__(self, *shape: int) -> np.ndarray:
        array = self._generator.standard_normal(shape) / np.sqrt(shape[-2] if len(shape) > 1 else 1)
        for dim, size in enumerate(shape):
            scales = np.exp(0.3 * self._generator.standard_normal(size))
            array = array * scales.reshape([size if at == dim else 1 for at in range(len(shape))])
        return array


def random_network(random: Random) -> Network:
    """A network of one to three blocks between an embedding and a head."""
    weights = Weights(random)
    names = [random.choice([*BLOCKS]) for _ in range(random.randint(1, 3))]
    made = [BLOCKS[name](random, weights) for name in names]
    norms = [random_norm(random) if random.random() < 0.6 else None for _ in range(len(names) + 1)]
    is_residual = [random.random() < 0.7 for _ in names]
    is_repeated = random.random() < 0.15
    is_tied = random.random() < 0.15
    ending = random.choice(["head", "head", "both", "pooled", "flattened", "sum"])

    def function(params: Any, x: Any) -> Any:
        h = x @ params["embed"]
        for number, (_, block) in enumerate(made):
            norm = norms[number]
            for _ in range(2 if is_repeated else 1):
                y = block(params["blocks"][number], h if norm is None else norm(h))
                h = h + y if is_residual[number] else y
        last = norms[-1]
        h = h if last is None else last(h)
        if is_tied:
            return h @ params["embed"].T
        match ending:
            case "both":
                return h @ params["head"], h
            case "pooled":
                return jnp.max(h, 0) @ params["head"]
            case "flattened":
                return h.reshape(-1) @ params["flat"]
            case "sum":
                return jnp.tanh(h).sum(-1)
        return h @ params["head"]

    params: dict[str, Any] = {"embed": weights(INPUTS, WIDTH), "blocks": [one for one, _ in made]}
    if not is_tied and ending in ("head", "both", "pooled"):
        params["head"] = weights(WIDTH, CLASSES)
    if not is_tied and ending == "flattened":
        params["flat"] = weights(TOKENS * WIDTH, CLASSES)
    return Network(function, params, weights(TOKENS, INPUTS), (*names, ending))


def random_norm(random: Random) -> Callable[[Any], Any]:
    """What combines a vector with a reduction of it."""
    before = random.choice(
        [lambda a: a, lambda a: jnp.exp(jnp.tanh(a)), jnp.cos, lambda a: a - a.mean(-1, keepdims=True), jnp.abs]
    )
    reduction = random.choice([jnp.sum, jnp.mean, jnp.max, jnp.min, jnp.var, _log_sum_exp, _length])
    combine = random.choice(
        [
            lambda a, s: a / (jnp.abs(s) + 1),
            lambda a, s: a - jnp.tanh(s),
            lambda a, s: a * jnp.tanh(s),
            lambda a, s: jnp.maximum(a, jnp.tanh(s)),
            lambda a, s: (a - a.mean(-1, keepdims=True)) * jax.lax.rsqrt(jnp.abs(s) + 0.1),
            lambda a, s: jax.nn.softmax(a) * s,
        ]
    )
    return lambda a: combine(a, reduction(before(a), axis=-1, keepdims=True))


def _log_sum_exp(a: Any, axis: int, keepdims: bool) -> Any:
    return jax.nn.logsumexp(a, axis, keepdims=keepdims)


def _length(a: Any, axis: int, keepdims: bool) -> Any:
    assert axis == -1 and keepdims, "as reductions are called"
    return jnp.sqrt(jnp.einsum("...d,...d->...", a, a)[..., None] + 0.01)


def mlp(random: Random, weights: Weights) -> tuple[Any, Block]:
    size, activation = random.choice([6, 8]), random.choice(ACTIVATIONS)
    params = {"up": weights(WIDTH, size), "bias": weights(size), "down": weights(size, WIDTH), "last": weights(WIDTH)}
    return params, lambda p, h: activation(h @ p["up"] + p["bias"]) @ p["down"] + p["last"]


def gated(random: Random, weights: Weights) -> tuple[Any, Block]:
    """Two projections that are multiplied: of two weights, halves of one, or every other column of one."""
    activation, form = random.choice(ACTIVATIONS), random.choice(["two", "halves", "interleaved"])
    if form == "two":
        params = {"gate": weights(WIDTH, 6), "up": weights(WIDTH, 6), "down": weights(6, WIDTH)}
        return params, lambda p, h: (activation(h @ p["gate"]) * (h @ p["up"])) @ p["down"]

    def block(p: Any, h: Any) -> Any:
        both = h @ p["both"]
        if form == "halves":
            gate, up = jnp.split(both, 2, axis=-1)
        else:
            pairs = both.reshape(TOKENS, 6, 2)
            gate, up = pairs[..., 0], pairs[..., 1]
        return (activation(gate) * up) @ p["down"]

    return {"both": weights(WIDTH, 12), "down": weights(6, WIDTH)}, block


def attention(random: Random, weights: Weights) -> tuple[Any, Block]:
    """Four heads of queries on one, two or four of keys and values; weights as matrices, or one of all three."""
    heads, size = 4, random.choice([2, 3])
    shared = random.choice([1, 2, 4])
    form = random.choice(["matrices", "fused", "three dims"])
    grouping = random.choice(["repeat", "einsum"])
    norm = random_norm(random) if random.random() < 0.3 else None
    sizes = heads * size, shared * size, shared * size
    if form == "fused":
        params = {"qkv": weights(WIDTH, sum(sizes)), "bias": weights(sum(sizes)), "o": weights(heads * size, WIDTH)}
    elif form == "matrices":
        params = {name: weights(WIDTH, width) for name, width in zip("qkv", sizes, strict=True)}
        params["o"] = weights(heads * size, WIDTH)
    else:
        params = {name: weights(WIDTH, width // size, size) for name, width in zip("qkv", sizes, strict=True)}
        params["o"] = weights(heads, size, WIDTH)

    def block(p: Any, h: Any) -> Any:
        if form == "fused":
            parts = jnp.split(h @ p["qkv"] + p["bias"], np.cumsum(sizes)[:2], axis=-1)
        elif form == "matrices":
            parts = [h @ p[name] for name in "qkv"]
        else:
            parts = [jnp.einsum("td,dhk->thk", h, p[name]) for name in "qkv"]
        q, k, v = (part.reshape(TOKENS, -1, size) for part in parts)
        if norm is not None:
            q = norm(q)
        mask = jnp.tri(TOKENS, dtype=bool)
        if grouping == "repeat":
            k, v = (jnp.repeat(part, heads // shared, axis=1) for part in (k, v))
            scores = jnp.where(mask, jnp.einsum("thk,shk->hts", q, k), -1e9)
            mixed = jnp.einsum("hts,shk->thk", jax.nn.softmax(scores), v)
        else:
            q = q.reshape(TOKENS, shared, heads // shared, size)
            scores = jnp.where(mask, jnp.einsum("tghk,sgk->ghts", q, k), -1e9)
            mixed = jnp.einsum("ghts,sgk->tghk", jax.nn.softmax(scores), v).reshape(TOKENS, heads, size)
        if form == "three dims":
            return jnp.einsum("thk,hkd->td", mixed, p["o"])
        return mixed.reshape(TOKENS, heads * size) @ p["o"]

    return params, block


def experts(random: Random, weights: Weights) -> tuple[Any, Block]:
    """Four experts by a softmax of a router, of all or of the best two."""
    is_sparse, activation = random.random() < 0.5, random.choice(ACTIVATIONS)
    params = {"router": weights(WIDTH, 4), "up": weights(4, WIDTH, 6), "down": weights(4, 6, WIDTH)}

    def block(p: Any, h: Any) -> Any:
        gates = jax.nn.softmax(h @ p["router"])
        if is_sparse:
            best, chosen = jax.lax.top_k(gates, 2)
            gates = (jax.nn.one_hot(chosen, 4) * best[..., None]).sum(1)
        inner = activation(jnp.einsum("td,edf->tef", h, p["up"]))
        return jnp.einsum("te,ted->td", gates, jnp.einsum("tef,efd->ted", inner, p["down"]))

    return params, block


def convolution(random: Random, weights: Weights) -> tuple[Any, Block]:
    """Along the tokens: plain, by groups or depthwise, between two of one tap."""
    groups, multiplier = random.choice([(1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (4, 2)])
    activation, is_dilated = random.choice(ACTIVATIONS), random.random() < 0.3
    wide = 8 * multiplier
    params = {"first": weights(1, WIDTH, 8), "middle": weights(3, 8 // groups, wide), "bias": weights(wide)}
    params["last"] = weights(1, wide, WIDTH)

    def convolve(h: Any, kernel: Any, groups: int = 1, dilation: int = 1) -> Any:
        numbers = ("NWC", "WIO", "NWC")
        return jax.lax.conv_general_dilated(
            h, kernel, (1,), "SAME", rhs_dilation=(dilation,), dimension_numbers=numbers, feature_group_count=groups
        )

    def block(p: Any, h: Any) -> Any:
        y = convolve(h[None], p["first"])
        y = activation(convolve(y, p["middle"], groups, 2 if is_dilated else 1) + p["bias"])
        return convolve(y, p["last"])[0]

    return params, block


def concatenation(random: Random, weights: Weights) -> tuple[Any, Block]:
    """Features of two projections side by side, or of a projection beside the stream or padding."""
    form, activation = random.choice(["two", "stream", "padding"]), random.choice(ACTIVATIONS)
    params = {"one": weights(WIDTH, 4), "other": weights(WIDTH, 6)}
    params["down"] = weights({"two": 10, "stream": 16, "padding": 7}[form], WIDTH)

    def block(p: Any, h: Any) -> Any:
        one = activation(h @ p["one"])
        if form == "two":
            parts = [one, jnp.tanh(h @ p["other"])]
        elif form == "stream":
            parts = [h, one]
        else:
            parts = [jnp.ones((TOKENS, 2)), one, jnp.zeros((TOKENS, 1))]
        return jnp.concatenate(parts, -1) @ p["down"]

    return params, block


def split(random: Random, weights: Weights) -> tuple[Any, Block]:
    """One projection cut into parts of different sizes, each read by a weight of its own."""
    activation = random.choice(ACTIVATIONS)
    params = {
        "all": weights(WIDTH, 11),
        "first": weights(5, WIDTH),
        "second": weights(2, WIDTH),
        "third": weights(4, WIDTH),
    }

    def block(p: Any, h: Any) -> Any:
        first, second, third = jnp.split(h @ p["all"], [5, 7], axis=-1)
        return activation(first) @ p["first"] + second @ p["second"] + jnp.tanh(third) @ p["third"]

    return params, block


def merged_axes(random: Random, weights: Weights) -> tuple[Any, Block]:
    """Features as a matrix of groups by parts: mixed along one of them, transposed, merged again."""
    activation, is_transposed = random.choice(ACTIVATIONS), random.random() < 0.5
    groups, parts = random.choice([(3, 2), (2, 4), (4, 2)])
    params = {"up": weights(WIDTH, groups * parts), "mix": weights(parts, 3), "down": weights(groups * 3, WIDTH)}

    def block(p: Any, h: Any) -> Any:
        y = jnp.einsum("tgp,pq->tgq", activation((h @ p["up"]).reshape(TOKENS, groups, parts)), p["mix"])
        y = y.transpose(0, 2, 1) if is_transposed else y
        return y.reshape(TOKENS * groups * 3).reshape(TOKENS, groups * 3) @ p["down"]

    return params, block


def loop(random: Random, weights: Weights) -> tuple[Any, Block]:
    """Layers of stacked weights, forwards or backwards; their hidden features may be read by a stack after it."""
    layers, activation = 3, random.choice(ACTIVATIONS)
    is_reversed, is_read = random.random() < 0.3, random.random() < 0.3
    norm = random_norm(random) if random.random() < 0.6 else None
    inner = random.choice([mlp, gated, attention, experts]) if random.random() < 0.5 else None
    if inner is not None:
        made = [inner(Random(7), weights) for _ in range(layers)]
        params: Any = jax.tree_util.tree_map(lambda *rows: np.stack(rows), *(one for one, _ in made))
        block = made[0][1]
    else:
        params = {"up": weights(layers, WIDTH, 6), "bias": weights(layers, 6), "down": weights(layers, 6, WIDTH)}

    def stack(p: Any, h: Any) -> Any:
        def layer(h: Any, row: Any) -> tuple[Any, Any]:
            y = h if norm is None else norm(h)
            if inner is not None:
                return h + block(row, y), None
            hidden = activation(y @ row["up"] + row["bias"])
            return h + hidden @ row["down"], hidden if is_read else None

        h, hidden = jax.lax.scan(layer, h, p["layers"] if is_read else p, reverse=is_reversed)
        return h if hidden is None else h + jnp.einsum("ltf,lfd->td", hidden, p["after"])

    if inner is not None:
        is_read = False
    return ({"layers": params, "after": weights(layers, 6, WIDTH)} if is_read else params), stack


def recurrence(random: Random, weights: Weights) -> tuple[Any, Block]:
    """A loop over the tokens with one set of weights and a state."""
    activation = random.choice([jnp.tanh, jax.nn.sigmoid, jax.nn.relu])
    params = {"in": weights(WIDTH, 6), "state": weights(6, 6), "out": weights(6, WIDTH)}

    def block(p: Any, h: Any) -> Any:
        def step(state: Any, token: Any) -> tuple[Any, Any]:
            state = activation(token @ p["in"] + state @ p["state"])
            return state, state

        _, states = jax.lax.scan(step, jnp.zeros(6), h)
        return states @ p["out"]

    return params, block


def scale(random: Random, weights: Weights) -> tuple[Any, Block]:
    norm = random_norm(random)
    return {"scale": weights(WIDTH), "bias": weights(WIDTH)}, lambda p, h: norm(h) * p["scale"] + p["bias"]


BLOCKS: dict[str, Callable[[Random, Weights], tuple[Any, Block]]] = {
    function.__name__: function
    for function in (
        *(mlp, gated, attention, experts, convolution, concatenation, split, merged_axes, loop, recurrence, scale),
    )
}
