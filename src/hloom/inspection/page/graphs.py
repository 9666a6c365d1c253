"""A module as Model Explorer's graphs: JSON whose fields are those of its graph_builder.py.

What decides whether the viewer is quick, and its pictures readable, is decided here: instructions are in groups by
scope (`groups.py`), fusions are groups of what they compute, and constants, iotas and what is broadcast from them are
cloned into every group that uses them, so that no edge crosses the picture for a zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hloom.analysis import VIEWS, ScopePath, ScopePaths, kind_of, scopes
from hloom.formats.hlo import PrintOptions, print_node
from hloom.inspection.page.figures import Figures
from hloom.inspection.page.groups import MOST_MEMBERS, MOST_SHOWN_FIRST, group_paths, level_name
from hloom.inspection.page.source_links import SourceLinks
from hloom.inspection.viz import attribute_text, clean, constant_text, identify, metadata_fields, shorten
from hloom.ir import Apply, AttributeKind, Constant, Graph, Module, Node, Op, Parameter, without_layout
from hloom.ops import OPS
from hloom.text import HloomError

MOST_EXPORTED = 400_000
"""The maximum number of instructions of a module to make graphs for: browsers cannot handle more."""
LONGEST_LINE = 400
"""The maximum number of characters of an instruction's line to show."""
LONGEST_TYPE = 160
DEEPEST_CLONE = 3
"""How many instructions follow one another at most in what is cloned with its users: broadcast(convert(constant))."""
WIDE = 100
"""An instruction that reads more constants gets groups of their own for them."""
LARGEST_APPLIED = 8
"""How many instructions a computation has that is not shown as a graph where each element is combined with it."""
APPLYING = frozenset(
    opcode
    for opcode, op in OPS.items()
    if op.flow is None and any(attribute.kind is AttributeKind.GRAPH for attribute in op.attributes.values())
) - {"custom-call"}
"""Opcodes that apply a computation to elements; what a library does with a custom call's computation is not known."""
FUSION = "fusion"
CLONED = VIEWS | {"broadcast", "convert"}
"""Opcodes that are cloned with the constant that they read."""
_LINE = PrintOptions(metadata=False, operand_types=False, constant_limit=16)

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Copy:
    """An instruction in a group; of a constant there may be several."""

    node: Node
    group: ScopePath


@dataclass(slots=True)
class GraphExport:
    """A module's graphs as records, the entry first.

    `identifiers` are the ids of the instructions that are shown, and `graph_ids` of the graphs they are in; of a
    constant that is cloned they are those of one clone. `values` are the figures of what is shown: a fusion's are its
    root's. `scopes` are the scopes of all instructions.
    """

    name: str
    graphs: list[Record]
    identifiers: Mapping[Node, str]
    graph_ids: Mapping[Node, str]
    values: Mapping[str, Mapping[Node, float]]
    scopes: ScopePaths


def export_graphs(module: Module, numbers: Figures, links: SourceLinks) -> GraphExport:
    """Describe a module as Model Explorer's graphs, in time linear in its size.

    The graphs are the computations, the entry first, then from the largest to the smallest, but for those of fusions,
    which are groups, and small ones that a reduction or sort applies to elements. There are not among a module of more
    than MOST_EXPORTED instructions.
    """
    exporter = _Exporter(module, numbers, links)
    is_shown = module.node_count <= MOST_EXPORTED
    graphs = [exporter.graph(graph) for graph in exporter.shown] if is_shown else []
    return GraphExport(
        clean(module.name), graphs, exporter.identifiers, exporter.graph_ids, exporter.values, exporter.scopes
    )


