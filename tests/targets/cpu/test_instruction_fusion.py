"""Which instructions are fused into loops."""

from __future__ import annotations

import pytest

from tests.targets.cpu.programs import BIG, program, stored


def test_only_the_last_of_elementwise_ops_is_stored():
    lines = (
        f"x = {BIG} parameter(0)",
        f"a = {BIG} add(x, x)",
        f"b = {BIG} multiply(a, a)",
        f"c = {BIG} dot(b, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"ROOT d = {BIG} negate(c)",
    )
    assert stored(program(*lines)) == ["b", "c"]


@pytest.mark.parametrize(("opcode", "kept"), [("tanh", ["a"]), ("negate", []), ("cosine", []), ("tan", []), ("sinh", ["a"])])
def test_only_expensive_ops_are_not_duplicated(opcode: str, kept: list[str]):
    lines = (
        f"x = {BIG} parameter(0)",
        f"a = {BIG} {opcode}(x)",
        f"b = {BIG} add(a, x)",
        f"c = {BIG} subtract(x, a)",
        f"ROOT r = ({BIG}, {BIG}) tuple(b, c)",
    )
    assert stored(program(*lines)) == kept


@pytest.mark.parametrize(("count", "expected"), [(8, []), (9, ["c"])])
def test_a_long_concatenate_is_a_kernel_of_its_own(count: int, expected: list[str]):
    operands = ", ".join(["x"] * count)
    lines = (
        f"x = {BIG} parameter(0)",
        f"c = f32[{256 * count},256] concatenate({operands}), dimensions={{0}}",
        f"ROOT r = f32[{256 * count},256] negate(c)",
    )
    assert stored(program(*lines)) == expected
