"""Graphs of two scalars that are one well-known operation, and numpy's function for it."""

from __future__ import annotations

from enum import Enum

import numpy as np

from hloom.ir import Graph, Parameter, dtype_of


class Replace(Enum):
    """Graphs that give back one of their two parameters."""

    FIRST = 0
    SECOND = 1


_UFUNCS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_OF_ANY = frozenset(("and", "or", "xor"))
_EXTREMES = ("maximum", "minimum")


def opcode_of(graph: Graph) -> str | Replace | None:
    """The commutative opcode of two parameters that a graph is, or the parameter that it gives back; None otherwise."""
    root = graph.output
    if root is None:
        return None
    if isinstance(root, Parameter):
        return Replace(root.number) if len(graph.parameters) == 2 else None
    if root.opcode not in _UFUNCS or len(graph.parameters) != 2 or set(root.inputs) != set(graph.parameters):
        return None
    return root.opcode if all(parameter.type is root.type for parameter in graph.parameters) else None


def ufunc_of(graph: Graph, dtype: np.dtype) -> np.ufunc | Replace | None:
    """Numpy's function for a graph on elements of a type; None where numpy's would not do the same.

    That is so for numbers smaller than f32 (which are rounded at each step), for pred and complex numbers but for
    their bits and sums, and for the greatest and least of floats: of 0 and -0, numpy's gives the one or the other.
    """
    opcode = opcode_of(graph)
    if opcode is None or isinstance(opcode, Replace):
        return opcode
    if opcode in _EXTREMES and dtype.kind == "f":
        return None
    is_plain = dtype.kind in "iu" or dtype in (np.float32, np.float64)
    allowed = is_plain or (dtype == np.bool_ and opcode in _OF_ANY) or (dtype.kind == "c" and opcode == "add")
    return _UFUNCS[opcode] if allowed else None


def wide_ufunc_of(graph: Graph, dtype: np.dtype) -> tuple[np.ufunc, np.dtype] | None:
    """Numpy's function for reducing many elements of a type by a graph, and the type to do it in.

    As XLA's CPU does, floats smaller than f32 are summed up in f32 and rounded once. Of 0 and -0, the greatest and
    the least may come out as either.
    """
    known = opcode_of(graph)
    if known is None or isinstance(known, Replace):
        return None
    if dtype_of(dtype).is_float and dtype.itemsize < 4:
        return _UFUNCS[known], np.dtype(np.float32)
    if known in _EXTREMES and dtype in (np.float32, np.float64):
        return _UFUNCS[known], dtype
    ufunc = ufunc_of(graph, dtype)
    return (ufunc, dtype) if isinstance(ufunc, np.ufunc) else None
