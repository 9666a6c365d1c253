"""What a tiling costs where it is used: partial results to combine, and places where it does not pass.

An instruction runs split along a factor where all its results that have the factor are split so; where none has it,
where all its operands are. Then an operand that is not split is cut locally, which costs nothing. Elsewhere its split
operands are made whole before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hloom.analysis import comm_bytes, source_of
from hloom.ir import FactorKind, Graph, Node, TensorType
from hloom.propagation.conflicts import value_name
from hloom.propagation.dataflow import Link, Wiring
from hloom.propagation.sharding_rule import Relation
from hloom.propagation.solver import Demand, Place
from hloom.sharding.mesh import Mesh
from hloom.sharding.spec import Spec
from hloom.text import HloomError

ALL_REDUCE, ALL_GATHER, PERMUTE, HALO = "all-reduce", "all-gather", "collective-permute", "halo exchange"
_STOPS: dict[FactorKind, tuple[str, str]] = {
    FactorKind.WINDOWED: (HALO, "windows reach over the edges of the parts"),
    FactorKind.SHIFTED: (PERMUTE, "elements move to other parts"),
    FactorKind.WHOLE: (ALL_GATHER, "the dimension is needed whole"),
}


@dataclass(frozen=True, slots=True)
class Partial:
    """A result of which each device has a part of the sum (or maximum, ...) over some axes."""

    node: Node
    leaf: int
    axes: tuple[str, ...]
    reducer: str

    def to_json(self) -> dict[str, object]:
        """The partial result as plain values."""
        names: dict[str, object] = {
            "instruction": self.node.name,
            "computation": self.node.graph.name,
            "element": self.leaf,
        }
        return names | {"axes": list(self.axes), "reducer": self.reducer}


@dataclass(frozen=True, slots=True)
class Collective:
    """What devices must exchange for an instruction.

    `value` is the array that is exchanged, `local_bytes` what a device holds of it before, `wire_bytes` what a device
    sends in one run by a ring (of a halo or a permutation, at most), `times` how often the instruction runs, `reason`
    why; `source` and `scope` are where the program says so.
    """

    kind: str
    node: Node
    value: str
    axes: tuple[str, ...]
    reducer: str
    local_bytes: int
    wire_bytes: int
    times: int
    reason: str
    source: str
    scope: str

    @property
    def total(self) -> int:
        """The bytes that a device sends in one run of the module."""
        return self.wire_bytes * self.times

    def to_json(self) -> dict[str, object]:
        """The collective as plain values."""
        rest = ("value", "reducer", "local_bytes", "wire_bytes", "times", "total", "reason", "source", "scope")
        return {"kind": self.kind, **_place(self.node), "axes": list(self.axes)} | {
            name: getattr(self, name) for name in rest
        }


_Held = dict[int, list[tuple[int, int, int]]]
"""For each value the demands that split it: by number, the dimension, the parts before."""


@dataclass(slots=True)
class _Found:
    """What is needed, keyed so that nothing is counted twice: a value is made whole along an axis once."""

    partials: dict[tuple[int, str], tuple[Link, list[str]]]
    stops: dict[tuple[int, str], tuple[Link, str, str]]


def needs(
    wiring: Wiring, demands: Sequence[Demand], specs: Mapping[int, Spec], mesh: Mesh, runs: Mapping[Graph, int]
) -> tuple[tuple[Partial, ...], tuple[Collective, ...]]:
    """The partial results and the collectives of a settled answer, in the module's order."""
    found = _find(wiring, demands)
    partials, collectives = [], []
    for (leaf, reducer), (link, axes) in found.partials.items():
        value = wiring.leaves[leaf]
        ordered = tuple(axis for axis in mesh.names if axis in axes)
        partials.append(Partial(link.node, value.number, ordered, reducer))
        size, group = _local_bytes(wiring, leaf, specs, mesh), mesh.count(ordered)
        sent = comm_bytes(size, group, ALL_REDUCE)
        reason = f"a sum over split parts ({reducer})" if reducer == "add" else f"a {reducer} over split parts"
        collectives.append(_collective(ALL_REDUCE, link, wiring, leaf, ordered, reducer, (size, sent), reason, runs))
    for (leaf, axis), (link, kind, reason) in found.stops.items():
        size = _local_bytes(wiring, leaf, specs, mesh)
        parts = mesh.size(axis)
        sent = comm_bytes(size * parts, parts) if kind == ALL_GATHER else size
        collectives.append(_collective(kind, link, wiring, leaf, (axis,), "", (size, sent), reason, runs))
    return tuple(partials), tuple(collectives)


