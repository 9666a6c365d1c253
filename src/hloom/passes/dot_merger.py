"""The pass `merge-dots`: dots that share an operand become one dot and slices of its result.

    dot(x, a), dot(x, b)   ->   both = dot(x, concatenate(a, b)), slice(both), slice(both)

For example, the projections to queries, keys and values become one dot. Operands are recognised as shared through
transposes and reshapes; the dots may order their dimensions differently and have the shared operand on different sides.
All parts of a dimension that a reshape splits must be free dimensions of the dot. Follows XLA's
xla/hlo/transforms/simplifiers/dot_merger.cc.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from hloom.ir import Apply, Graph, Module, Node, SliceDimension, TensorType
from hloom.passes.computation_order import control_predecessors, has_control_dependencies, running_graphs
from hloom.passes.dce import erase_dead
from hloom.passes.operand_view import MOST_VIEWS, Label, is_split_or_joined, split_view_of, view_of
from hloom.passes.pipeline import register_pass, until_settled
from hloom.passes.rules.dimensions import same_layout
from hloom.passes.rules.reshape import RESHAPE
from hloom.passes.rules.transpose import TRANSPOSE
from hloom.rewrite import Builder, Report, RuleIndex, rewrite
from hloom.text import HloomError

MOST_BYTES = 32 << 20
"""The maximum bytes of what is merged with the largest dot, as in XLA's GPU pipeline: all of it stays live until the
last use.
"""
_CANCELLING = RuleIndex(
    [
        TRANSPOSE["transpose-that-moves-nothing"],
        TRANSPOSE["transpose-of-transpose"],
        RESHAPE["reshape-to-same-shape"],
        RESHAPE["reshape-of-reshape"],
    ]
)
"""Cleans up the transposes and reshapes around merged dots."""
MOST_STEPS = 50
"""The maximum number of instructions to visit for dependences, per instruction of a graph."""


@until_settled
def merge_dots(module: Module, bytes: int | str = MOST_BYTES) -> Report:
    """Merge dots that share an operand and do not depend on each other.

    Results and operands that are not shared take no more than `bytes`, excluding those of the largest dot. Raises
    HloomError if it is not a number.
    """
    limit = _limit(bytes)
    report = Report("merge-dots")
    if module.has_closures:
        return report
    module.index_users()
    results: list[Node] = []
    for graph in running_graphs(module):
        merger = _Merger(graph, limit)
        merger.run(report)
        results += merger.results
        if merger.steps < 0:
            report.notes.append(f"{graph.name}: too many dependences to look at, some products stay apart")
    if results:
        report.erased += rewrite(module, _CANCELLING, name="merge-dots", touched=results).erased
    return report


def _limit(given: int | str) -> int:
    try:
        limit = int(given)
    except ValueError:
        limit = -1
    if limit < 0:
        raise HloomError(
            f"merge-dots takes a number of bytes, not '{given}'", hint="as in -p 'merge-dots(bytes=1000000)'"
        )
    return limit


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """A dot seen from one of its operands: the value this is a view of, and the roles of its dimensions.

    `given` is the other operand, or what that is transposed from. Both are reshaped, to `dims` and `given_dims`, that
    each dimension of the shared operand stands for one of the value. `shared` are the labels of its dimensions, `other`
    those of what is given; its free dimensions have none, as have those of size 1. `matched` are, by dimension of what
    is given, those of the shared operand. The free dimensions are in the order of the result.
    """

    dot: Apply
    side: int
    source: Node
    given: Node
    dims: tuple[int, ...]
    given_dims: tuple[int, ...]
    shared: tuple[Label, ...]
    other: tuple[Label, ...]
    matched: tuple[int | None, ...]
    batch: tuple[int, ...]
    contracted: tuple[int, ...]
    free: tuple[int, ...]

    @property
    def operand(self) -> Node:
        return self.dot.operands[self.side]

    @property
    def partner(self) -> Node:
        return self.dot.operands[1 - self.side]

    @property
    def key(self) -> object:
        """Equal for dots that can be merged."""
        labels = [frozenset(self.shared[dim] for dim in dims) - {None} for dims in (self.batch, self.contracted)]
        kept = tuple((name, value) for name, value in self.dot.attributes.items() if not name.endswith("_dims"))
        return self.source, *labels, self.partner.dtype, self.dot.dtype, kept

    @property
    def byte_count(self) -> int:
        """The bytes of the result and of what is not shared."""
        return sum(node.type.byte_count for node in (self.dot, self.partner) if node.type is not None)

    @property
    def size(self) -> int:
        """The elements of the free dimensions of what is not shared."""
        return prod(self.given_dims[dim] for dim in self.free)


class _Merger:
    """The products of one graph, by what they share."""

    def __init__(self, graph: Graph, limit: int) -> None:
        self.graph = graph
        self.limit = limit
        self.steps = MOST_STEPS * (len(graph.nodes) + 100)
        self.merged: set[Node] = set()
        self.results: list[Node] = []

    def run(self, report: Report) -> None:
        """Merge dots that share an operand directly, then those that share it through reshapes that split or join."""
        waited = control_predecessors(self.graph)
        for split in (False, True):
            groups: dict[object, list[_Product]] = {}
            has_views = not split
            for node in self.graph.nodes:
                if isinstance(node, Apply) and _is_plain(node) and node not in waited and node not in self.merged:
                    has_views = has_views or any(map(is_split_or_joined, node.operands))
                    for side in (0, 1):
                        product = _product(node, side, split)
                        if not _is_unpacked(product.partner):
                            groups.setdefault(product.key, []).append(product)
            if has_views:
                self.merge(groups.values(), report)
        for dot in self.merged:
            erase_dead([dot])

    def merge(self, groups: Iterable[Sequence[_Product]], report: Report) -> None:
        """Merge the dots of each group that do not depend on the others."""
        for products in groups:
            for members in self.independent([product for product in products if product.dot not in self.merged]):
                for node in self.needed(members):
                    self.graph.move_before(node, members[0].dot)
                self.results += _merge(members)
                self.merged.update(member.dot for member in members)
                report.changes += len(members) - 1
                names = ", ".join(member.dot.name for member in members)
                report.notes.append(f"{names} of {self.graph.name}: one product")

    def independent(self, products: Sequence[_Product]) -> Iterator[list[_Product]]:
        """Sets of independent dots: those with an equal depth of dependences.

        Merging one set does not change the depth of other sets' dots.
        """
        if len(products) < 2:
            return
        ordered = sorted(products, key=lambda product: _Position(product.dot))
        depths = self.depths(ordered)
        if self.steps < 0:
            return
        sets: dict[int, list[_Product]] = {}
        for product in ordered:
            sets.setdefault(depths[product.dot], []).append(product)
        for members in sets.values():
            chosen: dict[Node, _Product] = {}
            dots: set[Node] = set()
            total = largest = 0
            for product in members:
                size = product.byte_count
                if product.dot in self.merged or product.partner in chosen or product.dot in dots:
                    continue
                if not chosen or total + size - max(largest, size) <= self.limit:
                    chosen[product.partner] = product
                    dots.add(product.dot)
                    total, largest = total + size, max(largest, size)
            if len(chosen) > 1:
                yield list(chosen.values())

    def depths(self, products: Sequence[_Product]) -> dict[Node, int]:
        """For dots in order, the length of the longest chain of dots that each depends on."""
        dots = {product.dot for product in products}
        first = products[0].dot
        depths: dict[Node, int] = {first: 0}
        for product in products:
            pending: list[Node] = [product.dot]
            while pending and self.steps >= 0:
                node = pending[-1]
                before = [operand for operand in _needs(node) if not self.graph.comes_before(operand, first)]
                waiting = [operand for operand in before if operand not in depths] if node not in depths else []
                self.steps -= 1 + len(before)
                pending += waiting
                if not waiting:
                    pending.pop()
                    depths[node] = max((depths[operand] + (operand in dots) for operand in before), default=0)
        return depths

    def needed(self, members: Sequence[_Product]) -> list[Node]:
        """What products need of what stands after the first of them, in order."""
        first = members[0].dot
        visited: dict[Node, None] = {}
        pending: list[Node] = [member.dot for member in members[1:]]
        while pending:
            for operand in _needs(pending.pop()):
                if operand not in visited and self.graph.comes_before(first, operand):
                    visited[operand] = None
                    pending.append(operand)
        return sorted(visited, key=_Position)


def _needs(node: Node) -> tuple[Node, ...]:
    return (*node.operands, *(node.attributes.get("control-predecessors") or ()))


class _Position:
    """A node's position in its graph, to sort by."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    def __lt__(self, other: _Position) -> bool:
        return self.node.graph.comes_before(self.node, other.node)


