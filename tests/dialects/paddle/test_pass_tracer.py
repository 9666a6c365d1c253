"""Functions written for Paddle's RegisterPass become rules.

Covers `pass_tracer.py`, `register_pass.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from hloom.dialects import paddle
from hloom.dialects.paddle import InputSpec, ParamAttr, PassDesc, RegisterPass
from hloom.rewrite import RuleError
from tests.dialects.paddle import examples

OP = PassDesc.OP


def traced(pattern, replace=lambda x: x, **specs) -> Any:
    """The one rule of a pair."""
    helper = paddle.RegisterPassHelper([(pattern, replace)], "p", specs)
    (rule,) = helper.traced.rules
    return rule


def refusal(pattern, replace=lambda x: x, **specs) -> str:
    with pytest.raises(RuleError) as caught:
        traced(pattern, replace, **specs)
    return str(caught.value)


def conditions(pattern, **specs):
    return [condition.text for condition in traced(pattern, **specs).pattern.conditions]


def attributes_of(replace, pattern=lambda x: OP.transpose2(X=x).Output("Out")):
    make = traced(pattern, replace).pattern.makes[0]
    return {name: str(value) for name, value in make.attributes}


def test_a_pass_in_full():
    @RegisterPass
    def fuse():
        def pattern(x, w, b):
            return OP.elementwise_add(X=OP.matmul_v2(X=x, Y=w), Y=b)

        def replace(x, w, b):
            return OP.fc(Input=x, W=w, Bias=b)

        return pattern, replace

    (rule,) = paddle.get_pass("fuse").rules
    assert rule.name == "fuse"
    assert rule.statement == "elementwise_add(matmul_v2(x, w), b) -> fc(x, w, b)"
    assert rule.roots == ("paddle.elementwise_add",)
    assert rule.origin is not None and rule.origin.file == __file__
    assert fuse() is not None, "the function stays what it was, as in Paddle"


def test_all_examples_trace():
    examples.define(paddle)
    assert [rule.name for rule in paddle.get_pass("linear_with_relu").rules] == [
        "linear_with_relu.0", "linear_with_relu.1",
    ]  # fmt: skip
    assert paddle.get_pass("products").rules[0].statement.startswith("matmul_v2(x, y1), matmul_v2(x, y2) -> slice(")
    assert paddle.get_pass("double_transpose").rules[0].statement == "transpose2(transpose2(x)[0])[0] -> x"


# Operations and outputs


def test_outputs_are_asked_for_by_slot():
    def pattern(x):
        first = OP.reshape2(X=x)
        second = OP.reshape2(X=first.Output("Out"))
        third = OP.reshape2(X=second.Outputs["Out"])
        return OP.reshape2(X=third.Outputs()["Out"][0]).Output("Out")

    assert traced(pattern).statement == "reshape2(reshape2(reshape2(reshape2(x)[0])[0])[0])[0] -> x"


def test_an_op_may_be_named_before_it_is_called():
    def pattern(x):
        outer, inner = OP.relu, OP.tanh
        return outer(X=inner(X=x))

    assert traced(pattern).statement == "relu(tanh(x)) -> x"


def test_slots_can_be_taken_away():
    """As users do whose programs leave out what the op's definition has."""

    def pattern(x):
        dropout = OP.dropout
        dropout._inputs.pop("Seed")
        dropout._outputs.pop("Mask")
        return dropout(X=x)

    assert traced(pattern).statement == "dropout(x) -> x"


def test_several_variables_in_a_slot():
    rule = traced(lambda x, y: OP.sum(X=[x, y]), lambda x, y: OP.elementwise_add(X=x, Y=y))
    assert rule.statement == "sum(x, y) -> elementwise_add(x, y)"


def test_outputs_may_be_written_over_inputs():
    def replace(x, mean, variance):
        norm = OP.batch_norm(X=x, Mean=mean, Variance=variance)
        norm.SetOutputs(MeanOut=mean, VarianceOut=variance, ReserveSpace=None)
        return norm.Output("Y")

    def pattern(x, mean, variance):
        return OP.relu(X=OP.batch_norm(X=x, Mean=mean, Variance=variance).Output("Y"))

    make = traced(pattern, replace).pattern.makes[0]
    assert dict(make.attributes)["in_place"].arguments == (((1, 1), (2, 2)),)
    assert make.results == 5


def test_custom_ops():
    paddle.declare_op("test_custom_norm", "X Scale?", "Y", {"epsilon": 1e-5})

    def replace(x, scale):
        made = OP.test_custom_norm(X=x, Scale=scale)
        made.Attr("epsilon").MappedPattern(op="layer_norm", name="epsilon")
        return made

    rule = traced(lambda x, scale: OP.layer_norm(X=x, Scale=scale).Output("Y"), replace)
    assert rule.statement == "layer_norm(x, scale)[0] -> test_custom_norm(x, scale)"


