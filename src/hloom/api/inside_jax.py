"""Compiled functions inside jax's transformations: `Function.as_jax`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from hloom import runtime
from hloom.api.differentiable import module_derivatives
from hloom.api.run_errors import error_of
from hloom.functions import ArgumentArray, ArgumentTree, CompiledFunction, Result, has_choice, printed_lines, rebuilt
from hloom.text import HloomError, Unsupported

KEPT_CALLS = 256
"""The maximum number of specialisations that a function caches."""


class Specialised(Protocol):
    """A function that is compiled for the types of its arguments."""

    name: str
    precision: int

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any], arrays: list[Any]) -> Any: ...
    def make(self, key: Any, depth: int) -> CompiledFunction: ...
    def at_precision(self, precision: int) -> Specialised: ...


class InsideJax:
    """A compiled function as jax's transformations take it."""

    def __init__(self, function: Specialised, raise_errors: bool, depth: int) -> None:
        self.of_function = function
        self.raise_errors = raise_errors
        self.depth = depth
        self._calls: dict[Any, tuple[CompiledFunction, Callable[..., Any]]] = {}

    def function(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
        """The function of arguments of these types, or, without any, of those that it is called with."""
        fixed = self._described(args, kwargs, convert=False)[0] if args or kwargs else None

        def apply(*given: Any, **named: Any) -> Any:
            key, arrays = self._described(given, named, convert=fixed is None)
            return self._run(key if fixed is None else fixed, arrays)

        apply.__name__ = self.of_function.name
        return apply

    def _described(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, convert: bool) -> tuple[Any, list[Any]]:
        """What to compile for, and the arrays; `convert` makes them those that jax has, whose types may be smaller."""
        arrays: list[Any] = []
        if not convert:
            return (self.of_function, self.of_function.key(args, kwargs, arrays)), arrays
        function = self.of_function if runtime.has_64_bits() else self.of_function.at_precision(32)
        arguments, named = function.key(args, kwargs, arrays)
        arrays = runtime.jax_arrays(arrays)
        of_jax = iter(arrays)
        arguments = tuple([_in_jax(argument, of_jax, function.precision) for argument in arguments])
        named = tuple([(name, _in_jax(argument, of_jax, function.precision)) for name, argument in named])
        return (function, (arguments, named)), arrays

    def _run(self, specialisation: Any, arrays: Sequence[Any]) -> Any:
        held = self._calls.get(specialisation)
        if held is None or not held[0].is_current():
            if len(self._calls) >= KEPT_CALLS:
                self._calls.clear()
            held = self._calls[specialisation] = self._compiled(*specialisation)
        program, run = held
        outputs = run(*arrays)
        if program.printed:
            runtime.call_host(_printer(program), [runtime.halves(outputs[0]), outputs[1], outputs[-1]])
        if program.has_error and self.raise_errors:
            runtime.call_host_with_largest(_raiser(program), outputs[-1])
        return rebuilt(program.template, outputs[2:] if program.printed else outputs, _jax_output)

    def _compiled(self, function: Specialised, key: Any) -> tuple[CompiledFunction, Callable[..., Any]]:
        program = function.make(key, self.depth)
        if has_choice(program.template):
            raise Unsupported(
                f"the structure of the result of {function.name} depends on data, which jax's functions cannot",
                hint="give results of the same structure in every case",
            )
        return program, runtime.callable_of(program.module, function.name, module_derivatives())


def _in_jax(described: Any, arrays: Iterator[Any], precision: int) -> Any:
    """A described argument with the types of jax's arrays: jax's weakly typed scalars are Python's numbers."""
    if isinstance(described, ArgumentTree):
        parts = tuple([_in_jax(part, arrays, precision) for part in described.parts])
        return ArgumentTree(described.cls, described.keys, parts)
    if not isinstance(described, ArgumentArray):
        return described
    array = next(arrays)
    own = _NUMBERS[precision].get(array.dtype.kind) == array.dtype.itemsize
    weak = described.weak or (own and not described.dims and runtime.is_weak(array))
    return ArgumentArray(described.dims, np.dtype(array.dtype), weak)


_NUMBERS = {64: {"i": 8, "f": 8, "c": 16}, 32: {"i": 4, "f": 4, "c": 8}}
"""The bytes of Python's numbers, by precision and NumPy's kind."""


def _jax_output(result: Result, output: Any) -> Any:
    return runtime.result_array(output, weak=result.weak)


def _printer(program: CompiledFunction) -> Callable[[Any, Any, Any], None]:
    """What prints the lines of a run on the host, given its log in halves, the log's length and its last output."""

    def show(halves: Any, length: Any, last: Any) -> None:
        if program.has_error and int(last) and int(last) == program.overflow:
            return
        log = np.ascontiguousarray(halves)
        for line in printed_lines(program.printed, log.view(np.int64).reshape(-1), int(length)):
            print(line)  # noqa: T201  what it is for

    return show


def _raiser(program: CompiledFunction) -> Callable[[Any], None]:
    """What raises the error of a run on the host, given its number."""

    def check(number: Any) -> None:
        if int(number) and int(number) == program.overflow:
            raise HloomError(f"recursion deeper than {program.depth} calls", hint="as_jax(depth=...)")
        if int(number):
            raise error_of(program, int(number))

    return check
