"""Costs of custom calls, in texts that compilers wrote, cut to the call.

Covers `kinds.py`, `backend_config.py`, `products.py`, `convolutions.py`, `attention.py`, `normalization.py`,
`factorizations.py`, `kernels.py` and `markers.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

import hloom
from hloom.analysis import CostReport, cost, kind_of, roofline
from hloom.analysis.rules.custom_calls import KINDS
from hloom.analysis.rules.custom_calls.backend_config import Uncountable, read_config
from hloom.analysis.rules.custom_calls.factorizations import lu_flops, qr_flops, reflector_flops, svd_flops
from scripts.make_custom_call_table import PAGE, page


def report_of(call: str, *operands: str) -> CostReport:
    """The cost of a program of one custom call, whose operands are parameters of the given types."""
    parameters = [f"p{number} = {given} parameter({number})" for number, given in enumerate(operands)]
    names = ", ".join(f"p{number}" for number in range(len(operands)))
    lines = "\n  ".join([*parameters, f"ROOT c = {call.replace('()', f'({names})', 1)}"])
    return cost(hloom.parse(f"ENTRY e {{\n  {lines}\n}}"))


def gemm(
    config: Mapping[str, object] | str, target: str = "__cublas$gemm", result: str = "(f32[4,16], s8[4096])", *more: str
) -> CostReport:
    text = config if isinstance(config, str) else json.dumps(config)
    call = f'{result} custom-call(), custom_call_target="{target}", backend_config={text}'
    return report_of(call, "f32[4,8]", "f32[8,16]", *more)


def dims(left: str = "1", right: str = "0", batch: tuple[str, ...] = ()) -> dict[str, list[str]]:
    return {
        "lhs_contracting_dimensions": [left],
        "rhs_contracting_dimensions": [right],
        "lhs_batch_dimensions": list(batch),
        "rhs_batch_dimensions": list(batch),
    }


PRODUCT = 2 * 4 * 8 * 16
MOVED = 4 * (4 * 8 + 8 * 16 + 4 * 16)
NEW = {"gemm_backend_config": {"alpha_real": 1, "beta": 0, "dot_dimension_numbers": dims(), "epilogue": "DEFAULT"}}


def test_a_product_of_cublas_and_its_scratch():
    report = gemm(NEW)
    assert (report.total.flops, report.total.bytes_accessed) == (PRODUCT, MOVED)
    assert (report.qualifier, report.omissions, report.uncounted) == ("", "", ())
    [call] = report.custom_calls
    assert (call.target, call.name, call.scratch_bytes) == ("__cublas$gemm", "cuBLAS matrix product", 4096)
    assert report.total_once.flops == -1  # as XLA counts it


def test_a_configuration_of_2022():
    old = r"""\"alpha_real\":1,\"alpha_imag\":0,\"beta\":0,\"dot_dimension_numbers\":{\"lhs_contracting_dimensions\":[\"1\"],
        \"rhs_contracting_dimensions\":[\"0\"],\"lhs_batch_dimensions\":[],\"rhs_batch_dimensions\":[]},
        \"precision_config\":{\"operand_precision\":[\"DEFAULT\",\"DEFAULT\"]},\"epilogue\":\"BIAS\",
        \"selected_algorithm\":\"-1\"""".replace("\n", "").replace("  ", "")
    assert gemm(f'"{{{old}}}"', "__cublas$lt$matmul").total.flops == PRODUCT + 64


@pytest.mark.parametrize(
    ("settings", "flops", "functions"),
    [
        ({"epilogue": "BIAS_GELU"}, 64 * 9, 64),
        ({"epilogue": "RELU_AUX"}, 64, 0),
        ({"beta": 1}, 64, 0),
        ({"alpha_real": 0.5, "beta": 2}, 3 * 64, 0),
        ({"epilogue": "NEW_THING", "beta": "many"}, 0, 0),
    ],
)
def test_what_is_added_to_a_product(settings: dict[str, object], flops: int, functions: int):
    total = gemm({"gemm_backend_config": {**NEW["gemm_backend_config"], **settings}}, "__cublas$lt$matmul").total
    assert (total.flops, total.transcendentals) == (PRODUCT + flops, functions)


