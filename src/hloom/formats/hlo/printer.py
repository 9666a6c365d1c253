"""Prints a module as HLO text in XLA's style."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from hloom.formats.hlo.async_sugar_printer import ShortForms, short_forms
from hloom.formats.hlo.async_sugar_reader import WRAPPED
from hloom.formats.hlo.attribute_printer import (
    write_attributes,
    write_boolean,
    write_booleans,
    write_frontend,
    write_string,
)
from hloom.formats.hlo.implied_types import IMPLYING, type_for_xla
from hloom.formats.hlo.line_memos import LEAF_ROW
from hloom.formats.hlo.reserved_words import RESERVED, TYPE_NAMES
from hloom.ir import (
    COMPUTED_CALL,
    Apply,
    Attributes,
    Constant,
    FileLocation,
    FunctionType,
    Graph,
    Literal,
    Missing,
    Module,
    ModuleLike,
    Node,
    Op,
    Parameter,
    PrintedRows,
    Referent,
    StackFrame,
    StackTables,
    TensorType,
    TupleType,
    Type,
    as_module,
    dump,
    format_literal,
    list_with_indices,
    without_layout,
)
from hloom.text import HloomError, Unsupported


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """Options for the printed text; the names follow XLA's HloPrintOptions.

    `percent`: names begin with %; without it only reserved words do. `operand_types`: each operand is preceded by its
    type. `signatures`: headings list parameters and types. `constant_limit`: constants with more elements are elided as
    `{...}`, which loses their data; None prints all. `canonical_names`: names are numbers, so that texts compare equal
    up to names.
    """

    percent: bool = True
    operand_types: bool = False
    operand_names: bool = True
    result_types: bool = True
    layouts: bool = True
    metadata: bool = True
    backend_config: bool = True
    sharding: bool = True
    signatures: bool = True
    canonical_names: bool = False
    constant_limit: int | None = None

    @classmethod
    def short_parsable(cls) -> PrintOptions:
        """The shortest text that reads back: no %, no types in headings, no metadata, no backend config."""
        return cls(percent=False, signatures=False, metadata=False, backend_config=False)

    @classmethod
    def canonical(cls) -> PrintOptions:
        """A text that is the same for modules that differ only in names, layouts and metadata."""
        return cls(
            percent=False,
            operand_types=True,
            layouts=False,
            metadata=False,
            backend_config=False,
            signatures=False,
            canonical_names=True,
        )


DEFAULT = PrintOptions()


def print_module(module: Module, options: PrintOptions = DEFAULT) -> str:
    """The module as HLO text.

    Raises HloomError if HLO text cannot express the module: closures, computed calls, functions as values.

    >>> from hloom.formats.hlo import parse
    >>> module = parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }")
    >>> print(print_module(module, PrintOptions.short_parsable()).rstrip())
    HloModule module_e
    <BLANKLINE>
    ENTRY e {
      x = f32[2] parameter(0)
      ROOT y = f32[2] negate(x)
    }
    """
    if (options is DEFAULT or options == DEFAULT) and not module.has_closures and not _has_wrapped(module):
        lines = [print_header(module)[:-1]]
        if _Printer(module, options).add_plain(module.graphs, lines, set(module.declared)):
            lines.append("")
            return "\n".join(lines)
    return "\n".join([*chain.from_iterable(_parts(module, options)), ""])


def print_parts(module: Module, options: PrintOptions = DEFAULT) -> Iterator[str]:
    """The text of `print_module` in pieces: the header, then one computation at a time."""
    for lines in _parts(module, options):
        yield "\n".join([*lines, ""])


def _parts(module: Module, options: PrintOptions) -> Iterator[list[str]]:
    """The lines of the header, then of one computation at a time."""
    if module.has_closures:
        _refuse_closures(module)
    callers = calling_nodes(module)
    printer = _Printer(module, options, short_forms(callers) if _has_wrapped(module) else None)
    yield [print_header(module, options.metadata)[:-1]]
    for graph in ordered_graphs(module, callers):
        if graph not in printer.short.hidden:
            yield printer.lines(graph)


def _has_wrapped(module: Module) -> bool:
    """Whether any computation's name marks it as the body of an asynchronous pair."""
    return any(graph.name.startswith(WRAPPED) for graph in module.graphs)


