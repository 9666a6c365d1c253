"""`match` statements, case by case."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloom.functions.container_classes import is_dict, is_row
from hloom.functions.values import PREDICATE, AbstractValue, Array, Const, Tuple, fields_of
from hloom.ir import Node

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


Bound = dict[str, AbstractValue]
"""What the names of a pattern stand for, where it fits."""


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
        if not cases:
            return
        case, rest = cases[0], cases[1:]
        bound: Bound = {}
        fits = self._fits(case.pattern, subject, bound)
        if self._is_other_bool(case, subject, seen):
            fits = True
        seen = (*seen, case)
        if fits is False:
            self._cases(subject, rest, seen)
            return
        control = self.interpreter.control
        guard: AbstractValue = Const(True) if fits is True else Array(fits, True)
        if case.guard is not None:
            guard = self._guard(case.guard, fits, bound)
        if isinstance(guard, Const):
            if guard.value:
                self._run(case, bound)
            else:
                self._cases(subject, rest, seen)
            return
        assert isinstance(guard, Array)
        arms = [
            control.run_arm("true", lambda: self._run(case, bound)),
            control.run_arm("false", lambda: self._cases(subject, rest, seen)),
        ]
        control.merge(guard.node, arms)

    def _run(self, case: ast.match_case, bound: Bound) -> None:
        self._bind(bound)
        self.interpreter.execute(case.body)

    def _bind(self, bound: Bound) -> None:
        """Bind the names of a pattern, which happens only where the whole of it fits."""
        for name, value in bound.items():
            self.interpreter.assign(ast.Name(name, ast.Store()), value)

    def _guard(self, node: ast.expr, fits: bool | Node, bound: Bound) -> AbstractValue:
        """Whether a pattern fits and its guard holds; the guard is computed only where the pattern fits."""

        def truth() -> AbstractValue:
            self._bind(bound)
            return self.interpreter.operators.truth_value(self.interpreter.evaluate(node))

        if isinstance(fits, bool):
            return truth()
        return self.interpreter.control.choose(fits, truth, lambda: Const(False))

    def _fits(self, pattern: ast.pattern, subject: AbstractValue, bound: Bound) -> bool | Node:
        """Whether a value fits a pattern; what its names stand for is entered in `bound`."""
        interpreter = self.interpreter
        if isinstance(pattern, ast.MatchValue):
            return interpreter.operators.truth(
                interpreter.operators.compare("==", subject, interpreter.evaluate(pattern.value))
            )
        if isinstance(pattern, ast.MatchSingleton):
            return interpreter.operators.truth(interpreter.operators.compare("is", subject, Const(pattern.value)))
        if isinstance(pattern, ast.MatchAs):
            fits: bool | Node = True if pattern.pattern is None else self._fits(pattern.pattern, subject, bound)
            if pattern.name is not None and fits is not False:
                bound[pattern.name] = subject
            return fits
        if isinstance(pattern, ast.MatchOr):
            return self._any(pattern.patterns, subject, bound)
        if isinstance(pattern, ast.MatchSequence):
            return self._sequence(pattern, subject, bound)
        if isinstance(pattern, ast.MatchMapping):
            return self._mapping(pattern, subject, bound)
        if isinstance(pattern, ast.MatchClass):
            return self._class(pattern, subject, bound)
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

    def _any(self, patterns: Sequence[ast.pattern], subject: AbstractValue, bound: Bound) -> bool | Node:
        """Whether one of several patterns fits; names mean what the first that fits binds them to."""
        alternatives: list[tuple[bool | Node, Bound]] = []
        for pattern in patterns:
            own: Bound = {}
            fits = self._fits(pattern, subject, own)
            if fits is not False:
                alternatives.append((fits, own))
            if fits is True:
                break
        if not alternatives:
            return False
        result, chosen = alternatives.pop()
        for fits, own in reversed(alternatives):
            assert not isinstance(fits, bool)
            names = list(own)
            if names:
                made = self.interpreter.control.choose(
                    fits,
                    lambda own=own, names=names: Tuple(tuple(own[name] for name in names)),
                    lambda chosen=chosen, names=names: Tuple(tuple(chosen[name] for name in names)),
                )
                chosen = dict(zip(names, made.items, strict=True))
            if not isinstance(result, bool):
                result = self.interpreter.emitter.elementwise("or", fits, result)
        bound.update(chosen)
        return result

    def _sequence(self, pattern: ast.MatchSequence, subject: AbstractValue, bound: Bound) -> bool | Node:
        if not is_row(subject):
            return False
        items = list(self.interpreter.iterators.items(subject))
        star = next((n for n, part in enumerate(pattern.patterns) if isinstance(part, ast.MatchStar)), None)
        if star is None:
            if len(items) != len(pattern.patterns):
                return False
            rows = zip(pattern.patterns, items, strict=True)
            return self._all([self._fits(part, item, bound) for part, item in rows])
        after = len(pattern.patterns) - star - 1
        if len(items) < star + after:
            return False
        collected = [self._fits(part, item, bound) for part, item in zip(pattern.patterns[:star], items, strict=False)]
        middle = pattern.patterns[star]
        assert isinstance(middle, ast.MatchStar)
        if middle.name is not None:
            bound[middle.name] = self.interpreter.new_list(items[star : len(items) - after])
        tail = zip(pattern.patterns[star + 1 :], items[len(items) - after :], strict=True)
        return self._all([*collected, *(self._fits(part, item, bound) for part, item in tail)])

    def _mapping(self, pattern: ast.MatchMapping, subject: AbstractValue, bound: Bound) -> bool | Node:
        interpreter = self.interpreter
        if not (is_dict(subject)):
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
            collected.append(self._fits(part, item, bound))
        if pattern.rest is not None:
            kept = fields_of((key, item) for key, item in fields.pairs if key not in names)
            bound[pattern.rest] = interpreter.new_object(dict, kept)
        return self._all(collected)

    def _class(self, pattern: ast.MatchClass, subject: AbstractValue, bound: Bound) -> bool | Node:
        interpreter = self.interpreter
        cls = interpreter.evaluate(pattern.cls)
        if interpreter.operators.truth(interpreter.classes.is_instance(subject, cls)) is not True:
            return False
        held = cls.value if isinstance(cls, Const) else None
        if held in (int, float, bool, complex, str, tuple, list, dict) and len(pattern.patterns) == 1:
            return self._fits(pattern.patterns[0], subject, bound)
        names = [*getattr(held, "__match_args__", ())][: len(pattern.patterns)]
        parts = [*zip(names, pattern.patterns, strict=True), *zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)]
        held_parts = [(part, interpreter.members.attribute(subject, name)) for name, part in parts]
        return self._all([self._fits(part, item, bound) for part, item in held_parts])
