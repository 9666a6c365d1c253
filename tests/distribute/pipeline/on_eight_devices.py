"""Pipelines on eight virtual devices: a child process runs each case and prints its failure, as JSON.

python -m tests.distribute.pipeline.on_eight_devices [CASE ...]
"""

from __future__ import annotations

import json
import sys
import traceback
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import hloom
from hloom.analysis import Interconnect
from hloom.distribute.pipeline import (
    Action,
    Machine,
    PipelinePlan,
    Schedule,
    Stage,
    layers,
    order,
    plan_pipeline,
    step_chain,
)
from hloom.distribute.pipeline.schedules import live_microbatches
from hloom.text import HloomError
from tests.distribute.pipeline.models import MODELS, Model

RANDOM = np.random.default_rng(0)
BATCH, LENGTH, WIDTH, WORDS = 16, 6, 16, 32


def normal(*dims: int) -> np.ndarray:
    return (RANDOM.standard_normal(dims) * 0.3).astype(np.float32)


def plan_of(
    count: int,
    stages: int,
    microbatches: int = 4,
    schedule: Schedule = Schedule.ONE_F_ONE_B,
    *,
    groups: int | None = None,
    devices: int = 1,
    recompute: bool = False,
) -> PipelinePlan:
    """`count` layers in so many stages of equal length, on groups of so many devices."""
    bounds = [round(number * count / stages) for number in range(stages + 1)]
    made = []
    for number in range(stages):
        group = number % (groups or stages)
        numbers = tuple(range(group * devices, (group + 1) * devices))
        made.append(Stage(bounds[number], bounds[number + 1] - 1, numbers))
    return PipelinePlan(tuple(made), microbatches, schedule, (recompute,) * stages)


def assert_steps(step: Any, state: Any, batch: Any, plan: PipelinePlan, *, steps: int = 2, **options: Any) -> Any:
    """Steps of the pipeline and of the whole step give the same states and results; the pipeline."""
    pipeline = hloom.pipeline(jax.jit(step).lower(state, *batch), plan, **options)
    whole = jax.jit(step)
    one, other = state, state
    for _ in range(steps):
        one, result = pipeline.step(one, *batch)
        other, expected = whole(other, *batch)
        for actual, wanted in zip(jax.tree.leaves((one, result)), jax.tree.leaves((other, expected)), strict=True):
            np.testing.assert_allclose(np.asarray(actual), np.asarray(wanted), rtol=2e-4, atol=2e-5)
    return pipeline


def assert_order(pipeline: Any, plan: PipelinePlan, *, holds_less: bool = False) -> None:
    """The last step ran what the schedule says, and held as many microbatches, or no more where it holds less."""
    groups: list[list[Action]] = [[] for _ in plan.device_groups]
    for action in pipeline.record.actions:
        groups[plan.group_of(action.stage)].append(action)
    assert tuple(map(tuple, groups)) == order(plan)
    expected = {stage: count for actions in order(plan) for stage, count in live_microbatches(actions).items()}
    live = pipeline.record.live_microbatches
    assert live == expected or (holds_less and all(live[stage] <= expected[stage] for stage in expected))


# A perceptron of four layers


def perceptron_loss(weights: Any, inputs: Any, targets: Any) -> Any:
    for weight, bias in weights:
        inputs = jnp.tanh(inputs @ weight + bias)
    return ((inputs - targets) ** 2).mean()


def perceptron_step(weights: Any, inputs: Any, targets: Any) -> Any:
    value, slopes = jax.value_and_grad(perceptron_loss)(weights, inputs, targets)
    return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes), value


PERCEPTRON = [(normal(WIDTH, WIDTH), normal(WIDTH)) for _ in range(4)]
ROWS = normal(BATCH, WIDTH), normal(BATCH, WIDTH)


def gpipe() -> None:
    plan = plan_of(4, 2, schedule=Schedule.GPIPE)
    pipeline = assert_steps(perceptron_step, PERCEPTRON, ROWS, plan)
    assert_order(pipeline, plan)


def one_f_one_b() -> None:
    plan = plan_of(4, 4, 8)
    pipeline = assert_steps(perceptron_step, PERCEPTRON, ROWS, plan)
    assert_order(pipeline, plan)
    assert pipeline.record.live_microbatches == {0: 4, 1: 3, 2: 2, 3: 1}
    (weight, _), *_, (last, _) = pipeline.step(PERCEPTRON, *ROWS)[0]
    assert [device.id for array in (weight, last) for device in array.devices()] == [0, 3]


