"""The instructions of a module as numbers, with their operands and users after looking through calls.

A fusion, a call of a computation that nothing else calls, the parameters inside, and copies only pass values on. An
instruction so has the same operands and users whether it stands in a fusion, behind a call, or in the open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from hloom.analysis import flow_of
from hloom.ir import Apply, Constant, Graph, Module, Node, Parameter

DONE, START = "-done", "-start"
ENTRY_OUTPUT = -1
"""The user of the entry's root, as an operand index of nobody."""


@dataclass(slots=True)
class Edges:
    """Operands and users by number; a user comes with the operand index, and an operand of a call may be a root.

    The roots of called computations stand behind the operands. `order` has operands before users.
    """

    operands: list[tuple[int, ...]]
    users: list[list[tuple[int, int]]] = field(default_factory=list)
    order: list[int] = field(default_factory=list)


class ValueGraph:
    """A module's instructions in order, and whose value each of them is (`target`)."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.nodes: list[Node] = [
            node for graph in (*module.graphs, *module.declared) for node in (*graph.missing, *graph.nodes)
        ]
        self.number: dict[Node, int] = {node: number for number, node in enumerate(self.nodes)}
        self.caller: dict[Graph, Node] = _only_callers(self.nodes)
        self.target: list[int] = self._targets()
        self.is_forwarding: list[bool] = [target != number for number, target in enumerate(self.target)]
        for graph in self.caller:
            if graph.output is not None and graph.output.opcode == "tuple" and graph.output in self.number:
                self.is_forwarding[self.number[graph.output]] = True

    def values(self) -> Edges:
        """What computes values: operands and users as they are once calls are looked into."""
        return self._edges(self.value_operands, [not forwarding for forwarding in self.is_forwarding])

    @cached_property
    def value_operands(self) -> list[tuple[int, ...]]:
        """The operands of each instruction once calls are looked into, then the roots of what it calls."""
        target, number = self.target, self.number
        operands = [
            tuple([target[number[operand]] for operand in node.operands])
            + tuple([target[number[graph.output]] for graph in node.called_graphs if graph.output is not None])
            if node.attributes.refers or node.operands
            else ()
            for node in self.nodes
        ]
        for index, node in enumerate(self.nodes):
            if self.is_forwarding[index] and isinstance(node, Parameter):
                operands[index] = (target[index],)
        return operands

    def instructions(self) -> Edges:
        """All instructions, with the operands that are written, and the roots of what they call."""
        number = self.number
        operands = [
            tuple([number[operand] for operand in node.operands])
            + tuple([number[graph.output] for graph in node.called_graphs if graph.output is not None])
            for node in self.nodes
        ]
        for graph, caller in self.caller.items():
            for parameter, operand in zip(graph.parameters, caller.operands, strict=False):
                operands[number[parameter]] = (number[operand],)
        return self._edges(operands, [True] * len(self.nodes))

    def own_graphs(self) -> list[Graph | None]:
        """The computation of each instruction, where it computes a value of the entry's; None in loops and reducers."""
        looked_into = {graph for graph in self.module.graphs if graph in self.caller or self.module.is_entry(graph)}
        return [node.graph if node.graph in looked_into else None for node in self.nodes]

    def _edges(self, operands: list[tuple[int, ...]], counted: list[bool]) -> Edges:
        users: list[list[tuple[int, int]]] = [[] for _ in self.nodes]
        for number, used in enumerate(operands):
            if counted[number]:
                for index, operand in enumerate(used):
                    users[operand].append((number, index))
        order = [number for number in _operands_first(operands) if counted[number]]
        return Edges(operands, users, order)

    def _targets(self) -> list[int]:
        """The instruction that computes the value of each: itself, or what it only passes on."""
        unknown = -1
        target = [unknown] * len(self.nodes)
        opened = [False] * len(self.nodes)
        pending: list[int] = []
        for start in range(len(self.nodes)):
            pending.append(start)
            while pending:
                number = pending[-1]
                if target[number] != unknown:
                    pending.pop()
                    continue
                source = self._source(number, target)
                if source is None or (opened[number] and target[source] == unknown and opened[source]):
                    target[number] = number  # it computes its value, or passes it on to itself in a malformed module
                elif target[source] == unknown:
                    opened[number] = True
                    pending.append(source)
                    continue
                elif self._is_element(number, source, target):
                    target[number] = target[source]
                else:
                    target[number] = number
                pending.pop()
        return target

    def _is_element(self, number: int, source: int, target: list[int]) -> bool:
        node = self.nodes[number]
        if node.opcode != "get-tuple-element":
            return True
        return self.number[node.operands[0]] != source or self.nodes[target[source]].opcode == "tuple"

    def _source(self, number: int, target: list[int]) -> int | None:
        """The instruction whose value this one passes on; None where it computes one."""
        node = self.nodes[number]
        if isinstance(node, Parameter):
            caller = self.caller.get(node.graph)
            if caller is None or node.number >= len(caller.operands):
                return None
            return self.number[caller.operands[node.number]]
        if not node.operands or not isinstance(node, Apply):
            return self._root(node)
        opcode = node.opcode
        if opcode == "get-tuple-element":
            source = self.number[node.operands[0]]
            tuple_node = self.nodes[target[source]] if target[source] >= 0 else None
            index = node.attributes.get("index")
            if tuple_node is not None and tuple_node.opcode == "tuple" and isinstance(index, int):
                return self.number[tuple_node.operands[index]] if 0 <= index < len(tuple_node.operands) else None
            return source
        if opcode == "copy":
            return self.number[node.operands[0]]
        if opcode == "async-done":
            start = node.operands[0]
            root = self._root(start)
            return self.number[start] if root is None else root
        if opcode.endswith(DONE):
            return self.number[node.operands[0]]
        return None if opcode == "async-start" else self._root(node)

    def _root(self, node: Node) -> int | None:
        """The root of the one computation that a node calls in its place, and nothing else calls."""
        called = node.called_graphs if node.attributes.refers and _passes_values(node) else ()
        if len(called) != 1 or self.caller.get(called[0]) is not node or called[0].output is None:
            return None
        return self.number.get(called[0].output)


def _passes_values(node: Node) -> bool:
    flow = flow_of(node)
    return flow is not None and (flow.is_embedded or flow.is_plain_call or node.opcode == "async-start")


def _only_callers(nodes: list[Node]) -> dict[Graph, Node]:
    """The fusions, calls and asynchronous starts that alone call a computation, by computation."""
    counts: dict[Graph, int] = {}
    callers: dict[Graph, Node] = {}
    for node in nodes:
        if not node.attributes.refers and not isinstance(node, Constant):
            continue
        for graph in node.called_graphs:
            counts[graph] = counts.get(graph, 0) + 1
            if _passes_values(node):
                callers[graph] = node
    return {graph: node for graph, node in callers.items() if counts[graph] == 1 and not graph.module.is_entry(graph)}


def _operands_first(operands: list[tuple[int, ...]]) -> list[int]:
    """All numbers, operands before users; what leads back to itself stands anywhere."""
    order: list[int] = []
    is_open = [False] * len(operands)
    is_done = [False] * len(operands)
    pending: list[int] = []
    for start in range(len(operands)):
        pending.append(start)
        while pending:
            number = pending[-1]
            if is_open[number]:
                pending.pop()
                if not is_done[number]:
                    is_done[number] = True
                    order.append(number)
                continue
            is_open[number] = True
            pending += [operand for operand in operands[number] if not is_open[operand]]
    return order
