"""Sorts that also sort positions."""

from __future__ import annotations

from hloom.targets.gpu.sort_expander import expand_sorts
from tests.targets.gpu.kernels import entry


def test_a_stable_sort_has_positions_to_compare():
    graph = entry("x = f32[64] parameter(0)", "ROOT s = f32[64] sort(x), dimensions={0}, is_stable=true, to_apply=add")
    expand_sorts(graph)
    made = next(node for node in graph.nodes if node.opcode == "sort")
    assert str(made.type) == "(f32[64], s32[64])" and made.operands[1].opcode == "iota"
    assert graph.root.opcode == "get-tuple-element"


def test_other_sorts_stay_as_they_are():
    graph = entry("x = f32[64] parameter(0)", "ROOT s = f32[64] sort(x), dimensions={0}, to_apply=add")
    expand_sorts(graph)
    assert [node.opcode for node in graph.nodes] == ["parameter", "sort"]


def test_the_largest_of_few_or_many_are_found_by_sorting():
    graph = entry("x = f32[8,512] parameter(0)", "ROOT t = (f32[8,64], s32[8,64]) topk(x), k=64, largest=true")
    expand_sorts(graph)
    assert [operand.opcode for operand in graph.root.operands] == ["slice", "slice"]
    made = next(node for node in graph.nodes if node.opcode == "sort")
    assert str(made.type) == "(f32[8,512], s32[8,512])"


def test_a_few_of_many_are_selected_by_a_kernel():
    graph = entry("x = f32[8,2048] parameter(0)", "ROOT t = (f32[8,4], s32[8,4]) topk(x), k=4, largest=true")
    expand_sorts(graph)
    assert graph.root.opcode == "topk"
