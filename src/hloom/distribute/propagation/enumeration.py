"""Enumerates all distinct complete tilings of a module over one axis, with what each saves and costs.

A *component* is a set of dimensions that instructions connect and that must be split together. Two components exclude
each other if both have a dimension in one value, or in one instruction's iteration space. A *tiling* is a maximal set
of components that do not. Components that exclude themselves are in none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hloom.analysis import CostReport, Table, cost
from hloom.distribute.propagation.conflicts import seed_text, value_name
from hloom.distribute.propagation.dimension_equations import MALFORMED, DataflowGraph
from hloom.distribute.propagation.propagation import runs_by_graph
from hloom.distribute.propagation.required_collectives import find_required_collectives, runs_split
from hloom.distribute.propagation.solver import AxisSharding, ShardedDim, find_contradictions, is_idle, reach
from hloom.ir import Apply, Module, Node, Parameter, TensorType, verify
from hloom.sharding import Mesh, Spec
from hloom.text import HloomError, Record

LIMIT = 1000
"""The maximum number of tilings to list, before and after isomorphic components are merged."""


@dataclass(frozen=True, slots=True)
class Tiling(Record):
    """One complete tiling: its seeds, the specs of the entry's parameters, and its cost per device.

    `flops` are for one device in one run, `bytes` those of the entry's parameters and results, `comm_bytes` what it
    sends with ring algorithms. Setting `seeds` and propagating reproduces the tiling.
    """

    seeds: tuple[str, ...]
    parameters: Mapping[str, Spec]
    flops: int
    bytes: int
    comm_bytes: int
    json_keys = "seeds parameters=spec_texts flops bytes comm_bytes"

    @property
    def price(self) -> tuple[int, int, int]:
        """FLOPs, bytes held and bytes sent."""
        return self.flops, self.bytes, self.comm_bytes

    @property
    def spec_texts(self) -> dict[str, str]:
        """The specs of the parameters, as text."""
        return {name: str(spec) for name, spec in self.parameters.items()}


@dataclass(frozen=True, slots=True)
class Enumeration(Record):
    """The tilings of a module over one axis, the cheapest in FLOPs first.

    `components` is the number of sets of dimensions that can be split, `is_merged` says that isomorphic ones (of
    repeated layers) were merged because there were too many tilings, `is_complete` that all are listed.
    """

    module: Module
    mesh: Mesh
    tilings: tuple[Tiling, ...]
    components: int
    is_merged: bool
    is_complete: bool
    json_keys = "module=module.name mesh=mesh.axis_sizes components is_merged is_complete tilings"

    def pruned(self) -> tuple[Tiling, ...]:
        """The tilings that no other beats: none is as good in FLOPs, bytes held and bytes sent, and better in one."""
        kept: list[Tiling] = []
        for tiling in sorted(self.tilings, key=lambda tiling: tiling.price):
            if not any(_beats(other, tiling) for other in kept):
                kept.append(tiling)
        return tuple(kept)

    def table(self, tilings: Sequence[Tiling] | None = None) -> Table:
        """A line for each tiling."""
        listed = self.tilings if tilings is None else tilings
        rows = [(*tiling.price, len(tiling.parameters), " ".join(tiling.seeds)) for tiling in listed]
        return Table(("flops", "bytes", "comm_bytes", "parameters", "seeds"), tuple(rows))


def _beats(one: Tiling, other: Tiling) -> bool:
    return one.price != other.price and all(map(int.__le__, one.price, other.price))


@dataclass(frozen=True, slots=True)
class _Component:
    """Dimensions that are split together: their axis shardings, what these save and send, and isomorphic components."""

    shardings: tuple[AxisSharding, ...]
    flops: int
    bytes: int
    comm_bytes: int
    isomorphism_key: tuple


def enumerate_tilings(module: Module, axis: str, size: int, *, limit: int = LIMIT) -> Enumeration:
    """List the complete tilings of a module over an axis of this size; deterministic.

    If there are more than `limit`, isomorphic components are merged; if there still are, only `limit` are listed.
    """
    mesh, dataflow, counted = Mesh((axis,), (size,)), DataflowGraph(module), cost(module)
    try:
        components = _components(dataflow, mesh, counted)
    except MALFORMED as problem:
        verify(module)  # says what is wrong, and where
        raise HloomError(f"{module.name} cannot be followed: {problem}") from problem
    count, is_merged = len(components), False
    choices = _choices(dataflow, components, limit)
    if len(choices) > limit:
        merged = _merge_isomorphic(dataflow, components)
        if len(merged) < count:
            components, is_merged = merged, True
            choices = _choices(dataflow, components, limit)
    whole = counted.total.flops, sum(_bytes(dataflow.leaves[leaf].type) for leaf in _held(dataflow))
    tilings = [_tiling(dataflow, [components[number] for number in choice], *whole) for choice in choices[:limit]]
    tilings.sort(key=lambda tiling: (tiling.price, tiling.seeds))
    return Enumeration(module, mesh, tuple(tilings), count, is_merged, len(choices) <= limit)


def _components(dataflow: DataflowGraph, mesh: Mesh, counted: CostReport) -> list[_Component]:
    (axis,), (size,) = mesh.names, mesh.sizes
    flops: dict[Node, int] = {node_cost.node: node_cost.total.flops for node_cost in counted.per_node}
    runs, held = runs_by_graph(counted), set(_held(dataflow))
    seen: set[ShardedDim] = set()
    components = []
    for leaf, value in enumerate(dataflow.leaves):
        for dimension, length in enumerate(value.dims):
            dim = leaf, dimension, 1
            if length < size or dim in seen or dataflow.is_free(leaf, dimension):
                continue
            sharding = AxisSharding(axis, size, (dim,))
            reach(dataflow, sharding)
            own = [reached_dim for reached_dim in sharding.reached if not dataflow.is_free(*reached_dim[:2])]
            seen.update(own)
            if any(major > 1 for _, _, major in own) or not _agrees(dataflow, [sharding]):
                continue
            signature = tuple(
                sorted((dataflow.leaves[n].node.opcode, str(dataflow.leaves[n].type), d) for n, d, _ in own)
            )
            _, sent = find_required_collectives(dataflow, [sharding], _specs(dataflow, [sharding]), mesh, runs)
            saved = sum(_saved(dataflow, sharding, point, flops) for point in sharding.factors_reached)
            spared = sum(_spared(dataflow, own_dim, size) for own_dim in own if own_dim[0] in held)
            components.append(
                _Component((sharding,), saved, spared, sum(collective.total for collective in sent), signature)
            )
    return components


def _agrees(dataflow: DataflowGraph, shardings: Sequence[AxisSharding]) -> bool:
    """Whether dimensions do not contradict each other, but for free ones."""
    merged = _merged(shardings)
    return all(is_idle(dataflow, contradiction) for contradiction in find_contradictions([merged]))


def _merged(shardings: Sequence[AxisSharding]) -> AxisSharding:
    first = shardings[0]
    merged = AxisSharding(first.axis, first.size, tuple(seed for sharding in shardings for seed in sharding.seeds))
    for sharding in shardings:
        merged.reached |= sharding.reached
        merged.factors_reached |= sharding.factors_reached
    return merged


def _saved(dataflow: DataflowGraph, sharding: AxisSharding, point: ShardedDim, flops: Mapping[Node, int]) -> int:
    """The FLOPs that a device need not do because an instruction runs split along a factor."""
    number, factor, _ = point
    equation = dataflow.equations[number]
    if not isinstance(equation.node, Apply) or equation.rule.reason:
        return 0
    size = equation.rule.factors[factor].size
    reached = _reached_factor_dims(dataflow, sharding, point)
    if not size or not runs_split(equation.rule, factor, reached):
        return 0
    own = flops.get(equation.node, 0)
    return own - own * -(-size // sharding.size) // size


def _reached_factor_dims(dataflow: DataflowGraph, sharding: AxisSharding, point: ShardedDim) -> set[tuple[int, int]]:
    number, factor, within = point
    equation = dataflow.equations[number]
    return {
        (factor_dim.slot, factor_dim.dimension)
        for factor_dim in equation.rule.factor_dims[factor]
        if (equation.leaves[factor_dim.slot], factor_dim.dimension, factor_dim.front * within) in sharding.reached
    }


def _spared(dataflow: DataflowGraph, dim: ShardedDim, size: int) -> int:
    value = dataflow.leaves[dim[0]]
    length = value.dims[dim[1]]
    return _bytes(value.type) - _bytes(value.type) * -(-length // size) // length


def _bytes(value_type: object) -> int:
    return value_type.byte_count if isinstance(value_type, TensorType) and min(value_type.dims, default=0) >= 0 else 0


def _held(dataflow: DataflowGraph) -> list[int]:
    """The values a device holds before and after a run: the entry's parameters and results, each once."""
    entry = dataflow.module.entry
    nodes: list[Node] = [*entry.parameters, *([entry.output] if entry.output is not None else [])]
    return list(dict.fromkeys(leaf for node in nodes for leaf in dataflow.given(node)))