def _calls_others(callers: list[Node], graphs: set[Graph]) -> bool:
    """Whether the attributes of some nodes refer to graphs other than these."""
    for node in callers:
        for referent in node.attributes.referents():
            if referent.is_graph and referent not in graphs:
                return True
    return False


def _closing(graph: Graph) -> str:
    """The closing brace, the thread if one is named, and a blank line."""
    thread = graph.execution_thread
    return "}\n" if thread is None else f'}}, execution_thread="{thread}"\n'


def print_graph(graph: Graph, options: PrintOptions = DEFAULT) -> str:
    """One computation as HLO text, without its callees."""
    return _Printer(graph.module, options).print_graph(graph)


def print_node(node: Node, options: PrintOptions = DEFAULT) -> str:
    """One instruction as HLO text."""
    return _Printer(node.graph.module, options).print_node(node)


def calling_nodes(module: Module) -> dict[Graph, list[Node]]:
    """The nodes of each graph whose attributes refer to graphs or nodes."""
    return {graph: [node for node in graph.nodes if node.attributes.refers] for graph in module.graphs}


def ordered_graphs(module: Module, callers: dict[Graph, list[Node]] | None = None) -> list[Graph]:
    """The graphs ordered so that callees precede callers; keeps the given order if it already does that.

    Raises HloomError if graphs call each other in a cycle.
    """
    callers = callers or calling_nodes(module)
    seen: set[Graph] = set(module.declared)
    for graph in module.graphs:
        if not seen.issuperset([called for node in callers[graph] for called in node.called_graphs]):
            return _sorted_graphs(module, callers)
        seen.add(graph)
    return module.graphs


def _sorted_graphs(module: Module, callers: dict[Graph, list[Node]]) -> list[Graph]:
    calls = {graph: [called for node in nodes for called in node.called_graphs] for graph, nodes in callers.items()}
    done: dict[Graph, None] = {}
    active: set[Graph] = set()
    for start in module.graphs:
        stack = [start]
        while stack:
            graph = stack[-1]
            waiting = (
                [callee for callee in calls[graph] if callee not in done and not callee.is_declared]
                if graph not in done
                else []
            )
            if not waiting:
                stack.pop()
                active.discard(graph)
                done[graph] = None
                continue
            active.add(graph)
            if waiting[0] in active:
                raise HloomError(
                    f"computations call each other in a circle, through {waiting[0].name}: HLO has no recursion"
                )
            stack.append(waiting[0])
    return list(done)


def _refuse_closures(module: Module) -> None:
    for graph in module.graphs:
        free = graph.free_variables()
        if free:
            raise HloomError(
                f"graph {graph.name} uses {free[0].name} of graph {free[0].graph.name}: HLO text needs closed graphs",
                hint="convert closures first",
            )


def _refuse_computed_call(node: Node) -> None:
    if isinstance(node, Apply) and not isinstance(node.function, Op):
        raise HloomError(f"{node!r} calls a computed function: HLO text cannot say that")


class _BareTypes(dict[Type | None, str]):
    """The texts of types without layouts, built on demand; KeyError for an unknown type."""

    def __missing__(self, type: Type | None) -> str:
        if type is None:
            raise KeyError(type)
        if isinstance(type, TensorType):  # its layout follows the dimensions
            text = f"{type.text.partition(']')[0]}]"
        elif isinstance(type, TupleType) and not any(isinstance(element, TupleType) for element in type.elements):
            text = f"({list_with_indices([self[element] for element in type.elements])})"
        else:
            text = str(without_layout(type))
        self[type] = text
        return text


