"""Inserts copies that separate values which would otherwise share a buffer: loop states, branch results, overwritten
operands, and donated parameters.

All are added first, and those removed that are not needed whatever the schedule (`copy_remover.py`). Follows
`AddCopiesForWhile`, `CopyInsertion::AddCopiesForConditional`, `AddCopiesForInPlaceOperation` and
`AddCopiesForAliasedInputOutputs` (xla/service/copy_insertion.cc). XLA inserts copies before it schedules, so a copy
stays unless dependences alone order the reads first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from hloom.analysis import AliasInfo, flow_of, instruction_post_order, is_control_flow
from hloom.ir import Apply, Graph, Module, Node, Parameter, TensorType, TupleType
from hloom.ops import OPS
from hloom.targets.cpu.copy_remover import InsertedCopies, removable_copies
from hloom.targets.cpu.dependency_order import branch_computations

MAX_FORWARDS = 1000
"""The maximum number of forwarding instructions to follow for an element of a loop's state; beyond it, the element
counts as changed.
"""


def insert_copies(module: Module, fused: Mapping[Graph, Collection[Node]]) -> None:
    """Add the copies that are needed around loops, branches, instructions that write over operands, and donations."""
    insertion = _CopyInsertion(fused)
    graphs = [graph for graph in module.graphs if graph is module.entry or _is_run(graph)]
    for graph in graphs:
        for node in instruction_post_order(graph):
            if isinstance(node, Apply) and node not in fused.get(graph, ()):
                insertion.add_copies(node)
    insertion.copy_donated(module)
    copies = insertion.copies
    positions = {graph: position for position, graph in enumerate(graphs)}
    copies.order.sort(key=lambda copy: positions[copy.graph])
    _remove(removable_copies(module, fused, copies))


def has_all_copies(module: Module) -> bool:
    """Whether `insert_copies` knows all loops and branches of a module, so that what shares a buffer then may."""
    rows = {node.opcode: flow_of(node) for graph in module.graphs for node in graph.nodes}
    return all(
        flow is None or not (flow.is_loop or flow.is_branch) or opcode in ("while", "conditional")
        for opcode, flow in rows.items()
    )


def _remove(copies: Sequence[Node]) -> None:
    """Let the readers of copies read what these copy."""
    removed = dict.fromkeys(copies)
    for copy in copies:
        if copy.attributes:
            copy.graph.set_attributes(copy, {})
    users = {user: None for copy in copies for user in copy.users if user not in removed}
    for user in users:
        inputs = tuple(_copied(operand, removed) for operand in user.operands)
        if inputs != tuple(user.operands):
            user.graph.set_operands(user, inputs)
        predecessors = user.attributes.get("control-predecessors") or ()
        if user.opcode == "copy" and not removed.keys().isdisjoint(predecessors):
            user.graph.set_attributes(user, {})
    for graph in dict.fromkeys(copy.graph for copy in copies):
        if graph.output in removed:
            graph.set_output(_copied(graph.output, removed))
        for node in reversed(graph.nodes):
            if node in removed:
                graph.erase(node)


def _copied(value: Node, removed: Mapping[Node, None]) -> Node:
    """What is behind copies that are removed."""
    while value in removed:
        value = value.operands[0]
    return value


def _is_run(graph: Graph) -> bool:
    """Whether a computation runs in its caller's place, with buffers of its own."""
    return bool(graph.callers) and all(is_control_flow(caller) for caller in graph.callers)


