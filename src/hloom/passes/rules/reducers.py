"""Reduction computations: by which op they combine, and which init values are identities.

`may_be_reduction_identity` allows what XLA assumes: HLO's semantics let a backend use the init value any number
of times (xla/hlo/ir/hlo_instruction.h, CreateReduce).
"""

from __future__ import annotations

import numpy as np

from hloom.ir import Apply, DType, DTypeKind, Graph, Node, Parameter, TensorType, Trait, integer_range
from hloom.ops import REDUCERS, with_trait
from hloom.rewrite import Builder, splat_of

_IDEMPOTENT = frozenset(REDUCERS) & with_trait(Trait.IDEMPOTENT)
"""Combining a value with itself gives the value."""


def combiner_of(graph: Graph | None) -> str:
    """The opcode by which a computation combines its two parameters, without any conversion; else empty."""
    root = graph.output if graph is not None else None
    if graph is None or not isinstance(root, Apply) or root.opcode not in REDUCERS or len(graph.parameters) != 2:
        return ""
    if len(root.operands) != 2 or set(root.operands) != set(graph.parameters):
        return ""
    types = {node.type for node in (root, *graph.parameters)}
    return root.opcode if len(types) == 1 and isinstance(root.operands[0], Parameter) else ""


def is_idempotent(opcode: str) -> bool:
    """Whether x combined with x is x."""
    return opcode in _IDEMPOTENT


def is_exact(opcode: str, element: DType) -> bool:
    """Whether values may be combined in any order and grouping: no rounding, overflow included."""
    if opcode in _IDEMPOTENT:
        return True
    return opcode in ("add", "multiply") and (element.is_integer or element.kind is DTypeKind.BOOLEAN)


def same_reduction(one: Graph, other: Graph) -> bool:
    """Whether two computations are the same graph, or combine by the same op."""
    return one is other or (combiner_of(one) != "" and combiner_of(one) == combiner_of(other))


def is_identity(opcode: str, start: Node) -> bool:
    """Whether combining any value with a constant gives that value, each bit of it but a NaN's payload."""
    value, element = _value(start)
    if value is None or element is None or element.is_complex:
        return False
    if opcode == "add":
        return bool(value == 0) and (not element.is_float or bool(np.signbit(value)))
    return _equals_identity(opcode, value, element)


def may_be_reduction_identity(opcode: str, start: Node) -> bool:
    """Whether nothing shows that a starting value is none that XLA allows: an identity, the sign of zero aside."""
    value, element = _value(start)
    if value is None or element is None or not opcode:
        return True
    if opcode == "add":
        return bool(value == 0)
    return _equals_identity(opcode, value, element)


def same_constant(one: Node, other: Node) -> bool:
    """Whether two nodes are the same, or constants of the same bits in every element."""
    if one is other:
        return True
    left, right = splat_of(one), splat_of(other)
    if left is None or right is None or left.dtype != right.dtype:
        return False
    return left.tobytes() == right.tobytes()


def combine(build: Builder, opcode: str, value: Node, start: Node) -> Node:
    """An array combined with a scalar in every element."""
    node_type = value.type
    assert isinstance(node_type, TensorType), f"{value!r} is not an array"
    spread = build.broadcast(start, node_type.with_layout(None)) if node_type.rank else start
    return build.op(opcode, value, spread)


def adder(build: Builder, element: DType) -> Graph:
    """A computation that adds two scalars: one that the module has before the graph at work, or a new one."""
    for graph in build.graph.module.graphs:
        if graph is build.graph:
            break
        first = graph.parameters[0].type if len(graph.parameters) == 2 else None
        if isinstance(first, TensorType) and first.dtype is element and combiner_of(graph) == "add":
            return graph
    return build.reducer("add", element)


def wrapped(number: int, element: DType) -> int:
    """What an integer type holds of a number: sums and products of integers wrap."""
    residue = number % 2**element.bits
    return (
        residue - 2**element.bits
        if element.kind is DTypeKind.SIGNED and residue >= 2 ** (element.bits - 1)
        else residue
    )


def _value(start: Node) -> tuple[np.generic | None, DType | None]:
    node_type = start.type
    return splat_of(start), node_type.dtype if isinstance(node_type, TensorType) else None


def _equals_identity(opcode: str, value: np.generic, element: DType) -> bool:
    wanted = _identity(opcode, element)
    return wanted is not None and bool(value == np.asarray(wanted).astype(element.numpy))


def _identity(opcode: str, element: DType) -> float | int | None:
    if opcode == "multiply":
        return 1
    if element.kind is DTypeKind.BOOLEAN:
        return {"and": 1, "or": 0, "maximum": 0, "minimum": 1}.get(opcode)
    if element.is_integer:
        least, greatest = integer_range(element)
        ones = greatest if element.kind is DTypeKind.UNSIGNED else -1
        return {"and": ones, "or": 0, "maximum": least, "minimum": greatest}.get(opcode)
    return {"maximum": -np.inf, "minimum": np.inf}.get(opcode) if element.is_float and _has_infinity(element) else None


def _has_infinity(element: DType) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isinf(np.asarray(np.inf, np.float64).astype(element.numpy).astype(np.float64)))
