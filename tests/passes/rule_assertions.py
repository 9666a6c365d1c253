"""What tests of rules assert: HLO before and after, and the numbers of both."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import hloom
from hloom.evaluator import evaluate
from hloom.ir import Module, verify
from hloom.rewrite import Rule, rewrite


def module_of(text: str) -> Module:
    """The module of a text, or of the lines of an entry computation alone."""
    return hloom.parse(text if "{\n" in text or "ENTRY" in text else f"ENTRY e {{\n{text}\n}}")


def rewritten(rules: Iterable[Rule] | Rule, text: str) -> Module:
    """The module of a text after rules have been applied; verified."""
    module = module_of(text)
    rewrite(module, [rules] if isinstance(rules, Rule) else list(rules))
    verify(module)
    return module


def assert_rewrites(rules: Iterable[Rule] | Rule, before: str, after: str) -> None:
    """Rules make one text of another, names and metadata aside."""
    result, wanted = rewritten(rules, before), module_of(after)
    result.name = wanted.name
    if not hloom.equal(result, wanted, metadata=False):
        raise AssertionError(f"the rules made\n{hloom.print(result, 'short')}\nand not\n{hloom.print(wanted, 'short')}")


def assert_keeps(rules: Iterable[Rule] | Rule, text: str) -> None:
    """No rule fires."""
    assert_rewrites(rules, text, text)


def assert_same_numbers(before: Module, after: Module, inputs: Iterable[np.ndarray], *, exact: bool = True) -> None:
    """Both modules yield the same of the same inputs: NaN where NaN was, and of exact rules the same bits elsewhere."""
    given = list(inputs)
    for left, right in zip(evaluate(before, given), evaluate(after, given), strict=True):
        assert left.dtype == right.dtype and left.shape == right.shape, f"{left.dtype} became {right.dtype}"
        if exact:
            np.testing.assert_array_equal(_bits(left), _bits(right))
        elif left.dtype.kind in "biu":
            np.testing.assert_array_equal(left, right)
        else:
            array_text = np.complex128 if left.dtype.kind == "c" else np.float64
            tolerance = 0.04 if left.dtype.itemsize < 4 else 1e-4
            np.testing.assert_allclose(
                left.astype(array_text), right.astype(array_text), rtol=tolerance, atol=tolerance
            )


def _bits(array: np.ndarray) -> np.ndarray:
    """The bits of numbers, those of each NaN being the same."""
    if array.dtype.kind in "biu":
        return array
    plain = np.ascontiguousarray(array)
    if plain.dtype.kind == "c":
        plain = np.stack([np.real(plain), np.imag(plain)])
    if plain.dtype.itemsize > 8:
        return plain
    words = plain.view(f"u{plain.dtype.itemsize}").copy()
    with np.errstate(all="ignore"):
        words[np.isnan(plain.astype(np.float64))] = 0
    return words
