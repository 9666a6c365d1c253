"""Converts between jax's trees of arguments and results and a module's flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.ir import TensorType
from hloom.runtime.array_rows import ArrayRows
from hloom.runtime.jax_internals import implementation_of_key, jax_internals, kept_arguments
from hloom.text import HloomError


def checked_argument(argument: Any, expected: TensorType, number: int) -> Any:
    """An argument converted to the expected array type as jax does; raises HloomError if it does not fit.

    Where jax has no 64-bit types, numpy's 64-bit arrays become 32 bits wide: s64 becomes s32, f64 becomes f32. Python's
    numbers take the expected type. Conversions that would lose high digits of an integer, a fraction or an imaginary
    part are rejected.
    """
    is_array = isinstance(argument, (ArrayRows, jax_internals().jax.Array))
    array = argument if is_array else _converted(argument, expected.dtype.numpy)
    if array is None or array.shape != expected.dims or array.dtype != expected.dtype.numpy:
        raise HloomError(
            f"argument {number} is {_described(argument)}, and the step takes {expected}",
            hint="convert it first: the step was compiled for one type of each argument",
        )
    return array


def _converted(argument: Any, wanted: np.dtype) -> np.ndarray | None:
    """An array that is not jax's as numpy's, of the wanted type where it converts; None for what is not an array."""
    try:
        array = np.asarray(argument)
    except ValueError:
        return None
    if array.dtype == wanted or array.dtype.hasobject or array.dtype.kind not in "biufc":
        return array
    is_number = not hasattr(argument, "dtype") and array.dtype.kind != "b"
    if not is_number and jax_internals().jax.dtypes.canonicalize_dtype(array.dtype) != wanted:
        return array
    with np.errstate(all="ignore"):
        made = (array if wanted.kind == "c" else np.real(array)).astype(wanted)
        back = made.astype(array.dtype)
    if wanted.kind in "biu":
        return made if bool((back == array).all()) else array
    return made if wanted.kind == "c" or not np.iscomplexobj(array) else array


def _described(argument: Any) -> str:
    try:
        array = argument if hasattr(argument, "dtype") else np.asarray(argument)
    except ValueError:
        return "a ragged list"
    return f"{array.dtype}{list(np.shape(array))}"


@dataclass(frozen=True, slots=True)
class ProgramTrees:
    """The trees of a lowered program's arguments and results, around its flat parameters and results.

    `kept` are the numbers of the arguments that the program has: jax leaves out those that nothing uses. `keys` are by
    number of a result the types of random keys.
    """

    arguments_tree: Any
    results_tree: Any
    kept: frozenset[int] | None
    keys: dict[int, Any]

    @staticmethod
    def of(lowered: Any) -> ProgramTrees | None:
        """The trees of what `jax.jit(f).lower(...)` returns; None for anything else."""
        arguments, results = getattr(lowered, "in_tree", None), getattr(lowered, "out_tree", None)
        if arguments is None or results is None:
            return None
        jax = jax_internals().jax
        types = [getattr(leaf, "dtype", None) for leaf in jax.tree.leaves(getattr(lowered, "out_info", ()))]
        keys = {number: made for number, made in enumerate(types) if made is not None and _is_key(made)}
        return ProgramTrees(arguments, results, kept_arguments(lowered), keys)

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments; raises HloomError where they are another tree."""
        jax = jax_internals().jax
        leaves, tree = jax.tree.flatten((tuple(args), kwargs))
        if tree != self.arguments_tree:
            raise HloomError(
                f"the step takes {_shortened(self.arguments_tree)}, and {_shortened(tree)} is given",
                hint="give the arrays that it was lowered for, and no static arguments",
            )
        taken = [leaf for number, leaf in enumerate(leaves) if self.kept is None or number in self.kept]
        return [jax.random.key_data(leaf) if _is_key(getattr(leaf, "dtype", None)) else leaf for leaf in taken]

    def results(self, leaves: Sequence[Any]) -> Any:
        """The tree of the results."""
        jax = jax_internals().jax
        made = list(leaves)
        for number, key_type in self.keys.items():
            made[number] = jax.random.wrap_key_data(made[number], impl=implementation_of_key(key_type))
        return jax.tree.unflatten(self.results_tree, made)


def _is_key(element_type: Any) -> bool:
    jax = jax_internals().jax
    return element_type is not None and jax.dtypes.issubdtype(element_type, jax.dtypes.prng_key)


def _shortened(tree: Any, most: int = 160) -> str:
    text = str(tree)
    return text if len(text) <= most else f"{text[:most]}..."
