"""How the types of an op's operands and result are related, as equations for unification.

    broadcast(g), dimensions={1}, of [a, b]     g: [b]

To infer the types of another op, add a function to RELATIONS.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Any, Self

from hloom.ops import elementwise
from hloom.rewrite.type_guards import as_tuple

PREDICATE = frozenset(("pred",))


class NoTypesFit(Exception):
    """No consistent types exist."""


class _Variable:
    """A union-find node; the `representative` holds what is known."""

    __slots__ = ("parent",)

    def __init__(self) -> None:
        self.parent: Self = self

    def representative(self) -> Self:
        node: Self = self
        while node.parent is not node:
            node.parent = node = node.parent.parent
        return node


class Size(_Variable):
    __slots__ = ("size",)

    def __init__(self, size: int | None = None) -> None:
        super().__init__()
        self.size = size


class Shape(_Variable):
    """`sizes` is None while the rank, which is at least `least`, is unknown.

    `is_met` says that some op constrains it; `is_open` that an op without a known relation makes it, so it is learnt
    when that op is drawn.
    """

    __slots__ = ("is_met", "is_open", "least", "sizes")

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[Size] | None = None
        self.least = 0
        self.is_met = self.is_open = False


class Element(_Variable):
    __slots__ = ("allowed",)

    def __init__(self) -> None:
        super().__init__()
        self.allowed: frozenset[str] | None = None


class TypedValue:
    """The variables of one value."""

    __slots__ = ("element", "shape")

    def __init__(self) -> None:
        self.shape, self.element = Shape(), Element()


class Unifier:
    """Everything known about the types of a pattern's values."""

    def __init__(self) -> None:
        self.checks: list[Callable[[], bool]] = []
        """Further conditions on sizes besides equality, checked when all are drawn."""

    def equal_sizes(self, one: Size, other: Size) -> None:
        one, other = one.representative(), other.representative()
        if one is other:
            return
        if None not in (one.size, other.size) and one.size != other.size:
            raise NoTypesFit
        other.size = one.size if other.size is None else other.size
        one.parent = other

    def equal_shapes(self, values: Sequence[TypedValue]) -> None:
        first = values[0].shape.representative()
        first.is_met = True
        for value in values[1:]:
            shape = value.shape.representative()
            if shape is first:
                continue
            first.least = max(first.least, shape.least)
            first.is_open |= shape.is_open
            if first.sizes is None:
                first.sizes = shape.sizes
            elif shape.sizes is not None:
                self.equal_lists(first.sizes, shape.sizes)
            shape.parent = first

    def equal_lists(self, one: Sequence[Size], other: Sequence[Size]) -> None:
        if len(one) != len(other):
            raise NoTypesFit
        for left, right in zip(one, other, strict=True):
            self.equal_sizes(left, right)

    def equal_elements(self, values: Iterable[TypedValue]) -> None:
        first, *others = [value.element.representative() for value in values]
        for element in others:
            if element.representative() is not first:
                self.allow(first, element.allowed)
                element.parent = first

    def allow(self, element: Element, names: Collection[str] | None) -> None:
        element = element.representative()
        if names is not None:
            both = frozenset(names) if element.allowed is None else element.allowed & frozenset(names)
            if not both:
                raise NoTypesFit
            element.allowed = both

    def set_sizes(self, value: TypedValue, sizes: Sequence[Size]) -> None:
        """Set a value's sizes, or unify its sizes with these."""
        shape = value.shape.representative()
        shape.is_met = True
        if shape.sizes is None:
            if len(sizes) < shape.least:
                raise NoTypesFit
            shape.sizes = list(sizes)
        else:
            self.equal_lists(shape.sizes, sizes)

    def set_rank(self, value: TypedValue, rank: int) -> list[Size]:
        shape = value.shape.representative()
        if shape.sizes is None or len(shape.sizes) != rank:
            self.set_sizes(value, [Size() for _ in range(rank)])
        assert shape.sizes is not None, "just set"
        return shape.sizes

    def at_least(self, value: TypedValue, dimensions: Sequence[int]) -> None:
        shape = value.shape.representative()
        shape.is_met = True
        shape.least = max([shape.least, *(dimension + 1 for dimension in dimensions)])


Step = Callable[[], bool]
"""Derives what follows from the known ranks; returns true once nothing remains."""
Relation = Callable[[Unifier, Sequence[TypedValue], TypedValue, Mapping[str, Any]], Step | None]
"""Relates the types of an op's operands and result, given the attributes known so far."""


def _dimensions(
    fixed: Mapping[str, Any], name: str, default: tuple[int, ...] | None = None
) -> tuple[int, ...] | None:
    """The dimensions that an attribute names; None while it is undetermined."""
    value = fixed.get(name, default)
    return None if value is None else as_tuple(value)


def _sizes(value: TypedValue) -> list[Size] | None:
    return value.shape.representative().sizes


def _elementwise(
    unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]
) -> None:
    unifier.equal_shapes([result, *operands])
    unifier.equal_elements([result, *operands])


def _same_shape(unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]) -> None:
    unifier.equal_shapes([result, *operands])


