"""Programs compiled by XLA for one core, with its own fusions and with ours: the fewest seconds of each, as JSON.

    python -m benchmarks.cluster_times NAME...

A process of its own: XLA's client counts the cores when it starts, and gives its own fusions threads that it does not
give to those of others.
"""

from __future__ import annotations

import json
import os
import sys
from time import perf_counter
from typing import Any

SAMPLES = 40


def main(names: list[str]) -> None:
    """Write the seconds of each program: with XLA's fusions, with ours, and the worst relative difference."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from benchmarks.saturation_programs import PROGRAMS

    print(json.dumps({name: _measured(*PROGRAMS[name]) for name in names}))


def _measured(function: Any, shapes: tuple[tuple[int, ...], ...]) -> dict[str, float]:
    import jax
    import numpy as np

    import hloom.passes.fusion  # noqa: F401  (registers the pass)
    from hloom import inside_jit
    from hloom.ir import Module
    from hloom.passes import apply_in_place

    def clustered(module: Module) -> Module:
        apply_in_place(module, ["inline-fusions", "cluster(least=1)"])
        return module

    generator = np.random.default_rng(0)
    arrays = [jax.numpy.asarray(abs(generator.standard_normal(dims)), np.float32) for dims in shapes]
    own = jax.jit(lambda *inputs: function(*inputs)).lower(*arrays).compile()
    with inside_jit(clustered):
        ours = jax.jit(lambda *inputs: function(*inputs)).lower(*arrays).compile()
    programs = {"xla": own, "ours": ours}
    best = dict.fromkeys(programs, float("inf"))
    for _ in range(SAMPLES):
        for name, program in programs.items():
            start = perf_counter()
            jax.block_until_ready(program(*arrays))
            best[name] = min(best[name], perf_counter() - start)
    pairs = zip(jax.tree.leaves(own(*arrays)), jax.tree.leaves(ours(*arrays)), strict=True)
    worst = max(float(np.abs(a - b).max() / (np.abs(a).max() + 1e-30)) for a, b in pairs)
    return best | {"difference": worst}


if __name__ == "__main__":
    main(sys.argv[1:])
