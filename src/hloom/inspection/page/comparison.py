"""The page of two modules: both graphs, coloured by what changed, and tables of the changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hloom.inspection.diff import CostDifference, ModuleDiff
from hloom.inspection.page.graphs import GraphExport
from hloom.inspection.viz import clean, shorten
from hloom.ir import Node

COLOURS = {"added": "#86efac", "removed": "#fca5a5", "changed": "#fde047", "moved": "#93c5fd"}
"""The colours of what changed, in the graph."""
BEFORE = "(before)"
"""What stands behind the names of the first module's computations, and in front of its instructions' ids."""
MOST_CHANGES = 2000
"""The maximum number of rows of each table of changes."""
LONGEST_TEXT = 160

Record = dict[str, Any]


def graphs_of_both(before: GraphExport, after: GraphExport) -> list[Record]:
    """The graphs of the second module, then those of the first, whose names and ids say so."""
    return [*after.graphs, *map(_renamed, before.graphs)]


def _renamed(graph: Record) -> Record:
    """A graph of the first module with names that no graph or instruction of the second has."""
    nodes = []
    for node in graph["nodes"]:
        renamed = {**node, "id": _id(node["id"])}
        if "incomingEdges" in node:
            renamed["incomingEdges"] = [
                {**edge, "sourceNodeId": _id(edge["sourceNodeId"])} for edge in node["incomingEdges"]
            ]
        if "subgraphIds" in node:
            renamed["subgraphIds"] = [_name(name) for name in node["subgraphIds"]]
        nodes.append(renamed)
    return {**graph, "id": _name(graph["id"]), "nodes": nodes}


def _id(identifier: str) -> str:
    return f"{BEFORE} {identifier}"


def _name(graph: str) -> str:
    return f"{graph} {BEFORE}"


def overlay_of_changes(difference: ModuleDiff, before: GraphExport, after: GraphExport) -> Mapping[str, Record]:
    """What was added, removed, changed and moved, as an overlay of the graphs of both modules."""
    graphs: dict[str, Record] = {}

    def add(nodes: Iterable[Node], what: str, export: GraphExport) -> None:
        for node in nodes:
            if node in export.graph_ids:
                graph, identifier = export.graph_ids[node], export.identifiers[node]
                if export is before:
                    graph, identifier = _name(graph), _id(identifier)
                results = graphs.setdefault(graph, {"results": {}})["results"]
                results[identifier] = {"value": what, "bgColor": COLOURS[what]}

    add((move.before for move in difference.moved), "moved", before)
    add((move.after for move in difference.moved), "moved", after)
    add((change.before for change in difference.changed), "changed", before)
    add((change.after for change in difference.changed), "changed", after)
    add(difference.removed, "removed", before)
    add(difference.added, "added", after)
    return graphs


def panel_of_changes(difference: ModuleDiff) -> Record:
    """The changes as tables: their columns, their rows, and how many there are."""
    costs = difference.costs
    panel: Record = {
        "summary": clean(str(difference)),
        "before": clean(difference.before.name),
        "notes": [clean(costs)] if isinstance(costs, str) else [],
        "totals": [],
        "groups": [],
        "tables": [],
    }
    if isinstance(costs, CostDifference):
        panel["totals"] = [list(row) for row in costs.totals().rows]
        omitted = {"before": costs.before.omissions, "after": costs.after.omissions}
        panel["notes"] = [clean(f"{name}: {omissions}") for name, omissions in omitted.items() if omissions]
        groups = costs.groups().top(MOST_CHANGES)
        figures = [column for column in groups.columns[1:] if column != "sizes"]
        panel["groups"] = [
            [_text(f"{row[groups.columns[0]]}{' (roughly)' if row.get('sizes') else ''}"), *map(row.get, figures)]
            for row in groups
        ]
        panel["device"] = costs.device
    opcodes = difference.by_opcode()
    panel["tables"] = [
        _table("by opcode", ("opcode", ">added", ">removed", ">changed", ">moved"), opcodes),
        _table("header", ("attribute", "before", "after"), difference.header),
        _table("changed", ("before", "after", "computation", "what", "from", "to"), _changed(difference)),
        _table("added", ("instruction", "computation", "opcode", "type"), map(_node, difference.added)),
        _table("removed", ("instruction", "computation", "opcode", "type"), map(_node, difference.removed)),
        _table(
            "moved",
            ("before", "after", "to another", "from", "to"),
            ((m.before.name, m.after.name, m.what, m.origin, m.destination) for m in difference.moved),
        ),
    ]
    return panel


def _changed(difference: ModuleDiff) -> Iterable[Sequence[str]]:
    for change in difference.changed:
        for part in change.differences:
            names = change.before.name, change.after.name, change.after.graph.name
            yield (*names, part.what, part.before, part.after)


def _node(node: Node) -> Sequence[str]:
    return node.name, node.graph.name, node.opcode, str(node.type)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Record:
    listed = list(rows)
    shown = [[_text(cell) if isinstance(cell, str) else cell for cell in row] for row in listed[:MOST_CHANGES]]
    return {"title": title, "columns": list(columns), "rows": shown, "count": len(listed)}


def _text(text: str) -> str:
    return shorten(clean(text), LONGEST_TEXT)
