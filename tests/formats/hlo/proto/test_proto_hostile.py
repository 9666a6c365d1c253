"""Bytes from strangers: whatever they are, they read as a module or give HloomError."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hloom.formats import protobuf
from hloom.formats.hlo import parse
from hloom.formats.hlo.proto import module_from_proto, module_to_proto, read_proto, write_proto
from hloom.ir import difference
from hloom.text import HloomError, HloomWarning
from tests.helpers.properties import examples

TEXT = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }

f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b), metadata={op_name="f/add" stack_frame_id=1}
}

ENTRY e {
  x = f32[4,2]{1,0} parameter(0), sharding={devices=[2,1]<=[2]}, origin={{"x" {0}}}
  y = f32[4,2]{1,0} parameter(1), sharding={mesh['x'=2], [{'x'}, {?}]}
  zero = f32[] constant(0)
  data = f32[3]{0} constant({1, 2, 3})
  n = s4[3]{0} constant({1, -2, 3})
  r = f32[4]{0} reduce(x, zero), dimensions={1}, to_apply=f
  g = f32[4,2]{1,0} all-reduce(y), replica_groups=[1,2]<=[2], channel_id=1, to_apply=f, control-predecessors={r}
  p = pred[4,2]{1,0} compare(x, g), direction=LT
  s = f32[4,2]{1,0} select(p, x, g), frontend_attributes={a="b"}, backend_config={"c":1}
  ROOT t = (f32[4,2]{1,0}, f32[4]{0}) tuple(s, r)
}
"""
DATA = write_proto(parse(TEXT))

Edit = tuple[int, int, bytes]
EDITS = st.lists(st.tuples(st.integers(0, len(DATA)), st.integers(0, 9), st.binary(max_size=9)), min_size=1, max_size=6)


def edited(edits: list[Edit]) -> bytes:
    """The data with some bytes cut out and others put in."""
    data = bytearray(DATA)
    for position, removed, inserted in edits:
        data[position : position + removed] = inserted
    return bytes(data)


def read_or_refuse(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HloomWarning)
        try:
            module = read_proto(data)
        except HloomError:
            return
        again = read_proto(write_proto(module))
    assert difference(module, again) is None


@given(EDITS)
@examples(60)
def test_edited_bytes(edits):
    read_or_refuse(edited(edits))


@given(st.binary(max_size=200))
@examples(25)
@example(b"\x1a" * 150)
def test_random_bytes(data):
    read_or_refuse(data)


def set_dims(proto: Any, *dims: int) -> None:
    proto.dimensions[:] = dims


def nest(proto: Any, depth: int) -> None:
    for _ in range(depth):
        proto.element_type = protobuf.PrimitiveType.Value("TUPLE")
        proto = proto.tuple_shapes.add()
    proto.element_type = protobuf.PrimitiveType.Value("F32")


def instruction(proto: Any, name: str) -> Any:
    return next(
        instruction
        for computation in proto.computations
        for instruction in computation.instructions
        if instruction.name == name
    )


def use_axis(module: Any, dimension: int) -> None:
    """Split a dimension by the axis that splits the first."""
    sharding = instruction(module, "y").sharding.named_sharding
    sharding.dim_shardings[dimension].axes.add(mesh_axis_index=0)


