"""ProgramDescs become modules, and come back byte for byte.

Covers `program_reader.py`, `program_writer.py`, `type_inference.py`.
"""

from __future__ import annotations

import pytest

import hloom
from hloom.dialects import paddle
from hloom.ir import OPAQUE, Parameter, TupleType
from hloom.text import HloomError
from tests.dialects.paddle.program_text import PROGRAMS, module, program, text_of

SIZES = {"x": [2, 3], "w": [3, 4], "h": [2, 4], "y": [2, 4]}


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.pb")), ids=lambda path: path.stem)
def test_programs_of_paddle_come_back_byte_for_byte(path):
    """Made by Paddle 2.6.2 (`client.py build`), call stacks taken out: training with Adam, a loop, layers."""
    data = path.read_bytes()
    assert paddle.write_program(paddle.read_program(path)) == data


def test_there_are_programs():
    assert {"linear", "training", "looping", "layer_norm"} <= {path.stem for path in PROGRAMS.glob("*.pb")}


def test_a_program_as_a_module():
    read = module(SIZES, "Out=h: matmul_v2(X=x, Y=w)\nOut=y: relu(X=h)", lasting=["w"])
    assert [(parameter.name, str(parameter.type)) for parameter in read.entry.parameters] == [
        ("x", "f32[2,3]"),
        ("w", "f32[3,4]"),
    ]
    assert [node.opcode for node in read.entry.nodes if not isinstance(node, Parameter)] == [
        "paddle.matmul_v2", "paddle.relu", "tuple",
    ]  # fmt: skip
    assert read.entry["y"].operands == (read.entry["h"],)
    assert read.entry.root.operands == (read.entry["y"],)


def test_slots_stand_in_the_order_of_the_signature():
    """Messages list slots by name; operands stand as the op's signature has them."""
    read = module(SIZES | {"b": [4]}, "Out=h: fc(Bias=b, Input=x, W=w)")
    assert [node.name for node in read.entry["h"].operands] == ["x", "w", "b"]
    assert read.entry["h"].attributes["input_slots"] == (("Input", 1), ("W", 1), ("Bias", 1))
    assert text_of(read) == "Out=h: fc(Bias=b, Input=x, W=w)"


def test_usual_slots_and_defaults_are_not_written_down():
    node = module(SIZES, "Out=h: matmul_v2(X=x, Y=w) trans_x=False trans_y=True").entry["h"]
    assert "input_slots" not in node.attributes
    assert "trans_x" not in node.attributes
    assert node.attributes["trans_y"] is True


def test_several_results_are_a_tuple():
    read = module({"x": [2, 3], "y": [6], "s": [0, 2, 3]}, "Out=y, XShape=s: reshape2(X=x) shape=[6]")
    whole = read.entry["y"].operands[0]
    assert isinstance(whole.type, TupleType)
    assert [str(element) for element in whole.type.elements] == ["f32[6]", "f32[0,2,3]"]
    assert "s" not in read.entry, "what only the gradient would read has no node of its own"
    assert text_of(read) == "Out=y, XShape=s: reshape2(X=x) shape=(6,)"


def test_a_variable_that_is_written_again_is_another_value():
    text = "Out=x: relu(X=x)\nOut=x: tanh(X=x)\nOut=y: sigmoid(X=x)"
    read = module({"x": [2], "y": [2]}, text)
    sigmoid = read.entry["y"]
    assert sigmoid.operands[0].opcode == "paddle.tanh"
    assert sigmoid.operands[0].operands[0].opcode == "paddle.relu"
    assert isinstance(sigmoid.operands[0].operands[0].operands[0], Parameter)
    assert text_of(read) == text


def test_what_outlives_the_program_is_yielded():
    text = "ParamOut=w: sgd(Param=w, Grad=g, LearningRate=r)\nOut=y: relu(X=w)"
    read = module({"w": [2], "g": [2], "r": [1], "y": [2]}, text, lasting=["w"])
    assert [node.opcode for node in read.entry.root.operands] == ["paddle.sgd", "paddle.relu"]


