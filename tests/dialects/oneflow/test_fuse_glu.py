"""`fuse-glu`: a product with a bias, two narrows, an activation and a product become one op with two results.

Covers `gated_linear_unit.py`.
"""

from __future__ import annotations

import pytest

from tests.dialects.oneflow.jobs import assert_kept, assert_rewrites, job, rewritten

X, W, B, P, Y = "tensor<2x3x4xf32>", "tensor<6x4xf32>", "tensor<6xf32>", "tensor<2x3x6xf32>", "tensor<2x3x3xf32>"
NAME = "fuse-glu"
ARGUMENTS = f"%x: {X}, %w: {W}, %b: {B}"
MATMUL = "alpha = 1.000000e+00 : f64, transpose_a = false, transpose_b = true"
CPU, GPU = ', device_tag = "cpu"', ', device_tag = "gpu"'
PRODUCT = f'    %p = "oneflow.broadcast_matmul"(%x, %w) {{{MATMUL}}} : ({X}, {W}) -> {P}\n'
ADDED = f'    %0 = "oneflow.broadcast_add"(%p, %b) : ({P}, {B}) -> {P}'
BIAS_ADDED = f'    %0 = "oneflow.bias_add"(%p, %b) {{axis = 2 : si32}} : ({P}, {B}) -> {P}'
MATMUL_BIAS = (
    f'    %0 = "oneflow.fused_matmul_bias"(%x, %w, %b) {{alpha = 1.000000e+00 : f64}} : ({X}, {W}, {B}) -> {P}'
)


def narrow(name: str, start: int, dim: int = 2, length: int = 3, result: str = Y) -> str:
    attributes = f"dim = {dim} : si64, length = {length} : si64, start = {start} : si64"
    return f'{name} = "oneflow.narrow"(%0) {{{attributes}}} : ({P}) -> {result}'


def unfused(
    biased: str = PRODUCT + ADDED,
    hidden: str = narrow("%h", 0),
    gate: str = narrow("%g", 3),
    activation: str = "gelu",
    factors: str = "%h, %a",
    returned: str = f"%y : {Y}",
    last: str = "",
) -> str:
    lines = f"""{biased}
    {hidden}
    {gate}
    %a = "oneflow.{activation}"(%g) : ({Y}) -> {Y}
    %y = "oneflow.broadcast_mul"({factors}) {{op_name = "out"{last}}} : ({Y}, {Y}) -> {Y}"""
    return job(ARGUMENTS, lines, returned)


def fused(activation: str = "gelu", returned: str = f"%y : {Y}") -> str:
    return job(
        ARGUMENTS,
        f'%y, %0 = "oneflow.fused_glu"(%x, %w, %b) {{activation = "{activation}", has_bias = true, is_split = false,'
        ' op_name = "out", operand_segment_sizes = dense<[1, 1, 1, 0, 0]> : vector<5xi32>,'
        f" result_segment_sizes = dense<[1, 1, 0]> : vector<3xi32>}} : ({X}, {W}, {B}) -> ({Y}, {P})",
        returned,
    )


@pytest.mark.parametrize(
    "text",
    [
        unfused(),
        unfused(factors="%a, %h"),
        unfused(PRODUCT + ADDED.replace("(%p, %b) : (", "(%b, %p) : (").replace(f"({P}, {B})", f"({B}, {P})")),
        unfused(PRODUCT + BIAS_ADDED),
        unfused(MATMUL_BIAS),
        unfused(hidden=narrow("%h", 0, -1), gate=narrow("%g", 3, -1)),
    ],
)
def test_a_gated_linear_unit(text):
    assert_rewrites(NAME, text, fused())


@pytest.mark.parametrize("activation", ["fast_gelu", "silu", "sigmoid", "relu"])
def test_other_activations(activation):
    assert_rewrites(NAME, unfused(activation=activation), fused(activation))


def test_the_biased_product_is_replaced_too():
    returned = f"%y, %0 : {Y}, {P}"
    assert_rewrites(NAME, unfused(returned=returned), fused(returned=returned))


def test_all_passes_together_find_it_too():
    changed, _ = rewritten("oneflow", unfused(PRODUCT + BIAS_ADDED))
    assert [node.opcode for node in changed.entry.nodes[3:]] == ["oneflow.fused_glu", "get-tuple-element"]


SMALL = "tensor<2x3x2xf32>"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (unfused(returned=f"%y, %a : {Y}, {Y}"), "oneflow.gelu is used elsewhere too"),
        (unfused(returned=f"%y, %h : {Y}, {Y}"), "oneflow.narrow is used elsewhere too"),
        (unfused(returned=f"%y, %p : {Y}, {P}"), "oneflow.broadcast_matmul is used elsewhere too"),
        (unfused(hidden=narrow("%h", 3), gate=narrow("%g", 0)), "length of oneflow.narrow is another"),
        (unfused(activation="tanh"), ", not oneflow.gelu"),
        (unfused(PRODUCT.replace("1.000000e+00", "2.000000e+00") + ADDED), "has alpha, which the pattern does not name"),
        (
            unfused(gate=narrow("%g", 2, length=2, result=SMALL), hidden=narrow("%h", 0, length=2, result=SMALL)).replace(Y, SMALL),
            "not (2 * half) == w.shape[0]",
        ),
        (unfused(PRODUCT + ADDED.replace(") :", f') {{{CPU[2:]}}} :'), last=GPU), "not oneflow.broadcast_add.device_tag"),
    ],
)  # fmt: skip
def test_not_a_gated_linear_unit(text, reason):
    assert_kept(NAME, text, reason)


def test_not_along_another_dimension():
    square, half, b = "tensor<2x6x6xf32>", "tensor<2x3x6xf32>", "tensor<6xf32>"
    text = unfused(hidden=narrow("%h", 0, 1), gate=narrow("%g", 3, 1))
    text = text.replace(P, square).replace(Y, half).replace(X, "tensor<2x6x4xf32>").replace(B, b)
    assert_kept(NAME, text, "not (dim % oneflow.broadcast_add.rank) == (oneflow.broadcast_add.rank - 1)")
