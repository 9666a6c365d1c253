"""The nodes of a graph: parameters, constants and applications of functions.

Nodes are compared by identity and changed only through their graph's methods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from hloom.ir.attributes import EMPTY, Attributes, Referent
from hloom.ir.literal import Literal
from hloom.ir.metadata import Metadata, parse_metadata
from hloom.ir.schema import Op
from hloom.ir.traits import Trait
from hloom.ir.types import DType, TensorType, Type
from hloom.text import Display, Displayed, DisplayTable, HloomError

if TYPE_CHECKING:
    from hloom.ir.graph import Graph

PARAMETER = "parameter"
CONSTANT = "constant"
COMPUTED_CALL = "call-value"
_new = object.__new__


class Node(Referent, Displayed):
    """A value in a graph: its name, type (None where the text gave none), operands, attributes and raw metadata."""

    __slots__ = (
        "_next",
        "_order",
        "_previous",
        "_users",
        "attributes",
        "graph",
        "name",
        "operands",
        "raw_metadata",
        "type",
    )
    name: str
    type: Type | None
    opcode: str
    """The opcode of the op that makes this value, in HLO's spelling."""
    operands: tuple[Node, ...]
    attributes: Attributes
    raw_metadata: str | None
    """The text between the braces of `metadata={...}`, as read."""
    graph: Graph
    _users: dict[Node, int]
    _next: Node | None
    _previous: Node | None
    _order: int
    json_keys = "name computation=graph.name opcode type=type.__str__"

    @property
    def metadata(self) -> Metadata | None:
        """The parsed metadata; raises HloomError if the raw text is malformed."""
        return None if self.raw_metadata is None else parse_metadata(self.raw_metadata)

    @property
    def users(self) -> tuple[Node, ...]:
        """The nodes that have this one as an input or control predecessor, each once, in the order of first use."""
        module = self.graph.module
        if not module.is_indexed:
            module.index_users()
        return tuple(self._users)

    @property
    def use_count(self) -> int:
        """The number of uses; an input given twice counts twice, and being the output does not count."""
        module = self.graph.module
        if not module.is_indexed:
            module.index_users()
        return sum(self._users.values())

    @property
    def user_count(self) -> int:
        """The number of distinct users: `len(node.users)` without building the tuple."""
        module = self.graph.module
        if not module.is_indexed:
            module.index_users()
        return len(self._users)

    @property
    def is_used(self) -> bool:
        """Whether a node uses it or a graph yields it."""
        graph = self.graph
        if not graph.module.is_indexed:
            graph.module.index_users()
        return bool(self._users) or graph.output is self

    @property
    def is_output(self) -> bool:
        """Whether it is its graph's output."""
        return self.graph.output is self

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of an array; none for scalars, tuples and what has no known type."""
        value_type = self.type
        return value_type.dims if isinstance(value_type, TensorType) else ()

    @property
    def rank(self) -> int:
        """How many dimensions an array has; 0 for tuples and what has no known type."""
        return len(self.dims)

    @property
    def dtype(self) -> DType | None:
        """The type of an array's elements; None for tuples and what has no known type."""
        value_type = self.type
        return value_type.dtype if isinstance(value_type, TensorType) else None

    @property
    def array_type(self) -> TensorType:
        """The type of an array; raises HloomError for tuples and what has no known type."""
        value_type = self.type
        if not isinstance(value_type, TensorType):
            raise HloomError(f"{self!r} is not an array")
        return value_type

    @property
    def known_type(self) -> Type:
        """The type; raises HloomError where the text gave none."""
        if self.type is None:
            raise HloomError(f"the type of {self.name} is not known")
        return self.type

    @property
    def element_count(self) -> int:
        """How many elements an array has at most; 0 for tuples and what has no known type.

        Raises HloomError for unbounded dimensions.
        """
        value_type = self.type
        return value_type.element_count if isinstance(value_type, TensorType) else 0

    @property
    def literal(self) -> Literal | None:
        """The value of a constant that is a literal; None for all other nodes."""
        return None

    @property
    def splat(self) -> complex | None:
        """The number that every element of a constant is; None for other constants and nodes."""
        literal = self.literal
        return None if literal is None else literal.number

    @property
    def called_graphs(self) -> tuple[Graph, ...]:
        """The graphs its attributes hold or it is, in order, repeats included."""
        attributes = self.attributes
        return tuple([part for part in attributes.referents() if part.is_graph]) if attributes.refers else ()

    def has_trait(self, trait: Trait) -> bool:
        """Whether it applies an op whose row has this trait."""
        return False

    def operand_types(self) -> tuple[Type | None, ...]:
        """The types of the operands."""
        return tuple(node.type for node in self.operands)

    def __repr__(self) -> str:
        operands = ", ".join(str(getattr(node, "name", node)) for node in self.operands)
        return f"<{self.name} = {self.type or '?'} {self.opcode}({operands})>"

    def __str__(self) -> str:
        return repr(self)  # one line: messages name nodes

    def display(self) -> Display:
        attributes = [(name, str(value)) for name, value in self.attributes.items()]
        if self.raw_metadata is not None:
            attributes.append(("metadata", self.raw_metadata))
        tables = (
            node_table("operands", self.operands),
            node_table("users", self.users),
            DisplayTable("attributes", ("attribute", "value"), attributes, len(attributes)),
        )
        return Display(repr(self), tables)


