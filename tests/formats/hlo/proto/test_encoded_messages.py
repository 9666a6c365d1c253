"""Modules as they stand on the wire: what is put together byte by byte is what protobuf writes.

Covers `encoded_messages.py`, `encoded_attributes.py`, `encoded_instructions.py`.
"""

# pyright: reportPrivateUsage=false
# how much is remembered from one module to the next cannot be seen from outside

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hloom.formats import protobuf
from hloom.formats.hlo import module_from_proto, module_to_proto, parse, print_module
from hloom.formats.hlo.proto import instruction_reader, instruction_writer
from hloom.formats.hlo.proto.encoded_attributes import encode_attributes
from hloom.formats.hlo.proto.encoded_instructions import cut, packed, signed
from hloom.formats.hlo.proto.encoded_messages import VARINTS, consecutive_varints, encoded_fields, in_order, wire_module
from hloom.formats.hlo.proto.field_mapping import Context
from hloom.formats.hlo.proto.instruction_fields import field_of, set_defaults
from hloom.formats.hlo.proto.literals import encoded_literal, write_literal
from hloom.formats.hlo.proto.metadata import encoded_metadata, write_metadata
from hloom.formats.hlo.proto.module_writer import UniqueNames, unique_names
from hloom.formats.hlo.proto.shapes import decoded_shape, encoded_shape, read_shape, write_shape
from hloom.ir import (
    DTYPES,
    Attributes,
    Layout,
    Literal,
    Metadata,
    SliceDimension,
    TensorType,
    TupleType,
    Type,
    default_layout,
    dtype,
    legal_name,
)
from hloom.ops import OPS
from hloom.text import HloomError, HloomWarning
from tests.helpers.properties import examples

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
    assert VARINTS[number] == data


@given(st.integers(-(2**63), 2**63 - 1))
@examples(100)
def test_numbers_are_protobufs(number: int):
    assert (
        b"\x68" + VARINTS[number] == protobuf.HloInstructionProto(tuple_index=number).SerializeToString() or not number
    )


@given(st.integers(0, 2**31), st.integers(0, 600))
@examples(50)
def test_consecutive_numbers_are_those_one_by_one(graph: int, count: int):
    first = graph << 32
    assert consecutive_varints(first, count) == [VARINTS[first + number] for number in range(count)]


NUMBERS = st.one_of(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1), st.integers(2**63, 2**65))
LISTS = st.lists(NUMBERS, max_size=5).map(tuple)
SLICES = st.lists(st.builds(SliceDimension, NUMBERS, NUMBERS, NUMBERS), max_size=3).map(tuple)
TEXTS = st.text(max_size=200)
ATTRIBUTES: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "get-tuple-element": {"index": NUMBERS, "backend_config": TEXTS},
    "transpose": {"dimensions": LISTS, "frontend_attributes": st.just((("a", "b"),))},
    "slice": {"slice": SLICES},
    "sort": {"dimensions": LISTS, "is_stable": st.booleans()},
    "reduce-precision": {"exponent_bits": NUMBERS, "mantissa_bits": NUMBERS},
    "compare": {"direction": TEXTS, "type": TEXTS},
    "fusion": {"kind": TEXTS},
    "iota": {"iota_dimension": NUMBERS},
    "dot": {
        "lhs_batch_dims": LISTS,
        "lhs_contracting_dims": LISTS,
        "rhs_batch_dims": LISTS,
        "rhs_contracting_dims": LISTS,
        "operand_precision": st.just(("high", "default")),
    },
    "gather": {"offset_dims": LISTS, "index_vector_dim": NUMBERS, "indices_are_sorted": st.booleans()},
    "custom-call": {"custom_call_target": TEXTS, "feature_group_count": NUMBERS},
    "ragged-dot": {"lhs_ragged_dims": LISTS, "lhs_contracting_dims": LISTS},
    "topk": {"k": NUMBERS, "largest": st.booleans()},
}
"""Values of attributes, some of which no field holds, by opcode."""


