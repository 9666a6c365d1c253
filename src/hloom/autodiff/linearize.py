"""Linearization: copies a graph's instructions in order and adds the linear ops of their tangents.

In reverse mode the tangents go onto a tape, which `backward` transposes; in forward mode they are emitted at once. Only
what is active is linearized: what depends on an input asked for and is needed by a result asked for.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import GeneratorType
from typing import Any

from hloom.autodiff.activity import (
    PASSED_ON,
    Activity,
    bits,
    element_offset,
    leaf_count,
)
from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import Emitter, leaf_types
from hloom.autodiff.linear import Forward, Linear, LinearOps, Tape
from hloom.autodiff.recognition import Recognized, recognize
from hloom.autodiff.table import RULES
from hloom.ir import Apply, Graph, Module, Node, Parameter, TupleType
from hloom.text import HloomError, Location, Source, Unsupported

LARGEST_SOURCE = 1 << 28
"""The maximum size in bytes of a file to read again to locate an instruction."""
LONGEST_TYPE = 10_000
"""Within how many characters of its name an instruction's opcode is looked for."""
COPIES_FOR_A_NODE = 100
"""The maximum number of differentiated instructions, and of saved values, per instruction of a module: each call of a
computation saves its own values, and nested calls may multiply without bound.
"""
LEAST_COPIES = 100_000
"""The number allowed for any module."""


@dataclass(slots=True)
class Options:
    """The user's options: instructions at which the derivative is cut, and how loops save their states."""

    stop: frozenset[Node] = frozenset()
    checkpoints: int | None = None
    max_iterations: int | None = None


@dataclass(slots=True)
class Session:
    """One differentiation of one module: what is known and what was made, by graph."""

    module: Module
    options: Options
    activity: Activity
    trips: dict[Node, int] = field(default_factory=dict)
    kept: dict[Any, Any] = field(default_factory=dict)
    functions: dict[Graph, dict[Node, Recognized]] = field(default_factory=dict)
    loop_depth: int = 0
    most: int = 0
    copied: int = 0

    def __post_init__(self) -> None:
        self.most = max(LEAST_COPIES, COPIES_FOR_A_NODE * self.module.node_count)

    def count_copies(self, graph: Graph) -> None:
        """Count the instructions of a graph that are about to be differentiated once more."""
        self.copied += len(graph.nodes)
        if self.copied > self.most:
            raise HloomError(
                f"{graph.name}: more than {self.most:,} instructions would be differentiated: "
                "each call of it is differentiated by itself, and calls of calls multiply"
            )

    def check_residuals(self, graph: Graph, residuals: Sequence[Node]) -> None:
        """Refuse a graph of which too many values are kept for the backward pass."""
        if len(residuals) > self.most:
            raise HloomError(
                f"{graph.name}: more than {self.most:,} values would be kept for its backward pass: "
                "each call in it keeps its own, and calls of calls multiply"
            )

    def functions_in(self, graph: Graph) -> dict[Node, Recognized]:
        """The instructions of a graph that are differentiated as functions of what they were computed from."""
        if graph not in self.functions:
            self.functions[graph] = recognize(graph, self.options.stop)
        return self.functions[graph]


@dataclass(slots=True)
class Linearized:
    """A graph of its own, as copied, and the tape of its tangents.

    `inputs` are the active leaves of its parameters; `tangents` those of its result, leaf by leaf, None where zero.
    """

    forward: Graph
    tape: Tape
    inputs: dict[int, Linear]
    value: Node
    tangents: list[Any]


@dataclass(slots=True)
class Transposed:
    """A backward pass as a graph to be copied or called: `cotangents`, then `residuals`, to `results` by leaf.

    `cotangents` are the leaves of the result whose cotangents it takes, in order; `residuals` the nodes of the forward
    graph whose values it takes after them. `results` are the cotangents of the parameters' leaves, those that are not
    zero.
    """

    graph: Graph
    cotangents: list[int]
    residuals: list[Node]
    results: dict[int, Node]

    def embed(self, emitter: Emitter, cotangents: Sequence[Node], residuals: Sequence[Node]) -> dict[int, Node]:
        """The results, computed by a copy of the graph's instructions."""
        mapping: dict[Any, Any] = dict(zip(self.graph.parameters, [*cotangents, *residuals], strict=True))
        emitter.graph.copy_nodes(self.graph.nodes, mapping)
        return {leaf: mapping[node] for leaf, node in self.results.items()}


