"""Padding that cuDNN does not take."""

from __future__ import annotations

import pytest

from hloom.targets.gpu.convolution_padding import pad_convolutions
from tests.targets.gpu.kernels import entry

IMAGE = "f32[8,16,16,32]"
LABELS = "dim_labels=b01f_01io->b01f"


@pytest.mark.parametrize(
    ("window", "result", "read"),
    [
        ("size=3x3 pad=1_1x1_1", "[8,16,16,32]", "parameter [8,16,16,32]"),
        ("size=3x3 stride=2x2 pad=0_1x0_1", "[8,8,8,32]", "pad [8,17,17,32]"),
        ("size=3x3 pad=2_1x2_1 lhs_dilate=2x2", "[8,32,32,32]", "pad [8,34,34,32]"),
    ],
)
def test_padding_that_differs_between_sides_is_written_out(window: str, result: str, read: str):
    graph = entry(
        f"x = {IMAGE} parameter(0)",
        "k = f32[3,3,32,32] parameter(1)",
        f"ROOT y = f32{result} convolution(x, k), window={{{window}}}, {LABELS}",
    )
    is_gradient = "lhs_dilate" in window
    pad_convolutions(graph)
    data = graph.root.operands[0]
    dims = str(list(data.dims)).replace(" ", "")
    assert f"{data.opcode} {dims}" == ("parameter [8,16,16,32]" if is_gradient else read)


def test_a_gradient_of_the_filter_may_leave_out_what_no_window_covers():
    labels = "dim_labels=f01b_i01o->01bf"
    for high, opcode in ((0, "parameter"), (2, "pad")):
        graph = entry(
            f"x = {IMAGE} parameter(0)",
            "g = f32[8,8,8,32] parameter(1)",
            f"ROOT y = f32[{2 + high},{2 + high},32,32] convolution(x, g), "
            f"window={{size=8x8 pad=1_{high}x1_{high} rhs_dilate=2x2}}, {labels}",
        )
        pad_convolutions(graph)
        assert graph.root.operands[0].opcode == opcode
