"""Programs that compute values twice: the same numbers, less memory, and refusals.

Covers `choice.py`, `live_ranges.py`, `opaque_dependence.py`, `recomputation.py`, `rematerialization.py`,
`search.py`, `stored_values.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import hloom
from hloom.cli import main
from hloom.distribute.remat import Rematerialization, remat_in_place, rematerialize
from hloom.distribute.remat.stored_values import find_stored_values
from hloom.formats.hlo import parse, print_module
from hloom.ir import Module
from hloom.runtime import memory
from hloom.testing import assert_equivalent

RANDOM = np.random.default_rng(0)
HEADS, WIDTH, LENGTH, BATCH = 2, 16, 64, 4


def normal(*dims: int) -> np.ndarray:
    return (RANDOM.standard_normal(dims) * 0.3).astype(np.float32)


def attention_block(w: Any, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    h = centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    q, k, v = (jnp.einsum("btd,dhk->bthk", h, w[name]) for name in "qkv")
    weights = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k) * 0.25)
    x = x + jnp.einsum("bhts,bshk,hkd->btd", weights, v, w["o"])
    return x + jax.nn.gelu(x @ w["up"]) @ w["down"]


def attention_weights() -> dict[str, np.ndarray]:
    split = (WIDTH, HEADS, WIDTH // HEADS)
    return {
        "q": normal(*split), "k": normal(*split), "v": normal(*split), "o": normal(HEADS, WIDTH // HEADS, WIDTH),
        "up": normal(WIDTH, 4 * WIDTH), "down": normal(4 * WIDTH, WIDTH),
    }  # fmt: skip


def attention(weights: Any, x: Any) -> Any:
    for w in weights:
        x = attention_block(w, x)
    return (x * x).mean()


def convolutions(weights: Any, x: Any) -> Any:
    for kernel in weights:
        x = jax.nn.relu(lax.conv_general_dilated(x, kernel, (1, 1), "SAME"))
    return (x * x).mean()


def dropout(weights: Any, x: Any, key: Any) -> Any:
    x = jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x, 0)
    for w in weights:
        x = jnp.tanh(jnp.exp(jnp.sin(x @ w)))
    return (x * x).mean()


def recurrence(weights: Any, x: Any) -> Any:
    """A loop whose residuals are stacked, between layers that are not."""
    for w in weights:
        x = jnp.sin(x @ w)
        x, _ = lax.scan(lambda x, _: (jnp.tanh(x @ weights[0]), None), x, None, length=3)
    return (x * x).mean()


SQUARE = [normal(32, 32) for _ in range(5)]
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "attention": (attention, ([attention_weights() for _ in range(3)], normal(BATCH, LENGTH, WIDTH))),
    "a layer of attention": (attention, ([attention_weights()], normal(BATCH, LENGTH, WIDTH))),
    "convolutions": (convolutions, ([normal(4, 4, 3, 3) for _ in range(4)], normal(BATCH, 4, 16, 16))),
    "dropout": (dropout, (SQUARE, normal(512, 32), np.array([1, 2], np.uint32))),
    "recurrence": (recurrence, (SQUARE, normal(512, 32))),
}


@cache
def program(name: str) -> tuple[Module, list[np.ndarray]]:
    function, arguments = PROGRAMS[name]
    lowered = jax.jit(jax.value_and_grad(function)).lower(*arguments)
    return parse(lowered.as_text("hlo")), [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]


@cache
def recomputing(name: str, share: float) -> Rematerialization:
    module, _ = program(name)
    peak = rematerialize(module, 10**12).peak
    return rematerialize(module, int(share * peak))


@pytest.mark.parametrize(
    ("name", "share"),
    [("attention", 0.7), ("attention", 0.5), ("convolutions", 0.95), ("dropout", 0.9), ("recurrence", 0.9)],
)
def test_the_numbers_stay_and_the_peak_falls(name: str, share: float):
    module, inputs = program(name)
    made = recomputing(name, share)
    assert made.recomputed
    assert made.peak <= share * made.original_peak
    assert_equivalent(module, made.module, inputs)


def test_xla_keeps_the_second_computations():
    module, _ = program("attention")
    before, after = (memory(print_module(version)) for version in (module, recomputing("attention", 0.5).module))
    assert after["peak"] <= 0.55 * before["peak"]


def test_arithmetic_is_counted():
    made = recomputing("attention", 0.7)
    assert made.original_flops < made.flops < 1.34 * made.original_flops
    assert 0 < made.cost_bound <= made.cost


def test_a_measure_of_the_peak_is_heeded():
    """A compiler that takes a tenth more than the model, so that less must be kept."""
    module, _ = program("attention")
    budget = int(0.7 * recomputing("attention", 0.7).original_peak)
    made = rematerialize(module, budget, measure=lambda module: memory(print_module(module))["peak"] * 11 // 10)
    assert made.peak <= budget
    assert memory(print_module(made.module))["peak"] * 11 // 10 <= budget


def test_what_is_chosen_is_checked():
    """A compiler that takes a tenth more than the model, of which only what fits is taken; or that knows nothing."""
    module, _ = program("attention")
    budget = int(0.7 * recomputing("attention", 0.7).original_peak)
    made = rematerialize(module, budget, check=lambda module: memory(print_module(module))["peak"] * 11 // 10)
    assert made.assigned is not None
    assert memory(print_module(made.module))["peak"] * 11 // 10 == made.assigned <= budget

    def unknown(module: Module) -> int:
        raise hloom.HloomError("no compiler")

    assert rematerialize(module, budget, check=unknown).assigned is None


def test_instructions_of_the_model_are_not_taken_for_those_of_the_program():
    """The model names its transposes as the program names its own, of other layers."""

    def norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)

    def loss(layers: Any, x: Any) -> Any:
        for w in layers:
            q, k, v = (jnp.einsum("btd,dhk->bhtk", norm(x), w[name]) for name in "qkv")
            weights = jax.nn.softmax(jnp.einsum("bhtk,bhsk->bhts", q, k) / 2)
            x = x + jnp.einsum("bthk,hkd->btd", jnp.einsum("bhts,bhsk->bthk", weights, v), w["o"])
            x = x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]
        return (x * x).mean()

    layers = [attention_weights() for _ in range(8)]
    lowered: Any = jax.jit(jax.value_and_grad(loss)).lower(layers, normal(BATCH, LENGTH, WIDTH))
    stored = rematerialize(hloom.load(lowered), 1 << 40).stored
    late = [v for v in stored.values if v.spans and v.made < min(start for _, start, _ in v.spans) - 20]
    assert not late  # values that are made long before any buffer holds them


def test_a_program_that_fits_stays_as_it_is():
    module, _ = program("convolutions")
    changed, report = hloom.opt(module, lambda module: remat_in_place(module, "1GiB"))
    assert print_module(changed) == print_module(module)
    assert "nothing is recomputed" in report.passes[0].notes[0]


def test_in_place_writes_the_same_program():
    module, _ = program("attention")
    made = recomputing("attention", 0.7)
    copy = module.clone()
    remat_in_place(copy, int(0.7 * made.original_peak), measure="model")
    assert hloom.equal(copy, made.module)


def test_barriers_where_the_backend_keeps_them():
    module, _ = program("attention")
    peak = rematerialize(module, 10**12).peak
    changed = hloom.remat(module, int(0.7 * peak), backend="gpu")
    assert [node for node in changed.nodes() if node.opcode == "opt-barrier"]
    assert_equivalent(module, changed)


def test_what_has_an_effect_is_kept():
    text = """
    ENTRY e {
      x = f32[64,64] parameter(0)
      zero = f32[] constant(0)
      noise = f32[64,64] rng(zero, zero), distribution=rng_uniform
      called = f32[64,64] custom-call(noise), custom_call_target="log", custom_call_has_side_effect=true
      shared = f32[64,64] all-reduce(called), to_apply=sum
      a = f32[64,64] dot(shared, called), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT b = f32[64,64] dot(a, noise), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    module = parse(f"sum {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }}\n{text}")
    module.index_users()
    able = {value.node.opcode: value.may_recompute for value in find_stored_values(module).values}
    assert able == {"rng": False, "custom-call": False, "all-reduce": False, "dot": True}


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (0, "a device cannot hold 0 bytes"),
        (-5, "a device cannot hold -5 bytes"),
        ("12 parsecs", "'12 parsecs' is not a number of bytes"),
        (1000, "arguments and outputs alone take"),
        (40_000, "found no way to run in 40,000 bytes: the smallest found takes"),
    ],
)
def test_impossible_budgets(budget: int | str, message: str):
    module, _ = program("convolutions")
    before = print_module(module)
    with pytest.raises(hloom.HloomError) as caught:
        remat_in_place(module, budget)
    assert message in str(caught.value)
    assert print_module(module) == before


