"""Writes a choice of residuals into a pair of loops: fewer or other stacks, and the recomputation in the second loop.

forward:  a = g(h); v = f(a); stack = dynamic-update-slice(stack, v, i)
backward: v = dynamic-slice(stack, j)
  ->
forward:  stack = dynamic-update-slice(stack, h, i)
backward: h = dynamic-slice(stack, j); a = g(h); v = f(a)
"""

from __future__ import annotations

from typing import Any

from hloom.autodiff import Emitter
from hloom.distribute.remat.loop_residuals import LoopResiduals, find_loop_residuals
from hloom.distribute.remat.residual_choice import ResidualChoice
from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType
from hloom.passes import DROP_ELEMENTS, cse, dce, own_copy, sort_topologically, widen_loop

_GET = "get-tuple-element"


def write_residuals(module: Module, choice: ResidualChoice) -> None:
    """Let the backward loops of a module compute what a choice says, and drop the stacks that are not kept."""
    for loop in [node for node in module.entry.nodes if node.opcode == "while" and node.name in choice.loops]:
        for name in ("condition", "body"):
            own_copy(loop.attributes[name], loop)
    for pair in find_loop_residuals(module):
        if pair.backward.name in choice.kept:
            _Writer(pair, choice).write()
    DROP_ELEMENTS.run(module)
    cse(module)
    dce(module)
    module.index_users()


class _Writer:
    """One pair of loops, and what stands in the backward body for each instruction of the forward one."""

    def __init__(self, pair: LoopResiduals, choice: ResidualChoice) -> None:
        name = pair.backward.name
        self.pair = pair
        self.kept = [value.node for value in pair.values if value.name in choice.kept[name]]
        self.computed = {value.node for value in pair.values if value.name in choice.computed[name]}
        self.backward: Graph = pair.backward.attributes["body"]
        self.emitter = Emitter(self.backward)
        self.mapping: dict[Any, Any] = {pair.slot: pair.read_slot}

    def write(self) -> None:
        pair = self.pair
        outside = self._stack()
        missing = [node for node in self.kept if node in outside]
        _, elements = widen_loop(pair.backward, [outside[node] for node in missing])
        for node, element in zip(missing, elements, strict=True):
            is_passed_on = node.opcode == _GET and node.attributes["index"] in pair.passed_on
            self.mapping[node] = element if is_passed_on else self._slice(element, node)
        for value in pair.values:
            self._provide(value.node)
        for node, index in pair.stacks.items():
            for read in pair.reads.get(index, ()):
                if self.mapping[node] is not read and (not self._is_reshape_of(self.mapping[node], read)):
                    row = self.emitter.reshape(self.mapping[node], read.array_type.dims)
                    self.backward.replace_uses(read, row)
        for graph in (pair.body, self.backward, pair.backward.graph):
            sort_topologically(graph)

    def _is_reshape_of(self, node: Node, read: Node) -> bool:
        return node.opcode == "reshape" and node.operands[0] is read

    def _stack(self) -> dict[Node, Node]:
        """Let the forward loop stack what is kept and has no stack; what the backward loop must be given for each."""
        pair = self.pair
        before = Emitter(pair.forward.graph)
        fresh = [node for node in self.kept if self._needs_stack(node)]
        types = [node.array_type for node in fresh]
        zeros = [before.zeros(TensorType(value.dtype, (pair.rows, *value.dims))) for value in types]
        width = len(pair.body.root.operands)
        forward, elements = widen_loop(pair.forward, zeros)
        pair.forward = forward
        inside, results = Emitter(pair.body), list(pair.body.root.operands)
        for position, (node, element) in enumerate(zip(fresh, elements, strict=True), width):
            row = inside.reshape(node, [1, *node.array_type.dims])
            corner = [inside.constant(0, pair.slot.array_type.dtype)] * node.array_type.rank
            results[position] = inside.op("dynamic-update-slice", element, row, pair.slot, *corner)
        pair.body.set_operands(pair.body.root, results)
        outside = {node: before.element(forward, position) for position, node in enumerate(fresh, width)}
        for node in self.kept:
            index = pair.stacks.get(node)
            if index is not None and index not in pair.reads:
                outside[node] = before.element(forward, index)
            elif node.opcode == _GET and node.attributes["index"] in pair.passed_on and node not in outside:
                outside[node] = pair.passed_on[node.attributes["index"]]
        return outside

    def _needs_stack(self, node: Node) -> bool:
        pair = self.pair
        if node is pair.slot or isinstance(node, Constant) or node in pair.stacks:
            return False
        is_element = node.opcode == _GET and node.operands[0] is pair.body.parameters[0]
        return not (
            is_element and (node.attributes["index"] in pair.counters or node.attributes["index"] in pair.passed_on)
        )

    def _provide(self, node: Node) -> None:
        """Let the backward body have a value of the forward one."""
        pair, emitter = self.pair, self.emitter
        if node in self.mapping:
            return
        index = pair.stacks.get(node)
        if node in self.kept and index is not None and index in pair.reads:
            self.mapping[node] = emitter.reshape(pair.reads[index][0], node.array_type.dims)
        elif isinstance(node, Constant):
            self.mapping[node] = self.backward.copy_node(node, self.mapping)
        elif node.opcode == _GET and node.operands[0] is pair.body.parameters[0]:
            if node.attributes["index"] in pair.counters:
                self.mapping[node] = self._counter(node)
        elif node in self.computed:
            assert isinstance(node, Apply), "parameters and constants are not computed"
            self.mapping[node] = self.backward.copy_node(node, self.mapping)

    def _counter(self, node: Node) -> Node:
        emitter, element = self.emitter, node.array_type.dtype
        factor, offset = self.pair.counters[node.attributes["index"]]
        slot = emitter.convert(self.pair.read_slot, element)
        return emitter.add(emitter.mul(slot, emitter.constant(factor, element)), emitter.constant(offset, element))

    def _slice(self, stack: Node, node: Node) -> Node:
        emitter, value = self.emitter, node.array_type
        corner = [emitter.constant(0, self.pair.read_slot.array_type.dtype)] * value.rank
        sizes = (1, *value.dims)
        row = emitter.op("dynamic-slice", stack, self.pair.read_slot, *corner, dynamic_slice_sizes=sizes)
        return emitter.reshape(row, value.dims)
