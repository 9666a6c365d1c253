"""What may stand in a fusion of an optimised module: other operations make XLA's emitters end the process."""

from __future__ import annotations

from collections.abc import Set

from hloom.ir import Graph, Module
from hloom.ops import elementwise
from hloom.text import Unsupported

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
"""Opcodes that XLA's fusions take; a module's own fusions may hold more."""


def fused_opcodes(module: Module) -> Set[str]:
    """The opcodes in a module's fusions."""
    return {node.opcode for graph in _fused(module) for node in graph.nodes}


def check_fusions(module: Module, known: Set[str]) -> None:
    """Raise Unsupported for an opcode in a fusion that was in none before and that fusions do not take."""
    for graph in _fused(module):
        for node in graph.nodes:
            if node.opcode not in FUSIBLE and node.opcode not in known:
                raise Unsupported(
                    f"{node.name} of fusion {graph.name}: XLA's fusions take no {node.opcode}",
                    hint="put it in front of the fusion or behind it",
                )


def _fused(module: Module) -> list[Graph]:
    return [graph for node in module.nodes() if node.opcode == "fusion" for graph in node.called_graphs]
