"""The layers of a step: where its forward part can be cut, and which backward instructions belong to which layer.

The forward part is everything the first gradient needs. It is a sequence: a layer ends where a single array is passed
on. A backward instruction belongs to the layer whose forward values and weights it reads; a layer's values that only
the backward part reads stay in the layer.

    loss = f2(f1(x, w1), w2)          layer 0: f1, its part of dw1     layer 1: f2, dw2, the gradient of f1's result
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from hloom.analysis import called_computations
from hloom.distribute.microbatch import Batch
from hloom.distribute.pipeline.accumulation import HEAVY
from hloom.distribute.pipeline.loop_cut import CutLoops, LoopRange, cut_loops
from hloom.distribute.pipeline.step import (
    GET,
    MOVING,
    Accumulator,
    BatchedStep,
    byte_count,
    check_effects,
    entry_ancestors,
    owner,
    parameters_of,
)
from hloom.ir import Module, Node, Parameter, TensorType, reachable
from hloom.text import HloomError

SHARED_READERS, SHARED_SPAN = 3, 6
"""A value read after at least this many different expensive instructions, this many apart, is sent to all layers."""
UNARY = frozenset(("convert", "negate"))
"""Opcodes that a gradient goes through, besides those that move elements."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of a step that is not cut further.

    `forward` and `backward` are instructions of one microbatch's program, in order. `parameters` are numbers of the
    step's parameters, of which a microbatch reads all or rows, the batch apart, `parameter_bytes` together. Of a loop
    over layers each iteration is a layer, and has the instructions of the loop over one iteration. Other bytes are
    those of one microbatch: `activation_bytes` of what goes on to the next layer, `residual_bytes` of what is kept for
    the backward part.
    """

    forward: tuple[Node, ...]
    backward: tuple[Node, ...]
    parameters: tuple[int, ...]
    parameter_bytes: int
    activation_bytes: int
    residual_bytes: int


def layers(module: Module, *, microbatches: int = 1, batch: Batch | str | None = None) -> list[Layer]:
    """The layers of a step, in order: the finest cut of it into stages.

    `batch` says which dimension of which parameters is the batch, as for `hloom.microbatch`.
    """
    return StepLayers.analysed(module, microbatches, batch).all_layers()


def _around_the_ends(family: int, rows: int) -> Sequence[int]:
    """Cut a loop so that its first and last layers stand alone, and one between them."""
    del family
    return 1, 2, rows - 1


@dataclass(frozen=True, slots=True)
class StepLayers:
    """A step whose loops over layers are cut, and the layers of its instructions; `whole` is it with uncut loops."""

    cut: CutLoops
    step: BatchedStep
    assignment: LayerAssignment
    whole: BatchedStep

    @staticmethod
    def of(
        module: Module, microbatches: int, batch: Batch | str | None, boundaries: Callable[[int, int], Sequence[int]]
    ) -> StepLayers:
        """The layers of a step; `boundaries` are as for `cut_loops`."""
        check_effects(module)
        cut = cut_loops(module, lambda family, rows: ())
        whole = BatchedStep(cut.module, microbatches, batch)
        if not cut.ranges:
            return StepLayers(cut, whole, LayerAssignment(whole), whole)
        return StepLayers._cut_at(module, whole, boundaries)

    @staticmethod
    def _cut_at(module: Module, whole: BatchedStep, boundaries: Callable[[int, int], Sequence[int]]) -> StepLayers:
        """The layers of a step of which the batch is known from its loops as they are."""
        cut = cut_loops(module, boundaries, whole.batch_parameters)
        step = BatchedStep(cut.module, whole.microbatches, whole.batch)
        return StepLayers(cut, step, LayerAssignment(step, cut.ranges), whole)

    @staticmethod
    def analysed(module: Module, microbatches: int = 1, batch: Batch | str | None = None) -> StepLayers:
        """The layers of a step whose loops are cut at their ends only, where all others are alike."""
        return StepLayers.of(module, microbatches, batch, _around_the_ends)

    def all_layers(self) -> list[Layer]:
        """The layers, those that are alike repeated."""
        alone = self.layers()
        repeated: list[Layer] = []
        for number, (layer, length) in enumerate(zip(alone, self.assignment.lengths, strict=True)):
            repeated += [layer] if length == 1 else [alone[number - 1]] * length
        return repeated

    @staticmethod
    def for_stages(module: Module, microbatches: int, batch: Batch | str | None, starts: Sequence[int]) -> StepLayers:
        """The layers of a step whose loops are cut where stages start, which are numbers of layers."""
        first = StepLayers.analysed(module, microbatches, batch)
        if not first.cut.ranges:
            return first
        rows = first.assignment.rows_at(starts)
        last = StepLayers._cut_at(module, first.whole, lambda family, count: rows.get(family, ()))
        last.assignment.keep_families(first.assignment.families_over_layers())
        return last

    def layers(self) -> list[Layer]:
        """The layers, those of a loop's range as one."""
        step, assignment = self.step, self.assignment
        count = assignment.count
        forward: list[list[Node]] = [[] for _ in range(count)]
        backward: list[list[Node]] = [[] for _ in range(count)]
        parameters: list[dict[Parameter, None]] = [{} for _ in range(count)]
        sent, kept = [0] * count, [0] * count
        for node in assignment.nodes:
            layer = assignment.layer_of[node]
            (backward if node in assignment.backward else forward)[layer].append(node)
            for value in step.reads(node):
                if value in step.weights:
                    initial = step.captured[value]
                    parameters[layer].update(dict.fromkeys(parameters_of(initial)))
        for value, users in assignment.value_users().items():
            maker = owner(value)
            layer, size = assignment.layer_of[maker], byte_count(value)
            if maker in assignment.backward:
                continue
            later = [user for user in users if user not in assignment.backward and assignment.layer_of[user] > layer]
            sent[layer] += size if later else 0
            for reading in {assignment.layer_of[user] for user in users if user in assignment.backward}:
                kept[reading] += size
        rows = zip(forward, backward, parameters, sent, kept, strict=True)
        return [
            Layer(
                tuple(ahead),
                tuple(back),
                tuple(dict.fromkeys(self.cut.parameters[parameter.number].number for parameter in read)),
                sum(byte_count(parameter) for parameter in read),
                activations,
                residuals,
            )
            for ahead, back, read, activations, residuals in rows
        ]


