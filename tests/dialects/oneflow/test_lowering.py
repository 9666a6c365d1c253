"""Every op: its type follows from its row, and its HLO run by XLA gives what numpy gives.

Covers `attention.py`, `lowering_context.py`, `data_movement.py`,
`elementwise.py`, `elementwise_lowering.py`, `evaluation.py`, `linear.py`, `linear_lowering.py`,
`normalisation.py`, `normalisation_lowering.py`.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from hloom import evaluate
from hloom.dialects import oneflow
from hloom.dialects.oneflow.lowering import TABLE
from hloom.ir import TensorType, TypeProblem, infer_type, verify
from hloom.ir.verify import Level
from hloom.text import HloomError, Unsupported
from tests.dialects.oneflow.reference import computed

pytest.importorskip("jaxlib")

from hloom import runtime


def job(op: str, attributes: str, operands: list[str], results: list[str]) -> str:
    """A job of one op, which returns all its results."""
    arguments = ", ".join(f"%arg{n}: tensor<{tensor_type}>" for n, tensor_type in enumerate(operands))
    uses = ", ".join(f"%arg{n}" for n in range(len(operands)))
    types = ", ".join(f"tensor<{tensor_type}>" for tensor_type in operands)
    kinds = ", ".join(f"tensor<{tensor_type}>" for tensor_type in results)
    names = ", ".join(f"%r{n}" for n in range(len(results)))
    return (
        f"oneflow.job @j({arguments}) -> ({kinds}) {{\n"
        f'  {names} = "oneflow.{op}"({uses}) {{{attributes}}} : ({types}) -> ({kinds})\n'
        f"  oneflow.return {names} : {kinds}\n}}"
    )


FLOAT = "has_float_operand = true, has_int_operand = false, float_operand = -2.5 : f64, int_operand = 0 : si64"
INTEGER = "has_float_operand = false, has_int_operand = true, float_operand = 0.0 : f64, int_operand = 3 : si64"
CONV = (
    'filters = 4 : si32, data_format = "{}", groups = {} : si32, strides = [{}], padding_before = [{}],'
    " dilation_rate = [{}], kernel_size = [2 : si32, 2 : si32]"
)
BATCH = "axis = 1 : si32, epsilon = 9.99999974E-6 : f32, momentum = 0.899999976 : f32, training = {}"
HEADS = 'query_head_size = 4 : si64, attn_mask_type = "{}", scale = 0.5 : f64, causal_diagonal_offset = 0 : si64'
CHANNEL = ["3xf32"] * 4
X = "2x3x4x5xf32"
UNARY = ("relu", "gelu", "fast_gelu", "silu", "sigmoid", "tanh", "identity", "input", "output")
MATRIX = "transpose_a = {}, transpose_b = {}, alpha = {} : f64"


def conv(
    layout="channels_first",
    groups=1,
    strides="1 : si32, 1 : si32",
    padding="0 : si32, 0 : si32",
    dilation="1 : si32, 1 : si32",
):
    return CONV.format(layout, groups, strides, padding, dilation)


CASES: list[tuple[str, str, list[str], list[str]]] = [
    *[(name, "", ["3x4xf32"], ["3x4xf32"]) for name in UNARY],
    ("sqrt", "", ["4xf32"], ["4xf32"]),
    ("rsqrt", "", ["4xf32"], ["4xf32"]),
    *[(f"broadcast_{name}", "", ["3x1x5xf32", "4x1xf32"], ["3x4x5xf32"]) for name in ("add", "sub", "mul", "div")],
    ("broadcast_add", "", ["3xf32", "2x3xf32"], ["2x3xf32"]),
    ("multiply", "", ["3x4xf32", "3x4xf32"], ["3x4xf32"]),
    ("add_n2", "", ["3x4xf32", "3x4xf32"], ["3x4xf32"]),
    ("add_n", "", ["3xf32"] * 4, ["3xf32"]),
    ("add_n", "", ["3xf32"], ["3xf32"]),
    ("scalar_add", FLOAT, ["3xf32"], ["3xf32"]),
    ("scalar_mul", FLOAT, ["3xf32"], ["3xf32"]),
    ("scalar_div", FLOAT, ["3xf32"], ["3xf32"]),
    ("scalar_mul", INTEGER, ["3xi32"], ["3xi32"]),
    ("scalar_mul_by_tensor", "", ["3x2xf32", "1xf32"], ["3x2xf32"]),
    ("bias_add", "axis = 1 : si32", ["2x3x4xf32", "3xf32"], ["2x3x4xf32"]),
    ("bias_add", "axis = -1 : si32", ["2x3x4xf32", "4xf32"], ["2x3x4xf32"]),
    ("fused_bias_add_gelu", "axis = 1 : si32", ["2x3x4xf32", "3xf32"], ["2x3x4xf32"]),
    ("fused_bias_add_mask_scale", "axis = 1 : si32, scale = 2.0 : f32", ["2x3xf32", "3xf32", "2x3xi8"], ["2x3xf32"]),
    ("fused_bias_add_mask_scale", "axis = 1 : si32, scale = 2.0 : f32", ["2x3xf32", "3xf32", "2x3xf32", "2x3xf32"], ["2x3xf32"]),
    ("cast", "dtype = 5 : i32", ["3x4xf32"], ["3x4xi32"]),
    ("cast", "dtype = 2 : i32", ["3x4xi64"], ["3x4xf32"]),
    ("fused_cast_scale", "scale = 3.0 : f64", ["3x4xi32", "1xf32"], ["3x4xf32"]),
    ("reshape", "shape = [6 : si64, 4 : si64]", ["2x3x4xf32"], ["6x4xf32"]),
    ("reshape", "shape = [-1 : si64, 4 : si64]", ["2x3x4xf32"], ["6x4xf32"]),
    ("transpose", "perm = [2 : si32, 0 : si32, 1 : si32]", ["2x3x4xf32"], ["4x2x3xf32"]),
    ("narrow", "dim = 1 : si64, start = 1 : si64, length = 2 : si64", ["2x3x4xf32"], ["2x2x4xf32"]),
    ("narrow", "dim = -1 : si64, start = 1 : si64, length = 2 : si64", ["2x3x4xf32"], ["2x3x2xf32"]),
    ("pad", "padding_before = [0 : si64, 1 : si64], padding_after = [2 : si64, 0 : si64], floating_constant_value = 1.5 : f64, integral_constant_value = 7 : si64", ["2x3xf32"], ["4x4xf32"]),
    ("pad", "padding_before = [0 : si64, 1 : si64], padding_after = [2 : si64, 0 : si64], floating_constant_value = 1.5 : f64, integral_constant_value = 7 : si64", ["2x3xi32"], ["4x4xi32"]),
    ("tril", "diagonal = -1 : si64, floating_fill_value = -1.0 : f64, integer_fill_value = 0 : si64, is_floating_fill_value = true", ["5x4xf32"], ["5x4xf32"]),
    ("tril", "diagonal = 1 : si64", ["2x3x4xi32"], ["2x3x4xi32"]),
    ("fused_scale_tril", "diagonal = 0 : si64, floating_scale_value = 2.5 : f64, is_floating_scale_value = true", ["4x4xf32"], ["4x4xf32"]),
    ("matmul", "", ["3x4xf32", "4x5xf32"], ["3x5xf32"]),
    ("matmul", MATRIX.format("true", "true", "0.5"), ["4x3xf32", "5x4xf32"], ["3x5xf32"]),
    ("matmul", MATRIX.format("false", "false", "2.0"), ["3x4xf32", "4x5xf32", "3x5xf32"], ["3x5xf32"]),
    ("batch_matmul", MATRIX.format("false", "true", "0.15811388300841897"), ["2x3x4xf32", "2x5x4xf32"], ["2x3x5xf32"]),
    ("broadcast_matmul", MATRIX.format("false", "false", "1.0"), ["2x3x4x5xf32", "5x6xf32"], ["2x3x4x6xf32"]),
    ("broadcast_matmul", MATRIX.format("true", "false", "1.0"), ["1x3x5x4xf32", "2x1x5x6xf32"], ["2x3x4x6xf32"]),
    ("fused_matmul_bias", "alpha = 1.0 : f64", ["2x3x4xf32", "5x4xf32", "5xf32"], ["2x3x5xf32"]),
    ("fused_matmul_bias", "alpha = 0.5 : f64", ["3x4xf32", "5x4xf32", "5xf32", "3x5xf32"], ["3x5xf32"]),
    ("softmax", "", ["2x3x4xf32"], ["2x3x4xf32"]),
    ("conv2d", conv(), ["2x3x6x7xf32", "4x3x2x2xf32"], ["2x4x5x6xf32"]),
    ("conv2d", conv("channels_last", strides="2 : si32, 1 : si32", padding="1 : si32, 0 : si32"), ["2x6x7x3xf32", "4x2x2x3xf32", "4xf32"], ["2x4x6x4xf32"]),
    ("conv2d", conv(groups=2, dilation="2 : si32, 3 : si32"), ["2x4x6x7xf32", "4x2x2x2xf32"], ["2x4x4x4xf32"]),
    ("conv2d", conv() + ", operand_segment_sizes = array<i32: 1, 1, 0, 1>", ["2x3x6x7xf32", "4x3x2x2xf32", "2x4x5x6xf32"], ["2x4x5x6xf32"]),
    ("normalization", BATCH.format("false"), [X, *CHANNEL], [X]),
    ("normalization", BATCH.format("true") + ", operand_segment_sizes = dense<[1, 1, 1, 1, 1, 0]> : vector<6xi32>", [X, *CHANNEL], [X, "3xf32", "3xf32"]),
    ("normalization", BATCH.format("true") + ", operand_segment_sizes = array<i32: 1, 0, 0, 1, 1, 0>", [X, *CHANNEL[:2]], [X, "3xf32", "3xf32"]),
    ("normalization_infer", BATCH.format("true"), [X, *CHANNEL], [X]),
    ("normalization_infer", BATCH.format("true"), [X, *CHANNEL, X], [X]),
    ("normalization_add_relu", BATCH.format("true"), [X, X, *CHANNEL], [X, "4xi32", "3xf32", "3xf32"]),
    ("normalization_add_relu", BATCH.format("false"), [X, *CHANNEL], [X, "4xi32"]),
    ("dropout", "rate = 1.0 : f32", ["2x3xf32"], ["2x3xf32", "2x3xi8"]),
    ("dropout", "rate = 1.0 : f32", ["2x3xf32", "2x3xf32"], ["2x3xf32", "2x3xi1"]),
    ("random_mask_like", "rate = 1.0 : f32, seed = 1 : si64", ["2x3xf32"], ["2x3xf32"]),
    ("random_mask_like", "rate = 1.0 : f32, seed = 1 : si64", ["2x3xf32"], ["2x3xi8"]),
    ("fused_glu", 'activation = "gelu"', ["2x3x4xf32", "6x4xf32", "6xf32"], ["2x3x3xf32", "2x3x6xf32"]),
    ("fused_glu", 'activation = "none"', ["2x3x4xf32", "6x4xf32"], ["2x3x3xf32", "2x3x6xf32"]),
    ("fused_glu", 'activation = "silu", operand_segment_sizes = array<i32: 1, 1, 1, 1, 1>', ["3x4xf32", "6x4xf32", "6xf32", "6x4xf32", "6xf32"], ["3x6xf32"] * 3),
    ("fused_multi_head_attention_inference", HEADS.format("none"), ["2x3x8xf32", "2x5x8xf32", "2x5x8xf32"], ["2x3x8xf32"]),
    ("fused_multi_head_attention_inference", HEADS.format("causal_from_bottom_right") + ', query_layout = "BMHK", output_layout = "MB(HK)"', ["2x3x2x4xf32", "2x5x8xf32", "2x5x8xf32"], ["3x2x8xf32"]),
    ("fused_multi_head_attention_inference", "num_heads = 2 : si64, causal = true", ["2x3x8xf32", "2x3x8xf32", "2x3x8xf32"], ["2x3x8xf32"]),
    ("fused_multi_head_attention_inference", HEADS.format("none") + ', key_layout = "BHMK"', ["2x3x8xf32", "2x2x5x4xf32", "2x5x8xf32", "2x1x3x5xf32"], ["2x3x8xf32"]),
]  # fmt: skip


def inputs_of(module, seed=0):
    random = np.random.default_rng(seed)
    arrays = []
    for parameter in module.entry.parameters:
        assert isinstance(parameter.type, TensorType)
        element = parameter.type.dtype.numpy
        values = random.uniform(0.1, 2, parameter.type.dims) * (1 if element.kind == "f" else 3)
        arrays.append(values.astype(element))
    return arrays


@pytest.mark.parametrize(("op", "attributes", "operands", "results"), CASES, ids=[case[0] for case in CASES])
def test_an_op_computes_what_the_reference_does_with_xla_and_with_numpy(op, attributes, operands, results):
    module = oneflow.parse(job(op, attributes, operands, results))
    assert verify(module).level is Level.HLO
    lowered = oneflow.lower(module)
    assert verify(lowered).level is Level.HLO
    arrays = inputs_of(module)
    added = [parameter.type for parameter in lowered.entry.parameters[len(arrays) :]]
    masks = [np.ones(mask.dims, mask.dtype.numpy) for mask in added]  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    expected = computed(module.entry.nodes[len(arrays)], tuple(arrays))[: len(results)]
    for outputs in (runtime.run(lowered, [*arrays, *masks]).outputs, evaluate(module, arrays)):
        assert [output.dtype for output in outputs] == [output.dtype for output in expected]
        for ours, theirs in zip(expected, outputs, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("op", "attributes", "operands", "results"), CASES, ids=[case[0] for case in CASES])
def test_the_written_type_is_the_inferred_one(op, attributes, operands, results):
    node = oneflow.parse(job(op, attributes, operands, results)).entry.nodes[len(operands)]
    assert infer_type(node.op, [operand.type for operand in node.operands], node.attributes, node.type) is node.type  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]


def test_every_op_is_covered():
    assert {f"oneflow.{case[0]}" for case in CASES} | {"oneflow.variable"} == set(oneflow.OPS) == set(TABLE)


DROPOUT = """
oneflow.job @j(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.bias_add"(%a, %b) {axis = 1 : si32} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %out, %mask = "oneflow.dropout"(%0) {rate = RATE : f32} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi8>)
  oneflow.return %out : tensor<2x3xf32>
}"""
FUSED = """
oneflow.job @j(%a: tensor<2x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = "oneflow.random_mask_like"(%a) {rate = RATE : f32, seed = 3 : si64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "oneflow.fused_bias_add_mask_scale"(%a, %b, %0) {axis = 1 : si32, scale = SCALE : f32} : (tensor<2x3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  oneflow.return %1 : tensor<2x3xf32>
}"""


@pytest.mark.parametrize(("rate", "scale"), [("0.75", "4.0"), ("0.0", "1.0"), ("1.0", "1.0")])
def test_dropout_and_its_fusion_agree_under_one_mask(rate, scale):
    a, b = np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([1, 2, 3], np.float32)
    mask = np.array([[1, 0, 1], [0, 1, 1]], np.int8)
    unfused = oneflow.lower(oneflow.parse(DROPOUT.replace("RATE", rate)))
    fused = oneflow.lower(oneflow.parse(FUSED.replace("RATE", rate).replace("SCALE", scale)))
    (one,) = runtime.run(unfused, [a, b, mask]).outputs
    (other,) = runtime.run(fused, [a, b, mask.astype(np.float32)]).outputs
    expected = (a + b) * mask * float(scale) if rate != "1.0" else np.zeros((2, 3))
    np.testing.assert_array_equal(one, expected)
    np.testing.assert_array_equal(one, other)


def test_variables_are_given_to_the_program():
    module = oneflow.parse("""
    oneflow.job @j(%a: tensor<2xf32>) -> tensor<2xf32> {
      %w = "oneflow.variable"() {data_type = 2 : i32, shape = [2 : si64], op_name = "weight", parallel = #sbp.parallel<[] -> [[#sbp.B]]>} : () -> tensor<2xf32>
      %0 = "oneflow.multiply"(%a, %w) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
      oneflow.return %0 : tensor<2xf32>
    }""")
    lowered = oneflow.lower(module)
    assert [parameter.name for parameter in lowered.entry.parameters] == ["a", "weight"]
    assert runtime.run(lowered, [np.array([2, 3], np.float32), np.array([5, 7], np.float32)]).outputs[0].tolist() == [
        10,
        21,
    ]


def test_a_random_mask_is_not_invented():
    with pytest.raises(HloomError, match=r"cannot evaluate oneflow.dropout: its mask is random"):
        evaluate(oneflow.parse(DROPOUT.replace("RATE", "0.5")), [np.zeros((2, 3), "f4"), np.zeros(3, "f4")])


def test_an_op_without_a_lowering_is_named():
    with pytest.raises(Unsupported, match=re.escape("0: oneflow.unheard_of has no lowering to HLO")):
        oneflow.lower(oneflow.parse(job("unheard_of", "", ["2xf32"], ["2xf32"]).replace("%r0", "%0")))


REFUSED = [
    ("bias_add", "axis = 3 : si32", ["2x3xf32", "3xf32"], "axis=3 is not one of the 2 dimensions of f32[2,3]"),
    ("bias_add", "axis = 0 : si32", ["2x3xf32", "3xf32"], "the bias must be f32[2] for axis=0 of f32[2,3], not f32[3]"),
    ("broadcast_add", "", ["2x3xf32", "2xf32"], "f32[2,3] and f32[2] cannot be broadcast: 3 meets 2"),
    ("add_n2", "", ["2xf32", "3xf32"], "the operands must be of one type, but are f32[2] and f32[3]"),
    ("cast", "dtype = 8 : i32", ["2xf32"], "8 is not data type that can be computed with"),
    ("reshape", "shape = [5 : si64]", ["2x3xf32"], "f32[2,3] cannot become [5]: the elements are not as many"),
    ("transpose", "perm = [0 : si32, 0 : si32]", ["2x3xf32"], "perm=[0, 0] is not an order of the 2 dimensions of f32[2,3]"),
    ("narrow", "dim = 0 : si64, start = 1 : si64, length = 2 : si64", ["2xf32"], "start=1, length=2 reach out of dimension 0 of f32[2]"),
    ("tril", "", ["2xf32"], "a triangle needs two dimensions, f32[2] has 1"),
    ("matmul", "", ["2x3xf32", "2x3xf32"], "the contracted dimensions of f32[2,3] and f32[2,3] are 3 and 2"),
    ("softmax", "", ["f32"], "softmax needs a dimension"),
    ("fused_matmul_bias", "", ["2x3xf32", "5x3xf32", "4xf32"], "f32[2,3], weights f32[5,3] and bias f32[4] do not belong together"),
    ("fused_glu", "", ["2x3xf32", "5x3xf32"], "the weights f32[5,3] cannot be split into halves"),
    ("conv2d", conv(groups=2), ["2x3x6x7xf32", "4x3x2x2xf32"], "a kernel f32[4,3,2,2] in 2 groups does not fit f32[2,3,6,7]"),
    ("normalization_infer", "axis = 1 : si32", [X, "3xf32", "3xf32", "2xf32", "3xf32"], "gamma must have the dimensions [3], but is f32[2]"),
    ("fused_multi_head_attention_inference", 'query_head_size = 4 : si64, key_layout = "HKMB"', ["2x3x8xf32"] * 3, "the layout 'HKMB' is not understood: only BM(HK), MB(HK), BMHK, MBHK, BHMK are"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "operands", "message"), REFUSED, ids=[case[3][:30] for case in REFUSED])
def test_what_does_not_go_together_is_refused(op, attributes, operands, message):
    node = oneflow.parse(job(op, attributes, operands, ["9xf32"])).entry.nodes[len(operands)]
    with pytest.raises(TypeProblem, match=re.escape(message)):
        infer_type(node.op, [operand.type for operand in node.operands], node.attributes, node.type)  # pyright: ignore[reportArgumentType, reportAttributeAccessIssue]
