"""A Python function compiled for given argument types: its module, and how to extract results and errors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from hloom.functions.captured import Captured, CapturedContents
from hloom.functions.closure_conversion import DEFAULT_DEPTH, first_order, prune
from hloom.functions.interpreter import Interpreter, Settings
from hloom.functions.print_log import PrintSite
from hloom.functions.results import Static, Templates
from hloom.functions.shared_calls import lower_shared_calls
from hloom.functions.state import PathEnds
from hloom.functions.store import ARGUMENT
from hloom.functions.values import (
    NONE,
    S32,
    AbstractValue,
    Array,
    Cell,
    ErrorSite,
    Fields,
    Ref,
    Tuple,
)
from hloom.ir import Module, TensorType, dtype, legal_name
from hloom.text import HloomError, Unsupported

S64 = dtype("s64")
RECURSION_LIMIT = 30_000
"""How deep Python's own calls may nest while a program is compiled; the interpreter bounds its own depth far below."""

Entry = Callable[[Interpreter, list[AbstractValue], dict[str, AbstractValue]], AbstractValue]


class ArgumentArray(NamedTuple):
    """An array argument: its dimensions, NumPy's type, and whether it is Python's own number."""

    dims: tuple[int, ...]
    dtype: Any
    weak: bool
    order: tuple[int, ...] | None = None
    """The dimensions as they are in memory, those that are farthest apart first; None where they are in order."""


class ArgumentTree(NamedTuple):
    """An argument made of others: its class, its keys or attributes, and its parts."""

    cls: type
    keys: tuple[Any, ...] | None
    parts: tuple[Any, ...]


@dataclass(eq=False)
class CompiledFunction:
    """A compiled function: a first-order module of its array arguments, and what its outputs mean."""

    functional: Module
    module: Module
    template: Any
    errors: tuple[ErrorSite, ...]
    has_error: bool
    captured: tuple[Captured | CapturedContents, ...]
    depth: int
    overflow: int
    printed: tuple[PrintSite, ...] = ()
    """The places that print; where there are any, the first two outputs are the log and its length."""

    def is_current(self) -> bool:
        """Whether what it was compiled with from outside is as it was."""
        return all(row.is_current() for row in self.captured)


@contextmanager
def deep_calls() -> Iterator[None]:
    """A recursion limit that the interpreter's own calls stay below."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def compile_program(
    entry: Entry, name: str, arguments: Sequence[Any], keywords: dict[str, Any], settings: Settings, *,
    depth: int = DEFAULT_DEPTH,
) -> CompiledFunction:  # fmt: skip
    """Compile a function for arguments described by `ArgumentArray`, `ArgumentTree` and `Static`; raises HloomError."""
    module = Module(legal_name(name))
    graph = module.add_graph(module.name)
    module.entry = graph
    interpreter = Interpreter(module, settings)
    names = iter(range(1_000_000))
    given = [_argument(interpreter, argument, names) for argument in arguments]
    named = {key: _argument(interpreter, argument, names) for key, argument in keywords.items()}
    overflow = 0
    try:
        with deep_calls():
            try:
                value = entry(interpreter, given, named)
            except PathEnds:
                value = NONE
            templates = Templates(interpreter)
            try:
                template = templates.of(value)
            except PathEnds:  # an iterator that raises is only gone over here
                templates, template = Templates(interpreter), Static(None)
            outputs = templates.outputs
            error = interpreter.store.get(interpreter.error)
            has_error = isinstance(error, Array)
            if isinstance(error, Array):
                outputs.append(interpreter.numbers.convert(error.node, S32))
            printing = interpreter.printing
            if printing.sites:
                position = interpreter.numbers.array(interpreter.store.get(printing.position))
                outputs[:0] = [
                    interpreter.store.get(printing.log).node,
                    interpreter.numbers.convert(position.node, S64),
                ]
            graph.set_output(interpreter.emitter.tuple(outputs))
            table = interpreter.recursive_calls.recursive_graphs()
            if table:
                overflow = interpreter.overflow_number()
            made, captured = first_order(module, graph, depth=depth, recursive=table)
            prune(module)
            lower_shared_calls(made)
    except RecursionError as problem:
        raise Unsupported(f"{name} nests too deeply to be compiled") from problem
    if captured:
        raise HloomError(f"{name}: {captured[0].name} is used outside the graph that computes it")
    return CompiledFunction(
        module, made, template, tuple(interpreter.errors), has_error, tuple(interpreter.captured), depth, overflow,
        tuple(interpreter.printing.sites),
    )  # fmt: skip


def _argument(interpreter: Interpreter, argument: Any, names: Iterator[int]) -> AbstractValue:
    if isinstance(argument, ArgumentArray):
        element = interpreter.settings.element_of(argument.dtype)
        node = interpreter.module.entry.add_parameter(TensorType(element, argument.dims), f"{ARGUMENT}{next(names)}")
        value = Array(node, argument.weak)
        if not argument.weak:
            interpreter.protected[value] = "it is an argument of the function"
        return value if argument.order is None else interpreter.views.ordered(value, argument.order)
    if isinstance(argument, Static):
        return interpreter.embed(argument.value, "a static argument")
    parts = tuple(_argument(interpreter, part, names) for part in argument.parts)
    if issubclass(argument.cls, tuple):
        return Tuple(parts, argument.cls)
    cell = Cell(argument.cls, "it is an argument of the function")
    interpreter.store.set(cell, Fields(argument.keys, parts))
    return Ref(cell)
