"""What softmax and the batch normalisations compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.dialects.oneflow.evaluation import Arrays, along, attribute, of
from hloom.dialects.oneflow.normalisation import WORD, places_of
from hloom.dialects.oneflow.rows import SEGMENTS, axis_in
from hloom.ir import Apply, TensorType, TupleType


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last dimension."""
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


@of("softmax")
def _softmax(node: Apply, operands: Arrays) -> Any:
    return softmax(operands[0])


@of("normalization", "normalization_infer", "normalization_add_relu")
def _normalization(node: Apply, operands: Arrays) -> Any:
    """In training by the batch's own mean and variance; otherwise by the moving ones."""
    places = places_of(node.opcode, len(operands), node.attribute(SEGMENTS))
    given = {name: operands[dim] for name, dim in places.items()}
    x = given["x"]
    type_ = node.inputs[0].type
    assert isinstance(type_, TensorType), "inferred before"
    axis = axis_in(node.attribute("axis"), type_)
    if attribute(node, "training") and node.opcode != "oneflow.normalization_infer":
        others = tuple(dim for dim in range(x.ndim) if dim != axis)
        mean, variance = x.mean(axis=others), x.var(axis=others)
    else:
        mean, variance = given["moving_mean"], given["moving_variance"]
    inverse = 1 / np.sqrt(variance + np.asarray(attribute(node, "epsilon"), variance.dtype))
    normal = (x - along(x, mean, axis)) * along(x, inverse, axis)
    y = normal * along(x, given["gamma"], axis) + along(x, given["beta"], axis)
    y = y + given.get("_add_to_output", 0) + given.get("addend", 0)
    if node.opcode == "oneflow.normalization_add_relu":
        return np.maximum(y, 0), packed(y > 0), mean, inverse
    return (y, mean, inverse) if isinstance(node.type, TupleType) else y


def packed(signs: np.ndarray) -> np.ndarray:
    """Bools as the bits of 32-bit numbers, the first ones lowest."""
    bits = signs.reshape(-1)
    padded = np.pad(bits, (0, -bits.size % WORD)).reshape(-1, WORD)
    return (padded.astype(np.uint32) << np.arange(WORD, dtype=np.uint32)).sum(axis=1, dtype=np.uint32).view(np.int32)
