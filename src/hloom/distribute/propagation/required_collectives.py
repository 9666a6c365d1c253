"""The collectives that a tiling requires: partial results to combine, and dimensions whose sharding does not propagate.

An instruction runs split along a factor if all its results with the factor are split that way or, if none has it, all
its operands. Then an unsplit operand is sliced locally, which is free. Otherwise its split operands are all-gathered
first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hloom.analysis import comm_bytes, source_of
from hloom.distribute.propagation.conflicts import value_name
from hloom.distribute.propagation.dimension_equations import DataflowGraph, Equation
from hloom.distribute.propagation.sharding_rule import ShardingRule
from hloom.distribute.propagation.solver import AxisSharding, ShardedDim
from hloom.ir import FactorKind, Graph, Node, TensorType
from hloom.sharding import Mesh, Spec
from hloom.text import HloomError, Record

ALL_REDUCE, ALL_GATHER, PERMUTE, HALO = "all-reduce", "all-gather", "collective-permute", "halo exchange"
_STOPS: dict[FactorKind, tuple[str, str]] = {
    FactorKind.WINDOWED: (HALO, "windows reach over the edges of the parts"),
    FactorKind.SHIFTED: (PERMUTE, "elements move to other parts"),
    FactorKind.NEED_REPLICATION: (ALL_GATHER, "the dimension is needed whole"),
}


@dataclass(frozen=True, slots=True)
class Partial(Record):
    """A result of which each device has a part of the sum (or maximum, ...) over some axes."""

    node: Node
    leaf: int
    axes: tuple[str, ...]
    reducer: str
    json_keys = "instruction=node.name computation=node.graph.name element=leaf axes reducer"


@dataclass(frozen=True, slots=True)
class RequiredCollective(Record):
    """What devices must exchange for an instruction.

    `value` is the exchanged array, `local_bytes` a device's part of it before, `comm_bytes` what a device sends in one
    run with a ring (for a halo or a permutation, at most), `times` how often the instruction runs, `reason` why;
    `source` and `scope` are the instruction's, if known.
    """

    opcode: str
    node: Node
    value: str
    axes: tuple[str, ...]
    reducer: str
    local_bytes: int
    comm_bytes: int
    times: int
    reason: str
    source: str
    scope: str
    json_keys = (
        "opcode instruction=node.name computation=node.graph.name axes value reducer local_bytes comm_bytes times "
        "total reason source scope"
    )

    @property
    def total(self) -> int:
        """The bytes that a device sends in one run of the module."""
        return self.comm_bytes * self.times


_Held = dict[int, list[tuple[int, int, int]]]
"""For each value the axis shardings that split it: by number, the dimension, the parts before."""


@dataclass(slots=True)
class _Requirements:
    """Required collectives, keyed so that nothing is counted twice: a value is all-gathered along an axis once."""

    partials: dict[tuple[int, str], tuple[Equation, list[str]]]
    stops: dict[tuple[int, str], tuple[Equation, str, str]]


def find_required_collectives(
    dataflow: DataflowGraph,
    shardings: Sequence[AxisSharding],
    specs: Mapping[int, Spec],
    mesh: Mesh,
    runs: Mapping[Graph, int],
) -> tuple[tuple[Partial, ...], tuple[RequiredCollective, ...]]:
    """The partial results and the collectives of a settled answer, in the module's order."""
    requirements = _find(dataflow, shardings)
    partials, collectives = [], []
    for (leaf, reducer), (equation, axes) in requirements.partials.items():
        value = dataflow.leaves[leaf]
        ordered = tuple(axis for axis in mesh.names if axis in axes)
        partials.append(Partial(equation.node, value.number, ordered, reducer))
        size, group = _local_bytes(dataflow, leaf, specs, mesh), mesh.count(ordered)
        sent = comm_bytes(size, group, ALL_REDUCE)
        reason = f"a sum over split parts ({reducer})" if reducer == "add" else f"a {reducer} over split parts"
        collectives.append(
            _collective(ALL_REDUCE, equation, dataflow, leaf, ordered, reducer, (size, sent), reason, runs)
        )
    for (leaf, axis), (equation, opcode, reason) in requirements.stops.items():
        size = _local_bytes(dataflow, leaf, specs, mesh)
        parts = mesh.size(axis)
        sent = comm_bytes(size * parts, parts) if opcode == ALL_GATHER else size
        collectives.append(_collective(opcode, equation, dataflow, leaf, (axis,), "", (size, sent), reason, runs))
    return tuple(partials), tuple(collectives)


def _find(dataflow: DataflowGraph, shardings: Sequence[AxisSharding]) -> _Requirements:
    held: _Held = {}
    for number, sharding in enumerate(shardings):
        for leaf, dimension, major in sharding.reached:
            held.setdefault(leaf, []).append((number, dimension, major))
    requirements = _Requirements({}, {})
    for number in sorted({number for leaf in held for number, _ in dataflow.equations_of[leaf]}):
        _inspect(number, dataflow, shardings, held, requirements)
    return requirements


