"""Which program of a trace a module is, if any: by its instructions, or by the program it was compiled to."""

from __future__ import annotations

from dataclasses import dataclass

from hloom.analysis import op_name_of
from hloom.formats.hlo import read_proto
from hloom.inspection.profile.trace import OpEvent, ProfilerTrace, ProgramId
from hloom.ir import Module, Parameter, Type, without_layout
from hloom.text import HloomError

LEAST_SHARE = 0.9
"""The minimum share of measured events whose instructions a module must have to be the one that ran."""
LEAST_NAMES = 0.5
"""The minimum share of op_names a module must have in common with the one that ran to be its source."""
MOST_LISTED = 5


@dataclass(frozen=True, slots=True)
class MatchedProgram:
    """A program of a trace with the module whose instructions its events are of.

    `module` is the one that was given if it `is_given`, and the optimised one out of the trace otherwise.
    """

    program: ProgramId
    module: Module
    events: list[OpEvent]
    is_given: bool
    share: float


def match_program(module: Module, trace: ProfilerTrace) -> MatchedProgram:
    """The program of a trace that a module is, or was compiled to; of several the one that took most time.

    Raises HloomError, naming what the trace is of, where it is of none.
    """
    matched: list[MatchedProgram] = []
    refused: list[str] = []
    for program, events in trace.programs.items():
        made = _matched(module, program, events, trace)
        if isinstance(made, str):
            refused.append(f"{program.name}: {made}")
        else:
            matched.append(made)
    if matched:
        return max(matched, key=lambda one: (one.is_given, sum(event.end - event.start for event in one.events)))
    listed = "\n  ".join(refused[:MOST_LISTED])
    more = f"\n  and {len(refused) - MOST_LISTED} more" if len(refused) > MOST_LISTED else ""
    raise HloomError(f"{trace.path} is a trace of other programs than {module.name}", hint=f"{listed}{more}")


def _matched(module: Module, program: ProgramId, events: list[OpEvent], trace: ProfilerTrace) -> MatchedProgram | str:
    """The program with the module that its events are of; why it is another program, where it is."""
    data = trace.proto(program)
    ran = None if data is None else read_proto(data, name=f"{trace.path}: {program.name}")
    share = _share(module, events, ran)
    is_named = ran is not None or module.name == program.name
    if share >= LEAST_SHARE and is_named:
        return MatchedProgram(program, module, events, True, share)
    if module.is_scheduled or ran is None:
        other = "" if is_named else f", and {module.name} has another name"
        lacks = "" if module.is_scheduled else "; the trace holds no program that it may have been compiled to"
        return f"{share:.0%} of its measured instructions are in {module.name}{other}{lacks}"
    if module.name != ran.name:
        return f"it is not a program called {module.name}"
    if _interface(module) != _interface(ran):
        return "its parameters or results have other types"
    ours, theirs = _op_names(module), _op_names(ran)
    if ours and theirs and len(ours & theirs) < LEAST_NAMES * len(theirs):
        return f"{len(ours & theirs) / len(theirs):.0%} of its op_names are in {module.name}"
    own_share = _share(ran, events, None)
    if own_share < LEAST_SHARE:
        return f"its own program has {own_share:.0%} of its measured instructions"
    return MatchedProgram(program, ran, events, False, own_share)


def _share(module: Module, events: list[OpEvent], ran: Module | None) -> float:
    """The share of events whose instruction a module has, of the same opcode and type as in the program that ran."""
    known = _signatures(module)
    expected = {} if ran is None else _signatures(ran)
    counts: dict[str, int] = {}
    for event in events:
        counts[event.op] = counts.get(event.op, 0) + 1
    same = sum(
        count for op, count in counts.items() if op in known and (op not in expected or known[op] & expected[op])
    )
    return same / max(len(events), 1)


def _signatures(module: Module) -> dict[str, set[tuple[str, Type | None]]]:
    """By name the opcodes and types of instructions; computations may have the same names."""
    table: dict[str, set[tuple[str, Type | None]]] = {}
    for node in module.nodes():
        table.setdefault(node.name, set()).add((node.opcode, node.type and without_layout(node.type)))
    return table


def _interface(module: Module) -> tuple[list[Type | None], Type | None]:
    root = module.entry.root
    parameters = [node.type and without_layout(node.type) for node in module.entry.parameters]
    return parameters, root.type and without_layout(root.type)


def _op_names(module: Module) -> set[str]:
    names = (op_name_of(node) for node in module.nodes() if not isinstance(node, Parameter))
    return {name for name in names if "/" in name}
