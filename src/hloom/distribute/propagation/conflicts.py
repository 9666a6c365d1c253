"""Conflicts between axis shardings, and the paths of instructions from the user shardings to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.distribute.propagation.dimension_equations import DataflowGraph
from hloom.distribute.propagation.solver import VALUE, AxisSharding, Contradiction, ShardedDim, is_idle
from hloom.ir import Node
from hloom.text import Record

TWICE, SHARED = "one axis, two dimensions", "two axes, one part"


@dataclass(frozen=True, slots=True)
class Conflict(Record):
    """Two axis shardings that cannot both be applied, and where they first meet: there both are left out.

    `reason` is TWICE or SHARED. `axes` and `dimensions` are those of the two shardings, `seeds` the settings they come
    from, and `paths` the instructions from the seeds to `node`. `places` counts all dimensions of the module that stay
    unsplit because the same two seeds conflict there in the same way.
    """

    reason: str
    node: Node
    axes: tuple[str, str]
    dimensions: tuple[str, str]
    seeds: tuple[str, str]
    paths: tuple[tuple[Node, ...], tuple[Node, ...]]
    places: int
    json_keys = "reason instruction=node.name computation=node.graph.name axes dimensions seeds paths=paths.name places"

    def __str__(self) -> str:
        one, other = self.axes
        who = f"axis {one} twice" if self.reason == TWICE else f"axes {one} and {other} on the same part"
        ways = " and ".join(
            f"{dimension} from {seed} through {route(path)}"
            for dimension, seed, path in zip(self.dimensions, self.seeds, self.paths, strict=True)
        )
        return f"{self.node.name}: {who}: {ways}"


def route(path: Sequence[Node], most: int = 6) -> str:
    """Instruction names joined by arrows, with the middle elided if there are many."""
    names = [node.name for node in path]
    if len(names) > most:
        half = most // 2
        names = [*names[:half], f"({len(names) - 2 * half} more)", *names[-half:]]
    return " -> ".join(names)


def conflicts(
    dataflow: DataflowGraph, shardings: Sequence[AxisSharding], contradictions: Sequence[Contradiction]
) -> tuple[Conflict, ...]:
    """One conflict for each pair of seeds and way to contradict each other, at the dimension nearest to both."""
    origins = [_origins(sharding) for sharding in shardings]
    nearest: dict[tuple, tuple[tuple, Contradiction]] = {}
    counted: dict[tuple, set[tuple[int, ShardedDim]]] = {}
    for contradiction in contradictions:
        if is_idle(dataflow, contradiction):
            continue
        ends = _ends(shardings, contradiction)
        (seed, distance), (other_seed, other_distance) = (origins[number][dim] for number, dim in ends)
        key = (contradiction.first, seed, contradiction.second, other_seed)
        rank = (
            distance + other_distance,
            contradiction.where != VALUE,
            contradiction.first_place,
            contradiction.second_place,
        )
        if key not in nearest or rank < nearest[key][0]:
            nearest[key] = rank, contradiction
        if contradiction.where == VALUE:
            counted.setdefault(key, set()).update(
                ((contradiction.first, contradiction.first_place), (contradiction.second, contradiction.second_place))
            )
    return tuple(
        _conflict(dataflow, shardings, contradiction, len(counted.get(key, ())))
        for key, (_, contradiction) in sorted(nearest.items())
    )


def _origins(sharding: AxisSharding) -> dict[ShardedDim, tuple[ShardedDim, int]]:
    """For each dimension the seed that reaches it first, and the number of instructions between."""
    origins: dict[ShardedDim, tuple[ShardedDim, int]] = {}
    for dim, step in sharding.reached.items():  # after the one that it was reached from
        if step is None:
            origins[dim] = dim, 0
        else:
            seed, distance = origins[step[1]]
            origins[dim] = seed, distance + 1
    return origins


def _ends(
    shardings: Sequence[AxisSharding], contradiction: Contradiction
) -> tuple[tuple[int, ShardedDim], tuple[int, ShardedDim]]:
    """The dimensions from which both shardings come: an instruction's factor is reached from one of its values."""
    if contradiction.where == VALUE:
        return (contradiction.first, contradiction.first_place), (contradiction.second, contradiction.second_place)
    first, second = shardings[contradiction.first], shardings[contradiction.second]
    return (contradiction.first, first.factors_reached[contradiction.first_place]), (
        contradiction.second,
        second.factors_reached[contradiction.second_place],
    )


def _conflict(
    dataflow: DataflowGraph, shardings: Sequence[AxisSharding], contradiction: Contradiction, places: int
) -> Conflict:
    (one, dim), (other, there) = _ends(shardings, contradiction)
    if contradiction.where == VALUE:
        node = dataflow.leaves[dim[0]].node
        texts = place_text(dataflow, dim), place_text(dataflow, there)
    else:
        node = dataflow.equations[contradiction.first_place[0]].node
        texts = _at(dataflow, dim), _at(dataflow, there)
    paths = path(dataflow, shardings[one], dim, node), path(dataflow, shardings[other], there, node)
    first, second = (
        seed_text(dataflow, shardings[number], shardings[number].route(end)[0][1])
        for number, end in ((one, dim), (other, there))
    )
    reason = TWICE if contradiction.first == contradiction.second else SHARED
    return Conflict(reason, node, (shardings[one].axis, shardings[other].axis), texts, (first, second), paths, places)


def path(dataflow: DataflowGraph, sharding: AxisSharding, dim: ShardedDim, end: Node) -> tuple[Node, ...]:
    """The instructions from the seed of a dimension to an end, without repeats."""
    nodes: list[Node] = []
    for number, (leaf, _, _) in sharding.route(dim):
        for node in (dataflow.equations[number].node if number is not None else None, dataflow.leaves[leaf].node):
            if node is not None and (not nodes or nodes[-1] is not node):
                nodes.append(node)
    return tuple(nodes) if nodes[-1] is end else (*nodes, end)


def place_text(dataflow: DataflowGraph, dim: ShardedDim) -> str:
    """A dimension as text: `dimension 1`, or `dimension 1 behind 4 parts`."""
    leaf = dataflow.leaves[dim[0]]
    number = f" of element {leaf.number}" if len(dataflow.values[leaf.node]) > 1 else ""
    return f"dimension {dim[1]}{f' behind {dim[2]} parts' if dim[2] > 1 else ''}{number}"


def _at(dataflow: DataflowGraph, dim: ShardedDim) -> str:
    return f"{place_text(dataflow, dim)} of {value_name(dataflow, dim[0])}"


def seed_text(dataflow: DataflowGraph, sharding: AxisSharding, dim: ShardedDim) -> str:
    """A seed as it was set: `w:1=model`."""
    return f"{value_name(dataflow, dim[0])}:{dim[1]}={sharding.axis}"


def value_name(dataflow: DataflowGraph, number: int) -> str:
    """A value's name as it can be set: `w`, `body/state`, `loop{2}` for one of several arrays."""
    leaf = dataflow.leaves[number]
    graph = leaf.node.graph
    outer = f"{graph.name}/" if graph is not dataflow.module.entry else ""
    return outer + leaf.node.name + (f"{{{leaf.number}}}" if len(dataflow.values[leaf.node]) > 1 else "")