def interleaved() -> None:
    plan = plan_of(4, 4, schedule=Schedule.INTERLEAVED, groups=2)
    assert_order(assert_steps(perceptron_step, PERCEPTRON, ROWS, plan), plan)


def zero_bubble() -> None:
    plan = plan_of(4, 3, schedule=Schedule.ZERO_BUBBLE)
    assert_order(assert_steps(perceptron_step, PERCEPTRON, ROWS, plan), plan)


def recomputation() -> None:
    plan = plan_of(4, 2, recompute=True)
    pipeline = assert_steps(perceptron_step, PERCEPTRON, ROWS, plan)
    for (_, stage), program in pipeline.program.microbatch.items():
        assert len(program.results) - len(program.sums) <= 1, f"stage {stage} keeps {program.results}"


def planned() -> None:
    """A plan from the step's own costs, in memory for half of its state, runs as it was simulated."""
    module = hloom.load(jax.jit(perceptron_step).lower(PERCEPTRON, *ROWS))
    chain = step_chain(module, "cpu", microbatches=4)
    link = Interconnect("shared", "memory", "switch", 1e10, 1e-6)
    best = plan_pipeline(chain, Machine(8, 1.2 * chain.parameter_bytes, (link,)), BATCH)
    assert len(best.plan.stages) > 1
    pipeline = assert_steps(perceptron_step, PERCEPTRON, ROWS, best.plan)
    assert_order(pipeline, best.plan)
    assert tuple(pipeline.record.live_microbatches.values()) == best.simulation.live


def several_devices_in_a_stage() -> None:
    plan = plan_of(4, 2, 2, devices=4)
    pipeline = assert_steps(perceptron_step, PERCEPTRON, ROWS, plan)
    state, _ = pipeline.step(PERCEPTRON, *ROWS)
    assert {device.id for device in state[3][0].devices()} == {4, 5, 6, 7}


def inference() -> None:
    def predict(weights: Any, inputs: Any) -> Any:
        for weight, bias in weights:
            inputs = jnp.tanh(inputs @ weight + bias)
        return inputs

    pipeline = hloom.pipeline(jax.jit(predict).lower(PERCEPTRON, ROWS[0]), plan_of(4, 4), batch={"inputs.1": 0})
    np.testing.assert_allclose(pipeline.step(PERCEPTRON, ROWS[0]), predict(PERCEPTRON, ROWS[0]), rtol=1e-5, atol=1e-6)


def arguments_that_nothing_uses_and_random_keys() -> None:
    def step(state: Any, inputs: Any, targets: Any, unused: Any) -> Any:
        weights, key = state
        key, own = jax.random.split(key)

        def loss(weights: Any) -> Any:
            hidden = inputs
            for weight, bias in weights:
                hidden = jnp.tanh(hidden @ weight + bias) * jax.random.bernoulli(own, 0.9, hidden.shape)
            return ((hidden - targets) ** 2).mean()

        slopes = jax.grad(loss)(weights)
        return (jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes), key), slopes[0][1]

    state, batch = (PERCEPTRON, jax.random.key(0)), (*ROWS, np.float32(1))
    pipeline = hloom.pipeline(jax.jit(step).lower(state, *batch), plan_of(4, 2), batch={"inputs.1": 0})
    (_, key), slope = pipeline.step(state, *batch)
    (_, expected_key), expected = jax.jit(step)(state, *batch)
    assert key == expected_key
    np.testing.assert_allclose(np.asarray(slope), np.asarray(expected), rtol=1e-5, atol=1e-6)


def accumulated_gradients() -> None:
    """A step that is a loop over microbatches itself, and clips the sum of their gradients by its norm."""

    def step(weights: Any, inputs: Any, targets: Any) -> Any:
        def add(sums: Any, rows: Any) -> Any:
            value, slopes = jax.value_and_grad(perceptron_loss)(weights, *rows)
            return jax.tree.map(jnp.add, sums, (value, slopes)), value

        start = jnp.zeros(()), jax.tree.map(jnp.zeros_like, weights)
        rows = inputs.reshape(4, -1, WIDTH), targets.reshape(4, -1, WIDTH)
        (value, slopes), values = lax.scan(add, start, rows)
        norm = jnp.sqrt(sum(jnp.sum(slope * slope) for slope in jax.tree.leaves(slopes)))
        scale = 0.1 * jnp.minimum(1, 1 / norm)
        return jax.tree.map(lambda weight, slope: weight - scale * slope, weights, slopes), (value / 4, values)

    for schedule in (Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE):
        plan = plan_of(4, 2, schedule=schedule)
        assert_order(assert_steps(step, PERCEPTRON, ROWS, plan), plan)
    lowered = jax.jit(step).lower(PERCEPTRON, *ROWS)
    refused(lambda: hloom.pipeline(lowered, plan_of(4, 2, 2)), "is a loop over 4 microbatches already: the step cannot")


