"""User constraints on a plan: specs of values, a plan to follow, and axes that must not be used."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

import numpy as np

from hloom.analysis import op_name_of
from hloom.distribute.planner.cost_model import Rates
from hloom.distribute.planner.cost_tables import build_problem, rebuild_edge_costs
from hloom.distribute.planner.duplicates import Duplicate, put_known_duplicates
from hloom.distribute.planner.plan import Plan
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.spec_tables import SpecTables
from hloom.distribute.planner.strategies import IN_ANY_ORDER, UNEVEN_SHARE, Strategy
from hloom.ir import Module, Node, Parameter, TensorType
from hloom.passes import canonicalize
from hloom.sharding import Mesh, Spec, parse_spec
from hloom.text import HloomError, names_meant

_FORBIDDEN = re.compile(r"(?:(?P<name>[^:\s]+):(?:(?P<dimension>\d{1,9})=)?)?(?P<axis>[A-Za-z_]\w*)")
NEAR_NAMES = 3
"""The maximum number of similar names to list in an error."""
ATTEMPTS = 3
"""The maximum number of rounds of giving values their own clusters to follow another plan, each with new clusters for
the rest.
"""
MOST_NAMES = 5
"""The maximum number of names to list in a note."""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """An axis that must not split values: those of a name or all, along one dimension or any.

    >>> Forbidden.parse("w:0=model")
    Forbidden(axis='model', name='w', dimension=0)
    """

    axis: str
    name: str | None = None
    dimension: int | None = None

    @classmethod
    def parse(cls, text: str) -> Forbidden:
        """From `AXIS`, `NAME:AXIS` or `NAME:DIMENSION=AXIS`; raises HloomError for anything else."""
        match = _FORBIDDEN.fullmatch(text.strip())
        if match is None:
            raise HloomError(f"'{text}' forbids nothing", hint="write AXIS, NAME:AXIS or NAME:DIMENSION=AXIS")
        return cls(match["axis"], match["name"], None if match["dimension"] is None else int(match["dimension"]))

    def is_violated(self, node: Node, spec: Spec) -> bool:
        """Whether a value's spec has the axis where it must not."""
        if self.name is not None and self.name != node.name:
            return False
        dim = spec.dimension_of(self.axis)
        return dim is not None and self.dimension in (None, dim)


@dataclass(frozen=True, slots=True)
class Constraints:
    """Specs of values by name, forbidden axes, and a plan to follow for values the module has."""

    pins: Mapping[str, Spec] = field(default_factory=dict)
    forbidden: tuple[Forbidden, ...] = ()
    like: Plan | None = None

    @classmethod
    def of(
        cls, pins: Mapping[str, Spec | str] | None, forbidden: Iterable[Forbidden | str], like: Plan | None = None
    ) -> Constraints:
        """From specs and what is forbidden, or their texts."""
        specs = {name: parse_spec(spec) if isinstance(spec, str) else spec for name, spec in (pins or {}).items()}
        parsed = [
            forbidden_axis if isinstance(forbidden_axis, Forbidden) else Forbidden.parse(forbidden_axis)
            for forbidden_axis in forbidden
        ]
        return cls(specs, tuple(parsed), like)

    def __bool__(self) -> bool:
        return bool(self.pins or self.forbidden or self.like)

    def check(self, mesh: Mesh) -> None:
        """Raise HloomError for an axis that the mesh has not."""
        for axis in (*(axis for spec in self.pins.values() for axis in spec.axes), *(f.axis for f in self.forbidden)):
            mesh.size(axis)


def constrain_problem(problem: Problem, constraints: Constraints) -> tuple[Problem, list[str]]:
    """The problem with the remaining strategies, and notes on parts of the other plan that could not be kept.

    Isomorphic clusters with different constraints no longer share a strategy. Raises HloomError if no strategy remains
    for a value, and for unknown names.
    """
    if not constraints:
        return problem, []
    constraints.check(problem.mesh)
    left, own = _Left(problem), _by_own_names(constraints, problem)
    for name, spec in own.pins.items():
        _pin(left, name, spec)
    for forbidden_axis in own.forbidden:
        _forbid(left, forbidden_axis)
    notes = _keep(left, constraints.like) if constraints.like is not None else []
    return left.narrowed(), notes


def constrain_module(
    module: Module,
    mesh: Mesh,
    rates: Rates,
    constraints: Constraints,
    *,
    duplicates: Sequence[Duplicate] = (),
    apart: Sequence[Collection[str]] = (),
) -> tuple[Problem, list[str]]:
    """The problem of planning a module under constraints, as `build_problem` and `constrain_problem` make it.

    What another plan computes twice is computed twice, and values whose specs do not go together in the clusters that
    they belong to get clusters of their own.
    """
    cloned = () if constraints.like is None else constraints.like.duplicates
    known = [*put_known_duplicates(canonicalize(module), cloned), *duplicates] if cloned else duplicates
    alone: dict[str, None] = {}
    for _ in range(ATTEMPTS):
        own = [[name] for name in alone]
        problem = build_problem(module, mesh, rates, duplicates=known, apart=[*apart, *own])
        lost = lost_values(problem, constraints)
        if alone.keys() >= lost.keys():
            break
        alone |= lost
    constrained, notes = constrain_problem(problem, constraints)
    unknown = len(cloned) - (len(known) - len(duplicates))
    if unknown:
        notes.append(f"{unknown} of the {len(cloned)} values that the other plan computes twice are not known")
    return constrained, notes


