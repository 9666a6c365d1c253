"""What a value of MindIR is while it is lowered: an array, constants, tuples, functions; and their leaves, the arrays.

Only arrays are there when the program runs. What has the same *skeleton*, the value with types in place of arrays, can
go through one parameter of an HLO computation: a tuple of its leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hloom.dialects.arrays import type_of_node
from hloom.dialects.mindir.locations import error_at
from hloom.dialects.mindir.values import Number, Sequence, Text, Word
from hloom.ir import Graph, Node, TensorType, Type, dtype
from hloom.text import Unsupported

MOST_NESTED = 100
"""How deep tuples and functions may nest in a value."""
INDEX_TYPE = TensorType(dtype("s32"))
"""The type of the index of a function among several."""
MONAD = Word("monad")
"""The order of side effects before the first one."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A tuple of values."""

    elements: tuple[LoweredValue, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Closure:
    """A graph as a value: the values of its free variables, in their order, and arguments that it has been given."""

    graph: Graph
    captured: tuple[LoweredValue, ...]
    bound: tuple[LoweredValue, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several functions: `selector` is its index, or a pred that says whether it is the first of two."""

    selector: Node | Type
    options: tuple[Closure, ...]
    depth: int


@dataclass(frozen=True, slots=True)
class State:
    """The order of side effects after some writes: the parameters written to, how often, and their values.

    `node` is the last write.
    """

    values: tuple[tuple[Node, int, Node], ...]
    node: Node

    def current(self, parameter: Node) -> tuple[int, Node]:
        """How often a parameter was written to, and its value."""
        return next(((count, value) for key, count, value in self.values if key is parameter), (0, parameter))

    def joined(self, other: State) -> State:
        """The state after both."""
        latest = {key: (count, value) for key, count, value in self.values}
        for key, count, value in other.values:
            if count > latest.get(key, (0, None))[0]:
                latest[key] = count, value
        return State(tuple((key, *pair) for key, pair in latest.items()), other.node)


Function = Closure | Choice
LoweredValue = Node | Type | Number | Text | Word | Aggregate | Closure | Choice | State
"""A value; with types in place of nodes, a skeleton."""


def aggregate(elements: tuple[LoweredValue, ...] | list[LoweredValue]) -> Aggregate:
    """A tuple of values; raises Unsupported where it nests too deep."""
    return Aggregate(tuple(elements), _deeper(elements))


def closure(graph: Graph, captured: tuple[LoweredValue, ...], bound: tuple[LoweredValue, ...] = ()) -> Closure:
    """A graph with the values that it captures and has been given."""
    return Closure(graph, captured, bound, _deeper((*captured, *bound)))


def choice(selector: Node | Type, options: tuple[Closure, ...]) -> Choice:
    """One of several functions."""
    return Choice(selector, options, _deeper(options))


def constant_value(value: Sequence) -> Aggregate:
    """A tuple of constants as a value; the reader has bounded its depth."""
    return aggregate([constant_value(part) if isinstance(part, Sequence) else _plain(part) for part in value.elements])


def _plain(part: object) -> LoweredValue:
    if isinstance(part, (Number, Text, Word)):
        return part
    raise Unsupported("tensors inside of constant tuples have no lowering")


def _deeper(parts: tuple[LoweredValue, ...] | list[LoweredValue]) -> int:
    depth = 1 + max((part.depth for part in parts if isinstance(part, (Aggregate, Closure, Choice))), default=0)
    if depth > MOST_NESTED:
        raise Unsupported(f"tuples and functions nest deeper than {MOST_NESTED} levels here")
    return depth


def leaves(value: LoweredValue) -> Iterator[Node]:
    """The arrays in a value, in order."""
    if isinstance(value, Node):
        yield value
    for part in parts_of(value):
        yield from leaves(part)


def parts_of(value: LoweredValue) -> tuple[LoweredValue, ...]:
    """The values that a value is made of."""
    if isinstance(value, Aggregate):
        return value.elements
    if isinstance(value, Closure):
        return (*value.captured, *value.bound)
    if isinstance(value, Choice):
        return (value.selector, *value.options)
    return ()


def rebuilt(value: LoweredValue, change: Callable[[LoweredValue], LoweredValue]) -> LoweredValue:
    """A value with everything that has no parts changed."""
    if isinstance(value, Aggregate):
        return aggregate([rebuilt(part, change) for part in value.elements])
    if isinstance(value, Closure):
        return _rebuilt_closure(value, change)
    if isinstance(value, Choice):
        selector = change(value.selector)
        assert isinstance(selector, (Node, Type)), "a selector is an array"
        return choice(selector, tuple(_rebuilt_closure(option, change) for option in value.options))
    if isinstance(value, State):
        raise error_at(value.node, "writes before a branch, a loop or a call of a shared function have no lowering")
    return change(value)


def _rebuilt_closure(value: Closure, change: Callable[[LoweredValue], LoweredValue]) -> Closure:
    captured = tuple(rebuilt(part, change) for part in value.captured)
    return closure(value.graph, captured, tuple(rebuilt(part, change) for part in value.bound))


def skeleton_of(value: LoweredValue) -> LoweredValue:
    """The value with types in place of arrays."""
    return rebuilt(value, lambda part: type_of_node(part) if isinstance(part, Node) else part)


def with_arrays(skeleton: LoweredValue, arrays: Iterator[Node]) -> LoweredValue:
    """The value of a skeleton whose leaves are these arrays."""
    return rebuilt(skeleton, lambda part: next(arrays) if isinstance(part, Type) else part)


def leaf_types(skeleton: LoweredValue) -> list[Type]:
    """The types of a skeleton's leaves."""
    if isinstance(skeleton, Type):
        return [skeleton]
    return [type_ for part in parts_of(skeleton) for type_ in leaf_types(part)]


def with_dynamic_numbers(skeleton: LoweredValue) -> LoweredValue:
    """The skeleton with types in place of constant numbers too."""
    return rebuilt(skeleton, lambda part: TensorType(part.dtype) if isinstance(part, Number) else part)


def functions_in(value: LoweredValue) -> Iterator[Graph]:
    """The graphs of the functions in a value."""
    if isinstance(value, Closure):
        yield value.graph
    for part in parts_of(value):
        yield from functions_in(part)


def joined(left: LoweredValue, right: LoweredValue, what: str) -> LoweredValue:
    """The skeleton that two skeletons both fit into; raises Unsupported if there is none.

    Unequal numbers become an array, unequal functions one of several.
    """
    if left == right:
        return left
    if isinstance(left, (Type, Number)) and isinstance(right, (Type, Number)):
        types = [part if isinstance(part, Type) else TensorType(part.dtype) for part in (left, right)]
        if types[0] is types[1]:
            return types[0]
    elif isinstance(left, Aggregate) and isinstance(right, Aggregate) and len(left.elements) == len(right.elements):
        pairs = zip(left.elements, right.elements, strict=True)
        return aggregate([joined(a, b, what) for a, b in pairs])
    elif isinstance(left, (Closure, Choice)) and isinstance(right, (Closure, Choice)):
        return _joined_functions(left, right, what)
    raise Unsupported(f"{what} is {described(left)} on one way here and {described(right)} on another")


def _joined_functions(left: Function, right: Function, what: str) -> Function:
    options = list(options_of(left))
    for option in options_of(right):
        index = index_of(option, options)
        if index is None:
            options.append(option)
            continue
        pairs = zip(parts_of(options[index]), parts_of(option), strict=True)
        parts = tuple(joined(a, b, what) for a, b in pairs)
        count = len(option.captured)
        options[index] = closure(option.graph, parts[:count], parts[count:])
    if len(options) == 1:
        return options[0]
    if isinstance(left, Choice) and isinstance(right, Choice) and left.selector == right.selector:
        return choice(left.selector, tuple(options)) if len(options) == len(left.options) else _indexed(options)
    return _indexed(options)


def _indexed(options: list[Closure]) -> Choice:
    return choice(INDEX_TYPE, tuple(options))


def options_of(function: Function) -> tuple[Closure, ...]:
    return function.options if isinstance(function, Choice) else (function,)


def index_of(function: Closure, options: tuple[Closure, ...] | list[Closure]) -> int | None:
    """The option with the same graph and the same number of bound arguments."""
    signature = (function.graph, len(function.bound))
    return next((i for i, option in enumerate(options) if (option.graph, len(option.bound)) == signature), None)


def described(value: LoweredValue) -> str:
    """What an error calls a value."""
    if isinstance(value, Node):
        return str(value.type)
    if isinstance(value, Aggregate):
        return f"a tuple of {len(value.elements)}"
    if isinstance(value, Closure):
        return f"the function {value.graph.name}"
    if isinstance(value, Choice):
        return "one of several functions"
    return str(value)
