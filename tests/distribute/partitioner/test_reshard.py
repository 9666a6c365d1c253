"""The collectives that the model predicts for reshards, beside those that XLA's partitioner emits.

Covers `trace.py`.
"""

from __future__ import annotations

import random

import pytest

from hloom.distribute.partitioner import reshard_collectives
from hloom.sharding import Mesh, Spec, parse_spec
from tests.distribute.partitioner.micro_modules import MESHES, MicroModule, array_type, every_spec
from tests.helpers.properties import is_long

SHAPES = ((64,), (64, 32), (64, 32, 16), (16, 32, 8, 16))
CASES = 30 if is_long() else 12
"""How many reshards of each shape are drawn on each mesh."""


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_reshards_send_what_is_predicted(mesh: Mesh):
    choose, module = random.Random(5), MicroModule(mesh)
    cases: list[tuple[tuple[int, ...], Spec, Spec]] = []
    for dims in SHAPES:
        specs = list(every_spec(mesh, len(dims)))
        pairs = [(source, target) for source in specs for target in specs if source != target]
        cases += [(dims, source, target) for source, target in choose.sample(pairs, min(CASES, len(pairs)))]
    for dims, source, target in cases:
        module.add((array_type(dims), target), [(array_type(dims), source)], "negate({0})")
    for (dims, source, target), sent in zip(cases, module.bytes_sent(), strict=True):
        collectives = reshard_collectives(dims, source, target, mesh)
        expected = sum(collective.elements_sent for collective in collectives) * 4
        assert expected == pytest.approx(sent), f"{array_type(dims)} {source} -> {target}"


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
    assert [(collective.opcode, collective.group_size, collective.elements) for collective in collectives] == expected
