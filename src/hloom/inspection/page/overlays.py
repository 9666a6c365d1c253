"""Overlays: what the viewer colours instructions by, as its node data (node_data_builder.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hloom.analysis import CollectiveCost
from hloom.inspection.page.figures import MEASURED
from hloom.inspection.page.graphs import GraphExport
from hloom.inspection.page.numerics import ValueStatistics
from hloom.inspection.viz import attribute_text, shorten
from hloom.ir import Node, TensorType, TupleType

NUMBERS = {
    "FLOPs": ("flops", 1.0),
    "bytes accessed": ("bytes", 1.0),
    "time (roofline), µs": ("seconds", 1e6),
    "time (measured), µs": (MEASURED, 1e6),
    "held at the peak, bytes": ("peak_bytes", 1.0),
    "sent by collectives, bytes": ("comm_bytes", 1.0),
}
"""The overlays that are numbers: their name in the figures, and what they are multiplied by."""
GRADIENT = [
    {"stop": 0, "bgColor": "#fffbeb"},
    {"stop": 0.05, "bgColor": "#fde68a"},
    {"stop": 0.3, "bgColor": "#fb923c"},
    {"stop": 1, "bgColor": "#b91c1c"},
]
PALETTE = (
    "#bfdbfe",
    "#bbf7d0",
    "#fecaca",
    "#fde68a",
    "#ddd6fe",
    "#fbcfe8",
    "#a5f3fc",
    "#fed7aa",
    "#d9f99d",
    "#e5e7eb",
    "#c7d2fe",
    "#99f6e4",
)
LONGEST_TEXT = 60
EMPTY: Mapping[Node, ValueStatistics] = MappingProxyType({})

NodeData = dict[str, Any]


def overlays(
    export: GraphExport,
    collectives: Mapping[Node, CollectiveCost],
    numerics: Mapping[Node, ValueStatistics] = EMPTY,
) -> dict[str, NodeData]:
    """Every overlay that has something to show: by its name, for each graph the values and their colours.

    The most frequent element type has no colour: the overlay's name says it.
    """
    result = {
        name: _numbers(export, export.values.get(figure, {}), factor) for name, (figure, factor) in NUMBERS.items()
    }
    magnitudes = {node: statistics.largest_magnitude for node, statistics in numerics.items()}
    wrong = {
        node: "NaN" if statistics.not_a_number else "infinite"
        for node, statistics in numerics.items()
        if (statistics.not_a_number or statistics.infinite) and node in export.graph_ids
    }
    texts: dict[str, dict[Node, str]] = {"sharding": {}}
    element_types: dict[Node, str] = {}
    for node in export.graph_ids:
        element_types[node] = _element_type(node)
        if "sharding" in node.attributes:
            texts["sharding"][node] = shorten(attribute_text(node.attributes["sharding"]), LONGEST_TEXT)
    common = Counter(filter(None, element_types.values())).most_common(1)
    if common:
        others = {node: name for node, name in element_types.items() if name and name != common[0][0]}
        texts[f"element type, not {common[0][0]}"] = others
    result["largest magnitude"] = _numbers(export, magnitudes, 1.0)
    texts["not finite"] = wrong
    texts["collective"] = {node: node.opcode for node in collectives if node in export.graph_ids}
    result |= {name: _categories(export, values) for name, values in texts.items()}
    return {name: data for name, data in result.items() if data}


def _numbers(export: GraphExport, values: Mapping[Node, float], factor: float) -> NodeData:
    graphs: NodeData = {}
    for node, value in values.items():
        graph = export.graph_ids.get(node)
        if graph is not None and value:
            data = graphs.setdefault(graph, {"results": {}, "gradient": GRADIENT})
            data["results"][export.identifiers[node]] = {"value": round(value * factor, 3)}
    return graphs


def _categories(export: GraphExport, values: Mapping[Node, str]) -> NodeData:
    colours: dict[str, str] = {}
    graphs: NodeData = {}
    for node, text in values.items():
        colour = colours.setdefault(text, PALETTE[len(colours) % len(PALETTE)])
        data = graphs.setdefault(export.graph_ids[node], {"results": {}})
        data["results"][export.identifiers[node]] = {"value": text, "bgColor": colour}
    return graphs


def _element_type(node: Node) -> str:
    value_type = node.type
    if isinstance(value_type, TensorType):
        return value_type.dtype.name
    if isinstance(value_type, TupleType):
        names = {leaf.dtype.name for leaf in value_type.leaves() if isinstance(leaf, TensorType)}
        return names.pop() if len(names) == 1 else ""
    return ""