def test_products_of_batches_and_of_complex_numbers():
    batched = report_of(
        '(bf16[3,4,16], s8[64]) custom-call(), custom_call_target="__cublas$gemm", backend_config='
        + json.dumps({"gemm_backend_config": {"dot_dimension_numbers": dims("2", "2", ("0",))}}),
        "bf16[3,4,8]",
        "bf16[3,16,8]",
    )
    assert batched.total.flops == 3 * PRODUCT
    numbers = report_of(
        'c64[4,16] custom-call(), custom_call_target="__cublas$gemm", backend_config=' + json.dumps(NEW),
        "c64[4,8]",
        "c64[8,16]",
    )
    assert numbers.total.flops == 4 * PRODUCT


def test_a_grouped_product():
    config = {
        "grouped_gemm_backend_config": {
            "gemm_backend_config": {"alpha_real": 1, "beta": 0},
            "ragged_dot_dimension_numbers": {
                "dot_dimension_numbers": dims("1", "1"),
                "lhs_ragged_dimensions": ["0"],
                "rhs_group_dimensions": ["0"],
            },
        }
    }
    text = json.dumps(config)
    call = f'(f16[64,8], s8[784]) custom-call(), custom_call_target="__cublas$lt$groupedMatmul", backend_config={text}'
    report = report_of(call, "f16[64,9]", "f16[2,9,8]", "s32[2]")
    assert report.total.flops == 2 * 64 * 9 * 8
    assert report.total.bytes_accessed == 2 * (64 * 9 + 2 * 9 * 8 + 64 * 8) + 8


HOSTILE = [
    ('"not json"', "its configuration has no dot_dimension_numbers"),
    ("{}", "its configuration has no dot_dimension_numbers"),
    ('{"gemm_backend_config":[1]}', "its configuration has no dot_dimension_numbers"),
    ({"gemm_backend_config": {"dot_dimension_numbers": 7}}, "its configuration has no dot_dimension_numbers"),
    ({"dot_dimension_numbers": dims("9")}, "its configuration names dimensions that its operands lack"),
    ({"dot_dimension_numbers": dims("1", "1")}, "its configuration does not fit its operands"),
    ({"dot_dimension_numbers": dims("0", "1")}, "its configuration does not fit its operands"),
    ({"dot_dimension_numbers": {}}, "its result does not fit its operands"),
    ({"dot_dimension_numbers": dims("-1")}, "lhs_contracting_dimensions of its configuration is not a count"),
    (
        {"dot_dimension_numbers": {"lhs_contracting_dimensions": "1"}},
        "lhs_contracting_dimensions of its configuration is not a list",
    ),
    (
        {"dot_dimension_numbers": {"lhs_contracting_dimensions": [9 * 10**40]}},
        "lhs_contracting_dimensions of its configuration is not a count",
    ),
    (
        {"dot_dimension_numbers": {"lhs_contracting_dimensions": [None, {}]}},
        "lhs_contracting_dimensions of its configuration is not a count",
    ),
]


@pytest.mark.parametrize(("config", "problem"), HOSTILE)
def test_a_configuration_that_says_nothing_leaves_the_call_uncounted(config: dict[str, object] | str, problem: str):
    report = gemm(config)
    [call] = report.custom_calls
    assert (report.total.flops, report.total.bytes_accessed) == (0, MOVED)
    assert (call.problem, call.uncounted, report.qualifier) == (problem, 1, "at least ")
    assert report.omissions == "without 1 instruction of unknown cost: 1 __cublas$gemm"
    assert "at least" in repr(report)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "{" + "9" * 10_000 + "}", '{"a": ' + "9" * 9999 + "}"])
