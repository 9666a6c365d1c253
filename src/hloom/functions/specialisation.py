"""One graph per combination of argument types: a function called again with the same types is not interpreted again.

    f(x); f(y); f(z)  ->  the first interpreted where it is; the second into a graph of its own, which others call

The key is the function with the types of the arrays among its arguments and the values of all else. A graph is used
only where everything that it read from outside (captured variables, the contents of objects) is as it was. A function
with effects on what is outside, or whose result shares an array or an object with its arguments, is interpreted at
every call: its aliases have to stay aliases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hloom.autodiff import Emitter
from hloom.functions.control_flow import Arm
from hloom.functions.equality import same
from hloom.functions.state import CallFrame, PathEnds
from hloom.functions.store import ARGUMENT, Store
from hloom.functions.values import (
    S32,
    AbstractValue,
    Array,
    Cell,
    Const,
    Derived,
    ErrorSite,
    Fields,
    FunctionClosure,
    Keywords,
    Method,
    PartialCall,
    Ref,
    Series,
    Tuple,
)
from hloom.functions.views import layout_of
from hloom.ir import Graph, Node, TensorType, legal_name
from hloom.ops import OPS
from hloom.text import HloomError

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

MAX_VARIANTS = 4
"""The maximum number of graphs per key, for different captured values."""
SMALL = 24
"""The maximum number of nodes of a graph that is copied to its callers."""
OPENED = (Tuple, Fields, PartialCall, Method, Series)
"""The arguments whose parts become parameters of a graph."""
MAX_CHAINS = 256
"""The number of error sites of a program beyond which calls of a graph report errors without their call stack."""


class NotShareable(Exception):
    """A call whose arguments, effects or result need the function to be interpreted where it is called."""


@dataclass(eq=False)
class SharedGraph:
    """A function as a graph: what its result is made of, the errors that it may raise, what it read from outside."""

    graph: Graph
    template: Any
    sites: list[ErrorSite]
    has_error: bool
    reads: dict[Any, Any]
    is_small: bool
    without_chain: tuple[list[ErrorSite], int] | None = None
    """Where its error sites are in a list of sites, when they are entered without the calls around."""


@dataclass(eq=False)
class Row:
    """The calls with one key: how many there were, and the graphs made for them."""

    kept: Any
    """Keeps alive the objects that the key identifies by `id`, so that no other object gets their number."""
    count: int = 0
    failures: int = 0
    graphs: list[SharedGraph] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class OutputLeaf:
    """An array of a result: the number of an output."""

    number: int
    weak: bool


@dataclass(frozen=True, slots=True)
class KnownArray:
    """An array of a result whose elements are known."""

    elements: np.ndarray
    type: TensorType
    weak: bool


@dataclass(frozen=True, slots=True)
class ResultParts:
    """A part of a result that is made of others, which `make` puts together."""

    make: Any
    parts: tuple[Any, ...]


class Specialisations:
    """The functions of one program that have graphs of their own."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.rows: dict[Any, Row] = {}
        self._open: list[tuple[frozenset[Any], list[bool]]] = []

    def call(self, closure: FunctionClosure, bound: Keywords) -> tuple[Row | None, Any]:
        """The row of a call, None where it cannot be shared, and its value, None where there is no graph for it yet."""
        if closure.code.name in ("__init__", "__post_init__") or closure.code.declared_nonlocal:
            return None, None
        leaves: list[Array] = []
        try:
            cells: set[Cell] = set()
            key = (
                closure.code,
                id(closure.scope),
                tuple((name, self._key(value, leaves, cells)) for name, value in bound.items()),
            )
        except NotShareable:
            return None, None
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = Row((closure, tuple(bound.values())))
        row.count += 1
        for shared in row.graphs:
            if self._applies(shared):
                return row, self._emit(shared, leaves)
        return row, None

    def is_due(self, row: Row | None) -> bool:
        """Whether a call is to be made a graph."""
        return row is not None and row.count > 1 and row.failures < 2 and len(row.graphs) < MAX_VARIANTS

    def meets_active(self, key: Any) -> None:
        """Note that a recursion still in progress was called, whose graph is not what it will be."""
        for active, is_tainted in self._open:
            if key in active:
                is_tainted.append(True)

    # Arguments

    def _key(self, value: AbstractValue, leaves: list[Array], cells: set[Cell]) -> Any:
        """What a graph is made for of an argument; the arrays that are passed are collected in order."""
        interpreter = self.interpreter
        if isinstance(value, Array):
            if value.literal is not None:
                return "constant", id(value.node), value.weak
            current = interpreter.now(value)
            leaves.append(current)
            return "array", current.type, current.weak, layout_of(current)
        if isinstance(value, Const):
            return interpreter.recursive_calls.signature(value)
        if isinstance(value, Ref):
            if value.cell in cells:
                raise NotShareable
            cells.add(value.cell)
            fields = interpreter.store.get(value.cell)
            if not isinstance(fields, Fields):
                raise NotShareable
            return "object", value.cell.cls, self._key(fields, leaves, cells)
        if isinstance(value, FunctionClosure) and not all(isinstance(item, Const) for item in value.children):
            return value
        if isinstance(value, (*OPENED, FunctionClosure)):
            return type(value), value.outline, *(self._key(child, leaves, cells) for child in value.children)
        if isinstance(value, Derived) and value.transformation != "pullback":
            captured: list[Array] = []
            key = Derived, value.outline, self._key(value.function, captured, cells)
            if not captured:
                return key
        raise NotShareable

    def _lifted(self, value: Any, nodes: Iterator[Node], store: Store) -> Any:
        """An argument inside of its graph: its arrays are parameters, its objects may not be changed."""
        interpreter = self.interpreter
        if isinstance(value, Array):
            if value.literal is not None:
                return value
            made = Array(next(nodes), value.weak)
            interpreter.protected[made] = "it is an argument of a function that is called more than once"
            return interpreter.views.laid_out(made, layout_of(value))
        if isinstance(value, Ref):
            cell = Cell(value.cell.cls, "it is an argument of a function that is called more than once")
            store.set(cell, self._lifted(interpreter.store.get(value.cell), nodes, store))
            return Ref(cell)
        if isinstance(value, OPENED):
            return value.with_children([self._lifted(child, nodes, store) for child in value.children])
        return value

    # Graphs

    def make(self, row: Row, closure: FunctionClosure, bound: Keywords, exact: Any) -> SharedGraph | None:
        """Interpret a function into a graph of its own; None where it has to be interpreted at every call.

        Raises RecursionMet where the function turns out to call itself.
        """
        interpreter = self.interpreter
        calls, module = interpreter.calls, interpreter.module
        graph = module.add_graph(module.unique_graph_name(legal_name(closure.code.name)), interpreter.emitter.graph)
        store = Store(interpreter.store)
        store.reads = {}
        arm = Arm(Emitter(graph), store)
        errors, interpreter.errors = interpreter.errors, interpreter.errors[:1]
        tainted: list[bool] = []
        self._open.append((frozenset(interpreter.recursive_calls.active), tainted))
        store.set(interpreter.error, Const(0))
        leaves: list[Array] = []
        cells: set[Cell] = set()
        for value in bound.values():
            self._key(value, leaves, cells)
        nodes = [graph.add_parameter(leaf.type, f"{ARGUMENT}{number}") for number, leaf in enumerate(leaves)]
        parameters = iter(nodes)
        try:
            given = {name: self._lifted(value, parameters, store) for name, value in bound.items()}
            known = set(store.entries)
            frame: CallFrame = calls.new_frame(closure, exact)
            frame.is_shared = True
            with interpreter.frame_kept(), interpreter.within(arm.emitter, store):
                value = calls.run(frame, closure, given)
                outputs: list[Node] = []
                result = _Result(self, store, known, set(nodes))
                template = result.described(value, outputs)
                self._refuse_effects(store)
                error = store.get(interpreter.error)
                if isinstance(error, Array):
                    outputs.append(error.node)
                graph.set_output(arm.emitter.tuple(outputs))
            if tainted:
                raise NotShareable
            sites = interpreter.errors
        except (NotShareable, HloomError, PathEnds):
            row.failures += 1
            return None
        finally:
            self._open.pop()
            interpreter.errors = errors
        inside = _graphs_inside(graph)
        graph.parent = self._innermost(graph, inside)
        reads = {
            key: value
            for key, value in store.reads.items()
            if not (isinstance(key, Array) and key.node.graph in inside) and key is not interpreter.error
        }
        is_flat = len(inside) == 1
        shared = SharedGraph(
            graph, template, sites, isinstance(error, Array), reads, is_flat and len(graph.nodes) <= SMALL
        )
        row.graphs.append(shared)
        return shared

    def _refuse_effects(self, store: Store) -> None:
        """Raise NotShareable where a function changed anything from outside but the number of the error."""
        error = self.interpreter.error
        if any(key is not error for key in store.changed()):
            raise NotShareable

    def _innermost(self, graph: Graph, inside: set[Graph]) -> Graph:
        """The innermost graph whose nodes a graph uses, or whose graphs it calls: where it may be called from."""
        used: set[Graph] = set()
        for part in inside:
            for node in (*part.nodes, *(() if part.output is None else (part.root,))):
                used.update(operand.graph for operand in node.operands)
                for called in node.called_graphs:
                    if called not in inside and called.parent is not None:
                        used.add(called.parent)
            if part.output is not None:
                used.add(part.root.graph)
        around: Graph | None = graph.parent
        while around is not None:
            if around in used:
                return around
            around = around.parent
        return self.interpreter.module.entry

    def _applies(self, shared: SharedGraph) -> bool:
        """Whether a graph can be called from here, and what it read is as it was."""
        if not self.interpreter.is_around(shared.graph.parent):
            return False
        store = self.interpreter.store
        for key, value in shared.reads.items():
            held = store.get(key)
            if held is not value and not same(held, value):
                return False
        return True

    # Calls

    def emit(self, shared: SharedGraph, bound: Keywords) -> AbstractValue:
        """A call of a graph."""
        leaves: list[Array] = []
        for value in bound.values():
            self._key(value, leaves, set())
        return self._emit(shared, leaves)

    def _emit(self, shared: SharedGraph, leaves: Sequence[Array]) -> AbstractValue:
        emitter = self.interpreter.emitter
        operands = [leaf.node for leaf in leaves]
        root_type: Any = shared.graph.root.type
        outputs: list[Node] = []
        if root_type.elements:
            if shared.is_small:
                made = emitter.copy_graph(shared.graph, operands)
            else:
                made = emitter.graph.add_apply(
                    OPS["call"], operands, root_type, {"to_apply": shared.graph}, metadata=emitter.metadata
                )
            outputs = [emitter.element(made, number) for number in range(len(root_type.elements))]
        if shared.has_error:
            self._raise(shared, outputs[-1])
        return self._rebuilt(shared.template, outputs)

    def _raise(self, shared: SharedGraph, number: Node) -> None:
        """Pass on the number of an error of a graph: its sites become sites of the caller."""
        interpreter = self.interpreter
        emitter, sites = interpreter.emitter, interpreter.errors
        if len(sites) + len(shared.sites) <= MAX_CHAINS:
            first = len(sites)
            here = interpreter.location()
            around = (*(() if here is None else (here,)), *interpreter.chain())
            sites += [replace(site, chain=(*site.chain, *around)[:8]) for site in shared.sites[1:]]
        elif shared.without_chain is not None and shared.without_chain[0] is sites:
            first = shared.without_chain[1]
        else:
            first = len(sites)
            shared.without_chain = sites, first
            sites += shared.sites[1:]
        is_own = emitter.compare("GT", number, emitter.constant(1, S32))
        moved = emitter.add(number, emitter.constant(first - 1, S32))
        interpreter.merge_error(emitter.select(is_own, moved, number))

    def _rebuilt(self, template: Any, outputs: Sequence[Node]) -> Any:
        if isinstance(template, OutputLeaf):
            return Array(outputs[template.number], template.weak)
        if isinstance(template, KnownArray):
            return Array(self.interpreter.emitter.constant(template.elements, template.type), template.weak)
        if isinstance(template, ResultParts):
            return template.make(self.interpreter, [self._rebuilt(part, outputs) for part in template.parts])
        return template


