"""What the lowering of one primitive is given, and how the family files enter their functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.dialects.arrays import HloArray, HloBuilder
from hloom.dialects.mindir.locations import error_at
from hloom.dialects.mindir.lowered_values import Aggregate, LoweredValue, aggregate, described
from hloom.dialects.mindir.rows import PREFIX, PRIMITIVE_ATTRIBUTES
from hloom.dialects.mindir.values import Number, Text, Value, Word, read_value
from hloom.dialects.mindir.values import Sequence as ValueSequence
from hloom.ir import Apply, Constant, DType, Literal, Node, TensorType, TupleType, Type
from hloom.text import Unsupported


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive to be lowered: its node, the values of its operands, and what to build with."""

    node: Apply
    operands: tuple[LoweredValue, ...]
    build: HloBuilder

    @property
    def name(self) -> str:
        """The primitive's name."""
        return self.node.opcode.removeprefix(PREFIX)

    @property
    def x(self) -> HloArray:
        """The first operand as an array."""
        return self.array(0)

    def array(self, index: int, element: DType | None = None) -> HloArray:
        """An operand as an array; numbers become one. Raises Unsupported for all else."""
        if index >= len(self.operands):
            raise self.error(f"it has no operand {index}")
        return self.as_array(self.operands[index], element, f"operand {index}")

    def arrays(self, *indices: int, element: DType | None = None) -> Iterator[HloArray]:
        """Operands as arrays, all of one element type if that is given."""
        return (self.array(index, element) for index in indices)

    def as_array(self, value: LoweredValue, element: DType | None = None, what: str = "a value") -> HloArray:
        if isinstance(value, Number):
            return self.build.number(value.value, element or value.dtype)
        if not isinstance(value, Node) or not isinstance(value.type, TensorType):
            raise self.error(f"{what} must be a tensor, not {described(value)}")
        if not value.type.is_static:
            hint = "compile the net for arguments of fixed shapes"
            raise self.error(f"{what} is {value.type}, whose dimensions are not known", hint)
        array = HloArray(self.build, value)
        return array if element is None else array.convert(element)

    def elements(self, index: int) -> tuple[LoweredValue, ...]:
        """The elements of an operand that is a tuple."""
        value = self.operands[index]
        if not isinstance(value, Aggregate):
            raise self.error(f"operand {index} must be a tuple, not {described(value)}")
        return value.elements

    def static(self, index: int, default: Any = None) -> Any:
        """An operand that must be known here, as Python has it: None, a number, a text, a tuple of such."""
        if index >= len(self.operands):
            return default
        value = self.plain(self.operands[index])
        return default if value is None else value

    def plain(self, value: LoweredValue) -> Any:
        if isinstance(value, (Number, Text)):
            return _plain_value(value)
        if isinstance(value, Aggregate):
            return tuple(self.plain(part) for part in value.elements)
        if isinstance(value, Word):
            return None if value.text == "None" else value.text
        if isinstance(value, Constant) and isinstance(value.value, Literal):
            return _plain_array(value.value.numpy())
        raise self.error(f"a value here must be known when the program is compiled, and is {described(value)}")

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of the primitive as Python has it; the default where it has none."""
        for key, written in self.node.attributes.get(PRIMITIVE_ATTRIBUTES) or ():
            if key == name:
                return _plain_value(read_value(written))
        return default

    def dims(self, index: int) -> tuple[int, ...]:
        """An operand that is a number or a tuple of numbers, as a tuple of numbers."""
        value = self.static(index)
        numbers = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(number, int) for number in numbers):
            raise self.error(f"operand {index} must be whole numbers, not {value}")
        return numbers

    def axes(self, index: int, x: HloArray) -> tuple[int, ...]:
        """An operand that says dimensions of an array, counted from the front; all of them where it is None or ()."""
        rank = x.rank
        if self.static(index) in (None, ()):
            return tuple(range(rank))
        return tuple(sorted({self.axis_of(axis, rank) for axis in self.dims(index)}))

    def axis(self, index: int, x: HloArray, default: int | None = None) -> int:
        """An operand that says one dimension of an array, counted from the front."""
        value = self.static(index, default)
        number = value[0] if isinstance(value, tuple) and len(value) == 1 else value
        if not isinstance(number, int):
            raise self.error(f"operand {index} must be a dimension, not {value}")
        return self.axis_of(number, x.rank)

    def axis_of(self, axis: int, rank: int) -> int:
        if not -rank <= axis < max(rank, 1):
            raise self.error(f"there is no dimension {axis} among {rank}")
        return axis % rank if rank else 0

    @property
    def result(self) -> TensorType | None:
        """The type that the text says, where it says all of it."""
        type_ = self.node.type
        return type_ if isinstance(type_, TensorType) and type_.is_static else None

    def error(self, message: str, hint: str | None = None) -> Unsupported:
        """An error at the primitive; the caller raises it."""
        return error_at(self.node, f"{self.name}: {message}", hint)


Result = HloArray | Sequence[HloArray] | LoweredValue
Rule = Callable[[Primitive], Result]
"""Builds a primitive's HLO: its value, or the arrays of a tuple that is its value."""


def value_of(result: Result) -> LoweredValue:
    """What a rule gave back as one value."""
    if isinstance(result, HloArray):
        return result.node
    if isinstance(result, (tuple, list)):
        return aggregate([part.node for part in result])
    return result  # type: ignore[return-value]


def type_of_value(value: LoweredValue) -> Type | None:
    """The type of a value whose parts all have one."""
    if isinstance(value, Node):
        return value.type
    if isinstance(value, Number):
        return TensorType(value.dtype)
    if isinstance(value, Aggregate):
        parts = [type_of_value(part) for part in value.elements]
        known = [part for part in parts if part is not None]
        return TupleType(known) if len(known) == len(parts) else None
    return None


def _plain_array(array: np.ndarray) -> Any:
    return array.item() if not array.ndim else tuple(_plain_array(part) for part in array)


def _plain_value(value: Value) -> Any:
    if isinstance(value, Number):
        return value.value
    if isinstance(value, Text):
        return value.text
    if isinstance(value, ValueSequence):
        return tuple(_plain_value(part) for part in value.elements)
    if isinstance(value, Word):
        return _plain_word(value.text)
    return _plain_array(value.numpy())


def _plain_word(text: str) -> Any:
    if text.lstrip("-").isdecimal() and len(text) < 20:
        return int(text)
    return None if text == "None" else text