def constrained_names(constraints: Constraints, problem: Problem) -> set[str]:
    """The names of values that are pinned, or that an axis is forbidden for."""
    own = _by_own_names(constraints, problem)
    return {*own.pins, *(forbidden_axis.name for forbidden_axis in own.forbidden if forbidden_axis.name is not None)}


def restore_constrained(
    constraints: Constraints, problem: Problem, own: Mapping[Node, Spec], moved: Mapping[Node, Spec]
) -> dict[Node, Spec]:
    """Specs after changes of spec were moved between instructions, but for those that a constraint forbids to move.

    Parameters that are minor keep the specs of the constraints, whatever their clusters do.
    """
    constraints, specs = _by_own_names(constraints, problem), dict(moved)
    told = dict(constraints.pins)
    if constraints.like is not None:
        told = _asked(problem.module, constraints.like) | told
    for node, spec in moved.items():
        if is_minor(problem, node):
            specs[node] = told.get(node.name, spec)
            continue
        is_moved_away = own.get(node) == told.get(node.name, spec) != spec
        if is_moved_away or any(forbidden_axis.is_violated(node, spec) for forbidden_axis in constraints.forbidden):
            specs[node] = own[node]
    return specs


def _by_own_names(constraints: Constraints, problem: Problem) -> Constraints:
    """The constraints with parameters called by their own names where they were called as the framework does."""
    flow = problem.clusters.dataflow
    known = {op_name_of(parameter): parameter.name for parameter in problem.module.entry.parameters}

    own_names = [node.name for node in (*problem.module.entry.nodes, *flow.nodes)]

    def own(name: str) -> str:
        if flow.named(name) is not None:
            return name
        if name in known:
            return known[name]
        meant = names_meant(name, own_names)
        if len(meant) > 1:
            several = ", ".join(meant[:MOST_NAMES])
            raise HloomError(f"'{name}' may be any of several: {several}", hint="give one of these names")
        return meant[0] if meant else name

    return replace(
        constraints,
        pins={own(name): spec for name, spec in constraints.pins.items()},
        forbidden=tuple(
            forbidden_axis if forbidden_axis.name is None else replace(forbidden_axis, name=own(forbidden_axis.name))
            for forbidden_axis in constraints.forbidden
        ),
    )


def is_minor(problem: Problem, node: Node) -> bool:
    """Whether a parameter is small compared with what its cluster decides on, such as a bias added to an activation."""
    cluster = problem.clusters.of(node)
    is_parameter = isinstance(node, Parameter) and node.graph is problem.module.entry
    return is_parameter and cluster is not None and node.element_count < cluster.lead.element_count


