"""Fused multi-head attention, in its earlier form (num_heads) and its later one (layouts)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from hloom.dialects.oneflow.rows import array, optional_operands, plain, row, table
from hloom.ir import TensorType, Type, TypeProblem

OPERANDS = "query key value query_seq_start key_seq_start key_seq_len attn_bias"
LAYOUTS = ("BM(HK)", "MB(HK)", "BMHK", "MBHK", "BHMK")
"""The layouts that are understood: batch, sequence, heads and head size, the last two as one dimension or two."""


@dataclass(frozen=True, slots=True)
class Attention:
    """What one op says, with all that is left out worked out."""

    head_size: int
    value_size: int
    layouts: tuple[str, str, str, str]
    scale: float
    mask: str
    diagonal_offset: int
    bias: int | None


def read_attention(operands: list[TensorType], attribute: Any) -> Attention:
    """What an op with these operands says; `attribute` gives an attribute's value. Raises TypeProblem."""
    places = optional_operands(OPERANDS, len(operands), attribute("operand_segment_sizes"))
    if "attn_bias" not in places and len(operands) == 4:
        places = {"query": 0, "key": 1, "value": 2, "attn_bias": 3}
    if any(name.endswith(("_start", "_len")) for name in places):
        raise TypeProblem("packed sequences (query_seq_start, key_seq_start, key_seq_len) are not understood")
    for name in ("query", "key", "value"):
        if plain(attribute(f"{name}_hidden_slice_start")) != 0 or plain(attribute(f"{name}_hidden_slice_end")) != -1:
            raise TypeProblem(f"a slice of {name} is not understood")
    names = ("query_layout", "key_layout", "value_layout", "output_layout")
    layouts = tuple(plain(attribute(name)) for name in names)
    unknown = next((layout for layout in layouts if layout not in LAYOUTS), None)
    if unknown is not None:
        raise TypeProblem(f"the layout '{unknown}' is not understood: only {', '.join(LAYOUTS)} are")
    heads, size = plain(attribute("num_heads")), plain(attribute("query_head_size"))
    query = operands[0]
    if not size:
        size = query.dims[-1] if "(" not in layouts[0] else query.dims[-1] // heads if heads else 0
    if not size or query.dims[-1] % size:
        raise TypeProblem(f"{query} has no heads of size {size}: query_head_size or num_heads must fit")
    count = split_dims(query, layouts[0], size)["H"]
    value = operands[2]
    value_size = value.dims[-1] // count if "(" in layouts[2] else value.dims[-1]
    mask = plain(attribute("attn_mask_type"))
    mask = "causal_from_top_left" if plain(attribute("causal")) else mask
    scale = plain(attribute("scale")) or 1 / math.sqrt(size)
    offset = plain(attribute("causal_diagonal_offset"))
    bias = places.get("attn_bias")
    return Attention(size, value_size, (layouts[0], layouts[1], layouts[2], layouts[3]), scale, mask, offset, bias)


def split_dims(array_type: TensorType, layout: str, size: int) -> dict[str, int]:
    """The sizes of B, M, H and K of an array in a layout."""
    letters = layout.replace("(", "").replace(")", "")
    dims = (*array_type.dims[:-1], array_type.dims[-1] // size, size) if "(" in layout else array_type.dims
    if len(letters) != len(dims):
        raise TypeProblem(f"{array_type} does not have the layout {layout}")
    return dict(zip(letters, dims, strict=True))


def joined_dims(sizes: dict[str, int], layout: str) -> tuple[int, ...]:
    """The dimensions of an array of these sizes in a layout."""
    letters = layout.replace("(", "").replace(")", "")
    dims = [sizes[letter] for letter in letters]
    return (*dims[:-2], dims[-2] * dims[-1]) if "(" in layout else tuple(dims)


def _attention(*operands: Type, **values: Any) -> Type:
    result = [array(operand) for operand in operands]
    said = read_attention(result, values.__getitem__)
    query = split_dims(result[0], said.layouts[0], said.head_size)
    key = split_dims(result[1], said.layouts[1], said.head_size)
    value = split_dims(result[2], said.layouts[2], said.value_size)
    if key["B"] != query["B"] or key["H"] != query["H"] or value["M"] != key["M"] or value["H"] != query["H"]:
        raise TypeProblem(f"query {result[0]}, key {result[1]} and value {result[2]} do not belong together")
    return TensorType(result[0].dtype, joined_dims({**query, "K": said.value_size}, said.layouts[3]))


def _infer(
    *operands: Type,
    num_heads: Any,
    query_head_size: Any,
    query_layout: Any,
    key_layout: Any,
    value_layout: Any,
    output_layout: Any,
    query_hidden_slice_start: Any,
    query_hidden_slice_end: Any,
    key_hidden_slice_start: Any,
    key_hidden_slice_end: Any,
    value_hidden_slice_start: Any,
    value_hidden_slice_end: Any,
    attn_mask_type: Any,
    causal: Any,
    causal_diagonal_offset: Any,
    scale: Any,
    operand_segment_sizes: Any,
) -> Type:
    values = {name: value for name, value in locals().items() if name != "operands"}
    return _attention(*operands, **values)


_DEFAULTS = {
    "num_heads": 0,
    "query_head_size": 0,
    "query_layout": "BM(HK)",
    "key_layout": "BM(HK)",
    "value_layout": "BM(HK)",
    "output_layout": "BM(HK)",
    **{f"{name}_hidden_slice_start": 0 for name in ("query", "key", "value")},
    **{f"{name}_hidden_slice_end": -1 for name in ("query", "key", "value")},
    "attn_mask_type": "none",
    "causal": False,
    "causal_diagonal_offset": 0,
    "scale": 0.0,
}

ROWS = table(
    row(
        "fused_multi_head_attention_inference",
        (3, 7),
        _infer,
        _DEFAULTS,
        carried=("query_max_seq_len", "key_max_seq_len"),
    ),
)
