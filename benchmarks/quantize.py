"""Figures of quantisation: bytes and errors of a program by format, and how the time grows to 50,000 instructions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, Program
from hloom.hlo import parse
from hloom.quantization import Noise, quantize
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
    programs = layers(plan.chain // 8, 8), layers(plan.chain * 5 // 4, 8)
    jobs = [Job(quantize, lambda text=one.text: parse(text)) for one in programs]
    less, more = take_turns(jobs, plan.seconds)
    yield Figure(
        f"quantize: {programs[1].name}", milliseconds(more.best), "limit", "10 s", more.best / 10, more.median / 10,
        AtMost(1), programs[1].instructions / more.best,
    )  # fmt: skip
    yield growth("quantize", *programs, less, more, LINEAR)