def batch_normalization() -> None:
    """Statistics of microbatches are others than those of the batch: the instruction that mixes examples is named."""

    def loss(weights: Any, inputs: Any, targets: Any) -> Any:
        for weight, bias in weights:
            inputs = inputs @ weight
            means = inputs.mean(0)
            inputs = jnp.tanh((inputs - means) * lax.rsqrt(inputs.var(0) + 1e-5) + bias)
        return ((inputs - targets) ** 2).mean()

    def step(weights: Any, inputs: Any, targets: Any) -> Any:
        slopes = jax.grad(loss)(weights, inputs, targets)
        return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes)

    lowered = jax.jit(step).lower(PERCEPTRON, *ROWS)
    for batch in (None, {"inputs.1": 0, "targets.1": 0}):
        message = "mixes the examples of the batch: it needs what all examples make together, for each example"
        refused(lambda batch=batch: hloom.pipeline(lowered, plan_of(4, 2), batch=batch), message)
        refused(lambda batch=batch: hloom.pipeline(lowered, plan_of(4, 2), batch=batch), ": inputs.1 -> dot_general")
    refused(lambda: hloom.pipeline(lowered, plan_of(4, 2, 3)), "16 examples cannot be cut into 3 equal slices")


def refused(call: Any, message: str) -> None:
    try:
        call()
    except HloomError as error:
        assert message in str(error), str(error)
    else:
        raise AssertionError(f"not refused: {message}")


def wrong_arguments() -> None:
    lowered = jax.jit(perceptron_step).lower(PERCEPTRON, *ROWS)
    pipeline, flat = hloom.pipeline(lowered, plan_of(4, 2)), hloom.pipeline(hloom.load(lowered), plan_of(4, 2))
    refused(lambda: pipeline.step(PERCEPTRON, *ROWS, 2), "is given\n  give the arrays that it was lowered for")
    refused(lambda: pipeline.step(PERCEPTRON, ROWS[0][:4], ROWS[1]), "argument 8 is float32[4, 16], and the step takes")
    refused(lambda: flat.step(*ROWS), "the step takes 10 arrays, and 2 are given")
    refused(lambda: flat.step(x=ROWS), "x: the parameters of a module are given in order, without names")


def measurement() -> None:
    plan = plan_of(4, 2)
    pipeline = hloom.pipeline(jax.jit(perceptron_step).lower(PERCEPTRON, *ROWS), plan)
    measured = pipeline.measure(PERCEPTRON, *ROWS)
    assert len(measured.times) == 2 and all(times.forward_seconds > 0 for times in measured.times)
    assert 0 < measured.simulation.bubble < 1 and measured.seconds > 0 and 0 <= measured.wall_bubble < 1
    assert [[event.action for event in events] for events in measured.replay.events] == list(map(list, order(plan)))
    assert 0 < measured.replay.bubble < 1 and measured.replay.live == measured.simulation.live
    refused(lambda: pipeline.measure(PERCEPTRON, *ROWS, repeats=0), "a step cannot be measured 0 times")
    assert pipeline.record.actions


# A language model with tied embeddings, trained by Adam with clipped gradients


def block(x: Any, w: Any) -> Any:
    q, k, v = (part.reshape(*part.shape[:2], 2, -1) for part in jnp.split(normalised(x) * w["scale"] @ w["qkv"], 3, -1))
    scores = jnp.einsum("bthd,bshd->bhts", q, k)
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    x = x + jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores), v).reshape(x.shape) @ w["out"]
    return x + jax.nn.gelu(normalised(x) @ w["up"]) @ w["down"]


