"""The whole corpus through protos, held against XLA: text -> ours -> proto -> XLA, and XLA's proto -> ours.

Covers `module_writer.py`, `module_header.py`, `instruction_reader.py`, `instruction_writer.py`,
`instruction_fields.py`, `field_mapping.py`, `literals.py`, `metadata.py`, `original_values.py`, `shapes.py`,
`shardings.py`, `values.py`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

from hloom.formats import protobuf
from hloom.formats.hlo import parse, print_module
from hloom.formats.hlo.proto import module_from_proto, module_to_proto, read_proto, write_proto
from hloom.ir import Attributes, Level, Module, difference, verify
from hloom.text import HloomError, HloomWarning
from tests.corpus import handwritten, lowered
from tests.corpus.check import NOT_ACCEPTED
from tests.helpers.properties import sample

NO_FIELD = (
    "alias_passthrough_params",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "replica_count",
    "num_partitions",
)
"""Header attributes that the proto has no field for."""

# XLA writes protos of these that it refuses to read itself, or dies of.
XLA_REFUSES_ITS_OWN = {
    "layout_parts",  # index types in layouts
    "layout_tiles",  # `*` in tiles
    "literal_of_every_type",  # one-bit literals
    "module_deep_tuple",
    "quirk_element_bits_negative",
    "quirk_header_alias_same_output_twice",
    "quirk_layout_dimension_out_of_range",
    "quirk_layout_dimension_twice",
    "quirk_layout_index_type_signed",
    "quirk_layout_pointer_type_float",
    "quirk_send_done_of_an_array",
    "quirk_sharding_iota_size",
    "quirk_sharding_zero_tile",
    "quirk_tile_zero",
    "shape_written_is_believed",
}

# Texts that hloom refuses to read, or that no message holds.
NOT_READ = {
    "module_deep_tuple",
    "quirk_element_bits_negative",
    "quirk_layout_dimension_out_of_range",
    "quirk_layout_dimension_twice",
    "quirk_layout_pointer_type_float",
    "quirk_layout_tile_unclosed",
    "quirk_shape_size_overflow",
}
NOT_WRITTEN = {
    "literal_elided",
    "literal_tuples",  # holds an elided constant
    "quirk_reduce_precision_bits_huge",  # wraps around in XLA
}

# XLA prints these constants so that they read back as others: -0, and NaNs in complex numbers.
PRINTED_INEXACTLY = {"literal_complex", "literal_float_spellings", "quirk_literal_specials_without_a_code"}

# XLA's text reader, and only it, does something to these that the text does not say.
CHANGED_BY_XLAS_READER = {
    "after/values.narrow_float_constants",  # constants lose E(4)
    "after/values.narrow_integer_constants",
    "literal_bounded",  # tuples of constants that become static
    "quirk_statistics_without_index",  # dropped
}

# The text leaves types out, and their layouts depend on those of the operands.
LAYOUTS_LEFT_OUT = {
    "literal_nested_ranks",
    "opcode_convert_and_bitcast",
    "opcode_custom_call",
    "opcode_reshape",
    "shape_left_out",
    "shape_ranks",
    "shape_tuples",
}


@cache
def texts() -> dict[str, str]:
    own = {name: text for name, text in handwritten().items() if not name.startswith(NOT_ACCEPTED)}
    stages = {f"{stage}/{name}": text for stage in ("before", "after") for name, text in lowered(stage).items()}
    return {name: text for name, text in (own | stages).items() if name not in NOT_READ}


FOLDERS = ("handwritten", "before", "after")


def some(folder: str, offset: int) -> list[str]:
    """The names of all handwritten texts, or a third of those that JAX lowers, which the offset chooses."""
    if folder == "handwritten":
        return [name for name in sorted(texts()) if "/" not in name]
    return list(sample({name: name for name in sorted(texts()) if name.startswith(f"{folder}/")}, 3, offset))


def problems(names: list[str], left_out: set[str], check: Callable[[str], None]) -> dict[str, str]:
    """What a check says against each text."""
    failures: dict[str, str] = {}
    for name in names:
        if name not in left_out:
            try:
                check(name)
            except (AssertionError, HloomError) as problem:
                failures[name] = str(problem)[:300]
    return failures


def printed(module: Any) -> str:
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options)


def without_lost_header(text: str) -> str:
    return re.sub(rf", (?:{'|'.join(NO_FIELD)})=(?:\{{[^}}]*\}}|\w+)", "", text)


def parsed(text: str) -> Module:
    module = parse(text)
    kept = {name: value for name, value in module.attributes.items() if name not in NO_FIELD}
    module.attributes = Attributes(kept)
    return module


def xla_reads(data: bytes) -> str:
    return printed(_hlo.HloModule.from_serialized_hlo_module_proto(data))


@pytest.mark.parametrize("folder", FOLDERS)
def test_xla_reads_from_our_proto_what_it_reads_from_the_text(folder: str):
    def check(name: str) -> None:
        text = texts()[name]
        theirs = without_lost_header(printed(_hlo.hlo_module_from_text(text)))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*cannot hold attribute mode", HloomWarning)  # XLA drops it too
            data = write_proto(parsed(text))
        assert xla_reads(data) == theirs

    left_out = XLA_REFUSES_ITS_OWN | NOT_WRITTEN | LAYOUTS_LEFT_OUT | CHANGED_BY_XLAS_READER
    assert problems(some(folder, 0), left_out, check) == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_xlas_proto_is_what_its_text_says(folder: str):
    def check(name: str) -> None:
        theirs = _hlo.hlo_module_from_text(texts()[name])
        module = read_proto(theirs.as_serialized_hlo_module_proto())
        assert module.notes == []
        assert difference(module, parsed(printed(theirs))) is None

    assert problems(some(folder, 1), {"literal_elided"} | PRINTED_INEXACTLY, check) == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_our_proto_comes_back(folder: str):
    def check(name: str) -> None:
        module = parsed(printed(_hlo.hlo_module_from_text(texts()[name])))
        data = write_proto(module)
        again = read_proto(data)
        assert difference(module, again) is None
        assert write_proto(again) == data

    assert problems(some(folder, 2), {"literal_elided"}, check) == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_written_is_what_protobuf_would_write(folder: str):
    """Byte for byte, but for the schedule, whose entries protobuf itself writes in an order of its own."""

    def check(name: str) -> None:
        module = parsed(texts()[name])
        module.attributes = module.attributes.changed(is_scheduled=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HloomWarning)
            data = write_proto(module)
        assert protobuf.HloModuleProto.FromString(data).SerializeToString(deterministic=True) == data

    assert problems(some(folder, 1), NOT_WRITTEN, check) == {}


def test_a_schedule_lists_the_instructions_of_every_computation_that_is_not_fused():
    text = next(text for text in texts().values() if "is_scheduled=true" in text and " fusion(" in text)
    proto = protobuf.HloModuleProto.FromString(write_proto(parsed(text)))
    listed = {number: list(sequence.instruction_ids) for number, sequence in proto.schedule.sequences.items()}
    assert listed == {
        computation.id: [instruction.id for instruction in computation.instructions]
        for computation in proto.computations
        if not computation.is_fusion_computation
    }
    assert len(listed) < len(proto.computations)


def test_fields_without_a_place_are_named():
    module = parse("HloModule m, replica_count=2, num_partitions=1\nENTRY e { ROOT x = f32[2] parameter(0) }")
    with pytest.warns(HloomWarning, match="m: protos cannot hold header attribute replica_count"):
        module_to_proto(module)


UNKNOWN = b"\xfa\x3f\x03abc"
"""Field number 1023, which no schema names."""


def test_unknown_fields_are_kept_byte_for_byte_and_noted():
    """Also in a newer XLA's proto: of instructions, computations, modules and containers. Only `inspect` says so."""
    container = protobuf.HloProto()
    proto = container.hlo_module
    proto.CopyFrom(module_to_proto(parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }")))
    for message in (*proto.computations[0].instructions, proto.computations[0], proto, container):
        message.MergeFromString(UNKNOWN)
    proto.computations[0].backend_config = b"config"
    data = container.SerializeToString()
    module = read_proto(data, name="f.pb")
    assert write_proto(module, "hlo") == data == write_proto(module.clone(), "hlo")
    assert module.notes == [
        "f.pb: hloom does not understand, and keeps, field number 1023 of HloInstructionProto, field number 1023 of "
        "HloModuleProto, field number 1023 of HloComputationProto",
        "f.pb: hloom does not understand, and keeps, the fields 1023 of HloProto",
    ]
    assert parse(print_module(module)).entry.root.opcode == "negate"
    assert verify(module).level is Level.HLO


def test_empty_fields_that_no_attribute_holds_are_kept_without_a_note():
    proto = module_to_proto(parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }"))
    proto.computations[0].instructions[1].MergeFromString(b"\xfa\x3f\x00")
    module = module_from_proto(proto)
    assert (module_to_proto(module), module.notes) == (proto, [])


def test_unknown_fields_inside_a_shape_are_dropped():
    proto = module_to_proto(parse("ENTRY e { ROOT x = f32[2] parameter(0) }"))
    proto.computations[0].instructions[0].shape.MergeFromString(b"\xf8\x3f\x05")
    with pytest.warns(HloomWarning, match="f.pb: hloom does not understand, and drops, field number 1023 of ShapeProto"):
        module_from_proto(proto, name="f.pb")


def test_fields_of_other_ops_are_kept():
    proto = module_to_proto(parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }"))
    proto.computations[0].instructions[1].fft_length.append(3)
    proto.computations[0].instructions[1].block_scaling_config.lhs.scale_idx = 2
    module = module_from_proto(proto)
    assert module_to_proto(module) == proto
    assert module.notes == [
        "<proto>: hloom does not understand, and keeps, field fft_length of negate, field block_scaling_config of negate"
    ]


def test_partial_results_of_newer_xla():
    text = "ENTRY e { ROOT x = f32[8] parameter(0), sharding={mesh['x'=8], [{}], unreduced=max{'x'}} }"
    proto = module_to_proto(parse(text))
    assert proto.computations[0].instructions[0].sharding.named_sharding.reduction_op == 1
    assert module_from_proto(proto).entry.root.attributes == parse(text).entry.root.attributes
    for number in (3, -1, 2**31 - 1):
        proto.computations[0].instructions[0].sharding.named_sharding.reduction_op = number
        with pytest.raises(HloomError, match=f"x: .*by the unknown reduction {number}"):
            module_from_proto(proto)


def test_fields_that_modules_have_no_place_for_are_kept():
    proto = module_to_proto(parse("ENTRY e { ROOT x = f32[2] parameter(0) }"))
    proto.device_assignment.replica_count = 3
    proto.cross_program_prefetches.add(parameter=1)
    proto.id = 7
    again = module_to_proto(module_from_proto(proto))
    assert again == proto


def test_reading_leaves_the_message_as_it_is():
    proto = module_to_proto(parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] compare(x, x), direction=EQ }"))
    before = proto.SerializeToString()
    module_from_proto(proto)
    assert proto.SerializeToString() == before


