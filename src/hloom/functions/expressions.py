"""Expressions: one method per class of Python's syntax tree, chosen by a table."""

from __future__ import annotations

import ast
import functools
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from hloom.functions.code import nested_code
from hloom.functions.comprehensions import FIRST, FOLDS, Comprehensions
from hloom.functions.container_classes import is_dict, is_sequence
from hloom.functions.iterators import is_iterator, is_view
from hloom.functions.state import PYTHON_ERRORS
from hloom.functions.values import (
    NONE,
    AbstractValue,
    Array,
    Const,
    Fields,
    FunctionClosure,
    Keywords,
    MessageText,
    Ref,
    Series,
    Tuple,
    described,
)

if TYPE_CHECKING:
    from hloom.functions.interpreter import Interpreter

SYMBOLS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
}  # fmt: skip
_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
CONSUMERS: tuple[Any, ...] = (
    list, tuple, set, frozenset, dict, sum, min, max, any, all, sorted, zip, enumerate, map, filter, iter, next,
    math.prod, math.fsum, functools.reduce, Counter, OrderedDict, deque,
)  # fmt: skip
"""The functions besides those of itertools that iterate over their arguments (pyright needs minutes for a set)."""


def _is_consumer(function: Any) -> bool:
    return isinstance(function, Hashable) and (
        function in CONSUMERS or getattr(function, "__module__", None) == "itertools"
    )


