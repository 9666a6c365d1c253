"""Where two demands meet, and the instructions that lead there from what was set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hloom.ir import Node
from hloom.propagation.dataflow import Wiring
from hloom.propagation.solver import VALUE, Clash, Demand, Place, is_idle

TWICE, SHARED = "one axis, two dimensions", "two axes, one part"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two demands that cannot both be met, and where they first meet: there both are left out.

    `kind` is TWICE or SHARED. `axes` and `dimensions` are the two demands', `seeds` what was set for them, and `paths`
    the instructions from the seeds to `node`. `places` counts all places of the module that stay unsplit because the
    same two seeds contradict each other there in the same way.
    """

    kind: str
    node: Node
    axes: tuple[str, str]
    dimensions: tuple[str, str]
    seeds: tuple[str, str]
    paths: tuple[tuple[Node, ...], tuple[Node, ...]]
    places: int

    def __str__(self) -> str:
        one, other = self.axes
        who = f"axis {one} twice" if self.kind == TWICE else f"axes {one} and {other} on the same part"
        ways = " and ".join(
            f"{dimension} from {seed} through {route(path)}"
            for dimension, seed, path in zip(self.dimensions, self.seeds, self.paths, strict=True)
        )
        return f"{self.node.name}: {who}: {ways}"

    def to_json(self) -> dict[str, object]:
        """The conflict as plain values."""
        return {
            "kind": self.kind,
            "instruction": self.node.name,
            "computation": self.node.graph.name,
            "axes": list(self.axes),
            "dimensions": list(self.dimensions),
            "seeds": list(self.seeds),
            "paths": [[node.name for node in path] for path in self.paths],
            "places": self.places,
        }


def route(path: Sequence[Node], most: int = 6) -> str:
    """Instructions' names with arrows, the middle left out where there are many."""
    names = [node.name for node in path]
    if len(names) > most:
        half = most // 2
        names = [*names[:half], f"({len(names) - 2 * half} more)", *names[-half:]]
    return " -> ".join(names)


def conflicts(wiring: Wiring, demands: Sequence[Demand], clashes: Sequence[Clash]) -> tuple[Conflict, ...]:
    """One conflict for each pair of seeds and way to contradict each other, at the place nearest to both."""
    origins = [_origins(demand) for demand in demands]
    nearest: dict[tuple, tuple[tuple, Clash]] = {}
    counted: dict[tuple, set[tuple[int, Place]]] = {}
    for clash in clashes:
        if is_idle(wiring, clash):
            continue
        ends = _ends(demands, clash)
        (seed, distance), (other_seed, other_distance) = (origins[number][place] for number, place in ends)
        key = (clash.first, seed, clash.second, other_seed)
        rank = (distance + other_distance, clash.where != VALUE, clash.first_place, clash.second_place)
        if key not in nearest or rank < nearest[key][0]:
            nearest[key] = rank, clash
        if clash.where == VALUE:
            counted.setdefault(key, set()).update(
                ((clash.first, clash.first_place), (clash.second, clash.second_place))
            )
    return tuple(
        _conflict(wiring, demands, clash, len(counted.get(key, ()))) for key, (_, clash) in sorted(nearest.items())
    )


def _origins(demand: Demand) -> dict[Place, tuple[Place, int]]:
    """For each place the seed that reaches it first, and how many instructions lie between."""
    found: dict[Place, tuple[Place, int]] = {}
    for place, step in demand.reached.items():  # a place stands behind the one that it was reached from
        if step is None:
            found[place] = place, 0
        else:
            seed, distance = found[step[1]]
            found[place] = seed, distance + 1
    return found


def _ends(demands: Sequence[Demand], clash: Clash) -> tuple[tuple[int, Place], tuple[int, Place]]:
    """The values' places from which both demands come: an instruction's factor is reached from one of its values."""
    if clash.where == VALUE:
        return (clash.first, clash.first_place), (clash.second, clash.second_place)
    first, second = demands[clash.first], demands[clash.second]
    return (clash.first, first.carried[clash.first_place]), (clash.second, second.carried[clash.second_place])


def _conflict(wiring: Wiring, demands: Sequence[Demand], clash: Clash, places: int) -> Conflict:
    (one, place), (other, there) = _ends(demands, clash)
    if clash.where == VALUE:
        node = wiring.leaves[place[0]].node
        texts = place_text(wiring, place), place_text(wiring, there)
    else:
        node = wiring.links[clash.first_place[0]].node
        texts = _at(wiring, place), _at(wiring, there)
    paths = path(wiring, demands[one], place, node), path(wiring, demands[other], there, node)
    first, second = (
        seed_text(wiring, demands[number], demands[number].route(end)[0][1])
        for number, end in ((one, place), (other, there))
    )
    kind = TWICE if clash.first == clash.second else SHARED
    return Conflict(kind, node, (demands[one].axis, demands[other].axis), texts, (first, second), paths, places)


def path(wiring: Wiring, demand: Demand, place: Place, end: Node) -> tuple[Node, ...]:
    """The instructions from the seed of a place to an end, each once where it follows itself."""
    nodes: list[Node] = []
    for number, (leaf, _, _) in demand.route(place):
        for node in (wiring.links[number].node if number is not None else None, wiring.leaves[leaf].node):
            if node is not None and (not nodes or nodes[-1] is not node):
                nodes.append(node)
    return tuple(nodes) if nodes[-1] is end else (*nodes, end)


def place_text(wiring: Wiring, place: Place) -> str:
    """A place for people: `dimension 1`, or `dimension 1 behind 4 parts`."""
    leaf = wiring.leaves[place[0]]
    number = f" of element {leaf.number}" if len(wiring.values[leaf.node]) > 1 else ""
    return f"dimension {place[1]}{f' behind {place[2]} parts' if place[2] > 1 else ''}{number}"


def _at(wiring: Wiring, place: Place) -> str:
    return f"{place_text(wiring, place)} of {value_name(wiring, place[0])}"


def seed_text(wiring: Wiring, demand: Demand, place: Place) -> str:
    """A seed as it was set: `w:1=model`."""
    return f"{value_name(wiring, place[0])}:{place[1]}={demand.axis}"


def value_name(wiring: Wiring, number: int) -> str:
    """A value's name as it can be set: `w`, `body/state`, `loop{2}` for one of several arrays."""
    leaf = wiring.leaves[number]
    graph = leaf.node.graph
    outer = f"{graph.name}/" if graph is not wiring.module.entry else ""
    return outer + leaf.node.name + (f"{{{leaf.number}}}" if len(wiring.values[leaf.node]) > 1 else "")
