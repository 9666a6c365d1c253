"""What vector-Jacobian products cost beside JAX's own, over the programs of tests/corpus that JAX differentiates.

    python -m benchmarks.derivative_costs [--temporaries] [NAME ...]

Both are modules after `simplify,cse,dce`, with respect to every floating-point argument. Operations are floating-point
and transcendental ones by XLA's own count, which has none for calls of libraries.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import exp, log
from typing import Any

CLEAN = ("simplify", "cse", "dce")
MORE = 1.05
"""From which ratio on a program needs a reason."""
NEEDED = {
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "1",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
NOT_RUN = frozenset({"control.debug_print_ordered", "control.debug_print_unordered"})
"""Programs that call Python, which XLA does not count."""

_CLAMPED = "the program does not say that its indices are in bounds: they are clamped, one operation an index"
_TRIANGLE = "only the triangle that is read has a gradient; JAX takes the change to be symmetric"
REASONS = {
    "control.custom_derivatives": "the author's own derivative is not in the program",
    "indexing.gather_promise_in_bounds": _CLAMPED,
    "linalg.cholesky": _TRIANGLE,
    "linalg.eigh": _TRIANGLE,
    "sharding.embedding_gspmd": _CLAMPED,
    "sharding.embedding_shardy": _CLAMPED,
    "sharding.partly_manual": "a sum over devices is written where JAX leaves it to the partitioner",
}
"""Why programs have more operations than 1.05 times JAX's, as traced in their instructions."""

_PIVOTS = "the permutation of the pivots is computed again: the program's own loop for it is not recognised"
_SMALL = "several arrays of a few bytes, each of which takes 64; not so with 16 times as many rows and columns"
_BREADTH = "XLA CPU runs kernels breadth first: {} before the last reader of their operands"
MEMORY_REASONS = {
    "control.scan_reversed_and_unrolled": _SMALL,
    "elementwise.complex_complex128": "a quotient is kept for both operands; JAX divides again",
    "elementwise.complex_complex64": "a quotient is kept for both operands; JAX divides again",
    "linalg.factor_gradients": _BREADTH.format("solves of four gradients are done"),
    "linalg.solve": _PIVOTS,
    "linalg.solve_gradients": _PIVOTS,
    "linalg.svd": _SMALL,
    "linalg.triangular_solve": "a solve fewer than JAX's, whose result two readers wait for",
    "models.adam": _BREADTH.format("gradients of the moments are made"),
    "models.library_attention": _BREADTH.format("gradients of the attention weights are made"),
    "models.transformer": _BREADTH.format("gradients of the attention weights are made"),
    "reduction.cumulative": _SMALL,
}
"""Why programs have more temporaries than 1.05 times JAX's, as traced in their buffers."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What XLA counts in a module, its instructions, and the bytes of temporaries where they were asked for."""

    operations: float
    transcendentals: float
    instructions: int
    temporaries: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A program's derivative by hloom and by JAX."""

    name: str
    ours: Cost
    theirs: Cost

    def ratio(self, what: str) -> float:
        """Ours beside theirs; a count of nothing is taken for one, and what was not counted for the same."""
        ours, theirs = getattr(self.ours, what), getattr(self.theirs, what)
        return 1.0 if ours is None or theirs is None else max(ours, 1) / max(theirs, 1)


