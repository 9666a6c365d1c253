"""Branches and loops on data: builds their graphs, and joins the results.

Loops are interpreted until the types of what their bodies change settle, which is a fixed point (the widening
of abstract interpretation, Cousot and Cousot 1977); what it does not change is not carried.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hloom.autodiff import Emitter
from hloom.functions.equality import same
from hloom.functions.join_specs import (
    ABSENT,
    JoinSpec,
    NoCommonType,
    SameSpec,
)
from hloom.functions.joins import Join
from hloom.functions.state import NORMAL, Completion, PathEnds
from hloom.functions.store import Store
from hloom.functions.values import (
    NONE,
    PREDICATE,
    S32,
    UNBOUND,
    AbstractValue,
    Array,
    ConflictingValue,
    Const,
    ValueChoice,
    Variable,
    is_none,
)
from hloom.ir import Constant, Graph, Node, TensorType, Trait, TupleType
from hloom.ops import OPS, with_trait

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

SELECTED = 6
"""The maximum number of cheap scalar instructions in a branch that is computed on both paths and selected from."""
CHEAP = with_trait(Trait.ELEMENTWISE) - with_trait(Trait.TRANSCENDENTAL)
NUMBERS = (bool, int, float, complex)


@dataclass(eq=False)
class Arm:
    """One path of a branch: its graph, its layer of the store, its value, and whether control flow goes on from it."""

    emitter: Emitter
    store: Store
    value: Any = NONE
    alive: bool = True

    @property
    def graph(self) -> Graph:
        return self.emitter.graph


class Control:
    """The control flow of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    # Branches

    def open_arm(self, name: str) -> Arm:
        """A new path from here."""
        interpreter = self.interpreter
        module = interpreter.module
        graph = module.add_graph(module.unique_graph_name(name), parent=interpreter.emitter.graph)
        arm = Arm(Emitter(graph), Store(interpreter.store))
        arm.emitter.metadata = interpreter.emitter.metadata
        return arm

    def run_arm(self, name: str, body: Callable[[], Any]) -> Arm:
        """A new path, interpreted."""
        arm = self.open_arm(name)
        self.run_again(arm, body)
        return arm

    def run_again(self, arm: Arm, body: Callable[[], Any]) -> None:
        """Go on with a path."""
        interpreter = self.interpreter
        try:
            with interpreter.frame_kept(), interpreter.within(arm.emitter, arm.store):
                arm.value = body()
                if isinstance(arm.value, AbstractValue):
                    arm.value = interpreter.current(arm.value)
        except PathEnds:
            arm.alive = False

    def goes_on(self, arm: Arm) -> bool:
        """Whether what follows in the block may run after a path."""
        frame = self.interpreter.here
        if not arm.alive:
            return False
        tag = arm.store.get(frame.tag)
        return not isinstance(tag, Const) or tag.value is Completion.NORMAL

    def choose(self, predicate: Node, on_true: Callable[[], Any], on_false: Callable[[], Any]) -> Any:
        """The value of one of two expressions, of which only one is computed."""
        arms = [self.run_arm("true", on_true), self.run_arm("false", on_false)]
        return self.merge(predicate, arms, has_value=True)

    def switch(self, tag: Node, bodies: Sequence[Callable[[], Any]]) -> Any:
        """The value of one of several expressions, by number."""
        if len(bodies) == 1:
            return bodies[0]()
        if len(bodies) == 2:
            emitter = self.interpreter.emitter
            return self.choose(emitter.compare("EQ", tag, emitter.constant(0, S32)), bodies[0], bodies[1])
        arms = [self.run_arm(f"branch{number}", body) for number, body in enumerate(bodies)]
        return self.merge(tag, arms, has_value=True)

    def narrowed(self, test: ast.expr, truth: bool) -> None:
        """Narrow a variable by a test that is true (or false): `x is None`, `x is not None`, `not`, `and`, `or`."""
        interpreter = self.interpreter
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.narrowed(test.operand, not truth)
        elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if truth else ast.Or):
            for part in test.values:
                self.narrowed(part, truth)
        elif (
            isinstance(test, ast.Compare)
            and isinstance(test.left, ast.Name)
            and isinstance(test.ops[0], (ast.Is, ast.IsNot))
            and isinstance(test.comparators[0], ast.Constant)
            and test.comparators[0].value is None
        ):
            frame = interpreter.frame
            variable = frame.scope.find(test.left.id) if frame is not None else None
            value = interpreter.store.get(variable) if variable is not None else None
            if isinstance(value, ValueChoice):
                made = _narrowed(value, isinstance(test.ops[0], ast.Is) is truth)
                if made is not None:
                    interpreter.store.set(variable, made)

    def choices(self, choice: ValueChoice, use: Callable[[AbstractValue], Any]) -> Any:
        """The result of using one of several values, whichever the run chooses."""
        return self.switch(choice.tag.node, [lambda option=option: use(option) for option in choice.options])

    def if_normal(self, tag: Any, body: Callable[[], None]) -> None:
        """Run what follows where no `break`, `continue` or `return` was met."""
        interpreter = self.interpreter
        frame = interpreter.frame
        assert frame is not None and isinstance(tag, ValueChoice)

        def goes_on() -> None:
            interpreter.store.set(frame.tag, NORMAL)
            body()

        def left() -> None:
            others = [option for option in tag.options if option.value is not Completion.NORMAL]  # type: ignore[attr-defined]
            if all(same(option, others[0]) for option in others):
                interpreter.store.set(frame.tag, others[0])

        arms = [self.run_arm("true", goes_on), self.run_arm("false", left)]
        self.merge(self.is_normal(tag), arms)

    def is_normal(self, tag: Any) -> Node:
        """Whether no `break`, `continue` or `return` was met."""
        emitter = self.interpreter.emitter
        if isinstance(tag, Const):
            return emitter.constant(tag.value is Completion.NORMAL, PREDICATE)
        result: Node | None = None
        for number, option in enumerate(tag.options):
            if option.value is Completion.NORMAL:
                is_it = emitter.compare("EQ", tag.tag.node, emitter.constant(number, S32))
                result = is_it if result is None else emitter.elementwise("or", result, is_it)
        return emitter.constant(False, PREDICATE) if result is None else result

    def merge(self, tag: Node, arms: Sequence[Arm], *, has_value: bool = False) -> Any:
        """Join paths: the value that they yield, and all that they changed."""
        interpreter = self.interpreter
        store = interpreter.store
        alive = [arm for arm in arms if arm.alive]
        keys: dict[Any, None] = {}
        for arm in arms:
            keys.update(dict.fromkeys(self.changed_keys(arm)))
        join, stores = Join(interpreter, store, keys), [arm.store for arm in arms]
        results = self.results()
        specs: dict[Any, JoinSpec] = {}
        rows: dict[Any, list[Any]] = {}
        for key in keys:
            held = [arm.store.held(key) if arm.alive or key is interpreter.error else ABSENT for arm in arms]
            if isinstance(key, Variable) and key is not interpreter.error and key in results:
                held = [ABSENT if value is UNBOUND else value for value in held]
            rows[key] = held
            try:
                specs[key] = join.unify(zip(held, stores, strict=True))
            except NoCommonType as problem:
                specs[key] = self.conflict(key, arms, problem)
        value: JoinSpec = SameSpec(NONE)
        if has_value and alive:
            try:
                value = join.unify([(arm.value if arm.alive else ABSENT, arm.store) for arm in arms])
            except NoCommonType as problem:
                interpreter.refuse(f"the two sides of a condition have no type in common: {problem}")
        outputs: list[list[Node]] = []
        for position, arm in enumerate(arms):
            with interpreter.within(arm.emitter, arm.store):
                row: list[Node] = []
                for key, spec in specs.items():
                    row += self.lowered(join, spec, rows[key][position], arm)
                if has_value:
                    row += self.lowered(join, value, arm.value if arm.alive else ABSENT, arm)
                outputs.append(row)
        nodes = self._emit_branches(tag, arms, outputs)
        for key, spec in specs.items():
            store.set(key, spec.lift(join, nodes))
        made = value.lift(join, nodes)
        if not alive:
            raise PathEnds
        return made

    def changed_keys(self, arm: Arm) -> Iterator[Any]:
        """What a path changes of what is around it; where it ends, only the number of an error counts."""
        error = self.interpreter.error
        if not arm.alive:
            yield from (error,) if error in arm.store.entries else ()
            return
        for key in arm.store.changed():
            if not isinstance(key, Array) or self.interpreter.is_made_outside(key):
                yield key

    def results(self) -> set[Any]:
        """The variables that hold results of calls: what they are on a path that does not return does not matter."""
        frame = self.interpreter.frame
        results: set[Any] = set()
        while frame is not None:
            results.add(frame.result)
            frame = frame.caller
        return results

    def lowered(self, join: Join, spec: JoinSpec, held: Any, arm: Arm) -> list[Node]:
        if held is ABSENT:
            return list(spec.absent(join))
        return list(spec.lower(join, held, arm.store))

    def conflict(self, key: Any, arms: Sequence[Any], problem: NoCommonType) -> JoinSpec:
        """A variable whose values have no common type: an error only if it is used."""
        name = f" of '{key.name}'" if isinstance(key, Variable) and key.name.isidentifier() else ""
        lines = list(dict.fromkeys(line for arm in arms if (line := arm.store.line(key)) is not None))
        where = f" (bound at {' and '.join(lines)})" if lines else ""
        return SameSpec(
            ConflictingValue(
                f"the values{name} of two paths do not go together: {problem}{where}", self.interpreter.location()
            )
        )

    def _emit_branches(self, tag: Node, arms: Sequence[Arm], outputs: Sequence[Sequence[Node]]) -> Iterator[Node]:
        emitter = self.interpreter.emitter
        if not outputs[0]:
            return iter(())
        types: list[Any] = [node.type for node in outputs[0]]
        is_binary = isinstance(tag.type, TensorType) and tag.type.dtype is PREDICATE
        is_scalar = all(isinstance(made, TensorType) and not made.rank for made in types)
        if is_binary and is_scalar and all(self._is_cheap(arm.graph) for arm in arms):
            rows = [self._inlined(arm.graph, row) for arm, row in zip(arms, outputs, strict=True)]
            return iter([a if a is b else emitter.select(tag, a, b) for a, b in zip(rows[0], rows[1], strict=True)])
        for arm, row in zip(arms, outputs, strict=True):
            arm.graph.set_output(arm.emitter.tuple(row))
        made = TupleType(types)
        graphs = [arm.graph for arm in arms]
        if is_binary:
            attributes = {"true_computation": graphs[0], "false_computation": graphs[1]}
        else:
            attributes = {"branch_computations": tuple(graphs)}
        node = emitter.graph.add_apply(OPS["conditional"], [tag], made, attributes, metadata=emitter.metadata)
        return iter([emitter.element(node, number) for number in range(len(types))])

    def _is_cheap(self, graph: Graph) -> bool:
        nodes = [node for node in graph.nodes if not isinstance(node, Constant) and node.opcode != "get-tuple-element"]
        if len(nodes) > SELECTED:
            return False
        return all(node.opcode in CHEAP and isinstance(node.type, TensorType) and not node.type.rank for node in nodes)

    def _inlined(self, graph: Graph, outputs: Sequence[Node]) -> list[Node]:
        mapping: dict[Any, Any] = {}
        self.interpreter.emitter.graph.copy_nodes(graph.nodes, mapping)
        self.interpreter.module.erase_graph(graph)
        return [mapping.get(node, node) for node in outputs]


def _narrowed(choice: ValueChoice, wanted: bool) -> AbstractValue | None:
    """One of several values that is (or is not) None; itself where that leaves several."""
    options = [option for option in choice.options if is_none(option) is wanted]
    return options[0] if len(options) == 1 else None
