"""The position of isomorphic clusters in the order of repeated layers, in a consistent direction.

In program order, the clusters of the backward pass run from the last layer to the first. So the order of a class is
reversed if that brings its clusters nearer to the clusters of other classes that they exchange values with.
"""

from __future__ import annotations

from collections import defaultdict

from hloom.distribute.planner.problem import Problem


def layer_positions(problem: Problem) -> dict[int, float]:
    """For each cluster how many of its class stand before it, as a share between 0 and 1; 0.5 where it is alone."""
    members: dict[int, list[int]] = defaultdict(list)
    for number in sorted(problem.options):
        members[problem.representative[number]].append(number)
    positions = {
        number: (index + 0.5) / len(numbers) for numbers in members.values() for index, number in enumerate(numbers)
    }
    straight, turned = _distances(problem, members, positions)
    neighbours: dict[int, set[int]] = defaultdict(set)
    for first, second in straight:
        neighbours[first].add(second)
        neighbours[second].add(first)
    is_turned: dict[int, bool] = {}
    for start in sorted(members, key=lambda leader: (-len(members[leader]), leader)):
        waiting = [] if start in is_turned else [start]
        is_turned.setdefault(start, False)
        for leader in waiting:
            for other in sorted(neighbours[leader] - is_turned.keys()):
                pair = min(leader, other), max(leader, other)
                is_turned[other] = is_turned[leader] != (turned[pair] < straight[pair])
                waiting.append(other)
    return {
        number: 1 - position if is_turned[problem.representative[number]] else position
        for number, position in positions.items()
    }


_Distances = dict[tuple[int, int], float]


def _distances(
    problem: Problem, members: dict[int, list[int]], positions: dict[int, float]
) -> tuple[_Distances, _Distances]:
    """How far apart clusters of two repeated classes are that exchange values: as they stand, and one turned round."""
    pairs = [*problem.edge_costs]
    pairs += [(shared.cluster, reader) for shared in problem.shared_reshards for reader, _ in shared.readers]
    straight: _Distances = defaultdict(float)
    turned: _Distances = defaultdict(float)
    for a, b in pairs:
        first, second = problem.representative[a], problem.representative[b]
        if first == second or len(members[first]) < 2 or len(members[second]) < 2:
            continue
        key = min(first, second), max(first, second)
        straight[key] += abs(positions[a] - positions[b])
        turned[key] += abs(positions[a] - (1 - positions[b]))
    return straight, turned
