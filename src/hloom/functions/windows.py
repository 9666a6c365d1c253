"""Slices of known length at a run-time start, such as `x[i : i + 3]`: HLO's dynamic slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hloom.functions.values import (
    NONE,
    PREDICATE,
    AbstractValue,
    Array,
    Const,
    Tuple,
    index_parts,
    is_moving,
    is_none,
    is_slice,
)
from hloom.ir import Apply, Constant, Node, TensorType

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

MAX_COMPARED = 64
"""The maximum number of nodes to compare in two bounds."""


@dataclass(frozen=True, slots=True)
class SliceWindow:
    """A part of an array of known size, which is a view of it, and what the index means within it."""

    part: Array
    index: Tuple


def window_of(interpreter: Interpreter, owner: Array, index: AbstractValue) -> SliceWindow | None:
    """The window that an index with moving slices means; None where the length of one is not known.

    NumPy gives fewer elements where a slice reaches beyond the array; here IndexError is raised when the program runs.
    """
    emitter = interpreter.emitter
    parts = list(index_parts(index))
    is_mask = any(isinstance(part, Array) and part.dtype is PREDICATE for part in parts)
    taken = sum(1 for part in parts if not (isinstance(part, Const) and part.value in (None, Ellipsis)))
    if is_mask or taken > owner.type.rank:
        return None
    whole = interpreter.numbers.of_python[int]
    starts: list[Node] = [emitter.constant(0, whole)] * owner.type.rank
    sizes = list(owner.dims)
    axis = 0
    for position, part in enumerate(parts):
        if is_none(part):
            continue
        if isinstance(part, Const) and part.value is Ellipsis:
            axis += owner.type.rank - taken
            continue
        if is_slice(part) and any(map(is_moving, part.items)):
            start, stop, step = part.items
            length = _known_length(start, stop)
            is_forward = isinstance(step, Const) and (step.value is None or step.value > 0)
            if length is None or not is_forward or not 0 < length <= owner.dims[axis]:
                return None
            assert isinstance(start, Array)
            starts[axis] = interpreter.numbers.convert(start.node, whole)
            sizes[axis] = length
            parts[position] = Tuple((NONE, NONE, step), slice)
        axis += 1
    for axis, start in enumerate(starts):
        if sizes[axis] != owner.dims[axis] or not isinstance(start, Constant):
            last = owner.dims[axis] - sizes[axis]
            inside = emitter.elementwise(
                "and", emitter.compare("GE", start, emitter.like(0, start)),
                emitter.compare("LE", start, emitter.like(last, start)),
            )  # fmt: skip
            message = f"a slice of {sizes[axis]} elements reaches beyond axis {axis} with size {owner.dims[axis]}"
            interpreter.check(inside, IndexError, message)
    return SliceWindow(interpreter.views.window(owner, starts, sizes), Tuple(tuple(parts)))


def _known_length(start: AbstractValue, stop: AbstractValue) -> int | None:
    """The distance between two run-time integers that differ by a constant; None if it is not known."""
    if not (isinstance(start, Array) and isinstance(stop, Array)):
        return None
    if not (start.dtype.is_integer and stop.dtype.is_integer) or start.dims or stop.dims:
        return None
    first, low = _without_constants(start.node)
    second, high = _without_constants(stop.node)
    return high - low if _is_same_node(first, second) else None


def _without_constants(node: Node) -> tuple[Node, int]:
    """A sum as what is added to a constant, and the constant."""
    offset = 0
    while isinstance(node, Apply) and node.opcode in ("add", "subtract"):
        left, right = node.operands
        known = _known_number(right)
        if known is not None:
            node, offset = left, offset + (known if node.opcode == "add" else -known)
            continue
        known = _known_number(left)
        if known is None or node.opcode == "subtract":
            break
        node, offset = right, offset + known
    return node, offset


def _known_number(node: Node) -> int | None:
    if node.literal is None or not isinstance(node.type, TensorType) or node.rank:
        return None
    return int(node.literal.numpy())


def _is_same_node(left: Node, right: Node) -> bool:
    """Whether two nodes compute the same, by what they are made of."""
    pending = [(left, right)]
    for _ in range(MAX_COMPARED):
        if not pending:
            return True
        a, b = pending.pop()
        if a is b:
            continue
        if isinstance(a, Constant) and isinstance(b, Constant):
            if a.literal is None or b.literal is None or a.type != b.type:
                return False
            if not np.array_equal(a.literal.numpy(), b.literal.numpy()):
                return False
            continue
        if not (isinstance(a, Apply) and isinstance(b, Apply)) or a.opcode != b.opcode or a.type != b.type:
            return False
        if a.attributes != b.attributes or len(a.operands) != len(b.operands):
            return False
        pending.extend(zip(a.operands, b.operands, strict=True))
    return False
