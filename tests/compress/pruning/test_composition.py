"""Pruned programs with the rest of hloom: gradient steps, plans, and fits of whole train steps.

Covers `removal.py`, `masks.py`, `reduction_correction.py`, `removed_columns.py`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom import autodiff
from tests.compress.pruning.test_structured import check, roles, traced
from tests.compress.quantization.programs import normal

PARAMS = {"up": normal(16, 64, scale=0.2), "bias": normal(64), "down": normal(64, 8, scale=0.1)}


def loss(params: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jax.nn.relu(x @ params["up"] + params["bias"]) @ params["down"] - y) ** 2)


def step(params: Any, x: Any, y: Any) -> Any:
    value, derivatives = jax.value_and_grad(loss)(params, x, y)
    return jax.tree_util.tree_map(lambda weight, derivative: weight - 0.1 * derivative, params, derivatives), value


def program(function: Any) -> tuple[hloom.Module, dict[str, np.ndarray], list[np.ndarray]]:
    return traced(function, PARAMS, normal(32, 16), normal(32, 8, seed=3))


@pytest.mark.parametrize("options", [{"sparsity": 0.7}, {"pattern": "2:4"}, {"pattern": "4x4"}], ids=str)
def test_masks_hold_under_gradient_steps(options: dict):
    """Ten steps of gradient descent with momentum: what is removed stays zero, what is left is trained."""
    module, weights, arrays = program(loss)
    made = hloom.prune(module, weights, masks=True, **options)
    numbers = [weight.number for weight in made.weights]
    derivative = autodiff.vjp(made.module, numbers)
    values = made.convert(arrays)
    momentum = [np.zeros_like(values[number]) for number in numbers]
    losses = []
    for _ in range(10):
        losses.append(float(hloom.run(made.module, values).outputs[0]))
        for held, number, change in zip(
            momentum, numbers, hloom.run(derivative, [*values, np.float32(1)]).outputs, strict=True
        ):
            held *= 0.9
            held += change
            values[number] = values[number] - 0.1 * held
    assert losses[-1] < 0.9 * losses[0]
    for weight in made.weights:
        assert not values[weight.number][~weight.mask].any()
        assert np.count_nonzero(values[weight.number]) == weight.kept


def test_a_train_step_with_fewer_channels():
    """Its new weights are outputs: what zero weights make of them is zero, and put back."""
    module, weights, arrays = program(step)
    made = check(module, weights, arrays, 0.5, pad_outputs=True)
    assert roles(made) == [("channels", 64, 32)]
    outputs = hloom.run(made.module, made.convert(arrays)).outputs
    assert [output.shape for output in outputs] == [(64,), (64, 8), (16, 64), ()]
    assert np.count_nonzero(outputs[0]) == 32


def test_plans_split_masks_as_weights():
    def network(params: Any, x: Any) -> Any:
        return jax.nn.relu(x @ params["up"]) @ params["down"]

    params = {"up": normal(1024, 4096), "down": normal(4096, 1024)}
    module, weights, _ = traced(network, params, normal(256, 1024))
    made = hloom.prune(module, weights, masks=True)
    plan = hloom.plan(made.module, mesh="model=4", memory="16MiB")
    shardings = {p.name: p.attributes["sharding"] for p in plan.annotate().entry.parameters}
    for weight in made.weights:
        assert str(shardings[weight.name]) == str(shardings[f"{weight.name}.mask"]) != "{replicated}"
    smaller = hloom.prune_structured(module, weights, 0.5)
    assert "f32[1024,2048]" in hloom.print(hloom.plan(smaller.module, mesh="model=4", memory="16MiB").annotate())


@pytest.mark.long
def test_fits():
    """A masked step is planned as the step is; one with half of its channels needs less."""
    module, weights, _ = program(step)
    programs = [
        module,
        hloom.prune(module, weights, masks=True).module,
        hloom.prune_structured(module, weights, 0.5, pad_outputs=True).module,
    ]
    fits = [hloom.fit(one, devices=2, memory="1MiB", batch={3: 0, 4: 0}, microbatches=[1]) for one in programs]
    peaks = [fit.combinations[0].cost.peak_bytes for fit in fits]
    assert peaks[2] < peaks[0] <= peaks[1]
