"""Custom calls: users' rules by target, marks of shardings, and what has no rule."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import hloom
from hloom.autodiff import custom_call
from hloom.autodiff.rules.custom import CUSTOM_CALLS
from hloom.text import Unsupported

from .check import entry

CALL = 'x = f64[3] parameter(0) ROOT r = f64[3] custom-call(x), custom_call_target="{}"'


@pytest.fixture
def double() -> Iterator[str]:
    """A target whose rule says that it doubles."""

    @custom_call("test.double")
    def rule(ops, node, tangents):
        return ops.scale(2.0, tangents[0])

    yield "test.double"
    del CUSTOM_CALLS["test.double"]


def test_a_users_rule_is_followed_in_both_modes(double: str):
    program = entry(CALL.format(double))
    backward = hloom.vjp(program, stop=[])
    (gradient,) = hloom.evaluate(backward, [np.zeros(3), np.array([1.0, 2.0, 3.0])])
    np.testing.assert_array_equal(gradient, [2.0, 4.0, 6.0])


def test_what_has_no_rule_says_how_to_give_it_one():
    with pytest.raises(Unsupported) as caught:
        hloom.grad(entry('x = f64[] parameter(0) ROOT r = f64[] custom-call(x), custom_call_target="test.unknown"'))
    assert "the custom call 'test.unknown' has no derivative" in caught.value.message
    assert caught.value.hint is not None and '@hloom.autodiff.custom_call("test.unknown")' in caught.value.hint


@pytest.mark.parametrize("target", ["LayoutConstraint", "MoveToHost", "MoveToDevice"])
def test_a_marked_value_has_a_marked_cotangent(target: str):
    backward = hloom.vjp(entry(CALL.format(target)))
    targets = [node.attributes.get("custom_call_target") for node in backward.nodes() if node.opcode == "custom-call"]
    assert target in targets
