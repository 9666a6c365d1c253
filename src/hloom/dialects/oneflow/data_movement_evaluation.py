"""What the ops that move elements compute."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.dialects.oneflow.evaluation import Arrays, attribute, of
from hloom.ir import Apply


@of("reshape")
def _reshape(node: Apply, operands: Arrays) -> Any:
    return operands[0].reshape(attribute(node, "shape"))


@of("transpose")
def _transpose(node: Apply, operands: Arrays) -> Any:
    return np.transpose(operands[0], attribute(node, "perm"))


@of("narrow")
def _narrow(node: Apply, operands: Arrays) -> Any:
    start = attribute(node, "start")
    places = range(start, start + attribute(node, "length"))
    return np.take(operands[0], places, axis=attribute(node, "dim"))


@of("pad")
def _pad(node: Apply, operands: Arrays) -> Any:
    x = operands[0]
    widths = list(zip(attribute(node, "padding_before"), attribute(node, "padding_after"), strict=True))
    is_integral = np.issubdtype(x.dtype, np.integer) or x.dtype == np.bool_
    fill = attribute(node, "integral_constant_value" if is_integral else "floating_constant_value")
    return np.pad(x, widths, constant_values=np.asarray(fill, x.dtype))


@of("tril")
def _tril(node: Apply, operands: Arrays) -> Any:
    x = operands[0]
    kept = np.tri(x.shape[-2], x.shape[-1], attribute(node, "diagonal"), dtype=bool)
    is_float = attribute(node, "is_floating_fill_value")
    fill = attribute(node, "floating_fill_value" if is_float else "integer_fill_value")
    return np.where(kept, x, np.asarray(fill, x.dtype))


@of("fused_scale_tril")
def _scale_tril(node: Apply, operands: Arrays) -> Any:
    is_float = attribute(node, "is_floating_scale_value")
    scale = attribute(node, "floating_scale_value" if is_float else "integer_scale_value")
    return _tril(node, (operands[0] * np.asarray(scale, operands[0].dtype),))
