"""Scalar evolution: integers of a program as linear expressions of unknown values, to follow loop counters.

A value is traced back through tuples, copies, fusions and calls, to the operands of the calls, and through loops that
pass it on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hloom.analysis.control_flow import (
    Runs,
    argument,
    callee_of,
    flow_of,
    forwarded_from,
    initial_state,
    is_loop,
)
from hloom.ir import Apply, Constant, Graph, Literal, Node, Parameter, TensorType, Trait
from hloom.ops import with_trait

DEEPEST = 100
"""How many sums inside sums are followed; a deeper value is not known."""
PRESERVING = with_trait(Trait.KEEPS_ORDER) | {"broadcast", "convert", "copy"}
"""Opcodes whose elements are those of their operand."""


class Frame(NamedTuple):
    """How a graph was entered: the call, and the enclosing frame; a loop's own frame names the while."""

    call: Apply
    outer: Frame | None


class Value(NamedTuple):
    """A part of a node's value: the node, the tuple element, and the call it is in."""

    node: Node
    index: tuple[int, ...] = ()
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class LinearExpression:
    """A constant plus multiples of unknown values."""

    constant: int = 0
    terms: Mapping[Value, int] = field(default_factory=dict)

    def __add__(self, other: LinearExpression) -> LinearExpression:
        terms = dict(self.terms)
        for value, times in other.terms.items():
            terms[value] = terms.get(value, 0) + times
        nonzero = {value: times for value, times in terms.items() if times}
        return LinearExpression(self.constant + other.constant, nonzero)

    def __mul__(self, times: int) -> LinearExpression:
        if not times:
            return LinearExpression()
        return LinearExpression(self.constant * times, {value: factor * times for value, factor in self.terms.items()})

    def __sub__(self, other: LinearExpression) -> LinearExpression:
        return self + other * -1

    @property
    def is_constant(self) -> bool:
        """Whether nothing in it is unknown."""
        return not self.terms


class ScalarEvolution:
    """Traces values and caches which loops pass which elements through unchanged."""

    def __init__(self, callers: Mapping[Graph, list[Apply]]) -> None:
        self._callers = callers
        self._steps: dict[tuple[Apply, tuple[int, ...]], LinearExpression] = {}
        self._sums: dict[Value, LinearExpression] = {}

    def linear(self, value: Value, depth: int = 0) -> LinearExpression:
        """A value as a linear expression; an unknown value is a term by itself."""
        source = self.source(value)
        expression = self._sums.get(source)
        if expression is None:
            expression = self._sums[source] = self._sum_of(source, depth) or LinearExpression(0, {source: 1})
        return expression

    def _sum_of(self, source: Value, depth: int) -> LinearExpression | None:
        node = source.node
        if isinstance(node, Constant):
            number = _integer(node)
            return LinearExpression(number) if number is not None else None
        rule = ARITHMETIC.get(node.opcode)
        if rule is None or source.index or depth > DEEPEST or not _is_integer(node):
            return None
        return rule([self.linear(Value(operand, (), source.frame), depth + 1) for operand in node.operands])

    def step(self, loop: Apply, index: tuple[int, ...]) -> LinearExpression:
        """What one iteration adds to an element of a loop's state."""
        key = (loop, index)
        if key not in self._steps:
            body = callee_of(loop, Runs.PER_ITERATION)
            if body is None:
                raise LookupError(f"{loop.name} has no body")
            before = Value(body.parameters[0], index, Frame(loop, None)) if body.parameters else None
            self._steps[key] = LinearExpression(0, {Value(loop): 1})  # treated as unknown while it is being traced
            if before is not None and body.output is not None:
                after = self.linear(Value(body.output, index, Frame(loop, None)))
                self._steps[key] = after - LinearExpression(0, {before: 1})
        return self._steps[key]

    def source(self, value: Value) -> Value:
        """Where a value comes from, looking through everything that only forwards it."""
        while True:
            further = self._before(value)
            if further is None:
                return value
            value = further

    def _before(self, value: Value) -> Value | None:
        node, index, frame = value
        if isinstance(node, Parameter):
            return self._before_parameter(node, index, frame)
        if not isinstance(node, Apply):
            return None
        if node.opcode in PRESERVING:
            is_exact = node.opcode != "convert" or _is_integer(node.operands[0])
            return Value(node.operands[0], index, frame) if is_exact else None
        flow = flow_of(node)
        if flow is None:
            return None
        source = forwarded_from(node, index)
        if source is not None:
            return Value(source.node, source.index, frame)
        if flow.is_loop:
            return Value(initial_state(node), index, frame) if self._passes_on(node, index) else None
        graph, depth = callee_of(node, Runs.ONCE), len(flow.result_index)
        if graph is None or graph.output is None or index[:depth] != flow.result_index:
            return None
        return Value(graph.output, index[depth:], Frame(node, frame))

    def _before_parameter(self, node: Parameter, index: tuple[int, ...], frame: Frame | None) -> Value | None:
        if frame is not None:
            operand = None if is_loop(frame.call) else argument(frame.call, node.graph, node.number)
            return Value(operand, index, frame.outer) if operand is not None else None
        callers = self._callers.get(node.graph, [])
        if len(callers) != 1:
            return None
        call = callers[0]
        if is_loop(call) and not self._passes_on(call, index):
            return None
        operand = argument(call, node.graph, node.number)
        return Value(operand, index) if operand is not None else None

    def _passes_on(self, loop: Apply, index: tuple[int, ...]) -> bool:
        step = self.step(loop, index)
        return step.is_constant and step.constant == 0


def _is_integer(node: Node) -> bool:
    value_type = node.type
    return isinstance(value_type, TensorType) and (value_type.dtype.is_integer or value_type.dtype.name == "pred")


def _integer(node: Constant) -> int | None:
    """The single integer that a constant holds; None for other nodes."""
    literal = node.value
    if not isinstance(literal, Literal) or not _is_integer(node) or literal.is_elided:
        return None
    if not literal.is_splat:
        return None
    return int(literal.splat_value())


def _sum(operands: list[LinearExpression]) -> LinearExpression:
    return operands[0] + operands[1]


def _difference(operands: list[LinearExpression]) -> LinearExpression:
    return operands[0] - operands[1]


def _negative(operands: list[LinearExpression]) -> LinearExpression:
    return operands[0] * -1


def _product(operands: list[LinearExpression]) -> LinearExpression | None:
    left, right = operands
    if right.is_constant:
        return left * right.constant
    return right * left.constant if left.is_constant else None


def _of_constants(function: Callable[[int, int], int]) -> Callable[[list[LinearExpression]], LinearExpression | None]:
    def folded(operands: list[LinearExpression]) -> LinearExpression | None:
        left, right = operands
        if not (left.is_constant and right.is_constant):
            return None
        return LinearExpression(function(left.constant, right.constant))

    return folded


ARITHMETIC: dict[str, Callable[[list[LinearExpression]], LinearExpression | None]] = {
    "add": _sum,
    "subtract": _difference,
    "negate": _negative,
    "multiply": _product,
    "maximum": _of_constants(max),
    "minimum": _of_constants(min),
}
"""How arithmetic ops combine linear expressions; None if the result is not linear."""
