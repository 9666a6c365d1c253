"""Reading and printing MindSpore's `.ir` text: `text_reader.py`, `text_printer.py`, `brackets.py`, `annotations.py`."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hloom
from hloom import HloomError, Level, ParseError
from hloom.dialects import mindir
from hloom.dialects.mindir.annotations import annotations_of
from hloom.ir import Constant
from tests.dialects.mindir.samples import FOLDER, TEXTS, text

SMALL = """# IR entry: @main_1
# Total subgraphs: 2

# Total params: 2
# Params:
%para1_x: <Tensor[Float32], (4, 8)>
%para2_w: <Ref[Tensor[Float32]], (8), ref_key=w, is_parameter>  :  has_default

subgraph attr:
training: 0
subgraph instance: main_1 : 0x1234
subgraph @main_1() {
  %0(y) = PrimFunc_Mul(%para1_x, %para2_w) {instance name: mul} primitive_attrs: {format: "NCHW", pad: (0, 0)}
      : (<Tensor[Float32], (4, 8)>, <Ref[Tensor[Float32]], (8), ref_key=w, is_parameter>) -> (<Tensor[Float32], (4, 8)>)
      # Fullname with scope: (Default/Mul-op0)
      # In file net.py:3~4, 8~12/        y = x * self.w/
  %1(CNode_2) = Mystery(%0, (I64(1), "a, b"), None, @inner_2)
      : (<Tensor[Float32], (4, 8)>, <Tuple[Int64,String], TupleShape(NoShape, NoShape)>, <None, NoShape>, <Func, NoShape>) -> (<Tensor[Float32], (4, 8)>)
  %2(CNode_3) = call @inner_2(%1)
      : (<Tensor[Float32], (4, 8)>) -> (<Tensor[Float32], (4, 8)>)
  Return(%2)
      : (<Tensor[Float32], (4, 8)>)
}


subgraph attr:
subgraph instance: inner_2 : 0x5678
# Parameters: 1, (<Tensor[Float32], (4, 8)>)
subgraph @inner_2 parent: [subgraph @main_1](%para3_v) {
  %0(CNode_4) = PrimFunc_Add(%para3_v, $(@main_1:y))
      : (<Tensor[Float32], (4, 8)>, <Tensor[Float32], (4, 8)>) -> (<Tensor[Float32], (4, 8)>)
  Return(%0)
      : (<Tensor[Float32], (4, 8)>)
}

