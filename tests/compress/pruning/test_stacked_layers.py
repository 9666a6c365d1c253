"""Layers of a loop that lose positions of their own. Covers `stacked_layers.py`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.text import HloomError
from tests.compress.pruning.test_structured import check, roles, traced
from tests.compress.quantization.programs import lowered, normal


def weights_of(*names: str) -> dict[str, np.ndarray]:
    shapes = {"up": (3, 8, 12), "gate": (3, 8, 12), "down": (3, 12, 8), "both": (3, 8, 24), "bias": (3, 12)}
    return {name: normal(*shapes[name], seed=n, scale=0.4) for n, name in enumerate(names)}


def scanned(layer: Any, params: Any, **options: Any) -> tuple[hloom.Module, dict, list]:
    def network(params: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, row: (layer(h, row), None), x, params, **options)[0]

    return traced(network, params, normal(5, 8))


def mlp(h: Any, row: Any) -> Any:
    return h + jnp.tanh(h @ row["up"] + row["bias"]) @ row["down"]


@pytest.mark.parametrize("is_reversed", [False, True])
def test_every_layer_loses_what_matters_least_in_it(is_reversed: bool):
    params = weights_of("up", "bias", "down")
    module, weights, arrays = scanned(mlp, params, reverse=is_reversed)
    made = check(module, weights, arrays, 0.5)
    (axis,) = made.axes
    assert (axis.role, axis.size, axis.kept, axis.why_shared) == ("channels", 12, 6, None)
    assert sorted(axis.layer_dims.values()) == [0, 0, 0]
    squares = (params["up"] ** 2).sum(1), (params["down"] ** 2).sum(2)
    scores = np.sum([array / array.mean(1, keepdims=True) for array in squares], axis=0)
    for positions in axis.dims.values():
        assert positions.tolist() == np.sort(scores.argsort(1)[:, 6:], 1).tolist()
    rows = made.convert(arrays)
    assert [array.shape for array in rows] == [(3, 6), (3, 6, 8), (3, 8, 6), (5, 8)]
    zeros = made.zeroed(arrays)
    assert all((array == 0).sum() >= 18 for array in zeros[:3])


def test_own_positions_are_nearer_to_the_original_than_shared_ones():
    module, weights, arrays = scanned(mlp, weights_of("up", "bias", "down"))
    own, shared = (check(module, weights, arrays, 0.5, shared_positions=which) for which in (False, True))
    assert own.axes[0].layer_dims and not shared.axes[0].layer_dims
    assert shared.axes[0].why_shared == "they were asked for"
    original = hloom.run(module, arrays).outputs[0]
    errors = [np.linalg.norm(hloom.run(m.module, m.convert(arrays)).outputs[0] - original) for m in (own, shared)]
    assert errors[0] < errors[1]
    assert hloom.print(own.module, "short") == hloom.print(shared.module, "short")


def test_heads_of_a_loop_and_a_stream_through_it():
    """Heads belong to a layer; the residual stream goes from layer to layer."""
    module, arrays = lowered("language model")
    weights = {p.name: a for p, a in zip(module.entry.parameters, arrays, strict=True) if a.dtype == np.float32}
    made = check(module, weights, list(arrays), 0.5, axes=["heads", "channels"])
    assert all(axis.layer_dims for axis in made.axes)
    (stream,) = check(module, weights, list(arrays), 0.5, axes=["residual"]).axes
    assert not stream.layer_dims and "goes from layer to layer" in (stream.why_shared or "")
    assert all(positions.ndim == 1 for positions in stream.dims.values())


def test_hidden_features_that_a_loop_gives_out():
    """Rows that a loop writes, and what reads them after it, batch by batch, are the layers' own."""

    def network(params: Any, x: Any) -> Any:
        def layer(h: Any, row: Any) -> tuple[Any, Any]:
            hidden = jnp.tanh(h @ row["up"])
            return h + hidden @ row["down"], hidden

        h, hidden = jax.lax.scan(layer, x, params["layers"])
        return h + jnp.einsum("ltf,lfd->td", jnp.sin(hidden), params["after"])

    params = {"layers": weights_of("up", "down"), "after": normal(3, 12, 8, seed=9)}
    module, weights, arrays = traced(network, params, normal(5, 8))
    made = check(module, weights, arrays, 0.25)
    assert roles(made) == [("channels", 12, 9)]
    assert len(made.axes[0].layer_dims) == 3 and made.axes[0].why_shared is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("another row", "takes another layer's row"),
        ("flipped", "mixes the layers"),
        ("summed", "mixes the layers"),
        ("state", "goes from layer to layer"),
        ("parts", "layers would keep different numbers of positions"),
    ],
)
def test_layers_that_must_lose_the_same(name: str, reason: str):
    """Where rows of two layers meet, or layers would need other sizes, all lose the same positions, and it is said."""

    def network(params: Any, x: Any) -> Any:
        down = params["down"][::-1] if name == "flipped" else params["down"]
        count = jnp.arange(3)

        def layer(carry: Any, row: Any) -> tuple[Any, Any]:
            h, state = carry
            n, up, down_row = row
            if name == "another row":
                down_row = jax.lax.dynamic_index_in_dim(down, 2 - n, keepdims=False)
            hidden = jnp.tanh(h @ up)
            if name == "parts":
                first, second = jnp.split(hidden, [4], axis=-1)
                return (first @ down_row[:4] + second @ down_row[4:], state), None
            if name == "state":
                hidden = hidden + state
            h = h + hidden @ down_row
            return (h, hidden if name == "state" else state), None

        (h, _), _ = jax.lax.scan(layer, (x, jnp.zeros((5, 12))), (count, params["up"], down))
        return h + x @ params["up"].sum(0) @ params["last"] if name == "summed" else h

    params = weights_of("up", "down") | ({"last": normal(12, 8)} if name == "summed" else {})
    params["up"][0, :, :4] *= 0.01
    module, weights, arrays = traced(network, params, normal(5, 8))
    made = check(module, weights, arrays, 0.5, axes=["channels", "head_dims"])
    axis = next(axis for axis in made.axes if axis.size == 12)
    assert not axis.layer_dims and reason in (axis.why_shared or "")