def test_endless_configurations_are_read(text: str):
    assert read_config(text).values == {}


def test_missing_operands_and_other_types_leave_the_call_uncounted():
    for target in ("__cublas$gemm", "__cudnn$convForward", "__cudnn$fmhaSoftmax", "lapack_spotrf_ffi", "te_gemm_ffi"):
        for operands in ((), ("token[]",), ("(f32[2], f32[2])", "f32[2]"), ("f32[2,2]",)):
            report = report_of(f'f32[] custom-call(), custom_call_target="{target}"', *operands)
            assert report.uncounted == ("c",) or target == "lapack_spotrf_ffi"


def test_an_unbounded_dimension_leaves_the_call_uncounted():
    call = f'f32[?,16] custom-call(), custom_call_target="__cublas$gemm", backend_config={json.dumps(NEW)}'
    [line] = report_of(call, "f32[?,8]", "f32[8,16]").custom_calls
    assert line.problem == "a dimension has no bound"


def test_targets_of_any_length_are_looked_up():
    assert kind_of("__cublas$gemm" * 100_000) is None and kind_of("") is None
    assert kind_of("te_" + "a_" * 250) is None


CONVOLUTION = (
    "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f, "
    'custom_call_target="__cudnn$conv%s", backend_config={"operation_queue_id":"0","cudnn_conv_backend_config":'
    '{"activation_mode":"%s","conv_result_scale":1,"side_input_scale":%s,"leakyrelu_alpha":0}}'
)
POSITIONS = (3 * 8 - 2) ** 2
"""Products in a 3x3 window with padding 1 over an 8x8 image that meet no padding."""


@pytest.mark.parametrize(
    ("kind", "result", "operands"),
    [
        ("Forward", "f32[2,8,8,6]", ("f32[2,8,8,4]", "f32[6,3,3,4]")),
        ("BackwardInput", "f32[2,8,8,4]", ("f32[2,8,8,6]", "f32[6,3,3,4]")),
        ("BackwardFilter", "f32[6,3,3,4]", ("f32[2,8,8,4]", "f32[2,8,8,6]")),
    ],
)
def test_convolutions_of_cudnn(kind: str, result: str, operands: tuple[str, ...]):
    report = report_of(f"({result}, u8[512]) custom-call(), {CONVOLUTION % (kind, 'kNone', 0)}", *operands)
    assert report.total.flops == 2 * 2 * 4 * 6 * POSITIONS
    assert report.total.bytes_accessed == 4 * (2 * 64 * 4 + 6 * 9 * 4 + 2 * 64 * 6)
    direct = report_of(
        "f32[2,8,8,6] convolution(), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f",
        "f32[2,8,8,4]",
        "f32[6,3,3,4]",
    )
    assert report.total.flops == direct.total.flops


def test_a_convolution_with_bias_side_input_and_activation():
    config = CONVOLUTION % ("BiasActivationForward", "kRelu", 0.5)
    operands = ("f32[2,8,8,4]", "f32[6,3,3,4]", "f32[6]", "f32[2,8,8,6]")
    report = report_of(f"(f32[2,8,8,6], u8[0]) custom-call(), {config}", *operands)
    assert report.total.flops == 2 * 2 * 4 * 6 * POSITIONS + 4 * 2 * 64 * 6


def test_a_convolution_of_vectors_of_features():
    report = report_of(
        "(s8[2,1,8,8,32], u8[0]) custom-call(), window={size=1x1}, dim_labels=bf01?_oi01?->bf01?, "
        'custom_call_target="__cudnn$convForward"',
        "s8[2,2,8,8,32]",
        "s8[32,2,1,1,32]",
    )
    assert report.total.flops == 2 * 2 * 64 * 64 * 32


