"""The result of sharding propagation: shardings, partial results, collectives and conflicts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from hloom.analysis import CostReport, Table, cost
from hloom.distribute.propagation.conflicts import Conflict, conflicts, seed_text
from hloom.distribute.propagation.dimension_equations import DataflowGraph
from hloom.distribute.propagation.required_collectives import Partial, RequiredCollective, find_required_collectives
from hloom.distribute.propagation.solver import AxisSharding, ShardedDim, settle, solve
from hloom.ir import Graph, Module, ModuleLike, Node, TensorType, as_module
from hloom.sharding import Mesh, Spec, as_mesh
from hloom.text import Display, Displayed, DisplayTable, HloomError, Record, resolve_name


class Unsplit(NamedTuple):
    """Where parts of a dimension first remain unsplit, and the axis that could split it."""

    node: Node
    dimension: int
    axis: str
    json_keys = "instruction=node.name computation=node.graph.name dimension axis"


class Propagation(Displayed, Record):
    """The propagated shardings of a module; made by `propagate`. Everything is computed on demand."""

    module: Module
    mesh: Mesh
    conflicts: tuple[Conflict, ...]
    json_keys = (
        "module=module.name mesh=mesh.axis_sizes seeds values=table conflicts partials collectives alone comm_bytes"
    )

    def __init__(
        self,
        dataflow: DataflowGraph,
        mesh: Mesh,
        shardings: Sequence[AxisSharding],
        all_conflicts: tuple[Conflict, ...],
    ) -> None:
        self.module: Module = dataflow.module
        self.mesh = mesh
        self.conflicts = all_conflicts
        self._dataflow = dataflow
        self._shardings = shardings

    def __repr__(self) -> str:
        return f"<propagation over {self.mesh}: {len(self._split)} values split, {len(self.conflicts)} conflicts>"

    def display(self) -> Display:
        sent = [(one.opcode, one.node.name, one.value, one.total, one.reason) for one in self.collectives]
        conflicts = [(str(one),) for one in self.conflicts]
        tables = (
            self.table().as_display("values"),
            DisplayTable("collectives", ("opcode", "instruction", "value", "bytes", "why"), sent, len(sent)),
            DisplayTable("conflicts", ("conflict",), conflicts, len(conflicts)),
        )
        return Display(repr(self), tables)

    @property
    def seeds(self) -> tuple[str, ...]:
        """The seeds, one axis at a time."""
        return tuple(
            seed_text(self._dataflow, sharding, seed) for sharding in self._shardings for seed in sharding.seeds
        )

    def spec(self, node: Node, leaf: int = 0) -> Spec:
        """The spec of an array once partial results are combined; of a tuple, the leaf of that number.

        Raises HloomError for a node that does not run, and for a missing leaf.
        """
        specs = self.specs_of(node)
        if leaf >= len(specs):
            raise HloomError(f"{node.name} has {len(specs)} arrays, and no number {leaf}")
        return specs[leaf]

    def specs_of(self, node: Node) -> tuple[Spec, ...]:
        """The spec of each leaf of a node; a tuple's element has the spec that it has in the tuple."""
        leaves = self._dataflow.values.get(node)
        if leaves is None:
            raise HloomError(f"{node.name} is in {node.graph.name}, which does not run")
        return tuple(self._split.get(leaf) or Spec.replicated(len(self._dataflow.leaves[leaf].dims)) for leaf in leaves)

    @property
    def specs(self) -> Iterator[tuple[Node, tuple[Spec, ...]]]:
        """Every node that runs, callees first, and the specs of its leaves."""
        return ((node, self.specs_of(node)) for node in self._dataflow.values)

    @cached_property
    def partials(self) -> tuple[Partial, ...]:
        """The partial results."""
        return self._required[0]

    @cached_property
    def collectives(self) -> tuple[RequiredCollective, ...]:
        """The required communication: combining partial results, and gathering what does not propagate through an
        instruction.
        """
        return self._required[1]

    @cached_property
    def alone(self) -> tuple[Unsplit, ...]:
        """Where parts of dimensions first remain unsplit because the parts before them are not split: node, dimension,
        axis.
        """
        unsupported = sorted(
            (dim, sharding.axis)
            for sharding in self._shardings
            for dim, step in sharding.alone.items()
            if step is not None and step[1] not in sharding.alone
        )
        nodes = [value.node for value in self._dataflow.leaves]
        return tuple(Unsplit(nodes[leaf], dimension, axis) for (leaf, dimension, _), axis in unsupported)

    @cached_property
    def comm_bytes(self) -> int:
        """The bytes that a device sends in one run of the module, by rings."""
        return sum(collective.total for collective in self.collectives)

    def table(self) -> Table:
        """Every split value in the module's order: its type, its spec, and its shard on one device."""
        rows = [
            (value.node.graph.name, _name(value.node, value.number, len(self._dataflow.values[value.node])),
             value.node.opcode, str(value.type), str(spec), self._local(value.type, spec))
            for value, spec in ((self._dataflow.leaves[leaf], self._split[leaf]) for leaf in sorted(self._split))
        ]  # fmt: skip
        return Table(("computation", "value", "opcode", "type", "spec", "local"), tuple(rows))

    @cached_property
    def _split(self) -> dict[int, Spec]:
        """The specs of the values that are split."""
        cuts: dict[int, list[tuple[int, int, str]]] = {}
        for sharding in self._shardings:
            for leaf, dimension, major in sharding.reached:
                cuts.setdefault(leaf, []).append((dimension, major, sharding.axis))
        specs = {}
        for leaf, splits in cuts.items():
            dims: list[tuple[str, ...]] = [()] * len(self._dataflow.leaves[leaf].dims)
            for dimension, _, axis in sorted(splits):
                dims[dimension] = (*dims[dimension], axis)
            specs[leaf] = Spec(tuple(dims))
        return specs

    @cached_property
    def _required(self) -> tuple[tuple[Partial, ...], tuple[RequiredCollective, ...]]:
        return find_required_collectives(
            self._dataflow, self._shardings, self._split, self.mesh, runs_by_graph(cost(self.module))
        )

    def _local(self, value_type: object, spec: Spec) -> str:
        assert isinstance(value_type, TensorType), "only arrays are split"
        return f"{value_type.dtype}[{','.join(map(str, self.mesh.local_dims(value_type.dims, spec)))}]"


