"""What the products of matrices, convolution and the gated linear unit compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.dialects.oneflow.elementwise_evaluation import UNARY
from hloom.dialects.oneflow.evaluation import Arrays, along, attribute, of
from hloom.dialects.oneflow.linear import CONVOLUTION, glu_operands
from hloom.dialects.oneflow.rows import SEGMENTS, optional_operands
from hloom.ir import Apply
from hloom.text import Unsupported


@of("matmul", "batch_matmul", "broadcast_matmul")
def _matmul(node: Apply, operands: Arrays) -> Any:
    a, b = operands[:2]
    left = np.swapaxes(a, -1, -2) if attribute(node, "transpose_a") else a
    right = np.swapaxes(b, -1, -2) if attribute(node, "transpose_b") else b
    product = np.matmul(left, right) * np.asarray(attribute(node, "alpha"), a.dtype)
    return product + operands[2] if len(operands) == 3 else product


@of("fused_matmul_bias")
def _matmul_bias(node: Apply, operands: Arrays) -> Any:
    product = operands[0] @ operands[1].T * np.asarray(attribute(node, "alpha"), operands[0].dtype)
    return sum(operands[2:], product)


@of("conv2d")
def _conv2d(node: Apply, operands: Arrays) -> Any:
    """Patch by patch: the sum over the window of images times kernels, group by group."""
    places = optional_operands(CONVOLUTION, len(operands), node.attribute(SEGMENTS))
    is_last = attribute(node, "data_format") == "channels_last"
    image, kernel = (np.moveaxis(operands[index], -1, 1) if is_last else operands[index] for index in (0, 1))
    padding = attribute(node, "padding_before")
    padded = np.pad(image, [(0, 0), (0, 0), *[(operand, operand) for operand in padding]])
    strides, dilations = attribute(node, "strides"), attribute(node, "dilation_rate")
    groups = attribute(node, "groups")
    parts = zip(np.split(padded, groups, axis=1), np.split(kernel, groups, axis=0), strict=True)
    result = np.concatenate([_windows(part, operand, strides, dilations) for part, operand in parts], axis=1)
    if "bias" in places:
        result = result + along(result, operands[places["bias"]], 1)
    result = np.moveaxis(result, 1, -1) if is_last else result
    return result + operands[places["_add_to_output"]] if "_add_to_output" in places else result


def _windows(image: np.ndarray, kernel: np.ndarray, strides: Sequence[int], dilations: Sequence[int]) -> np.ndarray:
    sizes = [(size - 1) * dilation + 1 for size, dilation in zip(kernel.shape[2:], dilations, strict=True)]
    patches = np.lib.stride_tricks.sliding_window_view(image, sizes, axis=(2, 3))
    chosen = patches[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    return np.einsum("nchwij,ocij->nohw", chosen, kernel)


@of("fused_glu")
def _glu(node: Apply, operands: Arrays) -> Any:
    places = glu_operands(len(operands), node.attribute(SEGMENTS))
    given = {name: operands[index] for name, index in places.items()}
    activation = activation_of(attribute(node, "activation"), UNARY)
    products = given["x"] @ given["w"].T + given.get("b", 0)
    if "v" not in given:
        hidden, gate = np.split(products, 2, axis=-1)
        return hidden * activation(gate), products
    gates = given["x"] @ given["v"].T + given.get("c", 0)
    return products * activation(gates), products, gates


def activation_of(name: str, table: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The function that an activation's name stands for."""
    result = table.get({"none": "identity"}.get(name, name))
    if result is None:
        raise Unsupported(f"the activation '{name}' is not known")
    return result
