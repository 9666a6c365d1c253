"""The tensors of a plan by family: how each is split, the memory that saves, and the bytes sent for it.

A family is a set of tensors of one type and spec whose names differ only in numbers: the same parameter of every layer,
or values that repeated layers compute. Traffic of a gradient counts for the parameter it updates.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from hloom.analysis import layer, op_name_of
from hloom.distribute.planner.clusters import Cluster
from hloom.distribute.planner.cost_model import itemsize_of
from hloom.distribute.planner.entry_results import aliases, output_at
from hloom.distribute.planner.forecast import PredictedCollective
from hloom.distribute.planner.problem import Problem
from hloom.ir import Node, Parameter, TensorType, without_layout
from hloom.sharding import Mesh, Spec
from hloom.text import Record, byte_text, plain_table

_NUMBER = re.compile(r"\d+")
UPDATED, GIVEN, MADE = "updated", "given", "made"
"""Parameters whose buffer an output takes, other parameters, and what instructions make."""


@dataclass(slots=True)
class TensorFamily(Record):
    """Tensors of one spec: how many, of which type, and the bytes of all of them.

    `whole_bytes` are those on a single device, `held_bytes` one device's share, `sent` what a device sends for them by
    opcode of the collective.
    """

    name: str
    role: str
    type: str
    spec: Spec
    members: list[Node] = field(default_factory=list, repr=False)
    whole_bytes: float = 0.0
    held_bytes: float = 0.0
    sent: dict[str, float] = field(default_factory=dict)
    json_keys = "name role count type spec=spec.__str__ names=members.name whole_bytes held_bytes saved_bytes sent"

    @property
    def count(self) -> int:
        """How many tensors there are."""
        return len(self.members)

    @property
    def saved_bytes(self) -> float:
        """The bytes a device saves because they are split."""
        return self.whole_bytes - self.held_bytes

    @property
    def sent_bytes(self) -> float:
        """All that a device sends for them."""
        return sum(self.sent.values())


@dataclass(frozen=True, slots=True)
class FamilyTable:
    """The families of a plan; as text, a line for each."""

    families: tuple[TensorFamily, ...]

    def __iter__(self) -> Iterator[TensorFamily]:
        return iter(self.families)

    def __len__(self) -> int:
        return len(self.families)

    def __str__(self) -> str:
        rows = [
            (
                family.name,
                str(family.count),
                family.type,
                str(family.spec),
                byte_text(family.saved_bytes),
                byte_text(family.sent_bytes),
                ", ".join(sorted(family.sent)),
            )
            for family in self.families
        ]
        return plain_table(("tensors", "count", "type", "split", "saves", "sends", "by"), rows)


def families(
    problem: Problem, mesh: Mesh, specs: Mapping[Node, Spec], caused: Iterable[PredictedCollective] = ()
) -> list[TensorFamily]:
    """The families of parameters, largest first, then those of made values, which send most first.

    `specs` are those of values on the mesh; values that they lack are left out.
    """
    families: dict[tuple, TensorFamily] = {}
    for node in _shown(problem):
        if node in specs:
            _add(problem, mesh, node, specs[node], families)
    owners = _owners(problem, families.values())
    for collective in caused:
        number = _representative(problem, collective.value)
        if number in owners:
            family = owners[number]
            family.sent[collective.step.opcode] = family.sent.get(collective.step.opcode, 0.0) + collective.sent
    for group in families.values():
        group.name = _common(group.members)
    return sorted(
        families.values(), key=lambda f: (f.role == MADE, -f.sent_bytes if f.role == MADE else -f.whole_bytes)
    )


def _shown(problem: Problem) -> list[Node]:
    """The parameters, and the leads of clusters that hold none of the lead's size."""
    parameters: list[Node] = [p for p in problem.module.entry.parameters if isinstance(p.type, TensorType)]
    taken = {cluster.number for p in parameters if (cluster := _home(problem, p)) is not None}
    leads = (cluster.lead for cluster in problem.clusters if cluster.number not in taken)
    return parameters + [lead for lead in leads if isinstance(lead.type, TensorType) and lead.type.dims]


def _home(problem: Problem, node: Node) -> Cluster | None:
    """The cluster of a value that is not small beside what it holds: a bias is added to something larger."""
    cluster = problem.clusters.of(node)
    return cluster if cluster is not None and node.element_count >= cluster.lead.element_count else None


def _add(problem: Problem, mesh: Mesh, node: Node, spec: Spec, families: dict[tuple, TensorFamily]) -> None:
    assert isinstance(node.type, TensorType)
    family_type = _role(problem, node)
    shape = without_layout(node.type)
    pattern = _NUMBER.sub("*", _name(node))
    family = families.setdefault((family_type, shape, spec, pattern), TensorFamily("", family_type, str(shape), spec))
    family.members.append(node)
    family.whole_bytes += node.element_count * itemsize_of(node)
    family.held_bytes += math.prod(mesh.local_dims(node.type.dims, spec)) * itemsize_of(node)


def _role(problem: Problem, node: Node) -> str:
    if not (isinstance(node, Parameter) and node.graph is problem.module.entry):
        return MADE
    return UPDATED if any(alias.parameter == node.number for alias in aliases(problem.module)) else GIVEN


def _representative(problem: Problem, node: Node) -> int | None:
    """A key shared by values that share a decision."""
    cluster = problem.clusters.of(node)
    return None if cluster is None else problem.representative[cluster.number]


def _owners(problem: Problem, families: Iterable[TensorFamily]) -> dict[int, TensorFamily]:
    """By representative the family that its traffic counts for: that of the first parameter whose update it makes."""
    owners: dict[int, TensorFamily] = {}
    of: dict[Node, TensorFamily] = {node: family for family in families for node in family.members}
    for node, family in of.items():
        home = _home(problem, node)
        if home is not None:
            owners.setdefault(problem.representative[home.number], family)
    made = {owner for owner in owners if owners[owner].role == MADE}
    root, parameters = problem.module.entry.output, {p.number: p for p in problem.module.entry.parameters}
    if root is None:
        return owners
    for alias in aliases(problem.module):
        value = output_at(root, alias.output_index)
        home = _home(problem, value) if value is not None else None
        if home is not None and problem.representative[home.number] in made and parameters[alias.parameter] in of:
            made.discard(problem.representative[home.number])
            owners[problem.representative[home.number]] = of[parameters[alias.parameter]]
    return owners


def _name(node: Node) -> str:
    """The framework's name for a parameter, else its own; for an instruction, with its layer."""
    named = op_name_of(node)
    if isinstance(node, Parameter):
        return named or node.name
    scope = layer(named)
    return f"{scope} {node.opcode}" if scope else node.name


def _common(members: list[Node]) -> str:
    """The name of all members: where they differ in numbers, with * for those that differ."""
    names = [_name(member) for member in members]
    patterns = defaultdict(list)
    for name in names:
        patterns[_NUMBER.sub("*", name)].append(_NUMBER.findall(name))
    (pattern, numbers), *others = patterns.items()
    if others:
        return names[0]
    common = iter(column[0] if len(set(column)) == 1 else "*" for column in zip(*numbers, strict=True))
    return re.sub(r"\*", lambda _: next(common), pattern)
