"""`hloom.jit` and `hloom.inside_jit` take passes: rules change what jax computes, and what fails in a rule says where."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.passes import Pass
from hloom.rewrite import Family, Report
from tests.runtime.changes import fuse_each

X = jnp.arange(6.0).reshape(2, 3) / 6


@hloom.rule
def sine_to_cosine(p):
    """sine(x) -> cosine(x): other numbers, so that it shows"""
    x = p.value("x")
    expression = p.op("sine", x)
    with p.rewrite() as r:
        r.replace({expression: r.op("cosine", x)})


@hloom.rule
def divide_by_root(p):
    """divide(y, sqrt(x)) -> multiply(y, rsqrt(x))"""
    x, y = p.value("x"), p.value("y")
    expression = p.op("divide", y, p.op("sqrt", x))
    with p.rewrite() as r:
        r.replace({expression: r.op("multiply", y, r.op("rsqrt", x))})


def divided(x):
    return x / (x + 3)


FAILING = Family("failing-rules")


@FAILING.rewrites("sine")
def fails(build, node):
    """sine(x) -> an exception"""
    raise KeyError("no such thing")


def test_a_rule_changes_what_jax_computes():
    function = hloom.jit(jnp.sin, [sine_to_cosine])
    np.testing.assert_allclose(function(X), jnp.cos(X), rtol=1e-6)
    np.testing.assert_allclose(jnp.sin(X), jax.jit(jnp.sin)(X), rtol=1e-6)


def test_a_decorator_with_options_of_jax():
    @hloom.jit(passes=[sine_to_cosine, "cse"], static_argnums=1)
    def function(x, power):
        return jnp.sin(x) ** power

    np.testing.assert_allclose(function(X, 2), jnp.cos(X) ** 2, rtol=1e-6)


def test_a_rule_that_fuses():
    def normalised(x):
        return x / jnp.sqrt(x * x + 1)

    fused = hloom.jit(normalised, divide_by_root)
    np.testing.assert_allclose(fused(X), normalised(X), rtol=1e-6)
    opcodes = {node.opcode for node in fused.rewritten(X).nodes()}
    assert "rsqrt" in opcodes and not {"sqrt", "divide"} & opcodes


def test_inside_jit():
    with hloom.inside_jit([sine_to_cosine]):
        inside = jax.jit(lambda x: jnp.sin(x) * 2)(X)
    np.testing.assert_allclose(inside, jnp.cos(X) * 2, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda x: jnp.sin(x) * 2)(X), jnp.sin(X) * 2, rtol=1e-6)


def test_a_rule_that_never_fires_is_named_once():
    function = hloom.jit(jnp.tanh, [sine_to_cosine, divide_by_root, "simplify"])
    with pytest.warns(hloom.HloomWarning) as caught:
        function(X)
        function(jnp.arange(3.0))
    assert [str(warning.message) for warning in caught] == [
        "sine-to-cosine never fired in tanh: nothing in it has the opcode sine",
        "divide-by-root never fired in tanh: nothing in it has the opcode divide",
    ]


def test_why_a_rule_never_fired():
    with pytest.warns(hloom.HloomWarning, match="divide-by-root never fired in divided: tried 1 times, most often rejected"):
        hloom.jit(divided, divide_by_root)(X)


def test_a_rule_that_never_fires_inside_jit():
    named = pytest.warns(hloom.HloomWarning, match=r"divide-by-root never fired in what was compiled, \d modules")
    with named, hloom.inside_jit([sine_to_cosine, divide_by_root]):
        jax.jit(lambda x: jnp.sin(x) * 2)(X)


def test_one_rule_of_a_family_is_enough():
    family = Family("halves")

    @family.rewrites("sine")
    def of_sine(build, node):
        """sine(x) -> cosine(x)"""
        return build.op("cosine", *node.operands)

    @family.rewrites("tanh")
    def of_tanh(build, node):
        """tanh(x) -> cosine(x)"""
        return build.op("cosine", *node.operands)

    np.testing.assert_allclose(hloom.jit(jnp.sin, family)(X), jnp.cos(X), rtol=1e-6)


def test_passes_that_change_nothing_say_so():
    with hloom.inside_jit("dce", stage="post_scheduler"):
        np.testing.assert_allclose(jax.jit(jnp.sin)(X), jnp.sin(X), rtol=1e-6)


def test_an_exception_in_a_rule_has_the_rules_place():
    def inside():
        with hloom.inside_jit(FAILING):
            jax.jit(lambda x: jnp.sin(x) * 3)(X)

    for call in (lambda: hloom.jit(jnp.sin, FAILING)(X), inside):
        with pytest.raises(hloom.RewriteError) as caught:
            call()
        assert "rule fails (" in caught.value.message and "test_jit.py:" in caught.value.message
        assert "KeyError: 'no such thing'" in caught.value.message
        assert caught.value.location is not None and caught.value.location.source == __file__
        assert 'raise KeyError("no such thing")' in caught.value.location.excerpt


def test_rules_that_undo_each_other_have_no_place_but_their_names():
    @hloom.rule
    def back(p):
        """cosine(x) -> sine(x)"""
        x = p.value("x")
        expression = p.op("cosine", x)
        with p.rewrite() as r:
            r.replace({expression: r.op("sine", x)})

    with pytest.raises(hloom.RewriteError, match="rules undo each other") as caught:
        hloom.jit(jnp.sin, [sine_to_cosine, back])(X)
    assert caught.value.location is None


def test_unknown_passes_are_said_at_once():
    with pytest.raises(hloom.HloomError, match="there is no pass named 'csee'"):
        hloom.jit(jnp.sin, ["csee"])
    with pytest.raises(hloom.HloomError, match="there is no pass named 'csee'"):
        hloom.inside_jit("csee")


def test_fusions_are_refused_where_copies_of_a_loops_state_are_inserted_already():
    """A kernel that is made then may read the state after the loop has overwritten it."""

    def fuse(module):
        return Report("fuse", changes=int(fuse_each("custom-call")(module)))

    def straight(x):
        return jnp.linalg.cholesky(x @ x.T + jnp.eye(2)) * 2

    def looping(x):
        return jax.lax.while_loop(lambda y: jnp.sum(y) < 100, lambda y: y * 2 + 1, straight(x))

    with pytest.raises(hloom.HloomError, match="may read the state too late"), hloom.inside_jit(Pass("fuse", fuse)):
        jax.jit(looping)(X)
    expected = jax.jit(looping)(X)
    with hloom.inside_jit("cluster"):
        np.testing.assert_allclose(jax.jit(looping)(X), expected, rtol=1e-6)
