"""Ops in MLIR's generic form, with their regions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hloom.formats.mlir.printer import print_value
from hloom.formats.mlir.region_builder import TUPLE, Body
from hloom.formats.mlir.syntax import PROPERTIES, REGIONS, SPELLINGS, unknown_op
from hloom.formats.mlir.type_reader import balanced, deeper, read_type, read_types
from hloom.formats.mlir.types import result_type, type_of, written_spellings
from hloom.formats.mlir.value_reader import ValueReader
from hloom.ir import EMPTY, EMPTY_TUPLE, Apply, Attributes, Graph, Module, Node, Op, Verbatim
from hloom.text import Cursor, Unsupported

NAME = re.compile(r"%([0-9]+|[A-Za-z_$.\-][\w$.\-]*)")
USE = re.compile(r"%([0-9]+|[A-Za-z_$.\-][\w$.\-]*)(?:#([0-9]{1,6}))?")
_COUNT = re.compile(r":[ \t]*([0-9]{1,6})")
_LABEL = re.compile(r"\^[\w$.\-]+")
LOCATION = re.compile(r"loc(?=[ \t]*\()")
_RESERVED = frozenset((SPELLINGS, PROPERTIES, REGIONS))
MOST_RESULTS = 100_000
"""The maximum number of results of an op."""


class OperationReader:
    """Reads ops at a cursor into bodies; `rows` are the dialects' rows by full name."""

    def __init__(self, cursor: Cursor, values: ValueReader, module: Module, rows: Mapping[str, Op]) -> None:
        self.cursor = cursor
        self.values = values
        self.module = module
        self.rows = rows
        self._signatures: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def results(self, body: Body) -> list[tuple[str, int]]:
        """`%a, %b:2 =`: the names before an op, and how many results each stands for."""
        cursor = self.cursor
        packs: list[tuple[str, int]] = []
        while cursor.at("%"):
            match = cursor.read(NAME, "a value's name")
            if body.is_defined(match[1]) or any(match[1] == name for name, _ in packs):
                raise cursor.error(f"'%{match[1]}' is defined already", match.start())
            count = cursor.match(_COUNT)
            packs.append((match[1], int(count[1]) if count else 1))
            if packs[-1][1] == 0:
                raise cursor.error(f"'%{match[1]}' stands for no result", match.start())
            if not cursor.accept(","):
                cursor.expect("=", "after the results")
                return packs
        raise cursor.error(f"expected a value's name, found {cursor.next_token()}")

    def operation(self, body: Body, depth: int) -> Apply:
        """One op: `%a = "dialect.op"(%b) ... : (type) -> type`."""
        cursor = self.cursor
        start = cursor.skip()
        packs = self.results(body) if cursor.at("%") else []
        name_start = cursor.skip()
        if not cursor.at('"'):
            raise self.custom(name_start)
        name = self.values.string()
        inputs = self.operands(body)
        if cursor.at("["):
            raise Unsupported(f"{name} has successors, which are not read", cursor.source.location(cursor.skip()))
        properties, regions, attributes = self.details(body, depth)
        operands, results = self.signature()
        self.location()
        self.check_operands(inputs, operands, name_start)
        if sum(count for _, count in packs) not in (len(results), 0):
            raise cursor.error(f"{name} has {len(results)} results, {sum(c for _, c in packs)} are named", start)
        op = self.rows.get(name) or unknown_op(name)
        if not op.accepts(len(inputs)):
            raise cursor.error(f"{name} does not take {len(inputs)} operands", name_start)
        extra = self.extras(op, properties, regions, results)
        if op.is_known:
            attributes = _known(op, attributes)
        if extra:
            attributes = attributes.changed(extra)
        type_ = result_type(results)
        if len(results) > MOST_RESULTS:
            raise cursor.error(f"{name} has more than {MOST_RESULTS} results", start)
        return body.add(op, inputs, type_, attributes, packs)

    def custom(self, position: int) -> Exception:
        """The error at an op that is not in the generic form."""
        cursor = self.cursor
        hint = "print the program in the generic form: mlir-opt --mlir-print-op-generic"
        return cursor.error(f"expected an op in the generic form, found {cursor.next_token()}", position, hint)

    def operands(self, body: Body) -> tuple[Node, ...]:
        """`(%a, %b#1)`."""
        cursor = self.cursor
        cursor.expect("(", "before the operands")
        if cursor.accept(")"):
            return ()
        values = [self.use(body)]
        while cursor.accept(","):
            values.append(self.use(body))
        cursor.expect(")", "after the operands")
        return tuple(values)

    def use(self, body: Body) -> Node:
        """The value that a name stands for."""
        cursor = self.cursor
        match = cursor.read(USE, "a value's name")
        value = body.find(match[1], int(match[2] or 0))
        if value is None:
            raise cursor.error(f"'{match[0]}' is not defined before it is used", match.start())
        return value

    def details(self, body: Body, depth: int) -> tuple[tuple[str, ...], tuple[Graph, ...], Attributes]:
        """`<{properties}> (regions) {attributes}`: the properties' names, the regions, and all attributes."""
        cursor = self.cursor
        properties = EMPTY
        if cursor.accept("<"):
            properties = self.values.read_dictionary(depth)
            cursor.expect(">", "after the properties")
        regions = self.regions(body, depth) if cursor.at("(") else ()
        start = cursor.skip()
        attributes = self.values.read_dictionary(depth) if cursor.at("{") else EMPTY
        twice = next((name for name in properties if name in attributes), None)
        if twice is not None:
            raise cursor.error(f"'{twice}' is a property and an attribute", start)
        merged = Attributes({**properties, **attributes}) if properties else attributes
        reserved = next((name for name in merged if name in _RESERVED), None)
        if reserved is not None:
            raise cursor.error(f"the attribute name '{reserved}' is reserved", start)
        return tuple(sorted(properties)), regions, merged

    def signature(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """`: (operand types) -> result types`."""
        cursor = self.cursor
        cursor.expect(":", "before the types")
        plain = cursor.match(_SIGNATURE)
        if plain is not None:
            cached = self._signatures.get(plain[0])
            if cached is not None:
                return cached
            cursor.position = plain.start()
        if not cursor.at("("):
            raise cursor.error(f"expected '(' before the operands' types, found {cursor.next_token()}")
        operands = read_types(cursor, self.values.types)
        cursor.expect("->", "before the results' types")
        cached = operands, read_types(cursor, self.values.types)
        if plain is not None and plain.end() == cursor.position:
            self._signatures[plain[0]] = cached
        return cached

    def check_operands(self, inputs: tuple[Node, ...], spellings: tuple[str, ...], position: int) -> None:
        """Raise ParseError unless operands and their types agree."""
        if len(inputs) != len(spellings):
            message = f"{len(inputs)} operands are given, but {len(spellings)} types"
            raise self.cursor.error(message, position)
        for node, spelling in zip(inputs, spellings, strict=True):
            if node.type is not type_of(spelling):
                message = f"'%{node.name}' is of type {node.type}, but is used as {spelling}"
                raise self.cursor.error(message, position)

    def extras(
        self, op: Op, properties: tuple[str, ...], regions: tuple[Graph, ...], results: tuple[str, ...]
    ) -> dict[str, Any]:
        """What the text's form adds to the attributes; verbatim where the row does not provide for it."""
        extra: dict[str, Any] = {}
        kept = written_spellings(results)
        if kept:
            extra[SPELLINGS] = kept if SPELLINGS in op.attributes else Verbatim(kept)
        if properties:
            text = ",".join(properties)
            extra[PROPERTIES] = properties if PROPERTIES in op.attributes else Verbatim(text)
        if regions:
            extra[REGIONS] = regions
        return extra

    def location(self) -> None:
        """Move over `loc(...)`: locations are not kept."""
        if self.cursor.match(LOCATION):
            skip_location(self.cursor)

    def regions(self, body: Body, depth: int) -> tuple[Graph, ...]:
        """`({...}, {...})`."""
        cursor, inner = self.cursor, deeper(self.cursor, depth)
        cursor.expect("(")
        regions = [self.region(body, inner)]
        while cursor.accept(","):
            regions.append(self.region(body, inner))
        cursor.expect(")", "after the regions")
        return tuple(regions)

    def region(self, body: Body, depth: int) -> Graph:
        """`{^bb0(%a: type): ops}`, as a graph that yields its last op."""
        cursor = self.cursor
        graph = self.module.add_graph(f"{body.graph.name}.region", body.graph)
        inside = Body(graph, body)
        cursor.expect("{", "before the region")
        if cursor.match(_LABEL):
            self.arguments(inside)
            cursor.expect(":", "after the block's arguments")
        last: Node | None = None
        while not cursor.accept("}"):
            self.refuse_block()
            last = self.operation(inside, depth)
        inside.finish(last or inside.add(TUPLE, (), EMPTY_TUPLE, EMPTY, []))
        return graph

    def refuse_block(self) -> None:
        """Raise Unsupported where another block begins."""
        if self.cursor.at("^"):
            location = self.cursor.source.location(self.cursor.skip())
            raise Unsupported("a region of several blocks is not read", location)

    def arguments(self, body: Body) -> None:
        """`(%a: type {attributes}, ...)`, where there is one."""
        cursor = self.cursor
        if not cursor.accept("("):
            return
        while not cursor.at(")"):
            match = cursor.read(NAME, "an argument's name")
            if body.is_defined(match[1]):
                raise cursor.error(f"'%{match[1]}' is defined already", match.start())
            cursor.expect(":", "after the argument's name")
            spelling = read_type(cursor, self.values.types)
            attributes = self.values.read_dictionary(0) if cursor.at("{") else EMPTY
            written = {name: Verbatim(print_value(value)) for name, value in attributes.items()}
            body.add_parameter(match[1], spelling, written)
            self.location()
            if not cursor.accept(","):
                break
        cursor.expect(")", "after the arguments")


def skip_location(cursor: Cursor) -> None:
    """Move over a location's parentheses."""
    balanced(cursor)


def _known(op: Op, attributes: Attributes) -> Attributes:
    """The attributes, those that the row does not know as their text."""
    unknown = [name for name in attributes if name not in op.attributes]
    if not unknown:
        return attributes
    return attributes.changed({name: Verbatim(print_value(attributes[name])) for name in unknown})


_SIGNATURE = re.compile(r"\([^(){}\"\-]*\)[ \t]*->[ \t]*(?:\([^(){}\"\-]*\)|tensor<[^<>]*>|[su]?i[0-9]+\b)")