def propagate(module: ModuleLike, seeds: Seeds, mesh: Mesh | Mapping[str, int] | str) -> Propagation:
    """Propagate shardings through the whole module to the unique largest consistent answer (`docs/sharding.md`).

    Raises HloomError for shardings that are malformed or contradict each other in one value.

    >>> from hloom.formats.hlo import parse
    >>> text = "ENTRY e { x = f32[8,4] parameter(0) w = f32[4,2] parameter(1) "
    >>> text += "ROOT y = f32[8,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    >>> found = propagate(parse(text), ["x:0=data", "w:0=model"], "data=2,model=2")
    >>> print(*found.spec(found.module.entry["x"]).dims, found.spec(found.module.entry["y"]), found.partials[0].axes)
    ('data',) ('model',) [data,-] ('model',)
    """
    mesh, dataflow = as_mesh(mesh), DataflowGraph(as_module(module))
    return follow(dataflow, axis_shardings_of(seeds, dataflow, mesh), mesh)


def follow(dataflow: DataflowGraph, shardings: Sequence[AxisSharding], mesh: Mesh) -> Propagation:
    """The same for a module whose values are linked already."""
    contradictions = solve(dataflow, shardings)
    all_conflicts = conflicts(dataflow, shardings, contradictions)
    if contradictions:
        settle(dataflow, shardings)
    return Propagation(dataflow, mesh, shardings, all_conflicts)


def runs_by_graph(counted: CostReport) -> Mapping[Graph, int]:
    """How often each graph runs in one run of the module."""
    runs: dict[Graph, int] = {}
    for graph, _, often, _ in counted.contexts():
        runs[graph] = runs.get(graph, 0) + often.flops
    return runs


def _name(node: Node, number: int, count: int) -> str:
    return f"{node.name}{{{number}}}" if count > 1 else node.name


Seeds = Mapping[Any, Spec] | Iterable[str]
"""Specs by instruction (one, or its name), or texts: `x:0=data`, `x:1=model.expert`, `state{2}:0=data`."""

_SETTING = re.compile(r"(?P<name>[^:{}]+)(\{(?P<leaf>\d{1,9})\})?:(?P<dimension>\d{1,9})=(?P<axes>[\w.]+)")


