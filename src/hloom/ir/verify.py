"""Checks that a module is sound and finds which level of HLO it satisfies.

`verify` raises at the first node that breaks the IR's contract. A sound module that is not a complete HLO program
(undefined names, closures) is not an error; it only gets a lower level.
"""

# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any

from hloom.ir.attribute_types import expected_type
from hloom.ir.attributes import Attributes
from hloom.ir.graph import Graph
from hloom.ir.inference import Inference, infer_type
from hloom.ir.literal import Literal
from hloom.ir.module import Module, Unresolved
from hloom.ir.module_like import ModuleLike, as_module
from hloom.ir.nodes import Apply, Constant, Missing, Node, Parameter
from hloom.ir.schema import COMMON, Op, TypeProblem
from hloom.ir.surroundings import Surroundings
from hloom.ir.tile_assignment import sharding_problem
from hloom.ir.types import (
    BufferType,
    FunctionType,
    Type,
    compatible,
    element_at,
    has_tiles,
    of_one_precision,
)
from hloom.ir.values import PROTO_FIELDS, Verbatim
from hloom.text import Display, Displayed, DisplayTable, HloomError

NEIGHBOURS = 2
"""The number of nodes to show before and after the bad one in an error."""

LONGEST_LINE = 140
"""The maximum number of characters of a node to show in an error: a little over a terminal line."""


_TYPE = attrgetter("type")


class Level(IntEnum):
    """How much of HLO a sound module satisfies; each level includes those below."""

    FUNCTIONAL = 1
    """Closures, computed calls, functions as values or recursion."""
    OPEN = 2
    """Closed graphs, but with unresolved names, unknown opcodes or attributes, or nodes without a type."""
    HLO = 3
    """A complete program."""


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Displayed):
    """What `verify` found: the level, what is unresolved, and notes on why the level is FUNCTIONAL."""

    level: Level
    unresolved: tuple[Unresolved, ...] = ()
    notes: tuple[str, ...] = ()

    def display(self) -> Display:
        unresolved = [(one.name, one.referent, one.graph) for one in self.unresolved]
        tables = (
            DisplayTable("unresolved", ("name", "should name", "in"), unresolved, len(unresolved)),
            DisplayTable("notes", ("note",), [(note,) for note in self.notes], len(self.notes)),
        )
        return Display(f"<verified: {self.level.name}>", tables)



class VerifyError(HloomError):
    """The error for a module that breaks the IR's contract; the message shows the first bad node and its neighbours."""


def verify(module: ModuleLike) -> Verification:
    """Check a whole module; raises VerifyError at the first bad node."""
    module = as_module(module)
    verifier = _Verifier(module)
    verifier.check_module()
    for graph in module.graphs:
        verifier.check_graph(graph)
    verifier.check_aliases()
    verifier.check_users()
    cycle = find_cycle(verifier.calls)
    if cycle:
        verifier.notes[f"recursion: {' -> '.join(graph.name for graph in cycle)}"] = None
    unresolved = (*module.unresolved, *verifier.unresolved)
    level = Level.FUNCTIONAL if verifier.notes else Level.OPEN if unresolved else Level.HLO
    return Verification(level, unresolved, tuple(verifier.notes))


