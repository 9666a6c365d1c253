"""Reading `.mindir` files: a ModelProto's graphs, primitives and weights as a functional module.

The file does not say which graph encloses which: a graph that uses another's nodes stands in it. Weights are
parameters of the entry graph, behind its inputs; their values are in the module's attachments.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from hloom.dialects.mindir.annotations import INSTANCE_NAME, PRIMITIVE, annotated
from hloom.dialects.mindir.data_types import DATA_TYPES, PREFIXES
from hloom.dialects.mindir.free_variables import References
from hloom.dialects.mindir.rows import (
    PRIMITIVE_ATTRIBUTES,
    PRIMITIVE_FUNCTION,
    RETURN,
    VALUE,
    VALUE_ROW,
    row_of,
)
from hloom.dialects.mindir.values import MONADS, NONE, Number, Sequence, Text, Value, Word, number_text, type_of_value
from hloom.formats.protobuf import Schema
from hloom.ir import (
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    Apply,
    Constant,
    FunctionType,
    Graph,
    Literal,
    Metadata,
    Module,
    Node,
    TensorType,
    TupleType,
    Type,
)
from hloom.text import HloomError

MINDIR = Schema("mindir")
"""ModelProto and what it holds, in our own package and descriptor pool."""
WEIGHTS = "mindir.weights"
"""In a module's attachments: the literals of the weights, by the names of their parameters."""

_NAMES = (
    *("Float32", "UInt8", "Int8", "UInt16", "Int16", "Int32", "Int64", "String", "Bool", "Float16", "Float64"),
    *("UInt32", "UInt64", "Complex64", "Complex128", "BFloat16", "Float64"),
)
_TENSOR_TYPES = dict(enumerate(_NAMES, start=1))
"""Element types by their numbers in TensorProto."""
_SCALARS = {
    "FLOAT": ("Float32", "f"),
    "DOUBLE": ("Float64", "d"),
    "BOOL": ("Bool", "i"),
    "FLOAT16": ("Float16", "f"),
    "BFLOAT16": ("BFloat16", "f"),
    **{f"{sign}INT{bits}": (f"{sign}Int{bits}", "i") for sign in ("", "U") for bits in (8, 16, 32, 64)},
}
"""By attribute type: the element type of a number and the field that holds it."""
_SEVERAL = {"f": "floats", "d": "doubles", "i": "ints"}
"""By field of a number: the field that holds it where it is an element of a tuple."""
_FUNCTIONS = ("PRIMITIVECLOSURE", "FUNCGRAPHCLOSURE", "PARTIALCLOSURE", "UNIONFUNCCLOSURE")
_REFERENCE = "REF::"
_TYPE_NAMES: dict[int, str] = {number: name for name, number in MINDIR["AttributeProto"].AttributeType.items()}


def read_model(data: bytes, name: str = "<bytes>") -> Module:
    """The module of a serialised ModelProto; raises HloomError for bytes that are none."""
    try:
        message = MINDIR["ModelProto"].FromString(data)
    except DecodeError as error:
        raise HloomError(f"{name} is not a MindIR model: {error}") from None
    if not message.graph.name:
        raise HloomError(f"{name} is not a MindIR model: it has no graph")
    return _Reader(message, name).read()


