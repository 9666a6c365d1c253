"""Random programs of loops, branches, calls, fusions and stretches that are written several times.

`program_of` draws one: ordinary ops as in `random_draws.py`, and between them what passes on control flow look for, one
function per subject under `STRUCTURES`. Loops count up or down, from constants or not, in any element of their state;
their bodies pass elements on, compute the same in every round, use their state whole, hold loops, or are those of
another loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hloom.ir import Apply, Module, Node, TensorType, TupleType, Type, TypeProblem, dtype
from tests.passes.random_draws import PRED, S32
from tests.passes.random_graph import DRAWS, Drawing, tensor
from tests.passes.random_modules import finished

ELEMENTS = ("f32", "f32", "f32", "s32", "s32", "f64", "bf16", "u8", "pred", "c64")
_ELEMENTWISE = ("unary", "binary", "binary", "compare", "select", "convert", "broadcast", "reshape", "transpose")
_COUNTERS = ("s32", "s32", "s32", "u32", "s64", "s8")


def program_of(
    random: Random, *, tame: bool = False, elements: Sequence[str] = ELEMENTS, structures: Sequence[str] = ()
) -> Module:
    """A random program with at least one of the structures, which are all or those named."""
    module = Module("program")
    chosen = [dtype(name) for name in random.sample(elements, random.randint(1, 2))]
    sizes = random.choice(((2, 3), (1, 2, 3), (2, 4), (0, 1, 2)))
    shapes = [tuple(random.choice(sizes) for _ in range(random.randint(0, 2))) for _ in range(random.randint(1, 2))]
    drawing = Drawing(random, module.add_graph("entry"), chosen, shapes)
    drawing.tame = tame
    for _ in range(random.randint(1, 3)):
        drawing.keep(drawing.graph.add_parameter(drawing.random_type(), "p"))
    draw_structures(drawing, random.randint(1, 3), structures or tuple(STRUCTURES))
    module.entry = drawing.graph
    return finished(drawing)


def draw_structures(drawing: Drawing, count: int, names: Sequence[str]) -> None:
    """Draw so many structures, with a few ops before and behind them."""
    random = drawing.random
    drawing.draw(random.randint(0, 4))
    for _ in range(count):
        try:
            STRUCTURES[random.choice(names)](drawing)
        except TypeProblem:
            continue
        finally:
            drawing.draw(random.randint(0, 2))


def loop(drawing: Drawing) -> None:
    """A loop of few rounds."""
    _LoopDrawing(drawing).draw()


class _LoopDrawing:
    """A loop that is being drawn: which element counts, and how the others are nested."""

    def __init__(self, drawing: Drawing) -> None:
        if drawing.depth > 1:
            raise TypeProblem("deep enough")
        random = self.random = drawing.random
        self.drawing = drawing
        self.counter = TensorType(dtype(random.choice(_COUNTERS)))
        given = [drawing.any() for _ in range(random.randint(1, 4))]
        given += random.sample(given, random.choice((0, 0, 1)))
        given += [drawing.constant(tensor(random.choice(given))) for _ in range(random.choice((0, 1, 1)))]
        random.shuffle(given)
        self.position = random.choice((0, 0, 0, random.randint(0, len(given))))
        self.is_nested = len(given) > 1 and random.random() < 0.15
        self.has_limit = random.random() < 0.2
        self.given = given

    def draw(self) -> None:
        drawing, random = self.drawing, self.random
        start, step, self.limit, self.direction = self._rounds()
        begin = drawing.scalar(start, self.counter.dtype)
        if random.random() < 0.1:
            highest, unknown = drawing.scalar(start + 2, self.counter.dtype), drawing.of(self.counter)
            begin = drawing.op("clamp", begin, unknown, highest)
        parts = list(self.given)
        if self.is_nested:
            parts = [drawing.op("tuple", *parts[: len(parts) // 2 + 1]), *parts[len(parts) // 2 + 1 :]]
        self.position = min(self.position, len(parts))
        parts.insert(self.position, begin)
        if self.has_limit:
            parts.append(drawing.scalar(self.limit, self.counter.dtype))
        state = TupleType([_type(part) for part in parts])
        condition, body = self._condition(state), self._body(state, step)
        initial = drawing.op("tuple", *parts)
        result = drawing.op("while", initial, condition=condition, body=body)
        if random.random() < 0.15:
            result = drawing.op("while", result, condition=condition, body=body)
        if random.random() < 0.15:
            again = [drawing.of(tensor(part)) if _is_array(part) else part for part in parts]
            again[self.position] = begin
            if self.has_limit:
                again[-1] = parts[-1]
            other = drawing.op("while", drawing.op("tuple", *again), condition=condition, body=body)
            taken(drawing, other, 0.5)
        taken(drawing, result, 0.7)

    def _rounds(self) -> tuple[int, int, int, str]:
        """Where the counter begins, its step, the limit, and the direction in which both are compared."""
        random = self.random
        rounds, step = random.choice((0, 1, 2, 2, 3, 4)), random.choice((1, 1, 1, 2))
        if self.counter.dtype.name[0] == "u" or random.random() < 0.75:
            start = random.choice((0, 0, 1, 3))
            form = random.choice(("LT", "LT", "LT", "LE", "NE"))
            return start, step, start + rounds * step - (form == "LE"), form
        start = random.choice((0, 3, 5))
        form = random.choice(("GT", "GE", "NE"))
        return start, -step, start - rounds * step + (form == "GE"), form

    def _condition(self, state: TupleType) -> Any:
        random = self.random
        inner = self.drawing.graph_of("condition", [state])
        given = inner.graph.parameters[0]
        counter = inner.op("get-tuple-element", given, index=self.position)
        if self.has_limit:
            limit = inner.op("get-tuple-element", given, index=len(state.elements) - 1)
        else:
            limit = inner.scalar(self.limit, self.counter.dtype)
        operands = [counter, limit]
        direction = self.direction
        if random.random() < 0.2:
            operands.reverse()
            direction = direction.translate(str.maketrans("LG", "GL")) if direction != "NE" else direction
        result = inner.op("compare", *operands, direction=direction)
        if random.random() < 0.1:
            true = inner.scalar(True, PRED)
            result = inner.op("and", result, true)
        inner.graph.set_output(result)
        return inner.graph

    def _body(self, state: TupleType, step: int) -> Any:
        random = self.random
        body = self.drawing.graph_of("body", [state])
        given: Node = body.graph.parameters[0]
        if random.random() < 0.1:
            given = body.op("opt-barrier", given)
        last = len(state.elements) - 1
        elements = [body.op("get-tuple-element", given, index=index) for index in range(last + 1)]
        own = [index for index in range(last + 1) if index != self.position and not (self.has_limit and index == last)]
        passed = {index for index in own if random.random() < 0.5}
        inside = [
            body.op("get-tuple-element", elements[index], index=0) for index in own if not _is_array(elements[index])
        ]
        known, body.values = body.values, [elements[index] for index in passed if _is_array(elements[index])]
        if body.values:
            body.draw(random.choice((0, 3, 6)))
        body.values = [*known, *inside, *[value for value in body.values if value not in known]]
        if random.random() < 0.35:
            draw_structures(body, 1, tuple(STRUCTURES))
        body.draw(random.randint(1, 4))
        results = list(elements)
        for index in own:
            if index not in passed:
                results[index] = self._next(body, state.elements[index])
        results[self.position] = self._counted(body, elements[self.position], step)
        root = body.op("tuple", *results)
        if random.random() < 0.1:
            outer = self.drawing.graph_of("body", [state])
            body.graph.set_output(root)
            outer.graph.set_output(outer.op("call", outer.graph.parameters[0], to_apply=body.graph))
            return outer.graph
        body.graph.set_output(root)
        return body.graph

    def _counted(self, body: Drawing, counter: Node, step: int) -> Node:
        """The counter of the next round."""
        width = body.scalar(abs(step), self.counter.dtype)
        operands = [counter, width]
        if step > 0 and self.random.random() < 0.2:
            operands.reverse()
        return body.op("add" if step > 0 else "subtract", *operands)

    def _next(self, body: Drawing, value_type: Type) -> Node:
        if isinstance(value_type, TupleType):
            return body.op("tuple", *[self._next(body, element) for element in value_type.elements])
        assert isinstance(value_type, TensorType)
        return body.yields(value_type)


def branches(drawing: Drawing) -> None:
    """A conditional whose branches are given values of their own, end alike, and hold loops."""
    random = drawing.random
    if drawing.depth > 1:
        raise TypeProblem("deep enough")
    outputs = [tensor(drawing.any()) for _ in range(random.randint(1, 3))]
    ending = random.choice(("", "negate", "copy", "tanh", "add", "multiply"))
    operands, graphs = [], []
    for _ in range(2):
        given = [drawing.any() for _ in range(random.randint(1, 3))]
        if random.random() < 0.6:
            given.append(_only_for_this(drawing, random.choice(given)))
        operands.append(drawing.op("tuple", *given))
        inner = drawing.graph_of("branch", [TupleType([tensor(item) for item in given])])
        for index in range(len(given)):
            inner.op("get-tuple-element", inner.graph.parameters[0], index=index)
        draw_structures(inner, random.choice((0, 0, 1)), tuple(STRUCTURES))
        yielded = [_ended(inner, inner.yields(output), ending) for output in outputs]
        inner.graph.set_output(inner.op("tuple", *yielded) if len(yielded) > 1 or random.random() < 0.7 else yielded[0])
        graphs.append(inner.graph)
    if {graph.root.opcode for graph in graphs} != {"tuple"} and len({graph.root.type for graph in graphs}) > 1:
        raise TypeProblem("the branches yield values of two types")
    if random.random() < 0.15:
        graphs[1], operands[1] = graphs[0], drawing.op("tuple", *operands[0].operands)
    if random.random() < 0.5:
        named = {"true_computation": graphs[0], "false_computation": graphs[1]}
        result = drawing.op("conditional", drawing.of(TensorType(PRED)), *operands, attributes=named)
    else:
        chosen = drawing.of(TensorType(S32))
        result = drawing.op("conditional", chosen, *operands, branch_computations=tuple(graphs))
    if isinstance(result.type, TupleType):
        taken(drawing, result, 0.8)
    for value in drawing.values[-2:]:
        if random.random() < 0.5:
            _only_for_this(drawing, value)


def _only_for_this(drawing: Drawing, value: Node) -> Node:
    """A value computed of another."""
    return _ended(drawing, value, drawing.random.choice(("tanh", "negate", "add", "multiply", "floor")))


def _ended(drawing: Drawing, value: Node, opcode: str) -> Node:
    """An op on a value, or the value where there is no such op."""
    element = tensor(value).dtype
    if not opcode or element is PRED or (element.name[0] not in "fb" and opcode in ("tanh", "floor")):
        return value
    if opcode == "negate" and element.name[0] == "u":
        return value
    return drawing.op(opcode, *([value, value] if opcode in ("add", "multiply") else [value]))


def called(drawing: Drawing) -> None:
    """A computation of several values, called once or twice."""
    if drawing.depth > 1:
        raise TypeProblem("deep enough")
    random = drawing.random
    operands = [drawing.any() for _ in range(random.randint(1, 3))]
    inner = drawing.graph_of("called", [tensor(operand) for operand in operands])
    draw_structures(inner, random.choice((0, 1)), tuple(STRUCTURES))
    results = random.sample(inner.values, min(len(inner.values), random.randint(1, 3)))
    inner.graph.set_output(inner.op("tuple", *results) if len(results) > 1 else results[0])
    for _ in range(random.choice((1, 1, 2))):
        result = drawing.op("call", *operands, to_apply=inner.graph)
        if len(results) > 1:
            taken(drawing, result, 0.8)
        operands = [drawing.of(tensor(operand)) for operand in operands]


def fusion(drawing: Drawing) -> None:
    """A loop fusion of a few elementwise ops, of one result or several of equal dimensions."""
    random = drawing.random
    first = drawing.any()
    operands = [first, *(drawing.any() for _ in range(random.randint(0, 2)))]
    inner = drawing.graph_of("fused", [tensor(operand) for operand in operands])
    inner.depth = 2
    for _ in range(random.randint(2, 5)):
        try:
            DRAWS[random.choice(_ELEMENTWISE)](inner)
        except TypeProblem:
            continue
    fitting = [value for value in inner.values if value.opcode != "parameter"]
    if not fitting:
        raise TypeProblem("nothing is fused")
    last = fitting[-1]
    results = [last, *(value for value in fitting[:-1] if tensor(value).dims == tensor(last).dims)][
        : random.randint(1, 2)
    ]
    inner.graph.set_output(inner.op("tuple", *results) if len(results) > 1 else last)
    fused = drawing.op("fusion", *operands, type=inner.graph.root.type, kind="kLoop", calls=inner.graph)
    if len(results) > 1:
        taken(drawing, fused, 0.8)


def stretch(drawing: Drawing) -> None:
    """Instructions that are written again, of other operands here and there."""
    random = drawing.random
    first, known = len(drawing.graph.nodes), list(drawing.values)
    drawing.draw(random.randint(15, 30))
    copied = [node for node in drawing.graph.nodes[first:] if isinstance(node, Apply)]
    results = [value for value in drawing.values if value in copied][-random.randint(1, 3) :]
    kept: set[Node] = {value for value in results if isinstance(value, Apply)}
    for node in reversed(copied):
        if node in kept:
            kept.update(node.operands)
        else:
            drawing.graph.erase(node)
    copied = [node for node in copied if node in kept]
    drawing.values = [*known, *results]
    outside = dict.fromkeys(operand for node in copied for operand in node.operands if operand not in copied)
    for _ in range(random.choice((1, 2, 2, 3))):
        drawing.draw(random.choice((0, 0, 1)))
        mapping: dict[Any, Any] = {}
        for operand in outside:
            exchanged = _is_array(operand) and operand.opcode != "constant" and random.random() < 0.4
            mapping[operand] = drawing.of(tensor(operand)) if exchanged else operand
        drawing.graph.copy_nodes(copied, mapping)
        for node in results:
            drawing.keep(mapping[node])


def taken(drawing: Drawing, value: Node, share: float) -> None:
    """Take some elements of a tuple."""
    assert isinstance(value.type, TupleType), f"{value!r} is not a tuple"
    for index, element in enumerate(value.type.elements):
        if drawing.random.random() < share:
            part = drawing.op("get-tuple-element", value, index=index)
            if isinstance(element, TupleType):
                taken(drawing, part, share)


STRUCTURES: dict[str, Callable[[Drawing], None]] = {
    "loop": loop,
    "branches": branches,
    "called": called,
    "fusion": fusion,
    "stretch": stretch,
}


def _type(node: Node) -> Type:
    assert node.type is not None, f"{node!r} has no type"
    return node.type


def _is_array(node: Node) -> bool:
    return isinstance(node.type, TensorType)
