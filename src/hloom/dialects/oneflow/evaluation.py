"""OneFlow's ops computed with numpy: each as the HLO that it is lowered to.

Random masks are drawn by no one here: only the rates 0 and 1 determine them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.dialects.oneflow.lowering import lower_op
from hloom.dialects.oneflow.ops import OPS
from hloom.dialects.oneflow.rows import plain
from hloom.evaluator import Runner, Value, evaluator, none
from hloom.ir import Apply
from hloom.text import Unsupported

VARIABLE = "oneflow.variable"


@evaluator(*(name for name in OPS if name != VARIABLE))
def _evaluate(node: Apply, operands: tuple[Value, ...], run: Runner) -> Value:
    graph, given = lower_op(node), dict(zip(node.operands, operands, strict=True))
    masks: list[Any] = [parameter.type for parameter in graph.parameters[len(given) :]]
    if masks and plain(node.attribute("rate")) not in (0, 1):
        raise Unsupported("its mask is random: lower the program and give it a mask")
    return run.call(graph, [*given.values(), *(np.ones(mask.dims, mask.dtype.numpy) for mask in masks)])


none(VARIABLE, because="its data are not in the text")