@pytest.mark.parametrize(
    ("settings", "flops", "problem"),
    [
        ({"feature_groups": "1"}, 2 * 2 * 64 * 6 * 9 * 4, ""),
        ({"feature_groups": 1, "fusions": {"ops": ["BIAS", "RELU"]}}, 2 * 2 * 64 * 6 * 9 * 4 + 2 * 2 * 64 * 6, ""),
        ({"feature_groups": 2}, 0, "its configuration does not fit its operands"),
        ({"kernel": {"filter": {"output_feature_dim": 17}}}, 0, "its operands or attributes are not those of its target"),
        (None, 0, "its configuration has no onednn_conv_config"),
    ],
)
def test_a_convolution_of_onednn(settings: dict[str, object] | None, flops: int, problem: str):
    labels = {"data": {"feature_dim": "3"}}
    known = {"input": labels, "output": labels, "kernel": {"filter": {"input_feature_dim": 2, "output_feature_dim": 3}}}
    config = {} if settings is None else {"onednn_conv_config": {**known, **settings}}
    call = f'custom_call_target="__onednn$convolution", backend_config={json.dumps(config)}'
    report = report_of(f"f32[2,8,8,6] custom-call(), {call}", "f32[2,8,8,4]", "f32[3,3,4,6]")
    assert (report.total.flops, report.custom_calls[0].problem) == (flops, problem)


def test_a_convolution_without_labels_is_not_counted():
    operands = ("f32[2,8,8,4]", "f32[6,3,3,4]")
    [call] = report_of('f32[2,8,8,6] custom-call(), custom_call_target="__cudnn$convForward"', *operands).custom_calls
    assert call.problem == "it has no dim_labels"


def attention(mask: str, window: int, kind: str, result: str, *operands: str) -> CostReport:
    config = {
        "cudnn_fmha_backend_config": {
            "fmha_scale": 0.125,
            "intermediate_tensor_shape": {"element_type": "BF16", "dimensions": ["2", "3", "16", "16"]},
            "mask_type": mask,
            "sliding_window_length": window,
        }
    }
    text = f'custom_call_target="__cudnn$fmha{kind}", backend_config={json.dumps(config)}'
    return report_of(f"({result}, u8[128]) custom-call(), {text}", *operands)


HEADS, KEYS = "bf16[2,16,3,8]", "bf16[2,16,1,8]"


@pytest.mark.parametrize(
    ("mask", "window", "kept"),
    [("NO_MASK", 0, 256), ("PADDING", 0, 256), ("CAUSAL", 0, 136), ("PADDING_CAUSAL", 4, 10 + 12 * 4)],
)
def test_attention_counts_the_pairs_that_its_mask_keeps(mask: str, window: int, kept: int):
    total = attention(mask, window, "ScaleBiasSoftmax", "bf16[2,3,16,8]", HEADS, KEYS, KEYS).total
    assert (total.flops, total.transcendentals) == (6 * kept * (2 * 16 + 5), 6 * kept)
    assert total.bytes_accessed == 2 * (2 * 2 * 16 * 3 * 8 + 2 * 2 * 16 * 8)


def test_the_gradient_of_attention():
    gradients = "bf16[2,3,16,8], bf16[2,3,16,8], bf16[2,3,16,8]"
    flash = attention("NO_MASK", 0, "SoftmaxBackward", gradients, HEADS, HEADS, HEADS, "f32[2,3,16]", HEADS, HEADS)
    assert (flash.total.flops, flash.total.transcendentals) == (6 * 256 * (2 * 40 + 7), 6 * 256)
    stored = attention("NO_MASK", 0, "SoftmaxBackward", gradients, HEADS, HEADS, HEADS, "bf16[2,3,16,16]", HEADS)
    assert (stored.total.flops, stored.total.transcendentals) == (6 * 256 * (2 * 32 + 5), 0)