def node_table(heading: str, nodes: Sequence[Node]) -> DisplayTable:
    """Nodes as a table for a notebook: name, opcode, type, operands."""
    rows = (
        (node.name, node.opcode, str(node.type or "?"), ", ".join([operand.name for operand in node.operands[:10]]))
        for node in nodes
    )
    return DisplayTable(heading, ("name", "opcode", "type", "operands"), rows, len(nodes))


def opcode_table(nodes: Iterable[Node]) -> DisplayTable:
    """The number of nodes per opcode, most frequent first, as a table for a notebook."""
    counts = Counter([node.opcode for node in nodes])
    return DisplayTable("opcodes", ("opcode", "nodes"), counts.most_common(), len(counts))


class Parameter(Node):
    """A parameter of a graph; `number` is its position among the arguments."""

    __slots__ = ("number",)
    opcode: str = PARAMETER
    number: int

    def __init__(
        self, name: str, type: Type | None, number: int, attributes: Attributes, metadata: str | None, graph: Graph
    ) -> None:
        self.name = name
        self.type = type
        self.number = number
        self.operands = ()
        self.attributes = attributes
        self.raw_metadata = metadata
        self.graph = graph


class Constant(Node):
    """A value known at compile time: a literal, or a graph or an op used as a value."""

    __slots__ = ("value",)
    opcode: str = CONSTANT
    value: Literal | Graph | Op

    def __init__(
        self,
        name: str,
        type: Type | None,
        value: Literal | Graph | Op,
        attributes: Attributes,
        metadata: str | None,
        graph: Graph,
    ) -> None:
        self.name = name
        self.type = type
        self.value = value
        self.operands = ()
        self.attributes = attributes
        self.raw_metadata = metadata
        self.graph = graph

    @property
    def literal(self) -> Literal | None:
        return self.value if isinstance(self.value, Literal) else None

    @property
    def called_graphs(self) -> tuple[Graph, ...]:
        is_graph = getattr(self.value, "is_graph", False)
        return (cast("Graph", self.value),) if is_graph else ()


class Apply(Node):
    """A function applied to operands: an op row, or (a computed call) a node that yields a function."""

    __slots__ = ("function", "opcode")
    function: Op | Node

    def __init__(
        self,
        name: str,
        type: Type | None,
        function: Op | Node,
        operands: tuple[Node, ...],
        attributes: Attributes,
        metadata: str | None,
        graph: Graph,
    ) -> None:
        self.name = name
        self.type = type
        self.function = function
        self.opcode = function.name if function.__class__ is Op else COMPUTED_CALL
        self.operands = operands
        self.attributes = attributes
        self.raw_metadata = metadata
        self.graph = graph

    @staticmethod
    def of_row(
        name: str,
        type: Type | None,
        row: Op,
        operands: tuple[Node, ...],
        attributes: Attributes,
        metadata: str | None,
        graph: Graph,
    ) -> Apply:
        """The same as `Apply(...)` for an op row, but faster: it avoids the interpreter's detour through
        `type.__call__`.
        """
        node = _new(Apply)
        node.name = name
        node.type = type
        node.function = row
        node.opcode = row.name
        node.operands = operands
        node.attributes = attributes
        node.raw_metadata = metadata
        node.graph = graph
        return node

    @property
    def has_row(self) -> bool:
        """Whether it applies an op row rather than a node's value."""
        return isinstance(self.function, Op)

    def has_trait(self, trait: Trait) -> bool:
        function = self.function
        return isinstance(function, Op) and trait in function.traits

    @property
    def op(self) -> Op:
        """The op row applied; raises TypeError for a computed call."""
        if not isinstance(self.function, Op):
            raise TypeError(f"{self.name} calls the value of {self.function.name}: it has no op row")
        return self.function

    def attribute(self, name: str) -> Any:
        """An attribute's value, or the default from the op's row; None if there is neither."""
        value = self.attributes.get(name)
        if value is not None or not isinstance(self.function, Op):
            return value
        row = self.function.attributes.get(name)
        return row.default if row else None


class Missing(Node):
    """A name that the text uses but never defines; `verify` lists it."""

    __slots__ = ()
    opcode: str = "missing"

    def __init__(self, name: str, type: Type | None, graph: Graph) -> None:
        self.name = name
        self.type = type
        self.operands = ()
        self.attributes = EMPTY
        self.raw_metadata = None
        self._users = {}
        self.graph = graph
