"""Figures of quantisation: bytes and errors of weights and of KV caches by format, and how the time grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, Program
from hloom.compress.quantization import Noise, compare_steps, quantize
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.runtime import run

LINEAR = AtMost(2)
WIDTH = 256
LAYERS = 6
FORMATS = {
    "int8": (0.26, 0.02),
    "int4": (0.14, 0.3),
    "e4m3": (0.26, 0.06),
    "mxfp8": (0.26, 0.08),
    "mxfp4": (0.14, 0.3),
}
"""By format what part of the bytes and which error is allowed."""
CACHE_FORMATS = {"int8": (0.29, 0.02), "e4m3": (0.29, 0.06), "int4:16": (0.19, 0.3), "mxfp8": (0.26, 0.08)}
"""The same of caches, whose scales are per head and token: of rows of 32 elements."""
STEPS = 4


def layers(count: int, width: int) -> Program:
    """A stack of layers, each a dot, a bias and a tanh, with a residual connection."""
    square, row = f"f32[{width},{width}]", f"f32[16,{width}]"
    lines = ["HloModule layers", "ENTRY main {", f'  x0 = {row} parameter(0), metadata={{op_name="x"}}']
    for n in range(count):
        name = f"metadata={{op_name=\"params['{n}']\"}}"
        lines += [
            f"  w{n} = {square} parameter({n + 1}), {name}",
            f"  d{n} = {row} dot(x{n}, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
            f"  t{n} = {row} tanh(d{n})",
            f"  x{n + 1} = {row} add(x{n}, t{n})",
        ]
    lines[-1] = lines[-1].replace("  x", "  ROOT x", 1)
    return Program(f"{count:,} layers", "\n".join([*lines, "}"]), 4 * count + 1)


def quantization(plan: Plan) -> Iterator[Figure]:
    """Bytes and output's error by format, against the original, run by XLA; and the growth of the time."""
    program = layers(LAYERS, WIDTH)
    module = parse(program.text)
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal((16, WIDTH)).astype(np.float32)]
    shape = (WIDTH, WIDTH)
    arrays += [(generator.standard_normal(shape) / 16).astype(np.float32) for _ in range(LAYERS)]
    original = run(module, arrays).outputs[0]
    for name, (share, error) in FORMATS.items():
        made = quantize(module, name)
        before = sum(weight.bytes_before for weight in made.weights)
        after = sum(weight.bytes_after for weight in made.weights)
        ratio = after / before
        yield Figure(
            f"{name}, bytes of weights: {program.name}",
            f"{after:,}", "f32", f"{before:,}", ratio, ratio, AtMost(share),
        )  # fmt: skip
        noise = Noise()
        noise.add(original, run(made.module, made.convert(arrays)).outputs[0])
        yield Figure(
            f"{name}, error of the output: {program.name}",
            f"{noise.error:.4f}", "limit", f"{error:g}", noise.error, noise.error, AtMost(error),
        )  # fmt: skip
    yield from _growth("quantize", quantize, [layers(count, 8) for count in _counts(plan)], plan)
    yield from _cache_figures()
    programs = [decode_step(max(count // 4, 1), 8) for count in _counts(plan)]
    yield from _growth("quantize --cache", lambda module: quantize(module, None, cache="int8"), programs, plan)


def _counts(plan: Plan) -> tuple[int, int]:
    """How many layers less, and how many more."""
    return plan.chain // 8, plan.chain * 5 // 4


def _growth(name: str, work: Callable[[Module], object], programs: Sequence[Program], plan: Plan) -> Iterator[Figure]:
    jobs = [Job(work, lambda text=one.text: parse(text)) for one in programs]
    less, more = take_turns(jobs, plan.seconds)
    yield Figure(
        f"{name}: {programs[1].name}", milliseconds(more.best), "limit", "10 s", more.best / 10, more.median / 10,
        AtMost(1), programs[1].instructions / more.best,
    )  # fmt: skip
    yield growth(name, programs[0], programs[1], less, more, LINEAR)


def decode_step(count: int, size: int) -> Program:
    """A decode step of layers that write a row into their keys and their values, and read both by dots."""
    held, row, vector, scores = f"f32[2,16,{size}]", f"f32[2,1,{size}]", f"f32[2,{size}]", "f32[2,16]"
    lines = ["HloModule decode", "ENTRY main {", f"  h0 = {vector} parameter(0)", "  i = s32[] parameter(1)"]
    lines += ["  zero = s32[] constant(0)"]
    for n in range(count):
        lines += [
            f"  k{n} = {held} parameter({2 * n + 2})",
            f"  v{n} = {held} parameter({2 * n + 3})",
            f"  row{n} = {row} reshape(h{n})",
            f"  keys{n} = {held} dynamic-update-slice(k{n}, row{n}, zero, i, zero)",
            f"  values{n} = {held} dynamic-update-slice(v{n}, row{n}, zero, i, zero)",
            f"  s{n} = {scores} dot(h{n}, keys{n}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
            "lhs_contracting_dims={1}, rhs_contracting_dims={2}",
            f"  t{n} = {scores} tanh(s{n})",
            f"  m{n} = {vector} dot(t{n}, values{n}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
            "lhs_contracting_dims={1}, rhs_contracting_dims={1}",
            f"  h{n + 1} = {vector} add(h{n}, m{n})",
        ]
    made = [f"{part}{n}" for n in range(count) for part in ("keys", "values")]
    types = ", ".join([vector, *([held] * len(made))])
    lines += [f"  ROOT step = ({types}) tuple(h{count}, {', '.join(made)})", "}"]
    return Program(f"a decode step of {count:,} layers", "\n".join(lines), 9 * count + 4)


def _cache_figures() -> Iterator[Figure]:
    """Bytes of caches by format, and the error of the result after some steps."""
    program = decode_step(LAYERS, 32)
    module, generator = parse(program.text), np.random.default_rng(0)
    empty = [np.zeros((2, 16, 32), np.float32)] * (2 * LAYERS)
    steps = [[generator.standard_normal((2, 32)).astype(np.float32), np.int32(n), *empty] for n in range(STEPS)]
    for name, (share, error) in CACHE_FORMATS.items():
        made = quantize(module, None, cache=name)
        before = sum(cache.bytes_before for cache in made.caches)
        after = sum(cache.bytes_after for cache in made.caches)
        yield Figure(
            f"{name}, bytes of caches: {program.name}",
            f"{after:,}", "f32", f"{before:,}", after / before, after / before, AtMost(share),
        )  # fmt: skip
        worst = max(step[0].error for step in compare_steps(made, steps))
        yield Figure(
            f"{name}, error of {STEPS} steps: {program.name}",
            f"{worst:.4f}", "limit", f"{error:g}", worst, worst, AtMost(error),
        )  # fmt: skip
