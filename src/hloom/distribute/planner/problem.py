"""The optimisation problem: per cluster its strategies and their costs, per pair of clusters the cost of resharding.

A value that several clusters read is resharded once for each spec that they require: `SharedReshards` charge a reshard
once however many readers require it; other reshards belong to one pair of clusters. Isomorphic clusters take
the same strategy, which is how repeated layers share a decision.

The form follows Alpa's (Zheng et al., "Alpa: Automating inter- and intra-operator parallelism for distributed deep
learning", OSDI 2022, section 4): one strategy per node, node costs, and edge costs of resharding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hloom.distribute.planner.clusters import Cluster, Clusters
from hloom.distribute.planner.cost_model import CAUSES, CollectiveTimes, Rates
from hloom.distribute.planner.duplicates import Duplicate
from hloom.distribute.planner.reshard_costs import ReshardCosts
from hloom.distribute.planner.spec_tables import SpecTables, StrategySpecs, spec_of_classes
from hloom.distribute.planner.strategies import Strategy
from hloom.ir import Module, Node, TensorType
from hloom.sharding import Mesh, Spec


@dataclass(frozen=True, slots=True)
class Read:
    """One read of a value: the reader and its operand's index.

    With a `destination` (a phi that the value is passed to, or the parameter whose buffer it takes), it is the spec of
    that which is required.
    """

    reader: Node
    operand_index: int
    destination: Node | None = None


@dataclass(slots=True)
class SharedReshards:
    """The reshards of a value that several clusters read.

    `costs` have, per reader, a row for each spec that the value may have and a column for each that the reader may
    require; a reshard is paid once for all readers that require the same spec.
    """

    value: Node
    cluster: int
    source: StrategySpecs
    readers: list[tuple[int, StrategySpecs]]
    costs: list[np.ndarray]


@dataclass(slots=True)
class Problem:
    """Clusters, their strategies, and tables of costs in seconds; `representative` maps clusters to isomorphic ones.

    `node_costs` are per cluster and strategy, `edge_costs` per pair of clusters (the lower number first) and pair of
    strategies. `work` is the part of node costs that is a device's work, unweighted, by cluster, cause (`CAUSES`) and
    strategy; `contraction_seconds` are those of whole dots and convolutions. `duplicates` are the instructions that
    `module` contains twice. `solver_state` is kept by a solver from its last solution, to continue from when the tables
    have changed a little.
    """

    module: Module
    mesh: Mesh
    rates: Rates
    clusters: Clusters
    spec_tables: SpecTables
    reshard_costs: ReshardCosts
    representative: dict[int, int]
    options: dict[int, list[Strategy]] = field(default_factory=dict)
    node_costs: dict[int, np.ndarray] = field(default_factory=dict)
    work: dict[int, np.ndarray] = field(default_factory=dict)
    contraction_seconds: dict[Node, float] = field(default_factory=dict)
    edge_costs: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    shared_reshards: list[SharedReshards] = field(default_factory=list)
    reshard_tables: dict[tuple, np.ndarray] = field(default_factory=dict)
    reads: dict[Node, list[Read]] = field(default_factory=dict)
    duplicates: tuple[Duplicate, ...] = ()
    solver_state: object | None = field(init=False, default=None)
    _shares: dict[tuple, np.ndarray] = field(init=False, default_factory=dict, repr=False)
    _specs_by_read: dict[Read, StrategySpecs] = field(init=False, default_factory=dict, repr=False)
    _specs_by_value: dict[Node, StrategySpecs] = field(init=False, default_factory=dict, repr=False)

    @property
    def collectives(self) -> CollectiveTimes:
        """The times of collectives on the mesh."""
        return self.rates.collectives(self.mesh)

    def work_seconds(self, choice: Mapping[int, int]) -> dict[str, float]:
        """The seconds of a device's work under a choice, by cause."""
        total = sum((table[:, choice[number]] for number, table in self.work.items()), np.zeros(len(CAUSES)))
        return dict(zip(CAUSES, total.tolist(), strict=True))

    def times(self, node: Node) -> float:
        """How often a node runs in one step."""
        return self.clusters.dataflow.times[node.graph]

    def strategy(self, cluster: Cluster, choice: Mapping[int, int]) -> Strategy:
        """The strategy of a cluster under a choice of one strategy per cluster."""
        return self.options[cluster.number][choice[cluster.number]]

    def specs(self, choice: Mapping[int, int]) -> dict[Node, Spec]:
        """The spec of every value under a choice."""
        specs: dict[Node, Spec] = {}
        for cluster in self.clusters:
            for node in cluster.members:
                if isinstance(node.type, TensorType):
                    specs[node] = self.chosen_spec(node, choice)
        return specs

    def chosen_spec(self, value: Node, choice: Mapping[int, int]) -> Spec:
        """The spec of a value under a choice."""
        cluster = self.clusters.of(value)
        assert cluster is not None
        specs = self._specs_by_value.get(value)
        if specs is None:
            specs = self._specs_by_value[value] = self.produced_specs(cluster, value)
        return specs.specs[specs.index[choice[cluster.number]]]

    def wanted_spec(self, read: Read, choice: Mapping[int, int]) -> Spec:
        """The spec that a read requires under a choice."""
        cluster = self.reading_cluster(read)
        assert cluster is not None
        specs = self._specs_by_read.get(read)
        if specs is None:
            specs = self._specs_by_read[read] = self.required_specs(cluster, read)
        return specs.specs[specs.index[choice[cluster.number]]]

    def reading_cluster(self, read: Read) -> Cluster | None:
        """The cluster whose strategy determines the spec that a read requires."""
        return self.clusters.of(read.destination if read.destination is not None else read.reader)

    def required_spec(self, read: Read, strategy: Strategy) -> Spec:
        """The spec that a read requires under a strategy of the reader's cluster."""
        if read.destination is not None:
            return self.spec_tables.result_spec(read.destination, strategy)
        cluster = self.clusters.of(read.reader)
        assert cluster is not None
        class_axes = strategy.before if cluster.lead is read.reader else strategy.after
        dims = self.clusters.operand_dims(read.reader, read.operand_index)
        return spec_of_classes(self.spec_tables.local(cluster, dims), class_axes)

    def produced_specs(self, cluster: Cluster, value: Node, *, is_partial: bool = False) -> StrategySpecs:
        """The specs of a value under each strategy of its cluster; of partial results before they are combined."""
        dims = self.spec_tables.local(cluster, self.clusters.result_dims(value))
        number = self.representative[cluster.number]
        return self.spec_tables.strategy_specs(number, self.options[number], dims, is_before=is_partial)

    def shares(self, specs: StrategySpecs, dims: tuple[int, ...]) -> np.ndarray:
        """The share of an array of these dimensions that a device has under each strategy, uneven parts padded."""
        key = id(specs), dims
        if key not in self._shares:
            local = [math.prod(self.mesh.local_dims(dims, spec)) for spec in specs.specs]
            self._shares[key] = (np.array(local, np.float64) / (math.prod(dims) or 1))[specs.index]
        return self._shares[key]

    def required_specs(self, cluster: Cluster, read: Read) -> StrategySpecs:
        """The specs that a read requires under each strategy of the reader's cluster."""
        if read.destination is not None:
            return self.produced_specs(cluster, read.destination)
        dims = self.spec_tables.local(cluster, self.clusters.operand_dims(read.reader, read.operand_index))
        number, is_before = self.representative[cluster.number], cluster.lead is read.reader
        return self.spec_tables.strategy_specs(number, self.options[number], dims, is_before=is_before)

    def cost(self, choice: Mapping[int, int]) -> float:
        """The objective of a choice, in seconds; isomorphic clusters may have different strategies."""
        total = sum(self.node_costs[number][choice[number]] for number in self.options)
        total += sum(table[choice[a], choice[b]] for (a, b), table in self.edge_costs.items())
        for shared in self.shared_reshards:
            source = shared.source.index[choice[shared.cluster]]
            required: dict[Spec, float] = {}
            for (number, specs), cost in zip(shared.readers, shared.costs, strict=True):
                target = specs.index[choice[number]]
                required[specs.specs[target]] = float(cost[source, target])
            total += sum(required.values())
        return float(total)
