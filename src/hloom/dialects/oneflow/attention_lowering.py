"""The lowering of fused attention."""

from __future__ import annotations

import math

from hloom.dialects.oneflow.attention import joined_dims, read_attention, split_dims
from hloom.dialects.oneflow.builder import Given, HloBuilder, table_of, tensor
from hloom.dialects.oneflow.data_movement_lowering import lower_triangle
from hloom.dialects.oneflow.linear_lowering import swapped
from hloom.dialects.oneflow.normalisation_lowering import softmax
from hloom.ir import Node

TABLE, lowers = table_of()
_HEADS = "BHMK"


@lowers("fused_multi_head_attention_inference")
def _attention(given: Given) -> Node:
    """softmax(query . key * scale + bias, masked) . value, head by head."""
    build = given.build
    kinds = [tensor(operand) for operand in given.operands]
    said = read_attention(kinds, given.node.attribute)
    widths = (said.head_size, said.head_size, said.value_size)
    query, key, value = (
        _heads(build, x, split_dims(array_type, layout, size))
        for x, array_type, layout, size in zip(given.operands[:3], kinds[:3], said.layouts[:3], widths, strict=True)
    )
    products = build.product(query, swapped(build, key))
    scores: Node = build.apply("multiply", products, build.filled(said.scale, products))
    if said.bias is not None:
        scores = build.apply("add", scores, build.stretch(given.operands[said.bias], tensor(scores).dims))
    rows, columns = tensor(scores).dims[-2:]
    if said.mask != "none":
        diagonal = said.diagonal_offset + (columns - rows if said.mask == "causal_from_bottom_right" else 0)
        scores = lower_triangle(build, scores, diagonal, -math.inf)
    yielded = build.product(softmax(build, scores), value)
    sizes = dict(zip(_HEADS, tensor(yielded).dims, strict=True))
    letters = said.layouts[3].replace("(", "").replace(")", "")
    ordered = build.transpose(yielded, [_HEADS.index(letter) for letter in letters])
    return build.reshape(ordered, joined_dims(sizes, said.layouts[3]))


def _heads(build: HloBuilder, x: Node, sizes: dict[str, int]) -> Node:
    """The array as batch, heads, sequence, head size."""
    letters = list(sizes)
    return build.transpose(build.reshape(x, tuple(sizes.values())), [letters.index(letter) for letter in _HEADS])
