"""Compiled functions that run in a child process. Covers `api/function.py` and `runtime/{run,worker}.py`."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom import runtime


def falls(x, n):
    while n > 0:
        x, n = x / 2 + 1.0, n - 1
    assert x > 0, "not positive"
    return {"x": x, "shape": np.shape(x)}


def test_results_are_those_of_this_process():
    isolated = hloom.function(falls, isolated=True)
    assert isolated(8.0, 3) == hloom.function(falls)(8.0, 3) == {"x": 2.75, "shape": ()}
    assert hloom.grad(hloom.function(lambda x: x**3, isolated=True))(2.0) == 12.0
    value, pull_back = hloom.vjp(hloom.function(np.sin, isolated=True), 0.0)
    assert (value, pull_back(1.0)[0]) == (0.0, 1.0)


def test_nothing_is_compiled_in_this_process(monkeypatch: pytest.MonkeyPatch):
    def refused(*arguments: object) -> None:
        raise AssertionError("compiled in this process")

    monkeypatch.setattr(runtime, "compiled", refused)
    isolated = hloom.function(falls, isolated=True)
    assert isolated(8.0, 3)["x"] == 2.75
    with pytest.raises(AssertionError, match="not positive"):
        isolated(-80.0, 1)
    with pytest.raises(AssertionError, match="in this process"):
        hloom.function(falls)(8.0, 3)


def test_a_child_that_is_gone_is_started_again():
    isolated = hloom.function(lambda x: x + 1, isolated=True)
    assert isolated(np.arange(3)).tolist() == [1, 2, 3]
    runtime.close()
    assert isolated(np.arange(3)).tolist() == [1, 2, 3]