def axis_shardings_of(seeds: Seeds, dataflow: DataflowGraph, mesh: Mesh) -> list[AxisSharding]:
    """One axis sharding for each axis of the mesh that is used, in the mesh's order.

    Raises HloomError for values that are not in the module and axes that are not in the mesh, for an axis set twice in
    one value, for two settings of one dimension, and for a dimension split into more parts than it has elements.
    """
    specs = _from_specs(seeds, dataflow) if isinstance(seeds, Mapping) else _from_texts(seeds, dataflow)
    places: dict[str, list[ShardedDim]] = {}
    for leaf, spec in specs.items():
        for dimension, axes in enumerate(spec.dims):
            major = 1
            for axis in axes:
                places.setdefault(axis, []).append((leaf, dimension, major))
                major *= mesh.size(axis)
            _check_size(dataflow, leaf, dimension, major)
    for axis in places:
        mesh.size(axis)  # raises where there is none
    return [AxisSharding(axis, mesh.size(axis), tuple(sorted(places[axis]))) for axis in mesh.names if axis in places]


def find_node(module: Module, name: str) -> Node:
    """The instruction of a name: `x`, `body/x`, or `param_9` for the only one called so up to its number.

    Raises HloomError, with near misses, where there is none or several.
    """
    computation, _, own = name.rpartition("/")
    graph = module[computation] if computation else module.entry
    own = own.lstrip("%")
    if own in graph:
        return graph[own]
    return graph[resolve_name(own, (node.name for node in graph.nodes), f"graph {graph.name}", "node")]


def _from_specs(seeds: Mapping[Any, Spec], dataflow: DataflowGraph) -> dict[int, Spec]:
    specs: dict[int, Spec] = {}
    for key, spec in seeds.items():
        node = find_node(dataflow.module, key) if isinstance(key, str) else key
        leaf = _leaf(dataflow, node, None)
        if spec.rank != len(dataflow.leaves[leaf].dims):
            raise HloomError(f"{node.name} is {dataflow.leaves[leaf].type}: {spec} is for arrays of rank {spec.rank}")
        if spec.partial or spec.manual:
            raise HloomError(f"{node.name}: only dimensions are set, not {spec}")
        specs[leaf] = spec
    return specs


def _from_texts(texts: Iterable[str], dataflow: DataflowGraph) -> dict[int, Spec]:
    specs: dict[int, Spec] = {}
    for text in texts:
        match = _SETTING.fullmatch(text.strip())
        if match is None:
            raise HloomError(f"'{text}' sets nothing", hint="write NAME:DIMENSION=AXIS, as in x:0=data")
        node = find_node(dataflow.module, match["name"])
        leaf = _leaf(dataflow, node, int(match["leaf"]) if match["leaf"] else None)
        dims, dimension = dataflow.leaves[leaf].dims, int(match["dimension"])
        if dimension >= len(dims):
            raise HloomError(f"'{text}': {node.name} is {dataflow.leaves[leaf].type}, of rank {len(dims)}")
        spec = specs.get(leaf, Spec.replicated(len(dims)))
        if spec.dims[dimension]:
            raise HloomError(
                f"'{text}': dimension {dimension} of {node.name} is set already, to {'.'.join(spec.dims[dimension])}",
                hint="several axes stand in one setting, major to minor: x:0=data.model",
            )
        specs[leaf] = spec.split(dimension, match["axes"].split("."))
    return specs


def _leaf(dataflow: DataflowGraph, node: Node, number: int | None) -> int:
    leaves = dataflow.values.get(node)
    if leaves is None:
        raise HloomError(f"{node.name} is in {node.graph.name}, which does not run")
    if not leaves or (number is not None and number >= len(leaves)):
        raise HloomError(f"{node.name} has {len(leaves)} arrays, and no number {number or 0}")
    if number is None and len(leaves) > 1:
        raise HloomError(f"{node.name} is a tuple of {len(leaves)} arrays", hint=f"say which: {node.name}{{0}}:0=axis")
    return leaves[number or 0]


def _check_size(dataflow: DataflowGraph, leaf: int, dimension: int, parts: int) -> None:
    value = dataflow.leaves[leaf]
    if 0 <= value.dims[dimension] < parts:
        size = value.dims[dimension]
        raise HloomError(f"dimension {dimension} of {value.node.name} has {size} elements: too few for {parts} parts")
