"""Forecasts, instruction by instruction, the collectives that XLA's partitioner emits for a program with given specs.

A planner's tables only cover pairs of instructions; a forecast considers every instruction with the specs of all its
operands: a dot whose operand does not have the spec its strategy requires, reshards shared by several readers, and
all-reduces whose readers all slice them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile

from hloom.distribute.partitioner import (
    DimAxes,
    ShardedArray,
    TracedCollective,
    dot_collectives,
    dot_dimensions,
    reduction_collectives,
    reshard_collectives,
)
from hloom.distribute.planner.cost_model import CollectiveTimes, itemsize_of
from hloom.distribute.planner.problem import Problem, Read
from hloom.distribute.planner.strategies import is_contraction
from hloom.distribute.planner.strategy_costs import contraction_flops, partial_result_collectives, window_share
from hloom.ir import AxisMap, Node, TensorType
from hloom.ops import PRODUCTS
from hloom.sharding import Axes, Spec

ANY_OPERAND_SPECS = (*PRODUCTS, "reduce", "gather")
"""Ops that the partitioner handles with operands in any specs, instead of resharding these first."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The collectives of a program, and the FLOPs of its dots and convolutions on one device."""

    collectives: list[PredictedCollective]
    flops: float

    @property
    def comm_bytes(self) -> float:
        """Bytes that a device sends."""
        return sum(collective.sent for collective in self.collectives)


def forecast(
    problem: Problem, choice: dict[int, int], specs: Mapping[Node, Spec], *, is_marked: bool = False
) -> Forecast:
    """The collectives and FLOPs of a choice whose values have `specs`.

    With `is_marked`, operands of dots have the specs that the choice requires (see `operand_marks`); else XLA
    reads them as they are.
    """
    builder = _Forecast(problem, choice, specs, is_marked)
    for source in problem.clusters.dataflow.phi_inputs:
        if source.value not in source.reader.operands:
            builder.phi_inputs[source.reader].append(source.value)
    for node in problem.clusters.dataflow.nodes:
        builder.visit(node)
    return Forecast(builder.all(), builder.flops)


PHI_INPUT = -1
"""The operand index of a value that a loop or branch takes in a tuple."""


def operand_marks(problem: Problem, choice: dict[int, int], specs: Mapping[Node, Spec]) -> dict[tuple[Node, int], Spec]:
    """The operands of dots whose specs are not those that the choice requires, by reader and index, with those."""
    marks: dict[tuple[Node, int], Spec] = {}
    likely = _Forecast(problem, choice, specs, is_marked=True)
    for node in problem.clusters.dataflow.nodes:
        if node.opcode in PRODUCTS and node in specs and node in problem.clusters.maps:
            for operand_index, operand in enumerate(node.operands):
                wanted = likely.asked(Read(node, operand_index)) if operand in specs else None
                if wanted is not None and wanted != specs[operand]:
                    marks[node, operand_index] = wanted
    return marks


