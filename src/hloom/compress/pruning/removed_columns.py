"""Values at one removed position, from instructions written again for a dimension of size one: a column.

    centred = subtract(x, broadcast(mean))      x is zero at removed positions
      ->
    column = subtract(broadcast(0), broadcast(mean))       f32[16,1] of f32[16,64]

What is uniform is the same at all removed positions, and does not depend on the dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hloom.compress.pruning.dimension_dependency import Blocked, Coupling, LeafDim, OperandDim
from hloom.compress.pruning.removal import Kept
from hloom.compress.pruning.removed_values import UNIFORM, Removed, is_same_dim, operand_dims
from hloom.compress.quantization import InsertionPoint
from hloom.distribute.propagation import Equation
from hloom.ir import Apply, Graph, Node, TensorType

MOST_COLUMNS = 1000
"""How many instructions may be written again for one use of columns."""


class RemovedColumns:
    """The columns that some dimensions of a graph's values need, in order: looked for before positions are removed.

    `reason` is what is said where a column cannot be computed; raises Blocked there.
    """

    def __init__(
        self, coupling: Coupling, values: Mapping[LeafDim, Removed], graph: Graph, dims: Iterable[LeafDim], reason: str
    ) -> None:
        self.coupling, self.values, self.graph, self.reason = coupling, values, graph, reason
        self.dataflow = coupling.dataflow
        self._makers: dict[int, tuple[int, Equation]] = {}
        self._order: list[LeafDim] = []
        seen: set[LeafDim] = set()
        pending = [(at, False) for at in dims]
        while pending:
            at, is_ready = pending.pop()
            if is_ready:
                self._order.append(at)
            elif at not in seen:
                seen.add(at)
                if len(seen) > MOST_COLUMNS:
                    raise Blocked(at, self.dataflow.leaves[at.leaf].node, f"{reason}, by too many instructions")
                pending.append((at, True))
                pending += ((other, False) for other in self._operands(at).values())

    def write(self, writer: InsertionPoint, kept: Kept) -> dict[LeafDim, Node]:
        """Write the columns; the module has the positions `kept` by dimension, and lost the others already."""
        made: dict[LeafDim, Node] = {}
        for at in self._order:
            made[at] = self._column(writer, at, made, kept)
        return made

    def _operands(self, at: LeafDim) -> dict[int, LeafDim]:
        """By operand the columns that a column is computed from."""
        if self.values[at] != UNIFORM:
            return {}
        number, equation = self._maker(at)
        slot = equation.leaves.index(at.leaf, equation.rule.results)
        if equation.node.opcode == "reshape":
            labelled = [
                LeafDim(equation.leaves[0], dim)
                for dim in range(len(self.dataflow.leaves[equation.leaves[0]].dims))
                if LeafDim(equation.leaves[0], dim) in self.coupling.labels
            ]
            assert is_same_dim(equation, labelled, at.dim, self.coupling), "what else is reshaped is not uniform"
            return {0: labelled[0]}
        dims = operand_dims(equation, slot, at.dim)
        pairs = {operand: LeafDim(equation.leaves[operand], dim) for operand, dim in dims.items()}
        return {
            operand: one
            for operand, one in pairs.items()
            if one in self.coupling.labels and OperandDim(number, operand, one.dim) not in self.coupling.restrictions
        }

    def _maker(self, at: LeafDim) -> tuple[int, Equation]:
        """The equation of the instruction that makes a value."""
        made = self._makers.get(at.leaf)
        if made is not None:
            return made
        node = self.dataflow.leaves[at.leaf].node
        for number, slot in self.dataflow.equations_of[at.leaf]:
            equation = self.dataflow.equations[number]
            if equation.node is node and slot >= equation.rule.results:
                if node.graph is not self.graph:
                    break
                self._makers[at.leaf] = number, equation
                return number, equation
        raise Blocked(at, node, f"{self.reason}, and come from elsewhere")

    def _column(self, writer: InsertionPoint, at: LeafDim, made: Mapping[LeafDim, Node], kept: Kept) -> Node:
        """A value at one removed position: its dimension has one position, and the others those that are kept."""
        leaf = self.dataflow.leaves[at.leaf]
        node = leaf.node
        assert isinstance(leaf.type, TensorType), "tuples are values by their elements"
        sizes = [len(kept.get(LeafDim(at.leaf, dim), range(size))) for dim, size in enumerate(leaf.dims)]
        sizes[at.dim] = 1
        type_ = TensorType(leaf.type.dtype, sizes)
        value = self.values[at].value
        if value is not None:
            return writer.constant(value, type_)
        assert isinstance(node, Apply), "a uniform value is computed"
        _, equation = self._maker(at)
        columns = self._operands(at)
        operands: list[Node] = []
        for number, operand in enumerate(node.operands):
            if number in columns:
                operands.append(made[columns[number]])
                continue
            dim = operand_dims(equation, equation.rule.results, at.dim).get(number)
            operands.append(operand if dim is None else writer.cut(operand, dim, 0, 1))
        return writer.op(node.opcode, *operands, type=type_, **node.attributes)
