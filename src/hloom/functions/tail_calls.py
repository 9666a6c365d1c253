"""Purely tail-recursive functions as a single `while` without a stack or a dispatch.

    f(x) = r(x) if done(x) else f(g(x))

      ->

    while not done(x): x = g(x)
    r(x)

The body is projected three times: to whether it calls again, to the arguments of that call, and to its result. Each
projection omits what it does not need, so a branch with only one relevant path is not a `conditional`. For functions
that call each other, those with a single caller are inlined first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hloom.autodiff import Emitter
from hloom.functions.stack_machine import leaves_of
from hloom.ir import Constant, Graph, Module, Node, Parameter, TensorType, Trait, TupleType, Type, dtype
from hloom.ops import OPS

PREDICATE = dtype("pred")
S32 = dtype("s32")
CHEAP = 8
"""The maximum number of scalar instructions in a branch that is always computed to find out whether it calls again."""


def lower_tail_calls(module: Module, cycle: Sequence[Graph], errors: dict[Graph, tuple[int, int, int]]) -> bool:
    """Replace the calls into a cycle of calls by loops, where all calls of the cycle are tail calls of one function.

    Whether they were. `errors` says of a function which result and which parameter hold the number of an error.
    """
    members = set(cycle)
    calls = _calls(module, members)
    entered = [function for function, nodes in calls.items() if any(node.graph not in members for node in nodes)]
    if len(entered) != 1:
        return False
    function = entered[0]
    others = [called for called in calls if called is not function]
    if any(len(calls[other]) != 1 for other in others):
        return False
    for other in others:
        (call,) = _calls(module, members)[other]
        call.graph.inline(call)
    body = _Body(module, function, members)
    leaves = body.leaves(function)
    if not body.is_tail(function, leaves):
        return False
    loop = _Loop(body, leaves, errors.get(function))
    for call in calls[function]:
        if call.graph not in members:
            loop.replace(call)
    return True


def _calls(module: Module, members: set[Graph]) -> dict[Graph, list[Node]]:
    """The `call`s of the graphs of a cycle, by what they call."""
    calls: dict[Graph, list[Node]] = {}
    for graph in module.graphs:
        for node in graph.nodes:
            if node.opcode == "call":
                for called in node.called_graphs:
                    if called in members:
                        calls.setdefault(called, []).append(node)
    return calls


Leaf = tuple[Node, int | None]
"""An output: a node, or an element of a node that yields a tuple."""


@dataclass(eq=False)
class _Body:
    """The graphs of a function that calls itself."""

    module: Module
    function: Graph
    members: set[Graph]

    def leaves(self, graph: Graph) -> list[Leaf]:
        """The elements of a graph's output."""
        root = graph.root
        if root.opcode == "tuple":
            return [_resolved(node) for node in root.operands]
        if isinstance(root.type, TupleType):
            return [(root, number) for number in range(len(root.type.elements))]
        return [_resolved(root)]

    def suspension(self, graph: Graph) -> list[Node]:
        """The nodes of a graph that call the function, or hold graphs that do."""
        return [node for node in graph.nodes if any(called in self.members for called in node.called_graphs)]

    def is_tail(self, graph: Graph, leaves: Sequence[Leaf]) -> bool:
        """Whether a graph calls the function in tail position only, when these are the results that count."""
        nodes = self.suspension(graph)
        if not nodes:
            return True
        if len(nodes) != 1 or any(node is not nodes[0] or index is None for node, index in leaves):
            return False
        node = nodes[0]
        users = [user for user in graph.nodes if node in user.operands and user is not graph.root]
        if any(user.opcode != "get-tuple-element" for user in users):
            return False
        if node.opcode == "call":
            count = len(self.leaves(self.function))
            return [index for _, index in leaves] == list(range(count))
        if node.opcode != "conditional":
            return False
        return all(self.is_tail(branch, self.demanded(branch, leaves)) for branch in node.called_graphs)

    def demanded(self, branch: Graph, leaves: Sequence[Leaf]) -> list[Leaf]:
        """The results of a branch that the leaves of the graph around need."""
        own = self.leaves(branch)
        return [own[index] for _, index in leaves if index is not None]

    def ends(self, graph: Graph) -> set[bool]:
        """How paths through a graph end: True where the function is called again, False where it returns."""
        nodes = self.suspension(graph)
        if not nodes:
            return {False}
        if nodes[0].opcode == "call":
            return {True}
        return {end for branch in nodes[0].called_graphs for end in self.ends(branch)}

    def project(
        self, graph: Graph, leaves: Sequence[Leaf], mapping: dict[Any, Any], emitter: Emitter, wanted: bool
    ) -> list[Node] | None:
        """Emit what a graph yields on paths that end as wanted: the next arguments, or the results.

        None where no path ends so.
        """
        node = self._emit_prefix(graph, mapping, emitter)
        if node is None:
            return None if wanted else [self._element(leaf, mapping, emitter) for leaf in leaves]
        if node.opcode == "call":
            if not wanted:
                return None
            return [leaf for used in node.operands for leaf in _flat(mapping[used], emitter)]
        branches = list(node.called_graphs)
        ending = [wanted in self.ends(branch) for branch in branches]
        if ending.count(True) == 1:
            position = ending.index(True)
            branch = branches[position]
            inner = {branch.parameters[0]: mapping[node.operands[position + 1]]}
            return self.project(branch, self.demanded(branch, leaves), inner, emitter, wanted)
        arms = [
            self._branch(branch, self.demanded(branch, leaves), wanted) if is_wanted else None
            for branch, is_wanted in zip(branches, ending, strict=True)
        ]
        types = next(arm.root.type for arm in arms if arm is not None)
        made = [
            arm if arm is not None else self._empty(branch, types) for arm, branch in zip(arms, branches, strict=True)
        ]
        result = self._conditional(node, made, mapping, emitter, types)
        return _flat(result, emitter)

    def again(self, graph: Graph, mapping: dict[Any, Any], emitter: Emitter) -> Node:
        """Emit whether a path through a graph calls the function again."""
        node = self._emit_prefix(graph, mapping, emitter)
        if node is None or node.opcode == "call":
            return emitter.constant(node is not None, PREDICATE)
        branches = list(node.called_graphs)
        predicate = mapping[node.operands[0]]
        if isinstance(predicate.type, TensorType) and predicate.type.dtype is PREDICATE:
            ends = [self.ends(branch) for branch in branches]
            if ends == [{True}, {False}]:
                return predicate
            if ends == [{False}, {True}]:
                return emitter.elementwise("not", predicate)
            for position, other in ((0, 1), (1, 0)):
                if len(ends[position]) == 1 and self._is_cheap(branches[other]):
                    inner = {branches[other].parameters[0]: mapping[node.operands[other + 1]]}
                    rest = self.again(branches[other], inner, emitter)
                    holds = predicate if position == 0 else emitter.elementwise("not", predicate)
                    if True in ends[position]:
                        return emitter.elementwise("or", holds, rest)
                    return emitter.elementwise("and", emitter.elementwise("not", holds), rest)
        made: list[Graph] = []
        for branch in branches:
            target, inner_emitter, inner = self._copy_of(branch)
            target.set_output(self.again(branch, inner, inner_emitter))
            made.append(target)
        return self._conditional(node, made, mapping, emitter, TensorType(PREDICATE))

    def _is_cheap(self, branch: Graph) -> bool:
        nodes = [node for node in branch.nodes if not isinstance(node, Constant) and not node.has_trait(Trait.TUPLE)]
        if len(nodes) > CHEAP:
            return False
        return all(
            isinstance(node, Parameter)
            or (node.opcode == "conditional" and all(map(self._is_cheap, node.called_graphs)))
            or (not node.called_graphs and isinstance(node.type, TensorType) and not node.type.rank)
            for node in nodes
        )

    def _emit_prefix(self, graph: Graph, mapping: dict[Any, Any], emitter: Emitter) -> Node | None:
        """Copy what a graph computes before it calls again or chooses; the node that does so, or None."""
        nodes = self.suspension(graph)
        node = nodes[0] if nodes else None
        skipped: set[Node] = {node} if node is not None else set()
        copied: list[Node] = []
        for other in graph.nodes:
            if isinstance(other, Parameter):
                continue
            if other in skipped or any(used in skipped for used in other.operands):
                skipped.add(other)
            else:
                copied.append(other)
        emitter.graph.copy_nodes(copied, mapping)
        return node

    def _element(self, leaf: Leaf, mapping: dict[Any, Any], emitter: Emitter) -> Node:
        node, index = leaf
        return mapping[node] if index is None else emitter.element(mapping[node], index)

    def _copy_of(self, branch: Graph) -> tuple[Graph, Emitter, dict[Any, Any]]:
        target = self.module.add_graph(self.module.unique_graph_name(branch.name))
        (parameter,) = branch.parameters
        assert parameter.type is not None
        return target, Emitter(target), {parameter: target.add_parameter(parameter.type, parameter.name)}

    def _branch(self, branch: Graph, leaves: Sequence[Leaf], wanted: bool) -> Graph:
        target, emitter, mapping = self._copy_of(branch)
        outputs = self.project(branch, leaves, mapping, emitter, wanted)
        assert outputs is not None
        target.set_output(emitter.tuple(outputs))
        return target

    def _empty(self, branch: Graph, result: Type | None) -> Graph:
        """A branch that is never taken."""
        target, emitter, _ = self._copy_of(branch)
        assert isinstance(result, TupleType)
        target.set_output(emitter.tuple([emitter.zeros(element) for element in result.elements]))
        return target

    def _conditional(
        self, node: Node, branches: Sequence[Graph], mapping: dict[Any, Any], emitter: Emitter, result: Any
    ) -> Node:
        table: dict[Any, Any] = dict(zip(node.called_graphs, branches, strict=True))
        inputs = [mapping[used] for used in node.operands]
        return emitter.graph.add_apply(OPS["conditional"], inputs, result, node.attributes.mapped(table))


