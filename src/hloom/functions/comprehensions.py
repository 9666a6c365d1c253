"""Comprehensions, and generator expressions that a function such as `sum` folds."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hloom.functions.code import Code, nested_code
from hloom.functions.iterator_rules import decided, inner_scope
from hloom.functions.values import AbstractValue, Const, Fields, FunctionClosure

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

EXTREME = """def {name}(hloom_source):
    hloom_first = True
    for hloom_item in ():
        hloom_value = hloom_element
        if hloom_first or hloom_value {sign} hloom_best:
            hloom_best = hloom_value
        hloom_first = False
    if hloom_first:
        raise ValueError("{name}() arg is an empty sequence")
    return hloom_best
"""
FOLDS = {
    sum: """def sum(hloom_source):
    hloom_total = 0
    for hloom_item in ():
        hloom_total = hloom_total + hloom_element
    return hloom_total
""",
    any: """def any(hloom_source):
    for hloom_item in ():
        if hloom_element:
            return True
    return False
""",
    max: EXTREME.format(name="max", sign=">"),
    min: EXTREME.format(name="min", sign="<"),
    all: """def all(hloom_source):
    for hloom_item in ():
        if not hloom_element:
            return False
    return True
""",
}
"""Functions that fold a generator expression, as the loops that they are; `fold` fills in the loop."""
FIRST = {
    1: """def next(hloom_source):
    for hloom_item in ():
        return hloom_element
    raise StopIteration
""",
    2: """def next(hloom_source, hloom_default):
    for hloom_item in ():
        return hloom_element
    return hloom_default
""",
}
"""`next` of a generator expression, by how many arguments it has."""


class Comprehensions:
    """The comprehensions of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self._folds: dict[ast.AST, Code] = {}

    def list_comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> AbstractValue:
        collected: list[AbstractValue] = []
        self._comprehend(node.generators, lambda: collected.append(self.interpreter.evaluate(node.elt)))
        return self.interpreter.new_list(collected)

    def generator(self, node: ast.GeneratorExp) -> AbstractValue:
        return self.interpreter.iterators.generator(node, self.interpreter.consumed(node.generators[0].iter))

    def dict_comprehension(self, node: ast.DictComp) -> AbstractValue:
        interpreter = self.interpreter
        made = interpreter.new_object(dict, Fields((), ()))

        def add() -> None:
            key = interpreter.static(interpreter.evaluate(node.key), "the key of a dict")
            interpreter.change(made, interpreter.contents(made).changed(key, interpreter.evaluate(node.value)))

        self._comprehend(node.generators, add)
        return made

    def set_comprehension(self, node: ast.SetComp) -> AbstractValue:
        interpreter = self.interpreter
        collected: list[Any] = []
        self._comprehend(
            node.generators,
            lambda: collected.append(interpreter.static(interpreter.evaluate(node.elt), "an element of a set")),
        )
        return Const(frozenset(collected))

    def _comprehend(self, generators: Sequence[ast.comprehension], emit: Callable[[], None]) -> None:
        """Run what a comprehension yields once per round, in a scope of its own; lengths are known now."""
        interpreter = self.interpreter
        frame = interpreter.here
        first = interpreter.consumed(generators[0].iter)
        scope = inner_scope(interpreter, generators)
        before, frame.scope = frame.scope, scope
        try:
            self._rounds(generators, 0, first, emit)
        finally:
            frame.scope = before

    def _rounds(
        self, generators: Sequence[ast.comprehension], depth: int, source: AbstractValue, emit: Callable[[], None]
    ) -> None:
        interpreter = self.interpreter
        generator = generators[depth]
        for item in interpreter.iterators.items(source):
            interpreter.assign(generator.target, item)
            tests = map(interpreter.evaluate, generator.ifs)
            if not all(decided(interpreter, test, "which elements a comprehension keeps") for test in tests):
                continue
            if depth + 1 == len(generators):
                emit()
            else:
                self._rounds(generators, depth + 1, interpreter.consumed(generators[depth + 1].iter), emit)

    def fold(self, node: ast.GeneratorExp, rounds: str, further: Sequence[ast.expr]) -> AbstractValue:
        """`sum`, `any`, `next` and the like over a generator expression, as the loop that they are."""
        interpreter = self.interpreter
        template = ast.parse(rounds).body[0]
        assert isinstance(template, ast.FunctionDef)
        (slot,) = [part for part in ast.walk(template) if isinstance(part, ast.For)]
        body: list[ast.stmt] = list(slot.body)
        for number, generator in reversed(list(enumerate(node.generators))):
            for condition in reversed(generator.ifs):
                body = [ast.If(condition, body, [])]
            source: ast.expr = ast.Name("hloom_source", ast.Load()) if number == 0 else generator.iter
            body = [ast.For(generator.target, source, body, [])]
        template.body[template.body.index(slot)] = body[0]
        for part in ast.walk(template):
            for name, value in ast.iter_fields(part):
                if isinstance(value, ast.Name) and value.id == "hloom_element":
                    setattr(part, name, node.elt)
        for part in ast.walk(template):
            if not hasattr(part, "lineno") or part.lineno <= 8:  # type: ignore[attr-defined]
                ast.copy_location(part, node)
        assigned = sorted({part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)})
        if assigned:  # they are variables of the function around
            template.body.insert(0, ast.copy_location(ast.Nonlocal(assigned), node))
        arguments = [interpreter.consumed(node.generators[0].iter), *interpreter.starred(further)]
        frame = interpreter.here
        held = self._folds.get(node)
        if held is None:
            held = self._folds[node] = nested_code(template, frame.code.filename)
        return interpreter.calls.call(FunctionClosure(held, frame.scope, (), {}), arguments, {})
