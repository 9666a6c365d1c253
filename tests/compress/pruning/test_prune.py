"""Pruned weights: which elements are zero, and that programs with masks compute what zeros make of the original.

Covers `sparsity_report.py`, `weight_arrays.py`.
"""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom import autodiff
from hloom.compress.pruning import report
from hloom.text import HloomError
from tests.compress.quantization.programs import ARGUMENTS, lowered, normal

LAYER = """ENTRY layer {
  x = f32[5,8] parameter(0)
  h = f32[5,8] tanh(x)
  w = f32[8,6] parameter(1), metadata={op_name="params['w']"}
  ROOT y = f32[5,6] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def layer() -> hloom.Module:
    return hloom.parse(LAYER)


def test_an_empty_program():
    with pytest.raises(HloomError, match="e has no weight to prune"):
        hloom.prune(hloom.parse("ENTRY e { ROOT t = () tuple() }"), [])


def test_a_fragment():
    with pytest.raises(HloomError, match="is a fragment, and cannot be pruned"):
        hloom.prune(hloom.parse("ENTRY e { ROOT y = f32[2] negate(x) }"), [])


def test_no_weights():
    module = hloom.parse("ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] negate(x) }")
    with pytest.raises(HloomError, match="has no weight to prune"):
        hloom.prune(module, [np.zeros(2, np.float32)])


def test_weights_that_have_no_groups():
    """A pattern that fits none is refused for its reason: without it there are weights."""
    module = hloom.parse(LAYER.replace("8", "10"))
    given = {"w": normal(10, 6)}
    assert hloom.prune(module, given).weights
    message = "no weight of .* can be pruned to 2:4; w: a product sums over 10 of its elements, which are not groups of 4"
    with pytest.raises(HloomError, match=message):
        hloom.prune(module, given, pattern="2:4")


def test_constants_without_values():
    text = LAYER.replace("h = f32[5,8] tanh(x)", "c = f32[5,8] constant({...})\n  h = f32[5,8] add(x, c)")
    with pytest.raises(HloomError, match="c in layer is an elided constant"):
        hloom.prune(hloom.parse(text), {"w": normal(8, 6)})


@pytest.mark.parametrize("size", [0, 1])
def test_small_weights(size: int):
    text = LAYER.replace("8", str(size))
    made = hloom.prune(hloom.parse(text), {"w": normal(size, 6)}, 0.5)
    assert made.weights[0].mask.shape == (size, 6) and made.weights[0].kept == 3 * size


def test_hostile_sizes():
    """Arrays come first: a size that no array has is refused before anything is made of it."""
    module = hloom.parse(LAYER.replace("8", "1099511627776"))
    with pytest.raises(HloomError, match=r"w is float32.8,6., the program takes f32.1099511627776,6."):
        hloom.prune(module, {"w": normal(8, 6)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sparsity": -0.1}, "-0.1 is not a valid sparsity"),
        ({"sparsity": 1.5}, "1.5 is not a valid sparsity"),
        ({"sparsity": float("nan")}, "nan is not a valid sparsity"),
        ({"sparsity": 0.3, "pattern": "2:4"}, "2:4 removes 0.5 of the elements, not 0.3"),
        ({"pattern": "5:4"}, "5 of 4 elements cannot be kept"),
        ({"pattern": "0x4"}, "its numbers are from 1 to 1,048,576"),
        ({"pattern": "9999999x4"}, "its numbers are from 1 to 1,048,576"),
        ({"pattern": "two"}, "'two' is not a pattern"),
        ({"pattern": "2:4", "within": "model"}, "2:4 compares the 4 elements of a group, not those of a model"),
        ({"pattern": "4x4", "within": "output"}, "blocks are of several outputs"),
        ({"pattern": "1:3"}, "a product sums over 8 of its elements, which are not groups of 3"),
        ({"within": "row"}, "scores are not compared within 'row'"),
        ({"method": "taylor"}, "weights are not scored by 'taylor'"),
        ({"method": "wanda"}, "Wanda needs inputs to see activations of"),
        ({"calibration": [[]]}, "inputs are measured for Wanda only"),
        ({"opcodes": ["add"]}, "weights of add cannot be pruned"),
        ({"scope": "("}, "is not a regular expression"),
        ({"only": ["v"]}, "the program has no parameter 'v'"),
        ({"least": 49}, "w: it has 48 elements, fewer than 49"),
    ],
)
def test_bad_options(options: dict, message: str):
    with pytest.raises(HloomError, match=message):
        hloom.prune(layer(), {"w": normal(8, 6)}, **options)


def test_near_names():
    with pytest.raises(HloomError) as error:
        hloom.prune(layer(), {"w": normal(8, 6)}, only=["params.v"])
    assert "params.w" in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "there is no array for w"),
        ({"w": normal(8, 6), "params.w": normal(8, 6)}, "'w' and 'params.w' both name the parameter w"),
        ({"w": normal(6, 8)}, r"w is float32.6,8., the program takes f32.8,6."),
        ({"w": normal(8, 6).astype(np.float64)}, r"w is float64.8,6."),
        ({"w": np.full((8, 6), np.nan, np.float32)}, "48 of its 48 values are NaN or infinite"),
        ([normal(8, 6)], "the program takes 2 arrays, 1 are given"),
    ],
)
def test_bad_arrays(arrays, message: str):
    with pytest.raises(HloomError, match=message):
        hloom.prune(layer(), arrays)


@pytest.mark.parametrize(("sparsity", "kept"), [(0, 48), (0.25, 36), (0.5, 24), (1, 0)])
def test_the_smallest_magnitudes_go(sparsity: float, kept: int):
    weight = normal(8, 6)
    made = hloom.prune(layer(), {"w": weight}, sparsity)
    mask = made.weights[0].mask
    assert made.weights[0].kept == kept
    if 0 < kept < 48:
        assert np.abs(weight[mask]).min() >= np.abs(weight[~mask]).max()
    assert (made.convert({"w": weight})["w"] == weight * mask).all()


def test_equal_magnitudes():
    made = hloom.prune(layer(), {"w": np.ones((8, 6), np.float32)}, 0.25)
    assert made.weights[0].mask.reshape(-1).tolist() == [False] * 12 + [True] * 36


def test_within_an_output_and_the_model():
    text = (
        LAYER.replace("ROOT y", "y").rstrip("}")
        + """  v = f32[6,4] parameter(2), metadata={op_name="params['v']"}
      ROOT z = f32[5,4] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    )
    arrays = {"w": normal(8, 6), "v": normal(6, 4) * 100}
    outputs = hloom.prune(hloom.parse(text), arrays, 0.5, within="output")
    assert [weight.mask.sum(0).tolist() for weight in outputs.weights] == [[4] * 6, [3] * 4]
    model = hloom.prune(hloom.parse(text), arrays, 0.5, within="model")
    assert sum(weight.kept for weight in model.weights) == 36 and model.weights[1].kept > 20


