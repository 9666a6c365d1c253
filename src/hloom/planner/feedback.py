"""What the partitioner really emitted, put back into the tables of a problem.

A model of the partitioner is wrong somewhere: most often where a dot or gather gets an operand in another spec than it
would like, and works in its own way instead of resharding. Where an instruction sent more than was expected, the
changes of spec that led to it (or its strategy, where there were none) become dearer by that much, for all clusters
alike; the next solution then goes elsewhere, or is right about the price.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from hloom.ir import Node
from hloom.planner.predicted_collectives import predicted_collectives
from hloom.planner.problem import Problem, add_reshard_cost, add_strategy_cost, rebuild_edge_costs

NOISE = 0.002
"""Differences below this share of all that is sent teach nothing."""


def learn(problem: Problem, choice: dict[int, int], measured: Mapping[str, float]) -> float:
    """Correct the tables by the bytes that each instruction was measured to send; the bytes that were not expected.

    `measured` are bytes by the name of the instruction that caused them.
    """
    expected: dict[str, float] = defaultdict(float)
    for each in predicted_collectives(problem, choice):
        expected[each.instruction.name] += each.sent
    total = sum(measured.values()) or 1.0
    surprise = 0.0
    for name, sent in measured.items():
        node = problem.clusters.flow.named(name)
        if node is None:
            continue
        passed_on = sum(max(expected.get(u.name, 0.0) - measured.get(u.name, 0.0), 0.0) for u in node.users)
        excess = sent - expected.get(name, 0.0) - passed_on
        if excess > NOISE * total:
            surprise += excess
            _charge(problem, choice, node, excess / problem.rates.wire)
    if surprise:
        rebuild_edge_costs(problem)
    return surprise


def _charge(problem: Problem, choice: dict[int, int], node: Node, seconds: float) -> None:
    """Make what led to an instruction dearer: the largest change of spec among its operands, or its strategy."""
    changed = [
        read
        for operand in node.inputs
        for read in problem.reads.get(operand, ())
        if read.reader is node and add_reshard_cost(problem, choice, operand, read, 0.0)
    ]
    if not changed:
        add_strategy_cost(problem, choice, node, seconds)
        return
    for read in changed:
        add_reshard_cost(problem, choice, node.inputs[read.place], read, seconds / len(changed))
