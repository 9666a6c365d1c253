"""Matrix products and convolutions: their rows. The rules are in the files `*_rules.py` of each."""

from hloom.ir import AttributeKind, Trait, optional, required
from hloom.ops.convolution_rules import convolution_axes, infer_convolution
from hloom.ops.dot_rules import (
    dot_axes,
    infer_dot,
    infer_ragged_dot,
    infer_scaled_dot,
    ragged_dot_axes,
    scaled_dot_axes,
)
from hloom.ops.rows import ENUM, INTEGER, INTEGERS, PRECISION, WINDOW, row, table, typed_row

ALGORITHMS = (
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_bf16_bf16_f32_x9",
    "dot_bf16_bf16_fp8x3",
    "dot_bf16_bf16_fp8x4",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
)
CONVOLUTION_KINDS = ("unset", "fprop", "wgrad", "dgrad")

_DOT = {
    "lhs_batch_dims": optional(INTEGERS, ()),
    "lhs_contracting_dims": optional(INTEGERS, ()),
    "rhs_batch_dims": optional(INTEGERS, ()),
    "rhs_contracting_dims": optional(INTEGERS, ()),
}
_ALGORITHM = {"algorithm": optional(ENUM, choices=ALGORITHMS)}
_RAGGED = {"lhs_ragged_dims": optional(INTEGERS, ()), "rhs_group_dims": optional(INTEGERS, ())}

_PRODUCT = (Trait.CONTRACTS, Trait.ROUNDS)

ROWS = table(
    row("dot", 2, {**_DOT, **PRECISION, **_ALGORITHM}, infer=infer_dot, axes=dot_axes, traits=_PRODUCT),
    typed_row(
        "scaled-dot",
        4,
        {**_DOT, **PRECISION, **_ALGORITHM},
        infer=infer_scaled_dot,
        axes=scaled_dot_axes,
        traits=_PRODUCT,
    ),
    row(
        "ragged-dot", 3, {**_DOT, **_RAGGED, **PRECISION}, infer=infer_ragged_dot, axes=ragged_dot_axes, traits=_PRODUCT
    ),
    row(
        "convolution",
        2,
        {
            **WINDOW,
            "dim_labels": required(AttributeKind.DIMENSION_LABELS),
            "feature_group_count": optional(INTEGER, 1),
            "batch_group_count": optional(INTEGER, 1),
            "convolution_kind": optional(ENUM, "unset", choices=CONVOLUTION_KINDS),
            **PRECISION,
            **_ALGORITHM,
            "sparsity_config": optional(AttributeKind.SPARSITY),
        },
        infer=infer_convolution,
        axes=convolution_axes,
        traits=_PRODUCT,
    ),
)
