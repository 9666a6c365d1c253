"""Our bytes of passes are those that Paddle 2.6.2 serialised (`passes/`, made by scripts/make_paddle_passes.py).

`test_with_paddle.py` has Paddle serialise them again. Covers `traced_pair.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hloom.dialects import paddle
from hloom.dialects.paddle import PassDesc
from hloom.dialects.paddle.protos import PADDLE
from hloom.rewrite import RuleError, same_rule
from tests.dialects.paddle import examples, forms

OP = PassDesc.OP
PASSES = sorted((Path(__file__).parent / "passes").glob("*.pb"))
examples.define(paddle)
forms.define(paddle)


@pytest.mark.parametrize("path", PASSES, ids=lambda path: path.stem)
def test_our_bytes_are_paddles(path):
    assert paddle.to_multi_pass_desc(path.stem, force=True) == path.read_bytes()


def test_every_pass_has_its_bytes():
    origins = {name: registered.rules[0].origin for name, registered in paddle.PASSES.items()}
    written_in = (examples.__file__, forms.__file__)
    assert {path.stem for path in PASSES} == {name for name, o in origins.items() if o and o.file in written_in}
    assert len(PASSES) == 26


@pytest.mark.parametrize("path", PASSES, ids=lambda path: path.stem)
def test_all_that_a_pass_says_reads_back_to_its_rules(path):
    rules = paddle.get_pass(path.stem).rules
    again = paddle.from_multi_pass_desc(paddle.to_multi_pass_desc(path.stem, force=True, defaults=True))
    assert all(map(same_rule, rules, again))
    assert len(paddle.from_multi_pass_desc(path.read_bytes())) == len(rules)


@pytest.mark.parametrize("name", ["conv_batch_norm", "matmul_add", "gelu", "gelu_tanh", "attention", "linear", "pairs"])
def test_usual_passes_are_exported_unforced(name):
    assert paddle.to_multi_pass_desc(name) == paddle.to_multi_pass_desc(name, force=True)


def of_pair(pattern, replace=lambda x: x):
    helper = paddle.RegisterPassHelper([(pattern, replace)], "p")
    return PADDLE["MultiPassDesc"].FromString(helper.SerializeMultiPassDesc()).pass_descs[0]


def test_what_equals_its_default_is_left_out_and_told():
    def pattern(x):
        op = OP.softmax(X=x)
        op.SetAttr("axis", -1)
        return op

    helper = paddle.RegisterPassHelper([(pattern, lambda x: x)], "p")
    (told,) = paddle.unhonoured(helper)
    assert told.startswith("softmax leaves out axis, which is to be -1")
    assert not of_pair(pattern).pattern[0].attrs
    desc = PADDLE["MultiPassDesc"].FromString(paddle.to_multi_pass_desc(helper, defaults=True)).pass_descs[0]
    assert [(attribute.name, attribute.i) for attribute in desc.pattern[0].attrs] == [("axis", -1)]


def test_a_condition_that_is_stated_again_is_replaced():
    def pattern(x):
        size = x.Attr("shape").Size()
        size.EQ(2)
        size.EQ(3)
        return OP.relu(X=x)

    assert [condition.condition_value.i for condition in of_pair(pattern).var_attr_conditions] == [3]


def test_conditions_of_what_an_op_yields_stand_last():
    """Paddle has none."""

    def pattern(x):
        made = OP.relu(X=x)
        made.Output("Out")[0].Attr("shape")[0].EQ(1)
        x.Attr("shape")[0].EQ(2)
        return OP.tanh(X=made)

    assert [condition.condition_value.i for condition in of_pair(pattern).var_attr_conditions] == [2, 1]


def test_outputs_set_before_the_call_are_what_the_call_makes():
    def replace(x):
        norm = OP.layer_norm
        norm.SetOutputs(Y=x, Mean=None)
        return norm(X=x).Output("Y")

    outputs = of_pair(lambda x: OP.relu(X=x), replace).replace[0].outputs
    assert [(slot.parameter, list(slot.arguments)) for slot in outputs] == [
        ("Mean", ["layer_norm_1"]), ("Variance", ["layer_norm_2"]), ("Y", ["layer_norm_0"]),
    ]  # fmt: skip


def test_the_variable_of_a_mapping_is_the_patterns():
    """Paddle's own Python says 'value' here, with which its runtime ends in a segmentation fault."""

    def replace(value):
        made = OP.softmax(X=value)
        made.SetAttr("axis", value.Attr("shape").Size() - 1)
        return made

    (mapping,) = of_pair(lambda x: OP.relu(X=x), replace).op_attr_maps
    assert mapping.pattern_attr.var_name == "x"


def test_one_operation_beside_a_computed_attribute_is_refused():
    def pattern(x):
        (x.Attr("shape")[0] - (x.Attr("shape")[1] - 1)).EQ(0)
        return OP.relu(X=x)

    with pytest.raises(RuleError, match="'shape' is put beside a computed attribute"):
        of_pair(pattern)