@dataclass(slots=True)
class _Forecast:
    problem: Problem
    choice: dict[int, int]
    specs: Mapping[Node, Spec]
    is_marked: bool = False
    made: dict[Node, list[PredictedCollective]] = field(default_factory=dict)
    moved: list[PredictedCollective] = field(default_factory=list)
    flops: float = 0.0
    seen: set[tuple[Node, tuple]] = field(default_factory=set)
    wanted: dict[Node, list[Spec]] = field(default_factory=lambda: defaultdict(list))
    phi_inputs: dict[Node, list[Node]] = field(default_factory=lambda: defaultdict(list))

    def visit(self, node: Node) -> None:
        """Add the reshards and reductions of a node."""
        for operand_index, operand in enumerate(node.operands):
            self._read(node, operand_index, operand)
        for operand in self.phi_inputs.get(node, ()):
            self._read(node, PHI_INPUT, operand)
        if node in self.specs and node in self.problem.clusters.maps:
            self.made[node] = list(self._made(node))

    def all(self) -> list[PredictedCollective]:
        """All collectives, without those saved because results are only sliced or added."""
        for node in self.made:
            self._cut(node)
        for node in self.problem.clusters.dataflow.nodes:
            if node.opcode == "add" and len(set(node.operands)) == 2:
                self._added(node)
        return [collective for steps in self.made.values() for collective in steps] + self.moved

    def _read(self, node: Node, operand_index: int, operand: Node) -> None:
        """The change of an operand to the spec in which a node reads it."""
        if operand not in self.specs:
            return
        for target in self._targets(node, operand_index, operand):
            self.wanted[operand].append(target)
            steps = reshard_collectives(operand.dims, self.specs[operand], target, self.problem.mesh)
            self._move(node, operand, steps, itemsize_of(operand), f"to {target}")

    def _move(self, node: Node, value: Node, steps: Iterable[TracedCollective], width: float, why: str) -> None:
        """Add the collectives on a value's path between specs, except those it went through already."""
        path: tuple = ()
        for step in steps:
            path = (*path, step.signature)
            if (value, path) not in self.seen:
                self.seen.add((value, path))
                self.moved.append(self._predict(node, value, step, width, why))

    def _targets(self, node: Node, operand_index: int, operand: Node) -> Iterator[Spec]:
        """The specs that a node requires of an operand; none where it reads it in its own spec."""
        takes = node.opcode in ANY_OPERAND_SPECS and not (self.is_marked and node.opcode in PRODUCTS)
        if node in self.specs and (takes or self._common_operand_spec(node) is not None):
            self.wanted[operand].append(self.specs[operand])
            return
        for read in self.problem.reads.get(operand, ()):
            if read.reader is node and read.destination is not None:
                yield self.specs[read.destination]
            elif read.reader is node and read.operand_index == operand_index:
                yield self.asked(read)

    def asked(self, read: Read) -> Spec:
        """The spec that a read requires under the choice, and under the spec that its reader has."""
        clusters, node = self.problem.clusters, read.reader
        cluster = clusters.of(node)
        assert cluster is not None
        strategy = self.problem.strategy(cluster, self.choice)
        own = self.problem.required_spec(read, strategy)
        if node not in self.specs or node not in clusters.maps:
            return own
        result_spec = self.specs[node]
        if result_spec == self.problem.spec_tables.result_spec(node, strategy):
            return own
        return _followed(clusters.maps[node], read.operand_index, own, result_spec)

    def _made(self, node: Node) -> Iterator[PredictedCollective]:
        """What a node does besides moving operands before it starts."""
        axis_map, mesh = self.problem.clusters.maps[node], self.problem.mesh
        if node.opcode in PRODUCTS:
            result_spec = [
                self._sharded_array(value, operand_index, node)
                for operand_index, value in enumerate((*node.operands, node))
            ]
            steps, share = dot_collectives(dot_dimensions(axis_map), *result_spec, mesh)
            self.flops += 2.0 * axis_map.points * share * window_share(node, axis_map) * self.problem.times(node)
            for side, operand in enumerate(node.operands):
                self._move(node, operand, (step for step in steps if step.operand_index == side), 1, "moved for a dot")
            for step in steps:
                if step.operand_index is None:
                    yield self._predict(node, node, step, 1, "combines partial results")
            return
        if node.opcode in ("reduce", "gather") and node.operands[0] in self.specs:
            yield from self._reduced(node, axis_map)
            return
        common = self._common_operand_spec(node)
        if common is not None:
            for step in reshard_collectives(node.dims, common, self.specs[node], mesh):
                yield self._predict(node, node, step, itemsize_of(node), f"{common} -> {self.specs[node]}")
            return
        cluster = self.problem.clusters.of(node)
        assert cluster is not None
        strategy = self.problem.strategy(cluster, self.choice)
        if is_contraction(node):
            flops = contraction_flops(self.problem, cluster, node, dict(strategy.before))
            self.flops += flops * self.problem.times(node)
        for step in partial_result_collectives(self.problem, cluster, strategy, node):
            yield self._predict(node, node, step, itemsize_of(node), "combines partial results")

    def _common_operand_spec(self, node: Node) -> Spec | None:
        """The spec that all operands of an elementwise op have, where it is another than the op's own.

        XLA then computes with that spec, and reshards the result.
        """
        axis_map = self.problem.clusters.maps.get(node)
        if axis_map is None or len(node.operands) < 2 or any(dims != axis_map.results[0] for dims in axis_map.operands):
            return None
        specs = {self.specs[operand] for operand in node.operands if operand in self.specs}
        if len(specs) != 1 or specs == {self.specs[node]}:
            return None
        free = [operand for operand in node.operands if operand not in self.specs]
        (own,) = specs
        is_free = all(
            len(operand.users) == 1 or any(self.specs.get(user) == own for user in operand.users) for operand in free
        )
        return own if is_free else None

    def _sharded_array(self, value: Node, operand_index: int, node: Node) -> ShardedArray:
        """An operand or the result of a dot with its spec; what is computed again has the spec that is required."""
        spec = self.specs.get(value)
        if spec is None or (self.is_marked and value is not node):
            spec = self.asked(Read(node, operand_index))
        return ShardedArray(value.dims, round(itemsize_of(value)), spec.dims)

    def _reduced(self, node: Node, axis_map: AxisMap) -> Iterator[PredictedCollective]:
        """A reduction of an operand, or a look-up in one, in the spec that it has; the result is resharded."""
        operand = self.specs[node.operands[0]].dims
        of_factor = {factors[0]: axes for factors, axes in zip(axis_map.operands[0], operand, strict=True) if factors}
        if node.opcode == "gather" and node.operands[1] in self.specs:
            used = {axis for axes in operand for axis in axes}
            for factors, axes in zip(axis_map.operands[1], self.specs[node.operands[1]].dims, strict=True):
                if factors and not used & set(axes):
                    of_factor.setdefault(factors[0], axes)
        natural: DimAxes = tuple(of_factor.get(factors[0], ()) if factors else () for factors in axis_map.results[0])
        kept = {factor for factors in axis_map.results[0] for factor in factors}
        partial: tuple[Axes, ...] = tuple(axes for factor, axes in of_factor.items() if axes and factor not in kept)
        result, mesh = self.specs[node].dims, self.problem.mesh
        for step in reduction_collectives(node.dims, partial, operand, natural, result, mesh):
            yield self._predict(node, node, step, itemsize_of(node), "combines partial results")

    def _predict(self, node: Node, value: Node, step: TracedCollective, width: float, why: str) -> PredictedCollective:
        return PredictedCollective(node, value, step, width, why, self.problem.times(node))

    def _cut(self, node: Node) -> None:
        """An all-reduce that all readers slice is partly a reduce-scatter."""
        steps = self.made[node]
        if not steps or steps[-1].step.opcode != "all-reduce" or not self.wanted[node]:
            return
        elements = math.prod(self.problem.mesh.local_dims(node.dims, self.specs[node]))
        largest = max(self._first(node, spec) for spec in self.wanted[node])
        if largest == elements:
            return
        last = steps.pop()
        scattered = math.gcd(last.step.group_size, max(1, round(elements / largest)))
        rest = last.step.group_size // scattered
        if scattered > 1:
            steps.append(replace(last, step=replace(last.step, opcode="reduce-scatter", group_size=scattered)))
        if rest > 1:
            left = replace(last.step, group_size=rest, elements=last.step.elements // scattered)
            steps.append(replace(last, step=left))

    def _first(self, value: Node, target: Spec) -> int:
        """The elements that are left of a value after it was cut, which is what a change of spec may start with."""
        own, mesh, dims = self.specs[value], self.problem.mesh, value.dims
        steps = reshard_collectives(dims, own, target, mesh)
        elements = math.prod(mesh.local_dims(dims, own))
        if not steps:
            left = math.prod(mesh.local_dims(dims, target))
            is_padded = left * mesh.count(target.axes) != elements * mesh.count(own.axes)
            return elements if is_padded else left
        return min(elements, steps[0].elements) if steps[0].opcode in ("all-to-all", "collective-permute") else elements

    def _added(self, node: Node) -> None:
        """Two all-reduces that are only added are one."""
        first, second = (self.made.get(operand, []) for operand in node.operands)
        if not first or not second or any(len(operand.users) != 1 for operand in node.operands):
            return
        kinds = [_combining(steps) for steps in (first, second)]
        if kinds[0] and kinds[0] == kinds[1]:
            del second[-len(kinds[1]) :]


def _combining(steps: list[PredictedCollective]) -> list[tuple[str, int, float]]:
    """The collectives that combine partial results, which nothing follows."""
    kinds = ("all-reduce", "reduce-scatter")
    collectives = list(takewhile(lambda collective: collective.step.opcode in kinds, reversed(steps)))
    return [(collective.step.opcode, collective.step.group_size, collective.sent) for collective in collectives]


def _followed(axis_map: AxisMap, operand_index: int, own: Spec, result_spec: Spec) -> Spec:
    """The spec of an operand after its node was given another spec."""
    axes = {factors[0]: split for factors, split in zip(axis_map.results[0], result_spec.dims, strict=True) if factors}
    pairs = zip(axis_map.operands[operand_index], own.dims, strict=True)
    return Spec(tuple(axes.get(factors[0], split) if factors else split for factors, split in pairs))


@dataclass(frozen=True, slots=True)
class PredictedCollective:
    """One collective: the instruction that causes it, the value that it moves, why, and how often."""

    instruction: Node
    value: Node
    step: TracedCollective
    width: float
    why: str
    times: float = 1.0

    @property
    def sent(self) -> float:
        """Bytes that a device sends."""
        return self.step.elements_sent * self.width * self.times

    def seconds(self, collectives: CollectiveTimes) -> float:
        """Seconds of all runs."""
        return collectives.seconds(self.step, self.width) * self.times


def seconds_by_origin(predicted: Iterable[PredictedCollective], collectives: CollectiveTimes) -> dict[str, float]:
    """The seconds of collectives by the instruction that causes them."""
    by_origin: dict[str, float] = defaultdict(float)
    for collective in predicted:
        by_origin[collective.instruction.name] += collective.seconds(collectives)
    return dict(by_origin)


def predicted_collectives(problem: Problem, choice: dict[int, int]) -> list[PredictedCollective]:
    """The collectives of a choice, in the order of the instructions."""
    collectives: list[PredictedCollective] = []
    for node in problem.clusters.dataflow.nodes:
        collectives += _combined(problem, choice, node)
        collectives += _moved(problem, choice, node)
    return collectives


def _combined(problem: Problem, choice: dict[int, int], node: Node) -> Iterator[PredictedCollective]:
    """The partial results that an instruction leaves."""
    cluster = problem.clusters.of(node)
    if cluster is None or node not in problem.clusters.maps or not isinstance(node.type, TensorType):
        return
    strategy = problem.strategy(cluster, choice)
    for step in partial_result_collectives(problem, cluster, strategy, node):
        yield PredictedCollective(node, node, step, itemsize_of(node), "combines partial results", problem.times(node))


def _moved(problem: Problem, choice: dict[int, int], value: Node) -> Iterator[PredictedCollective]:
    """The changes of spec that readers of a value ask for, each once."""
    if not isinstance(value.type, TensorType) or value not in problem.reads:
        return
    own = problem.clusters.of(value)
    assert own is not None
    source = problem.spec_tables.result_spec(value, problem.strategy(own, choice))
    seen: set[Spec] = set()
    for read in problem.reads[value]:
        cluster = problem.reading_cluster(read)
        assert cluster is not None
        target = problem.required_spec(read, problem.strategy(cluster, choice))
        if target not in seen:
            seen.add(target)
            for step in reshard_collectives(value.type.dims, source, target, problem.mesh):
                yield PredictedCollective(
                    read.reader, value, step, itemsize_of(value), f"{source} -> {target}", problem.times(value)
                )