class _Verifier:
    """The state of one run: facts about the module and findings so far."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.known: set[Graph] = {*module.graphs, *module.declared}
        self.missing = {missing for graph in module.graphs for missing in graph.missing}
        self.scopes = Scopes(module.graphs)
        self.calls: dict[Graph, dict[Graph, None]] = {graph: {} for graph in module.graphs}
        self.unresolved: dict[Unresolved, None] = {}
        self.notes: dict[str, None] = {}
        self.inference = Inference()
        self.accepted: set[tuple[int, int, int]] = set()
        self.sound: set[tuple[Any, ...]] = set()
        self.agreeing: set[tuple[Type, Type]] = set()
        self.functions: set[int] = set()
        self.defined: set[Node] = set()
        self.surroundings = Surroundings(module)
        partitions = self.surroundings.count("num_partitions")
        self.devices = partitions if partitions > 1 else None
        self.graph: Graph | None = None
        self.node: Node | None = None

    def check_module(self) -> None:
        module = self.module
        if module._entry is None:
            raise VerifyError(f"module {module.name} has no entry graph")
        if module._entry not in self.known or module._entry.is_declared:
            raise VerifyError(f"module {module.name}: the entry graph {module._entry.name} is not among its graphs")
        for graph in module.graphs:
            if graph.module is not module:
                raise VerifyError(f"graph {graph.name} belongs to module {graph.module.name}, not to {module.name}")
            if graph.name not in module or module[graph.name] is not graph:
                raise VerifyError(f"graph {graph.name} is not the one that module {module.name} finds under its name")
            if graph not in self.scopes:
                raise VerifyError(f"graph {graph.name} is enclosed by itself or by a graph outside the module")

    def check_graph(self, graph: Graph) -> None:
        self.graph, self.defined = graph, set()
        names, defined, parameters, checked = graph._names, self.defined, list[Parameter](), list[Apply]()
        for node in graph.nodes:
            self.node = node
            if node.graph is not graph:
                raise self.bad(f"it belongs to graph {node.graph.name}")
            if node in defined:
                raise self.bad("it stands in the graph twice")
            if names.get(node.name) is not node:
                raise self.bad("the graph finds another node, or none, under its name")
            for used in node.operands:
                if used not in defined:
                    self.check_use(used)
            if isinstance(node, Apply):
                self.check_application(node)
                if isinstance(node.function, Op) and node.function.check is not None:
                    checked.append(node)
            else:
                self.check_yielded(node)
                self.check_kind(node)
                if isinstance(node, Parameter):
                    parameters.append(node)
            defined.add(node)
        self.check_uses(checked)
        self.node = None
        for name in names if len(names) != len(defined) else ():
            if names[name] not in defined and names[name] not in self.missing:
                raise self.bad(f"it finds a node under the name '{name}' that is not in its order")
        self.check_parameters(graph, parameters)
        self.check_output(graph)

    def check_uses(self, nodes: Sequence[Apply]) -> None:
        """Ask the rules of ops about nodes and what stands around them, when the graph is known to be sound."""
        for node in nodes:
            self.node = node
            check = node.op.check
            if problem := check and check(node, self.surroundings):
                raise self.bad(problem)

    def check_use(self, used: Any) -> None:
        """Check an input that this graph has not defined yet."""
        graph = self.graph
        assert graph is not None
        if not isinstance(used, Node):
            raise self.bad(f"it uses {used!r}, which is not a node")
        if isinstance(used, Missing):
            if used not in self.missing:
                raise self.bad(f"it uses the missing name {used.name}, which graph {used.graph.name} does not list")
        elif used.graph._names.get(used.name) is not used:
            raise self.bad(f"it uses {used.name}, which is in no graph any more")
        if used.graph is graph:
            if not isinstance(used, Missing):
                raise self.bad(f"it uses {used.name}, which comes later")
        elif not self.scopes.encloses(used.graph, graph):
            raise self.bad(f"it uses {used.name} of graph {used.graph.name}, which does not enclose {graph.name}")
        else:
            self.note(f"{graph.name} captures {used.name} of {used.graph.name}")

    def check_yielded(self, node: Node) -> None:
        """Check that a yielded node has a type."""
        if not isinstance(node.type, Type):
            if node.type is not None:
                raise self.bad(f"its type is {node.type!r}, which is not a Type")
            self.open(node.name, "type")
        elif type(node.type) is FunctionType:
            self.note(f"{node.name} of {node.graph.name} is a function value")

    def check_application(self, node: Apply) -> None:
        """Check an application; for repeated ops with the same types and attributes, check only what they refer to."""
        op, attributes = node.function, node.attributes
        meaning = _types_within(attributes) if attributes.refers else id(attributes)
        key = (op, meaning, node.type, *map(_TYPE, node.operands))
        if key in self.sound:
            self.check_references(attributes)
            return
        self.check_yielded(node)
        if not isinstance(op, Op):
            self.check_kind(node)
            return
        self.check_op(node, op)
        self.check_placement(node)
        if op.is_known and not op.takes_buffers:
            self.check_no_buffers(node)
        if op.is_known and meaning is not None and node.type and type(node.type) is not FunctionType:
            self.sound.add(key)

    def check_kind(self, node: Node) -> None:
        """Check a node that does not apply an op, and its attributes."""
        if isinstance(node, Constant):
            self.check_value(node)
        elif isinstance(node, Apply):
            self.note(f"{node.name} of {node.graph.name} calls a value")
            if node.function not in self.defined:
                self.check_use(node.function)
        elif not isinstance(node, Parameter):
            raise self.bad("it is not a parameter, constant or application")
        if node.attributes:
            self.check_attributes(node.attributes, COMMON, None)
            self.check_placement(node)

    def check_placement(self, node: Node) -> None:
        sharding = node.attributes.get("sharding")
        if sharding is None or node.type is None or isinstance(sharding, Verbatim):
            return
        if problem := sharding_problem(sharding, node.type, self.devices):
            raise self.bad(problem)

    def check_no_buffers(self, node: Node) -> None:
        for type_ in (node.type, *map(_TYPE, node.operands)):
            if type_ is not None and _holds_buffer(type_):
                raise self.bad(f"{node.opcode} neither takes nor yields buffers, but one value is {type_}")

    def check_op(self, node: Apply, op: Op) -> None:
        key = (id(op), id(node.attributes), len(node.operands))
        if key not in self.accepted:
            if not op.accepts(len(node.operands)):
                raise self.bad(f"{op.name} does not take {len(node.operands)} operands: it takes {_arity(op)}")
            if not op.is_known:
                self.open(op.name, "opcode")
            self.check_op_attributes(node, op)
            if op.is_known and not node.attributes.refers:
                self.accepted.add(key)
        if node.type is not None:
            self.check_type(node, node.type)

    def check_op_attributes(self, node: Apply, op: Op) -> None:
        lacking = op.lacking(node.attributes)
        if lacking is not None:
            raise self.bad(f"{op.name} needs the attribute {lacking}")
        self.check_attributes(node.attributes, op.attributes, op)

    def check_type(self, node: Apply, written: Type) -> None:
        """Compare the written type with the inferred one, ignoring layouts and dynamism."""
        try:
            inferred = self.inference.type_of(node)
        except TypeProblem as problem:
            if self.is_narrowed(node, written):
                return
            raise self.bad(problem.message) from None
        if inferred is None or inferred is written or (inferred, written) in self.agreeing:
            return
        if not compatible(inferred, written) and not self.is_narrowed(node, written):
            raise self.bad(f"its type is {written}, but {node.opcode} of its operands yields {inferred}")
        self.agreeing.add((inferred, written))

    @staticmethod
    def is_narrowed(node: Apply, written: Type) -> bool:
        """Whether the types agree but for the precision of floats, which XLA's compiler for TPUs mixes.

        Source: xla/service/hlo_verifier.h, `allow_mixed_precision`; such modules are known by their tiles.
        """
        if not has_tiles(written) or not isinstance(node.function, Op):
            return False
        operands = [of_one_precision(operand.type) for operand in node.operands if operand.type is not None]
        wide = of_one_precision(written)
        try:
            return compatible(infer_type(node.function, operands, node.attributes, wide), wide)
        except TypeProblem:
            return False

    def check_attributes(self, attributes: Attributes, rows: Any, op: Op | None) -> None:
        for name, value in attributes.items():
            row = rows.get(name)
            if isinstance(value, Verbatim):
                self.open(name, "attribute")
            elif row is not None:
                if wanted := expected_type(row, value):
                    raise self.bad(f"attribute {name} is {_cut(repr(value))}, not {wanted}")
            elif name != PROTO_FIELDS and (op is None or op.is_known):
                raise self.bad(f"{op.name if op else self.node.opcode if self.node else ''} has no attribute {name}")
        self.check_references(attributes)

    def check_references(self, attributes: Attributes) -> None:
        for referent in attributes.referents():
            if referent.is_graph:
                self.check_reference(referent)
            elif referent not in self.defined:
                self.check_use(referent)

    def check_value(self, node: Constant) -> None:
        value: Any = node.value
        if isinstance(value, Graph):
            self.note(f"{node.name} of {node.graph.name} is a graph as a value")
            self.check_reference(value)
        elif isinstance(value, Op):
            self.note(f"{node.name} of {node.graph.name} is an op as a value")
        elif not isinstance(value, Literal):
            raise self.bad(f"its value is {_cut(repr(value))}, not a Literal, a Graph or an Op")

    def check_reference(self, called: Graph) -> None:
        graph = self.graph
        assert graph is not None
        if called not in self.known:
            raise self.bad(f"it refers to graph {called.name}, which is not in the module")
        if called.parent is not None and called.parent is not graph and not self.scopes.encloses(called.parent, graph):
            raise self.bad(f"it refers to graph {called.name}, which only graphs inside {called.parent.name} may use")
        if not called.is_declared:
            self.calls[graph][called] = None

    def check_parameters(self, graph: Graph, parameter_nodes: list[Parameter]) -> None:
        listed = graph.parameters
        if set(parameter_nodes) != set(listed) or len(parameter_nodes) != len(listed):
            raise self.bad(
                f"it lists {len(listed)} parameters, which are not its {len(parameter_nodes)} parameter nodes"
            )
        expected = 0
        for parameter in graph.parameters:
            self.node = parameter
            if parameter.number < expected:
                raise self.bad(f"parameter number {parameter.number} is out of order or given twice")
            if parameter.number > expected:
                last = parameter.number - 1
                self.open(str(expected) if last == expected else f"{expected} to {last}", "parameter")
            expected = parameter.number + 1
        self.node = None

    def check_output(self, graph: Graph) -> None:
        if graph.output is None:
            raise self.bad("it has no output")
        if isinstance(graph.output, Missing):
            raise self.bad(f"its output is {graph.output.name}, which nothing defines: no text can say that")
        if graph.output not in self.defined:
            self.check_use(graph.output)

    def check_aliases(self) -> None:
        """Check that the aliases in the header name results and parameters that the entry has."""
        entry = self.module.entry
        parameters = {parameter.number: parameter.type for parameter in entry.parameters}
        result = entry.output.type if entry.output is not None else None
        for alias in self.module.attributes.get("input_output_alias") or ():
            is_parameter = alias.parameter in parameters and _has(parameters[alias.parameter], alias.parameter_index)
            if not is_parameter or not _has(result, alias.output_index):
                what = "a result" if is_parameter else "a parameter"
                raise VerifyError(f"module {self.module.name}: its {alias} names {what} that {entry.name} lacks")

    def check_users(self) -> None:
        """Compare the index of users, if it has been built, with a recount."""
        if not self.module.is_indexed:
            return
        counted: dict[Any, dict[Node, int]] = {}
        for graph in self.module.graphs:
            for node in graph.nodes:
                for used in _used(node):
                    users = counted.setdefault(used, {})
                    users[node] = users.get(node, 0) + 1
        for graph in (*self.module.graphs, *self.module.declared):
            self.graph, self.node = graph, None
            if graph._callers != counted.get(graph, {}):
                raise self.bad("the index of its callers is not what a recount gives")
            for node in (*graph.nodes, *graph.missing):
                if node._users != counted.get(node, {}):
                    self.node = node
                    raise self.bad("the index of its users is not what a recount gives")

    def open(self, name: str, what: str) -> None:
        self.unresolved[Unresolved(name, what, self.graph.name if self.graph else "")] = None

    def note(self, text: str) -> None:
        """Note why the level is FUNCTIONAL, once per graph."""
        if id(self.graph) not in self.functions:
            self.functions.add(id(self.graph))
            self.notes[text] = None

    def bad(self, problem: str) -> VerifyError:
        """The error at the current node, or at the current graph; the caller raises it."""
        name = self.graph.name if self.graph else "?"
        if self.node is None:
            return VerifyError(f"graph {name}: {problem}")
        return VerifyError(f"graph {name}, node {self.node.name}: {problem}\n{_neighbours(self.graph, self.node)}")


def _types_within(attributes: Attributes) -> tuple[Any, ...] | None:
    """Attributes with graphs replaced by their types, which type rules read; None if one cannot be hashed."""
    parts: list[Any] = []
    for name, value in attributes.items():
        parts.append(name)
        if isinstance(value, Graph):
            parts += (value.is_declared, value.output is None, value.output and value.output.type)
            parts += map(_TYPE, value.parameters)
        elif name != "control-predecessors":
            parts.append(value)
    try:
        hash(tuple(parts))
    except TypeError:
        return None
    return tuple(parts)


@lru_cache(4096)
def _holds_buffer(type_: Type) -> bool:
    return any(isinstance(leaf, BufferType) for leaf in type_.leaves())


def _has(type_: Type | None, index: Sequence[int]) -> bool:
    """Whether a value may have an element at an index; true for a value without a type."""
    return type_ is None or element_at(type_, index) is not None


def _used(node: Node) -> Iterable[Any]:
    yield from node.operands
    yield from node.attributes.referents()
    yield from node.called_graphs if isinstance(node, Constant) else ()
    if isinstance(node, Apply) and isinstance(node.function, Node):
        yield node.function


def _neighbours(graph: Graph | None, node: Node) -> str:
    """The node's line, marked, between those of the nodes around it."""
    nodes = list(graph.nodes) if graph else []
    number = next((index for index, member in enumerate(nodes) if member is node), None)
    around = [node] if number is None else nodes[max(0, number - NEIGHBOURS) : number + NEIGHBOURS + 1]
    return "\n".join(f"  {'>' if member is node else ' '} {_cut(repr(member))}" for member in around)


