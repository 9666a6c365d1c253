"""What is drawn, as plain data that the writers turn into text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


class EdgeKind(StrEnum):
    """Why one node needs another: as an operand, as the function it applies, or only to come after it."""

    OPERAND = "operand"
    FUNCTION = "function"
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """One node, all of it text.

    `id` is the graph's name, a slash, the node's name: unique in a drawing. `label` has several lines. `scope` is
    metadata's op_name; `location` is file:line. `attributes` are for reading: long values are cut. `value` is the
    short text of a constant, `number` a parameter's. `is_cut` says that an operand or a user of it is not drawn.
    """

    id: str
    name: str
    label: str
    opcode: str
    family: str
    type: str
    scope: str
    computation: str
    attributes: Mapping[str, str]
    metadata: Mapping[str, str | int]
    location: str
    value: str
    number: int | None
    operand_count: int
    is_scalar: bool
    is_output: bool
    is_cut: bool
    json_keys = (
        "id name label opcode family type scope computation number? attributes? metadata? location? value? "
        "output=is_output cut=is_cut"
    )


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """A use: from the node used to its user; `port` is the position among the uses of that kind."""

    source: str
    target: str
    port: int
    kind: EdgeKind = EdgeKind.OPERAND


@dataclass(frozen=True, slots=True)
class DrawnCall:
    """A node that holds a computation, by which attribute: `body`, or `branch_computations[1]`."""

    source: str
    computation: str
    attribute: str


@dataclass(frozen=True, slots=True)
class DrawnCluster:
    """A computation, and those of its nodes that are drawn; `node_count` counts the others as well."""

    name: str
    nodes: tuple[DrawnNode, ...]
    node_count: int
    is_entry: bool = False
    parent: str | None = None
    execution_thread: str | None = None
    json_keys = "name entry=is_entry node_count parent execution_thread"


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything that is drawn, in the module's order; `center` is the id of the node that it was drawn around."""

    name: str
    clusters: tuple[DrawnCluster, ...]
    edges: tuple[DrawnEdge, ...]
    calls: tuple[DrawnCall, ...]
    center: str | None = None
    json_keys = "module=name center nodes edges calls computations=clusters"

    @property
    def nodes(self) -> Iterator[DrawnNode]:
        """The nodes of all clusters, in order."""
        return (node for cluster in self.clusters for node in cluster.nodes)
