"""Expressions over what a pattern bound: a rule's conditions, and attributes of operations it makes.

An expression is data: an operator's name and its arguments. It is written with Python's operators, saved as lists, and
compiled to closures (`expression_compiler`). Values that wrap a number in a type of their own (`.value`) count as that
number in arithmetic and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from hloom.rewrite.registry import RuleError
from hloom.rewrite.type_guards import as_tuple, is_tuple
from hloom.rewrite.type_text import element_names, type_from
from hloom.text import ParseError, compile_pattern

_NUMBERS = frozenset(("rank", "element_count"))


class Expression:
    """An operator applied to arguments: expressions, or known values inside `known`.

    `&`, `|` and `~` mean and, or, not; Python's own `and` would need a truth value that is not known yet.
    """

    __slots__ = ("arguments", "operator")

    def __init__(self, operator: str, *arguments: Any) -> None:
        self.operator = operator
        self.arguments = arguments

    def __repr__(self) -> str:
        return text_of(self)

    def __bool__(self) -> NoReturn:
        raise RuleError(
            f"'{self}' has no truth value before something matches", hint="write & for and, | for or, ~ for not"
        )

    def __iter__(self) -> NoReturn:
        raise RuleError(f"'{self}' cannot be iterated over: its length is not known before something matches")

    __hash__ = object.__hash__

    def __getitem__(self, index: Any) -> Expression:
        return Expression("item", self, expression(index))

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return Expression("equal", self, self._comparable(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Expression("not-equal", self, self._comparable(other))

    if TYPE_CHECKING:  # created by `_add_operators` from a table

        def __add__(self, other: Any) -> Expression: ...
        def __radd__(self, other: Any) -> Expression: ...
        def __sub__(self, other: Any) -> Expression: ...
        def __rsub__(self, other: Any) -> Expression: ...
        def __mul__(self, other: Any) -> Expression: ...
        def __rmul__(self, other: Any) -> Expression: ...
        def __truediv__(self, other: Any) -> Expression: ...
        def __rtruediv__(self, other: Any) -> Expression: ...
        def __floordiv__(self, other: Any) -> Expression: ...
        def __rfloordiv__(self, other: Any) -> Expression: ...
        def __mod__(self, other: Any) -> Expression: ...
        def __rmod__(self, other: Any) -> Expression: ...
        def __pow__(self, other: Any) -> Expression: ...
        def __rpow__(self, other: Any) -> Expression: ...
        def __and__(self, other: Any) -> Expression: ...
        def __rand__(self, other: Any) -> Expression: ...
        def __or__(self, other: Any) -> Expression: ...
        def __ror__(self, other: Any) -> Expression: ...
        def __lt__(self, other: Any) -> Expression: ...
        def __le__(self, other: Any) -> Expression: ...
        def __gt__(self, other: Any) -> Expression: ...
        def __ge__(self, other: Any) -> Expression: ...

    def __neg__(self) -> Expression:
        return Expression("negate", self)

    def __abs__(self) -> Expression:
        return Expression("absolute", self)

    def __invert__(self) -> Expression:
        return Expression("not", self)

    def _comparable(self, other: Any) -> Expression:
        """The other side of a comparison; a text that this feature can never equal is rejected, as it would never
        match.
        """
        feature = self.arguments[2] if self.operator == "feature" else None
        if feature == "dtype" and not isinstance(other, Expression) and not hasattr(other, "as_expression"):
            (other,) = element_names(other)
        elif feature == "type" and isinstance(other, str):
            other = type_from(other)
        elif feature in _NUMBERS and isinstance(other, str):
            raise RuleError(f"{self} is a number, and is compared with the text '{other:.40}'")
        return expression(other)

    def matches(self, pattern: str) -> Expression:
        """Whether a regular expression matches a part of a text, in time linear in the text (`hloom.text`)."""
        try:
            compile_pattern(pattern)
        except ParseError as error:
            raise RuleError(f"the pattern '{pattern:.60}' is not a regular expression: {error.message}") from None
        return Expression("matches", self, Expression("known", pattern))

    @property
    def length(self) -> Expression:
        """The number of its elements."""
        return Expression("length", self)

    def names(self) -> Iterator[str]:
        """The attribute variables it contains."""
        for leaf in self.walk():
            if leaf.operator == "variable":
                yield leaf.arguments[0]

    def walk(self) -> Iterator[Expression]:
        """The expression and all its subexpressions."""
        pending: list[Expression] = [self]
        while pending:
            current = pending.pop()
            yield current
            pending.extend(argument for argument in current.arguments if isinstance(argument, Expression))


def _add_operators() -> None:
    both = {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor-divide",
        "mod": "remainder", "pow": "power", "and": "and", "or": "or",
    }  # fmt: skip
    for python, name in both.items():
        setattr(Expression, f"__{python}__", _infix(name))
        setattr(Expression, f"__r{python}__", _reflected(name))
    for python, name in {"lt": "less", "le": "at-most", "gt": "more", "ge": "at-least"}.items():
        setattr(Expression, f"__{python}__", _infix(name))


def _infix(name: str) -> Callable[[Expression, Any], Expression]:
    return lambda self, other: Expression(name, self, expression(other))


def _reflected(name: str) -> Callable[[Expression, Any], Expression]:
    return lambda self, other: Expression(name, expression(other), self)


_add_operators()


def expression(value: Any) -> Expression:
    """The value as an expression: unchanged, as a known value, or as a tuple of expressions."""
    if isinstance(value, Expression):
        return value
    as_expression = getattr(value, "as_expression", None)
    if as_expression is not None:
        return as_expression()
    if isinstance(value, (tuple, list)):
        values = as_tuple(value)
        if any(isinstance(item, Expression) or hasattr(item, "as_expression") for item in values):
            return Expression("tuple", *map(expression, values))
        return Expression("known", values)
    return Expression("known", value)


def choose(condition: Any, on_true: Any, on_false: Any) -> Expression:
    """One of two values; the other is not evaluated.

    >>> rate = Expression("variable", "rate")
    >>> choose(rate < 1, 1 / (1 - rate), 1.0)
    choose(rate < 1, 1 / (1 - rate), 1.0)
    """
    return Expression("choose", *map(expression, (condition, on_true, on_false)))


def call(name: str, *arguments: Any) -> Expression:
    """The result of a registered native function; values of the pattern are passed as nodes."""
    return Expression("call", Expression("known", name), *map(_argument, arguments))


def _argument(value: Any) -> Expression:
    as_node = getattr(value, "as_node", None)
    return as_node() if as_node else expression(value)


ARITIES: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "floor-divide", "remainder", "power"), (2, 2)),
    **dict.fromkeys(
        ("equal", "not-equal", "less", "at-most", "more", "at-least", "item", "join", "matches"), (2, 2)
    ),
    **dict.fromkeys(("negate", "absolute", "sqrt", "not", "length", "sum", "product", "number"), (1, 1)),
    **dict.fromkeys(("and", "or", "node", "made"), (2, 2)),
    **dict.fromkeys(("known", "variable"), (1, 1)),
    "choose": (3, 3),
    "feature": (3, 4),
    "tuple": (0, None),
    "call": (1, None),
    "holds": (2, None),
}
"""The number of arguments of each operator."""


FEATURES = frozenset(
    {
        *("type", "dtype", "shape", "rank", "element_count", "elements", "value", "literal", "opcode", "name"),
        *("operand_count", "user_count", "byte_count", "slice_starts", "slice_limits", "slice_strides"),
        *("scope", "source_file", "source_line"),
    }
)
"""What can be asked about a value of the pattern, besides its attributes."""
METADATA_FEATURES = frozenset({"scope", "source_file", "source_line"})
"""Features from the framework's metadata, on which no type or value depends."""


