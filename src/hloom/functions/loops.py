"""Loops: unrolled, or interpreted until the types of the variables they change converge.

That is a fixed point (the widening of abstract interpretation, Cousot and Cousot 1977); what a body does not change is
not carried.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hloom.functions.code import stored_names
from hloom.functions.control_flow import Arm
from hloom.functions.equality import same
from hloom.functions.join_specs import (
    ABSENT,
    ChoiceSpec,
    JoinSpec,
    MaybeSpec,
    NoCommonType,
    SameSpec,
    ViewSpec,
    count_alternatives,
    same_shape,
)
from hloom.functions.joins import Join
from hloom.functions.state import NORMAL, Completion, PathEnds, Refusal
from hloom.functions.store import Store
from hloom.functions.values import (
    PREDICATE,
    S32,
    UNBOUND,
    AbstractValue,
    Array,
    ConflictingValue,
    Const,
    Ref,
    Series,
    Tuple,
    ValueChoice,
    Variable,
)
from hloom.ir import Node, TupleType, Type
from hloom.ops import OPS
from hloom.text import HloomError

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

MAX_ROUNDS = 12
"""The maximum number of times that a loop's body is interpreted until its types settle."""
UNROLLED_WORK = 600
"""The maximum number of syntax nodes of a loop of known length that is unrolled by choice."""
UNROLLED_ROUNDS = 16
"""The maximum number of iterations of a loop of known length that is unrolled by choice."""
MAX_UNROLLED = 4096
"""The maximum number of iterations to unroll if types differ between iterations."""
NUMBERS = (bool, int, float, complex)


@dataclass(eq=False)
class Round:
    """One interpretation of a loop's body."""

    arm: Arm
    parameter: Node
    lifted: dict[Any, Any] = field(default_factory=dict)


class _Place:
    """How far a loop has gone: a variable of its own, or that of the iterator object that it goes over."""

    def __init__(
        self, interpreter: Interpreter, holder: AbstractValue | Variable, series: AbstractValue, first: AbstractValue
    ) -> None:
        self.interpreter = interpreter
        self.holder = holder
        self.series = series
        if isinstance(holder, Variable):
            interpreter.store.set(holder, first)

    @property
    def keys(self) -> list[Any]:
        """The variables that vary from round to round."""
        return [self.holder] if isinstance(self.holder, Variable) else []

    def number(self) -> AbstractValue:
        """The number of the next item."""
        if isinstance(self.holder, Variable):
            return self.interpreter.store.get(self.holder)
        held = self.interpreter.iterators.series(self.holder)
        assert held is not None
        return held[0]

    def set(self, number: AbstractValue) -> None:
        if isinstance(self.holder, Variable):
            self.interpreter.store.set(self.holder, number)
        else:
            assert isinstance(self.holder, Ref)
            self.interpreter.iterators.save(self.holder, number, self.series)