def test_a_stack_that_is_an_output():
    """It gets positions back: the same in all layers."""

    def network(params: Any, x: Any) -> Any:
        return jax.lax.scan(lambda h, row: (mlp(h, row), None), x, params)[0], jnp.sin(params["up"])

    module, weights, arrays = traced(network, weights_of("up", "bias", "down"), normal(5, 8))
    made = check(module, weights, arrays, 0.5, pad_outputs=True)
    assert roles(made) == [("channels", 12, 6)]
    assert "is an output of the program" in (made.axes[0].why_shared or "")


def test_layers_cannot_lose_different_numbers():
    module, weights, _ = scanned(mlp, weights_of("up", "bias", "down"))
    with pytest.raises(
        HloomError, match=r"\[0.2, 0.5, 0.8\] is not a valid sparsity: layers of a stack have one shape"
    ):
        hloom.prune_structured(module, weights, [0.2, 0.5, 0.8])  # pyright: ignore[reportArgumentType]


def test_unrolled_layers_have_no_rows():
    """Layers that are weights of their own each are axes of their own."""

    def network(params: Any, x: Any) -> Any:
        for row in params:
            x = mlp(x, row)
        return x

    rows = [{name: array[n] for name, array in weights_of("up", "bias", "down").items()} for n in range(2)]
    module, weights, arrays = traced(network, rows, normal(5, 8))
    made = check(module, weights, arrays, 0.5)
    assert [(axis.layer_dims, axis.why_shared) for axis in made.axes] == [({}, None)] * 2
