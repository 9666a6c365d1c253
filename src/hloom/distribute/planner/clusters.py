"""Clusters: instructions that share one decision on how they are split, and the dimensions it covers.

A node that only passes dimensions on (elementwise, transposes, reductions, broadcasts) follows its operands, as long as
the axis maps say which dimensions correspond. Nodes that form new combinations of dimensions (dot, convolution, gather,
scatter, a reshape that merges or splits dimensions, an addition of values of two clusters) lead clusters of their own.
The dimensions that a cluster shares are its *classes*: a strategy assigns mesh axes to each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hloom.analysis import DisjointSets
from hloom.distribute.planner.dataflow import Dataflow
from hloom.ir import Apply, AxisMap, Constant, FactorKind, Module, Node, Parameter, TensorType, Trait, node_axes
from hloom.ops import with_trait

ClassDims = tuple[int | None, ...]
"""For each dimension, the class it belongs to; None if it cannot be split."""

LEADERS = with_trait(Trait.CONTRACTS) | {"gather", "scatter"}
"""What leads a cluster of its own."""
APART = frozenset({"gather", "scatter"})
"""Opcodes that no node follows: their best spec is rarely that of their users."""
SPLITTABLE = frozenset({FactorKind.PARALLEL, FactorKind.CONTRACTED, FactorKind.REDUCED, FactorKind.INDEXED})


@dataclass(slots=True)
class Cluster:
    """The nodes of one decision: the lead, which may hold partial results, and its followers.

    All of them are of one `region`.
    """

    number: int
    lead: Node
    members: list[Node] = field(default_factory=list)
    is_light: bool = False
    region: int = 0


class Clusters:
    """The clusters of a module in canonical form: of its entry, and of the computations of loops and branches.

    A value carried by a loop leads a cluster, like a parameter; its other names follow it. `free` are values that cost
    nothing in any spec: scalars, constants, and values made from a scalar or from nothing. `replicated` are values
    whose ops have no rule. Instructions named in `regions` never share a cluster with those of other regions, or of
    none.
    """

    def __init__(self, module: Module, regions: Mapping[str, int] | None = None) -> None:
        self._regions = regions or {}
        self.dataflow = Dataflow(module)
        self.maps: dict[Node, AxisMap] = {}
        self.factor_classes: dict[Node, ClassDims] = {}
        self.free: set[Node] = set()
        self.replicated: list[Node] = []
        self._clusters: list[Cluster] = []
        self._of: dict[Node, int] = {}
        self._merged = DisjointSets[int]()
        self._equal = DisjointSets[int]()
        self.class_of = self._equal.root
        """Gives the representative of all classes joined with one; asked so often that it is no method of its own."""
        self._class_sizes: list[set[int]] = []
        self._class_cluster: list[int] = []
        self._depth: dict[Node, int] = {}
        for node in self.dataflow.nodes:
            self._depth[node] = 1 + max((self._depth.get(operand, 0) for operand in node.operands), default=0)
            self._place(node)

    def __iter__(self) -> Iterator[Cluster]:
        """The clusters that are left after merging, in the order of their leads."""
        return (cluster for cluster in self._clusters if self._merged.root(cluster.number) == cluster.number)

    def of(self, node: Node) -> Cluster | None:
        """The cluster of a node; None if it is free."""
        number = self._of.get(node)
        return None if number is None else self._clusters[self._merged.root(number)]

    def classes(self, cluster: Cluster) -> list[int]:
        """The classes of a cluster in order."""
        roots = (self.class_of(number) for number in range(len(self._class_sizes)))
        own = {root for root in roots if self._merged.root(self._class_cluster[root]) == cluster.number}
        return sorted(own)

    def all_classes(self) -> dict[int, list[int]]:
        """The classes of every cluster."""
        by_cluster: dict[int, set[int]] = defaultdict(set)
        for number in range(len(self._class_sizes)):
            root = self.class_of(number)
            by_cluster[self._merged.root(self._class_cluster[root])].add(root)
        return {number: sorted(numbers) for number, numbers in by_cluster.items()}

    def sizes(self, number: int) -> set[int]:
        """The sizes of a class's dimensions."""
        return self._class_sizes[self.class_of(number)]

    def result_dims(self, node: Node) -> ClassDims:
        """The classes of a value's dimensions."""
        if node not in self.maps:
            dims = self.factor_classes.get(node)
            return (None,) * node.rank if dims is None else tuple(map(self._joined, dims))
        return tuple(self._class_at(node, dimension) for dimension in self.maps[node].results[0])

    def operand_dims(self, node: Node, operand_index: int) -> ClassDims:
        """The classes of an operand's dimensions, as the node wants to read it."""
        if node not in self.maps:
            return (None,) * node.operands[operand_index].rank
        return tuple(self._class_at(node, dimension) for dimension in self.maps[node].operands[operand_index])

    def _class_at(self, node: Node, dimension: tuple[int, ...]) -> int | None:
        factors = [f for f in dimension if self.maps[node].factors[f].size != 1]
        return self._joined(self.factor_classes[node][factors[0]]) if factors else None

    def _joined(self, number: int | None) -> int | None:
        return None if number is None else self.class_of(number)

    def is_given(self, node: Node) -> bool:
        """Whether a value comes from outside: a parameter, a value carried by a loop or the result of a branch."""
        return isinstance(node, Parameter) or node in self.dataflow.phis

    def _place(self, node: Node) -> None:
        if node in self.dataflow.aliases:
            self._name(node, self.dataflow.aliases[node])
            return
        if node in self.dataflow.tuples or node.opcode == "tuple":
            return
        if self.is_given(node):
            dims = node.type.dims if isinstance(node.type, TensorType) else ()
            cluster = self._new(node, is_light=True)
            self.factor_classes[node] = tuple(self._class(size, cluster) if size > 1 else None for size in dims)
            return
        if isinstance(node, Constant) or _is_free(node):
            self.free.add(node)
            return
        if self._takes_out(node):
            return
        axis_map = _map_of(node)
        if axis_map is None:
            self.replicated.append(node)
            self._new(node)
            return
        self.maps[node] = axis_map
        followed = self._followed(node, axis_map)
        if followed is None:
            self._lead(node, axis_map)
        else:
            self._follow(node, axis_map, followed)

    def _name(self, node: Node, value: Node) -> None:
        """A further name of a value is in its cluster, and free where it is."""
        cluster = self.of(value)
        if cluster is None:
            self.free.add(node)
            return
        self.factor_classes[node] = self.result_dims(value)
        self._of[node] = cluster.number
        cluster.members.append(node)

    def _takes_out(self, node: Node) -> bool:
        """Whether a node is one of the results of an op that has a rule: it has the spec of the op's results."""
        source = node.operands[0] if node.opcode == "get-tuple-element" else None
        if source not in self.maps:
            return False
        assert source is not None
        dims = self.maps[source].results[node.attributes.get("index", 0)]
        self.factor_classes[node] = tuple(self._class_at(source, dimension) for dimension in dims)
        self._of[node] = self._of[source]
        self._clusters[self._merged.root(self._of[source])].members.append(node)
        return True

    def _followed(self, node: Node, axis_map: AxisMap) -> int | None:
        """The operand that a node follows: the largest, then the deepest, that comes from no light cluster."""
        if node.opcode in LEADERS or _is_enlarging(node) or _minor_factors(axis_map):
            return None
        best: tuple[tuple, int] | None = None
        heavy: set[int] = set()
        region = self._regions.get(node.name, 0)
        for operand_index, operand in enumerate(node.operands):
            cluster = self.of(operand)
            if cluster is None or all(number is None for number in self.result_dims(operand)):
                continue
            if cluster.region != region:
                continue
            if not cluster.is_light and operand.element_count == node.element_count:
                heavy.add(cluster.number)
            if operand.opcode in APART:
                continue
            score = (not cluster.is_light, operand.element_count, self._depth[operand], -operand_index)
            if best is None or score > best[0]:
                best = (score, operand_index)
        return None if best is None or len(heavy) > 1 else best[1]

    def _lead(self, node: Node, axis_map: AxisMap) -> None:
        cluster = self._new(node, is_light=_is_enlarging(node))
        minor, splittable = _minor_factors(axis_map), _splittable(node)
        self.factor_classes[node] = tuple(
            self._class(factor.size, cluster)
            if factor.kind in splittable and factor.size > 1 and number not in minor
            else None
            for number, factor in enumerate(axis_map.factors)
        )

    def _follow(self, node: Node, axis_map: AxisMap, operand_index: int) -> None:
        cluster = self.of(node.operands[operand_index])
        assert cluster is not None
        classes: list[int | None] = [None] * len(axis_map.factors)
        splittable = _splittable(node)
        for dimension, own in zip(
            axis_map.operands[operand_index], self.result_dims(node.operands[operand_index]), strict=True
        ):
            factors = [f for f in dimension if axis_map.factors[f].size != 1]
            if own is not None and factors and axis_map.factors[factors[0]].kind in splittable:
                classes[factors[0]] = own
                self._class_sizes[own].add(axis_map.factors[factors[0]].size)
        known = {f for dimension in axis_map.operands[operand_index] for f in dimension}
        for number, factor in enumerate(axis_map.factors):
            if number not in known and factor.kind in splittable and factor.size > 1:
                classes[number] = self._class(factor.size, cluster.number)
        self.factor_classes[node] = tuple(classes)
        self._of[node] = cluster.number
        cluster.members.append(node)
        for other in range(len(node.operands)):
            if other != operand_index:
                self._absorb(node, other, cluster)

    def _absorb(self, node: Node, operand_index: int, cluster: Cluster) -> None:
        """Merge the light cluster of an operand into the node's, where nothing else reads it."""
        light = self.of(node.operands[operand_index])
        if light is cluster:
            self._agree(node, operand_index)
        if light is None or not light.is_light or light is cluster or light.region != cluster.region:
            return
        inside = set(light.members)
        if self.is_given(light.lead):
            reads = {user for member in light.members for user in member.users if user not in inside}
            if reads != {node}:
                return
        pairs = list(
            zip(self.result_dims(node.operands[operand_index]), self.operand_dims(node, operand_index), strict=True)
        )
        if any((a is None) != (b is None) for a, b in pairs):
            return
        for theirs, own in pairs:
            if theirs is not None and own is not None:
                self._join(theirs, own)
        if cluster.is_light and not light.is_light:
            light, cluster = cluster, light
        self._merged.join(cluster.number, light.number)
        cluster.members = light.members + cluster.members

    def _agree(self, node: Node, operand_index: int) -> None:
        """Join the classes of corresponding dimensions of a node and an operand in the same cluster."""
        theirs, own = self.result_dims(node.operands[operand_index]), self.operand_dims(node, operand_index)
        for a, b in zip(theirs, own, strict=True):
            if a is not None and b is not None and a != b and b not in theirs and a not in own:
                self._join(a, b)

    def _join(self, theirs: int, own: int) -> None:
        a, b = self.class_of(theirs), self.class_of(own)
        if a != b:
            self._equal.join(b, a)
            self._class_sizes[b] |= self._class_sizes[a]

    def _class(self, size: int, cluster: int) -> int:
        number = len(self._class_sizes)
        self._class_sizes.append({size})
        self._class_cluster.append(cluster)
        return number

    def _new(self, node: Node, *, is_light: bool = False) -> int:
        number = len(self._clusters)
        self._clusters.append(Cluster(number, node, [node], is_light, self._regions.get(node.name, 0)))
        self._of[node] = number
        return number