class _Printer:
    """State shared by all computations of one text: options, names, and cached texts."""

    def __init__(self, module: Module, options: PrintOptions, short: ShortForms | None = None) -> None:
        self.module = module
        self.short = short or ShortForms()
        self.options = options
        self.percent = "%" if options.percent else ""
        self.canonical: dict[Referent, str] = _canonical_names(module) if options.canonical_names else {}
        self.is_plain = options is DEFAULT or options == DEFAULT
        self._bare_types = _BareTypes()
        self._constant_texts: dict[int, str] = {}

    def print_graph(self, graph: Graph) -> str:
        """The heading, the instructions, the closing brace and a blank line."""
        return "\n".join([*self.lines(graph), ""])

    def lines(self, graph: Graph) -> list[str]:
        """The lines of `print_graph`."""
        lines: list[str] = []
        if self.is_plain and not graph.missing and graph not in self.short.graphs:
            self.add_plain([graph], lines)
            return lines
        output = graph.output
        lines.append(self._heading(graph))
        lines += [f"  {'ROOT ' if node is output else ''}{self.print_node(node)}" for node in graph.nodes]
        lines.append(_closing(graph))
        return lines

    def add_plain(self, graphs: Iterable[Graph], lines: list[str], before: set[Graph] | None = None) -> bool:
        """Print computations in the default options on a fast path; returns whether all could be printed.

        Stops at one that has missing names, or calls graphs other than those in `before` and those already printed.
        Each node class has its own branch, so that the interpreter can specialise attribute lookups, and the code of
        `_heading` and `_signature` is repeated inline: modules have many small computations, for which calls are
        expensive.
        """
        add, constants, types = lines.append, self._constant_texts, self._bare_types
        for graph in graphs:
            if graph.missing:
                return False
            nodes, output, parameters = graph.nodes, graph.output, graph.parameters
            signature = ""
            if output is not None and (not parameters or parameters[-1].number == len(parameters) - 1):
                try:
                    parts = ", ".join([f"{parameter.name}: {types[parameter.type]}" for parameter in parameters])
                    result = type_for_xla(output) if output.opcode in IMPLYING else output.type
                    signature = f"({parts}) -> {types[result]} "
                except KeyError:
                    signature = ""
            add(f"{'ENTRY ' if self.module.is_entry(graph) else ''}%{graph.name} {signature}{{")
            start = len(lines)
            callers: list[Node] = []
            for node in nodes:
                if type(node) is Apply:
                    attributes, metadata, type_ = node.attributes, node.raw_metadata, node.type
                    if attributes.refers:
                        callers.append(node)
                    if type_ is None:
                        add(f"  {self.print_node(node)}")
                        continue
                    tail = attributes.text
                    if tail is None:
                        tail = self._tail(node)
                    elif metadata is not None:
                        tail = f"{tail}, metadata={{{metadata}}}"
                    inputs, opcode = node.operands, node.opcode
                    if opcode is COMPUTED_CALL:
                        _refuse_computed_call(node)
                    count = len(inputs)
                    if count == 2:
                        left, right = inputs
                        add(f"  %{node.name} = {type_.text} {opcode}(%{left.name}, %{right.name}){tail}")
                    elif count == 1:
                        (operand,) = inputs
                        add(f"  %{node.name} = {type_.text} {opcode}(%{operand.name}){tail}")
                    elif count == 3:
                        left, right, third = inputs
                        operands = f"%{left.name}, %{right.name}, %{third.name}"
                        add(f"  %{node.name} = {type_.text} {opcode}({operands}){tail}")
                    else:
                        operands = list_with_indices(["%" + operand.name for operand in inputs])
                        add(f"  %{node.name} = {type_.text} {opcode}({operands}){tail}")
                else:
                    attributes, metadata, type_ = node.attributes, node.raw_metadata, node.type
                    if attributes.refers:
                        callers.append(node)
                    if type_ is None:
                        add(f"  {self.print_node(node)}")
                        continue
                    tail = attributes.text
                    if tail is None:
                        tail = self._tail(node)
                    elif metadata is not None:
                        tail = f"{tail}, metadata={{{metadata}}}"
                    if type(node) is Parameter:
                        add(f"  %{node.name} = {type_.text} parameter({node.number}){tail}")
                    else:
                        text = constants.get(id(node.value)) if type(node) is Constant else None
                        add(f"  %{node.name} = {type_.text} {text or self._leaf(node)}{tail}")
            if output is not None and output.graph is graph:
                at = start + (len(nodes) - 1 if nodes[-1] is output else nodes.index(output))
                lines[at] = f"  ROOT {lines[at][2:]}"
            add(_closing(graph))
            if before is not None:
                if callers and _calls_others(callers, before):
                    return False
                before.add(graph)
        return True

    def print_node(self, node: Node) -> str:
        """`name = type opcode(operands), attributes`."""
        type_text = f"{self._type_text(node.type)} " if self.options.result_types and node.type is not None else ""
        head = f"{self._name(node)} = {type_text}"
        if not isinstance(node, Apply):
            return head + self._leaf(node) + self._tail(node)
        _refuse_computed_call(node)
        operands = list_with_indices([self._operand(operand) for operand in node.operands])
        if node in self.short.nodes:
            op, attributes = self.short.nodes[node]
            return f"{head}{op.name}({operands}){self._written(op, attributes, node.raw_metadata)}"
        return f"{head}{node.opcode}({operands}){self._tail(node)}"

    def _operand(self, node: Node) -> str:
        name = self._name(node) if self.options.operand_names else ""
        if node.type is not None and (self.options.operand_types or isinstance(node, Missing)):
            return f"{self._type_text(type_for_xla(node) or node.type)} {name}".rstrip()
        return name

    def _name(self, item: Graph | Node) -> str:
        name = self.canonical.get(item) or item.name
        return f"%{name}" if self.percent or name in RESERVED else name

    def _type_text(self, type: Type) -> str:
        return type.text if self.options.layouts else self._bare_types[type]

    def _heading(self, graph: Graph) -> str:
        start = "ENTRY " if self.module.is_entry(graph) else ""
        if not self.options.signatures:
            return f"{start}{self._name(graph)} {{"
        return f"{start}{self._name(graph)} {self._signature(graph)}{{"

    def _signature(self, graph: Graph) -> str:
        """`(name: type, ...) -> type `, or nothing if a type is unknown or a parameter is missing."""
        texts, names, parameters = self._bare_types, self.canonical, graph.parameters
        if parameters and parameters[-1].number != len(parameters) - 1:
            return ""
        try:
            if names:
                parts = [f"{names[parameter]}: {texts[parameter.type]}" for parameter in parameters]
            else:
                parts = [f"{parameter.name}: {texts[parameter.type]}" for parameter in parameters]
            return f"({', '.join(parts)}) -> {texts[type_for_xla(graph.root)]} "
        except KeyError:
            return ""

    def _leaf(self, node: Node) -> str:
        """What follows the type of a node without operands."""
        if isinstance(node, Parameter):
            return f"parameter({node.number})"
        if isinstance(node, Apply):
            _refuse_computed_call(node)
            return f"{node.opcode}()"
        if not isinstance(node, Constant) or not isinstance(node.value, Literal):
            raise HloomError(f"{node!r} holds a function as a value: HLO text cannot say that")
        text = self._constant_texts.get(id(node.value))  # by identity: equal literals are mostly the same object
        if text is None:
            text = f"constant({format_literal(node.value, limit=self.options.constant_limit)})"
            self._constant_texts[id(node.value)] = text
        return text

    def _tail(self, node: Node) -> str:
        """Everything after the operands: attributes, metadata and finally the backend config, in XLA's order."""
        op = node.function if isinstance(node, Apply) and isinstance(node.function, Op) else LEAF_ROW
        return self._written(op, node.attributes, node.raw_metadata)

    def _written(self, op: Op, attributes: Attributes, raw_metadata: str | None) -> str:
        text, parts = (attributes.text, attributes.parts) if self.is_plain else (None, None)
        metadata = f", metadata={{{raw_metadata}}}" if raw_metadata is not None and self.options.metadata else ""
        if text is not None:
            return text + metadata
        if parts is not None:
            return parts[0] + metadata + parts[1]
        limit = self.options.constant_limit
        shown = attributes if self.is_plain else self._shown(attributes)
        if "backend_config" in shown:
            config = write_attributes(LEAF_ROW, {"backend_config": shown["backend_config"]}, self._name, limit)
            others = {name: value for name, value in shown.items() if name != "backend_config"}
            text = write_attributes(op, others, self._name, limit)
            if self.is_plain and "control-predecessors" not in shown:
                attributes.parts = text, config
            return text + metadata + config
        text = write_attributes(op, shown, self._name, limit)
        if self.is_plain and "control-predecessors" not in shown:
            attributes.text = text
        return text + metadata

    def _shown(self, attributes: Attributes) -> Attributes:
        if not self.options.backend_config and "backend_config" in attributes:
            attributes = attributes.changed(backend_config=None)
        if not self.options.sharding and "sharding" in attributes:
            attributes = attributes.changed(sharding=None)
        return attributes