_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor-divide": "//", "remainder": "%", "power": "**",
    "equal": "==", "not-equal": "!=", "less": "<", "at-most": "<=", "more": ">", "at-least": ">=", "and": "&",
    "or": "|", "matches": "~",
}  # fmt: skip


def text_of(root: Expression, names: Callable[[int], str] = lambda term: f"#{term}") -> str:
    """The expression in readable form; `names` gives the names of the pattern's terms."""
    if root.operator == "known":
        value: object = root.arguments[0]
        return repr(value) if isinstance(value, str) or is_tuple(value) else str(value)
    if root.operator == "variable":
        return root.arguments[0]
    if root.operator == "made":
        return f"made {root.arguments[0]}"
    if root.operator == "node":
        return names(root.arguments[0])
    if root.operator == "feature":
        return f"{names(root.arguments[0])}.{root.arguments[-1]}"
    parts = [text_of(argument, names) for argument in root.arguments]
    if root.operator in _SIGNS:
        shown = [f"({p})" if a.operator in _SIGNS else p for p, a in zip(parts, root.arguments, strict=True)]
        return f"{shown[0]} {_SIGNS[root.operator]} {shown[1]}"
    if root.operator == "item":
        return f"{parts[0]}[{parts[1]}]"
    return f"{root.operator}({', '.join(parts)})"