def _map_of(node: Node) -> AxisMap | None:
    """The axis map of a node over arrays; None where the op has none or works on tuples."""
    if not isinstance(node, Apply) or not node.has_row or node.type is None:
        return None
    if not all(isinstance(leaf, TensorType) for leaf in node.type.leaves()):
        return None
    if not all(isinstance(operand.type, TensorType) for operand in node.operands):
        return None
    return node_axes(node)


def _splittable(node: Node) -> frozenset[FactorKind]:
    """The kinds of factors along which a node may be split; no partial results where there are several results."""
    return SPLITTABLE if isinstance(node.type, TensorType) else frozenset({FactorKind.PARALLEL})


def _is_free(node: Node) -> bool:
    """Whether XLA computes the value again in any spec that is required."""
    if node.opcode == "iota" or not isinstance(node.type, TensorType):
        return node.opcode == "iota"
    return node.opcode == "broadcast" and node.operands[0].rank == 0


def _is_enlarging(node: Node) -> bool:
    return node.opcode == "broadcast" and node.element_count > node.operands[0].element_count


def _minor_factors(axis_map: AxisMap) -> set[int]:
    """Factors that stand behind another one in some dimension: these cannot be split alone."""
    minor: set[int] = set()
    for value in (*axis_map.operands, *axis_map.results):
        for dimension in value:
            minor.update([f for f in dimension if axis_map.factors[f].size != 1][1:])
    return minor
