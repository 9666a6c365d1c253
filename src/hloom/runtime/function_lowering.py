"""Lowers jax functions to HLO modules, for the replacements of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from hloom.formats.hlo import read_proto
from hloom.ir import Module, TensorType
from hloom.rewrite import provide_lowering
from hloom.runtime.jax_internals import jax_internals, refuse_callbacks
from hloom.text import HloomError

KEPT_PROGRAMS = 1024
"""The maximum number of cached traced functions."""


def lowered_function(function: Callable[..., Any], types: Sequence[TensorType], keywords: Mapping[str, Any]) -> Module:
    """The module that jax makes of a function for types of arrays; it yields the leaves of the result.

    64-bit types are kept, jax's default types are those of its configuration. Raises HloomError where jax refuses.
    """
    demand = function, tuple(types), tuple(keywords.items())
    try:
        hash(demand)
    except TypeError:
        return _lowered(*demand)
    return _kept(*demand)


def _lowered(
    function: Callable[..., Any], types: tuple[TensorType, ...], keywords: tuple[tuple[str, Any], ...]
) -> Module:
    jax = jax_internals().jax
    is_wide = any(np.dtype(value_type.dtype.numpy).itemsize == 8 for value_type in types) or jax.config.jax_enable_x64

    def leaves(*arrays: Any) -> tuple[Any, ...]:
        return tuple(jax.tree.leaves(function(*arrays, **dict(keywords))))

    leaves.__name__ = getattr(function, "__name__", "function")
    with jax.enable_x64(is_wide):
        arrays = [jax.ShapeDtypeStruct(value_type.dims, value_type.dtype.numpy) for value_type in types]
        try:
            traced = jax.jit(leaves, keep_unused=True).trace(*arrays)
            refuse_callbacks(traced.jaxpr)
            proto = traced.lower().compiler_ir("hlo").as_serialized_hlo_module_proto()
        except Exception as error:
            text = str(error).strip().partition("\n")[0] or type(error).__name__
            shown = ", ".join(map(str, types))
            raise HloomError(f"{leaves.__name__} of {shown} cannot be traced: {text}") from error
    return without_stack_frames(read_proto(proto))


def without_stack_frames(module: Module) -> Module:
    """The module without its source tables and references to them, which would be wrong in another module."""
    module.stack_tables = None
    for node in module.nodes():
        metadata = node.metadata
        if metadata is not None and metadata.stack_frame_id:
            node.graph.set_metadata(node, replace(metadata, stack_frame_id=0).text() or None)
    return module


_kept = lru_cache(KEPT_PROGRAMS)(_lowered)
provide_lowering(lambda: lowered_function)
