"""Modules as they stand on the wire (`encoded_messages.py`): what is put together byte by byte is what protobuf writes."""

from __future__ import annotations

import pytest

from hloom import protobuf
from hloom.hlo import module_from_proto, module_to_proto, parse, print_module
from hloom.hlo.proto.encoded_messages import new_wire_module, varint, wire_module
from hloom.hlo.proto.metadata import encoded_metadata, write_metadata
from hloom.hlo.proto.shapes import encoded_shape, write_shape
from hloom.ir import Metadata, TensorType, TupleType, Type, dtype
from hloom.text import HloomError

MODULE = """HloModule m

ENTRY %e (x: f32[2,3]) -> f32[3,2] {
  %x = f32[2,3]{1,0} parameter(0), metadata={op_name="x"}
  ROOT %t = f32[3,2]{1,0} transpose(%x), dimensions={1,0}, metadata={op_name="f(x)" source_file="f.py" source_line=3}
}
"""


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (-1, b"\xff" * 9 + b"\x01")],
)
def test_numbers_are_seven_bits_a_byte(number: int, data: bytes):
    assert varint(number) == data


@pytest.mark.parametrize(
    "type_",
    [
        TensorType(dtype("f32")),
        TensorType(dtype("s32"), (2, 300, 1 << 40)),
        TensorType(dtype("bf16"), (4, 8), None, (True, False)),
        TensorType(dtype("f32"), (-1, 8), None, (True, False)),
        TensorType(dtype("u8"), (0,)),
        TupleType([TensorType(dtype("pred"), (3,)), TupleType([])]),
        *[node.type for node in parse("ENTRY e { x = f32[4,8]{0,1:T(2,128)S(3)} parameter(0) }").entry.nodes],
    ],
)
def test_a_shape_is_what_protobuf_writes(type_: Type):
    written = write_shape(type_)
    assert protobuf.ShapeProto.FromString(encoded_shape(type_)) == written
    assert encoded_shape(type_) == written.SerializeToString()


def test_metadata_is_what_protobuf_writes():
    fields: dict[str, str | int] = {
        "op_type": "add", "op_name": "a" * 200, "source_file": "f.py", "source_line": 3, "source_end_line": 2**31 - 1,
        "source_column": 1, "source_end_column": 128, "deduplicated_name": "b", "scheduling_name": "c",
        "stack_frame_id": 7,
    }  # fmt: skip
    written = write_metadata(Metadata(**fields))  # type: ignore[arg-type]
    assert protobuf.OpMetadata.FromString(encoded_metadata(fields)) == written


@pytest.mark.parametrize(
    "text",
    [
        'op_name="f" source_line=0',
        'op_name="f(\\"x\\")"',
        'op_name="\\303\\251"',
        'op_name="" stack_frame_id=3',
        'op_name="f" profile_type={1,2}',
    ],
)
def test_metadata_that_are_not_plain_are_written_by_protobuf(text: str):
    module = parse(MODULE.replace('op_name="x"', text))
    again = module_from_proto(module_to_proto(module))
    before, after = module.entry.nodes[0].metadata, again.entry.nodes[0].metadata
    assert (before or Metadata()) == (after or Metadata())


def test_a_number_that_does_not_fit_is_refused_as_before():
    with pytest.raises(HloomError, match=r"out of range|Value"):
        module_to_proto(parse(MODULE.replace("source_line=3", "source_line=4294967296")))


def test_a_module_on_the_wire_has_shapes_and_metadata_as_bytes():
    proto = module_to_proto(parse(MODULE))
    wire = wire_module(proto)
    written, known = wire.computations[0].instructions[1], proto.computations[0].instructions[1]
    assert written.shape == known.shape.SerializeToString()
    assert written.metadata == known.metadata.SerializeToString()
    assert list(written.operand_ids) == list(known.operand_ids)
    assert wire.SerializeToString() and not new_wire_module().SerializeToString()
    assert protobuf.HloModuleProto.FromString(wire.SerializeToString()) == proto  # nothing is lost


def test_a_shape_in_two_parts_is_put_together():
    """As protobuf has it, a message that comes twice is merged: the second part alone is no shape."""
    proto = module_to_proto(parse(MODULE))
    parameter = proto.computations[0].instructions[0]
    layout = protobuf.ShapeProto(layout=parameter.shape.layout)
    rest = protobuf.ShapeProto()
    rest.CopyFrom(parameter.shape)
    rest.ClearField("layout")
    parts = b"".join(
        b"\x1a" + varint(len(part)) + part for part in (rest.SerializeToString(), layout.SerializeToString())
    )
    parameter.ClearField("shape")
    parameter.MergeFromString(parts)
    assert print_module(module_from_proto(proto)) == print_module(module_from_proto(module_to_proto(parse(MODULE))))


def test_fields_that_no_schema_names_are_kept_and_noted():
    proto = module_to_proto(parse(MODULE))
    proto.computations[0].instructions[1].MergeFromString(varint(9999 << 3) + b"\x05")
    wire = wire_module(proto)
    assert varint(9999 << 3) + b"\x05" in wire.SerializeToString()
    with pytest.warns(UserWarning, match="9999"):
        module_from_proto(proto)
