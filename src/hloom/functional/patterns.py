"""`match` statements, case by case."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloom.functional.values import AbstractValue, Array, Const, Fields, Ref, Tuple
from hloom.ir import Node, dtype

if TYPE_CHECKING:
    from hloom.functional.interpreter import Interpreter


PREDICATE = dtype("pred")


class Patterns:
    """The pattern matching of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    def match(self, statement: ast.Match) -> None:
        """Run the first case that fits."""
        subject = self.interpreter.evaluate(statement.subject)
        self._cases(subject, statement.cases)

    def _is_other_bool(self, case: ast.match_case, subject: AbstractValue, seen: Sequence[ast.match_case]) -> bool:
        """Whether a case for one truth value comes after an unguarded one for the other."""
        if not (
            isinstance(subject, Array) and subject.dtype is PREDICATE and isinstance(case.pattern, ast.MatchSingleton)
        ):
            return False
        return any(
            isinstance(former.pattern, ast.MatchSingleton)
            and former.guard is None
            and former.pattern.value is not case.pattern.value
            for former in seen
        )

    def _cases(
        self, subject: AbstractValue, cases: Sequence[ast.match_case], seen: Sequence[ast.match_case] = ()
    ) -> None:
        interpreter = self.interpreter
        if not cases:
            return
        case, rest = cases[0], cases[1:]
        fits = self._fits(case.pattern, subject)
        if self._is_other_bool(case, subject, seen):
            fits = True
        seen = (*seen, case)
        if fits is False:
            self._cases(subject, rest, seen)
            return
        if fits is True and case.guard is None:
            interpreter.execute(case.body)
            return
        if fits is True:
            self._guarded(case, subject, rest, seen)
            return
        control = interpreter.control
        if case.guard is None:
            arms = [
                control.run_arm("true", lambda: interpreter.execute(case.body)),
                control.run_arm("false", lambda: self._cases(subject, rest, seen)),
            ]
            control.merge(fits, arms)
            return
        guard = control.choose(fits, lambda: self._truth(case.guard), lambda: Const(False))
        self._branch(guard, case, subject, rest, seen)

    def _truth(self, node: ast.expr | None) -> AbstractValue:
        assert node is not None
        truth = self.interpreter.operators.truth(self.interpreter.evaluate(node))
        return Const(truth) if isinstance(truth, bool) else Array(truth, True)

    def _guarded(
        self,
        case: ast.match_case,
        subject: AbstractValue,
        rest: Sequence[ast.match_case],
        seen: Sequence[ast.match_case],
    ) -> None:
        self._branch(self._truth(case.guard), case, subject, rest, seen)

    def _branch(
        self,
        guard: AbstractValue,
        case: ast.match_case,
        subject: AbstractValue,
        rest: Sequence[ast.match_case],
        seen: Sequence[ast.match_case],
    ) -> None:
        interpreter = self.interpreter
        if isinstance(guard, Const):
            if guard.value:
                interpreter.execute(case.body)
            else:
                self._cases(subject, rest, seen)
            return
        assert isinstance(guard, Array)
        control = interpreter.control
        arms = [
            control.run_arm("true", lambda: interpreter.execute(case.body)),
            control.run_arm("false", lambda: self._cases(subject, rest, seen)),
        ]
        control.merge(guard.node, arms)

    def _fits(self, pattern: ast.pattern, subject: AbstractValue) -> bool | Node:
        """Whether a value fits a pattern, whose names are bound on the way."""
        interpreter = self.interpreter
        if isinstance(pattern, ast.MatchValue):
            return interpreter.operators.truth(
                interpreter.operators.compare("==", subject, interpreter.evaluate(pattern.value))
            )
        if isinstance(pattern, ast.MatchSingleton):
            return interpreter.operators.truth(interpreter.operators.compare("is", subject, Const(pattern.value)))
        if isinstance(pattern, ast.MatchAs):
            fits: bool | Node = True if pattern.pattern is None else self._fits(pattern.pattern, subject)
            if pattern.name is not None and fits is not False:
                interpreter.assign(ast.Name(pattern.name, ast.Store()), subject)
            return fits
        if isinstance(pattern, ast.MatchOr):
            return self._any(pattern.patterns, subject)
        if isinstance(pattern, ast.MatchSequence):
            return self._sequence(pattern, subject)
        if isinstance(pattern, ast.MatchMapping):
            return self._mapping(pattern, subject)
        if isinstance(pattern, ast.MatchClass):
            return self._class(pattern, subject)
        interpreter.refuse(f"{type(pattern).__name__} cannot be compiled")

    def _all(self, collected: Sequence[bool | Node]) -> bool | Node:
        nodes = [fits for fits in collected if not isinstance(fits, bool)]
        if any(fits is False for fits in collected):
            return False
        if not nodes:
            return True
        result = nodes[0]
        for node in nodes[1:]:
            result = self.interpreter.emitter.elementwise("and", result, node)
        return result

    def _any(self, patterns: Sequence[ast.pattern], subject: AbstractValue) -> bool | Node:
        nodes: list[Node] = []
        for pattern in patterns:
            fits = self._fits(pattern, subject)
            if fits is True and not nodes:
                return True
            if not isinstance(fits, bool):
                nodes.append(fits)
        if not nodes:
            return False
        result = nodes[0]
        for node in nodes[1:]:
            result = self.interpreter.emitter.elementwise("or", result, node)
        return result

    def _sequence(self, pattern: ast.MatchSequence, subject: AbstractValue) -> bool | Node:
        interpreter = self.interpreter
        if not (isinstance(subject, Tuple) or (isinstance(subject, Ref) and subject.cell.cls is list)):
            return False
        items = list(interpreter.members.items(subject))
        star = next((n for n, part in enumerate(pattern.patterns) if isinstance(part, ast.MatchStar)), None)
        if star is None:
            if len(items) != len(pattern.patterns):
                return False
            return self._all([self._fits(part, item) for part, item in zip(pattern.patterns, items, strict=True)])
        after = len(pattern.patterns) - star - 1
        if len(items) < star + after:
            return False
        collected = [self._fits(part, item) for part, item in zip(pattern.patterns[:star], items, strict=False)]
        middle = pattern.patterns[star]
        assert isinstance(middle, ast.MatchStar)
        if middle.name is not None:
            rest = interpreter.new_list(items[star : len(items) - after])
            interpreter.assign(ast.Name(middle.name, ast.Store()), rest)
        tail = zip(pattern.patterns[star + 1 :], items[len(items) - after :], strict=True)
        return self._all([*collected, *(self._fits(part, item) for part, item in tail)])

    def _mapping(self, pattern: ast.MatchMapping, subject: AbstractValue) -> bool | Node:
        interpreter = self.interpreter
        if not (isinstance(subject, Ref) and subject.cell.cls is dict):
            return False
        fields = interpreter.contents(subject)
        collected: list[bool | Node] = []
        names: list[object] = []
        for key, part in zip(pattern.keys, pattern.patterns, strict=True):
            name = interpreter.static(interpreter.evaluate(key), "a key")
            names.append(name)
            item = fields.get(name)
            if item is None:
                return False
            collected.append(self._fits(part, item))
        if pattern.rest is not None:
            kept = [(key, item) for key, item in zip(fields.keys or (), fields.items, strict=True) if key not in names]
            rest = interpreter.new_object(dict, Fields(tuple(key for key, _ in kept), tuple(item for _, item in kept)))
            interpreter.assign(ast.Name(pattern.rest, ast.Store()), rest)
        return self._all(collected)

    def _class(self, pattern: ast.MatchClass, subject: AbstractValue) -> bool | Node:
        interpreter = self.interpreter
        cls = interpreter.evaluate(pattern.cls)
        if interpreter.operators.truth(interpreter.calls.is_instance(subject, cls)) is not True:
            return False
        held = cls.value if isinstance(cls, Const) else None
        if held in (int, float, bool, complex, str, tuple, list, dict) and len(pattern.patterns) == 1:
            return self._fits(pattern.patterns[0], subject)
        names = [*getattr(held, "__match_args__", ())][: len(pattern.patterns)]
        parts = [*zip(names, pattern.patterns, strict=True), *zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)]
        return self._all([self._fits(part, interpreter.members.attribute(subject, name)) for name, part in parts])
