"""Assertions that two programs compute the same."""

from __future__ import annotations

from hloom.ir import Module
from hloom.runtime import Inputs, compare, run

SHOWN = 5
"""How many outputs a message names."""


def assert_equivalent(
    left: Module | str,
    right: Module | str,
    inputs: Inputs | None = None,
    *,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    devices: int | None = None,
) -> None:
    """Assert that two programs, run on XLA's CPU client on the same inputs, yield the same outputs.

    Without inputs, random ones of the seed are used. Tolerances are those of `hloom.runtime.compare`: without them,
    what rounding in another order may change. Raises AssertionError naming the outputs that differ, and where; errors
    of running come as `hloom.runtime.run` raises them.
    """
    one = run(left, inputs, seed=seed, devices=devices)
    other = run(right, one.inputs, devices=devices)
    differences = compare(one.outputs, other.outputs, rtol=rtol, atol=atol)
    if not differences:
        return
    lines = "".join(f"\n  {difference}" for difference in differences[:SHOWN])
    more = f"\n  and {len(differences) - SHOWN:,} more" if len(differences) > SHOWN else ""
    raise AssertionError(f"the programs differ in {len(differences):,} of {len(one.outputs):,} outputs:{lines}{more}")
