"""Restores what removed positions contribute to a reduction or a dot, computed from one of them; outputs do not change.

    centred = subtract(x, broadcast(mean))      reduce(multiply(centred, centred), 0), to_apply=add
      ->
    add(reduce(multiply(centred, centred), 0), multiply(reduce(square, 0), 3))
                        square = the multiply at one removed position: (0 - mean) (0 - mean)

Three positions were removed, at which x is zero.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hloom.compress.pruning.dimension_dependency import Blocked, Coupling, LeafDim
from hloom.compress.pruning.removal import Kept
from hloom.compress.pruning.removed_columns import RemovedColumns
from hloom.compress.pruning.removed_values import UNKNOWN, MissedTerm, Removed
from hloom.compress.quantization import InsertionPoint, redirect
from hloom.ir import TensorType, TupleType


class ReductionCorrection:
    """What a reduction or a dot misses: found before positions are removed, written after it.

    Raises Blocked where it cannot be computed.
    """

    def __init__(self, coupling: Coupling, values: Mapping[LeafDim, Removed], missed: MissedTerm) -> None:
        self.missed = missed
        self.dataflow = coupling.dataflow
        self.equation = self.dataflow.equations[missed.number]
        self.dims = self._reduced_dims()
        graph = self.equation.node.graph
        self.columns = RemovedColumns(coupling, values, graph, self.dims.values(), missed.reason)

    def write(self, kept: Kept) -> None:
        """Put back what removed positions add; the module has `kept` by dimension, and lost the others already."""
        removed = self.dataflow.leaves[self.missed.at.leaf].dims[self.missed.at.dim] - len(kept[self.missed.at])
        if not removed:
            return
        node = self.equation.node
        graph = node.graph
        writer = InsertionPoint(graph, node)
        made = self.columns.write(writer, kept)
        inputs = list(node.operands)
        for slot, at in self.dims.items():
            inputs[slot] = made[at]
        term = writer.op(node.opcode, *inputs, type=node.type, **node.attributes)
        combined = self._reducer()
        if combined == "add" and removed > 1:
            term = writer.mul(term, writer.constant(removed, term.array_type.with_layout(None)))
        total = writer.op(combined, node, term)
        users = [user for user in node.users if user is not total]
        graph.move_before(node, total)
        redirect(node, users, total)
        if node.is_output:
            graph.set_output(total)

    def _reducer(self) -> str:
        if self.equation.node.opcode == "dot":
            return "add"
        return self.equation.node.attributes["to_apply"].root.opcode

    def _reduced_dims(self) -> dict[int, LeafDim]:
        """By operand the dimension that is summed up."""
        node, rule, leaves = self.equation
        if node.opcode == "reduce":
            return {0: self.missed.at}
        slot = next(slot for slot in (0, 1) if leaves[slot] == self.missed.at.leaf)
        factor = rule.dim_factors[slot][self.missed.at.dim].factors[0][0]
        return {part.slot: LeafDim(leaves[part.slot], part.dimension) for part in rule.factor_dims[factor]}


class OutputPadding:
    """An output that gets back the positions that it had, with what zero weights make of them.

    y = f32[16,6] of f32[16,8], positions 1 and 5 removed
      ->
    gather(concatenate(y, column), {0,6,1,2,3,6,4,5})

    Raises Blocked where it is not known what zero weights make of them.
    """

    def __init__(self, coupling: Coupling, values: Mapping[LeafDim, Removed], at: LeafDim) -> None:
        self.at, self.dataflow = at, coupling.dataflow
        leaf = self.dataflow.leaves[at.leaf]
        self.graph = self.dataflow.module.entry
        reason = "it is an output of the program, and not known where the weights are zero"
        root = self.graph.root
        is_flat = isinstance(root.type, TensorType) or root.opcode == "tuple"
        if not is_flat or any(
            not isinstance(part.type, TensorType) for part in root.operands if root.opcode == "tuple"
        ):
            raise Blocked(at, leaf.node, "it is an output of the program, in a tuple that is not written out")
        if values[at] == UNKNOWN:
            raise Blocked(at, leaf.node, reason)
        if any(other.leaf == at.leaf and other != at for other in coupling.labels):
            raise Blocked(at, leaf.node, "it is an output of the program, in two dimensions")
        self.columns = RemovedColumns(coupling, values, self.graph, [at], reason)

    def write(self, kept: Kept) -> None:
        """Let the output be as large as it was; the module has `kept` by dimension, and lost the others already."""
        size = self.dataflow.leaves[self.at.leaf].dims[self.at.dim]
        positions = kept[self.at]
        if len(positions) == size:
            return
        root = self.graph.root
        is_tuple = not isinstance(root.type, TensorType)
        writer = InsertionPoint(self.graph, root if is_tuple else None)
        column = self.columns.write(writer, kept)[self.at]
        indices = np.full(size, len(positions), np.int32)
        indices[positions] = np.arange(len(positions), dtype=np.int32)
        leaves = self.dataflow.values[root]
        outputs = list(root.operands) if is_tuple else [root]
        for number, (output, leaf) in enumerate(zip(outputs, leaves, strict=True)):
            if leaf != self.at.leaf:
                continue
            joined = writer.op("concatenate", output, column, dimensions=(self.at.dim,))
            outputs[number] = writer.take(joined, self.at.dim, indices)
        if is_tuple:
            self.graph.set_operands(root, outputs)
            self.graph.set_type(root, TupleType([output.array_type for output in outputs]))
        else:
            self.graph.set_output(outputs[0])
