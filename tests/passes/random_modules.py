"""Random modules for tests of passes: 5 to 60 instructions of all sorts.

They lean to what rules look for: constants that mean something, an operand twice, ops that undo each other, dimensions
of size 1 and 0, the same expression again, values of many users. `module_of` draws one from nothing, `module_around`
one around a program in which a rule fires; `text_of` gives the text, `inputs_for` the inputs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

import hloom
from hloom.ir import (
    Apply,
    Layout,
    Module,
    Node,
    TensorType,
    TupleType,
    Type,
    callees_first,
    dtype,
    literal_of,
    map_leaves,
)
from hloom.ops import OPS
from tests.passes.random_draws import Drawing, number_for, tensor

ELEMENTS = ("f32", "f32", "f32", "s32", "s32", "f64", "bf16", "f16", "s8", "u8", "u32", "pred", "c64", "f8e5m2", "s64")
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0, 1e30, -1e30, 1e-30, 1e-40, 2.5, 0.5)


def module_of(random: Random, *, tame: bool = False, elements: Sequence[str] = ELEMENTS) -> Module:
    """A random module; without constants that are not numbers where it is to be tame."""
    module = Module("random")
    chosen = [dtype(name) for name in random.sample(elements, random.randint(1, 3))]
    sizes = random.choice(((1, 2, 3), (2, 3, 4), (1, 2, 4), (1, 1, 3), (2, 4, 8), (0, 1, 2)))
    shapes = [tuple(random.choice(sizes) for _ in range(random.randint(0, 3))) for _ in range(random.randint(1, 3))]
    drawing = Drawing(random, module.add_graph("entry"), chosen, shapes)
    drawing.tame = tame
    for _ in range(random.randint(1, 4)):
        drawing.keep(drawing.graph.add_parameter(drawing.random_type(), "p"))
    drawing.draw(random.choice((3, 6, 10, 20, 35)))
    module.entry = drawing.graph
    return finished(drawing)


def module_around(random: Random, text: str, *, tame: bool = False) -> Module:
    """A module of a text, such as one in which a rule fires, with more drawn around it.

    Where it need not be tame, some operands are exchanged and some ops too: what nearly matches must stay right.
    """
    module = hloom.parse(text)
    graph = module.entry
    arrays = [node for node in graph.nodes if isinstance(node.type, TensorType) and node.type.dynamic is None]
    types = [tensor(node) for node in arrays] or [TensorType(dtype("f32"))]
    drawing = Drawing(
        random, graph, [array_text.dtype for array_text in types[-4:]], [array_text.dims for array_text in types[-4:]]
    )
    drawing.tame = tame
    for node in arrays:
        drawing.keep(node)
    known = graph.root
    for _ in range(0 if tame else random.choice((0, 0, 1, 2))):
        _exchange(drawing, random.choice(arrays))
    drawing.draw(random.choice((0, 1, 3, 6)))
    graph.set_output(known)
    return finished(drawing, [known])


_ALIKE = (
    ("add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "power"), ("and", "or", "xor"),
    ("shift-left", "shift-right-logical", "shift-right-arithmetic"), ("negate", "abs", "sign"),
    ("exponential", "log", "sqrt", "rsqrt", "negate", "abs", "tanh", "floor"),
)  # fmt: skip


def _exchange(drawing: Drawing, node: Node) -> None:
    """Give a node another operand of the same type that is computed before it, or another op that is like its own."""
    random, graph = drawing.random, drawing.graph
    if not isinstance(node, Apply) or not node.operands or node.opcode in NOT_EXCHANGED:
        return
    similar = [name for names in _ALIKE if node.opcode in names for name in names]
    if similar and random.random() < 0.4:
        array_type = tensor(node).dtype
        name = random.choice(similar)
        same = tensor(node.operands[0]).dtype is array_type
        if (same and array_type.is_float) or (
            array_type.is_integer and array_type.name[0] == "s" and name not in _ALIKE[-1]
        ):
            graph.set_function(node, OPS[name])
        return
    dim = random.randrange(len(node.operands))
    array_type = node.operands[dim].type
    if not isinstance(array_type, TensorType):
        return
    others = [item for item in graph.nodes if item.type is array_type and graph.comes_before(item, node)]
    other = random.choice(others)
    if random.random() < 0.4:
        number = number_for(array_type.dtype, random)
        with np.errstate(all="ignore"):
            array = np.broadcast_to(np.asarray(number).astype(array_type.dtype.numpy), array_type.dims)
        other = graph.add_constant(literal_of(array, array_type.dtype), array_type, before=node)
    graph.set_operands(node, [other if number == dim else operand for number, operand in enumerate(node.operands)])


NOT_EXCHANGED = frozenset({"while", "conditional", "custom-call", "all-reduce", "all-gather"})


def finished(drawing: Drawing, outputs: Sequence[Node] = ()) -> Module:
    """The module, yielding these values and some of those drawn."""
    random, module = drawing.random, drawing.graph.module
    unused = [value for value in drawing.values if not value.is_used and value.opcode != "parameter"]
    unused = [value for value in unused if value not in outputs]
    chosen = [*outputs, *random.sample(unused, min(len(unused), random.randint(1, 5)))]
    if not outputs or random.random() < 0.5:
        chosen += random.sample(drawing.values, min(len(drawing.values), random.randint(0, 2)))
    chosen = chosen or drawing.values[:1]
    root = chosen[0] if len(chosen) == 1 and random.random() < 0.7 else drawing.op("tuple", *chosen)
    drawing.graph.set_output(root)
    for graph in module.graphs[::-1]:
        if graph is not module.entry and not graph.callers:  # what was to call it was none
            module.erase_graph(graph)
    module.graphs[:] = callees_first(module)
    if random.random() < 0.1:
        lay_out(module, random)
    return module


def lay_out(module: Module, random: Random) -> None:
    """Give every array a layout, some of them not the default."""

    def laid_out(array_text: Type) -> Type:
        if not isinstance(array_text, TensorType):
            return array_text
        order = list(range(array_text.rank))[::-1]
        if random.random() < 0.3:
            random.shuffle(order)
        return array_text.with_layout(Layout(tuple(order)))

    for graph in module.graphs:
        for node in graph.nodes:
            if node.type is not None and not isinstance(node.type, TupleType):
                graph.set_type(node, laid_out(node.type))
        for node in graph.nodes:
            if isinstance(node.type, TupleType):
                graph.set_type(node, map_leaves(node.type, laid_out))


_ARRAY_LINE = re.compile(r"^(  (?:ROOT )?\S+ = \w+\[[\d,]*\]\S* (?!constant|parameter|iota).*)$", re.MULTILINE)


def text_of(module: Module, random: Random) -> str:
    """The text of a module; in some, instructions carry metadata and shardings."""
    text = hloom.print(module, "short")
    chance = 0.3 if random.random() < 0.2 else 0.0

    def decorated(line: re.Match[str]) -> str:
        if random.random() > chance or "sharding" in line[0] or "metadata" in line[0]:
            return line[0]
        return line[0] + random.choice((", sharding={replicated}", ', metadata={op_name="a/b"}'))

    return _ARRAY_LINE.sub(decorated, text) if chance else text


def inputs_for(module: Module, random: Random, *, special: bool) -> list[np.ndarray]:
    """An array per parameter, those of a tuple one by one, with NaN, infinities and the like, or tame."""
    types = [
        array_type
        for parameter in module.entry.parameters
        for array_type in (parameter.type.leaves() if parameter.type else ())
    ]
    return [_array(array_type, random, special) for array_type in types if isinstance(array_type, TensorType)]


def _array(array_type: TensorType, random: Random, special: bool) -> np.ndarray:
    element = array_type.dtype

    def number() -> Any:
        if element.name == "pred" or (element.is_integer and random.random() < 0.4):
            return number_for(element, random)
        if element.is_integer:
            return random.randint(0 if element.name[0] == "u" else -5, 6)
        if special and random.random() < 0.5:
            return random.choice(SPECIAL)
        return random.choice((random.gauss(0, 1), float(random.randint(-3, 4)), random.uniform(0.5, 2)))

    with np.errstate(all="ignore"):
        numbers = [
            number() + 1j * number() if element.is_complex else number() for _ in range(array_type.element_count)
        ]
        return np.array(numbers or [0]).astype(element.numpy)[: array_type.element_count].reshape(array_type.dims)
