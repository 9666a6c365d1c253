"""Finds parameters that hold examples rather than weights: inputs, targets, masks, states and caches.

Dimensions that correspond (by the axis maps of instructions, through loops too) are one axis. An axis along which
products with weights only repeat, and which is never summed, is an axis of examples: the batch, time, query positions.
A weight has no such axis, so a parameter that has one is an input.

    h = f32[2,8] ...      wh = f32[8,32] parameter      dot(h, wh): 2 is an axis of examples
    xs = f32[5,2,6] parameter, a slice of which is added to that after a product: it has the axis, and is an input

Products of results of other products are examined first, since one of their operands is certainly an activation.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hloom.analysis import DisjointSets
from hloom.distribute.propagation import DataflowGraph
from hloom.ir import Apply, FactorKind, Module, Node, Parameter, TensorType, Trait, reachable
from hloom.ops import with_trait

_KINDS = frozenset((FactorKind.PARALLEL, FactorKind.CONTRACTED, FactorKind.REDUCED))
_PRODUCTS = with_trait(Trait.CONTRACTS)


class ProductRead(NamedTuple):
    """A product, and the operand that a parameter is, moved or not."""

    node: Apply
    operand_index: int


class _Axes(DisjointSets[int]):
    """Axes of the dimensions of all values: the sets of dimensions that are equal."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self.dataflow = DataflowGraph(module)
        self.starts = [0]
        for leaf in self.dataflow.leaves:
            self.starts.append(self.starts[-1] + len(leaf.dims))
        self.parts: list[tuple[int, int]] = []
        for _, rule, leaves in self.dataflow.equations:
            for factor, dims in zip(rule.factors, rule.factor_dims, strict=True):
                if factor.kind in _KINDS and factor.size != 1:
                    self._unite([(self.starts[leaves[dim.slot]] + dim.dimension, dim.is_single) for dim in dims])

    def _unite(self, dims: Sequence[tuple[int, bool]]) -> None:
        single = [dim for dim, is_single in dims if is_single]
        for other in single[1:]:
            self.join(single[0], other)
        self.parts += [(dim, part) for dim, is_single in dims if not is_single for part in single[:1]]

    def of(self, node: Node) -> list[int]:
        """The axes of an array's dimensions."""
        (leaf,) = self.dataflow.values.get(node, (None,))
        if leaf is None:
            return []
        return [self.root(dim) for dim in range(self.starts[leaf], self.starts[leaf + 1])]

    def made_by_products(self) -> set[Node]:
        """The arrays that some product is computed into, through calls and loops too."""
        pending = [
            leaf
            for node, rule, leaves in self.dataflow.equations
            if node.opcode in _PRODUCTS
            for leaf in leaves[rule.results :]
        ]
        made = set(pending)
        while pending:
            for number, slot in self.dataflow.equations_of[pending.pop()]:
                node, rule, leaves = self.dataflow.equations[number]
                # what a loop's body yields is equated with what it takes, in either order
                first = 0 if node.opcode == "while" else rule.results
                following = leaves[first:] if not first or slot < first else ()
                fresh = [leaf for leaf in following if leaf not in made]
                made.update(fresh)
                pending += fresh
        return {node for node, leaves in self.dataflow.values.items() if len(leaves) == 1 and leaves[0] in made}

    def with_parts(self, axes: set[int]) -> set[int]:
        """Axes, and those that their dimensions are products of."""
        held: dict[int, list[int]] = {}
        for whole, part in self.parts:
            held.setdefault(self.root(whole), []).append(self.root(part))
        return set(reachable(axes, lambda whole: held.get(whole, ())))


@dataclass(frozen=True, slots=True)
class Examples:
    """What axes imply about the parameters that products read.

    `parameters` have an axis of examples, or nothing but an axis of size 1 beside what is summed. `mixing` are those
    that sum an axis that products with others keep, with these others: the matrix that mixes positions, or nodes of a
    graph. `has_axes` says whether an axis is kept by products, summed by none, and no parameter's own: one of examples
    for certain. `iterated` are those that map an axis to itself again and again: the matrix of a fixed point.
    """

    parameters: frozenset[Parameter]
    mixing: Mapping[Parameter, frozenset[Parameter]]
    has_axes: bool
    iterated: frozenset[Parameter]


def examples_of(
    module: Module, reads: Mapping[Parameter, Sequence[ProductRead]], undecided: frozenset[Parameter]
) -> Examples:
    """The parameters with an axis of examples; of those in `undecided`, pairs of weights and inputs are multiplied.

    Of others it is known that what they are multiplied with is not a parameter.
    """
    axes = _Axes(module)
    made = axes.made_by_products()
    plain = [
        (parameter, read)
        for parameter, some in reads.items()
        if parameter not in undecided
        for read in some
        if read.node.opcode in _PRODUCTS and not _is_batched(read)
    ]
    example_axes: set[Parameter] = set()
    own = {parameter: set(axes.of(parameter)) for parameter in reads}
    examples: set[int] = set()
    mixed: set[int] = set()
    for is_certain in (True, False):
        chosen = [
            (parameter, read)
            for parameter, read in plain
            if parameter not in example_axes and (read.node.operands[1 - read.operand_index] in made) >= is_certain
        ]
        kept: set[int] = set()
        mixed = set()
        for parameter, read in chosen:
            repeated, summed = _sides(axes, read)
            kept |= repeated
            mixed |= summed
            if read.node.operands[1 - read.operand_index] in made:
                mixed |= own[parameter]
        examples = axes.with_parts(kept - mixed) - mixed
        example_axes |= {
            parameter
            for parameter, held in own.items()
            if held & examples and not _mixes(axes, reads[parameter], examples - held)
        }
    example_axes.update(_single_examples(axes, reads, undecided, made, mixed))
    sides = [_sides(axes, read) for _, read in plain]
    known = set().union(*(repeated for repeated, _ in sides))
    known -= set().union(*(summed for _, summed in sides), *(own[parameter] for parameter, _ in plain))
    mixing, iterated = _mixing(axes, plain, example_axes), frozenset(_iterated(axes, reads, plain))
    return Examples(frozenset(example_axes), mixing, bool(known), iterated)


