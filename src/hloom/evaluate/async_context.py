"""What asynchronous starts yield besides operands and outputs."""

from __future__ import annotations

import numpy as np

from hloom.evaluate.inputs import assemble
from hloom.evaluate.table import Value
from hloom.ir import Apply, TensorType, TupleType


def context(node: Apply) -> tuple[Value, ...]:
    """The third element and those behind it of what a node yields: zeros, which nothing may look at."""
    if not isinstance(node.type, TupleType):
        return ()
    return tuple(
        assemble(
            type_,
            iter([np.zeros(leaf.dims, leaf.dtype.numpy) for leaf in type_.leaves() if isinstance(leaf, TensorType)]),
        )
        for type_ in node.type.elements[2:]
    )
