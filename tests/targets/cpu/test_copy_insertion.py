"""Which donated parameters are copied."""

from __future__ import annotations

from tests.targets.cpu.programs import BIG, program, schedule


def test_a_donated_weight_is_copied_where_a_user_may_run_later():
    step = (
        f"w = {BIG} parameter(0)",
        f"x = {BIG} parameter(1)",
        f"y = {BIG} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        f"g = {BIG} dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
        f"n = {BIG} subtract(w, g)",
    )
    donated = ", input_output_alias={ {0}: (0, {}, may-alias) }"
    ordered = program(*step, f"ROOT r = ({BIG}) tuple(n)", header=donated)
    assert "copy" not in schedule(ordered)
    free = (
        *step,
        f"b = {BIG} dot(y, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}",
        f"ROOT r = ({BIG}, {BIG}) tuple(n, b)",
    )
    assert "copy" in schedule(program(*free, header=donated))
