"""Which positions of which dimensions must be removed together.

Positions of a dimension have labels; positions of one label are removed together. Labels go through instructions by
their axis maps: a dot's result has those of its operands, and what is summed up has one label in both operands. A slice
cuts labels, a concatenation joins them, a reshape from d to [h,k] makes one label of the k positions of every h
(attention heads). Where labels would come into the operand of a product from behind, and what makes the operand cannot
do without the positions, the operand is read at the kept positions only (a restriction).

Source: the coupling is that of DepGraph (Fang et al. 2023), element by element.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from hloom.compress.quantization import common_factors
from hloom.distribute.propagation import DataflowGraph, Equation
from hloom.evaluator import TABLE
from hloom.ir import Apply, ConvolutionDimensions, FactorKind, Node, PaddingDimension, SliceDimension, TensorType, Trait
from hloom.ops import CALLERS, PRODUCTS, with_trait

PASSING = (
    CALLERS
    | with_trait(Trait.TUPLE)
    | (with_trait(Trait.MOVES_DATA) - {"bitcast", "concatenate", "dynamic-reshape", "pad", "reshape", "slice"})
    | {"dot", "opt-barrier", "reduce", "reduce-window"}
)
"""The opcodes beside pointwise ones whose axis maps say where labels go."""
CUTTABLE = (*PRODUCTS, "multiply")
"""The opcodes whose operands may be read at the kept positions only."""
MOST_POSITIONS = 1 << 24
"""The maximum number of positions of a dimension."""
MOST_STEPS = 200_000
"""The maximum number of dimensions to visit for one axis."""
_KINDS = frozenset((FactorKind.PARALLEL, FactorKind.CONTRACTED, FactorKind.REDUCED))


class LeafDim(NamedTuple):
    """A dimension of a value, by the value's number."""

    leaf: int
    dim: int


class OperandDim(NamedTuple):
    """A dimension of an operand or result of an instruction: the equation, the leaf by position, the dimension."""

    equation: int
    slot: int
    dim: int


class Blocked(Exception):
    """A dimension cannot lose positions; `at` is where this shows, `reason` why."""

    def __init__(self, at: LeafDim, node: Node, reason: str) -> None:
        super().__init__(reason)
        self.at, self.node, self.reason = at, node, reason


class PositionLabels:
    """Labels of positions that may become one: a forest whose roots are the labels."""

    def __init__(self, count: int) -> None:
        self._roots = np.arange(count, dtype=np.int32)

    def roots(self, labels: np.ndarray) -> np.ndarray:
        """The labels as they are now; -1 stays."""
        return np.where(labels < 0, -1, self._roots[labels]) if labels.size else labels

    def unite(self, first: np.ndarray, second: np.ndarray) -> bool:
        """Let labels at the same positions be one; whether anything changed."""
        one, other = self.roots(first).reshape(-1), self.roots(second).reshape(-1)
        differing = np.flatnonzero(one != other)
        for position in differing:
            a, b = int(self._roots[one[position]]), int(self._roots[other[position]])
            if a != b:
                self._roots[self._roots == max(a, b)] = min(a, b)
        return bool(differing.size)


