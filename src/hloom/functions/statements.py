"""Statements, and the targets of assignments: one method for each class of Python's syntax tree."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from hloom.functions.expressions import SYMBOLS
from hloom.functions.state import BREAK, CONTINUE, PYTHON_ERRORS, RETURN, Completion
from hloom.functions.values import NONE, UNBOUND, AbstractValue, Array, Const, MessageText, PartialCall, described

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter


class Statements:
    """The statements of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self._handlers: dict[type[ast.AST], Callable[[Any], Any]] = {
            ast.Expr: lambda statement: interpreter.evaluate(statement.value),
            ast.Assign: self._assignment,
            ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented,
            ast.Return: self._return,
            ast.Break: lambda statement: interpreter.store.set(interpreter.here.tag, BREAK),
            ast.Continue: lambda statement: interpreter.store.set(interpreter.here.tag, CONTINUE),
            ast.Pass: lambda statement: None,
            ast.Nonlocal: lambda statement: None,
            ast.Global: lambda statement: None,
            ast.While: interpreter.loops.while_loop,
            ast.For: interpreter.loops.for_loop,
            ast.Match: interpreter.patterns.match,
            ast.FunctionDef: self._function,
            ast.Assert: self._assert,
            ast.Raise: self._raise,
            ast.Delete: self._delete,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
        }

    def execute(self, statements: Sequence[ast.stmt]) -> None:
        """Run statements until they end or are left by `break`, `continue` or `return`."""
        interpreter = self.interpreter
        frame = interpreter.here
        for number, statement in enumerate(statements):
            frame.part = statement
            interpreter.emitter.metadata = frame.code.metadata(statement)
            interpreter.step()
            rest = statements[number + 1 :]
            if isinstance(statement, ast.If):
                if self._if(statement, rest):
                    return
            else:
                self._handle(statement)
            tag = interpreter.store.get(frame.tag)
            if isinstance(tag, Const):
                if tag.value is not Completion.NORMAL:
                    return
            elif rest:
                interpreter.control.if_normal(tag, lambda rest=rest: self.execute(rest))
                return

    def _handle(self, statement: ast.stmt) -> None:
        handler = self._handlers.get(type(statement))
        if handler is None:
            self.interpreter.refuse(f"{type(statement).__name__} cannot be compiled")
        try:
            handler(statement)
        except PYTHON_ERRORS as error:
            self.interpreter.raise_python(error)

    def _go_on(self, rest: Sequence[ast.stmt]) -> None:
        """Run what follows a statement, where it was not left by `break`, `continue` or `return`."""
        interpreter = self.interpreter
        tag = interpreter.store.get(interpreter.here.tag)
        if not isinstance(tag, Const):
            interpreter.control.if_normal(tag, lambda: self.execute(rest))
        elif tag.value is Completion.NORMAL:
            self.execute(rest)

    def _if(self, statement: ast.If, rest: Sequence[ast.stmt]) -> bool:
        """Run an `if`; whether what follows it was run too, where only one branch goes on."""
        interpreter = self.interpreter
        truth = interpreter.operators.truth(interpreter.evaluate(statement.test))
        if isinstance(truth, bool):
            self.execute(statement.body if truth else statement.orelse)
            return False
        frame = interpreter.here
        control = interpreter.control

        def run(body: Sequence[ast.stmt], truth: bool) -> None:
            control.narrowed(statement.test, truth)
            self.execute(body)

        first = control.run_arm("true", lambda: run(statement.body, True))
        takes_rest = bool(rest) and not control.goes_on(first)
        second = control.run_arm("false", lambda: run([*statement.orelse, *(rest if takes_rest else ())], False))
        if rest and not takes_rest and not control.goes_on(second):
            takes_rest = True
            control.run_again(first, lambda: self._go_on(rest))
        frame.part = statement
        control.merge(truth, [first, second])
        return takes_rest

    def _assignment(self, statement: ast.Assign) -> None:
        value = self.interpreter.evaluate(statement.value)
        for target in statement.targets:
            self.assign(target, value)

    def _annotated(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self.assign(statement.target, self.interpreter.evaluate(statement.value))

    def _augmented(self, statement: ast.AugAssign) -> None:
        interpreter = self.interpreter
        symbol = SYMBOLS[type(statement.op)]
        target = statement.target
        if isinstance(target, ast.Name):
            left = interpreter.current(interpreter.load(target.id))
            self.assign(target, interpreter.operators.augmented(symbol, left, interpreter.evaluate(statement.value)))
        elif isinstance(target, ast.Attribute):
            owner = interpreter.evaluate(target.value)
            left = interpreter.current(interpreter.members.attribute(owner, target.attr))
            value = interpreter.operators.augmented(symbol, left, interpreter.evaluate(statement.value))
            interpreter.members.set_attribute(owner, target.attr, value)
        else:
            owner, index = interpreter.evaluate(target.value), interpreter.evaluate(target.slice)
            if isinstance(owner, Array):
                interpreter.indexing.augment(owner, index, symbol, lambda: interpreter.evaluate(statement.value))
                return
            left = interpreter.current(interpreter.indexing.get(owner, index))
            value = interpreter.operators.augmented(symbol, left, interpreter.evaluate(statement.value))
            interpreter.indexing.set(owner, index, value)

    def assign(self, target: ast.expr, value: AbstractValue) -> None:
        """Bind a target: a name, an element, an attribute, or several of them."""
        interpreter = self.interpreter
        frame = interpreter.here
        if isinstance(target, ast.Name):
            variable = frame.scope.find(target.id)
            if variable is None:
                interpreter.refuse(f"'{target.id}' is a variable outside the program, which cannot be assigned to")
            interpreter.store.set(variable, value)
            interpreter.store.lines[variable] = f"line {getattr(target, 'lineno', frame.part.lineno)}"  # type: ignore[attr-defined]
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Subscript):
            interpreter.indexing.set(interpreter.evaluate(target.value), interpreter.evaluate(target.slice), value)
        elif isinstance(target, ast.Attribute):
            interpreter.members.set_attribute(interpreter.evaluate(target.value), target.attr, value)
        else:
            interpreter.refuse(f"{type(target).__name__} cannot be assigned to")

    def _unpack(self, targets: Sequence[ast.expr], value: AbstractValue) -> None:
        interpreter = self.interpreter
        star = next((number for number, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
        if star is None:
            items = list(islice(interpreter.iterators.items(value), len(targets) + 1))
            if len(items) > len(targets):
                interpreter.raise_error(ValueError, f"too many values to unpack (expected {len(targets)})")
            if len(items) < len(targets):
                interpreter.raise_error(
                    ValueError, f"not enough values to unpack (expected {len(targets)}, got {len(items)})"
                )
            for target, item in zip(targets, items, strict=True):
                self.assign(target, item)
            return
        items = list(interpreter.iterators.items(value))
        after = len(targets) - star - 1
        if len(items) < star + after:
            interpreter.raise_error(
                ValueError, f"not enough values to unpack (expected at least {star + after}, got {len(items)})"
            )
        starred = targets[star]
        assert isinstance(starred, ast.Starred)
        for target, item in zip(targets[:star], items, strict=False):
            self.assign(target, item)
        self.assign(starred.value, interpreter.new_list(items[star : len(items) - after]))
        for target, item in zip(targets[star + 1 :], items[len(items) - after :], strict=True):
            self.assign(target, item)

    def _return(self, statement: ast.Return) -> None:
        interpreter = self.interpreter
        frame = interpreter.here
        value = NONE if statement.value is None else interpreter.evaluate(statement.value)
        if frame.caller is None:
            interpreter.returned_at = frame.code.location(statement.value or statement)
        interpreter.store.set(frame.result, value)
        interpreter.store.set(frame.tag, RETURN)

    def _function(self, statement: ast.FunctionDef) -> None:
        interpreter = self.interpreter
        function: AbstractValue = interpreter.define(statement)
        for decorator in reversed(statement.decorator_list):
            function = interpreter.calls.call(interpreter.evaluate(decorator), [function], {})
        self._bind(statement.name, function)

    def _assert(self, statement: ast.Assert) -> None:
        interpreter = self.interpreter
        truth = interpreter.operators.truth(interpreter.evaluate(statement.test))
        if truth is True:
            return
        if truth is False:
            interpreter.raise_error(AssertionError, self._message(statement.msg))
        if statement.msg is None:
            interpreter.check(truth, AssertionError, "")
            return
        control = interpreter.control
        arms = [
            control.run_arm("true", lambda: NONE),
            control.run_arm("false", lambda: interpreter.raise_error(AssertionError, self._message(statement.msg))),
        ]
        control.merge(truth, arms)

    def _message(self, node: ast.expr | None) -> str:
        """What an error says: text, with placeholders where the run alone knows the values."""
        if node is None:
            return ""
        value = self.interpreter.evaluate(node)
        if isinstance(value, Array):
            return f"<{ast.unparse(node)}>"
        if isinstance(value, Const) and isinstance(value.value, MessageText):
            return str(value.value)
        return str(self.interpreter.static(value, "the message of an error"))

    def _raise(self, statement: ast.Raise) -> None:
        interpreter = self.interpreter
        if statement.exc is None:
            interpreter.refuse("raise without an exception cannot be compiled")
        node = statement.exc
        if isinstance(node, ast.Call):
            exception = interpreter.evaluate(node.func)
            message = ", ".join(
                self._message(argument) for argument in node.args if not isinstance(argument, ast.Starred)
            )
        else:
            exception, message = interpreter.evaluate(node), ""
        if isinstance(exception, PartialCall):
            message = ", ".join(str(interpreter.static(item, "a message")) for item in exception.arguments)
            exception = exception.function
        held = exception.value if isinstance(exception, Const) else None
        if not (isinstance(held, type) and issubclass(held, BaseException)):
            interpreter.refuse(f"exceptions must derive from BaseException, not {described(exception)}", TypeError)
        interpreter.raise_error(held, message)

    def _delete(self, statement: ast.Delete) -> None:
        interpreter = self.interpreter
        frame = interpreter.here
        for target in statement.targets:
            if isinstance(target, ast.Name):
                variable = frame.scope.find(target.id)
                if variable is None:
                    interpreter.refuse(f"'{target.id}' is not a local variable")
                interpreter.load(target.id)
                interpreter.store.set(variable, UNBOUND)
            elif isinstance(target, ast.Subscript):
                interpreter.indexing.delete(interpreter.evaluate(target.value), interpreter.evaluate(target.slice))
            else:
                interpreter.refuse("attributes cannot be deleted in compiled functions")

    def _import(self, statement: ast.Import) -> None:
        for alias in statement.names:
            held = importlib.import_module(alias.name)
            top = alias.name.split(".")[0]
            if alias.asname:
                self._bind(alias.asname, self.interpreter.embed(held, alias.asname))
            else:  # `import a.b` binds a
                self._bind(top, self.interpreter.embed(importlib.import_module(top), top))

    def _import_from(self, statement: ast.ImportFrom) -> None:
        interpreter = self.interpreter
        if statement.level or not statement.module:
            interpreter.refuse("relative imports inside compiled functions are not taken", hint="import at the top")
        module = importlib.import_module(statement.module)
        for alias in statement.names:
            if not hasattr(module, alias.name):
                interpreter.raise_error(ImportError, f"cannot import name '{alias.name}' from '{statement.module}'")
            name = alias.asname or alias.name
            self._bind(name, interpreter.embed(getattr(module, alias.name), name))

    def _bind(self, name: str, value: AbstractValue) -> None:
        self.assign(ast.Name(name, ast.Store()), value)