Task = Generator[Any, Any, Any]
"""What linearizes a graph, or an instruction that has graphs of its own: it yields the tasks whose results it needs."""


def perform(task: Task) -> Any:
    """The result of a task. Those that it yields are performed on a stack here, so that graphs may be nested deeply."""
    stack, result, error = [task], None, None
    while stack:
        try:
            inner = stack[-1].send(result) if error is None else stack[-1].throw(error)
        except StopIteration as done:
            stack.pop()
            result, error = done.value, None
        except HloomError as raised:  # the tasks outside may say where it happened
            stack.pop()
            error = raised
        else:
            stack.append(inner)
            result, error = None, None
    if error is not None:
        raise error
    return result


class Walk:
    """The copy of a graph's instructions into another, with their tangents."""

    def __init__(self, session: Session, ops: LinearOps) -> None:
        self.session = session
        self.ops = ops
        self.emitter = ops.primal
        ops.functions_in = session.functions_in

    def graph(self, graph: Graph, arguments: Sequence[Node], tangents: Sequence[Any], wanted: int) -> Task:
        """The task that copies a graph's instructions, given its arguments and the tangents of their leaves.

        It results in the node of the graph's result and the tangents of its leaves; those not in `wanted` may be None.
        """
        self.session.count_copies(graph)
        values: dict[Any, Any] = dict(zip(graph.parameters, arguments, strict=True))
        known = _by_parameter(graph, tangents)
        active = self.session.activity.active(graph, [int(tangent is not None) for tangent in tangents], wanted)
        functions = self.session.functions_in(graph) if active else {}
        emitter, copy_node = self.emitter, self.emitter.graph.copy_node
        for node in graph.nodes:
            needed = active.get(node)
            if needed is None or not isinstance(node, Apply):
                if node not in values:
                    copy_node(node, values)
                continue
            emitter.metadata = node.raw_metadata
            try:
                inner = None
                if node in functions:
                    self._by_function(node, functions[node], values, known)
                else:
                    inner = self._linearize(node, values, known, needed)
                if inner is not None:
                    values[node], known[node] = yield inner
                    emitter.metadata = node.raw_metadata
            except HloomError as error:
                error.location = error.location or location_of(node)
                raise
        root = graph.root
        result = known.get(root)
        if not isinstance(root.type, TupleType):
            return values[root], [result]
        return values[root], result if result is not None else [None] * leaf_count(root.type)

    def _linearize(self, node: Apply, values: dict[Any, Any], known: dict[Node, Any], needed: int) -> Task | None:
        """Linearize an instruction; where it has graphs of its own, the task that does."""
        rule = RULES.get(node.opcode)
        if rule is None or rule.because or rule.structural:
            return self._follow(node, values, known, needed)
        tangents = list(map(known.get, node.operands))
        graph = rule.expand(self.session, node) if rule.expand is not None else None
        if graph is not None:
            operands = [values[operand] for operand in node.operands]
            return self.inlined(graph, operands, flattened(node, tangents), needed)
        copy = self.emitter.graph.copy_node(node, values)
        if tangents.count(None) == len(tangents):
            return None
        self.ops.source = node
        assert rule.linearize is not None, "an op without a rule has an expansion"
        result = rule.linearize(self.ops, copy, tangents)
        if result is not None:
            known[node] = result
        return None

    def _follow(self, node: Apply, values: dict[Any, Any], known: dict[Node, Any], needed: int) -> Task | None:
        """What the engine does itself: tuples, calls, loops, branches; no derivative where there is none."""
        rule = RULES.get(node.opcode)
        if rule is None or (rule.because and not rule.is_zero):
            reason = rule.because if rule else "it is not an opcode of HLO"
            raise Unsupported(f"{place_of(node)}: {node.opcode} cannot be differentiated: {reason}")
        if rule.is_zero:
            self.emitter.graph.copy_node(node, values)
            return None
        operands = [values[operand] for operand in node.operands]
        made = STRUCTURES[node.opcode](self, node, operands, list(map(known.get, node.operands)), needed)
        if isinstance(made, GeneratorType):
            return made
        values[node], known[node] = made
        return None

    def _by_function(self, node: Apply, recognized: Recognized, values: dict[Any, Any], known: dict[Node, Any]) -> None:
        self.emitter.graph.copy_nodes((node,), values)
        rule, nodes = recognized.rule, recognized.nodes
        tangents = {name: known.get(nodes[name]) for name in rule.arguments}
        self.ops.source = node
        if any(tangent is not None for tangent in tangents.values()):
            here = {name: values[value] for name, value in nodes.items()}
            known[node] = rule.linearize(self.ops, values[node], here, tangents)

    def inlined(self, graph: Graph, operands: Sequence[Node], leaves: Sequence[Any], wanted: int) -> Task:
        """The task that puts a graph's instructions in place of what calls it: its value and tangent."""
        value, tangents = yield self.graph(graph, operands, leaves, wanted)
        return value, tangents if isinstance(graph.root.type, TupleType) else tangents[0]


