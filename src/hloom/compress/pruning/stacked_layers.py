"""Layers of a loop that may each lose positions of their own: which dimension of every value numbers the layers.

    W = f32[3,8,12], V = f32[3,12,8] parameters; in the loop's body, with i its counter
    dot(act(dot(x, dynamic-slice(W, i, 0, 0))), dynamic-slice(V, i, 0, 0))
      ->
    dimension 0 of W and V numbers layers: of W[i] columns are removed and of V[i] the same rows, others for other i

Only the arrays differ: the program is the same for all layers, so that every layer must keep as many positions. What a
round of the loop computes belongs to the layer whose row it reads, and may not reach the next round.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from hloom.analysis import graphs_run_by
from hloom.compress.pruning.dimension_dependency import Coupling, LeafDim, is_pointwise
from hloom.distribute.propagation import Equation
from hloom.ir import Apply, Constant, FactorKind, Graph, Literal, Node

MOST_STEPS = 64
"""How many instructions two numbers of rows are compared by."""
_KINDS = frozenset((FactorKind.PARALLEL, FactorKind.CONTRACTED, FactorKind.REDUCED))


class StackedLayers(NamedTuple):
    """`dims` are, by value, the dimension that numbers the layers; values of a round have none."""

    count: int
    dims: dict[int, int]


class Mixed(Exception):
    """Positions of one layer meet those of another; the message says where."""


def stacked_layers(coupling: Coupling) -> StackedLayers | str | None:
    """The layers of the weights of an axis; why they must lose the same positions; None where there are no layers."""
    seed = coupling.seed
    dims = coupling.dataflow.leaves[seed.leaf].dims
    reasons: list[str] = []
    for dim, size in enumerate(dims):
        if dim == seed.dim or size < 2:
            continue
        search = _LayerSearch(coupling, dim, size)
        try:
            search.follow()
        except Mixed as mixed:
            if _is_stacked(coupling, size):
                reasons.append(str(mixed))
            continue
        if search.rows:
            return StackedLayers(size, {leaf: one for leaf, one in search.layer_dims.items() if isinstance(one, int)})
    return reasons[0] if reasons else None


def _is_stacked(coupling: Coupling, count: int) -> bool:
    """Whether something reads a single row, out of this many, of a coupled value."""
    equations = (coupling.dataflow.equations[number] for number in coupling.equations)
    return any(
        size == count and part == 1
        for node, _, leaves in equations
        if node.opcode == "dynamic-slice"
        for size, part in zip(
            coupling.dataflow.leaves[leaves[0]].dims, node.attributes["dynamic_slice_sizes"], strict=True
        )
    )


class _LayerSearch:
    """Follows a dimension of layers through the values of a coupling.

    `layer_dims` are by value the dimension of layers, or the body of the loop in a round of which the value is made;
    `rows` are by body what says which row a round reads.
    """

    def __init__(self, coupling: Coupling, dim: int, count: int) -> None:
        self.coupling, self.dataflow, self.count = coupling, coupling.dataflow, count
        self.labelled = {at.leaf for at in coupling.labels}
        self.layer_dims: dict[int, int | Graph] = {}
        self.rows: dict[Graph, Node] = {}
        self._inner: dict[Graph, Collection[Graph]] = {}
        self._pending: deque[int] = deque()
        self._propose(coupling.seed.leaf, dim)

    def follow(self) -> None:
        """Follow the dimension until all values of the coupling are known; raises Mixed."""
        while self._pending:
            leaf = self._pending.popleft()
            for number, slot in self.dataflow.equations_of[leaf]:
                if number in self.coupling.equations:
                    self._pass_on(self.dataflow.equations[number], slot)
        for leaf, layer_dim in self.layer_dims.items():
            self._check(leaf, layer_dim)
        if self.rows and self.coupling.restrictions:
            equation = self.dataflow.equations[min(self.coupling.restrictions).equation]
            raise Mixed(f"{equation.node.name} ({equation.node.opcode}) reads the kept positions of what keeps all")
        missing = self.labelled - self.layer_dims.keys()
        if missing:
            raise Mixed(f"{self._name(min(missing))} is not of a layer")

    def _name(self, leaf: int) -> str:
        node = self.dataflow.leaves[leaf].node
        return f"{node.name} ({node.opcode})"

    def _propose(self, leaf: int, layer_dim: int | Graph) -> None:
        if leaf not in self.labelled:
            return
        held = self.layer_dims.get(leaf)
        if held is None:
            self.layer_dims[leaf] = layer_dim
            self._pending.append(leaf)
        elif held != layer_dim:
            raise Mixed(f"{self._name(leaf)} has positions of several layers")

    def _check(self, leaf: int, layer_dim: int | Graph) -> None:
        """Raise Mixed where a value cannot have positions of its own for every layer."""
        node = self.dataflow.leaves[leaf].node
        if isinstance(layer_dim, int):
            if self.dataflow.leaves[leaf].dims[layer_dim] != self.count:
                raise Mixed(f"{self._name(leaf)} has not a row for each layer")
        elif node.graph not in self._graphs_in(layer_dim) or node in layer_dim.parameters:
            raise Mixed(f"{self._name(leaf)} goes from layer to layer")
        if isinstance(node, Constant):
            for dim in range(len(self.dataflow.leaves[leaf].dims)):
                if LeafDim(leaf, dim) in self.coupling.labels and not _is_even(node, dim):
                    raise Mixed(f"{self._name(leaf)} has other numbers at other positions")

    def _pass_on(self, equation: Equation, slot: int) -> None:
        node, rule, leaves = equation
        layer_dim = self.layer_dims[leaves[slot]]
        if isinstance(layer_dim, Graph):
            if node.graph not in self._graphs_in(layer_dim):
                raise Mixed(f"{self._name(leaves[slot])} goes from layer to layer")
            if node.opcode in ("dynamic-slice", "dynamic-update-slice"):
                self._pass_row(equation, slot, layer_dim)
                return
            for leaf in leaves:
                self._propose(leaf, layer_dim)
            return
        if node.opcode in ("dynamic-slice", "dynamic-update-slice"):
            self._pass_stack(equation, slot, layer_dim)
            return
        factors = rule.dim_factors[slot][layer_dim]
        if not factors.is_single or rule.factors[factors.factors[0][0]].kind not in _KINDS:
            raise Mixed(f"{node.name} ({node.opcode}) mixes the layers")
        parts = {part.slot: part for part in rule.factor_dims[factors.factors[0][0]]}
        for other, leaf in enumerate(leaves):
            if leaf not in self.labelled:
                continue
            part = parts.get(other)
            if part is None or not part.is_single:
                raise Mixed(f"{node.name} ({node.opcode}) mixes the layers")
            self._propose(leaf, part.dimension)

    def _pass_stack(self, equation: Equation, slot: int, layer_dim: int) -> None:
        """A stack, of which an instruction reads or writes a row, or a part of all rows."""
        node, _, leaves = equation
        small = _row_slot(node)
        whole = [other for other in (0, len(leaves) - 1) if other != small]
        if slot not in (0, small, len(leaves) - 1):
            return
        sizes = self.dataflow.leaves[leaves[small]].dims
        size = sizes[layer_dim]
        if size == self.count:
            for leaf in (leaves[small], *(leaves[other] for other in whole)):
                self._propose(leaf, layer_dim)
            return
        if slot == small or size != 1:
            raise Mixed(f"{node.name} ({node.opcode}) takes several layers")
        for other in whole:
            self._propose(leaves[other], layer_dim)
        self._take_row(node, layer_dim)
        self._propose(leaves[small], node.graph)

    def _pass_row(self, equation: Equation, slot: int, body: Graph) -> None:
        """What a round computes, or a row that it reads or writes: of a stack of layers, where the layer's row is."""
        node, _, leaves = equation
        small = _row_slot(node)
        whole = [other for other in (0, len(leaves) - 1) if other != small]
        first = 1 if node.opcode == "dynamic-slice" else 2
        dims, sizes = (self.dataflow.leaves[leaves[one]].dims for one in (whole[0], small))
        row = self.rows.get(body)
        stacks = [
            dim
            for dim, (size, part) in enumerate(zip(dims, sizes, strict=True))
            if part == 1 and size == self.count and row is not None and _is_same(node.operands[first + dim], row)
        ]
        if slot == small and stacks and node.graph is body:
            for other in whole:
                self._propose(leaves[other], stacks[0])
            return
        if slot == small and self.dataflow.leaves[leaves[whole[0]]].node in body.parameters:
            raise Mixed(f"{node.name} ({node.opcode}) takes another layer's row")
        for leaf in leaves:
            self._propose(leaf, body)

    def _take_row(self, node: Node, layer_dim: int) -> None:
        """Remember by which number a round reads its row; raises Mixed where it reads others too."""
        first = 1 if node.opcode == "dynamic-slice" else 2
        row = node.operands[first + layer_dim]
        if not _is_same(self.rows.setdefault(node.graph, row), row):
            raise Mixed(f"{node.name} ({node.opcode}) takes another layer's row")

    def _graphs_in(self, body: Graph) -> Collection[Graph]:
        """A graph, and those that it calls."""
        made = self._inner.get(body)
        if made is None:
            made = self._inner[body] = graphs_run_by(body)
        return made


