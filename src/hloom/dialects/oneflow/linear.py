"""Products of matrices, convolution, and the gated linear unit."""

from __future__ import annotations

from typing import Any

from hloom.dialects.oneflow.rows import array, optional_operands, plain, row, table
from hloom.ir import TensorType, TupleType, Type, TypeProblem

MATMUL = {"transpose_a": False, "transpose_b": False, "alpha": 1.0}
CONVOLUTION = "in weight bias _add_to_output"
"""The operands of conv2d; the last two may be missing."""
GLU = "x w b v c"
"""The operands of fused_glu; the last three may be missing."""


def _product(a: TensorType, b: TensorType, transpose_a: Any, transpose_b: Any) -> tuple[int, int]:
    """The two dimensions of a product; raises TypeProblem."""
    if a.rank < 2 or b.rank < 2 or a.dtype is not b.dtype:
        raise TypeProblem(f"{a} and {b} are not matrices of one element type")
    m, k = a.dims[-2:][::-1] if plain(transpose_a) else a.dims[-2:]
    other, n = b.dims[-2:][::-1] if plain(transpose_b) else b.dims[-2:]
    if k != other:
        raise TypeProblem(f"the contracted dimensions of {a} and {b} are {k} and {other}")
    return m, n


def _batched(a: Type, b: Type, *_: Type, transpose_a: Any, transpose_b: Any) -> Type:
    left, right = array(a, "the left operand"), array(b, "the right operand")
    rows, columns = _product(left, right, transpose_a, transpose_b)
    if left.dims[:-2] != right.dims[:-2]:
        raise TypeProblem(f"{left} and {right} have different batch dimensions")
    return TensorType(left.dtype, (*left.dims[:-2], rows, columns))


def _broadcast(a: Type, b: Type, *_: Type, transpose_a: Any, transpose_b: Any) -> Type:
    left, right = array(a, "the left operand"), array(b, "the right operand")
    rows, columns = _product(left, right, transpose_a, transpose_b)
    return TensorType(left.dtype, (*common(left, right), rows, columns))


def _matmul_bias(x: Type, w: Type, b: Type, *_: Type, alpha: Any) -> Type:
    """The last dimension times weights whose rows are its results."""
    operand_type, weights, bias = array(x, "x"), array(w, "the weights"), array(b, "the bias")
    if (
        weights.rank != 2
        or not operand_type.rank
        or operand_type.dims[-1] != weights.dims[1]
        or bias.dims != weights.dims[:1]
    ):
        raise TypeProblem(f"{x}, weights {w} and bias {b} do not belong together")
    return TensorType(operand_type.dtype, (*operand_type.dims[:-1], weights.dims[0]))


def common(a: TensorType, b: TensorType) -> tuple[int, ...]:
    """The batch dimensions of two arrays of matrices, stretched to each other."""
    rank = max(a.rank, b.rank) - 2
    pairs = zip((1,) * (rank - a.rank + 2) + a.dims[:-2], (1,) * (rank - b.rank + 2) + b.dims[:-2], strict=True)
    sizes = [(p, q) for p, q in pairs]
    if any(p != q and 1 not in (p, q) for p, q in sizes):
        raise TypeProblem(f"the batch dimensions of {a} and {b} cannot be broadcast")
    return tuple(q if p == 1 else p for p, q in sizes)


def _conv2d(
    *operands: Type,
    data_format: Any,
    padding_before: Any,
    kernel_size: Any,
    strides: Any,
    dilation_rate: Any,
    groups: Any,
    operand_segment_sizes: Any,
) -> Type:
    """The image with its channels exchanged for the kernel's and the window's positions for its sides."""
    places = optional_operands(CONVOLUTION, len(operands), operand_segment_sizes)
    image, kernel = array(operands[0], "the image"), array(operands[places["weight"]], "the kernel")
    is_last = plain(data_format) == "channels_last"
    if image.rank != 4 or kernel.rank != 4:
        raise TypeProblem(f"conv2d takes images and kernels of rank 4, not {image} and {kernel}")
    channels, sides = (3, image.dims[1:3]) if is_last else (1, image.dims[2:])
    window = kernel.dims[1:3] if is_last else kernel.dims[2:]
    if plain(kernel_size) and plain(kernel_size) != window:
        raise TypeProblem(f"kernel_size={list(plain(kernel_size))}, but the kernel is {kernel}")
    if kernel.dims[channels] * plain(groups) != image.dims[channels]:
        raise TypeProblem(f"a kernel {kernel} in {plain(groups)} groups does not fit {image}")
    numbers = zip(sides, window, plain(padding_before), plain(strides), plain(dilation_rate), strict=True)
    result = [
        (side + 2 * pad - (size - 1) * dilation - 1) // stride + 1 for side, size, pad, stride, dilation in numbers
    ]
    dims = (image.dims[0], *result, kernel.dims[0]) if is_last else (image.dims[0], kernel.dims[0], *result)
    return TensorType(image.dtype, dims)


def _glu(*operands: Type, operand_segment_sizes: Any) -> Type:
    """The gated result, and the products before the gate."""
    places = glu_operands(len(operands), operand_segment_sizes)
    x, w = array(operands[0], "x"), array(operands[1], "w")
    if w.rank != 2 or x.dims[-1] != w.dims[1]:
        raise TypeProblem(f"the last dimension of {x} must be that of the weights {w}")
    if "v" in places:
        array_type = TensorType(x.dtype, (*x.dims[:-1], w.dims[0]))
        return TupleType([array_type, array_type, array_type])
    if w.dims[0] % 2:
        raise TypeProblem(f"the weights {w} cannot be split into halves")
    return TupleType([TensorType(x.dtype, (*x.dims[:-1], width)) for width in (w.dims[0] // 2, w.dims[0])])


def glu_operands(count: int, sizes: Any) -> dict[str, int]:
    """Where the operands of fused_glu stand: without segment sizes, x w, x w b, x w v b... as their number says."""
    if plain(sizes) is None and count == 4:
        return {"x": 0, "w": 1, "b": 2, "v": 3}
    return optional_operands(GLU, count, sizes)


_CONVOLUTION = {
    "filters": 0,
    "data_format": "channels_first",
    "padding_before": (0, 0),
    "kernel_size": (),
    "strides": (1, 1),
    "dilation_rate": (1, 1),
    "groups": 1,
}

ROWS = table(
    row("matmul", (2, 3), _batched, MATMUL),
    row("batch_matmul", (2, 3), _batched, MATMUL),
    row("broadcast_matmul", (2, 3), _broadcast, MATMUL),
    row("fused_matmul_bias", (3, 4), _matmul_bias, {"alpha": 1.0}),
    row("conv2d", (2, 4), _conv2d, _CONVOLUTION),
    row("fused_glu", (2, 5), _glu, {"activation": "none", "has_bias": False, "is_split": False}),
)
