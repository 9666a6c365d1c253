"""All distinct ways to split a module completely over one axis, with what each saves and costs.

A *component* is a set of places that must be split together: all that instructions connect. Two components exclude
each other where both have a place in one value, or in one instruction's iteration space. A *tiling* is a largest set of
components that do not: nothing can be added to it. Components that exclude themselves are in none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hloom.analysis import CostReport, Table, cost
from hloom.ir import Apply, Module, Node, Parameter, TensorType
from hloom.propagation.conflicts import seed_text, value_name
from hloom.propagation.dataflow import Wiring
from hloom.propagation.propagation import runs_by_graph
from hloom.propagation.required_collectives import needs, runs_split
from hloom.propagation.solver import Demand, Place, find_clashes, is_idle, reach
from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Spec

LIMIT = 1000
"""How many tilings are listed before alike components are tied together, and then at most."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """One complete tiling: what to set for it, how the entry's parameters lie, and its price for each device.

    `flops` are of one device in one run, `bytes` those of the entry's parameters and results, `wire_bytes` what it
    sends by rings. Setting `seeds` and propagating gives the tiling again.
    """

    seeds: tuple[str, ...]
    parameters: Mapping[str, Spec]
    flops: int
    bytes: int
    wire_bytes: int

    @property
    def price(self) -> tuple[int, int, int]:
        """FLOPs, bytes held and bytes sent."""
        return self.flops, self.bytes, self.wire_bytes

    def to_json(self) -> dict[str, Any]:
        """The tiling as plain values."""
        specs = {name: str(spec) for name, spec in self.parameters.items()}
        price = {"flops": self.flops, "bytes": self.bytes, "wire_bytes": self.wire_bytes}
        return {"seeds": list(self.seeds), "parameters": specs, **price}


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The tilings of a module over one axis, the cheapest in FLOPs first.

    `components` says how many sets of places can be split at all, `is_tied` whether alike ones (those of repeated
    layers) were made to go together because there were too many tilings, `is_complete` whether all are listed.
    """

    module: Module
    mesh: Mesh
    tilings: tuple[Tiling, ...]
    components: int
    is_tied: bool
    is_complete: bool

    def pruned(self) -> tuple[Tiling, ...]:
        """The tilings that no other beats: none is as good in FLOPs, bytes held and bytes sent, and better in one."""
        kept: list[Tiling] = []
        for tiling in sorted(self.tilings, key=lambda each: each.price):
            if not any(_beats(other, tiling) for other in kept):
                kept.append(tiling)
        return tuple(kept)

    def table(self, tilings: Sequence[Tiling] | None = None) -> Table:
        """A line for each tiling."""
        listed = self.tilings if tilings is None else tilings
        rows = [(*each.price, len(each.parameters), " ".join(each.seeds)) for each in listed]
        return Table(("flops", "bytes", "wire_bytes", "parameters", "seeds"), tuple(rows))

    def to_json(self) -> dict[str, Any]:
        """All tilings as plain values."""
        counts = {"components": self.components, "is_tied": self.is_tied, "is_complete": self.is_complete}
        mesh = dict(zip(self.mesh.names, self.mesh.sizes, strict=True))
        listed = [each.to_json() for each in self.tilings]
        return {"module": self.module.name, "mesh": mesh, **counts, "tilings": listed}


def _beats(one: Tiling, other: Tiling) -> bool:
    return one.price != other.price and all(map(int.__le__, one.price, other.price))


@dataclass(frozen=True, slots=True)
class _Component:
    """Places that are split together: the demand that reaches them, what that saves and sends, and what is alike."""

    demands: tuple[Demand, ...]
    flops: int
    bytes: int
    wire_bytes: int
    kind: tuple