def test_unknown_sizes_and_unknown_variables():
    read = module({"x": [-1, 3], "y": [-1, 3]}, "Out=y: relu(X=x)\nOut=z: tanh(X=y)")
    assert str(read.entry["x"].type) == "f32[?,3]"
    assert read.entry["z"].type is OPAQUE


def test_unknown_ops_are_kept_and_do_anything():
    read = module({"x": [2], "y": [2]}, 'Out=y: made_up(X=x) flag=True name="a"')
    assert not read.entry["y"].op.is_known  # pyright: ignore[reportAttributeAccessIssue]
    assert text_of(read) == "Out=y: made_up(X=x) flag=True name='a'"


def test_further_blocks_stay():
    read = paddle.read_program(PROGRAMS / "looping.pb")
    assert read.notes == ["1 further blocks are kept as they are"]


def test_verify_finds_nothing_wrong():
    assert hloom.verify(paddle.read_program(PROGRAMS / "layer_norm.pb")).unresolved == ()


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.pb")), ids=lambda path: path.stem)
def test_inferred_types_are_those_that_paddle_wrote(path):
    read, asked = paddle.read_program(path), 0
    for node in read.entry.nodes:
        if node.opcode.startswith("paddle.") and node.op.infer is not None:  # pyright: ignore[reportAttributeAccessIssue]
            operands = [operand.type for operand in node.operands]
            assert hloom.ir.infer_type(node.op, operands, node.attributes, node.type) is node.type, node  # pyright: ignore[reportAttributeAccessIssue]
            asked += 1
    assert asked or path.stem == "looping"


def test_new_values_get_variables():
    """A variable for each value that a rewrite made; those that no op mentions any more are gone."""
    read = module(SIZES, "Out=h: matmul_v2(X=x, Y=w)\nOut=y: relu(X=h)")
    graph, relu = read.entry, read.entry["y"]
    fresh = graph.add_apply(paddle.ROWS["paddle.tanh"], relu.operands, relu.type, before=relu)
    graph.set_operands(relu, [fresh])
    assert text_of(read) == "Out=h: matmul_v2(X=x, Y=w)\nOut=tanh/0: tanh(X=h)\nOut=y: relu(X=tanh/0)"


def test_a_variable_that_is_written_too_early_gets_another_name():
    read = module({"x": [2], "y": [2], "z": [2]}, "Out=y: relu(X=x)\nOut=z: tanh(X=y)\nOut=y: sigmoid(X=x)")
    graph = read.entry
    graph.move_before(next(node for node in graph.nodes if node.opcode == "paddle.sigmoid"), graph["z"])
    assert text_of(read) == "Out=y/0: relu(X=x)\nOut=y: sigmoid(X=x)\nOut=z: tanh(X=y/0)"


def test_what_cannot_be_renamed_is_an_error():
    read = module({"x": [2], "z": [2]}, "Out=z: tanh(X=x)\nOut=x: relu(X=x)", lasting=["x"])
    graph = read.entry
    graph.move_before(next(node for node in graph.nodes if node.opcode == "paddle.relu"), graph["z"])
    with pytest.raises(HloomError, match="variable x is written while its first value is still read"):
        paddle.write_program(read)


def test_other_modules_are_refused():
    with pytest.raises(HloomError, match="is not an op of Paddle's"):
        paddle.write_program(hloom.parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] tanh(x) }"))


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"HloModule m"])
def test_other_bytes_are_refused(data):
    with pytest.raises(HloomError, match="program is not a ProgramDesc"):
        paddle.read_program(data)


def test_a_program_without_blocks_is_refused():
    with pytest.raises(HloomError, match="program has no blocks"):
        paddle.read_program(b"")


def test_building_and_reading_agree():
    data = program(SIZES, "Out=h: matmul_v2(X=x, Y=w)")
    assert paddle.write_program(paddle.read_program(data)) == data


def test_a_parameter_whose_name_is_taken():
    """`x` is written before anything reads the variable that is called like its second value."""
    text = "Out=x: relu(X=a)\nOut=x: tanh(X=x)\nOut=y: elementwise_add(X=x, Y=x.1)"
    read = module({"a": [2], "x": [2], "x.1": [2], "y": [2]}, text)
    assert text_of(read) == text
