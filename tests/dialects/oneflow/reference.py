"""What OneFlow's ops compute, with numpy, written apart from their lowering: what the lowering is compared with.

Random masks are drawn by no one here: only the rates 0 and 1 determine them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.dialects.oneflow.attention import joined_dims, read_attention, split_dims
from hloom.dialects.oneflow.linear import CONVOLUTION, glu_operands
from hloom.dialects.oneflow.normalisation import WORD, places_of
from hloom.dialects.oneflow.rows import SEGMENTS, array, axis_in, data_type, optional_operands, plain
from hloom.ir import Apply, Node, TensorType, TupleType
from hloom.text import Unsupported

Arrays = tuple[np.ndarray, ...]
Function = Callable[[Apply, Arrays], Any]
REFERENCE: dict[str, Function] = {}
"""By op: the arrays that it yields, of a node and its operands' arrays."""


def of(*names: str) -> Callable[[Function], Function]:
    """Let a function compute these ops."""

    def register(function: Function) -> Function:
        REFERENCE.update({f"oneflow.{name}": function for name in names})
        return function

    return register


def computed(node: Node, operands: Arrays) -> list[np.ndarray]:
    """What an op yields, in the element types of its results."""
    assert isinstance(node, Apply)
    results = REFERENCE[node.opcode](node, operands)
    types: Any = node.type.elements if isinstance(node.type, TupleType) else (node.type,)
    arrays = results if isinstance(node.type, TupleType) else (results,)
    return [np.asarray(array, array_type.dtype.numpy) for array, array_type in zip(arrays, types, strict=False)]


def attribute(node: Apply, name: str) -> Any:
    """A plain attribute, defaults included."""
    return plain(node.attribute(name))


def along(x: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    """One value for each index of an axis, shaped to meet an array."""
    return values.reshape([-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)])


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
    type_ = node.operands[0].type
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


@of("fused_multi_head_attention_inference")
def _attention(node: Apply, operands: Arrays) -> Any:
    kinds = [array(operand.type) for operand in node.operands if operand.type is not None]
    said = read_attention(kinds, node.attribute)
    widths = (said.head_size, said.head_size, said.value_size)
    query, key, value = (
        _heads(x, split_dims(array_type, layout, size))
        for x, array_type, layout, size in zip(operands[:3], kinds[:3], said.layouts[:3], widths, strict=True)
    )
    scores = query @ np.swapaxes(key, -1, -2) * np.asarray(said.scale, query.dtype)
    if said.bias is not None:
        scores = scores + operands[said.bias]
    rows, columns = scores.shape[-2:]
    if said.mask != "none":
        diagonal = said.diagonal_offset + (columns - rows if said.mask == "causal_from_bottom_right" else 0)
        scores = np.where(np.tri(rows, columns, diagonal, dtype=bool), scores, np.asarray(-np.inf, scores.dtype))
    yielded = softmax(scores) @ value
    sizes = dict(zip("BHMK", yielded.shape, strict=True))
    letters = said.layouts[3].replace("(", "").replace(")", "")
    return np.einsum(f"BHMK->{letters}", yielded).reshape(joined_dims(sizes, said.layouts[3]))


def _heads(x: np.ndarray, sizes: dict[str, int]) -> np.ndarray:
    """The array as batch, heads, sequence, head size."""
    return np.einsum(f"{''.join(sizes)}->BHMK", x.reshape(tuple(sizes.values())))
