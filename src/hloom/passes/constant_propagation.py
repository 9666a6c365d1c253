"""The pass `propagate-constants`: a constant argument shared by all calls moves into the computation.

    f(x, y) = x * y, called as f(a, 2) and f(b, 2)
      ->
    f(x, y) = x * 2

`fold` then evaluates what depends on constants alone, and `dce` removes unused operands. Follows the part of XLA's
xla/hlo/transforms/simplifiers/hlo_constant_folding.cc (HloConstantFolding) that looks at call sites.
"""

from __future__ import annotations

from hloom.ir import Constant, Graph, Literal, Module, Node, Parameter, callees_first
from hloom.passes.pipeline import register_pass
from hloom.passes.rules.loop_state import MAX_CONSTANT_ELEMENTS
from hloom.rewrite import Report


def propagate_constants(module: Module) -> Report:
    """Replace parameters by the constant that every call passes; callers first, so that constants propagate down.

    Constants of more than 1,024 elements are not copied unless they are splats or the computation has one caller.
    """
    report = Report("propagate-constants")
    if module.has_closures:
        return report
    module.index_users()
    for graph in reversed(callees_first(module)):
        if module.is_entry(graph) or graph.missing or not graph.callers:
            continue
        if any(caller.opcode != "call" for caller in graph.callers):
            continue
        first = next((node for node in graph.nodes if not isinstance(node, Parameter)), None)
        parameters = list(graph.parameters) if first is not None else []
        count = sum(_propagate(graph, parameter, number, first) for number, parameter in enumerate(parameters))
        report.changes += count
        if count:
            report.notes.append(f"{count:,} constants of {graph.name} come with no call")
    return report


def _propagate(graph: Graph, parameter: Parameter, number: int, before: Node | None) -> bool:
    """Replace a parameter by a constant at the start of the graph; returns whether anything read the parameter."""
    callers = list(graph.callers)
    if not parameter.is_used or parameter.is_output or any(len(caller.operands) <= number for caller in callers):
        return False
    given = [caller.operands[number] for caller in callers]
    first = given[0]
    if not isinstance(first, Constant) or not _may_be_copied(first, len(callers)) or first.type != parameter.type:
        return False
    if any(not _is_same(first, other) for other in given[1:]):
        return False
    made = graph.add_constant(first.value, first.type, before=before, metadata=first.raw_metadata)
    graph.replace_uses(parameter, made)
    return True


def _may_be_copied(constant: Constant, count: int) -> bool:
    literal = constant.value
    if not isinstance(literal, Literal) or literal.is_elided or literal.is_tuple or constant.attributes:
        return False
    elements = getattr(constant.type, "element_count", 0)
    return literal.is_splat or count == 1 or elements <= MAX_CONSTANT_ELEMENTS


def _is_same(one: Constant, other: Node) -> bool:
    return isinstance(other, Constant) and one.type == other.type and one.value == other.value and not other.attributes


register_pass("propagate-constants", "constants that all calls of a computation give it are in it", propagate_constants)