def _canonical_names(module: Module) -> dict[Referent, str]:
    """Numbers for names: graphs in printed order, nodes in the order of their graph."""
    names: dict[Referent, str] = {}
    for number, graph in enumerate(ordered_graphs(module)):
        names[graph] = f"computation_{number}"
        names.update((node, f"tmp_{index}") for index, node in enumerate(graph.nodes))
    return names


def print_header(module: Module, stack_tables: bool = True) -> str:
    """`HloModule name, key=value, ...`, the stack tables, a blank line."""
    attributes = "".join(f", {key}={_write(key, value)}" for key, value in module.attributes.items())
    percent = "%" if module.name in RESERVED or module.name in TYPE_NAMES else ""
    heading = f"HloModule {percent}{module.name}{attributes}\n\n"
    if module.stack_tables is None or not stack_tables:
        return heading
    return heading + _print_tables(module.stack_tables)


def _write(key: str, value: Any) -> str:
    writer = _WRITERS.get(key)
    return writer(value) if writer else str(value)


def _write_layout(layout: FunctionType) -> str:
    parameters = list_with_indices([str(parameter) for parameter in layout.parameters])
    return f"{{({parameters})->{layout.result}}}"


def _write_either(value: bool | tuple[bool, ...]) -> str:
    return write_boolean(value) if isinstance(value, bool) else write_booleans(value)


