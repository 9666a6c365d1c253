"""Describes a plan in the terms of people who write plans by hand: "FSDP on data, Megatron on model"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from hloom.distribute.planner.experts.logical_axes import LogicalAxes, LogicalAxis, bytes_of
from hloom.distribute.planner.experts.roles import ProgramRoles
from hloom.distribute.planner.plan import ENTRY, Plan
from hloom.distribute.propagation import DataflowGraph
from hloom.ir import Module, Node
from hloom.passes import canonicalize
from hloom.sharding import Spec

LEAST = 0.1
"""The minimum share of bytes for something to be mentioned."""
MOSTLY = 0.5
"""Weights and states are sharded where so large a share of their bytes is."""

BATCH, MODEL, SEQUENCE, EXPERT = "batch", "model", "sequence", "expert"


def describe(module: Module, plan: Plan) -> str:
    """Names for what a plan does along each axis of its mesh.

    A plan that names no instructions is described by its parameters alone; the partitioner may complete it differently.
    """
    axes = tuple(name for name, size in zip(plan.mesh.names, plan.mesh.sizes, strict=True) if size > 1)
    if not axes:
        return "one device"
    dataflow = DataflowGraph(canonicalize(module))
    roles = ProgramRoles(LogicalAxes(dataflow, min(plan.mesh.size(axis) for axis in axes)))
    named = _Named(roles, plan)
    axes_of: dict[str, list[str]] = {}
    for axis in axes:
        for phrase in named.along(axis) or ["replicated"]:
            axes_of.setdefault(phrase, []).append(axis)
    return ", ".join(f"{phrase} on {','.join(own_axes)}" for phrase, own_axes in axes_of.items())


class _Named:
    """A plan's specs, weighed by what they are about."""

    def __init__(self, roles: ProgramRoles, plan: Plan) -> None:
        self.roles = roles
        self.plan = plan
        self.dataflow = roles.dataflow
        self.kinds: dict[int, str] = {}
        self._mark(SEQUENCE, roles.sequences)
        self._mark(MODEL, roles.model)
        self._mark(EXPERT, roles.experts)
        self._mark(BATCH, [roles.batch] if roles.batch is not None else [])
        self._experts = {logical_axis.number for logical_axis in roles.experts}
        self.parameters = {
            leaf: plan.parameters.get(node.number)
            for node in self.dataflow.module.entry.parameters
            for leaf in self.dataflow.given(node)
        }
        self.split: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for leaf, spec in self._activations():
            for dimension, own in enumerate(spec.dims):
                for axis in own:
                    self.split[axis][self._kind(leaf, dimension)] += bytes_of(self.dataflow.leaves[leaf].type)

    def along(self, axis: str) -> list[str]:
        """What is done along an axis."""
        return [*self._of_data(axis), *self._of_weights(axis), *self._of_tables(axis)]

    def _of_data(self, axis: str) -> Iterator[str]:
        if self._is_sharded(axis):
            yield "FSDP"
        elif BATCH in self._data_kinds(axis):
            yield "data parallel"
        elif self._computes(axis, BATCH):
            yield "batch split between blocks"
        states = [leaf for leaf in self.roles.states if not self._experts & set(self.roles.logical_axes.along(leaf))]
        if self._data_kinds(axis) and not self._is_sharded(axis) and self._share(states, axis) >= MOSTLY:
            yield "ZeRO-1"
        if self._computes(axis, SEQUENCE) or SEQUENCE in self._data_kinds(axis):
            yield "sequence split"

    def _of_weights(self, axis: str) -> Iterator[str]:
        weights = [leaf for leaf in self.roles.weights if leaf not in self.roles.tables]
        own = {leaf: self._kinds(leaf, axis) for leaf in weights if self._kinds(leaf, axis)}
        if any(EXPERT in kinds for kinds in own.values()):
            yield "expert parallel"
        if not own or (self._data_kinds(axis) & {BATCH, SEQUENCE} and not self._computes(axis, MODEL)):
            return
        rows = {leaf for leaf in own if self._numbers(leaf, axis) & self.roles.rows}
        if self._share([leaf for leaf in own if MODEL in own[leaf] and leaf not in rows], axis) > 0:
            yield "Megatron"
        elif any(EXPERT not in kinds for leaf, kinds in own.items() if leaf not in rows):
            yield "weights split"
        if rows:
            yield "vocabulary split"

    def _of_tables(self, axis: str) -> Iterator[str]:
        if self._is_sharded(axis):
            return
        split = [self._numbers(leaf, axis) for leaf in self.roles.tables]
        if any(numbers & self.roles.rows for numbers in split):
            yield "tables by rows"
        if any(numbers - self.roles.rows for numbers in split):
            yield "tables by columns"

    def _data_kinds(self, axis: str) -> set[str]:
        """What an axis splits of the parameters that have a batch."""
        batch = self.roles.batch.leaves if self.roles.batch is not None else frozenset()
        return {role for leaf in self.parameters if leaf in batch for role in self._kinds(leaf, axis)}

    def _is_sharded(self, axis: str) -> bool:
        """Whether data and most weights, tables and experts apart, are split along an axis, and no work on weights."""
        own = (leaf for leaf in self.roles.weights if leaf not in self.roles.tables)
        weights = [leaf for leaf in own if not self._experts & set(self.roles.logical_axes.along(leaf))]
        is_data = bool(self._data_kinds(axis) & {BATCH, SEQUENCE})
        return is_data and not self._computes(axis, MODEL) and self._share(weights, axis) >= MOSTLY

    def _computes(self, axis: str, role: str) -> bool:
        """Whether the values that the plan names inside are split so along an axis."""
        split = self.split[axis]
        return split[role] > LEAST * max(sum(split.values()), 1.0)

    def _share(self, leaves: Iterable[int], axis: str) -> float:
        """Of some parameters' bytes the share that is split along an axis."""
        sizes = {leaf: bytes_of(self.dataflow.leaves[leaf].type) for leaf in leaves}
        own = sum(size for leaf, size in sizes.items() if self._numbers(leaf, axis))
        return own / (sum(sizes.values()) or 1.0)

    def _kinds(self, leaf: int, axis: str) -> set[str]:
        return {self.kinds.get(number, "") for number in self._numbers(leaf, axis)}

    def _numbers(self, leaf: int, axis: str) -> set[int]:
        """The logical axes of a parameter that an axis splits."""
        spec = self.parameters.get(leaf)
        if spec is None:
            return set()
        return {self.roles.logical_axes.of(leaf, dim) for dim, own in enumerate(spec.dims) if axis in own}

    def _kind(self, leaf: int, dimension: int) -> str:
        return self.kinds.get(self.roles.logical_axes.of(leaf, dimension), "")

    def _mark(self, role: str, logical_axes: Iterable[LogicalAxis]) -> None:
        for logical_axis in logical_axes:
            self.kinds[logical_axis.number] = role

    def _activations(self) -> Iterator[tuple[int, Spec]]:
        """The values with a batch that the plan names inside, once each."""
        batch = self.roles.batch.leaves if self.roles.batch is not None else frozenset()
        seen: set[int] = set()
        for node in self.dataflow.values:
            spec, leaves = self._spec_of(node), self.dataflow.given(node)
            if isinstance(spec, Spec) and len(leaves) == 1 and leaves[0] in batch and leaves[0] not in seen:
                seen.add(leaves[0])
                yield leaves[0], spec

    def _spec_of(self, node: Node) -> object:
        if node.graph is not self.dataflow.module.entry:
            return self.plan.computations.get(node.graph.name, {}).get(node.name)
        return self.plan.instructions.get(node.name) or self.plan.computations.get(ENTRY, {}).get(node.name)
