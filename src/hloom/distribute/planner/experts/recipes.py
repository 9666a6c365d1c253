"""The plans that people write by hand, as layouts of a program's logical axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from hloom.distribute.planner.entry_results import aliases, output_at
from hloom.distribute.planner.experts.logical_axes import CONTRACTIONS, LogicalAxes, LogicalAxis, bytes_of
from hloom.distribute.planner.experts.roles import RENAMING, ProgramRoles
from hloom.distribute.planner.plan import ENTRY, Plan
from hloom.distribute.planner.strategies import UNEVEN_SHARE
from hloom.distribute.propagation import DataflowGraph
from hloom.ir import Module, Node, Parameter
from hloom.passes import canonicalize
from hloom.sharding import Axes, Mesh, Spec

MOST = 14
"""The maximum number of plans: each may be compiled."""
LARGE = 1 / 8
"""The minimum size of activations that are named between blocks, as a share of the largest value there."""


def experts(module: Module, mesh: Mesh, most: int = MOST) -> list[Plan]:
    """Plans that a person would write for a module, each with its name, the simplest first.

    Omits plans that the program does not permit, and equivalent ones.

    >>> from hloom.formats.hlo import parse
    >>> module = parse('''ENTRY e { x = f32[64,32] parameter(0) w = f32[32,128] parameter(1)
    ...   h = f32[64,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ...   ROOT y = f32[64,128] tanh(h) }''')
    >>> for plan in experts(module, Mesh.parse("x=8"))[:2]:
    ...     print(plan.name, *plan.parameters.values())
    data parallel on x [x,-]
    FSDP on x [x,-] [-,x]
    """
    every = tuple(name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1)
    if not every:
        return [Plan(mesh, name="one device")]
    plans: dict[str, Plan] = {}
    for layout, name in Recipes(module, mesh).all():
        plan = layout.plan(module, name)
        if plan.parameters and layout.keeps_promise:
            plans.setdefault(str(plan.to_json()), plan)
        if len(plans) == most:
            break
    return list(plans.values())


class Recipes:
    """Layouts for one module on one mesh."""

    def __init__(self, module: Module, mesh: Mesh) -> None:
        self.mesh = mesh
        self.every = tuple(name for name, size in zip(mesh.names, mesh.sizes, strict=True) if size > 1)
        self.logical_axes = LogicalAxes(
            DataflowGraph(canonicalize(module)), min(size for size in mesh.sizes if size > 1)
        )
        self.roles = ProgramRoles(self.logical_axes)

    def all(self) -> Iterator[tuple[PlanLayout, str]]:
        """The layouts that make sense, with their names, the simplest first."""
        yield from self._of_data()
        if self.roles.experts:
            yield from self._of_experts()
        if self.roles.has_large_tables:
            yield from self._of_tables()
        yield from self._of_models()

    def _of_data(self) -> Iterator[tuple[PlanLayout, str]]:
        """Data parallelism, and what is also stored in shards; with all activations named, weights are gathered."""
        if self.roles.batch is None:
            return
        name, named = self._spread(self.every), activations(self.roles)
        sharded, zero = self._spread(self.every, "FSDP"), f"{name}, ZeRO-1 on {','.join(self.every)}"
        yield self._data(self.every), name
        yield self._fully_sharded(self._data(self.every)), sharded
        yield self._fully_sharded(self._data(self.every, named)), f"{sharded}, weights gathered"
        yield self._zero(self._data(self.every)), zero
        if self.logical_axes.moved:
            yield self._zero(self._data(self.every, named)), f"{zero}, weights gathered"

    def _of_experts(self) -> Iterator[tuple[PlanLayout, str]]:
        """Each axis, or all, holds different experts: what is dispatched moves between devices."""
        named = activations(self.roles) | self.roles.dispatched
        for model in _parts(self.every):
            layout = self._data(self.every, named)
            for axis in model:
                layout.claims[axis].insert(0, self._expert_claim)
            name = f"expert parallel on {','.join(model)}"
            yield layout, f"{self._spread(self.every)}, {name}"
            if model == self.every:
                yield self._fully_sharded(replace(layout)), f"{self._spread(self.every, 'FSDP')}, {name}"

    def _of_tables(self) -> Iterator[tuple[PlanLayout, str]]:
        """Data parallel with the tables split by rows or by columns."""
        for split in _parts(self.every):
            for word in ("columns", "rows"):
                layout = self._data(self.every)
                for axis in split:
                    layout.claims[axis].insert(0, self._table_claim(is_by_rows=word == "rows"))
                yield layout, f"{self._spread(self.every)}, tables by {word} on {','.join(split)}"

    def _of_models(self) -> Iterator[tuple[PlanLayout, str]]:
        """Tensor parallelism on one axis or on all, data on the others: for each split first the plain plan."""
        if not self.roles.model:
            return
        splits = [(tuple(axis for axis in self.every if axis not in model), model) for model in _parts(self.every)]
        for data, model in splits:
            yield self._model(data, model), self._called(data, model)
        for data, model in splits if self.roles.batch is not None else ():
            what = "sequence split" if self.roles.sequences else "batch split between blocks"
            yield self._sequence(data, model), f"{self._called(data, model)}, {what} on {','.join(model)}"
        for data, model in splits:
            if data and self.roles.batch is not None:
                zero = self._zero(self._model(data, model))
                yield zero, f"{self._called(data, model)}, ZeRO-1 on {','.join(data)}"
                yield self._fully_sharded(self._model(data, model)), self._called(data, model, "FSDP")

    def _called(self, data: Axes, model: Axes, word: str = "data parallel") -> str:
        return ", ".join([*([self._spread(data, word)] if data else []), f"Megatron on {','.join(model)}"])

    def _spread(self, axes: Axes, word: str = "data parallel") -> str:
        """What data parallelism over some axes comes to."""
        taken = self._taken(axes)
        left = tuple(axis for axis in axes if axis not in taken)
        if not left or not taken:
            return f"{word} on {','.join(axes)}"
        rest = [f"sequence split on {','.join(left)}"] if self.roles.sequences else []
        return ", ".join([f"{word} on {','.join(axes if word == 'FSDP' else taken)}", *rest])

    def _data(self, axes: Axes, named: frozenset[int] = frozenset()) -> PlanLayout:
        """The batch split by the axes that its size allows, by the others the sequence, if there is one."""
        taken, batch = self._taken(axes), claim([self.roles.batch] if self.roles.batch is not None else [])
        rest = {leaf: dim for leaf, dim in claim(self.roles.sequences).items() if leaf in batch}
        claims = {axis: [batch if axis in taken else rest] for axis in axes}
        return PlanLayout(self.logical_axes, self.mesh, claims, interior=named)

    def _taken(self, axes: Axes) -> Axes:
        """The axes that split the batch together."""
        taken: Axes = ()
        for axis in axes:
            if self.roles.batch is not None and self.roles.batch.fits(self.mesh.count((*taken, axis))):
                taken = (*taken, axis)
        return taken

    def _model(self, data: Axes, model: Axes) -> PlanLayout:
        layout = self._data(data)
        layout.claims.update({axis: [self._model_claim] for axis in model})
        layout.interior = self._between
        return layout

    def _sequence(self, data: Axes, model: Axes) -> PlanLayout:
        """Between blocks the model's axes split the sequence, or the batch where there is none."""
        layout = self._model(data, model)
        for axis in model:
            layout.claims[axis].append(self._sequence_claim)
        return layout

    def _zero(self, layout: PlanLayout) -> PlanLayout:
        layout.stored = dict.fromkeys(self.roles.states, self._data_axes(layout))
        return layout

    def _fully_sharded(self, layout: PlanLayout) -> PlanLayout:
        layout.stored = dict.fromkeys((*self.roles.weights, *self.roles.states), self._data_axes(layout))
        return layout

    def _data_axes(self, layout: PlanLayout) -> Axes:
        return tuple(axis for axis in self.every if self._model_claim not in layout.claims.get(axis, ()))

    @cached_property
    def _model_claim(self) -> Claim:
        return claim(self.roles.model)

    @cached_property
    def _expert_claim(self) -> Claim:
        dispatched = self.roles.dispatched
        return {leaf: dim for leaf, dim in claim(self.roles.experts).items() if leaf in dispatched}

    @cached_property
    def _sequence_claim(self) -> Claim:
        """Parameters apart: data arrive as the batch splits them."""
        batch = (self.roles.batch,) if self.roles.batch is not None else ()
        return claim(self.roles.sequences or batch, self.logical_axes.parameters)

    def _table_claim(self, *, is_by_rows: bool) -> Claim:
        dims: dict[int, int] = {}
        for leaf in self.roles.tables:
            for dim, number in enumerate(self.logical_axes.along(leaf)):
                if (number in self.roles.rows) == is_by_rows:
                    dims.setdefault(leaf, dim)
        return dims

    @cached_property
    def _between(self) -> frozenset[int]:
        return between_blocks(self.roles, self.roles.model)