def least_beyond(module: Module, budget: int) -> int:
    """The least that is named where a budget is refused."""
    with pytest.raises(hloom.HloomError) as caught:
        rematerialize(module, budget)
    named = re.search(r"the smallest found takes ([\d,]+)", str(caught.value))
    assert named
    return int(named[1].replace(",", ""))


def test_the_least_that_is_named_is_the_same_for_all_budgets_and_fits():
    """Of two budgets that nothing fits, whatever was tried for the one or the other."""
    module, inputs = program("convolutions")

    least = least_beyond(module, 40_000)
    assert least == least_beyond(module, least // 2) == least_beyond(module, least - 1)
    made = rematerialize(module, least)
    assert made.peak <= least
    assert_equivalent(module, made.module, inputs)


def test_a_program_that_the_compiler_runs_in_the_budget_stays_as_it_is():
    """The model may see more than the compiler assigns: what that says holds."""
    module, _ = program("convolutions")
    peak = rematerialize(module, 10**12).peak
    made = rematerialize(module, peak - 1, check=lambda module: peak - 1)
    assert not made.recomputed


def test_what_nearly_fits_by_the_model_is_asked_of_the_compiler():
    """A compiler that takes 2 % less than the model, and a budget 1 % below the least that the model knows."""
    module, _ = program("convolutions")
    least = least_beyond(module, 40_000)

    def compiler(version: Module) -> int:
        recomputes = any(node.opcode == "or" for node in version.nodes())
        return least * 98 // 100 if recomputes else 2 * least

    made = rematerialize(module, least * 99 // 100, check=compiler)
    assert made.assigned == least * 98 // 100


def test_what_cannot_be_planned():
    with pytest.raises(hloom.HloomError, match="how much memory the program may take must be given"):
        remat_in_place(program("convolutions")[0])
    with pytest.raises(hloom.HloomError, match="nothing is known of the backend 'abacus'"):
        hloom.remat(program("convolutions")[0], "1GB", backend="abacus")
    with pytest.raises(hloom.HloomError, match="is a fragment"):
        hloom.remat(parse("ENTRY e { ROOT a = f32[8] negate(x) }"), "1GB")
    with pytest.raises(hloom.HloomError, match="is scheduled: XLA has chosen what it keeps"):
        hloom.remat(parse("HloModule m, is_scheduled=true\nENTRY e { ROOT x = f32[8] parameter(0) }"), "1GB")
    with pytest.raises(hloom.HloomError, match="the memory of dynamic sizes is not known"):
        hloom.remat(parse("ENTRY e { ROOT x = f32[<=8] parameter(0) }"), "1GB")


def scan_of_layers(weights: Any, tokens: Any) -> Any:
    def layer(x: Any, w: Any) -> tuple[Any, None]:
        q, k, v = (part.reshape(*x.shape[:2], 2, 16) for part in jnp.split(x @ w["qkv"], 3, -1))
        scores = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k))
        x = x + jnp.einsum("bhqk,bkhd->bqhd", scores, v).reshape(x.shape) @ w["o"]
        return x + jax.nn.gelu(x @ w["up"]) @ w["down"], None

    layers = {name: weights[name] for name in ("qkv", "o", "up", "down")}
    x, _ = lax.scan(layer, weights["e"][tokens[:, :-1]], layers)
    logs = jax.nn.log_softmax(x @ weights["e"].T)
    return -jnp.take_along_axis(logs, tokens[:, 1:, None], -1).mean()