def _not_utf8(where: str) -> str:
    return where + r': the string "\\377" is not UTF-8, and a proto holds no other'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ENTRY e { ROOT x = f32[20] constant({...}) }", r"e, x = constant: the data of this f32\[20\] constant"),
        ("ENTRY e { x = f32[2] parameter(0) ROOT y = mystery(x) }", "e, y = mystery: it has no type"),
        ("ENTRY e { ROOT y = f32[2] negate(x) }", "uses names that nothing defines: operand x in e"),
        ("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=f }", "nothing defines: computation f"),
        ("ENTRY e { ROOT x = f32[2] constant({1, 2}), metadata={op_name='\\377'} }", _not_utf8("e, x = constant")),
        ('HloModule m, frontend_attributes={a="\\377"} ENTRY e { ROOT x = f32[] constant(1) }', _not_utf8("module m")),
        ('HloModule m FileNames 1 "\\377" ENTRY e { ROOT x = f32[] constant(1) }', _not_utf8("module m")),
        (
            'ENTRY e { x = f32[] parameter(0) ROOT y = f32[] custom-call(x), custom_call_target="\\377" }',
            _not_utf8("e, y = custom-call: attribute custom_call_target"),
        ),
        (
            'f { ROOT x = f32[] parameter(0) }, execution_thread="\\377" ENTRY e { ROOT y = f32[] parameter(0) }',
            _not_utf8("module .*"),
        ),
    ],
)
def test_refused_when_written(text, problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        module = parse(text)
    with pytest.raises(HloomError, match=problem):
        write_proto(module)


def test_names_are_unique_in_the_module():
    text = "f { x = f32[] parameter(0) ROOT y = f32[] negate(x) } ENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f }"
    proto = module_to_proto(parse(text))
    assert [[instruction.name for instruction in computation.instructions] for computation in proto.computations] == [
        ["x", "y"],
        ["x.1", "y.1"],
    ]


def test_stack_frames_count_parents_from_none():
    text = texts()["module_stack_tables"]
    frames = module_to_proto(parse(text)).stack_frame_index.stack_frames
    assert [frame.parent_frame_id for frame in frames] == [0, 0]


def test_flat_ids_and_ids_in_any_order():
    proto = module_to_proto(parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }"))
    computation = proto.computations[0]
    computation.id = proto.entry_computation_id = 99
    computation.instructions[0].id = 5
    computation.instructions[1].id = computation.root_id = 3
    computation.instructions[1].operand_ids[:] = [5]
    assert str(module_from_proto(proto).entry.root) == "<y = f32[2]{0} negate(x)>"


def test_messages_are_the_wires_own():
    assert isinstance(module_to_proto(parse("ENTRY e { ROOT x = f32[2] parameter(0) }")), protobuf.HloModuleProto)
