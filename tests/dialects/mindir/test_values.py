"""Constants and types as MindSpore writes them: `values.py`, `abstracts.py`, `locations.py`."""

from __future__ import annotations

import numpy as np
import pytest

from hloom.dialects.mindir.abstracts import abstract_of, type_of
from hloom.dialects.mindir.locations import metadata_text
from hloom.dialects.mindir.values import Number, Sequence, Text, Word, read_value, tensor_text, type_of_value
from hloom.ir import Literal, literal_of
from hloom.text import HloomError


@pytest.mark.parametrize(
    "abstract, type_",
    [
        ("<Tensor[Float32], (4, 8)>", "f32[4,8]"),
        ("<Tensor[Bool], (), value=...>", "pred[]"),
        ("<Tensor[BFloat16], (-1, 3)>", "bf16[?,3]"),
        ("<Tensor[Float32], (-2)>", "opaque[]"),
        ("<Ref[Tensor[Float16]], (16, 8), ref_key=first.weight, is_parameter>", "f16[16,8]"),
        ("<Int64, NoShape>", "s64[]"),
        ("<UMonad, NoShape>", "token[]"),
        ("<Func, NoShape>", "() -> ?"),
        ("<String, NoShape>", "opaque[]"),
        ("<null>", "None"),
        (
            "<Tuple[Tensor[Float32]*2,Tuple[Int64,Bool]], TupleShape((4), (), TupleShape(NoShape, NoShape)), flags={[const"
            " vector]{1}}>",
            "(f32[4], f32[], (s64[], pred[]))",
        ),
        ("<Tuple[], TupleShape()>", "()"),
        ("<Tuple[Int64*99999], TupleShape(NoShape)>", "opaque[]"),
        ("<Tuple[Int64*2], TupleShape(NoShape)>", "opaque[]"),
        ("<" + "Tuple[" * 200 + "]" * 200 + ">", "opaque[]"),
        ("<Tuple[, (>", "opaque[]"),
    ],
)
def test_an_abstract_says_a_type(abstract, type_):
    assert str(type_of(abstract)) == type_


@pytest.mark.parametrize(
    "abstract",
    [
        "<Tensor[Float32], (4, 8)>",
        "<Tensor[Int32], ()>",
        "<UMonad, NoShape>",
        "<Func, NoShape>",
        "<null>",
        "<Tuple[Tensor[Float32]*2,Tensor[Bool]], TupleShape((4), (4), (-1, 2))>",
        "<Tuple[Tuple[Tensor[Int8]]], TupleShape(TupleShape((3)))>",
    ],
)
def test_a_type_is_written_as_an_abstract(abstract):
    assert abstract_of(type_of(abstract)) == abstract


@pytest.mark.parametrize(
    "written, value",
    [
        ("I64(-3)", Number("I64", "-3")),
        ("Bool(1)", Number("Bool", "1")),
        ('"NC"HW"', Text('NC"HW')),
        ("None", Word("None")),
        ("UMonad[U]", Word("UMonad[U]")),
        ("(I64(1), (5, x))", Sequence("(", (Number("I64", "1"), Sequence("(", (Word("5"), Word("x")))))),
        ("[]", Sequence("[", ())),
        ("NameSpace[Entry: 'a.b']", Word("NameSpace[Entry: 'a.b']")),
        ("(" * 500, Word("(" * 500)),
    ],
)
def test_a_value_reads_and_writes(written, value):
    assert read_value(written) == value
    assert str(value) == written


def test_numbers_have_values_and_types():
    number = read_value("F32(0.5)")
    assert isinstance(number, Number)
    assert (number.value, str(type_of_value(number))) == (0.5, "f32[]")
    assert str(type_of_value(read_value('(I64(2), "x")'))) == "(s64[], opaque[])"


@pytest.mark.parametrize(
    "written, dims, elements",
    [
        ("Tensor(shape=[], dtype=Float32, value=1e-05)", (), [1e-05]),
        ("Tensor(shape=[3], dtype=Int64, value=[0 1 2])", (3,), [0, 1, 2]),
        ("Tensor(shape=[2], dtype=Float32, value=[nan inf])", (2,), [np.nan, np.inf]),
        ("Tensor(shape=[1, 2], dtype=Bool, value=\n[[ True False]])", (1, 2), [True, False]),
        ("Tensor(shape=[2], dtype=Complex64, value=[1+2j 3.5+0j])", (2,), [1 + 2j, 3.5]),
        ("Tensor(shape=[0, 3], dtype=Float32, value=\n)", (0, 3), []),
        ("Tensor(shape=[1, 2, 2], dtype=Int8, value=\n[[[-1  2]\n  [ 3  4]]])", (1, 2, 2), [-1, 2, 3, 4]),
    ],
)
def test_a_tensor_reads_and_what_is_written_reads_back(written, dims, elements):
    literal = read_value(written)
    assert isinstance(literal, Literal)
    assert literal.numpy().shape == dims
    np.testing.assert_array_equal(literal.numpy().ravel(), np.array(elements, literal.numpy().dtype))
    assert read_value(tensor_text(literal)) == literal


def test_a_tensor_is_written_as_mindspore_does():
    for written in ("Tensor(shape=[], dtype=Float32, value=-1e+09)", "Tensor(shape=[2], dtype=Int32, value=[10  2])"):
        literal = read_value(written)
        assert isinstance(literal, Literal)
        assert tensor_text(literal) == written
    third = literal_of(np.float32(1) / np.float32(3))
    assert tensor_text(third) == "Tensor(shape=[], dtype=Float32, value=0.3333333432674408)"
    block = literal_of(np.arange(8, dtype=np.int32).reshape(2, 2, 2))
    assert tensor_text(block).endswith("value=\n[[[0 1]\n  [2 3]]\n [[4 5]\n  [6 7]]])")


def test_a_tensor_whose_data_are_left_out_is_elided():
    literal = read_value("Tensor(shape=[2, 1000], dtype=Float32, value=[...])")
    assert isinstance(literal, Literal)
    assert literal.is_elided
    assert tensor_text(literal) == "Tensor(shape=[2, 1000], dtype=Float32, value=[...])"


@pytest.mark.parametrize(
    "written, message",
    [
        ("Tensor(shape=[2], dtype=Int32, value=[1])", "a tensor s32[2] has 2 elements, but 1 are written"),
        ("Tensor(shape=[1], dtype=Int8, value=[300])", "'300' is not a number of type s8"),
        ("Tensor(shape=[1], dtype=Float32, value=[" + "1" * 100 + "])", "is too long for a number"),
        ("Tensor(shape=[" + "1, " * 70 + "1], dtype=Int8, value=[1])", "a tensor of 71 dimensions"),
    ],
)
def test_a_malformed_tensor_is_refused(written, message):
    with pytest.raises(HloomError, match=message.replace("[", r"\[")):
        read_value(written)


def test_the_innermost_line_outside_of_mindspore_is_a_nodes_location():
    lines = [
        "# Fullname with scope: (Default/Mul-op0)",
        "# In file net.py:3~9, 4~8/    def construct(self, x):/",
        "# In file net.py:5, 8~12/        y = x * w/",
        "# In file /venv/site-packages/mindspore/ops/basic.py:80, 1~2/    return mul(x, y)/",
    ]
    assert metadata_text("Mul", lines) == (
        'op_type="Mul" op_name="Default/Mul-op0" source_file="net.py" source_line=5 source_column=8 source_end_column=12'
    )
    assert metadata_text("Mul", []) is None
