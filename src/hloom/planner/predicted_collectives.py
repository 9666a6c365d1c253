"""Every collective that a choice is expected to cause: at which instruction, for which value, how many bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hloom.ir import Node, TensorType
from hloom.partitioner import TracedCollective, reshard_collectives
from hloom.planner.cost_model import itemsize_of
from hloom.planner.problem import Problem
from hloom.planner.strategy_costs import partial_result_collectives
from hloom.sharding import Spec


@dataclass(frozen=True, slots=True)
class PredictedCollective:
    """One collective: the instruction that causes it, the value that it moves, why, and how often."""

    instruction: Node
    value: Node
    step: TracedCollective
    width: float
    why: str
    times: float = 1.0

    @property
    def sent(self) -> float:
        """Bytes that a device sends."""
        return self.step.elements_sent * self.width * self.times


def predicted_collectives(problem: Problem, choice: dict[int, int]) -> list[PredictedCollective]:
    """The collectives of a choice, in the order of the instructions."""
    collectives: list[PredictedCollective] = []
    for node in problem.clusters.dataflow.nodes:
        collectives += _combined(problem, choice, node)
        collectives += _moved(problem, choice, node)
    return collectives


def _combined(problem: Problem, choice: dict[int, int], node: Node) -> Iterator[PredictedCollective]:
    """The partial results that an instruction leaves."""
    cluster = problem.clusters.of(node)
    if cluster is None or node not in problem.clusters.maps or not isinstance(node.type, TensorType):
        return
    strategy = problem.strategy(cluster, choice)
    for step in partial_result_collectives(problem, cluster, strategy, node):
        yield PredictedCollective(node, node, step, itemsize_of(node), "combines partial results", problem.times(node))


def _moved(problem: Problem, choice: dict[int, int], value: Node) -> Iterator[PredictedCollective]:
    """The changes of spec that readers of a value ask for, each once."""
    if not isinstance(value.type, TensorType) or value not in problem.reads:
        return
    own = problem.clusters.of(value)
    assert own is not None
    source = problem.spec_tables.result_spec(value, problem.strategy(own, choice))
    seen: set[Spec] = set()
    for read in problem.reads[value]:
        cluster = problem.reading_cluster(read)
        assert cluster is not None
        target = problem.required_spec(read, problem.strategy(cluster, choice))
        if target not in seen:
            seen.add(target)
            for step in reshard_collectives(value.type.dims, source, target, problem.mesh):
                yield PredictedCollective(
                    read.reader, value, step, itemsize_of(value), f"{source} -> {target}", problem.times(value)
                )
