"""Names of files in dump directories, of the compilers of CPUs, GPUs and TPUs; `test_files.py` loads from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hloom.formats.hlo import dump_modules, stage_rank

TEXT = "HloModule m\nENTRY e { ROOT x = f32[] parameter(0) }\n"
STAGES = [
    ("module_0000.jit__lambda.before_optimizations.txt", "module_0000", "jit__lambda", "before_optimizations"),
    ("module_0000.jit_f.cpu_after_optimizations.txt", "module_0000", "jit_f", "cpu_after_optimizations"),
    ("module_0001.jit_f.gpu_after_optimizations.txt", "module_0001", "jit_f", "gpu_after_optimizations"),
    ("module_0001.jit_f.sm_8.0_gpu_after_optimizations.txt", "module_0001", "jit_f", "sm_8.0_gpu_after_optimizations"),
    ("module_0001.jit_f.sm_9.0a_gpu_after_optimizations.txt", "module_0001", "jit_f", "sm_9.0a_gpu_after_optimizations"),
    ("module_0001.a.b.sm_10.0a_gpu_after_optimizations.hlo.pb", "module_0001", "a.b", "sm_10.0a_gpu_after_optimizations"),
    ("module_0001.jit_f.sm_12.0_gpu_after_optimizations.txt", "module_0001", "jit_f", "sm_12.0_gpu_after_optimizations"),
    ("module_0001.jit_f.sm_100a_gpu_after_optimizations.txt", "module_0001", "jit_f", "sm_100a_gpu_after_optimizations"),
    ("module_0007.jit_f.gfx90a_gpu_after_optimizations.txt", "module_0007", "jit_f", "gfx90a_gpu_after_optimizations"),
    ("module_4848.f.785.gfx942_gpu_after_optimizations.txt", "module_4848", "f.785", "gfx942_gpu_after_optimizations"),
    (
        "module_0001.f.gfx942:sramecc+:xnack-_gpu_after_optimizations.txt",
        "module_0001", "f", "gfx942:sramecc+:xnack-_gpu_after_optimizations",
    ),
    ("module_0001.jit_f.after_spmd_partitioner.txt", "module_0001", "jit_f", "after_spmd_partitioner"),
    ("module_0000.jit_f.cl_933746096.before_optimizations.txt", "module_0000", "jit_f", "before_optimizations"),
    ("module_0000.jit_f.cl_933746096.after_optimizations.txt", "module_0000", "jit_f", "after_optimizations"),
    ("module_0000.jit_f.cl_933746096.after_codegen.hlo.pb", "module_0000", "jit_f", "after_codegen"),
    (
        "module_0000.jit_f.cl_1.after_optimizations_before_buffer_assignment.txt",
        "module_0000", "jit_f", "after_optimizations_before_buffer_assignment",
    ),
    (
        "module_0000.jit_f.cl_1.0001.Before_X64_rewriter.after_pipeline-start.before_topk-decomposer.txt",
        "module_0000", "jit_f", "0001.Before_X64_rewriter.after_pipeline-start.before_topk-decomposer",
    ),
    ("1795886356259970.module_0000.jit_f.cl_9.after_optimizations.hlo.pb", "module_0000", "jit_f", "after_optimizations"),
    ("1795886302115748.module_0001.f.before_optimizations.hlo.pb.gz", "module_0001", "f", "before_optimizations"),
    ("module_0012.before_optimizations.txt", "module_0012", "", "before_optimizations"),
    ("module_0012.sm_9.0a_gpu_after_optimizations.txt", "module_0012", "", "sm_9.0a_gpu_after_optimizations"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "number", "name", "stage"), STAGES)
def test_a_file_of_a_dump(tmp_path: Path, file: str, number: str, name: str, stage: str):
    (tmp_path / file).write_text(TEXT)
    [found] = dump_modules(tmp_path)
    assert (found.label, found.name, found.stage) == (f"{number}.{name}" if name else number, name, stage)
    assert found.is_module(number) and found.is_module(found.label)
    assert not found.is_stage("after") or found.stage.endswith("after_optimizations")


OTHERS = """
    module_0000.jit_f.cl_933746096 module_0000.jit_f.cl_933746096.tpu_comp_env.txt
    module_0000.jit_f.cl_933746096.after_optimizations-buffer-assignment.txt
    module_0000.jit_f.cl_933746096.after_optimizations-live-range.txt module_0000.jit_f.cl_933746096.flagfile
    module_0000.jit_f.cl_933746096.transfer_stats.txt module_0000.jit_f.cl_933746096.basic_compiler_metadata.txt
    module_0001.jit_f.sm_9.0a_gpu_after_optimizations-memory-usage-report.txt module_0001.jit_f.thunk_sequence.txt
    module_0001.jit_f.sm_9.0a_gpu_after_optimizations-buffer-assignment-values.txt module_0001.jit_f.3.ptx
    module_0001.jit_f.thunk_sequence_after_thunk_passes.txt module_0001.jit_f.thunk_metadata.txt module.mlir
    module_0001.jit_f.autotune_results.pbtxt module_0001.jit_f.config.pbtxt module_0001.jit_f.gpu_target_config.pbtxt
    module_0001.jit_f.10.ir-with-opt.ll topology.textproto compile_options.textproto
"""


def test_other_files_of_a_dump(tmp_path: Path):
    for file in [*OTHERS.split(), "module_0001.jit_f.before_optimizations.txt"]:
        (tmp_path / file).write_text(TEXT)
    assert [(found.label, found.stage) for found in dump_modules(tmp_path)] == [
        ("module_0001.jit_f", "before_optimizations")
    ]


def test_stages_are_in_the_order_of_compilation(tmp_path: Path):
    stages = [
        "before_optimizations",
        "after_spmd_partitioner",
        "0000.optimization.after_pipeline-start.before_dce",
        "0001.optimization.after_dce",
        "after_optimizations_before_buffer_assignment",
        "after_optimizations",
        "after_optimizations_after_buffer_assignment",
        "after_codegen",
    ]
    for stage in reversed(stages):
        (tmp_path / f"module_0000.jit_f.cl_1.{stage}.txt").write_text(TEXT)
    assert [found.stage for found in dump_modules(tmp_path)] == stages
    assert [stage_rank(stage) for stage in stages] == [0, 1, 2, 2, 3, 4, 5, 6]
    assert [found.stage for found in dump_modules(tmp_path) if found.is_stage("after")] == ["after_optimizations"]


def test_the_latest_of_several_timestamps_counts(tmp_path: Path):
    for time in ("1795886302115748", "1795886360353006", "99"):
        (tmp_path / f"{time}.module_0001.jit_f.before_optimizations.txt").write_text(TEXT)
    [found] = dump_modules(tmp_path)
    assert found.path.name.startswith("1795886360353006.")


def test_endless_numbers_are_read(tmp_path: Path):
    (tmp_path / f"module_{'9' * 220}.f.before_optimizations.txt").write_text(TEXT)
    assert [found.name for found in dump_modules(tmp_path)] == ["f"]
