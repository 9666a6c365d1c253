"""A weight as the matrices that products multiply by: [layers of a stack, what is summed up, the rest]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hloom.compress.quantization import WeightUse
from hloom.ir import TensorType


@dataclass(frozen=True, slots=True)
class MatrixDims:
    """The dimensions of a weight by what products do with them.

    A loop takes one element at a time of the dimensions of `stack`; `summed` are in the order in which a product has
    them, the input channels of a convolution last.
    """

    stack: tuple[int, ...]
    summed: tuple[int, ...]
    free: tuple[int, ...]

    @property
    def order(self) -> tuple[int, ...]:
        return (*self.stack, *self.summed, *self.free)

    def matrices(self, array: np.ndarray) -> np.ndarray:
        """An array of the weight's shape as [stack, summed, free]."""
        shape = [prod(array.shape[dim] for dim in dims) for dims in (self.stack, self.summed, self.free)]
        return array.transpose(self.order).reshape(shape)

    def array(self, matrices: np.ndarray, dims: Sequence[int]) -> np.ndarray:
        """The array of these dimensions of which `matrices` are made."""
        return matrices.reshape([dims[dim] for dim in self.order]).transpose(np.argsort(self.order))


def matrix_dims(type_: TensorType, uses: Sequence[WeightUse]) -> tuple[MatrixDims, str | None]:
    """How products read a weight, and why that says nothing of what is summed up, where it does not.

    Of several uses, dots and convolutions count before gathers.
    """
    products = [use for use in uses if use.node.opcode != "gather"] or list(uses)
    stack = frozenset.intersection(*(use.selected for use in products))
    first = products[0]
    summed = tuple(dim for dim in _summed(first) if dim not in stack)
    rest = tuple(dim for dim in range(type_.rank) if dim not in (*stack, *summed))
    dims = MatrixDims(tuple(sorted(stack)), summed, rest)
    if first.node.opcode == "gather":
        return dims, "it is a table: nothing sums over it"
    for use in products:
        if frozenset(_summed(use)) != frozenset(_summed(first)):
            return dims, f"{first.node.name} and {use.node.name} sum over different dimensions of it"
        if prod(piece.size for dim in _summed_operand_dims(use) for piece in use.dims[dim]) != prod(
            type_.dims[dim] for dim in summed
        ):
            return dims, f"{use.node.name} sums over a part of a dimension of it"
    return dims, None


def _summed(use: WeightUse) -> list[int]:
    """The weight's dimensions that a product sums over, in the product's order."""
    pieces = [piece for dim in _summed_operand_dims(use) for piece in use.dims[dim]]
    return list(dict.fromkeys(dim for piece in pieces for dim in sorted(piece.dims) if dim in use.contracting))


def _summed_operand_dims(use: WeightUse) -> list[int]:
    match use.node.opcode:
        case "dot":
            side = "rhs" if use.operand_index else "lhs"
            return list(use.node.attribute(f"{side}_contracting_dims") or ())
        case "convolution":
            labels = use.node.attributes["dim_labels"].rhs
            return [*(dim for dim, letter in enumerate(labels) if letter not in "io"), labels.index("i")]
    return [dim for dim, pieces in enumerate(use.dims) if any(piece.dims & use.contracting for piece in pieces)]