def _single_examples(
    axes: _Axes,
    reads: Mapping[Parameter, Sequence[ProductRead]],
    undecided: frozenset[Parameter],
    made: Container[Node],
    mixed: Container[int],
) -> Iterator[Parameter]:
    """Undecided parameters of one example: only dimensions of size 1 stay, and those of the other are summed later."""
    for parameter in undecided & reads.keys():
        dots = [read for read in reads[parameter] if read.node.opcode == "dot" and not _is_batched(read)]
        if not dots or any(read.node.operands[1 - read.operand_index] in made for read in dots):
            continue
        of_other = [_sides(axes, read)[0] for read in dots]
        if all(_is_single(read) for read in dots) and any(axis in mixed for held in of_other for axis in held):
            yield parameter


def _is_single(read: ProductRead) -> bool:
    """Whether the dimensions of an operand of a dot that are not summed all have size 1."""
    side, operand = ("lhs", "rhs")[read.operand_index], read.node.operands[read.operand_index].type
    assert isinstance(operand, TensorType), "a dot reads arrays"
    summed = read.node.attribute(f"{side}_contracting_dims") or ()
    return all(size == 1 for dim, size in enumerate(operand.dims) if dim not in summed)


def _mixing(
    axes: _Axes, reads: Sequence[tuple[Parameter, ProductRead]], examples: Container[Parameter]
) -> dict[Parameter, frozenset[Parameter]]:
    """By the parameter of a dot that sums an axis, those of products that keep it and never sum it.

    What seems to be `examples` may be a weight, and the one that sums the adjacency; not where a loop reads it.
    """
    kept: dict[int, set[Parameter]] = {}
    summed: dict[int, set[Parameter]] = {}
    for parameter, read in reads:
        stay, go = _sides(axes, read)
        for axis in stay if parameter not in examples or read.node.graph is parameter.graph else ():
            kept.setdefault(axis, set()).add(parameter)
        for axis in go if read.node.opcode == "dot" else ():
            summed.setdefault(axis, set()).add(parameter)
    made: dict[Parameter, set[Parameter]] = {}
    for axis, some in summed.items():
        for parameter in some:
            made.setdefault(parameter, set()).update(kept.get(axis, set()) - some)
    return {parameter: frozenset(others) for parameter, others in made.items() if others}


def _iterated(
    axes: _Axes, reads: Mapping[Parameter, Sequence[ProductRead]], weights: Sequence[tuple[Parameter, ProductRead]]
) -> Iterator[Parameter]:
    """Parameters one of whose axes is summed and is one of the result again, and that are read more than once.

    A loop reads what is not cut out of a stack in each of its iterations.
    """
    for parameter, read in weights:
        operand = read.node.operands[read.operand_index].type
        if read.node.opcode != "dot" or not isinstance(parameter.type, TensorType):
            continue
        stays, goes = _sides(axes, ProductRead(read.node, 1 - read.operand_index))
        is_again = len(reads[parameter]) > 1 or read.node.graph is not parameter.graph
        reads_all = isinstance(operand, TensorType) and operand.element_count == parameter.type.element_count
        if stays & goes and is_again and reads_all:
            yield parameter


def _sides(axes: _Axes, read: ProductRead) -> tuple[set[int], set[int]]:
    """The axes of an activation that a product keeps, and those that it sums over."""
    node, index = read.node, 1 - read.operand_index
    held = axes.of(node.operands[index])
    if node.opcode == "convolution":
        batch = node.attributes["dim_labels"].lhs.index("b")
        return {held[batch]}, {axis for dim, axis in enumerate(held) if dim != batch}
    side = ("lhs", "rhs")[index]
    summed = node.attribute(f"{side}_contracting_dims") or ()
    return {axis for dim, axis in enumerate(held) if dim not in summed}, {held[dim] for dim in summed}


def _mixes(axes: _Axes, reads: Iterable[ProductRead], examples: set[int]) -> bool:
    """Whether a parameter is multiplied with what repeats along further axes of examples: then it is what mixes one.

    So MLP-Mixer's weights of positions make one axis of another.
    """
    return any(
        _sides(axes, read)[0] & examples for read in reads if read.node.opcode in _PRODUCTS and not _is_batched(read)
    )


def _is_batched(read: ProductRead) -> bool:
    """Whether a product has batch dimensions: its operands may both be of examples."""
    return read.node.opcode == "dot" and bool(read.node.attribute("lhs_batch_dims"))
