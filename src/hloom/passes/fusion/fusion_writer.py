"""Writes kernels as HLO: a `fusion` that calls a computation of the kernel's instructions.

a = tanh(x); b = negate(a)   ->   fused = fusion(x), kind=kLoop, calls=fused_computation; b = get-tuple-element(fused)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.analysis import OVERWRITTEN, VIEWS
from hloom.ir import Apply, Constant, Graph, Module, Node, TensorType, TupleType
from hloom.ops import OPS, PRODUCTS
from hloom.passes import sort_topologically
from hloom.passes.fusion.horizontal_fusion import add_slices
from hloom.passes.fusion.in_place_update import reads_itself
from hloom.passes.fusion.kernel_model import CARRIED, READ, Kernel, KernelModel

LEAST_MEMBERS = 2
"""A kernel of fewer instructions, views aside, stays as it is, unless told otherwise."""
WRAPPED = {"scatter": 3, "reduce-window": 2}
"""Instructions of one array that are a fusion each where all kernels are, and how many operands they have."""


class FusionWriter:
    """Puts fusions in place of the kernels of one computation."""

    def __init__(self, module: Module, model: KernelModel, least: int = LEAST_MEMBERS) -> None:
        self.module = module
        self.least = least
        self.model = model
        self.graph = model.graph
        self._results: dict[Node, Node] = {}

    def write(self, kernels: Sequence[Kernel]) -> int:
        """Write the kernels with more than one instruction as fusions; returns how many."""
        count = self._write_kernels([kernel for kernel in kernels if self._is_worth_it(kernel)])
        return count + (self._wrap_others() if self.least == 1 else 0)

    def _write_kernels(self, worth: Sequence[Kernel]) -> int:
        if not worth:
            return 0
        graphs = self.module.graphs
        known = len(graphs)
        needed = [self._needed(kernel) for kernel in worth]
        fused = [self._fused(kernel) for kernel in needed]
        made = graphs[known:]
        del graphs[known:]
        position = graphs.index(self.graph)
        graphs[position:position] = made
        for kernel, computation in zip(needed, fused, strict=True):
            self._put(kernel, computation)
        members = {self.model.nodes[number] for kernel in worth for number in kernel.members}
        self._replace_uses(members)
        inside = {number for kernel in worth for number in (*kernel.members, *self._immediates(kernel))}
        for number in sorted(inside, reverse=True):
            if not self.model.nodes[number].is_used:
                self.graph.erase(self.model.nodes[number])
        sort_topologically(self.graph)
        return len(worth)

    def _wrap_others(self) -> int:
        """Wrap each instruction that the kernel model excludes but XLA's emitters accept in a fusion; returns how many.

        Elsewhere XLA's CPU client takes no scatters, and emits windows far slower (xla/service/cpu/fusion_wrapper.cc).
        """
        nodes = [node for node in self.graph.nodes if isinstance(node, Apply) and node.opcode in WRAPPED]
        nodes = [
            node for node in nodes if len(node.operands) == WRAPPED[node.opcode] and CARRIED.isdisjoint(node.attributes)
        ]
        for node in nodes:
            if node.opcode in OVERWRITTEN:
                self._separate(node)
        for node in nodes:
            graphs = self.module.graphs
            computation = self.module.add_graph(f"wrapped_{node.opcode}_computation")
            graphs.insert(graphs.index(self.graph), graphs.pop())
            operands = list(dict.fromkeys(node.operands))
            mapping: dict[Any, Any] = {
                operand: computation.add_parameter(operand.type, f"param_{number}")
                for number, operand in enumerate(operands)
            }
            computation.copy_nodes([node], mapping)
            computation.set_output(mapping[node])
            attributes, metadata = {"kind": "kLoop", "calls": computation}, node.raw_metadata
            fusion = self.graph.add_apply(
                OPS["fusion"], operands, node.type, attributes, f"wrapped_{node.opcode}", before=node, metadata=metadata
            )
            self.graph.replace_uses(node, fusion)
            self.graph.erase(node)
        return len(nodes)

    def _separate(self, node: Apply) -> None:
        """Copy the array for an in-place update that also reads it elsewhere."""
        array = node.operands[0]
        if not reads_itself(node):
            return
        own = self.graph.add_apply(OPS["copy"], [array], array.type, before=node)
        self.graph.set_operands(node, [own, *node.operands[1:]])

    def _is_worth_it(self, kernel: Kernel) -> bool:
        nodes = self.model.nodes
        return sum(nodes[number].opcode not in VIEWS for number in kernel.members) >= self.least

    def _needed(self, kernel: Kernel) -> Kernel:
        """The kernel without what nothing in it uses: XLA refuses such instructions in a fusion."""
        needed = set(kernel.roots)
        for number in reversed(kernel.members):
            if number in needed:
                needed.update(edge.operand for edge in self.model.edges[number] if edge.mode != READ)
        return Kernel(kernel.roots, tuple(number for number in kernel.members if number in needed))

    def _fused(self, kernel: Kernel) -> Graph:
        """The computation of a kernel."""
        nodes = self.model.nodes
        graph = self.module.add_graph("fused_computation")
        mapping: dict[Any, Any] = {}
        for number in self._parameters(kernel):
            mapping[nodes[number]] = graph.add_parameter(nodes[number].type, f"param_{len(graph.parameters)}")
        copied = [*self._immediates(kernel), *kernel.members]
        graph.copy_nodes([nodes[number] for number in copied], mapping)
        roots = [mapping[nodes[root]] for root in kernel.roots]
        if self._is_sliced(kernel):
            slices = add_slices(self.model, kernel, graph, mapping)
            roots = [slices[root] for root in kernel.roots]
        if len(roots) > 1:
            result = TupleType([root.type for root in roots if root.type is not None])
            graph.set_output(graph.add_apply(OPS["tuple"], roots, result))
        else:
            graph.set_output(roots[0])
        return graph

    def _parameters(self, kernel: Kernel) -> list[int]:
        """A kernel's parameters: everything it reads, except scalar constants, which are copied into it."""
        return [number for number in self.model.reads(kernel) if not self._is_immediate(self.model.nodes[number])]

    def _immediates(self, kernel: Kernel) -> list[int]:
        return [number for number in self.model.reads(kernel) if self._is_immediate(self.model.nodes[number])]

    def _is_immediate(self, node: Node) -> bool:
        is_array = isinstance(node.type, TensorType) and node.type.element_count == 1
        return isinstance(node, Constant) and is_array and not node.attributes and not node.called_graphs

    def _put(self, kernel: Kernel, fused: Graph) -> None:
        """Put a fusion in place of a kernel's results."""
        model, graph = self.model, self.graph
        nodes = [model.nodes[root] for root in kernel.roots]
        last = nodes[-1]
        has_product = any(model.nodes[number].opcode in PRODUCTS for number in kernel.members)
        has_reduction = any(model.is_input_root(root) for root in kernel.roots)
        is_input = has_reduction or model.is_tiled(kernel) or self._is_sliced(kernel)
        attributes = {"kind": model.target.fusion_kind(is_input, has_product), "calls": fused}
        operands = [model.nodes[number] for number in self._parameters(kernel)]
        metadata = last.raw_metadata
        fusion = graph.add_apply(
            OPS["fusion"], operands, fused.root.type, attributes, _name(nodes), before=last, metadata=metadata
        )
        for position, node in enumerate(nodes):
            result: Node = fusion
            if len(nodes) > 1:
                assert isinstance(fusion.type, TupleType), "a fusion of several results yields a tuple"
                result = graph.add_apply(
                    OPS["get-tuple-element"], [fusion], fusion.type.elements[position], {"index": position},
                    before=last, metadata=node.raw_metadata,
                )  # fmt: skip
            if result.type != node.type:
                result = graph.add_apply(OPS["bitcast"], [result], node.type, before=last)
            self._results[node] = result

    def _is_sliced(self, kernel: Kernel) -> bool:
        """Whether a kernel iterates over loops of different dimensions."""
        return self.model.kernel_key(kernel.roots) is None

    def _replace_uses(self, members: set[Node]) -> None:
        """Redirect readers of a kernel's results, other than its own instructions, to the fusion's results."""
        graph, results = self.graph, self._results
        for user in dict.fromkeys(user for node in results for user in node.users if user not in members):
            graph.set_operands(user, [results.get(operand, operand) for operand in user.operands])
            if user.attributes.refers:
                graph.set_attributes(user, user.attributes.mapped(results))
        if graph.output in results:
            graph.set_output(results[graph.output])


def _name(roots: Sequence[Node]) -> str:
    opcodes = [root.opcode for root in roots]
    return f"{opcodes[0]}_fusion" if len(opcodes) == 1 else "fusion"
