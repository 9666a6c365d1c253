"""The IR as MLIR's text, byte for byte as MLIR's own printer writes it.

Values are named by hints of their ops, made unique, or by numbers. Source: MLIR's AsmPrinter (SSANameState). A nested
region goes on counting where the region around it ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hloom.formats.mlir.floats import is_float, print_float
from hloom.formats.mlir.region_builder import ELEMENT, TUPLE
from hloom.formats.mlir.syntax import (
    FORMS,
    FUNCTIONS,
    GENERIC_RETURNS,
    MODULE,
    PROPERTIES,
    REGIONS,
    SPELLINGS,
    FunctionForm,
    ModuleForm,
)
from hloom.formats.mlir.type_reader import DEEPEST, function_type, result_list
from hloom.formats.mlir.types import result_spellings, shaped_element
from hloom.formats.mlir.values import UNIT, Dense, OpaqueValue, Symbol, TypedArray, TypedNumber, TypeValue, Unit
from hloom.ir import EMPTY, Apply, Attributes, Graph, Missing, Module, Node, Op, Parameter, TupleType, Verbatim
from hloom.text import Unsupported, mlir_strings

_NO_HINTS: Hints = MappingProxyType({})
_OWN = frozenset((SPELLINGS, PROPERTIES, REGIONS))


def to_text(module: Module, hints: Hints = _NO_HINTS) -> str:
    """The text of a module; `hints` are the names of results by op, all other values are numbered.

    Raises Unsupported for what MLIR's text cannot say: HLO's types and attributes, computed calls, constants.
    """
    form = module.attributes.get(MODULE) or ModuleForm()
    lines: list[str] = []
    margin = "  " if form.is_written else ""
    forms = _forms(module)
    graphs = {function_form.name: module[function_form.name] for function_form in forms if function_form.types is None}
    loose = {graphs[function_form.name] for function_form in forms if not function_form.keyword}
    names = Names(list(graphs.values()), loose, hints, is_generic=form.is_generic)
    for function_form in forms:
        if function_form.types is not None:
            lines.append(margin + _declaration(function_form))
            continue
        lines += _GraphPrinter(graphs[function_form.name], function_form, names).lines(margin)
    if not form.is_written:
        return "".join(f"{line}\n" for line in lines)
    if form.is_generic and not lines:
        lines.append("^bb0:")
    return "\n".join([_opening(form), *lines, _closing(form)]) + "\n"


def _forms(module: Module) -> list[FunctionForm]:
    """How each graph is to be written, in order; graphs without a form get that of the first function."""
    written: Sequence[FunctionForm] = module.attributes.get(FORMS) or ()
    declared = {graph.name for graph in module.declared}
    tops = {graph.name: graph for graph in module.graphs if graph.parent is None}
    kept = [form for form in written if form.name in tops or form.name in declared]
    known = {form.name for form in kept}
    keyword = next((form.keyword for form in kept if form.keyword), "func.func")
    return kept + [FunctionForm(name, keyword) for name in tops if name not in known]


def _opening(form: ModuleForm) -> str:
    if form.is_generic:
        properties, _ = _split(form.properties, _with_name(form.attributes, form.name))
        return f'"builtin.module"(){properties and " " + properties} ({{'
    name = f" {print_symbol(form.name)}" if form.name else ""
    attributes = f" attributes {print_dictionary(form.attributes)}" if form.attributes else ""
    return f"module{name}{attributes} {{"


def _closing(form: ModuleForm) -> str:
    if not form.is_generic:
        return "}"
    _, attributes = _split(form.properties, _with_name(form.attributes, form.name))
    return f"}}){attributes and ' ' + attributes} : () -> ()"


def _with_name(attributes: Attributes, name: str | None) -> Attributes:
    return attributes.changed(sym_name=name) if name else attributes


def _split(properties: Sequence[str], attributes: Attributes) -> tuple[str, str]:
    """`<{properties}>` and `{attributes}`, each empty where there is none."""
    ours = {name: attributes[name] for name in properties if name in attributes}
    rest = {name: value for name, value in attributes.items() if name not in ours}
    return f"<{print_dictionary(ours)}>" if ours else "", print_dictionary(rest) if rest else ""


def _declaration(form: FunctionForm) -> str:
    assert form.types is not None, "only those are declarations"
    operands, results = form.types
    if form.is_generic:
        values = form.attributes.changed(sym_name=form.name, function_type=TypeValue(function_type(operands, results)))
        properties, attributes = _split(form.properties, values)
        details = f"{properties and properties + ' '}({{\n  }}){attributes and ' ' + attributes}"
        return f'"{form.keyword}"() {details} : () -> ()'
    return f"{_head(form)}({', '.join(operands)}){_results(results, form)}{_function_attributes(form)}"


def _head(form: FunctionForm) -> str:
    visibility = f"{form.visibility} " if form.visibility else ""
    return f"{form.keyword} {visibility}{print_symbol(form.name)}"


def _results(spellings: Sequence[str], form: FunctionForm) -> str:
    if not spellings:
        return ""
    if len(form.result_attributes) != len(spellings):
        return f" -> {result_list(tuple(spellings))}"
    pairs = zip(spellings, form.result_attributes, strict=True)
    return " -> (" + ", ".join(type_ + (f" {print_dictionary(pair)}" if pair else "") for type_, pair in pairs) + ")"


def _function_attributes(form: FunctionForm) -> str:
    return f" attributes {print_dictionary(form.attributes)}" if form.attributes else ""


class _GraphPrinter:
    """Prints one function, or one run of ops outside functions, with all its regions."""

    def __init__(self, graph: Graph, form: FunctionForm, names: Names) -> None:
        self.graph = graph
        self.form = form
        self.names = names
        self.spellings: dict[Node, tuple[str, ...]] = {}
        self._details: dict[int, tuple[str, str]] = {}

    def lines(self, margin: str) -> list[str]:
        if not self.form.keyword:
            return self.operations(self.graph, margin, 0)
        return self.generic(margin) if self.form.is_generic else self.custom(margin)

    def custom(self, margin: str) -> list[str]:
        """`oneflow.job @name(%arg0: type) -> type {` and so on."""
        form, returned = self.form, self.returned()
        spelled = [self.spelling(node) for node in returned]
        arguments = ", ".join(map(self.argument, self.graph.parameters))
        first = f"{_head(form)}({arguments}){_results(spelled, form)}{_function_attributes(form)} {{"
        values = ", ".join(f"%{self.names.values[node]}" for node in returned)
        last = FUNCTIONS[form.keyword] + (f" {values} : {', '.join(spelled)}" if returned else "")
        inside = self.operations(self.graph, margin + "  ", 0)
        return [margin + first, *inside, f"{margin}  {last}", margin + "}"]

    def generic(self, margin: str) -> list[str]:
        """`"func.func"() <{...}> ({` and so on."""
        form, returned = self.form, self.returned()
        spelled = tuple(self.spelling(node) for node in returned)
        signature = function_type(tuple(map(self.spelling, self.graph.parameters)), spelled)
        values = form.attributes.changed(sym_name=form.name, function_type=TypeValue(signature))
        properties, attributes = _split(form.properties, values)
        first = f'{margin}"{form.keyword}"() {properties and properties + " "}({{'
        uses = ", ".join(f"%{self.names.values[node]}" for node in returned)
        last = f'{margin}  "{GENERIC_RETURNS[form.keyword]}"({uses}) : ({", ".join(spelled)}) -> ()'
        inside = [*self.label(self.graph, margin), *self.operations(self.graph, margin + "  ", 0), last]
        return [first, *inside, f"{margin}}}){attributes and ' ' + attributes} : () -> ()"]

    def returned(self) -> tuple[Node, ...]:
        """What the function yields, value by value."""
        output = self.graph.root
        is_several = isinstance(output, Apply) and output.function is TUPLE
        return output.operands if is_several else (output,)

    def argument(self, parameter: Parameter) -> str:
        others = {name: value for name, value in parameter.attributes.items() if name not in _OWN}
        attributes = f" {print_dictionary(others)}" if others else ""
        return f"%{self.names.values[parameter]}: {self.spelling(parameter)}{attributes}"

    def label(self, graph: Graph, margin: str) -> list[str]:
        """The line that names a block's arguments, where it has any."""
        arguments = ", ".join(map(self.argument, graph.parameters))
        return [f"{margin}^bb0({arguments}):"] if arguments else []

    def operations(self, graph: Graph, margin: str, depth: int) -> list[str]:
        """The lines of a graph's ops."""
        lines: list[str] = []
        if depth > DEEPEST:
            raise Unsupported(f"regions nest deeper than {DEEPEST} levels")
        for node in graph.nodes:
            if isinstance(node, Parameter):
                continue
            if not isinstance(node, Apply) or not isinstance(node.function, Op):
                raise Unsupported(f"{node!r} cannot be written in MLIR's generic form")
            if node.function is TUPLE:
                if not node.is_output:
                    raise Unsupported(f"{node!r} makes a tuple, which MLIR's ops have not")
            elif node.function is not ELEMENT:
                self.operation(node, margin, depth, lines)
        return lines

    def operation(self, node: Apply, margin: str, depth: int, lines: list[str]) -> None:
        """Put an op's lines after the others."""
        properties, attributes = self.details(node)
        uses = ", ".join([f"%{self.names.values[operand]}" for operand in node.operands])
        types = ", ".join([self.spelling(operand) for operand in node.operands])
        regions = node.attributes.get(REGIONS) or ()
        start = f"{margin}{self.defined(node)}{mlir_strings.quote(node.opcode)}({uses}){properties}"
        end = f"{attributes} : ({types}) -> {result_list(self.result_spellings(node))}"
        if not regions:
            lines.append(start + end)
            return
        lines.append(f"{start} ({{")
        for number, region in enumerate(regions):
            if number:
                lines.append(f"{margin}}}, {{")
            lines += self.label(region, margin)
            lines += self.operations(region, margin + "  ", depth + 1)
        lines.append(f"{margin}}}){end}")

    def defined(self, node: Apply) -> str:
        """`%out, %mask = `; nothing for an op without results."""
        groups = self.names.groups.get(node)
        if not groups:
            return ""
        return ", ".join(f"%{group.name}" + (f":{group.count}" if group.count > 1 else "") for group in groups) + " = "

    def details(self, node: Apply) -> tuple[str, str]:
        """The properties and the attributes of an op, each with the space before it."""
        spellings = self._details.get(id(node.attributes))
        if spellings is None:
            names = node.attributes.get(PROPERTIES) or ()
            properties = names.text.split(",") if isinstance(names, Verbatim) else names
            values = Attributes({name: value for name, value in node.attributes.items() if name not in _OWN}) or EMPTY
            parts = _split(properties, values)
            spellings = self._details[id(node.attributes)] = (parts[0] and " " + parts[0], parts[1] and " " + parts[1])
        return spellings

    def result_spellings(self, node: Node) -> tuple[str, ...]:
        spellings = self.spellings.get(node)
        if spellings is None:
            written = node.attributes.get(SPELLINGS)
            text = written.text if isinstance(written, Verbatim) else written
            spellings = self.spellings[node] = result_spellings(node.type, text)
        return spellings

    def spelling(self, node: Node) -> str:
        """How the type of one value is spelled."""
        if isinstance(node, Apply) and node.function is ELEMENT:
            return self.result_spellings(node.operands[0])[node.attributes["index"]]
        if isinstance(node, Missing) or node not in self.names.values:
            raise Unsupported(f"{node!r} is not a value of this function")
        return self.result_spellings(node)[0]


