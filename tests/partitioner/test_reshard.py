"""The collectives that the model predicts for reshards, beside those that XLA's partitioner emits."""

from __future__ import annotations

import random

import pytest

from hloom.partitioner import reshard_collectives
from hloom.sharding import Mesh, parse_spec
from tests.partitioner.micro_modules import MESHES, MicroModule, array_type, every_spec

CASES = 60
"""How many reshards are drawn on each mesh."""


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("dims", [(64,), (64, 32), (64, 32, 16), (16, 32, 8, 16)], ids=array_type)
def test_reshards_send_what_is_predicted(mesh: Mesh, dims: tuple[int, ...]):
    specs = list(every_spec(mesh, len(dims)))
    pairs = [(source, target) for source in specs for target in specs if source != target]
    pairs = random.Random(5).sample(pairs, min(CASES, len(pairs)))
    module = MicroModule(mesh)
    for source, target in pairs:
        module.add((array_type(dims), target), [(array_type(dims), source)], "negate({0})")
    for (source, target), sent in zip(pairs, module.bytes_sent(), strict=True):
        expected = sum(step.elements_sent for step in reshard_collectives(dims, source, target, mesh)) * 4
        assert expected == pytest.approx(sent), f"{source} -> {target}"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("[x,-]", "[-,x]", [("all-to-all", 2, 2048)]),
        ("[x,y]", "[y,x]", [("all-to-all", 8, 512), ("collective-permute", 2, 512)]),
        ("[x.y,-]", "[y.x,-]", [("collective-permute", 2, 512)]),
        ("[x.y,-]", "[x,y]", [("all-to-all", 4, 512)]),
        ("[x,-]", "[x.y,-]", []),
        ("[x.y,-]", "[x,-]", [("all-gather", 4, 2048)]),
    ],
)
def test_reshards(source: str, target: str, expected: list[tuple[str, int, int]]):
    collectives = reshard_collectives((64, 64), parse_spec(source), parse_spec(target), Mesh.parse("x=2,y=4"))
    assert [(each.opcode, each.group_size, each.elements) for each in collectives] == expected
