"""Rewrites programs to hold caches in a narrow type: rows are quantised when written, dequantised when read.

k = f32[2,32,4,16] parameter(1)                          k = s8[2,32,4,16] parameter(1)
k1 = dynamic-update-slice(k, row, 0, i, 0, 0)       ->   k1 = dynamic-update-slice(k, q(row), 0, i, 0, 0)
scores = dot(queries, k1)                                s1 = dynamic-update-slice(k.scale, scale(row), 0, i, 0, 0)
ROOT t = tuple(scores, k1)                               scores = dot(queries, k1 * s1)
                                                         ROOT t = tuple(scores, k1, s1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hloom.analysis import called_computations, is_branch, is_loop
from hloom.compress.quantization.arithmetic import scale_dims
from hloom.compress.quantization.cache_flow import (
    BARRIER,
    GET,
    TUPLE,
    CacheFlow,
    CacheSlot,
    bases_of,
    is_write,
    rows_of,
)
from hloom.compress.quantization.insertion_point import InsertionPoint, packed, replace_node
from hloom.compress.quantization.kv_cache import CacheLayout, row_blocks
from hloom.compress.quantization.quantized_value import SCALE, QuantizedValue, dequantize, move
from hloom.compress.quantization.row_quantization import quantize_in_program
from hloom.ir import Apply, DType, Graph, Module, Node, SliceDimension, TensorType, TupleType, Type
from hloom.ops import OPS
from hloom.passes import widen_loop, wider_attributes


class CacheRewriter:
    """Rewrites a module, graph by graph in the order of its instructions.

    `values` are the narrow values so far; `flow` says which should be. `seeds` are the parameters that are narrow
    already.
    """

    def __init__(self, module: Module, flow: CacheFlow[CacheLayout], seeds: Mapping[Node, QuantizedValue]) -> None:
        self.module = module
        self.flow = flow
        self.values: dict[Node, QuantizedValue] = dict(seeds)
        self.outputs: dict[int, int] = {}
        """For each result that is a cache, the number of the result with its scales."""
        self._dequantized: dict[Node, Node] = {}
        self._assignments: dict[DType, Graph] = {}
        self._slots: dict[Node, list[CacheSlot]] = {}
        for slot in flow.slots:
            self._slots.setdefault(slot.holder, []).append(slot)

    def rewrite(self, outputs: Sequence[int]) -> None:
        """Rewrite all that the entry reaches; results with these numbers stay narrow."""
        self._graph(self.module.entry)
        self._finish_entry(outputs)

    def _graph(self, graph: Graph) -> None:
        for node in graph.nodes:
            if not isinstance(node, Apply) or node in self.values:
                continue
            if node.opcode != TUPLE:
                self._instruction(node)
            elif not node.is_output and not any(_passes_on(user) for user in node.users):
                self._tuple(node, ())

    def _instruction(self, node: Apply) -> None:
        if _passes_on(node):
            self._holder(node, self._slots.get(node, []))
            return
        layout = self.flow.known.get(node)
        if layout is None:
            self._reader(node)
        elif is_write(node):
            self._write(node, layout)
        elif node.opcode != GET:
            self._move(node)

    def _reader(self, node: Apply) -> None:
        """Dequantise the narrow operands of an instruction."""
        if any(operand in self.values for operand in node.operands):
            node.graph.set_operands(node, [self._wide(operand, node) for operand in node.operands])

    def _wide(self, operand: Node, user: Node) -> Node:
        """An operand in its own type; `user` is the first to want it, or stands behind the first."""
        if operand not in self.values:
            return operand
        if operand not in self._dequantized:
            self._dequantized[operand] = dequantize(self.values[operand], user)
        return self._dequantized[operand]

    def _narrow(self, node: Node, layout: CacheLayout, blocks: tuple[int, ...], before: Node) -> QuantizedValue:
        """A value in its narrow type, quantised in front of an instruction if it is not narrow."""
        held = self.values.get(node)
        if held is not None and held.blocks[SCALE] == blocks and held.node.array_type.dtype is _element(layout):
            return held
        wide = node if held is None else dequantize(held, before)
        return quantize_in_program(wide, layout.format.number_format, blocks, before)

    def _move(self, node: Apply) -> None:
        source = self.values[node.operands[0]]
        made = move(source, node)
        assert made is not None, "its layout was followed"
        replace_node(node, made.node)
        self.values[made.node] = made

    def _write(self, node: Apply, layout: CacheLayout) -> None:
        graph, point = node.graph, InsertionPoint(node.graph, node)
        type_ = node.array_type.with_layout(None)
        values, scales = list(node.operands), list(node.operands)
        for operand_index in (*bases_of(node), *rows_of(node)):
            is_base = operand_index in bases_of(node)
            blocks = layout.blocks if is_base else row_blocks(node, operand_index, layout.blocks)
            held = self._narrow(node.operands[operand_index], layout, blocks, node)
            values[operand_index], scales[operand_index] = held.node, held.companions[SCALE]
        attributes = dict(node.attributes)
        if node.opcode == "select":
            scales[0] = _chosen_once(point, node.operands[0], layout.blocks)
        scale_type = scales[1 if node.opcode == "select" else 0].array_type
        made = TensorType(scale_type.dtype, scale_dims(type_.dims, layout.blocks))
        if node.opcode == "scatter":
            attributes["to_apply"] = self._assignment(scale_type.dtype)
            graph.set_attributes(node, node.attributes.changed(to_apply=self._assignment(_element(layout))))
        scale = graph.add_apply(
            node.op, scales, made, attributes, f"{node.name}.{SCALE}", before=node, metadata=node.raw_metadata
        )
        graph.set_operands(node, values)
        graph.set_type(node, packed(node.array_type.with_dtype(_element(layout))))
        self.values[node] = QuantizedValue(node, {SCALE: scale}, {SCALE: layout.blocks}, type_)

    def _assignment(self, element: DType) -> Graph:
        """A computation of two scalars that yields the second."""
        if element not in self._assignments:
            graph = self.module.add_graph(self.module.unique_graph_name("assignment"))
            scalar = TensorType(element)
            both = [graph.add_parameter(scalar, name) for name in ("old", "new")]
            graph.set_output(both[1])
            self._assignments[element] = graph
        return self._assignments[element]

    def _loop(self, loop: Apply, slots: Sequence[CacheSlot]) -> None:
        start = loop.operands[0]
        if slots:
            start = self._operand(start, slots)
            held = [self.values[start.operands[slot.index]] for slot in slots]
            width = len(start.operands)
            loop, inner = widen_loop(loop, [value.companions[SCALE] for value in held])
            body, condition = loop.attributes["body"], loop.attributes["condition"]
            for holder in (loop.operands[0], loop, body.parameters[0], body.root, condition.parameters[0]):
                self._retype(holder, slots)
            scales = dict(zip(slots, inner, strict=True))
            for number, (slot, value) in enumerate(zip(slots, held, strict=True), width):
                for name in slot.names:
                    whole = name.operands[0]
                    is_inside = whole is body.parameters[0]
                    scale = scales[slot] if is_inside else _element_of(whole, number, value, before=name)
                    self._name(name, value, scale)
        elif start.opcode == TUPLE:
            self._tuple(start, ())
        else:
            self._reader(loop)
        for graph in called_computations(loop):
            self._graph(graph)
            if graph is loop.attributes["body"]:
                self._root(graph, slots)

    def _holder(self, node: Apply, slots: Sequence[CacheSlot]) -> None:
        if node.opcode == "while":
            self._loop(node, slots)
        elif node.opcode == "conditional":
            self._conditional(node, slots)
        elif node.opcode == BARRIER and slots:
            self._pass(node.operands[0], node, slots)
        else:
            for operand in node.operands:
                if operand.opcode == TUPLE:
                    self._tuple(operand, ())
            self._reader(node)
            for graph in called_computations(node):
                self._graph(graph)
                self._root(graph, ())

    def _conditional(self, node: Apply, slots: Sequence[CacheSlot]) -> None:
        graphs = called_computations(node)
        for graph, operand in zip(graphs, node.operands[len(node.operands) - len(graphs) :], strict=True):
            own = [slot for slot in slots if slot.branch is graph]
            if own:
                self._pass(operand, graph.parameters[0], own)
            elif operand.opcode == TUPLE:
                self._tuple(operand, ())
        self._reader(node)
        yielded = [slot for slot in slots if slot.branch is None]
        held: list[QuantizedValue] = []
        for graph in graphs:
            self._graph(graph)
            held = self._root(graph, yielded)
        if yielded:
            self._yield(node, graphs[0].root, yielded, held)

    def _pass(self, operand: Node, taker: Node, slots: Sequence[CacheSlot]) -> None:
        """Give what takes a tuple the narrow values of slots in it, and their scales after all else."""
        made = self._operand(operand, slots)
        held = [self.values[made.operands[slot.index]] for slot in slots]
        self._append(made, [value.companions[SCALE] for value in held])
        self._yield(taker, made, slots, held)

    def _yield(self, node: Node, source: Node, slots: Sequence[CacheSlot], held: Sequence[QuantizedValue]) -> None:
        """Make an instruction yield its tuple's elements, followed by the scales."""
        width = len(source.operands) - len(held)
        _widen(node, source)
        for number, (slot, value) in enumerate(zip(slots, held, strict=True), width):
            for name in slot.names:
                self._name(name, value, _element_of(node, number, value, before=name))

    def _name(self, name: Node, value: QuantizedValue, scale: Node) -> None:
        name.graph.set_type(name, value.node.array_type)
        self.values[name] = QuantizedValue(name, {SCALE: scale}, value.blocks, value.type)

    def _operand(self, start: Node, slots: Sequence[CacheSlot]) -> Node:
        """A tuple that is passed on, its elements for slots narrow and the others not."""
        inputs = list(start.operands)
        self._narrow_elements(inputs, slots, start)
        start.graph.set_operands(start, inputs)
        self._tuple(start, [slot.index for slot in slots])
        return start

    def _narrow_elements(self, inputs: list[Node], slots: Sequence[CacheSlot], before: Node) -> list[QuantizedValue]:
        """Exchange the elements of a tuple for the narrow values of slots; returns these."""
        held: list[QuantizedValue] = []
        for slot in slots:
            layout = self._layout(slot)
            value = self._narrow(inputs[slot.index], layout, layout.blocks, before)
            self.values.setdefault(value.node, value)
            inputs[slot.index] = value.node
            held.append(value)
        return held

    def _layout(self, slot: CacheSlot) -> CacheLayout:
        return self.flow.slots[slot]

    def _root(self, graph: Graph, slots: Sequence[CacheSlot]) -> list[QuantizedValue]:
        """Make a body or a branch yield the narrow values of slots and, after everything else, their scales."""
        root = graph.root
        if root.opcode != TUPLE:
            if root in self.values:
                graph.set_output(dequantize(self.values[root], None))
            return []
        inputs = list(root.operands)
        held = self._narrow_elements(inputs, slots, root)
        is_body = any(slot.is_loop for slot in slots)
        if is_body:
            inputs[len(inputs) - len(slots) :] = [value.companions[SCALE] for value in held]
        graph.set_operands(root, inputs)
        kept = [slot.index for slot in slots] + list(range(len(inputs) - len(slots), len(inputs)) if is_body else ())
        self._tuple(root, kept)
        if not is_body:
            self._append(root, [value.companions[SCALE] for value in held])
        return held

    def _tuple(self, node: Node, kept: Sequence[int]) -> None:
        """Dequantise the elements of a tuple, but for some."""
        inputs = [
            dequantize(self.values[operand], node) if operand in self.values and index not in kept else operand
            for index, operand in enumerate(node.operands)
        ]
        if inputs != list(node.operands):
            node.graph.set_operands(node, inputs)
        _retype_tuple(node)

    def _append(self, node: Node, further: Sequence[Node]) -> None:
        node.graph.set_operands(node, [*node.operands, *further])
        node.graph.set_attributes(node, wider_attributes(node.attributes, len(further)))
        _retype_tuple(node)

    def _retype(self, holder: Node, slots: Sequence[CacheSlot]) -> None:
        assert isinstance(holder.type, TupleType), "a loop's state is a tuple"
        types: list[Type] = list(holder.type.elements)
        for slot in slots:
            former = types[slot.index]
            assert isinstance(former, TensorType), "caches are arrays"
            types[slot.index] = packed(former.with_dtype(_element(self._layout(slot))))
        holder.graph.set_type(holder, TupleType(types))

    def _finish_entry(self, outputs: Sequence[int]) -> None:
        entry = self.module.entry
        root = entry.root
        if root.opcode != TUPLE:
            if root not in self.values:
                return
            if not outputs:
                entry.set_output(dequantize(self.values[root], None))
                return
            root = entry.add_apply(OPS[TUPLE], [root], TupleType([root.array_type]), {})
            entry.set_output(root)
        self._tuple(root, outputs)
        width = len(root.operands)
        self._append(root, [self.values[root.operands[number]].companions[SCALE] for number in outputs])
        self.outputs = {number: width + position for position, number in enumerate(outputs)}