def _specs(dataflow: DataflowGraph, shardings: Sequence[AxisSharding]) -> dict[int, Spec]:
    specs: dict[int, Spec] = {}
    for sharding in shardings:
        for leaf, dimension, _ in sharding.reached:
            spec = specs.get(leaf, Spec.replicated(len(dataflow.leaves[leaf].dims)))
            if not spec.axes:  # a free dimension may be wanted in two ways: then in neither
                specs[leaf] = spec.split(dimension, (sharding.axis,))
    return specs


def _exclusions(dataflow: DataflowGraph, components: Sequence[_Component]) -> list[int]:
    """For each component, as bits, those that it excludes."""
    owners: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for number, component in enumerate(components):
        for sharding in component.shardings:
            for leaf, dimension, _ in sharding.reached:
                if not dataflow.is_free(leaf, dimension):
                    owners.setdefault(("value", leaf), []).append((number, dimension))
            for equation, factor, _ in sharding.factors_reached:
                owners.setdefault(("link", equation), []).append((number, factor))
    excluded = [0] * len(components)
    for (what, owner), members in owners.items():
        for position, (one, first) in enumerate(members):
            for other, second in members[position + 1 :]:
                if one != other and not (what == "link" and _is_idle_pair(dataflow, owner, first, second)):
                    excluded[one] |= 1 << other
                    excluded[other] |= 1 << one
    return excluded


