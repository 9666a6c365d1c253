"""The interface through which the interpreter lowers calls into an array library to HLO."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hloom.ir import Module


@dataclass(frozen=True, slots=True)
class Placeholder:
    """Stands for an array among the arguments of a library's function."""

    number: int


@dataclass(frozen=True, slots=True)
class Traced:
    """A library's function as a module: its results in order, and the structure that holds them.

    What has derivative rules of its own stands in the module as a marked call (`hloom.rewrite.mark_call`).
    """

    module: Module
    structure: Any
    """Nested tuples, lists and dicts whose leaves are numbers of results, or `Const` objects."""


class LibraryTracing(Protocol):
    """What makes HLO of calls into jax."""

    def trace(self, function: Any, arguments: Any, keywords: Any, types: Sequence[tuple[Any, Any, bool]]) -> Traced:
        """The module of a call whose arrays, `Placeholder`s in the arguments, have these shapes, types, weakness."""
        ...

    def counterpart(self, function: Any) -> Any:
        """jax's function for one of NumPy's; jax's own for itself; None where there is none."""
        ...

    def is_array(self, held: Any) -> bool:
        """Whether an object is an array of jax's."""
        ...

    def result_type(self, examples: Sequence[Any]) -> Any:
        """The type that jax promotes to."""
        ...

    def subscript(self, array: Any, *parts: Any) -> Any:
        """`array[parts]`, of jax's arrays."""
        ...

    def update(self, array: Any, value: Any, *parts: Any) -> Any:
        """`array` with other elements at `parts`."""
        ...

    def method(self, name: str) -> Any:
        """A method of jax's arrays, as a function of the array; None where there is none."""
        ...

    def update_at(self, name: str) -> Any:
        """A function of an array, a value and an index: `array.at[index].name(value)`."""
        ...
