"""Weights that only branches of conditionals read, and weights chosen by their own names. Covers `dequantization.py`, `parameter_names.py`."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hloom
from hloom.compress.quantization import ParameterNames, round_by_gptq
from hloom.ir import Module
from tests.compress.quantization.programs import lowered, normal

ALONE = """
left { w = f32[8,4] parameter(0)  c = f32[4,4] constant({ {1,0,0,0}, {0,1,0,0}, {0,0,1,0}, {0,0,0,1} })
  ROOT r = f32[8,4] dot(w, c), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
right { w = f32[8,4] parameter(0)  ROOT n = f32[8,4] negate(w) }
ENTRY main {
  p = pred[] parameter(0)
  w = f32[8,4] parameter(1)
  ROOT y = f32[8,4] conditional(p, w, w), true_computation=left, false_computation=right
}"""


def experts(params, x, flag):
    """Two branches that share a weight, and a loop in which every round takes one of three."""

    def either(h):
        return jnp.tanh(h @ params["either"]) @ params["shared"]

    h = jax.lax.cond(flag, either, lambda h: h @ params["other"] @ params["shared"], x)

    def body(number, h):
        branches = [lambda h: h @ params["experts"][0], lambda h: h @ params["experts"][1], jnp.tanh]
        return jax.lax.switch(number % 3, branches, h)

    return jax.lax.fori_loop(0, 4, body, h)


@cache
def program() -> tuple[Module, tuple[np.ndarray, ...]]:
    names = ("either", "other", "shared")
    params = {name: normal(16, 16, seed=n, scale=0.3) for n, name in enumerate(names)}
    arguments = {**params, "experts": normal(2, 16, 16, seed=4, scale=0.3)}, normal(4, 16, seed=6), np.bool_(True)
    return hloom.load(jax.jit(experts).lower(*arguments)), tuple(jax.tree.leaves(arguments))


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("recipe", [{}, {"weights": "int4", "group": 8}, {"symmetric": False}], ids=str)
def test_branches_take_the_narrow_weight(recipe: dict, flag: bool):
    module, arrays = program()
    given = [*arrays[:-1], np.bool_(flag)]
    made = hloom.quantize(module, **recipe)
    assert len(made.weights) == 4
    branches = [graph for node in made.module.nodes() if node.opcode == "conditional" for graph in node.called_graphs]
    assert all("f32[16,16]" not in str(graph.parameters[0].type) for graph in branches)
    outputs = hloom.run(made.module, made.convert(given)).outputs
    assert not hloom.compare(outputs, hloom.run(module, made.dequantized(given)).outputs, rtol=1e-5, atol=1e-6)


def test_products_of_integers_in_branches():
    module, arrays = program()
    made = hloom.quantize(module, activations="dynamic")
    assert sum("s32[4,16]" in str(node.type) for node in made.module.nodes() if node.opcode == "dot") == 6
    outputs, original = (hloom.run(m, list(a)).outputs[0] for m, a in ((made.module, made.convert(list(arrays))), (module, arrays)))  # fmt: skip
    assert np.linalg.norm(outputs - original) < 0.05 * np.linalg.norm(original)


def test_gptq_sees_activations_in_branches():
    module, arrays = program()
    made = hloom.quantize(module, "int4", only=["params.either"])
    rounded = round_by_gptq(made, [list(arrays)], damping=0.01, act_order=False).convert(list(arrays))
    assert (rounded[0] != made.convert(list(arrays))[0]).any() or (rounded[1] != made.convert(list(arrays))[1]).any()


def test_a_conditional_that_takes_the_weight_alone():
    module = hloom.parse(ALONE)
    made = hloom.quantize(module, "int8", only=["w"])
    for flag in (True, False):
        given = [np.bool_(flag), normal(8, 4)]
        outputs = hloom.run(made.module, made.convert(given)).outputs
        assert not hloom.compare(outputs, hloom.run(module, made.dequantized(given)).outputs)


def test_weights_by_their_own_names():
    """A table that the head shares is one weight, by whichever name it is chosen."""
    module, _ = lowered("language model")
    for scope, names in (("table", {"params__table__.1"}), (r"layers'\]\['[qk]", {"params__layers____q__.1", "params__layers____k__.1"})):  # fmt: skip
        assert {weight.name for weight in hloom.quantize(module, scope=scope).weights} == names
    dynamic = hloom.quantize(module, scope="table", activations="dynamic").module
    heads = [str(node.type) for node in dynamic.nodes() if node.opcode == "dot" and "11" in str(node.type)]
    assert heads
    assert all(type_.startswith("s32") for type_ in heads)


def test_names_that_hold_their_path():
    """Without metadata, as some printers leave them."""
    text = """ENTRY e {
      params__layers___0___up__.1 = f32[4,4] parameter(0)
      params__table__.1 = f32[9,4] parameter(1)
      x__.2 = s32[3] parameter(2)
      rows = f32[3,4] gather(params__table__.1, x__.2), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
      ROOT y = f32[3,4] dot(rows, params__layers___0___up__.1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    module = hloom.parse(text)
    names = ParameterNames(module.entry.parameters)
    assert [names[name].number for name in ("params.layers.0.up", "layers/0/up", "table", "x__.2")] == [0, 0, 1, 2]
    assert len(hloom.quantize(module).weights) == 2
    long = hloom.parse("ENTRY e { " + "a" + "__b" * 9999 + "_ = f32[] parameter(0) ROOT r = f32[] negate(" + "a" + "__b" * 9999 + "_) }")  # fmt: skip
    assert ParameterNames(long.entry.parameters).get("a.b") is None
