"""Runs scalar graphs on whole arrays where possible, and element by element otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hloom.evaluator.table import TABLE, Value
from hloom.ir import Apply, Constant, Graph, Node, Parameter, TensorType, Trait, TupleType, Type
from hloom.ops import INLINABLE, with_trait
from hloom.text import Unsupported

SCALAR_IDENTITIES = with_trait(Trait.REINDEXES) - {"bitcast"}
"""Opcodes that give back their operand where that and the result are scalars of one type."""


def common_shape(arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    """The shape that arrays have after broadcasting together."""
    return np.broadcast_shapes(*(array.shape for array in arrays))


def is_pointwise(graph: Graph, known: dict[Graph, bool]) -> bool:
    """Whether every node of a graph, and of those it calls, may be run on many elements at once.

    `known` remembers the answers.
    """
    pending = [graph]
    family: dict[Graph, None] = {}
    while pending:
        member = pending.pop()
        if member in family or known.get(member):
            continue
        if known.get(member) is False or not all(map(_allows, member.nodes)):
            known[graph] = False
            return False
        family[member] = None
        pending.extend(called for node in member.nodes for called in node.called_graphs)
    known.update(dict.fromkeys(family, True))
    return True


def _allows(node: Node) -> bool:
    if isinstance(node, (Parameter, Constant)):
        leaves = () if node.type is None else node.type.leaves()
        return all(isinstance(leaf, TensorType) and not leaf.rank for leaf in leaves)
    if not isinstance(node, Apply) or isinstance(node.function, Node):
        return False
    if node.opcode == "bitcast" and node.operands[0].type is not None:
        return _is_scalar_as_wide(node.type, node.operands[0].type)
    if node.opcode in SCALAR_IDENTITIES:
        return node.operands[0].type is not None and _is_scalar_of(node.type, node.operands[0].type)
    row = TABLE.get(node.opcode)
    return node.opcode in INLINABLE or (row is not None and row.is_pointwise)


def _is_scalar_of(type_: Type | None, other: Type) -> bool:
    if not isinstance(type_, TensorType) or not isinstance(other, TensorType):
        return False
    return type_.rank == other.rank == 0 and type_.dtype is other.dtype


def _is_scalar_as_wide(type_: Type | None, other: Type) -> bool:
    if not isinstance(type_, TensorType) or not isinstance(other, TensorType):
        return False
    return type_.rank == other.rank == 0 and type_.dtype.bits == other.dtype.bits


def stretched(value: Value, shape: tuple[int, ...]) -> Value:
    """A value whose arrays all have this shape: a graph may ignore what it is given."""
    if isinstance(value, tuple):
        return tuple(stretched(element, shape) for element in value)
    array = np.asarray(value)
    return array if array.shape == shape else np.broadcast_to(array, shape)


def elements(arrays: Sequence[np.ndarray], shape: tuple[int, ...]) -> Iterator[tuple[np.ndarray, ...]]:
    """The scalars of arrays, one of each at a time, after broadcasting to a shape."""
    whole = [np.broadcast_to(array, shape) for array in arrays]
    return (tuple(array[(*index, ...)] for array in whole) for index in np.ndindex(shape))


def stacked(rows: Sequence[Value], shape: tuple[int, ...], type_: Type | None) -> Value:
    """The arrays of which one scalar, or one tuple of scalars, per element is given."""
    if isinstance(type_, TupleType):
        columns = [[row[number] for row in rows if isinstance(row, tuple)] for number in range(len(type_.elements))]
        return tuple(stacked(column, shape, type_) for column, type_ in zip(columns, type_.elements, strict=True))
    if not isinstance(type_, TensorType) or type_.rank:
        raise Unsupported(f"a mapped computation should yield scalars, not {type_}")
    return np.array(rows, type_.dtype.numpy).reshape(shape)
