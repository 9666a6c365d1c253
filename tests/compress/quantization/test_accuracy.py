"""How far a quantised program is from its original."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hloom
from hloom.compress.quantization import Noise, accuracy, inputs_by_any_name, random_arrays, report
from hloom.text import HloomError
from tests.compress.quantization.programs import lowered


def noise(one: object, other: object) -> Noise:
    made = Noise()
    made.add(np.asarray(one), np.asarray(other))
    return made


def test_noise():
    assert (noise([3.0, 4.0], [3.0, 4.0]).error, noise([3.0, 4.0], [3.0, 4.0]).snr) == (0.0, math.inf)
    assert noise([3.0, 4.0], [3.0, 4.5]).error == pytest.approx(0.1)
    assert noise([3.0, 4.0], [3.0, 4.5]).snr == pytest.approx(20)
    assert (noise([0.0], [1.0]).error, noise([0.0], [1.0]).snr) == (math.inf, -math.inf)
    assert noise([math.nan, math.inf], [math.nan, math.inf]).error == 0
    assert noise([1.0, math.nan], [1.0, 2.0]).error == math.inf
    assert noise([], []).error == 0
    with pytest.raises(HloomError, match=r"a value of shape \(1,\) cannot be compared with one of \(2,\)"):
        noise([1.0], [1.0, 2.0])


def test_a_report_of_a_loop():
    module, arrays = lowered("language model")
    made = hloom.quantize(module)
    result = report(made, arrays)
    assert len(result.products) == 7 and result.outputs is not None
    for product in result.products:
        assert product.noise is not None and 0 < product.noise.error < 0.2
        assert product.seconds[0] > 0 and product.flops[1] > product.flops[0] > 0
    expected = hloom.run(module, made.dequantized(arrays)).outputs[0]
    original = hloom.run(module, arrays).outputs[0]
    error = np.linalg.norm(expected - original) / np.linalg.norm(original)
    assert result.outputs[0].error == pytest.approx(error, rel=1e-3)
    before, after = result.weight_bytes
    assert before == sum(weight.type.byte_count for weight in made.weights)
    assert after == sum(
        weight.type.element_count + 4 * scale.size
        for weight, scale in zip(
            made.weights, [made.quantized(w, arrays[w.number]).scale for w in made.weights], strict=True
        )
    )


def test_packed_weights_take_half_the_bytes():
    made = hloom.quantize(lowered("mlp")[0], "int4", per="tensor")
    assert [weight.bytes_after for weight in made.weights] == [7 * 20 // 2 + 4, 12 * 20 // 2 + 4]


def test_without_arrays_nothing_is_measured():
    result = report(hloom.quantize(lowered("attention")[0]))
    assert result.outputs is None and all(product.noise is None for product in result.products)
    record = result.to_json()
    assert record["outputs"] is None and "snr" not in record["products"][0]


def test_more_products_than_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accuracy, "MOST_BYTES", 100)
    module, arrays = lowered("mlp")
    made = hloom.quantize(module)
    with pytest.raises(HloomError, match="the products of jit_mlp are more than 100 bytes"):
        report(made, arrays)
    assert report(made, arrays, products=False).outputs is not None


def test_random_arrays_keep_the_size_of_sums():
    made = hloom.quantize(lowered("mlp")[0])
    outputs = hloom.run(made.original, random_arrays(made, 1)).outputs
    assert 0.3 < np.std(outputs[0]) < 3


def test_inputs_by_name():
    module, arrays = lowered("mlp")
    named = {"x": arrays[3], "params.up": arrays[2], "params.down": arrays[1], "bias": arrays[0]}
    assert all(one is other for one, other in zip(inputs_by_any_name(module, named), arrays, strict=True))
    with pytest.raises(HloomError, match=r"no input is given for params__bias__.1, params__down__.1, params__up__.1"):
        inputs_by_any_name(module, {"x": arrays[3]})
    with pytest.raises(HloomError, match="the program has no parameter 'y'"):
        inputs_by_any_name(module, {"y": arrays[3]})