@given(
    st.sampled_from(sorted(ATTRIBUTES)).flatmap(
        lambda opcode: st.tuples(st.just(opcode), st.fixed_dictionaries({}, optional=ATTRIBUTES[opcode]))
    )
)
@examples(300)
@example(("get-tuple-element", {"index": True}))
@example(("sort", {"dimensions": 3}))
@example(("iota", {"iota_dimension": 1.5}))
def test_attributes_are_what_protobuf_writes(instruction: tuple[str, dict[str, Any]]):
    opcode, attributes = instruction
    encoded = encode_attributes(opcode, attributes)
    if encoded is None:  # a message makes them, or says what is wrong with them
        return
    message = protobuf.HloInstructionProto()
    set_defaults(message, opcode)
    for name, value in attributes.items():
        field = field_of(opcode, name)
        assert field is not None
        field.write(message, value, Context())
    assert in_order(encoded) == message.SerializeToString()
    assert in_order(encoded_fields(message)) == message.SerializeToString()


def test_most_attributes_need_no_message():
    plain = {"index": 3}, {"dimensions": (1, 0)}, {"direction": "LT"}, {"lhs_contracting_dims": (1,)}
    for opcode, attributes in zip(("get-tuple-element", "transpose", "compare", "dot"), plain, strict=True):
        assert encode_attributes(opcode, attributes) is not None


@given(
    st.lists(st.sampled_from(["x", "x.0", "x.1", "x.01", "x.-0", "x.-1", "x.0.0", "x.1.0", "9", "a b", "a\nb", "_.7"]))
)
@examples(200)
def test_names_are_given_out_alike_one_by_one_and_together(names: list[str]):
    take = UniqueNames().take
    one_by_one = [take(legal_name(name)).encode() for name in names]
    assert unique_names(names) == one_by_one
    assert len(set(one_by_one)) == len(names)


@pytest.mark.parametrize("name", sorted(DTYPES))
@pytest.mark.parametrize("dims", [(), (0,), (3,), (5, 7)])
def test_a_literal_is_what_protobuf_writes(name: str, dims: tuple[int, ...]):
    count = math.prod(dims)
    layout = Layout((0, 1)) if len(dims) == 2 else None
    array_type = TensorType(dtype(name), dims, layout)
    width = array_type.dtype.byte_count
    data = np.arange(count * width, dtype=np.uint8) % 2
    literal = Literal.array(array_type, data.view(array_type.dtype.numpy).reshape(dims))
    written = write_literal(literal)
    assert protobuf.LiteralProto.FromString(encoded_literal(literal, array_type)) == written
    assert encoded_literal(literal, array_type) == written.SerializeToString()


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


def test_an_instruction_on_the_wire_is_bytes():
    proto = module_to_proto(parse(MODULE))
    wire = wire_module(proto)
    written, known = wire.computations[0].instructions[1], proto.computations[0].instructions[1]
    assert written == known.SerializeToString()
    assert protobuf.HloModuleProto.FromString(wire.SerializeToString()) == proto  # nothing is lost


def cut_fields(instruction: Any) -> Any:
    """A message put together from the parts that its bytes are cut into."""
    name, start, metadata, literal, parameter, number, operands, control, called, rest = cut(
        instruction.SerializeToString(deterministic=True)
    )
    made = protobuf.HloInstructionProto.FromString(start + rest)
    made.name, made.parameter_number, made.id = name.decode(), parameter - (parameter >> 63 << 64), signed(number)
    if metadata:
        made.metadata.MergeFromString(metadata)
    if literal is not None:
        made.literal.MergeFromString(literal)
    made.operand_ids.extend(map(signed, packed(operands)))
    made.control_predecessor_ids.extend(map(signed, packed(control)))
    made.called_computation_ids.extend(map(signed, packed(called)))
    return made