def _inspect(
    number: int,
    dataflow: DataflowGraph,
    shardings: Sequence[AxisSharding],
    held: Mapping[int, list[tuple[int, int, int]]],
    requirements: _Requirements,
) -> None:
    equation = dataflow.equations[number]
    rule, leaves = equation.rule, equation.leaves
    points: dict[tuple[int, int, int], set[tuple[int, int]]] = {}
    for slot, leaf in enumerate(leaves):
        for who, dimension, major in held.get(leaf, ()):
            at = rule.factor_at(slot, dimension, major)
            if at is not None and rule.propagates_from(slot, dimension, *at, shardings[who].size):
                points.setdefault((who, *at), set()).add((slot, dimension))
            elif slot < rule.results and not dataflow.is_free(leaf, dimension):
                opcode, reason = _why(rule, at, shardings[who])
                requirements.stops.setdefault((leaf, shardings[who].axis), (equation, opcode, reason))
    for (who, factor, within), places in points.items():
        axis = shardings[who].axis
        if (number, factor, within) not in shardings[who].blocked_factors and runs_split(rule, factor, places):
            if rule.leaves_partial_sums(factor):
                reducer = rule.factors[factor].reducer or "add"
                for leaf in leaves[rule.results :]:
                    requirements.partials.setdefault((leaf, reducer), (equation, []))[1].append(axis)
            continue
        for slot, dimension in places:
            if slot < rule.results and not dataflow.is_free(leaves[slot], dimension):
                reason = _why_unsplit(equation, (number, factor, within), shardings[who])
                requirements.stops.setdefault((leaves[slot], axis), (equation, ALL_GATHER, reason))


def _why_unsplit(equation: Equation, point: ShardedDim, sharding: AxisSharding) -> str:
    """Why an instruction does not run split along a factor that could be."""
    _, factor, within = point
    rule = equation.rule
    size = rule.factors[factor].size
    ends = [
        (equation.leaves[factor_dim.slot], factor_dim.dimension, factor_dim.front * within)
        for factor_dim in rule.factor_dims[factor]
    ]
    if any(end in sharding.alone for end in ends):
        return "behind parts that nothing splits it cannot be split"
    if size % (within * sharding.size) and not all(factor_dim.is_single for factor_dim in rule.factor_dims[factor]):
        return _uneven(sharding, size)
    return "another demand contradicts this one here"


def _uneven(sharding: AxisSharding, size: int) -> str:
    return f"{sharding.size} parts do not divide the dimension's major factor of size {size}"


def runs_split(rule: ShardingRule, factor: int, places: set[tuple[int, int]]) -> bool:
    """Whether an instruction runs split along a factor, of which these dimensions (leaf, dimension) are split."""
    factor_dims = rule.factor_dims[factor]
    decisive = [factor_dim for factor_dim in factor_dims if factor_dim.slot >= rule.results] or factor_dims
    return all((factor_dim.slot, factor_dim.dimension) in places for factor_dim in decisive)


def _why(rule: ShardingRule, at: tuple[int, int] | None, sharding: AxisSharding) -> tuple[str, str]:
    """What must be done where a split does not propagate, and why."""
    if at is None:
        return ALL_GATHER, rule.reason or "nothing says where the dimension goes"
    factor = rule.factors[at[0]]
    if factor.kind in _STOPS:
        opcode, reason = _STOPS[factor.kind]
        return opcode, rule.reason or reason
    return ALL_GATHER, _uneven(sharding, factor.size)


def _collective(
    opcode: str,
    equation: Equation,
    dataflow: DataflowGraph,
    leaf: int,
    axes: tuple[str, ...],
    reducer: str,
    sizes: tuple[int, int],
    reason: str,
    runs: Mapping[Graph, int],
) -> RequiredCollective:
    node = equation.node
    source, scope = source_of(node, dataflow.module.stack_tables), _scope(node)
    times = runs.get(node.graph, 1)
    return RequiredCollective(
        opcode, node, value_name(dataflow, leaf), axes, reducer, *sizes, times, reason, source, scope
    )


def _local_bytes(dataflow: DataflowGraph, leaf: int, specs: Mapping[int, Spec], mesh: Mesh) -> int:
    value_type = dataflow.leaves[leaf].type
    if not isinstance(value_type, TensorType):
        return 0
    spec = specs.get(leaf, Spec.replicated(value_type.rank))
    return math.prod(max(size, 0) for size in mesh.local_dims(value_type.dims, spec)) * value_type.dtype.byte_count


def _scope(node: Node) -> str:
    try:
        return node.metadata.op_name if node.metadata is not None else ""
    except HloomError:
        return ""