class _Exporter:
    def __init__(self, module: Module, numbers: Figures, links: SourceLinks) -> None:
        self.module = module
        self.numbers = numbers
        self.links = links
        self.clones: dict[str, list[str]] = {}
        self.graph_ids: dict[Node, str] = {}
        self._resolved: dict[Node, Node] = {}
        self.identifiers = identify(node for graph in module.graphs for node in (*graph.missing, *graph.nodes))
        self.scopes = scopes(module)
        self.values = {name: self._merged(values) for name, values in numbers.values.items()}
        self._types: dict[Any, str] = {None: "?"}

    def _merged(self, values: Mapping[Node, float]) -> dict[Node, float]:
        """The numbers by what is shown: those of a fusion count at its root."""
        merged: dict[Node, float] = {}
        for node, value in values.items():
            shown = self.resolved(node)
            merged[shown] = merged.get(shown, 0) + value
        return merged

    @cached_property
    def _callers(self) -> Mapping[Graph, list[Node]]:
        callers: dict[Graph, list[Node]] = {}
        for graph in self.module.graphs:
            for node in graph.nodes:
                for called in node.called_graphs:
                    callers.setdefault(called, []).append(node)
        return callers

    @cached_property
    def _fused(self) -> Mapping[Node, Graph]:
        """The fusions whose computation they alone call, and which none of its instructions leads back to."""
        fused: dict[Node, Graph] = {}
        for graph, callers in self._callers.items():
            caller = callers[0]
            is_own = len(callers) == 1 and caller.opcode == FUSION and graph.output is not None and not graph.missing
            if is_own and len(graph.parameters) == len(caller.operands) and not self.module.is_entry(graph):
                fused[caller] = graph
        return _without_circles(fused)

    @cached_property
    def _inlined(self) -> frozenset[Graph]:
        return frozenset(self._fused.values())

    @cached_property
    def _fusion_of(self) -> Mapping[Node, Node]:
        """The fusion whose numbers a root has; of fusions inside fusions the outermost."""
        outermost = (fusion for fusion in self._fused if fusion.graph not in self._inlined)
        return {self.resolved(fusion): fusion for fusion in outermost}

    @cached_property
    def shown(self) -> list[Graph]:
        """The computations that are graphs of their own."""
        shown = [graph for graph in self.module.graphs if graph not in self._inlined and not self._is_applied(graph)]
        return sorted(shown, key=lambda graph: (not self.module.is_entry(graph), -len(graph.nodes)))

    @cached_property
    def _shown_names(self) -> frozenset[Graph]:
        return frozenset(self.shown)

    def _is_applied(self, graph: Graph) -> bool:
        callers = self._callers.get(graph, ())
        return (
            bool(callers) and len(graph.nodes) <= LARGEST_APPLIED and all(node.opcode in APPLYING for node in callers)
        )

    def graph(self, graph: Graph) -> Record:
        """One computation, with those that are fused into it."""
        layout = _Layout(self, graph)
        identifier = clean(graph.name)
        self.graph_ids.update((copy.node, identifier) for copy, _ in layout.copies())
        nodes = [self._record(copy, node_id, layout) for copy, node_id in layout.copies()]
        return {"id": identifier, "nodes": nodes}

    def members(self, graph: Graph) -> Iterator[tuple[Node, ScopePath]]:
        """The instructions of a computation with their scopes, those of fusions inside it in the fusions' places."""
        pending: list[tuple[Iterator[Node], ScopePath | None]] = [(iter((*graph.missing, *graph.nodes)), None)]
        while pending:
            nodes, fusion_scope = pending[-1]
            node = next(nodes, None)
            if node is None:
                pending.pop()
                continue
            if fusion_scope is not None and isinstance(node, Parameter):
                continue
            scope = self.scopes[node] if fusion_scope is None else fusion_scope
            if node in self._fused:
                pending.append((iter(self._fused[node].nodes), (*scope, clean(node.name))))
            else:
                yield node, scope

    def resolved(self, node: Node) -> Node:
        """What makes a value: of a fusion its root, of a fused parameter the fusion's operand."""
        passed: list[Node] = []
        while node not in self._resolved:
            passed.append(node)
            following = self._forwarded(node)
            if following is None or len(passed) > 2 * len(self.identifiers):
                self._resolved[node] = node
                break
            node = following
        origin = self._resolved[node]
        self._resolved.update(dict.fromkeys(passed, origin))
        return origin

    def _forwarded(self, node: Node) -> Node | None:
        if node in self._fused:
            return self._fused[node].output
        if isinstance(node, Parameter) and node.graph in self._inlined:
            inputs = self._callers[node.graph][0].operands
            return inputs[node.number] if node.number < len(inputs) else None
        return None

    def _record(self, copy: _Copy, identifier: str, layout: _Layout) -> Record:
        node = copy.node
        record: Record = {
            "id": identifier,
            "label": shorten(clean(node.opcode), 60),
            "namespace": "/".join(copy.group),
            "attrs": self._attribute_records(node),
            "outputsMetadata": [{"id": "0", "attrs": [{"key": "tensor_shape", "value": self._type_text(node)}]}],
        }
        edges = [
            {"sourceNodeId": source, "sourceNodeOutputId": "0", "targetNodeInputId": str(port)}
            for port, source in layout.sources(copy)
        ]
        if edges:
            record["incomingEdges"] = edges
        called = [clean(graph.name) for graph in node.called_graphs if graph in self._shown_names]
        if called:
            record["subgraphIds"] = called
        return record

    def _type_text(self, node: Node) -> str:
        if node.type not in self._types:
            self._types[node.type] = shorten(clean(str(without_layout(node.type))), LONGEST_TYPE)  # type: ignore[arg-type]
        return self._types[node.type]

    def _attribute_records(self, node: Node) -> list[Record]:
        texts = {"hlo": self._line(node)}
        value = constant_text(node)
        if value:
            texts["value"] = value
        kind = kind_of(str(node.attributes.get("custom_call_target"))) if node.opcode == "custom-call" else None
        if kind is not None:
            texts["library_call"] = kind.name
        fields = metadata_fields(node.raw_metadata) if node.raw_metadata is not None else {}
        if "op_name" in fields:
            texts["op_name"] = shorten(str(fields["op_name"]), LONGEST_LINE)
        location = self.links.location(fields)
        if location:
            texts["source"] = location
            link = self.links.link(fields)
            if link:
                texts["source_link"] = link
        fusion = self._fusion_of.get(node)
        if fusion is not None:  # the numbers that follow are the fusion's
            texts |= {"fusion": clean(fusion.name), "fusion_hlo": self._line(fusion)}
        texts |= self._number_texts(node)
        if node in self.numbers.numerics:
            texts["numerics"] = str(self.numbers.numerics[node])
        if "sharding" in node.attributes:
            texts["sharding"] = attribute_text(node.attributes["sharding"])
        applied = [clean(graph.name) for graph in node.called_graphs if graph not in self._shown_names]
        if applied and node.opcode in APPLYING:
            texts["applies"] = ", ".join(applied)
        return [{"key": key, "value": text} for key, text in texts.items()]

    def _number_texts(self, node: Node) -> dict[str, str]:
        texts = {}
        for name, values in self.values.items():
            value = values.get(node)
            if value:
                texts[name] = f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
        times = self.numbers.times.get(node, 1)
        if times != 1:
            texts["runs"] = f"{times:,}"
        return texts

    def _line(self, node: Node) -> str:
        """The instruction as HLO has it, without its metadata."""
        if isinstance(node, Apply) and not isinstance(node.function, Op):
            return clean(shorten(repr(node), LONGEST_LINE))
        if not isinstance(node, (Apply, Parameter, Constant)):
            return clean(shorten(f"{node.name}: defined nowhere", LONGEST_LINE))
        try:
            return clean(shorten(print_node(node, _LINE), LONGEST_LINE))
        except HloomError:
            return clean(shorten(repr(node), LONGEST_LINE))


