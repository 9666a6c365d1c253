"""Splats: arrays with one value in all elements, however the program writes them."""

from __future__ import annotations

import numpy as np

from hloom.ir import Apply, Constant, DType, Literal, Node, TensorType, Trait


def splat_number(node: Node) -> np.generic | None:
    """The value in every element of an array: that of a constant, moved and converted; None where it is not known.

    >>> from hloom.formats.hlo import parse
    >>> module = parse("ENTRY e { c = s32[] constant(3) f = f32[] convert(c) ROOT b = f32[2] broadcast(f) }")
    >>> splat_number(module.entry.root)
    np.float32(3.0)
    """
    converts: list[DType] = []
    while isinstance(node, Apply) and isinstance(node.type, TensorType):
        source = node.operands[0].type if node.operands else None
        if node.opcode == "convert":
            converts.append(node.type.dtype)
        elif not node.has_trait(Trait.REINDEXES) or getattr(source, "dtype", None) is not node.type.dtype:
            return None  # a bitcast may change the type
        node = node.operands[0]
    if not isinstance(node, Constant) or not isinstance(node.value, Literal) or not node.value.is_splat:
        return None
    value, element = node.value.splat_value(), node.type.dtype if isinstance(node.type, TensorType) else None
    for target in reversed(converts):
        if element is None or (element.is_complex and not target.is_complex):
            return None
        if element.is_float and not (target.is_float or target.is_complex):  # it may be out of range, or NaN
            return None
        with np.errstate(over="ignore"):
            value, element = np.asarray(value).astype(target.numpy).flat[0], target
    return value
