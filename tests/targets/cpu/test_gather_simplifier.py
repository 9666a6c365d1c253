"""Gathers and scatters in simple form."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse
from hloom.targets.cpu.gather_simplifier import simplify_gathers
from tests.targets.cpu.programs import program

GATHER = "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,32}"
SCATTER = "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"


@pytest.mark.parametrize(
    ("lines", "opcode", "expected"),
    [
        ((f"ROOT g = f32[64,32] gather(x, i), {GATHER}",), "gather", "f32[64,1,32]"),
        (
            (f"g = f32[64,32] gather(x, i), {GATHER}", f"ROOT s = f32[90,32] scatter(x, i, g), {SCATTER}, to_apply=add"),
            "scatter",
            "f32[64,1,32]",
        ),
        (
            (f"ROOT g = f32[32,64] gather(x, i), {GATHER.replace('offset_dims={1}', 'offset_dims={0}')}",),
            "gather",
            "f32[32,64]",
        ),
    ],
    ids=["rows", "rows to add", "columns"],
)
def test_slices_keep_the_rank_of_the_operand(lines: tuple[str, ...], opcode: str, expected: str):
    module = parse(program("x = f32[90,32] parameter(0)", "i = s32[64,1] parameter(1)", *lines))
    module.index_users()
    simplify_gathers(module.entry)
    node = next(node for node in module.entry.nodes if node.opcode == opcode)
    assert str((node.operands[2] if opcode == "scatter" else node).type).partition("{")[0] == expected
