"""Which operands are copied into other layouts."""

from __future__ import annotations

from hloom.formats.hlo import parse
from hloom.targets.cpu import simulate_buffers
from tests.targets.cpu.programs import BIG, program, stored


def test_a_dot_over_two_dimensions_transposes_its_left_operand():
    lines = (
        "x = f32[8,32,64] parameter(0)",
        "y = f32[8,32,128] parameter(1)",
        "z = f32[8,32,64] negate(x)",
        "ROOT d = f32[64,128] dot(z, y), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}",
    )
    assert stored(program(*lines)) == ["transpose", "d"]


def test_an_all_gather_along_a_minor_dimension_is_copied_before_and_after():
    lines = (
        "x = f32[256,32] parameter(0)",
        f"g = {BIG} all-gather(x), dimensions={{1}}, replica_groups={{{{0,1,2,3,4,5,6,7}}}}",
        f"d = {BIG} dot(g, g), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"ROOT r = {BIG} negate(d)",
    )
    assert stored(program(*lines)) == ["copy.1", "g", "copy", "d"]
    assert "copy" not in stored(program(*lines).replace("f32[256,32]", "f32[32,256]").replace("s={1}, re", "s={0}, re"))


def test_a_transposed_result_is_copied_out_of_the_layout_in_which_it_is_computed():
    lines = (
        f"x = {BIG} parameter(0)",
        f"a = {BIG} negate(x)",
        f"t = {BIG} transpose(a), dimensions={{1,0}}",
        f"ROOT r = ({BIG}) tuple(t)",
    )
    assert stored(program(*lines)) == ["t"]
    assert stored(program(lines[0], lines[2].replace("(a)", "(x)"), lines[3])) == []


def test_the_left_operand_of_a_transposed_product_is_copied():
    lines = (
        "x = f32[8,32,64] parameter(0)",
        "y = f32[8,32,128] parameter(1)",
        "z = f32[8,32,64] tanh(x)",
        "d = f32[64,128] dot(z, y), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}",
        "t = f32[128,64] transpose(d), dimensions={1,0}",
        "ROOT n = f32[128,64] negate(t)",
    )
    module = parse(program(*lines))
    nodes = {node.name: node for node in simulate_buffers(module).steps}
    assert [str(operand.type) for operand in nodes["d"].operands] == ["f32[256,128]", "f32[64,256]"]


def test_dots_read_batches_of_transposed_matrices_through_the_transpose():
    lines = (
        "x = f32[8,250,64] parameter(0)",
        "z = f32[8,250,64] tanh(x)",
        "t = f32[8,64,250] transpose(z), dimensions={0,2,1}",
        "d = f32[8,64,64] dot(t, z), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}",
        "ROOT r = (f32[8,64,64], f32[8,64,250]) tuple(d, t)",
    )
    assert stored(program(*lines[:-1], "ROOT n = f32[8,64,64] negate(d)")) == ["z", "d"]
    module = parse(program(*lines))
    simulate_buffers(module)
    assert module.entry["d"].operands == (module.entry["z"], module.entry["z"])
