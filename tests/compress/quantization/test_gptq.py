"""Rounding by GPTQ, against optimal brain quantisation written out: the inverse Hessian is updated row by row. `weight_slices.py`."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import hloom
from hloom.compress.quantization import GptqRounder, round_by_gptq
from hloom.compress.quantization import gptq as rounded_by_gptq
from hloom.text import HloomError
from tests.compress.quantization.programs import lowered, normal

ONE_DOT = """ENTRY main {
  x = f32[64,16] parameter(0)
  h = f32[64,16] tanh(x)
  w = f32[16,6] parameter(1)
  ROOT y = f32[64,6] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def correlated(seed: int) -> np.ndarray:
    return (normal(64, 4, seed=seed) @ normal(4, 16, seed=1) * 0.3 + normal(64, 16, seed=seed, scale=0.1)).astype(
        np.float32
    )


def optimal_brain_quantisation(w: np.ndarray, h: np.ndarray, scale: np.ndarray, largest: int) -> np.ndarray:
    """Frantar et al. 2023, equations 2 and 3, rows in order; the inverse loses a row and a column by elimination."""
    hessian = h.T @ h
    inverse = np.linalg.inv(hessian + 0.01 * np.mean(np.diag(hessian)) * np.eye(len(hessian)))
    w, result = w.astype(np.float64), np.zeros(w.shape)
    for row in range(len(w)):
        result[row] = np.clip(np.round(w[row] / scale), -largest - 1, largest)
        error = (w[row] - result[row] * scale) / inverse[row, row]
        w -= np.outer(inverse[:, row], error)
        inverse = inverse - np.outer(inverse[:, row], inverse[row]) / inverse[row, row]
    return result


@pytest.mark.parametrize(("name", "largest"), [("int8", 127), ("int4", 7), ("int2", 1)])
def test_one_dot(name: str, largest: int):
    module = hloom.parse(ONE_DOT)
    w, batches = normal(16, 6), [correlated(seed) for seed in (2, 3)]
    made = hloom.quantize(module, name)
    arrays = rounded_by_gptq(made, [batches[0], w], [[x, w] for x in batches], damping=0.01, act_order=False)
    nearest = made.convert([batches[0], w])
    assert (arrays[2] == nearest[2]).all(), "the scales are the same"
    h = np.concatenate([np.tanh(x) for x in batches]).astype(np.float64)
    expected = optimal_brain_quantisation(w, h, nearest[2][0].astype(np.float64), largest)
    assert (arrays[1].astype(np.float64) != expected).mean() < 0.02, "tanh rounds otherwise in numpy"
    errors = [np.linalg.norm(h @ (q.astype(np.float64) * nearest[2] - w)) for q in (arrays[1], nearest[1])]
    assert errors[0] < 0.8 * errors[1]


def test_layers_of_a_loop_have_hessians_of_their_own():
    """Rounding a stack in a loop gives what rounding its layers one by one gives."""
    layers = [f"  h{n + 1} = f32[64,8] tanh(y{n})\n  w{n} = f32[8,8] parameter({n + 1})\n  y{n + 1} = f32[64,8] dot(h{n + 1}, w{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}" for n in range(3)]  # fmt: skip
    flat = hloom.parse(
        "ENTRY main {\n  y0 = f32[64,8] parameter(0)\n" + "\n".join(layers).replace("  y3", "  ROOT y3") + "\n}"
    )
    looped = hloom.parse("""body {
      s = (s32[], f32[64,8], f32[3,8,8]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1)
      zero = s32[] constant(0)
      next = s32[] add(i, one)
      y = f32[64,8] get-tuple-element(s), index=1
      w = f32[3,8,8] get-tuple-element(s), index=2
      h = f32[64,8] tanh(y)
      c = f32[1,8,8] dynamic-slice(w, i, zero, zero), dynamic_slice_sizes={1,8,8}
      r = f32[8,8] reshape(c)
      p = f32[64,8] dot(h, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT t = (s32[], f32[64,8], f32[3,8,8]) tuple(next, p, w)
    }
    condition {
      s = (s32[], f32[64,8], f32[3,8,8]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT p = pred[] compare(i, n), direction=LT
    }
    ENTRY main {
      y = f32[64,8] parameter(0)
      w = f32[3,8,8] parameter(1)
      zero = s32[] constant(0)
      state = (s32[], f32[64,8], f32[3,8,8]) tuple(zero, y, w)
      loop = (s32[], f32[64,8], f32[3,8,8]) while(state), condition=condition, body=body
      ROOT out = f32[64,8] get-tuple-element(loop), index=1
    }""")
    x, stack = normal(64, 8), normal(3, 8, 8, scale=0.5)
    one = hloom.quantize(looped, "int4", only=["w"])
    other = hloom.quantize(flat, "int4")
    arrays = rounded_by_gptq(one, [x, stack], [[x, stack]])
    rows = rounded_by_gptq(other, [x, *stack], [[x, *stack]])
    assert (arrays[1] == np.stack(rows[1:4])).all()
    assert (arrays[1] != one.convert([x, stack])[1]).any()


@pytest.mark.parametrize("recipe", [{"per": "group", "group": 8}, {"symmetric": False}, {"per": "tensor"}], ids=str)
@pytest.mark.parametrize("name", ["attention", "language model"])
def test_programs_of_jax_run_with_it(name: str, recipe: dict):
    """On unseen inputs it costs no more than rounding to the nearest, once activations are more than the inputs of a dot.

    A sum of products that err less need not err less itself: white activations, as here, leave GPTQ little to gain.
    """
    module, arrays = lowered(name)
    generator = np.random.default_rng(0)

    def with_inputs(seed: int) -> list[np.ndarray]:
        tokens = generator.integers(0, 11, (2, 5)).astype(np.int32)
        return [*arrays[:-1], normal(2, 5, 16, seed=seed) if name == "attention" else tokens]

    made = hloom.quantize(module, "int4", **recipe)
    rounding = round_by_gptq(made, [with_inputs(seed) for seed in range(24)])
    converted, nearest = rounding.convert(arrays), made.convert(arrays)
    roundings = [rounder.rounding for rounder in rounding.rounders.values() if isinstance(rounder, GptqRounder)]
    assert all(one is not None and one.errors is not None and one.errors[1] <= one.errors[0] for one in roundings)
    noises = [0.0, 0.0]
    for seed in range(100, 112):
        unseen = with_inputs(seed)
        original = hloom.run(module, unseen).outputs[0]
        for position, given in enumerate((nearest, converted)):
            given = [*given[: len(unseen) - 1], unseen[-1], *given[len(unseen) :]]
            noises[position] += float(np.sum((hloom.run(made.module, given).outputs[0] - original) ** 2))
    assert noises[1] < 1.06**2 * noises[0]
    tables = [weight.number for weight in made.weights if len(weight.uses) > 1]
    assert all((converted[number] == nearest[number]).all() for number in tables)


def test_what_it_refuses():
    module = hloom.parse(ONE_DOT)
    arrays = [normal(64, 16), normal(16, 6)]
    with pytest.raises(HloomError, match="GPTQ rounds to integers, and the format is e4m3"):
        rounded_by_gptq(hloom.quantize(module, "e4m3"), arrays, [arrays])
    with pytest.raises(HloomError, match="GPTQ needs inputs to see activations of"):
        rounded_by_gptq(hloom.quantize(module), arrays, [])
    convolutions, images = lowered("convolutions")
    with pytest.raises(HloomError, match="is read by one dot alone: GPTQ rounds nothing"):
        rounded_by_gptq(hloom.quantize(convolutions), images, [images])


def test_activations_that_are_zero():
    module = hloom.parse(ONE_DOT)
    made = hloom.quantize(module, "int4")
    arrays = [np.zeros((64, 16), np.float32), normal(16, 6)]
    assert (rounded_by_gptq(made, arrays, [arrays])[1] == made.convert(arrays)[1]).all()


def test_more_hessians_than_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules["hloom.compress.quantization.gptq"], "MOST_BYTES", 1000)
    module, arrays = lowered("mlp")
    with pytest.raises(HloomError, match="the Hessians of jit_mlp take more than 1,000 bytes"):
        rounded_by_gptq(hloom.quantize(module), arrays, [arrays])