def compare_in_child(names: Sequence[str] = ()) -> list[Comparison]:
    """The comparison in a process of its own, which has the devices and the precision that the programs need."""
    command = [sys.executable, "-m", "benchmarks.derivative_costs", "--json", *names]
    result = subprocess.run(command, env={**os.environ, **NEEDED}, capture_output=True, text=True, check=True)
    rows = json.loads(result.stdout.splitlines()[-1])
    return [Comparison(name, Cost(*ours), Cost(*theirs)) for name, ours, theirs in rows]


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean; 1 of nothing."""
    return exp(sum(map(log, ratios)) / max(len(ratios), 1))


def compare(names: Sequence[str], *, temporaries: bool) -> Iterator[Comparison]:
    """Every program that both differentiate, or those whose names have one of some parts."""
    import jax

    from tests.corpus.programs import PROGRAMS

    jax.config.update("jax_use_shardy_partitioner", False)
    for name, program in PROGRAMS.items():
        if program.platform or name in NOT_RUN or (names and not any(part in name for part in names)):
            continue
        try:
            modules = _derivatives(program)
        except Exception:  # what JAX says of what it does not differentiate is of many classes
            continue
        if modules is not None:
            yield Comparison(name, *(_cost(module, temporaries) for module in modules))


def _derivatives(program: Any) -> tuple[Any, Any] | None:
    """The vector-Jacobian product by hloom and by JAX; None where no argument or no result has a derivative."""
    import jax

    import hloom

    leaves, tree = jax.tree.flatten(program.arguments)
    given = [number for number, leaf in enumerate(leaves) if hasattr(leaf, "dtype")]
    point = [leaves[number] for number in given]

    def function(*values: Any) -> list[Any]:
        full = list(leaves)
        for number, value in zip(given, values, strict=True):
            full[number] = value
        return jax.tree.leaves(program.function(*jax.tree.unflatten(tree, full)))

    results = jax.eval_shape(function, *point)
    kept = [number for number, result in enumerate(results) if _is_inexact(result)]
    moving = [number for number, value in enumerate(point) if _is_inexact(value)]
    if not kept or not moving:
        return None

    def pulled(*values: Any) -> Any:
        def of_moving(*moved: Any) -> list[Any]:
            full = list(values[: len(point)])
            for number, value in zip(moving, moved, strict=True):
                full[number] = value
            outputs = function(*full)
            return [outputs[number] for number in kept]

        return jax.vjp(of_moving, *[values[number] for number in moving])[1](list(values[len(point) :]))

    cotangents = [jax.ShapeDtypeStruct(results[number].shape, results[number].dtype) for number in kept]
    theirs = hloom.load(jax.jit(pulled, keep_unused=True).lower(*point, *cotangents))
    ours = hloom.vjp(hloom.load(jax.jit(function, keep_unused=True).lower(*point)))
    return ours, theirs


def _is_inexact(value: Any) -> bool:
    import jax

    return hasattr(value, "dtype") and jax.numpy.issubdtype(value.dtype, jax.numpy.inexact)


def _cost(module: Any, temporaries: bool) -> Cost:
    from benchmarks import peers
    from hloom.formats.hlo import print_module
    from hloom.passes import apply_in_place
    from hloom.runtime import memory
    from hloom.text import HloomError

    apply_in_place(module, CLEAN)
    text = print_module(module)
    counted = peers.xla_cost(peers.xla_parse(text))
    few = counted.get("transcendentals", 0.0)
    held = None
    if temporaries:
        with suppress(HloomError):  # partitioned programs have none on one device
            held = int(memory(text)["temporaries"])
    return Cost(max(counted.get("flops", 0.0), 0.0) + few, few, module.node_count, held)


def _table(rows: list[Comparison], temporaries: bool) -> str:
    columns = ["operations", "transcendentals", "instructions", *(["temporaries"] if temporaries else [])]
    lines = ["  ".join(["program".ljust(44), *[column.rjust(15) for column in columns]])]
    for row in sorted(rows, key=lambda row: -row.ratio("operations")):
        ratios = [f"{row.ratio(column):15.2f}" for column in columns]
        why = REASONS.get(row.name, "") if row.ratio("operations") > MORE else ""
        why = MEMORY_REASONS.get(row.name, "") if not why and row.ratio("temporaries") > MORE else why
        lines.append("  ".join([row.name.ljust(44), *ratios, why]).rstrip())
    means = [f"{geometric_mean([row.ratio(column) for row in rows]):15.3f}" for column in columns]
    lines.append("  ".join([f"geometric mean of {len(rows)}".ljust(44), *means]))
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    os.environ.update(NEEDED)
    names = [argument for argument in arguments if not argument.startswith("--")]
    temporaries = "--temporaries" in arguments
    rows = list(compare(names, temporaries=temporaries))
    if "--json" in arguments:
        print(json.dumps([(row.name, _values(row.ours), _values(row.theirs)) for row in rows]))
    else:
        print(_table(rows, temporaries))


def _values(cost: Cost) -> list[Any]:
    return [cost.operations, cost.transcendentals, cost.instructions, cost.temporaries]


if __name__ == "__main__":
    main(sys.argv[1:])