def use_axis_for_groups(module: Any) -> None:
    """Have groups of a mesh name its axis twice."""
    groups = instruction(module, "g").mesh_axes_replica_group_list
    groups.mesh.CopyFrom(instruction(module, "y").sharding.named_sharding.mesh)
    for _ in range(2):
        groups.axes.add(mesh_axis_index=0)


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda m: m.computations.pop(), "calls|entry"),
        (lambda m: m.computations.reverse(), "e, r: no computation before this one has the id 0, which it calls"),
        (lambda m: m.ClearField("computations"), "module m has no computations"),
        (lambda m: setattr(m.computations[1], "root_id", 12345), "e, its root: no instruction has the id 12345"),
        (lambda m: setattr(m.computations[1], "id", 0), "a second computation has the name e or the id 0"),
        (lambda m: setattr(instruction(m, "t"), "id", instruction(m, "s").id), "a second instruction has the name"),
        (lambda m: setattr(instruction(m, "t"), "name", "s"), "a second instruction has the name"),
        (
            lambda m: instruction(m, "r").operand_ids.__setitem__(0, instruction(m, "t").id),
            "e, r: no instruction before it has the id 4294967305 of its operand",
        ),
        (lambda m: instruction(m, "s").ClearField("operand_ids"), "e, s: select takes 3 operands, not 0"),
        (lambda m: instruction(m, "r").operand_ids.pop(), "e, r: reduce takes .*, not 1"),
        (lambda m: instruction(m, "s").operand_ids.append(instruction(m, "s").id), "e, s: no instruction before it"),
        (lambda m: instruction(m, "g").control_predecessor_ids.append(77), "e, g: .* the id 77 of its predecessor"),
        (lambda m: setattr(instruction(m, "y"), "parameter_number", 0), "e, y: it is parameter 0, as is x"),
        (lambda m: setattr(instruction(m, "y"), "parameter_number", -1), "e, y: a parameter's number cannot be -1"),
        (lambda m: set_dims(instruction(m, "data").literal.shape, 2**62), "bytes|elements"),
        (lambda m: set_dims(instruction(m, "data").shape, 4), r"e, data: it is f32\[4\], but its literal f32\[3\]"),
        (lambda m: instruction(m, "n").literal.ClearField("s4s"), "e, n: a literal of 3 elements of s4 holds 0 bytes"),
        (lambda m: set_dims(instruction(m, "x").shape, -5, 2), "e, x: a dimension cannot be -5"),
        (lambda m: instruction(m, "x").shape.layout.minor_to_major.append(7), "is not a permutation of 2 dimensions"),
        (lambda m: setattr(instruction(m, "x").shape, "element_type", 999), "the element type 999"),
        (lambda m: nest(instruction(m, "x").shape, 95), "e, x: the tuple type nests deeper than 90"),
        (lambda m: setattr(instruction(m, "x").sharding, "type", 77), "e, x: a sharding .* of the kind 77"),
        (lambda m: instruction(m, "x").sharding.iota_transpose_perm.append(5), "a range of devices is malformed"),
        (lambda m: instruction(m, "x").sharding.iota_reshape_dims.extend([2] * 99), "a range of devices has 100 sizes"),
        (
            lambda m: setattr(
                instruction(m, "y").sharding.named_sharding.dim_shardings[0].axes[0], "mesh_axis_index", 4
            ),
            "has no axis number 4",
        ),
        (lambda m: use_axis(m, 0), r"e, y: mesh\['x'=2\]: 'x' overlaps 'x', which is already used"),
        (lambda m: use_axis(m, 1), r"e, y: mesh\['x'=2\]: 'x' overlaps 'x', which is already used"),
        (use_axis_for_groups, r"e, g: mesh\['x'=2\]: 'x' overlaps 'x', which is already used"),
        (
            lambda m: instruction(m, "x").original_value.elements[0].shape_index.append(2**60),
            "the first place of an original value",
        ),
        (lambda m: setattr(instruction(m, "p"), "comparison_direction", "UP"), "direction is 'UP', which is not one of"),
        (lambda m: setattr(instruction(m, "p"), "opcode", "two words"), "e, p: 'two words' is not an opcode"),
        (
            lambda m: instruction(m, "r").ClearField("called_computation_ids"),
            "e, r: reduce needs the attribute to_apply",
        ),
        (lambda m: instruction(m, "r").called_computation_ids.append(0), "e, r: reduce calls 1 computations, not 2"),
        (lambda m: m.schedule.sequences[1].instruction_ids.pop(), "its schedule: it does not list every instruction"),
        (
            lambda m: m.schedule.sequences[1].instruction_ids.insert(0, m.schedule.sequences[1].instruction_ids.pop()),
            "its schedule: t stands before s, which it needs",
        ),
        (lambda m: setattr(m.input_output_alias.entries[0], "kind", 9), "in the header: an alias .* kind 9"),
        (lambda m: setattr(instruction(m, "s").metadata.metadata_payload, "id", 3), "there is no payload number 3"),
    ],
)
def test_what_does_not_fit_together(edit: Callable[[Any], Any], problem: str):
    proto = protobuf.HloModuleProto.FromString(DATA)
    edit(proto)
    with pytest.raises(HloomError, match=problem):
        module_from_proto(proto, name="m.pb")


def test_a_constant_without_data_is_elided():
    proto = protobuf.HloModuleProto.FromString(DATA)
    instruction(proto, "data").ClearField("literal")
    assert module_from_proto(proto)["e"]["data"].value.is_elided  # pyright: ignore[reportAttributeAccessIssue]


def test_an_opcode_of_the_future_is_kept():
    proto = protobuf.HloModuleProto.FromString(DATA)
    instruction(proto, "s").opcode = "select-harder"
    with pytest.warns(HloomWarning, match="the meaning of opcode select-harder"):
        module = module_from_proto(proto)
    assert instruction(module_to_proto(module), "s").opcode == "select-harder"


def test_names_that_no_text_can_hold_are_made_plain():
    proto = protobuf.HloModuleProto.FromString(DATA)
    instruction(proto, "zero").name = "9 lives\n"
    assert "_9_lives_" in module_from_proto(proto)["e"]


def test_deep_messages_are_refused():
    proto = protobuf.HloModuleProto.FromString(DATA)
    nest(instruction(proto, "x").shape, 200)
    with pytest.raises(HloomError, match="are not HloModuleProto"):
        read_proto(proto.SerializeToString())