class Coupling:
    """The dimensions that lose positions with one dimension of a weight, `seed`, and their labels.

    `weights` are the values of parameters that may lose positions, `outputs` those of outputs that keep theirs, `whole`
    other values that do, `refused` the dimensions of which it is known that they cannot lose positions, and why.
    """

    def __init__(
        self,
        dataflow: DataflowGraph,
        seed: LeafDim,
        weights: frozenset[int],
        outputs: frozenset[int],
        whole: set[int],
        refused: Mapping[LeafDim, Blocked],
    ) -> None:
        self.dataflow = dataflow
        self.seed = seed
        self.weights, self.outputs, self.whole, self.refused = weights, outputs, whole, refused
        self.size = self._size(seed)
        self.labels: dict[LeafDim, np.ndarray] = {}
        self.restrictions: dict[OperandDim, np.ndarray] = {}
        self.causes: dict[LeafDim, tuple[LeafDim, Equation, bool]] = {}
        self.equations: set[int] = set()
        self.forest = PositionLabels(self.size)
        self._pending: deque[LeafDim] = deque()

    def propagate(self) -> None:
        """Follow the seed until nothing changes; raises Blocked."""
        self._propose(self.seed, np.arange(self.size, dtype=np.int32), None)
        steps = 0
        while self._pending:
            steps += 1
            at = self._pending.popleft()
            if steps > MOST_STEPS:
                raise Blocked(at, self._node(at), f"more than {MOST_STEPS:,} dimensions go with it")
            for number, slot in self.dataflow.equations_of[at.leaf]:
                self._pass_on(number, OperandDim(number, slot, at.dim), at)

    def cut_before(self, at: LeafDim) -> int | None:
        """The value whose whole array is to be kept so that labels do not come to `at`; None where there is none.

        It is that operand of a product, into which labels came from behind, which is nearest to the seed.
        """
        cut = None
        for step in self.way_to(at)[:-1]:
            _, equation, is_backward = self.causes[step]
            if is_backward and equation.node.opcode in CUTTABLE and step.leaf not in self.weights:
                cut = step.leaf
        return cut

    def way_to(self, at: LeafDim) -> list[LeafDim]:
        """The dimensions from one back to the seed, by which labels came to it."""
        way = [at]
        while way[-1] in self.causes and len(way) < MOST_STEPS:
            way.append(self.causes[way[-1]][0])
        return way

    def roots_at(self, at: LeafDim) -> np.ndarray:
        """The labels of a dimension's positions."""
        return self.forest.roots(self.labels[at])

    def _node(self, at: LeafDim) -> Node:
        return self.dataflow.leaves[at.leaf].node

    def _size(self, at: LeafDim) -> int:
        return self.dataflow.leaves[at.leaf].dims[at.dim]

    def _propose(self, at: LeafDim, labels: np.ndarray, cause: tuple[LeafDim, OperandDim, bool] | None) -> None:
        """Let a dimension have these labels, where they are not -1."""
        if not (labels >= 0).any():
            return
        node = self._node(at)
        if at.leaf in self.whole and cause is not None:
            slot = cause[1]
            self._check_restriction(slot, at)
            held = self.restrictions.get(slot)
            if held is None:
                self.restrictions[slot] = labels.copy()
            elif self._merge(held, labels):
                self._pending.append(cause[0])
            return
        if cause is not None and at not in self.causes and at != self.seed:
            self.causes[at] = cause[0], self.dataflow.equations[cause[1].equation], cause[2]
        known = self.refused.get(at)
        if known is not None:
            raise Blocked(at, known.node, known.reason)
        type_ = self.dataflow.leaves[at.leaf].type
        if at.leaf in self.outputs:
            raise Blocked(at, node, "it is an output of the program")
        if node.opcode == "parameter" and node.graph is self.dataflow.module.entry and at.leaf not in self.weights:
            raise Blocked(at, node, "it is an input of the program, and no weight")
        if isinstance(type_, TensorType) and not type_.is_static:
            raise Blocked(at, node, "its size is not known")
        if node.opcode == "iota" and node.attributes["iota_dimension"] == at.dim:
            raise Blocked(at, node, "it numbers the positions")
        held = self.labels.get(at)
        if held is None:
            self.labels[at] = labels.astype(np.int32)
            self._pending.append(at)
        elif self._merge(held, labels):
            self._pending.append(at)

    def _check_restriction(self, slot: OperandDim, at: LeafDim) -> None:
        """Raise Blocked unless it is an operand of its own that is to be read at the kept positions only."""
        node, rule, _ = self.dataflow.equations[slot.equation]
        is_operand = slot.slot < rule.results == len(node.operands) and node.opcode not in CALLERS
        if not is_operand or self.dataflow.values.get(node.operands[slot.slot]) != (at.leaf,):
            raise Blocked(at, self._node(at), "what is kept whole for another operand loses positions with it")

    def _merge(self, held: np.ndarray, labels: np.ndarray) -> bool:
        """Add labels to those held, in place; whether anything changed."""
        fresh = (held < 0) & (labels >= 0)
        held[fresh] = labels[fresh]
        both = (held >= 0) & (labels >= 0)
        return self.forest.unite(held[both], labels[both]) or bool(fresh.any())

    def _pass_on(self, number: int, slot: OperandDim, at: LeafDim) -> None:
        """Give the labels of a dimension to all that an instruction says goes with it."""
        equation = self.dataflow.equations[number]
        if slot in self.restrictions or (slot.slot < equation.rule.results and at.leaf in self.whole):
            return
        self.equations.add(number)
        for other, dim, labels in self._partners(equation, slot, at):
            leaf = equation.leaves[other]
            if len(labels) > MOST_POSITIONS:
                raise Blocked(at, equation.node, f"a dimension of {len(labels):,} goes with it")
            is_backward = other < equation.rule.results
            self._propose(LeafDim(leaf, dim), labels, (at, OperandDim(number, other, dim), is_backward))

    def _partners(self, equation: Equation, slot: OperandDim, at: LeafDim) -> Iterator[tuple[int, int, np.ndarray]]:
        """The dimensions that go with one, by the leaf's position in the equation, and their labels."""
        node, labels = equation.node, self.labels[at]
        moved = self._moved(equation, slot, labels)
        if moved is not None:
            try:
                yield from moved
            except ValueError as error:
                raise Blocked(at, node, str(error)) from None
            return
        if node.opcode not in PASSING and not is_pointwise(node):
            raise Blocked(
                at, node, equation.rule.reason or f"nothing says where the dimension goes in {node.opcode}"
            )
        rule = equation.rule
        factors = rule.dim_factors[slot.slot][slot.dim]
        if not factors.factors and node.opcode == "broadcast":
            return
        if not factors.is_single:
            raise Blocked(at, node, rule.reason or f"{node.opcode} takes a part of the dimension")
        factor = factors.factors[0][0]
        if rule.factors[factor].kind not in _KINDS:
            raise Blocked(at, node, f"{node.opcode} needs the dimension as it is")
        for part in rule.factor_dims[factor]:
            if not part.is_single:
                raise Blocked(at, node, f"{node.opcode} makes the dimension a part of another")
            if (part.slot, part.dimension) != (slot.slot, slot.dim):
                yield part.slot, part.dimension, labels

    def _moved(
        self, equation: Equation, slot: OperandDim, labels: np.ndarray
    ) -> Iterator[tuple[int, int, np.ndarray]] | None:
        """What goes with a dimension that an instruction moves positions of; None for other instructions."""
        node = equation.node
        match node.opcode:
            case "reshape":
                return self._reshaped(equation, slot, labels)
            case "slice":
                return _sliced(equation, slot, labels, node.attributes["slice"][slot.dim], self._dims(equation, 0))
            case "pad":
                return _padded(equation, slot, labels, node.attributes["padding"][slot.dim], self._dims(equation, 0))
            case "concatenate":
                return self._joined(equation, slot, labels, node.attributes["dimensions"][0])
            case "convolution":
                return self._convolved(equation, slot, labels)
        return None

    def _dims(self, equation: Equation, slot: int) -> tuple[int, ...]:
        return self.dataflow.leaves[equation.leaves[slot]].dims

    def _joined(
        self, equation: Equation, slot: OperandDim, labels: np.ndarray, along: int
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        result = len(equation.leaves) - 1
        if slot.dim != along:
            yield from ((other, slot.dim, labels) for other in range(result + 1) if other != slot.slot)
            return
        sizes = [self._dims(equation, operand)[along] for operand in range(result)]
        ends = np.cumsum(sizes)
        if slot.slot == result:
            for operand, end in enumerate(ends):
                yield operand, along, labels[end - sizes[operand] : end]
            return
        joined = np.full(ends[-1], -1, np.int32)
        joined[ends[slot.slot] - sizes[slot.slot] : ends[slot.slot]] = labels
        yield result, along, joined

    def _reshaped(
        self, equation: Equation, slot: OperandDim, labels: np.ndarray
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """Labels of a dimension that a reshape splits, or joins with others."""
        other = 1 - slot.slot
        before, after = self._dims(equation, slot.slot), self._dims(equation, other)
        sources, targets = next(span for span in common_factors(before, after) if slot.dim in span[0])
        sources, targets = (
            [dim for dim in sources if before[dim] != 1],
            [dim for dim in targets if after[dim] != 1],
        )
        if slot.dim not in sources or not targets:
            raise ValueError("reshape leaves nothing of the dimension")
        if prod(before[dim] for dim in sources) > MOST_POSITIONS:
            raise ValueError("reshape joins the dimension with a large one")
        shape = [labels.size if dim == slot.dim else 1 for dim in sources]
        spread = np.broadcast_to(labels.reshape(shape), [before[dim] for dim in sources])
        whole = self.forest.roots(spread).reshape([after[dim] for dim in targets])
        # the dimension in which positions differ: constant along all others
        for number, dim in enumerate(targets):
            along = np.moveaxis(whole, number, 0).reshape(after[dim], -1)
            if (along == along[:, :1]).all():
                yield other, dim, along[:, 0]
                return
        along = whole.reshape(after[targets[0]], -1)
        if (along < 0).any():
            raise ValueError("reshape splits a dimension of which a part only may lose positions")
        self.forest.unite(along, np.broadcast_to(along[:, :1], along.shape))
        yield other, targets[0], self.forest.roots(along[:, 0])

    def _convolved(
        self, equation: Equation, slot: OperandDim, labels: np.ndarray
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """What goes with a dimension of a convolution; of several groups, whole groups."""
        node = equation.node
        names: ConvolutionDimensions = node.attributes["dim_labels"]
        at = slot.slot, slot.dim
        groups, runs = convolution_groups(node)
        if groups > 1 and at in runs:
            rows = labels.reshape(groups, -1)
            if ((rows >= 0).any(axis=1) != (rows >= 0).all(axis=1)).any():
                raise ValueError("it is a convolution by groups, of which parts only may lose positions")
            self.forest.unite(rows[rows[:, 0] >= 0], np.broadcast_to(rows[:, :1], rows.shape)[rows[:, 0] >= 0])
            one = self.forest.roots(rows[:, 0])
            for other, dim in runs:
                size = self._dims(equation, other)[dim]
                yield other, dim, np.repeat(one, size // groups)
            return
        inputs = (0, names.lhs.index("f")), (1, names.rhs.index("i"))
        outputs = (1, names.rhs.index("o")), (2, names.output.index("f"))
        batches = (0, names.lhs.index("b")), (2, names.output.index("b"))
        partners = next((pair for pair in (inputs, outputs, batches) if at in pair), None)
        if partners is None:
            raise ValueError("its windows slide over the dimension")
        if groups > 1 and any(partner in runs for partner in partners):
            raise ValueError("it is a convolution by groups, which have the dimension each")
        yield from ((other, dim, labels) for other, dim in partners if (other, dim) != at)


def is_pointwise(node: Node) -> bool:
    """Whether an instruction works element by element on operands of one shape."""
    row = TABLE.get(node.opcode)
    return isinstance(node, Apply) and row is not None and row.is_pointwise


def _sliced(
    equation: Equation, slot: OperandDim, labels: np.ndarray, cut: SliceDimension, dims: tuple[int, ...]
) -> Iterator[tuple[int, int, np.ndarray]]:
    size = dims[slot.dim]
    if (cut.start, cut.limit, cut.stride) != (0, size, 1) and cut.stride != 1:
        raise ValueError("slice has a stride")
    if slot.slot == 0:
        yield 1, slot.dim, labels[cut.start : cut.limit]
    else:
        wide = np.full(size, -1, np.int32)
        wide[cut.start : cut.limit] = labels
        yield 0, slot.dim, wide


def _padded(
    equation: Equation, slot: OperandDim, labels: np.ndarray, padding: PaddingDimension, dims: tuple[int, ...]
) -> Iterator[tuple[int, int, np.ndarray]]:
    if min(padding.low, padding.high) < 0 or padding.interior:
        raise ValueError("pad moves the positions apart, or crops them")
    size = dims[slot.dim]
    if slot.slot == 0:
        wide = np.full(size + padding.low + padding.high, -1, np.int32)
        wide[padding.low : padding.low + size] = labels
        yield 2, slot.dim, wide
        return
    inner = labels[padding.low : padding.low + size]
    if (labels >= 0).sum() != (inner >= 0).sum():
        raise ValueError("pad adds positions")
    yield 0, slot.dim, inner


def convolution_groups(node: Node) -> tuple[int, tuple[tuple[int, int], ...]]:
    """How many groups a convolution has, and the dimensions, by leaf and dimension, that the groups are runs of.

    One group is none. Groups of features are runs of input and output channels; those of the batch, of the batch too.
    """
    names: ConvolutionDimensions = node.attributes["dim_labels"]
    outputs = (1, names.rhs.index("o")), (2, names.output.index("f"))
    groups = node.attributes.get("feature_group_count") or 1
    if groups > 1:
        return groups, ((0, names.lhs.index("f")), *outputs)
    return node.attributes.get("batch_group_count") or 1, ((0, names.lhs.index("b")), *outputs)


def kept_positions(labels: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """The positions that are kept; `removed` says it for every label, -1 is always kept."""
    return np.flatnonzero(~np.where(labels < 0, False, removed[labels]))