def normalised(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def language_loss(weights: Any, tokens: Any) -> Any:
    x = weights["embedding"][tokens[:, :-1]]
    if isinstance(weights["layers"], list):
        for layer in weights["layers"]:
            x = block(x, layer)
    else:
        x, _ = lax.scan(lambda x, layer: (block(x, layer), None), x, weights["layers"])
    logits = jax.nn.log_softmax(x @ weights["embedding"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1)[..., 0].mean()


def adam(state: Any, tokens: Any) -> Any:
    weights, first, second, number = state
    value, slopes = jax.value_and_grad(language_loss)(weights, tokens)
    norm = jnp.sqrt(sum(jnp.sum(slope * slope) for slope in jax.tree.leaves(slopes)))
    slopes = jax.tree.map(lambda slope: slope * jnp.minimum(1, 1 / norm), slopes)
    number = number + 1
    first = jax.tree.map(lambda m, slope: 0.9 * m + 0.1 * slope, first, slopes)
    second = jax.tree.map(lambda v, slope: 0.99 * v + 0.01 * slope * slope, second, slopes)

    def updated(weight: Any, m: Any, v: Any) -> Any:
        return weight - 0.01 * m / (1 - 0.9**number) / (jnp.sqrt(v / (1 - 0.99**number)) + 1e-3)

    return (jax.tree.map(updated, weights, first, second), first, second, number), {"loss": value, "norm": norm}


def language_model(count: int) -> Any:
    made = [
        {
            "scale": 1 + normal(WIDTH),
            "qkv": normal(WIDTH, 3 * WIDTH),
            "out": normal(WIDTH, WIDTH),
            "up": normal(WIDTH, 4 * WIDTH),
            "down": normal(4 * WIDTH, WIDTH),
        }
        for _ in range(count)
    ]
    return {"embedding": normal(WORDS, WIDTH), "layers": made}


def with_moments(weights: Any) -> Any:
    zeros = jax.tree.map(np.zeros_like, weights)
    return weights, zeros, zeros, np.float32(0)


TOKENS = RANDOM.integers(0, WORDS, (8, LENGTH + 1)).astype(np.int32)


def language_model_by_adam() -> None:
    state = with_moments(language_model(2))
    plan = plan_of(5, 2)
    pipeline = assert_steps(adam, state, (TOKENS,), plan)
    assert_order(pipeline, plan)
    (weights, first, _, _), _ = pipeline.step(state, TOKENS)
    for tree in (weights, first):
        assert [next(iter(layer["up"].devices())).id for layer in tree["layers"]] == [0, 1]
    activations = BATCH // 2 * LENGTH * WIDTH * 4
    embedding = weights["embedding"].nbytes
    new, _ = pipeline.step((weights, first, first, np.float32(1)), TOKENS)
    assert pipeline.record.sent_bytes < 2 * activations + 2 * embedding + 2 * TOKENS.nbytes + 400
    assert jax.tree.structure(new[0]) == jax.tree.structure(weights)


def sharded_stages(count: int, mesh: str, *, is_scan: bool = False, **options: Any) -> Any:
    """Steps of a language model in two stages of four devices, sharded by the planner; the pipeline."""
    weights = language_model(count)
    if is_scan:
        weights["layers"] = jax.tree.map(lambda *rows: np.stack(rows), *weights["layers"])
    plan = plan_of(count + (1 if is_scan else 3), 2, devices=4, **options)
    stages = tuple(Stage(stage.first, stage.last, stage.devices, mesh) for stage in plan.stages)
    plan = PipelinePlan(stages, plan.microbatches, plan.schedule, plan.recompute)
    pipeline = assert_steps(adam, with_moments(weights), (TOKENS,), plan)
    assert_order(pipeline, plan)
    return pipeline


def tensor_parallel_stages() -> None:
    """Microbatches of one example: only weights and what they make can be split."""
    pipeline = sharded_stages(2, "data=2,model=2", microbatches=8)
    for number, sharding in pipeline.executor.shardings.items():
        axes = {axis for value, spec in sharding.specs.items() if value.number >= 0 for axis in spec.axes}
        assert axes == {"data", "model"}, f"stage {number} splits parameters along {axes}"


def scan_over_layers() -> None:
    weights = language_model(4)
    weights["layers"] = jax.tree.map(lambda *rows: np.stack(rows), *weights["layers"])
    state = with_moments(weights)
    plan = plan_of(5, 2)
    assert plan.stages[0].last == 1
    pipeline = assert_steps(adam, state, (TOKENS,), plan)
    assert_order(pipeline, plan)
    (weights, _, second, _), _ = pipeline.step(state, TOKENS)
    for stacked in (weights["layers"]["up"], second["layers"]["up"]):
        assert {shard.device.id: shard.data.shape[0] for shard in stacked.addressable_shards} == {0: 2, 1: 2}
    for program in pipeline.program.microbatch.values():
        assert sum(node.opcode == "while" for node in program.module.entry.nodes) == 1


def scan_over_layers_in_uneven_stages() -> None:
    weights = language_model(3)
    weights["layers"] = jax.tree.map(lambda *rows: np.stack(rows), *weights["layers"])
    plan = PipelinePlan((Stage(0, 0, (0,)), Stage(1, 3, (1,))), 2)
    pipeline = assert_steps(adam, with_moments(weights), (TOKENS,), plan)
    (weights, *_), _ = pipeline.step(with_moments(weights), TOKENS)
    assert [part.shape[0] for part in weights["layers"]["up"].parts] == [1, 2]


# A convolutional network with momentum


def convolutional_loss(weights: Any, images: Any, labels: Any) -> Any:
    x = images
    for kernel, scale in weights["stages"]:
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME")
        mean, variance = x.mean((1, 2, 3), keepdims=True), x.var((1, 2, 3), keepdims=True)
        x = jax.nn.relu((x - mean) * lax.rsqrt(variance + 1e-5) * scale[:, None, None])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    logits = jax.nn.log_softmax(x.reshape(x.shape[0], -1) @ weights["out"])
    return -jnp.take_along_axis(logits, labels[:, None], 1).mean()


def momentum(state: Any, images: Any, labels: Any) -> Any:
    weights, velocity = state
    value, slopes = jax.value_and_grad(convolutional_loss)(weights, images, labels)
    velocity = jax.tree.map(lambda old, slope: 0.9 * old + slope, velocity, slopes)
    return (jax.tree.map(lambda weight, speed: weight - 0.05 * speed, weights, velocity), velocity), value


def convolutional_network() -> None:
    weights = {"stages": [(normal(4, c, 3, 3), 1 + normal(4)) for c in (3, 4, 4)], "out": normal(64, 5)}
    state = weights, jax.tree.map(np.zeros_like, weights)
    batch = normal(8, 3, 8, 8), np.arange(8, dtype=np.int32) % 5
    count = len(layers(hloom.load(jax.jit(momentum).lower(state, *batch)), microbatches=4))
    assert count == 4
    plan = plan_of(count, 3)
    assert_order(assert_steps(momentum, state, batch, plan), plan)


def runs_as_a_pipeline(model: Model, schedule: Schedule, *, recompute: bool) -> None:
    """Check a model's layers, and steps of gradient descent in three stages."""

    def descent(weights: Any, *batch: Any) -> Any:
        value, slopes = jax.value_and_grad(model.loss)(weights, *batch)
        return jax.tree.map(lambda weight, slope: weight - 0.1 * slope, weights, slopes), value

    count = len(layers(hloom.load(jax.jit(descent).lower(model.weights, *model.batch)), microbatches=4))
    assert count == model.layers, f"{count} layers"
    plan = plan_of(count, 3, schedule=schedule, recompute=recompute)
    assert_order(assert_steps(descent, model.weights, model.batch, plan), plan, holds_less=True)


LONG_CASES = {
    f"{name} {schedule.value}": partial(runs_as_a_pipeline, model, schedule, recompute=schedule is Schedule.ZERO_BUBBLE)
    for name, model in MODELS.items()
    for schedule in (Schedule.ONE_F_ONE_B, Schedule.ZERO_BUBBLE)
}


def one_stage_per_process() -> None:
    """Run by each of two processes of two devices."""
    plan = plan_of(4, 2, 4, devices=2)
    pipeline = hloom.pipeline(jax.jit(perceptron_step).lower(PERCEPTRON, *ROWS), plan)
    state, expected = PERCEPTRON, PERCEPTRON
    for _ in range(2):
        state, value = pipeline.step(state, *ROWS)
        expected, wanted = perceptron_step(expected, *ROWS)
    own = [
        (actual, other)
        for actual, other in zip(jax.tree.leaves((state, value)), jax.tree.leaves((expected, wanted)), strict=True)
        if actual.is_fully_addressable
    ]
    assert len(own) == (4 if jax.process_index() == 0 else 5)
    for actual, other in own:
        np.testing.assert_allclose(np.asarray(actual), np.asarray(other), rtol=1e-5, atol=1e-6)
    assert_order(pipeline, plan)


CASES = {
    case.__name__: case
    for case in (
        gpipe,
        one_f_one_b,
        interleaved,
        zero_bubble,
        recomputation,
        planned,
        several_devices_in_a_stage,
        inference,
        arguments_that_nothing_uses_and_random_keys,
        accumulated_gradients,
        batch_normalization,
        wrong_arguments,
        measurement,
        language_model_by_adam,
        scan_over_layers,
        scan_over_layers_in_uneven_stages,
        tensor_parallel_stages,
        convolutional_network,
    )
}


def main(names: list[str]) -> None:
    """Run cases, all short ones by default; each one's traceback, or nothing where it passed."""
    results = {}
    known = CASES | LONG_CASES
    for name in names or CASES:
        try:
            known[name]()
            results[name] = ""
        except Exception:
            results[name] = traceback.format_exc()
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1:])