def test_a_loop_with_the_peak_inside_reads_what_was_computed_before_it():
    """before: such a loop read second computations that waited for its own results; after: the first ones."""
    weights = {
        "e": normal(64, 32), "qkv": normal(4, 32, 96), "o": normal(4, 32, 32), "up": normal(4, 32, 128),
        "down": normal(4, 128, 32),
    }  # fmt: skip
    tokens = RANDOM.integers(0, 64, (8, 33)).astype(np.int32)

    def step(weights: Any, momenta: Any, tokens: Any) -> Any:
        gradients = jax.grad(scan_of_layers)(weights, tokens)
        momenta = jax.tree.map(lambda m, g: 0.9 * m + g, momenta, gradients)
        return jax.tree.map(lambda w, m: w - 0.1 * m, weights, momenta), momenta

    arguments = weights, jax.tree.map(np.zeros_like, weights), tokens
    module = parse(jax.jit(step).lower(*arguments).as_text("hlo"))
    made = rematerialize(module, int(0.6 * rematerialize(module, 10**12).peak))
    assert made.recomputed
    assert_equivalent(module, made.module, [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)])


def test_a_budget_for_temporaries_alone():
    """It is a budget of so much beside arguments and outputs; XLA's size of temporaries stays within it."""
    module, _ = program("attention")
    fixed = find_stored_values(recomputing("attention", 0.7).module).fixed
    limit = int(0.7 * recomputing("attention", 0.7).original_peak)
    made = rematerialize(module, temporaries=limit - fixed)
    assert print_module(made.module) == print_module(recomputing("attention", 0.7).module)
    checked = hloom.remat(module, temporaries=f"{limit - fixed}B")
    assert memory(print_module(checked))["temporaries"] <= limit - fixed < memory(print_module(module))["temporaries"]
    for budget in (None, "1GB"):
        with pytest.raises(hloom.HloomError, match="either in all or on top of arguments and outputs"):
            hloom.remat(module, budget, temporaries=budget)


