"""Modules and functions in a text: the custom forms of `module`, `oneflow.job` and `func.func`, and the generic one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hloom.formats.mlir.operation_reader import OperationReader, skip_location
from hloom.formats.mlir.region_builder import TUPLE, Body
from hloom.formats.mlir.syntax import FORMS, FUNCTIONS, GENERIC_RETURNS, MODULE, FunctionForm, ModuleForm
from hloom.formats.mlir.type_reader import read_type, read_types
from hloom.formats.mlir.value_reader import ValueReader
from hloom.formats.mlir.values import TypeValue
from hloom.ir import EMPTY, EMPTY_TUPLE, Attributes, Module, Node, Op, TupleType
from hloom.text import Cursor, Source, Unsupported

_TYPE_ALIAS = re.compile(r"![A-Za-z_][\w$]*(?=[ \t]*=)")
_VALUE_ALIAS = re.compile(r"#[A-Za-z_][\w$]*[0-9]*(?=[ \t]*=)")
_LOCATION = re.compile(r"loc(?=[ \t]*\()")
_MODULE = re.compile(r"module(?![\w$.])|builtin\.module(?![\w$.])")
_FUNCTION = re.compile(r"(?:oneflow\.job|func\.func)(?![\w$.])")
_GENERIC_MODULE = re.compile(r'"builtin\.module"')
_GENERIC_FUNCTION = re.compile(r'"(oneflow\.job|func\.func)"')
_VISIBILITY = re.compile(r"(?:public|private|nested)(?![\w$.])")
_RETURN = re.compile(r"(?:oneflow\.return|func\.return|return)(?![\w$.])")
_ATTRIBUTES = re.compile(r"attributes(?![\w$.])")
_NO_ROWS: Mapping[str, Op] = MappingProxyType({})


def parse(text: str | Source, rows: Mapping[str, Op] = _NO_ROWS) -> Module:
    """The module of a text, each function a graph; raises ParseError, and Unsupported for what is not read.

    `rows` are op rows by full name; ops without one are kept with all they have.

    >>> module = parse('func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }')
    >>> module.entry.type
    (f32[2]) -> f32[2]
    """
    source = text if isinstance(text, Source) else Source(text)
    return _Reader(source, rows).read()


class _Reader:
    """What one text has given so far."""

    def __init__(self, source: Source, rows: Mapping[str, Op]) -> None:
        self.cursor = Cursor(source)
        self.module = Module()
        self.module.source_name = source.name
        self.values = ValueReader(self.cursor)
        self.operations = OperationReader(self.cursor, self.values, self.module, rows)
        self.forms: list[FunctionForm] = []
        self.loose: Body | None = None
        self.loose_last: Node | None = None
        self.names: set[str] = set()

    def read(self) -> Module:
        cursor = self.cursor
        self.aliases()
        form = self.custom_module() if cursor.match(_MODULE) else None
        if form is None and cursor.match(_GENERIC_MODULE):
            form = self.generic_module()
        if form is None:
            form = ModuleForm(is_written=False)
            self.items("")
        self.aliases()
        if cursor.peek():
            raise cursor.error(f"expected the end of the text, found {cursor.next_token()}")
        module = self.module
        functions = [
            function_form.name for function_form in self.forms if function_form.types is None and function_form.keyword
        ]
        bodies = functions or [function_form.name for function_form in self.forms if function_form.types is None]
        if bodies:
            module.entry = module[bodies[0]]
        if form.name:
            module.name = form.name
        module.attributes = Attributes({MODULE: form, FORMS: tuple(self.forms)})
        return module

    def aliases(self) -> None:
        """`!name = type` and `#name = value`, any number of them; locations are skipped."""
        cursor = self.cursor
        while True:
            if match := cursor.match(_TYPE_ALIAS):
                cursor.expect("=")
                self.values.types[match[0]] = read_type(cursor, self.values.types)
            elif match := cursor.match(_VALUE_ALIAS):
                cursor.expect("=")
                if cursor.match(_LOCATION):
                    skip_location(cursor)
                else:
                    self.values.values[match[0]] = self.values.read(0)
            else:
                return

    def custom_module(self) -> ModuleForm:
        """What stands behind `module`."""
        cursor = self.cursor
        name = self.values.symbol() if cursor.at("@") else None
        attributes = self.values.read_dictionary(0) if cursor.match(_ATTRIBUTES) else EMPTY
        cursor.expect("{", "before the module's body")
        self.items("}")
        cursor.expect("}", "after the module's body")
        self.operations.location()
        return ModuleForm(name=name, attributes=attributes)

    def generic_module(self) -> ModuleForm:
        """What stands behind `"builtin.module"`."""
        cursor = self.cursor
        properties, attributes = self.generic_opening("the module")
        if cursor.match(_LABEL):
            cursor.expect(":", "after the block's label")
        self.items("}")
        cursor.expect("}", "after the module's body")
        cursor.expect(")", "after the module's region")
        attributes = self.generic_closing(properties, attributes)
        name = attributes.get("sym_name")
        symbol = name if isinstance(name, str) else None
        rest = attributes.changed(sym_name=None) if symbol else attributes
        return ModuleForm(True, True, symbol, rest, tuple(sorted(properties)))

    def generic_opening(self, what: str) -> tuple[Attributes, Attributes]:
        """`() <{properties}> ({`."""
        cursor = self.cursor
        cursor.expect("(", f"after {what}")
        cursor.expect(")", f"after {what}, which takes no operands")
        properties = EMPTY
        if cursor.accept("<"):
            properties = self.values.read_dictionary(0)
            cursor.expect(">", "after the properties")
        cursor.expect("(", "before the region")
        cursor.expect("{", "before the region")
        return properties, EMPTY

    def generic_closing(self, properties: Attributes, attributes: Attributes) -> Attributes:
        """`{attributes} : () -> ()`, together with the properties."""
        cursor = self.cursor
        attributes = self.values.read_dictionary(0) if cursor.at("{") else attributes
        start = cursor.skip()
        if self.operations.signature() != ((), ()):
            raise cursor.error("a module or a function takes and yields nothing itself: ': () -> ()'", start)
        self.operations.location()
        return Attributes({**properties, **attributes})

    def items(self, closing: str) -> None:
        """Functions and loose ops up to the closing bracket or the end."""
        cursor = self.cursor
        while True:
            sign = cursor.peek()
            if not sign or sign == closing:
                break
            if match := cursor.match(_FUNCTION):
                self.end_loose()
                self.custom_function(match[0])
            elif match := cursor.match(_GENERIC_FUNCTION):
                self.end_loose()
                self.generic_function(match[1])
            elif cursor.match_ahead(_MODULE) or cursor.match_ahead(_GENERIC_MODULE):
                raise Unsupported("a module inside a module is not read", cursor.source.location(cursor.skip()))
            elif sign in "#!" and not closing:
                start = cursor.position
                self.aliases()
                if cursor.position == start:
                    raise self.operations.custom(cursor.skip())
            else:
                self.loose_operation()
        self.end_loose()

    def loose_operation(self) -> None:
        """An op outside functions; runs of them make a graph."""
        if self.loose is None:
            name = self.module.unique_graph_name("body")
            self.forms.append(FunctionForm(name, ""))
            self.loose = Body(self.module.add_graph(name))
        self.loose_last = self.operations.operation(self.loose, 0)

    def end_loose(self) -> None:
        if self.loose is not None and self.loose_last is not None:
            self.loose.finish(self.loose_last)
        self.loose = self.loose_last = None

    def name(self) -> str:
        """A function's symbol, which no other may have."""
        cursor = self.cursor
        start = cursor.skip()
        name = self.values.symbol()
        if name in self.names or name in self.module:
            raise cursor.error(f"'@{name}' is defined already", start)
        self.names.add(name)
        return name

    def custom_function(self, keyword: str) -> None:
        """`@name(%a: type) -> type attributes {...} { body }`, or a declaration without a body."""
        cursor = self.cursor
        visibility = cursor.match(_VISIBILITY)
        name = self.name()
        body: Body | None = None
        types: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        if not cursor.at("("):
            raise cursor.error(f"expected '(' before the arguments, found {cursor.next_token()}")
        if _DECLARED.match(cursor.text, cursor.position):
            operands = read_types(cursor, self.values.types)
            results, kept = self.result_types()
            types = operands, results
        else:
            body = Body(self.module.add_graph(name))
            self.operations.arguments(body)
            results, kept = self.result_types()
        attributes = self.values.read_dictionary(0) if cursor.match(_ATTRIBUTES) else EMPTY
        if body is not None and not cursor.at("{") and not body.graph.parameters:
            self.module.erase_graph(body.graph)
            body, types = None, ((), results)
        shown = visibility[0] if visibility else ""
        self.forms.append(FunctionForm(name, keyword, shown, attributes, (), kept, types=types))
        if body is None:
            self.module.declare_graph(name)
            return
        cursor.expect("{", "before the function's body")
        self.function_body(body, keyword, results)
        self.operations.location()

    def result_types(self) -> tuple[tuple[str, ...], tuple[Attributes, ...]]:
        """`-> type` or `-> (type {attributes}, ...)`; nothing means no results."""
        cursor = self.cursor
        if not cursor.accept("->"):
            return (), ()
        if not cursor.accept("("):
            return (read_type(cursor, self.values.types),), ()
        types: list[str] = []
        attributes: list[Attributes] = []
        while not cursor.at(")"):
            types.append(read_type(cursor, self.values.types))
            attributes.append(self.values.read_dictionary(0) if cursor.at("{") else EMPTY)
            if not cursor.accept(","):
                break
        cursor.expect(")", "after the results' types")
        return tuple(types), tuple(attributes) if any(attributes) else ()

    def generic_function(self, keyword: str) -> None:
        """What stands behind `"func.func"`."""
        cursor = self.cursor
        start = cursor.skip()
        properties, attributes = self.generic_opening("the function")
        symbol = properties.get("sym_name")  # without properties the name comes after the body
        graph = self.module.add_graph(symbol if isinstance(symbol, str) else "function")
        body = Body(graph)
        if cursor.accept("}"):
            self.module.erase_graph(graph)
            results: tuple[str, ...] | None = None
        else:
            if cursor.match(_LABEL):
                self.operations.arguments(body)
                cursor.expect(":", "after the block's arguments")
            results = self.function_body(body, keyword, None)
        cursor.expect(")", "after the function's region")
        given = self.generic_closing(properties, attributes)
        name, function_type = given.get("sym_name"), given.get("function_type")
        if (
            not isinstance(name, str)
            or not isinstance(function_type, TypeValue)
            or not function_type.text.startswith("(")
        ):
            raise cursor.error(f"{keyword} needs the attributes sym_name and function_type", start)
        if name in self.names:
            raise cursor.error(f"'@{name}' is defined already", start)
        self.names.add(name)
        types = _function_types(function_type.text)
        if results is None:
            self.module.declare_graph(name)
        else:
            if graph.name != name:
                self.module.rename_graph(graph, name)
                name = graph.name
            if results != types[1]:
                raise cursor.error(f"{keyword} @{name} does not return what its function_type says", start)
        rest = given.changed(sym_name=None, function_type=None)
        kept = tuple(sorted(properties))
        declared = types if results is None else None
        self.forms.append(FunctionForm(name, keyword, "", rest, kept, (), True, declared))

    def function_body(self, body: Body, keyword: str, results: tuple[str, ...] | None) -> tuple[str, ...]:
        """Ops up to the one that returns, and the closing bracket; what it returns must be what the header says."""
        cursor = self.cursor
        while True:
            self.operations.refuse_block()
            start = cursor.skip()
            generic = cursor.match(_GENERIC_RETURN)
            if generic or cursor.match(_RETURN):
                break
            if cursor.at("}"):
                raise cursor.error(f"the body of {keyword} must end with {FUNCTIONS[keyword]}")
            self.operations.operation(body, 0)
        values, spellings = self.returned(body, is_generic=generic is not None)
        if generic and generic[1] != GENERIC_RETURNS[keyword]:
            raise cursor.error(f"{keyword} ends with {GENERIC_RETURNS[keyword]}, not with {generic[1]}", start)
        if results is not None and spellings != results:
            message = f"({', '.join(spellings)}) is returned, but the function yields ({', '.join(results)})"
            raise cursor.error(message, start)
        self.operations.check_operands(values, spellings, start)
        self.operations.location()
        cursor.expect("}", "after the function's body")
        if len(values) == 1:
            body.finish(values[0])
        else:
            type_ = TupleType([value.type for value in values if value.type]) if values else EMPTY_TUPLE
            body.finish(body.add(TUPLE, values, type_, EMPTY, []))
        return spellings

    def returned(self, body: Body, *, is_generic: bool) -> tuple[tuple[Node, ...], tuple[str, ...]]:
        """The values behind a return, and their types."""
        cursor = self.cursor
        if is_generic:
            operands: tuple[Any, ...] = self.operations.operands(body)
            spellings, results = self.operations.signature()
            if results:
                raise cursor.error("what returns yields nothing itself")
            return operands, spellings
        if not cursor.at("%"):
            return (), ()
        values = [self.operations.use(body)]
        while cursor.accept(","):
            values.append(self.operations.use(body))
        cursor.expect(":", "before the returned values' types")
        kinds = [read_type(cursor, self.values.types)]
        while cursor.accept(","):
            kinds.append(read_type(cursor, self.values.types))
        return tuple(values), tuple(kinds)


def _function_types(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    cursor = Cursor(Source(text))
    operands = read_types(cursor, {})
    cursor.expect("->")
    return operands, read_types(cursor, {})


_DECLARED = re.compile(r"\(\s*(?![\s%)])")
_LABEL = re.compile(r"\^[\w$.\-]+")
_GENERIC_RETURN = re.compile(r'"((?:oneflow|func)\.return)"(?=[ \t]*\()')
