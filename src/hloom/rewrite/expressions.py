"""Expressions over what a pattern bound: conditions of a rule, and the attributes of what it makes.

An expression is data: an operator's name and its arguments. It is written with Python's operators, saved as lists, and
compiled into closures. Values that wrap a number with a type of their own (`.value`) count as that number in arithmetic
and comparisons.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from numbers import Number
from typing import TYPE_CHECKING, Any, NoReturn

from hloom.ir import Apply, Node, TensorType, TupleType
from hloom.rewrite.looking import literal_value, splat_of
from hloom.rewrite.rule import RuleError, registered
from hloom.text import HloomError

if TYPE_CHECKING:
    from hloom.rewrite.match import Match


class Expression:
    """An operator applied to arguments: expressions, or known values inside `known`.

    `&`, `|` and `~` stand for and, or, not; Python's own `and` would ask for a truth value that is not known yet.
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
        return Expression("equal", self, expression(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Expression("not-equal", self, expression(other))

    if TYPE_CHECKING:  # `_add_operators` makes them, from a table

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

    def is_in(self, values: Any) -> Expression:
        """Whether it is one of some values."""
        return Expression("in", self, expression(values))

    @property
    def length(self) -> Expression:
        """How many elements it has."""
        return Expression("length", self)

    def names(self) -> Iterator[str]:
        """The attribute variables that occur in it."""
        for each in self.walk():
            if each.operator == "variable":
                yield each.arguments[0]

    def walk(self) -> Iterator[Expression]:
        """It and all expressions inside it."""
        pending: list[Expression] = [self]
        while pending:
            each = pending.pop()
            yield each
            pending.extend(argument for argument in each.arguments if isinstance(argument, Expression))


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
    """The value as an expression: itself, a known value, or a tuple of expressions."""
    if isinstance(value, Expression):
        return value
    as_expression = getattr(value, "as_expression", None)
    if as_expression is not None:
        return as_expression()
    if isinstance(value, (tuple, list)):
        if any(isinstance(each, Expression) or hasattr(each, "as_expression") for each in value):
            return Expression("tuple", *map(expression, value))
        value = tuple(value)
    return Expression("known", value)


def choose(condition: Any, on_true: Any, on_false: Any) -> Expression:
    """One of two values; the other is not computed.

    >>> rate = Expression("variable", "rate")
    >>> choose(rate < 1, 1 / (1 - rate), 1.0)
    choose(rate < 1, 1 / (1 - rate), 1.0)
    """
    return Expression("choose", *map(expression, (condition, on_true, on_false)))


def call(name: str, *arguments: Any) -> Expression:
    """What a registered native function gives for these arguments; values of the pattern are handed over as nodes."""
    return Expression("call", Expression("known", name), *map(_argument, arguments))


def _argument(value: Any) -> Expression:
    as_node = getattr(value, "as_node", None)
    return as_node() if as_node else expression(value)


# Computing

NO_VALUE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""What computing raises where an expression has no value for a match."""


class NativeFailure(Exception):
    """A native function that raised: a mistake in it, and no reason not to match."""


Compute = Callable[["Match"], Any]


def compiled(each: Expression) -> Compute:
    """A function from a match to the expression's value."""
    if each.operator in _LEAVES:
        return _LEAVES[each.operator](*each.arguments)
    parts = [compiled(argument) for argument in each.arguments]
    if each.operator in _LAZY:
        return _LAZY[each.operator](*parts)
    function = FUNCTIONS.get(each.operator)
    if function is None:
        raise RuleError(f"no operator is called '{each.operator}'")
    if len(parts) == 1:
        only = parts[0]
        return lambda match: function(only(match))
    if len(parts) == 2:
        left, right = parts
        return lambda match: function(left(match), right(match))
    return lambda match: function(*[part(match) for part in parts])


def number(value: Any) -> Any:
    """The number inside a value that has a type of its own, those inside a tuple's; other values as they are."""
    found = getattr(value, "value", value)
    return tuple(map(number, found)) if type(found) is tuple else found


def _on_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: function(*map(number, values))


def _on_small_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of numbers only, and of no larger ones than programs have: rules come from files, and may ask for anything."""

    def compute(*values: Any) -> Any:
        plain = [getattr(value, "value", value) for value in values]
        for each in plain:
            if not isinstance(each, Number):
                raise TypeError(f"{each!r} is no number")
            if isinstance(each, int) and each.bit_length() > MOST_BITS:
                raise ValueError("the number is too large")
        return function(*plain)

    return compute


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > MOST_BITS:
        raise ValueError("the power is too large")
    return base**exponent


def _product(values: Any) -> Any:
    """The product of numbers, one by one, so that none gets too large."""
    found: Any = 1
    for each in values:
        found = FUNCTIONS["multiply"](found, each)
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _on_numbers(operator.add),
    "subtract": _on_numbers(operator.sub),
    "multiply": _on_small_numbers(operator.mul),
    "divide": _on_small_numbers(operator.truediv),
    "floor-divide": _on_small_numbers(operator.floordiv),
    "remainder": _on_small_numbers(operator.mod),
    "power": _on_small_numbers(_power),
    "negate": _on_numbers(operator.neg),
    "absolute": _on_numbers(abs),
    "sqrt": _on_numbers(math.sqrt),
    "equal": _on_numbers(operator.eq),
    "not-equal": _on_numbers(operator.ne),
    "less": _on_numbers(operator.lt),
    "at-most": _on_numbers(operator.le),
    "more": _on_numbers(operator.gt),
    "at-least": _on_numbers(operator.ge),
    "not": operator.not_,
    "item": lambda value, index: value[number(index)],
    "length": len,
    "in": lambda value, values: number(value) in [number(each) for each in values],
    "tuple": lambda *values: values,
    "sum": lambda values: sum(map(number, values)),
    "product": _product,
    "join": lambda left, right: tuple(left) + tuple(right),
    "number": number,
}
"""What each operator of plain values computes."""

MOST_BITS = 4096
"""Whole numbers that take more bits have no product and no power."""

ARITIES: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "floor-divide", "remainder", "power"), (2, 2)),
    **dict.fromkeys(("equal", "not-equal", "less", "at-most", "more", "at-least", "in", "item", "join"), (2, 2)),
    **dict.fromkeys(("negate", "absolute", "sqrt", "not", "length", "sum", "product", "number"), (1, 1)),
    **dict.fromkeys(("and", "or", "node", "made"), (2, 2)),
    **dict.fromkeys(("known", "variable"), (1, 1)),
    "choose": (3, 3),
    "feature": (3, 4),
    "tuple": (0, None),
    "call": (1, None),
}
"""How many arguments each operator takes."""


def _known(value: Any) -> Compute:
    return lambda match: value


def _variable(name: str) -> Compute:
    return lambda match: match.variables[name]


def _node(term: int, result: int) -> Compute:
    return lambda match: match.node(term, result)


def _made(place: int, result: int) -> Compute:
    def compute(match: Match) -> Any:
        found = match.made[place]
        return found if result < 0 else found[result]

    return compute


def _feature(term: int, result: int, feature: str, *arguments: Any) -> Compute:
    look = _FEATURES[feature]
    if feature == "attribute":
        return lambda match: look(match.slots[term], *arguments)
    return lambda match: look(match.value_type(term, result), match.slots[term])


def _both(left: Compute, right: Compute) -> Compute:
    return lambda match: bool(left(match)) and bool(right(match))


def _either(left: Compute, right: Compute) -> Compute:
    return lambda match: bool(left(match)) or bool(right(match))


def _choose(condition: Compute, on_true: Compute, on_false: Compute) -> Compute:
    return lambda match: on_true(match) if condition(match) else on_false(match)


def _call(name: Compute, *arguments: Compute) -> Compute:
    def compute(match: Match) -> Any:
        values = [argument(match) for argument in arguments]
        try:
            return registered(name(match))(*values)
        except HloomError:
            raise
        except Exception as error:
            raise NativeFailure(f"native function '{name(match)}': {type(error).__name__}: {error}") from error

    return compute


_LEAVES: dict[str, Callable[..., Compute]] = {
    "known": _known,
    "variable": _variable,
    "node": _node,
    "made": _made,
    "feature": _feature,
}
_LAZY: dict[str, Callable[..., Compute]] = {"and": _both, "or": _either, "choose": _choose, "call": _call}


def _attribute(node: Node | None, name: str) -> Any:
    if node is None:
        return None
    found = node.attributes.get(name)
    return node.attribute(name) if found is None and isinstance(node, Apply) else found


def _value(kind: Any, node: Node) -> Any:
    found = splat_of(node)
    return None if found is None else found.item()


_FEATURES: dict[str, Callable[..., Any]] = {
    "attribute": _attribute,
    "type": lambda kind, node: kind,
    "dtype": lambda kind, node: kind.dtype.name if isinstance(kind, TensorType) else None,
    "shape": lambda kind, node: kind.dims if isinstance(kind, TensorType) else None,
    "rank": lambda kind, node: kind.rank if isinstance(kind, TensorType) else None,
    "element_count": lambda kind, node: kind.element_count if isinstance(kind, TensorType) else None,
    "elements": lambda kind, node: kind.elements if isinstance(kind, TupleType) else None,
    "value": _value,
    "literal": lambda kind, node: literal_value(node),
    "opcode": lambda kind, node: node.opcode,
    "name": lambda kind, node: node.name,
    "operand_count": lambda kind, node: len(node.inputs),
}
"""What can be asked of a value of the pattern."""

FEATURES = frozenset(_FEATURES) - {"attribute"}

# Showing

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor-divide": "//", "remainder": "%", "power": "**",
    "equal": "==", "not-equal": "!=", "less": "<", "at-most": "<=", "more": ">", "at-least": ">=", "and": "&",
    "or": "|", "in": "in",
}  # fmt: skip


def text_of(each: Expression, names: Callable[[int], str] = lambda term: f"#{term}") -> str:
    """The expression as a person would write it; `names` gives the names of the pattern's terms."""
    if each.operator == "known":
        return repr(each.arguments[0]) if isinstance(each.arguments[0], (str, tuple)) else str(each.arguments[0])
    if each.operator == "variable":
        return each.arguments[0]
    if each.operator == "made":
        return f"made {each.arguments[0]}"
    if each.operator == "node":
        return names(each.arguments[0])
    if each.operator == "feature":
        return f"{names(each.arguments[0])}.{each.arguments[-1]}"
    parts = [text_of(argument, names) for argument in each.arguments]
    if each.operator in _SIGNS:
        shown = [f"({p})" if a.operator in _SIGNS else p for p, a in zip(parts, each.arguments, strict=True)]
        return f"{shown[0]} {_SIGNS[each.operator]} {shown[1]}"
    if each.operator == "item":
        return f"{parts[0]}[{parts[1]}]"
    return f"{each.operator}({', '.join(parts)})"
