"""Recursive functions as graphs: one per argument types, with the result type as a fixed point over the non-recursive
paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hloom.autodiff import Emitter
from hloom.functions.control_flow import Arm
from hloom.functions.equality import same
from hloom.functions.join_specs import (
    ABSENT,
    CellSpec,
    JoinSpec,
    LeafSpec,
    NoCommonType,
    PartsSpec,
    SameSpec,
    ViewSpec,
    count_alternatives,
)
from hloom.functions.joins import Join
from hloom.functions.loops import MAX_ROUNDS
from hloom.functions.state import CallFrame, PathEnds, RecursionMet
from hloom.functions.store import Store
from hloom.functions.values import (
    S32,
    AbstractValue,
    Array,
    Cell,
    Const,
    Fields,
    FunctionClosure,
    Keywords,
    PartialCall,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    Variable,
    walk,
)
from hloom.functions.views import layout_of
from hloom.ir import Graph, Parameter, TensorType, TupleType, legal_name
from hloom.ops import OPS

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

NUMBERS = (bool, int, float, complex)
OPENED = (Tuple, Fields, PartialCall, Series, ValueChoice)
"""The values whose parts become parameters of a graph; others are part of what it is specialised to."""


@dataclass(eq=False)
class Specialisation:
    """A function as a graph, for arguments of certain types."""

    key: Any
    parent: Graph
    parameters: dict[str, JoinSpec]
    graph: Graph | None = None
    result: JoinSpec | None = None
    written: dict[Any, JoinSpec] = field(default_factory=dict)
    captured: dict[Variable, Any] = field(default_factory=dict)
    errors: Any = None
    """The list of error sites that its numbers of errors are of."""
    frame: CallFrame | None = None
    """The call that its body is being interpreted as."""

    def error_place(self, error: Variable) -> tuple[int, int] | None:
        """Which output and which parameter hold the number of an error."""
        output = len(list(self.result.leaves())) if self.result is not None else 0
        parameter = sum(1 for spec in self.parameters.values() for _ in spec.leaves())
        for key, spec in self.written.items():
            count = len(list(spec.leaves()))
            if key is error:
                return (output, parameter) if count else None
            output, parameter = output + count, parameter + count
        return None


class RecursiveCalls:
    """The functions of one program that are graphs which call themselves."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.active: dict[Any, Specialisation] = {}
        self.done: dict[Any, list[Specialisation]] = {}

    def signature(self, value: AbstractValue, *, broaden: bool = False) -> Any:
        """What a function is specialised to of an argument."""
        if isinstance(value, Array):
            return "array", value.type, value.weak
        if isinstance(value, Const):
            if isinstance(value.value, NUMBERS) and broaden:
                return "array", TensorType(self.interpreter.numbers.weak_dtype(value.value)), True
            try:
                hash(value.value)
            except TypeError:
                return "object", id(value.value)
            return "const", type(value.value), repr(value.value) if isinstance(value.value, float) else value.value
        if isinstance(value, Ref):
            fields = self.interpreter.store.get(value.cell)
            return "cell", value.cell.cls, self.signature(fields, broaden=broaden)
        broaden = broaden and isinstance(value, OPENED)
        children = [self.signature(child, broaden=broaden) for child in value.children]
        return (type(value), value.outline, *children) if value.made_of else value

    def parameter_spec(self, value: Any, join: Join, *, broaden: bool) -> JoinSpec:
        """How an argument goes into a graph that is called: its arrays as parameters."""
        if isinstance(value, Array):
            return LeafSpec(value.type, value.weak, layout=layout_of(value))
        if isinstance(value, Const):
            if broaden and isinstance(value.value, NUMBERS):
                return LeafSpec(TensorType(self.interpreter.numbers.weak_dtype(value.value)), True)
            return SameSpec(value)
        if isinstance(value, Ref):
            cell = Cell(value.cell.cls, "it is an argument of a function that calls itself")
            return CellSpec(cell, self.parameter_spec(self.interpreter.store.get(value.cell), join, broaden=broaden))
        if isinstance(value, OPENED):
            parts = [self.parameter_spec(child, join, broaden=broaden) for child in value.children]
            return PartsSpec.like(value, parts)
        return SameSpec(value)

    def recursive(self, closure: FunctionClosure, bound: Keywords, broaden: bool) -> AbstractValue:
        """A function that calls itself, as a graph: interpreted until the types of its result settle."""
        interpreter = self.interpreter
        join = Join(interpreter, interpreter.store)
        key = (
            closure.code,
            id(closure.scope),
            tuple((name, self.signature(value, broaden=broaden)) for name, value in bound.items()),
        )
        parameters = {name: self.parameter_spec(value, join, broaden=broaden) for name, value in bound.items()}
        one = Specialisation(key, interpreter.emitter.graph, parameters)
        results: list[tuple[Any, Store]] = []
        written: dict[Any, list[tuple[Any, Store]]] = {interpreter.error: []}
        interpreter.overflow_number()
        self.active[key] = one
        arm: Arm
        try:
            for _ in range(MAX_ROUNDS):
                arm, value = self._round(closure, bound, one)
                is_stable = True
                for changed in interpreter.control.changed_keys(arm):
                    if changed not in written:
                        written[changed] = []
                        is_stable = False
                for changed, former in written.items():
                    if changed in arm.store.entries or not former:
                        former.append((arm.store.held(changed), arm.store))
                if value is not ABSENT:
                    results.append((value, arm.store))
                result = self._result_spec(results)
                specs = {changed: self._written_spec(changed, former) for changed, former in written.items()}
                if not _equal(result, one.result) or any(
                    changed not in one.written or not _equal(spec, one.written[changed])
                    for changed, spec in specs.items()
                ):
                    is_stable = False
                if is_stable:
                    self._close(one, arm, value)
                    break
                one.result, one.written = result, specs
            else:
                interpreter.refuse(f"the type of the result of {closure.code.name}() does not settle")
        except RecursionMet as met:
            if met.frame is not one.frame:
                raise
            if broaden:
                interpreter.refuse(
                    f"{closure.code.name}() calls itself with arguments of ever other types: unbounded polymorphic "
                    "recursion", hint="keep the types of the arguments from call to call",
                )  # fmt: skip
            is_too_deep = True
        else:
            is_too_deep = False
        finally:
            del self.active[key]
        if is_too_deep:
            return self.recursive(closure, bound, True)
        if one.result is None and not self.active and not _raises(arm, interpreter.error):
            interpreter.refuse(
                f"{closure.code.name}() is a recursion without end: no path returns without a further call"
            )
        one.captured = self._captured_values(closure)
        one.errors = interpreter.errors
        self.done.setdefault(key, []).append(one)
        return self.call_graph(one, bound)

    def _round(self, closure: FunctionClosure, bound: Keywords, one: Specialisation) -> tuple[Arm, Any]:
        interpreter = self.interpreter
        module = interpreter.module
        graph = module.add_graph(module.unique_graph_name(legal_name(closure.code.name)), parent=one.parent)
        arm = Arm(Emitter(graph), Store(interpreter.store))
        one.graph = graph
        try:
            with interpreter.frame_kept(), interpreter.within(arm.emitter, arm.store):
                inside = Join(interpreter, arm.store)
                nodes = self._parameters(graph, one)
                given = {name: spec.lift(inside, nodes) for name, spec in one.parameters.items()}
                for array in self._arrays(given.values()):
                    interpreter.protected[array.memory] = "it is an argument of a function that calls itself"
                for key, spec in one.written.items():
                    arm.store.set(key, spec.lift(inside, nodes))
                one.frame = interpreter.calls.new_frame(closure, one.key)
                value: Any = interpreter.calls.run(one.frame, closure, given)
        except PathEnds:
            arm.alive = False
            value = ABSENT
        return arm, value

    def _parameters(self, graph: Graph, one: Specialisation) -> Iterator[Any]:
        specs = [*one.parameters.items(), *((getattr(key, "name", "state"), spec) for key, spec in one.written.items())]
        nodes = [graph.add_parameter(leaf.type, legal_name(name)) for name, spec in specs for leaf in spec.leaves()]
        return iter(nodes)

    def _result_spec(self, results: Sequence[tuple[Any, Store]]) -> JoinSpec | None:
        interpreter = self.interpreter
        if not results:
            return None
        try:
            return Join(interpreter, interpreter.store).unify(results, widen=True)
        except NoCommonType as problem:
            interpreter.refuse(f"the results of a recursive function have no type in common: {problem}")

    def _written_spec(self, key: Any, former: Sequence[tuple[Any, Store]]) -> JoinSpec:
        interpreter = self.interpreter
        rows = [(interpreter.store.held(key), interpreter.store), *former]
        if key is interpreter.error:
            return LeafSpec(TensorType(S32), False)
        try:
            return Join(interpreter, interpreter.store).unify(rows, widen=True)
        except NoCommonType as problem:
            interpreter.refuse(f"what a recursive function changes has no one type: {problem}")

    def _close(self, one: Specialisation, arm: Arm, value: Any) -> None:
        interpreter = self.interpreter
        with interpreter.within(arm.emitter, arm.store):
            join = Join(interpreter, arm.store)
            outputs: list[Any] = []
            if one.result is not None:
                outputs += one.result.absent(join) if value is ABSENT else one.result.lower(join, value, arm.store)
            for key, spec in one.written.items():
                held = arm.store.held(key)
                is_there = arm.alive or key is interpreter.error
                outputs += spec.lower(join, held, arm.store) if is_there else spec.absent(join)
            arm.graph.set_output(arm.emitter.tuple(outputs))

    def call_graph(self, one: Specialisation, bound: Keywords) -> AbstractValue:
        """A call of a function that is a graph."""
        interpreter = self.interpreter
        emitter, store = interpreter.emitter, interpreter.store
        if one.key in self.active:
            interpreter.calls.specialisations.meets_active(one.key)
        if one.key in self.active and one.result is None:
            # nothing is known of the result yet: this path does not count, but for the errors that it may meet
            raise PathEnds
        self._refuse_shared_arguments(one, bound)
        join = Join(interpreter, store)
        nodes: list[Any] = []
        for name, spec in one.parameters.items():
            nodes += spec.lower(join, bound[name], store)
        for key, spec in one.written.items():
            nodes += spec.lower(join, store.held(key), store)
        leaves = [
            *(one.result.leaves() if one.result else ()),
            *(leaf for spec in one.written.values() for leaf in spec.leaves()),
        ]
        made = TupleType([leaf.type for leaf in leaves])
        call = emitter.graph.add_apply(OPS["call"], nodes, made, {"to_apply": one.graph}, metadata=emitter.metadata)
        outputs = iter([emitter.element(call, number) for number in range(len(leaves))])
        value = one.result.renewed({}).lift(join, outputs) if one.result is not None else None
        for key, spec in one.written.items():
            store.set(key, spec.lift(join, outputs))
        if value is None:
            raise PathEnds
        self._note_arguments(value, bound)
        return value

    def _refuse_shared_arguments(self, one: Specialisation, bound: Keywords) -> None:
        """Refuse arguments that share elements with an array that the function changes: they are passed as they are."""
        for array in self._arrays(bound.values()):
            if any(isinstance(key, Array) and self.interpreter.aliases.share(key, array) for key in one.written):
                self.interpreter.refuse(
                    "an argument shares elements with an array that a function which calls itself changes",
                    hint="copy() it first",
                )

    def _note_arguments(self, value: AbstractValue, bound: Keywords) -> None:
        """Note of the arrays of a result that are an argument, or a view of one, that they may be any of them."""
        for array in self._arrays([value]):
            if array.memory in self.interpreter.protected:
                for argument in self._arrays(bound.values()):
                    self.interpreter.aliases.may_share(array, argument.memory)

    def _arrays(self, values: Iterable[AbstractValue]) -> Iterator[Array]:
        """The arrays in values and in the objects among them."""
        pending, seen = list(values), set[Cell]()
        while pending:
            for part in walk(pending.pop()):
                if isinstance(part, Array) and part.has_elements:
                    yield part
                elif isinstance(part, Ref) and part.cell not in seen:
                    seen.add(part.cell)
                    pending.append(self.interpreter.store.get(part.cell))

    def recursive_graphs(self) -> dict[Graph, tuple[int, int, int]]:
        """Of the graphs that call themselves: which output and parameter hold the number of an error, and which number
        stands for a stack that is too small."""
        table: dict[Graph, tuple[int, int, int]] = {}
        for rows in self.done.values():
            for one in rows:
                places = one.error_place(self.interpreter.error)
                if places is not None and one.graph is not None:
                    table[one.graph] = *places, self.interpreter.overflow_number()
        return table

    def _captured_values(self, closure: FunctionClosure) -> dict[Variable, Any]:
        """What the variables that a function reads from around it are bound to, those of functions in them included."""
        held: dict[Variable, Any] = {}
        pending: list[Any] = [closure]
        while pending:
            value = pending.pop()
            if isinstance(value, FunctionClosure):
                for variable in self.interpreter.captured_variables(value).values():
                    if variable not in held:
                        held[variable] = self.interpreter.store.get(variable)
                        pending.append(held[variable])
            if isinstance(value, AbstractValue):
                pending.extend(value.children)
        return held

    def finished(self, key: Any) -> Specialisation | None:
        """A graph made before, where what it captures is as it was, and its graph can be called from here."""
        interpreter = self.interpreter
        for one in self.done.get(key, ()):
            if (
                interpreter.is_around(one.parent)
                and one.errors is interpreter.errors
                and all(
                    interpreter.store.get(variable) is value or same(interpreter.store.get(variable), value)
                    for variable, value in one.captured.items()
                )
            ):
                return one
        return None


def _raises(arm: Arm, error: Variable) -> bool:
    """Whether a path of a function's body sets the number of an error."""
    number = arm.store.get(error)
    return isinstance(number, Array) and not isinstance(number.node, Parameter)


def _equal(a: JoinSpec | None, b: JoinSpec | None) -> bool:
    """Whether two specs carry the same arrays, of as many alternatives."""
    if a is None or b is None:
        return a is b
    if type(a) is not type(b):
        return False
    if isinstance(a, SameSpec) and isinstance(b, SameSpec):
        return same(a.value, b.value)
    if isinstance(a, ViewSpec) and isinstance(b, ViewSpec):
        return a.is_like(b)
    left, right = list(a.leaves()), list(b.leaves())
    same_leaves = [(leaf.type, leaf.weak) for leaf in left] == [(leaf.type, leaf.weak) for leaf in right]
    return same_leaves and count_alternatives(a) == count_alternatives(b)
