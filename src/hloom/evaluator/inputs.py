"""Between flat lists of arrays, which callers give and get, and values, which are arrays, tuples and tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from hloom.evaluator.table import TOKEN_VALUE, Value
from hloom.ir import TOKEN, Apply, DType, DTypeKind, Graph, TensorType, TupleType, Type, dtype_of
from hloom.text import HloomError, Unsupported, names_meant, near_names

Inputs: TypeAlias = Sequence[Any] | Mapping[str, Any]
"""One array per parameter, the elements of tuples one by one: in order, or by name."""


def arguments_of(graph: Graph, inputs: Inputs) -> list[Value]:
    """The values of a graph's parameters; raises HloomError naming the first array that does not fit."""
    parameters = [(parameter.name, _known(parameter.name, parameter.type)) for parameter in graph.parameters]
    leaves = [leaf for name, type_ in parameters for leaf in named_leaves(name, type_) if leaf[1] is not TOKEN]
    given = inputs_in_order(inputs, [name for name, _ in leaves])
    arrays: list[Value] = [_checked(name, type_, value) for (name, type_), value in zip(leaves, given, strict=True)]
    waiting = iter(arrays)
    return [assemble(type_, waiting) for _, type_ in parameters]


def named_leaves(name: str, type_: Type) -> Iterator[tuple[str, Type]]:
    """The leaves of a type, named by their place: `x`, or `pair.0` and `pair.1.0`."""
    pending = [(name, type_)]
    while pending:
        name, type_ = pending.pop()
        if isinstance(type_, TupleType):
            elements = [(f"{name}.{number}", element) for number, element in enumerate(type_.elements)]
            pending.extend(reversed(elements))
        else:
            yield name, type_


def assemble(type_: Type, leaves: Iterator[Value]) -> Value:
    """A value of a type out of the arrays that it consists of; tokens are not among them."""
    done: list[Value] = []
    pending: list[tuple[Type, bool]] = [(type_, False)]
    while pending:
        type_, has_elements = pending.pop()
        if has_elements and isinstance(type_, TupleType):
            count = len(type_.elements)
            elements = tuple(done[len(done) - count :])
            done[len(done) - count :] = [elements]
        elif isinstance(type_, TupleType):
            pending.append((type_, True))
            pending.extend((element, False) for element in reversed(type_.elements))
        else:
            done.append(TOKEN_VALUE if type_ is TOKEN else next(leaves))
    return done[0]


def leaves_of(value: Value) -> Iterator[np.ndarray]:
    """The arrays of a value, in order; tokens are left out."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(reversed(item))
        elif item is not TOKEN_VALUE:
            yield np.asarray(item)


def _known(name: str, type_: Type | None) -> Type:
    if type_ is None:
        raise HloomError(f"the type of parameter {name} is not written")
    return type_


def inputs_in_order(inputs: Any, names: Sequence[str]) -> list[Any]:
    """One array per name, from arrays in order, or by name or number; raises HloomError for names that do not fit."""
    if not isinstance(inputs, Mapping):
        listed = listed_inputs(inputs)
        if len(listed) != len(names):
            raise HloomError(f"the program takes {len(names)} arrays, {len(listed)} are given")
        return listed
    known = set(names)
    numbers = {str(number): name for number, name in enumerate(names)}
    given: dict[str, Any] = {}
    for key, value in inputs.items():
        meant = [key] if key in known else names_meant(str(key), names) or [numbers.get(str(key), "")]
        if len(meant) > 1:
            raise HloomError(f"input '{key}' may be any of several: {', '.join(meant)}", hint="give one of these names")
        if not meant[0]:
            raise HloomError(f"the program has no parameter '{key}'", hint=near_names(str(key), names))
        if meant[0] in given:
            raise HloomError(f"two inputs are given for {meant[0]}")
        given[meant[0]] = value
    missing = [name for name in names if name not in given]
    if missing:
        raise HloomError(f"no input is given for {', '.join(missing)}")
    return [given[name] for name in names]


def listed_inputs(inputs: Any) -> list[Any]:
    """One array per parameter, in order; raises HloomError for one array, whose rows would be taken apart."""
    if hasattr(inputs, "dtype") and hasattr(inputs, "shape"):
        raise HloomError("inputs are one array, not a list of them", hint="give [array], or by name {'x': array}")
    if isinstance(inputs, (str, bytes)) or not isinstance(inputs, Iterable):
        raise HloomError(f"inputs are a {type(inputs).__name__}", hint="give a list of arrays, or arrays by name")
    return list(inputs)


def _checked(name: str, type_: Type, value: Any) -> np.ndarray:
    if not isinstance(type_, TensorType):
        raise Unsupported(f"parameter {name} of type {type_} cannot be given from outside")
    is_stored = all(hasattr(value, attribute) for attribute in ("dtype", "shape", "ndim"))
    array = value if is_stored else np.asarray(value)  # what is in a file is compared before it is read
    if not is_stored and keeps(array, type_.dtype):  # nested lists, and numbers
        array = array.astype(type_.dtype.numpy)
    if not fits(array, type_):
        raise HloomError(f"input {name} is {_type_text(array)}, the program takes {type_}")
    return np.asarray(array)


def keeps(array: np.ndarray, dtype: DType) -> bool:
    """Whether Python's numbers can be written as literals of a type: none loses its fraction, sign or high digits."""
    if array.dtype.kind == "b":
        return dtype.kind is DTypeKind.BOOLEAN
    if array.dtype.kind not in "iufc" or dtype.kind is DTypeKind.BOOLEAN:
        return False
    if dtype.is_integer:
        return array.dtype.kind in "iu" and bool((array.astype(dtype.numpy).astype(array.dtype) == array).all())
    return dtype.is_complex or array.dtype.kind != "c"


def fits(array: np.ndarray, array_type: TensorType) -> bool:
    """Whether an array is of a type; a dynamic dimension may be smaller than its bound, which may be none."""
    if array.dtype != array_type.dtype.numpy or array.ndim != array_type.rank:
        return False
    if array_type.dynamic is None:
        return array.shape == array_type.dims
    sizes = zip(array.shape, array_type.dims, array_type.dynamic, strict=True)
    return all(size == bound or (moves and (bound < 0 or size < bound)) for size, bound, moves in sizes)


def _type_text(array: np.ndarray) -> str:
    try:
        return f"{dtype_of(array.dtype)}[{','.join(map(str, array.shape))}]"
    except (KeyError, TypeError):
        return f"a numpy array of {array.dtype}"


def context(node: Apply) -> tuple[Value, ...]:
    """The third element and those behind it of what a node yields: zeros, which nothing may look at."""
    if not isinstance(node.type, TupleType):
        return ()
    return tuple(
        assemble(
            type_,
            iter([np.zeros(leaf.dims, leaf.dtype.numpy) for leaf in type_.leaves() if isinstance(leaf, TensorType)]),
        )
        for type_ in node.type.elements[2:]
    )