class Expressions:
    """The expressions of one program."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.comprehensions = comprehensions = Comprehensions(interpreter)
        self._handlers: dict[type[ast.AST], Callable[[Any], AbstractValue]] = {
            ast.Constant: lambda node: Const(node.value),
            ast.Name: lambda node: interpreter.load(node.id),
            ast.Tuple: lambda node: Tuple(tuple(self.starred(node.elts))),
            ast.List: lambda node: interpreter.new_list(self.starred(node.elts)),
            ast.Set: self._set,
            ast.Dict: self._dict,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.BoolOp: lambda node: self._short_circuit(node.values, isinstance(node.op, ast.And)),
            ast.Compare: self._compare,
            ast.IfExp: self._if_expression,
            ast.Call: lambda node: interpreter.iterators.owned(self._called(node)),
            ast.Attribute: lambda node: interpreter.members.attribute(self.evaluate(node.value), node.attr),
            ast.Subscript: lambda node: interpreter.indexing.get(self.evaluate(node.value), self.evaluate(node.slice)),
            ast.Slice: self._slice,
            ast.Lambda: self.define,
            ast.NamedExpr: self._walrus,
            ast.JoinedStr: self._joined_string,
            ast.ListComp: comprehensions.list_comprehension,
            ast.GeneratorExp: comprehensions.generator,
            ast.DictComp: comprehensions.dict_comprehension,
            ast.SetComp: comprehensions.set_comprehension,
        }

    def evaluate(self, node: ast.expr) -> AbstractValue:
        """The value of an expression."""
        interpreter = self.interpreter
        interpreter.step()
        frame = interpreter.here
        handler = self._handlers.get(type(node))
        if handler is None:
            frame.part = node
            interpreter.refuse(f"{type(node).__name__} cannot be compiled")
        value = self._located(node, handler)
        return interpreter.current(value) if isinstance(value, Array) else value

    def _located(self, node: ast.expr, handler: Callable[[Any], AbstractValue]) -> AbstractValue:
        """What a handler makes of a node, which errors meanwhile point at."""
        frame = self.interpreter.here
        before = frame.part
        frame.part = node
        try:
            value = handler(node)
        except PYTHON_ERRORS as error:
            self.interpreter.raise_python(error)
        frame.part = before
        return value

    def _set(self, node: ast.Set) -> AbstractValue:
        items = self.starred(node.elts)
        if all(isinstance(item, Const) for item in items):
            return Const(frozenset(item.value for item in items))  # type: ignore[attr-defined]
        self.interpreter.refuse(
            "sets of values that only the run knows cannot be compiled", hint="use a tuple or a list"
        )

    def starred(self, nodes: Sequence[ast.expr]) -> list[AbstractValue]:
        """The values of expressions, those with a star spread out."""
        values: list[AbstractValue] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values.extend(self.interpreter.iterators.items(self.consumed(node.value)))
            else:
                values.append(self.evaluate(node))
        return values

    def _dict(self, node: ast.Dict) -> AbstractValue:
        fields = Fields((), ())
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                for name, value in self._spread(self.evaluate(item)):
                    fields = fields.changed(name, value)
                continue
            made = self.evaluate(key)
            fields = fields.changed(self.static(made, "the key of a dict"), self.evaluate(item))
        return self.interpreter.new_object(dict, fields)

    def _spread(self, value: AbstractValue) -> list[tuple[Any, AbstractValue]]:
        """The keys and items of a dict after `**`."""
        if not is_dict(value):
            self.interpreter.refuse(f"** takes a dict, not {described(value)}", TypeError)
        return self.interpreter.contents(value).pairs

    def static(self, value: AbstractValue, what: str) -> Any:
        """The Python object that a value is, which must be known now."""
        interpreter = self.interpreter
        if isinstance(value, Const):
            if isinstance(value.value, MessageText):
                interpreter.refuse(
                    f"{what} must be known when the program is compiled: the text holds numbers that only the run knows"
                )
            return value.value
        if isinstance(value, Tuple):
            items = tuple(self.static(item, what) for item in value.items)
            return items if value.cls is tuple else value.cls(*items)
        if isinstance(value, Array):
            known = value.literal
            if known is not None:
                return known.item() if not known.shape else known
        if isinstance(value, Series) and value.rule == "keys":
            return dict.fromkeys(self.static(item, what) for item in interpreter.iterators.items(value)).keys()
        if isinstance(value, Series) and is_view(value):
            return getattr(self.static(value.parts[0], what), value.rule)()
        is_listed = isinstance(value, Ref) and (is_sequence(value.cell.cls) or is_iterator(value))
        if isinstance(value, Series) or is_listed:
            return [self.static(item, what) for item in interpreter.iterators.items(value)]
        if is_dict(value):
            fields = interpreter.contents(value)
            return {key: self.static(item, what) for key, item in fields.pairs}
        if isinstance(value, FunctionClosure) and value.original is not None:
            return value.original
        interpreter.refuse(
            f"{what} must be known when the program is compiled, but is {described(value)}",
            hint="make it a constant, or pass it as a static argument",
        )

    def _binary(self, node: ast.BinOp) -> AbstractValue:
        left = self.evaluate(node.left)
        right = self.evaluate(node.right)
        return self.interpreter.operators.binary(SYMBOLS[type(node.op)], left, right)

    def _unary(self, node: ast.UnaryOp) -> AbstractValue:
        operand = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            return self.interpreter.operators.inverted(operand)
        return self.interpreter.operators.unary(SYMBOLS[type(node.op)], operand)

    def _short_circuit(self, nodes: Sequence[ast.expr], is_and: bool) -> AbstractValue:
        """`and` and `or`: the rest is computed only where it is needed, as Python does."""
        interpreter = self.interpreter
        value = self.evaluate(nodes[0])
        if len(nodes) == 1:
            return value
        truth = interpreter.operators.truth(value)
        if isinstance(truth, bool):
            return self._short_circuit(nodes[1:], is_and) if truth is is_and else value
        control, rest = interpreter.control, nodes[1:]

        def go_on() -> AbstractValue:
            control.narrowed(nodes[0], is_and)
            return self._short_circuit(rest, is_and)

        is_bool = interpreter.classes.class_of(value) is bool
        decided = Const(not is_and) if is_bool else value  # what the first value is where it decides

        return control.choose(truth, go_on if is_and else lambda: decided, (lambda: decided) if is_and else go_on)

    def _compare(self, node: ast.Compare) -> AbstractValue:
        left = self.evaluate(node.left)
        return self._chained(left, list(zip(node.ops, node.comparators, strict=True)))

    def _chained(self, left: AbstractValue, rest: list[tuple[ast.cmpop, ast.expr]]) -> AbstractValue:
        interpreter = self.interpreter
        operator, comparator = rest[0]
        right = self.evaluate(comparator)
        value = interpreter.operators.compare(_COMPARISONS[type(operator)], left, right)
        if len(rest) == 1:
            return value
        truth = interpreter.operators.truth(value)
        if isinstance(truth, bool):
            return self._chained(right, rest[1:]) if truth else value
        return interpreter.control.choose(truth, lambda: self._chained(right, rest[1:]), lambda: value)

    def _if_expression(self, node: ast.IfExp) -> AbstractValue:
        truth = self.interpreter.operators.truth(self.evaluate(node.test))
        if isinstance(truth, bool):
            return self.evaluate(node.body if truth else node.orelse)
        control = self.interpreter.control

        def arm(part: ast.expr, truth: bool) -> AbstractValue:
            control.narrowed(node.test, truth)
            return self.evaluate(part)

        return control.choose(truth, lambda: arm(node.body, True), lambda: arm(node.orelse, False))

    def consumed(self, node: ast.expr) -> AbstractValue:
        """The value of an expression that is gone over at once, and has no other name."""
        return self._located(node, self._called) if isinstance(node, ast.Call) else self.evaluate(node)

    def _called(self, node: ast.Call) -> AbstractValue:
        interpreter = self.interpreter
        function = self.evaluate(node.func)
        held = function.value if isinstance(function, Const) else None
        if node.args and isinstance(node.args[0], ast.GeneratorExp) and not node.keywords:
            rounds = FOLDS.get(held) if len(node.args) == 1 and isinstance(held, type(sum)) else None
            if held is next and len(node.args) in FIRST:
                rounds = FIRST[len(node.args)]
            if rounds is not None:
                return self.comprehensions.fold(node.args[0], rounds, node.args[1:])
        arguments = self._consumed_arguments(node.args) if _is_consumer(held) else self.starred(node.args)
        keywords: Keywords = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
                continue
            for name, item in self._spread(value):
                if not isinstance(name, str):
                    interpreter.raise_error(TypeError, "keywords must be strings")
                if name in keywords:
                    interpreter.raise_error(TypeError, f"got multiple values for keyword argument '{name}'")
                keywords[name] = item
        return interpreter.calls.temporary(function, arguments, keywords)

    def _consumed_arguments(self, nodes: Sequence[ast.expr]) -> list[AbstractValue]:
        """The arguments of a function that goes over them."""
        return [
            value
            for node in nodes
            for value in (self.starred([node]) if isinstance(node, ast.Starred) else [self.consumed(node)])
        ]

    def _slice(self, node: ast.Slice) -> AbstractValue:
        bounds = [NONE if part is None else self.evaluate(part) for part in (node.lower, node.upper, node.step)]
        return Tuple(tuple(bounds), slice)

    def define(self, node: ast.FunctionDef | ast.Lambda) -> FunctionClosure:
        """A function defined in the program."""
        frame = self.interpreter.here
        defaults = tuple(self.evaluate(default) for default in node.args.defaults)
        keyword_defaults = {
            argument.arg: self.evaluate(default)
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default is not None
        }
        return FunctionClosure(nested_code(node, frame.code.filename), frame.scope, defaults, keyword_defaults)

    def _walrus(self, node: ast.NamedExpr) -> AbstractValue:
        value = self.evaluate(node.value)
        self.interpreter.assign(node.target, value)
        return value

    def _joined_string(self, node: ast.JoinedStr) -> AbstractValue:
        pieces: list[str] = []
        is_message = False
        for part in node.values:
            if isinstance(part, ast.Constant):
                pieces.append(str(part.value))
                continue
            assert isinstance(part, ast.FormattedValue)
            value = self.evaluate(part.value)
            self.interpreter.iterators.refuse_text(value)
            if isinstance(value, Array):
                pieces.append(f"<{ast.unparse(part.value)}>")
                is_message = True
                continue
            if isinstance(value, Const) and isinstance(value.value, MessageText):
                pieces.append(value.value)
                is_message = True
                continue
            held = self.static(value, "what is formatted") if not isinstance(value, FunctionClosure) else value
            held = {97: ascii, 114: repr, 115: str}.get(part.conversion, lambda held: held)(held)
            specification = ""
            if part.format_spec is not None:
                specification = str(self.static(self.evaluate(part.format_spec), "a format"))
            pieces.append(format(held, specification))
        return Const(MessageText("".join(pieces)) if is_message else "".join(pieces))