def _is_plain(node: Apply) -> bool:
    """Whether a node is a dot of two arrays without constraints on where and how it is computed."""
    if (
        node.opcode != "dot"
        or len(node.operands) != 2
        or "sharding" in node.attributes
        or has_control_dependencies(node)
    ):
        return False
    arrays = (node, *node.operands)
    return all(isinstance(array.type, TensorType) and array.type.dynamic is None for array in arrays)


def _is_unpacked(node: Node) -> bool:
    """Whether it is converted from a sub-byte type, which dots read directly, so that it is never stored."""
    source = node.operands[0].type if node.opcode == "convert" else None
    return isinstance(source, TensorType) and source.dtype.bits < 8


def _product(dot: Apply, side: int, split: bool) -> _Product:
    """A dot seen from an operand; where `split`, through reshapes that split and join dimensions too."""
    numbers, partner_numbers = _numbers(dot, side), _numbers(dot, 1 - side)
    view = split_view_of(dot.operands[side], {dim for dims in numbers for dim in dims}) if split else None
    source, shared, places = view or view_of(dot.operands[side])
    given, moved = _untransposed(dot.operands[1 - side])
    sizes = [1 if label is None else source.dims[label] for label in shared]
    parts: list[tuple[int, ...] | None] = [None] * len(moved)
    for mine, its in zip((*numbers[0], *numbers[1]), (*partner_numbers[0], *partner_numbers[1]), strict=True):
        parts[moved[its]] = places[mine]
    matched = [mine for part in parts for mine in ((None,) if part is None else part)]
    starts = [sum(1 if part is None else len(part) for part in parts[:dim]) for dim in range(len(parts))]
    given_sizes = [
        (size,) if part is None else tuple(sizes[mine] for mine in part)
        for size, part in zip(given.dims, parts, strict=True)
    ]
    batch, contracted = (tuple(mine for dim in dims for mine in places[dim]) for dims in numbers)
    return _Product(
        dot, side, source, given, tuple(sizes), tuple(size for group in given_sizes for size in group), shared,
        tuple(None if mine is None else shared[mine] for mine in matched), tuple(matched), batch, contracted,
        tuple(starts[dim] for dim in moved if parts[dim] is None),
    )  # fmt: skip