class LayerAssignment:
    """The layer of each instruction of one microbatch's program, and whether it is of the backward part.

    Along each edge the order of work is kept: forward parts from the first layer to the last, then backward parts from
    the last to the first.
    """

    def __init__(self, step: BatchedStep, ranges: Mapping[str, LoopRange] | None = None) -> None:
        self.step = step
        self.ranges = ranges or {}
        self.layer_of: dict[Node, int] = {}
        self.backward: set[Node] = set()
        self.count = 0
        needed = set(entry_ancestors(step.body, [accumulator.after for accumulator in step.accumulators]))
        skipped = step.given | step.free
        self.nodes = [
            node
            for node in step.body.nodes
            if node in needed and node not in skipped and owner(node) is node and node is not step.body.root
        ]
        if not self.nodes:
            raise HloomError(f"{step.module.name} computes nothing from its batch: there is nothing to cut into stages")
        self._reads = {node: step.reads(node) for node in self.nodes}
        self._users = self._find_users()
        forward = self._forward_set()
        self._assign_forward(forward)
        self._find_availability()
        self._assign_backward(forward)
        self._pull_gradients()
        self._sink_residuals(forward)

    def families_over_layers(self) -> set[int]:
        """The families of loops whose ranges are layers of their own."""
        held = [self._forward_ranges(layer) for layer in range(self.count)]
        alone = {ranges[0].family for ranges in held if len(ranges) == 1}
        return alone - {entry.family for ranges in held if len(ranges) > 1 for entry in ranges}

    def keep_families(self, families: Container[int]) -> None:
        """Let loops of all other families be parts of one layer each."""
        self.ranges = {name: entry for name, entry in self.ranges.items() if entry.family in families}

    @cached_property
    def lengths(self) -> list[int]:
        """By layer for how many layers it stands: for as many as its loop has iterations, where it has one."""
        ranges = [self._forward_ranges(layer) for layer in range(self.count)]
        return [held[0].length if len(held) == 1 else 1 for held in ranges]

    def _forward_ranges(self, layer: int) -> list[LoopRange]:
        return [
            self.ranges[graph.name]
            for node in self.nodes
            if self.layer_of[node] == layer and node not in self.backward
            for graph in called_computations(node)
            if graph.name in self.ranges
        ]

    def family_of(self, node: Node) -> int | None:
        """The family of a loop over layers; None for anything else."""
        names = [graph.name for graph in called_computations(node) if graph.name in self.ranges]
        return self.ranges[names[0]].family if names else None

    def rows_at(self, starts: Sequence[int]) -> dict[int, list[int]]:
        """By family of loops the rows at which layers start, these layers."""
        rows: dict[int, list[int]] = {}
        position = 0
        for layer, length in enumerate(self.lengths):
            held = self._forward_ranges(layer)
            for start in starts:
                if len(held) == 1 and position <= start < position + length:
                    iteration = held[0].first + start - position
                    count = max(r.last for r in self.ranges.values() if r.family == held[0].family)
                    rows.setdefault(held[0].family, []).append(count - iteration if held[0].is_reversed else iteration)
            position += length
        return rows

    def operands(self, node: Node) -> list[Node]:
        """The instructions that make what a node reads, each once."""
        makers = (owner(value) for value in self._reads[node])
        return [maker for maker in dict.fromkeys(makers) if maker in self._reads]

    def value_users(self) -> dict[Node, list[Node]]:
        """By value, arrays all, the instructions that read it."""
        users: dict[Node, list[Node]] = {}
        for node in self.nodes:
            for value in self._reads[node]:
                if owner(value) in self._reads:
                    users.setdefault(value, []).append(node)
        return users

    def _find_users(self) -> dict[Node, list[Node]]:
        users: dict[Node, list[Node]] = {node: [] for node in self.nodes}
        for node in self.nodes:
            for maker in self.operands(node):
                users[maker].append(node)
        return users

    # The forward part

    def _forward_set(self) -> set[Node]:
        """What the gradient that is computed first is made of, but for what it alone needs.

        That is the gradient of the last weights: among those that depend on the most weights, the one at the end of the
        shortest path. Without gradients everything is forward.
        """
        sinks = [accumulator.after for accumulator in self.step.accumulators if self._is_gradient(accumulator)]
        sinks = [sink for sink in sinks if sink in self._reads]
        if not sinks:
            return set(self.nodes)
        depth: dict[Node, int] = {}
        weights: dict[Node, int] = {}
        bits = {
            weight: sum(1 << parameter.number for parameter in parameters_of(self.step.captured[weight]))
            for weight in self.step.weights
        }
        for node in self.nodes:
            makers = self.operands(node)
            depth[node] = 1 + max((depth[maker] for maker in makers), default=0)
            read = 0
            for maker in makers:
                read |= weights[maker]
            for value in self._reads[node]:
                read |= bits.get(value, 0)
            weights[node] = read
        first = min(sinks, key=lambda sink: (-weights[sink].bit_count(), depth[sink]))
        read = self.operands(self._gradient(first))
        others = [sink for sink in sinks if sink is not first]
        reaches_first, reaches_other = set(reachable(read, self.operands)), set(reachable(others, self.operands))
        return reaches_first & reaches_other if len(sinks) > 1 else reaches_first

    def _gradient(self, sink: Node) -> Node:
        """The instruction that computes what is added to a sum of gradients."""
        node = sink
        while node is sink or node.opcode in MOVING or node.opcode in UNARY:
            makers = self.operands(node)
            if len(makers) != 1:
                break
            (node,) = makers
        return node

    def _is_gradient(self, accumulator: Accumulator) -> bool:
        """Whether what is summed up has the size of a parameter: a gradient, or its transpose."""
        value_type = accumulator.after.type
        if not isinstance(value_type, TensorType) or not value_type.dtype.is_float or not value_type.rank:
            return False
        if accumulator.after.opcode == "dynamic-update-slice":
            return False
        return value_type.element_count in self._parameter_sizes

    @cached_property
    def _parameter_sizes(self) -> set[int]:
        batches = {self.step.captured[batch] for batch in self.step.batches}
        return {
            parameter.type.element_count
            for parameter in self.step.entry.parameters
            if isinstance(parameter.type, TensorType) and parameter.type.dtype.is_float and parameter not in batches
        }

    def _assign_forward(self, forward: set[Node]) -> None:
        """Cut the sequence of forward instructions into layers."""
        sequence = self._sequence(forward)
        starts = _layer_starts(self, sequence)
        self.count = len(starts)
        layer = -1
        begin = set(starts)
        for position, node in enumerate(sequence):
            layer += position in begin
            self.layer_of[node] = layer

    def _sequence(self, forward: set[Node]) -> list[Node]:
        """The forward instructions in order; what depends on the batch alone stands before what first reads it."""
        keys: dict[Node, tuple[int, ...]] = {}
        order = self.step.order
        for node in reversed([node for node in self.nodes if node in forward]):
            readers = [keys[user] for user in self._users[node] if user in forward]
            is_source = readers and not any(maker in forward for maker in self.operands(node))
            keys[node] = (min(readers)[0], -1, order[node]) if is_source else (order[node], 0, order[node])
        return sorted(keys, key=lambda node: keys[node])

    # The backward part

    def _find_availability(self) -> None:
        """For forward values and parameters' values the layers in which they are known without being sent."""
        self._available: dict[Node, set[int]] = {}
        held = {weight for weight in self.step.weights if parameters_of(self.step.captured[weight])}
        for node, layer in self.layer_of.items():
            self._available.setdefault(node, set()).add(layer)
            for value in self._reads[node]:
                if owner(value) in self._reads or value in held:
                    self._available.setdefault(owner(value), set()).add(layer)

    def _assign_backward(self, forward: set[Node]) -> None:
        last = self.count - 1
        unplaced: list[Node] = []
        for node in self.nodes:
            if node in forward:
                continue
            makers = [maker for maker in self.operands(node) if maker in self.layer_of]
            if not makers:
                unplaced.append(node)
                continue
            later = [self.layer_of[maker] for maker in makers if maker in self.backward]
            if not later:
                layer = max(self.layer_of[maker] for maker in makers)
                self.layer_of[node] = layer
                self._available.setdefault(node, set()).add(layer)
                if layer == last or node.opcode == "opt-barrier":  # what is behind a barrier is computed again
                    self.backward.add(node)
                continue
            self.layer_of[node] = self._backward_layer(node, min(later))
            self.backward.add(node)
        for node in reversed(unplaced):
            self._place_before_users(node)

    def _place_before_users(self, node: Node) -> None:
        """Let what depends on no layer be computed where it is read first."""
        users = self._users[node]
        ahead = [self.layer_of[user] for user in users if user not in self.backward]
        self.layer_of[node] = min(ahead) if ahead else max((self.layer_of[user] for user in users), default=0)
        if users and not ahead:
            self.backward.add(node)

    def _backward_layer(self, node: Node, latest: int) -> int:
        """The last layer, from `latest` down, in which all that a backward instruction reads is known."""
        sets = [
            (byte_count(value), self._available[owner(value)])
            for value in self._reads[node]
            if owner(value) in self._available and owner(value) not in self.backward
        ]
        allowed = [{layer for layer in layers if layer <= latest} for _, layers in sets]
        common = set.intersection(*allowed) if allowed else {latest}
        if common:
            return max(common)
        largest = max(sets, key=lambda pair: pair[0])[1]
        return max((layer for layer in largest if layer <= latest), default=latest)

    def _pull_gradients(self) -> None:
        """Let a gradient be summed up in the layer of its parameter, where only the sum would be there otherwise."""
        for accumulator in self.step.accumulators:
            if accumulator.after not in self.backward or not self._is_gradient(accumulator):
                continue
            target = self._parameter_layer(accumulator)
            chain = self._exclusive_chain(accumulator.after, target) if target is not None else []
            entering = {
                value
                for node in chain
                for value in self._reads[node]
                if owner(value) in self.backward and owner(value) not in chain and self.layer_of[owner(value)] != target
            }
            sent = sum(byte_count(value) for value in entering if not self._is_read_in(value, target))
            if sent <= byte_count(accumulator.after):
                for node in chain:
                    self.layer_of[node] = target  # pyright: ignore[reportArgumentType]

    def _is_read_in(self, value: Node, layer: int | None) -> bool:
        return any(user in self.backward and self.layer_of[user] == layer for user in self._users[owner(value)])

    def _exclusive_chain(self, sink: Node, target: int | None) -> list[Node]:
        """The backward instructions of later layers that only this sum needs."""
        chain, pending = {sink: None}, [sink]
        while pending:
            for maker in self.operands(pending.pop()):
                is_later = maker in self.backward and self.layer_of[maker] > (target or 0)
                if is_later and maker not in chain and all(user in chain for user in self._users[maker]):
                    chain[maker] = None
                    pending.append(maker)
        return list(chain)

    def _parameter_layer(self, accumulator: Accumulator) -> int | None:
        """The layer, before its own, that reads the parameter to which the optimizer adds a sum; None where none is."""
        own = self.layer_of[accumulator.after]
        parameters = _updated(accumulator.total)
        homes = [layer for parameter in parameters for layer in self._parameter_layers.get(parameter, ())]
        if not homes or own in homes:
            return None
        return max((layer for layer in homes if layer < own), default=None)

    @cached_property
    def _parameter_layers(self) -> dict[Parameter, set[int]]:
        """By parameter the layers whose forward parts read it."""
        layers_of_parameter: dict[Parameter, set[int]] = {}
        for weight in self.step.weights:
            for parameter in parameters_of(self.step.captured[weight]):
                layers_of_parameter.setdefault(parameter, set()).update(self._available.get(weight, ()))
        return layers_of_parameter

    def _sink_residuals(self, forward: set[Node]) -> None:
        """Compute in the backward part what only that reads, where its operands are kept for it anyway."""
        kept = {
            value
            for node in self.backward
            for value in self._reads[node]
            if owner(value) in self.layer_of and owner(value) not in self.backward
        }
        for node in reversed(self.nodes):
            users = self._users[node]
            if node in forward or node in self.backward or not users:
                continue
            if any(user not in self.backward for user in users):
                continue
            if any(self.layer_of[user] != self.layer_of[node] for user in users) or called_computations(node):
                continue
            read = [value for value in self._reads[node] if owner(value) in self.layer_of]
            if all(value in kept for value in read):
                self.backward.add(node)
                kept.update(read)


