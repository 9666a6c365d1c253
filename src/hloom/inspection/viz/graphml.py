"""GraphML: one flat directed graph, for yEd, Gephi, networkx and rustworkx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from hloom.inspection.viz.drawing import Drawing, DrawnNode
from hloom.inspection.viz.selection import Selection, drawing_of
from hloom.ir import ModuleLike, as_module

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"
NODE_KEYS = {
    "name": "string",
    "label": "string",
    "opcode": "string",
    "family": "string",
    "type": "string",
    "scope": "string",
    "computation": "string",
    "location": "string",
    "value": "string",
    "is_output": "boolean",
}
EDGE_KEYS = {"port": "int", "kind": "string", "attribute": "string"}
"""`kind` is operand, function, control, or call: then `attribute` says which, and the target is the called
computation's first node."""
_ENTITIES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\t": "&#9;", "\r": "&#13;"}
)


def to_graphml(module: ModuleLike, **selection: Unpack[Selection]) -> str:
    """Draw a module as GraphML; see `Selection` for what is drawn.

    Raises HloomError for a computation or a node that the module does not have.
    """
    module = as_module(module)
    return "".join(_lines(drawing_of(module, **selection)))


def _lines(drawing: Drawing) -> Iterator[str]:
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="{NAMESPACE}">\n'
    for element, keys in (("node", NODE_KEYS), ("edge", EDGE_KEYS)):
        for name, value_type in keys.items():
            yield f'  <key id="{element}_{name}" for="{element}" attr.name="{name}" attr.type="{value_type}"/>\n'
    yield f'  <graph id="{_escape(drawing.name)}" edgedefault="directed">\n'
    for node in drawing.nodes:
        yield _node(node)
    for edge in drawing.edges:
        yield _edge(edge.source, edge.target, f"{_data('edge_port', edge.port)}{_data('edge_kind', edge.kind.value)}")
    anchors = {cluster.name: cluster.nodes[0].id for cluster in drawing.clusters if cluster.nodes}
    for call in drawing.calls:
        if call.computation in anchors:
            data = _data("edge_kind", "call") + _data("edge_attribute", call.attribute)
            yield _edge(call.source, anchors[call.computation], data)
    yield "  </graph>\n</graphml>\n"


def _node(node: DrawnNode) -> str:
    values = ((name, getattr(node, name)) for name in NODE_KEYS)
    data = "".join(_data(f"node_{name}", value) for name, value in values if value)
    return f'    <node id="{_escape(node.id)}">{data}</node>\n'


def _edge(source: str, target: str, data: str) -> str:
    return f'    <edge source="{_escape(source)}" target="{_escape(target)}">{data}</edge>\n'


def _data(key: str, value: str | int | bool) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f'<data key="{key}">{_escape(text)}</data>'


def _escape(text: str) -> str:
    """Text as it stands inside an element or a quoted attribute; `clean` has taken out what XML cannot hold."""
    return text.translate(_ENTITIES)
