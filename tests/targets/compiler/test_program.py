"""What is refused before a compiler starts, and how a program is to be compiled."""

from __future__ import annotations

import pytest

from hloom import parse
from hloom.formats.hlo import read_proto, write_proto
from hloom.targets.compiler import devices_of, parse_target
from hloom.targets.compiler.program import partitioner_of, prepare
from hloom.text import HloomError, Unsupported
from tests.targets.compiler.fake_compiler import OPTIMISED

PLAIN = "HloModule m\nENTRY e { x = f32[8,128] parameter(0) ROOT y = f32[8,128] negate(x) }"
GSPMD = """HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,128] parameter(0), sharding={devices=[4,1]<=[4]}
  ROOT y = f32[8,128] negate(x)
}
"""
SHARDY = """HloModule m, buffer_donor={ (0, {}) }, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=2, "y"=4]>}}
ENTRY e {
  x = f32[8,128] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}, {}]>"}
  ROOT y = f32[8,128] negate(x), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
}
"""


def test_a_plain_program_is_for_one_device_of_any_target():
    module = parse(PLAIN)
    program = prepare(module, parse_target("v5e:2x2"))
    assert (program.devices, program.partitioner, program.donated) == (1, "none", ())
    assert (program.propagates_to_parameters, program.propagates_to_output) == ((False,), (True,))
    assert read_proto(program.proto).entry.root.opcode == "negate"


def test_shardings_name_the_partitioner_and_the_devices():
    assert (devices_of(parse(GSPMD)), partitioner_of(parse(GSPMD))) == (4, "gspmd")
    assert (devices_of(parse(SHARDY)), partitioner_of(parse(SHARDY))) == (8, "shardy")
    assert devices_of(parse(GSPMD.replace(", num_partitions=4", ""))) == 4
    assert devices_of(parse(PLAIN.replace("HloModule m", "HloModule m, replica_count=2"))) == 2


def test_donated_parameters_and_shardings_of_results_are_passed_on():
    program = prepare(parse(SHARDY), parse_target("h100x8"))
    assert program.donated == (0,)
    assert program.propagates_to_output == (False,)
    header = "HloModule m, allow_spmd_sharding_propagation_to_output={true,false}"
    assert prepare(parse(PLAIN.replace("HloModule m", header)), parse_target("cpu")).propagates_to_output == (
        True,
        False,
    )


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (GSPMD, "v5e:4x4", r"the program is for 4 devices \(4 partitions\), and v5e:4x4 has 16"),
        (SHARDY, "h100x4", "the program is for 8 devices"),
        (PLAIN.replace("m\n", "m, replica_count=2\n"), "cpu", r"the program is for 2 devices \(2 replicas\)"),
        (PLAIN.replace("m\n", "m, num_partitions=2000000\n"), "cpu", "asks for 2,000,000 devices"),
    ],
)
def test_another_number_of_devices_is_refused(text: str, target: str, message: str):
    with pytest.raises(HloomError, match=message):
        prepare(parse(text), parse_target(target))


def test_a_module_that_a_compiler_made_is_refused():
    with pytest.raises(
        HloomError, match="jit_step has been optimised by a compiler already: it is scheduled; p has the tiled"
    ):
        prepare(parse(OPTIMISED), parse_target("v5e"))
    called = PLAIN.replace("negate(x)", 'custom-call(x), custom_call_target="__cublas$gemm"')
    with pytest.raises(HloomError, match=r"y calls __cublas\$gemm"):
        prepare(parse(called), parse_target("h100"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = f32[2] add(a, b)", "a fragment cannot be compiled: no type is known of a in _, b in _"),
        ("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=f }", "nothing defines computation f"),
        ("f { ROOT x = f32[2] parameter(0) }", None),
    ],
)
def test_a_fragment_is_refused(text: str, message: str | None):
    if message is None:
        assert prepare(parse(text), parse_target("cpu")).devices == 1
        return
    with pytest.raises(Unsupported, match=message):
        prepare(parse(text), parse_target("cpu"))


def test_constants_without_data_are_filled_and_noted():
    module = parse("ENTRY e { x = f32[64] parameter(0) c = f32[64] constant({...}) ROOT y = f32[64] add(x, c) }")
    program = prepare(module, parse_target("cpu"))
    assert "the data of 1 constants were left out" in program.notes[0]
    constant = next(node for node in read_proto(program.proto).entry.nodes if node.opcode == "constant")
    assert constant.value.numpy().tolist() == [0.0, 1.0] * 32  # pyright: ignore[reportAttributeAccessIssue]


def test_constants_of_hostile_sizes_are_refused():
    module = parse("ENTRY e { c = f32[99999999999] constant({...}) ROOT y = f32[99999999999] negate(c) }")
    with pytest.raises(HloomError, match="too many to make up"):
        prepare(module, parse_target("cpu"))


def test_layouts_of_values_are_left_to_the_compiler():
    module = parse("ENTRY e { x = f32[4,8]{0,1} parameter(0) ROOT y = f32[4,8]{0,1} negate(x) }")
    root = read_proto(prepare(module, parse_target("cpu")).proto).entry.root
    assert str(root.type) == "f32[4,8]{1,0}"


def test_copies_are_dropped_but_for_their_shardings():
    text = """HloModule m, num_partitions=2
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[2]<=[2]}
  n = f32[8] negate(x)
  c = f32[8] copy(n), sharding={replicated}
  s = f32[8] sine(c)
  ROOT r = f32[8] copy(s)
}"""
    entry = read_proto(prepare(parse(text), parse_target("h100x2")).proto).entry
    assert [node.opcode for node in entry.nodes] == ["parameter", "negate", "custom-call", "sine"]
    (call,) = [node for node in entry.nodes if node.opcode == "custom-call"]
    assert (call.attributes["custom_call_target"], str(call.attributes["sharding"])) == ("Sharding", "{replicated}")


def test_fields_of_newer_protos_are_told():
    unknown_field = b"\xfa\x3e\x01x"  # number 1007, one byte
    program = prepare(read_proto(write_proto(parse(PLAIN), "hlo_module") + unknown_field), parse_target("v5e"))
    assert any("field number 1007 of HloModuleProto; a compiler that does not know" in note for note in program.notes)