class _Loop:
    """The loop of a function whose calls of itself are tail calls."""

    def __init__(self, body: _Body, leaves: Sequence[Leaf], error: tuple[int, int, int] | None) -> None:
        self.body = body
        self.leaves = leaves
        self.error = error
        module, function = body.module, body.function
        self.types = [leaf for parameter in function.parameters for leaf in leaves_of(parameter.type)]
        state = TupleType(self.types)
        self.condition = module.add_graph(module.unique_graph_name(f"{function.name}_again"))
        emitter = Emitter(self.condition)
        elements = self._elements(self.condition.add_parameter(state, "state"), emitter)
        goes_on = body.again(function, self._mapping(elements, emitter), emitter)
        if error is not None:
            is_right = emitter.compare("EQ", elements[error[1]], emitter.constant(0, S32))
            goes_on = emitter.elementwise("and", goes_on, is_right)
        self.condition.set_output(goes_on)
        self.step = module.add_graph(module.unique_graph_name(f"{function.name}_round"))
        emitter = Emitter(self.step)
        elements = self._elements(self.step.add_parameter(state, "state"), emitter)
        outputs = body.project(function, leaves, self._mapping(elements, emitter), emitter, True)
        assert outputs is not None
        self.step.set_output(emitter.tuple(outputs))

    def _elements(self, state: Node, emitter: Emitter) -> list[Node]:
        return [emitter.element(state, number) for number in range(len(self.types))]

    def _mapping(self, elements: Sequence[Node], emitter: Emitter) -> dict[Any, Any]:
        mapping: dict[Any, Any] = {}
        rest: Iterator[Node] = iter(elements)
        for parameter in self.body.function.parameters:
            if isinstance(parameter.type, TupleType):
                mapping[parameter] = emitter.tuple([next(rest) for _ in parameter.type.elements])
            else:
                mapping[parameter] = next(rest)
        return mapping

    def replace(self, node: Node) -> None:
        """Put the loop, and the last round's result, in place of a call from outside."""
        module, graph = self.body.module, node.graph
        ending = module.add_graph(module.unique_graph_name(f"{self.body.function.name}_result"))
        emitter = Emitter(ending)
        state = TupleType(self.types)
        elements = self._elements(ending.add_parameter(state, "state"), emitter)
        outputs = self.body.project(self.body.function, self.leaves, self._mapping(elements, emitter), emitter, False)
        assert outputs is not None
        if self.error is not None:
            output, parameter, _ = self.error
            is_wrong = emitter.compare("NE", elements[parameter], emitter.constant(0, S32))
            outputs[output] = emitter.select(is_wrong, elements[parameter], outputs[output])
        ending.set_output(emitter.tuple(outputs) if isinstance(node.type, TupleType) else outputs[0])
        operands: list[Node] = []
        for used in node.operands:
            if isinstance(used.type, TupleType):
                for number, element in enumerate(used.type.elements):
                    operands.append(
                        graph.add_apply(OPS["get-tuple-element"], [used], element, {"index": number}, before=node)
                    )
            else:
                operands.append(used)
        initial = graph.add_apply(OPS["tuple"], operands, state, {}, before=node)
        loop = graph.add_apply(
            OPS["while"], [initial], state, {"condition": self.condition, "body": self.step}, before=node
        )
        result = graph.add_apply(OPS["call"], [loop], node.type, {"to_apply": ending}, before=node)
        graph.replace_uses(node, result)
        graph.erase(node)


def _resolved(node: Node) -> Leaf:
    """A node as an output, seen through tuples that are taken apart again."""
    while node.opcode == "get-tuple-element":
        source = node.operands[0]
        if source.opcode != "tuple":
            return source, node.attributes["index"]
        node = source.operands[node.attributes["index"]]
    return node, None


def _flat(node: Node, emitter: Emitter) -> list[Node]:
    if isinstance(node.type, TupleType):
        return [emitter.element(node, number) for number in range(len(node.type.elements))]
    return [node]
