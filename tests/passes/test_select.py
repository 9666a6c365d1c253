"""select: before => after."""

import pytest

from hloom.passes.rules.select import SELECT
from tests.passes.forms import becomes, form, stays
from tests.passes.rule_assertions import assert_keeps


def test_nothing_to_choose():
    becomes(SELECT, "f32[4]", "select(p, x, x)", "x")
    becomes(SELECT, "f32[4]", "c = pred[] constant(true)\nselect(c, x, y)", "x")
    becomes(SELECT, "f32[4]", "c = pred[] constant(false)\nselect(c, x, y)", "y")


@pytest.mark.parametrize(("predicate", "first", "second"), [("true", "bf16", "f32"), ("false", "f32", "bf16")])
def test_mixed_precision(predicate: str, first: str, second: str):
    lines = f"x = {first}[] parameter(0)\ny = {second}[] parameter(1)\nc = pred[] constant({predicate})"
    assert_keeps(SELECT, f"{lines}\nROOT s = f32[] select(c, x, y)")


def test_inverted_predicates():
    becomes(SELECT, "f32[4]", "select(not(p), x, y)", "select(p, y, x)")


def test_truths():
    becomes(SELECT, "pred[4]", "select(p, #true, #false)", "p")
    becomes(SELECT, "pred[4]", "select(p, #false, #true)", "not(p)")
    becomes(SELECT, "pred[4]", "select(p, #true, x)", "or(p, x)")
    becomes(SELECT, "pred[4]", "select(p, x, #false)", "and(p, x)")
    assert_keeps(SELECT, form("s = pred[] parameter(0)\nselect(s, #true, #false)", "pred[4]", parameters=""))


@pytest.mark.parametrize(
    ("direction", "of_pred", "of_integers"),
    [
        ("GT", "or(x, y)", "maximum(x, y)"),
        ("LE", "and(x, y)", "minimum(x, y)"),
        ("EQ", "y", "y"),
        ("NE", "x", "x"),
    ],
)
def test_what_was_compared(direction: str, of_pred: str, of_integers: str):
    text = f"c = compare(x, y), direction={direction}\nselect(c, x, y)"
    becomes(SELECT, "pred[8]", text, of_pred)
    becomes(SELECT, "s32[8]", text, of_integers)
    stays(SELECT, "f32[8]", text)
    stays(SELECT, "pred[8]", text.replace("select(c, x, y)", "select(c, y, x)"))


def test_the_same_choice_twice():
    becomes(SELECT, "f32[4]", "select(p, select(p, x, y), z)", "select(p, x, z)")
    becomes(SELECT, "f32[4]", "select(p, x, select(p, y, z))", "select(p, x, z)")
    stays(SELECT, "f32[4]", "select(p, select(q, x, y), z)")


def test_around_updates():
    lines = "i = s32[] constant(1)\nu = f32[2] slice(y), slice={[0:2]}\n"
    cut = "f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}"
    becomes(
        SELECT,
        "f32[8]",
        f"{lines}select(p, $T dynamic-update-slice(x, u, i), x)",
        f"{lines}a = pred[2] dynamic-slice(p, i), dynamic_slice_sizes={{2}}\nb = {cut}\n"
        "v = f32[2] select(a, u, b)\n$T dynamic-update-slice(x, v, i)",
    )
    stays(SELECT, "f32[8]", f"{lines}select(p, $T dynamic-update-slice(x, u, i), z)")
