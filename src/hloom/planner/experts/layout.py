"""The specs of all values where each mesh axis splits some logical axes, the first of them that a value has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hloom.ir import Module, Node, Parameter
from hloom.planner.entry_results import aliases, output_at
from hloom.planner.experts.logical_axes import LogicalAxes, LogicalAxis
from hloom.planner.plan import ENTRY, Plan
from hloom.planner.strategies import UNEVEN_SHARE
from hloom.sharding import Axes, Mesh, Spec

Claim = Mapping[int, int]
"""By value the dimension that an axis takes."""


def claim(logical_axes: Iterable[LogicalAxis], apart: frozenset[int] = frozenset()) -> Claim:
    """What logical axes take, those before first; some values apart."""
    dims: dict[int, int] = {}
    for logical_axis in logical_axes:
        for leaf, dimension in logical_axis.dimensions.items():
            if leaf not in apart:
                dims.setdefault(leaf, dimension)
    return dims


@dataclass
class PlanLayout:
    """What each axis takes: of several claims the first that is made on a value.

    `stored` says over which axes some parameters are split beside, wherever a dimension allows it, as in ZeRO-1;
    results of the same logical axes are split equally. `interior` are the values that the plan names.
    """

    logical_axes: LogicalAxes
    mesh: Mesh
    claims: dict[str, list[Claim]] = field(default_factory=dict)
    stored: dict[int, Axes] = field(default_factory=dict)
    interior: frozenset[int] = frozenset()

    def spec(self, leaf: int) -> Spec:
        """The spec of a value."""
        sizes = self.logical_axes.dataflow.leaves[leaf].dims
        dims: list[Axes] = [()] * len(sizes)
        for axis in self.mesh.names:
            for claim in self.claims.get(axis, ()):
                dimension = claim.get(leaf)
                if dimension is not None and self._fits(sizes[dimension], (*dims[dimension], axis)):
                    dims[dimension] = (*dims[dimension], axis)
                    break
        self._store(leaf, dims, self.stored.get(leaf, ()))
        return Spec(tuple(dims))

    @property
    def keeps_promise(self) -> bool:
        """Whether any dimension could be split of what was to be stored in parts."""
        return not self.stored or any(self.spec(leaf) != replace(self, stored={}).spec(leaf) for leaf in self.stored)

    def plan(self, module: Module, name: str) -> Plan:
        """The plan for a module, whose normal form is wired."""
        dataflow, plan = self.logical_axes.dataflow, Plan(self.mesh, name=name)
        entry = dataflow.module.entry
        for node in entry.parameters:
            for leaf in dataflow.given(node):
                if (spec := self.spec(leaf)).axes:
                    plan.parameters[node.number] = spec
        self._put_results(plan)
        for node, leaves in dataflow.values.items() if self.interior else ():
            if len(leaves) == 1 and leaves[0] in self.interior and _is_named(node, entry.output):
                self._put(plan, node, self.spec(leaves[0]), module)
        return plan

    def _put(self, plan: Plan, node: Node, spec: Spec, module: Module) -> None:
        graph = node.graph
        if graph is not self.logical_axes.dataflow.module.entry:
            plan.computations.setdefault(graph.name, {})[node.name] = spec
        elif node.name in module.entry:
            plan.instructions[node.name] = spec
        else:
            plan.computations.setdefault(ENTRY, {})[node.name] = spec

    def _put_results(self, plan: Plan) -> None:
        """Results that take no parameter's buffer are split as their logical axes, or as a stored parameter."""
        dataflow = self.logical_axes.dataflow
        root = dataflow.module.entry.output
        if root is None:
            return
        aliased = {alias.output_index for alias in aliases(dataflow.module)}
        stored_axes = {self.logical_axes.along(leaf): axes for leaf, axes in self.stored.items()}
        for index in range(len(root.inputs) if root.opcode == "tuple" else 1):
            shape_index = (index,) if root.opcode == "tuple" else ()
            value = output_at(root, shape_index)
            if shape_index in aliased or value is None:
                continue
            (leaf,) = dataflow.given(value)
            dims = list(self.spec(leaf).dims)
            self._store(leaf, dims, stored_axes.get(self.logical_axes.along(leaf), ()))
            if any(dims):
                plan.outputs[index] = Spec(tuple(dims))

    def _fits(self, size: int, axes: Axes) -> bool:
        count = self.mesh.count(axes)
        return size % count == 0 or size >= UNEVEN_SHARE * count

    def _store(self, leaf: int, dims: list[Axes], axes: Axes) -> None:
        """Split the largest dimension that takes all axes evenly: one that nothing splits yet, and no loop slices."""
        sizes = self.logical_axes.dataflow.leaves[leaf].dims
        left = tuple(axis for axis in axes if not any(axis in axis_dims for axis_dims in dims))
        possible = [dim for dim in range(len(sizes)) if left and (leaf, dim) not in self.logical_axes.moved]
        for dim in sorted(possible, key=lambda dim: (len(dims[dim]), -sizes[dim])):
            if sizes[dim] % self.mesh.count((*dims[dim], *left)) == 0:
                dims[dim] = (*dims[dim], *left)
                return


def _is_named(node: Node, root: Node | None) -> bool:
    return node is not root and not isinstance(node, Parameter) and bool(getattr(node.type, "dims", ()))
