"""How much memory a run of a module takes: by its own schedule, or by one that hloom works out."""

from __future__ import annotations

from collections.abc import Callable

from hloom.analysis import MALFORMED, Donations, Liveness, MemoryReport, liveness, memory_report
from hloom.analysis import SCHEDULES as ORDERS
from hloom.ir import Module, Node, verify
from hloom.passes import SIMPLIFY_BEFORE_DOTS, apply_in_place
from hloom.text import HloomError
from hloom.xla_cpu.buffer_simulation import simulate_buffers

OWN = "own"
"""The schedule of a module that XLA has scheduled."""
COMPILED = "cpu"
"""The schedule of a module as XLA's CPU compiler would compile it."""
SCHEDULES = (COMPILED, *ORDERS)
MOST_COMPILED = 200_000
"""Modules of more instructions get the list schedule unless asked for: to compile them takes minutes."""


def memory(module: Module, *, schedule: str | None = None) -> MemoryReport:
    """Work out how much memory a run of a module takes.

    A scheduled module (`is_scheduled=true`) runs in its own order, and the report is nearly XLA's own figure. Any other
    is compiled by a model of XLA's CPU compiler, "cpu" (docs/memory_accuracy.md says how nearly); or its instructions
    run in the order asked for, "list" or "text", which says less of XLA and is quicker. A fragment, which lacks what it
    refers to, and a module of more than MOST_COMPILED instructions, run in the order "list". The report says which it
    was.
    Raises ValueError for another name, and HloomError for a malformed module.
    """
    if schedule is not None and schedule not in SCHEDULES:
        raise ValueError(f"no schedule is called '{schedule}': they are {', '.join(SCHEDULES)}")
    try:
        if schedule == COMPILED or (schedule is None and _is_compiled(module)):
            return _compiled_report(module)
        name = schedule or (OWN if module.is_scheduled else "list")
        live = liveness(module, schedule)
        return memory_report(module, name, live, lambda given: liveness(module, schedule, given))
    except MALFORMED as problem:
        verify(module)  # says what is wrong, and where
        raise HloomError(f"{module.name} cannot be followed: {problem}") from problem


def _is_compiled(module: Module) -> bool:
    if module.is_scheduled or module.has_closures or module.unresolved:
        return False
    return module.node_count <= MOST_COMPILED


def _compiled_report(module: Module) -> MemoryReport:
    program = module.clone()
    apply_in_place(program, ["inline", SIMPLIFY_BEFORE_DOTS])

    def compiled(given: Donations | None = None) -> tuple[Liveness, Callable[[Node], Node]]:
        model = program.clone()
        known = {node for graph in model.graphs for node in graph.nodes}
        return simulate_buffers(model, given, keeps_barriers=False), lambda node: _origin(node, known)

    live, origin = compiled()
    return memory_report(module, COMPILED, live, lambda given: compiled(given)[0], origin)


def _origin(node: Node, known: set[Node]) -> Node:
    """The instruction of the program that a further one computes a form of: what it is a copy or conversion of."""
    start, passed = node, 0
    while node not in known and node.inputs and passed <= len(known):
        node, passed = node.inputs[0], passed + 1
    return node if node in known else start