class _CopyInsertion:
    """The copies added so far."""

    def __init__(self, fused: Mapping[Graph, Collection[Node]]) -> None:
        self.fused = fused
        self.copies = InsertedCopies()
        self.alias_info = AliasInfo()

    def add_copies(self, node: Apply) -> None:
        """Add the copies around one instruction."""
        if node.opcode == "while":
            self._copy_state(node)
        elif node.opcode == "conditional":
            self._copy_results(node)
        elif not is_control_flow(node):
            self._copy_overwritten(node)

    def _copy(self, value: Node, before: Node, predecessor: Node | None = None) -> Apply:
        attributes = {} if predecessor is None else {"control-predecessors": (predecessor,)}
        copy = before.graph.add_apply(OPS["copy"], (value,), value.type, attributes, before=before)
        self._note(copy, predecessor)
        return copy

    def _copy_state(self, loop: Apply) -> None:
        """Copy what changes of a loop's state: at the start, where the body takes it and where it yields it."""
        body, initial = loop.attributes["body"], loop.operands[0]
        if initial.opcode != "tuple" or not body.is_called_once or len(body.parameters) != 1:
            return
        parameter = body.parameters[0]
        root = _root_tuple(body)
        if root is None or any(user.opcode != "get-tuple-element" for user in parameter.users):
            return
        changed = [
            index
            for index, element in enumerate(root.operands)
            if isinstance(element.type, TensorType) and not _is_forwarded(element, parameter, index)
        ]
        if not changed:
            return
        graph = loop.graph
        elements = list(initial.operands)
        for index in changed:
            elements[index] = self.copies.initial[loop, index] = self._copy(elements[index], loop)
        graph.set_operands(loop, (graph.add_apply(OPS["tuple"], elements, initial.type, before=loop),))
        following = dict(pairwise(body.nodes))
        taken = {index: self._copy_taken(parameter, index, following) for index in changed}
        yielded = list(root.operands)
        for index in changed:
            copy = self._copy(yielded[index], root, taken[index])
            yielded[index] = self.copies.yielded[loop, index] = copy
        body.set_operands(root, yielded)

    def _copy_taken(self, parameter: Parameter, index: int, following: Mapping[Node, Node]) -> Node | None:
        """Copy an element of the state that a body takes; None where the body does not read it."""
        graph = parameter.graph
        elements = [user for user in parameter.users if user.attributes["index"] == index]
        if not elements:
            return None
        first = min(elements, key=graph.nodes.index) if len(elements) > 1 else elements[0]
        for element in elements:
            if element is not first:
                graph.replace_uses(element, first)
        copy = self._copy(first, following[first])
        graph.replace_uses(first, copy)
        graph.set_operands(copy, (first,))
        return copy

    def _copy_results(self, conditional: Apply) -> None:
        """Copy what the branches of a conditional yield, where it is not one value in all of them."""
        branches = branch_computations(conditional)
        if not all(branch.is_called_once and branch.output is not None for branch in branches):
            return
        result = conditional.type
        copies = self.copies.branches[conditional] = {}
        if not isinstance(result, TupleType):
            copies[0] = [self._copy_root(branch) for branch in branches]
            return
        roots = [_root_tuple(branch) for branch in branches]
        for index, element in enumerate(result.elements):
            yielded = [root.operands[index] for root in roots if root is not None]
            if not isinstance(element, TensorType) or len(yielded) < len(roots):
                continue
            origins = {_outside(value, conditional) for value in yielded}
            if len(origins) == 1 and None not in origins:
                continue
            copies[index] = []
            for root in roots:
                assert root is not None
                copy = self._copy(root.operands[index], root)
                inputs = [copy if position == index else value for position, value in enumerate(root.operands)]
                root.graph.set_operands(root, inputs)
                copies[index].append(copy)

    def _copy_root(self, graph: Graph, predecessor: Node | None = None) -> Node:
        assert graph.output is not None
        attributes = {} if predecessor is None else {"control-predecessors": (predecessor,)}
        copy = graph.add_apply(OPS["copy"], (graph.output,), graph.output.type, attributes)
        self._note(copy, predecessor)
        graph.set_output(copy)
        return copy

    def _note(self, copy: Node, predecessor: Node | None) -> None:
        self.copies.order.append(copy)
        if predecessor is not None:
            self.copies.predecessors[copy] = [predecessor]

    def _copy_overwritten(self, node: Apply) -> None:
        """Copy the operands that an instruction writes its results over."""
        inputs = list(node.operands)
        for pair in self.alias_info.pairs(node):
            operand = inputs[pair.operand] if pair.operand < len(inputs) else None
            if operand is None or pair.operand_index or not isinstance(operand.type, TensorType):
                continue
            if operand in self.fused.get(node.graph, ()):
                continue
            inputs[pair.operand] = self._copy(operand, node)
            self.copies.in_place.setdefault(node, []).append((pair.operand, inputs[pair.operand]))
        if inputs != list(node.operands):
            node.graph.set_operands(node, inputs)

    def copy_donated(self, module: Module) -> None:
        """Copy donated parameters, and the outputs that take their place."""
        entry, root = module.entry, module.entry.output
        aliases = module.attributes.get("input_output_alias") or ()
        parameters = {parameter.number: parameter for parameter in entry.parameters}
        first = next((node for node in entry.nodes if not isinstance(node, Parameter)), None)
        plain = [alias for alias in aliases if not alias.parameter_index and alias.parameter in parameters]
        plain = [alias for alias in plain if isinstance(parameters[alias.parameter].type, TensorType)]
        if root is None or first is None or not plain:
            return
        taken = {alias.parameter: self._copy_parameter(parameters[alias.parameter], first) for alias in plain}
        root_tuple = _root_tuple(entry)
        outputs = list(root_tuple.operands) if root_tuple is not None else []
        for alias in plain:
            parameter, predecessor = parameters[alias.parameter], taken[alias.parameter]
            if not alias.output_index and root_tuple is None:
                self.copies.donated[parameter] = self._copy_root(entry, predecessor)
            elif root_tuple is not None and len(alias.output_index) == 1:
                index = alias.output_index[0]
                outputs[index] = self.copies.donated[parameter] = self._copy(outputs[index], root_tuple, predecessor)
        if root_tuple is not None:
            entry.set_operands(root_tuple, outputs)

    def _copy_parameter(self, parameter: Parameter, first: Node) -> Node:
        copy = self._copy(parameter, first)
        parameter.graph.replace_uses(parameter, copy)
        parameter.graph.set_operands(copy, (parameter,))
        return copy