Hints = Mapping[str, Sequence[str | None]]
"""By op, what its results are called; a result without a name stands under the name of the one before it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Some results of an op that stand under one name."""

    name: str
    first: int
    count: int


@dataclass(slots=True)
class _Counters:
    """What the next unnamed value, argument and conflict get, and the names taken by the regions around."""

    value: int
    argument: int
    conflict: int
    taken: set[str]


class Names:
    """The names of all values of a module.

    `loose` are the graphs of ops outside functions, whose values count on into the functions. In the generic form
    (`is_generic`) no number is given twice in the whole module, and later regions are numbered before earlier ones.
    """

    def __init__(self, graphs: Sequence[Graph], loose: Collection[Graph], hints: Hints, *, is_generic: bool) -> None:
        self._hints = hints
        self.values: dict[Node, str] = {}
        self.groups: dict[Node, tuple[Group, ...]] = {}
        counters = _Counters(0, 0, 0, set())
        pending: list[tuple[Graph, _Counters]] = []
        for graph in graphs:
            regions = self._number(graph, counters) if graph in loose else [graph]
            pending += [(region, counters) for region in regions]
        last = counters
        while pending:
            graph, around = pending.pop()
            start = last if is_generic else around
            last = _Counters(start.value, start.argument, start.conflict, set(around.taken))
            pending += [(region, last) for region in self._number(graph, last)]

    def _number(self, graph: Graph, counters: _Counters) -> list[Graph]:
        """Name the values of one graph; the regions of its ops."""
        for parameter in graph.parameters:
            self.values[parameter] = _unique(f"arg{counters.argument}", counters)
            counters.argument += 1
        nested: list[Graph] = []
        for node in graph.nodes:
            if not isinstance(node, Apply) or node.function is TUPLE:
                continue
            if node.function is ELEMENT:
                self.values[node] = self._element(node)
                continue
            count = len(node.type.elements) if isinstance(node.type, TupleType) else 1
            if count:
                self.groups[node] = self._grouped(node.opcode, count, counters)
                if not isinstance(node.type, TupleType):
                    self.values[node] = self.groups[node][0].name
            nested.extend(node.attributes.get(REGIONS) or ())
        return nested

    def _grouped(self, opcode: str, count: int, counters: _Counters) -> tuple[Group, ...]:
        hints = self._hints.get(opcode, ())
        starts = [0, *(index for index in range(1, count) if index < len(hints) and hints[index])]
        ends = [*starts[1:], count]
        groups: list[Group] = []
        for start, end in zip(starts, ends, strict=True):
            hint = hints[start] if start < len(hints) else None
            if hint is None:
                name = str(counters.value)
                counters.value += 1
            else:
                name = _unique(hint, counters)
            groups.append(Group(name, start, end - start))
        return tuple(groups)

    def _element(self, node: Apply) -> str:
        index = node.attributes["index"]
        for group in self.groups[node.operands[0]]:
            if group.first <= index < group.first + group.count:
                return group.name if group.count == 1 else f"{group.name}#{index - group.first}"
        raise AssertionError(f"{node!r} takes a result that is not there")


