"""What jaxlib writes comes back from our messages unchanged, and nothing in it is unknown to them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

from hloom.formats import protobuf

HERE = Path(__file__).parent
TEXTS = sorted((HERE / "hlo").glob("*.hlo"))

# jaxlib writes these as protos and then refuses to read them: one-bit literals, index types in layouts.
ONE_WAY = {"one_way"}

# Fields of an instruction that no HLO text fills: three of XLA before 2021 or 2025, and those too new for the text.
UNREACHED = {
    "all_reduce_id", "replica_groups", "is_cross_program_prefetch", "backend_config_payload", "has_dynamic_root",
    "block_scaling_config", "comparison_order", "shuffle_mode",
}  # fmt: skip


@pytest.fixture(scope="module")
def lowered(tmp_path_factory) -> Path:
    """The folder that lower_with_jax.py fills: modules before and after optimisation, and XLA's dumps."""
    folder = tmp_path_factory.mktemp("lowered")
    flags = [
        "--xla_force_host_platform_device_count=8",
        f"--xla_dump_to={folder / 'dump'}",
        "--xla_dump_hlo_as_proto",
        "--xla_dump_hlo_snapshots",
    ]
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": " ".join(flags)}
    subprocess.run([sys.executable, str(HERE / "lower_with_jax.py"), str(folder)], env=environment, check=True)
    return folder


def proto_of(text: Path) -> bytes:
    return _hlo.hlo_module_from_text(text.read_text()).as_serialized_hlo_module_proto()


def assert_unchanged(data: bytes, module) -> None:
    """A schedule is a map, whose order on the wire is nobody's promise; all else is byte for byte the same."""
    again = module.SerializeToString(deterministic=True)
    if len(module.schedule.sequences) > 1:
        assert len(again) == len(data) and protobuf.HloModuleProto.FromString(again) == module
    else:
        assert again == data


def printed(data: bytes) -> str:
    return _hlo.HloModule.from_serialized_hlo_module_proto(data).to_string()


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_text_through_jaxlib(text):
    data = proto_of(text)
    module = protobuf.HloModuleProto.FromString(data)
    assert protobuf.unknown_fields(module) == []
    assert_unchanged(data, module)
    if text.stem not in ONE_WAY:
        assert printed(module.SerializeToString()) == printed(data)


def test_texts_reach_every_field_of_an_instruction():
    reached = {
        field.name
        for text in TEXTS
        for computation in protobuf.HloModuleProto.FromString(proto_of(text)).computations
        for instruction in computation.instructions
        for field, _ in instruction.ListFields()
    }
    assert {field.name for field in protobuf.HloInstructionProto.DESCRIPTOR.fields} - reached - UNREACHED == set()


def test_jax_programs(lowered):
    files = sorted(lowered.glob("*.pb"))
    assert len(files) == 20
    for file in files:
        data = file.read_bytes()
        module = protobuf.HloModuleProto.FromString(data)
        assert protobuf.unknown_fields(module) == [], file.name
        assert_unchanged(data, module)
        assert printed(module.SerializeToString()) == printed(data), file.name


def test_dumped_program_with_buffers(lowered):
    (file,) = (lowered / "dump").glob("*.jit_scanned.cpu_after_optimizations.hlo.pb")
    dump = protobuf.HloProto.FromString(file.read_bytes())
    assert protobuf.unknown_fields(dump) == []
    assert dump.hlo_module.name == "jit_scanned"
    assignment = dump.buffer_assignment
    buffers = {buffer.id for buffer in assignment.logical_buffers}
    assigned = {part.logical_buffer_id for allocation in assignment.buffer_allocations for part in allocation.assigned}
    assert assigned == buffers != set()
    assert assignment.heap_simulator_traces


def test_dumped_snapshot(lowered):
    (file,) = (lowered / "dump").glob("*.jit_iota.snapshot.*.pb")
    data = file.read_bytes()
    snapshot = protobuf.HloSnapshot.FromString(data)
    assert protobuf.unknown_fields(snapshot) == []
    assert snapshot.SerializeToString(deterministic=True) == data
    assert snapshot.hlo.hlo_module.name == "jit_iota"
    assert list(snapshot.result.f32s) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_dumped_memory_report(lowered):
    (file,) = (lowered / "dump").glob("*.jit_scanned.*-memory-usage-report.pb")
    report = protobuf.MemoryUsageReportProto.FromString(file.read_bytes())
    assert protobuf.unknown_fields(report) == []
    assert report.memory_space_allocation_entries[0].total_bytes > 0


def literal(name: str):
    literals = {
        instruction.name: instruction.literal
        for text in TEXTS
        for computation in protobuf.HloModuleProto.FromString(proto_of(text)).computations
        for instruction in computation.instructions
    }
    return literals[name]


@pytest.mark.parametrize(
    ("name", "field", "stored"),
    [
        ("pred_values", "preds", [True, False, True]),
        ("s1_values", "s1s", b"\x00\x01\x00"),  # 0 -1 0
        ("s4_values", "s4s", b"\x01\x0f\x02\x08\x07"),  # 1 -1 2 -8 7
        ("s16_values", "s16s", b"\x01\x00\xff\xff\x02\x01"),  # 1 -1 258
        ("bf16_values", "bf16s", b"\x80\x3f\x00\xc0"),  # 1 -2
        ("c64_values", "c64s", [1, 2, 3, 4]),  # (1, 2) (3, 4)
        ("f4e2m1fn_values", "f4e2m1fns", b"\x02\x04\x0f\x01\x05"),  # 1 2 -6 0.5 3
        ("column_major", "f32s", [1, 4, 2, 5, 3, 6]),  # {{1, 2, 3}, {4, 5, 6}} with layout {0,1}
    ],
)
def test_how_literals_are_stored(name, field, stored):
    value = getattr(literal(name), field)
    assert (value if isinstance(value, bytes) else list(value)) == stored


def test_tuple_literals_nest():
    nested = literal("nested")
    assert list(nested.tuple_literals[0].f32s) == [1, 2]
    assert list(nested.tuple_literals[1].tuple_literals[1].preds) == [True]


def test_instruction_ids_hold_their_computations_id():
    module = protobuf.HloModuleProto.FromString(proto_of(HERE / "hlo" / "opcodes.hlo"))
    for computation in module.computations:
        assert {instruction.id >> 32 for instruction in computation.instructions} == {computation.id}


def test_stack_frames_count_parents_from_one_less_than_the_text():
    module = protobuf.HloModuleProto.FromString(proto_of(HERE / "hlo" / "header.hlo"))
    assert [frame.parent_frame_id for frame in module.stack_frame_index.stack_frames] == [0, 1]
