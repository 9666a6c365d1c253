"""What is wrong with a rule is said when it is defined, with the rule's name and place.

Covers `declaration.py`, `domain.py`, `pattern.py`, `rule.py`, `verifier.py`, `registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hloom.rewrite import RuleError, rule


def unused_value(p):
    x, y = p.value("x"), p.value("y")
    total = p.op("add", x, y)
    with p.rewrite() as r:
        r.replace({total: x})


def unbound_attribute(p):
    x = p.value("x")
    moved = p.op("reverse", x, dimensions=(0,))
    with p.rewrite() as r:
        r.replace({moved: r.op("reverse", x, dimensions=p.attribute("d"))})


def unused_attribute(p):
    x = p.value("x")
    moved = p.op("reverse", x, dimensions=p.attribute("d"))
    with p.rewrite() as r:
        r.replace({moved: x})


def wrong_arity(p):
    p.op("add", p.value("x"))


def unknown_op(p):
    p.op("ad", p.value("x"), p.value("y"))


def unknown_attribute(p):
    p.op("negate", p.value("x"), dimensions=(1,))


def missing_attribute(p):
    p.op("transpose", p.value("x"))


def unknown_attribute_made(p):
    x = p.value("x")
    outer = p.op("negate", x)
    with p.rewrite() as r:
        r.replace({outer: r.op("abs", x, dims=(1,))})


def wrong_arity_made(p):
    x = p.value("x")
    outer = p.op("negate", x)
    with p.rewrite() as r:
        r.replace({outer: r.op("add", x)})


def number_as_operand(p):
    x = p.value("x")
    outer = p.op("negate", x)
    with p.rewrite() as r:
        r.replace({outer: r.op("add", x, 1)})


def replaces_nothing(p):
    p.op("negate", p.value("x"))


def replaces_a_value(p):
    x = p.value("x")
    p.op("negate", x)
    with p.rewrite() as r:
        r.replace({x: x})


def part_of_nothing(p):
    x = p.value("x")
    outer = p.op("negate", x)
    p.op("abs", outer)
    with p.rewrite() as r:
        r.replace({outer: r.op("sign", x)})


def apart(p):
    x, y = p.value("x"), p.value("y")
    one, other = p.op("negate", x), p.op("abs", y)
    with p.rewrite() as r:
        r.replace({one: r.op("abs", x), other: y})


def known_condition(p):
    p.where(1 == 1)


def python_and(p):
    x = p.value("x")
    p.where(x.rank == 1 and x.dtype == "f32")


def other_type(p):
    x = p.value("x")
    outer = p.op("is-finite", x)
    with p.rewrite() as r:
        r.replace({outer: r.op("negate", x)})


def too_many_ways(p):
    total = p.any()
    for _ in range(9):
        total = p.op("add", total, p.op("negate", p.any()))
    with p.rewrite() as r:
        r.replace({total: total})


def a_test_narrowed_for_no_reason(p):
    p.equivalence(reason="", tolerance=1)


def a_test_narrowed_by_what_nobody_knows(p):
    p.equivalence(reason="so", colours=3)


def custom_call_without_type(p):
    x = p.value("x")
    old = p.op("negate", x)
    with p.rewrite() as r:
        r.replace({old: r.op("custom-call", x, custom_call_target="f")})


def constant_like_what_is_made(p):
    x = p.value("x")
    old = p.op("negate", x)
    with p.rewrite() as r:
        made = r.op("abs", x)
        r.replace({old: r.op("add", made, r.constant(1, like=made))})


MESSAGES: list[tuple[Callable, str]] = [
    (unused_value, "'y' is bound but never used"),
    (unbound_attribute, "'d' is used but never bound"),
    (unused_attribute, "'d' is bound but never used"),
    (wrong_arity, "add does not take 1 operands"),
    (unknown_op, "no op is called 'ad'"),
    (unknown_attribute, "negate has no attribute 'dimensions'"),
    (missing_attribute, "transpose needs 'dimensions', which the pattern does not name"),
    (unknown_attribute_made, "abs has no attribute 'dims'"),
    (wrong_arity_made, "add does not take 1 operands"),
    (number_as_operand, "1 is not a value: make a constant of it with r.constant(value, like=...)"),
    (replaces_nothing, "it replaces nothing"),
    (
        custom_call_without_type,
        "the replacement can never be built: custom-call needs its type written: only the backend knows what the target "
        "yields",
    ),
    (
        constant_like_what_is_made,
        "like= names a value that the rule makes: its type is not known when the rule is defined",
    ),
    (replaces_a_value, "'x' is replaced, but is not an operation of the pattern"),
    (part_of_nothing, "operation 'abs' is not part of what is replaced"),
    (apart, "nothing connects 'negate' with the rest of the pattern"),
    (known_condition, "a condition was true or false already when the rule was defined"),
    (python_and, "'#0.rank == 1' has no truth value before something matches"),
    (too_many_ways, "the pattern can match in 512 ways, more than 256"),
    (a_test_narrowed_for_no_reason, "say why the equivalence test is narrowed: reason=..."),
    (a_test_narrowed_by_what_nobody_knows, "an equivalence test has no 'colours'"),
]


@pytest.mark.parametrize(("function", "message"), MESSAGES, ids=lambda item: getattr(item, "__name__", ""))
def test_what_is_said(function: Callable, message: str):
    with pytest.raises(RuleError) as caught:
        rule(function)
    name, line = function.__name__.replace("_", "-"), function.__code__.co_firstlineno
    assert caught.value.message == f"rule {name} ({__file__}:{line}): {message}"


def test_a_replacement_of_another_type():
    with pytest.raises(
        RuleError, match=r"rule other-type .*: is-finite yields pred\[.*\], but what replaces it, negate, yields"
    ):
        rule(other_type)
