"""`fuse-attention-inference`: twelve ops, from splitting the heads to joining them, become one.

Covers `attention.py`.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from hloom.dialects import oneflow
from hloom.ir import Apply
from tests.dialects.oneflow.domains import DOMAINS
from tests.dialects.oneflow.jobs import assert_kept, assert_rewrites, job, lowered, rewritten

NAME = "fuse-attention-inference"
Q, K, S = "tensor<2x3x4xf32>", "tensor<2x5x4xf32>", "tensor<2x2x3x5xf32>"
ARGUMENTS = f"%query: {Q}, %key: {K}, %value: {K}"
SCALE = "float_operand = {} : f64, has_float_operand = true, has_int_operand = false, int_operand = 0 : si64"
ROOT = 1.4142135623730951
"""The root of the head size, 2."""


def split(name: str, length: int, order: str = "0, 2, 1, 3") -> str:
    dims = [2, length, 2, 2]
    perm = [int(dim) for dim in order.split(", ")]
    x, four, turned = (
        f"tensor<2x{length}x4xf32>",
        *("x".join(map(str, sizes)) for sizes in (dims, [dims[p] for p in perm])),
    )
    shape = ", ".join(f"{size} : si64" for size in dims)
    return f"""
    %{name}1 = "oneflow.reshape"(%{name}) {{op_name = "{name}-reshape", shape = [{shape}]}} : ({x}) -> tensor<{four}xf32>
    %{name}2 = "oneflow.transpose"(%{name}1) {{perm = [{", ".join(f"{dim} : si32" for dim in perm)}]}} : (tensor<{four}xf32>) -> tensor<{turned}xf32>"""


def attention(
    scale: str = f'"oneflow.scalar_div"(%s) {{{SCALE.format(ROOT)}}}',
    returned: str = f"%out : {Q}",
    alpha: str = "1.000000e+00",
    last: str = "",
) -> str:
    matmul = "alpha = {} : f64, transpose_a = false, transpose_b = false"
    mixed = "tensor<2x2x3x2xf32>"
    return job(
        ARGUMENTS,
        split("query", 3)
        + split("key", 5, "0, 2, 3, 1")
        + split("value", 5)
        + f"""
    %s = "oneflow.batch_matmul"(%query2, %key2) {{{matmul.format(alpha)}}} : ({mixed}, tensor<2x2x2x5xf32>) -> {S}
    %scaled = {scale} : ({S}) -> {S}
    %a = "oneflow.softmax"(%scaled) : ({S}) -> {S}
    %m = "oneflow.batch_matmul"(%a, %value2) {{{matmul.format("1.000000e+00")}}} : ({S}, tensor<2x2x5x2xf32>) -> {mixed}
    %t = "oneflow.transpose"(%m) {{perm = [0 : si32, 2 : si32, 1 : si32, 3 : si32]}} : ({mixed}) -> tensor<2x3x2x2xf32>
    %out = "oneflow.reshape"(%t) {{op_name = "out", scope_symbol_id = 12 : i64, shape = [2 : si64, 3 : si64, 4 : si64]{last}}} : (tensor<2x3x2x2xf32>) -> {Q}""",
        returned,
    )  # fmt: skip


def fused(scale: float = 1 / ROOT) -> str:
    layouts = ", ".join(f'{name}_layout = "BM(HK)"' for name in ("key", "output", "query", "value"))
    return job(
        ARGUMENTS,
        f'%y = "oneflow.fused_multi_head_attention_inference"(%query, %key, %value) {{attn_mask_type = "none",'
        " causal_diagonal_offset = 0 : si64, key_max_seq_len = 0 : si64, query_max_seq_len = 0 : si64,"
        f' op_name = "out", {layouts}, operand_segment_sizes = dense<[1, 1, 1, 0, 0, 0, 0]> : vector<7xi32>,'
        f" query_head_size = 2 : si64, scale = {scale!r} : f64, scope_symbol_id = 12 : i64}} : ({Q}, {K}, {K}) -> {Q}",
        f"%y : {Q}",
    )


def by(opcode: str, number: float) -> str:
    return f'"oneflow.{opcode}"(%s) {{{SCALE.format(repr(number))}}}'


def test_attention():
    module = oneflow.parse(attention())
    assert sum(isinstance(node, Apply) for node in module.entry.nodes) == 12
    assert_rewrites(NAME, attention(), fused())


@pytest.mark.parametrize(
    ("text", "scale"),
    [
        (attention(by("scalar_mul", 1 / ROOT)), 1 / ROOT),
        (attention(by("scalar_mul", 1.0), alpha=repr(1 / ROOT)), 1 / ROOT),
        (attention(by("scalar_mul", 1 / ROOT + 9e-6)), 1 / ROOT + 9e-6),
        (attention(by("scalar_div", ROOT + 1e-5)), 1 / (ROOT + 1e-5)),
    ],
)
def test_the_scale_is_that_of_the_head_size_to_one_in_a_hundred_thousand(text, scale):
    assert_rewrites(NAME, text, fused(scale))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (attention(by("scalar_mul", 1 / ROOT + 1.1e-5)), "<= 1e-05"),
        (attention(by("scalar_div", 2.0)), "<= 1e-05"),
        (attention(by("scalar_div", 0.0)), "<= 1e-05 has no value here"),
        (attention(by("scalar_div", ROOT), alpha="2.000000e+00"), "<= 1e-05"),
        (attention('"oneflow.relu"(%s)'), ", not oneflow.scalar_div/oneflow.scalar_mul"),
        (attention(returned=f"%out, %a : {Q}, {S}"), "oneflow.softmax is used elsewhere too"),
        (attention(returned=f"%out, %s : {Q}, {S}"), "oneflow.batch_matmul is used elsewhere too"),
        (attention(last=', device_tag = "gpu"'), "not oneflow.reshape.device_tag == oneflow.reshape.device_tag"),
    ],
)
def test_not_attention(text, reason):
    assert_kept(NAME, text, reason)


def test_not_where_heads_are_split_otherwise():
    text = attention().replace('{perm = [0 : si32, 2 : si32, 1 : si32, 3 : si32]} : (tensor<2x2x3x2xf32>)', '{perm = [0 : si32, 2 : si32, 3 : si32, 1 : si32]} : (tensor<2x2x3x2xf32>)')  # fmt: skip
    text = text.replace("(tensor<2x2x3x2xf32>) -> tensor<2x3x2x2xf32>", "(tensor<2x2x3x2xf32>) -> tensor<2x3x2x2xf32>")
    assert_kept(NAME, text, "perm of oneflow.transpose is another")


def test_heads_and_batch_as_one_dimension():
    module = DOMAINS["fuse-batched-attention-inference"](Random(0))
    changed, report = rewritten(NAME, oneflow.to_text(module))
    assert report.matched == 1
    assert [node.opcode for node in changed.entry.nodes[3:]] == ["oneflow.fused_multi_head_attention_inference"]


def test_numbers():
    runtime = pytest.importorskip("hloom.runtime")
    pytest.importorskip("jaxlib")
    changed, _ = rewritten(NAME, attention())
    before, after = lowered(oneflow.parse(attention())), lowered(changed)
    random = np.random.default_rng(0)
    inputs = [random.normal(size=parameter.type.dims).astype("f4") for parameter in before.entry.parameters]  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    (one,), (other,) = (runtime.run(module, inputs).outputs for module in (before, after))
    np.testing.assert_allclose(one, other, rtol=1e-5)
