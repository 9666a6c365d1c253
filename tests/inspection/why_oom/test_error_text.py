"""Texts of XLA's errors, as TPUs and GPUs print them, read as tables."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from hloom.inspection.why_oom import is_error_text, read_error_text, why_oom
from hloom.text import HloomError

TPU = """
XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 41.50G of 16.00G hbm. Exceeded hbm capacity by 25.50G.

Total hbm usage >= 41.50G:
    reserved        512.00M
    program          41.00G
    arguments       unknown size

Program hbm requirement 41.00G:
    reserved           4.0K
    HLO temp         40.50G (24.2% utilization: Unpadded (9.00G) Padded (40.00G), 0.7% fragmentation (293.84M))

  Largest program allocations in hbm:

  1. Size: 32.00G
     Operator: op_type="FloorMod" op_name="update_7/FloorMod"
     Shape: s32[8388608,8,4]{2,1,0:T(8,128)}
     Unpadded size: 1.00G
     Extra memory due to padding: 31.00G (32.0x expansion)
     XLA label: %copy.4 = s32[8388608,8,4]{2,1,0:T(8,128)} copy(s32[8388608,8,4]{0,2,1:T(4,128)} %element.3)
     Allocation type: HLO temp
     ==========================

  2. Size: 2.00G
     Operator: op_name="jit(step)/jit(main)/jvp(Model)/h/0/attention/dot_general[dims=(((3,), (3,)), (0, 2))]" source_file="/src/attention.py" source_line=1059
     Shape: f32[32,4096,4096]{1,2,0:T(8,128)}
     Unpadded size: 2.00G
     XLA label: fusion.12.remat3 = fusion(custom-call.224, custom-call.241), kind=kOutput, calls=fused_computation.9
     Allocation type: HLO temp
     ==========================
"""
GPU = """
W bfc_allocator.cc:479] Allocator (GPU_0_bfc) ran out of memory trying to allocate 27.93GiB (rounded to 29995136256)requested by op
E client.cc:2153] Execution of replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 29995136128 bytes.
(worker pid=489) BufferAssignment stats:
(worker pid=489)              parameter allocation:  475.50MiB
(worker pid=489)              constant allocation:   512.0KiB
(worker pid=489)        maybe_live_out allocation:  474.50MiB
(worker pid=489)     preallocated temp allocation:   27.93GiB
(worker pid=489)                 total allocation:   28.50GiB
(worker pid=489) Peak buffers:
(worker pid=489) \tBuffer 1:
(worker pid=489) \t\tSize: 1.50GiB
(worker pid=489) \t\tOperator: op_name="pjit(step)/jit(main)/transpose(jvp(loss))/mul" source_file="/data/losses.py" source_line=139
(worker pid=489) \t\tXLA Label: fusion
(worker pid=489) \t\tShape: f32[128,256,12288]
(worker pid=489) \t\t==========================

(worker pid=489) \tBuffer 2:
(worker pid=489) \t\tSize: 384.0KiB
(worker pid=489) \t\tEntry Parameter Subshape: f32[256,128,3]
(worker pid=489) \t\t==========================
"""


def test_a_tpus_compiler_says_what_is_padded():
    message = read_error_text(TPU)
    assert (message.space, message.used, message.capacity) == ("hbm", 41.5 * 2**30, 16 * 2**30)
    assert message.sums["HLO temp"] == 40.5 * 2**30
    copy, fusion = message.buffers
    assert (copy.name, copy.made_by, copy.bytes, copy.padding) == ("copy.4", "copy", 32 << 30, 31 << 30)
    assert (copy.type, copy.scope, copy.role) == ("s32[8388608,8,4]{2,1,0:T(8,128)}", "update_7", "temporary")
    assert (fusion.name, fusion.made_by, fusion.padding) == ("fusion.12.remat3", "fusion", 0)
    assert (fusion.scope, fusion.source) == ("forward/Model/h/0/attention", "/src/attention.py:1059")
    assert (copy.reason, fusion.reason) == ("32.0 times its size by padding", "computed again by XLA already")


def test_a_gpus_client_says_what_was_asked_for():
    message = read_error_text(GPU)
    assert message.requested == 29995136128, "the exact number counts more than the log's"
    assert message.peak == message.sums["total allocation"] == 28.5 * 2**30
    fusion, parameter = message.buffers
    assert (fusion.made_by, fusion.scope, fusion.source) == ("fusion", "backward/loss", "/data/losses.py:139")
    assert (parameter.role, parameter.scope, parameter.type) == ("argument", "inputs", "f32[256,128,3]")


def test_other_forms_of_the_message():
    sparse = read_error_text(
        "RESOURCE_EXHAUSTED: TPU TensorCore Hbm usage: 34.82G, exceeding available bytes: 95.5G\ntrying to allocate 7 bytes"
    )
    assert (sparse.capacity, sparse.requested) == (95.5 * 2**30, 7)
    reserve = read_error_text(
        "Resource exhausted: Attempting to reserve 3.50G at the bottom of memory. There are 1.75G free, 0B reserved"
    )
    assert (reserve.requested, reserve.free) == (3.5 * 2**30, 1.75 * 2**30)


def test_what_is_such_a_text():
    assert is_error_text(TPU) and is_error_text(GPU)
    assert not is_error_text("HloModule m // RESOURCE_EXHAUSTED") and not is_error_text("hello")


def test_a_text_without_numbers_is_refused():
    with pytest.raises(HloomError, match="says that memory ran out, but no number of bytes"):
        read_error_text("RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm")


def test_a_report_of_a_text_has_nothing_tried():
    report = why_oom(TPU)
    assert (report.fits, report.missing, report.padding) == (False, 25.5 * 2**30, 31 << 30)
    assert report.remedies == () and "nothing was tried" in report.notes[0]
    assert why_oom(TPU, memory="64GiB").fits
    assert [group.name for group in report.by_scope()] == ["update_*", "forward/Model/h/*/attention"]


def test_an_error_s_text_in_a_file_or_an_exception(tmp_path: Path):
    path = tmp_path / "error.txt"
    path.write_text(TPU)
    packed = tmp_path / "error.txt.gz"
    packed.write_bytes(gzip.compress(TPU.encode()))
    expected = why_oom(TPU).to_json()
    for source in (path, str(path), packed, RuntimeError(TPU)):
        assert why_oom(source).to_json() == expected
    path.write_text("It did not fit.")
    with pytest.raises(HloomError, match="neither a module nor the text of an error about memory"):
        why_oom(path)


def test_hostile_texts():
    longest = "1. Size: 9" + "9" * 200 + "G\n"
    report = why_oom("RESOURCE_EXHAUSTED\n" + longest)
    assert report.peak > 0
    cut = why_oom("Out of memory while trying to allocate 5 bytes\n" + "  1. Size: 1.00G\n     Shape: " + "(" * 10_000)
    assert len(cut.buffers) == 1
