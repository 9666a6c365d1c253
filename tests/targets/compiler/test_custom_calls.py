"""Custom calls of other platforms' libraries, rewritten for the target: HLO in, HLO out."""

from __future__ import annotations

import pytest

from hloom import parse, verify
from hloom import print as to_text
from hloom.ir import Module
from hloom.targets.compiler import parse_target
from hloom.targets.compiler.custom_calls import adapt_custom_calls
from hloom.text import Unsupported

TARGETS = {"tpu": parse_target("v5e"), "cuda": parse_target("h100"), "cpu": parse_target("cpu")}

CHOLESKY = """HloModule m
ENTRY e {
  x = f32[4,4] parameter(0)
  c = (f32[4,4]{0,1}, s32[]) custom-call(x), custom_call_target="lapack_spotrf_ffi", operand_layout_constraints={f32[4,4]{0,1}}, api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}
  ROOT y = f32[4,4] get-tuple-element(c), index=0
}
"""


def call(target: str, result: str, operands: str = "f32[4,4]", config: str = "{}") -> Module:
    parameters = [f"p{number} = {type_} parameter({number})" for number, type_ in enumerate(operands.split("; "))]
    names = ", ".join(f"p{number}" for number in range(len(parameters)))
    lines = "\n".join(parameters)
    return parse(
        f"HloModule m\nENTRY e {{\n{lines}\nROOT c = {result} custom-call({names}), "
        f'custom_call_target="{target}", api_version=API_VERSION_TYPED_FFI, backend_config={config}\n}}'
    )


def opcodes(module: Module) -> list[str]:
    return [node.opcode for node in module.entry.nodes]


def test_cholesky_on_a_tpu():
    module = parse(CHOLESKY)
    (rewritten,) = adapt_custom_calls(module, TARGETS["tpu"])
    assert (rewritten.target, rewritten.count, rewritten.became) == ("lapack_spotrf_ffi", 1, "cholesky")
    verify(module)
    text = to_text(module, "short")
    assert "cholesky(x), lower=true" in text
    assert "custom-call" not in text


def test_cholesky_on_a_gpu_is_its_librarys_call():
    module = parse(CHOLESKY)
    (rewritten,) = adapt_custom_calls(module, TARGETS["cuda"])
    assert rewritten.became == "cusolver_potrf_ffi"
    assert 'custom_call_target="cusolver_potrf_ffi"' in to_text(module)
    assert "backend_config={lower = true}" in to_text(module)


def test_a_gpus_call_on_the_cpu():
    module = parse(
        CHOLESKY.replace("lapack_spotrf_ffi", "cusolver_potrf_ffi").replace("uplo = 76 : ui8", "lower = false")
    )
    (rewritten,) = adapt_custom_calls(module, TARGETS["cpu"])
    assert rewritten.became == "lapack_spotrf_ffi"
    assert "backend_config={uplo = 85 : ui8}" in to_text(module)


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
def test_a_triangular_solve_keeps_its_settings(platform: str):
    config = "{diag = 85 : ui8, side = 82 : ui8, trans_x = 67 : ui8, uplo = 85 : ui8}"
    module = call("lapack_ctrsm_ffi", "c64[4,4]", "c64[4,4]; c64[4,4]", config)
    (rewritten,) = adapt_custom_calls(module, TARGETS[platform])
    assert rewritten.became == "triangular-solve"
    text = to_text(module, "short")
    assert "triangular-solve(p0, p1)" in text
    assert "unit_diagonal=true" in text
    assert "transpose_a=ADJOINT" in text
    assert "lower=true" not in text


def test_lu_counts_pivots_from_one():
    module = call("lapack_sgetrf_ffi", "(f32[4,4], s32[4], s32[])")
    adapt_custom_calls(module, TARGETS["tpu"])
    verify(module)
    assert opcodes(module).count("add") == 1
    assert "(f32[4,4], s32[4], s32[4]) custom-call" in to_text(module, "short")