def test_a_budget_that_may_have_been_meant_for_temporaries():
    """Where it is less than arguments and outputs and would do without them, the refusal says how that is written."""
    wide = parse("""
        ENTRY e {
          x = f32[1000000] parameter(0)
          y = f32[1024] parameter(1)
          z = f32[1024] sine(y)
          t = f32[1024] tanh(z)
          m = f32[1024,1024] dot(z, t), lhs_contracting_dims={}, rhs_contracting_dims={}
          n = f32[1024] dot(m, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          ROOT out = (f32[1000000], f32[1024]) tuple(x, n)
        }""")
    with pytest.raises(hloom.HloomError, match="alone take") as caught:
        hloom.remat(wide, "500KB")
    assert "remat(temporaries=500000)" in str(caught.value)
    with pytest.raises(hloom.HloomError, match="alone take") as caught:
        hloom.remat(wide, 10)
    assert "temporaries=" not in str(caught.value)


def test_on_the_command_line(tmp_path: Path):
    file = tmp_path / "step.hlo"
    file.write_text(print_module(program("attention")[0]))
    peak = recomputing("attention", 0.7).original_peak
    result = CliRunner().invoke(main, ["opt", str(file), "-p", f"remat(budget={int(0.7 * peak)}B)", "-o", "-"])
    assert result.exit_code == 0
    assert result.stdout.count(" select(") > print_module(program("attention")[0]).count(" select(")
    result = CliRunner().invoke(main, ["opt", str(file), "-p", "remat(budget=1KiB)"])
    assert result.exit_code == 1
    assert "arguments and outputs alone take" in result.stderr


