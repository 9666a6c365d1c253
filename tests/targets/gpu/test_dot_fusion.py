"""What the kernels of dots compute beside them."""

from __future__ import annotations

from hloom.targets.gpu.dot_fusion import fuse_dots
from tests.targets.gpu.kernels import entry

BIG = "f32[256,256]"
DIMS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def fused(*lines: str) -> tuple[list[str], str]:
    """The opcodes that the kernel of the only dot computes, and its root's."""
    kernels = fuse_dots(entry(*lines))
    (root,) = set(kernels.values())
    return sorted(node.opcode for node in kernels), root.opcode


def test_what_reads_no_more_than_it_yields_is_computed_again():
    lines = (
        f"x = {BIG} parameter(0)",
        f"t = {BIG} tanh(x)",
        f"d = {BIG} dot(t, x), {DIMS}",
        f"ROOT r = ({BIG}, {BIG}) tuple(d, t)",
    )
    assert fused(*lines) == (["dot", "tanh"], "dot")


def test_what_reads_two_arrays_is_not():
    lines = (
        f"x = {BIG} parameter(0)",
        f"y = {BIG} parameter(1)",
        f"a = {BIG} add(x, y)",
        f"b = {BIG} negate(a)",
        f"ROOT d = {BIG} dot(b, x), {DIMS}",
    )
    assert fused(*lines) == (["dot", "negate"], "dot")


def test_a_product_is_scaled_and_added_to_a_parameter():
    lines = (
        f"x = {BIG} parameter(0)",
        f"w = {BIG} parameter(1)",
        "rate = f32[] constant(0.1)",
        f"d = {BIG} dot(x, w), {DIMS}",
        f"b = {BIG} broadcast(rate), dimensions={{}}",
        f"m = {BIG} multiply(d, b)",
        f"ROOT s = {BIG} subtract(w, m)",
    )
    assert fused(*lines) == (["broadcast", "dot", "multiply", "subtract"], "subtract")


def test_a_product_that_is_read_twice_is_stored():
    lines = (
        f"x = {BIG} parameter(0)",
        f"d = {BIG} dot(x, x), {DIMS}",
        f"t = {BIG} tanh(d)",
        f"n = {BIG} negate(d)",
        f"ROOT r = ({BIG}, {BIG}) tuple(t, n)",
    )
    assert fused(*lines) == (["dot"], "dot")


def test_what_is_in_one_kernel_is_not_in_the_next_one():
    graph = entry(
        f"x = {BIG} parameter(0)",
        f"d = {BIG} dot(x, x), {DIMS}",
        f"t = {BIG} tanh(d)",
        f"e = {BIG} dot(t, x), {DIMS}",
        f"ROOT r = ({BIG}, {BIG}) tuple(e, t)",
    )
    kernels = fuse_dots(graph)
    assert sorted((node.opcode, root.opcode) for node, root in kernels.items()) == [
        ("dot", "dot"),
        ("dot", "tanh"),
        ("tanh", "tanh"),
    ]
