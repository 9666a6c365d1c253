"""What the tables of edge programs are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

JAX, DIFFERENCES, BOTH = "JAX", "central differences", "both"
"""What a derivative is compared with: JAX's own, central differences where JAX has none, or both."""


@dataclass(frozen=True, slots=True)
class Program:
    """A function of arrays, the arguments at which its derivative is checked, and what it is compared with."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    reference: str
    tolerance: float
    rounding: float


Table = dict[str, Program]


def declare(table: Table, *arguments: Any, reference: str = BOTH, tolerance: float = 1e-7,
            rounding: float = 1e-9) -> Any:  # fmt: skip
    """A decorator that puts a function into a table of programs under its name.

    `tolerance` is that of central differences, `rounding` that of derivatives beside each other.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        assert name not in table, f"{name} stands in the table already"
        table[name] = Program(function, arguments, reference, tolerance, rounding)
        return function

    return add


def normal(*dims: int, seed: int = 0) -> np.ndarray:
    """Normal numbers in f64."""
    return np.random.default_rng(seed).standard_normal(dims)


def uniform(*dims: int, seed: int = 0, low: float = 0.2, high: float = 1.4) -> np.ndarray:
    """Uniform numbers in f64."""
    return np.random.default_rng(seed).uniform(low, high, dims)


def complex_normal(*dims: int, seed: int = 0) -> np.ndarray:
    """Normal complex numbers in c128."""
    return normal(*dims, seed=seed) + 1j * normal(*dims, seed=seed + 100)


def definite(size: int, *batch: int, seed: int = 0) -> np.ndarray:
    """Symmetric matrices whose eigenvalues are greater than 1."""
    root = normal(*batch, size, size, seed=seed)
    return root @ np.swapaxes(root, -1, -2) / size + np.eye(size)


def regular(size: int, *batch: int, seed: int = 0) -> np.ndarray:
    """Matrices that are far from singular."""
    return normal(*batch, size, size, seed=seed) + 3 * np.eye(size)
