"""Element types and types that a rule's definition names: known ones, or an error when the rule is defined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.rewrite import Rule, RuleError, rule

TEXT = "ENTRY e { a = f32[4] parameter(0) t = f32[4] tanh(a) ROOT r = f32[4] negate(t) }"


def scaled(x: Any, eps: float) -> Any:
    return jnp.sin(x) * eps


def negated_tanh(say: Callable[[Any, Any, Any, Any], Any], **of_x: Any) -> Rule:
    """negate(tanh(x)) -> what `say` makes of the pattern, x, the result and the rewrite"""

    def declare(p: Any) -> None:
        x = p.value("x", **of_x)
        result = p.op("negate", p.op("tanh", x))
        say(p, x, result, None)
        with p.rewrite() as r:
            r.replace({result: say(None, x, result, r) or r.op("sine", x)})

    return rule(declare, name="negated-tanh")


def condition(test: Callable[[Any], Any]) -> Callable[[Any, Any, Any, Any], Any]:
    return lambda p, x, result, r: p.where(test(x)) if p else None


def nothing(p: Any, x: Any, result: Any, r: Any) -> None:
    return None


@pytest.mark.parametrize(
    ("of_x", "message"),
    [
        ({"dtype": "float32"}, "'float32' is not an element type\n  HLO calls it f32"),
        ({"dtype": ("f32", "float16")}, "'float16' is not an element type\n  HLO calls it f16"),
        ({"dtype": "F16"}, "'F16' is not an element type\n  near: "),
        ({"dtype": 3}, "3 is not an element type"),
        ({"rank": "2"}, "a rank is a number from 0 on, not '2'"),
        ({"rank": -1}, "a rank is a number from 0 on, not -1"),
    ],
)
def test_what_no_value_has_is_refused(of_x: dict[str, Any], message: str):
    with pytest.raises(RuleError) as raised:
        negated_tanh(nothing, **of_x)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    "test",
    [
        lambda x: x.dtype == "float32",
        lambda x: x.dtype != "float32",
        lambda x: x.type == "float32[4]",
        lambda x: x.rank == "1",
    ],
    ids=["equal", "not equal", "type", "rank"],
)
def test_comparisons_that_never_hold_are_refused(test: Callable[[Any], Any]):
    with pytest.raises(RuleError, match=r"float32|'1'"):
        negated_tanh(condition(test))


@pytest.mark.parametrize(
    "made",
    [
        lambda r, x, result: r.op("add", x, r.op("broadcast", r.constant(1, "f32[]"), dimensions=(), type=result.type)),
        lambda r, x, result: r.op("add", x, r.op("broadcast", r.constant(1, "f32"), dimensions=(), type="f32[4]")),
        lambda r, x, result: r.op("add", x, r.constant(1, "f32[4]")),
    ],
    ids=["scalar", "element type", "array"],
)
def test_types_may_be_written_as_text(made: Callable[[Any, Any, Any], Any]):
    tested = negated_tanh(lambda p, x, result, r: made(r, x, result) if r else None, dtype=np.float32)
    changed, report = hloom.opt(hloom.parse(TEXT), tested)
    assert report.matched == 1 and hloom.verify(changed)


@pytest.mark.parametrize(
    "test",
    [lambda x: x.dtype == np.float32, lambda x: x.type == "f32[4]", lambda x: (x.dtype == "f32") | (x.dtype == "bf16")],
)
def test_comparisons_with_types(test: Callable[[Any], Any]):
    assert hloom.opt(hloom.parse(TEXT), negated_tanh(condition(test)))[1].matched == 1


@pytest.mark.parametrize("text", ["float32[]", "f32[", "f33"])
def test_a_constant_of_an_unknown_type_is_refused(text: str):
    with pytest.raises(RuleError, match=r"not an element type|not a type"):
        negated_tanh(lambda p, x, result, r: r.constant(1, text) if r else None)


def test_an_array_as_a_keyword_of_a_kernel_is_refused():
    def declare(p: Any) -> None:
        x, eps = p.value("x"), p.constant("eps")
        result = p.op("multiply", x, p.op("broadcast", eps, dimensions=()))
        with p.rewrite() as r:
            r.replace({result: r.call(scaled, x, eps=eps)})

    with pytest.raises(RuleError, match=r"the keyword eps of .*scaled is an array.*\n.*eps=handle.value"):
        rule(declare, name="keyword")