def test_parameters_are_inputs():
    assert traced(lambda x: OP.relu(X=x), x=ParamAttr()).statement == "relu(x) -> x"


# Conditions


def test_conditions_on_shapes():
    def pattern(x, y):
        x.Attr("shape").Size().EQ(2)
        x.Attr("shape")[0].Mod(32).EQ(0)
        (x.Attr("shape")[-1] - 1).EQ(7)
        x.Attr("shape")[1].EQ(y.Attr("shape")[0])
        x.Attr("shape").EQ(y.Attr("shape"))
        return OP.elementwise_add(X=x, Y=y)

    texts = [condition.text for condition in traced(pattern, lambda x, y: x).pattern.conditions]
    assert texts == [
        "x.shape == y.shape",
        "x.rank == 2",
        "(x.shape[0] % 32) == 0",
        "(x.shape[-1] - 1) == 7",
        "x.shape[1] == y.shape[0]",
    ], "in Paddle's order: those of an attribute before those of its elements"


def test_conditions_beyond_paddle():
    def pattern(x):
        softmax = OP.softmax(X=x)
        softmax.Attr("axis").NE(0)
        softmax.Output("Out")[0].Attr("shape")[0].GE(2)
        x.Attr("shape")[0].LT(9)
        (x.Attr("shape")[0] * 2).LE(9)
        (x.Attr("shape")[0] // 2).GT(0)
        (x.Attr("shape")[0] + 2).EQ(x.Attr("shape")[1])
        return softmax

    assert conditions(pattern) == [
        "x.shape[0] < 9",
        "(x.shape[0] * 2) <= 9",
        "(x.shape[0] // 2) > 0",
        "(x.shape[0] + 2) == x.shape[1]",
        "softmax.shape[0] >= 2",
        "softmax.axis != 0",
    ]


def test_input_specs_may_be_paddles_own():
    class TheirInputSpec:
        shape = (-1, 16)
        dtype = "float32"

    assert traced(lambda x: OP.relu(X=x), x=TheirInputSpec()).pattern.terms[0].shape == (None, 16)


def test_input_specs_are_shapes():
    rule = traced(lambda x: OP.relu(X=x), x=InputSpec([-1, 16]))
    assert rule.pattern.terms[0].shape == (None, 16)
    assert traced(lambda x: OP.relu(X=x), x=InputSpec([None, 8])).pattern.terms[0].shape == (None, 8)
    assert traced(lambda x: OP.relu(X=x)).pattern.terms[0].shape is None


# Attributes


def test_set_attributes():
    def replace(x):
        made = OP.softmax(X=x)
        made.SetAttr("axis", 1)
        return made

    assert attributes_of(replace) == {"axis": "1"}


def test_attributes_of_the_pattern():
    def replace(x):
        made = OP.softmax(X=x)
        made.Attr("axis").MappedPattern(op="transpose2", name="axis", element_index=-1)
        return made

    assert attributes_of(replace) == {"axis": "#1.axis[-1]"}


def test_reused_attributes():
    def replace(x):
        made = OP.softmax(X=x)
        made.Attr("axis").ReusePattern("log_softmax")
        return made

    assert attributes_of(replace, lambda x: OP.relu(X=OP.log_softmax(X=x))) == {"axis": "#1.axis"}


def test_the_second_op_of_a_type():
    """Ops count in the order in which PassDesc.OP gave them, as in Paddle: here the outer one is the first."""

    def replace(x):
        made = OP.scale(X=x)
        made.Attr("scale").MappedPattern(op="scale", index=1, name="scale")
        return made

    assert attributes_of(replace, lambda x: OP.scale(X=OP.scale(X=x))) == {"scale": "#1.scale"}


def test_computed_attributes():
    def replace(x):
        made = OP.layer_norm(X=x)
        made.SetAttr("begin_norm_axis", x.Attr("shape").Size() - 1)
        return made.Output("Y")

    assert attributes_of(replace) == {"begin_norm_axis": "#0.rank - 1"}


def test_attributes_of_variables():
    def replace(x):
        made = OP.softmax(X=x)
        made.Attr("axis").MappedPattern(var="x", name="shape", element_index=0)
        return made

    assert attributes_of(replace) == {"axis": "#0.shape[0]"}


def test_the_replacement_may_call_its_values_otherwise():
    def replace(value):
        made = OP.softmax(X=value)
        made.SetAttr("axis", value.Attr("shape")[0])
        return made

    assert attributes_of(replace) == {"axis": "#0.shape[0]"}


def test_values_become_what_the_op_takes():
    def pattern(x):
        power = OP.pow(X=x)
        power.SetAttr("factor", 2)
        return power

    assert dict(traced(pattern).pattern.terms[1].attributes)["factor"].value == 2.0


# What is refused


def test_functions_with_parameters_are_refused():
    with pytest.raises(RuleError, match=r"pass with_parameter \(.*:\d+\): a function of a pass takes no parameters"):

        @RegisterPass
        def with_parameter(flag):
            return flag


@pytest.mark.parametrize("definition", [None, [], (1, 2), [lambda x: x]])
def test_anything_but_pairs_is_refused(definition):
    with pytest.raises(RuleError, match="it must return a pair of functions"):

        @RegisterPass
        def wrong():
            return definition


def test_unknown_passes_are_named():
    with pytest.raises(RuleError, match="no pass is called 'nothing'"):
        paddle.get_pass("nothing")


def test_unknown_ops_are_named_with_near_ones():
    with pytest.raises(AttributeError, match=r"paddle has no op 'matmul_v3'; near: matmul_v2.*declare_op"):
        traced(lambda x: OP.matmul_v3(X=x))
    assert not hasattr(OP, "__name__")


def test_declaring_an_op_that_is_known_is_refused():
    with pytest.raises(RuleError, match="paddle has an op 'relu' already"):
        paddle.declare_op("relu", "X", "Out")


def test_ops_outside_a_pass_are_refused():
    with pytest.raises(RuleError, match=r"ops of PassDesc.OP can be called only in the functions of a pass"):
        _ = OP.relu


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (lambda x: OP.relu(x), "relu: give each input by the name of its slot, as in X=x"),
        (lambda x: OP.relu(Input=x), "Operator 'relu' does not have input named 'Input'\n  it has X"),
        (lambda x: OP.sum(X=[]), "Input 'X' of operator 'sum' cannot be empty"),
        (lambda x: OP.relu(X=1), "1 is given as X of relu and is not a variable"),
        (lambda x: OP.relu(X=OP.tanh), "tanh is used before it is called"),
        (lambda x: OP.relu(X=OP.reshape2(X=x)), "Operator 'reshape2' has multiple outputs, please specify one output"),
        (lambda x: OP.relu(X=x).Output("Y"), "Operator 'relu' does not have output named 'Y'\n  it has Out"),
        (lambda x: 1, "a function of a pass returned 1"),
        (lambda x: x, "the pattern has no op"),
        (lambda x: (OP.relu(X=x), OP.tanh(X=x)), "the pattern yields 2 values, the replacement 1"),
        (lambda x: x.Attr("dtype").EQ(1), "'dtype' of x cannot be asked for"),
        (lambda x: x.Attr("shape").EQ("a"), "'shape' cannot be put beside 'a'"),
        (lambda x: x.Attr("shape").Size()[0], "ask 'shape' itself for an element or its size, before any operation"),
        (lambda x: (x.Attr("shape")[0] - 1) - 1, "'shape' takes one operation at most"),
        (lambda x: list(x.Attr("shape")), "'shape' cannot be iterated over"),
        (lambda x: OP.scale(X=x).SetAttr("scale", "a"), "scale of scale: 'a' is not a value of type FLOAT"),
    ],
)  # fmt: skip
def test_what_a_pattern_cannot_say(pattern, reason):
    text = refusal(pattern)
    assert reason in text
    assert text.startswith(f"pass p ({__file__}:")


def _mapped(**where):
    def replace(x):
        made = OP.softmax(X=x)
        made.Attr("axis").MappedPattern(**where)
        return made

    return replace


def _asked(x):
    made = OP.softmax(X=x)
    made.Attr("axis")
    return made


def _with_condition(x):
    x.Attr("shape")[0].EQ(1)
    return x


@pytest.mark.parametrize(
    ("replace", "reason"),
    [
        (lambda x, y: x, "the pattern takes 1 values, the replacement 2"),
        (_mapped(op="relu", index=1, name="a"), "the pattern has 1 ops 'relu': none has index 1"),
        (_mapped(op="relu", var="x", name="a"), "MappedPattern takes one of var and op"),
        (_mapped(var="z", name="shape"), "'shape' of z is nothing that a pass can ask for"),
        (_asked, "axis of softmax is asked for in the replacement"),
        (_with_condition, "EQ on 'shape' stands in a replacement"),
    ],
)
def test_what_a_replacement_cannot_say(replace, reason):
    assert reason in refusal(lambda x: OP.relu(X=x), replace)
