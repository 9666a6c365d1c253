"""Following a tiling through a module: what some demands mean for every value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from hloom.analysis import CostReport, Table, cost
from hloom.ir import Graph, Module, Node, TensorType
from hloom.propagation.conflicts import Conflict, conflicts, seed_text
from hloom.propagation.dataflow import Wiring
from hloom.propagation.required_collectives import Collective, Partial, needs
from hloom.propagation.solver import Demand, settle, solve
from hloom.propagation.user_shardings import Seeds, demands_of
from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Spec
from hloom.text import HloomError


class Propagation:
    """What some demands mean for a module; made by `propagate`. What is not asked for is not worked out."""

    def __init__(self, wiring: Wiring, mesh: Mesh, demands: Sequence[Demand], found: tuple[Conflict, ...]) -> None:
        self.module: Module = wiring.module
        self.mesh = mesh
        self.conflicts = found
        self._wiring = wiring
        self._demands = demands

    def __repr__(self) -> str:
        return f"<propagation over {self.mesh}: {len(self._split)} values split, {len(self.conflicts)} conflicts>"

    @property
    def seeds(self) -> tuple[str, ...]:
        """What was set, one axis at a time."""
        return tuple(seed_text(self._wiring, demand, seed) for demand in self._demands for seed in demand.seeds)

    def spec(self, node: Node, leaf: int = 0) -> Spec:
        """How an array lies on the mesh once partial results are combined; of a tuple, the leaf of that number.

        Raises HloomError for a node that does not run, and where there is no such leaf.
        """
        specs = self.specs_of(node)
        if leaf >= len(specs):
            raise HloomError(f"{node.name} has {len(specs)} arrays, and no number {leaf}")
        return specs[leaf]

    def specs_of(self, node: Node) -> tuple[Spec, ...]:
        """How each leaf of a node lies on the mesh; a tuple's element has the spec that it has in the tuple."""
        leaves = self._wiring.values.get(node)
        if leaves is None:
            raise HloomError(f"{node.name} is in {node.graph.name}, which does not run")
        return tuple(self._split.get(leaf) or Spec.replicated(len(self._wiring.leaves[leaf].dims)) for leaf in leaves)

    @property
    def specs(self) -> Iterator[tuple[Node, tuple[Spec, ...]]]:
        """Every node that runs, callees first, and the specs of its leaves."""
        return ((node, self.specs_of(node)) for node in self._wiring.values)

    @cached_property
    def partials(self) -> tuple[Partial, ...]:
        """Where partial results arise."""
        return self._needs[0]

    @cached_property
    def collectives(self) -> tuple[Collective, ...]:
        """What devices must exchange: combining partial results, and making whole what does not pass an instruction."""
        return self._needs[1]

    @cached_property
    def alone(self) -> tuple[tuple[Node, int, str], ...]:
        """Where parts of dimensions are first left out for want of a split before them: node, dimension, axis."""
        found = sorted(
            (place, demand.axis)
            for demand in self._demands
            for place, step in demand.alone.items()
            if step is not None and step[1] not in demand.alone
        )
        return tuple((self._wiring.leaves[leaf].node, dimension, axis) for (leaf, dimension, _), axis in found)

    @cached_property
    def wire_bytes(self) -> int:
        """The bytes that a device sends in one run of the module, by rings."""
        return sum(each.total for each in self.collectives)

    def table(self) -> Table:
        """Every value that is split, in the module's order: its type, its spec, and what one device holds."""
        rows = [
            (value.node.graph.name, _name(value.node, value.number, len(self._wiring.values[value.node])),
             value.node.opcode, str(value.type), str(spec), self._local(value.type, spec))
            for value, spec in ((self._wiring.leaves[leaf], self._split[leaf]) for leaf in sorted(self._split))
        ]  # fmt: skip
        return Table(("computation", "value", "opcode", "type", "spec", "local"), tuple(rows))

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values; values that are not listed are whole on every device."""
        return {
            "module": self.module.name,
            "mesh": dict(zip(self.mesh.names, self.mesh.sizes, strict=True)),
            "seeds": list(self.seeds),
            "values": self.table().to_json(),
            "conflicts": [each.to_json() for each in self.conflicts],
            "partials": [each.to_json() for each in self.partials],
            "collectives": [each.to_json() for each in self.collectives],
            "alone": [
                {"instruction": node.name, "computation": node.graph.name, "dimension": dimension, "axis": axis}
                for node, dimension, axis in self.alone
            ],
            "wire_bytes": self.wire_bytes,
        }

    @cached_property
    def _split(self) -> dict[int, Spec]:
        """The specs of the values that are split."""
        cuts: dict[int, list[tuple[int, int, str]]] = {}
        for demand in self._demands:
            for leaf, dimension, major in demand.reached:
                cuts.setdefault(leaf, []).append((dimension, major, demand.axis))
        found = {}
        for leaf, each in cuts.items():
            dims: list[tuple[str, ...]] = [()] * len(self._wiring.leaves[leaf].dims)
            for dimension, _, axis in sorted(each):
                dims[dimension] = (*dims[dimension], axis)
            found[leaf] = Spec(tuple(dims))
        return found

    @cached_property
    def _needs(self) -> tuple[tuple[Partial, ...], tuple[Collective, ...]]:
        return needs(self._wiring, self._demands, self._split, self.mesh, runs_by_graph(cost(self.module)))

    def _local(self, kind: object, spec: Spec) -> str:
        assert isinstance(kind, TensorType), "only arrays are split"
        return f"{kind.dtype}[{','.join(map(str, self.mesh.local_dims(kind.dims, spec)))}]"


def propagate(module: Module, seeds: Seeds, mesh: Mesh | str) -> Propagation:
    """Follow demands through the whole module to the unique largest consistent answer (`docs/sharding.md`).

    Raises HloomError for demands that are malformed or contradict each other in one value.

    >>> from hloom.hlo import parse
    >>> text = "ENTRY e { x = f32[8,4] parameter(0) w = f32[4,2] parameter(1) "
    >>> text += "ROOT y = f32[8,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    >>> found = propagate(parse(text), ["x:0=data", "w:0=model"], "data=2,model=2")
    >>> print(*found.spec(found.module.entry["x"]).dims, found.spec(found.module.entry["y"]), found.partials[0].axes)
    ('data',) ('model',) [data,-] ('model',)
    """
    mesh = Mesh.parse(mesh) if isinstance(mesh, str) else mesh
    wiring = Wiring(module)
    return follow(wiring, demands_of(seeds, wiring, mesh), mesh)


def follow(wiring: Wiring, demands: Sequence[Demand], mesh: Mesh) -> Propagation:
    """The same for a module whose values are linked already."""
    clashes = solve(wiring, demands)
    found = conflicts(wiring, demands, clashes)
    if clashes:
        settle(wiring, demands)
    return Propagation(wiring, mesh, demands, found)


def runs_by_graph(counted: CostReport) -> Mapping[Graph, int]:
    """How often each graph runs in one run of the module."""
    runs: dict[Graph, int] = {}
    for graph, _, often, _ in counted.contexts(by_scope=False):
        runs[graph] = runs.get(graph, 0) + often.flops
    return runs


def _name(node: Node, number: int, count: int) -> str:
    return f"{node.name}{{{number}}}" if count > 1 else node.name
