"""Compares a program's results on one device with those of the same program partitioned over several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hloom.ir import Module, dtype_of
from hloom.runtime import xla_queries
from hloom.runtime.arbitration import Arbitration, ProgramRun, arbitrate
from hloom.runtime.comparison import Difference, compare, default_tolerance
from hloom.runtime.legalization import legalize, text_for_xla
from hloom.runtime.run import run
from hloom.runtime.xla import Placement
from hloom.text import Unsupported

WIDER = 10.0
"""The factor on the usual tolerances: several devices add in another order."""
COPIES = 3
"""Copies of unsharded inputs and outputs in memory besides the shards: here, in the pipe, and in the worker."""


@dataclass(frozen=True, slots=True)
class DeviceComparison:
    """The agreement of two runs: outputs beyond tolerance, and the maximum error relative to the largest value.

    `not_finite` counts outputs without finite numbers on one device, which can hardly be compared. `arbitration` is the
    evaluator's verdict if outputs differ.
    """

    outputs: int
    differences: tuple[Difference, ...]
    worst: float
    not_finite: int
    arbitration: Arbitration | None = None
    json_keys = "agrees outputs worst not_finite differences arbitration?"

    @property
    def agrees(self) -> bool:
        """Whether no output differs by more than the tolerance."""
        return not self.differences


def compare_with_one_device(
    program: Module, sharded_module: Module, devices: int, *, seed: int = 0, timeout: float | None = xla_queries.TIMEOUT
) -> DeviceComparison:
    """Run a program on one device and its annotated form on several, and compare.

    Raises Unsupported if that needs more memory than is available, and otherwise as `run` does.
    """
    _check_memory(program, sharded_module, devices, timeout)
    alone = run(program, devices=1, seed=seed, timeout=timeout)
    together = run(sharded_module, alone.inputs, devices=devices, timeout=timeout)
    pairs = list(zip(alone.outputs, together.outputs, strict=True))
    empty = sum(bool(one.size) and not np.isfinite(_wide(one)).any() for one, _ in pairs)
    differences = tuple(_differences(pairs))
    arbitration = None
    if differences:
        arbitration = arbitrate(
            ProgramRun("the program on one device", program, alone.inputs, alone.outputs),
            ProgramRun(f"the program on {devices} devices", sharded_module, alone.inputs, together.outputs),
        )
    worst = max((_off(one, other) for one, other in pairs), default=0.0)
    return DeviceComparison(len(pairs), differences, worst, empty, arbitration)


def _check_memory(program: Module, sharded_module: Module, devices: int, timeout: float | None) -> None:
    """Compare the memory XLA needs for the runs, which means compiling both, with what the machine has."""
    free = _available_memory()
    if free is None:
        return
    alone = xla_queries.memory(text_for_xla(legalize(program, 1)), Placement(1, 1), timeout)
    copies = COPIES * (alone["arguments"] + alone["outputs"])
    _check(copies + alone["peak"], free, "on one device")
    sharded = xla_queries.memory(text_for_xla(legalize(sharded_module, devices)), Placement(1, devices), timeout)
    _check(copies + devices * (sharded["peak"] + sharded["outputs"]), free, f"on {devices} virtual devices")


def _check(needed: int, free: int, where: str) -> None:
    if needed > free:
        raise Unsupported(
            f"running {where} takes about {needed / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free",
            hint="a smaller batch or fewer layers show the same; compiling alone (--verify) needs no such memory",
        )


def _differences(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Iterator[Difference]:
    for number, (one, other) in enumerate(pairs):
        differences = compare([one], [other], WIDER * default_tolerance(dtype_of(one.dtype)))
        yield from (replace(difference, output=number) for difference in differences)


def _off(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two arrays relative to the largest finite value; NaN equals NaN."""
    if one.shape != other.shape or not one.size:
        return 0.0
    left, right = _wide(one), _wide(other)
    with np.errstate(all="ignore"):
        apart = np.where((left == right) | (np.isnan(left) & np.isnan(right)), 0.0, np.abs(left - right))
        largest = np.abs(np.where(np.isfinite(left), left, 0.0)).max()
        return float(np.nan_to_num(apart, nan=np.inf).max() / (largest or 1.0))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if dtype_of(array.dtype).is_complex else np.float64)


_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def _available_memory() -> int | None:
    """Bytes that can still be allocated; None if the system does not say."""
    limits = [limit for limit in (_of_machine(), _of_group()) if limit is not None]
    return min(limits, default=None)


def _of_machine() -> int | None:
    try:
        lines = _MEMINFO.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _of_group() -> int | None:
    """Bytes that the control group may still allocate; None if it is not limited."""
    try:
        most, taken = ((_GROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
    except OSError:
        return None
    return max(0, int(most) - int(taken)) if most.isdecimal() and taken.isdecimal() else None