def test_inside_jit():
    function, arguments = PROGRAMS["attention"]
    peak = recomputing("attention", 0.7).original_peak
    jitted = hloom.jit(jax.value_and_grad(function), passes=[f"remat(budget={int(0.7 * peak)})"])
    for one, other in zip(
        jax.tree.leaves(jitted(*arguments)),
        jax.tree.leaves(jax.jit(jax.value_and_grad(function))(*arguments)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Instructions over square arrays of one size, early ones read late: much is kept across the peak.

    All values are at most about 1, so that rounding in another order stays rounding.
    """
    lines, names = ["  x = f32[24,24] parameter(0)", "  v0 = f32[24,24] tanh(x)"], ["v0"]
    for number in range(1, draw(st.integers(8, 16))):
        opcode = draw(st.sampled_from(("dot", "tanh", "multiply", "maximum", "transpose", "reduce")))
        one, other = (draw(st.sampled_from(names[-3:] + names[:4])) for _ in range(2))
        name = f"v{number}"
        if opcode == "dot":
            lines.append(
                f"  {name}.d = f32[24,24] dot({one}, {other}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
            )
            lines.append(f"  {name} = f32[24,24] multiply({name}.d, fifths)")
        elif opcode == "tanh":
            lines.append(f"  {name} = f32[24,24] tanh({one})")
        elif opcode == "transpose":
            lines.append(f"  {name} = f32[24,24] transpose({one}), dimensions={{1,0}}")
        elif opcode == "reduce":
            lines.append(f"  {name}.r = f32[24] reduce({one}, zero), dimensions={{1}}, to_apply=sum")
            lines.append(f"  {name}.b = f32[24,24] broadcast({name}.r), dimensions={{0}}")
            lines.append(f"  {name} = f32[24,24] tanh({name}.b)")
        else:
            lines.append(f"  {name} = f32[24,24] {opcode}({one}, {other})")
        names.append(name)
    for number, name in enumerate(reversed(names[1:-1])):
        lines.append(
            f"  w{number} = f32[24,24] dot({names[-1]}, {name}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}"
        )
        lines.append(f"  late{number}.d = f32[24,24] multiply(w{number}, fifths)")
        lines.append(f"  late{number} = f32[24,24] tanh(late{number}.d)")
        names.append(f"late{number}")
    sums = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
    body = "\n".join(
        [
            "  zero = f32[] constant(0)",
            "  fifth = f32[] constant(0.2)",
            "  fifths = f32[24,24] broadcast(fifth), dimensions={}",
            *lines,
        ]
    )
    return parse(
        f"{sums}\nENTRY e {{\n{body}\n  ROOT out = f32[24] reduce({names[-1]}, zero), dimensions={{0}}, to_apply=sum\n}}"
    )


@settings(max_examples=5, deadline=None)
@given(modules(), st.floats(0.3, 0.95))
def test_random_programs_keep_their_numbers(module: Module, share: float):
    peak = rematerialize(module, 10**12).peak
    try:
        made = rematerialize(module, max(1, int(share * peak)))
    except hloom.HloomError as error:
        assert "found no way" in error.message or "alone take" in error.message
        return
    assert made.peak <= share * peak
    assert_equivalent(module, made.module, rtol=1e-5, atol=1e-4)  # sums of 24 numbers of at most 1


def test_a_budget_that_nothing_meets_says_the_least_that_is_found():
    module, _ = program("a layer of attention")
    least = [
        int(re.search(r"found takes ([\d,]+)", str(refused(module, share))).group(1).replace(",", ""))  # pyright: ignore[reportOptionalMemberAccess]
        for share in (0.1, 0.2)
    ]
    peak = rematerialize(module, 1 << 40).peak
    assert all(amount < 0.8 * peak for amount in least)


def refused(module: Module, share: float) -> hloom.HloomError:
    original = rematerialize(module, 1 << 40)
    assert original.stored is not None
    budget = original.stored.fixed + int(share * (original.peak - original.stored.fixed))
    with pytest.raises(hloom.HloomError) as caught:
        rematerialize(module, budget)
    return caught.value


def test_a_program_that_stores_nothing():
    text = """ENTRY main {
      a = f32[4] parameter(0)
      t = (f32[4]) tuple(a)
      ROOT b = (f32[4]) domain(t), domain={kind="sharding", entry={replicated}, exit={replicated}}
    }"""
    assert hloom.fit(hloom.parse(text), 2).omissions
