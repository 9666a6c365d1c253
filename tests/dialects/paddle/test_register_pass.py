"""Passes applied by our engine to imported programs: ops in, ops out. `test_with_paddle.py` asks Paddle for the same."""

from __future__ import annotations

import pytest

from hloom.dialects import paddle
from hloom.dialects.paddle import InputSpec, PassDesc
from tests.dialects.paddle import examples
from tests.dialects.paddle.program_text import PROGRAMS, module, text_of

OP = PassDesc.OP
examples.define(paddle)


def applied(passes, variables, text, lasting=()):
    """A program after a pass, given by its name or as a pair of functions."""
    if isinstance(passes, tuple):
        passes = paddle.RegisterPassHelper([passes], "p").traced
    program = module(variables, text, lasting)
    (passes if isinstance(passes, paddle.PaddlePass) else paddle.get_pass(passes)).apply(program)
    return text_of(program)


LINEAR = {"x": [10, 16], "w": [16, 8], "b": [8], "h": [10, 8], "y": [10, 8], "z": [10, 8]}


def test_linear():
    before = "Out=h: matmul_v2(X=x, Y=w)\nOut=y: elementwise_add(X=h, Y=b) axis=-1\nOut=z: relu(X=y)"
    after = "Out=y: fc(Input=x, W=w, Bias=b)\nOut=z: relu(X=y)"
    assert applied("linear", LINEAR, before) == after


def test_the_first_pair_goes_first():
    """All over the program, before the second pair is tried: as in Paddle."""
    before = "Out=h: mul(X=x, Y=w)\nOut=y: elementwise_add(X=h, Y=b) axis=-1\nOut=z: relu(X=y)"
    assert applied("linear_with_relu", LINEAR, before) == "Out=z: fc(Input=x, W=w, Bias=b) activation_type='relu'"
    assert applied("linear_with_relu", LINEAR, before.replace("relu", "tanh")) == (
        "Out=y: fc(Input=x, W=w, Bias=b)\nOut=z: tanh(X=y)"
    )


def test_a_program_of_paddle():
    program = paddle.read_program(PROGRAMS / "linear_with_relu.pb")
    paddle.get_pass("linear_with_relu").apply(program)
    assert text_of(program) == (
        "Out=relu_0.tmp_0: fc(Input=x, W=first_w, Bias=first_b) activation_type='relu'\n"
        "Out=second_total: fc(Input=relu_0.tmp_0, W=second_w, Bias=second_b)"
    )


def test_operands_are_told_apart_by_their_slots():
    def pattern(x, y):
        return OP.elementwise_sub(X=x, Y=OP.relu(X=y))

    pair = (pattern, lambda x, y: OP.elementwise_mul(X=x, Y=y))
    sizes = {name: [2] for name in "abhy"}
    assert "elementwise_mul(X=b, Y=a)" in applied(
        pair, sizes, "Out=h: relu(X=a)\nOut=y: elementwise_sub(X=b, Y=h) axis=-1"
    )
    kept = "Out=h: relu(X=a)\nOut=y: elementwise_sub(X=h, Y=b) axis=-1"
    assert applied(pair, sizes, kept) == kept


def test_a_slot_that_the_pattern_leaves_empty_must_be_empty():
    """Paddle's runtime would match, and lose Scale."""
    pair = (lambda x: OP.layer_norm(X=x).Output("Y"), lambda x: OP.relu(X=x))
    sizes = {"x": [2, 4], "s": [4], "y": [2, 4], "m": [2], "v": [2]}
    assert applied(pair, sizes, "Y=y, Mean=m, Variance=v: layer_norm(X=x)") == "Out=y: relu(X=x)"
    kept = "Y=y, Mean=m, Variance=v: layer_norm(X=x, Scale=s)"
    assert applied(pair, sizes, kept) == kept


def test_a_result_that_the_pattern_does_not_yield_must_not_be_used():
    """Paddle's runtime would match, and leave a variable that nothing makes."""
    pair = (lambda x: OP.layer_norm(X=x).Output("Y"), lambda x: OP.relu(X=x))
    kept = "Y=y, Mean=m, Variance=v: layer_norm(X=x)\nOut=z: tanh(X=m)"
    assert applied(pair, {"x": [2, 4], "y": [2, 4], "m": [2], "v": [2], "z": [2]}, kept) == kept


def test_what_is_used_elsewhere_stays():
    pair = (lambda x: OP.tanh(X=OP.relu(X=x)), lambda x: OP.sigmoid(X=x))
    kept = "Out=h: relu(X=x)\nOut=y: tanh(X=h)\nOut=z: elementwise_add(X=h, Y=y) axis=-1"
    assert applied(pair, {name: [2] for name in "xhyz"}, kept) == kept


def test_attributes_that_the_pattern_leaves_out_may_be_anything():
    """As in Paddle: what a pattern does not say of an op does not matter."""
    pair = (lambda x, y: OP.matmul_v2(X=x, Y=y), lambda x, y: OP.mul(X=x, Y=y))
    sizes = {"x": [4, 4], "y": [4, 4], "z": [4, 4]}
    assert applied(pair, sizes, "Out=z: matmul_v2(X=x, Y=y) trans_x=True trans_y=False") == "Out=z: mul(X=x, Y=y)"