def _updated(total: Node) -> list[Parameter]:
    """The parameters that meet a sum, element by element, on its way to the step's results."""
    size = total.type.element_count if isinstance(total.type, TensorType) else 0
    seen, pending, met = {total}, [total], dict[Parameter, None]()
    while pending:
        for user in pending.pop().users:
            same = isinstance(user.type, TensorType) and user.type.element_count == size
            if user in seen or not same:
                continue
            seen.add(user)
            pending.append(user)
            for operand in user.operands:
                source = operand
                while source.opcode in ("convert", "reshape", "transpose", "copy", GET) and source.operands:
                    source = source.operands[0]
                if isinstance(source, Parameter):
                    met[source] = None
    return list(met)


def _layer_starts(assignment: LayerAssignment, sequence: list[Node]) -> list[int]:
    """The positions in a sequence of forward instructions where layers start.

    Between two expensive instructions a layer ends at the last position that a single array crosses, those that many
    layers read apart. Ranges of one loop are layers of their own, whatever the loop carries.
    """
    position = {node: number for number, node in enumerate(sequence)}
    is_expensive = [node.opcode in HEAVY or bool(called_computations(node)) for node in sequence]
    before = list(accumulate(is_expensive, initial=0))
    crossing = [0] * (len(sequence) + 1)
    for value, users in assignment.value_users().items():
        maker = owner(value)
        if maker not in position:
            continue
        read_at = [position[user] for user in users if user in position]
        last = max(read_at, default=-1)
        if last > position[maker] and not _is_shared([before[number] for number in read_at]):
            crossing[position[maker] + 1] += 1
            crossing[last + 1] -= 1
    starts, is_heavy, count, candidate, family = [0], False, 0, None, None
    for number, node in enumerate(sequence):
        count += crossing[number]
        if number and count == 1 and is_heavy:
            candidate = number
        if is_expensive[number]:
            former, family = family, assignment.family_of(node)
            if candidate is None and family is not None and family == former:
                candidate = number
            if candidate is not None:
                starts.append(candidate)
            is_heavy, candidate = True, None
    return starts


def _is_shared(read_after: Sequence[int]) -> bool:
    """Whether a value is read along many layers, as an encoder's result is by a decoder's layers.

    `read_after` says for each reader how many expensive instructions come before it.
    """
    return len(set(read_after)) >= SHARED_READERS and max(read_after) - min(read_after) >= SHARED_SPAN
