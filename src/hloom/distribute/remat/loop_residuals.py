"""Residuals of loops: stacks that one loop writes a slice at a time, and another reads a slice at a time.

    forward:  v = f(h, x[i]); stack = dynamic-update-slice(stack, v, i)
    backward: v = dynamic-slice(stack, j)

A scan's derivative is made so. What the backward loop reads may be computed there again, from other stacks at the same
slot, from what both loops pass on unchanged, and from counters; nothing has to keep both computations apart, for no
compiler merges instructions of two loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hloom.analysis import LOOPED, Frame, ScalarEvolution, Value, cost, derive_trip_count, initial_state, leaf_bytes
from hloom.distribute.remat.recomputation import VIEWS
from hloom.distribute.remat.stored_values import FLOPS_PER_BYTE
from hloom.ir import Apply, Constant, Graph, Module, Node, Parameter, TensorType, TupleType, reachable
from hloom.ops import SideEffects

_GET = "get-tuple-element"
MOST_NODES = 20_000
"""Bodies of more instructions are left alone: the integer program has two columns for each."""


@dataclass(slots=True, eq=False)
class BodyValue:
    """An instruction of a forward loop's body that the values of its stacks depend on.

    `size` are the bytes that it takes outside the loops when it is not computed again: those of all its slices, of
    what both loops would have to pass on, or 0 for a stack that something else keeps. None: it cannot be kept. `flops`
    is what computing all slices again costs, None where that is not possible.
    """

    node: Node
    size: int | None = None
    flops: float | None = None
    operands: tuple[BodyValue, ...] = ()
    is_read: bool = False

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(slots=True)
class LoopResiduals:
    """A forward and a backward loop in one graph, and what the one stacks for the other.

    `slot` is the index at which the forward loop's body writes, the backward one's reads at `read_slot`. `stacks` gives
    the elements of the forward state that hold all slices of a value, `reads` what reads their slices. `counters` are
    the elements of the state that are `factor * slot + offset`. `passed_on` are the elements that the forward loop
    passes on unchanged, with what they are before it.
    """

    forward: Apply
    backward: Apply
    rows: int
    slot: Node
    read_slot: Node
    stacks: dict[Node, int]
    reads: dict[int, list[Node]]
    counters: dict[int, tuple[int, int]]
    passed_on: dict[int, Node]
    values: list[BodyValue] = field(default_factory=list)

    @property
    def body(self) -> Graph:
        return self.forward.attributes["body"]

    @property
    def bytes(self) -> int:
        """The bytes of the stacks that only the backward loop reads."""
        return sum(value.size or 0 for value in self.values if value.node in self.stacks)


def find_loop_residuals(module: Module) -> list[LoopResiduals]:
    """The pairs of loops in the entry of a module in canonical form, users known, of which the second reads stacks."""
    entry, tracer = module.entry, ScalarEvolution({})
    loops = [node for node in entry.nodes if isinstance(node, Apply) and _is_simple_loop(node)]
    courses = {loop: _Counting(loop, tracer) for loop in loops}
    pairs = [_pair(forward, backward, courses) for forward in loops for backward in loops if backward is not forward]
    residuals: list[LoopResiduals] = []
    taken: set[Apply] = set()
    for pair in sorted(filter(None, pairs), key=lambda pair: -len(pair.reads)):  # the next layer's loop reads one stack
        if pair.forward not in taken and pair.backward not in taken:
            residuals.append(pair)
            taken |= {pair.forward, pair.backward}
    if residuals:
        builder = _ValuesBuilder(module)
        for pair in residuals:
            pair.values = builder.values_of(pair)
    return [pair for pair in residuals if pair.bytes]


def _is_simple_loop(node: Node) -> bool:
    """Whether a node is a loop over a tuple whose body yields a tuple."""
    if node.opcode != "while" or not isinstance(node.type, TupleType) or node.operands[0].opcode != "tuple":
        return False
    for name in ("body", "condition"):
        callee = node.attributes[name]
        if not isinstance(callee, Graph) or callee.missing or len(callee.parameters) != 1:
            return False
    body = node.attributes["body"]
    root = body.output
    return root is not None and root.opcode == "tuple" and len(body.nodes) <= MOST_NODES


class _Counting:
    """The elements of a loop's state that count, and the indices made of them."""

    def __init__(self, loop: Apply, tracer: ScalarEvolution) -> None:
        self.loop = loop
        self.tracer = tracer
        self.count = derive_trip_count(loop, tracer).count
        body: Graph = loop.attributes["body"]
        self.state = body.parameters[0]
        self.unchanged = {
            index
            for index, node in enumerate(body.root.operands)
            if node.opcode == _GET and node.operands[0] is self.state and node.attributes["index"] == index
        }

    def course(self, node: Node) -> tuple[int, int] | None:
        """An integer of the body, as what it is in the first iteration and what each further one adds."""
        if not isinstance(node.type, TensorType) or node.type.rank or not node.type.dtype.is_integer:
            return None
        expression = self.tracer.linear(Value(node, (), Frame(self.loop, None)))
        start, step = expression.constant, 0
        for value, times in expression.terms.items():
            if value.node is not self.state or len(value.index) != 1:
                return None
            first = self.tracer.linear(Value(initial_state(self.loop), value.index))
            change = self.tracer.step(self.loop, value.index)
            if not first.is_constant or not change.is_constant:
                return None
            start += first.constant * times
            step += change.constant * times
        return start, step


