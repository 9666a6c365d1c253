"""Writes the loop over slices of the batch from the states of a program's values.

The entry becomes three parts: what is the same in all iterations, the loop, and what needs the combined results. The
loop carries a counter, the values it reads, and its results: those per example, assembled slice by slice, and sums (or
products, maxima, ...) over the slices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hloom.analysis import called_computations
from hloom.autodiff import Emitter, identity_value
from hloom.distribute.microbatch.batch_propagation import BatchPropagation
from hloom.distribute.microbatch.batch_state import WHOLE, PartialResult, Sliced, State, Whole
from hloom.distribute.microbatch.linearity import is_neutral
from hloom.distribute.microbatch.local_program import local_attributes, local_literal, local_type_of, localize
from hloom.distribute.microbatch.phases import Phase, phases_of
from hloom.ir import Apply, Attributes, Constant, DType, Graph, Literal, Node, TensorType, TupleType, dtype
from hloom.ops import OPS, only_yields
from hloom.text import HloomError

LOOP_BODY = "microbatch.body"
"""The name prefix of bodies of loops over slices."""
_PREDECESSORS = "control-predecessors"
_COUNTER = dtype("s32")
"""The element type of the loop's counter."""

class _View:
    """A dimension that is cut, apart from the equal parts before it: [6] in parts of 2 is [3,2], cut along the 2.

    `dims` are those of all slices, `dimension` the one that is cut, `slice_dims` those of a slice, and `local_dims`
    the same with the parts put together again.
    """

    def __init__(self, dims: Sequence[int], state: Sliced, count: int) -> None:
        size = dims[state.dimension]
        before, behind = tuple(dims[: state.dimension]), tuple(dims[state.dimension + 1 :])
        parts = () if state.front == 1 else (state.front,)
        self.dimension = state.dimension + len(parts)
        self.dims = (*before, *parts, size // state.front, *behind)
        self.slice_dims = (*before, *parts, size // state.front // count, *behind)
        self.local_dims = (*before, size // count, *behind)


def _with_predecessors(attributes: Attributes, predecessors: Sequence[Node]) -> Attributes:
    """The attributes of an instruction that runs after these, and after no others."""
    if _PREDECESSORS not in attributes:
        return attributes
    rest = {name: value for name, value in attributes.items() if name != _PREDECESSORS}
    return Attributes(rest | ({_PREDECESSORS: tuple(predecessors)} if predecessors else {}))


@dataclass(frozen=True, slots=True)
class WrittenLoop:
    """The loop that a program became.

    `body` is its body, `batch_dims` has for nodes of the body the dimension that is a slice of the batch, and `share`
    is the share of the program's work that is done slice by slice, counted as the points of iteration spaces.
    """

    body: Graph
    batch_dims: dict[Node, int]
    share: float


def write_loop(propagation: BatchPropagation, accumulate: DType | None) -> WrittenLoop:
    """Rewrite the module of a propagation, in place. Raises HloomError for effects in the loop."""
    writing = _Writing(propagation, accumulate)
    return WrittenLoop(writing.body, writing.batch_dims(), propagation.share_of(writing.in_loop))


class _Writing:
    """The parts of the new program while they are written: the entry, and the body of the loop."""

    def __init__(self, propagation: BatchPropagation, accumulate: DType | None) -> None:
        self.propagation, self.accumulate = propagation, accumulate
        self.count = propagation.count
        self.entry = propagation.entry
        self.module = propagation.dataflow.module
        self.phases = phases_of(propagation)
        self.nodes = list(self.entry.nodes)
        self.body = self.module.add_graph(self.module.unique_graph_name(LOOP_BODY))
        self.state = self.body.add_parameter(None, "state")
        self.inner, self.outer = Emitter(self.body), Emitter(self.entry)
        self.initial: list[Node] = []
        self.following: list[Node | None] = []
        self.made: dict[Node, Node] = {}
        self._captured: dict[Node, Node] = {}
        self._slices: dict[tuple[Node, Sliced], Node] = {}
        self._check_effects()
        self.counter = self._carry(self.outer.constant(0, _COUNTER))
        self._write()

    def batch_dims(self) -> dict[Node, int]:
        """The dimension that is a slice of the batch, where consecutive examples are in it, by node of the body."""
        dims: dict[Node, int] = {}
        for node, made in self.made.items():
            cut = self.phases.demanded.get(node) or self.propagation.states_of(node)[0]
            if isinstance(made.type, TensorType) and isinstance(cut, Sliced) and cut.front == 1:
                dims[made] = cut.dimension
        return dims

    def _check_effects(self) -> None:
        for node in self.nodes:
            if self.phases.is_in_loop(node) and not only_yields(node):
                raise HloomError(
                    f"{node.name} ({node.opcode}) would run {self.count} times: it works on a slice of the batch, and "
                    "has an effect beyond its result",
                    hint="cut a program without it, or give the batch to less of the program",
                )

    def _carry(self, initial: Node, following: Node | None = None) -> Node:
        """A further element of the loop's state; its value in the body. None follows: it stays as it is."""
        index = len(self.initial)
        self.initial.append(initial)
        element = self.body.add_apply(
            OPS["get-tuple-element"], (self.state,), initial.type, {"index": index}, f"{initial.name}.carried"
        )
        self.following.append(following if following is not None else element)
        return element

    def _write(self) -> None:
        in_loop = [node for node in self.nodes if self.phases.is_in_loop(node)]
        self.in_loop = frozenset(in_loop)
        for node in in_loop:
            if node.opcode != "tuple":
                self._write_node(node)
        leaving = [node for node in in_loop if isinstance(node.type, TensorType) and self._leaves(node)]
        exits = {node: self._exit(node) for node in leaving}
        loop = self._close()
        for node, (index, finish) in exits.items():
            self.entry.replace_uses(node, finish(self.outer.element(loop, index)))
        self._order()
        self._await(loop)
        for node in reversed(in_loop):
            self.entry.erase(node)

    def _await(self, loop: Node) -> None:
        """Let what follows instructions of the loop follow the loop."""
        for node in self.nodes:
            predecessors = node.attributes.get(_PREDECESSORS, ())
            if not self.phases.is_in_loop(node) and any(self.phases.is_in_loop(other) for other in predecessors):
                kept = [other for other in predecessors if not self.phases.is_in_loop(other)]
                is_after = self.phases.of[node] is Phase.AFTER
                self.entry.set_attributes(
                    node, _with_predecessors(node.attributes, [*kept, loop] if is_after else kept)
                )

    def _leaves(self, node: Node) -> bool:
        """Whether something after the loop reads a node of the loop."""
        return node is self.entry.output or any(not self.phases.is_in_loop(user) for user in node.users)

    def _write_node(self, node: Node) -> None:
        """A node of the loop, as it is for one slice."""
        cut = self.phases.demanded.get(node)
        results = (cut,) if cut is not None else self.propagation.states_of(node)
        made_type = local_type_of(node.type, results, self.count)
        if isinstance(node, Constant):
            value = local_literal(node, made_type)
            self.made[node] = self.body.add_constant(value, made_type, node.name, metadata=node.raw_metadata)
            return
        assert isinstance(node, Apply)
        if node.opcode == "get-tuple-element" and node.operands[0].opcode == "tuple":
            element = node.operands[0].operands[node.attributes["index"]]
            self.made[node] = self._read(element, self.propagation.states_of(node))
            return
        read = self.propagation.operand_states(node, cut)
        operands = [self._read(operand, states) for operand, states in zip(node.operands, read, strict=True)]
        for graph in called_computations(node):
            self._localize(graph)
        attributes = local_attributes(node, read, results, self.count)
        earlier = [self.made[other] for other in attributes.get(_PREDECESSORS, ()) if other in self.made]
        attributes = _with_predecessors(attributes, earlier)
        made = self.body.add_apply(
            node.function, operands, made_type, attributes, node.name, metadata=node.raw_metadata
        )
        self.made[node] = self._numbered(node, made, cut) if node.opcode == "iota" else made

    def _localize(self, graph: Graph) -> None:
        """Give a graph that the loop calls, and all that it calls, the sizes of a slice."""
        pending = [graph]
        for called in pending:
            localize(called, self.propagation)
            pending += [
                inner for node in called.nodes if isinstance(node, Apply) for inner in called_computations(node)
            ]

    def _numbered(self, node: Apply, made: Node, cut: Sliced | None) -> Node:
        """An iota of a slice: its numbers go on from slice to slice."""
        if cut is None or cut.dimension != node.attributes["iota_dimension"]:
            return made
        assert isinstance(made.type, TensorType)
        size = self.inner.constant(made.type.dims[cut.dimension], _COUNTER)
        start = self.inner.convert(self.inner.mul(self.counter, size), made.type.dtype)
        return self.inner.add(made, self.inner.broadcast(start, made.type.dims))

    def _read(self, operand: Node, states: Sequence[State]) -> Node:
        """An operand in the body, its arrays in these states."""
        if operand.opcode == "tuple":
            elements, start = [], 0
            for element in operand.operands:
                count = len(self.propagation.states_of(element))
                elements.append(self._read(element, states[start : start + count]))
                start += count
            return self.inner.tuple(elements)
        if self.phases.is_in_loop(operand):
            own = self.phases.demanded.get(operand)
            held = (own,) if own is not None else self.propagation.states_of(operand)
            value = self.made[operand]
        else:
            held = (WHOLE,) * len(states)
            value = self._capture(operand)
        if tuple(held) == tuple(states):
            return value
        if len(states) != 1:
            raise HloomError(
                f"{operand.name}: a tuple of which some elements are cut is passed on as it is",
                hint="write out the tuple's elements",
            )
        return self._adapted(operand, value, held[0], states[0])

    def _adapted(self, operand: Node, value: Node, held: State, wanted: State) -> Node:
        """A value that is the same in all iterations, as a slice, or as a term of what all add up to."""
        assert isinstance(held, Whole)
        if isinstance(wanted, Sliced):
            return self._sliced(value, wanted)
        assert isinstance(wanted, PartialResult)
        if is_neutral(operand, wanted.reducer):
            return value
        assert isinstance(value.type, TensorType)
        is_first = self.inner.compare("EQ", self.counter, self.inner.constant(0, _COUNTER))
        neutral = self.inner.constant(identity_value(wanted.reducer, value.type.dtype), value.type.with_layout(None))
        return self.inner.select(is_first, value, neutral)

    def _capture(self, node: Node) -> Node:
        """A value of the entry that the body reads."""
        value = self._captured.get(node)
        if value is None:
            if isinstance(node, Constant) and isinstance(node.type, TensorType) and not node.type.rank:
                value = self.body.add_constant(node.value, node.type, node.name, metadata=node.raw_metadata)
            else:
                value = self._carry(node)
            self._captured[node] = value
        return value

    def _sliced(self, value: Node, state: Sliced) -> Node:
        """The slice of a value of which all of it is known."""
        key = value, state
        result = self._slices.get(key)
        if result is None:
            assert isinstance(value.type, TensorType)
            view = _View(value.type.dims, state, self.count)
            start = self._start(view)
            cut = self.inner.op(
                "dynamic-slice", self.inner.reshape(value, view.dims), *start, dynamic_slice_sizes=view.slice_dims
            )
            result = self._slices[key] = self.inner.reshape(cut, view.local_dims)
        return result

    def _start(self, view: _View) -> list[Node]:
        """Where a slice begins, one number for each dimension of a view."""
        zero = self.inner.constant(0, _COUNTER)
        chunk = view.slice_dims[view.dimension]
        first = self.counter if chunk == 1 else self.inner.mul(self.counter, self.inner.constant(chunk, _COUNTER))
        return [first if dimension == view.dimension else zero for dimension in range(len(view.dims))]

    def _exit(self, node: Node) -> tuple[int, Callable[[Node], Node]]:
        """Let a value leave the loop: its number in the state, and what makes the value of that element."""
        state, value = self.propagation.states_of(node)[0], self.made[node]
        assert isinstance(value.type, TensorType) and isinstance(node.type, TensorType)
        index = len(self.initial)
        whole_type = node.type
        if isinstance(state, Sliced):
            view = _View(whole_type.dims, state, self.count)
            buffer = self._carry(self.outer.zeros(TensorType(whole_type.dtype, view.dims)))
            update = self.inner.reshape(value, view.slice_dims)
            self.following[index] = self.inner.op("dynamic-update-slice", buffer, update, *self._start(view))
            return index, lambda element: self.outer.reshape(element, whole_type.dims)
        if isinstance(state, PartialResult):
            held = self._held_in(whole_type.dtype)
            start = self.outer.constant(identity_value(state.reducer, held), TensorType(held, whole_type.dims))
            before = self._carry(start)
            self.following[index] = self.inner.op(state.reducer, before, self.inner.convert(value, held))
            return index, lambda element: self.outer.convert(element, whole_type.dtype)
        self._carry(self.outer.zeros(whole_type))
        self.following[index] = value
        return index, lambda element: element

    def _held_in(self, element: DType) -> DType:
        """The element type in which sums over slices are held."""
        wanted = self.accumulate
        if wanted is None or not element.is_float or element.byte_count >= wanted.byte_count:
            return element
        return wanted

    def _close(self) -> Node:
        """The loop, at the end of the entry."""
        one = self.inner.constant(1, _COUNTER)
        self.following[0] = self.inner.add(self.counter, one)
        self.body.set_output(self.inner.tuple([node for node in self.following if node is not None]))
        initial = self.outer.tuple(self.initial)
        assert isinstance(initial.type, TupleType)
        self.body.set_type(self.state, initial.type)
        self.body.set_type(self.body.root, initial.type)
        condition = self.module.add_graph(self.module.unique_graph_name("microbatch.condition"))
        emitter = Emitter(condition)
        state = condition.add_parameter(initial.type, "state")
        for graph in (self.body, condition):
            self.module.graphs.remove(graph)
            self.module.graphs.insert(self.module.graphs.index(self.entry), graph)
        rounds = emitter.constant(self.count, _COUNTER)
        condition.set_output(emitter.compare("LT", emitter.element(state, 0), rounds))
        return self.outer.op("while", initial, condition=condition, body=self.body)

    def _order(self) -> None:
        """Put what comes after the loop behind it, in the order in which it was."""
        last = self.entry.add_constant(Literal.splat(TensorType(_COUNTER), np.int32(0)), TensorType(_COUNTER))
        for node in self.nodes:
            if self.phases.of[node] is Phase.AFTER:
                self.entry.move_before(node, last)
        self.entry.erase(last)