def enumerate_tilings(module: Module, axis: str, size: int, *, limit: int = LIMIT) -> Enumeration:
    """List the complete tilings of a module over an axis of a size; deterministic.

    Where there are more than `limit`, alike components are tied together; where there still are, so many are listed.
    """
    mesh, wiring, counted = Mesh((axis,), (size,)), Wiring(module), cost(module)
    components = _components(wiring, mesh, counted)
    count, is_tied = len(components), False
    found = _choices(wiring, components, limit)
    if len(found) > limit:
        tied = _tied(wiring, components)
        if len(tied) < count:
            components, is_tied = tied, True
            found = _choices(wiring, components, limit)
    whole = counted.total.flops, sum(_bytes(wiring.leaves[leaf].type) for leaf in _held(wiring))
    tilings = [_tiling(wiring, [components[number] for number in each], *whole) for each in found[:limit]]
    tilings.sort(key=lambda each: (each.price, each.seeds))
    return Enumeration(module, mesh, tuple(tilings), count, is_tied, len(found) <= limit)


def _components(wiring: Wiring, mesh: Mesh, counted: CostReport) -> list[_Component]:
    (axis,), (size,) = mesh.names, mesh.sizes
    flops: dict[Node, int] = {each.node: each.total.flops for each in counted.per_node}
    runs, held = runs_by_graph(counted), set(_held(wiring))
    seen: set[Place] = set()
    found = []
    for leaf, value in enumerate(wiring.leaves):
        for dimension, length in enumerate(value.dims):
            place = leaf, dimension, 1
            if length < size or place in seen or wiring.is_free(leaf, dimension):
                continue
            demand = Demand(axis, size, (place,))
            reach(wiring, demand)
            own = [each for each in demand.reached if not wiring.is_free(*each[:2])]
            seen.update(own)
            if any(major > 1 for _, _, major in own) or not _agrees(wiring, [demand]):
                continue
            kind = tuple(sorted((wiring.leaves[n].node.opcode, str(wiring.leaves[n].type), d) for n, d, _ in own))
            _, sent = needs(wiring, [demand], _specs(wiring, [demand]), mesh, runs)
            saved = sum(_saved(wiring, demand, point, flops) for point in demand.carried)
            spared = sum(_spared(wiring, each, size) for each in own if each[0] in held)
            found.append(_Component((demand,), saved, spared, sum(each.total for each in sent), kind))
    return found


def _agrees(wiring: Wiring, demands: Sequence[Demand]) -> bool:
    """Whether places do not contradict each other, but for dimensions that come from nowhere."""
    merged = _merged(demands)
    return all(is_idle(wiring, clash) for clash in find_clashes([merged]))


def _merged(demands: Sequence[Demand]) -> Demand:
    first = demands[0]
    merged = Demand(first.axis, first.size, tuple(seed for each in demands for seed in each.seeds))
    for each in demands:
        merged.reached |= each.reached
        merged.carried |= each.carried
    return merged


