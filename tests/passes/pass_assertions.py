"""What tests of passes assert: HLO before and after, and the same numbers through XLA."""

from __future__ import annotations

from typing import Any

import numpy as np

import hloom
from hloom.ir import Module, verify
from hloom.passes import apply
from hloom.runtime import run
from tests.passes.rule_assertions import module_of


def changed(passes: Any, text: str, *, runs: bool = True, exact: bool = True) -> tuple[Module, bool]:
    """The module after passes, verified, and whether they changed it; with XLA's numbers, where they did."""
    before = module_of(text)
    after, report = apply(before, passes)
    verify(after)
    verify(hloom.parse(hloom.print(after)))
    if runs and report.changed:
        assert_same_outputs(before, after, exact=exact)
    return after, report.changed


def assert_same_outputs(before: Module, after: Module, *, exact: bool = True, seed: int = 1) -> None:
    """XLA gives both modules the same outputs: to the last bit, or closely."""
    expected = run(before, seed=seed)
    for one, other in zip(expected.outputs, run(after, expected.inputs).outputs, strict=True):
        left, right = np.asarray(one), np.asarray(other)
        assert left.dtype == right.dtype and left.shape == right.shape
        if exact:
            assert left.tobytes() == right.tobytes(), f"{left} became {right}"
        else:
            np.testing.assert_allclose(left.astype(complex), right.astype(complex), rtol=1e-4, atol=1e-5)


def assert_makes(passes: Any, before: str, after: str, *, runs: bool = True, exact: bool = True) -> None:
    """Passes make one text of another, names and metadata aside, and find nothing more to do there."""
    result, has_changed = changed(passes, before, runs=runs, exact=exact)
    wanted = module_of(after)
    result.name = wanted.name
    if not hloom.equal(result, wanted, metadata=False):
        raise AssertionError(f"made\n{hloom.print(result, 'short')}\nand not\n{hloom.print(wanted, 'short')}")
    assert has_changed
    assert_leaves(passes, after)


def assert_leaves(passes: Any, text: str) -> None:
    """Passes find nothing to do."""
    before = module_of(text)
    after, report = apply(before, passes)
    if report.changed or not hloom.equal(before, after):
        raise AssertionError(f"made\n{hloom.print(after, 'short')}")
