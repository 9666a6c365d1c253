"""Calls of jax functions as HLO modules, traced once per argument types; and modules as jax functions.

    trace(jnp.dot, (x, y)) -> Traced(module, where the results are)

The cache key is the function, the shapes, types and weak types of its arrays, and the values of all other arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from hloom.formats.hlo import read_proto
from hloom.functions import Placeholder, Traced
from hloom.ir import Module
from hloom.runtime.derivative_rules import lowered_with_rules, rules_of
from hloom.runtime.differentiation import Derivatives, Program, program_call
from hloom.runtime.exact_logarithms import log2, log10
from hloom.runtime.jax_internals import jax_internals
from hloom.runtime.legalization import drop_layouts
from hloom.runtime.replay import replayed
from hloom.text import HloomError, Unsupported

KEPT_CALLS = 4096
"""The maximum number of cached traced calls."""
PROPERTIES = ("T", "mT", "real", "imag")


class JaxTracing:
    """jax as the array library behind compiled functions; 64-bit types are kept."""

    def __init__(self) -> None:
        self._traced: dict[Any, Traced] = {}
        self._counterparts: dict[int, Any] | None = None

    def trace(self, function: Any, arguments: Any, keywords: Any, types: Sequence[tuple[Any, Any, bool]]) -> Traced:
        """The module of a call; raises HloomError where jax refuses it, its error as the cause."""
        key = _key(function), _key(arguments), _key(keywords), tuple(types)
        try:
            known = self._traced.get(key)
        except TypeError:
            known, key = None, None
        if known is not None:
            return known
        made = self._trace(function, arguments, keywords, types)
        if key is not None:
            if len(self._traced) >= KEPT_CALLS:
                self._traced.clear()
            self._traced[key] = made
        return made

    def _trace(self, function: Any, arguments: Any, keywords: Any, types: Sequence[tuple[Any, Any, bool]]) -> Traced:
        jax = jax_internals().jax
        structures: list[Any] = []

        def flat(*arrays: Any) -> Any:
            result = function(*_filled(arguments, arrays), **_filled(keywords, arrays))
            leaves: list[Any] = []
            structures.append(_structure(result, leaves, jax))
            return tuple(leaves)

        with jax_internals().enable_x64():
            avals = [jax.ShapeDtypeStruct(dims, element, weak_type=weak) for dims, element, weak in types]
            try:
                traced = jax.jit(flat, keep_unused=True).trace(*avals)
                module = _module_of(traced)
            except Exception as error:
                text = str(error).strip().partition("\n")[0] or type(error).__name__
                raise HloomError(text) from error
        for graph in module.graphs:  # a lone transpose has the layout that moves nothing, which is in no one's way yet
            drop_layouts(graph)
        return Traced(module, structures[-1])

    def counterpart(self, function: Any) -> Any:
        """jax.numpy's function for one of NumPy's; jax's own for itself; None where there is none."""
        module = str(getattr(function, "__module__", None) or type(function).__module__)
        if module.partition(".")[0] in ("jax", "jaxlib"):
            return function
        if self._counterparts is None:
            self._counterparts = _counterparts()
        owner = getattr(function, "__self__", None)
        if isinstance(owner, np.ufunc):  # numpy.add.reduce and the like
            return getattr(self.counterpart(owner), function.__name__, None)
        counterpart = self._counterparts.get(id(function))
        if counterpart is None and isinstance(function, type) and issubclass(function, np.generic):
            return jax_internals().jax.numpy.dtype(function).type
        return counterpart

    def is_array(self, held: Any) -> bool:
        """Whether an object is an array of jax's."""
        return type(held).__module__.startswith("jaxlib") and hasattr(held, "__array__")

    def result_type(self, examples: Sequence[Any]) -> Any:
        """The type that jax promotes to."""
        jax = jax_internals().jax
        with jax_internals().enable_x64():
            return jax.numpy.result_type(*examples)

    def subscript(self, array: Any, *parts: Any) -> Any:
        """`array[parts]`, of jax's arrays."""
        return array[tuple(parts)]

    def update(self, array: Any, value: Any, *parts: Any) -> Any:
        """`array` with other elements at `parts`."""
        return array.at[tuple(parts)].set(value)

    def method(self, name: str) -> Any:
        """A method or property of jax's arrays, as a function of the array; None where there is none."""
        return _method(name)

    def update_at(self, name: str) -> Any:
        """A function of an array, values and an index: `array.at[index].name(*values)`."""
        return _update_at(name)


@cache
def _method(name: str) -> Callable[..., Any] | None:
    if not hasattr(jax_internals().jax.Array, name) and name not in PROPERTIES:
        return None

    def apply(array: Any, *arguments: Any, **keywords: Any) -> Any:
        member = getattr(array, name)
        return member(*arguments, **keywords) if callable(member) else member

    return apply


@cache
def _update_at(name: str) -> Callable[..., Any]:
    def apply(array: Any, values: Any, *parts: Any) -> Any:
        return getattr(array.at[tuple(parts)], name)(*values)

    return apply


def _module_of(traced: Any) -> Module:
    """The module of a traced function, in which what has derivative rules is a marked call."""
    if rules_of(traced.jaxpr):
        return lowered_with_rules(traced.jaxpr)
    return read_proto(traced.lower().compiler_ir("hlo").as_serialized_hlo_module_proto())


