"""In how many parts of their contracting dimension dots are computed."""

from __future__ import annotations

import pytest

from hloom.analysis import Device
from hloom.targets.gpu.split_k import split_contractions
from tests.targets.gpu.kernels import A100, H100, entry


def dot(left: str, right: str, result: str) -> tuple[str, ...]:
    return (
        f"x = {left} parameter(0)",
        f"y = {right} parameter(1)",
        f"ROOT d = {result} dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
    )


# As the compilers of H100 and A100 in jax 0.10.2 compute them
@pytest.mark.parametrize(
    ("left", "right", "result", "device", "parts"),
    [
        ("f32[256,512]", "f32[512,1024]", "f32[256,1024]", H100, 4),
        ("f32[256,512]", "f32[512,1024]", "f32[256,1024]", A100, 1),
        ("f32[256,1024]", "f32[1024,512]", "f32[256,512]", H100, 8),
        ("f32[256,1024]", "f32[1024,512]", "f32[256,512]", A100, 4),
        ("f32[4096,4096]", "f32[4096,4096]", "f32[4096,4096]", H100, 1),
        ("s32[256,512]", "s32[512,1024]", "s32[256,1024]", H100, 1),
    ],
)
def test_dots_of_few_tiles_are_split(left: str, right: str, result: str, device: Device, parts: int):
    graph = entry(*dot(left, right, result))
    split_contractions(graph, device)
    made = next(node for node in graph.nodes if node.opcode == "dot")
    assert made.dims == ((parts, *graph.root.dims) if parts > 1 else graph.root.dims)
    assert graph.root.opcode == ("reduce" if parts > 1 else "dot")


def test_parts_of_narrow_floats_are_wide():
    graph = entry(*dot("bf16[256,512]", "bf16[512,1024]", "bf16[256,1024]"))
    split_contractions(graph, H100)
    made = next(node for node in graph.nodes if node.opcode == "dot")
    assert str(made.type) == "f32[4,256,1024]" and graph.root.opcode == "convert"


def test_parts_are_of_equal_size():
    graph = entry(*dot("f32[256,1000]", "f32[1000,128]", "f32[256,128]"))
    split_contractions(graph, H100)
    made = next(node for node in graph.nodes if node.opcode == "dot")
    assert [operand.dims for operand in made.operands] == [(256, 16, 64), (16, 64, 128)]
    assert [operand.operands[0].opcode for operand in made.operands] == ["pad", "pad"]
