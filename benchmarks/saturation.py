"""Figures of equality saturation: what it saves beside `simplify-xla`, and how its time grows."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import hloom
from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtLeast, AtMost, Figure, growth
from benchmarks.programs import Plan, Program
from benchmarks.saturation_programs import PROGRAMS, lowered

PROGRAM_NAMES = tuple(PROGRAMS)
"""The programs that are looked at."""
SAVING = 0.95
"""What bytes or FLOPs are at most, beside those that are left by `simplify-xla`, where a program counts as better."""
SHORT, LONG = 4, 12
NEARLY_LINEAR = AtMost(1.5)


def saturation(plan: Plan) -> Iterator[Figure]:
    """Twenty programs beside `simplify-xla`: how many are better, by how much; a chain three times as long."""
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
    small, large = _perceptron(SHORT), _perceptron(LONG)
    less, more = take_turns([_saturated(small), _saturated(large)], plan.seconds, fewest=2)
    yield growth(f"saturate, {SHORT} and {LONG} layers", small, large, less, more, NEARLY_LINEAR)


def _ratios(name: str) -> tuple[float, float]:
    """Bytes where bytes are the cost, and operations where FLOPs are, beside those of `simplify-xla`."""
    module = lowered(name)
    base = hloom.cost(hloom.apply(module, ["simplify-xla", "cse", "dce"])[0]).total
    by_bytes, by_flops = (hloom.cost(hloom.saturate(module, cost=cost)[0]).total for cost in ("bytes", "flops"))
    operations = base.flops + base.transcendentals
    return by_bytes.bytes_accessed / base.bytes_accessed, (by_flops.flops + by_flops.transcendentals) / operations


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
