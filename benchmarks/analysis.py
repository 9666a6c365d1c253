"""Figures of analyses: inferring types, counting costs, liveness, estimating time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from benchmarks import peers
from benchmarks.clock import Job, Times, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds, times_the_time
from benchmarks.programs import Plan, Program, called, training_step, unrolled
from hloom.analysis import cost, roofline, timeline
from hloom.formats.hlo import parse
from hloom.ir import Apply, Module, infer_type
from hloom.targets.memory import memory

SECOND = AtMost(1)
LINEAR = AtMost(2)
"""Caches and the garbage collector make large modules more expensive; what is quadratic would pass this by far."""
DEVICE = "h100"
FEWEST = 3
"""Samples of analyses of a million instructions."""


def analysis(plan: Plan) -> Iterator[Figure]:
    """Each analysis of a module just read: seconds for the large program, growth, and XLA's own cost analysis."""
    programs = training_step(plan.small, True), training_step(plan.large, True)
    for subject, run in _ANALYSES.items():
        jobs = [_job(run, program) for program in programs]
        less, more = take_turns(jobs, plan.seconds)
        yield _within_a_second(subject, programs[1], more)
        yield growth(subject, *programs, less, more, LINEAR)
    less, more = take_turns([_job(memory, program) for program in programs], plan.seconds)
    yield growth("memory, compiled", *programs, less, more, LINEAR)
    for program in programs:
        theirs_job = Job(peers.xla_cost, lambda text=program.text: peers.xla_parse(text))
        jobs = [_job(lambda module: cost(module).total_once, program), theirs_job]
        ours, theirs = take_turns(jobs, plan.seconds)
        yield times_the_time("cost", program, ours, peers.XLA, theirs, AtMost(3))


def analysis_of_a_million(plan: Plan) -> Iterator[Figure]:
    """Whether analyses are linear: many training steps against one, each in its computation and all in one."""
    program = training_step(plan.large, False)
    for make, shape in ((called, "called"), (unrolled, "in one graph")):
        once, often = make(program, 1), make(program, plan.copies)
        for subject in ("infer types", "cost", "memory"):
            jobs = [Job(_ANALYSES[subject], cache(lambda text=program.text: parse(text))) for program in (once, often)]
            less, more = take_turns(jobs, plan.seconds, FEWEST)
            yield growth(f"{subject}, {shape}", once, often, less, more, AtMost(1.3))


def _job(run: Callable[[Module], object], program: Program) -> Job:
    return Job(run, lambda: parse(program.text))


def _infer(module: Module) -> None:
    """The type of every instruction, from those that are written of its operands."""
    for node in module.nodes():
        if isinstance(node, Apply) and node.op.infer is not None:
            infer_type(node.op, [operand.type for operand in node.operands if operand.type], node.attributes, node.type)


def _count(module: Module) -> object:
    """All that `hloom cost` shows: totals by each count, loops, and groups by opcode."""
    report = cost(module)
    return report.total, report.total_once, report.mathematical, report.minimum, report.loops, report.by("opcode")


def _lay_out(module: Module) -> object:
    laid_out = timeline(module, DEVICE)
    return laid_out.seconds, laid_out.critical_path(), laid_out.gaps(), laid_out.hints()


def _estimate(module: Module) -> object:
    roofline_report = roofline(module, DEVICE)
    return roofline_report.seconds, roofline_report.by("opcode")


def _schedule(module: Module) -> object:
    return memory(module, schedule="list")


_ANALYSES: dict[str, Callable[[Module], object]] = {
    "infer types": _infer,
    "cost": _count,
    "memory": _schedule,
    "roofline": _estimate,
    "timeline": _lay_out,
}


def _within_a_second(subject: str, program: Program, times: Times) -> Figure:
    return Figure(
        f"{subject}: {program.name}",
        milliseconds(times.best),
        "limit",
        "1 s",
        times.best,
        times.median,
        SECOND,
        program.instructions / times.best,
    )