def _is_idle_pair(dataflow: DataflowGraph, equation: int, first: int, second: int) -> bool:
    linked = dataflow.equations[equation]
    return any(
        all(
            dataflow.is_free(linked.leaves[factor_dim.slot], factor_dim.dimension)
            for factor_dim in linked.rule.factor_dims[factor]
        )
        for factor in (first, second)
    )


def _choices(dataflow: DataflowGraph, components: Sequence[_Component], limit: int) -> list[tuple[int, ...]]:
    """The largest sets of components that do not exclude each other; at most one more than the limit."""
    excluded = _exclusions(dataflow, components)
    everything = (1 << len(components)) - 1
    allowed = [everything & ~others & ~(1 << number) for number, others in enumerate(excluded)]
    choices: list[tuple[int, ...]] = []
    for chosen in _largest(allowed, everything):
        choices.append(tuple(_bits(chosen)))
        if len(choices) > limit:
            break
    return choices


def _largest(allowed: Sequence[int], everything: int) -> Iterator[int]:
    """The largest sets of numbers that all allow each other (Bron and Kerbosch, with pivots), without recursion."""
    pending = [(0, everything, 0)]
    while pending:
        chosen, possible, done = pending.pop()
        if not possible and not done:
            yield chosen
            continue
        pivot = max(_bits(possible | done), key=lambda number: (possible & allowed[number]).bit_count())
        branches = []
        for number in _bits(possible & ~allowed[pivot]):
            bit = 1 << number
            branches.append((chosen | bit, possible & allowed[number], done & allowed[number]))
            possible &= ~bit
            done |= bit
        pending += reversed(branches)


def _bits(number: int) -> Iterator[int]:
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _merge_isomorphic(dataflow: DataflowGraph, components: Sequence[_Component]) -> list[_Component]:
    """Isomorphic components that do not exclude each other, as one."""
    classes: dict[tuple, list[_Component]] = {}
    for component in components:
        classes.setdefault(component.isomorphism_key, []).append(component)
    merged = []
    for isomorphic in classes.values():
        if len(isomorphic) == 1 or any(_exclusions(dataflow, isomorphic)):
            merged += isomorphic
            continue
        shardings = tuple(sharding for component in isomorphic for sharding in component.shardings)
        flops, held, sent = _sums(isomorphic)
        merged.append(_Component(shardings, flops, held, sent, isomorphic[0].isomorphism_key))
    return merged


def _sums(components: Sequence[_Component]) -> tuple[int, int, int]:
    return (
        sum(component.flops for component in components),
        sum(component.bytes for component in components),
        sum(component.comm_bytes for component in components),
    )


def _tiling(dataflow: DataflowGraph, components: Sequence[_Component], flops: int, held: int) -> Tiling:
    shardings = [sharding for component in components for sharding in component.shardings]
    specs = _specs(dataflow, shardings)
    parameters = {
        value_name(dataflow, leaf): specs[leaf]
        for node in dataflow.module.entry.parameters
        for leaf in dataflow.values[node]
        if leaf in specs
    }
    saved, spared, sent = _sums(components)
    seeds = tuple(seed_text(dataflow, sharding, _clearest(dataflow, sharding)) for sharding in shardings)
    return Tiling(seeds, parameters, flops - saved, held - spared, sent)


def _clearest(dataflow: DataflowGraph, sharding: AxisSharding) -> ShardedDim:
    """The dimension to name a component by: a parameter of the entry, if it has one."""
    entry = dataflow.module.entry
    own = (dim for dim in sharding.reached if not dataflow.is_free(*dim[:2]))
    return min(own, key=lambda dim: (not _is_parameter(dataflow.leaves[dim[0]].node, entry), dim))


def _is_parameter(node: Node, entry: object) -> bool:
    return isinstance(node, Parameter) and node.graph is entry
