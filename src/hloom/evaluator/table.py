"""The table of evaluators: what each opcode computes, on numpy arrays.

A family file gives an opcode its row with one of three functions:

    @pointwise("add")                       # element by element, on arrays of any shapes that broadcast together
    def _add(node: Apply, operands: Values, run: Runner) -> Value: ...

    @evaluator("transpose")                 # everything else
    def _transpose(node: Apply, operands: Values, run: Runner) -> Value: ...

    none("infeed", because="nothing feeds it")

Both decorators take several opcodes and return the function, so that a loop may register functions of a table. A
function gets the node (attributes by `node.attribute("dimensions")`, defaults included), the
operands' values and the runner, and returns the value:

- an array is a numpy array of `dtype.numpy` (ml_dtypes for bf16, f8..., s4), in logical order; layouts mean nothing.
  Never write into an operand. A numpy scalar may be returned for a 0-d array. A dimension that is dynamic in the
  type has its present size in the array.
- a tuple is a tuple of values; a token is TOKEN_VALUE.
- control flow is a generator: `value = yield GraphCall(graph, arguments)`, and the value is what it returns.

Numpy's warnings are off while evaluators run (`np.errstate(all="ignore")`). The runner checks that the dtype and the
dims of the value are the node's. A pointwise function must not look at the node's dims, only at dtypes
(`array_type(node).dtype`), since reducers, comparators and maps of scalars are run on whole arrays; it must not write
into operands, and not raise for values that XLA computes with. Raise Unsupported for what cannot be computed, without
naming the node: the runner does.

The file must stand in `families.py`. An opcode has exactly one row; a second is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias, cast

import numpy as np

from hloom.ir import Apply, Graph, Node, TensorType, Type, infer_type
from hloom.text import Unsupported


class Token(Enum):
    """The one value of the type token[]."""

    TOKEN = "token"


TOKEN_VALUE = Token.TOKEN
Value: TypeAlias = "np.ndarray | np.generic | Token | tuple[Value, ...]"
Values: TypeAlias = tuple[Value, ...]


class Runner(Protocol):
    """What an evaluator may ask of what runs it."""

    def call(self, graph: Graph, arguments: Sequence[Value]) -> Value:
        """The value of a graph of these arguments."""
        ...

    def map(self, graph: Graph, arrays: Sequence[np.ndarray]) -> Value:
        """A graph of scalars, run on every element of arrays whose shapes broadcast together.

        The result is an array of their common shape, or a tuple of such.
        """
        ...


@dataclass(frozen=True, slots=True)
class GraphCall:
    """What an evaluator that is a generator yields to be sent the value of a graph of these arguments."""

    graph: Graph
    arguments: Sequence[Value]


Control: TypeAlias = Generator[GraphCall, Value, Value]
"""An evaluator of control flow: the runner makes its calls, so that calls nested to any depth need no deep stack."""
Function: TypeAlias = Callable[[Apply, Values, Runner], "Value | Control"]


@dataclass(frozen=True, slots=True)
class Evaluator:
    """One row: the function and whether it is elementwise, or why there is none or it refuses some inputs."""

    function: Function | None
    is_pointwise: bool = False
    because: str = ""


TABLE: dict[str, Evaluator] = {}
"""Every row, by opcode."""


def evaluator(*opcodes: str, because: str = "") -> Callable[[Function], Function]:
    """Let a function compute these opcodes, all or, for a reason, only some of their instructions."""

    def register(function: Function) -> Function:
        _enter(opcodes, Evaluator(function, because=because))
        return function

    return register


def pointwise(*opcodes: str) -> Callable[[Function], Function]:
    """Let a function compute these opcodes, element by element on arrays of any shapes that broadcast together."""

    def register(function: Function) -> Function:
        _enter(opcodes, Evaluator(function, is_pointwise=True))
        return function

    return register


def none(*opcodes: str, because: str) -> None:
    """Say why these opcodes cannot be evaluated."""
    _enter(opcodes, Evaluator(None, because=because))


def _enter(opcodes: Sequence[str], row: Evaluator) -> None:
    for opcode in opcodes:
        if opcode in TABLE:
            raise ValueError(f"{opcode} has an evaluator already")
        TABLE[opcode] = row


def type_of(node: Node) -> Type:
    """The type of a node, inferred where the text left it out; raises Unsupported where it cannot be."""
    if node.type is not None:
        return node.type
    operand_types = [operand.type for operand in node.operands]
    if not isinstance(node, Apply) or None in operand_types or node.op.infer is None:
        raise Unsupported("its type is not written")
    return infer_type(node.op, cast("list[Type]", operand_types), node.attributes)


def array_type(node: Node) -> TensorType:
    """The type of a node that yields an array; raises Unsupported for others."""
    operand_type = type_of(node)
    if not isinstance(operand_type, TensorType):
        raise Unsupported(f"it should yield an array, not {operand_type}")
    return operand_type


def arrays_of(operands: Sequence[Value]) -> list[np.ndarray]:
    """The operands, which must be arrays; raises Unsupported for tuples and tokens."""
    arrays = [np.asarray(operand) for operand in operands if isinstance(operand, (np.ndarray, np.generic))]
    if len(arrays) != len(operands):
        raise Unsupported("its operands should be arrays, not tuples or tokens")
    return arrays