def _passes_on(node: Node) -> bool:
    """Whether an instruction passes a tuple on to computations, or as it is."""
    return isinstance(node, Apply) and node.has_row and (is_loop(node) or is_branch(node) or node.opcode == BARRIER)


def _element(layout: CacheLayout) -> DType:
    return layout.format.number_format.dtype


def _chosen_once(point: InsertionPoint, mask: Node, blocks: Sequence[int]) -> Node:
    """A mask with one element per block."""
    dims = mask.array_type.dims
    if not dims or all(block == 1 for block in blocks):
        return mask
    cuts = tuple(SliceDimension(0, size, block) for size, block in zip(dims, blocks, strict=True))
    return point.op("slice", mask, slice=cuts)


def _element_of(whole: Node, index: int, value: QuantizedValue, *, before: Node) -> Node:
    type_ = value.companions[SCALE].type
    return whole.graph.add_apply(OPS[GET], [whole], type_, {"index": index}, before=before)


def _widen(holder: Node, source: Node) -> None:
    """Let a node be what a tuple is that has more elements now."""
    assert isinstance(source.type, TupleType) and isinstance(holder.type, TupleType), "both are tuples"
    count = len(source.type.elements) - len(holder.type.elements)
    holder.graph.set_type(holder, source.type)
    holder.graph.set_attributes(holder, wider_attributes(holder.attributes, count))


def _retype_tuple(node: Node) -> None:
    node.graph.set_type(node, TupleType([operand.type for operand in node.operands if operand.type is not None]))