class _Layout:
    """Where a computation's instructions and the clones of its constants are, and what reads what."""

    def __init__(self, exporter: _Exporter, graph: Graph) -> None:
        self._exporter = exporter
        members = list(exporter.members(graph))
        self._nodes = [node for node, _ in members]
        self._inputs = {node: self._sources(node) for node in self._nodes}
        self._depths = self._clone_depths()
        self._needed: dict[Node, list[Node]] = {}
        prefix = () if exporter.module.is_entry(graph) else _common_prefix([scope for _, scope in members])
        placed = [(node, scope[len(prefix) :]) for node, scope in members if node not in self._depths]
        most_first = MOST_SHOWN_FIRST if exporter.module.is_entry(graph) else MOST_MEMBERS
        self._groups = group_paths(placed, lambda node: clean(node.name), self._cloned_operands, most_first)
        self._identifiers: dict[_Copy, str] = {}
        self._sources_of: dict[_Copy, list[tuple[int, _Copy]]] = {}
        self._order: list[_Copy] = []
        self._place_copies()

    def copies(self) -> Iterator[tuple[_Copy, str]]:
        """Every instruction and every clone, with its id."""
        return ((copy, self._identifiers[copy]) for copy in self._order)

    def sources(self, copy: _Copy) -> Iterator[tuple[int, str]]:
        """What an instruction reads: the operand's number and the id of what makes it."""
        return ((port, self._identifiers[source]) for port, source in self._sources_of[copy])

    def _sources(self, node: Node) -> list[tuple[int, Node]]:
        used: list[Node] = list(node.operands)
        if isinstance(node, Apply) and isinstance(node.function, Node):
            used.append(node.function)
        if node.attributes.refers:
            used += [referent for referent in node.attributes.referents() if isinstance(referent, Node)]
        return [(port, self._exporter.resolved(operand)) for port, operand in enumerate(used)]

    def _clone_depths(self) -> dict[Node, int]:
        """What is cloned: constants and iotas that something reads, and what is made of one in few cheap steps."""
        depths: dict[Node, int] = {}
        outputs = {self._exporter.resolved(node) for node in self._nodes if node.is_output}
        read = {operand for sources in self._inputs.values() for _, operand in sources}
        for node in self._nodes:
            if node in outputs or node not in read:
                continue
            if node.opcode in ("constant", "iota"):
                depths[node] = 1
            elif node.opcode in CLONED and self._inputs[node]:
                below = [depths.get(operand, DEEPEST_CLONE) for _, operand in self._inputs[node]]
                if max(below) < DEEPEST_CLONE:
                    depths[node] = max(below) + 1
        return depths

    def _cloned_operands(self, node: Node) -> Sequence[Node]:
        """The clones that an instruction needs in its group; of one that reads very many, the one group of theirs."""
        if node not in self._needed:
            needed: dict[Node, None] = {}
            pending = [operand for _, operand in self._inputs[node] if operand in self._depths]
            while pending and len(needed) <= WIDE:
                operand = pending.pop()
                if operand not in needed:
                    needed[operand] = None
                    pending += [inner for _, inner in self._inputs[operand] if inner in self._depths]
            self._needed[node] = list(needed) if len(needed) <= WIDE else [node]
        return self._needed[node]

    def _place_copies(self) -> None:
        """Put clones beside what reads them, users first, and note the edges."""
        for node in self._nodes:
            if node not in self._depths:
                self._add(_Copy(node, self._groups[node]), self._exporter.identifiers[node])
        for copy in self._order:  # which grows by the clones that are needed
            operands = self._inputs[copy.node]
            clones = dict.fromkeys(operand for _, operand in operands if operand in self._depths)
            is_wide = copy.node not in self._depths and self._cloned_operands(copy.node) == [copy.node]
            index_of = {operand: index for index, operand in enumerate(clones)} if is_wide else {}
            sources = self._sources_of[copy]
            for port, operand in operands:
                if operand in self._depths:
                    group = copy.group
                    if is_wide:
                        ranges = _range_path(index_of[operand], len(clones))
                        group = (*group, level_name(f"constants of {copy.node.name}"), *ranges)
                    source = self._clone(operand, group)
                elif operand in self._groups:
                    source = _Copy(operand, self._groups[operand])
                else:
                    continue
                sources.append((port, source))

    def _clone(self, node: Node, group: ScopePath) -> _Copy:
        copy = _Copy(node, group)
        if copy not in self._identifiers:
            identifier = self._exporter.identifiers[node]
            known = self._exporter.clones.setdefault(identifier, [])
            self._add(copy, identifier if not known else f"{identifier} ({len(known) + 1})")
            known.append(self._identifiers[copy])
        return copy

    def _add(self, copy: _Copy, identifier: str) -> None:
        self._identifiers[copy] = identifier
        self._sources_of[copy] = []
        self._order.append(copy)


