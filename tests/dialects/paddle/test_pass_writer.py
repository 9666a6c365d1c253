"""Rules become Paddle's MultiPassDesc, read back to equal rules, and what the runtime does not honour is refused.

The reasons are what Paddle 2.6.2 did when it was tried; `test_with_paddle.py` tries some of it again.

Covers `pass_writer.py`, `pass_reader.py`.
"""

from __future__ import annotations

import pytest

from hloom.dialects import paddle
from hloom.dialects.paddle import InputSpec, PassDesc
from hloom.dialects.paddle.protos import PADDLE
from hloom.rewrite import ANY, Rule, RuleError, one_of, rule, same_rule
from hloom.text import HloomError
from tests.dialects.paddle import examples

OP = PassDesc.OP
examples.define(paddle)


def helper(pattern, replace=lambda x: x, **specs):
    return paddle.RegisterPassHelper([(pattern, replace)], "p", specs)


def message_of(passes, **options):
    return PADDLE["MultiPassDesc"].FromString(paddle.to_multi_pass_desc(passes, **options))


def assert_round_trip(passes, force=False):
    rules = passes.traced.rules if isinstance(passes, paddle.RegisterPassHelper) else paddle.get_pass(passes).rules
    again = paddle.from_multi_pass_desc(paddle.to_multi_pass_desc(passes, force=force, defaults=True))
    assert len(again) == len(rules)
    assert all(map(same_rule, rules, again))


