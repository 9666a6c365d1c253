"""JSON: nodes, edges, calls and computations as lists of records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Unpack

from hloom.inspection.viz.drawing import Drawing, DrawnCall, DrawnCluster, DrawnEdge, DrawnNode
from hloom.inspection.viz.selection import Selection, drawing_of
from hloom.ir import ModuleLike, as_module

_encode = json.JSONEncoder(ensure_ascii=False).encode


def to_json(module: ModuleLike, **selection: Unpack[Selection]) -> str:
    """Draw a module as JSON, one record a line; see `Selection` for what is drawn.

        {"module": ..., "center": id or null,
         "nodes": [{"id", "name", "label", "opcode", "family", "type", "scope", "computation", ...}],
         "edges": [{"source": id, "target": id, "port": position, "kind": "operand" | "function" | "control"}],
         "calls": [{"source": id, "computation": name, "attribute"}],
         "computations": [{"name", "entry", "node_count", "parent", "execution_thread"}]}

    Where there is something to say, a node also has "attributes" (texts, long ones cut), "metadata", "location"
    (file:line), "value" (a small constant's), "number" (a parameter's), "output": true, and "cut": true where
    neighbours are not drawn.

    Raises HloomError for a computation or a node that the module does not have.
    """
    module = as_module(module)
    drawing = drawing_of(module, **selection)
    lists = {
        "nodes": map(node_record, drawing.nodes),
        "edges": map(edge_record, drawing.edges),
        "calls": map(call_record, drawing.calls),
        "computations": map(computation_record, drawing.clusters),
    }
    body = ",\n".join(f'"{name}": {_list(records)}' for name, records in lists.items())
    return f"{_head(drawing)}{body}}}\n"


def node_record(node: DrawnNode) -> dict[str, Any]:
    """A node as a record."""
    record: dict[str, Any] = {
        "id": node.id,
        "name": node.name,
        "label": node.label,
        "opcode": node.opcode,
        "family": node.family,
        "type": node.type,
        "scope": node.scope,
        "computation": node.computation,
    }
    if node.number is not None:
        record["number"] = node.number
    further = {
        "attributes": node.attributes,
        "metadata": node.metadata,
        "location": node.location,
        "value": node.value,
        "output": node.is_output,
        "cut": node.is_cut,
    }
    return record | {name: value for name, value in further.items() if value}


def edge_record(edge: DrawnEdge) -> dict[str, Any]:
    """A use as a record."""
    return {"source": edge.source, "target": edge.target, "port": edge.port, "kind": edge.kind.value}


def call_record(call: DrawnCall) -> dict[str, Any]:
    """A call as a record."""
    return {"source": call.source, "computation": call.computation, "attribute": call.attribute}


def computation_record(cluster: DrawnCluster) -> dict[str, Any]:
    """A computation as a record."""
    return {
        "name": cluster.name,
        "entry": cluster.is_entry,
        "node_count": cluster.node_count,
        "parent": cluster.parent,
        "execution_thread": cluster.execution_thread,
    }


def _head(drawing: Drawing) -> str:
    return f'{{"module": {_encode(drawing.name)}, "center": {_encode(drawing.center)},\n'


def _list(records: Iterable[dict[str, Any]]) -> str:
    lines = ",\n".join(map(_encode, records))
    return f"[\n{lines}\n]" if lines else "[]"