class _Result:
    """The description of one result, whose arrays and objects are all its own."""

    def __init__(self, owner: Specialisations, store: Store, known: set[Any], parameters: set[Node]) -> None:
        self.interpreter = owner.interpreter
        self.store = store
        self.known = known  # what was in the store before: the objects that were passed
        self.parameters = parameters
        self.seen: set[Any] = set()

    def described(self, value: Any, outputs: list[Node]) -> Any:
        """What a result is made of: `OutputLeaf`, `KnownArray`, `ResultParts`, or what is the same in every call.

        Raises NotShareable.
        """
        if isinstance(value, Array):
            return self._array(value, outputs)
        if isinstance(value, Const):
            return value
        if isinstance(value, Ref):
            fields, outside = self.store.entries.get(value.cell), self.store.parent
            is_own = value.cell not in self.known and (outside is None or value.cell not in outside)
            if not isinstance(fields, Fields) or not is_own or value.cell in self.seen or value.cell.frozen:
                raise NotShareable
            self.seen.add(value.cell)
            cls = value.cell.cls
            parts = tuple(self.described(item, outputs) for item in fields.items)
            return ResultParts(lambda caller, items: caller.new_object(cls, fields.with_children(items)), parts)
        if isinstance(value, (Tuple, PartialCall, Series)):
            parts = tuple(self.described(child, outputs) for child in value.children)
            return ResultParts(lambda interpreter, items: value.with_children(items), parts)
        if isinstance(value, FunctionClosure) and self._is_outside(value):
            return value
        raise NotShareable

    def _array(self, value: Array, outputs: list[Node]) -> Any:
        current = self.interpreter.now(value)
        elements = current.literal
        if current.dims and (
            current in self.seen
            or value in self.seen
            or current.identity.view is not None
            or current.node in self.parameters
            or not self._is_inside(current.node)
        ):
            raise NotShareable
        self.seen.update((value, current))
        if elements is not None:
            return KnownArray(elements, current.type, current.weak)
        outputs.append(current.node)
        return OutputLeaf(len(outputs) - 1, current.weak)

    def _is_inside(self, node: Node) -> bool:
        return node.graph is self.interpreter.emitter.graph

    def _is_outside(self, value: FunctionClosure) -> bool:
        """Whether a function was there before, with all that it captures."""
        outside = self.store.parent
        assert outside is not None
        captured = self.interpreter.captured_variables(value)
        has_known_defaults = all(isinstance(item, Const) for item in value.children)
        return has_known_defaults and all(variable in outside for variable in captured.values())


def _graphs_inside(graph: Graph) -> set[Graph]:
    """A graph and those nested in it that it reaches."""
    inside: set[Graph] = {graph}
    pending = [graph]
    while pending:
        part = pending.pop()
        for node in part.nodes:
            for called in node.called_graphs:
                if called not in inside and called.parent in inside:
                    inside.add(called)
                    pending.append(called)
    return inside
