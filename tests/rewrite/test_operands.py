"""Operands that may be many or missing, and computations that an operation calls: before and after."""

from __future__ import annotations

from typing import Any

from hloom.rewrite import ANY, rule
from tests.passes.rule_assertions import assert_keeps, assert_rewrites

REDUCER = "sum {{\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] {body}\n}}\n"


@rule
def one_concatenate(p: Any) -> None:
    """concatenate(concatenate(x...), y...) -> concatenate(x..., y...)"""
    x, y, dimensions = p.values("x"), p.values("y"), p.attribute("dimensions")
    inner = p.op("concatenate", x, dimensions=dimensions)
    outer = p.op("concatenate", inner, y, dimensions=dimensions)
    with p.rewrite() as r:
        r.replace({outer: r.op("concatenate", x, y, dimensions=dimensions)})


def test_all_remaining_operands_whatever_their_number():
    assert_rewrites(
        one_concatenate,
        """x = f32[1] parameter(0)
           y = f32[2] parameter(1)
           z = f32[3] parameter(2)
           c = f32[3] concatenate(x, y), dimensions={0}
           ROOT d = f32[8] concatenate(c, y, z), dimensions={0}""",
        """x = f32[1] parameter(0)
           y = f32[2] parameter(1)
           z = f32[3] parameter(2)
           ROOT d = f32[8] concatenate(x, y, y, z), dimensions={0}""",
    )


def test_no_remaining_operands_are_some_too():
    assert_rewrites(
        one_concatenate,
        "x = f32[1] parameter(0)\n c = f32[2] concatenate(x, x), dimensions={0}\n ROOT d = f32[2] concatenate(c), dimensions={0}",
        "x = f32[1] parameter(0)\n ROOT d = f32[2] concatenate(x, x), dimensions={0}",
    )


def test_remaining_operands_of_another_dimension_are_not_taken():
    assert_keeps(
        one_concatenate,
        """x = f32[1,2] parameter(0)
           c = f32[1,4] concatenate(x, x), dimensions={1}
           ROOT d = f32[2,4] concatenate(c, c), dimensions={0}""",
    )


@rule
def whole_call(p: Any) -> None:
    """custom-call(x, bias), target "bias", or without the bias -> custom-call(x, bias, x), target "whole" """
    x, bias = p.value("x"), p.value("bias", optional=True)
    result = p.op("custom-call", x, bias, custom_call_target="bias")
    with p.rewrite() as r:
        r.replace({result: r.op("custom-call", x, bias, x, custom_call_target="whole", type=result.type)})


def test_an_operand_that_is_there():
    assert_rewrites(
        whole_call,
        'x = f32[2] parameter(0)\n b = f32[2] parameter(1)\n ROOT c = f32[2] custom-call(x, b), custom_call_target="bias"',
        'x = f32[2] parameter(0)\n b = f32[2] parameter(1)\n ROOT c = f32[2] custom-call(x, b, x), custom_call_target="whole"',
    )


def test_an_operand_that_is_missing():
    assert_rewrites(
        whole_call,
        'x = f32[2] parameter(0)\n ROOT c = f32[2] custom-call(x), custom_call_target="bias"',
        'x = f32[2] parameter(0)\n ROOT c = f32[2] custom-call(x, x), custom_call_target="whole"',
    )


@rule
def reduce_of_squares(p: Any) -> None:
    """reduce(x, 0), to_apply a + b * b -> custom-call(x), target "squares" """
    x, zero = p.value("x", dtype="f32"), p.constant("zero", 0.0)
    squares = p.graph(lambda a, b: p.op("add", a, p.op("multiply", b, b)))
    result = p.op("reduce", x, zero, dimensions=ANY, to_apply=squares)
    with p.rewrite() as r:
        r.replace({result: r.op("custom-call", x, custom_call_target="squares", type=result.type)})


def test_a_computation_that_does_what_the_pattern_says():
    body = REDUCER.format(body="add(m, a)").replace(" ROOT", " m = f32[] multiply(b, b)\n ROOT")
    entry = "ENTRY e {\n x = f32[3] parameter(0)\n z = f32[] constant(0)\n"
    assert_rewrites(
        reduce_of_squares,
        body + entry + " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum\n}",
        'x = f32[3] parameter(0)\n ROOT r = f32[] custom-call(x), custom_call_target="squares"',
    )


def test_a_computation_that_does_something_else():
    entry = "ENTRY e {\n x = f32[3] parameter(0)\n z = f32[] constant(0)\n"
    call = " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum\n}"
    assert_keeps(reduce_of_squares, REDUCER.format(body="add(a, b)") + entry + call)
