"""The roles of a program's logical axes and parameters: batch, weights, optimizer states, tables, experts."""

from __future__ import annotations

from functools import cached_property

from hloom.analysis import flow_of
from hloom.distribute.planner.entry_results import aliases
from hloom.distribute.planner.experts.logical_axes import CONTRACTIONS, LogicalAxes, LogicalAxis, bytes_of
from hloom.distribute.propagation import DataflowGraph, Equation
from hloom.ir import FactorKind, Node, Trait
from hloom.ops import with_trait

LEAST_WORK = 0.005
"""The share of all work below which nobody splits a weight over the model's axis: routers, heads of one number."""
LEAST_TABLES = 0.1
"""The share of all weights that tables are at least, if plans are about them."""
LEAST_CARRIED = 0.5
"""The minimum bytes carried by a sequence axis, as a share of those of the batch."""
READING = CONTRACTIONS | {"gather"}
RENAMING = (with_trait(Trait.REINDEXES) - {"broadcast"}) | {"convert", "dynamic-slice"}
"""What passes an array on as it is, in parts, or in another order, beside control flow and what forwards operands."""


class ProgramRoles:
    """The usual names for a program's logical axes and parameters; computed on demand."""

    def __init__(self, logical_axes: LogicalAxes) -> None:
        self.logical_axes = logical_axes
        self.dataflow: DataflowGraph = logical_axes.dataflow

    @cached_property
    def batch(self) -> LogicalAxis | None:
        """The logical axis of the batch; None if no input has one.

        It divides the most work and the most computed values, and occurs in few parameters.
        """
        every = self.logical_axes.all.values()
        possible = [axis for axis in every if not axis.is_moved and axis.is_single and axis.leaves & self._inputs]
        return max(possible, key=lambda axis: (round(self._likeness(axis), 6), -axis.number), default=None)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The parameters that contractions or gathers read, directly or through computed values."""
        return tuple(leaf for leaf in self._stored if leaf in self._read)

    @cached_property
    def states(self) -> tuple[int, ...]:
        """The parameters that only updates read, as an optimizer's moments are."""
        return tuple(leaf for leaf in self._stored if leaf not in self._read)

    @cached_property
    def tables(self) -> tuple[int, ...]:
        """The weights that are gathered from and that no contraction reads."""
        gathered = {equation.leaves[0] for equation in self.dataflow.equations if equation.node.opcode == "gather"}
        return tuple(
            leaf for leaf in self.weights if (same := self._renamed(leaf)) & gathered and not same & self._contracted
        )

    @property
    def has_large_tables(self) -> bool:
        """Whether tables are a good part of the weights."""
        sizes = {leaf: bytes_of(self.dataflow.leaves[leaf].type) for leaf in self.weights}
        return sum(sizes[leaf] for leaf in self.tables) > LEAST_TABLES * sum(sizes.values())

    @cached_property
    def model(self) -> tuple[LogicalAxis, ...]:
        """The logical axes that tensor parallelism splits, none of which is in a value with another one.

        Axes of weights that need the least communication for the work they divide come first, as in Megatron: heads,
        the inner dimension of an MLP, the vocabulary.
        """
        weights = set(self.weights) - set(self.tables)
        possible = [
            axis
            for axis in self.logical_axes.all.values()
            if axis is not self.batch and not axis.is_moved and axis.is_single and axis.leaves & weights
            if axis.work > LEAST_WORK * self._most[0]
        ]
        chosen: list[LogicalAxis] = []
        taken: set[int] = set()
        for logical_axis in sorted(possible, key=lambda axis: (axis.sent / axis.work, axis.number)):
            if not logical_axis.leaves & taken:
                chosen.append(logical_axis)
                taken |= logical_axis.leaves
        return tuple(chosen)

    @cached_property
    def sequences(self) -> tuple[LogicalAxis, ...]:
        """The logical axes of data that no weight has that is contracted or looked up; those that carry most first."""
        if self.batch is None:
            return ()
        data = self.batch.leaves & self.logical_axes.parameters
        weighed = {number for leaf in (*self._weighed, *self.tables) for number in self.logical_axes.along(leaf)}
        axes = [
            axis
            for axis in self.logical_axes.all.values()
            if axis is not self.batch and axis.number not in weighed and not axis.is_moved
            if axis.leaves & data and axis.carried > LEAST_CARRIED * self.batch.carried
        ]
        return tuple(sorted(axes, key=lambda axis: (-axis.carried, axis.number)))

    @cached_property
    def experts(self) -> tuple[LogicalAxis, ...]:
        """The logical axes that choose among weights: contractions with a weight have them as a batch."""
        numbers = {
            number for equation in self._contractions for number in self._batched(equation)
        } & self.logical_axes.all.keys()
        return tuple(self.logical_axes.all[number] for number in sorted(numbers))

    @cached_property
    def dispatched(self) -> frozenset[int]:
        """The values that experts read and compute, and values computed from those alone; excludes the routing."""
        experts = {axis.number for axis in self.experts}
        values = {
            leaf for equation in self._contractions if self._batched(equation) & experts for leaf in equation.leaves
        }
        waiting = list(values)
        while waiting:
            leaf = waiting.pop()
            rank = len(self.dataflow.leaves[leaf].dims)
            for number, _ in self.dataflow.equations_of[leaf]:
                equation = self.dataflow.equations[number]
                same_rank = {
                    value for value in equation.leaves if len(self.dataflow.leaves[value].dims) == rank
                } - values
                if equation.rule.is_cheap:
                    further = {value for value in same_rank if experts & set(self.logical_axes.along(value))}
                    values |= further
                    waiting += further
        return frozenset(values)

    @cached_property
    def rows(self) -> frozenset[int]:
        """The logical axes of what tables are looked up by, by number."""
        gathering = [equation for equation in self.dataflow.equations if equation.node.opcode == "gather"]
        return frozenset(
            self.logical_axes.of(equation.leaves[0], use.dimension)
            for equation in gathering
            for factor, places in zip(equation.rule.factors, equation.rule.factor_dims, strict=True)
            for use in places
            if use.slot == 0 and factor.kind is FactorKind.INDEXED
        )

    @cached_property
    def _stored(self) -> tuple[int, ...]:
        """The parameters that are not data: those without a batch that a result replaces or that are read."""
        batch = self.batch.leaves if self.batch is not None else frozenset()
        parameters = sorted(self.logical_axes.parameters - batch)
        return tuple(leaf for leaf in parameters if not self._held or leaf in self._held or leaf in self._read)

    @cached_property
    def _read(self) -> frozenset[int]:
        """The values from which a contraction or gather can be reached."""
        reading = (equation for equation in self.dataflow.equations if equation.node.opcode in READING)
        values = {leaf for equation in reading for leaf in equation.leaves[: equation.rule.results]}
        waiting = list(values)
        while waiting:
            for number, slot in self.dataflow.equations_of[waiting.pop()]:
                equation = self.dataflow.equations[number]
                if slot >= equation.rule.results:
                    before = set(equation.leaves[: equation.rule.results]) - values
                    values |= before
                    waiting += before
        return frozenset(values)

    @cached_property
    def _contractions(self) -> list[Equation]:
        return [equation for equation in self.dataflow.equations if equation.node.opcode in CONTRACTIONS]

    @cached_property
    def _contracted(self) -> frozenset[int]:
        """What contractions read."""
        return frozenset(leaf for equation in self._contractions for leaf in equation.leaves[: equation.rule.results])

    @cached_property
    def _weighed(self) -> frozenset[int]:
        """The weights as contractions read them."""
        return frozenset(weight for leaf in self.weights for weight in self._renamed(leaf) & self._contracted)

    def _batched(self, equation: Equation) -> set[int]:
        """The logical axes that all operands and results of a contraction with a weight have, the batch apart."""
        if not self._weighed & set(equation.leaves):
            return set()
        slots, factor_dims = set(range(len(equation.leaves))), equation.rule.factor_dims
        known = self.logical_axes.within(equation)
        logical_axes = {
            number for factor, number in known.items() if {use.slot for use in factor_dims[factor]} == slots
        }
        return logical_axes - ({self.batch.number} if self.batch is not None else set())

    @cached_property
    def _held(self) -> frozenset[int]:
        """The parameters whose buffers a result takes."""
        numbers = {alias.parameter for alias in aliases(self.dataflow.module)}
        parameters = self.dataflow.module.entry.parameters
        return frozenset(leaf for node in parameters if node.number in numbers for leaf in self.dataflow.given(node))

    @property
    def _inputs(self) -> frozenset[int]:
        """The values that are given for every run: all parameters where none is donated."""
        return self.logical_axes.parameters - self._held

    @cached_property
    def _most(self) -> tuple[float, ...]:
        """The most that any logical axis works and carries, and the most parameters that one is in."""
        every = [_features(axis, self.logical_axes.parameters) for axis in self.logical_axes.all.values()]
        return tuple(max(values) or 1.0 for values in zip(*every, strict=True)) if every else (1.0,) * 3

    def _likeness(self, logical_axis: LogicalAxis) -> float:
        """How much a logical axis looks like the batch: in all computed values, and in few inputs."""
        features = _features(logical_axis, self.logical_axes.parameters)
        work, carried, count = (own / most for own, most in zip(features, self._most, strict=True))
        return work + carried - count

    def _renamed(self, leaf: int) -> set[int]:
        """A value, and what passes it on under another name, in parts, or in another order."""
        values = {leaf}
        waiting = [leaf]
        while waiting:
            for number, slot in self.dataflow.equations_of[waiting.pop()]:
                equation = self.dataflow.equations[number]
                if not _renames(equation.node) or slot >= equation.rule.results:
                    continue
                results = equation.leaves[equation.rule.results :]
                made = results[min(slot, len(results) - 1)]  # a barrier passes several on
                if made not in values:
                    values.add(made)
                    waiting.append(made)
        return values


def _renames(node: Node) -> bool:
    flow = flow_of(node)
    return node.opcode in RENAMING or (flow is not None and not flow.is_embedded)


def _features(logical_axis: LogicalAxis, parameters: frozenset[int]) -> tuple[float, float, float]:
    return logical_axis.work, logical_axis.carried, float(len(logical_axis.leaves & parameters))