IDS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.text(max_size=200),
            "opcode": st.text(max_size=200),
            "shape": st.builds(protobuf.ShapeProto, dimensions=IDS),
            "metadata": st.builds(protobuf.OpMetadata, op_name=st.text(min_size=1, max_size=200)),
            "literal": st.builds(protobuf.LiteralProto, s64s=IDS),
            "parameter_number": st.integers(-(2**63), 2**63 - 1),
            "fusion_kind": st.text(max_size=200),
            "epsilon": st.floats(width=32, allow_nan=False),
            "is_stable": st.booleans(),
            "backend_config": st.binary(max_size=200),
            "id": st.integers(-(2**63), 2**63 - 1),
            "operand_ids": IDS,
            "control_predecessor_ids": IDS,
            "called_computation_ids": IDS,
        },
    ),
    st.booleans(),
)
@examples(150)
def test_an_instruction_is_the_sum_of_its_parts(fields: dict[str, Any], is_newer: bool):
    message = protobuf.HloInstructionProto(**fields)
    if is_newer:  # with a field that no schema names, whose number is a low one
        message.MergeFromString(VARINTS[4 << 3] + b"\x05")
    assert cut_fields(message) == message


ARRAYS = st.builds(
    lambda name, dims, seed, dynamic: TensorType(
        dtype(name),
        dims,
        None if seed is None else Layout(tuple(seed.sample(range(len(dims)), len(dims)))),
        [True] * len(dims) if dynamic else None,
    ),
    st.sampled_from(sorted(DTYPES)),
    st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**62)), max_size=4),
    st.one_of(st.none(), st.randoms(use_true_random=False)),
    st.booleans(),
).filter(lambda type_: type_.is_countable)


@given(st.one_of(ARRAYS, st.lists(ARRAYS, max_size=3).map(TupleType)))
@examples(150)
def test_a_shape_is_decoded_as_it_is_read(type_: Type):
    data = encoded_shape(type_)
    message = protobuf.ShapeProto.FromString(data)
    assert data == write_shape(type_).SerializeToString()
    assert decoded_shape(data) in (None, read_shape(message))


@pytest.mark.parametrize("dims", [(), (2,), (300, 4), (1 << 62, 0)])
def test_plain_shapes_need_no_message(dims: tuple[int, ...]):
    array_type = TensorType(dtype("f32"), dims, default_layout(len(dims)) if dims else None)
    assert decoded_shape(encoded_shape(array_type)) is array_type
    assert decoded_shape(encoded_shape(TupleType([array_type] * 2))) is TupleType([array_type] * 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda proto: proto.layout.minor_to_major.append(1),
        lambda proto: proto.dimensions.append(-1),
        lambda proto: proto.dimensions.extend([1 << 40] * 40),
        lambda proto: proto.is_dynamic_dimension.append(True),
        lambda proto: setattr(proto.layout, "memory_space", 1),
        lambda proto: setattr(proto, "element_type", 77),
        lambda proto: setattr(proto, "element_type", 300),
        lambda proto: proto.ClearField("element_type"),
        lambda proto: proto.ClearField("layout"),
        lambda proto: proto.MergeFromString(VARINTS[9999 << 3] + b"\x05"),
    ],
)
def test_other_shapes_are_left_to_the_message(change):
    proto = write_shape(TensorType(dtype("f32"), (2, 3)))
    change(proto)
    assert decoded_shape(proto.SerializeToString()) is None
    outer = protobuf.ShapeProto(element_type=protobuf.PrimitiveType.Value("TUPLE"), tuple_shapes=[proto])
    assert decoded_shape(outer.SerializeToString()) is None


def test_a_shape_in_two_parts_is_put_together():
    """As protobuf has it, a message that comes twice is merged: the second part alone is not a shape."""
    proto = module_to_proto(parse(MODULE))
    parameter = proto.computations[0].instructions[0]
    layout = protobuf.ShapeProto(layout=parameter.shape.layout)
    rest = protobuf.ShapeProto()
    rest.CopyFrom(parameter.shape)
    rest.ClearField("layout")
    parts = b"".join(
        b"\x1a" + VARINTS[len(part)] + part for part in (rest.SerializeToString(), layout.SerializeToString())
    )
    parameter.ClearField("shape")
    parameter.MergeFromString(parts)
    assert print_module(module_from_proto(proto)) == print_module(module_from_proto(module_to_proto(parse(MODULE))))