"""


@pytest.mark.parametrize("name", TEXTS)
def test_what_mindspore_writes_reads_and_prints_back_byte_for_byte(name):
    written = text(name)
    module = mindir.parse(written, name)
    assert mindir.to_text(module) == written
    assert hloom.equal(mindir.parse(mindir.to_text(module)), module)
    assert not module.notes
    verification = hloom.verify(module)
    assert not [name for name in verification.unresolved if name.referent != "opcode"]
    assert verification.level is (Level.FUNCTIONAL if len(module.graphs) > 1 else verification.level)


def test_the_parts_of_a_text_become_nodes_types_and_annotations():
    module = hloom.load(SMALL)
    main, inner = module.graphs
    assert (main.name, inner.name, inner.parent, module.entry) == ("main_1", "inner_2", main, main)
    assert [(p.name, str(p.type)) for p in main.parameters] == [("para1_x", "f32[4,8]"), ("para2_w", "f32[8]")]
    product = main["y"]
    assert product.opcode == "mindir.Mul"
    assert product.attributes["primitive_attrs"] == (("format", '"NCHW"'), ("pad", "(0, 0)"))
    assert annotations_of(product)["instance name"] == "mul"
    metadata = product.metadata
    assert metadata is not None
    assert (metadata.op_name, metadata.source_file, metadata.source_line) == ("Default/Mul-op0", "net.py", 3)
    mystery = main["CNode_2"]
    assert mystery.opcode == "mindir.Mystery"
    assert [str(operand.attributes["value"]) for operand in mystery.operands if operand.opcode == "mindir.value"] == [
        '(I64(1), "a, b")',
        "None",
    ]
    closure = mystery.operands[3]
    assert isinstance(closure, Constant)
    assert closure.value is inner
    assert inner["CNode_4"].operands == (inner.parameters[0], product)
    assert inner.free_variables() == [product]
    assert mindir.to_text(module) == SMALL
    assert "Mystery" in [name.name.removeprefix("mindir.") for name in hloom.verify(module).unresolved]


def test_an_edited_module_prints_what_it_is_now():
    module = mindir.parse(SMALL)
    main = module.entry
    main.rename(main["y"], "z")
    main.set_type(main.parameters[1], hloom.TensorType(hloom.dtype("f32"), (4, 1)))
    printed = mindir.to_text(module)
    assert "%0(z) = PrimFunc_Mul" in printed
    assert "$(@main_1:z)" in printed
    assert "%para2_w: <Tensor[Float32], (4, 1)>  :  has_default" in printed
    assert mindir.to_text(mindir.parse(printed)) == printed


@pytest.mark.parametrize(
    "before, after, location, message",
    [
        ("%0(y) = ", "%0(y = ", "13:6", "expected ') = ' after the node's name"),
        ("%1(CNode_2) = ", "%0(CNode_2) = ", "17:3", "%0 is defined twice"),
        ("%1(CNode_2) = ", "", "17:3", "expected '%0(name) = ' before a node other than Return"),
        ("Return(%2)", "Return(%2, %1)", "21:3", "Return does not take 2 operands"),
        ("  Return(%2)\n      : (<Tensor[Float32], (4, 8)>)\n", "", "12:11", "graph @main_1 has no Return"),
        ("call @inner_2(%1)", "call @inner_2(%1", "23:1", "expected ')', not '}'"),
        ("parent: [subgraph @main_1]", "parent: [subgraph @gone]", "29:11", "the parent of graph @inner_2, @gone"),
        (" parent: [subgraph @main_1]", "", "30:43", "graph @main_1 does not enclose @inner_2"),
        ("$(@main_1:y)", "$(@gone:y)", "30:43", "graph @gone is not defined"),
        ("subgraph @inner_2", "subgraph @main_1", "29:11", "graph @main_1 is defined twice"),
        ("# IR entry: @main_1", "# IR entry: @other", "1:1", "the entry graph @other is not defined"),
        ("{instance name: mul}", "[instance name: mul]", "13:44", "expected the end of the line, found '['"),
        ("parent: [subgraph @main_1]", "parent: [subgraph @inner_2]", "29:11", "graph @inner_2 encloses itself"),
        (" None, @", " Tensor(shape=[2], dtype=Int32, value=[1]), @", "17:47", "has 2 elements, but 1 are written"),
        (" None, @", " Tensor(shape=[1], dtype=Int32, value=[x]), @", "17:47", "'x' is not a number of type s32"),
    ],
)
def test_a_broken_text_is_refused_at_its_location(before, after, location, message):
    assert SMALL.count(before) == 1
    with pytest.raises(ParseError) as error:
        mindir.parse(SMALL.replace(before, after), "net.ir")
    assert str(error.value).startswith(f"net.ir:{location}: ")
    assert message in str(error.value)
    assert "^" in str(error.value)


def test_names_that_nothing_defines_are_unresolved():
    module = mindir.parse(SMALL.replace("Mystery(%0", "Mystery(%7").replace("$(@main_1:y)", "$(@main_1:q)"))
    names = [name.name for name in hloom.verify(module).unresolved if name.referent == "operand"]
    assert names == ["%7", "$(@main_1:q)"]
    assert mindir.to_text(module) == SMALL.replace("Mystery(%0", "Mystery(%7").replace("$(@main_1:y)", "$(@main_1:q)")


def test_a_free_variable_that_several_nodes_may_be_is_told_by_its_type_or_stays_unresolved():
    twice = SMALL.replace("%1(CNode_2)", "%1(y)")
    module = mindir.parse(twice)
    assert module.notes == ["$(@main_1:y) in @inner_2 may mean any of 2 nodes"]
    other = "<Func, NoShape>) -> (<Tensor[Float32], (4, 8)>)"
    assert mindir.parse(twice.replace(other, other.replace("(4, 8)", "(2)"))).notes == []


def test_load_tells_the_text_by_its_first_bytes(tmp_path):
    path = tmp_path / "net.txt.gz"
    path.write_bytes(gzip.compress(SMALL.encode()))
    assert mindir.to_text(hloom.load(path)) == SMALL
    assert mindir.to_text(hloom.load(SMALL.encode())) == SMALL
    assert hloom.load(FOLDER / "mlp.validate.ir").source_name.endswith("mlp.validate.ir")


def test_nesting_of_any_depth_is_kept_as_it_is_written():
    deep = "(" * 5000 + "I64(1)" + ")" * 5000
    written = SMALL.replace("None", deep)
    assert mindir.to_text(mindir.parse(written)) == written


def test_many_graphs_inside_one_another():
    lines = ["# IR entry: @g0\n# Total subgraphs: 3000\n\n# Total params: 0\n# Params:\n"]
    for number in range(3000):
        parent = f" parent: [subgraph @g{number - 1}]" if number else ""
        inner = f"@g{number + 1}" if number < 2999 else "I64(1)"
        lines.append(f"\nsubgraph @g{number}{parent}() {{\n  Return({inner})\n      : (<null>)\n}}\n")
    assert len(mindir.parse("".join(lines)).graphs) == 3000


def test_a_name_that_nothing_defines_is_given_to_no_other_node():
    damaged = text("mlp.validate.ir").replace("  %1(x) = PrimFunc_MatMul", "  # %1(x) = PrimFunc_MatMul", 1)
    printed = mindir.to_text(mindir.parse(damaged))
    assert "BiasAdd(%1, " in printed
    assert "  %1(" not in printed
    assert mindir.to_text(mindir.parse(printed)) == printed


@pytest.mark.parametrize("field", ["fused", "fused:", "fused::", "fused :I64(1)", "fused: ", "fused:: I64(1)"])
def test_a_field_without_a_value_is_written_the_same_each_time(field):
    before = "primitive_attrs: {side_effect_propagate: I64(1)}"
    written = text("branch.optimize.ir")
    assert before in written
    printed = mindir.to_text(mindir.parse(written.replace(before, f"primitive_attrs: {{{field}}}")))
    assert mindir.to_text(mindir.parse(printed)) == printed


@given(data=st.data(), name=st.sampled_from(["branch.optimize.ir", "closure.validate.ir", "mlp.validate.ir"]))
def test_a_damaged_text_reads_or_is_refused_with_a_place(data, name):
    written = text(name)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(written)))
        count = data.draw(st.integers(0, 30))
        written = written[:start] + data.draw(st.text('%@()[]{}<>,:#"= \n01aR$', max_size=6)) + written[start + count :]
    try:
        module = mindir.parse(written)
    except HloomError as error:
        assert error.location is not None
        return
    hloom.verify(module)
    assert mindir.to_text(mindir.parse(mindir.to_text(module))) == mindir.to_text(module)