def _arity(op: Op) -> str:
    least, most = op.arity
    step = f", {op.operand_step} at a time" if op.operand_step > 1 else ""
    if most is None:
        return f"{least} or more{step}"
    return str(least) if most == least else f"{least} to {most}{step}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 3] + "..."


class Scopes:
    """The forest of enclosing graphs; a graph in a cycle of parents is not `in` it."""

    __slots__ = ("_spans",)

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._spans: dict[Graph, tuple[int, int]] = {}
        children: dict[Graph | None, list[Graph]] = {}
        for graph in graphs:
            children.setdefault(graph.parent, []).append(graph)
        self._walk(children)

    def __contains__(self, graph: Graph) -> bool:
        return graph in self._spans

    def encloses(self, outer: Graph, inner: Graph) -> bool:
        """Whether one graph is the parent of another, or the parent's parent, and so on."""
        if outer is inner or outer not in self._spans or inner not in self._spans:
            return False
        first, last = self._spans[outer]
        return first < self._spans[inner][0] <= last

    def _walk(self, children: Mapping[Graph | None, list[Graph]]) -> None:
        """Number the graphs in preorder; a graph's span ends with its last descendant's number."""
        clock = 0
        pending: list[tuple[Graph, int | None]] = [(graph, None) for graph in reversed(children.get(None, []))]
        while pending:
            graph, entered = pending.pop()
            if entered is not None:
                self._spans[graph] = (entered, clock)
                continue
            clock += 1
            pending.append((graph, clock))
            pending.extend((child, None) for child in reversed(children.get(graph, [])))


def find_cycle(calls: Mapping[Graph, Iterable[Graph]]) -> list[Graph] | None:
    """A cycle of calls, starting and ending at the same graph; None if there is none."""
    finished: set[Graph] = set()
    for start in calls:
        if start in finished:
            continue
        path = {start: iter(calls[start])}
        while path:
            graph, remaining = next(reversed(path.items()))
            called = next(remaining, None)
            if called is None:
                finished.add(graph)
                del path[graph]
            elif called in path:
                way = list(path)
                return [*way[way.index(called) :], called]
            elif called not in finished:
                path[called] = iter(calls.get(called, ()))
    return None
