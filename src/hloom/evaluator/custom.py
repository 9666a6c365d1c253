"""Ops that only a backend or the host can execute, and the custom calls whose values are known without them."""

from __future__ import annotations

import numpy as np

from hloom.evaluator.table import Runner, Value, Values, array_type, evaluator, none
from hloom.ir import Apply
from hloom.text import Unsupported

ASSUMPTION = "AssumeGatherIndicesInBound"
"""A custom call of the TPU compiler: its operand, of which it notes that no index is out of bounds."""
ALLOCATION = "AllocateBuffer"
"""A custom call of the TPU compiler: memory that is written before it is read, such as what a loop fills."""


UNKNOWN = "only the backend knows what the target computes"


@evaluator("custom-call", because=UNKNOWN)
def _custom_call(node: Apply, operands: Values, run: Runner) -> Value:
    target = node.attribute("custom_call_target")
    if target == ASSUMPTION and len(operands) == 1:
        return operands[0]
    if target == ALLOCATION:
        buffer = array_type(node)
        return np.zeros(buffer.dims, buffer.dtype.numpy)  # any values will do
    raise Unsupported(UNKNOWN)


none("infeed", because="nothing feeds it")
none("outfeed", because="nothing takes it")