def _print_tables(tables: StackTables) -> str:
    """The tables, each followed by a blank line, with another after the last."""
    blocks = (
        ("FileNames", _rows_text(tables.file_names, write_string)),
        ("FunctionNames", _rows_text(tables.function_names, write_string)),
        ("FileLocations", _rows_text(tables.file_locations, _location_text)),
        ("StackFrames", _rows_text(tables.stack_frames, _frame_text)),
    )
    return "".join([f"{title}\n{rows}\n" for title, rows in blocks]) + "\n"


def _rows_text(rows: Mapping[int, Any], text_of: Callable[[Any], str]) -> str:
    if isinstance(rows, PrintedRows):
        return rows.text
    return "".join([f"{number} {text_of(row)}\n" for number, row in rows.items()])


def _location_text(row: FileLocation) -> str:
    return (
        f"{{file_name_id={row.file_name_id} function_name_id={row.function_name_id} line={row.line} "
        f"end_line={row.end_line} column={row.column} end_column={row.end_column}}}"
    )


def _frame_text(row: StackFrame) -> str:
    """The text numbers parents from one more than everything else, so that 1 means none."""
    return f"{{file_location_id={row.file_location_id} parent_frame_id={row.parent_frame_id + 1}}}"


_WRITERS: dict[str, Callable[[Any], str]] = {
    "is_scheduled": write_boolean,
    "input_output_alias": lambda aliases: "{ " + ", ".join(map(str, aliases)) + " }",
    "buffer_donor": lambda donors: "{ " + ", ".join(map(str, donors)) + " }",
    "alias_passthrough_params": write_boolean,
    "entry_computation_layout": _write_layout,
    "allow_spmd_sharding_propagation_to_parameters": _write_either,
    "allow_spmd_sharding_propagation_to_output": _write_either,
    "frontend_attributes": write_frontend,
    "origin_recovery_table": lambda table: f"{table}\n",
}


FORMS: dict[str, PrintOptions] = {
    "hlo": PrintOptions(),
    "short": PrintOptions.short_parsable(),
    "canonical": PrintOptions.canonical(),
}
"""Print options by name; `ir`, the listing of graphs and closures, is handled separately."""


def to_text(module: ModuleLike, form: str | PrintOptions = "hlo") -> str:
    """The module as text: `hlo`, `short` (the shortest that reads back), `canonical`, `ir` (a listing), or options.

    Returns the text and writes no file. Raises HloomError if HLO cannot express the module (`ir` always can),
    Unsupported for another form.

    >>> from hloom.formats.hlo import parse
    >>> module = parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }")
    >>> to_text(module, "short").rstrip().splitlines()[2:]
    ['ENTRY e {', '  x = f32[2] parameter(0)', '  ROOT y = f32[2] negate(x)', '}']
    """
    module = as_module(module)
    if isinstance(form, PrintOptions):
        return print_module(module, form)
    if form == "ir":
        return dump(module)
    if form not in FORMS:
        raise Unsupported(f"no form of text is called '{form}'", hint=f"the forms are {', '.join(FORMS)}, ir")
    return print_module(module, FORMS[form])
