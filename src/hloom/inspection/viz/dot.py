"""Graphviz DOT: computations as clusters, uses as arrows, calls as dashed arrows into a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Unpack

from hloom.inspection.viz.drawing import Drawing, DrawnCall, DrawnCluster, DrawnEdge, DrawnNode, EdgeKind
from hloom.inspection.viz.node_text import shorten
from hloom.inspection.viz.opcode_families import COLOURS
from hloom.inspection.viz.selection import Selection, drawing_of
from hloom.ir import ModuleLike, as_module

TOOLTIP = 800
"""The maximum number of characters of a tooltip."""
HEADER = """\
  graph [compound=true, fontname="Helvetica", fontsize=12, style="rounded,filled", fillcolor="#f7f9fa"];
  graph [nslimit=2, mclimit=0.5];
  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10, color="#78909c"];
  edge [fontname="Helvetica", fontsize=8, color="#455a64", arrowsize=0.7, labeldistance=1.6];
"""
"""How everything looks; without the two limits Graphviz takes minutes for a hundred nodes with long arrows."""
EDGE_STYLES = {
    EdgeKind.OPERAND: "",
    EdgeKind.FUNCTION: 'style=bold, headlabel="function"',
    EdgeKind.CONTROL: 'style=dotted, tooltip="control"',
}
CALL_STYLE = 'style=dashed, color="#5e35b1", fontcolor="#5e35b1"'

Inlined = Mapping[str, list[str]]
"""By a user's id, the lines that scalar constants add to its label."""


def to_dot(module: ModuleLike, *, inline_constants: bool = True, **selection: Unpack[Selection]) -> str:
    """Draw a module as Graphviz DOT; see `Selection` for what is drawn.

    An arrow's number is the operand's position, where there is more than one. A double outline is a computation's
    output, a dashed one a node whose neighbours are not all drawn. With `inline_constants`, a scalar constant that is
    only an operand is a line of its users' labels, not a node.

    Raises HloomError for a computation or a node that the module does not have.
    """
    module = as_module(module)
    drawing = drawing_of(module, **selection)
    constants = _inlined_constants(drawing) if inline_constants else {}
    return "".join(_lines(drawing, constants))


def quote(text: str) -> str:
    r"""A DOT string that stands for itself: nothing in it is an escape.

    >>> print(quote('a "b" \\n'))
    "a \"b\" \\n"
    """
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def quote_label(text: str) -> str:
    r"""A DOT string that is shown as itself: Graphviz reads `&lt;` in labels, not in names.

    >>> quote_label("x &lt; y")
    '"x &amp;lt; y"'
    """
    return quote(text.replace("&", "&amp;") if "&" in text else text)


def _lines(drawing: Drawing, constants: Mapping[str, str]) -> Iterator[str]:
    yield f"digraph {quote(drawing.name)} {{\n{HEADER}"
    inlined = _inlined_lines(drawing, constants)
    for number, cluster in enumerate(drawing.clusters):
        yield from _cluster(cluster, number, inlined, constants, drawing.center)
    operand_counts = {node.id: node.operand_count for node in drawing.nodes}
    for edge in drawing.edges:
        if edge.source not in constants:
            yield _edge(edge, operand_counts[edge.target])
    yield from _calls(drawing, constants)
    yield "}\n"


def _inlined_constants(drawing: Drawing) -> dict[str, str]:
    """The values of the scalar constants that are operands and nothing else, by id."""
    used = {edge.source for edge in drawing.edges}
    kept = {edge.source for edge in drawing.edges if edge.kind is not EdgeKind.OPERAND}
    kept |= {edge.target for edge in drawing.edges} | {call.source for call in drawing.calls}
    return {
        node.id: node.value
        for node in drawing.nodes
        if node.opcode == "constant"
        and node.is_scalar
        and node.id in used
        and node.id not in kept
        and not node.is_output
        and node.id != drawing.center
    }


def _inlined_lines(drawing: Drawing, constants: Mapping[str, str]) -> Inlined:
    lines: dict[str, list[str]] = {}
    for edge in drawing.edges:
        if edge.source in constants:
            lines.setdefault(edge.target, []).append(f"operand {edge.port} = {constants[edge.source]}")
    return lines


def _cluster(
    cluster: DrawnCluster, number: int, inlined: Inlined, constants: Mapping[str, str], center: str | None
) -> Iterator[str]:
    thread = f" on {cluster.execution_thread}" if cluster.execution_thread else ""
    title = f"{cluster.name}{' (entry)' if cluster.is_entry else ''}{thread}"
    if len(cluster.nodes) < cluster.node_count:
        title += f"\n{len(cluster.nodes)} of {cluster.node_count} nodes"
    yield f"  subgraph cluster_{number} {{\n    label={quote_label(title)};\n"
    for node in cluster.nodes:
        if node.id not in constants:
            yield _node(node, inlined.get(node.id, ()), node.id == center)
    yield "  }\n"


def _node(node: DrawnNode, further: list[str] | tuple[()], is_center: bool) -> str:
    label = "\n".join((node.label, *further)) if further else node.label
    parts = [f'label={quote_label(label)}, fillcolor="{COLOURS[node.family]}"']
    if node.is_output:
        parts.append("peripheries=2")
    if is_center:
        parts.append("penwidth=3")
    if node.is_cut:
        parts.append('style="rounded,filled,dashed"')
    if node.metadata:
        parts.append(f"tooltip={quote_label(shorten(_tooltip(node), TOOLTIP))}")
    return f"    {quote(node.id)} [{', '.join(parts)}];\n"


def _tooltip(node: DrawnNode) -> str:
    lines = [f"{name}={value}" for name, value in node.metadata.items()]
    if node.location and "source_file" not in node.metadata:
        lines.append(node.location)
    return "\n".join(lines)


def _edge(edge: DrawnEdge, operand_count: int) -> str:
    style = EDGE_STYLES[edge.kind]
    if edge.kind is EdgeKind.OPERAND and operand_count > 1:
        style = f'headlabel="{edge.port}"'
    return f"  {quote(edge.source)} -> {quote(edge.target)}{f' [{style}]' if style else ''};\n"


def _calls(drawing: Drawing, constants: Mapping[str, str]) -> Iterator[str]:
    """Dashed arrows to the first node of a cluster, clipped at the cluster's edge unless the caller stands inside."""
    anchors: dict[str, tuple[int, str]] = {}
    for number, cluster in enumerate(drawing.clusters):
        shown = next((node.id for node in cluster.nodes if node.id not in constants), None)
        if shown is not None:
            anchors[cluster.name] = number, shown
    homes = {node.id: node.computation for node in drawing.nodes} if drawing.calls else {}
    for call in drawing.calls:
        if call.computation in anchors:
            yield _call(call, *anchors[call.computation], is_inside=homes[call.source] == call.computation)


def _call(call: DrawnCall, number: int, anchor: str, *, is_inside: bool) -> str:
    head = "" if is_inside else f"lhead=cluster_{number}, "
    label = quote_label(call.attribute)
    return f"  {quote(call.source)} -> {quote(anchor)} [{head}taillabel={label}, {CALL_STYLE}];\n"