def _saved(wiring: Wiring, demand: Demand, point: Place, flops: Mapping[Node, int]) -> int:
    """The FLOPs that a device need not do because an instruction runs split along a factor."""
    number, factor, _ = point
    link = wiring.links[number]
    if not isinstance(link.node, Apply) or link.relation.reason:
        return 0
    size = link.relation.factors[factor].size
    reached = _standing(wiring, demand, point)
    if not size or not runs_split(link.relation, factor, reached):
        return 0
    own = flops.get(link.node, 0)
    return own - own * -(-size // demand.size) // size


def _standing(wiring: Wiring, demand: Demand, point: Place) -> set[tuple[int, int]]:
    number, factor, within = point
    link = wiring.links[number]
    return {
        (each.slot, each.dimension)
        for each in link.relation.standing[factor]
        if (link.leaves[each.slot], each.dimension, each.front * within) in demand.reached
    }


def _spared(wiring: Wiring, place: Place, size: int) -> int:
    value = wiring.leaves[place[0]]
    length = value.dims[place[1]]
    return _bytes(value.type) - _bytes(value.type) * -(-length // size) // length


def _bytes(kind: object) -> int:
    return kind.byte_count if isinstance(kind, TensorType) and min(kind.dims, default=0) >= 0 else 0


def _held(wiring: Wiring) -> list[int]:
    """What a device holds before and after a run: the entry's parameters and results, each once."""
    entry = wiring.module.entry
    nodes: list[Node] = [*entry.parameters, *([entry.output] if entry.output is not None else [])]
    return list(dict.fromkeys(leaf for node in nodes for leaf in wiring.given(node)))


def _specs(wiring: Wiring, demands: Sequence[Demand]) -> dict[int, Spec]:
    found: dict[int, Spec] = {}
    for demand in demands:
        for leaf, dimension, _ in demand.reached:
            spec = found.get(leaf, Spec.replicated(len(wiring.leaves[leaf].dims)))
            if not spec.axes:  # a dimension that comes from nowhere may be wanted in two ways: then in neither
                found[leaf] = spec.split(dimension, (demand.axis,))
    return found


def _exclusions(wiring: Wiring, components: Sequence[_Component]) -> list[int]:
    """For each component, as bits, those that it excludes."""
    owners: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for number, component in enumerate(components):
        for demand in component.demands:
            for leaf, dimension, _ in demand.reached:
                if not wiring.is_free(leaf, dimension):
                    owners.setdefault(("value", leaf), []).append((number, dimension))
            for link, factor, _ in demand.carried:
                owners.setdefault(("link", link), []).append((number, factor))
    excluded = [0] * len(components)
    for (what, owner), each in owners.items():
        for place, (one, first) in enumerate(each):
            for other, second in each[place + 1 :]:
                if one != other and not (what == "link" and _is_idle_pair(wiring, owner, first, second)):
                    excluded[one] |= 1 << other
                    excluded[other] |= 1 << one
    return excluded


def _is_idle_pair(wiring: Wiring, link: int, first: int, second: int) -> bool:
    found = wiring.links[link]
    return any(
        all(wiring.is_free(found.leaves[each.slot], each.dimension) for each in found.relation.standing[factor])
        for factor in (first, second)
    )


def _choices(wiring: Wiring, components: Sequence[_Component], limit: int) -> list[tuple[int, ...]]:
    """The largest sets of components that do not exclude each other; at most one more than the limit."""
    excluded = _exclusions(wiring, components)
    everything = (1 << len(components)) - 1
    allowed = [everything & ~each & ~(1 << number) for number, each in enumerate(excluded)]
    found: list[tuple[int, ...]] = []
    for chosen in _largest(allowed, everything):
        found.append(tuple(_bits(chosen)))
        if len(found) > limit:
            break
    return found


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


def _tied(wiring: Wiring, components: Sequence[_Component]) -> list[_Component]:
    """Components of one kind that do not exclude each other, as one."""
    kinds: dict[tuple, list[_Component]] = {}
    for component in components:
        kinds.setdefault(component.kind, []).append(component)
    found = []
    for each in kinds.values():
        if len(each) == 1 or any(_exclusions(wiring, each)):
            found += each
            continue
        demands = tuple(demand for component in each for demand in component.demands)
        flops, held, sent = _sums(each)
        found.append(_Component(demands, flops, held, sent, each[0].kind))
    return found


def _sums(components: Sequence[_Component]) -> tuple[int, int, int]:
    return (
        sum(each.flops for each in components),
        sum(each.bytes for each in components),
        sum(each.wire_bytes for each in components),
    )


def _tiling(wiring: Wiring, components: Sequence[_Component], flops: int, held: int) -> Tiling:
    demands = [demand for component in components for demand in component.demands]
    specs = _specs(wiring, demands)
    parameters = {
        value_name(wiring, leaf): specs[leaf]
        for node in wiring.module.entry.parameters
        for leaf in wiring.values[node]
        if leaf in specs
    }
    saved, spared, sent = _sums(components)
    seeds = tuple(seed_text(wiring, demand, _clearest(wiring, demand)) for demand in demands)
    return Tiling(seeds, parameters, flops - saved, held - spared, sent)


def _clearest(wiring: Wiring, demand: Demand) -> Place:
    """The place to name a component by: a parameter of the entry, if it has one."""
    entry = wiring.module.entry
    own = (each for each in demand.reached if not wiring.is_free(*each[:2]))
    return min(own, key=lambda each: (not _is_parameter(wiring.leaves[each[0]].node, entry), each))


def _is_parameter(node: Node, entry: object) -> bool:
    return isinstance(node, Parameter) and node.graph is entry
