"""What removed positions add to a reduction or a dot, computed from one position and put back.

    centred = subtract(x, broadcast(mean))      reduce(multiply(centred, centred), 0), to_apply=add
      ->
    add(reduce(multiply(centred, centred), 0), multiply(reduce(square, 0), 3))
                        square = the multiply at one removed position: (0 - mean) (0 - mean)

Three positions were removed, at which x is zero. What values have there is the same at all of them, and does not depend
on the dimension: the instructions between are written again for a dimension of size one, a column.
"""

from __future__ import annotations

from collections.abc import Mapping

from hloom.ir import Apply, Node, SliceDimension, TensorType
from hloom.propagation import Equation
from hloom.pruning.dimension_dependency import Blocked, Coupling, LeafDim, OperandDim
from hloom.pruning.removal import Kept
from hloom.pruning.removed_values import UNIFORM, MissedTerm, Removed, is_same_dim, operand_dims
from hloom.quantization import InsertionPoint, array_type

MOST_COLUMNS = 1000
"""How many instructions may be written again for one reduction."""
_COMBINING = {"add": "add", "maximum": "maximum", "minimum": "minimum"}


class ReductionCorrection:
    """The columns that a reduction or a dot needs: found before positions are removed, written after it.

    Raises Blocked where a column cannot be computed.
    """

    def __init__(self, coupling: Coupling, values: Mapping[LeafDim, Removed], missed: MissedTerm) -> None:
        self.coupling, self.values, self.missed = coupling, values, missed
        self.dataflow = coupling.dataflow
        self.equation = self.dataflow.equations[missed.number]
        self.dims = self._reduced_dims()
        self._makers: dict[int, tuple[int, Equation]] = {}
        self.columns: list[LeafDim] = []
        seen: set[LeafDim] = set()
        pending = [(at, False) for at in self.dims.values()]
        while pending:
            at, is_ready = pending.pop()
            if is_ready:
                self.columns.append(at)
            elif at not in seen:
                seen.add(at)
                if len(seen) > MOST_COLUMNS:
                    raise Blocked(missed.at, self.equation.node, f"{missed.reason}, by too many instructions")
                pending.append((at, True))
                pending += ((other, False) for other in self._operands(at).values())

    def write(self, kept: Kept) -> None:
        """Put back what removed positions add; the module has `kept` by dimension, and lost the others already."""
        removed = self.dataflow.leaves[self.missed.at.leaf].dims[self.missed.at.dim] - len(kept[self.missed.at])
        if not removed:
            return
        node = self.equation.node
        graph = node.graph
        writer = InsertionPoint(graph, node)
        made: dict[LeafDim, Node] = {}
        for at in self.columns:
            made[at] = self._column(writer, at, made, kept)
        inputs = list(node.inputs)
        for slot, at in self.dims.items():
            inputs[slot] = made[at]
        term = writer.op(node.opcode, *inputs, type=node.type, **node.attributes)
        combined = self._reducer()
        if combined == "add" and removed > 1:
            term = writer.multiply(term, writer.splat(removed, array_type(term).with_layout(None)))
        total = writer.op(combined, node, term)
        users = [user for user in node.users if user is not total]
        graph.move_before(node, total)
        for user in users:
            graph.set_inputs(user, [total if operand is node else operand for operand in user.inputs])
        if node.is_output:
            graph.set_output(total)

    def _reducer(self) -> str:
        if self.equation.node.opcode == "dot":
            return "add"
        return _COMBINING[self.equation.node.attributes["to_apply"].root.opcode]

    def _reduced_dims(self) -> dict[int, LeafDim]:
        """By operand the dimension that is summed up."""
        node, rule, leaves = self.equation
        if node.opcode == "reduce":
            return {0: self.missed.at}
        slot = next(slot for slot in (0, 1) if leaves[slot] == self.missed.at.leaf)
        factor = rule.dim_factors[slot][self.missed.at.dim].factors[0][0]
        return {part.slot: LeafDim(leaves[part.slot], part.dimension) for part in rule.factor_dims[factor]}

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
                if node.graph is not self.equation.node.graph:
                    break
                self._makers[at.leaf] = number, equation
                return number, equation
        raise Blocked(at, node, f"{self.missed.reason}, and come from elsewhere")

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
            return writer.splat(value, type_)
        assert isinstance(node, Apply), "a uniform value is computed"
        _, equation = self._maker(at)
        columns = self._operands(at)
        operands: list[Node] = []
        for number, operand in enumerate(node.inputs):
            if number in columns:
                operands.append(made[columns[number]])
                continue
            dim = operand_dims(equation, equation.rule.results, at.dim).get(number)
            is_same = dim is None or node.opcode == "reshape"
            operands.append(operand if is_same else _first(writer, operand, dim))
        return writer.op(node.opcode, *operands, type=type_, **node.attributes)


def _first(writer: InsertionPoint, node: Node, dim: int | None) -> Node:
    """The first position of a dimension along which all are equal."""
    type_ = array_type(node).with_layout(None)
    parts = [SliceDimension(0, 1 if at == dim else size, 1) for at, size in enumerate(type_.dims)]
    sizes = [1 if at == dim else size for at, size in enumerate(type_.dims)]
    return writer.op("slice", node, type=TensorType(type_.dtype, sizes), slice=tuple(parts))