def test_attributes_that_no_table_has():
    def pattern(x):
        op = OP.softmax(X=x)
        op.SetAttr("is_test", True)
        return op

    pair, sizes = (pattern, lambda x: OP.relu(X=x)), {"x": [2], "y": [2]}
    assert applied(pair, sizes, "Out=y: softmax(X=x) is_test=True") == "Out=y: relu(X=x)"
    for kept in ("Out=y: softmax(X=x) is_test=False", "Out=y: softmax(X=x)"):
        assert applied(pair, sizes, kept) == kept


@pytest.mark.parametrize(
    ("size", "fires"), [([32, 4], True), ([64, 4], True), ([33, 4], False), ([32], False), ([-1, 4], False)], ids=str
)
def test_conditions(size, fires):
    def pattern(x):
        x.Attr("shape").Size().EQ(2)
        x.Attr("shape")[0].Mod(32).EQ(0)
        return OP.relu(X=x)

    text = applied((pattern, lambda x: OP.tanh(X=x)), {"x": size, "y": size}, "Out=y: relu(X=x)")
    assert text == f"Out=y: {'tanh' if fires else 'relu'}(X=x)"


@pytest.mark.parametrize(
    ("size", "fires"), [([4, 8], True), ([-1, 8], True), ([4, 9], False), ([4, 8, 1], False)], ids=str
)
def test_minus_one_is_a_wildcard_here(size, fires):
    passes = paddle.RegisterPassHelper(
        [(lambda x: OP.relu(X=x), lambda x: OP.tanh(X=x))], "p", {"x": InputSpec([-1, 8])}
    ).traced
    text = applied(passes, {"x": size, "y": size}, "Out=y: relu(X=x)")
    assert text == f"Out=y: {'tanh' if fires else 'relu'}(X=x)"


def test_conditions_on_two_variables_and_on_ops():
    def pattern(x, y):
        x.Attr("shape")[-1].EQ(y.Attr("shape")[0])
        add = OP.elementwise_add(X=x, Y=y)
        add.Attr("axis").LT(1)
        return add

    pair = (pattern, lambda x, y: OP.elementwise_sub(X=x, Y=y))
    text = "Out=z: elementwise_add(X=x, Y=y) axis={}"
    assert "elementwise_sub" in applied(pair, {"x": [4, 8], "y": [8], "z": [4, 8]}, text.format(-1))
    assert "elementwise_add" in applied(pair, {"x": [4, 8], "y": [1], "z": [4, 8]}, text.format(-1))
    assert "elementwise_add" in applied(pair, {"x": [4, 8], "y": [8], "z": [4, 8]}, text.format(1))


def test_attributes_are_computed():
    def replace(x):
        made = OP.softmax(X=x)
        made.Attr("axis").MappedPattern(op="transpose2", name="axis", element_index=0)
        return made

    pair = (lambda x: OP.relu(X=OP.transpose2(X=x).Output("Out")), replace)
    sizes = {"x": [4, 4], "t": [4, 4], "s": [0, 4, 4], "y": [4, 4]}
    text = "Out=t, XShape=s: transpose2(X=x) axis=[1,0]\nOut=y: relu(X=t)"
    assert applied(pair, sizes, text) == "Out=y: softmax(X=x) axis=1"


def test_what_becomes_an_input_leaves_no_op():
    pair = (lambda x: OP.relu(X=OP.relu(X=x)), lambda x: OP.relu(X=x))
    text = "Out=a: relu(X=x)\nOut=b: relu(X=a)\nOut=c: relu(X=b)\nOut=d: relu(X=c)\nOut=y: tanh(X=d)"
    text = applied(pair, {name: [2] for name in "xabcdy"}, text)
    assert text == "Out=d: relu(X=x)\nOut=y: tanh(X=d)", "until none matches; Paddle's runtime goes over a program once"


def test_updates_in_place():
    """A fused op that writes the variables that the ops it stands for wrote."""

    def pattern(x, mean, variance):
        norm = OP.batch_norm
        norm._outputs.pop("ReserveSpace")
        return OP.relu(X=norm(X=x, Mean=mean, Variance=variance).Output("Y"))

    def replace(x, mean, variance):
        norm = OP.batch_norm
        norm._outputs.pop("ReserveSpace")
        norm(X=x, Mean=mean, Variance=variance)
        norm.SetAttr("momentum", 0.5)
        norm.SetOutputs(MeanOut=mean, VarianceOut=variance)
        return norm.Output("Y")

    sizes = {"x": [2, 3], "m": [3], "v": [3], "y": [2, 3], "n": [3], "o": [3], "z": [2, 3]}
    norm = "Y={}, MeanOut=m, VarianceOut=v, SavedMean={}, SavedVariance={}: batch_norm(X=x, Mean=m, Variance=v)"
    text = applied((pattern, replace), sizes, norm.format("y", "n", "o") + "\nOut=z: relu(X=y)", lasting=["m", "v"])
    assert text == norm.format("z", "batch_norm/0", "batch_norm/1") + " momentum=0.5"


def test_custom_ops_with_effects_can_be_taken_out():
    def pattern(x):
        op = OP.c_identity
        op.SetAttr("use_calc_stream", True)
        return op(X=x)

    text = "Out=y: c_identity(X=x) use_calc_stream=True\nOut=z: relu(X=y)"
    assert applied((pattern, lambda x: x), {"x": [2], "y": [2], "z": [2]}, text) == "Out=z: relu(X=x)"


def test_what_would_have_another_type_stays():
    kept = "Out=y: relu(X=x)"
    pair = (lambda x: OP.relu(X=x), lambda x: OP.reduce_sum(X=x))
    assert applied(pair, {"x": [2, 3], "y": [2, 3]}, kept) == kept
