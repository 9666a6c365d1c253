"""Attention as models write it, brought into one form: which spellings, with which numbers, and what is none.

`attention.py`, `attention_form.py`, `axis_labels.py`, `softmax.py`, `masked_rows.py`

The function that takes its place here computes the form as it is defined, in f32, and holds all scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.passes import attention_at
from hloom.rewrite import Family, build_call

DEFINED = Family("attention-as-defined")
OPERATIONS = {
    "add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply, "divide": jnp.divide, "maximum": jnp.maximum,
    "minimum": jnp.minimum,
}  # fmt: skip


@DEFINED.rewrites("dot", "divide", "multiply", depth=32)
def attention(build: Any, node: Any) -> Any:
    """softmax(steps(q k^T)) v -> as_defined(q, k, v, terms)"""
    match: Any = attention_at(build, node)
    if match is None:
        return None
    steps = tuple(step.as_tuple() for step in match.steps)
    result = build_call(build, as_defined, match.q, match.k, match.v, *match.terms, steps=steps, rows=match.rows)
    return None if result is None else match.finish(build, result, node)


def as_defined(q: Any, k: Any, v: Any, *terms: Any, steps: Any, rows: int) -> Any:
    q, k, v = (array.astype(jnp.float32) for array in (q, k, v))
    queries = "xyzw"[:rows]
    scores, remaining = jnp.einsum(f"...{queries}d,...kd->...{queries}k", q, k), iter(terms)
    for opcode, number, is_second in steps:
        if opcode == "tanh":
            scores = jnp.tanh(scores)
        elif opcode == "select":
            mask = next(remaining)
            other = next(remaining) if number is None else number
            scores = jnp.where(mask, other, scores) if is_second else jnp.where(mask, scores, other)
        else:
            other = next(remaining) if number is None else number
            scores = OPERATIONS[opcode](other, scores) if is_second else OPERATIONS[opcode](scores, other)
    return jnp.einsum(f"...{queries}k,...ke->...{queries}e", jax.nn.softmax(scores), v)


B, H, T, D = 2, 4, 8, 16
CAUSAL = jnp.tril(jnp.ones((T, T), bool))


def by_jax(*shared: int, **options: Any) -> Callable[..., Any]:
    heads = shared[0] if shared else H

    def function(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (array.swapaxes(1, 2) for array in (q, k[:, :heads], v[:, :heads]))
        return jax.nn.dot_product_attention(q, k, v, **options)

    return function


def scored(q: Any, k: Any) -> Any:
    return q @ k.mT * 0.25


def exponentials(scores: Any) -> Any:
    return jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))


SPELLINGS: dict[str, Callable[..., Any]] = {
    "divided scores": lambda q, k, v: jax.nn.softmax(q @ k.mT / 4) @ v,
    "scaled queries": lambda q, k, v: jax.nn.softmax((q / 4) @ k.mT) @ v,
    "no scale": lambda q, k, v: jax.nn.softmax(q @ k.mT) @ v,
    "heads behind positions": lambda q, k, v: jnp.einsum(
        "bhqk,bkhd->bqhd",
        jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q.swapaxes(1, 2), k.swapaxes(1, 2))),
        v.swapaxes(1, 2),
    ),
    "softmax over queries' rows turned": lambda q, k, v: jnp.einsum(
        "bhkq,bhkd->bhqd", jax.nn.softmax(jnp.einsum("bhkd,bhqd->bhkq", k, q), axis=-2), v
    ),
    "greatest score stopped": lambda q, k, v: (
        lambda weights: (weights / weights.sum(-1, keepdims=True)) @ v
    )(exponentials(scored(q, k))),
    "nothing subtracted": lambda q, k, v: (lambda weights: (weights / weights.sum(-1, keepdims=True)) @ v)(
        jnp.exp(scored(q, k))
    ),
    "divided after the values": lambda q, k, v: (lambda weights: (weights @ v) / weights.sum(-1, keepdims=True))(
        exponentials(scored(q, k))
    ),
    "times a reciprocal": lambda q, k, v: (lambda weights: (weights * (1 / weights.sum(-1, keepdims=True))) @ v)(
        exponentials(scored(q, k))
    ),
    "times a reciprocal after the values": lambda q, k, v: (
        lambda weights: (1 / weights.sum(-1, keepdims=True)) * (weights @ v)
    )(exponentials(scored(q, k))),
    "log softmax": lambda q, k, v: jnp.exp(jax.nn.log_softmax(scored(q, k))) @ v,
    "logsumexp": lambda q, k, v: (lambda s: jnp.exp(s - jax.nn.logsumexp(s, -1, keepdims=True)) @ v)(scored(q, k)),
    "mask chosen": lambda q, k, v: jax.nn.softmax(jnp.where(CAUSAL, scored(q, k), -1e9)) @ v,
    "mask added": lambda q, k, v: jax.nn.softmax(scored(q, k) + jnp.where(CAUSAL, 0.0, -1e9)) @ v,
    "mask multiplied": lambda q, k, v: jax.nn.softmax(scored(q, k) * CAUSAL - 1e10 * (1 - CAUSAL)) @ v,
    "mask of keys": lambda q, k, v: jax.nn.softmax(
        jnp.where((k[:, 0, :, 0] > -1)[:, None, None], scored(q, k), -1e9)
    ) @ v,
    "softmax of some keys": lambda q, k, v: jax.nn.softmax(scored(q, k), where=CAUSAL) @ v,
    "softmax of other keys": lambda q, k, v: jax.nn.softmax(
        scored(q, k), where=~(k[:, 0, :, 0] > -1)[:, None, None]
    ) @ v,
    "rows that keep no key": lambda q, k, v: jax.nn.softmax(scored(q, k), where=~CAUSAL & (q[..., :1] < 0)) @ v,
    "masked exponentials": lambda q, k, v: (lambda weights: (weights / weights.sum(-1, keepdims=True)) @ v)(
        jnp.where(CAUSAL, exponentials(scored(q, k)), 0)
    ),
    "masked exponentials, divided after the values": lambda q, k, v: (
        lambda weights: (weights @ v) / weights.sum(-1, keepdims=True)
    )(exponentials(scored(q, k)) * CAUSAL),
    "clipped scores": lambda q, k, v: jax.nn.softmax(jnp.clip(scored(q, k), -1, 1)) @ v,
    "bias of heads": lambda q, k, v: jax.nn.softmax(scored(q, k) + q[0, :, :, None, 0] * k[0, :, None, :, 0]) @ v,
    "distances": lambda q, k, v: jax.nn.softmax(scored(q, k) - jnp.abs(jnp.arange(T)[:, None] - jnp.arange(T))) @ v,
    "capped scores": lambda q, k, v: jax.nn.softmax(30 * jnp.tanh(scored(q, k) / 30)) @ v,
    "softmax in f32": lambda q, k, v: jax.nn.softmax(
        (q.astype(jnp.bfloat16) @ k.mT.astype(jnp.bfloat16)).astype(jnp.float32)
    ).astype(jnp.bfloat16) @ v.astype(jnp.bfloat16),
    "one head": lambda q, k, v: jax.nn.softmax(q[0, 0] @ k[0, 0].T) @ v[0, 0],
    "one query": lambda q, k, v: jax.nn.softmax(k[0, 0] @ q[0, 0, 0]) @ v[0, 0],
    "heads by vmap": lambda q, k, v: jax.vmap(jax.vmap(lambda q, k, v: jax.nn.softmax(q @ k.T) @ v))(q, k, v),
    "in a loop over layers": lambda q, k, v: jax.lax.scan(
        lambda q, _: (jax.nn.softmax(q @ k.mT) @ v, None), q, length=2
    )[0],
    "one key and value for all heads": lambda q, k, v: jnp.einsum(
        "bhqk,bkd->bhqd", jax.nn.softmax(jnp.einsum("bhqd,bkd->bhqk", q, k[:, 0])), v[:, 0]
    ),
    "one array of queries for all of the batch": lambda q, k, v: jnp.einsum(
        "bhqk,bhkd->bhqd", jax.nn.softmax(jnp.einsum("hqd,bhkd->bhqk", q[0], k)), v
    ),
    "jax": by_jax(),
    "jax, causal": by_jax(is_causal=True),
    "jax, a window": by_jax(is_causal=True, local_window_size=(3, 0)),
    "jax, a bias": by_jax(bias=jnp.cos(jnp.arange(T * T * 1.0)).reshape(1, 1, T, T)),
    "jax, groups of heads": by_jax(2),
    "jax, groups of heads, causal, a bias": by_jax(2, is_causal=True, bias=jnp.sin(jnp.arange(H * T * T * 1.0)).reshape(1, H, T, T)),
}  # fmt: skip




def grid(array: Any) -> Any:
    """Positions as rows and columns: [batch, heads, 2, 4, d]."""
    return array.reshape(B, H, 2, 4, D)


def over_grid(scores: str, steps: Callable[[Any], Any] = lambda s: s, axes: tuple[int, ...] = (-2, -1)) -> Callable[..., Any]:
    """Attention of a grid of queries (x, y) to a grid of keys (k, l), the scores in this order."""

    def function(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(steps(jnp.einsum(f"bhxyd,bhkld->{scores}", grid(q), grid(k)) * 0.25), axis=axes)
        return jnp.einsum(f"{scores},bhkld->bhxyd", weights, grid(v))

    return function


def decomposed_bias(q: Any, k: Any, v: Any) -> Any:
    """One bias for the rows of keys, one for their columns, both by the query."""
    q, k, v = grid(q), grid(k), grid(v)
    rows = jnp.einsum("bhxyd,xkd->bhxyk", q, jnp.cos(jnp.arange(4.0 * D)).reshape(2, 2, D))
    columns = jnp.einsum("bhxyd,yld->bhxyl", q, jnp.sin(jnp.arange(16.0 * D)).reshape(4, 4, D))
    scores = jnp.einsum("bhxyd,bhkld->bhxykl", q, k) + rows[..., None] + columns[..., None, :]
    return jnp.einsum("bhxykl,bhkld->bhxyd", jax.nn.softmax(scores, axis=(-2, -1)), v)


def near(q: Any, k: Any, v: Any) -> Any:
    """Attention to the 3 x 3 positions around a query."""

    def windows(array: Any) -> Any:
        wide = jnp.pad(grid(array), ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)))
        return jnp.stack([jnp.stack([wide[:, :, i : i + 2, j : j + 4] for j in range(3)], 4) for i in range(3)], 4)

    scores = jnp.einsum("bhxyd,bhxyijd->bhxyij", grid(q), windows(k))
    return jnp.einsum("bhxyij,bhxyijd->bhxyd", jax.nn.softmax(scores, axis=(-2, -1)), windows(v))


def summed_in_turn(q: Any, k: Any, v: Any) -> Any:
    weights = jnp.exp(jnp.einsum("bhxyd,bhkld->bhxykl", grid(q), grid(k)) * 0.25)
    return jnp.einsum("bhxykl,bhkld->bhxyd", weights / weights.sum(-1).sum(-1)[..., None, None], grid(v))


GRIDS: dict[str, Callable[..., Any]] = {
    "a grid of keys": over_grid("bhxykl"),
    "columns of keys before rows": over_grid("bhxylk"),
    "columns before rows, softmax of one dimension": lambda q, k, v: jnp.einsum(
        "bhxylk,bhkld->bhxyd",
        jax.nn.softmax(jnp.einsum("bhxyd,bhkld->bhxylk", grid(q), grid(k)).reshape(B, H, 2, 4, 8)).reshape(B, H, 2, 4, 4, 2),
        grid(v),
    ),
    "softmax over reversed dimensions": over_grid("bhxykl", axes=(-1, -2)),
    "keys apart": over_grid("bkhxly", axes=(1, 4)),
    "a bias of rows": over_grid("bhxykl", lambda s: s + jnp.arange(4.0).reshape(2, 1, 2, 1)),
    "a mask of columns": over_grid(
        "bhxykl", lambda s: jnp.where(jnp.tril(jnp.ones((4, 4), bool))[:, None], s, -1e9)
    ),
    "a bias of rows and one of columns": decomposed_bias,
    "the positions nearby": near,
    "rows and columns summed in turn": summed_in_turn,
}  # fmt: skip
LATER = jnp.arange(T)[:, None] > jnp.arange(T)
"""The first query keeps no key."""


def zeros_for_nans(p: Any) -> Any:
    return jnp.where(jnp.isnan(p), 0, p)


NANS: dict[str, Callable[..., Any]] = {
    "zeros for NaNs": lambda q, k, v: zeros_for_nans(jax.nn.softmax(jnp.where(LATER, scored(q, k), -jnp.inf))) @ v,
    "zeros where not equal": lambda q, k, v: (lambda p: jnp.where(p == p, p, 0))(
        jax.nn.softmax(jnp.where(LATER, scored(q, k), -jnp.inf))) @ v,
    "zeros where not finite": lambda q, k, v: (lambda p: jnp.where(jnp.isfinite(p), p, 0))(
        jax.nn.softmax(jnp.where(LATER, scored(q, k), -jnp.inf))) @ v,
    "nan_to_num": lambda q, k, v: jnp.nan_to_num(jax.nn.softmax(jnp.where(LATER, scored(q, k), -jnp.inf))) @ v,
    "nan_to_num of masked and scaled scores": lambda q, k, v: jnp.nan_to_num(
        jax.nn.softmax(jnp.where(LATER, q @ k.mT, -jnp.inf) * 0.25)) @ v,
    "nan_to_num of two masks": lambda q, k, v: jnp.nan_to_num(jax.nn.softmax(
        jnp.where((k[:, 0, :, 0] > 0)[:, None, None], jnp.where(CAUSAL, scored(q, k), -jnp.inf), -jnp.inf))) @ v,
    "nan_to_num of keys chosen otherwise": lambda q, k, v: jnp.nan_to_num(jax.nn.softmax(
        jnp.where(k[:, :, None, :, 0] > 0, jnp.where(LATER, scored(q, k), -jnp.inf), -2))) @ v,
    "nan_to_num after a finite mask": lambda q, k, v: jnp.nan_to_num(jax.nn.softmax(jnp.where(LATER, scored(q, k), -1e9))) @ v,
    "nan_to_num of a softmax of some keys": lambda q, k, v: jnp.nan_to_num(jax.nn.softmax(scored(q, k), where=LATER)) @ v,
    "zeros for NaNs of a grid": lambda q, k, v: jnp.einsum("bhxykl,bhkld->bhxyd", zeros_for_nans(jax.nn.softmax(jnp.where(
        LATER.reshape(2, 4, 2, 4), jnp.einsum("bhxyd,bhkld->bhxykl", grid(q), grid(k)), -jnp.inf), axis=(-2, -1))), grid(v)),
}  # fmt: skip
ADDED: dict[str, Callable[..., Any]] = {
    "nan_to_num of an added mask": lambda q, k, v: jnp.nan_to_num(
        jax.nn.softmax(scored(q, k) + jnp.where(LATER, 0, -jnp.inf))) @ v,
    "nan_to_num of a computed bias": lambda q, k, v: jnp.nan_to_num(
        jax.nn.softmax(scored(q, k) - jnp.where((q[..., :1] > 0) & (k[..., None, :, 0] > -1), 0.5, jnp.inf))) @ v,
}  # fmt: skip
"""What is -inf is added: the original's derivatives by queries and keys are NaN then."""
SPELLINGS |= GRIDS | NANS | ADDED


