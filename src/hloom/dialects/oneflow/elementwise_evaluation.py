"""What the ops that work element by element compute, and dropout.

Random masks are drawn by no one here: only the rates 0 and 1 determine them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hloom.dialects.oneflow.evaluation import Arrays, along, attribute, of
from hloom.dialects.oneflow.rows import data_type
from hloom.evaluate import none
from hloom.ir import Apply
from hloom.text import Unsupported

_erf = np.frompyfunc(math.erf, 1, 1)


def gelu(x: np.ndarray) -> np.ndarray:
    """The exact one, by the error function."""
    wide = x.astype(np.float64)
    return wide * 0.5 * (1 + np.asarray(_erf(wide / math.sqrt(2)), np.float64))


def fast_gelu(x: np.ndarray) -> np.ndarray:
    """The one by the hyperbolic tangent."""
    wide = x.astype(np.float64)
    return 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "gelu": gelu,
    "fast_gelu": fast_gelu,
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "identity": lambda x: x,
    "input": lambda x: x,
    "output": lambda x: x,
}
BINARY: dict[str, Callable[..., np.ndarray]] = {
    "broadcast_add": np.add,
    "broadcast_sub": np.subtract,
    "broadcast_mul": np.multiply,
    "broadcast_div": np.divide,
    "multiply": np.multiply,
    "scalar_mul_by_tensor": lambda x, scalar: x * scalar.reshape(()),
}
none("oneflow.variable", because="its data are not in the text")
for _name, _function in (UNARY | BINARY).items():
    of(_name)(lambda node, operands, function=_function: function(*operands))


@of("add_n", "add_n2")
def _add(node: Apply, operands: Arrays) -> Any:
    total = operands[0]
    for operand in operands[1:]:
        total = total + operand
    return total


def number(node: Apply) -> float:
    """The number that an op with a scalar takes."""
    return attribute(node, "float_operand" if attribute(node, "has_float_operand") else "int_operand")


@of("scalar_add")
def _scalar_add(node: Apply, operands: Arrays) -> Any:
    return operands[0] + np.asarray(number(node), operands[0].dtype)


@of("scalar_mul")
def _scalar_mul(node: Apply, operands: Arrays) -> Any:
    return operands[0] * np.asarray(number(node), operands[0].dtype)


@of("scalar_div")
def _scalar_div(node: Apply, operands: Arrays) -> Any:
    return operands[0] / np.asarray(number(node), operands[0].dtype)


@of("bias_add")
def _bias_add(node: Apply, operands: Arrays) -> Any:
    return operands[0] + along(operands[0], operands[1], attribute(node, "axis"))


@of("fused_bias_add_gelu")
def _bias_gelu(node: Apply, operands: Arrays) -> Any:
    return gelu(_bias_add(node, operands))


@of("fused_bias_add_mask_scale")
def _mask_scale(node: Apply, operands: Arrays) -> Any:
    biased = _bias_add(node, operands[:2])
    scaled = biased * operands[2].astype(biased.dtype) * np.asarray(attribute(node, "scale"), biased.dtype)
    return scaled + operands[3] if len(operands) == 4 else scaled


@of("cast")
def _cast(node: Apply, operands: Arrays) -> Any:
    return operands[0].astype(data_type(node.attribute("dtype")).numpy)


@of("fused_cast_scale")
def _cast_scale(node: Apply, operands: Arrays) -> Any:
    scale = operands[1].reshape(())
    return operands[0].astype(scale.dtype) * scale * np.asarray(attribute(node, "scale"), scale.dtype)


@of("dropout")
def _dropout(node: Apply, operands: Arrays) -> Any:
    kept = _certain(node)
    mask = np.full(operands[0].shape, kept)
    dropped = operands[0] * np.asarray(kept, operands[0].dtype)
    return dropped + operands[1] if len(operands) == 2 else dropped, mask


@of("random_mask_like")
def _mask_like(node: Apply, operands: Arrays) -> Any:
    return np.full(operands[0].shape, _certain(node))


def _certain(node: Apply) -> int:
    rate = attribute(node, "rate")
    if rate not in (0, 1):
        raise Unsupported("its mask is random: lower the program and give it a mask")
    return int(rate == 0)
