"""`fuse-normalization-add-relu`: in training, with the statistics of the batch, and for inference."""

from __future__ import annotations

import pytest

from tests.dialects.oneflow.jobs import assert_kept, assert_rewrites, job

X, C = "tensor<2x3x4x4xf32>", "tensor<3xf32>"
NAME = "fuse-normalization-add-relu"
ARGUMENTS = f"%x: {X}, %m: {C}, %v: {C}, %gamma: {C}, %beta: {C}, %addend: {X}"
NUMBERS = "axis = 1 : si32, epsilon = 9.99999974E-6 : f32, momentum = 0.899999976 : f32"
GIVEN = "operand_segment_sizes = dense<[1, 1, 1, 1, 1, 0]> : vector<6xi32>"
CPU, GPU = 'device_tag = "cpu"', 'device_tag = "gpu"'


def trained(added="%y, %addend", returned=f"%r : {X}", training="true", more=GIVEN, last="", operation="add_n2") -> str:
    return job(
        ARGUMENTS,
        f"""
    %y, %mean, %inverse = "oneflow.normalization"(%x, %m, %v, %gamma, %beta) {{{NUMBERS}, training = {training}, {more}, result_segment_sizes = dense<1> : vector<3xi32>}} : ({X}, {C}, {C}, {C}, {C}) -> ({X}, {C}, {C})
    %0 = "oneflow.{operation}"({added}) : ({X}, {X}) -> {X}
    %r = "oneflow.relu"(%0) {{op_name = "relu", output_lbns = ["relu/y_0"]{last}}} : ({X}) -> {X}""",
        returned,
    )  # fmt: skip


def fused(returned=f"%y : {X}", training="true", results="1, 1, 1, 1") -> str:
    kinds = f"({X}, tensor<3xi32>, {C}, {C})" if training == "true" else f"({X}, tensor<3xi32>)"
    names = "%y, %reserve, %mean, %inverse" if training == "true" else "%y, %reserve"
    return job(
        ARGUMENTS,
        f'{names} = "oneflow.normalization_add_relu"(%x, %addend, %m, %v, %gamma, %beta) {{{NUMBERS}, training = {training}, '
        f'op_name = "relu", output_lbns = ["relu/y_0"], operand_segment_sizes = dense<[1, 1, 1, 1, 1, 1]> :'
        f" vector<6xi32>, result_segment_sizes = dense<[{results}]> : vector<4xi32>}} :"
        f" ({X}, {X}, {C}, {C}, {C}, {C}) -> {kinds}",
        returned,
    )


@pytest.mark.parametrize("text", [trained(), trained("%addend, %y"), trained(operation="broadcast_add")])
def test_in_training(text):
    assert_rewrites(NAME, text, fused())


def test_the_statistics_are_replaced_too():
    returned = f"%{{}}, %mean, %inverse : {X}, {C}, {C}"
    assert_rewrites(NAME, trained(returned=returned.format("r")), fused(returned.format("y")))


def test_what_is_added_may_come_later():
    text = trained().replace(
        '%0 = "oneflow.add_n2"(%y, %addend)',
        f'%late = "oneflow.relu"(%addend) : ({X}) -> {X}\n    %0 = "oneflow.add_n2"(%y, %late)',
    )
    after = fused().replace("%y, %reserve", f'%late = "oneflow.relu"(%addend) : ({X}) -> {X}\n    %y, %reserve')
    assert_rewrites(NAME, text, after.replace("(%x, %addend", "(%x, %late"))


@pytest.mark.parametrize(("opcode", "training"), [("normalization_infer", "true"), ("normalization", "false")])
def test_for_inference(opcode, training):
    text = job(
        ARGUMENTS,
        f"""
    %y = "oneflow.{opcode}"(%x, %m, %v, %gamma, %beta) {{{NUMBERS}, training = {training}}} : ({X}, {C}, {C}, {C}, {C}) -> {X}
    %0 = "oneflow.add_n2"(%y, %addend) : ({X}, {X}) -> {X}
    %r = "oneflow.relu"(%0) {{op_name = "relu", output_lbns = ["relu/y_0"]}} : ({X}) -> {X}""",
        f"%r : {X}",
    )  # fmt: skip
    assert_rewrites(NAME, text, fused(training="false", results="1, 1, 0, 0"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (trained(returned=f"%r, %y : {X}, {X}"), "result 0 of oneflow.normalization is used elsewhere too"),
        (trained(returned=f"%r, %0 : {X}, {X}"), "oneflow.add_n2 is used elsewhere too"),
        (trained("%y, %y"), "oneflow.normalization is used elsewhere too"),
        (trained("%x, %addend"), ", not result 0 of oneflow.normalization"),
        (trained(training="false"), "training of oneflow.normalization is another"),
        (
            trained(more=f"{GIVEN}, {CPU}", last=f", {GPU}"),
            "not oneflow.normalization.device_tag == oneflow.relu.device_tag",
        ),
    ],
)
def test_it_does_not_match(text, reason):
    assert_kept(NAME, text, reason)


def test_a_normalization_that_adds_already_is_another():
    text = trained(more="operand_segment_sizes = array<i32: 1, 0, 1, 1, 1, 1>")
    text = text.replace("(%x, %m, %v, %gamma, %beta)", "(%x, %v, %gamma, %beta, %addend)")
    text = text.replace(f"({X}, {C}, {C}, {C}, {C}) -> (", f"({X}, {C}, {C}, {C}, {X}) -> (")
    assert_kept(NAME, text, "not call('oneflow.operands', oneflow.normalization) == ")
