"""Smaller shapes: dimensions that must be equal shrink together, and all types are adapted.

The equations of `hloom.distribute.propagation` say which dimensions are equal; a dimension that is a product of
others (a reshape) follows from them. Sizes that follow from operands and attributes (a slice, a pad, a concatenation)
are inferred, and slices are clipped.

    x = f32[8,768] parameter(0)             x = f32[1,1] parameter(0)
    y = f32[8,12,64] reshape(x)      ->     y = f32[1,1,1] reshape(x)
    z = f32[8,12,16] slice(y), ...          z = f32[1,1,1] slice(y), ...
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hloom.analysis import BROADCASTS, VIEWS, DisjointSets
from hloom.distribute.propagation import DataflowGraph
from hloom.inspection.minimize.cuts import tidied
from hloom.inspection.minimize.ddmin import minimize_items
from hloom.inspection.minimize.search import ReductionSearch, attempt
from hloom.ir import (
    Apply,
    BufferType,
    Constant,
    Literal,
    Module,
    Node,
    SliceDimension,
    TensorType,
    Type,
    TypeProblem,
    infer_type,
    map_leaves,
)
from hloom.text import HloomError

SMALL_SIZES = (1, 2)
"""The sizes that dimensions shrink to, if they do not halve."""
MOST_PASSES = 30
"""How often types are inferred anew until they agree."""
FREE = BROADCASTS | VIEWS | {"custom-call", "rng", "rng-bit-generator"}
"""Opcodes whose operands do not say how large the result is."""

Slot = tuple[int, int]
"""A value and one of its dimensions, by number."""


def reduce_all_shapes(search: ReductionSearch) -> None:
    """Let all dimensions be 1, or 2, or half: one candidate each."""
    equations = attempt_equations(search.module)
    if equations is None:
        return
    for size in SMALL_SIZES:
        if search.take(attempt(lambda size=size: _resized(search.module, equations, equations.all_to(size)))):
            return
    search.take(attempt(lambda: _resized(search.module, equations, equations.all_halved())))


def reduce_shapes(search: ReductionSearch) -> None:
    """Let each dimension be 1, 2, or half as large as it is, for as long as that helps."""
    for size in SMALL_SIZES:
        equations = attempt_equations(search.module)
        if equations is None:
            return
        larger = [number for number, before in enumerate(equations.sizes) if before > size]
        keeps = partial(_keeps, search, equations.class_count, size, larger)
        if larger and not keeps(()):
            minimize_items(larger, keeps)
    _halve(search)


def _keeps(search: ReductionSearch, count: int, size: int, larger: Sequence[int], kept: Sequence[int]) -> bool:
    """Whether all of some larger classes but those kept can be of a size."""
    current = attempt_equations(search.module)
    if current is None or current.class_count != count:
        return False
    left = set(kept)
    changed = {number: size for number in larger if number not in left and current.sizes[number] > size}
    return bool(changed) and search.take(attempt(lambda: _resized(search.module, current, changed)))


def _halve(search: ReductionSearch) -> None:
    number = 0
    while (equations := attempt_equations(search.module)) is not None and number < equations.class_count:
        size = equations.sizes[number] // 2
        changed = {number: size}
        if size < 2 or not search.take(
            attempt(lambda equations=equations, changed=changed: _resized(search.module, equations, changed))
        ):
            number += 1


def attempt_equations(module: Module) -> ShapeEquations | None:
    """The equations of a module; None where a type is not known, or an array of it is dynamic or a buffer."""
    types = {value.type for node in module.nodes() for value in (node, *node.operands)}
    for value_type in types:
        leaves = value_type.leaves() if value_type is not None else ()
        if value_type is None or any(isinstance(leaf, BufferType) or not _is_static(leaf) for leaf in leaves):
            return None
    try:
        return ShapeEquations(module)
    except HloomError:  # computations that call each other in a circle
        return None


def _is_static(leaf: Type) -> bool:
    return not isinstance(leaf, TensorType) or leaf.is_static


@dataclass(slots=True)
class _Product:
    """A dimension that is a product: its class, and the classes of its factors, with what they have beside them."""

    dimension: int
    factors: list[int]


class ShapeEquations:
    """The classes of dimensions that are equal, their sizes, and which are products of others.

    Classes are numbered in the order of their first dimensions, so that modules that differ in sizes alone have the
    same numbers.
    """

    def __init__(self, module: Module) -> None:
        self.graph = DataflowGraph(module)
        self._equal = DisjointSets[Any]()
        self._sizes: dict[Any, int] = {}
        products: list[tuple[Slot, list[Any]]] = []
        for leaf, value in enumerate(self.graph.leaves):
            for dim, size in enumerate(value.dims):
                self._sizes[leaf, dim] = size
        for number, equation in enumerate(self.graph.equations):
            self._equate(number, equation.rule, equation.leaves, products)
        roots = dict.fromkeys(self._equal.root(slot) for slot in self._sizes)
        self._numbers = {root: number for number, root in enumerate(roots)}
        self.sizes = [self._sizes[root] for root in roots]
        self.class_count = len(self.sizes)
        self.products = [
            _Product(self.number(slot), [self.number(factor) for factor in factors]) for slot, factors in products
        ]
        compound = {product.dimension for product in self.products}
        self._seeds = [number for number in range(self.class_count) if number not in compound]
        self.weight = Counter(self.number(slot) for slot in self._sizes if slot[0].__class__ is int)

    def number(self, slot: Any) -> int:
        """The class of a value's dimension."""
        return self._numbers[self._equal.root(slot)]

    def all_to(self, size: int) -> dict[int, int]:
        """Every class that is not a product, larger than a size, at that size."""
        return {number: size for number in self._seeds if self.sizes[number] > size}

    def all_halved(self) -> dict[int, int]:
        """The same at half of its size."""
        return {number: self.sizes[number] // 2 for number in self._seeds if self.sizes[number] > 1}

    def _equate(self, number: int, rule: Any, leaves: tuple[int, ...], products: list[tuple[Slot, list[Any]]]) -> None:
        alone: dict[int, list[Slot]] = {}
        for slot, leaf in enumerate(leaves):
            for dim, side in enumerate(rule.dim_factors[slot]):
                if side.is_single:
                    alone.setdefault(side.factors[0][0], []).append((leaf, dim))
        for slots in alone.values():
            for other in slots[1:]:
                self._equal.join(slots[0], other)
        for slot, leaf in enumerate(leaves):
            for dim, side in enumerate(rule.dim_factors[slot]):
                if len(side.factors) > 1:
                    parts = [self._factor(number, rule, factor, alone) for factor, _ in side.factors]
                    if math.prod(self._sizes[part] for part in parts) == self._sizes[leaf, dim]:
                        products.append(((leaf, dim), parts))

    def _factor(self, number: int, rule: Any, factor: int, alone: dict[int, list[Slot]]) -> Any:
        """What stands for a factor: a dimension that it is alone, or itself."""
        if factor in alone:
            return alone[factor][0]
        name = ("factor", number, factor)
        self._sizes.setdefault(name, rule.factors[factor].size)
        return name


@dataclass(slots=True)
class _Sizes:
    """New sizes of classes: what is wished for, until another follows from operands or factors."""

    equations: ShapeEquations
    sizes: list[int]
    changed: set[int] = field(default_factory=set)

    def let_follow(self, number: int, size: int) -> None:
        """Let a class have the size that follows."""
        if self.sizes[number] != size:
            self.sizes[number] = size
            self.changed.add(number)

    def is_stale(self, node: Node) -> bool:
        """Whether a class of an operand's dimensions has changed since types were set."""
        return bool(self.changed) and any(not self.changed.isdisjoint(self.classes(used)) for used in node.operands)

    def classes(self, node: Node) -> Iterator[int]:
        """The classes of a node's dimensions."""
        for value in self.equations.graph.values.get(node, ()):
            for dim in range(len(self.equations.graph.leaves[value].dims)):
                yield self.equations.number((value, dim))

    def follow_products(self) -> None:
        """Let products follow from their factors, until nothing changes."""
        for _ in range(MOST_PASSES):
            before = list(self.sizes)
            for product in self.equations.products:
                self.let_follow(product.dimension, math.prod(self.sizes[factor] for factor in product.factors))
            if before == self.sizes:
                return


def _resized(module: Module, equations: ShapeEquations, changed: dict[int, int]) -> Module | None:
    """A copy with dimensions of other sizes; raises TypeProblem, or is None, where the others cannot follow."""
    sizes = _Sizes(equations, [changed.get(number, size) for number, size in enumerate(equations.sizes)])
    copy = module.clone()
    nodes = {node: copy[node.graph.name][node.name] for node in module.nodes()}
    for _ in range(MOST_PASSES):
        sizes.follow_products()
        sizes.changed.clear()
        for node, other in nodes.items():
            other.graph.set_type(other, _type_of(node, equations, sizes.sizes))
        for node, other in nodes.items():
            if not sizes.is_stale(node):
                _follow(node, other, equations, sizes)
        if not sizes.changed:
            return tidied(copy, module)
    return None


def _type_of(node: Node, equations: ShapeEquations, sizes: list[int]) -> Type | None:
    """A node's type with the sizes of its dimensions' classes."""
    leaves = iter(equations.graph.values.get(node, ()))

    def resized(leaf: Type) -> Type:
        value = next(leaves, None)
        if not isinstance(leaf, TensorType) or value is None:
            return leaf
        dims = tuple(sizes[equations.number((value, dim))] for dim in range(leaf.rank))
        return leaf if dims == leaf.dims else TensorType(leaf.dtype, dims, leaf.layout)

    return None if node.type is None else map_leaves(node.type, resized)


def _follow(node: Node, other: Node, equations: ShapeEquations, sizes: _Sizes) -> None:
    """Fit a node's attributes or value to the types around it, and let its dimensions be those that follow."""
    if isinstance(node, Constant) and isinstance(other, Constant):
        _cut_constant(node, other)
        return
    if not isinstance(other, Apply) or not other.has_row:
        return
    fit = FITS.get(other.opcode)
    if fit is not None:
        fit(node, other)
    if other.opcode in FREE or other.op.infer is None or other.attributes.refers:
        return
    types = [operand.type for operand in other.operands if operand.type is not None]
    inferred = infer_type(other.op, types, other.attributes, other.type)
    values = equations.graph.values.get(node, ())
    for value, leaf in zip(values, inferred.leaves(), strict=False):
        for dim, size in enumerate(leaf.dims if isinstance(leaf, TensorType) else ()):
            sizes.let_follow(equations.number((value, dim)), size)


def _cut_constant(node: Constant, other: Constant) -> None:
    """Keep of a constant's elements the first ones."""
    wanted = other.type
    if not isinstance(wanted, TensorType) or not isinstance(node.value, Literal) or node.value.is_elided:
        return
    if wanted.dims == node.dims:
        other.graph.set_value(other, node.value)
        return
    data = node.value.numpy()
    if any(size > had for size, had in zip(wanted.dims, data.shape, strict=True)):
        raise TypeProblem("a constant would grow")
    part = data[tuple(slice(0, size) for size in wanted.dims)].copy()
    other.graph.set_value(other, Literal.array(wanted.with_layout(None), part))


def _fit_slice(node: Node, other: Apply) -> None:
    """Cut a slice to what is left of its operand and what is wanted of its result."""
    fitted = []
    for part, size, wanted in zip(node.attributes["slice"], other.operands[0].dims, other.dims, strict=True):
        start = max(min(part.start, size - 1), 0)
        count = min(wanted, -(-(size - start) // part.stride))
        fitted.append(SliceDimension(start, start + max(count - 1, 0) * part.stride + bool(count), part.stride))
    other.graph.set_attributes(other, other.attributes.changed(slice=tuple(fitted)))


def _fit_dynamic_slice(node: Node, other: Apply) -> None:
    sizes = tuple(map(min, other.dims, other.operands[0].dims))
    other.graph.set_attributes(other, other.attributes.changed(dynamic_slice_sizes=sizes))


def _fit_gather(node: Node, other: Apply) -> None:
    """Slices of whole dimensions stay whole; others are no larger than the dimension."""
    pairs = zip(node.attributes["slice_sizes"], node.operands[0].dims, other.operands[0].dims, strict=True)
    sizes = tuple(now if size == before else min(size, now) for size, before, now in pairs)
    other.graph.set_attributes(other, other.attributes.changed(slice_sizes=sizes))


FITS = {"slice": _fit_slice, "dynamic-slice": _fit_dynamic_slice, "gather": _fit_gather}
"""How the attributes of an opcode that speak of sizes are fitted to new ones."""