def _predicate(unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]) -> None:
    unifier.equal_shapes([result, *operands])
    unifier.equal_elements(operands)
    unifier.allow(result.element, PREDICATE)


def _select(unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]) -> None:
    unifier.equal_shapes([result, *operands])
    unifier.equal_elements([result, *operands[1:]])
    unifier.allow(operands[0].element, PREDICATE)


def _first_s_type(
    unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]
) -> None:
    unifier.equal_shapes([result, operands[0]])
    unifier.equal_elements([result, operands[0]])


def _broadcast(
    unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]
) -> Step | None:
    unifier.equal_elements([result, operands[0]])
    dimensions = _dimensions(fixed, "dimensions")
    if dimensions is None:
        return None
    small = unifier.set_rank(operands[0], len(dimensions))
    unifier.at_least(result, dimensions)

    def step() -> bool:
        large = _sizes(result)
        if large is not None:
            unifier.equal_lists(small, [large[dimension] for dimension in dimensions])
        return large is not None

    return step


def _transpose(
    unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]
) -> Step | None:
    unifier.equal_elements([result, operands[0]])
    order = _dimensions(fixed, "dimensions")
    if order is not None:
        sizes = unifier.set_rank(operands[0], len(order))
        unifier.set_sizes(result, [sizes[dimension] for dimension in order])
    return None


def _reduce(
    unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]
) -> Step | None:
    if len(operands) != 2:
        return None
    array, initial = operands
    unifier.equal_elements([result, *operands])
    unifier.set_rank(initial, 0)
    dimensions = _dimensions(fixed, "dimensions")
    if dimensions is None:
        return None
    unifier.at_least(array, dimensions)

    def step() -> bool:
        sizes, kept = _sizes(array), _sizes(result)
        if sizes is None and kept is not None:
            sizes = unifier.set_rank(array, len(kept) + len(dimensions))
        if sizes is None or not all(dimension < len(sizes) for dimension in dimensions):
            return False
        unifier.set_sizes(result, [size for axis, size in enumerate(sizes) if axis not in dimensions])
        return True

    return step


def _dot(unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]) -> Step | None:
    unifier.equal_elements([result, *operands])
    names = ("lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims")
    left_batch, right_batch, left_summed, right_summed = (_dimensions(fixed, name, ()) for name in names)
    if left_batch is None or right_batch is None or left_summed is None or right_summed is None:
        return None
    unifier.at_least(operands[0], [*left_batch, *left_summed])
    unifier.at_least(operands[1], [*right_batch, *right_summed])

    def step() -> bool:
        left, right = map(_sizes, operands)
        if left is None or right is None:
            return False
        pairs = [*zip(left_batch, right_batch, strict=False), *zip(left_summed, right_summed, strict=False)]
        for one, other in pairs:
            unifier.equal_sizes(left[one], right[other])
        free = [
            size
            for sizes, used in ((left, {*left_batch, *left_summed}), (right, {*right_batch, *right_summed}))
            for axis, size in enumerate(sizes)
            if axis not in used
        ]
        unifier.set_sizes(result, [*(left[axis] for axis in left_batch), *free])
        return True

    return step


def _reshape(unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]) -> None:
    unifier.equal_elements([result, operands[0]])

    def is_possible() -> bool:
        one, other = _sizes(operands[0]), _sizes(result)
        if one is None or other is None or any(size.representative().size is None for size in (*one, *other)):
            return True
        return prod(map(drawn, one)) == prod(map(drawn, other))

    unifier.checks.append(is_possible)


def _concatenate(
    unifier: Unifier, operands: Sequence[TypedValue], result: TypedValue, fixed: Mapping[str, Any]
) -> Step | None:
    unifier.equal_elements([result, *operands])
    dimensions = _dimensions(fixed, "dimensions")
    if not dimensions:
        return None
    (axis,) = dimensions
    values = [result, *operands]
    unifier.at_least(result, [axis])

    def step() -> bool:
        known = next((sizes for value in values if (sizes := _sizes(value)) is not None), None)
        if known is None:
            return False
        lists = [unifier.set_rank(value, len(known)) for value in values]
        for sizes in lists[1:]:
            for at, (one, other) in enumerate(zip(lists[0], sizes, strict=True)):
                if at != axis:
                    unifier.equal_sizes(one, other)
        unifier.checks.append(lambda: drawn(lists[0][axis]) == sum(drawn(sizes[axis]) for sizes in lists[1:]))
        return True

    return step


def drawn(size: Size) -> int:
    drawn = size.representative().size
    assert drawn is not None, "checks are asked when all sizes are drawn"
    return drawn


RELATIONS: dict[str, Relation] = {
    **dict.fromkeys(elementwise.ROWS.keys() - {"bitcast-convert", "tuple-select", "add-dependency"}, _elementwise),
    **dict.fromkeys(("convert", "real", "imag", "complex", "abs"), _same_shape),
    **dict.fromkeys(("compare", "is-finite"), _predicate),
    **dict.fromkeys(("reverse", "copy", "dynamic-update-slice", "reduce-precision"), _first_s_type),
    "select": _select,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reduce": _reduce,
    "dot": _dot,
    "reshape": _reshape,
    "concatenate": _concatenate,
}