def place_of(node: Node) -> str:
    """Where an instruction stands: the module's source, its computation, its name."""
    return f"{node.graph.module.source_name}: {node.graph.name}: {node.name}"


def location_of(node: Node) -> Location | None:
    """The line and column of an instruction, where its module was read from a text that still has it."""
    module = node.graph.module
    text = module.source_text if module.source_text is not None else _file_text(module.source_name)
    if text is None:
        return None
    header = re.search(rf"^[ \t]*(?:ENTRY[ \t]+)?%?{re.escape(node.graph.name)}[ \t]*[({{]", text, re.MULTILINE)
    chosen = _definitions(text, node.name, node.opcode, header.end() if header else 0)
    if header is None and len(chosen) > 1:
        return None
    if not chosen:  # what was inlined may have a number behind its name
        chosen = _definitions(text, re.sub(r"\.[0-9]+$", "", node.name), node.opcode, 0)
        if len(chosen) != 1:
            return None
    return Source(text, module.source_name).location(chosen[0])


def _definitions(text: str, name: str, opcode: str, start: int) -> list[int]:
    """Where instructions of a name and opcode are defined, from a position on."""
    definition = re.compile(rf"(?:^|(?<=[\s{{}}]))(?:ROOT[ \t]+)?(%?{re.escape(name)})[ \t]*=(?!=)", re.MULTILINE)
    return [
        match.start(1)
        for match in definition.finditer(text, start)
        if f" {opcode}(" in text[match.end() : match.end() + LONGEST_TYPE].partition(" = ")[0]
    ]


def _file_text(name: str) -> str | None:
    path = Path(name)
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_SOURCE:
            return None
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return None


def flattened(node: Apply, tangents: Sequence[Any]) -> list[Any]:
    """Tangents of operands, leaf by leaf."""
    leaves: list[Any] = []
    for operand, tangent in zip(node.operands, tangents, strict=True):
        leaves += leaves_of(operand, tangent)
    return leaves


def leaves_of(node: Node, tangent: Any) -> list[Any]:
    """A tangent leaf by leaf."""
    if not isinstance(node.type, TupleType):
        return [tangent]
    return list(tangent) if tangent is not None else [None] * leaf_count(node.type)


def _by_parameter(graph: Graph, tangents: Sequence[Any]) -> dict[Node, Any]:
    known: dict[Node, Any] = {}
    start = 0
    for parameter in graph.parameters:
        count = leaf_count(parameter.type)
        part = list(tangents[start : start + count])
        start += count
        if isinstance(parameter.type, TupleType):
            known[parameter] = part
        elif part[0] is not None:
            known[parameter] = part[0]
    return known


# What the engine follows itself


