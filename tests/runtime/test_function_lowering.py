"""Functions of jax's arrays as modules (runtime/function_lowering.py)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom import HloomError
from hloom.ir import TensorType, dtype
from hloom.runtime import lowered_function


def array(element: str, *dims: int) -> TensorType:
    return TensorType(dtype(element), dims)


def test_the_same_demand_gives_the_same_module():
    first = lowered_function(jnp.sum, [array("f32", 4, 8)], {"axis": 1})
    assert str(first.entry.root.type).startswith("f32[4]")
    assert lowered_function(jnp.sum, [array("f32", 4, 8)], {"axis": 1}) is first
    assert lowered_function(jnp.sum, [array("f32", 4, 8)], {"axis": 0}) is not first


def test_64_bits_stay_and_defaults_are_those_of_jax_s_configuration():
    assert str(lowered_function(jnp.tanh, [array("f64", 3)], {}).entry.root.type).startswith("f64[3]")

    def counted(x: Any) -> Any:
        return jnp.arange(x.shape[0])

    assert str(lowered_function(counted, [array("f32", 3)], {}).entry.root.type).startswith("s32[3]")


def test_keywords_may_be_lists():
    def permuted(x: Any, *, order: list[int]) -> Any:
        return jnp.transpose(x, order)

    assert str(lowered_function(permuted, [array("f32", 2, 3)], {"order": [1, 0]}).entry.root.type).startswith("f32[3,2]")


def test_jax_s_refusal_names_the_function_and_the_types():
    with pytest.raises(hloom.HloomError, match=r"matmul of f32\[4,8\], f32\[4,8\] cannot be traced"):
        lowered_function(jnp.matmul, [array("f32", 4, 8), array("f32", 4, 8)], {})


def test_callbacks_are_refused():
    """A module would hold the address of a Python function that nothing keeps."""

    def calls_back(x):
        return jax.pure_callback(lambda value: value, x, x)

    with pytest.raises(HloomError, match=r"calls_back of f32\[3\] cannot be traced: it calls back into Python \(pure_callback\)"):
        lowered_function(calls_back, [array("f32", 3)], {})
    stopped = hloom.differentiable(lambda x: calls_back(jax.lax.stop_gradient(x)) * x)
    with pytest.raises(HloomError, match="calls back into Python"):
        jax.grad(lambda x: stopped(x).sum())(np.ones(3, np.float32))