def _counterparts() -> dict[int, Any]:
    """jax's functions by the identity of NumPy's."""
    jax = jax_internals().jax
    table: dict[int, Any] = {}
    pairs = [(np, jax.numpy), (np.linalg, jax.numpy.linalg), (np.fft, jax.numpy.fft)]
    import jax.scipy.special

    try:
        import jax.scipy.special as theirs
        import scipy.special as ours

        pairs.append((ours, theirs))
    except ImportError:
        pass
    for ours, theirs in pairs:
        for name in dir(ours):
            function, other = getattr(ours, name), vars(theirs).get(name)  # not getattr: deprecated names warn
            if callable(function) and callable(other) and not isinstance(function, type):
                if getattr(function, "__name__", None) == name:
                    table[id(function)] = other
                else:
                    table.setdefault(id(function), other)
    table[id(np.fix)] = jax.numpy.trunc
    table[id(np.float_power)] = jax.numpy.float_power
    table.update({id(np.log2): log2, id(np.log10): log10})
    special = jax.scipy.special
    table.update({
        id(math.erf): special.erf, id(math.erfc): special.erfc, id(math.gamma): special.gamma,
        id(math.lgamma): special.gammaln,
    })  # fmt: skip
    return table


def _filled(plain: Any, arrays: Sequence[Any]) -> Any:
    if isinstance(plain, Placeholder):
        return arrays[plain.number]
    if isinstance(plain, tuple):
        items = [_filled(item, arrays) for item in plain]
        return tuple(items) if type(plain) is tuple else type(plain)(*items)
    if isinstance(plain, list):
        return [_filled(item, arrays) for item in plain]
    if isinstance(plain, dict):
        return {key: _filled(item, arrays) for key, item in plain.items()}
    if isinstance(plain, slice):
        return slice(*(_filled(part, arrays) for part in (plain.start, plain.stop, plain.step)))
    return plain


def _structure(result: Any, leaves: list[Any], jax: Any) -> Any:
    """Where the arrays of a result are; containers keep their class, all else its value."""
    if isinstance(result, (jax.Array, np.ndarray)):
        leaves.append(result)
        return Placeholder(len(leaves) - 1)
    if isinstance(result, tuple):
        items = [_structure(item, leaves, jax) for item in result]
        if type(result) is tuple:
            return tuple(items)
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
    if isinstance(result, list):
        return [_structure(item, leaves, jax) for item in result]
    if isinstance(result, dict):
        return {key: _structure(item, leaves, jax) for key, item in result.items()}
    return result


def _key(value: Any) -> Any:
    """An argument of a call as a key: by value, types told apart."""
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(_key, value))
    if isinstance(value, dict):
        return dict, tuple((key, _key(item)) for key, item in value.items())
    if isinstance(value, slice):
        return slice, _key((value.start, value.stop, value.step))
    if isinstance(value, np.ndarray):
        return np.ndarray, value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return float, value.hex()
    return type(value), value


def callable_of(module: Module, name: str, derivatives: Derivatives) -> Callable[..., Any]:
    """A module as a function of jax's arrays, which yields a tuple: for use inside jit, vmap and grad."""
    internals = jax_internals()
    jax = internals.jax
    core = internals.core

    def avals(types: Sequence[Any]) -> list[Any]:
        return [core.ShapedArray(value_type.dims, value_type.dtype.numpy) for value_type in types]

    with jax_internals().enable_x64():
        inputs = avals([parameter.type for parameter in module.entry.parameters])
        root = module.entry.root.type
        outputs = avals(root.elements)  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
    program = Program(name, inputs, outputs, derivatives, module=module, replay=replayed(module), has_64_bits=True,
                      keeps_rules=True)  # fmt: skip

    def apply(*arrays: Any) -> Any:
        if len(arrays) != len(inputs):
            raise HloomError(f"{name} takes {len(inputs)} arrays, not {len(arrays)}")
        given = [jax.numpy.asarray(array, aval.dtype) for array, aval in zip(arrays, inputs, strict=True)]
        for array, aval in zip(given, inputs, strict=True):
            if array.shape != aval.shape:
                raise HloomError(f"{name} takes an array of dimensions {aval.shape}, not {array.shape}")
            if array.dtype != aval.dtype:
                raise Unsupported(
                    f"{name} takes {aval.dtype}, which jax makes {array.dtype} of",
                    hint='jax.config.update("jax_enable_x64", True), or hloom.function(f, precision=32)',
                )
        return tuple(program_call().bind(*given, program=program))

    return apply


def compiled(module: Module, name: str, derivatives: Derivatives) -> Callable[..., Any]:
    """A module as a compiled function of arrays: NumPy's or jax's in, jax's out."""
    jax = jax_internals().jax
    function = callable_of(module, name, derivatives)
    jitted = jax.jit(function)

    def run(*arrays: Any) -> Any:
        with jax_internals().enable_x64():
            try:
                return jitted(*arrays)
            except (HloomError, KeyboardInterrupt):
                raise
            except Exception as error:
                raise Unsupported(f"XLA does not take {name}: {error}") from error

    return run