def _tuple(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    values = dict(zip(node.operands, operands, strict=True))
    walk.emitter.graph.copy_nodes((node,), values)
    return values[node], flattened(node, tangents)


def _element(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    index = node.attributes["index"]
    whole = tangents[0]
    value = walk.emitter.element(operands[0], index)
    start = element_offset(node.operands[0].type, index)
    if not isinstance(node.type, TupleType):
        return value, whole[start]
    return value, list(whole[start : start + leaf_count(node.type)])


def _passed_on(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    values: dict[Any, Any] = dict(zip(node.operands, operands, strict=True))
    walk.emitter.graph.copy_nodes((node,), values)
    return values[node], tangents[0]


def _inlined(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> Task:
    return walk.inlined(next(iter(node.called_graphs)), operands, flattened(node, tangents), needed)


STRUCTURES: dict[str, Any] = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "fusion": _inlined,
    **dict.fromkeys(PASSED_ON - {"copy-done", "all-reduce-done"}, _passed_on),
}
"""How the engine follows tuples, calls, loops and branches; the control-flow files add theirs.

From an instruction, its operands and their tangents to its value and tangent, or to the task that has these as result.
"""


# Graphs of their own


def linearized(session: Session, graph: Graph, active: int, wanted: int) -> Task:
    """The task that copies a graph, linear in the active leaves of its parameters: `Linearized`."""
    forward = session.module.add_graph(graph.name)
    emitter = Emitter(forward)
    tape = Tape(emitter)
    arguments = [
        forward.add_parameter(parameter.type, parameter.name, parameter.attributes) for parameter in graph.parameters
    ]
    types = [leaf for parameter in graph.parameters for leaf in leaf_types(parameter.type)]
    inputs = {leaf: tape.input(types[leaf]) for leaf in bits(active)}
    tangents = [inputs.get(leaf) for leaf in range(len(types))]
    value, results = yield Walk(session, tape).graph(graph, arguments, tangents, wanted)
    return Linearized(forward, tape, inputs, value, results)


def transposed(session: Session, part: Linearized, given: Iterable[int]) -> Transposed:
    """The backward pass of a linearized graph, for cotangents of some leaves of its result."""
    graph = session.module.add_graph(part.forward.name + ".backward")
    backward = Backward(graph)
    types = leaf_types(part.value.type)
    leaves = [leaf for leaf in given if part.tangents[leaf] is not None]
    for leaf in leaves:
        backward.give(part.tangents[leaf], graph.add_parameter(types[leaf], "cotangent"))
    backward.run(part.tape)
    session.check_residuals(part.forward, backward.residuals)
    results = {leaf: backward.take(tangent) for leaf, tangent in part.inputs.items()}
    result = {leaf: node for leaf, node in results.items() if node is not None}
    return Transposed(graph, leaves, backward.residuals, result)


def with_tangents(session: Session, graph: Graph, active: int, wanted: int) -> Task:
    """The task, in forward mode, that makes a graph that takes tangents of the active leaves behind its parameters.

    It yields a tuple of its result and the tangents of the leaves of the result that are listed.
    """
    key = ("forward", graph, active, wanted)
    if key not in session.kept:
        made = session.module.add_graph(graph.name + ".tangent")
        emitter = Emitter(made)
        arguments = [
            made.add_parameter(parameter.type, parameter.name, parameter.attributes) for parameter in graph.parameters
        ]
        types = [leaf for parameter in graph.parameters for leaf in leaf_types(parameter.type)]
        inputs = {leaf: made.add_parameter(types[leaf], "tangent") for leaf in bits(active)}
        tangents = [inputs.get(leaf) for leaf in range(len(types))]
        value, results = yield Walk(session, Forward(emitter)).graph(graph, arguments, tangents, wanted)
        leaves = [leaf for leaf, tangent in enumerate(results) if tangent is not None]
        made.set_output(emitter.tuple([value, *[results[leaf] for leaf in leaves]]))
        session.kept[key] = made, leaves
    return session.kept[key]


def active_leaves(tangents: Sequence[Any]) -> int:
    """The leaves whose tangents are not zero, as bits."""
    return sum(1 << leaf for leaf, tangent in enumerate(tangents) if tangent is not None)


def is_parameter(node: Node) -> bool:
    return isinstance(node, Parameter)
