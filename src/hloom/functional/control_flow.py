"""Branches and loops on data: graphs of their own, and the join of what they leave behind.

Loops are interpreted until the types of what their bodies change settle, which is a fixed point (the widening
of abstract interpretation, Cousot and Cousot 1977); what it does not change is not carried.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hloom.autodiff import Emitter
from hloom.frontend import stored_names
from hloom.functional.container_classes import is_sequence
from hloom.functional.joins import (
    ABSENT,
    ChoiceSpec,
    Join,
    JoinSpec,
    MaybeSpec,
    NoCommonType,
    SameSpec,
    count_alternatives,
    same,
    same_shape,
)
from hloom.functional.state import NORMAL, Completion, PathEnds, Refusal
from hloom.functional.store import MISSING, Store
from hloom.functional.values import (
    ITERATOR,
    NONE,
    UNBOUND,
    AbstractValue,
    Array,
    ConflictingValue,
    Const,
    Ref,
    ValueChoice,
    Variable,
)
from hloom.ir import Graph, Node, TensorType, TupleType, Type, dtype
from hloom.ops import OPS
from hloom.text import HloomError

if TYPE_CHECKING:
    from hloom.functional.interpreter import Interpreter

PREDICATE = dtype("pred")
S32 = dtype("s32")
MAX_ROUNDS = 12
"""How often a loop's body is interpreted until its types settle."""
UNROLLED_WORK = 600
"""How many syntax nodes a loop of known length may come to when it is unrolled without need."""
UNROLLED_ROUNDS = 16
"""How many rounds a loop of known length may have when it is unrolled without need."""
MAX_UNROLLED = 4096
"""How many rounds are unrolled where the types differ from round to round."""
SELECTED = 6
"""How many cheap instructions of scalars a branch may have to be computed on both paths, and selected from."""
CHEAP = frozenset({
    "abs", "add", "and", "compare", "convert", "divide", "maximum", "minimum", "multiply", "negate", "not", "or",
    "remainder", "select", "subtract", "tuple", "xor", "floor", "sign", "is-finite",
})  # fmt: skip
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


