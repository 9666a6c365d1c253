"""All-to-alls of arrays as all-to-alls of their parts."""

from __future__ import annotations

import pytest

from hloom.formats.hlo import parse, to_text
from hloom.targets.cpu.all_to_all_decomposer import decompose_all_to_alls
from tests.targets.cpu.programs import program

GROUPS = "channel_id=1, replica_groups={{0,1}}"


def test_an_array_is_sliced_exchanged_and_put_together():
    module = parse(program("x = f32[8,6] parameter(0)", f"ROOT y = f32[8,6] all-to-all(x), {GROUPS}, dimensions={{1}}"))
    decompose_all_to_alls(module.entry)
    assert [(node.opcode, str(node.type)) for node in module.entry.nodes] == [
        ("parameter", "f32[8,6]"),
        ("slice", "f32[8,3]"),
        ("slice", "f32[8,3]"),
        ("all-to-all", "(f32[8,3], f32[8,3])"),
        ("get-tuple-element", "f32[8,3]"),
        ("get-tuple-element", "f32[8,3]"),
        ("concatenate", "f32[8,6]"),
    ]
    assert "slice={[0:8], [3:6]}" in to_text(module)


@pytest.mark.parametrize(
    "line",
    [
        f"ROOT y = f32[8,5] all-to-all(x), {GROUPS}, dimensions={{1}}",
        f"ROOT y = (f32[8,5], f32[8,5]) all-to-all(x, x), {GROUPS}",
    ],
    ids=["uneven", "tuple"],
)
def test_others_stay(line: str):
    module = parse(program("x = f32[8,5] parameter(0)", line))
    decompose_all_to_alls(module.entry)
    assert [node.opcode for node in module.entry.nodes] == ["parameter", "all-to-all"]