def lowered(function: Callable[..., Any]) -> Any:
    array = jax.ShapeDtypeStruct((B, H, T, D), jnp.float32)
    module = hloom.load(jax.jit(function).lower(array, array, array))
    return hloom.opt(module, ["inline", "simplify"])[0]


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str):
    before = lowered(SPELLINGS[name])
    after, report = hloom.opt(before, DEFINED)
    assert report.matched == 1
    expected = hloom.run(before, seed=2)
    [one], [two] = expected.outputs, hloom.run(after, expected.inputs).outputs
    assert one.dtype == two.dtype
    coarse = one.dtype != np.float32
    np.testing.assert_allclose(
        np.asarray(two, float), np.asarray(one, float), *((2e-2, 2e-2) if coarse else (2e-5, 2e-6))
    )


def uneven(scores: Any) -> Any:
    weights = jax.nn.softmax(scores)
    return jnp.where(jnp.arange(T) % 2 == 0, weights * 2, 0)


@pytest.mark.parametrize("name", [*GRIDS, *NANS, *ADDED])
def test_gradients_of_grids_and_where_nans_are_zeros(name: str):
    before = lowered(SPELLINGS[name])
    after, _ = hloom.opt(before, DEFINED)
    expected = hloom.run(hloom.vjp(before), seed=3)
    made = hloom.run(hloom.vjp(after), expected.inputs).outputs
    for position, (one, two) in enumerate(zip(expected.outputs, made, strict=True)):
        assert np.isfinite(two).all()
        assert np.isfinite(one).all() == (name not in ADDED or position == 2)
        if np.isfinite(one).all():
            np.testing.assert_allclose(two, one, 1e-4, 2e-5)


