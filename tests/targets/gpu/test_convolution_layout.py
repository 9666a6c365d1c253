"""The layouts that convolutions take."""

from __future__ import annotations

import pytest

from hloom.analysis import Device
from hloom.ir import Apply
from hloom.targets.gpu.convolution_layout import convolution_layout
from tests.targets.gpu.kernels import A100, H100, entry

WINDOW = "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"
IMAGE = "[8,16,16,32]"


def layout(image: str, lines: list[str], device: Device) -> list[str]:
    root = entry(f"x = {image} parameter(0)", *lines).root
    assert isinstance(root, Apply)
    return list(convolution_layout(root, device))


@pytest.mark.parametrize(
    ("element", "device", "expected"),
    [
        ("f32", H100, ["b01f", "o01i", "b01f"]),
        ("f32", A100, ["bf01", "oi01", "bf01"]),
        ("bf16", A100, ["b01f", "o01i", "b01f"]),
        ("f64", H100, ["bf01", "oi01", "bf01"]),
    ],
)
def test_features_are_last_where_tensor_cores_take_them(element: str, device: Device, expected: list[str]):
    lines = [f"k = {element}[3,3,32,32] parameter(1)", f"ROOT y = {element}{IMAGE} convolution(x, k), {WINDOW}"]
    assert layout(f"{element}{IMAGE}", lines, device) == expected


def test_a_gradient_of_the_input_reads_the_filter_as_it_was():
    lines = [
        "k = f32[3,3,32,32] parameter(1)",
        "v = f32[3,3,32,32] reverse(k), dimensions={0,1}",
        f"ROOT y = f32{IMAGE} convolution(x, v), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01oi->b01f",
    ]
    root = entry(f"x = f32{IMAGE} parameter(0)", *lines).root
    assert isinstance(root, Apply)
    assert list(convolution_layout(root, H100)) == ["b01f", "i01o", "b01f"]
    assert root.operands[1].name == "k"


def test_a_gradient_of_the_filter_is_a_filter():
    window = "window={size=16x16 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"
    lines = [f"g = f32{IMAGE} parameter(1)", f"ROOT y = f32[3,3,32,32] convolution(x, g), {window}"]
    assert layout(f"f32{IMAGE}", lines, H100) == ["f01b", "i01o", "f01b"]
