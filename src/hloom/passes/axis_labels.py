"""Dimensions as tuples of axes, tracked through reshapes, transposes and broadcasts; a reshape splits an axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import ml_dtypes

from hloom.ir import Apply, Node
from hloom.rewrite import splat_of

Label = tuple[int, ...]
"""The axes of one dimension, major to minor; empty for a dimension of size 1."""
Value = tuple[Node, tuple[Label, ...]]


@dataclass(slots=True)
class AxisLabels:
    """The axes that dimensions consist of."""

    sizes: list[int] = field(default_factory=list[int])
    halves: dict[int, Label] = field(default_factory=dict[int, Label])

    def fresh(self, size: int) -> Label:
        if size == 1:
            return ()
        self.sizes.append(size)
        return (len(self.sizes) - 1,)

    def whole(self, labels: Iterable[Label]) -> Label:
        """The axes of several dimensions, those that were split as their parts."""
        pending, result = [axis for label in reversed(tuple(labels)) for axis in reversed(label)], list[int]()
        while pending:
            axis = pending.pop()
            if axis in self.halves:
                pending += reversed(self.halves[axis])
            else:
                result.append(axis)
        return tuple(result)

    def reshaped(self, labels: Sequence[Label], dims: Sequence[int]) -> tuple[Label, ...] | None:
        """The labels of these dimensions, which hold the same elements in the same order; None if no labels fit."""
        pending, result = list(reversed(self.whole(labels))), list[Label]()
        for size in dims:
            label, left = list[int](), size
            while left > 1:
                if not pending:
                    return None
                axis = pending.pop()
                held = self.sizes[axis]
                if left % held:
                    if held % left:
                        return None
                    self.halves[axis] = (*self.fresh(left), *self.fresh(held // left))
                    axis, rest = self.halves[axis]
                    pending.append(rest)
                    held = left
                label.append(axis)
                left //= held
            result.append(tuple(label))
        return None if pending else tuple(result)

    def size(self, label: Label) -> int:
        return prod(self.sizes[axis] for axis in self.whole([label]))

    def same_labels(self, left: Sequence[Label], right: Sequence[Label]) -> bool:
        return len(left) == len(right) and all(
            self.whole([a]) == self.whole([b]) for a, b in zip(left, right, strict=True)
        )

    def stripped(self, value: Value, *, through_broadcasts: bool = False, converts: bool = True) -> Value:
        """A value with reshapes, transposes and conversions stripped."""
        node, labels = value
        while True:
            if node.opcode == "reshape":
                inner = self.reshaped(labels, node.operands[0].dims)
                if inner is None:
                    return node, labels
            elif node.opcode == "transpose":
                order: Sequence[int] = attribute_of(node, "dimensions")
                inner = tuple(label for _, label in sorted(zip(order, labels, strict=True)))
            elif node.opcode == "convert" and converts and is_float(node) and is_float(node.operands[0]):
                inner = labels
            elif node.opcode == "broadcast" and through_broadcasts:
                inner = tuple(labels[dim] for dim in attribute_of(node, "dimensions"))
            else:
                return node, labels
            node, labels = node.operands[0], inner

    def same(self, left: Value, right: Value) -> bool:
        return left[0] is right[0] and self.same_labels(left[1], right[1])

    def number(self, node: Node, labels: tuple[Label, ...]) -> float | None:
        """The number in every element; None if they differ."""
        splat = splat_of(self.stripped((node, labels), through_broadcasts=True)[0])
        return float(splat) if splat is not None and splat.ndim == 0 else None

    def term(self, node: Node, labels: tuple[Label, ...]) -> Value:
        if not node.type or len(node.dims) != len(labels):  # the predicate of a select may be a scalar
            return node, ()
        return self.stripped((node, labels), through_broadcasts=True, converts=False)


def attribute_of(node: Node, name: str) -> Any:
    assert isinstance(node, Apply), "it has an opcode"
    return node.attribute(name)


def is_float(node: Node) -> bool:
    element = node.dtype
    return element is not None and element.is_float


def least_of(scores: Node) -> float:
    """The least finite number of the scores' type."""
    element = scores.dtype
    assert element is not None and element.is_float, "exponentials are of floating-point numbers"
    return float(cast("Any", ml_dtypes.finfo(element.numpy)).min)


def sides_of(dot: Node) -> list[tuple[Sequence[int], Sequence[int], Sequence[int]]]:
    """Batch, free and contracted dimensions of a dot's operands."""
    result: list[tuple[Sequence[int], Sequence[int], Sequence[int]]] = []
    for side, operand in zip(("lhs", "rhs"), dot.operands, strict=True):
        batch, contracted = (attribute_of(dot, f"{side}_{name}_dims") for name in ("batch", "contracting"))
        free = [dim for dim in range(len(operand.dims)) if dim not in (*batch, *contracted)]
        result.append((batch, free, contracted))
    return result