def _pair(forward: Apply, backward: Apply, courses: Mapping[Apply, _Counting]) -> LoopResiduals | None:
    """Two loops of which the second reads slices of what the first stacks, each slice that it wrote once."""
    ahead, back = courses[forward], courses[backward]
    elements = _elements_passed(forward, backward, back)
    if not elements or not ahead.count or not back.count:
        return None
    body: Graph = forward.attributes["body"]
    written = {index: _written_slice(body, ahead.state, index) for index in range(len(body.root.operands))}
    read = {index: _slices_read(back, positions) for index, positions in elements.items()}
    slots = {slot for index in read if read[index] and (update := written[index]) for slot in (update[1],)}
    read_slots = {node.operands[1] for index, nodes in read.items() if written[index] for node in nodes}
    if len(slots) != 1 or len(read_slots) != 1:
        return None
    slot, read_slot = slots.pop(), read_slots.pop()
    rows = ahead.count
    wrote, reads_at = ahead.course(slot), back.course(read_slot)
    if wrote is None or reads_at is None or slot.type != read_slot.type:
        return None
    start, step = wrote
    if abs(step) != 1 or sorted((start, start + step * (rows - 1))) != [0, rows - 1]:
        return None
    if not all(0 <= end < rows for end in (reads_at[0], reads_at[0] + reads_at[1] * (back.count - 1))):
        return None
    stacks: dict[Node, int] = {}
    reads: dict[int, list[Node]] = {}
    for index, update in written.items():
        if update is not None and update[1] is slot and _rows_of(body.root.operands[index]) == rows:
            first = stacks.setdefault(update[0], index)  # of stacks of the same values, the first is kept
            if read.get(index):
                reads.setdefault(first, []).extend(read[index])
    counters: dict[int, tuple[int, int]] = {}
    for node in ahead.state.users:
        course = ahead.course(node) if node.opcode == _GET else None
        if course is not None:
            factor = course[1] * step  # the iteration is (slot - start) / step, and step is 1 or -1
            counters[node.attributes["index"]] = factor, course[0] - factor * start
    return LoopResiduals(
        forward, backward, rows, slot, read_slot, stacks, reads, counters,
        {index: forward.operands[0].operands[index] for index in ahead.unchanged},
    )  # fmt: skip


def _rows_of(node: Node) -> int:
    return node.type.dims[0] if isinstance(node.type, TensorType) and node.type.dims else 0


def _elements_passed(forward: Apply, backward: Apply, back: _Counting) -> dict[int, list[int]]:
    """Which elements of the one loop's result are which elements that the other passes on unchanged."""
    passed: dict[int, list[int]] = {}
    for position, node in enumerate(backward.operands[0].operands):
        if node.opcode == _GET and node.operands[0] is forward and position in back.unchanged:
            passed.setdefault(node.attributes["index"], []).append(position)
    return passed


def _written_slice(body: Graph, state: Node, index: int) -> tuple[Node, Node] | None:
    """What a body writes into an element of its state, one slice of its first dimension, and at which index."""
    update = body.root.operands[index]
    if update.opcode != "dynamic-update-slice" or not isinstance(update, Apply):
        return None
    stack, row, slot, *others = update.operands
    if stack.opcode != _GET or stack.operands[0] is not state or stack.attributes["index"] != index:
        return None
    if not _is_one_slice(update, row) or any(other.splat != 0 for other in others):
        return None
    if any(user is not update for node in state.users if node.attributes.get("index") == index for user in node.users):
        return None
    return _value_of(row), slot


def _is_one_slice(whole: Node, row: Node) -> bool:
    if not isinstance(whole.type, TensorType) or not isinstance(row.type, TensorType) or not whole.type.rank:
        return False
    return row.type.dims == (1, *whole.type.dims[1:])


def _value_of(row: Node) -> Node:
    """The array that a slice of one row is a reshape of."""
    source = row.operands[0] if row.opcode in ("reshape", "broadcast") else row
    if not isinstance(source.type, TensorType) or not isinstance(row.type, TensorType):
        return row
    is_same = source.type.dims == row.type.dims[1:]
    if row.opcode == "broadcast":
        is_same &= tuple(row.attributes.get("dimensions") or ()) == tuple(range(1, row.type.rank))
    return _element(source if is_same else row)


