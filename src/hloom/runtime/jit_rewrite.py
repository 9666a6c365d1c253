"""`jax.jit` with a transformation of the program before XLA optimises it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from hloom.formats.hlo import load
from hloom.ir import Module, Node
from hloom.runtime.differentiation import Derivatives
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.primitive import Rewrite, call
from hloom.runtime.transformation import Transformation
from hloom.text import HloomError


def jit(
    function: Callable[..., Any],
    transformation: Transformation,
    derivatives: Derivatives | None = None,
    trial: Transformation | None = None,
    **options: Any,
) -> Any:
    """A function as `jax.jit(function, **options)` makes it, its program changed before XLA sees it.

    Returns `jax.jit`'s own object, with `lower`, `trace`, `eval_shape` and `clear_cache`, and additionally
    `rewritten(*args, **kwargs)`: the module that XLA gets for these arguments. The change is applied once per
    signature, when the function is lowered: to the function, and to each program that a transformation (`grad`, `vmap`,
    ...) makes of it. With `derivatives`, a changed function that calls one with its own derivative is differentiated in
    its changed form; `trial`, which makes the same change without counting, determines whether it does.

    Calling it raises RewriteError where the change fails or leaves a broken module, and Unsupported under an export
    with symbolic dimensions or for several platforms.
    """
    if not callable(function):
        raise HloomError(f"expected a function to compile, not {type(function).__name__}")
    if not callable(transformation):
        raise HloomError(f"expected a function of a module, not {type(transformation).__name__}")
    rewrite = Rewrite(transformation, getattr(function, "__name__", type(function).__name__), derivatives, trial)

    @wraps(function)
    def through_primitive(*args: Any, **kwargs: Any) -> Any:
        return _call_rewritten(function, rewrite, args, kwargs)

    through_primitive.__name__ = rewrite.name
    jitted = jax_internals().jax.jit(through_primitive, **options)
    jitted.rewritten = partial(_rewritten, jitted)
    return jitted


def _call_rewritten(function: Callable[..., Any], rewrite: Rewrite, args: Any, kwargs: Any) -> Any:
    """Apply the primitive to the arrays among the arguments; static arguments stay as they are."""
    tree = jax_internals().jax.tree
    static = {name: value for name, value in kwargs.items() if not _holds_arrays(value)}
    positions = [number for number, value in enumerate(args) if _holds_arrays(value)]
    traced = ([args[number] for number in positions], {name: kwargs[name] for name in kwargs if name not in static})
    inputs, structure = tree.flatten(traced)
    results: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        positional, named = tree.unflatten(structure, values)
        arguments = list(args)
        for number, value in zip(positions, positional, strict=True):
            arguments[number] = value
        leaves, result_structure = tree.flatten(function(*arguments, **static, **named))
        results.append(result_structure)
        return leaves

    debug = jax_internals().api_util.debug_info("hloom.jit", function, traced[0], traced[1])
    outputs = call(flat, inputs, rewrite, debug)
    return tree.unflatten(results[-1], outputs)


def _holds_arrays(value: Any) -> bool:
    """Whether an argument is one that `jax.jit` traces: a static one can be hashed, and arrays cannot."""
    jax = jax_internals().jax
    return any(isinstance(leaf, (jax.Array, np.ndarray)) for leaf in jax.tree.leaves(value))


def _rewritten(jitted: Any, *args: Any, **kwargs: Any) -> Module:
    """The module that XLA gets for these arguments, the call to the rewritten function inlined."""
    module = load(jitted.lower(*args, **kwargs))
    for node in module.entry.nodes:
        if node.opcode == "call":
            inline_call(node)
    return module


def inline_call(call: Node) -> None:
    """Put a computation in place of its call, and erase it if nothing else calls it."""
    (called,) = call.called_graphs
    call.graph.inline(call)
    if not called.callers:
        called.module.erase_graph(called)
