"""Functions of jax's arrays in replacements (rewrite/function_calls.py)."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom import ops
from hloom.formats.hlo import to_text
from hloom.rewrite import (
    Family,
    Rule,
    RuleError,
    build_call,
    call_function,
    call_name,
    load_rules,
    same_rule,
    save_rules,
)
from hloom.rewrite.registry import REGISTERED

TEXT = """ENTRY e {
  x = f32[4,8] parameter(0)
  first = f32[4,8] tanh(x)
  ROOT second = f32[4,8] tanh(first)
}"""


def rule_of(function: Any, opcode: str = "tanh", **options: Any) -> Rule:
    """f(x) -> function(x), with options of r.call"""

    def replaced(p: Any):
        x = p.value("x")
        result = p.op(opcode, x)
        with p.rewrite() as r:
            r.replace({result: r.call(function, x, **options)})

    replaced.__doc__ = "an op -> a function"
    return hloom.rule(replaced)


def test_a_function_takes_the_pattern_s_place_and_is_traced_once_for_a_type():
    after, report = hloom.opt(hloom.parse(TEXT), rule_of(jax.nn.gelu, approximate=False))
    first, second = (node for node in after.entry.nodes if node.opcode == "call")
    assert report.matched == 2 and first.attributes["to_apply"] is second.attributes["to_apply"]
    x = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
    expected = jax.nn.gelu(jax.nn.gelu(x, approximate=False), approximate=False)
    np.testing.assert_allclose(hloom.run(after, (x,)).outputs[0], expected, rtol=1e-5, atol=1e-6)


def test_a_rule_does_not_match_in_what_it_has_made():
    def scaled(x: Any) -> Any:
        return jnp.tanh(x) * 2

    rule = rule_of(scaled)
    once, report = hloom.opt(hloom.parse(TEXT), rule)
    again, later = hloom.opt(hloom.parse(hloom.print(once)), rule)
    assert (report.matched, later.matched) == (2, 0)
    assert later.passes[0].rules[0].rejected == {"it stands in what the rule itself has made": 1}
    assert [node.opcode for node in again.entry.nodes] == ["parameter", "call", "call"]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x[:2], "another type than what it replaces"),
        (lambda x: (x, x), "yields 2 arrays, not 1"),
    ],
)
def test_what_yields_something_else_does_not_fire(function: Any, reason: str):
    _, report = hloom.opt(hloom.parse(TEXT), rule_of(function))
    assert report.matched == 0
    assert reason in str(report.passes[0].rules[0].rejected)


def test_a_function_of_several_results():
    @hloom.rule
    def both(p: Any):
        """tanh(x), sine(x) -> functions of both"""
        x = p.value("x")
        tanh, sine = p.op("tanh", x), p.op("sine", x)
        with p.rewrite() as r:
            first, second = r.call(tanh_and_sine, x, results=2)
            r.replace({tanh: first, sine: second})

    module = hloom.parse("""ENTRY e {
      x = f32[4] parameter(0)
      a = f32[4] tanh(x)
      b = f32[4] sine(x)
      ROOT sum = f32[4] add(a, b)
    }""")
    after, report = hloom.opt(module, both)
    assert report.matched == 1
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(hloom.run(after, (x,)).outputs[0], np.tanh(x) + np.sin(x), rtol=1e-6)


def tanh_and_sine(x: Any) -> tuple[Any, Any]:
    return jnp.tanh(x), jnp.sin(x)


def test_jax_s_refusal_names_the_function_and_the_types():
    def contradictory(x: Any) -> Any:
        return x @ x

    with pytest.raises(RuleError, match=r"contradictory of f32\[4,8\] cannot be traced"):
        hloom.opt(hloom.parse(TEXT), rule_of(contradictory))


def größe(x: Any) -> Any:
    return jnp.tanh(x)


class Activation:
    def __call__(self, x: Any) -> Any:
        return jnp.tanh(x)

    def method(self, x: Any) -> Any:
        return jnp.tanh(x)


def renamed(x: Any) -> Any:
    return jnp.tanh(x)


renamed.__qualname__ = "two words\n} ENTRY x {"


@pytest.mark.parametrize(
    "function",
    [lambda x: jnp.tanh(x), größe, renamed, Activation().method],
    ids=["lambda", "unicode", "line break", "method"],
)
def test_the_computation_s_name_can_be_read_back(function: Any):
    changed, _ = hloom.opt(hloom.parse(TEXT), rule_of(function))
    assert hloom.equal(hloom.parse(to_text(changed)), changed)


def test_what_has_no_name_is_refused_when_the_rule_is_defined():
    with pytest.raises(RuleError, match="not a function with a name"):
        rule_of(partial(jnp.tanh))


def test_a_saved_rule_names_the_function(tmp_path: Any):
    rule = rule_of(jax.nn.gelu, approximate=True)
    save_rules([rule], tmp_path / "rules.json")
    [loaded] = load_rules(tmp_path / "rules.json")
    assert same_rule(loaded, rule)
    name = call_name(jax.nn.gelu)
    held = REGISTERED.pop(name)
    try:
        with pytest.raises(RuleError, match="gelu"):
            load_rules(tmp_path / "rules.json")
    finally:
        REGISTERED[name] = held


def test_in_the_second_function_of_a_pair_and_in_native_rules():
    def tanh(x: Any) -> Any:
        """tanh -> jax.numpy.tanh"""
        return ops.tanh(x)

    rule = hloom.rule_from(tanh, lambda x: call_function(jnp.tanh, x))
    assert hloom.opt(hloom.parse(TEXT), rule)[1].matched == 2
    family = Family("calls-of-functions")

    @family.rewrites("tanh")
    def doubled(build: Any, node: Any) -> Any:
        """tanh(x) -> a function of x"""
        return build_call(build, jnp.tanh, node.operands[0])

    assert hloom.opt(hloom.parse(TEXT), family)[1].matched == 2
    with pytest.raises(RuleError, match="in a replacement"):
        call_function(jnp.tanh)


def test_64_bits_stay():
    module = hloom.parse("ENTRY e { x = f64[3] parameter(0) ROOT y = f64[3] tanh(x) }")
    after, report = hloom.opt(module, rule_of(jax.nn.gelu))
    assert report.matched == 1 and str(after.entry.root.type) == "f64[3]"


def test_inside_jit_under_grad_and_vmap():
    rule = rule_of(jnp.tanh)
    function = hloom.jit(lambda x: jnp.tanh(x) * 3, passes=[rule])
    x = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)
    assert any(node.opcode == "call" for node in function.rewritten(x).entry.nodes)
    np.testing.assert_allclose(jax.vmap(function)(x), jnp.tanh(x) * 3, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: function(x).sum())(x), 3 * (1 - jnp.tanh(x) ** 2), rtol=1e-5)