def _range_path(index: int, count: int) -> ScopePath:
    """The groups, outermost first, of one of so many constants, with what is between it and its user."""
    sizes = [MOST_MEMBERS // DEEPEST_CLONE]
    while count > sizes[-1] * MOST_MEMBERS:
        sizes.append(sizes[-1] * MOST_MEMBERS)
    starts = ((index // size * size, size) for size in reversed(sizes))
    return tuple(f"{start + 1} to {min(start + size, count)}" for start, size in starts)


def _without_circles(fused: Mapping[Node, Graph]) -> dict[Node, Graph]:
    """The fusions that are not inside what they compute."""
    kept: dict[Node, Graph] = {}
    owners = {graph: node for node, graph in fused.items()}
    roots: set[Graph] = set()
    for node in fused:
        path: dict[Graph, None] = {}
        graph = node.graph
        while graph in owners and graph not in roots and graph not in path:
            path[graph] = None
            graph = owners[graph].graph
        if graph not in path:
            roots.update(path)
            kept[node] = fused[node]
    return kept


def _common_prefix(paths: Sequence[ScopePath]) -> ScopePath:
    if not paths:
        return ()
    first, last = min(paths), max(paths)
    length = 0
    while length < min(len(first), len(last)) and first[length] == last[length]:
        length += 1
    return first[:length]
