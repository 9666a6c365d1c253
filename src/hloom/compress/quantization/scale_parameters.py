"""Scales of activations as parameters of a program, moved and sliced like the weights they belong to.

w = f32[3,64,8] parameter(1)                   w.smoothing = f32[3,64,1] parameter(2)
dot(x, reshape(dynamic-slice(w, i)))   ->      dot(multiply(x, broadcast(dynamic-slice(w.smoothing, i))), ...)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hloom.compress.quantization.dequantization import add_companions, keep, push_down, write_entry_layout
from hloom.compress.quantization.insertion_point import InsertionPoint, first_instruction
from hloom.compress.quantization.quantized_value import F32, QuantizedValue
from hloom.compress.quantization.weight_slices import product_dims
from hloom.compress.quantization.weights import WeightUse
from hloom.ir import Module, Node

_NAME = "smoothing"


def explicit_scale(
    use: WeightUse, dims: Sequence[int], seen: Mapping[int, np.ndarray], scales: Mapping[int, np.ndarray]
) -> np.ndarray | None:
    """The scales of all rounds as the program takes them: in the weight's dimensions, one element where none differ.

    None where rounds are not dimension of the weight, so that they do not fit.
    """
    kept = _kept_dims(use)
    result = np.ones([size if dim in kept else 1 for dim, size in enumerate(dims)], np.float32)
    indices = {
        key: tuple(index if dim in kept else 0 for dim, index in enumerate(np.unravel_index(positions, dims)))
        for key, positions in seen.items()
    }
    for key, index in indices.items():
        result[index] = scales[key][..., None]
    fits = all((result[index] == scales[key][..., None]).all() for key, index in indices.items())
    return result if fits else None


def stuck_weights(before: Module, readers: Mapping[int, WeightUse]) -> set[int]:
    """The weights whose movements a scale cannot follow, tried on a copy."""
    if not readers:
        return set()
    copy = before.clone()
    shapes = {}
    for number, use in readers.items():
        dims, kept = before.entry.parameters[number].array_type.dims, _kept_dims(use)
        shapes[number] = tuple(size if dim in kept else 1 for dim, size in enumerate(dims))
    products = {number: copy[use.node.graph.name][use.node.name] for number, use in readers.items()}
    reached = _push(copy, shapes)
    return {n for n, use in readers.items() if _scale_at(products[n], use.operand_index, reached) is None}


def write_scales(
    module: Module, groups: Sequence[Mapping[int, WeightUse]], scales: Mapping[int, np.ndarray]
) -> list[tuple[str, np.ndarray]]:
    """Multiply the activations of groups of readers by parameters; these, with their names.

    Scales are those of a group's first reader, by the weight's number; groups without are left.
    """
    written = [group for group in groups if next(iter(group)) in scales]
    products = {
        number: module[use.node.graph.name][use.node.name] for group in written for number, use in group.items()
    }
    count = len(module.entry.parameters)
    reached = _push(module, {number: array.shape for number, array in scales.items()})
    for group in written:
        owner, use = next(iter(group.items()))
        product = products[owner]
        scale = _scale_at(product, use.operand_index, reached)
        assert scale is not None, "it was tried before"
        activation = product.operands[1 - use.operand_index]
        point = InsertionPoint(product.graph, product)
        own, other = ((*batch, *summed) for batch, summed in product_dims(use))
        ordered = sorted(own)
        flat = point.reshape(scale, [scale.array_type.dims[dim] for dim in ordered])
        flat = point.convert(point.transpose(flat, [ordered.index(dim) for dim in own]), activation.array_type.dtype)
        order = sorted(range(len(other)), key=lambda position: other[position])
        flat = point.transpose(flat, order)
        smoothed = point.mul(activation, point.broadcast(flat, activation.array_type.dims, sorted(other)))
        for number, member in group.items():
            node = products[number]
            operands = list(node.operands)
            operands[1 - member.operand_index] = smoothed
            node.graph.set_operands(node, operands)
    names = [parameter.name for parameter in module.entry.parameters[count:]]
    return list(zip(names, scales.values(), strict=True))


def _push(module: Module, shapes: Mapping[int, tuple[int, ...]]) -> dict[Node, QuantizedValue]:
    """Give weights a companion, and move it beside them to where they are used; by node what is there."""
    former = tuple(module.entry.parameters)
    first = first_instruction(module.entry)
    values = []
    for number, shape in shapes.items():
        parameter = former[number]
        type_ = parameter.array_type
        companions = add_companions(parameter, type_.dtype, {_NAME: (F32, shape)}, first)
        blocks = tuple(size if count == 1 else 1 for size, count in zip(type_.dims, shape, strict=True))
        values.append(QuantizedValue(parameter, companions, {_NAME: blocks}, type_.with_layout(None)))
    reached: dict[Node, QuantizedValue] = {}
    for value in values:
        reached |= push_down(value, keep)
    write_entry_layout(module, former)
    return reached


def _scale_at(product: Node, operand_index: int, reached: Mapping[Node, QuantizedValue]) -> Node | None:
    """The companion of a product's weight, converted or not; None where it has not come so far."""
    operand = product.operands[operand_index]
    dims = operand.array_type.dims
    while operand not in reached and operand.opcode == "convert":
        operand = operand.operands[0]
    return reached[operand].companions[_NAME] if operand in reached and operand.array_type.dims == dims else None


def _kept_dims(use: WeightUse) -> frozenset[int]:
    """The dimensions of a weight along which the scale of its activation differs."""
    batch, summed = product_dims(use)[0]
    return use.selected.union(*(piece.dims for dim in (*batch, *summed) for piece in use.dims[dim]))