def _row_slot(node: Node) -> int:
    """The leaf that is a part of another: what dynamic-slice makes, or what dynamic-update-slice writes."""
    return len(node.operands) if node.opcode == "dynamic-slice" else 1


def _is_same(one: Node, other: Node) -> bool:
    """Whether two scalars of a graph are computed alike from the same values."""
    pending = [(one, other)]
    for _ in range(MOST_STEPS):
        if not pending:
            return True
        first, second = pending.pop()
        if first is second:
            continue
        if isinstance(first, Constant) and isinstance(second, Constant):
            values = first.value, second.value
            if not all(isinstance(value, Literal) for value in values) or first.type != second.type:
                return False
            if values[0] != values[1]:
                return False
            continue
        if not (isinstance(first, Apply) and isinstance(second, Apply)):
            return False
        is_plain = is_pointwise(first) or first.opcode in ("get-tuple-element", "reshape")
        if not is_plain or first.opcode != second.opcode or first.attributes != second.attributes:
            return False
        if first.type != second.type or len(first.operands) != len(second.operands):
            return False
        pending += zip(first.operands, second.operands, strict=True)
    return False


def _is_even(node: Constant, dim: int) -> bool:
    """Whether a constant has the same numbers at all positions of a dimension."""
    if not isinstance(node.value, Literal):
        return False
    array = node.value.numpy()
    return bool((array == array.take([0], dim)).all()) if array.size else True
