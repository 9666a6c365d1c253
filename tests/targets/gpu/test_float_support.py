"""What GPUs compute in bf16."""

from __future__ import annotations

import pytest

from hloom.ir import Apply
from hloom.targets.gpu.float_support import is_supported, read_unrounded
from tests.targets.gpu.kernels import A100, H100, entry

LOW = "bf16[8]"


@pytest.mark.parametrize(
    ("opcode", "on_a100", "on_h100"),
    [("add", False, True), ("maximum", True, True), ("tanh", False, False), ("exponential", True, True)],
)
def test_arithmetic_in_bf16_began_with_hopper(opcode: str, on_a100: bool, on_h100: bool):
    operands = "x, x" if opcode in ("add", "maximum") else "x"
    root = entry(f"x = {LOW} parameter(0)", f"ROOT r = {LOW} {opcode}({operands})").root
    assert isinstance(root, Apply)
    assert (is_supported(root, A100), is_supported(root, H100)) == (on_a100, on_h100)


def test_values_move_in_any_type():
    root = entry("x = f8e4m3fn[8] parameter(0)", "ROOT r = f8e4m3fn[8] reverse(x), dimensions={0}").root
    assert isinstance(root, Apply) and is_supported(root, A100)


def test_what_widens_a_rounded_value_reads_it_unrounded():
    graph = entry(
        "x = f32[8] parameter(0)",
        f"l = {LOW} convert(x)",
        "h = f32[8] convert(l)",
        "ROOT r = f32[8] negate(h)",
    )
    read_unrounded(graph, ())
    assert graph.root.operands[0].name == "x"
