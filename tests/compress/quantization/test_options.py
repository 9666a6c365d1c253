"""The options of a quantisation: their defaults stand once, and calls give them as keywords."""

from __future__ import annotations

from inspect import signature

import pytest

import hloom
from hloom.compress.quantization import KeywordsOf, QuantizationOptions, quantize_with
from hloom.text import HloomError

LAYER = hloom.parse("""ENTRY layer {
  x = f32[2,64] parameter(0)
  h = f32[2,64] tanh(x)
  w = f32[64,8] parameter(1)
  ROOT y = f32[2,8] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}""")


def test_the_signature_is_that_of_the_options():
    module, *rest = signature(hloom.quantize).parameters.values()
    assert module.name == "module"
    assert rest == list(signature(QuantizationOptions).parameters.values())


def test_keywords_make_the_options():
    made = quantize_with(LAYER, QuantizationOptions("int4", group=8))
    named = hloom.quantize(module=LAYER, weights="int4", group=8)  # pyright: ignore[reportCallIssue]  it is positional
    for quantized in (hloom.quantize(LAYER, "int4", group=8), named):
        assert hloom.print(quantized.module) == hloom.print(made.module)


def test_arguments_that_are_none():
    with pytest.raises(TypeError, match=r"^quantize\(\) got an unexpected keyword argument 'bits'$"):
        hloom.quantize(LAYER, bits=4)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match=r"^quantize\(\) missing a required argument: 'module'$"):
        hloom.quantize()  # pyright: ignore[reportCallIssue]


def test_options_are_checked_when_they_are_made():
    with pytest.raises(HloomError, match=r"^0 is not a valid percentile"):
        QuantizationOptions(percentile=0)
    with pytest.raises(HloomError, match=r"^no weights are quantised"):
        QuantizationOptions(None)


def test_a_function_of_options_and_of_arrays():
    @KeywordsOf(QuantizationOptions)
    def described(module: str, arrays: int, options: QuantizationOptions) -> str:
        """What it got."""
        return f"{module} {arrays} {options.weights} {options.least}"

    assert described("m", 1, least=3) == "m 1 int8 3"
    assert described.__doc__ == "What it got."
