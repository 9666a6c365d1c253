"""Linear ops on tangents: recorded on a tape for transposition, or emitted at once in forward mode.

A rule linearizes an instruction once, in these ops; both modes follow. An absent tangent, None, is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloom.autodiff.emitter import Emitter, array_type
from hloom.ir import EMPTY, Attributes, DType, Graph, Node, TensorType, Type, without_layout
from hloom.ops import OPS


class Zero:
    """A zero tangent where a linear op needs an operand."""

    __slots__ = ("type",)

    def __init__(self, type: Type | None) -> None:
        assert type is not None, "a tangent has a type"
        self.type = without_layout(type)


class Linear:
    """A tangent on a tape: a linear op of others. `operands` are tangents, and primal values by which they are scaled.

    Its opcode is HLO's, or that of a transposition registered beside them.
    """

    __slots__ = ("attributes", "metadata", "opcode", "operands", "type")

    def __init__(
        self, opcode: str, operands: tuple[Any, ...], type: Type, attributes: Attributes, metadata: str | None
    ) -> None:
        self.opcode = opcode
        self.operands = operands
        self.type = type
        self.attributes = attributes
        self.metadata = metadata

    def __repr__(self) -> str:
        return f"<linear {self.opcode} {self.type}>"


INPUT, OUTPUT = "input", "output"


class LinearCall:
    """Several tangents that are linear in others, and how their cotangents are passed on together.

    `transpose(backward, cotangents)` is given a cotangent, or None, for each output, and gives to the inputs itself.
    """

    __slots__ = ("metadata", "operands", "outputs", "transpose")

    def __init__(
        self, types: Sequence[Type], operands: Sequence[Any], transpose: Callable[..., None], metadata: str | None
    ) -> None:
        self.operands = tuple(operand for operand in operands if operand is not None)
        self.transpose = transpose
        self.metadata = metadata
        self.outputs = [Linear(OUTPUT, (), without_layout(type), EMPTY, metadata) for type in types]


class LinearOps:
    """The linear ops that rules use. `primal` emits what they scale by.

    `shared` holds what one rule makes and another needs, by the primal value it belongs to; `source` is the
    instruction of the program that is linearized; `functions_in` says which instructions of a graph are recognised as
    roots of functions.
    """

    is_forward = False

    def __init__(self, primal: Emitter) -> None:
        self.primal = primal
        self.shared: dict[Node, Any] = {}
        self.source: Any = None
        self.functions_in: Callable[[Graph], dict[Node, Any]] = lambda graph: {}

    def op(self, opcode: str, *operands: Any, type: Type | None = None, **attributes: Any) -> Any:
        """A linear op: of one tangent and primal values, or of several tangents (or `Zero`s) together."""
        raise NotImplementedError

    def elementwise(self, opcode: str, type: Type, *operands: Any) -> Any:
        raise NotImplementedError

    def applied(self, opcode: str, operands: tuple[Any, ...], type: Type, attributes: Attributes) -> Any:
        """The op of an instruction on tangents in place of its operands: its type and attributes are known."""
        return self.op(opcode, *operands, type=type, **attributes)

    def add(self, a: Any, b: Any) -> Any:
        if a is None:
            return b
        return a if b is None else self.elementwise("add", a.type, a, b)

    def sub(self, a: Any, b: Any) -> Any:
        if b is None:
            return a
        return self.neg(b) if a is None else self.elementwise("subtract", a.type, a, b)

    def neg(self, a: Any) -> Any:
        return None if a is None else self.elementwise("negate", a.type, a)

    def mul(self, factor: Node, a: Any) -> Any:
        """A tangent times a primal value, element by element."""
        return None if a is None else self.elementwise("multiply", a.type, a, factor)

    def div(self, a: Any, divisor: Node) -> Any:
        return None if a is None else self.elementwise("divide", a.type, a, divisor)

    def scale(self, number: float, a: Any) -> Any:
        """A tangent times a number."""
        return None if a is None else self.mul(self.primal.constant(number, array_type(a)), a)

    def select(self, predicate: Node, on_true: Any, on_false: Any) -> Any:
        if on_true is None and on_false is None:
            return None
        value_type = (on_true if on_true is not None else on_false).type
        left = Zero(value_type) if on_true is None else on_true
        right = Zero(value_type) if on_false is None else on_false
        return self.elementwise("select", value_type, predicate, left, right)

    def convert(self, a: Any, element: DType) -> Any:
        if a is None or array_type(a).dtype is element:
            return a
        return self.op("convert", a, type=array_type(a).with_dtype(element))

    def reshape(self, a: Any, dims: Sequence[int]) -> Any:
        value_type = None if a is None else array_type(a)
        if value_type is None or value_type.dims == tuple(dims):
            return a
        return self.op("reshape", a, type=TensorType(value_type.dtype, dims))

    def transpose(self, a: Any, dimensions: Sequence[int]) -> Any:
        if a is None or tuple(dimensions) == tuple(range(len(dimensions))):
            return a
        return self.op("transpose", a, dimensions=tuple(dimensions))

    def broadcast(self, a: Any, dims: Sequence[int], dimensions: Sequence[int] = ()) -> Any:
        value_type = None if a is None else array_type(a)
        if value_type is None or (
            value_type.dims == tuple(dims) and tuple(dimensions) == tuple(range(value_type.rank))
        ):
            return a
        return self.op("broadcast", a, type=TensorType(value_type.dtype, dims), dimensions=tuple(dimensions))

    def sum(self, a: Any, dimensions: Sequence[int]) -> Any:
        """The sum over dimensions."""
        if a is None or not dimensions:
            return a
        element = array_type(a).dtype
        start = self.primal.constant(0, element)
        return self.op("reduce", a, start, dimensions=tuple(dimensions), to_apply=self.primal.reducer("add", element))

    def conjugate(self, a: Any) -> Any:
        """The complex conjugate: linear over the reals."""
        if a is None or not array_type(a).dtype.is_complex:
            return a
        return self.op("complex", self.op("real", a), self.neg(self.op("imag", a)))

    def zero(self, node: Any) -> Zero:
        return Zero(node.type)


class Tape(LinearOps):
    """Linear ops in the order in which they were recorded."""

    def __init__(self, primal: Emitter) -> None:
        super().__init__(primal)
        self.entries: list[Linear | LinearCall] = []

    def input(self, type: Type | None) -> Linear:
        """A tangent that is given."""
        assert type is not None, "a tangent has a type"
        return Linear(INPUT, (), without_layout(type), EMPTY, None)

    def call(self, types: Sequence[Type], operands: Sequence[Any], transpose: Callable[..., None]) -> list[Linear]:
        """Several tangents made together from some operands."""
        made = LinearCall(types, operands, transpose, self.primal.metadata)
        self.entries.append(made)
        return made.outputs

    def op(self, opcode: str, *operands: Any, type: Type | None = None, **attributes: Any) -> Linear:
        if opcode not in OPS:
            assert type is not None, f"the type of {opcode} must be given"
            return self._record(opcode, operands, type, Attributes(attributes))
        types = [operand.type for operand in operands]
        _, made, values = self.primal.resolved(opcode, types, type, attributes)
        return self._record(opcode, operands, made, values)

    def elementwise(self, opcode: str, type: Type, *operands: Any) -> Linear:
        made = Linear(opcode, operands, type, EMPTY, self.primal.metadata)
        self.entries.append(made)
        return made

    def applied(self, opcode: str, operands: tuple[Any, ...], type: Type, attributes: Attributes) -> Linear:
        return self._record(opcode, operands, type, attributes)

    def _record(self, opcode: str, operands: tuple[Any, ...], type: Type, attributes: Attributes) -> Linear:
        made = Linear(opcode, operands, type, attributes, self.primal.metadata)
        self.entries.append(made)
        return made


FORWARD_FORMS: dict[str, Callable[..., Node]] = {}
"""How linear ops that HLO has no opcode for are emitted in forward mode."""


class Forward(LinearOps):
    """Linear ops emitted at once beside what they are scaled by: tangents are nodes."""

    is_forward = True

    def op(self, opcode: str, *operands: Any, type: Type | None = None, **attributes: Any) -> Node:
        emitter = self.primal
        used = [emitter.zeros(operand.type) if isinstance(operand, Zero) else operand for operand in operands]
        if opcode in FORWARD_FORMS:
            return FORWARD_FORMS[opcode](emitter, *used, type=type, **attributes)
        return emitter.op(opcode, *used, type=type, **attributes)

    def elementwise(self, opcode: str, type: Type, *operands: Any) -> Node:
        emitter = self.primal
        used = [emitter.zeros(operand.type) if isinstance(operand, Zero) else operand for operand in operands]
        return emitter.graph.add_apply(OPS[opcode], used, emitter.typed(type), EMPTY, metadata=emitter.metadata)
