"""Figures of minimisation: faults planted in a training step, candidates a second, and how the time grows with size."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.clock import Job, take_turns
from benchmarks.figures import AtMost, Figure, growth, milliseconds
from benchmarks.programs import Plan, Program, training_step
from hloom.formats.hlo import parse
from hloom.inspection.minimize import (
    DiffersBetweenFlags,
    DiffersFromEvaluator,
    FaultPredicate,
    Minimization,
    PassesChangeNumbers,
    SlowerThan,
    XlaRefuses,
    minimize,
)
from hloom.ir import DTYPES, Apply, Graph, Module, Node, TensorType, Type, literal_of
from hloom.ops import OPS
from hloom.runtime import close, xla_flags

LIMIT = 300
"""Seconds of processor time, XLA's included, in which a training step is to come down to a few instructions."""
MOST_LEFT = 10
"""How many instructions those are."""
FEWEST = 1
FAST = "--xla_cpu_enable_fast_math=true --xla_cpu_fast_math_honor_nans=false --xla_cpu_fast_math_honor_infs=false"
SIDE = 2048
"""How many rows a matrix product has that is planted to be slow."""
SLOW = 0.08
"""How many seconds a step takes with it at least, and does not without."""


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A fault: what puts it at an instruction, what tells of it, and the flags that XLA is asked with."""

    name: str
    plant: Callable[[Apply], Node]
    predicate: Callable[[], FaultPredicate]
    flags: str = ""


def minimization(plan: Plan) -> Iterator[Figure]:
    """Faults planted in a small step, and a fault that costs nothing to check in steps of two sizes."""
    yield from planted_faults(plan)
    programs = training_step(plan.small, True), training_step(plan.large, True)
    jobs = [Job(_minimize, partial(_module, program)) for program in programs]
    less, more = take_turns(jobs, plan.seconds, FEWEST)
    steps = _minimize(_module(programs[1])).steps
    ours, limit = f"{milliseconds(more.best)}, {steps / more.best:,.0f} candidates/s", f"{LIMIT} s"
    yield Figure(f"minimize: {programs[1].name}", ours, "limit", limit, more.best / LIMIT, None, AtMost(1))
    yield growth("minimize", *programs, less, more, AtMost(2))


def planted_faults(plan: Plan) -> Iterator[Figure]:
    """Each of the predicates on a step of as many layers, narrow enough to run many times."""
    config = replace(plan.small, width=32, heads=4, vocabulary=64, sequence=16, batch=2)
    program = training_step(config, True)
    for fault in FAULTS:
        module = parse(program.text)
        _plant(module, fault.plant)
        close()  # the processor time of workers counts when they have ended
        start = _processor_seconds()
        with xla_flags(fault.flags) if fault.flags else nullcontext():
            result = minimize(module, fault.predicate())
        close()
        seconds = _processor_seconds() - start
        left = result.instructions
        yield Figure(
            f"minimize: {fault.name}, {program.name}, narrow",
            f"{left} instructions, {result.steps} candidates, {seconds:.0f} s",
            "limit",
            f"{MOST_LEFT} instructions, {LIMIT} s",
            max(left / MOST_LEFT, seconds / LIMIT),
            None,
            AtMost(1),
        )


def _processor_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _plant(module: Module, plant: Callable[[Apply], Node]) -> None:
    """Put a fault before the tanh in the middle of the layers."""
    module.index_users()
    nodes = [node for node in module.nodes() if node.opcode == "tanh" and isinstance(node, Apply)]
    node = nodes[len(nodes) // 2]
    node.graph.set_operands(node, [plant(node)])


def _comparison_of_nans(node: Apply) -> Node:
    """The operand where its logarithm is NaN, its negative elsewhere: fast arithmetic knows no NaN."""
    (operand,) = node.operands
    logarithm = _op(node, "log", operand, type=operand.type)
    mask = _op(node, "compare", logarithm, logarithm, type=_typed(operand, "pred"), direction="NE")
    return _op(node, "select", mask, operand, _op(node, "negate", operand, type=operand.type), type=operand.type)


def _unknown_target(node: Apply) -> Node:
    """A custom call of a target that nobody has."""
    return _op(node, "custom-call", node.operands[0], type=node.operands[0].type, custom_call_target="no_such_target")


def _wrong_pass(module: Module) -> None:
    """Take the argument of a tanh for its value, where a select comes before it."""
    for node in list(module.nodes()):
        if node.opcode == "tanh" and node.operands[0].opcode == "select":
            node.graph.replace_uses(node, node.operands[0])
            node.graph.erase(node)


def _slow_product(node: Apply) -> Node:
    """A product of large matrices, of which a sum is added."""
    (operand,) = node.operands
    matrix = TensorType(DTYPES["f32"], (SIDE, SIDE))
    zero = node.graph.add_constant(literal_of(0, DTYPES["f32"]), _scalar(), before=node)
    total = _op(
        node,
        "reduce",
        operand,
        zero,
        type=_scalar(),
        dimensions=tuple(range(_rank(operand))),
        to_apply=_adder(node.graph),
    )
    square = _op(node, "broadcast", total, type=matrix, dimensions=())
    product = _op(node, "dot", square, square, type=matrix, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
    one = _op(node, "reduce", product, zero, type=_scalar(), dimensions=(0, 1), to_apply=_adder(node.graph))
    return _op(node, "add", operand, _op(node, "broadcast", one, type=operand.type, dimensions=()), type=operand.type)


def _op(node: Apply, opcode: str, *operands: Node, type: Type | None, **attributes: object) -> Node:
    return node.graph.add_apply(OPS[opcode], operands, type, attributes, before=node)


def _adder(graph: Graph) -> Graph:
    """The sum of the program's own reductions."""
    callees = [node.attributes["to_apply"] for node in graph.nodes if node.opcode == "reduce"]
    return next(callee for callee in callees if callee.root.opcode == "add")


def _scalar() -> TensorType:
    return TensorType(DTYPES["f32"], ())


def _typed(node: Node, name: str) -> TensorType:
    assert isinstance(node.type, TensorType), "an array"
    return TensorType(DTYPES[name], node.type.dims)


def _rank(node: Node) -> int:
    assert isinstance(node.type, TensorType), "an array"
    return node.type.rank


FAULTS = (
    PlantedFault("--xla-refuses, a custom call", _unknown_target, XlaRefuses),
    PlantedFault("--differs-between, NaNs", _comparison_of_nans, lambda: DiffersBetweenFlags(FAST, "")),
    PlantedFault("--differs-from-evaluator, NaNs", _comparison_of_nans, DiffersFromEvaluator, FAST),
    PlantedFault("--passes, a wrong pass", _comparison_of_nans, lambda: PassesChangeNumbers(_wrong_pass)),
    PlantedFault("--slower-than, a product", _slow_product, lambda: SlowerThan(SLOW)),
)
"""What is planted in a step, once for each built-in predicate that a planted fault can make hold."""


def _module(program: Program) -> Module:
    return parse(program.text)


def _minimize(module: Module) -> Minimization:
    return minimize(module, _shows)


def _shows(module: Module) -> bool:
    return any(
        node.opcode == "tanh" and any(user.opcode == "multiply" for user in node.users) for node in module.nodes()
    )
