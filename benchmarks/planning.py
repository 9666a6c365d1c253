"""Figures of planning: long cost graphs through dynamic programming, and training steps through the default planner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtLeast, AtMost, Figure
from benchmarks.mindspore.cost_graph import CostGraph, cost_edge, cost_node
from benchmarks.mindspore.eliminations import solve
from benchmarks.programs import Plan, training_step
from hloom.distribute.planner.cost_tables import build_problem
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers import ilp
from hloom.distribute.planner.solvers.deadline import Deadline
from hloom.distribute.planner.solvers.factor_graph import FactorGraph, quotient_graph
from hloom.distribute.planner.solvers.ilp_model import solve_exactly
from hloom.formats.hlo import parse
from hloom.ir import Module
from hloom.sharding import Mesh

STRATEGIES = 20
SECONDS = 2.0
"""What a chain of ten thousand operators may take."""
FEWEST = 2
"""Samples of what takes seconds."""
PATIENCE, COLUMNS = 120.0, 1_000_000
"""Seconds that the solver gets for the whole program, and columns that it may have."""


def planning(plan: Plan) -> Iterator[Figure]:
    """A chain against the bar of two seconds and its half; messages against HiGHS; growth with the layers."""
    yield from _chains(plan)
    yield from _against_the_solver(plan)
    yield from _growth(plan)


def _chains(plan: Plan) -> Iterator[Figure]:
    whole, half = _chain(plan.chain), _chain(plan.chain // 2)
    chain, part = take_turns([Job(lambda _: solve(whole)), Job(lambda _: solve(half))], plan.seconds)
    bar = SECONDS * plan.chain / 10_000
    subject = f"dp: a chain of {plan.chain:,} with {STRATEGIES} strategies"
    ours = f"{chain.best:.2f} s"
    yield Figure(subject, ours, "bar", f"{bar:g} s", chain.best / bar, chain.median / bar, AtMost(1))
    growth, median = chain.best / part.best, chain.median / part.median
    yield Figure("dp: twice the chain", ours, "half of it", f"{part.best:.2f} s", growth, median, AtMost(2.5))


def _against_the_solver(plan: Plan) -> Iterator[Figure]:
    """The same network solved by messages, to the gap at which they stop, and by HiGHS as one integer program."""
    program = training_step(plan.small, metadata=False)
    problem = build_problem(parse(program.text), Mesh.parse("data=2,model=4"))
    jobs = [Job(_by_messages, lambda: quotient_graph(problem)), Job(_by_the_solver, lambda: quotient_graph(problem))]
    ours, theirs = take_turns(jobs, plan.seconds, FEWEST)
    yield Figure(
        f"ilp on 2x4, to {ilp.NEARLY:.1%}: {program.name}",
        f"{ours.best:.2f} s",
        "HiGHS",
        f"{theirs.best:.2f} s",
        theirs.best / ours.best,
        theirs.median / ours.median,
        AtLeast(1),
    )


def _by_messages(graph: FactorGraph) -> None:
    result = ilp.solve(graph, Deadline())
    assert result.gap <= ilp.NEARLY


def _by_the_solver(graph: FactorGraph) -> None:
    result = solve_exactly(graph, 1.0, Deadline(PATIENCE), most=COLUMNS)
    assert result is not None and result.choice is not None


def _growth(plan: Plan) -> Iterator[Figure]:
    """An instruction's share of building and solving the problem on a flat mesh, with the bound of untied layers."""
    programs = [training_step(replace(plan.small, layers=layers), metadata=False) for layers in plan.layers]
    modules = [parse(program.text) for program in programs]
    jobs = [Job(_planned, lambda module=module: module) for module in modules]
    first, *more = take_turns(jobs, plan.seconds, FEWEST)
    for program, times in zip(programs[1:], more, strict=True):
        counts = program.instructions / programs[0].instructions
        yield Figure(
            f"build and ilp on 8: an instruction of {program.name}",
            f"{times.best:.2f} s",
            f"{plan.layers[0]} layers",
            f"{first.best:.2f} s",
            times.best / first.best / counts,
            times.median / first.median / counts,
            AtMost(1.3),
            program.instructions / times.best,
        )


def _planned(module: Module) -> Problem:
    problem = build_problem(module, Mesh.parse("x=8"))
    ilp.plan(problem)
    return problem


def _chain(count: int) -> CostGraph:
    random = np.random.default_rng(0)
    nodes = tuple(cost_node(f"n{number}", random.random(STRATEGIES)) for number in range(count))
    tables = random.random((count - 1, STRATEGIES, STRATEGIES))
    return CostGraph(nodes, tuple(cost_edge(number, number + 1, table) for number, table in enumerate(tables)))