def _find(wiring: Wiring, demands: Sequence[Demand]) -> _Found:
    held: _Held = {}
    for number, demand in enumerate(demands):
        for leaf, dimension, major in demand.reached:
            held.setdefault(leaf, []).append((number, dimension, major))
    found = _Found({}, {})
    for number in sorted({number for leaf in held for number, _ in wiring.touching[leaf]}):
        _inspect(number, wiring, demands, held, found)
    return found


def _inspect(
    number: int,
    wiring: Wiring,
    demands: Sequence[Demand],
    held: Mapping[int, list[tuple[int, int, int]]],
    found: _Found,
) -> None:
    link = wiring.links[number]
    relation, leaves = link.relation, link.leaves
    points: dict[tuple[int, int, int], set[tuple[int, int]]] = {}
    for slot, leaf in enumerate(leaves):
        for who, dimension, major in held.get(leaf, ()):
            at = relation.factor_at(slot, dimension, major)
            if at is not None and relation.passes(slot, dimension, *at, demands[who].size):
                points.setdefault((who, *at), set()).add((slot, dimension))
            elif slot < relation.results and not wiring.is_free(leaf, dimension):
                kind, reason = _why(relation, at, demands[who])
                found.stops.setdefault((leaf, demands[who].axis), (link, kind, reason))
    for (who, factor, within), places in points.items():
        axis = demands[who].axis
        if (number, factor, within) not in demands[who].link_walls and runs_split(relation, factor, places):
            if relation.leaves_sums(factor):
                reducer = relation.factors[factor].reducer or "add"
                for leaf in leaves[relation.results :]:
                    found.partials.setdefault((leaf, reducer), (link, []))[1].append(axis)
            continue
        for slot, dimension in places:
            if slot < relation.results and not wiring.is_free(leaves[slot], dimension):
                reason = _why_unsplit(link, (number, factor, within), demands[who])
                found.stops.setdefault((leaves[slot], axis), (link, ALL_GATHER, reason))


def _why_unsplit(link: Link, point: Place, demand: Demand) -> str:
    """Why an instruction does not run split along a factor that could be."""
    _, factor, within = point
    relation = link.relation
    size = relation.factors[factor].size
    ends = [(link.leaves[each.slot], each.dimension, each.front * within) for each in relation.standing[factor]]
    if any(end in demand.alone for end in ends):
        return "behind parts that nothing splits it cannot be split"
    if size % (within * demand.size) and not all(each.is_single for each in relation.standing[factor]):
        return _uneven(demand, size)
    return "another demand contradicts this one here"


def _uneven(demand: Demand, size: int) -> str:
    return f"{demand.size} parts do not divide the dimension's major factor of size {size}"


def runs_split(relation: Relation, factor: int, places: set[tuple[int, int]]) -> bool:
    """Whether an instruction runs split along a factor, of which these places (leaf, dimension) are split."""
    standing = relation.standing[factor]
    decisive = [each for each in standing if each.slot >= relation.results] or standing
    return all((each.slot, each.dimension) in places for each in decisive)


def _why(relation: Relation, at: tuple[int, int] | None, demand: Demand) -> tuple[str, str]:
    """What is to be done where a split does not pass, and why."""
    if at is None:
        return ALL_GATHER, relation.reason or "nothing says what becomes of the dimension"
    factor = relation.factors[at[0]]
    if factor.kind in _STOPS:
        kind, reason = _STOPS[factor.kind]
        return kind, relation.reason or reason
    return ALL_GATHER, _uneven(demand, factor.size)


def _collective(
    kind: str,
    link: Link,
    wiring: Wiring,
    leaf: int,
    axes: tuple[str, ...],
    reducer: str,
    sizes: tuple[int, int],
    reason: str,
    runs: Mapping[Graph, int],
) -> Collective:
    node = link.node
    source, scope = source_of(node, wiring.module.stack_tables), _scope(node)
    times = runs.get(node.graph, 1)
    return Collective(kind, node, value_name(wiring, leaf), axes, reducer, *sizes, times, reason, source, scope)


def _local_bytes(wiring: Wiring, leaf: int, specs: Mapping[int, Spec], mesh: Mesh) -> int:
    kind = wiring.leaves[leaf].type
    if not isinstance(kind, TensorType):
        return 0
    spec = specs.get(leaf, Spec.replicated(kind.rank))
    return math.prod(max(size, 0) for size in mesh.local_dims(kind.dims, spec)) * kind.dtype.byte_count


def _place(node: Node) -> dict[str, object]:
    return {"instruction": node.name, "computation": node.graph.name}


def _scope(node: Node) -> str:
    try:
        return node.metadata.op_name if node.metadata is not None else ""
    except HloomError:
        return ""
