"""HLO texts to test on: what JAX lowers, what people write by hand, what XLA's own parser refuses or dies of.

    handwritten()      modules for what JAX never emits, by name ("tensorflow_2020/...", "year_2026/...", "fragments/..."
                       are what this jaxlib need not accept)
    refused()          texts that XLA's parser refuses, one reason each; the name says it
    aborts()           texts that make XLA's parser abort its process
    lowered(stage)     JAX programs, "before" or "after" XLA's optimisations

To add a text, drop a file into the folder; to add a program, see `programs`. `check` holds all of them to their claims.
"""

import functools
from pathlib import Path

from .cache import corpus

__all__ = ["aborts", "handwritten", "lowered", "refused"]

HERE = Path(__file__).parent


def handwritten() -> dict[str, str]:
    return texts("handwritten")


def refused() -> dict[str, str]:
    return texts("refused")


def aborts() -> dict[str, str]:
    return texts("aborts")


def lowered(stage: str) -> dict[str, str]:
    return corpus(stage)


@functools.cache
def texts(folder: str) -> dict[str, str]:
    """Every .hlo file under one folder, by its path there without the suffix; line ends kept as they are."""
    root = HERE / folder
    files = sorted(root.rglob("*.hlo"))
    return {path.relative_to(root).with_suffix("").as_posix(): path.read_bytes().decode() for path in files}
