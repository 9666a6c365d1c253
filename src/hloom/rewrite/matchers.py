"""Matchers on nodes for use in rules: constants, splats, uses, static types (as MLIR's mlir/IR/Matchers.h)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.ir import Apply, Constant, Literal, Node, TensorType, Trait, TypeProblem
from hloom.ops import with_trait

VALUE_PRESERVING = with_trait(Trait.REINDEXES)
"""Ops that only rearrange values: a splat stays a splat."""
_MAX_DEPTH = 16
"""The maximum number of ops to look through for a splat; chains of broadcasts and reshapes usually have two."""


def literal_value(node: Node) -> Literal | None:
    """The literal of a constant with data; None for anything else."""
    if isinstance(node, Constant) and isinstance(node.value, Literal) and not node.value.is_elided:
        return node.value
    return None


def array_value(node: Node) -> np.ndarray | None:
    """The elements of a constant array with data; None for anything else."""
    literal = literal_value(node)
    return None if literal is None or literal.is_tuple else literal.numpy()


def splat_of(node: Node) -> np.generic | None:
    """The value of a splat: a constant with one value, seen through broadcasts, reshapes and the like; else None."""
    for _ in range(_MAX_DEPTH):
        if isinstance(node, Constant):
            value = node.value
            return value.splat_value() if isinstance(value, Literal) and value.is_splat else None
        opcode = node.opcode
        if opcode not in VALUE_PRESERVING or not isinstance(node, Apply):
            return None
        if opcode == "bitcast" and not _same_elements(node):
            return None
        node = node.operands[0]
    return None


def is_splat(node: Node, value: complex) -> bool:
    """Whether a node is a splat of this value.

    0 matches integer zeros and positive zero; use -0.0 for the negative one.
    """
    splat = splat_of(node)
    if splat is None or splat != value:
        return False
    return value != 0 or bool(np.signbit(np.real(splat))) == bool(np.signbit(np.real(value)))


def scalar_integer(node: Node) -> int | None:
    """The value of an integer splat; None for anything else."""
    splat = splat_of(node)
    return None if splat is None or not _is_integer(splat) else int(splat)


def tensor_type(node: Node) -> TensorType | None:
    """The node's type if it is an array with static dimensions; None for anything else."""
    node_type = node.type
    return node_type if isinstance(node_type, TensorType) and node_type.dynamic is None else None


def static_type(node: Node) -> TensorType:
    """As `tensor_type`, without a layout; raises TypeProblem, so that no rule fires, where that is None."""
    array_type = tensor_type(node)
    if array_type is None:
        raise TypeProblem(f"{node.name} is not an array of static dimensions")
    return array_type.with_layout(None)


def used_once(node: Node) -> bool:
    """Whether it is exactly one operand of one node, and not its graph's output."""
    return node.user_count == 1 and node.use_count == 1 and not node.is_output


def attribute(node: Node, name: str) -> Any:
    """An attribute's value or default; None for nodes without such an attribute."""
    return node.attribute(name) if isinstance(node, Apply) else node.attributes.get(name)


def _is_integer(value: np.generic) -> bool:
    return np.issubdtype(value.dtype, np.integer) or value.dtype.name in ("int4", "uint4", "int2", "uint2")


def _same_elements(node: Apply) -> bool:
    source = node.operands[0].type
    return isinstance(node.type, TensorType) and isinstance(source, TensorType) and node.type.dtype is source.dtype
