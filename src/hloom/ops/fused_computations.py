"""What a fusion's kind guarantees about its computation, and therefore what a rewrite may change inside.

A compiler has already chosen how to emit a fusion: a kOutput fusion ends in the epilogue of a product, a kInput fusion
is a reduction with its producers, and a kCustom fusion, or one with a backend config, was picked for a library or a
tiling. XLA's own simplifier leaves all fusions alone (`HloModule::MakeNonfusionComputations`); here, elementwise loops
(kLoop) may be simplified.
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
"""Opcodes that fusion emitters accept (xla/service/elemental_ir_emitter.cc); a module's own fusions may hold more."""
_IN_PLACE = frozenset(("dynamic-update-slice", "scatter"))
"""Opcodes whose fusion writes into an operand's buffer, so rules must not add other reads of that operand."""
SIMPLE_IN_FUSIONS = FUSIBLE - _IN_PLACE
"""Opcodes that a rewrite may put into a kLoop fusion."""


def fixed_form(graph: Graph) -> str:
    """Why a computation must stay as it is; empty if its instructions may be replaced by equal ones."""
    pending, seen = [graph], {graph}
    while pending:
        current = pending.pop()
        for caller in current.callers:
            reason = _promise(caller, current) if caller.opcode == "fusion" else ""
            if reason:
                return reason
            if caller.opcode == "fusion" and caller.graph not in seen:  # a fusion may contain fusions
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