class _Reader:
    """A model on its way into a module."""

    def __init__(self, message: Any, name: str) -> None:
        self.message = message
        self.name = name
        self.module = Module(message.graph.name)
        self.module.source_name = name
        self.primitives = {primitive.name: primitive for primitive in message.primitives}
        self.graphs: dict[str, Graph] = {}
        self.nodes: dict[str, Node] = {}
        self.constants: dict[tuple[Graph, str], Node] = {}
        self.weights: dict[str, Literal] = {}

    def read(self) -> Module:
        messages = [self.message.graph, *self.message.functions]
        for message in messages:
            if message.name in self.graphs:
                raise self.error(f"graph {message.name} is defined twice")
            self.graphs[message.name] = self.module.add_graph(message.name)
        self.module.entry = self.graphs[self.message.graph.name]
        for message in messages:
            self.read_parameters(message)
        for message in self.in_order(messages):
            self.read_nodes(message)
        self.find_parents()
        self.module.attachments[WEIGHTS] = self.weights
        return self.module

    def in_order(self, messages: list[Any]) -> list[Any]:
        """The graphs, those whose nodes others use before these."""
        owners = {output: message.name for message in messages for node in message.node for output in node.output}
        by_name = {message.name: message for message in messages}
        order: dict[str, None] = {}
        opened: set[str] = set()
        stack = [(message.name, False) for message in reversed(messages)]
        while stack:
            name, is_done = stack.pop()
            if is_done or name in opened:
                if is_done:
                    order[name] = None
                continue
            opened.add(name)
            stack.append((name, True))
            used = [owners.get(text) for node in by_name[name].node for text in (*node.input, _referred(node))]
            stack.extend((owner, False) for owner in used if owner is not None and owner not in opened)
        return [by_name[name] for name in order]

    def read_parameters(self, message: Any) -> None:
        graph = self.graphs[message.name]
        for info in message.input:
            type_ = self.tensor_type(info.tensor[0]) if info.tensor else self.type_of(info.attr_info)
            self.nodes[info.name] = graph.add_parameter(type_, _short(info.name, message.name))
        for tensor in message.parameter:
            parameter = graph.add_parameter(self.tensor_type(tensor), _short(tensor.name, message.name))
            self.nodes[tensor.name] = parameter
            self.weights[parameter.name] = self.literal(tensor)

    def read_nodes(self, message: Any) -> None:
        graph = self.graphs[message.name]
        for node in message.node:
            if len(node.output) != 1:
                raise self.error(f"node {node.name} has {len(node.output)} outputs, not one")
            if node.op_type == "Constant":
                self.nodes[node.output[0]] = self.read_constant(graph, node)
            else:
                self.nodes[node.output[0]] = self.read_node(graph, node)
        if len(message.output) != 1:
            raise self.error(f"graph {message.name} has {len(message.output)} results, not one")
        result = self.operand(graph, message.output[0].name)
        graph.set_output(graph.add_apply(RETURN, [result], result.type, name="Return"))

    def read_constant(self, graph: Graph, node: Any) -> Node:
        value = self.value_of(node.attribute[0]) if node.attribute else NONE
        stem = _short(node.output[0], graph.name)
        if isinstance(value, Literal):
            return graph.add_constant(value, value.type, stem)
        return graph.add_apply(VALUE_ROW, (), type_of_value(value), {VALUE: value}, stem)

    def read_node(self, graph: Graph, node: Any) -> Node:
        operands = [self.operand(graph, name) for name in node.input]
        shape = next((attribute for attribute in node.attribute if attribute.name == "shape"), None)
        type_ = self.type_of(shape) if shape is not None else None
        name = _short(node.output[0], graph.name)
        referred = _referred(node)
        metadata = Metadata(op_name=node.domain).text() if node.domain else None
        primitive = self.primitives.get(referred)
        if primitive is None and (referred in self.nodes or referred in self.graphs):
            function = self.operand(graph, referred)
            return graph.add_apply(function, operands, type_, name=name, metadata=metadata)
        op_type = primitive.op_type if primitive is not None else node.op_type
        row = row_of(op_type)
        if row.is_known and not row.accepts(len(operands)):
            raise self.error(f"node {node.name}: {op_type} does not take {len(operands)} operands")
        pairs: dict[str, str] = {}
        if primitive is not None and primitive.prim_type == primitive.PRIMITIVE_FUNCTION:
            pairs[PRIMITIVE] = PRIMITIVE_FUNCTION + op_type
        if primitive is not None and primitive.instance_name:
            pairs[INSTANCE_NAME] = primitive.instance_name
        given = primitive.attribute if primitive is not None else [a for a in node.attribute if a.name != "shape"]
        attributes = {PRIMITIVE_ATTRIBUTES: tuple((a.name, self.text_of(a)) for a in given)} if len(given) else {}
        return graph.add_apply(row, operands, type_, annotated(pairs, attributes), name, metadata=metadata)

    def operand(self, graph: Graph, name: str) -> Node:
        """The node of a name; a constant for a graph. A constant of another graph is one of this graph, too."""
        node, key = self.nodes.get(name), (graph, name)
        if node is not None and (node.graph is graph or not _is_constant(node)):
            return node
        called = self.graphs.get(name)
        if node is None and called is None:
            raise self.error(f"graph {graph.name} uses '{name}', which nothing before it defines")
        if key not in self.constants:
            self.constants[key] = self.constant_in(graph, node, called, name)
        return self.constants[key]

    def constant_in(self, graph: Graph, node: Node | None, called: Graph | None, name: str) -> Node:
        """A constant of another graph, or a graph as a value, as a node of this graph."""
        if node is not None:
            mapping: dict[Any, Any] = {}
            graph.copy_nodes([node], mapping)
            return mapping[node]
        assert called is not None, "it is a node or a graph"
        type_ = FunctionType([parameter.type for parameter in called.parameters], None)
        return graph.add_constant(called, type_, name)

    def find_parents(self) -> None:
        """Let each graph that uses others' nodes stand in the innermost of them."""
        free = References(self.module).free
        owners = {graph: {node.graph for node in nodes} for graph, nodes in free.items()}
        for graph, enclosing in owners.items():
            if enclosing:
                graph.parent = max(enclosing, key=lambda owner: len(owners[owner]))
                self.module.has_closures = True

    # Types and values

    def type_of(self, message: Any) -> Type | None:
        """The type that an attribute describes; None where it says nothing."""
        name = _type_name(message.type)
        if name in ("TENSORS", "TENSOR"):
            tensors = message.tensors or [message.t]
            return self.tensor_type(tensors[0])
        if name in _SCALARS:
            return TensorType(DATA_TYPES[_SCALARS[name][0]])
        if name in ("TUPLE", "LIST"):
            return TupleType([self.type_of(value) or OPAQUE for value in message.values])
        if name in ("UMONAD", "IOMONAD"):
            return TOKEN
        return FunctionType((), None) if name in _FUNCTIONS else OPAQUE if name != "UNDEFINED" else None

    def tensor_type(self, message: Any) -> Type:
        element = DATA_TYPES.get(_TENSOR_TYPES.get(message.data_type, ""))
        if element is None or any(size < -1 for size in message.dims):
            return OPAQUE
        dims = [UNBOUNDED if size < 0 else size for size in message.dims]
        return TensorType(element, dims, dynamic=[size == UNBOUNDED for size in dims])

    def literal(self, message: Any) -> Literal:
        """A tensor's data; elided where they are elsewhere, or compressed."""
        type_ = self.tensor_type(message)
        if not isinstance(type_, TensorType) or not type_.is_static:
            raise self.error(f"tensor {message.name} is of type {type_}, whose data cannot be read")
        if message.HasField("external_data") or message.compression_type:
            self.module.notes.append(f"the data of {message.name} are not in this file, or compressed")
            return Literal.elided(type_)
        size = math.prod(type_.dims) * type_.dtype.numpy.itemsize
        if len(message.raw_data) != size:
            raise self.error(f"tensor {message.name} of type {type_} has {len(message.raw_data)} bytes, not {size}")
        array = np.frombuffer(message.raw_data, type_.dtype.numpy.newbyteorder("<")).astype(type_.dtype.numpy)
        return Literal.array(type_, array.reshape(type_.dims))

    def value_of(self, message: Any) -> Value:
        """The constant that an attribute holds."""
        name = _type_name(message.type)
        if name in ("TENSORS", "TENSOR"):
            return self.literal(message.tensors[0] if message.tensors else message.t)
        if name in _SCALARS:
            element, field = _SCALARS[name]
            data_type = DATA_TYPES[element]
            several = getattr(message, _SEVERAL[field])
            number = several[0] if several else getattr(message, field)
            text = number_text(data_type.numpy.type(number)) if data_type.is_float else str(number)
            return Number(PREFIXES[data_type], text)
        if name in ("TUPLE", "LIST"):
            return Sequence("(" if name == "TUPLE" else "[", tuple(self.value_of(value) for value in message.values))
        if name == "STRING":
            return Text((message.strings[0] if message.strings else message.s).decode("utf-8", "replace"))
        words = {"UMONAD": MONADS[0], "IOMONAD": MONADS[1], "NONE": "None"}
        return Word(words.get(name, name))

    def text_of(self, message: Any) -> str:
        """An attribute as `.ir` text writes it."""
        value = self.value_of(message)
        return str(value) if not isinstance(value, Literal) else "Tensor"

    def error(self, message: str) -> HloomError:
        return HloomError(f"{self.name}: {message}")


def _is_constant(node: Node) -> bool:
    return isinstance(node, Constant) or (isinstance(node, Apply) and node.function is VALUE_ROW)


def _type_name(number: int) -> str:
    """The name of an attribute's type."""
    return _TYPE_NAMES.get(number, f"type {number}")


def _referred(node: Any) -> str:
    """The name of the primitive, graph or node that a node applies."""
    return node.op_type.removeprefix(_REFERENCE) if node.op_type.startswith(_REFERENCE) else ""


def _short(name: str, graph: str) -> str:
    """A name without its graph's in front and the number behind."""
    plain = name.removeprefix(f"{graph}:")
    stem, colon, number = plain.rpartition(":")
    return stem if colon and number.isdecimal() else plain
