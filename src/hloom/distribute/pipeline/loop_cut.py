"""Loops over layers, cut into loops over consecutive ranges of layers.

    x, stack = while(i < 12)(x, stack)   ->   x, rows0 = while(i < 4)(x, stack[0:4])
                                              x, rows1 = while(i < 12)(x, stack[4:12])

An array of which each iteration reads or writes its own row (stacked weights, residuals, gradients) is passed on by
rows. Parameters that are read by rows alone, and results that are computed by rows, become several: their stages have
their own rows alone, with the state of the optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hloom.analysis import DisjointSets, ScalarEvolution, called_computations, derive_trip_count
from hloom.autodiff import Emitter
from hloom.distribute.pipeline.extraction import extract, leaves_of
from hloom.distribute.pipeline.row_slices import Rows, RowSlices, is_made_by_rows, joined, narrowed, sum_by_rows
from hloom.evaluator import evaluate
from hloom.ir import (
    Apply,
    Constant,
    Graph,
    Literal,
    Module,
    Node,
    Parameter,
    TensorType,
    TupleType,
    dtype_of,
    reachable,
)
from hloom.ops import OPS
from hloom.passes import canonicalize_in_place, dce

MOST_ITERATIONS = 4096
"""Loops of more iterations are over something else than layers, and stay whole."""
GET = "get-tuple-element"


@dataclass(frozen=True, slots=True)
class LoopRange:
    """Iterations of a loop, from the first one to the one behind the last, and the family that the loop is of.

    Loops that read or write each other's stacked arrays are a family, and are cut at the same rows. `is_reversed` says
    that the first iteration is that of the last row.
    """

    family: int
    first: int
    last: int
    is_reversed: bool

    @property
    def length(self) -> int:
        """How many iterations there are."""
        return self.last - self.first


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """A parameter or a result of the program as it was, by number, or rows of it."""

    number: int
    rows: Rows | None = None


@dataclass(frozen=True, slots=True)
class CutLoops:
    """A module whose loops over layers are cut.

    `ranges` says by the name of a loop's body which iterations it has; `parameters` and `results` say of which of the
    program's own each parameter and result is.
    """

    module: Module
    ranges: dict[str, LoopRange]
    parameters: tuple[ArrayPart, ...]
    results: tuple[ArrayPart, ...]


def cut_loops(module: Module, boundaries: Callable[[int, int], Sequence[int]], batch: Container[int] = ()) -> CutLoops:
    """A copy of a module whose loops over layers are cut.

    `boundaries(family, rows)` says at which rows the loops of a family are cut, whose stacked arrays have so many.
    A loop is over layers where it reads rows of parameters other than those of the batch, which are given by number.
    """
    copy = module.clone()
    canonicalize_in_place(copy)
    copy.attributes = copy.attributes.changed(
        dict.fromkeys(("input_output_alias", "buffer_donor", "entry_computation_layout"))
    )
    for graph in copy.graphs:
        for node in list(graph.nodes):
            if node.opcode == GET and node.operands[0].opcode == "tuple":
                graph.replace_uses(node, node.operands[0].operands[node.attributes["index"]])
        _merge_elements(graph)
    dce(copy)
    return _LoopCut(copy, boundaries, batch).result()


def _merge_elements(graph: Graph) -> None:
    """Let each element of a tuple be taken once."""
    taken: dict[tuple[Node, int], Node] = {}
    for node in list(graph.nodes):
        if node.opcode == GET:
            first = taken.setdefault((node.operands[0], node.attributes["index"]), node)
            if first is not node:
                graph.replace_uses(node, first)


@dataclass(slots=True)
class _Loop:
    """A loop over layers.

    `counters` are by element of the state the values before each iteration, and after the last. `stacks` are the
    elements of which iteration k has row k, or the k-th last one.
    """

    node: Apply
    count: int
    counters: dict[int, list[np.ndarray]]
    stacks: dict[int, list[Node]]
    counted_by: int
    is_reversed: bool
    family: int = -1

    @property
    def body(self) -> Graph:
        return self.node.attributes["body"]


class _LoopCut:
    def __init__(self, module: Module, boundaries: Callable[[int, int], Sequence[int]], batch: Container[int]) -> None:
        self.module, self.entry = module, module.entry
        self.ranges: dict[str, LoopRange] = {}
        self.slices = RowSlices(self.entry)
        loops = [loop for node in self.entry.nodes if (loop := _described(node)) is not None]
        self._find_families(loops)
        over_layers = {loop.family for loop in loops if _reads_parameters(loop, batch)}
        loops = [loop for loop in loops if loop.family in over_layers]
        self.rows: dict[int, list[Rows]] = {}
        for loop in loops:
            if loop.family not in self.rows:
                inner = sorted(row for row in set(boundaries(loop.family, loop.count)) if 0 < row < loop.count)
                bounds = [0, *inner, loop.count]
                self.rows[loop.family] = list(pairwise(bounds))
        self.loops = {loop.node: loop for loop in loops}

    def result(self) -> CutLoops:
        families = [rows for rows in self.rows.values() if len(rows) > 1]
        for node in list(self.entry.nodes):
            loop = self.loops.get(node)  # pyright: ignore[reportArgumentType, reportCallIssue]
            if loop is not None:
                if len(self.rows[loop.family]) > 1:
                    self._cut(loop)
                else:
                    self.ranges[loop.body.name] = LoopRange(loop.family, 0, loop.count, loop.is_reversed)
            else:
                any(sum_by_rows(node, rows, self.slices) for rows in families)
        results = self._split_results(families)
        dce(self.module)
        origins = self._split_parameters(families)
        dce(self.module)
        self.module.keep_reached()
        parameters = [origins[parameter] for parameter in self.entry.parameters]
        return CutLoops(self.module, self.ranges, tuple(parameters), tuple(results))

    # Families

    def _find_families(self, loops: Sequence[_Loop]) -> None:
        """Give loops that share stacked arrays one number."""
        by_source: dict[tuple[Node, int], int] = {}
        families = DisjointSets[int]()
        for number, loop in enumerate(loops):
            initial = loop.node.operands[0].operands
            sources = {loop.node, *[source for index in loop.stacks for source in _sources(initial[index])]}
            for source in sources:
                other = by_source.setdefault((source, loop.count), number)
                families.join(other, number)
        numbers: dict[int, int] = {}
        for number, loop in enumerate(loops):
            loop.family = numbers.setdefault(families.root(number), len(numbers))

    # One loop

    def _cut(self, loop: _Loop) -> None:
        all_rows = self.rows[loop.family]
        ordered = list(reversed(all_rows)) if loop.is_reversed else all_rows
        state = list(loop.node.operands[0].operands)
        pieces: dict[int, dict[Rows, Node]] = {index: {} for index in loop.stacks}
        done = 0
        for rows in ordered:
            first, done = done, done + rows[1] - rows[0]
            given = [self._given(loop, index, state, rows, first) for index in range(len(state))]
            node = self._range(loop, rows, first, done, given)
            for index in range(len(state)):
                if index in loop.counters:
                    continue
                element = self._element(loop, node, index)
                if index in loop.stacks:
                    pieces[index][rows] = element
                elif not _is_passed_on(loop.body, index):
                    state[index] = element
        emitter = Emitter(self.entry)
        for user in list(loop.node.users):
            index = user.attributes["index"]
            if index in loop.counters:
                result = self._constant(loop.counters[index][loop.count], user)
            elif index in loop.stacks and not _is_passed_on(loop.body, index):
                assert isinstance(user.type, TensorType)
                result = joined([pieces[index][rows] for rows in all_rows], user.type, emitter, loop.node)
            else:
                result = state[index]
            self.entry.replace_uses(user, result)
            self.entry.erase(user)

    def _given(self, loop: _Loop, index: int, state: Sequence[Node], rows: Rows, first: int) -> Node:
        if index in loop.counters:
            return self._constant(loop.counters[index][first], loop.node)
        if index in loop.stacks:
            return self.slices.take(state[index], rows, loop.node)
        return state[index]

    def _constant(self, value: np.ndarray, before: Node) -> Node:
        literal = Literal.splat(TensorType(dtype_of(value.dtype)), value)
        return self.entry.add_constant(literal, literal.type, before=before)

    def _element(self, loop: _Loop, node: Node, index: int) -> Node:
        assert isinstance(node.type, TupleType)
        return self.entry.add_apply(OPS[GET], (node,), node.type.elements[index], {"index": index}, before=loop.node)

    def _range(self, loop: _Loop, rows: Rows, first: int, last: int, given: Sequence[Node]) -> Node:
        """The loop over a range of iterations."""
        length = rows[1] - rows[0]
        assert isinstance(loop.node.type, TupleType)
        elements = [
            narrowed(element, length) if index in loop.stacks else element
            for index, element in enumerate(loop.node.type.elements)
        ]
        state_type = TupleType(elements)
        body = self.module.clone_graph(loop.body, f"{loop.body.name}.rows{rows[0]}")
        _narrow(body, loop, rows[0], state_type)
        condition = self.module.add_graph(f"{loop.body.name}.condition{rows[0]}")
        emitter = Emitter(condition)
        parameter = condition.add_parameter(state_type, "state")
        values = loop.counters[loop.counted_by]
        counted_type = state_type.elements[loop.counted_by]
        assert isinstance(counted_type, TensorType)
        limit = condition.add_constant(Literal.splat(counted_type, values[last]), counted_type)
        counter = condition.add_apply(OPS[GET], (parameter,), counted_type, {"index": loop.counted_by})
        direction = "LT" if values[first] < values[last] else "GT"
        condition.set_output(emitter.compare(direction, counter, limit))
        for graph in (body, condition):
            self.module.graphs.remove(graph)
            self.module.graphs.insert(self.module.graphs.index(self.entry), graph)
        initial = self.entry.add_apply(OPS["tuple"], given, state_type, before=loop.node)
        attributes = loop.node.attributes.changed({"body": body, "condition": condition, "backend_config": None})
        self.ranges[body.name] = LoopRange(loop.family, first, last, loop.is_reversed)
        return self.entry.add_apply(
            loop.node.function, (initial,), state_type, attributes, loop.node.name, before=loop.node,
            metadata=loop.node.raw_metadata,
        )  # fmt: skip

    # Parameters and results

    def _split_results(self, families: Sequence[list[Rows]]) -> list[ArrayPart]:
        """Yield results that are computed by rows as several."""
        root = self.entry.root
        outputs = list(root.operands) if root.opcode == "tuple" else [root]
        made: list[Node] = []
        parts: list[ArrayPart] = []
        for number, output in enumerate(outputs):
            fitting = (rows for rows in families if _has_rows(output, rows) and is_made_by_rows(output, rows))
            ranges = next(fitting, None)
            if ranges is None:
                made.append(output)
                parts.append(ArrayPart(number))
                continue
            for rows in ranges:
                made.append(self.slices.take(output, rows, None))
                parts.append(ArrayPart(number, rows))
        self.entry.set_output(Emitter(self.entry).tuple(made))
        return parts

    def _split_parameters(self, families: Sequence[list[Rows]]) -> dict[Node, ArrayPart]:
        """Take parameters of which nothing but rows is read as several."""
        origins: dict[Node, ArrayPart] = {p: ArrayPart(p.number) for p in self.entry.parameters}
        for parameter, slices in self.slices.of_parameters.items():
            ranges = next((rows for rows in families if set(slices) <= set(rows)), None)
            taken = {node: rows for rows, node in slices.items()}
            if ranges is None or any(user not in taken for user in parameter.users) or not parameter.users:
                continue
            for rows in ranges:
                part = self.entry.add_parameter(
                    narrowed(parameter.type, rows[1] - rows[0]), f"{parameter.name}.rows{rows[0]}",
                    metadata=parameter.raw_metadata,
                )  # fmt: skip
                origins[part] = ArrayPart(origins[parameter].number, rows)
                node = slices.get(rows)
                if node is not None and node in parameter.users:
                    self.entry.move_before(part, self.entry.nodes[0])
                    self.entry.replace_uses(node, part)
                    self.entry.erase(node)
            self.entry.erase(parameter)
        return origins


def _described(node: Node) -> _Loop | None:
    """What is known of a loop over rows; None for anything else."""
    if node.opcode != "while" or not isinstance(node, Apply) or node.operands[0].opcode != "tuple":
        return None
    body = node.attributes["body"]
    if body.root.opcode != "tuple" or any(user.opcode != GET for user in node.users):
        return None
    count = derive_trip_count(node, ScalarEvolution({})).count
    if count is None or not 2 <= count <= MOST_ITERATIONS:
        return None
    counters = _counters(node, count)
    counted_by = next((index for index, values in counters.items() if _is_monotone(values)), None)
    if counted_by is None:
        return None
    accesses = _row_accesses(node, count)
    rows = _row_numbers(node, accesses, counters)
    stacks: dict[int, list[Node]] = {}
    orders: set[bool] = set()
    for index, numbers in rows.items():
        if numbers == list(range(count)) or numbers == list(reversed(range(count))):
            stacks[index] = accesses[index]
            orders.add(numbers[0] != 0)
    if len(orders) != 1:
        return None
    return _Loop(node, count, counters, stacks, counted_by, orders.pop())


def _state_elements(body: Graph) -> dict[int, list[Node]]:
    """By element of the state the nodes of a body that take it."""
    elements: dict[int, list[Node]] = {}
    for user in body.parameters[0].users:
        if user.opcode == GET:
            elements.setdefault(user.attributes["index"], []).append(user)
    return elements


def _is_passed_on(body: Graph, index: int) -> bool:
    yielded = body.root.operands[index]
    return yielded.opcode == GET and yielded.operands[0] is body.parameters[0] and yielded.attributes["index"] == index


def _counters(loop: Apply, count: int) -> dict[int, list[np.ndarray]]:
    """By element of the state the values of integers that count: before each iteration, and after the last."""
    body, initial = loop.attributes["body"], loop.operands[0].operands
    elements = _state_elements(body)
    taken = {node: index for index, nodes in elements.items() for node in nodes}
    counting = {
        index
        for index in elements
        if _is_integer(initial[index]) and isinstance(initial[index], Constant) and len(elements[index]) == 1
    }
    known = frozenset(taken)
    while True:
        wrong = {
            index
            for index in counting
            if any(
                isinstance(leaf, Parameter) or taken.get(leaf) not in counting
                for leaf in leaves_of([body.root.operands[index]], known | {body.parameters[0]})
            )
        }
        if not wrong:
            break
        counting -= wrong
    if not counting:
        return {}
    indices = sorted(counting)
    given = [elements[index][0] for index in indices]
    step = extract("counters", [body.root.operands[index] for index in indices], given)
    values = [[initial[index].value.numpy() for index in indices]]  # pyright: ignore
    for _ in range(count):
        values.append(list(evaluate(step, values[-1])))
    return {index: [row[number] for row in values] for number, index in enumerate(indices)}


def _is_integer(node: Node) -> bool:
    return isinstance(node.type, TensorType) and not node.type.rank and node.type.dtype.is_integer


def _is_monotone(values: Sequence[np.ndarray]) -> bool:
    numbers = [int(value) for value in values]
    pairs = list(pairwise(numbers))
    return all(one < other for one, other in pairs) or all(one > other for one, other in pairs)


def _row_accesses(loop: Apply, count: int) -> dict[int, list[Node]]:
    """By element of the state the instructions that read or write one row of it, where nothing else does."""
    body = loop.attributes["body"]
    accesses: dict[int, list[Node]] = {}
    for index, nodes in _state_elements(body).items():
        value_type = nodes[0].type
        if not isinstance(value_type, TensorType) or not value_type.rank or value_type.dims[0] != count:
            continue
        yielded = body.root.operands[index]
        users = [user for node in nodes for user in node.users if user is not body.root]
        is_written = yielded.opcode == "dynamic-update-slice" and yielded.operands[0] in nodes
        if not users or not (is_written or _is_passed_on(body, index)):
            continue
        if is_written and any(user is not body.root for user in yielded.users):
            continue
        if all(_is_row_access(user, nodes) for user in users):
            accesses[index] = users
    return accesses


def _is_row_access(user: Node, stack: Sequence[Node]) -> bool:
    """Whether an instruction reads or writes one whole row of a stacked array."""
    if user.opcode == "dynamic-slice":
        part: tuple[int, ...] = tuple(user.attributes["dynamic_slice_sizes"])
    elif user.opcode == "dynamic-update-slice" and user.operands[1] not in stack:
        assert isinstance(user.operands[1].type, TensorType)
        part = user.operands[1].type.dims
    else:
        return False
    whole = user.operands[0].type
    assert isinstance(whole, TensorType)
    return user.operands[0] in stack and part == (1, *whole.dims[1:])


def _first_index(access: Node) -> Node:
    """The number of the row that an instruction reads or writes."""
    return access.operands[1 if access.opcode == "dynamic-slice" else 2]


def _row_numbers(
    loop: Apply, accesses: Mapping[int, Sequence[Node]], counters: Mapping[int, Sequence[np.ndarray]]
) -> dict[int, list[int]]:
    """By stacked element of the state the rows that the iterations read or write, one each."""
    body, count = loop.attributes["body"], len(next(iter(counters.values()))) - 1
    elements = _state_elements(body)
    given = {elements[index][0]: values for index, values in counters.items()}
    stops = frozenset((*given, *body.parameters))
    wanted = dict.fromkeys(_first_index(access) for users in accesses.values() for access in users)
    known = [node for node in wanted if all(leaf in given for leaf in leaves_of([node], stops))]
    if not known:
        return {}
    program = extract("rows", known, list(given))
    columns = [evaluate(program, [values[number] for values in given.values()]) for number in range(count)]
    numbers = {node: [int(column[position]) for column in columns] for position, node in enumerate(known)}
    rows: dict[int, list[int]] = {}
    for index, users in accesses.items():
        sequences = [numbers.get(_first_index(access)) for access in users]
        if sequences[0] is not None and all(sequence == sequences[0] for sequence in sequences):
            rows[index] = sequences[0]
    return rows


def _sources(node: Node) -> list[Node]:
    """The parameters and loops that a stacked array comes from."""

    def is_source(value: Node) -> bool:
        return isinstance(value, Parameter) or bool(called_computations(value))

    return list(filter(is_source, reachable([node], lambda value: () if is_source(value) else value.operands)))


def _reads_parameters(loop: _Loop, batch: Container[int]) -> bool:
    """Whether a loop reads rows of an array that is made of parameters, none of them of the batch."""
    initial = loop.node.operands[0].operands
    read = [_sources(initial[index]) for index in loop.stacks if _is_passed_on(loop.body, index)]
    return any(
        sources and all(isinstance(source, Parameter) and source.number not in batch for source in sources)
        for sources in read
    )


def _narrow(body: Graph, loop: _Loop, first_row: int, state_type: TupleType) -> None:
    """Let a copy of a loop's body work on rows of its stacked arrays, from the first one on."""
    shifted: dict[Node, Node] = {}
    following = dict(pairwise(body.nodes))
    for index, nodes in _state_elements(body).items():
        if index not in loop.stacks:
            continue
        for node in nodes:
            body.set_type(node, state_type.elements[index])
            for user in node.users:
                if user is body.root:
                    continue
                number = _first_index(user)
                if first_row and number not in shifted:
                    assert isinstance(number.type, TensorType)
                    offset = Literal.splat(number.type, np.asarray(first_row, number.type.dtype.numpy))
                    amount = body.add_constant(offset, number.type, before=following[number])
                    shifted[number] = body.add_apply(
                        OPS["subtract"], (number, amount), number.type, before=following[number]
                    )
                inputs = list(user.operands)
                inputs[inputs.index(number)] = shifted.get(number, number)
                body.set_operands(user, inputs)
                if user.opcode == "dynamic-update-slice":
                    body.set_type(user, state_type.elements[index])
    body.set_type(body.parameters[0], state_type)
    body.set_type(body.root, state_type)


def _has_rows(node: Node, ranges: Sequence[Rows]) -> bool:
    value_type = node.type
    return isinstance(value_type, TensorType) and bool(value_type.rank) and value_type.dims[0] == ranges[-1][1]