def _untransposed(node: Node) -> tuple[Node, list[int]]:
    """What a node is transposed from, and by dimension of the node the dimension there."""
    order = list(range(len(node.dims)))
    for _ in range(MOST_VIEWS):
        if node.opcode != "transpose" or "sharding" in node.attributes:
            break
        moved = node.attributes["dimensions"]
        order = [moved[dim] for dim in order]
        node = node.operands[0]
    return node, order


def _numbers(dot: Apply, side: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The batch and the contracted dimensions of an operand."""
    name = ("lhs", "rhs")[side]
    return dot.attribute(f"{name}_batch_dims"), dot.attribute(f"{name}_contracting_dims")


def _merge(members: Sequence[_Product]) -> list[Node]:
    """Replace several dots by one, placed before the first; returns the slices that their users get.

    Sizes that are multiples of larger powers of two come first, so that more slices are aligned.
    """
    first = members[0]
    build = Builder(first.dot)
    axes = _target(first)
    ordered = sorted(members, key=lambda member: (-(member.size & -member.size), -member.size))
    pieces = [_arranged(build, member, first, axes) for member in ordered]
    joined = axes.index(None)
    operand = build.op("concatenate", *pieces, dimensions=(joined,))
    assert isinstance(first.operand.type, TensorType) and isinstance(first.dot.type, TensorType)
    shared = first.operand
    if first.dims != shared.dims:
        shared = build.reshape(shared, TensorType(first.operand.type.dtype, first.dims))
    sides = [shared, operand] if first.side == 0 else [operand, shared]
    named = {}
    for name, dims in (("batch", first.batch), ("contracting", first.contracted)):
        own = "lhs" if first.side == 0 else "rhs"
        its = "rhs" if first.side == 0 else "lhs"
        named[f"{own}_{name}_dims"] = dims
        named[f"{its}_{name}_dims"] = tuple(axes.index(dim) for dim in dims)
    attributes = {name: value for name, value in first.dot.attributes.items() if not name.endswith("_dims")} | named
    size = sum(piece.dims[joined] for piece in pieces)
    order = _result_axes(first)
    free = [first.dims[dim] if dim is not None else size for dim in order]
    product = build.op("dot", *sides, type=TensorType(first.dot.type.dtype, tuple(free)), attributes=attributes)
    first.dot.graph.set_metadata(product, ordered[0].dot.raw_metadata)
    results: list[Node] = []
    start = 0
    for member, piece in zip(ordered, pieces, strict=True):
        limit = start + piece.dims[joined]
        bounds = [
            SliceDimension(start, limit) if dim is None else SliceDimension(0, extent)
            for dim, extent in zip(order, free, strict=True)
        ]
        part = build.op("slice", product, slice=tuple(bounds))
        result = _restored(build, part, member, first, order)
        if not same_layout(result.type, member.dot.type):
            result = build.op("copy", result, type=member.dot.type)
        member.dot.graph.replace_uses(member.dot, result)
        results.append(result)
        start = limit
    return results


def _target(first: _Product) -> list[int | None]:
    """The order of the dimensions of what is concatenated: the shared operand's own, None where the pieces differ."""
    own = first.matched
    rest: list[int | None] = [dim for dim in own if dim is not None]
    start = own.index(None) if None in own else len(own)
    together = all(dim is None for dim in own[start : start + len(first.free)])
    return [*rest[:start], None, *rest[start:]] if together else [*rest, None]


def _arranged(build: Builder, member: _Product, first: _Product, axes: Sequence[int | None]) -> Node:
    """The other operand of a product, its dimensions in the target's order and the free ones as one."""
    position = {label: dim for dim, label in enumerate(member.other) if label is not None}
    order: list[int] = []
    for axis in axes:
        label = None if axis is None else first.shared[axis]
        if axis is None:
            order += member.free
        elif label is not None:
            order.append(position[label])
    order += [dim for dim in range(len(member.other)) if dim not in order]
    assert isinstance(member.given.type, TensorType)
    dims = tuple(member.size if axis is None else first.dims[axis] for axis in axes)
    element, given = member.given.type.dtype, member.given
    if member.given_dims != given.dims:
        given = build.reshape(given, TensorType(element, member.given_dims))
    return build.reshape(build.transpose(given, order), TensorType(element, dims))


def _result_axes(first: _Product) -> list[int | None]:
    """The dimensions of the merged product: those of the shared operand, and None for what was concatenated."""
    free = [dim for dim in range(len(first.shared)) if dim not in (*first.batch, *first.contracted)]
    return [*first.batch, *free, None] if first.side == 0 else [*first.batch, None, *free]


def _restored(build: Builder, part: Node, member: _Product, first: _Product, order: Sequence[int | None]) -> Node:
    """The result of a product, from its slice of the merged one."""
    given: list[tuple[str, int]] = []
    for axis in order:
        label = None if axis is None else first.shared[axis]
        given += (
            [("free", dim) for dim in member.free] if axis is None else [] if label is None else [("shared", label)]
        )
    kept = [dim for dim in range(len(member.shared)) if dim not in (*member.batch, *member.contracted)]
    batch = [("shared", member.shared[dim]) for dim in member.batch]
    sides = [[("shared", member.shared[dim]) for dim in kept], [("free", dim) for dim in member.free]]
    wanted = [*batch, *sides[member.side], *sides[1 - member.side]]
    sizes = {("free", dim): member.given_dims[dim] for dim in member.free}
    sizes |= {
        ("shared", label): size for label, size in zip(member.shared, member.dims, strict=True) if label is not None
    }
    given = [axis for axis in given if sizes[axis] != 1]
    places = [given.index(axis) for axis in wanted if axis in given]
    assert isinstance(member.dot.type, TensorType)
    element = member.dot.type.dtype
    if places != sorted(places):
        part = build.reshape(part, TensorType(element, tuple(sizes[axis] for axis in given)))
        part = build.transpose(part, places)
    return build.reshape(part, member.dot.type)


register_pass("merge-dots", "products that share an operand become one product and its slices", merge_dots, ("bytes",))