EXAMPLES = ["linear", "linear_with_relu", "sums", "double_transpose", "products", "scaled", "layer_norm", "by_shape"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_serialising_reads_back_to_equal_rules(name):
    assert [text for text in paddle.unhonoured(name) if "equals its default" not in text] == []
    assert_round_trip(name)


def test_what_stands_in_the_message():
    (desc,) = message_of("linear").pass_descs
    assert [op.type for op in desc.pattern] == ["matmul_v2", "elementwise_add"]
    assert [op.type for op in desc.replace] == ["fc"]
    names = [(var_map.pattern_var, var_map.replace_var) for var_map in desc.var_maps]
    assert names == [("x", "x"), ("w", "w"), ("b", "b"), ("elementwise_add_0", "fc_0")]
    (mapping,) = desc.op_attr_maps
    assert (mapping.pattern_attr.var_name, mapping.pattern_attr.name, mapping.replace_attr.name) == (
        "x", "shape", "in_num_col_dims",
    )  # fmt: skip
    assert mapping.operation.type == PADDLE["PassDesc"].OperationType.Value("kSub")


def test_the_pass_has_a_name():
    assert message_of("linear").pass_type == "linear"
    assert message_of("linear_with_relu").pass_type == "linear_with_relu"
    assert message_of("linear", name="other").pass_type == "other"
    assert message_of(paddle.get_pass("linear_with_relu").rules).pass_type == "linear_with_relu"


def test_defaults_are_written():
    """If asked for: Paddle's own Python leaves them out, so that its pattern matches every value."""

    def pattern(x):
        op = OP.softmax(X=x)
        op.SetAttr("axis", -1)
        return op

    (desc,) = message_of(helper(pattern), defaults=True).pass_descs
    assert [(attribute.name, attribute.i) for attribute in desc.pattern[0].attrs] == [("axis", -1)]


def test_attributes_that_no_table_has():
    def pattern(x):
        op = OP.softmax(X=x)
        op.SetAttr("is_test", True)
        return op

    def replace(x):
        made = OP.tanh(X=x)
        made.SetAttr("is_test", True)
        made.Attr("hint").MappedPattern(op="softmax", name="is_test")
        return made

    assert_round_trip(helper(pattern, replace))
    (desc,) = message_of(helper(pattern, replace)).pass_descs
    (own,), (made,) = desc.pattern[0].attrs, desc.replace[0].attrs
    assert (own.name, own.b, made.name, made.i) == ("is_test", True, "is_test", 1), "to Paddle a flag of softmax alone"


def test_outputs_written_over_inputs():
    def replace(x, mean, variance):
        norm = OP.batch_norm(X=x, Mean=mean, Variance=variance)
        norm.SetOutputs(MeanOut=mean, VarianceOut=variance)
        return norm.Output("Y")

    def pattern(x, mean, variance):
        return OP.relu(X=OP.batch_norm(X=x, Mean=mean, Variance=variance).Output("Y"))

    assert_round_trip(helper(pattern, replace))
    (desc,) = message_of(helper(pattern, replace)).pass_descs
    outputs = {slot.parameter: list(slot.arguments) for slot in desc.replace[0].outputs}
    assert outputs["MeanOut"] == ["mean"]


# What the runtime does not honour


def relu(x):
    return OP.relu(X=x)


def where(say):
    """A pattern relu(x) with something said of x."""

    def pattern(x):
        say(x)
        return OP.relu(X=x)

    return helper(pattern, lambda x: OP.tanh(X=x))


def where_two(say, replace=lambda x, y: OP.elementwise_sub(X=x, Y=y)):
    def pattern(x, y):
        say(x, y)
        return OP.elementwise_add(X=x, Y=y)

    return helper(pattern, replace)


def of_an_op(say):
    def pattern(x):
        op = OP.softmax(X=x)
        say(op)
        return op

    return helper(pattern, lambda x: OP.tanh(X=x))


def mapped(say):
    def replace(x):
        made = OP.scale(X=x)
        say(made, x)
        return made

    return helper(lambda x: OP.softmax(X=x), replace)


UNHONOURED = [
    (of_an_op(lambda op: op.Attr("axis").EQ(1)), "'softmax.axis == 1' is a condition on an op's attribute, which"),
    (where(lambda x: x.Attr("shape")[0].NE(1)), "'x.shape[0] != 1' is a condition other than EQ (NE), which"),
    (where(lambda x: x.Attr("shape")[0].GT(1)), "is a condition other than EQ (GT), which"),
    (where(lambda x: x.Attr("shape")[0].GE(1)), "is a condition other than EQ (GE), which"),
    (where(lambda x: x.Attr("shape")[0].LT(1)), "is a condition other than EQ (LT), which"),
    (where(lambda x: x.Attr("shape")[0].LE(1)), "is a condition other than EQ (LE), which"),
    (where(lambda x: (x.Attr("shape")[0] + 1).EQ(1)), "has another operation than - and Mod, which"),
    (where(lambda x: (x.Attr("shape")[0] * 2).EQ(1)), "has another operation than - and Mod, which"),
    (where(lambda x: (x.Attr("shape")[0] // 2).EQ(1)), "has another operation than - and Mod, which"),
    (where(lambda x: (x.Attr("shape") - 1).EQ(1)), "computes with no whole number of 32 bits, which"),
    (where(lambda x: (x.Attr("shape")[0] - x.Attr("shape")[1]).EQ(1)), "takes its second number from an attribute"),
    (where(lambda x: (x.Attr("shape")[0] - 1).EQ(x.Attr("shape")[1])), "has an operation beside an attribute, which"),
    (
        where_two(lambda x, y: x.Attr("shape")[0].EQ(y.Attr("shape")[0])),
        "'x.shape[0] == y.shape[0]' compares two variables, where Paddle's runtime compares the first with itself",
    ),
    (
        where_two(lambda x, y: x.Attr("shape")[0].EQ(x.Attr("shape")[1]), lambda x, y: x),
        "compares attributes in a pass that makes nothing, where Paddle's runtime does not look",
    ),
    (helper(relu, x=InputSpec([-1, 16])), "x may have any size where its shape [-1, 16] says -1: to Paddle's runtime"),
    (
        helper(lambda x, y: OP.concat(X=[x, y]), lambda x, y: x),
        "concat reads 2 variables in its slot X: Paddle's runtime matches them in any order, and beside others",
    ),
    (
        mapped(lambda op, x: op.SetAttr("scale", x.Attr("shape")[0] + 1)),
        "'scale = x.shape[0] + 1' has another operation",
    ),
]


@pytest.mark.parametrize(("passes", "reason"), UNHONOURED, ids=[reason for _, reason in UNHONOURED])
def test_what_paddle_does_not_honour_is_refused_unless_forced(passes, reason):
    with pytest.raises(RuleError) as caught:
        paddle.to_multi_pass_desc(passes)
    assert "would not do in Paddle what it says" in str(caught.value)
    assert reason in str(caught.value)
    assert "force=True" in str(caught.value)
    assert any(reason in warning for warning in paddle.unhonoured(passes))
    assert_round_trip(passes, force=True)


def test_what_paddle_honours_is_not_refused():
    def pattern(x, y):
        x.Attr("shape").Size().EQ(2)
        x.Attr("shape")[-1].Mod(8).EQ(0)
        (y.Attr("shape")[0] - 1).EQ(7)
        y.Attr("shape")[0].EQ(y.Attr("shape")[1])
        return OP.elementwise_add(X=x, Y=y)

    passes = helper(pattern, lambda x, y: OP.elementwise_sub(X=x, Y=y), x=InputSpec([4, 8]))
    assert paddle.unhonoured(passes) == []
    assert_round_trip(passes)


def declared(say, **options):
    """A rule of Paddle's ops that was declared, not traced."""

    def declare(p):
        "A rule."
        say(p)

    return rule(declare, rows=paddle.ROWS, **options)


def test_declared_rules_are_exported_too():
    def say(p):
        x, y = p.value("x"), p.value("y")
        op = p.op("paddle.matmul_v2", x, y, trans_x=False, trans_y=ANY)
        p.where(x.rank == 2)
        with p.rewrite() as r:
            r.replace({op: r.op("paddle.matmul_v2", x, y, trans_x=False, trans_y=op.trans_y)})

    (desc,) = message_of(declared(say, name="again")).pass_descs
    assert [(attribute.name, attribute.b) for attribute in desc.pattern[0].attrs] == [("trans_x", False)]
    assert len(desc.op_attr_maps) == len(desc.var_attr_conditions) == 1


def test_attributes_left_out_are_refused():
    """Here a rule that leaves one out means its default; in Paddle's runtime it may be anything."""

    def say(p):
        x, y = p.value("x"), p.any()
        op = p.op("paddle.elementwise_add", x, y)
        with p.rewrite() as r:
            r.replace({op: x})

    with pytest.raises(RuleError, match="elementwise_add leaves out axis, which is to be -1 then: to Paddle's runtime"):
        paddle.to_multi_pass_desc(declared(say))
    assert paddle.to_multi_pass_desc(declared(say), force=True)


# What the format has no place for


def one(make=lambda p: p.value("x"), opcode="paddle.softmax", condition=None, build=None, **options):
    """softmax(x) -> tanh(x), with one thing changed."""

    def say(p):
        x = make(p)
        op = p.op(opcode, x, **{"axis": ANY, **options})
        if condition:
            p.where(condition(x, op))
        with p.rewrite() as r:
            r.replace({op: build(r, x, op) if build else r.op("paddle.tanh", x)})

    return declared(say)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (one(lambda p: p.value("x", dtype="f32")), "'x' is optional, variadic, or of given element types, which a"),
        (one(lambda p: p.constant("x")), "'x' is a constant, which a MultiPassDesc cannot say"),
        (one(lambda p: p.value("x", rank=2)), "'x' has a given rank"),
        (one(opcode=("paddle.softmax", "paddle.log_softmax")), "paddle.softmax or paddle.log_softmax is not an op of Paddle's"),  # pyright: ignore[reportArgumentType]
        (one(shared=True), "softmax is shared, which a MultiPassDesc cannot say"),
        (one(axis=one_of(0, 1)), "what softmax says of axis is more than a value"),
        (one(condition=lambda x, op: (x.rank == 1) | (x.rank == 2)), "is not a comparison, which is all that"),
        (one(condition=lambda x, op: x.dtype == "f32"), "is more than an attribute, an element or a size, and one operation"),
        (one(condition=lambda x, op: -x.rank == 2), "is more than an attribute, an element or a size, and one operation"),
        (one(build=lambda r, x, op: r.op("paddle.tanh", x, carry=op)), "paddle.tanh takes over attributes, which"),
        (one(build=lambda r, x, op: r.constant(1.0, like=x)), "it makes something else than ops of Paddle's"),
    ],
)  # fmt: skip
def test_what_the_format_cannot_hold_is_refused_even_if_forced(refused, reason):
    with pytest.raises(RuleError) as caught:
        paddle.to_multi_pass_desc(refused, force=True)
    assert reason in str(caught.value)
    assert "cannot be exported to Paddle" in str(caught.value)


@pytest.mark.parametrize(
    ("attribute", "opcode", "target", "given", "wanted"),
    [
        ("trans_x", "fc", "in_num_col_dims", "BOOLEAN", "INT"),
        ("trans_x", "elementwise_add", "axis", "BOOLEAN", "INT"),
        ("trans_x", "fc", "activation_type", "BOOLEAN", "STRING"),
    ],
)
def test_an_attribute_of_another_type_is_refused(attribute, opcode, target, given, wanted):
    @declared
    def mapped(p):
        """matmul_v2(x, w) -> another op, which takes one of its attributes"""
        x, w = p.value("x"), p.value("w")
        out = p.op("paddle.matmul_v2", x, w, trans_y=ANY, **{attribute: ANY})
        with p.rewrite() as r:
            r.replace({out: r.op(f"paddle.{opcode}", x, w, **{target: getattr(out, attribute)})})

    reason = f"{target} of {opcode} is {wanted}, but 'paddle.matmul_v2.{attribute}' is {given}"
    with pytest.raises(RuleError, match=reason):
        paddle.to_multi_pass_desc(mapped, force=True)


def test_native_rules_are_refused():
    native = Rule("native", ("paddle.relu",), native="paddle.nothing")
    with pytest.raises(RuleError, match="is a native function, which Paddle has no place for"):
        paddle.to_multi_pass_desc(native)


def test_no_rules_are_refused():
    with pytest.raises(RuleError, match="a pass of no rules cannot be exported: Paddle refuses one"):
        paddle.to_multi_pass_desc([])


# Reading what others wrote


def test_ops_may_stand_in_any_order():
    message = message_of("linear")
    first, second = (type(op_desc).FromString(op_desc.SerializeToString()) for op_desc in message.pass_descs[0].pattern)
    del message.pass_descs[0].pattern[:]
    message.pass_descs[0].pattern.extend([second, first])
    assert same_rule(paddle.from_multi_pass_desc(message.SerializeToString())[0], paddle.get_pass("linear").rules[0])


def changed(change):
    message = message_of("linear")
    change(message.pass_descs[0])
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: m.pattern[0].__setattr__("type", "nothing"), "paddle has no op 'nothing'"),
        (lambda m: m.pattern[0].inputs[0].__setattr__("parameter", "Z"), "matmul_v2 has no slot 'Z'\n  it has X, Y"),
        (lambda m: m.pattern[0].inputs[0].arguments.__setitem__(0, "q"), "'q', which matmul_v2 reads, is neither an input"),
        (lambda m: m.replace[0].inputs[0].arguments.__setitem__(0, "q"), "'q', which fc reads, is neither an input"),
        (lambda m: m.var_maps[3].__setattr__("replace_var", "q"), "'q', which the replacement yields, is made by nothing"),
        (lambda m: m.op_attr_maps[0].pattern_attr.__setattr__("name", "q"), "'q' of x is nothing that a pass can ask for"),
        (lambda m: m.ClearField("var_maps"), "is neither an input nor a result of the pattern"),
        (lambda m: m.ClearField("pattern"), "the pattern has no op"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_rule(change, reason):
    with pytest.raises(RuleError) as caught:
        paddle.from_multi_pass_desc(changed(change))
    assert reason in str(caught.value)
    assert str(caught.value).startswith("pass linear: ")


def test_other_bytes_are_refused():
    with pytest.raises(HloomError, match="this is not a MultiPassDesc"):
        paddle.from_multi_pass_desc(b"\xff\xff")