def _parts(axes: Axes) -> list[Axes]:
    """All axes together, and each alone: the minor ones first, as their links are the fastest."""
    return [axes, *((axis,) for axis in reversed(axes) if len(axes) > 1)]


def activations(roles: ProgramRoles) -> frozenset[int]:
    """The values that have the batch and no dimension from nowhere: each use may split such a dimension otherwise."""
    if roles.batch is None:
        return frozenset()
    dataflow = roles.dataflow
    return frozenset(
        leaf
        for leaf in roles.batch.leaves - roles.logical_axes.parameters
        if not any(dataflow.leaves[leaf].dims[dimension] > 1 for dimension in dataflow.free[leaf])
    )


def between_blocks(roles: ProgramRoles, model: Iterable[LogicalAxis]) -> frozenset[int]:
    """The large activations without a logical axis of the model: residuals, norms.

    Contractions and sums of nothing but contractions are left out: where their terms are partial results, the
    partitioner combines them once, unless the spec of the first of them is fixed before.
    """
    inside = {leaf for logical_axis in model for leaf in logical_axis.leaves}
    outside = activations(roles) - inside
    size = {leaf: bytes_of(roles.dataflow.leaves[leaf].type) for leaf in outside}
    least = LARGE * max(size.values(), default=0.0)
    return frozenset(leaf for leaf in outside - _sums(roles) if size[leaf] >= least)


def _sums(roles: ProgramRoles) -> set[int]:
    """The results of contractions, those under other names, and sums of such."""
    sums: set[int] = set()
    for equation in roles.dataflow.equations:
        operands, results = equation.leaves[: equation.rule.results], equation.leaves[equation.rule.results :]
        opcode = equation.node.opcode
        if opcode in CONTRACTIONS or ((opcode in RENAMING or opcode == "add") and sums.issuperset(operands)):
            sums.update(results)
    return sums


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
    """What each axis splits: if several claims include a value, the first one wins.

    `stored` lists axes over which some parameters are also split, wherever a dimension permits, as in ZeRO-1; results
    of the same logical axes are split likewise. `interior` are the values that the plan names.
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
        for index in range(len(root.operands) if root.opcode == "tuple" else 1):
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
