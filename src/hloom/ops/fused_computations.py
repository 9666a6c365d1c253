"""What the kind of a fusion promises of its computation, and so what may be changed inside.

A compiler has chosen how it emits a fusion: a kOutput fusion ends in what is done to a product, a kInput fusion is a
reduction with what it reads, a kCustom fusion, or one with a backend's configuration, is what a library or a tiling was
chosen for. XLA's own simplifier leaves all fusions alone (`HloModule::MakeNonfusionComputations`); here, loops of
elementwise work (kLoop) may be simplified.
"""

from __future__ import annotations

from hloom.ir import Graph, Node
from hloom.ops import elementwise

_NOT_FUSIBLE = {"add-dependency", "opt-barrier", "stochastic-convert", "tuple-select"}
FUSIBLE = (frozenset(elementwise.ROWS) - _NOT_FUSIBLE) | {
    "bitcast",
    "bitcast-convert",
    "broadcast",
    "concatenate",
    "constant",
    "convert",
    "copy",
    "dynamic-slice",
    "dynamic-update-slice",
    "gather",
    "get-tuple-element",
    "iota",
    "map",
    "pad",
    "parameter",
    "reduce",
    "reduce-precision",
    "reduce-window",
    "reshape",
    "reverse",
    "slice",
    "transpose",
    "tuple",
}
"""Opcodes that fusion emitters take (xla/service/elemental_ir_emitter.cc); a module's own fusions may hold more."""
_IN_PLACE = frozenset(("dynamic-update-slice", "scatter"))
"""Opcodes for which a fusion's result gets the buffer of an operand: what else it reads of that is not for rules."""
SIMPLE_IN_FUSIONS = FUSIBLE - _IN_PLACE
"""Opcodes that a rewrite may put into a kLoop fusion."""


def fixed_form(graph: Graph) -> str:
    """Why a computation must stay as it is; empty where its instructions may be exchanged for equal ones."""
    pending, seen = [graph], {graph}
    while pending:
        current = pending.pop()
        for caller in current.callers:
            reason = _promise(caller, current) if caller.opcode == "fusion" else ""
            if reason:
                return reason
            if caller.opcode == "fusion" and caller.graph not in seen:  # fusions in fusions
                seen.add(caller.graph)
                pending.append(caller.graph)
    return ""


def is_fused(graph: Graph) -> bool:
    """Whether a fusion calls a computation."""
    return any(caller.opcode == "fusion" for caller in graph.callers)


def _promise(fusion: Node, graph: Graph) -> str:
    fusion_kind = fusion.attributes.get("kind")
    if fusion_kind != "kLoop":
        return f"it is in {fusion.name}, a fusion of kind {fusion_kind}, whose form that promises"
    if fusion.attributes.get("backend_config"):
        return f"it is in {fusion.name}, a fusion that a backend has configured"
    if any(node.opcode in _IN_PLACE for node in graph.nodes):
        return f"it is in {fusion.name}, a fusion that updates an array in place"
    return ""