class Loops:
    """The loops of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

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
        source = interpreter.iterators.begun(interpreter.consumed(statement.iter))
        held = interpreter.iterators.series(source)
        first, series = held or (Const(0), source)
        can_roll = members.is_indexable(series)
        if not can_roll and not (held is None and interpreter.iterators.is_numbered(source)):
            self._unrolled(statement, source, None)
            return
        length = members.length(series)
        known = length - first.value if isinstance(length, int) and isinstance(first, Const) else None
        work = sum(1 for part in statement.body for _ in ast.walk(part))
        leaves = any(isinstance(part, (ast.Break, ast.Return)) for body in statement.body for part in ast.walk(body))
        if known is not None and (
            not can_roll or (known <= UNROLLED_ROUNDS and known * work <= UNROLLED_WORK and not (leaves and known > 2))
        ):
            self._unrolled(statement, source, known)
            return
        position = _Place(interpreter, source if held is not None else Variable("for index"), series, first)
        element = interpreter.numbers.of_python[int]
        count = interpreter.numbers.array(length if isinstance(length, Array) else Const(length))
        error = interpreter.store.get(interpreter.error)
        if isinstance(length, Array) and isinstance(error, Array):  # what follows an error has no length
            emitter = interpreter.emitter
            is_clear = emitter.compare("EQ", error.node, emitter.constant(0, S32))
            count = Array(emitter.select(is_clear, count.node, emitter.like(0, count.node)), True)

        def test() -> Node:
            now = interpreter.numbers.array(position.number(), element)
            return interpreter.emitter.compare("LT", now.node, interpreter.numbers.convert(count.node, element))

        def begin() -> None:
            now = interpreter.numbers.array(position.number(), element)
            position.set(Array(interpreter.emitter.add(now.node, interpreter.emitter.constant(1, element)), True))
            interpreter.assign(statement.target, interpreter.current(members.item(series, now)))

        attempt = self._attempt(
            lambda: self._rolled(statement, test, begin, least=known or 0, is_counted=True, predicted=position.keys)
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

    def _attempt(self, body: Callable[[], None]) -> HloomError | None:
        """Try on a layer of the store of its own; the refusal where there is one, and nothing is changed then."""
        interpreter = self.interpreter
        layer = Store(interpreter.store)
        counts = len(interpreter.errors)
        ended: PathEnds | None = None
        try:
            with interpreter.frame_kept(), interpreter.within(interpreter.emitter, layer):
                try:
                    body()
                except PathEnds as end:
                    ended = end
        except HloomError as error:
            del interpreter.errors[counts:]
            return error
        interpreter.store.entries.update(layer.entries)
        if ended is not None:
            raise ended
        return None

    def _finish(self, otherwise: Sequence[ast.stmt]) -> None:
        """Run a loop's `else` where it was not left by `break`, and forget the `break`."""
        interpreter = self.interpreter
        frame = interpreter.here
        tag = interpreter.store.get(frame.tag)
        if otherwise:
            if isinstance(tag, Const):
                if tag.value is Completion.NORMAL:
                    interpreter.execute(otherwise)
                    return
            else:
                interpreter.control.if_normal(tag, lambda: interpreter.execute(otherwise))
                tag = interpreter.store.get(frame.tag)
        interpreter.store.set(frame.tag, _replaced(tag, Completion.BREAK))

    def _unrolled(self, statement: ast.For, source: AbstractValue, count: int | None) -> None:
        """A loop round by round; with the number of its rounds where nothing can change that."""
        interpreter = self.interpreter
        iterators = interpreter.iterators
        is_object = not iterators.is_numbered(source)
        is_fixed = isinstance(source, (Array, Tuple, Const)) or (isinstance(source, Series) and source.rule == "range")
        last = count if is_fixed else None

        def run(number: int) -> None:
            frame = interpreter.here
            while True:
                frame.part = statement
                if number > MAX_UNROLLED:
                    interpreter.refuse(f"a loop over what has more than {MAX_UNROLLED} items is gone through by round")
                if is_object:
                    item = iterators.next(source)
                else:
                    there = iterators.has(source, number)
                    item = interpreter.current(interpreter.members.item(source, Const(number))) if there else None
                if item is None:
                    return
                interpreter.assign(statement.target, item)
                interpreter.execute(statement.body)
                number += 1
                tag = _replaced(interpreter.store.get(frame.tag), Completion.CONTINUE)
                interpreter.store.set(frame.tag, tag)
                if isinstance(tag, ValueChoice):
                    if last is None or number < last:
                        interpreter.control.if_normal(tag, lambda number=number: run(number))
                    return
                if tag.value is not Completion.NORMAL:
                    return

        run(0)
        self._finish(statement.orelse)

    def _unrolled_while(self, statement: ast.While, test: Callable[[], Any], attempt: HloomError) -> None:
        """A loop whose condition is known round by round."""
        interpreter = self.interpreter
        frame = interpreter.here
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
        frame = interpreter.here
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

            interpreter.control.run_again(one.arm, body)
            is_stable = True
            for key in self._keys_of(one):
                if key not in held:
                    held[key] = []
                    is_stable = False
            for key, former in held.items():
                if not one.arm.alive and key is not interpreter.error:
                    continue
                after = one.arm.store.held(key)
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
            interpreter.control.run_arm("true", again),
            interpreter.control.run_arm("false", lambda: interpreter.store.set(go, Const(False))),
        ]
        interpreter.control.merge(interpreter.control.is_normal(tag), arms)

    def _has_effects(self, outer: Store, test: Callable[[], Any]) -> bool:
        """Whether a loop's condition changes anything, checks included."""
        arm = self.interpreter.control.open_arm("condition")
        self.interpreter.control.run_again(arm, test)
        return not arm.alive or any(True for _ in arm.store.changed())

    def _predicted(self, statement: ast.While | ast.For) -> list[Any]:
        """The variables that a loop's text assigns and that are numbers of the source before it: they will vary."""
        frame = self.interpreter.here
        parts = [part for body in statement.body for part in ast.walk(body)]
        keys: list[Any] = []
        for name in sorted(stored_names(iter(parts))):
            variable = frame.scope.find(name)
            if variable is not None:
                value = self.interpreter.store.get(variable)
                if isinstance(value, Const) and isinstance(value.value, NUMBERS):
                    keys.append(variable)
        return keys

    def _specs(
        self, join: Join, held: dict[Any, Any], outer: Store, predicted: Sequence[Any], least: int, go: Variable
    ) -> dict[Any, JoinSpec]:
        specs: dict[Any, JoinSpec] = {}
        for key, former in held.items():
            entry = outer.held(key)
            if entry is UNBOUND and (least or self._is_result(key)):
                entry = ABSENT
            try:
                specs[key] = join.unify([(entry, outer), *former], widen=key in predicted or key is go)
            except NoCommonType as problem:
                specs[key] = self.interpreter.control.conflict(key, (), problem)
        return specs

    def _is_result(self, key: Any) -> bool:
        return key in self.interpreter.control.results()

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
        entry = outer.held(key)
        if entry is UNBOUND and (least or self._is_result(key)):
            entry = ABSENT
        for widen in (True, False):
            for rows in ([after], [*former, after]):  # of alternatives, a round may be one and the carried type several
                try:
                    made = Join(self.interpreter, outer).unify([(entry, outer), *rows], widen=widen)
                except NoCommonType:
                    return False
                if self._holds(spec, made):
                    return True
        return False

    def _holds(self, spec: JoinSpec, made: JoinSpec) -> bool:
        """Whether what one spec carries goes into another."""
        if isinstance(spec, ChoiceSpec) or isinstance(made, ChoiceSpec):
            return same_shape(spec, made)
        if isinstance(spec, ViewSpec) or isinstance(made, ViewSpec):
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
            for key in self.interpreter.control.changed_keys(one.arm)
            if key not in one.lifted or not same(one.lifted[key], one.arm.store.get(key))
        ]

    def _open_round(self, name: str, specs: dict[Any, JoinSpec], join: Join) -> Round:
        interpreter = self.interpreter
        arm = interpreter.control.open_arm(name)
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
        frame = interpreter.here
        emitter, outer = interpreter.emitter, interpreter.store
        arm = one.arm
        with interpreter.within(arm.emitter, arm.store):
            outputs: list[Node] = []
            for key, spec in specs.items():
                is_there = arm.alive or key is interpreter.error
                held = arm.store.held(key) if is_there else ABSENT
                outputs += interpreter.control.lowered(join, spec, held, arm)
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
                tests.append(interpreter.control.is_normal(tag))
            error = interpreter.store.get(interpreter.error)
            if isinstance(error, Array) and not (is_counted and arm.alive):  # what follows an error may not end
                tests.append(inner.compare("EQ", error.node, inner.constant(0, S32)))
            result = inner.constant(True, PREDICATE) if not tests else tests[0]
            for further in tests[1:]:
                result = inner.elementwise("and", result, further)
            condition.arm.graph.set_output(result)
        initial: list[Node] = []
        for key, spec in specs.items():
            entry = outer.held(key)
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


def _replaced(tag: Any, completion: Completion) -> Any:
    """The tag after one way of leaving, `break` or `continue`, has been handled."""
    if isinstance(tag, Const):
        return NORMAL if tag.value is completion else tag
    options = tuple(NORMAL if option.value is completion else option for option in tag.options)
    if all(same(option, options[0]) for option in options):
        return options[0]
    return ValueChoice(tag.tag, options)
