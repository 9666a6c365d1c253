"""Figures of pruning: masks of large weights against numpy's own selection, and channels removed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, Program
from hloom.compress.pruning import prune, prune_structured
from hloom.compress.quantization import Noise
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.runtime import run

LINEAR = AtMost(2)
WIDTH = 2048
"""Of the weights that are masked."""
LAYERS = 6


def perceptrons(count: int, width: int) -> Program:
    """A stack of layers, each two dots with a tanh between them and a residual connection."""
    up, down, row = f"f32[{width},{2 * width}]", f"f32[{2 * width},{width}]", f"f32[16,{width}]"
    wide, dot = f"f32[16,{2 * width}]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    lines = ["HloModule perceptrons", "ENTRY main {", f'  x0 = {row} parameter(0), metadata={{op_name="x"}}']
    for n in range(count):
        lines += [
            f"  up{n} = {up} parameter({2 * n + 1}), metadata={{op_name=\"params['up{n}']\"}}",
            f"  down{n} = {down} parameter({2 * n + 2}), metadata={{op_name=\"params['down{n}']\"}}",
            f"  h{n} = {wide} dot(x{n}, up{n}), {dot}",
            f"  t{n} = {wide} tanh(h{n})",
            f"  y{n} = {row} dot(t{n}, down{n}), {dot}",
            f"  x{n + 1} = {row} add(x{n}, y{n})",
        ]
    lines[-1] = lines[-1].replace("  x", "  ROOT x", 1)
    return Program(f"{count:,} layers", "\n".join([*lines, "}"]), 6 * count + 1)


def normalized(count: int, width: int) -> Program:
    """A stack of layers on a residual stream, each a LayerNorm that sums up (x - mean)^2 and two dots."""
    up, down, row = f"f32[{width},{2 * width}]", f"f32[{2 * width},{width}]", f"f32[16,{width}]"
    wide, dot = f"f32[16,{2 * width}]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    total = "dimensions={1}, to_apply=sum"
    lines = ["HloModule normalized"]
    lines += ["sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }", "ENTRY main {"]
    lines += ['  x = f32[16,4] parameter(0), metadata={op_name="x"}', "  z = f32[] constant(0)"]
    lines += [f"  k = f32[] constant({width})", "  n = f32[16] broadcast(k), dimensions={}"]
    lines += [f"  up = f32[4,{width}] parameter(1), metadata={{op_name=\"params['up']\"}}"]
    lines += [f"  x0 = {row} dot(x, up), {dot}"]
    for n in range(count):
        lines += [
            f"  up{n} = {up} parameter({2 * n + 2}), metadata={{op_name=\"params['up{n}']\"}}",
            f"  down{n} = {down} parameter({2 * n + 3}), metadata={{op_name=\"params['down{n}']\"}}",
            f"  s{n} = f32[16] reduce(x{n}, z), {total}",
            f"  m{n} = f32[16] divide(s{n}, n)",
            f"  b{n} = {row} broadcast(m{n}), dimensions={{0}}",
            f"  c{n} = {row} subtract(x{n}, b{n})",
            f"  q{n} = {row} multiply(c{n}, c{n})",
            f"  v{n} = f32[16] reduce(q{n}, z), {total}",
            f"  r{n} = f32[16] rsqrt(v{n})",
            f"  w{n} = {row} broadcast(r{n}), dimensions={{0}}",
            f"  l{n} = {row} multiply(c{n}, w{n})",
            f"  h{n} = {wide} dot(l{n}, up{n}), {dot}",
            f"  t{n} = {wide} tanh(h{n})",
            f"  y{n} = {row} dot(t{n}, down{n}), {dot}",
            f"  x{n + 1} = {row} add(x{n}, y{n})",
        ]
    lines += [f"  ROOT y = f32[16] reduce(x{count}, z), {total}", "}"]
    return Program(f"{count:,} layers with norms", "\n".join(lines), 15 * count + 7)


def pruning(plan: Plan) -> Iterator[Figure]:
    """Masks against numpy's selection of the same elements; channels removed against zeros; growth of the time."""
    generator = np.random.default_rng(0)
    program = perceptrons(1, WIDTH)
    module, arrays = parse(program.text), _weights(generator, 1, WIDTH)
    for pattern, within, peer in ((None, "weight", _by_partition), ("2:4", None, _by_sort)):
        ours = Job(partial(_masks, module, arrays, pattern, within))
        theirs = Job(lambda _, peer=peer: [peer(array) for array in arrays.values()])
        mine, other = take_turns([ours, theirs], plan.seconds)
        yield Figure(
            f"masks, pattern {pattern}: {sum(array.size for array in arrays.values()):,} elements",
            milliseconds(mine.best), "numpy", milliseconds(other.best), mine.best / other.best,
            mine.median / other.median, AtMost(6),
        )  # fmt: skip
    program = perceptrons(LAYERS, 64)
    module, arrays = parse(program.text), _weights(generator, LAYERS, 64)
    made = prune_structured(module, arrays, 0.5)
    inputs = generator.standard_normal((16, 64)).astype(np.float32)
    noise = Noise()
    noise.add(_output(module, inputs, made.zeroed(arrays)), _output(made.module, inputs, made.convert(arrays)))
    ratio = max(noise.error, float(np.finfo(np.float32).eps)) / 1e-5  # equal numbers are not ratio
    yield Figure(
        f"half the channels, error against zeros: {program.name}",
        f"{noise.error:.1e}", "limit", "1e-05", ratio, ratio, AtMost(1),
    )  # fmt: skip
    programs = perceptrons(max(1, plan.chain // 60), 8), perceptrons(max(2, plan.chain // 6), 8)
    jobs = [
        Job(lambda both: prune_structured(both[0], both[1], 0.5), lambda one=one: _parsed(generator, one))
        for one in programs
    ]
    less, more = take_turns(jobs, plan.seconds)
    yield Figure(
        f"half the channels: {programs[1].name}", milliseconds(more.best), "limit", "10 s", more.best / 10,
        more.median / 10, AtMost(1), programs[1].instructions / more.best,
    )  # fmt: skip
    yield growth("half the channels", *programs, less, more, LINEAR)
    programs = normalized(max(1, plan.chain // 1000), 8), normalized(max(2, plan.chain // 100), 8)
    jobs = [Job(_without_half_the_stream, lambda one=one: _parsed(generator, one, 15)) for one in programs]
    less, more = take_turns(jobs, plan.seconds)
    yield growth("half the residual stream", *programs, less, more, LINEAR)


def _masks(module: Module, arrays: dict[str, np.ndarray], pattern: str | None, within: str | None, _: object) -> object:
    return prune(module, arrays, pattern=pattern, within=within).masks()


def _without_half_the_stream(both: tuple[Module, dict[str, np.ndarray]]) -> object:
    module, arrays = both
    stem = np.ones((4, 8), np.float32)
    return prune_structured(module, {"up": stem, **arrays}, 0.5, axes=["residual"])


def _weights(generator: np.random.Generator, count: int, width: int) -> dict[str, np.ndarray]:
    """Random weights of a stack by name."""
    shapes = {"up": (width, 2 * width), "down": (2 * width, width)}
    return {
        f"{name}{n}": (generator.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        for n in range(count)
        for name, shape in shapes.items()
    }


def _parsed(
    generator: np.random.Generator, program: Program, per_layer: int = 6
) -> tuple[Module, dict[str, np.ndarray]]:
    return parse(program.text), _weights(generator, program.instructions // per_layer, 8)


def _output(module: Module, inputs: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(run(module, [inputs, *weights.values()]).outputs[0])


def _by_partition(array: np.ndarray) -> np.ndarray:
    """Of the half of an array's elements that are largest, where they stand."""
    sizes = np.abs(array)
    return sizes > np.partition(sizes, array.size // 2 - 1, axis=None)[array.size // 2 - 1]


def _by_sort(array: np.ndarray) -> np.ndarray:
    """Of two of every four elements down a column, the larger ones, where they stand."""
    groups = np.abs(array.reshape(-1, 4, array.shape[1]))
    ranks = np.argsort(np.argsort(groups, axis=1, kind="stable"), axis=1)
    return (ranks >= 2).reshape(array.shape)