def _element(node: Node) -> Node:
    """What an element of a tuple that is made in place is made of."""
    while node.opcode == _GET and node.operands[0].opcode == "tuple":
        node = node.operands[0].operands[node.attributes["index"]]
    return node


def _slices_read(back: _Counting, positions: Iterable[int]) -> list[Node]:
    """The slices of one row that a body reads of elements of its state; none where it reads anything else of them."""
    slices: list[Node] = []
    for position in positions:
        for element in back.state.users:
            if element.opcode != _GET or element.attributes["index"] != position:
                continue
            for user in element.users:
                if user is back.loop.attributes["body"].root:
                    continue
                if user.opcode != "dynamic-slice" or user.operands[0] is not element:
                    return []
                if not _is_one_slice(element, user) or any(start.splat != 0 for start in user.operands[2:]):
                    return []
                slices.append(user)
    return slices


class _ValuesBuilder:
    """Says of the instructions of bodies what keeping and what computing them again takes."""

    def __init__(self, module: Module) -> None:
        self.effects = SideEffects()
        self.cost = cost(module).analysis(LOOPED)

    def values_of(self, pair: LoopResiduals) -> list[BodyValue]:
        """What the stacks that are read depend on, operands first."""
        read = [node for node, index in pair.stacks.items() if index in pair.reads]
        needed = reachable(read, lambda node: () if self._is_leaf(pair, node) else node.operands)
        made: dict[Node, BodyValue] = {}
        for node in pair.body.nodes:
            if node in needed:
                made[node] = self._value(pair, node, made)
                made[node].is_read = node in read
        return list(made.values())

    def _is_leaf(self, pair: LoopResiduals, node: Node) -> bool:
        is_element = node.opcode == _GET and node.operands[0] in pair.body.parameters
        return node is pair.slot or not isinstance(node, Apply) or is_element

    def _value(self, pair: LoopResiduals, node: Node, made: Mapping[Node, BodyValue]) -> BodyValue:
        if node is pair.slot or isinstance(node, Constant):
            return BodyValue(node, size=0)
        value = BodyValue(node, self._size(pair, node))
        if isinstance(node, Parameter):
            return BodyValue(node)
        if self._is_leaf(pair, node):
            index = node.attributes["index"]
            if index in pair.counters:
                return BodyValue(node, size=0)
            if index in pair.passed_on:
                outside = pair.passed_on[index]
                is_there = not isinstance(outside, Apply) or outside in pair.backward.operands[0].operands
                return BodyValue(node, size=0 if is_there else _bytes(node))
            return value
        refers = any(not referent.is_graph for referent in node.attributes.referents())
        if isinstance(node, Apply) and node.type is not None and not refers and self.effects.may_merge(node):
            value.operands = tuple(made[operand] for operand in node.operands)
            value.flops = pair.rows * self._flops(node)
        return value

    def _size(self, pair: LoopResiduals, node: Node) -> int | None:
        """The bytes of all slices; none where they are kept in any case, for another reader."""
        if not isinstance(node.type, TensorType) or not node.type.is_static:
            return None
        index = pair.stacks.get(node)
        if index is None or self._is_for_backward_only(pair, index):
            return pair.rows * _bytes(node)
        return 0

    def _is_for_backward_only(self, pair: LoopResiduals, index: int) -> bool:
        """Whether nothing but the slices that the backward loop reads needs a stack."""
        if index not in pair.reads or pair.forward.is_output:
            return False
        start = pair.backward.operands[0]
        for node in pair.forward.users:
            if node.opcode != _GET:
                return False
            if node.attributes["index"] == index and (node.is_output or any(user is not start for user in node.users)):
                return False
        positions = [position for position, node in enumerate(start.operands) if _is_result(node, pair.forward, index)]
        after = [node for node in pair.backward.users if node.opcode == _GET and node.attributes["index"] in positions]
        return not pair.backward.is_output and start.user_count == 1 and not any(node.is_used for node in after)

    def _flops(self, node: Apply) -> float:
        if node.opcode in VIEWS:
            return 0.0
        counted = self.cost.inclusive(node)
        return float(max(counted.flops, 0) + max(counted.transcendentals, 0)) + FLOPS_PER_BYTE * _bytes(node)


def _is_result(node: Node, loop: Node, index: int) -> bool:
    return node.opcode == _GET and node.operands[0] is loop and node.attributes["index"] == index


def _bytes(node: Node) -> int:
    leaves = node.type.leaves() if node.type is not None else ()
    return sum(leaf_bytes(leaf) for leaf in leaves if isinstance(leaf, TensorType))
