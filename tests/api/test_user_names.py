"""Names that users' functions and arguments lend to programs are names that HLO text can hold.

Covers `ir/names.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hloom
from hloom.formats.hlo import to_text


def größe(α: Any, β: Any = 2) -> Any:
    def innerλ(z: Any) -> Any:
        return z * α + β

    return innerλ(α) if α.sum() > 0 else α


def recursive(n: Any) -> Any:
    def λ(k: Any) -> Any:
        return k * 2 if k < 3 else recursive(k - 1)

    return λ(n)


X = np.ones(3, np.float32)
FUNCTIONS: dict[str, tuple[Callable[..., Any], Any]] = {
    "lambda": (lambda a: a * 2, X),
    "unicode": (größe, X),
    "recursive": (recursive, 5),
    "keys": (lambda d: d["a b\n}"] * 2 + d["größe"], {"a b\n}": X, "größe": X}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_s_program_can_be_read_back(name: str):
    function, argument = FUNCTIONS[name]
    text = to_text(hloom.function(function).hlo(argument))
    assert hloom.parse(text, strict=True).entry.parameters


@pytest.mark.parametrize("name", ["lambda", "unicode", "keys"])
def test_a_gradient_s_program_can_be_read_back(name: str):
    function, argument = FUNCTIONS[name]
    text = to_text(hloom.grad(lambda a: function(a).sum()).hlo(argument))
    assert hloom.parse(text, strict=True).entry.parameters