def _unique(name: str, counters: _Counters) -> str:
    unique = name
    while unique in counters.taken:
        unique = f"{name}_{counters.conflict}"
        counters.conflict += 1
    counters.taken.add(unique)
    return unique


_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_$.]*")
_ELIDED = frozenset(("i64", "f64"))


def print_value(value: Any, depth: int = 0) -> str:
    """The text of a value; raises Unsupported for what no attribute can be.

    >>> print_value((TypedNumber(1), TypedNumber(2, "si64"), "a"))
    '[1, 2 : si64, "a"]'
    """
    printer = _PRINTERS.get(type(value))
    if printer is None:
        raise Unsupported(f"{value!r} cannot be an attribute in MLIR")
    if depth > DEEPEST:
        raise Unsupported(f"attributes nest deeper than {DEEPEST} levels")
    return printer(value, depth)


def print_dictionary(values: Mapping[str, Any], depth: int = 0) -> str:
    """`{a = 1 : i64, b}`, sorted by name."""
    return "{" + ", ".join([_named(name, values[name], depth) for name in sorted(values)]) + "}"


def print_symbol(name: str) -> str:
    """`@name`, in quotes where it must be."""
    return f"@{name}" if _BARE.fullmatch(name) else f"@{mlir_strings.quote(name)}"


