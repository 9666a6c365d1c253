"""Constants as XLA writes them: before and after, and what stays."""

import pytest

import hloom
from hloom.ir import verify
from hloom.passes import apply
from hloom.passes.constants import canonicalize_constants
from tests.passes.rule_assertions import assert_same_numbers, module_of


def changed(text: str):
    module = module_of(text)
    canonicalize_constants(module)
    verify(module)
    return module


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "ROOT a = f32[3] constant({1.5, 1.5, 1.5})",
            "a = f32[] constant(1.5)\n ROOT b = f32[3] broadcast(a), dimensions={}",
        ),
        (
            "ROOT a = pred[1,1] constant({{true}})",
            "a = pred[] constant(true)\n ROOT b = pred[1,1] broadcast(a), dimensions={}",
        ),
        ("ROOT a = f32[3] constant({0, 1, 2})", "ROOT a = f32[3] iota(), iota_dimension=0"),
        (
            "ROOT a = s32[4] constant({0, 25, 50, 75})",
            "i = s32[4] iota(), iota_dimension=0\n c = s32[] constant(25)\n"
            "b = s32[4] broadcast(c), dimensions={}\n ROOT a = s32[4] multiply(i, b)",
        ),
        (
            "ROOT t = (f32[], s32[2]) constant((1, {4, 5}))",
            "a = f32[] constant(1)\n b = s32[2] constant({4, 5})\n ROOT t = (f32[], s32[2]) tuple(a, b)",
        ),
    ],
)
def test_few_numbers_remain(before, after):
    module = changed(before)
    assert hloom.equal(module, module_of(after), metadata=False), hloom.print(module, "short")
    assert_same_numbers(module_of(before), module, [])


@pytest.mark.parametrize(
    "text",
    [
        "ROOT a = f32[] constant(1)",
        "ROOT a = f32[0] constant({})",
        "ROOT a = f32[3] constant({1, 1, 2})",
        "ROOT a = f32[3] constant({0, 2, 4})",
        "ROOT a = f32[2] constant({-0.0, 1})",
        "ROOT a = s32[3] constant({0, 1, 3})",
        "ROOT a = s32[2,2] constant({{0, 1}, {2, 3}})",
        "ROOT a = pred[2] constant({false, true})",
        "ROOT a = f32[3] constant({...})",
    ],
)
def test_what_stays(text):
    assert hloom.equal(changed(text), module_of(text), metadata=False)


def test_the_pass_comes_to_an_end():
    text = (
        "c = f32[] constant(2)\n r = f32[1,1] reshape(c)\n x = f32[1,1] parameter(0)\n ROOT a = f32[1,1] maximum(x, r)"
    )
    module, _ = apply(module_of(text), "simplify-xla")
    assert "broadcast" in hloom.print(module, "short") and "reshape" not in hloom.print(module, "short")