@dataclass(eq=False)
class Round:
    """One interpretation of a loop's body."""

    arm: Arm
    parameter: Node
    lifted: dict[Any, Any] = field(default_factory=dict)


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
        frame, part = interpreter.frame, interpreter.frame.part if interpreter.frame else None
        scope = frame.scope if frame else None
        try:
            with interpreter.within(arm.emitter, arm.store):
                arm.value = body()
                if isinstance(arm.value, AbstractValue):
                    arm.value = interpreter.current(arm.value)
        except PathEnds:
            arm.alive = False
            interpreter.frame = frame
            if frame is not None and scope is not None:
                frame.scope = scope
        if frame is not None and part is not None:
            frame.part = part

    def goes_on(self, arm: Arm) -> bool:
        """Whether what follows in the block may run after a path."""
        frame = self.interpreter.frame
        assert frame is not None
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
        """Note what a test that is true (or false) says of a name: `x is None`, `x is not None`, `not`, `and`, `or`."""
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
        """What one of several values is used for."""
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
        join = Join(interpreter, store, keys)
        returned = self._returned(alive)
        specs: dict[Any, JoinSpec] = {}
        rows: dict[Any, list[Any]] = {}
        for key in keys:
            held = [self._held(arm, key) if arm.alive or key is interpreter.error else ABSENT for arm in arms]
            if isinstance(key, Variable) and key is not interpreter.error and key in returned:
                held = [ABSENT if value is UNBOUND else value for value in held]
            rows[key] = held
            try:
                specs[key] = join.unify(held, [arm.store for arm in arms])
            except NoCommonType as problem:
                specs[key] = self._conflict(key, arms, problem)
        value: JoinSpec = SameSpec(NONE)
        if has_value and alive:
            try:
                value = join.unify([arm.value if arm.alive else ABSENT for arm in arms], [arm.store for arm in arms])
            except NoCommonType as problem:
                interpreter.refuse(f"the two sides of a condition have no type in common: {problem}")
        outputs: list[list[Node]] = []
        for position, arm in enumerate(arms):
            with interpreter.within(arm.emitter, arm.store):
                row: list[Node] = []
                for key, spec in specs.items():
                    row += self._lowered(join, spec, rows[key][position], arm)
                if has_value:
                    row += self._lowered(join, value, arm.value if arm.alive else ABSENT, arm)
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
        if not arm.alive:
            yield from self._changed_error(arm)
            return
        for key in arm.store.changed():
            if not isinstance(key, Array) or self.interpreter.is_made_outside(key):
                yield key

    def _returned(self, alive: Sequence[Arm]) -> set[Any]:
        """The variables that hold results of calls: what they are on a path that does not return does not matter."""
        frame = self.interpreter.frame
        results: set[Any] = set()
        while frame is not None:
            results.add(frame.result)
            frame = frame.caller
        return results

    def _changed_error(self, arm: Arm) -> Iterator[Any]:
        error = self.interpreter.error
        if error in arm.store.entries:
            yield error

    def _held(self, arm: Arm, key: Any) -> Any:
        value = arm.store.get(key)
        return key if value is MISSING and isinstance(key, Array) else value

    def _lowered(self, join: Join, spec: JoinSpec, held: Any, arm: Arm) -> list[Node]:
        if held is ABSENT:
            return list(spec.absent(join))
        return list(spec.lower(join, held, arm.store))

    def _conflict(self, key: Any, arms: Sequence[Any], problem: NoCommonType) -> JoinSpec:
        """Values of no common type: an error where they are used."""
        name = f" of '{key.name}'" if isinstance(key, Variable) and key.name.isidentifier() else ""
        lines = list(dict.fromkeys(line for arm in arms if (line := arm.store.line(key)) is not None))
        where = f" (bound at {' and '.join(lines)})" if lines else ""
        return SameSpec(
            ConflictingValue(
                f"the values{name} of two paths do not go together: {problem}{where}", self.interpreter.location()
            )
        )

    def _emit_branches(self, tag: Node, arms: Sequence[Arm], outputs: Sequence[Sequence[Node]]) -> Iterator[Node]:
        interpreter = self.interpreter
        emitter = interpreter.emitter
        if not outputs[0]:
            return iter(())
        types = [_bare(node.type) for node in outputs[0]]
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
        nodes = [node for node in graph.nodes if node.opcode not in ("constant", "get-tuple-element")]
        if len(nodes) > SELECTED:
            return False
        return all(node.opcode in CHEAP and isinstance(node.type, TensorType) and not node.type.rank for node in nodes)

    def _inlined(self, graph: Graph, outputs: Sequence[Node]) -> list[Node]:
        mapping: dict[Any, Any] = {}
        self.interpreter.emitter.graph.copy_nodes(graph.nodes, mapping)
        self.interpreter.module.erase_graph(graph)
        return [mapping.get(node, node) for node in outputs]

    # Loops

    def while_loop(self, statement: ast.While) -> None:
        """A `while`."""
        interpreter = self.interpreter

        def test() -> Any:
            return interpreter.operators.truth(interpreter.evaluate(statement.test))

        attempt = self._attempt(lambda: self._rolled(statement, test, lambda: None, least=0, is_counted=False))
        if isinstance(attempt, HloomError):
            self._unrolled_while(statement, test, attempt)
        frame = interpreter.frame
        tag = interpreter.store.get(frame.tag) if frame is not None else None
        if frame is not None and isinstance(statement.test, ast.Constant) and isinstance(tag, ValueChoice):
            ways = {option.value for option in tag.options}  # type: ignore[attr-defined]
            if ways == {Completion.NORMAL, Completion.RETURN}:  # `while True` that only a return leaves
                interpreter.store.set(frame.tag, Const(Completion.RETURN))
        self._finish(statement.orelse)

    def for_loop(self, statement: ast.For) -> None:
        """A `for`: unrolled where it is short or its items differ in type, else one loop."""
        interpreter = self.interpreter
        members = interpreter.members
        frame = interpreter.frame
        assert frame is not None
        source = interpreter.evaluate(statement.iter)
        if isinstance(source, ValueChoice):
            self._for_choice(statement, source)
            return
        length = members.length(source)
        known = length if isinstance(length, int) else None
        work = sum(1 for part in statement.body for _ in ast.walk(part))
        can_roll = members.is_indexable(source)
        leaves = any(isinstance(part, (ast.Break, ast.Return)) for body in statement.body for part in ast.walk(body))
        if known is not None and (
            not can_roll or (known <= UNROLLED_ROUNDS and known * work <= UNROLLED_WORK and not (leaves and known > 2))
        ):
            self._unrolled(statement, source, known)
            return
        index = Variable("for index")
        interpreter.store.set(index, Const(0))
        element = interpreter.numbers.of_python[int]
        count = interpreter.numbers.array(length if isinstance(length, Array) else Const(length))
        error = interpreter.store.get(interpreter.error)
        if isinstance(length, Array) and isinstance(error, Array):  # what follows an error has no length
            emitter = interpreter.emitter
            is_clear = emitter.compare("EQ", error.node, emitter.constant(0, S32))
            count = Array(emitter.select(is_clear, count.node, emitter.like(0, count.node)), True)

        def test() -> Node:
            now = interpreter.numbers.array(interpreter.store.get(index), element)
            return interpreter.emitter.compare("LT", now.node, interpreter.numbers.convert(count.node, element))

        def begin() -> None:
            now = interpreter.numbers.array(interpreter.store.get(index), element)
            interpreter.assign(statement.target, members.item(source, now))
            following = interpreter.emitter.add(now.node, interpreter.emitter.constant(1, element))
            interpreter.store.set(index, Array(following, True))

        attempt = self._attempt(
            lambda: self._rolled(statement, test, begin, least=known or 0, is_counted=True, predicted=[index])
        )
        if isinstance(attempt, HloomError):
            if known is None or known > MAX_UNROLLED:
                raise attempt
            try:
                self._unrolled(statement, source, known)
            except HloomError as error:
                raise (attempt if isinstance(attempt, Refusal) and not isinstance(error, Refusal) else error) from None
            return
        self._finish(statement.orelse)

    def _for_choice(self, statement: ast.For, source: ValueChoice) -> None:
        self.interpreter.refuse("which of several containers a loop goes over must be known when it is compiled")

    def _attempt(self, body: Callable[[], None]) -> HloomError | None:
        """Try on a layer of the store of its own; the refusal where there is one, and nothing is changed then."""
        interpreter = self.interpreter
        frame = interpreter.frame
        assert frame is not None
        scope, part = frame.scope, frame.part
        layer = Store(interpreter.store)
        counts = len(interpreter.errors)
        ended: PathEnds | None = None
        try:
            with interpreter.within(interpreter.emitter, layer):
                try:
                    body()
                except PathEnds as end:
                    ended = end
        except HloomError as error:
            interpreter.frame, frame.scope, frame.part = frame, scope, part
            del interpreter.errors[counts:]
            return error
        interpreter.store.entries.update(layer.entries)
        if ended is not None:
            raise ended
        return None

    def _finish(self, otherwise: Sequence[ast.stmt]) -> None:
        """Run a loop's `else` where it was not left by `break`, and forget the `break`."""
        interpreter = self.interpreter
        frame = interpreter.frame
        assert frame is not None
        tag = interpreter.store.get(frame.tag)
        if otherwise:
            if isinstance(tag, Const):
                if tag.value is Completion.NORMAL:
                    interpreter.execute(otherwise)
                    return
            else:
                self.if_normal(tag, lambda: interpreter.execute(otherwise))
                tag = interpreter.store.get(frame.tag)
        interpreter.store.set(frame.tag, _replaced(tag, Completion.BREAK))

    def _unrolled(self, statement: ast.For, source: AbstractValue, count: int) -> None:
        """A loop of known length, round by round."""
        interpreter = self.interpreter
        is_list = isinstance(source, Ref) and is_sequence(source.cell.cls)  # which may change in the loop
        is_iterator = isinstance(source, Ref) and source.cell.cls is ITERATOR  # from which each round takes an item
        is_fixed = not (is_list or is_iterator or isinstance(source, Array))
        values = list(interpreter.members.items(source)) if is_fixed else None

        def run(number: int) -> None:
            frame = interpreter.frame
            assert frame is not None
            while number < (len(interpreter.contents(source).items) if is_list else count):  # type: ignore[arg-type]
                frame.part = statement
                if number > MAX_UNROLLED:
                    interpreter.refuse(f"a list with more than {MAX_UNROLLED} items is gone over")
                if is_iterator:
                    item = interpreter.members.next_item(source)
                else:
                    item = values[number] if values is not None else interpreter.members.item(source, Const(number))
                interpreter.assign(statement.target, item)
                interpreter.execute(statement.body)
                number += 1
                tag = _replaced(interpreter.store.get(frame.tag), Completion.CONTINUE)
                interpreter.store.set(frame.tag, tag)
                if isinstance(tag, ValueChoice):
                    if number < count or is_list:
                        self.if_normal(tag, lambda number=number: run(number))
                    return
                if tag.value is not Completion.NORMAL:
                    return

        run(0)
        self._finish(statement.orelse)

    def _unrolled_while(self, statement: ast.While, test: Callable[[], Any], attempt: HloomError) -> None:
        """A loop whose condition is known round by round."""
        interpreter = self.interpreter
        frame = interpreter.frame
        assert frame is not None
        for _ in range(MAX_UNROLLED):
            truth = test()
            if not isinstance(truth, bool):
                raise attempt
            if not truth:
                return
            interpreter.execute(statement.body)
            tag = _replaced(interpreter.store.get(frame.tag), Completion.CONTINUE)
            interpreter.store.set(frame.tag, tag)
            if isinstance(tag, ValueChoice):
                raise attempt
            if tag.value is not Completion.NORMAL:
                return
        raise attempt

    def _rolled(
        self,
        statement: ast.While | ast.For,
        test: Callable[[], Any],
        begin: Callable[[], None],
        *,
        least: int,
        is_counted: bool,
        predicted: Sequence[Any] = (),
    ) -> None:
        """One `while` of HLO: the fixed point of the body's types, then the graphs."""
        interpreter = self.interpreter
        frame = interpreter.frame
        assert frame is not None
        outer = interpreter.store
        first = test()
        if first is False:
            return
        go = Variable("loop goes on")
        predicted = [*predicted, *self._predicted(statement)]
        held: dict[Any, list[tuple[Any, Store]]] = {}
        for key in predicted:
            held[key] = []
        is_rotated = not is_counted and (len(interpreter.store.entries) and self._has_effects(outer, test))
        if is_rotated:
            outer.set(go, Array(first, True) if isinstance(first, Node) else Const(first))
            held[go] = []
        for _ in range(MAX_ROUNDS):
            join = Join(interpreter, outer, held)
            specs = self._specs(join, held, outer, predicted, least, go)
            one = self._open_round("body", specs, join)

            def body(one: Round = one) -> None:
                begin()
                interpreter.execute(statement.body)
                tag = _replaced(interpreter.store.get(frame.tag), Completion.CONTINUE)
                interpreter.store.set(frame.tag, tag)
                if is_rotated:
                    self._test_again(tag, go, test)

            self.run_again(one.arm, body)
            is_stable = True
            for key in self._keys_of(one):
                if key not in held:
                    held[key] = []
                    is_stable = False
            for key, former in held.items():
                if not one.arm.alive and key is not interpreter.error:
                    continue
                after = self._held(one.arm, key)
                if not self._fits(specs.get(key), outer, former, (after, one.arm.store), key, least):
                    former.append((after, one.arm.store))
                    is_stable = False
                elif not former:
                    former.append((after, one.arm.store))
            if is_stable:
                self._emit_loop(specs, join, one, test, go if is_rotated else None, is_counted)
                return
        interpreter.refuse("the types of what this loop carries do not settle", hint="a list or tuple may grow, or a "
                           "function may be wrapped in each round")  # fmt: skip

    def _test_again(self, tag: Any, go: Variable, test: Callable[[], Any]) -> None:
        interpreter = self.interpreter

        def again() -> None:
            truth = test()
            interpreter.store.set(go, Array(truth, True) if isinstance(truth, Node) else Const(truth))

        if isinstance(tag, Const):
            if tag.value is Completion.NORMAL:
                again()
            else:
                interpreter.store.set(go, Const(False))
            return
        arms = [
            self.run_arm("true", again),
            self.run_arm("false", lambda: interpreter.store.set(go, Const(False))),
        ]
        self.merge(self.is_normal(tag), arms)

    def _has_effects(self, outer: Store, test: Callable[[], Any]) -> bool:
        """Whether a loop's condition changes anything, checks included."""
        arm = self.open_arm("condition")
        self.run_again(arm, test)
        return not arm.alive or any(True for _ in arm.store.changed())

    def _predicted(self, statement: ast.While | ast.For) -> list[Any]:
        """The variables that a loop's text assigns and that are numbers of the source before it: they will vary."""
        interpreter = self.interpreter
        frame = interpreter.frame
        assert frame is not None
        parts = [part for body in statement.body for part in ast.walk(body)]
        keys: list[Any] = []
        for name in sorted(stored_names(iter(parts))):
            variable = frame.scope.find(name)
            if variable is not None:
                value = interpreter.store.get(variable)
                if isinstance(value, Const) and isinstance(value.value, NUMBERS):
                    keys.append(variable)
        return keys

    def _specs(
        self, join: Join, held: dict[Any, Any], outer: Store, predicted: Sequence[Any], least: int, go: Variable
    ) -> dict[Any, JoinSpec]:
        specs: dict[Any, JoinSpec] = {}
        for key, former in held.items():
            entry = outer.get(key)
            entry = key if entry is MISSING and isinstance(key, Array) else entry
            values = [entry, *(value for value, _ in former)]
            if entry is UNBOUND and (least or self._is_result(key)):
                values[0] = ABSENT
            try:
                specs[key] = join.unify(
                    values, [outer, *(store for _, store in former)], widen=key in predicted or key is go
                )
            except NoCommonType as problem:
                specs[key] = self._conflict(key, (), problem)
        return specs

    def _is_result(self, key: Any) -> bool:
        return key in self._returned(())

    def _fits(
        self,
        spec: JoinSpec | None,
        outer: Store,
        former: Sequence[tuple[Any, Store]],
        after: tuple[Any, Store],
        key: Any,
        least: int,
    ) -> bool:
        """Whether a value at the end of the body is of the type that the loop carries."""
        if spec is None:
            return False
        if isinstance(spec, SameSpec):
            if isinstance(spec.value, ConflictingValue):
                return True
            return same(spec.value, after[0]) or (isinstance(after[0], ConflictingValue))
        entry = outer.get(key)
        entry = key if entry is MISSING and isinstance(key, Array) else entry
        if entry is UNBOUND and (least or self._is_result(key)):
            entry = ABSENT
        for widen in (True, False):
            for rows in ([after], [*former, after]):  # of alternatives, a round may be one and the carried type several
                try:
                    made = Join(self.interpreter, outer).unify(
                        [entry, *(value for value, _ in rows)], [outer, *(store for _, store in rows)], widen=widen
                    )
                except NoCommonType:
                    return False
                if self._holds(spec, made):
                    return True
        return False

    def _holds(self, spec: JoinSpec, made: JoinSpec) -> bool:
        """Whether what one spec carries goes into another."""
        if isinstance(spec, ChoiceSpec) or isinstance(made, ChoiceSpec):
            return same_shape(spec, made)
        wanted, given = list(spec.leaves()), list(made.leaves())
        if len(wanted) != len(given) or type(made) is not type(spec):
            return False
        promote = self.interpreter.numbers
        for a, b in zip(wanted, given, strict=True):
            if a.type.dims != b.type.dims:
                return False
            if a.type is not b.type or a.weak != b.weak:
                joined, weak = promote.promoted([Array(_Typed(a.type), a.weak), Array(_Typed(b.type), b.weak)])  # type: ignore[arg-type]
                if joined is not a.type.dtype or weak != a.weak:
                    return False
        return count_alternatives(made) == count_alternatives(spec)

    def _keys_of(self, one: Round) -> list[Any]:
        return [
            key
            for key in self.changed_keys(one.arm)
            if key not in one.lifted or not same(one.lifted[key], one.arm.store.get(key))
        ]

    def _open_round(self, name: str, specs: dict[Any, JoinSpec], join: Join) -> Round:
        interpreter = self.interpreter
        arm = self.open_arm(name)
        leaves = [leaf.type for spec in specs.values() for leaf in spec.leaves()]
        parameter = arm.graph.add_parameter(TupleType(leaves), "state")
        one = Round(arm, parameter)
        with interpreter.within(arm.emitter, arm.store):
            inside = Join(interpreter, arm.store)
            nodes = iter([arm.emitter.element(parameter, number) for number in range(len(leaves))])
            for key, spec in specs.items():
                value = spec.lift(inside, nodes)
                one.lifted[key] = value
                arm.store.set(key, value)
        return one

    def _emit_loop(
        self,
        specs: dict[Any, JoinSpec],
        join: Join,
        one: Round,
        test: Callable[[], Any],
        go: Variable | None,
        is_counted: bool,
    ) -> None:
        interpreter = self.interpreter
        frame = interpreter.frame
        assert frame is not None
        emitter, outer = interpreter.emitter, interpreter.store
        arm = one.arm
        with interpreter.within(arm.emitter, arm.store):
            outputs: list[Node] = []
            for key, spec in specs.items():
                is_there = arm.alive or key is interpreter.error
                outputs += self._lowered(join, spec, self._held(arm, key) if is_there else ABSENT, arm)
            arm.graph.set_output(arm.emitter.tuple(outputs))
        condition = self._open_round("condition", specs, join)
        with interpreter.within(condition.arm.emitter, condition.arm.store):
            if go is not None:
                value = interpreter.store.get(go)
                truth = value.node if isinstance(value, Array) else value.value
            else:
                truth = test()
            inner = condition.arm.emitter
            tests = [] if truth is True else [truth if isinstance(truth, Node) else inner.constant(truth, PREDICATE)]
            tag = interpreter.store.get(frame.tag)
            if isinstance(tag, ValueChoice) and go is None:
                tests.append(self.is_normal(tag))
            error = interpreter.store.get(interpreter.error)
            if isinstance(error, Array) and not (is_counted and arm.alive):  # what follows an error may not end
                tests.append(inner.compare("EQ", error.node, inner.constant(0, S32)))
            result = inner.constant(True, PREDICATE) if not tests else tests[0]
            for further in tests[1:]:
                result = inner.elementwise("and", result, further)
            condition.arm.graph.set_output(result)
        initial: list[Node] = []
        for key, spec in specs.items():
            entry = outer.get(key)
            entry = key if entry is MISSING and isinstance(key, Array) else entry
            if entry is UNBOUND and not isinstance(spec, MaybeSpec):
                entry = ABSENT
            initial += list(spec.absent(join)) if entry is ABSENT else list(spec.lower(join, entry, outer))
        state = emitter.tuple(initial)
        attributes = {"condition": condition.arm.graph, "body": arm.graph}
        node = emitter.graph.add_apply(OPS["while"], [state], state.type, attributes, metadata=emitter.metadata)
        nodes = iter([emitter.element(node, number) for number in range(len(initial))])
        for key, spec in specs.items():
            outer.set(key, spec.lift(join, nodes))


class _Typed:
    """Stands for a node where only its type is asked for."""

    def __init__(self, type: Type) -> None:
        self.type = type


def _bare(value_type: Type | None) -> Type:
    assert value_type is not None
    return value_type


def _narrowed(choice: ValueChoice, is_none: bool) -> AbstractValue | None:
    """One of several values that is (or is not) None; itself where that leaves several."""
    options = [option for option in choice.options if (isinstance(option, Const) and option.value is None) is is_none]
    return options[0] if len(options) == 1 else None


def _replaced(tag: Any, completion: Completion) -> Any:
    """How statements leave off when one way of leaving has been dealt with."""
    if isinstance(tag, Const):
        return NORMAL if tag.value is completion else tag
    options = tuple(NORMAL if option.value is completion else option for option in tag.options)
    if all(same(option, options[0]) for option in options):
        return options[0]
    return ValueChoice(tag.tag, options)