def test_rows_that_keep_no_key_are_zeros_whatever_the_kernel_makes_of_them():
    """The row of the first query holds NaN for a kernel that sees -inf; the select is kept, for finite scores."""
    before = lowered(NANS["zeros for NaNs"])
    after, _ = hloom.opt(before, DEFINED)
    assert "constant(-inf)" not in hloom.print(hloom.opt(after, ["dce"])[0], "short").split("ENTRY")[1]
    assert (hloom.run(after, seed=2).outputs[0][:, :, 0] == 0).all()


OTHERS: dict[str, tuple[Callable[..., Any], str]] = {
    "dropout": (lambda q, k, v: uneven(q @ k.mT) @ v, "no operand is a softmax of what is contracted"),
    "sigmoid": (lambda q, k, v: jax.nn.sigmoid(q @ k.mT) @ v, "no operand is a softmax of what is contracted"),
    "softmax over queries": (
        lambda q, k, v: jax.nn.softmax(q @ k.mT, axis=-2) @ v, "no operand is a softmax of what is contracted"
    ),
    "softmax over heads": (
        lambda q, k, v: jax.nn.softmax(q @ k.mT, axis=1) @ v, "no operand is a softmax of what is contracted"
    ),
    "sums of other numbers": (
        lambda q, k, v: (jnp.exp(q @ k.mT) / jnp.exp(k @ q.mT).sum(-1, keepdims=True)) @ v,
        "no operand is a softmax of what is contracted",
    ),
    "a sum of more than the weights": (
        lambda q, k, v: (lambda all: jnp.where(CAUSAL, all, 0) / all.sum(-1, keepdims=True))(
            exponentials(scored(q, k))) @ v, "weights are left out that their sum holds"
    ),
    "a sum of other weights": (
        lambda q, k, v: (lambda all: jnp.where(CAUSAL, all, 0) / jnp.where(CAUSAL.T, all, 0).sum(-1, keepdims=True))(
            exponentials(scored(q, k))) @ v, "weights are left out that their sum holds"
    ),
    "finite scores masked, weights masked": (
        lambda q, k, v: jnp.where(CAUSAL, jax.nn.softmax(jnp.where(CAUSAL, scored(q, k), -4)), 0) @ v,
        "weights are left out that their sum holds"
    ),
    "ones for NaNs": (
        lambda q, k, v: jnp.nan_to_num(jax.nn.softmax(jnp.where(LATER, scored(q, k), -jnp.inf)), nan=1.0) @ v,
        "no operand is a softmax of what is contracted",
    ),
    "zeros for NaNs of other weights": (
        lambda q, k, v: (lambda p, r: jnp.where(jnp.isnan(r), 0, p))(
            jax.nn.softmax(scored(q, k)), jax.nn.softmax(jnp.where(LATER, scored(k, q), -jnp.inf))) @ v,
        "weights are left out that their sum holds",
    ),
    "zeros for NaNs of scores that a term multiplies": (
        lambda q, k, v: zeros_for_nans(
            jax.nn.softmax(jnp.where(LATER, scored(q, k), -jnp.inf) * k[:, :, None, :, 0])) @ v,
        "NaNs are replaced, and which rows have only scores of -inf is not known",
    ),
    "sums over rows of keys": (
        lambda q, k, v: jnp.einsum("bhxykl,bhkld->bhxyd", jax.nn.softmax(
            jnp.einsum("bhxyd,bhkld->bhxykl", grid(q), grid(k))), grid(v)),
        "no operand is a softmax of what is contracted",
    ),
    "weights are a result": (
        lambda q, k, v: (lambda weights: (weights @ v, weights))(jax.nn.softmax(q @ k.mT)), "the weights are used elsewhere"
    ),
    "scores of no dot": (lambda q, k, v: jax.nn.softmax(k.sum(-1)) @ v.sum(1), "the scores are not of a dot"),
    "other batches": (
        lambda q, k, v: jnp.einsum("bhqk,xkd->bhqxd", jax.nn.softmax(q @ k.mT), v[0]), "the dots have other batches"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_attention(name: str):
    function, reason = OTHERS[name]
    _, report = hloom.opt(lowered(function), DEFINED)
    assert report.matched == 0
    assert reason in str(report.passes[0].rules[0].rejected)


def test_what_the_form_says():
    forms: list[Any] = []
    family = Family("forms-of-attention")

    @family.rewrites("dot")
    def look(build: Any, node: Any) -> Any:
        """dot -> nothing: it only looks"""
        match: Any = attention_at(build, node)
        if match is not None:
            terms = [str(term.type.dims) for term in match.terms]
            forms.append((match.batch, match.rows, match.q.type.dims, [step.as_tuple() for step in match.steps], terms))
        return build.decline("it only looks")

    hloom.opt(lowered(SPELLINGS["mask of keys"]), family)
    [(batch, rows, dims, steps, terms)] = forms
    assert (batch, rows, dims) == (2, 1, (B, H, T, D))
    assert steps == [("multiply", 0.25, False), ("select", -1e9, False)]
    assert terms == [str((B, 1, 1, T))]


def test_gradients_of_rows_that_keep_no_key_are_zero_as_they_were():
    before = lowered(SPELLINGS["rows that keep no key"])
    after, _ = hloom.opt(before, DEFINED)
    expected = hloom.run(hloom.vjp(before), seed=3)
    for one, two in zip(expected.outputs, hloom.run(hloom.vjp(after), expected.inputs).outputs, strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(two, one, 2e-5, 2e-6)


def test_a_scalar_and_an_empty_program():
    for text in ("ENTRY e { x = f32[] parameter(0) ROOT y = f32[] divide(x, x) }",
                 "ENTRY e { x = f32[0] parameter(0) ROOT y = f32[] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0} }"):  # fmt: skip
        assert hloom.opt(hloom.parse(text), DEFINED)[1].matched == 0
