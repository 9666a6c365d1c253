"""The precision in which a device multiplies matrices, which determines the rate of a dot or convolution."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hloom.analysis.devices import Device
from hloom.ir import DType, Node, TensorType, TupleType, Type, dtype


class MatrixPrecision(NamedTuple):
    """The element type of a product's operands, and whether the device may multiply f32 with fewer bits, its default.
    """

    dtype: DType
    is_fast: bool

    def rate(self, device: Device) -> float:
        """The FLOP/s of such a product on a device."""
        return device.matrix_rate(self.dtype, self.is_fast)


def written_type(node: Node) -> Type | None:
    """A node's type as written in the text."""
    return node.type


def matrix_precision(node: Node, type_of: Callable[[Node], Type | None] = written_type) -> MatrixPrecision:
    """The precision of a dot or convolution; `type_of` gives types that the text omits."""
    return MatrixPrecision(widest_dtype(node, type_of), _is_fast(node))


def widest_dtype(node: Node, type_of: Callable[[Node], Type | None] = written_type) -> DType:
    """The widest element type of an instruction's operands, or of the result if it has none; f32 if none is known."""
    types = [type_of(operand) for operand in node.operands] or [type_of(node)]
    return max(_dtypes(types), key=lambda element_type: element_type.bits, default=dtype("f32"))


def _dtypes(types: Iterable[Type | None]) -> Iterable[DType]:
    for value_type in types:
        leaves = value_type.leaves() if isinstance(value_type, TupleType) else (value_type,)
        yield from (leaf.dtype for leaf in leaves if isinstance(leaf, TensorType))


def _is_fast(node: Node) -> bool:
    return not any(precision in ("high", "highest") for precision in node.attributes.get("operand_precision") or ())
