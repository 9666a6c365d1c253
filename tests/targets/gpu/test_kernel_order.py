"""The order of kernels."""

from __future__ import annotations

from hloom.targets.gpu.kernel_order import order_kernels
from tests.targets.gpu.kernels import entry


def test_of_several_orders_the_one_of_least_memory_is_taken():
    graph = entry(
        "x = f32[1024,512] parameter(0)",
        "y = f32[512,1024] parameter(1)",
        "small = f32[512,512] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "large = f32[1024,1024] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "middle = f32[1024,512] dot(large, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "ROOT r = f32[1024,512] dot(middle, small), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    order = [node.name for node in order_kernels(graph, ())]
    assert order.index("large") < order.index("middle") < order.index("small"), "else three products live at once"


def test_what_is_fused_comes_before_its_kernel():
    graph = entry("x = f32[8] parameter(0)", "a = f32[8] negate(x)", "ROOT b = f32[8] tanh(a)")
    assert [node.name for node in order_kernels(graph, {graph["a"]})] == ["x", "a", "b"]
