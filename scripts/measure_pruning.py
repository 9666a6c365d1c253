"""Remove half of the channels, heads and experts, or of the residual stream, of packages' models: tables.

    python scripts/measure_pruning.py

Needs flax, equinox, keras, dm-haiku and transformers below 5 (with flax) beside hloom and jax. Models have the weights
that the packages give them, and noise. Weights left are elements of all arrays; the error is that of the outputs
against the original with zeros at what is removed, both by XLA, the worst of the outputs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import jax
import numpy as np
from package_programs.pruning_programs import PROGRAMS, UNSEEN, Model  # pyright: ignore[reportMissingImports]

import hloom
from hloom.compress.pruning import DEFAULT_AXES

PACKAGES = ("jax", "flax", "equinox", "keras", "dm-haiku", "transformers")
COLUMNS = ("program", ", ".join(DEFAULT_AXES), "weights left", "error", "residual", "weights left", "error", "seconds")
AXES = ([*DEFAULT_AXES], ["residual"])


def main() -> None:
    print(", ".join(f"{name} {version(name)}" for name in PACKAGES))
    for programs in (PROGRAMS, UNSEEN):
        print(f"\n| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
        for name, make in programs.items():
            print(f"| {name} | {' | '.join(measure(make()))} |", flush=True)


def measure(model: Model) -> list[str]:
    """The cells of a model's row; seconds are the CPU's, of both prunings."""
    module, arrays, weights = lowered(model)
    cells: list[str] = []
    seconds = 0.0
    for axes in AXES:
        start = process_time()
        try:
            made = hloom.prune_structured(module, weights, 0.5, axes=axes)
        except hloom.HloomError:
            cells += ["none", "", ""]
            continue
        finally:
            seconds += process_time() - start
        expected = hloom.run(module, made.zeroed(arrays)).outputs
        error = worst_error(hloom.run(made.module, made.convert(arrays)).outputs, expected)
        cut = made.convert(arrays)
        left = sum(cut[number].size for number in range(len(weights))) / sum(array.size for array in weights.values())
        roles = Counter(axis.role for axis in made.axes)
        what = ", ".join(f"{count} {role if count > 1 else role.removesuffix('s')}" for role, count in roles.items())
        cells += [str(roles["residual"]) if axes == ["residual"] else what, f"{left:.3f}", f"{error:.0e}"]
    return [*cells, f"{seconds:.1f}"]


def lowered(model: Model) -> tuple[hloom.Module, list[np.ndarray], Mapping[str, np.ndarray]]:
    """A model's program, all of its arrays in order, and its weights by parameters' names."""
    module = hloom.load(jax.jit(model.function, keep_unused=True).lower(model.params, model.inputs))
    arrays = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves((model.params, model.inputs))]
    count = len(jax.tree_util.tree_leaves(model.params))
    return module, arrays, {module.entry.parameters[number].name: arrays[number] for number in range(count)}


def worst_error(outputs: Any, expected: Any) -> float:
    """The greatest relative error of an output, by norms."""
    pairs = [
        (np.asarray(one, np.float64), np.asarray(other, np.float64))
        for one, other in zip(outputs, expected, strict=True)
    ]
    return max(float(np.linalg.norm(one - other) / np.linalg.norm(other)) for one, other in pairs)


if __name__ == "__main__":
    main()
