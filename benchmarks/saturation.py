"""Figures of equality saturation: what it saves beside `simplify-xla`, and how its time grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import jax

import hloom
from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtLeast, AtMost, Figure, growth
from benchmarks.programs import Plan, Program
from benchmarks.published_rewrites import REWRITES
from benchmarks.saturation_programs import PROGRAMS, lowered
from hloom.ir import Node

PROGRAM_NAMES = tuple(PROGRAMS)
"""The programs that are looked at."""
SAVING = 0.95
"""What bytes or FLOPs are at most, beside those that are left by `simplify-xla`, where a program counts as better."""
REWRITE_NAMES = tuple(REWRITES)
"""The published rewrites that are looked at."""
SAME = 1.002
"""How much more than the cheaper side the other side of a rewrite costs at most, where the two count as one."""
FREE = frozenset(("parameter", "constant", "tuple", "get-tuple-element"))
SHORT, LONG = 4, 12
NEARLY_LINEAR = AtMost(1.5)


def saturation(plan: Plan) -> Iterator[Figure]:
    """Programs beside `simplify-xla`: how many are better, by how much; published rewrites; a longer chain."""
    ratios = [_ratios(name) for name in PROGRAM_NAMES]
    better = sum(min(pair) <= SAVING for pair in ratios)
    typical = median(bytes_ratio for bytes_ratio, _ in ratios)
    count = len(ratios)
    yield Figure(
        f"saturate: {count} programs, 5 % fewer bytes or FLOPs", str(better), "half of them", f"{count // 2}",
        better / (count / 2), None, AtLeast(1),
    )  # fmt: skip
    yield Figure(
        f"saturate: bytes of {count} programs, median", f"{typical:.3f}", "simplify-xla", "1", typical, None, AtMost(1)
    )
    worst = max(bytes_ratio for bytes_ratio, _ in ratios)
    yield Figure("saturate: bytes, worst", f"{worst:.3f}", "simplify-xla", "1", worst, None, AtMost(1.0001))
    ours, theirs = (sum(map(is_one, REWRITE_NAMES)) for is_one in (_is_one_here, _is_one_in_xla))
    yield Figure(
        f"saturate: {len(REWRITE_NAMES)} published rewrites, both sides of one cost", str(ours), "XLA", str(theirs),
        ours / max(theirs, 1), None, AtLeast(1),
    )  # fmt: skip
    small, large = _perceptron(SHORT), _perceptron(LONG)
    less, more = take_turns([_saturated(small), _saturated(large)], plan.seconds, fewest=2)
    yield growth(f"saturate, {SHORT} and {LONG} layers", small, large, less, more, NEARLY_LINEAR)


def _ratios(name: str) -> tuple[float, float]:
    """Bytes where bytes are the cost, and operations where FLOPs are, beside those of `simplify-xla`."""
    module = lowered(name)
    base = hloom.cost(hloom.opt(module, ["simplify-xla", "cse", "dce"])[0]).total
    by_bytes, by_flops = (hloom.cost(hloom.saturate(module, cost=cost)[0]).total for cost in ("bytes", "flops"))
    operations = base.flops + base.transcendentals
    return by_bytes.bytes_accessed / base.bytes_accessed, (by_flops.flops + by_flops.transcendentals) / operations


def _is_one_here(name: str) -> bool:
    """Whether both sides of a rewrite come to one cost, by bytes, FLOPs, seconds and a count of kernels."""
    *sides, arrays = REWRITES[name]
    modules = [hloom.opt(hloom.parse(_lowered(side, arrays).as_text("hlo")), ["inline"])[0] for side in sides]
    costs: list[str | Callable[[Node], float]] = ["bytes", "flops", "seconds", _kernels]
    return all(_are_one([_total(module, cost) for module in modules]) for cost in costs)


def _is_one_in_xla(name: str) -> bool:
    """Whether XLA's compiler for CPUs makes programs of as many bytes and FLOPs of both sides, by its own count."""
    *sides, arrays = REWRITES[name]
    counts = [_lowered(side, arrays).compile().cost_analysis() for side in sides]
    return all(_are_one([count.get(what, 0.0) for count in counts]) for what in ("bytes accessed", "flops"))


def _are_one(costs: list[float]) -> bool:
    return max(costs) <= min(costs) * SAME


def _total(module: hloom.Module, cost: str | Callable[[Node], float]) -> float:
    return sum(graph.cost for graph in hloom.saturate(module, cost=cost)[1])


def _kernels(node: Node) -> float:
    if node.opcode in ("dot", "convolution"):
        return 100.0
    return float(node.opcode not in FREE)


def _lowered(side: Callable[..., Any], arrays: tuple[jax.ShapeDtypeStruct, ...]) -> Any:
    return jax.jit(side).lower(*arrays)


def _saturated(program: Program) -> Job:
    return Job(hloom.saturate, lambda: hloom.parse(program.text))


def _perceptron(count: int) -> Program:
    lines = ["x0 = f32[64,64] parameter(0)"]
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for n in range(count):
        lines += [
            f"w{n} = f32[64,64] parameter({2 * n + 1})",
            f"b{n} = f32[64] parameter({2 * n + 2})",
            f"d{n} = f32[64,64] dot(x{n}, w{n}), {dims}",
            f"s{n} = f32[64,64] broadcast(b{n}), dimensions={{1}}",
            f"a{n} = f32[64,64] add(d{n}, s{n})",
            f"{'ROOT ' if n == count - 1 else ''}x{n + 1} = f32[64,64] tanh(a{n})",
        ]
    return Program(f"{count} layers", "ENTRY e {\n" + "\n".join(lines) + "\n}", len(lines))
