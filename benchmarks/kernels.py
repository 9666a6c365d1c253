"""Figures of kernels in a pattern's place: what finding attention costs, and what its kernel saves.

The rule and the kernel are those of `docs/kernels.md`, word for word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hloom
from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, Program
from hloom.ir import Module

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "kernels.md"
NAME = "flash_attention"
LAYERS, MORE_LAYERS = 4, 32
LENGTH, WIDTH, HEADS = 1024, 64, 8
SAMPLES = 7
BEFORE = ["inline", "simplify"]
LINEAR, SHORTER, LESS = AtMost(1.5), AtMost(1), AtMost(0.5)


def kernels(plan: Plan) -> Iterator[Figure]:
    """Attention replaced in a stack of layers; one causal attention of long sequences before and after."""
    rule = documented_rule()
    replaced, more, traced = take_turns(
        [_replacing(LAYERS, rule), _replacing(MORE_LAYERS, rule), Job(_lowered, lambda: _stack(LAYERS))],
        plan.seconds,
        fewest=3,
    )
    yield Figure(
        f"kernels: {LAYERS} attentions replaced", milliseconds(replaced.best), "jax traces and lowers",
        milliseconds(traced.best), replaced.best / traced.best, replaced.median / traced.median, SHORTER,
    )  # fmt: skip
    less, many = (Program(f"{count} layers", "", count) for count in (LAYERS, MORE_LAYERS))
    yield growth("kernels: attention replaced", less, many, replaced, more, LINEAR)
    yield from _saved(rule)


def documented_rule() -> Any:
    """The family of rules in the file that the document shows."""
    if NAME not in sys.modules:
        match = re.search(rf"<!-- file: {NAME}.py -->\n```\n(.*?)\n```", DOCUMENT.read_text(), re.DOTALL)
        if match is None:
            raise RuntimeError(f"{DOCUMENT} shows no {NAME}.py")
        module = ModuleType(NAME)
        exec(compile(match[1], f"{NAME}.py", "exec"), module.__dict__)
        sys.modules[NAME] = module
    return sys.modules[NAME].ATTENTION


def _saved(rule: Any) -> Iterator[Figure]:
    """One attention and its gradient: FLOPs by hloom's cost, temporaries and seconds as XLA's CPU client has them."""
    arrays = [
        jnp.asarray(np.random.default_rng(seed).normal(size=(1, HEADS, LENGTH, WIDTH)), jnp.float32)
        for seed in range(3)
    ]
    for subject, wrap in (("causal attention", lambda f: f), ("its gradient", _gradient)):
        pair = [wrap(_attention), wrap(hloom.jit(_attention, [*BEFORE, rule]))]
        lowered = [jax.jit(function).lower(*arrays) for function in pair]
        programs = [program.compile() for program in lowered]
        flops = [hloom.cost(hloom.load(program)).total.flops for program in lowered]
        bytes_held = [_temporaries(program) for program in programs]
        seconds = _in_turns(programs, arrays)
        name = f"kernels: {subject} of {LENGTH:,} positions"
        yield _figure(f"{name}, FLOPs", [f"{count / 1e9:.2f} G" for count in flops], flops, None)
        yield _figure(f"{name}, XLA's temporaries", [f"{held / 1e6:.1f} MB" for held in bytes_held], bytes_held, LESS)
        yield _figure(f"{name}, XLA's CPU", [milliseconds(took) for took in seconds], seconds, None)


def _temporaries(program: Any) -> int:
    return program.memory_analysis().temp_size_in_bytes


def _figure(subject: str, texts: list[str], numbers: Sequence[float], bar: AtMost | None) -> Figure:
    return Figure(subject, texts[1], "as written", texts[0], numbers[1] / numbers[0], None, bar)


def _in_turns(programs: list[Any], arrays: list[Any]) -> list[float]:
    """The fewest seconds of each program, by the clock."""
    best = [float("inf")] * len(programs)
    for _ in range(SAMPLES):
        for number, program in enumerate(programs):
            start = perf_counter()
            jax.block_until_ready(program(*arrays))
            best[number] = min(best[number], perf_counter() - start)
    return best


def _attention(q: Any, k: Any, v: Any) -> Any:
    """With a mask: XLA's CPU compiler calls a library for attention without one, whose memory it does not see."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)) @ v


def _gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda q, k, v: (function(q, k, v) ** 2).sum(), (0, 1, 2))


def _stack(layers: int) -> Callable[..., Any]:
    """Layers of attention, each with weights of its own: a function that jax has not traced."""

    def function(x: Any, weights: Any) -> Any:
        for number in range(layers):
            q, k, v = (x @ weights[number, part] for part in range(3))
            q, k, v = (array.reshape(2, 32, 4, 16) for array in (q, k, v))
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.25
            scores = jnp.where(jnp.tril(jnp.ones((32, 32), bool)), scores, -1e9)
            x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape)
        return x

    return function


def _lowered(function: Callable[..., Any], layers: int = LAYERS) -> Any:
    x, weights = (jax.ShapeDtypeStruct(dims, jnp.float32) for dims in ((2, 32, 64), (layers, 3, 64, 64)))
    return jax.jit(function).lower(x, weights)


def _replacing(layers: int, rule: Any) -> Job:
    text = hloom.print(hloom.load(_lowered(_stack(layers), layers)))
    return Job(lambda module: _replaced(module, rule, layers), lambda: hloom.parse(text))


def _replaced(module: Module, rule: Any, layers: int) -> None:
    _, report = hloom.opt(module, [*BEFORE, rule])
    if report.passes[-1].matched != layers:
        raise RuntimeError(f"{report.passes[-1].matched} of {layers} attentions were replaced")
