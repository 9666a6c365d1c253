"""From what is demanded of some places to the unique largest answer for all.

1. Each axis reaches every place that instructions connect with a seed. A part of a dimension whose major parts no axis
   splits cannot be split itself: it is taken out, with all that is reached through it only, until none is left.
2. Contradictions are found in all that is reached at once: the same axis twice in one value (or in one instruction's
   iteration space), or two axes on the same part of a dimension. All places of a contradiction stay unsplit.
3. Each axis is let reach again, now not through those places, and again parts without their major parts are taken out.

Dimensions that come from nowhere (`Wiring.free`) take demands and pass none on to other uses.

Every step is a function of sets, so no order matters. Seeds are facts: they stay in the answer, though they carry
nothing on where they contradict what others demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hloom.propagation.dataflow import Wiring

Place = tuple[int, int, int]
"""A value (or a link), a dimension (or a factor), and how many parts are cut before."""
Step = tuple[int, tuple[int, int, int]] | None
"""From where a place was reached: the link and the place before; None for a seed."""

VALUE, LINK = "value", "instruction"


@dataclass(slots=True)
class Demand:
    """One axis: its size, its seeds, what it reaches, and where it must not go."""

    axis: str
    size: int
    seeds: tuple[Place, ...]
    reached: dict[Place, Step] = field(default_factory=dict)
    carried: dict[Place, Place] = field(default_factory=dict)
    walls: set[Place] = field(default_factory=set)
    link_walls: set[Place] = field(default_factory=set)
    alone: dict[Place, Step] = field(default_factory=dict)
    """Places that were taken out because nothing splits the parts before them."""

    def route(self, place: Place) -> list[tuple[int | None, Place]]:
        """The steps that lead to a place, from its seed on: the link, None for the seed, and the place."""
        steps: list[tuple[int | None, Place]] = []
        step = self.reached[place]
        while step is not None:
            steps.append((step[0], place))
            place = step[1]
            step = self.reached[place]
        steps.append((None, place))
        return steps[::-1]


class Clash(NamedTuple):
    """Two places that contradict each other, of two demands by number; in a value, or in an instruction."""

    where: str
    first: int
    first_place: Place
    second: int
    second_place: Place


def solve(wiring: Wiring, demands: Sequence[Demand]) -> list[Clash]:
    """Fill in what the demands reach; gives back the contradictions of all that they would reach."""
    _reach_supported(wiring, demands)
    clashes = find_clashes(demands)
    if not clashes:
        return []
    for clash in clashes:
        for number, place in ((clash.first, clash.first_place), (clash.second, clash.second_place)):
            demand = demands[number]
            (demand.walls if clash.where == VALUE else demand.link_walls).add(place)
    return clashes


def is_idle(wiring: Wiring, clash: Clash) -> bool:
    """Whether a contradiction costs nothing: one of the demands is of a dimension that comes from nowhere."""
    if clash.where == VALUE:
        return any(wiring.is_free(*place[:2]) for place in (clash.first_place, clash.second_place))
    link = wiring.links[clash.first_place[0]]
    return any(
        all(wiring.is_free(link.leaves[each.slot], each.dimension) for each in link.relation.standing[place[1]])
        for place in (clash.first_place, clash.second_place)
    )


def settle(wiring: Wiring, demands: Sequence[Demand]) -> None:
    """Let the demands reach once more, now that walls stand where they contradict each other."""
    _reach_supported(wiring, demands)


def reach(wiring: Wiring, demand: Demand) -> None:
    """Every place that is connected with a seed, breadth first, not through walls."""
    size, walls, link_walls = demand.size, demand.walls, demand.link_walls
    links, touching, free = wiring.links, wiring.touching, wiring.free
    reached: dict[Place, Step] = dict.fromkeys(demand.seeds)
    carried: dict[Place, Place] = {}
    queue = [seed for seed in demand.seeds if seed not in walls]
    for place in queue:
        leaf, dimension, major = place
        is_taken = dimension in free[leaf] and reached[place] is not None
        for number, slot in touching[leaf]:
            relation = links[number].relation
            if is_taken and slot < relation.results:
                continue
            found = relation.factor_at(slot, dimension, major)
            if found is None:
                continue
            factor, within = found
            point = (number, factor, within)
            if point in carried or point in link_walls or not relation.passes(slot, dimension, factor, within, size):
                continue
            carried[point] = place
            is_even = relation.factors[factor].size % (within * size) == 0
            leaves = links[number].leaves
            for other, there, front, is_single in relation.standing[factor]:
                target = (leaves[other], there, front * within)
                if target not in reached and target not in walls and (is_even or is_single):
                    reached[target] = (number, place)
                    queue.append(target)
    demand.reached, demand.carried = reached, carried


def _reach_supported(wiring: Wiring, demands: Sequence[Demand]) -> None:
    waiting: Iterable[Demand] = demands
    while waiting:
        for demand in waiting:
            reach(wiring, demand)
        changed = []
        for demand, place in _unsupported(demands):
            demand.walls.add(place)
            demand.alone[place] = demand.reached[place]
            changed.append(demand)
        waiting = [demand for demand in demands if demand in changed]


def _unsupported(demands: Sequence[Demand]) -> list[tuple[Demand, Place]]:
    """The places whose major parts are not split by axes that add up to them."""
    inner = {place[:2] for demand in demands for place in demand.reached if place[2] > 1}
    if not inner:
        return []
    cuts: dict[tuple[int, int], list[tuple[int, Demand, Place]]] = {}
    for demand in demands:
        for place in demand.reached:
            if place[:2] in inner:
                cuts.setdefault(place[:2], []).append((place[2], demand, place))
    found = []
    for each in cuts.values():
        supported = {1}
        for major, demand, place in sorted(each, key=lambda cut: cut[0]):
            if major in supported:
                supported.add(major * demand.size)
            elif place not in demand.seeds:
                found.append((demand, place))
    return found


def find_clashes(demands: Sequence[Demand]) -> list[Clash]:
    """All pairs of places that cannot both be split, in values and in instructions' iteration spaces."""
    values = _clashes(VALUE, demands, [demand.reached for demand in demands])
    return values + _clashes(LINK, demands, [demand.carried for demand in demands])


def _clashes(where: str, demands: Sequence[Demand], reached: Sequence[Iterable[Place]]) -> list[Clash]:
    first: dict[int, tuple[int, Place]] = {}
    several: dict[int, list[tuple[int, Place]]] = {}
    for number, places in enumerate(reached):
        for place in places:
            owner = place[0]
            if owner in several:
                several[owner].append((number, place))
            elif owner in first:
                several[owner] = [first[owner], (number, place)]
            else:
                first[owner] = (number, place)
    return [
        Clash(where, one, place, other, there)
        for owner in sorted(several)
        for one, place, other, there in _pairs(sorted(several[owner]))
        if _contradict(demands, one, place, other, there)
    ]


def _pairs(each: list[tuple[int, Place]]) -> Iterable[tuple[int, Place, int, Place]]:
    return ((*a, *b) for number, a in enumerate(each) for b in each[number + 1 :])


def _contradict(demands: Sequence[Demand], one: int, place: Place, other: int, there: Place) -> bool:
    """The same axis twice; or two axes on parts of one dimension that overlap."""
    if one == other:
        return True
    if place[1] != there[1]:
        return False
    (major, size), (minor, _) = sorted(((place[2], demands[one].size), (there[2], demands[other].size)))
    return minor < major * size