def test_attention_of_transformer_engine():
    settings = (
        "input_batch = 2 : i64, attn_heads = 3 : i64, num_gqa_groups = 3 : i64, q_max_seqlen = 16 : i64, "
        "kv_max_seqlen = 16 : i64, head_dim = 8 : i64, mask_type = 2 : i64, window_size_left = -1 : i64"
    )
    call = f'custom_call_target="te_fused_attn_forward_ffi", api_version=API_VERSION_TYPED_FFI, backend_config={{{settings}}}'
    report = report_of(f"({HEADS}, f32[2,3,16,1], u8[64]) custom-call(), {call}", "bf16[2,16,3,3,8]")
    assert (report.total.flops, report.qualifier) == (6 * 136 * (2 * 16 + 5), "")


OTHERS = [
    ("te_gemm_v2_ffi", "(bf16[64,16], u8[8])", ("bf16[64,32]", "f32[1]", "bf16[32,16]", "f32[1]"), "", 2 * 64 * 32 * 16),
    ("__onednn$matmul", "f32[3,4,16]", ("f32[3,4,8]", "f32[3,8,16]"), '{"onednn_matmul_config":{}}', 3 * PRODUCT),
    (
        "__onednn$matmul", "f32[4,16]", ("f32[4,8]", "f32[8,16]", "f32[16]"),
        '{"onednn_matmul_config":{"fusions":{"ops":["BIAS","RELU"]}}}', PRODUCT + 2 * 64,
    ),
    ("__cudnn$norm", "(f32[64,32,1,1], u8[9])", ("f32[64,32,1,1]", "f32[32,1,1,1]"), "", 7 * 2048),
    ("__onednn$layernorm", "f32[64,32]", ("f32[64,32]", "f32[32]", "f32[32]"), "", 7 * 2048),
    ("te_norm_backward_ffi", "(f32[64,32], u8[9])", ("f32[64,32]",), "", 14 * 2048),
    ("te_scaled_masked_softmax_forward_ffi", "bf16[64,32]", ("bf16[64,32]",), "", 5 * 2048),
    ("te_dact_dbias_quantize_ffi", "bf16[64,32]", ("bf16[64,32]",), "", 3 * 2048),
    ("te_dbias_quantize_ffi", "(f8e4m3fn[64,32], u8[4])", ("bf16[64,32]",), "", 2 * 2048),
    ("cusolver_potrf_ffi", "(f32[3,64,64], s32[3])", ("f32[3,64,64]",), "{lower = true}", 3 * 64**3 // 3),
    ("lapack_cpotrf_ffi", "(c64[6,6], s32[])", ("c64[6,6]",), "{uplo = 76 : ui8}", 4 * 6**3 // 3),
    ("lapack_spotrf", "(f32[6,6], s32[])", ("s32[]", "s32[]", "s32[]", "f32[6,6]"), "", 6**3 // 3),
    ("Cholesky", "f32[6,6]", ("f32[6,6]",), "", 6**3 // 3),
    ("hipsolver_getrf_ffi", "(f32[9,6], s32[6], s32[])", ("f32[9,6]",), "{}", round(lu_flops(9, 6))),
    ("cublas_getrf_batched_ffi", "(f32[2,6,6], s32[2,6], s32[2])", ("f32[2,6,6]",), "{}", 2 * 144),
    ("cusolver_geqrf_ffi", "(f32[9,6], f32[6])", ("f32[9,6]",), "{}", round(qr_flops(9, 6))),
    ("lapack_sorgqr_ffi", "f32[9,6]", ("f32[9,6]", "f32[6]"), "{}", round(reflector_flops(9, 6, 6))),
    ("cusolver_ormqr_ffi", "f32[9,5]", ("f32[9,6]", "f32[6]", "f32[9,5]"), "{left = true}", 4 * 9 * 5 * 6 - 2 * 5 * 36),
    ("lapack_strsm_ffi", "f32[6,5]", ("f32[6,6]", "f32[6,5]"), "{side = 76 : ui8}", 36 * 5),
    ("__cublas$triangularSolve", "(f32[6,5], s8[0])", ("f32[6,6]", "f32[6,5]"), '{"left_side":true}', 36 * 5),
    (
        "cusolver_gesvdj_ffi", "(f32[9,6], f32[6], f32[9,6], f32[6,6], s32[])", ("f32[9,6]",),
        "{compute_uv = true, full_matrices = false}", 14 * 9 * 36 + 8 * 216,
    ),
    ("lapack_sgesdd_ffi", "(f32[9,6], f32[6], s32[])", ("f32[9,6]",), "{mode = 78 : ui8}", 4 * 9 * 36 - 288),
    ("lapack_sgesdd_ffi", "(f32[9,6], f32[6], s32[])", ("f32[9,6]",), "{mode = 65 : ui8}", round(svd_flops(9, 6, 9))),
    ("lapack_ssyevd_ffi", "(f32[6,6], f32[6], s32[])", ("f32[6,6]",), "{mode = 86 : ui8}", 9 * 216),
    ("lapack_ssyevd_ffi", "(f32[6,6], f32[6], s32[])", ("f32[6,6]",), "{mode = 78 : ui8}", 288),
    ("lapack_sgeev_ffi", "f32[6,6]", ("f32[6,6]",), "{compute_left = 78 : ui8, compute_right = 86 : ui8}", 25 * 216),
    ("cusolver_geev_ffi", "f32[6,6]", ("f32[6,6]",), "{left = false, right = false}", 10 * 216),
    ("lapack_sgees_ffi", "f32[6,6]", ("f32[6,6]",), "{mode = 78 : ui8, sort = 78 : ui8}", 10 * 216),
    ("lapack_sgehrd_ffi", "f32[6,6]", ("f32[6,6]",), "{}", 720),
    ("cusolver_sytrd_ffi", "f32[6,6]", ("f32[6,6]",), "{lower = true}", 288),
    ("lapack_strsyl_ffi", "f32[6,5]", ("f32[6,6]", "f32[5,5]", "f32[6,5]"), "{}", 30 * 11),
    ("cusparse_gtsv2_ffi", "f32[6,5]", ("f32[6]", "f32[6]", "f32[6]", "f32[6,5]"), "{}", 18 + 150),
    ("cusparse_csr_matvec_ffi", "f32[6]", ("f32[20]", "s32[20]", "s32[7]", "f32[5]"), "{}", 40),
    ("__gpu$TopK", "(f32[16,8], s32[16,8])", ("f32[16,4096]",), "", 16 * 4096 * 3),
    ("PartialReduce", "(f32[16,256], s32[16,256])", ("f32[16,4096]", "s32[16,4096]", "f32[]", "s32[]"), "", 16 * 4096),
    ("cu_threefry2x32_ffi", "(u32[50], u32[50])", ("u32[50]", "u32[50]", "u32[50]", "u32[50]"), "", 117 * 50),
]  # fmt: skip


@pytest.mark.parametrize(("target", "result", "operands", "config", "flops"), OTHERS)
def test_other_libraries(target: str, result: str, operands: tuple[str, ...], config: str, flops: int):
    text = f", backend_config={config}" if config else ""
    report = report_of(f'{result} custom-call(), custom_call_target="{target}"{text}', *operands)
    assert (report.total.flops, report.qualifier) == (flops, "")


def test_kernels_of_pallas_cost_what_their_author_says():
    estimate = '"cost_estimate":{"flops":"1080033280","transcendentals":2097152,"bytes_accessed":"77"}'
    call = 'f32[8] custom-call(), custom_call_target="tpu_custom_call", backend_config='
    report = report_of(f'{call}{{"custom_call_config":{{"body":"TUzv",{estimate}}},"retry_config":{{}}}}', "f32[8]")
    assert report.total.to_json() == {"flops": 1080033280, "transcendentals": 2097152, "bytes_accessed": 77}
    bare = report_of(f'{call}{{"custom_call_config":{{"body":"TUzv"}}}}', "f32[8]")
    assert (bare.custom_calls[0].problem, bare.total.bytes_accessed) == ("its configuration has no cost_estimate", 64)
    huge = report_of(f'{call}{{"custom_call_config":{{"cost_estimate":{{"flops":"{"9" * 30}"}}}}}}', "f32[8]")
    assert huge.custom_calls[0].problem == "flops of its configuration is not a count"


def test_a_radix_sort_moves_keys_and_values_once_for_every_byte_of_a_key():
    call = '(u32[1000], f32[1000], u8[4096]) custom-call(), custom_call_target="__cub$DeviceRadixSortUnassignedKeysSize"'
    report = report_of(call, "u32[1000]", "f32[1000]")
    assert (report.total.flops, report.total.bytes_accessed) == (0, 4000 + 2 * 4 * 8000)


@pytest.mark.parametrize(
    "target",
    ["Sharding", "SPMDFullToShardShape", "xla.sdy.GlobalToLocalShape", "annotate_device_placement", "AllocateBuffer",
     "ConcatBitcast", "AssumeGatherIndicesInBound", "AsyncCollectiveStart", "MoveToHost", "LayoutConstraint"],
)  # fmt: skip
def test_marks_cost_nothing(target: str):
    report = report_of(f'f32[8] custom-call(), custom_call_target="{target}"', "f32[8]")
    assert (report.total.flops, report.total.bytes_accessed, report.uncounted) == (0, 0, ())


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("xla_ffi_python_cpu_callback", "Python callback"),
        ("__gpu$xla.gpu.triton", "Triton kernel"),
        ("triton_kernel_call_ffi", "Triton kernel"),
        ("te_grouped_gemm_ffi", "Transformer Engine grouped matrix product"),
        ("mine", "mine"),
    ],
)
def test_what_cannot_be_counted_makes_the_total_at_least(target: str, name: str):
    report = report_of(f'f32[8] custom-call(), custom_call_target="{target}"', "f32[8]")
    [call] = report.custom_calls
    assert (call.name, call.uncounted, report.uncounted_kinds) == (name, 1, {target: 1})
    record = report.to_json()
    assert record["is_lower_bound"] and record["uncounted_kinds"] == {target: 1}
    assert record["custom_calls"][0]["name"] == name and record["custom_calls"][0]["bytes_accessed"] == 64
    times = roofline(report.module, "h100")
    assert "at least" in repr(times) and times.to_json()["uncounted_kinds"] == {target: 1}


def test_every_kind_of_a_target_has_its_line():
    calls = "".join(
        f'\n  c{number} = f32[8] custom-call(x), custom_call_target="{target}"'
        for number, target in enumerate(("a", "b", "a", "c", "d", "e", "f"))
    )
    report = cost(hloom.parse(f"ENTRY e {{ x = f32[8] parameter(0){calls} ROOT r = f32[8] add(c0, c1) }}"))
    assert report.omissions == "without 7 instructions of unknown cost: 2 a, 1 b, 1 c, 1 d, 1 e, 1 others"


def test_a_product_runs_at_the_matrix_rate_of_its_operands():
    def seconds(dtype: str, target: str, precision: str = "DEFAULT") -> float:
        config = {
            "gemm_backend_config": {
                "dot_dimension_numbers": dims(),
                "precision_config": {"operand_precision": [precision, precision]},
            }
        }
        call = f'(f32[4096,4096], s8[64]) custom-call(), custom_call_target="{target}", backend_config={json.dumps(config)}'
        report = report_of(call, f"{dtype}[4096,4096]", f"{dtype}[4096,4096]", "f32[4096,4096]")
        [timing] = roofline(report.module, "h100").timings
        return timing.compute

    def dot(dtype: str) -> float:
        operands = (f"{dtype}[4096,4096]",) * 2
        contracting = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
        [timing] = roofline(report_of(f"f32[4096,4096] dot(), {contracting}", *operands).module, "h100").timings
        return timing.compute

    assert seconds("bf16", "__cublas$gemm") == dot("bf16")
    assert seconds("f32", "__cublas$lt$matmul") == dot("f32")
    assert seconds("f8e4m3fn", "__cublas$lt$matmul$f8") == dot("f8e4m3fn") < 0.6 * dot("bf16")
    assert seconds("f32", "__cublas$gemm", "HIGHEST") > dot("f32")


def test_calls_with_computations_are_told_apart():
    text = """
    less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT l = pred[] compare(a, b), direction=LT }
    ENTRY e {
      x = f32[16,64] parameter(0)
      t = (f32[16,8], s32[16,8]) custom-call(x), custom_call_target="TopK", called_computations={less}
      u = (f32[16,8], s32[16,8]) custom-call(x), custom_call_target="mine", called_computations={less}
      ROOT r = ((f32[16,8], s32[16,8]), (f32[16,8], s32[16,8])) tuple(t, u)
    }
    """
    report = cost(hloom.parse(text))
    assert (report.uncounted, report.total.flops) == (("u",), 16 * 64 * 3)


def test_a_fusion_of_cudnn_costs_what_its_computation_does():
    text = """
    fused {
      a = bf16[64,32] parameter(0)
      b = bf16[32,16] parameter(1)
      d = bf16[64,16] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT n = bf16[64,16] negate(d)
    }
    ENTRY e {
      x = bf16[64,32] parameter(0)
      y = bf16[32,16] parameter(1)
      ROOT c = bf16[64,16] custom-call(x, y), CALLED
    }
    """
    named = 'custom_call_target="__cudnn$fusion"'
    report = cost(hloom.parse(text.replace("CALLED", f"{named}, called_computations={{fused}}")))
    assert (report.total.flops, report.uncounted) == (2 * 64 * 32 * 16 + 64 * 16, ())
    assert report.total.bytes_accessed == 2 * (64 * 32 + 32 * 16 + 64 * 16)
    assert sum(row.total.flops for row in report.per_node) == report.total.flops
    [timing] = roofline(report.module, "h100").timings
    assert timing.cost == report.total and 0 < timing.compute < 1e-6
    [bare] = cost(hloom.parse(text.replace("CALLED", named))).custom_calls
    assert (bare.problem, bare.uncounted) == ("it refers to no computation", 1)


def test_a_block_scaled_product():
    operands = ("f8e4m3fn[2,64,32]", "f8e4m3fn[2,16,32]", "f8e8m0fnu[2,64,1]", "f8e8m0fnu[2,16,1]")
    report = report_of('f32[2,64,16] custom-call(), custom_call_target="__op$block_scaled_dot"', *operands)
    assert report.total.flops == 2 * (2 * 64 * 32 * 16 + 64 * 32 + 16 * 32)


def test_configurations_are_read_in_all_forms():
    assert read_config('{"a":{"b":"3"}}').part("a").count("b") == 3
    assert read_config('{"b":3}').part("a").count("b") == 3
    ffi = read_config('{lower = true, mode = 83 : ui8, side = "L", ir = "ML\\EF\\"R", eps = 1.0e-5 : f32}')
    assert (ffi.flag("lower"), ffi.count("mode"), ffi.text("side"), ffi.number("eps", 0)) == (True, 83, "L", 1e-5)
    assert read_config("1,1,100,1e-6").values == {} and read_config(None).values == {}
    with pytest.raises(Uncountable, match="its configuration has no k"):
        read_config("{}").count("k")


def test_every_row_matches_what_it_says_and_has_a_reason():
    for row in KINDS:
        assert row.targets and row.name and row.because
        assert row.count is None or row.because[0] != " "


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "python scripts/make_custom_call_table.py"
