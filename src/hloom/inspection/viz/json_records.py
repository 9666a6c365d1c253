"""JSON: nodes, edges, calls and computations as lists of records."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Unpack

from hloom.inspection.viz.selection import Selection, drawing_of
from hloom.ir import ModuleLike, as_module
from hloom.text import SCHEMA_VERSION, plain

_encode = json.JSONEncoder(ensure_ascii=False).encode


def to_json(module: ModuleLike, **selection: Unpack[Selection]) -> str:
    """Draw a module as JSON, one record a line; see `Selection` for what is drawn.

        {"schema_version": 1, "module": ..., "center": id or null,
         "nodes": [{"id", "name", "label", "opcode", "family", "type", "scope", "computation", "output", "cut", ...}],
         "edges": [{"source": id, "target": id, "port": position, "kind": "operand" | "function" | "control"}],
         "calls": [{"source": id, "computation": name, "attribute"}],
         "computations": [{"name", "entry", "node_count", "parent", "execution_thread"}]}

    Where there is something to say, a node also has "attributes" (texts, long ones cut), "metadata", "location"
    (file:line), "value" (a small constant's) and "number" (a parameter's). "cut" is true where neighbours are not
    drawn.

    Raises HloomError for a computation or a node that the module does not have.
    """
    drawing = drawing_of(as_module(module), **selection)
    head = _encode({"schema_version": SCHEMA_VERSION, "module": drawing.name, "center": drawing.center})
    lists = {
        "nodes": drawing.nodes,
        "edges": drawing.edges,
        "calls": drawing.calls,
        "computations": drawing.clusters,
    }
    body = ",\n".join(f'"{name}": {_list(records)}' for name, records in lists.items())
    return f"{head[:-1]},\n{body}}}\n"


def _list(records: Iterable[Any]) -> str:
    lines = ",\n".join(_encode(plain(record)) for record in records)
    return f"[\n{lines}\n]" if lines else "[]"
