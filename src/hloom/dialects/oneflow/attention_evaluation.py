"""What fused attention computes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.dialects.oneflow.attention import joined_dims, read_attention, split_dims
from hloom.dialects.oneflow.evaluation import Arrays, of
from hloom.dialects.oneflow.normalisation_evaluation import softmax
from hloom.dialects.oneflow.rows import array
from hloom.ir import Apply


@of("fused_multi_head_attention_inference")
def _attention(node: Apply, operands: Arrays) -> Any:
    kinds = [array(operand.type) for operand in node.inputs if operand.type is not None]
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
