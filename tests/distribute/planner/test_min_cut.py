"""Minimum cuts of nodes, beside all cuts of small random graphs."""

from __future__ import annotations

import itertools
import random

import pytest

from hloom.distribute.planner.min_cut import min_node_cut


def test_a_value_is_cut_itself_where_what_it_is_made_of_costs_more():
    assert min_node_cut({"z": 2.0, "x": 1.5, "y": 1.0}, {"z": ["x", "y"]}, "z") == {"z"}


def test_of_equal_cuts_the_nearest_to_the_value_is_taken():
    assert min_node_cut({"z": 1.0, "y": 1.0, "x": 1.0}, {"z": ["y"], "y": ["x"]}, "z") == {"z"}


def test_what_is_read_twice_is_cut_once():
    operands = {"z": ["a", "b"], "a": ["x"], "b": ["x"]}
    assert min_node_cut({"z": 9.0, "a": 2.0, "b": 2.0, "x": 3.0}, operands, "z") == {"x"}


def test_what_may_not_be_cut_leaves_the_value():
    infinite = float("inf")
    assert min_node_cut({"z": infinite, "x": infinite}, {"z": ["x"]}, "z") == {"z"}


def test_what_costs_too_much_behind_the_cut_is_cut():
    assert min_node_cut({"z": 4.0, "x": 1.0}, {"z": ["x"]}, "z", {"z": 2.0}) == {"x"}
    assert min_node_cut({"z": 4.0, "x": 1.0}, {"z": ["x"]}, "z", {"z": 3.5}) == {"z"}


@pytest.mark.parametrize("seed", range(40))
def test_no_cut_is_cheaper(seed: int):
    draw = random.Random(seed)
    count = draw.randint(2, 7)
    operands = {node: [other for other in range(node) if draw.random() < 0.5] for node in range(count)}
    capacity = {node: float(draw.randint(1, 9)) for node in range(count)}
    behind = {node: float(draw.randint(0, 3)) for node in range(count) if draw.random() < 0.5}

    def price(cut: set[int]) -> float:
        between = _between(cut, operands, count - 1)
        return sum(capacity[node] for node in cut) + sum(behind.get(node, 0.0) for node in between)

    cut = min_node_cut(capacity, operands, count - 1, behind)
    assert _separates(cut, operands, count - 1)
    every = (set(other) for size in range(count + 1) for other in itertools.combinations(range(count), size))
    assert price(cut) == min(price(other) for other in every if _separates(other, operands, count - 1))


def _separates(cut: set[int], operands: dict[int, list[int]], sink: int) -> bool:
    """Whether every way from a node without operands to the sink passes the cut."""
    return all(operands[node] for node in _between(cut, operands, sink))


def _between(cut: set[int], operands: dict[int, list[int]], sink: int) -> set[int]:
    """The nodes from which there is a way to the sink that passes nothing of the cut."""
    pending = [] if sink in cut else [sink]
    for node in pending:
        pending += [operand for operand in operands[node] if operand not in cut and operand not in pending]
    return set(pending)