class _Left:
    """Which strategies of each cluster are left."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._masks = {number: np.ones(len(options), bool) for number, options in problem.options.items()}

    def value(self, name: str) -> Node | None:
        """The value of a name, if it is planned."""
        clusters = self.problem.clusters
        node = clusters.dataflow.named(name)
        if node is None or not isinstance(node.type, TensorType) or clusters.of(node) is None:
            return None
        return node

    def is_free_clone(self, name: str) -> bool:
        """Whether a name is that of a clone that costs nothing, which has the spec that its readers require."""
        clones = {clone for duplicate in self.problem.duplicates for _, clone in duplicate.clones}
        return name in clones and self.problem.clusters.dataflow.named(name) in self.problem.clusters.free

    def near(self, name: str) -> str | None:
        """The names that are most like one that stands for nothing, the program's own and the framework's."""
        own = [node.name for cluster in self.problem.clusters for node in cluster.members]
        parameters = [op_name_of(parameter) for parameter in self.problem.module.entry.parameters]
        names = get_close_matches(name, [*filter(None, parameters), *own], NEAR_NAMES)
        return f"near: {', '.join(names)}" if names else None

    def allow(self, node: Node, allowed: Callable[[Spec], bool]) -> bool:
        """Leave a value the specs that are allowed; whether any is left, else nothing changes."""
        problem = self.problem
        cluster = problem.clusters.of(node)
        assert cluster is not None
        specs = problem.produced_specs(cluster, node)
        return self._cut(cluster.number, np.array([allowed(spec) for spec in specs.specs])[specs.index])

    def keep_from(self, axis: str) -> bool:
        """Leave no strategy that uses an axis; whether every cluster has another."""
        without = {
            number: np.array([axis not in _axes(strategy) for strategy in self.problem.options[number]])
            for number in set(self.problem.representative.values())
        }
        return all(self._cut(number, without[leader]) for number, leader in self.problem.representative.items())

    def narrowed(self) -> Problem:
        """The problem with what is left."""
        problem = self.problem
        kinds: dict[tuple[int, bytes], int] = {}
        representative = {
            number: kinds.setdefault((leader, self._masks[number].tobytes()), number)
            for number, leader in problem.representative.items()
        }
        left = {number: np.flatnonzero(self._masks[number]) for number in kinds.values()}
        kept = {number: left[leader] for number, leader in representative.items()}
        options = {number: [problem.options[number][strategy] for strategy in dims] for number, dims in left.items()}
        narrowed = replace(
            problem,
            spec_tables=SpecTables(problem.clusters),
            representative=representative,
            options={number: options[leader] for number, leader in representative.items()},
            node_costs={number: problem.node_costs[number][dims] for number, dims in kept.items()},
            work={number: problem.work[number][:, dims] for number, dims in kept.items()},
            edge_costs={},
            shared_reshards=[],
            reshard_tables={},
        )
        rebuild_edge_costs(narrowed)
        return narrowed

    def _cut(self, number: int, allowed: np.ndarray) -> bool:
        left = self._masks[number] & allowed
        if left.any():
            self._masks[number] = left
        return bool(left.any())


def _axes(strategy: Strategy) -> set[str]:
    return {axis for _, axes in (*strategy.before, *strategy.after) for axis in axes}


def _pin(left: _Left, name: str, spec: Spec) -> None:
    node = left.value(name)
    if node is None:
        what = f"{name} cannot be pinned: the program has no array of that name that is planned"
        raise HloomError(what, hint=left.near(name))
    if node.rank != spec.rank:
        raise HloomError(f"{name} cannot be pinned to {spec}: it is {node.type}")
    if is_minor(left.problem, node) and not spec.partial:
        return
    if not left.allow(node, lambda own: own == spec):
        hint = (
            f"on meshes of more than {IN_ANY_ORDER} axes, those of a dimension stand in the mesh's order; "
            f"a part that is not even has {UNEVEN_SHARE} elements or more"
        )
        raise HloomError(f"{name} cannot be pinned to {spec}: no strategy splits it so", hint=hint)


def _forbid(left: _Left, forbidden: Forbidden) -> None:
    name, axis = forbidden.name, forbidden.axis
    if name is None:
        if not left.keep_from(axis):
            raise HloomError(f"{axis} cannot be forbidden: what is pinned needs it")
        return
    node = left.value(name)
    if node is None:
        what = f"{name} cannot be kept from {axis}: the program has no array of that name that is planned"
        raise HloomError(what, hint=left.near(name))
    if forbidden.dimension is not None and forbidden.dimension >= node.rank:
        raise HloomError(f"{name} has no dimension {forbidden.dimension}: it is {node.type}")
    if not left.allow(node, lambda spec: not forbidden.is_violated(node, spec)):
        raise HloomError(f"{name} cannot be kept from {axis}: it is pinned to it")


def lost_values(problem: Problem, constraints: Constraints) -> dict[str, None]:
    """The values that are pinned, or known to the other plan, and have not those specs in their clusters."""
    if not constraints.pins and constraints.like is None:
        return {}
    left, own = _Left(problem), _by_own_names(constraints, problem)
    lost = [name for name, spec in own.pins.items() if not _is_kept(left, name, spec)]
    if own.like is not None:
        lost += _not_kept(left, own.like)
    return {name: None for name in lost if left.value(name) is not None}


def _not_kept(left: _Left, like: Plan) -> list[str]:
    """Constrain values to the specs of a plan; returns notes on those that could not be."""
    return [name for name, spec in _asked(left.problem.module, like).items() if not _is_kept(left, name, spec)]


def _keep(left: _Left, like: Plan) -> list[str]:
    """Hold values to what a plan says of them; the note on those of which that could not be."""
    asked, lost = _asked(left.problem.module, like), _not_kept(left, like)
    if not lost:
        return []
    names = ", ".join(lost[:MOST_NAMES]) + (", ..." if len(lost) > MOST_NAMES else "")
    return [f"{len(lost)} of the {len(asked)} specs of the other plan are not kept: {names}"]


def _is_kept(left: _Left, name: str, spec: Spec) -> bool:
    node = left.value(name)
    if node is None or node.rank != spec.rank:
        return left.is_free_clone(name)
    return is_minor(left.problem, node) or left.allow(node, lambda own: own == spec)


def _asked(module: Module, like: Plan) -> dict[str, Spec]:
    """What a plan says of values by name, parameters first, which it knows by number."""
    names = {parameter.number: parameter.name for parameter in module.entry.parameters}
    specs = {names.get(number, f"parameter {number}"): spec for number, spec in like.parameters.items()}
    for named in (like.instructions, *like.computations.values()):
        specs |= {name: value_spec for name, value_spec in named.items() if isinstance(value_spec, Spec)}
    return specs
