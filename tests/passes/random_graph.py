"""A graph that is drawn at random, op by op, typed by the ops' own rows.

What draws one op is a function under `@draws(subject, weight)` in `random_draws.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from hloom.ir import Attributes, DType, Graph, Node, TensorType, Type, TypeProblem, infer_type, literal_of
from hloom.ops import OPS

FLOATS = (0, 1, -1, 2, -0.0, 0.5, math.inf, math.nan, 3, -2, 4, 1e-3, -math.inf, 100)
TAME_FLOATS = (0, 1, -1, 2, -0.0, 0.5, 3, -2, 4)
WHOLE = (0, 1, -1, 2, 3, 4, 8, "least", "greatest", 7, 16)
DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def number_for(element: DType, random: Random, *, tame: bool = False) -> Any:
    """A constant that means something to some rule."""
    if element.name == "pred":
        return random.random() < 0.5
    if not element.is_integer:
        return random.choice(TAME_FLOATS if tame else FLOATS)
    least = -(1 << element.bits - 1) if element.name[0] == "s" else 0
    greatest = least + (1 << element.bits) - 1
    named = {"least": least, "greatest": greatest}
    chosen = random.choice(WHOLE)
    value = named.get(chosen, chosen) if isinstance(chosen, str) else chosen
    return min(max(value, least), greatest)


class Drawing:
    """A graph that is being drawn: its values so far, and what draws the next one."""

    def __init__(
        self, random: Random, graph: Graph, elements: Sequence[DType], shapes: Sequence, depth: int = 0
    ) -> None:
        self.random = random
        self.graph = graph
        self.elements = elements
        self.shapes = shapes
        self.depth = depth
        self.values: list[Node] = []
        self.tame = False

    def op(
        self,
        opcode: str,
        *operands: Node,
        type: Type | None = None,
        attributes: dict[str, Any] | None = None,
        **named: Any,
    ) -> Node:
        """An application of an op; raises TypeProblem where that is none."""
        row, values = OPS[opcode], Attributes({**(attributes or {}), **named})
        types = [operand.type for operand in operands if operand.type is not None]
        result = infer_type(row, types, values, type) if row.infer else type
        return self.keep(self.graph.add_apply(row, operands, type or result, values))

    def keep(self, node: Node) -> Node:
        if isinstance(node.type, TensorType) and node.type.element_count <= 400 and node.type.rank <= 5:
            self.values.append(node)
        return node

    def scalar(self, value: Any, element: DType) -> Node:
        with np.errstate(all="ignore"):
            literal = literal_of(np.asarray(value).astype(element.numpy), element)
        return self.graph.add_constant(literal, literal.type)

    def constant(self, array_type: TensorType) -> Node:
        """One number everywhere, as a broadcast or written out, or several numbers."""
        if self.random.random() < 0.6:
            scalar = self.scalar(number_for(array_type.dtype, self.random, tame=self.tame), array_type.dtype)
            return self.op("broadcast", scalar, type=array_type, dimensions=()) if array_type.rank else scalar
        splat = self.random.random() < 0.5
        numbers = [
            number_for(array_type.dtype, self.random, tame=self.tame)
            for _ in range(1 if splat else array_type.element_count)
        ]
        with np.errstate(all="ignore"):
            flat = np.array(numbers if numbers else [0]).astype(array_type.dtype.numpy)
        array = np.resize(flat, array_type.dims)
        return self.graph.add_constant(literal_of(array, array_type.dtype), array_type)

    def of(self, array_type: TensorType) -> Node:
        """A value of a type: one that is there, a constant, a parameter, or one made of another value."""
        fitting = [value for value in self.values if value.type is array_type]
        chance = self.random.random()
        if fitting and chance < 0.7:
            return self.random.choice(fitting[-6:])
        if chance < 0.85 and self.depth == 0 and len(self.graph.parameters) < 12:
            return self.keep(self.graph.add_parameter(array_type, "p"))
        scalars = [value for value in self.values if value.type is TensorType(array_type.dtype)]
        if array_type.rank and scalars and chance < 0.93:
            return self.op("broadcast", self.random.choice(scalars), type=array_type, dimensions=())
        return self.constant(array_type)

    def any(self, accept: Callable[[TensorType], bool] = lambda array_text: True) -> Node:
        """A value that is there, a late one rather than an early one; raises TypeProblem where none is accepted."""
        result = [value for value in self.values if isinstance(value.type, TensorType) and accept(value.type)]
        if not result:
            raise TypeProblem("nothing here is of such a type")
        return self.random.choice(result[-5:] if self.random.random() < 0.6 else result)

    def random_type(self) -> TensorType:
        return TensorType(self.random.choice(self.elements), self.random.choice(self.shapes))

    def graph_of(self, name: str, types: Sequence[Type]) -> Drawing:
        """A further graph, of parameters of these types."""
        graph = self.graph.module.add_graph(name)
        inner = Drawing(self.random, graph, self.elements, self.shapes, self.depth + 1)
        inner.tame = self.tame
        for array_text in types:
            inner.keep(graph.add_parameter(array_text, "q"))
        return inner

    def draw(self, count: int) -> None:
        """Draw so many ops."""
        for _ in range(count):
            subject = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            try:
                DRAWS[subject](self)
            except TypeProblem:
                continue

    def yields(self, array_type: TensorType) -> Node:
        """A value of a type, a late one if there is one."""
        fitting = [value for value in self.values if value.type is array_type]
        return self.random.choice(fitting[-2:]) if fitting and self.random.random() < 0.85 else self.of(array_type)


def tensor(node: Node) -> TensorType:
    assert isinstance(node.type, TensorType), f"{node!r} is not an array"
    return node.type


DRAWS: dict[str, Callable[[Drawing], Any]] = {}
WEIGHTS: dict[str, float] = {}


def draws(subject: str, weight: float) -> Callable:
    def define(function: Callable[[Drawing], Any]) -> Callable[[Drawing], Any]:
        DRAWS[subject], WEIGHTS[subject] = function, weight
        return function

    return define
