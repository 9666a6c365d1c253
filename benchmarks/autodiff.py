"""Figures of derivatives: what they cost beside JAX's own, how long making them takes, and loops beside Equinox's."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import hloom
from benchmarks import peers
from benchmarks.clock import Job, take_turns
from benchmarks.derivative_costs import MORE, REASONS, compare_in_child, geometric_mean
from benchmarks.figures import AtLeast, AtMost, Figure, growth, milliseconds
from benchmarks.peers import jax
from benchmarks.programs import Plan, training_step
from hloom.formats.hlo import load, parse, print_module
from hloom.ir import Module
from hloom.passes import apply_in_place
from hloom.runtime import memory

jnp, lax = jax.numpy, jax.lax
EQUINOX = "equinox"
CLEAN = ("simplify", "cse", "dce")
ITERATIONS = (10, 1000, 100_000)
ROUNDS = 5
NO_MORE = AtMost(1.05)
FAST = AtLeast(50_000)


CORPUS_NAMES: tuple[str, ...] = ()
"""Parts of the names of the corpus's programs that are compared; none for all."""


def autodiff(plan: Plan) -> Iterator[Figure]:
    """Costs by XLA's own count; then time and growth of the transformation; then loops, where Equinox is installed."""
    yield from _costs()
    yield from _corpus()
    yield from _transformation(plan)
    if importlib.util.find_spec("equinox") is not None:
        yield from _loops()


def _perceptron(weights: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ weights[0])
    return jax.nn.log_softmax(hidden @ weights[1])[:, 0].mean()


def _attention(x: Any, keys: Any, values: Any) -> Any:
    scores = jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", x, keys) / 8.0)
    return jnp.einsum("bqk,bkd->bqd", scores, values)


def _convolution(image: Any, kernel: Any) -> Any:
    layer = jax.nn.gelu(lax.conv_general_dilated(image, kernel, (2, 2), "SAME"))
    return lax.reduce_window(layer, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def _recurrence(weights: Any, start: Any, rows: Any) -> Any:
    return lax.scan(lambda carry, row: (jnp.tanh(weights @ carry + row), carry.sum()), start, rows)


def _shape(*dims: int) -> Any:
    return jax.ShapeDtypeStruct(dims, jnp.float32)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "perceptron": (_perceptron, ((_shape(64, 256), _shape(256, 10)), _shape(32, 64))),
    "attention": (_attention, (_shape(4, 32, 64), _shape(4, 32, 64), _shape(4, 32, 64))),
    "convolution and pooling": (_convolution, (_shape(2, 3, 32, 32), _shape(8, 3, 3, 3))),
    "recurrence": (_recurrence, (_shape(64, 64), _shape(64), _shape(50, 64))),
}


def _costs() -> Iterator[Figure]:
    for name, (function, arguments) in PROGRAMS.items():
        ours = hloom.vjp(_lowered(function, *arguments))
        theirs = _lowered(_pullback(function, arguments), *arguments, *_cotangents(function, arguments))
        for module in (ours, theirs):
            apply_in_place(module, CLEAN)
        counts = _counted(ours), _counted(theirs)
        for what, left, right in zip(("operations", "temporary bytes", "instructions"), *counts, strict=True):
            ratio = max(left, 1) / max(right, 1)
            yield Figure(f"vjp, {what}: {name}", f"{left:,.0f}", peers.JAX, f"{right:,.0f}", ratio, ratio, NO_MORE)


def _corpus() -> Iterator[Figure]:
    """The means over the programs of the corpus, and each program that has more operations, with its reason."""
    rows = compare_in_child(CORPUS_NAMES)
    for what in ("operations", "transcendentals", "instructions"):
        mean = geometric_mean([row.ratio(what) for row in rows])
        subject = f"vjp, {what}: geometric mean of {len(rows)} programs of the corpus"
        yield Figure(subject, f"{mean:.3f}", peers.JAX, "1", mean, mean, AtMost(1))
    for row in sorted(rows, key=lambda row: row.name):
        ratio = row.ratio("operations")
        if ratio > MORE:
            reason = REASONS.get(row.name)
            subject = f"vjp, operations: {row.name}" + (f": {reason}" if reason else "")
            counts = f"{row.ours.operations:,.0f}", f"{row.theirs.operations:,.0f}"
            yield Figure(subject, counts[0], peers.JAX, counts[1], ratio, ratio, None if reason else NO_MORE)


