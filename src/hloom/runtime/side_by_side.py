"""A program on one device and the same one spread over several, on the same random inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hloom.hlo import print_module
from hloom.ir import Module, dtype_of
from hloom.runtime import host_memory, oracle
from hloom.runtime.compare import Difference, compare, default_tolerance
from hloom.runtime.legalise import legalise
from hloom.runtime.run import run
from hloom.runtime.xla import Placement
from hloom.text import Unsupported

WIDER = 10.0
"""Several devices add in another order: so many times the usual tolerances are allowed."""
COPIES = 3
"""How often whole inputs and outputs are in memory beside the devices' own: here, in the pipe, and in the worker."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """How two runs agree: the outputs that differ beyond tolerance, and the worst difference beside the largest value.

    `not_finite` counts outputs of which one device gave no finite number, so that little of them was compared.
    """

    outputs: int
    differences: tuple[Difference, ...]
    worst: float
    not_finite: int


def run_side_by_side(
    program: Module, spread: Module, devices: int, *, seed: int = 0, timeout: float | None = oracle.TIMEOUT
) -> SideBySide:
    """Run a program on one device and its annotated form on several, and compare.

    Raises Unsupported where that would take more memory than there is, and otherwise as `run` does.
    """
    _check_memory(program, spread, devices, timeout)
    alone = run(program, devices=1, seed=seed, timeout=timeout)
    together = run(spread, alone.inputs, devices=devices, timeout=timeout)
    pairs = list(zip(alone.outputs, together.outputs, strict=True))
    empty = sum(bool(one.size) and not np.isfinite(_wide(one)).any() for one, _ in pairs)
    return SideBySide(
        len(pairs), tuple(_differences(pairs)), max((_off(one, other) for one, other in pairs), default=0.0), empty
    )


def _check_memory(program: Module, spread: Module, devices: int, timeout: float | None) -> None:
    """Ask XLA, which compiles both for that, what the runs will take, and the machine what there is."""
    free = host_memory.available()
    if free is None:
        return
    alone = oracle.memory(print_module(legalise(program, 1)), Placement(1, 1), timeout)
    whole = COPIES * (alone["arguments"] + alone["outputs"])
    _check(whole + alone["peak"], free, "on one device")
    each = oracle.memory(print_module(legalise(spread, devices)), Placement(1, devices), timeout)
    _check(whole + devices * (each["peak"] + each["outputs"]), free, f"on {devices} virtual devices")


def _check(needed: int, free: int, where: str) -> None:
    if needed > free:
        raise Unsupported(
            f"running {where} takes about {needed / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free",
            hint="a smaller batch or fewer layers show the same; compiling alone (--verify) needs no such memory",
        )


def _differences(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Iterator[Difference]:
    for number, (one, other) in enumerate(pairs):
        found = compare([one], [other], WIDER * default_tolerance(dtype_of(one.dtype)))
        yield from (replace(each, output=number) for each in found)


def _off(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two arrays beside the largest finite value; of what is no number in both, none."""
    if one.shape != other.shape or not one.size:
        return 0.0
    left, right = _wide(one), _wide(other)
    with np.errstate(all="ignore"):
        apart = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, np.abs(left - right))
        largest = np.abs(np.where(np.isfinite(left), left, 0.0)).max()
        return float(np.nan_to_num(apart, nan=np.inf).max() / (largest or 1.0))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if dtype_of(array.dtype).is_complex else np.float64)
