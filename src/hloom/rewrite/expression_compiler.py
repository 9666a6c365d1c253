"""Compiles expressions from the data of `expressions` to functions of a match."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from functools import lru_cache
from numbers import Number
from typing import Any

from hloom.ir import Apply, Node, TensorType, TupleType, Type
from hloom.rewrite.expressions import Expression
from hloom.rewrite.match import Match
from hloom.rewrite.matchers import literal_value, splat_of
from hloom.rewrite.origins import scope, source_file, source_line
from hloom.rewrite.registry import RuleError, registered
from hloom.text import HloomError, compile_pattern

MOST_PATTERNS = 256
"""The maximum number of compiled regular expressions to cache."""
NO_VALUE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)
"""Exceptions raised if an expression has no value for a match."""


class NativeFailure(Exception):
    """A native function raised: this is a bug in it, not a reason not to match."""


Compute = Callable[[Match], Any]


def compiled(expression: Expression) -> Compute:
    """A function from a match to the expression's value."""
    if expression.operator in _LEAVES:
        return _LEAVES[expression.operator](*expression.arguments)
    parts = [compiled(argument) for argument in expression.arguments]
    if expression.operator in _LAZY:
        return _LAZY[expression.operator](*parts)
    function = FUNCTIONS.get(expression.operator)
    if function is None:
        raise RuleError(f"no operator is called '{expression.operator}'")
    if len(parts) == 1:
        only = parts[0]
        return lambda match: function(only(match))
    if len(parts) == 2:
        left, right = parts
        return lambda match: function(left(match), right(match))
    return lambda match: function(*[part(match) for part in parts])


def number(value: Any) -> Any:
    """The number inside a wrapped value or the values of a tuple; other values unchanged."""
    inner = getattr(value, "value", value)
    return tuple(map(number, inner)) if inner.__class__ is tuple else inner


def _on_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: function(*map(number, values))


def _on_small_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """Restrict a function to numbers of moderate size: rules come from files and may ask for anything."""

    def compute(*values: Any) -> Any:
        plain = [getattr(value, "value", value) for value in values]
        for operand in plain:
            if not isinstance(operand, Number):
                raise TypeError(f"{operand!r} is not a number")
            if isinstance(operand, int) and operand.bit_length() > MAX_BITS:
                raise ValueError("the number is too large")
        return function(*plain)

    return compute


def _divide(left: Any, right: Any) -> Any:
    return left / right


def _floor_divide(left: Any, right: Any) -> Any:
    return left // right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > MAX_BITS:
        raise ValueError("the power is too large")
    return base**exponent


def _product(values: Any) -> Any:
    """The product of numbers, checked after each factor so that none gets too large."""
    total: Any = 1
    for value in values:
        total = FUNCTIONS["multiply"](total, value)
    return total


def _item(value: Any, index: Any) -> Any:
    return value[number(index)]


def _tuple(*values: Any) -> tuple[Any, ...]:
    return values


def _sum(values: Iterable[Any]) -> Any:
    return sum(map(number, values))


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern).search(text)


_pattern = lru_cache(MOST_PATTERNS)(compile_pattern)


def _join(left: Iterable[Any], right: Iterable[Any]) -> tuple[Any, ...]:
    return (*left, *right)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _on_numbers(operator.add),
    "subtract": _on_numbers(operator.sub),
    "multiply": _on_small_numbers(operator.mul),
    "divide": _on_small_numbers(_divide),
    "floor-divide": _on_small_numbers(_floor_divide),
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
    "item": _item,
    "length": len,
    "tuple": _tuple,
    "sum": _sum,
    "product": _product,
    "join": _join,
    "matches": _matches,
    "number": number,
}
"""What each operator of plain values computes."""

MAX_BITS = 4096
"""The maximum bits of an integer that may be multiplied or raised to a power."""


def _known(value: Any) -> Compute:
    return lambda match: value


def _variable(name: str) -> Compute:
    return lambda match: match.variables[name]


def _node(term: int, result: int) -> Compute:
    if result < 0:
        return lambda match: match.slots[term]
    return lambda match: match.node(term, result)


def _made(make_index: int, result: int) -> Compute:
    def compute(match: Match) -> Any:
        made = match.made[make_index]
        return made if result < 0 else made[result]

    return compute


def _feature(term: int, result: int, feature: str, *arguments: Any) -> Compute:
    if feature == "attribute":
        return lambda match: _attribute(match.slots[term], *arguments)
    look = _FEATURES[feature]
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


def _holds(name: Compute, *subjects: Compute) -> Compute:
    """A condition that a text names, which raises what it raises, as a native rule does."""
    if len(subjects) == 1:
        only = subjects[0]
        return lambda match: registered(name(match))(only(match))
    return lambda match: registered(name(match))(*[subject(match) for subject in subjects])


_LEAVES: dict[str, Callable[..., Compute]] = {
    "known": _known,
    "variable": _variable,
    "node": _node,
    "made": _made,
    "feature": _feature,
}
_LAZY: dict[str, Callable[..., Compute]] = {
    "and": _both,
    "or": _either,
    "choose": _choose,
    "call": _call,
    "holds": _holds,
}


def _attribute(node: Node | None, name: str) -> Any:
    if node is None:
        return None
    given = node.attributes.get(name)
    return node.attribute(name) if given is None and isinstance(node, Apply) else given


def _value(value_type: Type | None, node: Node) -> Any:
    splat = splat_of(node)
    return None if splat is None else splat.item()


_FEATURES: dict[str, Callable[[Type | None, Node], Any]] = {
    "type": lambda value_type, node: value_type,
    "dtype": lambda value_type, node: value_type.dtype.name if isinstance(value_type, TensorType) else None,
    "shape": lambda value_type, node: value_type.dims if isinstance(value_type, TensorType) else None,
    "rank": lambda value_type, node: value_type.rank if isinstance(value_type, TensorType) else None,
    "element_count": lambda value_type, node: value_type.element_count if isinstance(value_type, TensorType) else None,
    "elements": lambda value_type, node: value_type.elements if isinstance(value_type, TupleType) else None,
    "value": _value,
    "literal": lambda value_type, node: literal_value(node),
    "opcode": lambda value_type, node: node.opcode,
    "name": lambda value_type, node: node.name,
    "operand_count": lambda value_type, node: len(node.operands),
    "user_count": lambda value_type, node: len(node.users),
    "byte_count": lambda value_type, node: None if value_type is None else value_type.byte_count,
    "slice_starts": lambda value_type, node: tuple(part.start for part in node.attributes["slice"]),
    "slice_limits": lambda value_type, node: tuple(part.limit for part in node.attributes["slice"]),
    "slice_strides": lambda value_type, node: tuple(part.stride for part in node.attributes["slice"]),
    "scope": lambda value_type, node: scope(node),
    "source_file": lambda value_type, node: source_file(node),
    "source_line": lambda value_type, node: source_line(node),
}
"""What can be asked about a value of the pattern, besides its attributes."""