def _named(name: str, value: Any, depth: int) -> str:
    text = name if _BARE.fullmatch(name) else mlir_strings.quote(name)
    return text if value is UNIT else f"{text} = {print_value(value, depth + 1)}"


def _in_array(value: Any, depth: int) -> str:
    if isinstance(value, TypedNumber) and value.type in _ELIDED:
        text = _number(value.value, value.type)
        if value.type == "i64" or not text.startswith("0x"):  # bits alone would read as an integer
            return text
    return print_value(value, depth + 1)


def _number(value: float, type_: str) -> str:
    if isinstance(value, bool) or type_ == "i1":
        return "true" if value else "false"
    return print_float(value, type_) if is_float(type_) else str(value)


def _nested(value: Any, type_: str, depth: int = 0) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join([_nested(item, type_, depth + 1) for item in value]) + "]"
    return mlir_strings.quote(value) if isinstance(value, str) else _number(value, type_)


def _dense(value: Dense, depth: int) -> str:
    inside = "" if value.elements == () else _nested(value.elements, shaped_element(value.type))
    return f"dense<{inside}> : {value.type}"


def _array(value: TypedArray, depth: int) -> str:
    inside = ", ".join([_number(item, value.type) for item in value.values])
    return f"array<{value.type}: {inside}>" if inside else f"array<{value.type}>"


_PRINTERS: dict[type, Callable[[Any, int], str]] = {
    bool: lambda value, depth: "true" if value else "false",
    str: lambda value, depth: mlir_strings.quote(value),
    tuple: lambda value, depth: "[" + ", ".join([_in_array(item, depth) for item in value]) + "]",
    Attributes: print_dictionary,
    Unit: lambda value, depth: "unit",
    TypedNumber: lambda value, depth: f"{_number(value.value, value.type)} : {value.type}",
    TypedArray: _array,
    Dense: _dense,
    Symbol: lambda value, depth: "::".join(map(print_symbol, value.path)),
    TypeValue: lambda value, depth: value.text,
    OpaqueValue: lambda value, depth: value.text,
    Verbatim: lambda value, depth: value.text,
}