def test_two_of_four():
    weight = normal(8, 6)
    made = hloom.prune(layer(), {"w": weight}, pattern="2:4")
    groups = made.weights[0].mask.reshape(2, 4, 6)
    assert (groups.sum(1) == 2).all()
    kept = np.sort(np.abs(weight).reshape(2, 4, 6), axis=1)[:, 2:].sum(1)
    assert np.allclose((np.abs(weight).reshape(2, 4, 6) * groups).sum(1), kept)


def test_blocks_at_the_edge_are_smaller():
    weight = normal(8, 6)
    made = hloom.prune(layer(), {"w": weight}, 0.5, pattern="4x4")
    blocks = [weight[:4, :4], weight[:4, 4:], weight[4:, :4], weight[4:, 4:]]
    worst = np.argsort([np.sqrt(np.mean(block**2)) for block in blocks])[:2]
    expected = np.ones((8, 6), bool)
    for number in worst:
        expected[4 * (number // 2) : 4 * (number // 2) + 4, slice(0, 4) if number % 2 == 0 else slice(4, 6)] = False
    assert (made.weights[0].mask == expected).all()


def test_layers_of_a_stack_are_weights_of_their_own():
    module, arrays = lowered("language model")
    made = hloom.prune(module, arrays, 0.5)
    stacked = [weight for weight in made.weights if weight.type.dims[0] == 3]
    assert len(stacked) == 6
    for weight in stacked:
        assert (weight.mask.reshape(3, -1).sum(1) * 2 == weight.mask[0].size).all()


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("options", [{}, {"pattern": "1:2"}, {"pattern": "3x3"}, {"within": "model"}], ids=str)
def test_numbers_through_xla(name: str, options: dict):
    """Masks as inputs, and zeros as weights: the same outputs, whatever the weights under the masks are."""
    module, arrays = lowered(name)
    plain = hloom.prune(module, arrays, **options)
    masked = hloom.prune(module, arrays, **options, masks=True)
    assert plain.module is module
    outputs = hloom.run(module, plain.convert(arrays)).outputs
    inputs = masked.convert(arrays)
    for weight in masked.weights:
        inputs[weight.number] = np.asarray(arrays[weight.number])
    assert not hloom.compare(hloom.run(masked.module, inputs).outputs, outputs, rtol=1e-5)
    again = hloom.parse(hloom.print(masked.module), strict=True)
    assert len(again.entry.parameters) == len(arrays) + len(masked.weights)


def test_masks_by_name():
    made = hloom.prune(layer(), {"w": normal(8, 6)}, masks=True)
    converted = made.convert({"params.w": normal(8, 6), "other": 1})
    assert [*converted] == ["params.w", "other", "params.w.mask"]
    assert converted["params.w.mask"].dtype == bool and made.masks()["w"] is converted["params.w.mask"]


@pytest.mark.parametrize("name", ["mlp", "attention", "convolutions"])
def test_derivatives_are_zero_where_elements_are_removed(name: str):
    """Steps down the gradient leave the weights pruned."""
    module, arrays = lowered(name)
    made = hloom.prune(module, arrays, 0.6, masks=True)
    inputs = made.convert(arrays)
    cotangents = [np.ones_like(output) for output in hloom.run(made.module, inputs).outputs]
    wrt = [weight.number for weight in made.weights]
    derivatives = hloom.run(autodiff.vjp(made.module, wrt), [*inputs, *cotangents]).outputs
    expected = hloom.run(autodiff.vjp(module, wrt), [*inputs[: len(arrays)], *cotangents]).outputs
    for weight, derivative, unmasked in zip(made.weights, derivatives, expected, strict=True):
        assert not derivative[~weight.mask].any() and unmasked[~weight.mask].any()
        assert np.allclose(derivative, np.where(weight.mask, unmasked, 0), rtol=1e-3, atol=1e-5)


def test_a_plan():
    module, arrays = lowered("language model")
    made = hloom.prune(module, arrays, masks=True)
    planned = hloom.plan(made.module, mesh="data=2,model=2")
    assert "pred[3,16,24]" in hloom.print(planned.annotate())


def test_a_report():
    module, arrays = lowered("mlp")
    made = hloom.prune(module, arrays, 0.5)
    result = report(made, arrays)
    assert [round(weight.sparsity, 2) for weight in made.weights] == [0.5, 0.5]
    assert result.weight_bytes == (4 * (240 + 140), 4 * 190 + 380 // 8 + 1)
    assert all(result.kept_flops[product.name] * 2 == product.flops[0] for product in result.products)
    assert result.outputs is not None and 0 < result.outputs[0].error < 0.6
    assert all(product.noise is not None and product.noise.error > 0 for product in result.products)
    half = report(hloom.prune(module, arrays, pattern="2:4", only=["params.up"]))
    assert half.weight_bytes == (960, 480 + 120 * 2 // 8)
    assert half.to_json()["pattern"] == "2:4" and half.to_json()["outputs"] is None