def _root_tuple(graph: Graph) -> Apply | None:
    """The tuple that a computation yields, taken apart and put together again where it is made elsewhere."""
    root = graph.output
    if root is None or not isinstance(root.type, TupleType):
        return None
    if isinstance(root, Apply) and root.opcode == "tuple":
        return root
    elements = [
        graph.add_apply(OPS["get-tuple-element"], (root,), element, {"index": index})
        for index, element in enumerate(root.type.elements)
    ]
    made = graph.add_apply(OPS["tuple"], elements, root.type)
    graph.set_output(made)
    return made


def _is_forwarded(value: Node, parameter: Parameter, index: int) -> bool:
    """Whether a body yields an element of its state as it takes it, inner loops included."""
    origin = _origin(value)
    return (
        origin.opcode == "get-tuple-element" and origin.operands[0] is parameter and origin.attributes["index"] == index
    )


def _origin(value: Node) -> Node:
    """Where an element of the state of loops comes from that all of them leave as it is."""
    for _ in range(MAX_FORWARDS):
        if value.opcode != "get-tuple-element" or value.operands[0].opcode != "while":
            break
        loop, index = value.operands[0], value.attributes["index"]
        body = loop.attributes["body"]
        root = body.output
        if root is None or root.opcode != "tuple" or not body.parameters or loop.operands[0].opcode != "tuple":
            break
        inner = root.operands[index]
        is_kept = inner.opcode == "get-tuple-element" and inner.operands[0] is body.parameters[0]
        if not is_kept or inner.attributes["index"] != index:
            break
        value = loop.operands[0].operands[index]
    return value


def _outside(value: Node, conditional: Apply) -> Node | None:
    """The operand, or its element, that a branch yields as it is; None for what it computes."""
    value = _origin(value)
    path: list[int] = []
    while value.opcode == "get-tuple-element":
        path.append(value.attributes["index"])
        value = value.operands[0]
    branches = branch_computations(conditional)
    if not isinstance(value, Parameter) or value.graph not in branches:
        return None
    operand = conditional.operands[1 + branches.index(value.graph)]
    for index in reversed(path):
        if operand.opcode != "tuple":
            return None
        operand = operand.operands[index]
    return operand
