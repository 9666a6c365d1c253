"""Random modules for tests of passes: 5 to 60 instructions of all sorts, typed by the ops' own rows.

They lean to what rules look for: constants that mean something, an operand twice, ops that undo each other, dimensions
of size 1 and 0, the same expression again, values of many users. `module_text(random)` gives the text of one;
`inputs_for` its inputs. What draws one op is a function in `DRAWS`, by the name of a subject.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

import hloom
from hloom.ir import (
    Apply,
    Attributes,
    DType,
    Graph,
    Layout,
    Module,
    Node,
    TensorType,
    TupleType,
    Type,
    TypeProblem,
    dtype,
    infer_type,
    literal_of,
    map_leaves,
)
from hloom.ops import OPS
from hloom.passes.calling import callees_first

ELEMENTS = ("f32", "f32", "f32", "s32", "s32", "f64", "bf16", "f16", "s8", "u8", "u32", "pred", "c64", "f8e5m2", "s64")
FLOATS = (0, 1, -1, 2, -0.0, 0.5, math.inf, math.nan, 3, -2, 4, 1e-3, -math.inf, 100)
TAME_FLOATS = (0, 1, -1, 2, -0.0, 0.5, 3, -2, 4)
WHOLE = (0, 1, -1, 2, 3, 4, 8, "least", "greatest", 7, 16)
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0, 1e30, -1e30, 1e-30, 1e-40, 2.5, 0.5)
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

    def __init__(self, random: Random, graph: Graph, elements: Sequence[DType], shapes: Sequence, depth: int = 0) -> None:
        self.random = random
        self.graph = graph
        self.elements = elements
        self.shapes = shapes
        self.depth = depth
        self.values: list[Node] = []
        self.tame = False

    def op(self, opcode: str, *operands: Node, type: Type | None = None, **attributes: Any) -> Node:
        """An application of an op; raises TypeProblem where that is none."""
        named = {name.replace("__", "-"): value for name, value in attributes.items()}
        row = OPS[opcode]
        types = [operand.type for operand in operands]
        assert all(types), "every value has a type"
        found = infer_type(row, types, Attributes(named), type) if row.infer else type  # type: ignore[arg-type]
        return self.keep(self.graph.add_apply(row, operands, type or found, Attributes(named)))

    def keep(self, node: Node) -> Node:
        if isinstance(node.type, TensorType) and node.type.element_count <= 400 and node.type.rank <= 5:
            self.values.append(node)
        return node

    def scalar(self, value: Any, element: DType) -> Node:
        with np.errstate(all="ignore"):
            literal = literal_of(np.asarray(value).astype(element.numpy), element)
        return self.graph.add_constant(literal, literal.type)

    def constant(self, kind: TensorType) -> Node:
        """One number everywhere, as a broadcast or written out, or several numbers."""
        if self.random.random() < 0.6:
            scalar = self.scalar(number_for(kind.dtype, self.random, tame=self.tame), kind.dtype)
            return self.op("broadcast", scalar, type=kind, dimensions=()) if kind.rank else scalar
        splat = self.random.random() < 0.5
        numbers = [number_for(kind.dtype, self.random, tame=self.tame) for _ in range(1 if splat else kind.element_count)]
        with np.errstate(all="ignore"):
            flat = np.array(numbers if numbers else [0]).astype(kind.dtype.numpy)
        array = np.resize(flat, kind.dims)
        return self.graph.add_constant(literal_of(array, kind.dtype), kind)

    def of(self, kind: TensorType) -> Node:
        """A value of a type: one that is there, a constant, a parameter, or one made of another value."""
        fitting = [value for value in self.values if value.type is kind]
        chance = self.random.random()
        if fitting and chance < 0.7:
            return self.random.choice(fitting[-6:])
        if chance < 0.85 and self.depth == 0 and len(self.graph.parameters) < 12:
            return self.keep(self.graph.add_parameter(kind, "p"))
        scalars = [value for value in self.values if value.type is TensorType(kind.dtype)]
        if kind.rank and scalars and chance < 0.93:
            return self.op("broadcast", self.random.choice(scalars), type=kind, dimensions=())
        return self.constant(kind)

    def any(self, accept: Callable[[TensorType], bool] = lambda kind: True) -> Node:
        """A value that is there, a late one rather than an early one; raises TypeProblem where none is accepted."""
        found = [value for value in self.values if isinstance(value.type, TensorType) and accept(value.type)]
        if not found:
            raise TypeProblem("nothing here is of such a type")
        return self.random.choice(found[-5:] if self.random.random() < 0.6 else found)

    def kind(self) -> TensorType:
        return TensorType(self.random.choice(self.elements), self.random.choice(self.shapes))

    def graph_of(self, name: str, kinds: Sequence[Type]) -> Drawing:
        """A further graph, of parameters of these types."""
        graph = self.graph.module.add_graph(name)
        inner = Drawing(self.random, graph, self.elements, self.shapes, self.depth + 1)
        inner.tame = self.tame
        for kind in kinds:
            inner.keep(graph.add_parameter(kind, "q"))
        return inner

    def draw(self, count: int) -> None:
        """Draw so many ops."""
        for _ in range(count):
            subject = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            try:
                DRAWS[subject](self)
            except TypeProblem:
                continue

    def yields(self, kind: TensorType) -> Node:
        """A value of a type, a late one if there is one."""
        fitting = [value for value in self.values if value.type is kind]
        return self.random.choice(fitting[-2:]) if fitting and self.random.random() < 0.85 else self.of(kind)


def tensor(node: Node) -> TensorType:
    assert isinstance(node.type, TensorType), f"{node!r} is no array"
    return node.type


DRAWS: dict[str, Callable[[Drawing], Any]] = {}
WEIGHTS: dict[str, float] = {}


def draws(subject: str, weight: float) -> Callable:
    def define(function: Callable[[Drawing], Any]) -> Callable[[Drawing], Any]:
        DRAWS[subject], WEIGHTS[subject] = function, weight
        return function

    return define


def module_of(random: Random, *, tame: bool = False, elements: Sequence[str] = ELEMENTS) -> Module:
    """A random module; without constants that are no numbers where it is to be tame."""
    import tests.passes.random_draws  # noqa: F401, PLC0415  fills DRAWS

    module = Module("random")
    chosen = [dtype(name) for name in random.sample(elements, random.randint(1, 3))]
    sizes = random.choice(((1, 2, 3), (2, 3, 4), (1, 2, 4), (1, 1, 3), (2, 4, 8), (0, 1, 2)))
    shapes = [tuple(random.choice(sizes) for _ in range(random.randint(0, 3))) for _ in range(random.randint(1, 3))]
    drawing = Drawing(random, module.add_graph("entry"), chosen, shapes)
    drawing.tame = tame
    for _ in range(random.randint(1, 4)):
        drawing.keep(drawing.graph.add_parameter(drawing.kind(), "p"))
    drawing.draw(random.choice((3, 6, 10, 20, 35)))
    module.entry = drawing.graph
    return finished(drawing)


def module_around(random: Random, text: str, *, tame: bool = False) -> Module:
    """A module of a text, such as one in which a rule fires, with more drawn around it.

    Where it need not be tame, some operands are exchanged and some ops too: what nearly matches must stay right.
    """
    import tests.passes.random_draws  # noqa: F401, PLC0415

    module = hloom.parse(text)
    graph = module.entry
    arrays = [node for node in graph.nodes if isinstance(node.type, TensorType) and node.type.dynamic is None]
    kinds = [tensor(node) for node in arrays] or [TensorType(dtype("f32"))]
    drawing = Drawing(random, graph, [kind.dtype for kind in kinds[-4:]], [kind.dims for kind in kinds[-4:]])
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
    if not isinstance(node, Apply) or not node.inputs or node.opcode in NOT_EXCHANGED:
        return
    alike = [name for names in _ALIKE if node.opcode in names for name in names]
    if alike and random.random() < 0.4:
        kind = tensor(node).dtype
        name = random.choice(alike)
        same = tensor(node.inputs[0]).dtype is kind
        if same and kind.is_float or (kind.is_integer and kind.name[0] == "s" and name not in _ALIKE[-1]):
            graph.set_function(node, OPS[name])
        return
    place = random.randrange(len(node.inputs))
    kind = node.inputs[place].type
    if not isinstance(kind, TensorType):
        return
    others = [each for each in graph.nodes if each.type is kind and graph.comes_before(each, node)]
    other = random.choice(others)
    if random.random() < 0.4:
        number = number_for(kind.dtype, random)
        with np.errstate(all="ignore"):
            array = np.broadcast_to(np.asarray(number).astype(kind.dtype.numpy), kind.dims)
        other = graph.add_constant(literal_of(array, kind.dtype), kind, before=node)
    graph.set_inputs(node, [other if number == place else each for number, each in enumerate(node.inputs)])


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

    def laid_out(kind: Type) -> Type:
        if not isinstance(kind, TensorType):
            return kind
        order = list(range(kind.rank))[::-1]
        if random.random() < 0.3:
            random.shuffle(order)
        return kind.with_layout(Layout(tuple(order)))

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
    kinds = [kind for each in module.entry.parameters for kind in (each.type.leaves() if each.type else ())]
    return [_array(kind, random, special) for kind in kinds if isinstance(kind, TensorType)]


def _array(kind: TensorType, random: Random, special: bool) -> np.ndarray:
    element = kind.dtype

    def number() -> Any:
        if element.name == "pred" or (element.is_integer and random.random() < 0.4):
            return number_for(element, random)
        if element.is_integer:
            return random.randint(0 if element.name[0] == "u" else -5, 6)
        if special and random.random() < 0.5:
            return random.choice(SPECIAL)
        return random.choice((random.gauss(0, 1), float(random.randint(-3, 4)), random.uniform(0.5, 2)))

    with np.errstate(all="ignore"):
        numbers = [number() + 1j * number() if element.is_complex else number() for _ in range(kind.element_count)]
        return np.array(numbers or [0]).astype(element.numpy)[: kind.element_count].reshape(kind.dims)