@pytest.mark.parametrize(
    ("target", "result", "operands", "tpu", "cuda"),
    [
        ("lapack_sgeqrf_ffi", "(f32[4,4], f32[4])", "f32[4,4]", "Qr", "cusolver_geqrf_ffi"),
        (
            "lapack_sorgqr_ffi",
            "f32[4,4]",
            "f32[4,4]; f32[4]",
            "ProductOfElementaryHouseholderReflectors",
            "cusolver_orgqr_ffi",
        ),
        ("lapack_ssyevd_ffi", "(f32[4,4], f32[4], s32[])", "f32[4,4]", "Eigh", "cusolver_syevd_ffi"),
        ("lapack_sgetrf_ffi", "(f32[4,4], s32[4], s32[])", "f32[4,4]", "LuDecomposition", "cusolver_getrf_ffi"),
    ],
)
def test_a_routine_is_the_targets_call(target: str, result: str, operands: str, tpu: str, cuda: str):
    for platform, wanted in (("tpu", tpu), ("cuda", cuda), ("cpu", target)):
        module = call(cuda if platform == "cpu" else target, result, operands)
        (rewritten,) = adapt_custom_calls(module, TARGETS[platform])
        assert rewritten.became == wanted
        assert f'custom_call_target="{wanted}"' in to_text(module)
        assert str(module.entry.root.type) == result
        verify(module)


@pytest.mark.parametrize(
    ("target", "result", "cuda"),
    [("Qr", "(f32[4,4], f32[4])", "cusolver_geqrf_ffi"), ("Eigh", "(f32[4,4], f32[4])", "cusolver_syevd_ffi")],
)
def test_a_tpus_call_on_a_gpu(target: str, result: str, cuda: str):
    module = call(target, result, config='"0,1,100,1e-6"')
    (rewritten,) = adapt_custom_calls(module, TARGETS["cuda"])
    assert rewritten.became == cuda
    assert "operand_layout_constraints={f32[4,4]{0,1}}" in to_text(module)
    assert ("lower = false" in to_text(module)) == (target == "Eigh")
    assert str(module.entry.root.type).replace("{0,1}", "").replace("{0}", "") == result
    verify(module)


def test_a_tpus_lu_has_no_counterpart():
    module = call("LuDecomposition", "(f32[4,4], s32[4], s32[4])")
    with pytest.raises(Unsupported, match="LuDecomposition: 1"):
        adapt_custom_calls(module, TARGETS["cuda"])


@pytest.mark.parametrize("target", ["Sharding", "xla.sdy.FuncResultSharding", "mhlo.topk", "annotate_device_placement"])
def test_annotations_stay(target: str):
    module = call(target, "f32[4,4]")
    assert adapt_custom_calls(module, TARGETS["tpu"]) == []
    assert module.entry.root.opcode == "custom-call"


def test_the_targets_own_calls_stay():
    assert adapt_custom_calls(call("tpu_custom_call", "f32[4,4]"), TARGETS["tpu"]) == []
    assert adapt_custom_calls(call("__cublas$gemm", "f32[4,4]"), TARGETS["cuda"]) == []
    assert adapt_custom_calls(call("lapack_sgeev_ffi", "f32[4,4]"), TARGETS["cpu"]) == []


def test_unknown_calls_are_named():
    module = call("xla_ffi_python_cpu_callback", "f32[4,4]")
    with pytest.raises(Unsupported) as problem:
        adapt_custom_calls(module, TARGETS["tpu"])
    assert problem.value.message == (
        "the compiler for v5e:1x1 does not have these custom calls:\n  xla_ffi_python_cpu_callback: 1 (c in e)"
    )
    assert "--opaque-calls" in (problem.value.hint or "")


def test_names_of_unknown_calls_are_made_visible():
    module = call("a\x1b[31m", "f32[4,4]")
    with pytest.raises(Unsupported, match=r"a\\033\[31m: 1"):
        adapt_custom_calls(module, TARGETS["cuda"])


def test_opaque_calls_keep_their_types():
    module = call("f", "(f32[4,4], (s32[2], token[]))", "f32[4,4]; token[]; (f32[3], s32[])")
    (rewritten,) = adapt_custom_calls(module, TARGETS["tpu"], opaque=True)
    assert rewritten.is_opaque
    verify(module)
    assert str(module.entry.root.type) == "(f32[4,4], (s32[2], token[]))"
    text = to_text(module, "short")
    assert "outfeed_shape=(f32[4,4], f32[3], s32[])" in text
    assert "((f32[4,4], s32[2]), token[]) infeed(" in text


def test_opaque_calls_of_a_gpu_stay_calls():
    module = call("f", "f32[4,4]")
    (rewritten,) = adapt_custom_calls(module, TARGETS["cuda"], opaque=True)
    assert (rewritten.became, rewritten.is_opaque) == ("a mock call", True)
    assert module.entry.root.opcode == "custom-call"
