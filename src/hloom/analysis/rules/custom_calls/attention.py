"""Fused attention of cuDNN and Transformer Engine: softmax(scale q k^T + bias) v, forward and backward.

Every pair of a query and a key that the mask keeps costs a product along the head dimension for each matrix product,
and a softmax per head. A causal mask keeps the keys up to the query's position, a sliding window the last of those;
masks that depend on sequence lengths or segments, which only a run knows, count as none.
"""

from __future__ import annotations

from hloom.analysis.rules.contraction import FMA
from hloom.analysis.rules.custom_calls.backend_config import CallConfig, Uncountable
from hloom.analysis.rules.custom_calls.kinds import CallWork, array, first_result, kind
from hloom.analysis.rules.table import Instruction
from hloom.analysis.sizes import elements

SOFTMAX_FLOPS = 5
"""FLOPs of a pair in a softmax beside its exponential: scale, maximum, subtraction, sum, division."""
SOFTMAX_GRADIENT_FLOPS = 5
"""FLOPs of a pair in its gradient: two for the sum of products, subtraction, product with the probability, scale."""
CAUSAL_MASKS = ("2", "3", "4", "5")
"""Values of NVTE_Mask_Type (transformer_engine/fused_attn.h) with a causal mask."""


def kept_pairs(queries: int, keys: int, *, is_causal: bool, window: int = 0) -> int:
    """The number of pairs of a query and a key that a mask keeps; a window of 0 is unlimited.

    >>> kept_pairs(4, 4, is_causal=False), kept_pairs(4, 4, is_causal=True), kept_pairs(4, 4, is_causal=True, window=2)
    (16, 10, 7)
    """
    if not is_causal:
        return queries * keys
    reach = min(keys, window) if window else keys
    growing = min(queries, reach)
    return growing * (growing + 1) // 2 + (queries - growing) * reach


def _work(
    instruction: Instruction, pairs: int, key_width: int, value_width: int, *, is_backward: bool, recomputes: bool
) -> CallWork:
    """The backward pass multiplies for the gradients of values, probabilities, queries and keys; if only the softmax's
    statistics were stored, it first computes the probabilities again."""
    softmax = SOFTMAX_FLOPS
    width, functions = key_width + value_width, pairs
    if is_backward:
        width = 2 * key_width + 2 * value_width + (key_width if recomputes else 0)
        softmax = SOFTMAX_GRADIENT_FLOPS + (2 if recomputes else 0)
        functions = pairs if recomputes else 0
    return CallWork(pairs * (FMA * width + softmax), functions, matrix_types=instruction.operands[:3])


def _cudnn(instruction: Instruction, config: CallConfig) -> CallWork:
    settings = config.part("cudnn_fmha_backend_config")
    sizes = settings.message("intermediate_tensor_shape").counts("dimensions")
    if len(sizes) != 4 or 0 in sizes:
        raise Uncountable("the scores in its configuration are not [batch, heads, queries, keys]")
    batch, heads, queries, keys = sizes
    is_causal = settings.text("mask_type") in ("CAUSAL", "PADDING_CAUSAL")
    window = settings.count("sliding_window_length", 0)
    pairs = batch * heads * kept_pairs(queries, keys, is_causal=is_causal, window=window)
    rows = batch * heads * queries
    is_backward = "Backward" in str(instruction.attributes.get("custom_call_target"))
    query = array(instruction.operand(0))
    output = array(instruction.operand(4)) if is_backward else first_result(instruction)
    if elements(query) % rows or elements(output) % rows:
        raise Uncountable("its operands do not fit the scores in its configuration")
    key_width, value_width = elements(query) // rows, elements(output) // rows
    recomputes = is_backward and array(instruction.operand(3)).rank < len(sizes)  # statistics of rows, not the scores
    return _work(instruction, pairs, key_width, value_width, is_backward=is_backward, recomputes=recomputes)


def _transformer_engine(instruction: Instruction, config: CallConfig) -> CallWork:
    batch, heads = config.count("input_batch"), config.count("attn_heads")
    queries, keys = config.count("q_max_seqlen"), config.count("kv_max_seqlen")
    if "qk_head_dim" in config.values:
        key_width, value_width = config.count("qk_head_dim"), config.count("v_head_dim")
    else:
        key_width = value_width = config.count("head_dim")
    left = config.text("window_size_left", "-1")
    window = int(left) + 1 if left.isdecimal() and len(left) < 10 else 0
    is_causal = config.text("mask_type") in CAUSAL_MASKS
    pairs = batch * heads * kept_pairs(queries, keys, is_causal=is_causal, window=window)
    is_backward = "backward" in str(instruction.attributes.get("custom_call_target"))
    return _work(instruction, pairs, key_width, value_width, is_backward=is_backward, recomputes=True)


_COUNTED = (
    "of each pair of query and key that the causal mask keeps, 2 FLOPs for every element of the heads' two products "
    "(backward five, with the recomputed scores), and the softmax"
)
kind(
    r"__cudnn\$(fmha|fhma)\w*Backward(F8)?",
    "cuDNN attention, gradient",
    _cudnn,
    because=_COUNTED,
    has_scratch=True,
)
kind(r"__cudnn\$(fmha|fhma)\w*", "cuDNN attention", _cudnn, because=_COUNTED, has_scratch=True)
kind(
    r"te_fused_attn_forward(_ffi)?",
    "Transformer Engine attention",
    _transformer_engine,
    because=_COUNTED,
    has_scratch=True,
)
kind(
    r"te_fused_attn_backward(_ffi)?",
    "Transformer Engine attention, gradient",
    _transformer_engine,
    because=_COUNTED,
    has_scratch=True,
)