def _lowered(function: Callable[..., Any], *arguments: Any) -> Module:
    return load(jax.jit(function, keep_unused=True).lower(*arguments))


def _cotangents(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
    return jax.tree.leaves(jax.eval_shape(function, *arguments))


def _pullback(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
    structure = jax.tree.structure(jax.eval_shape(function, *arguments))

    def pulled(*values: Any) -> Any:
        primals, cotangents = values[: len(arguments)], values[len(arguments) :]
        return jax.vjp(function, *primals)[1](jax.tree.unflatten(structure, cotangents))

    return pulled


def _counted(module: Module) -> tuple[float, float, float]:
    """Floating-point and transcendental operations by XLA's count, bytes of temporaries, instructions."""
    text = print_module(module)
    cost = peers.xla_cost(peers.xla_parse(text))
    operations = cost.get("flops", 0.0) + cost.get("transcendentals", 0.0)
    return operations, memory(text)["temporaries"], module.node_count


def _transformation(plan: Plan) -> Iterator[Figure]:
    """A training step differentiated once more; instructions of the step in each second."""
    programs = training_step(plan.small, False), training_step(plan.large, False)
    modules = [parse(program.text) for program in programs]
    less, more = take_turns([Job(hloom.vjp, lambda module=module: module) for module in modules], plan.seconds)
    small = programs[0]
    rate = small.instructions / less.best
    yield Figure(f"vjp: {small.name}", milliseconds(less.best), "instructions/s", "50,000", rate, rate, FAST, rate)
    yield growth("vjp", *programs, less, more, AtMost(2))


def _loops() -> Iterator[Figure]:
    """The gradient through a loop whose trip count is known when it runs."""
    from equinox.internal import while_loop  # type: ignore[import-not-found]

    def step(state: Any) -> Any:
        return state[0] + 1, jnp.tanh(state[2] @ state[1]), state[2]

    @hloom.differentiable
    def ours(weights: Any, x: Any, count: Any) -> Any:
        return lax.while_loop(lambda state: state[0] < count, step, (0, x, weights))[1]

    def theirs(weights: Any, x: Any, count: Any) -> Any:
        body = lambda state: (state[0] + 1, jnp.tanh(weights @ state[1]))  # noqa: E731
        below = lambda state: state[0] < count  # noqa: E731
        return while_loop(below, body, (0, x), max_steps=None, kind="checkpointed", checkpoints=128)[1]

    weights, x = 0.9 * jnp.eye(64), jnp.ones(64)
    gradients = [jax.jit(jax.grad(lambda w, x, n, f=f: f(w, x, n).sum())) for f in (ours, theirs)]
    mine, other = (_temporaries(gradient, weights, x) for gradient in gradients)
    yield Figure("gradient through a loop, temporary bytes", f"{mine:,}", EQUINOX, f"{other:,}", mine / other,
                 mine / other, NO_MORE)  # fmt: skip
    for count in ITERATIONS:
        mine, other = _wall_times([partial(gradient, weights, x, count) for gradient in gradients])
        subject = f"gradient through {count:,} iterations"
        yield Figure(subject, milliseconds(mine), EQUINOX, milliseconds(other), mine / other, mine / other, AtMost(1))


def _temporaries(gradient: Any, weights: Any, x: Any) -> int:
    return gradient.lower(weights, x, 1000).compile().memory_analysis().temp_size_in_bytes


def _wall_times(functions: list[Callable[[], Any]]) -> list[float]:
    """The best of a few runs of each, in turn, in seconds: XLA works in threads of its own."""
    best = [inf] * len(functions)
    for _ in range(ROUNDS):
        for number, function in enumerate(functions):
            start = perf_counter()
            function().block_until_ready()
            best[number] = min(best[number], perf_counter() - start)
    return best