def test_fields_that_no_schema_names_are_kept_and_noted():
    proto = module_to_proto(parse(MODULE))
    proto.computations[0].instructions[1].MergeFromString(VARINTS[9999 << 3] + b"\x05")
    wire = wire_module(proto)
    assert VARINTS[9999 << 3] + b"\x05" in wire.SerializeToString()
    assert "9999" in module_from_proto(proto).notes[0]


def test_what_one_module_lost_is_said_of_the_next_one_too():
    """Bytes are remembered from one module to the next, but for those of which something is dropped."""
    proto = module_to_proto(parse(MODULE))
    for instruction in proto.computations[0].instructions:
        instruction.MergeFromString(VARINTS[9999 << 3] + b"\x05")
        instruction.metadata.MergeFromString(VARINTS[9998 << 3] + b"\x05")
        instruction.shape.MergeFromString(VARINTS[9997 << 3] + b"\x05")
    with pytest.warns(HloomWarning, match="drops"):
        notes = [module_from_proto(proto).notes for _ in range(2)]
    assert notes[0] == notes[1]
    assert all(f"field number {number}" in "".join(notes[0]) for number in (9999, 9998, 9997))
    text = "HloModule m\n\nENTRY e {\n  a = f32[2] parameter(0)\n  b = f32[2] negate(a), nobody_knows_this=3\n"
    with pytest.warns(HloomWarning, match="kept as it is"):
        module = parse(text + "  ROOT c = f32[2] negate(b), nobody_knows_this=3\n}\n")
    notes = [_noted(lambda: module_to_proto(module)) for _ in range(2)]
    assert notes[0] == notes[1]
    assert "nobody_knows_this" in notes[0]


def _noted(run: Any) -> str:
    with pytest.warns(HloomWarning) as caught:
        run()
    return "\n".join(str(warning.message) for warning in caught)


def test_what_is_remembered_stays_small():
    """Many modules with bytes of their own fill the memories no further, and what was forgotten is read again."""
    memo = instruction_writer._BoundedMemo(str)
    assert [memo[number] for number in (*range(3000), 0)] == [*map(str, range(3000)), "0"]
    assert len(memo) <= 1024
    negate = OPS["negate"]
    written, read = instruction_writer._Memory(), instruction_reader._Memory()
    kept = [Attributes(sharding=number) for number in range(9000)]
    rows = read.plain.setdefault(negate, {})
    for number, attributes in enumerate(kept):
        data = VARINTS[number]
        written.keep(negate, attributes, (data, b""))
        read.keep_attributes(data, (negate, data), attributes)
    assert written.get(negate, kept[-1]) == (VARINTS[8999], b"")
    assert written.get(negate, kept[0]) is None
    assert rows[VARINTS[8999]] is kept[-1]
    assert len(rows) == len(read.attributes) <= 4096
    read.keep_attributes(bytes(513), (negate, bytes(513)), kept[0])
    written.keep(negate, kept[1], (bytes(513), b""))
    assert bytes(513) not in rows
    assert written.get(negate, kept[1]) is None


def test_payloads_are_those_of_the_module_that_is_read():
    """The same bytes name another payload in another module."""
    texts: list[str] = []
    for payload in (b"one", b"two"):
        proto = module_to_proto(parse(MODULE))
        proto.payloads.append(payload)
        proto.computations[0].instructions[1].metadata.op_name = "x"
        proto.computations[0].instructions[1].metadata.metadata_payload.id = 0
        proto.computations[0].instructions[1].metadata.metadata_payload.SetInParent()
        texts.append(print_module(module_from_proto(proto)))
    assert texts[0] != texts[1]
    assert "one" in texts[0]
    assert "two" in texts[1]
