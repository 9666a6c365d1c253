"""Instructions put into a graph before another one, their types inferred."""

from __future__ import annotations

import numpy as np

from hloom.autodiff import Emitter
from hloom.ir import Apply, Graph, Layout, Node, TensorType, Type, default_layout
from hloom.ops import splat_number


def splat_value(node: Node) -> float | None:
    """The real number in every element of an array; None where there is none, or it is not known."""
    number = splat_number(node)
    return None if number is None or np.iscomplexobj(number) else float(number)


def packed(type_: TensorType) -> TensorType:
    """An array's type, its elements packed where they are narrower than a byte, as XLA holds them."""
    bits = type_.dtype.bits
    layout = type_.layout
    if bits >= 8:
        return type_
    order = layout.minor_to_major if layout is not None else default_layout(type_.rank).minor_to_major
    return type_.with_layout(Layout(order, element_bits=bits))


class InsertionPoint(Emitter):
    """Writes instructions in front of one, with that instruction's metadata; or at the end of a graph.

    Arrays of narrow elements are packed, other types have no layouts. Each constant is written where it is read.
    """

    shares_constants = False

    def __init__(self, graph: Graph, before: Node | None) -> None:
        super().__init__(graph, before)
        self.metadata = before.raw_metadata if isinstance(before, Apply) else None

    def typed(self, value_type: Type) -> Type:
        return packed(value_type) if isinstance(value_type, TensorType) else value_type
