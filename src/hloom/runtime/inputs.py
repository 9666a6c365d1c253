"""Inputs of a program: random arrays from a seed, or the user's own, checked against the parameters' types."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloom.evaluator import inputs_in_order, keeps
from hloom.ir import DTYPES, DType, DTypeKind, TensorType, dtype_of
from hloom.runtime.input_domains import ANY, InputDomain
from hloom.runtime.npz import StoredArray
from hloom.text import HloomError, Unsupported

Inputs: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""One array, or nested list, per flattened parameter, in order, or by name (or number, as text)."""

INTEGERS_BELOW = 8
"""The exclusive upper bound of random integers: small, non-negative numbers suit indices, counts and tokens."""

_TENSOR = re.compile(r"([a-z]\w*)\[([\d,]*)\]")


def leaf_type(text: str) -> TensorType:
    """The type of a flattened parameter; raises Unsupported for tokens, opaque values and dynamic dimensions."""
    match = _TENSOR.fullmatch(text)
    if match is None or match[1] not in DTYPES:
        raise Unsupported(f"a parameter of type {text} cannot be given from outside")
    return TensorType(DTYPES[match[1]], tuple(int(size) for size in match[2].split(",") if size))


def random_inputs(
    types: Sequence[TensorType], seed: int = 0, domains: Sequence[InputDomain] | None = None
) -> list[np.ndarray]:
    """One array per type: normal floats, integers from 0 to 7, even odds for pred.

    A parameter's values depend on the seed and its number only, not on the other parameters, and on its domain, which
    `input_domains` finds for the parameters of a module.
    """
    wanted = domains if domains is not None else [ANY] * len(types)
    return [
        random_array(array_type, np.random.default_rng([seed, index]), domain)
        for index, (array_type, domain) in enumerate(zip(types, wanted, strict=True))
    ]


def random_array(array_type: TensorType, generator: np.random.Generator, domain: InputDomain = ANY) -> np.ndarray:
    """Random values of one type in a domain."""
    try:
        values = _values(array_type.dtype, array_type.dims, generator)
        if array_type.dtype.is_float and array_type.dtype.name != "f8e8m0fnu":
            values = domain.draw(values)
        elif array_type.dtype.is_integer:
            values = domain.choose(values, _greatest(array_type.dtype))
        return values.astype(array_type.dtype.numpy)
    except (MemoryError, ValueError):
        raise HloomError(
            f"an input of type {array_type}, {array_type.byte_count:,} bytes, is larger than memory"
        ) from None


def _values(dtype: DType, dims: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if dtype.kind is DTypeKind.BOOLEAN:
        return generator.integers(0, 2, dims)
    if dtype.is_integer:
        return generator.integers(0, _greatest(dtype) + 1, dims)
    if dtype.is_complex:
        return generator.standard_normal(dims) + 1j * generator.standard_normal(dims)
    if dtype.name == "f8e8m0fnu":  # has neither sign nor zero
        return np.exp2(generator.integers(-2, 3, dims))
    return generator.standard_normal(dims)


def _greatest(dtype: DType) -> int:
    """The greatest of the random integers of a type."""
    value_bits = dtype.bits - (dtype.kind is DTypeKind.SIGNED)
    return min(INTEGERS_BELOW, 1 << value_bits) - 1


def check_inputs(inputs: Inputs, types: Sequence[TensorType], names: Sequence[str]) -> list[np.ndarray]:
    """The user's arrays in the parameters' order; raises HloomError naming the first that does not fit.

    XLA itself only compares byte counts and would read an s32 as an f32.
    """
    ordered = inputs_in_order(inputs, names)
    return [
        _converted(value, array_type, f"input {index} ({name})")
        for index, (value, array_type, name) in enumerate(zip(ordered, types, names, strict=True))
    ]


def _converted(value: Any, array_type: TensorType, subject: str) -> np.ndarray:
    """The array of a parameter's type: of nested lists, or of an element type that converts without loss."""
    if isinstance(value, StoredArray) and not _is_given(value, array_type):  # before it is read
        raise HloomError(f"{subject} is {_type_text(value)}, the program takes {array_type}")
    try:
        array = np.asarray(value)
    except ValueError:
        raise HloomError(f"{subject} is a ragged list, the program takes {array_type}") from None
    if _type_text(array) == str(array_type):
        return array
    target = array_type.dtype.numpy
    is_listed = not hasattr(value, "dtype") and keeps(array, array_type.dtype)
    if (is_listed and array.shape == array_type.dims) or _is_given(array, array_type):
        return array.astype(target)
    raise HloomError(f"{subject} is {_type_text(array)}, the program takes {array_type}")


def _is_given(array: np.ndarray | StoredArray, array_type: TensorType) -> bool:
    """Whether an array has a parameter's shape, and an element type that converts without loss."""
    return array.shape == array_type.dims and np.can_cast(array.dtype, array_type.dtype.numpy, "safe")


def _type_text(array: np.ndarray | StoredArray) -> str:
    try:
        return f"{dtype_of(array.dtype)}[{','.join(map(str, array.shape))}]"
    except KeyError:
        return f"a numpy array of {array.dtype}"
