"""The parts of jax that compiled functions use inside its transformations: types, weak types, and host callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.runtime.jax_internals import jax_internals


def has_64_bits() -> bool:
    """Whether jax has 64-bit types here."""
    return bool(jax_internals().jax.config.jax_enable_x64)


def jax_arrays(arrays: Sequence[Any]) -> list[Any]:
    """Arrays and numbers as jax's, in the types that it has; values that it traces as they are."""
    numpy = jax_internals().jax.numpy
    return [numpy.asarray(array) for array in arrays]


def is_weak(array: Any) -> bool:
    """Whether a jax array is weakly typed, as Python's numbers are."""
    return bool(getattr(array, "weak_type", False))


def result_array(array: Any, *, weak: bool) -> Any:
    """An array in the types that jax has; a weak one takes the type of what it meets."""
    internals = jax_internals()
    dtype = internals.jax.dtypes.canonicalize_dtype(array.dtype)
    if not weak and dtype == array.dtype:
        return array
    return internals.lax_internal._convert_element_type(array, dtype, weak_type=weak)


def halves(array: Any) -> Any:
    """An array of 64-bit integers as pairs of 32-bit ones, as which it reaches the host whatever types jax has."""
    jax = jax_internals().jax
    return jax.lax.bitcast_convert_type(array, np.int32)


def call_host(function: Callable[..., None], arrays: Sequence[Any]) -> None:
    """Call a function of the host with arrays when a program runs, once for each element of a batch."""
    jax_internals().jax.debug.callback(function, *arrays)


def call_host_with_largest(function: Callable[[Any], None], number: Any) -> None:
    """Call a function of the host with a number when a program runs: for a batch, once, with the largest one."""
    jax = jax_internals().jax

    @jax.custom_batching.custom_vmap
    def call(value: Any) -> Any:
        jax.debug.callback(function, value)
        return value

    @call.def_vmap
    def of_batch(size: int, is_batched: Sequence[bool], values: Any) -> Any:  # pyright: ignore[reportUnusedFunction]
        return call(jax.numpy.max(values)), False

    call(number)
